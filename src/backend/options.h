// What a caller can ask of the backend.
#pragma once

#include <cstdint>
#include <map>
#include <memory>

#include "arch/arch.h"
#include "isa/program.h"

namespace opentrn::backend {

// The window of `look_ahead` that programs are timed with. AWS's compiler orders the instructions of each
// engine itself unless told not to (its flag enable-instruction-scheduling=false, which
// awslabs/nki-autotune's fastest kernels need); how far it looks is not published. Over nki-library's 97
// published attention figures the median error is 22% with 0, 7% with 16, 4% with 64 or 128, 5% with 256; the
// same window does well on NKIBench.
inline constexpr int kCompilerLookAhead = 128;

// The same for NKI 0.1 kernels, which go through neuronx-cc. Most published figures are the same to 1% with
// 128 and 1024; with fewer the two Stable Diffusion attentions of autocomp, whose scaling of Q waits for
// loads, cannot begin with their second row.
inline constexpr int kNeuronxCcLookAhead = 1024;

constexpr int usual_look_ahead(bool neuronx_cc) {
  return neuronx_cc ? kNeuronxCcLookAhead : kCompilerLookAhead;
}

struct Options {
  arch::Generation generation = arch::Generation::kV3;
  // Sizes, clocks and costs; null means the default tables. Must outlive the call.
  const arch::Tables* tables = nullptr;

  // How far ahead of the oldest waiting instruction a compute engine may pick its next one. 0 keeps
  // each engine in program order. DMA triggers are always issued in the order in which they are
  // expected to become ready.
  int look_ahead = 0;

  // Do what neuronx-cc does with the kernels of NKI 0.1, which the compiler of later versions leaves to the
  // author: compute equal results once (passes/sharing.h), merge small instructions of a loop
  // (passes/merging.h), spill what does not fit (passes/residency.h), load first what is needed first
  // (order.h).
  bool neuronx_cc = false;

  // Whether NeuronCore-v3 and later generate descriptors while they run (DGE). Without it, transfers whose
  // addresses are known are prepared before the launch, as neuronx-cc's --disable-dge has it.
  bool dge = true;

  // Our choices, not limits of the hardware: they keep rows of different tensors off one DMA element.
  int64_t sbuf_alignment_bytes = 32;
  int64_t hbm_alignment_bytes = 64;
};

}  // namespace opentrn::backend
