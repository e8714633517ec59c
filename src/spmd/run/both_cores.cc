#include "spmd/run/both_cores.h"

#include <algorithm>
#include <unordered_map>

#include "arch/arch.h"
#include "arch/timing_table.h"
#include "base/fault.h"
#include "compiler/analysis/counted_loop.h"
#include "compiler/analysis/values.h"
#include "graph/verify.h"
#include "spmd/core_pairs.h"
#include "spmd/run/chain_cuts.h"
#include "spmd/run/cut_ways.h"
#include "spmd/run/step_time.h"
#include "spmd/sdy_ops.h"

namespace opentrn::spmd {

using graph::Attr;
using graph::Function;
using graph::Literal;
using graph::Op;
using graph::OpId;
using graph::OpKind;
using graph::Type;
using graph::ValueId;

namespace {

// Ours: what a cut has to promise.
constexpr double kLeastGainNs = 5000, kMostOfWhole = 0.9;
// ... and of what chains of products promise: the sums below say a few hundredths too much of them in
// programs of this length and more; in shorter ones the waits of their exchanges count (decision 0218).
constexpr double kMostOfChains = 0.94, kLongNs = 500'000;
// ... and above so much of what chains promise, only compiling both can say (decision 0310); so too where
// chains promise at least that much of the next best way, and a cut of one core (decision 0312), and one core
// of another way, in a program of that length (decision 0278).
constexpr double kNearChains = 0.7, kNearOther = 0.94, kNearOneCore = 0.85;
// Where an op waits for an exchange a part ends and another begins: loads and stores that nothing hides
// (ours).
constexpr double kStopNs = 2000;

std::string why_it_stays(const Function& function) {
  std::string why;
  for (size_t i = 0; i < function.value_count(); ++i)
    if (!function.type(ValueId{static_cast<uint32_t>(i)}).is_tensor())
      why = "it has values that are no arrays";
  graph::walk(function, function.body(), [&](OpId id) {
    const Op& op = function.op(id);
    if (is_manual_computation(op)) why = "it has a region that devices run each for themselves";
  });
  return why;
}

// Nanoseconds of one core, op by op: enough to compare cuts of one program.
class Estimate {
 public:
  // `is_cut`: over the cores, which then stop where the logical core runs an op once.
  Estimate(const Function& function, int64_t devices, const runtime::Settings& settings, bool is_cut)
      : function_(function), devices_(devices), settings_(settings), is_cut_(is_cut) {
    const arch::TimingTable& table = arch::timing(settings.generation);
    memory_bytes_ns_ = table.constant("hbm_bandwidth_gb_s");
    const arch::NeuronCore& core = arch::neuron_core(settings.generation);
    flops_ns_ = core.peak_tflops.at("bf16").value() * 1e3;
    elements_ns_ = kLanes * table.clock_ghz("vector");
  }

  double ns() const { return of(function_.body()); }

 private:
  static constexpr double kLanes = 128;        // of the Vector engine
  static constexpr double kFloat32Passes = 4;  // of the Tensor engine

  // Ops one after the other, and beside them exchanges, one after the other too, until an op reads what one
  // gives.
  double of(graph::BlockId block) const {
    double now = 0, exchanged = 0;
    std::unordered_map<ValueId, double> ends;  // of what exchanges give
    for (const OpId id : function_.block(block).ops) {
      const Op& op = function_.op(id);
      double ready = 0;
      for (const ValueId value : op.operands)
        if (const auto found = ends.find(value); found != ends.end()) ready = std::max(ready, found->second);
      const std::optional<double> exchange = exchange_ns(op);
      if (exchange) ready = exchanged = std::max({exchanged, now, ready}) + *exchange;
      if (exchange || compiler::is_view_op(op.kind)) {
        if (ready > 0)
          for (const ValueId result : op.results) ends[result] = ready;
        continue;
      }
      if (ready > 0) now = std::max(now, ready) + (is_end(op) ? 0 : kStopNs);
      now += of(op);
    }
    return now;
  }

  static bool is_end(const Op& op) { return op.results.empty(); }

  // nullopt of an op that is no exchange between the cores of one logical core.
  std::optional<double> exchange_ns(const Op& op) const {
    if (bytes_of_logical_core(op)) return std::nullopt;
    const auto exchange = collective_of(function_, op, devices_);
    if (!exchange) return std::nullopt;
    const auto cost = collective_cost(*exchange, devices_, settings_);
    return cost ? cost->us * 1e3 : 0;
  }

