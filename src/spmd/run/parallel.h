// One program that several devices run at once, each on its own values: what Shardy makes of a program, and
// any program that calls the host.
//
// The program is cut where devices meet (collectives) or the host takes part (callbacks). What lies between
// is compiled for the device and runs there; loops and branches around such ops are led by the host. The
// values of a collective are made by the reference evaluator's collectives, in the devices' element types.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "collectives/request.h"
#include "graph/eval/evaluate.h"
#include "graph/eval/process.h"
#include "graph/module.h"
#include "runtime/model.h"
#include "spmd/run/device_program.h"
#include "spmd/run/host_calls.h"
#include "spmd/run/rendezvous.h"

namespace opentrn::spmd {

class ParallelProgram {
 public:
  using Values = std::vector<graph::eval::RuntimeValue>;

  // `function` of `module` has no calls. Parts without a device kernel run on the reference evaluator.
  ParallelProgram(const graph::Module& module, graph::Function function, int64_t devices,
                  const DeviceOptions& options);

  // Whether a function of one device has ops that the host takes part in.
  static bool is_needed(const graph::Function& function, const HostCalls& host);

  const std::vector<graph::Type>& argument_types() const { return argument_types_; }
  int64_t devices() const { return static_cast<int64_t>(devices_); }
  // By device. `rendezvous`: where several processes run the program, each its own devices; values of the
  // others' are anything of the same types, before and after.
  std::vector<Values> run(const std::vector<Values>& arguments, Rendezvous* rendezvous = nullptr) const;

  // The first part that the evaluator runs for want of a device kernel, and why; empty when there is none.
  const std::string& host_reason() const { return host_reason_; }
  // What takes time on a device, in the order of the program: compiled parts, and collectives among devices.
  struct Collective {
    collectives::Kind kind;
    int64_t bytes;  // that a device brings
    // Of devices; they meet at once. Of a permute: pairs.
    std::vector<graph::eval::ProcessGroup> groups;
    std::string name;  // "all_reduce"
    // Physical cores of each member: 2 where logical cores meet, of which each device is one core
    // (spmd/core_pairs.h). Groups and bytes are then those of logical cores.
    int cores = 1;
    bool is_inside_logical_core = false;  // its two cores exchange, through the memory that both read
    friend auto operator<=>(const Collective&, const Collective&) = default;
  };
  // One that has neither program, collective nor regions is done by the host.
  struct Stage {
    const DeviceProgram* program = nullptr;
    std::optional<Collective> collective = std::nullopt;
    // In a run of the program: so far, and before the first as its loops say. Of a loop whose trips depend on
    // values, and what is in it, nullopt until it has run; a branch counts as taken.
    std::optional<double> times = 1;
    std::vector<graph::ValueId> reads, writes;  // of a program: in the order of its ports
    // The devices are the cores of logical ones, of which each runs the program once (spmd/core_pairs.h).
    bool once_of_logical_core = false;
    std::vector<std::vector<Stage>> regions;  // of a loop or branch that the host leads
    // Of a collective: the stream that the program says, and the shape of the weight that it moves, or
    // nothing (weight_collectives.h).
    std::optional<int> stream = std::nullopt;
    std::string weight = {};
  };
  std::vector<Stage> stages() const;
  // Bytes of HBM of one device where a run takes most: arguments, what a later stage reads, and what a part
  // keeps for itself. An argument stays to the end unless its caller gives it up (`tf.aliasing_output`,
  // `jax.buffer_donor`).
  int64_t bytes_at_most() const;

  ParallelProgram(const ParallelProgram&) = delete;
  ParallelProgram& operator=(const ParallelProgram&) = delete;

 private:
  struct Sequence;
  // Ops that run as one, on a device or by the evaluator; every device by itself unless `together`.
  struct Step {
    std::vector<graph::OpId> ops;
    std::vector<graph::ValueId> inputs, outputs;
    graph::Function function{"main"};
    std::vector<graph::Type> types;  // of the outputs
    std::unique_ptr<DeviceProgram> model;
    bool together = false;
    bool once_of_logical_core = false;
    std::vector<std::unique_ptr<Sequence>> regions;  // of the loop or branch that it is; else none
    std::optional<int64_t> trips;                    // of a loop, where they do not depend on values
    mutable std::atomic<int64_t> runs = 0;
    mutable std::atomic<bool> checked = false;
  };
  struct Sequence {
    std::vector<std::unique_ptr<Step>> steps;
    std::vector<graph::ValueId> arguments, returned;
  };
  // What devices hold: by device, by value.
  struct Environment {
    std::vector<std::vector<std::optional<graph::eval::RuntimeValue>>> values;
    Rendezvous* rendezvous = nullptr;
  };

