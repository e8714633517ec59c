#include "planner/program/program_plan.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "arch/evidence.h"
#include "compiler/analysis/cost.h"
#include "compiler/analysis/counted_loop.h"
#include "compiler/options.h"
#include "graph/eval/process_groups.h"
#include "planner/communication.h"
#include "runtime/settings.h"
#include "spmd/run/sharded_model.h"

namespace opentrn::planner::program {

using graph::Op;
using graph::OpKind;

namespace {

// Batches that are tried for data parallelism, largest first: the batch, and tokens of a sequence.
constexpr size_t kBatches = 2;

// ---- the estimate of one way

bool is_product(OpKind kind) { return kind == OpKind::dot_general_ || kind == OpKind::convolution_; }

class Estimator {
 public:
  Estimator(const Machine& machine, const graph::Function& function, int64_t devices)
      : machine_(machine), function_(function), devices_(devices) {}

  double seconds(graph::BlockId block) const {
    double sum = 0;
    for (const graph::OpId id : function_.block(block).ops) {
      const Op& op = function_.op(id);
      double times = 1, inside = 0;
      if (op.kind == OpKind::while_) times = double(compiler::constant_trips(function_, op).value_or(1));
      if (op.kind == OpKind::while_ || op.kind == OpKind::if_ || op.kind == OpKind::case_)
        for (const graph::BlockId region : op.regions) inside = std::max(inside, seconds(region));
      sum += op.regions.empty() || inside == 0 ? of(op) : times * inside;
    }
    return sum;
  }

 private:
  double bytes(std::span<const graph::ValueId> values) const {
    double sum = 0;
    for (const graph::ValueId value : values)
      if (const graph::Type& type = function_.type(value); type.is_tensor() && type.is_static())
        sum += double(type.byte_count());
    return sum;
  }

  double of(const Op& op) const {
    const double memory_s = machine_.rates.memory_bytes_s / machine_.cores_per_rank;
    switch (op.kind) {
      case OpKind::all_reduce_: return all_reduce_s(machine_, group(op), bytes(op.operands));
      case OpKind::all_gather_: return all_gather_s(machine_, group(op), bytes(op.results));
      case OpKind::reduce_scatter_: return all_gather_s(machine_, group(op), bytes(op.operands));
      case OpKind::all_to_all_: return all_to_all_s(machine_, group(op), bytes(op.operands));
      case OpKind::collective_permute_: return send_s(machine_, {2, 1}, bytes(op.operands));
      case OpKind::constant_:
      case OpKind::return_:
      case OpKind::reshape_: return 0;
      default: break;
    }
    // Results are written once; what is read was written by others, or is an operand of a product.
    const double moved = bytes(op.results) + (is_product(op.kind) ? bytes(op.operands) : 0);
    const bool wide = !op.results.empty() && function_.type(op.results[0]).is_tensor() &&
                      function_.type(op.results[0]).element() == graph::ElementType::kF32;
    const double rate = machine_.rates.matmul[wide ? 2 : 0] / machine_.cores_per_rank;
    return std::max(moved / memory_s, is_product(op.kind) ? compiler::flops(function_, op) / rate : 0.0);
  }

  Group group(const Op& op) const {
    const auto groups = graph::eval::process_groups(op, 1, devices_, [](const std::string& what) {
      throw Fault(FaultKind::kInput, "graph.collective", what);
    });
    for (const auto& each : groups)
      if (each.size() > 1) return {int64_t(each.size()), std::abs(each[1] - each[0])};
    return {1, 1};
  }

  const Machine& machine_;
  const graph::Function& function_;
  const int64_t devices_;
};

// ---- ways

class Search {
 public:
  Search(const Program& program, const Machine& machine, std::vector<Dimensions> dimensions)
      : program_(program), machine_(machine), dimensions_(std::move(dimensions)) {}

  std::vector<Way> ways(const Asked& asked) {
    const int64_t devices = machine_.ranks;
    for (int64_t dp = devices; dp >= 1; --dp) {
      if (devices % dp != 0) continue;
      const int64_t tp = devices / dp;
      if ((asked.dp && dp != *asked.dp) || (asked.tp && tp != *asked.tp)) continue;
      if (dp == 1) {
        add_cuts_of_state(nullptr, dp, tp);
        continue;
      }
      size_t batches = 0;
      for (const Dimensions& each : dimensions_)
        if (!each.cuts_state && fits(each, dp) && batches < kBatches) {
          ++batches;
          if (tp == 1) {
            keep({&each}, dp, {}, tp, false);
          } else {
            add_cuts_of_state(&each, dp, tp);
          }
        }
    }
    std::ranges::stable_sort(found_, {}, &Way::estimated_s);
    return std::move(found_);
  }