  double of(const Op& op) const {
    if (op.kind == OpKind::while_) {
      const auto trips = static_cast<double>(compiler::constant_trips(function_, op).value_or(1));
      return trips * (of(op.regions[0]) + of(op.regions[1]));
    }
    if (op.kind == OpKind::if_ || op.kind == OpKind::case_) {
      double most = 0;
      for (const graph::BlockId region : op.regions) most = std::max(most, of(region));
      return most;
    }
    if (bytes_of_logical_core(op)) return 0;  // the same however the cores share it out
    if (is_once_of_logical_core(op)) return elements_of(op) / elements_ns_ + (is_cut_ ? kStopNs : 0);
    if (op.kind == OpKind::constant_ || compiler::is_view_op(op.kind)) return 0;
    const double flops = flops_of(op);
    if (flops > 0) return std::max(flops / flops_ns_, bytes_of(op) / memory_bytes_ns_);
    if (op.kind == OpKind::gather_ || op.kind == OpKind::scatter_) return bytes_of(op) / memory_bytes_ns_;
    return elements_of(op) / elements_ns_;
  }

  double flops_of(const Op& op) const {
    double summed = 1;
    if (op.kind == OpKind::dot_general_) {
      for (const int64_t d : op.integers(Attr::lhs_contracting_dimensions))
        summed *= static_cast<double>(function_.type(op.operands[0]).dim(static_cast<int>(d)));
    } else if (op.kind == OpKind::dot_) {
      const Type& left = function_.type(op.operands[0]);
      summed = static_cast<double>(left.dim(left.rank() - 1));
    } else if (op.kind == OpKind::convolution_) {
      const Type& kernel = function_.type(op.operands[1]);
      const auto out = static_cast<int>(op.integer(Attr::kernel_output_feature_dimension));
      summed = static_cast<double>(kernel.element_count()) / static_cast<double>(kernel.dim(out));
    } else {
      return 0;
    }
    const Type& result = function_.type(op.results[0]);
    const double passes = graph::storage_bytes(result.element()) > 2 ? kFloat32Passes : 1;
    return 2 * summed * static_cast<double>(result.element_count()) * passes;
  }

  double bytes_of(const Op& op) const {
    double bytes = 0;
    for (const auto* values : {&op.operands, &op.results})
      for (const ValueId value : *values)
        if (const Type& type = function_.type(value); type.is_tensor())
          bytes += static_cast<double>(type.byte_count());
    return bytes;
  }

  double elements_of(const Op& op) const {
    int64_t most = 0;
    for (const auto* values : {&op.operands, &op.results})
      for (const ValueId value : *values)
        if (const Type& type = function_.type(value); type.is_tensor())
          most = std::max(most, type.element_count());
    return static_cast<double>(most);
  }

  const Function& function_;
  const int64_t devices_;
  const runtime::Settings& settings_;
  const bool is_cut_;
  double memory_bytes_ns_ = 0, flops_ns_ = 0, elements_ns_ = 0;
};

}  // namespace

runtime::Settings settings_of_cores(const runtime::Settings& settings) {
  runtime::Settings cores = settings;
  cores.physical_cores_per_core = 1;
  cores.cores.clear();
  for (const int core : settings.cores)
    for (int own = 0; own < settings.physical_cores_per_core; ++own)
      cores.cores.push_back(core * settings.physical_cores_per_core + own);
  return cores;
}

// What the sum says of chains of products, and of the best other way.
struct BothCores::Promise {
  BothCores cores;
  double ns;
};
struct BothCores::Promises {
  std::optional<Promise> chains, other;

  // `least`: what a cut has to be below; `whole`: of one core.
  std::optional<BothCores> best(double whole, double least, std::string& why, MayBeFaster* others) {
    double taken = least;
    std::optional<BothCores> best;
    if (chains && chains->ns < least) {
      taken = chains->ns >= kLongNs ? kMostOfChains * chains->ns : chains->ns;
      best = chains->cores;
    }
    const bool is_other = other && other->ns < taken;
    if (is_other) best = other->cores;
    if (best) why.clear();
    if (others) *others = beside(best.has_value(), is_other, whole);
    return best;
  }

