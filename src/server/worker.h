// Executors that give tokens: one computes them with a model on a simulated NeuronCore, one draws them.
//
// Both run the steps of one scheduler, whose requests are Jobs. What a step gave is in samples() until the
// next one.
#pragma once

#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "decoder/draft_model.h"
#include "decoder/engine.h"
#include "server/job.h"
#include "server/program_times.h"
#include "serving/executor.h"

namespace opentrn::server {

class Worker : public serving::Executor {
 public:
  // Of the last step: those of Outcome::sampled, in their order.
  const std::vector<decoder::SampledToken>& samples() const { return samples_; }
  // Tokens have numbers below it.
  virtual int32_t vocabulary() const = 0;
  // Requests may name those below it.
  virtual int32_t adapters() const { return 1; }
  // Whether tokens have probabilities.
  virtual bool has_logits() const = 0;
  // Whether its steps leave guesses in Job::proposed.
  virtual bool proposes() const { return false; }
  // Does one piece of what a later step would have to wait for; false when nothing is left.
  virtual bool prepare_one() { return false; }
  // What has been compiled, for metrics: programs, and the host's seconds for them.
  virtual int64_t programs() const { return 0; }
  virtual double compile_seconds() const { return 0; }

 protected:
  std::vector<decoder::SampledToken> samples_;
};

// Runs the model. The engine's buckets are the scheduler's, so that a step runs the program that the
// scheduler's policy names; a step that has prompts beside decode (policy vllm) runs one program for each
// prompt and one for the rest, and a step of several adapters one for each of them. `times`: of steps,
// instead of those of the programs by the timing model.
//
// Guesses of a request (Request::drafts) go through the model behind its newest token, and one after the
// other a token is chosen by the request's rules behind each of them, as if there were no guesses; the first
// that is not the guess is the last one. So what is chosen, and which random numbers are drawn for it, is
// what it would be without guesses, but for the rounding of another program.
//
// Where tokens are chosen on the device, a program gives a token of each request in place of logits, if none
// of the step has a grammar, bias, penalty or log probability: the likeliest ones where all have temperature
// 0, and else, if it may draw, tokens drawn with the numbers that the host would draw. Other steps bring
// their logits to the host, as all do otherwise.
struct ModelOptions {
  int64_t guesses = 0;                            // of a request in a step, at most
  decoder::Choice most = decoder::Choice::kHost;  // of what programs choose
  // Makes the guesses behind each step, whose predicted time then has those of its own steps; null: nobody
  // does here. It outlives the worker.
  decoder::Engine* draft = nullptr;
  bool prefix_caching = false;  // blocks may be another request's that computed the same tokens
};
class ModelWorker final : public Worker {
 public:
  ModelWorker(decoder::Engine& engine, std::shared_ptr<const serving::StepTimes> times,
              serving::HostTimes host, const ModelOptions& options = {});

  serving::Outcome run(const serving::Step& step) override;
  int32_t vocabulary() const override { return static_cast<int32_t>(engine_.config().vocabulary); }
  int32_t adapters() const override { return static_cast<int32_t>(engine_.adapters()); }
  bool has_logits() const override { return true; }
  bool proposes() const override { return draft_.has_value(); }
  bool prepare_one() override;
  int64_t programs() const override;
  double compile_seconds() const override;

 private:
  // An entry, and what it gives.
  struct Row {
    const serving::StepEntry* entry;
    std::vector<decoder::SampledToken>* made;
  };
  serving::Ps run_entries(std::span<const Row> entries);
  decoder::Choice choice_of(std::span<const Row> entries) const;
  void keep_features(const serving::StepEntry& entry, const decoder::StepResult& result, size_t first);
  // Those that a draft reads of tokens whose keys came from the prefix cache lie beside them, by block.
  void find_features(const serving::StepEntry& entry);
  void keep_by_block(const serving::StepEntry& entry, std::span<const std::byte> features);
  serving::Ps propose(std::span<const Row> entries);

  decoder::Engine& engine_;
  std::shared_ptr<const serving::StepTimes> times_;
  serving::HostTimes host_;
  ModelOptions options_;
  ProgramTimes program_times_;
  struct Draft {
    decoder::DraftModel model;
    ProgramTimes times;
  };
  std::optional<Draft> draft_;
  std::unordered_map<serving::BlockId, std::vector<std::byte>> features_of_blocks_;
  std::vector<std::pair<ProgramTimes*, decoder::Bucket>> to_prepare_;  // the last comes first
};

// Computes nothing: a token is drawn with the request's seed from `choices`, or from those that its grammar
// allows, where the end comes as soon as it may.
class DrawingWorker final : public Worker {
 public:
  // `choices`: not empty, each below `vocabulary`.
  DrawingWorker(int32_t vocabulary, std::vector<int32_t> choices,
                std::shared_ptr<const serving::StepTimes> times, serving::HostTimes host);

  serving::Outcome run(const serving::Step& step) override;
  int32_t vocabulary() const override { return vocabulary_; }
  bool has_logits() const override { return false; }

 private:
  int32_t draw(Job& job) const;

  int32_t vocabulary_;
  std::vector<int32_t> choices_;
  std::shared_ptr<const serving::StepTimes> times_;
  serving::HostTimes host_;
};

}  // namespace opentrn::server
