// OpenTrn's scheduler and virtual clock, with step times that another process gives: for every step one line
// on standard output, `computed+tokens ...` of its requests, and one line of input, its microseconds. At the
// end `done`, then one line for each request: us of its first and last token since the first arrival.
//
// Input begins: MAX_NUM_SEQS MAX_NUM_BATCHED_TOKENS MAX_MODEL_LEN BLOCK_SIZE NUM_BLOCKS ASYNC HOST_US
// REQUESTS, then for each request: arrival in us, output tokens, prompt tokens, their ids.
#include <iostream>
#include <memory>

#include "serving/replay.h"

namespace {

using namespace opentrn::serving;

class AskingExecutor final : public Executor {
 public:
  explicit AskingExecutor(Ps host) : host_(host) {}
  Outcome run(const Step& step) override {
    size_t samples = 0;
    for (const StepEntry& entry : step.entries) {
      std::cout << entry.computed_before << '+' << entry.tokens << ' ';
      samples += entry.samples;
    }
    std::cout << std::endl;
    double us = 0;
    std::cin >> us;
    return {ps_of_us(us), host_, std::vector<Sampled>(samples)};
  }

 private:
  Ps host_;
};

}  // namespace

int main() {
  ReplayConfig config;
  SchedulerConfig& c = config.scheduler;
  c.policy = Policy::kVllm;
  size_t requests = 0;
  double host_us = 0;
  std::cin >> c.max_num_seqs >> c.max_num_batched_tokens >> c.max_model_len >> c.block_size >> c.num_blocks >>
      c.async_scheduling >> host_us >> requests;
  c = completed(c);
  Trace trace;
  for (size_t i = 0; i < requests; ++i) {
    TraceRequest& request = trace.requests.emplace_back();
    double us = 0;
    std::cin >> us >> request.output_tokens >> request.prompt_tokens;
    request.arrival = ps_of_us(us);
    request.content.tokens.resize(static_cast<size_t>(request.prompt_tokens));
    for (int32_t& token : request.content.tokens) std::cin >> token;
  }
  const Replay run = replay(std::move(trace), config,
                            [&](int32_t) { return std::make_unique<AskingExecutor>(ps_of_us(host_us)); });
  std::cout << "done\n" << std::fixed;
  for (const Request& request : run.requests)
    std::cout << 1e6 * seconds(request.first_token) << ' ' << 1e6 * seconds(request.last_token) << '\n';
}
