// What is to be trained, and the layouts it can be trained in.
#pragma once

#include <cstdint>
#include <string>

#include "planner/model.h"

namespace opentrn::planner {

enum class Precision : uint8_t { kBf16, kFp8, kFp32 };  // of the matrix products

struct Job {
  Model model;
  double seq = 0;           // tokens in a sequence
  double global_batch = 0;  // sequences in a step
  Precision precision = Precision::kBf16;
  double tokens = 0;  // of the whole training; 0: not stated
};

// Which blocks run forward again in the backward pass, by the names of the programs that have them
// (recompute.h).
enum class Recompute : uint8_t {
  kNone,
  kSelective,  // Megatron's: attention's inside; torchtitan's: every second product
  kMinimalWithContext,
  kMinimal,
  kSaveDotWithContextExceptMlp,
  kSaveDotExceptMlpwi,
  kSaveDotExceptMlp,
  kSaveQkvProj,
  kSaveOutProj,
  kQkvProjOffloaded,
  kMinimalOffloaded,
  kFull
};

// In which order a pipeline's ranks do their passes (schedule.h). k1F1B with chunks is the interleaved one.
enum class Schedule : uint8_t {
  k1F1B,
  kZbH1,
  kZbV,
  kVHalf,
  kVMin,
  kDualPipe,
  kGPipe,
  k1F1BInTicks,
  kZbInTicks,
  kDualInTicks
};

// How a model is cut over ranks. tp * cp * pp * dp ranks; ep ranks of dp * cp share a set of experts.
struct Layout {
  int16_t tp = 1, cp = 1, pp = 1, ep = 1;
  int32_t dp = 1;
  int16_t vpp = 1;  // chunks of layers on a pipeline stage; above 1: the interleaved schedule
  Schedule schedule = Schedule::k1F1B;
  int8_t zero = 1;       // 0 none, 1 optimizer, 2 and gradients, 3 and weights (FSDP)
  bool offload = false;  // optimizer states are in the host's memory, which does their update
  bool sp = false;       // norms and residuals are cut over tp as well
  Recompute recompute = Recompute::kNone;
  int16_t recompute_layers = 0;  // of a stage's chunk, the blocks that do; 0: all of them
  int32_t micro_batch = 1;       // sequences
  int32_t shard = 0;             // ranks that ZeRO cuts over; 0: all of dp * cp

  int64_t ranks() const { return int64_t{tp} * cp * pp * dp; }
  bool operator==(const Layout&) const = default;
};

std::string to_string(const Layout& layout);  // "TP8 PP4 DP16 SP ZeRO-1 mb1 full"
std::string_view to_string(Recompute recompute);
std::string_view to_string(Precision precision);

}  // namespace opentrn::planner
