#include "serving/scheduler.h"

#include <deque>
#include <memory>

#include <gtest/gtest.h>

#include "base/fault.h"

namespace opentrn::serving {
namespace {

// One scheduler of policy vllm, and requests whose prompts have nothing in common.
class SchedulerTest : public ::testing::Test {
 protected:
  SchedulerTest() {
    config_.policy = Policy::kVllm;
    config_.max_model_len = 32;
    config_.max_num_seqs = 4;
    config_.max_num_batched_tokens = 32;
    config_.block_size = 4;
    config_.prefix_caching = false;
  }

  Request& add(int32_t prompt, int64_t priority = 0, int32_t adapter = 0) {
    if (!scheduler_) scheduler_ = Scheduler::make(completed(config_));
    Request& request = requests_.emplace_back();
    request.id = static_cast<int64_t>(requests_.size());
    request.arrival = request.id;
    request.prompt_tokens = prompt;
    request.max_tokens = 30;
    request.priority = priority;
    request.adapter = adapter;
    scheduler_->add(request);
    return request;
  }

  // Tokens of each request in the next step, by its number.
  std::vector<std::pair<int64_t, int32_t>> step() {
    const Step step = scheduler_->schedule();
    std::vector<Sampled> sampled;
    std::vector<std::pair<int64_t, int32_t>> tokens;
    for (const StepEntry& entry : step.entries) {
      tokens.emplace_back(entry.request->id, entry.tokens);
      if (entry.samples) sampled.push_back({1});
    }
    scheduler_->update(step, sampled);
    EXPECT_EQ(scheduler_->audit(), "");
    return tokens;
  }

  using Tokens = std::vector<std::pair<int64_t, int32_t>>;
  SchedulerConfig config_;
  std::unique_ptr<Scheduler> scheduler_;
  std::deque<Request> requests_;
};

TEST_F(SchedulerTest, TheLowestPriorityNumberRunsFirst) {
  config_.order = Order::kPriority;
  config_.max_num_batched_tokens = 10;
  add(8, 5);
  add(8, 7);
  add(8, -1);
  add(2, 5);
  EXPECT_EQ(step(), (Tokens{{3, 8}, {1, 2}}));
  EXPECT_EQ(step(), (Tokens{{3, 1}, {1, 6}, {4, 2}, {2, 1}}));  // of equal ones who came first
}

TEST_F(SchedulerTest, TheLeastUrgentIsPreemptedThoughItIsPlanned) {
  config_.order = Order::kPriority;
  config_.num_blocks = 1 + 8;
  config_.reserve_full_prompt = false;
  Request& patient = add(4, 9);
  add(12, 9);
  add(12, 1);
  EXPECT_EQ(step(), (Tokens{{3, 12}, {1, 4}, {2, 12}}));
  // Eight blocks: 3 takes its fourth, the last one that is free, and 1 needs a second.
  EXPECT_EQ(step(), (Tokens{{3, 1}, {1, 1}}));
  EXPECT_EQ(requests_[1].status, Status::kPreempted);
  EXPECT_EQ(patient.computed_tokens, 5);
  add(3, 0);
  EXPECT_EQ(step(), (Tokens{{3, 1}, {1, 1}, {4, 3}}));
}

TEST_F(SchedulerTest, APlannedRequestGivesItsTokensBack) {
  config_.order = Order::kPriority;
  config_.num_blocks = 1 + 8;
  config_.reserve_full_prompt = false;
  add(12, 9);
  EXPECT_EQ(step(), (Tokens{{1, 12}}));
  add(15, 1);
  EXPECT_EQ(step(), (Tokens{{1, 1}, {2, 15}}));  // all eight blocks
  EXPECT_EQ(step(), (Tokens{{1, 1}, {2, 1}}));
  // 1 has a place in its fourth block and is planned; then 2 needs a fifth.
  EXPECT_EQ(step(), (Tokens{{2, 1}}));
  EXPECT_EQ(requests_[0].status, Status::kPreempted);
  EXPECT_EQ(requests_[0].blocks.size(), 0u);
  EXPECT_EQ(scheduler_->preemptions(), 1);
}

TEST_F(SchedulerTest, AStepHasAsManyAdaptersAsStated) {
  config_.max_loras = 1;
  add(4, 0, 1);
  add(4, 0, 2);
  add(4, 0, 1);
  add(4, 0, 0);
  EXPECT_EQ(step(), (Tokens{{1, 4}, {3, 4}, {4, 4}}));
  EXPECT_EQ(step(), (Tokens{{1, 1}, {3, 1}, {4, 1}}));
  scheduler_->abort(requests_[0]);
  scheduler_->abort(requests_[2]);
  EXPECT_EQ(step(), (Tokens{{4, 1}, {2, 4}}));
}

TEST(SchedulerConfig, RefusesAnOrderThatItsPolicyDoesNotKnow) {
  SchedulerConfig config;
  config.order = Order::kPriority;
  EXPECT_THROW(completed(config), Fault);
  config.policy = Policy::kVllm;
  EXPECT_NO_THROW(completed(config));
  config.max_loras = -1;
  EXPECT_THROW(completed(config), Fault);
  EXPECT_EQ(order_of("fcfs"), Order::kFcfs);
  EXPECT_EQ(order_of("priority"), Order::kPriority);
  EXPECT_THROW(order_of("lifo"), Fault);
}

}  // namespace
}  // namespace opentrn::serving
