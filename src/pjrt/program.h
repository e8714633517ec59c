// A module made ready to run: compiled for the device, or, where an op has no device kernel, held by the
// reference evaluator on the host.
//
// A program over several devices runs on each (src/spmd/run/parallel.h), as Shardy spreads it; where Shardy
// cannot, or is not there, as our own partitioner does (src/spmd/partition.h). What neither takes runs as a
// whole: parts of arrays are joined, one device computes, and results are cut; regions that devices run each
// for themselves (src/spmd/run/manual.h) do so.
#pragma once

#include <atomic>
#include <chrono>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/literal.h"
#include "graph/module.h"
#include "pjrt/compile_options.h"
#include "pjrt/layouts.h"
#include "runtime/model.h"
#include "runtime/settings.h"
#include "spmd/partition.h"
#include "spmd/run/both_cores.h"
#include "spmd/run/cost.h"
#include "spmd/run/manual.h"
#include "spmd/run/parallel.h"
#include "spmd/run/parts.h"
#include "spmd/sharding.h"
#include "spmd/shardy.h"

namespace opentrn::pjrt {

using runtime::Settings;
using spmd::DeviceOptions;
using spmd::DeviceProgram;
using spmd::ManualComputation;
using spmd::ParallelProgram;
using spmd::Partition;
using spmd::Parts;
using spmd::Rendezvous;
using spmd::Sharding;
using spmd::Shardy;

class Program {
 public:
  // `code`: a program in any form that import/load.h takes. Faults of the model and of the compiler pass;
  // a missing kernel is one only under settings.strict. `shardy` is asked about programs of several devices.
  // `parts`: of a program that was compiled before.
  Program(std::string code, std::string options, const Settings& settings, Shardy& shardy, Parts parts = {});

  const std::string& name() const { return name_; }
  const CompileOptions& options() const { return options_; }
  // Under which it was compiled.
  const Settings& settings() const { return settings_; }
  // Of one device.
  const std::vector<graph::Type>& inputs() const { return inputs_; }
  const std::vector<graph::Type>& outputs() const { return outputs_; }
  const std::vector<Sharding>& input_shardings() const { return input_shardings_; }
  const std::vector<Sharding>& output_shardings() const { return output_shardings_; }
  // In which arguments lie, and results will.
  const Layouts& layouts() const { return layouts_; }
  // Arguments whose buffers the program may take over, and which are deleted by a call.
  const std::vector<size_t>& donated() const { return donated_; }
  // 16 hexadecimal digits of the program, the options and the target.
  const std::string& fingerprint() const { return fingerprint_; }
  // Options of the compiler that were given and change nothing.
  const std::vector<std::string>& flags_without_effect() const { return flags_without_effect_; }
  // Why the evaluator runs it; empty when a device does.
  const std::string& host_reason() const { return host_reason_; }
  // What of it is stated in 64 bits and computed in 32, in words; empty where that is not to be told.
  const std::string& narrowing() const { return narrowing_; }
  // Why one device computes for all of a program over several; empty when each does its part.
  const std::string& whole_reason() const { return whole_reason_; }
  // The program as one for the device; null where it is in parts, or not on a device.
  const DeviceProgram* device_program() const { return model_.get(); }
  const ParallelProgram* parallel() const { return parallel_.get(); }
  // What the devices of parallel() are: those of the program, or, where both physical cores of a logical one
  // compute, these cores.
  const Settings& parallel_settings() const { return both_cores_ ? core_settings_ : settings_; }
  // By which of cut_ways.h both cores of a logical core compute; empty where one does, and then why.
  std::string both_cores_way() const { return both_cores_ ? both_cores_->way() : std::string(); }
  const std::string& one_core_reason() const { return one_core_reason_; }
  // Of one run on one device, by the timing model.
  spmd::Cost cost() const;

