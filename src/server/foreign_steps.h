// Steps of somebody else's scheduler (vLLM's) on an engine: it names requests, their blocks and how many
// tokens of each to compute; here is what a request has, which programs run and which tokens follow.
//
// A step has two calls, run() and sample(): masks of grammars come between them.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "decoder/engine.h"
#include "server/job.h"
#include "server/program_times.h"
#include "serving/step.h"

namespace opentrn::server {

// Sampling parameters as vLLM states them: a temperature below its bound takes the likeliest token, a
// negative top_k all tokens, and -1 log probabilities are those of all tokens.
decoder::SamplingParams sampling_of_vllm(decoder::SamplingParams stated, std::optional<int32_t> logprobs,
                                         int64_t vocabulary);

class ForeignSteps {
 public:
  // `engine`, whose pool has the scheduler's blocks, outlives it. `most`: what programs choose at most.
  // `seed`: of requests without one, from which each has numbers of its own.
  ForeignSteps(decoder::Engine& engine, decoder::Choice most, uint64_t seed)
      : engine_(engine), most_(most), seed_(seed), program_times_(engine) {}
  ForeignSteps(const ForeignSteps&) = delete;
  ForeignSteps& operator=(const ForeignSteps&) = delete;

  // A new request. A mask in `params` holds for all of its tokens. Times are in seconds, by the caller's
  // clock.
  void add(const std::string& name, JobParams params, std::optional<uint64_t> seed, double arrival_s);
  bool has(const std::string& name) const { return requests_.contains(name); }
  // Its blocks from here on, in order, and how many of its tokens are computed in them: after it was
  // preempted, or with more than before.
  void place(const std::string& name, std::vector<int32_t> blocks, int32_t computed);
  void grow(const std::string& name, std::span<const int32_t> blocks, int32_t computed);

  struct Ended {
    int32_t prompt_tokens = 0, output_tokens = 0;
    double arrival_s = 0, first_s = 0;  // first_s: when its first token came
    double own_s = 0;                   // predicted, of the steps that it was part of
  };
  // Nothing for a request that is unknown, or has no token yet.
  std::optional<Ended> end(const std::string& name);

  struct Ran {
    double predicted_s = 0;
    int64_t prefill_padding = 0, decode_padding = 0;
  };
  // Computes so many tokens of each request. Neighbours of one token each share a program; a part of a prompt
  // has its own, with logits of every token where its log probabilities are asked for.
  Ran run(std::span<const std::pair<std::string, int32_t>> entries);

  struct Sample {
    std::string name;
    decoder::SampledToken made;
  };
  // A token for each request of the step that has no more of its prompt to come. masks: of grammars, which
  // hold beside a request's own. now_s: after the step.
  std::vector<Sample> sample(const std::map<std::string, std::vector<uint32_t>>& masks, double now_s);

  // What the model says of a request's prompt, once all of it is computed; nothing before, and once it was
  // told. Input fault where its logits were not finite.
  std::optional<std::vector<decoder::SampledToken>> prompt_scores(const std::string& name);

  int64_t vocabulary() const { return engine_.config().vocabulary; }
  // Compiles the program of a request's first step of so many tokens.
  void prepare(int64_t tokens);
  // By name, of how many tokens each wants log probabilities; -1: none.
  std::map<std::string, int32_t> logprobs() const;
  int64_t programs() const { return program_times_.programs(); }
  double compile_seconds() const { return program_times_.compile_seconds(); }

 private:
  struct Held {
    std::string name;
    Job job;
    double arrival_s = 0, own_s = 0;
    std::optional<double> first_s;
  };
  // What a step gave, until sample(): logits, or a token that its program chose.
  struct Pending {
    Held* held;
    std::vector<float> logits;
    int32_t token = -1;
  };
  using Group = std::vector<std::pair<Held*, serving::StepEntry>>;

  Held& known(const std::string& name);
  void run_group(const Group& group, Ran& ran);

  decoder::Engine& engine_;
  decoder::Choice most_;
  uint64_t seed_;
  uint64_t added_ = 0;
  ProgramTimes program_times_;
  std::map<std::string, Held> requests_;
  std::vector<Pending> pending_;
};

}  // namespace opentrn::server
