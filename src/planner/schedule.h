// Orders in which the ranks of a pipeline do their passes, of every schedule from one generator.
//
// A micro-batch passes virtual stages forward and then backward. Zero-bubble schedules split the backward
// pass: what the stage before waits for (kInput), and the weights' gradients (kWeight), which nothing waits
// for. Sources: ZB-H1, arXiv:2401.10241; ZB-V, V-Half and V-Min, arXiv:2405.15362; DualPipe, arXiv:2412.19437
// and the README of deepseek-ai/DualPipe; GPipe, arXiv:1811.06965.
//
// GPipe and 1F1B in ticks are as one program runs them on all ranks: stages go through a step in ticks, on
// each of which every stage computes, with a micro-batch or without. Blocks run forward again in the backward
// pass, as GPipe has it, and each stage has a part of the embedding and of the output layer
// (arXiv:2411.05288), as all stages do the same. 1F1B's ticks have a pass forward and one back, but for those
// before the first loss and behind the last one; a stage has twice as many micro-batches under way as 1F1B's,
// less one, since a gradient comes back as slowly as tokens go. Its zero-bubble form has the weights'
// gradients of a micro-batch on the tick on which the first stage has its other gradients: on all stages at
// once. DualPipe's has half of the micro-batches in 1F1B's ticks from each end, so that a tick has two passes
// each way; a rank keeps weights of its own stage and a copy of the one that is as far from the other end.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "planner/job.h"

namespace opentrn::planner {

enum class PassKind : uint8_t {
  kForward,
  kInput,     // the backward pass without the weights' gradients
  kWeight,    // these alone
  kBackward,  // both
  kPair,      // a forward pass and a whole backward pass of another micro-batch, as one (DualPipe)
};

// A pass of micro-batch `micro` of `stream` through virtual stage `at`.
struct Pass {
  PassKind kind = PassKind::kForward;
  int stream = 0, at = 0;
  int64_t micro = 0;
  int stream2 = 0, at2 = 0;  // of kPair: the backward pass
  int64_t micro2 = 0;
};

// What every rank does, in order. `chunks`: of 1F1B; 1 for the others, which fix their own.
struct Order {
  std::vector<std::vector<Pass>> ranks;
  std::vector<std::vector<int>> path;  // rank of a virtual stage, by stream
  std::vector<int64_t> micro_batches;  // by stream
  int passes_per_rank = 1;             // forward passes of one micro-batch on a rank that has it
};
Order order_of(Schedule schedule, int stages, int chunks, int64_t micro_batches);

// Why a schedule has no order for these numbers; empty where it has one.
std::string no_order_because(Schedule schedule, int stages, int chunks, int64_t micro_batches);

bool is_v_shaped(Schedule schedule);
// Whether stages go through a step in ticks: all have a part of the model's ends, and the same work.
bool shares_ends(Schedule schedule);
// Of those, whether a tick has a pass forward and one back.
bool goes_both_ways(Schedule schedule);
std::string_view to_string(Schedule schedule);  // "ZB-H1"
// "1f1b", "zb-h1", "zb-v", "v-half", "v-min", "dualpipe", "gpipe", "1f1b-ticks", "zb-ticks",
// "dualpipe-ticks"; nullopt for another.
std::optional<Schedule> schedule_named(std::string_view name);
std::vector<std::string> schedule_names();

}  // namespace opentrn::planner