 private:
  MayBeFaster beside(bool has_best, bool is_other, double whole) const {
    MayBeFaster made;
    const auto add = [&](const Promise& each) { made.cuts.push_back(each.cores); };
    if (!has_best) {
      // What is added last is compiled first.
      if (other && whole >= kLongNs && kNearOther * other->ns < whole) add(*other);
      if (chains && chains->ns < whole - kLeastGainNs) add(*chains);
      made.one_core = !made.cuts.empty();
      return made;
    }
    if (is_other && chains && other->ns > kNearChains * chains->ns) add(*chains);
    if (!is_other && other && kNearOther * other->ns < chains->ns && other->ns < whole - kLeastGainNs)
      add(*other);
    made.one_core = (is_other ? other : chains)->ns > kNearOneCore * whole;
    return made;
  }
};

std::optional<BothCores> BothCores::of(const graph::Module& module, Function function, int64_t devices,
                                       const runtime::Settings& settings, std::string& why,
                                       MayBeFaster* others) {
  why = why_it_stays(function);
  if (!why.empty()) return std::nullopt;
  on_core_pairs(function, devices);
  const AxisGrid grid = core_grid(devices);
  const std::string axes[] = {"core"};
  const double whole = Estimate(function, devices * kCoresOfPair, settings, false).ns();
  const double least = std::min(whole * kMostOfWhole, whole - kLeastGainNs);
  why = "no cut of it promises to be faster";
  if (least <= 0) return std::nullopt;
  const auto promised = [&](const Function& of, const std::string& name,
                            const Stated& stated) -> std::optional<Promise> {
    std::vector<const Cuts*> results;
    for (const std::optional<Cuts>& cuts : stated.results) results.push_back(cuts ? &*cuts : nullptr);
    try {
      SpmdModule local = partition(module, of, grid, stated.values, results);
      graph::verify(local.module);
      mark_exchanges_inside(local.module.entry(), devices * kCoresOfPair);
      const double ns = Estimate(local.module.entry(), devices * kCoresOfPair, settings, true).ns();
      return Promise{BothCores(std::move(local), name, function.result_types), ns};
    } catch (const Fault& fault) {
      if (fault.kind() != FaultKind::kNotModelled) throw;
      why = fault.message();
      return std::nullopt;
    }
  };
  Promises found;
  if (const auto cuts = chain_cuts(function, grid, core_axes(grid)))
    found.chains = promised(cuts->function, "chains of products", cuts->stated);
  for (const CutWay& way : cut_ways(function, grid, axes)) {
    const auto is_cut = [](const std::optional<Cuts>& result) { return result.has_value(); };
    if (way.stated.values.empty() && std::ranges::none_of(way.stated.results, is_cut))
      continue;  // both would compute all of it
    auto other = promised(function, way.name, way.stated);
    if (other && (!found.other || other->ns < found.other->ns)) found.other = std::move(other);
  }
  return found.best(whole, least, why, others);
}

// Cuts are along the cores alone, so what holds for the cores of the first device does for all.
std::vector<std::vector<Literal>> BothCores::split(
    const std::vector<std::vector<Literal>>& of_devices) const {
  std::vector<std::vector<Literal>> of_cores;
  for (size_t device = 0; device < of_devices.size(); ++device)
    for (int64_t core = 0; core < kCoresOfPair; ++core) {
      std::vector<Literal>& parts = of_cores.emplace_back();
      for (size_t i = 0; i < local_.inputs.size(); ++i) {
        const Literal& whole = of_devices[device][i];
        parts.push_back(local_.inputs[i].replicated() ? whole : part_of(whole, local_.inputs[i], core));
      }
      for (const HeldConstant& constant : local_.constants)
        parts.push_back(part_of(constant.whole, constant.sharding, core));
    }
  return of_cores;
}

std::vector<std::vector<Literal>> BothCores::joined(const std::vector<std::vector<Literal>>& of_cores) const {
  std::vector<std::vector<Literal>> of_devices(of_cores.size() / static_cast<size_t>(kCoresOfPair));
  for (size_t device = 0; device < of_devices.size(); ++device)
    for (size_t i = 0; i < results_.size(); ++i) {
      const size_t first = device * static_cast<size_t>(kCoresOfPair);
      if (local_.outputs[i].replicated()) {
        of_devices[device].push_back(of_cores[first][i]);
        continue;
      }
      const std::vector<Literal> parts{of_cores[first][i], of_cores[first + 1][i]};
      of_devices[device].push_back(spmd::joined(parts, results_[i], local_.outputs[i]));
    }
  return of_devices;
}

}  // namespace opentrn::spmd