  // As the user says: nothing is searched.
  Way stated(const Asked& asked) {
    Way way;
    way.mesh = spmd::parse_mesh(asked.mesh);
    for (const std::string& text : asked.shard) way.annotations.push_back(spmd::parse_annotation(text));
    way.cuts.assign(way.mesh.axes.size(), "as stated");
    estimate(way);
    return way;
  }

  size_t tried() const { return tried_; }
  std::vector<Dimensions> take_dimensions() { return std::move(dimensions_); }

 private:
  static bool fits(const Dimensions& dimensions, int64_t parts) {
    return std::ranges::all_of(dimensions.seeds, [&](const auto& seed) { return seed.size % parts == 0; });
  }

  // Cuts of weights over tp: one set of dimensions after another is added, as long as the estimate falls.
  void add_cuts_of_state(const Dimensions* batch, int64_t dp, int64_t tp) {
    std::vector<const Dimensions*> chosen;
    if (tp > 1) {
      std::optional<double> best;
      for (const Dimensions& each : dimensions_) {
        if (!fits(each, tp) || &each == batch || (batch == nullptr && !each.cuts_state)) continue;
        if (!each.cuts_state) continue;
        std::vector<const Dimensions*> next = chosen;
        next.push_back(&each);
        const auto way = make({batch}, dp, next, tp, false);
        if (!way || (best && way->estimated_s >= *best)) continue;
        best = way->estimated_s;
        chosen = std::move(next);
      }
      if (chosen.empty()) return;
    }
    if (batch == nullptr && chosen.empty()) {
      keep({}, dp, {}, tp, false);  // one device
      return;
    }
    keep({batch}, dp, chosen, tp, false);
  }

  void keep(const std::vector<const Dimensions*>& batch, int64_t dp,
            const std::vector<const Dimensions*>& cuts, int64_t tp, bool shards_state) {
    if (auto way = make(batch, dp, cuts, tp, shards_state)) found_.push_back(std::move(*way));
    if (dp > 1 && !shards_state && program_.state_bytes > 0) keep(batch, dp, cuts, tp, true);
  }

  // Nullopt where state cannot be cut so, or the partitioner does not take it.
  std::optional<Way> make(const std::vector<const Dimensions*>& batch, int64_t dp,
                          const std::vector<const Dimensions*>& cuts, int64_t tp, bool shards_state) {
    Way way;
    way.shards_state = shards_state;
    std::map<size_t, std::vector<std::vector<std::string>>> axes;  // by tensor, by dimension
    const auto cut = [&](const Dimensions& dimensions, const char* axis) {
      for (const Dimensions::Seed& seed : dimensions.seeds) {
        auto& of = axes[seed.tensor];
        of.resize(static_cast<size_t>(program_.tensors[seed.tensor].type.rank()));
        of[static_cast<size_t>(seed.dim)].emplace_back(axis);
      }
    };
    if (dp > 1 || tp == 1) {
      way.mesh.axes.push_back({"dp", dp});
      way.cuts.emplace_back(!batch.empty() && batch[0] != nullptr ? batch[0]->text() : "nothing");
      if (!batch.empty() && batch[0] != nullptr) cut(*batch[0], "dp");
    }
    if (tp > 1) {
      way.mesh.axes.push_back({"tp", tp});
      std::vector<std::string> names;
      for (const Dimensions* each : cuts) {
        cut(*each, "tp");
        names.push_back(each->text());
      }
      way.cuts.push_back(fmt::format("{}", fmt::join(names, "; ")));
    }
    if (cuts_twice(axes) || (shards_state && !add_state(way, axes, dp))) return std::nullopt;
    for (const auto& [tensor, of] : axes) way.annotations.push_back({program_.tensors[tensor].name, of});
    try {
      estimate(way);
    } catch (const Fault& fault) {
      if (fault.kind() != FaultKind::kNotModelled) throw;
      return std::nullopt;
    }
    return way;
  }

  // An axis cuts one dimension of a tensor: candidates that want two of one cannot be taken together.
  static bool cuts_twice(const std::map<size_t, std::vector<std::vector<std::string>>>& axes) {
    return std::ranges::any_of(axes, [](const auto& of) {
      std::set<std::string> seen;
      for (const auto& dim : of.second)
        for (const std::string& axis : dim)
          if (!seen.insert(axis).second) return true;
      return false;
    });
  }

