#include "planner/program/program.h"

#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>

#include "base/fault.h"
#include "compiler/analysis/cost.h"
#include "compiler/analysis/counted_loop.h"
#include "compiler/canonicalise/passes.h"
#include "graph/verify.h"
#include "spmd/annotations.h"
#include "spmd/propagate.h"

namespace opentrn::planner::program {

using graph::Function;
using graph::OpKind;
using graph::ValueId;

namespace {

// Two halves of an axis: what propagation carries does not depend on how many devices there are.
constexpr int64_t kProbe = 2;

std::optional<size_t> aliased_result(const Function& function, size_t argument) {
  if (argument >= function.argument_attributes.size()) return std::nullopt;
  const auto& attributes = function.argument_attributes[argument];
  const auto found = attributes.find("tf.aliasing_output");
  if (found == attributes.end()) return std::nullopt;
  const auto* result = found->second.get<int64_t>();
  if (result == nullptr || *result < 0) return std::nullopt;
  return static_cast<size_t>(*result);
}

// Which result is the next value of which input: as the program says, else in order, by type. Results of one
// number alone, a loss, are of none, and a program of fewer results than it has such inputs has no state.
std::vector<std::optional<size_t>> next_values(const Function& function) {
  const auto arguments = function.arguments(), returned = function.returned();
  std::vector<std::optional<size_t>> next(returned.size());
  std::set<size_t> taken;
  for (size_t a = 0; a < arguments.size(); ++a)
    if (const auto result = aliased_result(function, a); result && *result < next.size()) {
      next[*result] = a;
      taken.insert(a);
    }
  if (!taken.empty()) return next;
  size_t from = 0;
  for (size_t r = 0; r < returned.size(); ++r) {
    const graph::Type& type = function.type(returned[r]);
    if (!type.is_tensor() || type.rank() == 0) continue;
    for (size_t a = from; a < arguments.size(); ++a)
      if (function.type(arguments[a]) == type) {
        next[r] = a;
        from = a + 1;
        break;
      }
  }
  // One result of the type of one input is a layer's output as likely as its state.
  if (std::ranges::count_if(next, [](const auto& each) { return each.has_value(); }) < 2)
    std::ranges::fill(next, std::nullopt);
  return next;
}

double flops_in(const Function& function, graph::BlockId block, bool& open) {
  double sum = 0;
  for (const graph::OpId id : function.block(block).ops) {
    const graph::Op& op = function.op(id);
    sum += compiler::flops(function, op);
    if (op.kind != OpKind::while_ && op.kind != OpKind::if_ && op.kind != OpKind::case_) continue;
    double times = 1;
    if (op.kind == OpKind::while_) {
      const auto trips = compiler::constant_trips(function, op);
      open = open || !trips;
      times = trips ? double(*trips) : 1;
    }
    double inside = 0;
    for (const graph::BlockId region : op.regions)
      inside = std::max(inside, flops_in(function, region, open));
    sum += times * inside;
  }
  return sum;
}

bool reaches_result(const Function& function, const std::vector<spmd::Cuts>& cuts) {
  return std::ranges::any_of(function.returned(),
                             [&](ValueId value) { return !spmd::is_whole(cuts[graph::index_of(value)]); });
}

// What a set of dimensions is cut of, whichever layer it is in.
using Signature = std::vector<std::pair<std::string, int>>;

}  // namespace

std::string Dimensions::text() const {
  return seeds.size() == 1 ? name : fmt::format("{} and {} like it", name, seeds.size() - 1);
}

Program::Program(graph::Module of)
    : module((graph::verify(of), std::move(of))), flat(compiler::inline_calls(module, module.entry())) {
  const spmd::TensorNames names = spmd::names_of(module, flat);
  for (size_t i = 0; i < names.arguments.size(); ++i)
    tensors.push_back({names.arguments[i], flat.arguments()[i], flat.type(flat.arguments()[i])});
  inputs = tensors.size();
  for (const Tensor& each : tensors)
    if (each.type.is_tensor() && !each.type.is_static())
      throw Fault(FaultKind::kNotModelled, "plan.program",
                  fmt::format("{} is {}: a size of it is not a number", each.name, each.type.to_string()),
                  "export the program with every size a number");
  for (const auto& [name, value] : names.constants) tensors.push_back({name, value, flat.type(value), true});
  next_of = next_values(flat);
  for (const auto& input : next_of)
    if (input) tensors[*input].is_state = true;
  for (const Tensor& each : tensors)
    if (each.is_state && each.type.is_tensor() && each.type.is_static())
      state_bytes += each.type.byte_count();
  flops = flops_in(flat, flat.body(), has_open_loops);
}

std::vector<Dimensions> dimensions_of(const Program& program) {
  const spmd::AxisGrid grid(spmd::Mesh{{{"probe", kProbe}}, {}});
  const spmd::Axes axis{0};
  const bool has_state = std::ranges::any_of(program.tensors, &Tensor::is_state);
  std::set<std::pair<size_t, int>> reached;
  std::map<Signature, Dimensions> found;
  std::vector<Signature> order;
  for (size_t t = 0; t < program.tensors.size(); ++t) {
    const Tensor& tensor = program.tensors[t];
    if (!tensor.type.is_tensor() || !tensor.type.is_static()) continue;
    for (int d = 0; d < tensor.type.rank(); ++d) {
      if (tensor.type.dim(d) % kProbe != 0 || reached.contains({t, d})) continue;
      spmd::Cuts stated(static_cast<size_t>(tensor.type.rank()));
      stated[static_cast<size_t>(d)] = axis;
      const auto cuts = spmd::propagate(program.flat, grid, {{tensor.value, stated}});
      Dimensions made;
      Signature signature;
      for (size_t other = 0; other < program.tensors.size(); ++other) {
        const Tensor& at = program.tensors[other];
        const spmd::Cuts& of = cuts[graph::index_of(at.value)];
        for (size_t dim = 0; dim < of.size(); ++dim) {
          if (of[dim].empty()) continue;
          reached.insert({other, static_cast<int>(dim)});
          signature.emplace_back(at.type.to_string(), static_cast<int>(dim));
          made.elements += at.type.element_count();
          made.cuts_state = made.cuts_state || at.is_state;
        }
      }
      // Where no tensor is known to be state, inputs that are weights look like others: what is cut of a
      // batch comes out cut, and is the first dimension of an input.
      if (!has_state) made.cuts_state = d != 0 || !reaches_result(program.flat, cuts);
      std::ranges::sort(signature);
      made.seeds.push_back({t, d, tensor.type.dim(d)});
      made.name = fmt::format("{}[{}]", tensor.name, d);
      const auto [place, is_new] = found.emplace(signature, made);
      if (is_new) {
        order.push_back(signature);
      } else {
        place->second.seeds.push_back(made.seeds.front());
        place->second.elements += made.elements;
      }
    }
  }
  std::vector<Dimensions> all;
  for (const Signature& each : order) all.push_back(found.at(each));
  std::ranges::stable_sort(all, std::greater{}, &Dimensions::elements);
  return all;
}

}  // namespace opentrn::planner::program
