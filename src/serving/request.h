// A request on its way through the scheduler.
#pragma once

#include <cstdint>
#include <vector>

#include "serving/block_hash.h"
#include "serving/time.h"

namespace opentrn::serving {

using BlockId = int32_t;

enum class Status : uint8_t { kWaiting, kRunning, kPreempted, kFinished };

// Why a request ended; kRefused: it never entered the queue.
enum class Finish : uint8_t { kNone, kStop, kLength, kAborted, kRefused };

// What the prompt holds, for the prefix cache: token ids, or (a trace without text) the names of segments of
// equal length, or nothing, and then no other request has the same prompt.
struct PromptContent {
  std::vector<int32_t> tokens;
  std::vector<uint64_t> segments;
  int32_t segment_tokens = 0;  // tokens per segment
};

struct Request {
  // What the client asked for.
  int64_t id = 0;  // unique in one engine
  int32_t prompt_tokens = 0;
  int32_t max_tokens = 1;  // output tokens at most
  Ps arrival = 0;
  PromptContent content;
  int64_t priority = 0;  // lower numbers run first, where the scheduler goes by them
  int32_t adapter = 0;   // 0: the model's own weights
  // Of the names of its blocks: requests that differ in it, as by adapters or salts, have no prefix in
  // common.
  BlockHash variant;
  bool skips_prefix_cache = false;  // all of its prompt is computed, whatever is cached
  // Tokens from the start whose keys and values come with the request, from the engine that prefilled it.
  int32_t remote_tokens = 0;

  // The scheduler's; others read.
  Status status = Status::kWaiting;
  Finish finish = Finish::kNone;
  int32_t computed_tokens = 0;  // whose keys and values are in the cache, or will be after what is under way
  int32_t output_tokens = 0;    // known ones
  int32_t output_placeholders = 0;  // scheduled, not known yet (asynchronous scheduling)
  int32_t in_flight_tokens = 0;     // of steps whose outcome has not come back
  int32_t stale_tokens = 0;         // in flight since before the last preemption
  int32_t preemptions = 0;
  int32_t prefix_hit_tokens = 0;  // at the first admission
  bool prefill_chunk = false;     // after the last step, tokens of it are still to be prefilled
  int32_t cached_blocks = 0;      // of `blocks`, from the front, known to the prefix cache
  std::vector<BlockId> blocks;
  std::vector<int32_t> output;  // ids, where the executor gives any
  // Tokens that are guessed to follow (speculation). The next step computes as many of them as fit behind the
  // newest token, and its outcome says how many were right. Not for asynchronous scheduling.
  std::vector<int32_t> drafts;
  std::vector<BlockHash> hashes;  // of full blocks, as far as anybody asked

  // The engine's record; negative: has not happened.
  Ps first_scheduled = -1, first_token = -1, last_token = -1;

  int32_t tokens() const { return prompt_tokens + output_tokens; }
  bool finished() const { return status == Status::kFinished; }
};

}  // namespace opentrn::serving
