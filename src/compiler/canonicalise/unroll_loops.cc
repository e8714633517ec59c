// Loops that run a few times, as known now, written out: what comes from one iteration to the next then waits
// for nothing but its ops, loads of the next ones begin while the first compute, and places that the counter
// names are constants. As a loop, every iteration begins where the one before has ended.
#include <algorithm>

#include "compiler/analysis/counted_loop.h"
#include "compiler/analysis/graph_names.h"
#include "compiler/canonicalise/passes.h"
#include "graph/copy.h"
#include "graph/literal.h"

namespace opentrn::compiler {

namespace {

// Beyond these a program gains more instructions than it loses time.
constexpr int64_t kTripsMax = 64, kUnrolledOpsMax = 1024;

bool has_control_flow_inside(const Function& function, BlockId block) {
  return std::ranges::any_of(function.block(block).ops, [&](OpId id) {
    const OpKind kind = function.op(id).kind;
    return kind == OpKind::while_ || kind == OpKind::if_ || kind == OpKind::case_;
  });
}

// How often it runs; nullopt for a loop that stays.
std::optional<int64_t> trips_to_unroll(const Function& function, const Op& op) {
  if (op.kind != OpKind::while_) return std::nullopt;
  const auto trips = constant_trips(function, op);
  if (!trips || *trips > kTripsMax || has_control_flow_inside(function, op.regions[1])) return std::nullopt;
  const auto& ops = function.block(op.regions[1]).ops;
  const auto count =
      std::ranges::count_if(ops, [&](OpId id) { return function.op(id).kind != OpKind::constant_; });
  return *trips * count <= kUnrolledOpsMax ? trips : std::nullopt;
}

class Unroller {
 public:
  Unroller(const Function& from, Function& to) : from_(from), to_(to), copier_(from, to) {}

  // The number of loops that are gone. Loops inside of regions stay.
  int64_t run() {
    for (const ValueId value : from_.arguments()) copier_.argument(value, to_.body());
    for (const OpId id : from_.block(from_.body()).ops) {
      const Op& op = from_.op(id);
      if (const auto trips = trips_to_unroll(from_, op))
        unroll(op, *trips);
      else
        copier_.copy(op, to_.body());
    }
    return unrolled_;
  }

 private:
  void unroll(const Op& loop, int64_t trips) {
    std::vector<ValueId> carried;
    for (const ValueId value : loop.operands) carried.push_back(copier_.at(value));
    const graph::Block& body = from_.block(loop.regions[1]);
    for (int64_t trip = 0; trip < trips; ++trip) {
      for (size_t i = 0; i < carried.size(); ++i) copier_.set(body.arguments[i], carried[i]);
      for (const OpId id : body.ops) {
        const Op& op = from_.op(id);
        if (op.kind != OpKind::return_) {
          copier_.copy(op, to_.body());
          continue;
        }
        for (size_t i = 0; i < carried.size(); ++i) carried[i] = copier_.at(op.operands[i]);
      }
    }
    for (size_t i = 0; i < carried.size(); ++i) copier_.set(loop.results[i], carried[i]);
    ++unrolled_;
  }

  const Function& from_;
  Function& to_;
  graph::Copier copier_;
  int64_t unrolled_ = 0;
};

}  // namespace

int64_t unroll_loops(Function& function) {
  const auto& ops = function.block(function.body()).ops;
  if (std::ranges::none_of(ops,
                           [&](OpId id) { return trips_to_unroll(function, function.op(id)).has_value(); }))
    return 0;
  Function flat(function.name);
  flat.result_types = function.result_types;
  flat.result_attributes = function.result_attributes;
  const int64_t unrolled = Unroller(function, flat).run();
  flat.argument_attributes = function.argument_attributes;
  function = std::move(flat);
  return unrolled;
}

}  // namespace opentrn::compiler