  // Values by device. Any number of threads. `rendezvous`: where several processes run the program; each
  // gives arguments of its own devices, and has right results of those.
  std::vector<std::vector<graph::Literal>> run(std::vector<std::vector<graph::Literal>> arguments,
                                               Rendezvous* rendezvous = nullptr) const;
  // A run took so long on this host.
  void took(std::chrono::nanoseconds time) const { last_run_.store(time.count(), std::memory_order_relaxed); }
  // Whether waking another thread for a run would be a good part of it, to judge by the last run: a program
  // for the device that calls nothing on the host.
  bool is_short() const;
  // The same in all processes that compile it, whose options name different devices.
  const std::string& code_digest() const { return code_digest_; }
  // How many calls of several processes there were, this one with them.
  int64_t next_call() const { return ++calls_; }

  // What one device runs, as StableHLO in MLIR's text; all devices together where Shardy has no such program.
  std::string local_text() const;
  // Everything that makes it again: compiled, where the build and the settings are the same then, else to be
  // compiled.
  std::string serialised() const;
  static std::shared_ptr<const Program> deserialised(std::string_view bytes, const Settings& settings,
                                                     Shardy& shardy);

  Program(const Program&) = delete;  // manual_ refers to it
  Program& operator=(const Program&) = delete;

 private:
  void spread(Shardy& shardy);
  void spread_results();
  bool output_is_stated(size_t i) const;
  int64_t donated_bytes() const;
  DeviceOptions device_options(const Settings& settings);
  void compile(const Settings& settings);
  bool compile_parallel(const DeviceOptions& options);
  void make_parallel(const graph::Module& module, graph::Function function, const DeviceOptions& options);
  bool cut_over_cores(const graph::Module& module, const graph::Function& function,
                      const DeviceOptions& options);
  bool compile_by_own_partition(const DeviceOptions& options);
  spmd::SpmdModule own_partition() const;
  std::vector<std::vector<graph::Literal>> run_on_each(std::vector<std::vector<graph::Literal>> arguments,
                                                       Rendezvous* rendezvous) const;
  std::vector<std::vector<graph::Literal>> run_on_both_cores(
      const std::vector<std::vector<graph::Literal>>& arguments, Rendezvous* rendezvous) const;
  std::vector<graph::Literal> run_as_laid_out(std::span<const graph::Literal> arguments) const;
  std::vector<graph::Literal> run_whole(std::span<const graph::Literal> arguments) const;
  std::vector<graph::Literal> evaluate(std::span<const graph::Literal> arguments) const;

  std::string code_, options_bytes_, compiled_under_;
  Settings settings_;
  CompileOptions options_;
  Parts parts_;
  graph::Module module_;
  std::string name_, fingerprint_, code_digest_, host_reason_, narrowing_, whole_reason_;
  std::vector<graph::Type> whole_inputs_, whole_outputs_, inputs_, outputs_;
  std::vector<Sharding> input_shardings_, output_shardings_;
  Layouts layouts_;
  bool row_major_ = true;                    // all of layouts_
  std::vector<graph::Type> memory_outputs_;  // whole_outputs_ in their layouts
  std::vector<size_t> donated_;
  std::vector<std::string> flags_without_effect_;
  std::optional<Partition> partition_;
  std::unique_ptr<DeviceProgram> model_;
  std::unique_ptr<ParallelProgram> parallel_;  // of all devices, or of one with calls of the host
  std::optional<spmd::BothCores> both_cores_;  // of which parallel_ is the program
  Settings core_settings_;
  std::string one_core_reason_;
  bool check_ = false;
  mutable std::atomic<bool> checked_ = false;
  mutable std::atomic<int64_t> calls_ = 0;
  mutable std::atomic<int64_t> last_run_ = -1;     // nanoseconds; negative before the first
  bool on_each_ = false;                           // parallel_ takes the devices' own parts
  std::optional<graph::Module> own_local_;         // what our own partitioner made of module_
  std::vector<std::vector<graph::Literal>> held_;  // by device: constants that are arguments of parallel_
  std::optional<graph::Function> flat_;            // what the evaluator runs
  std::map<const graph::Op*, ManualComputation> manual_;  // of flat_
};

}  // namespace opentrn::pjrt
