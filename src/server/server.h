// The engine of a live server: requests come and go from any thread, one thread takes steps.
//
// It joins serving::Engine (scheduler, blocks, clock) with a Worker, and keeps the requests. Three clocks:
// wall, a step takes as long as it runs here; paced, at least as long as the device is predicted to take, so
// that a client measures the prediction; virtual, time is that of the predictions and nobody waits. Whatever
// the clock, the predicted times of all steps are added up, and each request is told when, by that sum, it
// came, got its first token and its last.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "decoder/generation.h"
#include "server/job.h"
#include "server/worker.h"
#include "serving/engine.h"
#include "serving/metrics.h"

namespace opentrn::server {

enum class ClockKind : uint8_t { kWall, kPaced, kVirtual };
// "wall", "paced" or "virtual"; input fault `server.clock`.
ClockKind clock_of(std::string_view name);

struct ServerOptions {
  serving::SchedulerConfig scheduler;  // as serving::completed() returns it, without async_scheduling
  ClockKind clock = ClockKind::kWall;
  int32_t waiting_max = 256;  // requests that may wait for their first step
  bool audit = false;         // the pool's books are checked after every step
  // Tokens of a request's answer are guessed, by the worker's draft model or else from its own text; 0: none
  // are. A request with a grammar has no guesses: its next mask is not known before its next token.
  decoder::Speculation speculation{};
};

// What became of guesses, by vLLM's counting.
struct GuessTotals {
  int64_t drafts = 0;              // times that guesses of a request were computed
  int64_t guessed = 0, right = 0;  // tokens
  std::vector<int64_t> right_at;   // by their place behind the newest token
};

// What became of a request that ended. Times in seconds: on the server's clock, and as predicted.
struct Ended {
  serving::Finish finish = serving::Finish::kNone;
  std::string failure;  // "" but where no token could be given
  int32_t prompt_tokens = 0, output_tokens = 0, cached_tokens = 0, preemptions = 0;
  double queue_s = 0, first_token_s = 0, end_s = 0;  // since it arrived; 0 for what did not happen
  double predicted_first_token_s = 0, predicted_end_s = 0, predicted_own_s = 0;
};

struct TokenEvent {
  int64_t id = 0;
  decoder::SampledToken token;
  std::vector<decoder::SampledToken> prompt;  // with the first token, where they are asked for
  bool ended = false;
  Ended end;  // where it ended
};

struct StepReport {
  std::string program;  // by AWS's names; "" where the policy has none
  serving::StepRecord record{};
  double predicted_s = 0;
  std::vector<int64_t> requests;
  std::vector<TokenEvent> events;
  int64_t preempted = 0;
};

struct Stats {
  int32_t running = 0, waiting = 0;
  int32_t blocks = 0, used_blocks = 0;  // without the null block
  int64_t prefix_queries = 0, prefix_hits = 0, preemptions = 0;
  int64_t programs = 0;
  double compile_s = 0, predicted_s = 0, now_s = 0;
  serving::StepTotals totals;
  GuessTotals guesses;
};

class Server {
 public:
  Server(ServerOptions options, std::unique_ptr<Worker> worker);

  // -- any thread
  // The number of the new request. Input fault `serving.request`, `decoder.sampling` for what could never
  // run; capacity fault `server.full` when too many wait.
  int64_t add(JobParams params);
  // The request ends before the next step, and no event comes of it. Nothing happens for one that is unknown.
  void abort(int64_t id);
  Stats stats() const;
  const ServerOptions& options() const { return options_; }
  const Worker& worker() const { return *worker_; }

  // -- the thread that takes steps
  // One step; waits for a request as long as `patience`, and meanwhile compiles what later ones will need
  // where `prepares`. False without a step. Input fault `serving.deadlock` where requests wait and none can
  // ever run: they are gone then.
  bool step(std::chrono::milliseconds patience, bool prepares, StepReport& report);
  // Ends a request as its own stop token would. It has not ended yet.
  Ended finish(int64_t id);
  // Which tokens the next one may be; by a grammar.
  void set_mask(int64_t id, std::vector<uint32_t> mask);
  // Compiles one more program; false when all are.
  bool prepare_one();
  // What is wrong with the books of the pool: "" or a sentence.
  std::string audit() const;

 private:
  // Passes to the worker and keeps what it said last.
  struct Tap final : serving::Executor {
    explicit Tap(Worker& inner) : worker(inner) {}
    serving::Outcome run(const serving::Step& step) override {
      outcome = worker.run(step);
      return outcome;
    }
    Worker& worker;
    serving::Outcome outcome;
  };

  void take_inbox();
  void guess(Job& job) const;
  void describe(const serving::Step& step, const serving::StepRecord& record);
  Ended ended(const Job& job, serving::Finish finish) const;
  void forget(int64_t id);
  [[noreturn]] void give_up();
  void note_stats();

  ServerOptions options_;
  std::unique_ptr<Worker> worker_;
  Tap tap_;
  std::unique_ptr<serving::Clock> clock_;
  serving::Engine engine_;
  std::map<int64_t, std::unique_ptr<Job>> jobs_;  // that the engine knows
  StepReport* report_ = nullptr;                  // of the step that is taken
  serving::Ps device_now_ = 0;                    // predicted time of all steps so far
  serving::StepTotals totals_;
  GuessTotals guesses_;

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable arrived_;
  int64_t next_id_ = 1;
  std::vector<std::unique_ptr<Job>> inbox_;
  std::vector<int64_t> aborted_;
  Stats stats_;
};

}  // namespace opentrn::server
