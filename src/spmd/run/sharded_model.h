// A model of any format on several simulated NeuronCores: cut as a user's annotations say
// (spmd/annotations.h), run on whole arrays, and timed on the fabric of the machine that the target names. A
// program of one device (spmd/one_device.h) runs as it stands.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "compiler/options.h"
#include "graph/literal.h"
#include "graph/module.h"
#include "runtime/settings.h"
#include "spmd/annotations.h"
#include "spmd/partition.h"
#include "spmd/run/cost.h"
#include "spmd/run/parallel.h"
#include "spmd/run/parts.h"
#include "traffic/traffic.h"

namespace opentrn::spmd {

// What the devices of a mesh are: of an instance or UltraServer that the target names, else of the smallest
// machine of its generation that holds them; NEURON_LOGICAL_NC_CONFIG says how many physical cores a logical
// one has. Input fault "spmd.devices" where the mesh does not fit.
// `physical_cores`: in place of that variable.
runtime::Settings devices_of(const std::string& target, const Mesh& mesh,
                             std::optional<int> physical_cores = {});

// Any number of threads.
class ShardedModel {
 public:
  struct Port {
    std::string name;
    graph::Type type;  // of the whole array
    Sharding sharding;
  };

  // Faults of annotations, of partition() and of the compiler; an op without a device kernel is one under
  // options.strict, else the reference evaluator runs its part of the program on each device.
  ShardedModel(const graph::Module& module, const Mesh& mesh, std::span<const Annotation> annotations,
               compiler::Options options, const runtime::Settings& settings);

  // What a file keeps of a model (sharded_file.h): nothing is compiled when it is loaded.
  struct Compiled {
    std::string name, choice;
    SpmdModule local;
    std::vector<Port> inputs, outputs, weights;
    std::vector<size_t> control_inputs;
    Parts parts;
    bool rounds_stochastically = false;
    bool is_of_one_device = false;  // the program came with collectives of its own (one_device.h)
  };
  // Input fault "model_file" where the parts are not those of the program.
  ShardedModel(const Mesh& mesh, const runtime::Settings& settings, Compiled compiled);
  const Compiled& compiled() const { return compiled_; }

  // The same with cuts of the values of compiler::inline_calls(module, module.entry()). `choice`: what chose
  // them.
  ShardedModel(const graph::Module& module, const Mesh& mesh, Stated cuts, compiler::Options options,
               const runtime::Settings& settings, std::string choice);

  // The same of a program that is cut already: `local`, over the axes of the mesh.
  ShardedModel(const graph::Module& module, const Mesh& mesh, SpmdModule local, compiler::Options options,
               const runtime::Settings& settings, std::string choice);

  // Where OpenTrn chose the cuts (fastest_cuts.h, both_cores.h), which they are; else empty.
  const std::string& choice() const { return compiled_.choice; }
  const std::vector<Port>& inputs() const { return compiled_.inputs; }
  const std::vector<Port>& outputs() const { return compiled_.outputs; }
  // Constants that the devices hold parts of.
  const std::vector<Port>& weights() const { return compiled_.weights; }
  // Numbers of the inputs that decide what is computed: which branch is taken, how often a loop runs.
  const std::vector<size_t>& control_inputs() const { return compiled_.control_inputs; }
  const Mesh& mesh() const { return grid_.mesh(); }
  int64_t devices() const { return grid_.devices(); }
  const runtime::Settings& settings() const { return settings_; }
  // Why parts of it do not run on a device; empty when all do.
  const std::string& host_reason() const { return program_->host_reason(); }

  // What of it is stated in 64 bits and computed in 32, in words (compiler/narrowing.h); empty where a file
  // was loaded.
  const std::string& narrowing() const { return narrowing_; }
  // Of stochastic rounding, where it was compiled for that: runs are counted anew. No call goes on meanwhile.
  void set_rounding_seed(uint64_t seed);
  // Whole arrays in and out. Input faults: "spmd.input" for another number or type, "spmd.result" where
  // devices give different values for a part of a result that they all have, of a program of one device.
  std::vector<graph::Literal> run(std::span<const graph::Literal> arguments) const;

  // Of one run, on one device.
  Cost cost() const { return cost_of(*program_, settings_); }
  std::optional<traffic::Traffic> traffic() const;
  // Collectives of one run as the program has them: "all_reduce", how many, bytes that a device brings to
  // them.
  struct CollectiveSum {
    std::string name;
    int64_t count = 0, bytes = 0;
  };
  std::vector<CollectiveSum> collectives() const;
  // Bytes of what one device holds before it begins: arguments, and its parts of weights.
  int64_t argument_bytes() const;
  // The same where a run takes most.
  int64_t bytes_at_most() const { return program_->bytes_at_most(); }
  // What each device runs, as StableHLO; constants of many elements are left out.
  std::string local_text() const;

  ShardedModel(const ShardedModel&) = delete;
  ShardedModel& operator=(const ShardedModel&) = delete;

 private:
  void cut(const graph::Module& module, const graph::Function& flat, const Stated& stated);
  void compile(const graph::Module& module, const graph::Function& flat, compiler::Options options);
  void name_ports(const graph::Module& module, const graph::Function& flat);
  // The devices' parts of weights, and their program with what `parts` has or, without, the compiler gives.
  void build(const compiler::Options& options, uint64_t rounding_seed = 0);
  void check_copies(const Port& result, const graph::Literal& whole,
                    std::span<const graph::Literal> parts) const;

  AxisGrid grid_;
  runtime::Settings settings_;
  Compiled compiled_;
  std::vector<std::vector<graph::Literal>> held_;  // by device: its parts of the weights
  std::string narrowing_;
  std::unique_ptr<ParallelProgram> program_;
};

}  // namespace opentrn::spmd
