// A compiled model's run, seen the way its author sees it: by the model's own layers.
//
//   const profile::ModelProfile model = profile::analyse_model(trace, executable, origin, tables);
//
// Layers are the framework's names of ops, cut at '/' ("encoder/layer.0/attention/MatMul"); an op without a
// name is called by its place in the file. Three times are told apart: critical time, of which every
// nanosecond of the run belongs to one layer; active time, during which at least one instruction or transfer
// of the layer was under way (layers overlap); busy time of engines. Utilisation is over active time.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "arch/tables.h"
#include "isa/executable.h"
#include "isa/origin.h"
#include "trace/trace.h"

namespace opentrn::profile {

struct Layer {
  std::string name;  // the part of the path below the parent
  double critical_ns = 0;
  double active_ns = 0;
  double tensor_flops = 0;  // done by the Tensor engine, without transposes
  double model_flops = 0;   // of the model's arithmetic, whoever does it
  int64_t hbm_bytes_read = 0;
  int64_t hbm_bytes_written = 0;
  int64_t intermediate_bytes = 0;  // of both: neither inputs, weights nor results
  int64_t moved_bytes = 0;         // copies, spills and write-backs
  int64_t transposes = 0;          // instructions
  int64_t instructions = 0;
  int64_t ops = 0;  // of the model, that became instructions
  std::array<double, trace::kResourceCount> bound_by_ns{};
  // Percent of the peak over active time.
  double mfu_percent = 0;
  double mbu_percent = 0;
  std::vector<Layer> children;  // in the order in which the program comes to them

  int64_t hbm_bytes() const { return hbm_bytes_read + hbm_bytes_written; }
  trace::Resource bound_by() const;
};

// Data movement that no op asked for, by the op that caused it.
struct Movement {
  std::string what;  // "transpose", "layout copy", "result copy", "spill", "write-back"
  uint32_t op = 0;   // index into Origin::ops
  int64_t instructions = 0;
  int64_t bytes = 0;  // written
  double busy_ns = 0;
  double critical_ns = 0;
};

// What a model has that no device kernel takes, and the host does (compiler/host_ops.h).
struct HostCall {
  uint32_t op = 0;         // index into Origin::ops
  int64_t bytes = 0;       // to the host and back; in a loop of one iteration
  double transfer_ns = 0;  // of these, at the rate of the table `runtime`; 0 where it does not say
};
struct HostWork {
  std::vector<HostCall> calls;
  double transfer_ns = 0;  // of all
};

// Bytes in use over time: a step function, thinned so that every peak stays.
struct MemoryCurve {
  isa::MemorySpace space = isa::MemorySpace::kSbuf;
  int64_t capacity_bytes = -1;  // -1 where the tables do not say
  int64_t peak_bytes = 0;
  double peak_ns = 0;
  std::vector<std::pair<double, int64_t>> steps;  // from this time on
};

// What serving the model on an instance gives, with one copy of the model per NeuronCore (of a model with
// kernels on two cores: per two), all busy.
struct Serving {
  std::string instance;
  std::string chip;
  int chips = 0;
  int cores = 0;
  bool fits = true;             // every core's HBM tensors in the memory of its chip
  double inferences_per_s = 0;  // of all cores
  struct Rate {
    bool known = false;
    double usd_h = 0;
    double usd_per_million = 0;
  };
  Rate on_demand, reserved, capacity_block;
};

struct ModelProfile {
  Layer whole;                      // its children are the outermost layers
  std::vector<Movement> movements;  // most bytes first
  std::vector<MemoryCurve> memory;  // SBUF, PSUM, HBM
  std::vector<Serving> serving;     // by number of cores; add_serving()
  HostWork host;                    // none of it is in any other time
  double latency_ns = 0;            // of one inference on one core, launch included
  double launch_ns = 0;             // part of it; 0 where the tables do not say
  double busy_latency_ns = 0;       // the same while all cores of the HBM stack run the model; add_serving()
  int64_t kernels = 0;
  int64_t ops = 0;
  std::vector<isa::ModelOp> op_table;
  double tensor_peak_flops_per_ns = 0;  // of all cores
  double hbm_peak_bytes_per_ns = 0;     // of the stack they share
};

// `executable` is what was timed, compiled from the program of `origin`; of a model with kernels on two
// cores, core 0's with the whole program, which `trace` is of.
ModelProfile analyse_model(const trace::Trace& trace, const isa::Executable& executable,
                           const isa::Origin& origin, const arch::Tables& tables);

// `beside_copies_ns`: of the run with copies of the model on all cores of the HBM stack, without its launch
// (sim::timing::beside_copies_ns); 0 where the model has a stack of its own.
void add_serving(ModelProfile& model, const isa::Executable& executable, const arch::Tables& tables,
                 double beside_copies_ns, int cores_used);

// -- the parts
std::vector<std::string> layer_path(const isa::ModelOp& op);
std::vector<MemoryCurve> memory_over_time(const trace::Trace& trace, const isa::Executable& executable,
                                          const arch::Tables& tables);
// That an instruction names, loops once.
int64_t hbm_bytes(const isa::Program& program, const isa::Instruction& in);
HostWork host_work(const isa::Program& program, const isa::Origin& origin, const arch::Tables& tables);
// One core's equal share of its chip's HBM, of the smallest chip of the generation; -1 where no table says.
int64_t hbm_bytes_per_core(const arch::Tables& tables, Generation generation);
// Every instance and UltraServer of the generation. `latency_ns`: of one inference, end to end, on
// `cores_used` cores while all others are busy, too; `hbm_bytes`: what one core keeps in HBM.
std::vector<Serving> serving(const arch::Tables& tables, Generation generation, double latency_ns,
                             int64_t hbm_bytes, int cores_used = 1);

}  // namespace opentrn::profile
