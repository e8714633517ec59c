#include "spmd/run/weight_collectives.h"

#include <algorithm>
#include <map>
#include <memory>
#include <set>

#include <fmt/format.h>

#include "base/fault.h"

namespace opentrn::spmd {

using graph::Function;
using graph::Op;
using graph::OpId;
using graph::OpKind;
using graph::ValueId;

namespace {

using Stage = ParallelProgram::Stage;

// Makes of a weight no more than its bytes in another place or format.
bool only_moves(OpKind kind) {
  switch (kind) {
    case OpKind::convert_:
    case OpKind::dynamic_slice_:
    case OpKind::optimization_barrier_:
    case OpKind::reshape_:
    case OpKind::slice_:
    case OpKind::transpose_: return true;
    default: return false;
  }
}

bool is_argument_moved(const Function& function, ValueId value) {
  for (;;) {
    const OpId maker = function.value(value).op;
    if (maker == graph::kNoOp) return true;
    const Op& op = function.op(maker);
    if (!only_moves(op.kind)) return false;
    const auto& results = op.results;
    const auto result = static_cast<size_t>(std::ranges::find(results, value) - results.begin());
    value = op.operands[op.kind == OpKind::optimization_barrier_ ? result : 0];
  }
}

// Within its block: what a loop carries on is made by all of its iterations.
bool reaches_product(const Function& function, const Op& from) {
  std::set<ValueId> reached(from.results.begin(), from.results.end());
  for (const OpId id : function.block(from.block).ops) {
    const Op& op = function.op(id);
    if (std::ranges::none_of(op.operands, [&](ValueId value) { return reached.contains(value); })) continue;
    if (op.kind == OpKind::dot_general_ || op.kind == OpKind::convolution_ || op.kind == OpKind::custom_call_)
      return true;
    reached.insert(op.results.begin(), op.results.end());
  }
  return false;
}

struct Weight {
  size_t step = 0;
  Moment moment;  // gathered: that of its need; scattered: from which on it is made
  std::string shape;
};

// The first moment of each layer, and the layer of each weight. `weights`: in order of their moments.
struct Layers {
  std::vector<Moment> begin;
  std::vector<size_t> of_weight;
};

Layers layers(const std::vector<Weight>& weights, bool activations_meet) {
  std::vector<std::string> shapes;
  std::vector<size_t> parts;
  for (const Weight& weight : weights) {
    shapes.push_back(weight.shape);
    parts.push_back(weight.moment.step);
  }
  Layers out{{}, layers_of(shapes, parts, activations_meet)};
  for (size_t i = 0; i < weights.size(); ++i)
    if (out.of_weight[i] == out.begin.size()) out.begin.push_back(weights[i].moment);
  return out;
}

void trigger(std::vector<Step>& steps, std::vector<Weight> weights, bool activations_meet,
             int64_t layer_shift) {
  std::ranges::stable_sort(weights, {}, &Weight::moment);
  const Layers of = layers(weights, activations_meet);
  for (size_t i = 0; i < weights.size(); ++i) {
    const int64_t at = static_cast<int64_t>(of.of_weight[i]) + layer_shift;
    if (at < 0) continue;  // from the beginning on
    const auto layer = std::min(static_cast<size_t>(at), of.begin.size() - 1);
    std::get<Collective>(steps[weights[i].step]).not_before = of.begin[layer];
  }
}

// When the last of what a collective reads is written.
std::optional<Moment> ready_at(std::span<const Step> steps, const Collective& collective) {
  std::optional<Moment> ready;
  for (size_t i = 0; i < steps.size(); ++i)
    if (const auto* part = std::get_if<Part>(&steps[i]))
      for (const Touch& touch : part->writes)
        if (std::ranges::find(collective.reads, touch.value) != collective.reads.end())
          ready = std::max(ready.value_or(Moment{}), Moment{i, touch.at_ns});
  return ready;
}

}  // namespace

std::string weight_of(const Function& function, const Op& op) {
  const bool is_gather = op.kind == OpKind::all_gather_;
  if (!is_gather && op.kind != OpKind::reduce_scatter_) return "";
  const bool is_of_weight =
      is_gather ? std::ranges::all_of(op.operands,
                                      [&](ValueId value) { return is_argument_moved(function, value); })
                : !reaches_product(function, op);
  return is_of_weight ? function.type(op.operands.front()).to_string() : "";
}

std::optional<int> stream_of(const Op& op) {
  constexpr int kStreamsMax = 4;  // [doc: nec.h, NEC_MAX_STREAM_N]
  if (!op.extra) return std::nullopt;
  const auto found = op.extra->find("mhlo.frontend_attributes");
  if (found == op.extra->end()) return std::nullopt;
  const auto* said = found->second.get<std::shared_ptr<const graph::Dictionary>>();
  if (!said || !(*said)->contains("stream_id")) return std::nullopt;
  const auto* text = (*said)->at("stream_id").get<std::string>();
  if (text && text->size() == 1 && (*text)[0] >= '0' && (*text)[0] < '0' + kStreamsMax)
    return (*text)[0] - '0';
  throw Fault(FaultKind::kInput, "collectives.stream",
              fmt::format("a collective's stream_id is {}", text ? "'" + *text + "'" : "no text"),
              "one of the streams \"0\" to \"3\"");
}

std::vector<size_t> layers_of(std::span<const std::string> shapes, std::span<const size_t> parts,
                              bool activations_meet) {
  const size_t count = shapes.size();
  std::vector<size_t> layers(count);
  if (activations_meet) {
    for (size_t i = 1; i < count; ++i) layers[i] = layers[i - 1] + (parts[i] != parts[i - 1] ? 1 : 0);
    return layers;
  }
  const auto repeats = [&](size_t period) {
    for (size_t i = 0; i < count; ++i)
      if (shapes[i] != shapes[i % period] && shapes[i] != shapes[period - 1 - i % period]) return false;
    return count % period == 0;
  };
  size_t period = 1;
  while (period <= count / 2 && !repeats(period)) ++period;
  if (period > count / 2) period = 1;
  for (size_t i = 0; i < count; ++i) layers[i] = i / period;
  return layers;
}

void arrange(std::span<const Stage> stages, std::vector<Step>& steps,
             const runtime::WeightCollectives& settings) {
  const std::vector<Moment> needs = first_needs(steps);
  std::vector<Weight> gathers, scatters;
  for (size_t i = 0; i < stages.size(); ++i) {
    if (!stages[i].collective) continue;
    auto& collective = std::get<Collective>(steps[i]);
    const bool of_weights = !stages[i].weight.empty() && settings.is_ordered;
    collective.stream = stages[i].stream.value_or(of_weights && settings.has_stream ? 1 : 0);
    if (!of_weights) continue;
    if (stages[i].collective->kind == collectives::Kind::kAllGather) {
      if (needs[i].step < steps.size()) gathers.push_back({i, needs[i], stages[i].weight});
    } else if (const auto ready = ready_at(steps, collective)) {
      scatters.push_back({i, *ready, stages[i].weight});
    }
  }
  // Exchanges of activations stand between the first and the last need of a weight, in every layer.
  const auto [first, last] = std::ranges::minmax_element(gathers, {}, &Weight::moment);
  int64_t between = 0;
  for (size_t i = 0; i < stages.size(); ++i)
    if (stages[i].collective && stages[i].weight.empty() && !gathers.empty() && needs[i] > first->moment &&
        needs[i] < last->moment)
      ++between;
  trigger(steps, gathers, between > 1, -settings.layers_early);
  // What is scattered as it is made runs beside the next layer: one layer late.
  trigger(steps, scatters, between > 1, std::max(settings.layers_late - 1, 0));
}

double gathered_bytes(std::span<const Stage> stages, std::span<const Step> steps, const Schedule& schedule) {
  std::map<ValueNumber, double> last_read_ns;
  for (size_t i = 0; i < steps.size(); ++i)
    if (const auto* part = std::get_if<Part>(&steps[i]))
      for (const Touch& touch : part->reads) {
        const auto last = std::ranges::find(part->last_reads, touch.value, &Touch::value);
        const double end_ns = last == part->last_reads.end() ? schedule.steps[i].end_ns
                                                             : time_of(schedule.steps[i], last->at_ns);
        last_read_ns[touch.value] = std::max(last_read_ns[touch.value], end_ns);
      }
  std::map<double, double> change;
  for (size_t i = 0; i < stages.size(); ++i) {
    if (!stages[i].collective || stages[i].weight.empty() ||
        stages[i].collective->kind != collectives::Kind::kAllGather)
      continue;
    const auto& collective = std::get<Collective>(steps[i]);
    double end = schedule.steps[i].end_ns;
    for (const ValueNumber value : collective.writes)
      if (const auto found = last_read_ns.find(value); found != last_read_ns.end())
        end = std::max(end, found->second);
    size_t ranks = 1;
    for (const auto& group : stages[i].collective->groups) ranks = std::max(ranks, group.size());
    const double bytes = static_cast<double>(stages[i].collective->bytes) * static_cast<double>(ranks);
    change[schedule.steps[i].start_ns] += bytes;
    change[end] -= bytes;
  }
  double now = 0, most = 0;
  for (const auto& [at, bytes] : change) most = std::max(most, now += bytes);
  return most;
}

}  // namespace opentrn::spmd
