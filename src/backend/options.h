// What a caller can ask of the backend.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "arch/arch.h"
#include "isa/collective_copies.h"
#include "isa/program.h"

namespace opentrn::backend {

// The window of `look_ahead` that programs are timed with. AWS's compilers order the instructions of each
// engine themselves unless told not to (the flag enable-instruction-scheduling=false, which
// awslabs/nki-autotune's fastest kernels need); how far they look is not published: compiler_model.toml says
// what it was fitted to. Null: the default tables.
int usual_look_ahead(bool neuronx_cc, const arch::Tables* tables = nullptr);

struct Options {
  Generation generation = Generation::kV3;
  // Sizes, clocks and costs; null means the default tables. Must outlive the call.
  const arch::Tables* tables = nullptr;

  // How far ahead of the oldest waiting instruction a compute engine may pick its next one. 0 keeps
  // each engine in program order. DMA triggers are always issued in the order in which they are
  // expected to become ready.
  int look_ahead = 0;

  // Do what neuronx-cc does with the kernels of NKI 0.1, which the compiler of later versions leaves to the
  // author: compute equal results once (passes/common_subexpressions.h), vectorise small instructions of a
  // loop (passes/vectorise_loops.h), spill what does not fit (passes/residency.h), load first what is needed
  // first (order.h).
  bool neuronx_cc = false;
  // With neuronx_cc: whether it rewrites instructions (the first two), which a kernel can switch off with
  // nki.compiler.skip_middle_end_transformations.
  bool middle_end = true;

  // The compiler moves rows to the partitions that a matrix product needs, as neuronx-cc does for kernels of
  // NKI 0.1 (mamba of AWS's tutorials only fits when rows that products broadcast lie anywhere), so where
  // tensors lie does not follow from the products that read them.
  bool moves_rows = false;

  // Whether NeuronCore-v3 and later generate descriptors while they run (DGE). Without it, transfers whose
  // addresses are known are prepared before the launch, as neuronx-cc's --disable-dge has it.
  bool dge = true;

  // Of a rank of several: the copies that belong to collectives, in the order of the program. What waits for
  // them keeps this order (collective_order.h).
  std::vector<isa::CollectiveCopies> collectives = {};

  // Our choices, not limits of the hardware: they keep rows of different tensors off one DMA element.
  int64_t sbuf_alignment_bytes = 32;
  int64_t hbm_alignment_bytes = 64;
};

// Those given, or the default ones.
const arch::Tables& tables_of(const arch::Tables* tables);

// A number of the table `compiler_model.neuronx_cc`, such as "merged_columns_max".
int compiler_number(const Options& options, std::string_view name);

}  // namespace opentrn::backend
