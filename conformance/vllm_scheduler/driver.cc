// OpenTrn's scheduler over the workloads of standard input, one line per step on standard output.
//
// A workload:
//   config POLICY MAX_NUM_SEQS MAX_NUM_BATCHED_TOKENS MAX_MODEL_LEN BLOCK_SIZE NUM_BLOCKS PREFIX ASYNC
//   THRESHOLD RESERVE ORDER MAX_LORAS request AT MAX_TOKENS STOP_AFTER PRIORITY ADAPTER SALT PROMPT_LENGTH
//   OUTPUT_LENGTH token ... (prompt, then what will be answered) abort AT REQUEST end
// AT is the number of a turn of the engine's loop. STOP_AFTER: the request ends by itself with this many
// tokens (0: never).
#include <algorithm>
#include <deque>
#include <iostream>
#include <memory>
#include <string>

#include "serving/scheduler.h"

namespace {

using namespace opentrn::serving;

constexpr int64_t kTurnsMax = 20000;  // as in oracle.py

struct Planned {
  Request request;
  int64_t at = 0;
  int32_t stop_after = 0;
  std::vector<int32_t> answer;
};

struct Abort {
  int64_t at = 0;
  size_t request = 0;
};

class Workload {
 public:
  bool read(std::istream& in) {
    std::string word;
    while (in >> word && word != "end") {
      if (word == "config") read_config(in);
      if (word == "request") read_request(in);
      if (word == "abort") {
        Abort& abort = aborts_.emplace_back();
        in >> abort.at >> abort.request;
      }
    }
    return word == "end";
  }

  // The loop of vLLM's engine: with asynchronous scheduling two steps are under way.
  void run(std::ostream& out) {
    scheduler_ = Scheduler::make(completed(config_));
    const size_t depth = config_.async_scheduling ? 2 : 1;
    int64_t last = 0;
    for (const auto& planned : requests_) last = std::max(last, planned->at);
    for (int64_t turn = 0; turn <= last || scheduler_->has_requests() || !under_way_.empty();) {
      for (auto& planned : requests_)
        if (planned->at == turn) scheduler_->add(planned->request);
      for (const Abort& abort : aborts_)
        if (abort.at == turn) scheduler_->abort(requests_[abort.request]->request);
      bool planned = false;
      if (scheduler_->has_requests()) {
        Step step = scheduler_->schedule();
        print(out, turn, step);
        planned = !step.empty();
        if (planned) under_way_.push_back(std::move(step));
      }
      if (!(planned && under_way_.size() < depth) && !under_way_.empty()) take();
      if (const std::string wrong = scheduler_->audit(); !wrong.empty()) {
        out << "audit " << wrong << "\n";
        return;
      }
      if (++turn > kTurnsMax) {
        out << "endless\n";
        return;
      }
    }
    if (scheduler_->pool().free_blocks() != scheduler_->pool().usable_blocks()) out << "lost blocks\n";
    out << "end\n";
  }

 private:
  void read_config(std::istream& in) {
    std::string policy, order;
    in >> policy >> config_.max_num_seqs >> config_.max_num_batched_tokens >> config_.max_model_len >>
        config_.block_size >> config_.num_blocks >> config_.prefix_caching >> config_.async_scheduling >>
        config_.long_prefill_token_threshold >> config_.reserve_full_prompt >> order >> config_.max_loras;
    config_.policy = policy_of(policy);
    config_.order = order_of(order);
  }

  void read_request(std::istream& in) {
    auto& planned = requests_.emplace_back(std::make_unique<Planned>());
    Request& request = planned->request;
    request.id = static_cast<int64_t>(requests_.size()) - 1;
    request.arrival = request.id;
    size_t answer = 0;
    uint64_t salt = 0;
    in >> planned->at >> request.max_tokens >> planned->stop_after >> request.priority >> request.adapter >>
        salt >> request.prompt_tokens >> answer;
    if (request.adapter != 0 || salt != 0)
      request.variant = chained(chained({}, static_cast<uint64_t>(request.adapter)), salt);
    request.content.tokens.resize(static_cast<size_t>(request.prompt_tokens));
    for (int32_t& token : request.content.tokens) in >> token;
    planned->answer.resize(answer);
    for (int32_t& token : planned->answer) in >> token;
  }

  void print(std::ostream& out, int64_t turn, const Step& step) const {
    out << turn << ' ' << to_string(step.phase) << ' ' << step.padded_tokens();
    for (const StepEntry& entry : step.entries) {
      out << ' ' << entry.request->id << ':' << entry.computed_before << '+' << entry.tokens << '[';
      for (const BlockId block : entry.request->blocks) out << block << ',';
      out << ']';
    }
    out << " free " << scheduler_->pool().free_blocks() << '\n';
  }

  void take() {
    const Step step = std::move(under_way_.front());
    under_way_.pop_front();
    std::vector<Sampled> sampled;
    for (const StepEntry& entry : step.entries) {
      if (!entry.samples) continue;
      Planned& planned = *requests_[static_cast<size_t>(entry.request->id)];
      // A preempted request computes known tokens again: what follows is the next unknown one.
      const auto place =
          static_cast<size_t>(entry.computed_before + entry.tokens - entry.request->prompt_tokens);
      sampled.push_back({planned.answer.at(place), static_cast<int32_t>(place) + 1 == planned.stop_after});
    }
    scheduler_->update(step, sampled);
  }

  SchedulerConfig config_;
  std::vector<std::unique_ptr<Planned>> requests_;
  std::vector<Abort> aborts_;
  std::unique_ptr<Scheduler> scheduler_;
  std::deque<Step> under_way_;
};

}  // namespace

int main() {
  std::ios::sync_with_stdio(false);
  for (;;) {
    Workload workload;
    if (!workload.read(std::cin)) return 0;
    workload.run(std::cout);
    std::cout.flush();
  }
}
