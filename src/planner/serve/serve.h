// Plans of inference: how many ranks serve a copy of a model, how many sequences they decode at once, how
// long a request waits, and what a machine gives.
//
// A copy prefills one prompt at a time and decodes all of its sequences together; a prompt goes first. So of
// a full batch each request gives its tokens while the others are prefilled in between.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "planner/layer_times.h"
#include "planner/machine.h"

namespace opentrn::planner {

struct ServeJob {
  Model model;
  double prompt = 0, output = 0;           // tokens of a request
  double longest = 0;                      // tokens that a request may have; their keys and values are held
  Precision precision = Precision::kBf16;  // of the weights; keys and values are bfloat16
  std::optional<double> ttft_s = std::nullopt, tpot_s = std::nullopt;  // limits
};

struct ServeLayout {
  int tp = 1;     // ranks of a copy
  int batch = 1;  // sequences that it decodes at once
};

// Bytes of a rank.
struct ServeMemory {
  double weights = 0, kv = 0, working = 0, runtime = 0;
  double total() const { return weights + kv + working + runtime; }
};

// Seconds of one step, by what it waits for.
struct ServeStepTime {
  double layers = 0;  // blocks: of decode, mostly their weights and keys and values on the way
  double output = 0;
  double collectives = 0;  // two all-reduces a block
  double fixed = 0;        // of the program: launches, the host
  double total() const { return layers + output + collectives + fixed; }
};

struct ServeEstimate {
  ServeLayout layout;
  int64_t copies = 0;             // on the machine
  ServeStepTime prefill, decode;  // alone
  double ttft_s = 0, tpot_s = 0;  // of a full batch
  double tokens_s = 0;            // output tokens of all copies
  double requests_s = 0;
  ServeMemory memory;
  bool fits = false, meets = false;  // the limits
  bool compiled = false;             // layers are a LayerSource's, not curves
  std::string_view bound_by;  // a token: "prefills" of others where they take most of it, else the largest
                              // part of a decode step: "weights", "keys", "compute", "collectives" or "fixed"
};

// What a serving program adds: planner.serve.<name> of planner.toml.
struct ServeProgram {
  std::string name;
  bool reads_buckets = false;      // attention reads the power of two that holds the context, not the context
  double step_s = 0, block_s = 0;  // fixed times
  double compute_efficiency = 1;   // of prefill
  double score_passes = 0;         // of a prompt's scores through memory; 0: fused attention
  double memory_efficiency = 1;    // of decode, against element-wise kernels' rate
  std::vector<std::string> calibrated_on;
  double prefill_low = 1, prefill_high = 1, decode_low = 1, decode_high = 1;  // measured over predicted
};
ServeProgram serve_program_of(const arch::Tables& tables, Kind kind);

// All-reduces on a machine: asked of the collectives on a Neuron instance's links, of the rings of
// communication.h elsewhere. Keeps what it was asked.
class AllReduces {
 public:
  AllReduces(const arch::Tables& tables, const Machine& machine);
  ~AllReduces();
  double seconds(int ranks, double bytes);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// `source`: of layers, where given and where it has them; else curves. `why`: of a source that has none.
ServeStepTime serve_step(const ServeJob& job, const Machine& machine, const ServeProgram& program, int tp,
                         const ServeStep& step, AllReduces& reduces, LayerSource* source, std::string& why);
ServeEstimate serve(const ServeJob& job, const Machine& machine, const ServeProgram& program,
                    const ServeLayout& layout, AllReduces& reduces, LayerSource* source, std::string& why);

struct ServeSearch {
  std::optional<int> tp, batch;  // fixed
  int batch_most = 512;
  size_t top = 10;
};
struct ServeResult {
  // That fit, meet the limits, and that no other beats in both throughput and time per token; highest
  // throughput first.
  std::vector<ServeEstimate> best;
  std::optional<ServeEstimate> nearest;   // of those that fit: the one that misses the limits by least
  std::optional<ServeEstimate> smallest;  // the one that needs the least memory, where none fits
  int64_t evaluated = 0;
};
ServeResult serve_search(const ServeJob& job, const Machine& machine, const ServeProgram& program,
                         const ServeSearch& search, AllReduces& reduces);

// Keys and values of a token in all layers, of one rank of a copy, in bytes.
double kv_bytes_per_token(const Model& model, int tp);

}  // namespace opentrn::planner
