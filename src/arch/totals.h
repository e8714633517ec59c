// Totals of a system, added up from its parts; never stored.
//
// Peak rates come from the chip's data-sheet figure. AWS's per-core figures (array x clock) add up to
// less: 8 x 79 = 632 against 667 TFLOPS BF16 for Trainium2. Both are told apart here: peak_tflops() is
// the data sheet, tensor_tflops() is the array times the clock, which measurements follow.
#pragma once

#include <map>
#include <string>

#include "arch/tables.h"

namespace opentrn::arch {

struct Totals {
  int chips = 0;
  int cores = 0;
  double memory_gib = 0;
  double memory_bandwidth_gb_s = 0;
  std::map<std::string, double> peak_tflops;
};

Totals totals(const Tables& tables, const Instance& instance);
Totals totals(const Tables& tables, const UltraServer& ultraserver);

// The Tensor array at its clock, in TFLOPS: rows x columns x 2 x clock for one-pass formats.
double tensor_tflops(const NeuronCore& core);

}  // namespace opentrn::arch
