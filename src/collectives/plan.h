// A collective as transfers: the one form that is verified, executed on values and timed.
//
// Each rank has channels, which are queues: the steps of a channel start in their order, each when the step
// before it on the channel has ended and all that it waits for have ended. A step reads one range of bytes
// of its rank and writes it to one of its peer, as the DMA engines of the rank push it. What the engines can
// do on the way is part of the step: to sum several sources into one, and to write a second target with what
// was read once. Staging buffers with finite slots are ranges of kScratch, and their reuse is a wait, like
// any other. All ranks have entered the collective before its first step starts.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "collectives/request.h"

namespace opentrn::collectives {

enum class Buffer : uint8_t { kInput, kOutput, kScratch };

struct Slice {
  Buffer buffer = Buffer::kInput;
  int64_t offset = 0;  // bytes
  friend bool operator==(const Slice&, const Slice&) = default;
};

// A slice of a rank's buffer.
struct At {
  int32_t rank = 0;
  Slice slice;
  friend bool operator==(const At&, const At&) = default;
};

struct StepRef {
  int32_t rank = 0, step = 0;  // the number of the step in its rank's list
  friend auto operator<=>(const StepRef&, const StepRef&) = default;
};

// A run of entries in a pool of the plan.
struct PoolRange {
  uint32_t begin = 0, count = 0;
};

struct Step {
  // to = from (op) each of more_sources(), left to right; with `reduces`, to = to (op) all of that. Floating
  // point is summed in fp32 and rounded once, when the step writes.
  bool reduces = false;
  bool has_second_target = false;  // the step also writes second_target() with what it writes to `to`
  int32_t peer = 0;                // whose buffer `to` is; the rank itself for moves within its HBM
  Slice from, to;
  int64_t bytes = 0;  // 0: a signal and nothing else
  int32_t channel = 0;
  PoolRange waits;   // Plan::waits()
  PoolRange places;  // Plan::more_sources(), then the second target
};

struct Plan {
  Request request;
  std::string algorithm;  // "mesh", "ring", ...: nccom-test's word
  int channels = 1;       // of each rank
  int64_t scratch_bytes = 0;
  // Input and output are one memory: all-gather's input is where the rank's part of the output is, output of
  // reduce-scatter where its part of the input is. Only then may steps write kInput.
  bool in_place = false;
  std::vector<std::vector<Step>> steps;  // [rank]
  // What steps refer to, [rank]. A step's entries are read through the functions below.
  std::vector<std::vector<StepRef>> wait_pool;
  std::vector<std::vector<At>> place_pool;

  // Of a step of `rank`: it waits for the ends of these.
  std::span<const StepRef> waits(int rank, const Step& step) const {
    return std::span(wait_pool[static_cast<size_t>(rank)]).subspan(step.waits.begin, step.waits.count);
  }
  // What is summed beside `from`, which may lie at other ranks (of the same chip, as algorithms use it).
  std::span<const At> more_sources(int rank, const Step& step) const {
    return std::span(place_pool[static_cast<size_t>(rank)])
        .subspan(step.places.begin, step.places.count - (step.has_second_target ? 1 : 0));
  }
  // Null when the step has one target only.
  const At* second_target(int rank, const Step& step) const {
    return step.has_second_target
               ? &place_pool[static_cast<size_t>(rank)][step.places.begin + step.places.count - 1]
               : nullptr;
  }
  size_t step_count() const {
    size_t count = 0;
    for (const auto& list : steps) count += list.size();
    return count;
  }
};

// All-reduce, all-gather, reduce-scatter and all-to-all.
bool may_be_in_place(Kind kind);

// "rank 3 step 5 (ring, channel 1)".
std::string describe(const Plan& plan, StepRef step);
// "input[0, 64) of rank 2".
std::string describe(const At& place, int64_t bytes);

}  // namespace opentrn::collectives
