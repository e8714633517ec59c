// What an engine's scheduler is configured with. Names are those of vLLM's flags, without the dashes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace opentrn::serving {

enum class Policy : uint8_t {
  kNeuron,      // AWS's vLLM plugin, 0.21 and later
  kNeuronNxdi,  // AWS's vLLM plugin 0.2 to 0.5, over NxD Inference
  kVllm,        // vLLM's own: prefill in chunks beside decode, preemption
};

// vLLM's --scheduling-policy: who runs first, and who is preempted first.
enum class Order : uint8_t {
  kFcfs,      // first come, first served
  kPriority,  // the lowest number of Request::priority first; of equal ones who came first
};

std::string_view to_string(Order order);
// "fcfs" or "priority"; input fault `serving.config` for another.
Order order_of(std::string_view name);

std::string_view to_string(Policy policy);
// Input fault for a name that is none.
Policy policy_of(std::string_view name);

struct SchedulerConfig {
  Policy policy = Policy::kNeuron;
  Order order = Order::kFcfs;  // priority: of policy vllm alone
  int32_t max_num_seqs = 8;
  int32_t max_num_batched_tokens = 8192;
  int32_t max_model_len = 32768;
  int32_t block_size = 32;  // tokens
  int32_t num_blocks = 0;   // with the null block; 0: as many as max_num_seqs requests of max_model_len need
  bool prefix_caching = true;
  bool async_scheduling = false;    // a step is planned before the outcome of the one before it is known
  bool reserve_full_prompt = true;  // vLLM's scheduler_reserve_full_isl
  int32_t long_prefill_token_threshold = 0;  // 0: none
  int32_t max_loras = 0;                     // adapters in one step at most; 0: any number
  // Compiled sizes, ascending; empty: the defaults of the policy (buckets.h).
  std::vector<int32_t> num_batched_tokens_buckets, num_seqs_buckets, decode_context_length_buckets;

  int32_t blocks_of(int64_t tokens) const {
    return static_cast<int32_t>((tokens + block_size - 1) / block_size);
  }
};

// The configuration with its defaults filled in. Input fault `serving.config` where it contradicts itself or
// the policy, and where not even one request of max_model_len fits into the blocks.
SchedulerConfig completed(SchedulerConfig config);

}  // namespace opentrn::serving