  // Where an op of a block runs: ops that meet, and then those of devices, phase after phase.
  struct Place {
    size_t phase = 0;
    bool on_device = false;
  };
  std::vector<std::pair<graph::OpId, Place>> places(graph::BlockId block) const;
  void read_past_barriers(const std::vector<std::pair<graph::OpId, Place>>& placed, graph::BlockId block);
  std::unique_ptr<Sequence> plan(graph::BlockId block, const DeviceOptions& options);
  std::unique_ptr<Step> make_step(std::vector<graph::OpId> ops, std::span<const graph::ValueId> read,
                                  const Sequence& sequence, const DeviceOptions& options, bool together);
  std::set<graph::ValueId> remade(graph::BlockId block) const;
  std::vector<graph::OpId> with_remade(std::vector<graph::OpId> ops, graph::BlockId block,
                                       const std::set<graph::ValueId>& remade) const;
  // Marks what the step may update where it lies: values that nobody reads after it.
  void donate(Step& step, const Sequence& sequence) const;
  std::optional<size_t> updated_by(const Step& step, graph::ValueId output,
                                   const std::function<bool(graph::ValueId)>& may) const;
  bool is_given_up(size_t argument) const;  // by the caller (`tf.aliasing_output`, `jax.buffer_donor`)
  graph::Module alone(const Step& step) const;
  void compile(Step& step, const DeviceOptions& options);

  std::vector<Values> run(const Sequence& sequence, Environment& environment,
                          const std::vector<Values>& arguments) const;
  // `times`: of the sequence in a run of the program, before there was one.
  std::vector<Stage> stages(const Sequence& sequence, std::optional<double> times) const;
  std::optional<Collective> collective(const Step& step) const;
  int64_t bytes_at_most(const Sequence& sequence, const std::set<graph::ValueId>& kept) const;
  int64_t bytes_of(const Step& step) const;  // while it runs, its inputs and outputs apart
  void run(const Step& step, Environment& environment) const;
  std::vector<Values> run_devices(const Step& step, const std::vector<Values>& inputs,
                                  const Rendezvous* rendezvous) const;
  size_t twin_of(const Step& step, const std::vector<Values>& inputs, size_t device,
                 const Rendezvous* rendezvous) const;
  std::vector<Values> run_together(const Step& step, std::vector<Values> inputs,
                                   Rendezvous* rendezvous) const;
  std::vector<Values> evaluated_together(const Step& step, const std::vector<Values>& inputs) const;
  std::optional<std::vector<Values>> run_loop(const Step& step, Environment& environment) const;
  std::optional<std::vector<Values>> run_branch(const Step& step, Environment& environment) const;
  graph::eval::RuntimeValue value(const Environment& environment, size_t device, graph::ValueId id) const;
  std::vector<Values> values(const Environment& environment, std::span<const graph::ValueId> ids) const;

  graph::Module module_;
  graph::Function function_;
  std::vector<graph::Type> argument_types_;
  size_t devices_;
  bool check_;
  HostCalls host_;
  std::unique_ptr<Sequence> body_;
  std::set<graph::ValueId> remade_;  // of all blocks
  std::string host_reason_;
  mutable std::atomic<int64_t> runs_ = 0;  // of all devices together
};

// An op in which `devices` devices exchange arrays; nullopt of any other op.
std::optional<ParallelProgram::Collective> collective_of(const graph::Function& function, const graph::Op& op,
                                                         int64_t devices);

// Visits every stage, those of regions after their own.
template <typename Visit>
void for_stages(const std::vector<ParallelProgram::Stage>& stages, Visit&& visit) {
  for (const ParallelProgram::Stage& stage : stages) {
    visit(stage);
    for (const auto& region : stage.regions) for_stages(region, visit);
  }
}

}  // namespace opentrn::spmd