  // ZeRO: every tensor of state is cut over dp as well, along the first dimension that can be, and comes out
  // as it went in.
  bool add_state(Way& way, std::map<size_t, std::vector<std::vector<std::string>>>& axes, int64_t dp) {
    bool any = false;
    const spmd::AxisGrid grid(way.mesh);
    std::vector<spmd::Annotation> stated;
    for (const auto& [tensor, of] : axes) stated.push_back({program_.tensors[tensor].name, of});
    const auto known = spmd::stated_by(stated, program_.module, program_.flat, grid);
    const auto cuts = spmd::propagate(program_.flat, grid, known.values);
    for (size_t t = 0; t < program_.inputs; ++t) {
      const Tensor& tensor = program_.tensors[t];
      if (!tensor.is_state || tensor.type.rank() == 0) continue;
      const spmd::Cuts& now = cuts[graph::index_of(tensor.value)];
      std::vector<std::vector<std::string>> of(now.size());
      bool done = false;
      for (size_t d = 0; d < now.size(); ++d) {
        if (!now[d].empty()) of[d].emplace_back("tp");  // the only axis that cuts state
        const int64_t here = grid.count(now[d]);
        if (done || tensor.type.dim(static_cast<int>(d)) % (here * dp) != 0) continue;
        of[d].emplace_back("dp");
        done = any = true;
      }
      axes[t] = of;
      for (size_t r = 0; r < program_.next_of.size(); ++r)
        if (program_.next_of[r] == t && done) way.annotations.push_back({result_name(r), of});
    }
    return any;
  }

  std::string result_name(size_t result) const {
    return spmd::names_of(program_.module, program_.flat).results.at(result);
  }

  void estimate(Way& way) {
    ++tried_;
    const spmd::AxisGrid grid(way.mesh);
    const spmd::Stated stated = spmd::stated_by(way.annotations, program_.module, program_.flat, grid);
    std::vector<const spmd::Cuts*> results;
    for (const auto& cuts : stated.results) results.push_back(cuts ? &*cuts : nullptr);
    const spmd::SpmdModule local =
        spmd::partition(program_.module, program_.flat, grid, stated.values, results);
    const graph::Function& function = local.module.entry();
    way.estimated_s = Estimator(machine_, function, grid.devices()).seconds(function.body());
    for (const graph::ValueId value : function.arguments())
      if (const graph::Type& type = function.type(value); type.is_tensor())
        way.argument_bytes += double(type.byte_count());
  }

