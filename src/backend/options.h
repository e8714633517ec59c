// What a caller can ask of the backend.
#pragma once

#include <cstdint>
#include <map>
#include <memory>

#include "arch/arch.h"
#include "isa/program.h"

namespace opentrn::backend {

struct Options {
  arch::Generation generation = arch::Generation::kV3;
  // Sizes, clocks and costs; null means the default tables. Must outlive the call.
  const arch::Tables* tables = nullptr;

  // How far ahead of the oldest waiting instruction a compute engine may pick its next one. 0 keeps
  // each engine in program order. DMA triggers are always issued in the order in which they are
  // expected to become ready.
  int look_ahead = 0;

  // Our choices, not limits of the hardware: they keep rows of different tensors off one DMA element.
  int64_t sbuf_alignment_bytes = 32;
  int64_t hbm_alignment_bytes = 64;
};

}  // namespace opentrn::backend
