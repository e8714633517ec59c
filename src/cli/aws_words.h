// The words of two programs of AWS's whose command lines are not CLI11's, and what one of them prints:
// neuronx-cc, and neuron_parallel_compile. Their options stand in AWS's references; what Python does with
// them is in opentrn/tools.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace opentrn::cli {

struct NeuronxCc {
  std::string command;  // "help", "--version", "list-operators" or "compile"; the rest is of the last
  std::string model;
  std::string target;
  std::string output = "file.neff";
  std::string logfile = "log-neuron-cc.txt";
  int level = 30;                  // of Python's logging
  std::vector<std::string> flags;  // for the compiler (compiler/flags.h)
};
// Input fault "tools.neuronx_cc" for what is no command line of it; not modelled for a step of AWS's
// compiler.
NeuronxCc neuronx_cc(std::span<const std::string> words);

struct ParallelCompile {
  std::string
      command;  // "collect", "compile", "clean", "clear-locks", "analyze", "help", or empty: both first
  std::string output = "model_analysis_result";
  int verbosity = 2;
  std::vector<std::string> program;
};
// Options stand before the program. Input faults are "tools.parallel_compile".
ParallelCompile parallel_compile(std::span<const std::string> words);
// Of NEURON_PARALLEL_COMPILE_MAX_RETRIES; none where it is not set.
int parallel_compile_retries(std::string_view text);

// What came of a graph.
struct CompiledGraph {
  std::string path;
  std::string why;  // it failed; empty: it did not
  int retries = 0;
};
struct ParallelSummary {
  std::string json;
  std::vector<std::string> totals;    // sentences
  std::vector<std::string> failures;  // "PATH: why"
};
ParallelSummary parallel_summary(std::span<const CompiledGraph> graphs);

// The ops of a graph, as JSON of opentrn's coverage, or why they are not known.
struct AnalysedGraph {
  std::string path;
  std::string rows;
  std::string error;
};
struct ParallelAnalysis {
  std::string json;
  std::vector<std::string> unsupported;  // ops that no device kernel takes, by name
  bool complete = true;                  // there are none, and every graph was read
};
ParallelAnalysis parallel_analysis(std::span<const AnalysedGraph> graphs, int verbosity);

}  // namespace opentrn::cli