  const Program& program_;
  const Machine& machine_;
  std::vector<Dimensions> dimensions_;
  std::vector<Way> found_;
  size_t tried_ = 0;
};

// ---- the compiled ones

Contributor contributor(const arch::Tables& tables, const char* what, const arch::TimedKind& kind,
                        double step_s, double part_s) {
  const arch::Band band = arch::band(tables, kind);
  const double off = tables.facts().at("planner.uncertainty.assumed").as<double>();
  Contributor out{what, band.known() ? "evidence." + kind.key() : "planner.uncertainty.assumed",
                  band.known() ? "measured" : "assumed"};
  out.low = band.known() ? band.low : 1 / (1 + off);
  out.high = band.known() ? band.high : 1 + off;
  out.low_s = step_s + part_s * (out.low - 1);
  out.high_s = step_s + part_s * (out.high - 1);
  if (out.low_s > out.high_s) std::swap(out.low_s, out.high_s);
  return out;
}

// Both bands at once, as if they were independent.
void set_interval(const arch::Tables& tables, Generation generation, Compiled& plan) {
  plan.contributors = {
      contributor(tables, "what each device computes", {.generation = generation, .model = true}, plan.step_s,
                  plan.step_s - plan.exposed_s),
      contributor(tables, "collectives that nothing hides", {.generation = generation, .collective = true},
                  plan.step_s, plan.exposed_s)};
  std::erase_if(plan.contributors, [](const Contributor& each) { return each.width_s() <= 0; });
  std::ranges::stable_sort(plan.contributors, std::greater{}, &Contributor::width_s);
  double below = 0, above = 0;
  for (const Contributor& each : plan.contributors) {
    below += std::pow(each.low_s - plan.step_s, 2) * (each.low_s < plan.step_s ? 1 : -1);
    above += std::pow(each.high_s - plan.step_s, 2) * (each.high_s > plan.step_s ? 1 : -1);
  }
  plan.low_s = plan.step_s - std::copysign(std::sqrt(std::abs(below)), below);
  plan.high_s = plan.step_s + std::copysign(std::sqrt(std::abs(above)), above);
}

void add_cut(std::vector<std::string>& out, const std::vector<spmd::ShardedModel::Port>& ports) {
  for (const auto& port : ports) {
    if (!port.type.is_tensor() || port.name.empty() || port.sharding.replicated()) continue;
    out.push_back(fmt::format("{}={}", port.name, spmd::to_text(port.sharding, port.type.rank())));
  }
}

Compiled compiled(const arch::Tables& tables, const Program& program, const Machine& machine, Way way,
                  std::optional<int> lnc) {
  const runtime::Settings settings = spmd::devices_of(machine.instance, way.mesh, lnc);
  compiler::Options options = compiler::options_from(settings.generation, {});
  options.strict = false;
  const spmd::ShardedModel model(program.module, way.mesh, way.annotations, options, settings);
  const spmd::Cost cost = model.cost();
  if (!cost.device_us)
    throw Fault(FaultKind::kNotModelled, "plan.program", fmt::format("its time is not known: {}", cost.why));
  Compiled plan;
  plan.way = std::move(way);
  plan.step_s = *cost.device_us * 1e-6;
  plan.compute_s = cost.compute_us.value_or(0) * 1e-6;
  plan.collectives_s = cost.collectives_us.value_or(0) * 1e-6;
  plan.exposed_s = std::min(cost.exposed_us * 1e-6, plan.step_s);
  plan.argument_bytes = double(model.argument_bytes());
  plan.memory_bytes = double(model.bytes_at_most());
  plan.fits = plan.memory_bytes <= machine.memory_bytes;
  plan.bound_by = cost.bound_by;
  plan.host_reason = model.host_reason();
  for (const auto& sum : model.collectives()) plan.collectives.push_back({sum.name, sum.count, sum.bytes});
  for (const auto* ports : {&model.inputs(), &model.weights(), &model.outputs()})
    add_cut(plan.shardings, *ports);
  if (!program.has_open_loops)
    plan.mfu = program.flops / (plan.step_s * machine.rates.peak[0] * double(machine.ranks));
  set_interval(tables, settings.generation, plan);
  return plan;
}

void expect_machine(const Machine& machine) {
  if (machine.kind != Kind::kNeuron)
    throw Fault(FaultKind::kNotModelled, "plan.program",
                fmt::format("a program on {}: OpenTrn compiles for NeuronCores", machine.instance),
                "an instance of Inf2, Trn1, Trn2 or Trn3; a model's config.json for the others");
  if (machine.servers() != 1)
    throw Fault(FaultKind::kNotModelled, "plan.program",
                fmt::format("a program on {} x {}: its mesh lies on the links of one machine",
                            machine.servers(), machine.instance),
                "--count 1, with a larger instance or an UltraServer (`opentrn plan --instances`)");
}

}  // namespace

std::string Way::mesh_text() const {
  std::vector<std::string> axes;
  for (const auto& axis : mesh.axes) axes.push_back(fmt::format("{}={}", axis.name, axis.size));
  return fmt::format("{}", fmt::join(axes, ","));
}

Found plan_program(const arch::Tables& tables, const Program& program, const Machine& machine,
                   const Asked& asked) {
  expect_machine(machine);
  Found out;
  Search search(program, machine, dimensions_of(program));
  std::vector<Way> ways;
  if (asked.mesh.empty())
    ways = search.ways(asked);
  else
    ways.push_back(search.stated(asked));
  out.tried = search.tried();
  out.dimensions = search.take_dimensions();
  if (ways.empty()) {
    std::vector<std::string> known;
    for (const Dimensions& each : out.dimensions)
      known.push_back(
          fmt::format("{} of {}{}", each.name, each.seeds.front().size, each.cuts_state ? "" : " (a batch)"));
    throw Fault(FaultKind::kInput, "plan.program",
                fmt::format("no way to cut the program over {} devices{}{}", machine.ranks,
                            asked.dp ? fmt::format(", dp {}", *asked.dp) : "",
                            asked.tp ? fmt::format(", tp {}", *asked.tp) : ""),
                known.empty()
                    ? "no dimension of its inputs can be cut in two"
                    : fmt::format("degrees must divide its dimensions: {}", fmt::join(known, ", ")));
  }
  size_t compiled_ways = 0;
  for (Way& way : ways) {
    if (compiled_ways == std::max<size_t>(1, asked.compiled)) break;
    if (way.argument_bytes > machine.memory_bytes && ways.size() > 1 && &way != &ways.back()) continue;
    ++compiled_ways;
    try {
      Compiled plan = compiled(tables, program, machine, std::move(way), asked.lnc);
      (plan.fits ? out.plans : out.too_large).push_back(std::move(plan));
    } catch (const Fault& fault) {
      if (fault.kind() != FaultKind::kNotModelled && fault.kind() != FaultKind::kCapacity) throw;
      if (std::ranges::find(out.refused, fault.message()) == out.refused.end())
        out.refused.push_back(fault.message());
    }
  }
  std::ranges::stable_sort(out.plans, {}, &Compiled::step_s);
  return out;
}

}  // namespace opentrn::planner::program
