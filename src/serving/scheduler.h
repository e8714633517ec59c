// Which requests run in the next step, and in which blocks their keys and values lie.
//
// The base is vLLM's v1 scheduler, first come first served: running requests first, each with what it lacks
// (one token, or a chunk of its prompt), then waiting ones while tokens, places and blocks last; when the
// blocks do not suffice the request that came last is preempted and computed again later; or, by
// Order::kPriority, waiting ones in the order of their priorities, and the least urgent is preempted. AWS's
// policies (neuron.cc) show it a part of the queues only, so that prefill and decode are never in one step.
//
// There is no clock in here and nothing is random: the same calls give the same steps.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "serving/block_pool.h"
#include "serving/config.h"
#include "serving/request.h"
#include "serving/step.h"

namespace opentrn::serving {

// What a step gave to one of its entries that samples.
struct Sampled {
  int32_t token = -1;  // -1: the executor computes no values
  bool stop = false;   // the request asked to end here: an end-of-sequence token, a stop string
  bool more = false;   // another token of the same entry follows
};

class Scheduler {
 public:
  // `config` as completed() returns it.
  static std::unique_ptr<Scheduler> make(const SchedulerConfig& config);
  virtual ~Scheduler() = default;

  // The request stays the caller's, at its address, until it is finished. Input fault `serving.request` when
  // it could never run: an empty prompt, or one that leaves no place for a token below max_model_len.
  void add(Request& request);
  // Ends a request that may wait, run, or be part of a step under way.
  void abort(Request& request);

  // The next step; empty when nothing can run. Computed counts of requests are those after the step.
  Step schedule();
  // What became of the oldest step that was not told yet: `sampled` has, per entry that
  // samples, one item, and one more for each of its guesses that was right.
  // Returns the requests that finished by it.
  std::vector<Request*> update(const Step& step, std::span<const Sampled> sampled);

  const SchedulerConfig& config() const { return config_; }
  const BlockPool& pool() const { return pool_; }
  int32_t running() const { return static_cast<int32_t>(running_.size()); }
  int32_t waiting() const { return static_cast<int32_t>(waiting_.size()); }
  bool has_requests() const { return !running_.empty() || !waiting_.empty(); }
  int64_t preemptions() const { return preemptions_; }
  // Tokens that were looked for in the prefix cache, and found.
  int64_t prefix_queries() const { return prefix_queries_; }
  int64_t prefix_hits() const { return prefix_hits_; }
  // What is wrong with the books: empty, or a sentence. Slow: for tests.
  std::string audit() const;

 protected:
  explicit Scheduler(const SchedulerConfig& config);
  // Fills `step` from running_ and waiting_.
  virtual void plan(Step& step) { plan_base(step); }
  void plan_base(Step& step);
  // Whether a step of `others` and `request` has no more adapters than max_loras.
  bool adapter_fits(const Request& request, std::span<Request* const> others) const;

  SchedulerConfig config_;
  BlockPool pool_;
  std::deque<Request*> waiting_;
  std::vector<Request*> running_;

 private:
  // Behind those that wait, or where its priority has it.
  void queue(Request& request);
  void plan_running(Step& step, int64_t& budget);
  // Takes the request that the order gives up first out of running_ and preempts it. `index`, of the request
  // that is planned, and `budget` follow where the step had it already.
  Request& preempt_last(Step& step, size_t& index, int64_t& budget);
  void plan_waiting(Step& step, int64_t& budget);
  int32_t capped(int64_t tokens, int64_t budget) const;
  void find_prefix(Request& request, std::vector<BlockId>& blocks) const;
  // False when the blocks do not suffice; then nothing has changed.
  bool allocate(Request& request, int32_t computed, int32_t tokens, std::span<const BlockId> found);
  void name_blocks(Request& request, int32_t tokens);
  const BlockHash& hash(Request& request, int32_t block) const;
  void preempt(Request& request);
  void free_blocks(Request& request);
  void finish(Request& request, Finish why);
  void advance(Step& step);
  bool stops(const Request& request, bool asked) const;

  int64_t steps_ = 0, preemptions_ = 0, prefix_queries_ = 0, prefix_hits_ = 0;
  int32_t long_prefill_ = 0;    // the threshold of this step
  std::vector<BlockId> found_;  // reused by plan_waiting
};

}  // namespace opentrn::serving
