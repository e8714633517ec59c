#include "serving/config.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/fault.h"
#include "serving/buckets.h"

namespace opentrn::serving {
namespace {

// The smallest prefill program that AWS's plugin compiles by default
// (vllm-neuron/docs/design/vllm/neuron-scheduler.md, "Bucket Configuration").
constexpr int32_t kFirstPrefillBucket = 128;
// Of 20 bytes each: a pool of twice as many takes 3 GB of this machine, and serves nothing that exists.
constexpr int64_t kBlocksMax = int64_t{1} << 26;

[[noreturn]] void refuse(std::string message, std::string hint) {
  throw Fault(FaultKind::kInput, "serving.config", std::move(message), std::move(hint));
}

void expect_positive(const char* name, int64_t value) {
  if (value < 1) refuse(fmt::format("{} is {}", name, value), "at least 1");
}

void expect_buckets(const char* name, const std::vector<int32_t>& buckets, int32_t last) {
  if (buckets.front() < 1 || std::adjacent_find(buckets.begin(), buckets.end(),
                                                [](int32_t a, int32_t b) { return a >= b; }) != buckets.end())
    refuse(fmt::format("{} are not ascending sizes", name), "each larger than the one before it");
  if (buckets.back() != last)
    refuse(fmt::format("the last of {} is {}", name, buckets.back()),
           fmt::format("the last is the largest step there can be: {}", last));
}

void complete_neuron_buckets(SchedulerConfig& c) {
  const int32_t tokens = std::min(c.max_num_batched_tokens, c.max_model_len);
  if (c.num_batched_tokens_buckets.empty())
    c.num_batched_tokens_buckets = power_of_two_buckets(std::min(kFirstPrefillBucket, tokens), tokens);
  expect_buckets("num_batched_tokens_buckets", c.num_batched_tokens_buckets, tokens);
  if (c.num_seqs_buckets.empty()) {
    // NxD Inference compiles decode for one batch size, that of the configuration.
    c.num_seqs_buckets = c.policy == Policy::kNeuron ? power_of_two_buckets(1, c.max_num_seqs)
                                                     : std::vector<int32_t>{c.max_num_seqs};
  }
  expect_buckets("num_seqs_buckets", c.num_seqs_buckets, c.max_num_seqs);
  // max_model_len is always compiled.
  auto& contexts = c.decode_context_length_buckets;
  if (!contexts.empty() && contexts.back() != c.max_model_len) contexts.push_back(c.max_model_len);
  if (!contexts.empty()) expect_buckets("decode_context_length_buckets", contexts, c.max_model_len);
}

}  // namespace

std::string_view to_string(Policy policy) {
  switch (policy) {
    case Policy::kNeuron: return "neuron";
    case Policy::kNeuronNxdi: return "neuron-nxdi";
    case Policy::kVllm: return "vllm";
  }
  return "?";
}

std::string_view to_string(Order order) { return order == Order::kFcfs ? "fcfs" : "priority"; }

Order order_of(std::string_view name) {
  for (const Order order : {Order::kFcfs, Order::kPriority})
    if (to_string(order) == name) return order;
  refuse(fmt::format("no order of requests is named '{}'", name), "fcfs or priority");
}

Policy policy_of(std::string_view name) {
  for (const Policy policy : {Policy::kNeuron, Policy::kNeuronNxdi, Policy::kVllm})
    if (to_string(policy) == name) return policy;
  refuse(fmt::format("no scheduling policy is named '{}'", name), "neuron, neuron-nxdi or vllm");
}

SchedulerConfig completed(SchedulerConfig c) {
  expect_positive("max_num_seqs", c.max_num_seqs);
  expect_positive("max_num_batched_tokens", c.max_num_batched_tokens);
  expect_positive("max_model_len", c.max_model_len);
  expect_positive("block_size", c.block_size);
  if (c.long_prefill_token_threshold < 0)
    refuse(fmt::format("long_prefill_token_threshold is {}", c.long_prefill_token_threshold), "0: none");
  if (c.max_loras < 0) refuse(fmt::format("max_loras is {}", c.max_loras), "0: any number");
  if (c.order == Order::kPriority && c.policy != Policy::kVllm)
    refuse(fmt::format("policy {} takes requests as they come: AWS's rules say nothing of priorities",
                       to_string(c.policy)),
           "policy vllm, or scheduling_policy fcfs");
  if (c.policy == Policy::kNeuronNxdi && c.max_num_batched_tokens < c.max_model_len)
    refuse(fmt::format("policy neuron-nxdi prefills a prompt in one step: max_num_batched_tokens is {}, "
                       "max_model_len {}",
                       c.max_num_batched_tokens, c.max_model_len),
           "max_num_batched_tokens of at least max_model_len");
  if (c.policy == Policy::kVllm) {
    if (!c.num_batched_tokens_buckets.empty() || !c.num_seqs_buckets.empty() ||
        !c.decode_context_length_buckets.empty())
      refuse("policy vllm has no buckets: its steps have the size that their requests need",
             "policy neuron, or no buckets");
    // Without chunks a prompt waits for a whole budget; with them every step takes at least one token.
  } else {
    complete_neuron_buckets(c);
  }
  if (c.num_blocks < 0 || c.num_blocks > kBlocksMax)
    refuse(fmt::format("{} blocks of KV cache", c.num_blocks), fmt::format("1 to {}", kBlocksMax));
  const int64_t each = c.blocks_of(c.max_model_len);
  if (c.num_blocks == 0) {
    const int64_t blocks = each * c.max_num_seqs + 1;
    if (blocks > kBlocksMax)
      refuse(fmt::format("{} requests of {} tokens need {} blocks of {} of KV cache", c.max_num_seqs,
                         c.max_model_len, blocks, c.block_size),
             fmt::format("at most {}: num_gpu_blocks_override, a smaller max_model_len or fewer requests",
                         kBlocksMax));
    c.num_blocks = static_cast<int32_t>(blocks);
  }
  if (c.num_blocks - 1 < each)
    refuse(fmt::format("one request of max_model_len {} needs {} blocks of {} tokens; there are {}, one of "
                       "them the null block",
                       c.max_model_len, each, c.block_size, c.num_blocks),
           "more blocks, or a smaller max_model_len");
  return c;
}

}  // namespace opentrn::serving
