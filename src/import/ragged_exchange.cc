#include "import/ragged_exchange.h"

#include <algorithm>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "base/fault.h"
#include "graph/builder.h"
#include "graph/element_value.h"
#include "graph/op_definitions.h"

namespace opentrn::import {

using graph::Attr;
using graph::Attribute;
using graph::Builder;
using graph::ElementType;
using graph::Function;
using graph::IntMatrix;
using graph::Module;
using graph::Op;
using graph::OpId;
using graph::OpKind;
using graph::Type;
using graph::ValueId;

namespace {

constexpr auto kIndex = ElementType::kI32;

class Exchange {
 public:
  Exchange(Builder& builder, const Op& op) : b_(builder), op_(op) {
    if (op.operands.size() != 6 || op.results.size() != 1)
      refuse(fmt::format("it has {} operands and {} results", op.operands.size(), op.results.size()));
    for (const ValueId value : op.operands)
      if (!type(value).is_tensor() || !type(value).is_static() || type(value).rank() == 0)
        refuse(fmt::format("an operand is {}", type(value).to_string()));
    if (type(op.operands[1]).rank() != type(op.operands[0]).rank() ||
        type(op.operands[1]).element() != type(op.operands[0]).element())
      refuse("operand and output are of different types");
    find_groups();
    runs_ = type(op.operands[2]).dim(0);
    for (size_t i = 2; i < 6; ++i) {
      const Type& each = type(op.operands[i]);
      if (each.rank() != 1 || each.dim(0) != runs_ || !graph::is_integer(each.element()))
        refuse(fmt::format("offsets and sizes are whole numbers, as many of each, not {}", each.to_string()));
    }
    if (runs_ == 0 || runs_ % members_ != 0)
      refuse(fmt::format("it has {} runs for {} devices", runs_, members_));
  }

  ValueId made() {
    const Type &from = type(op_.operands[0]), &to = type(op_.operands[1]);
    const int64_t sent = from.dim(0), kept = to.dim(0);
    if (sent == 0 || kept == 0) return op_.operands[1];
    constexpr int64_t kRowsMax = std::numeric_limits<int32_t>::max();  // rows are counted in 32 bits
    if (sent > kRowsMax / members_ || kept > kRowsMax)
      refuse(fmt::format("{} devices with {} rows each and results of {} rows; a group may have {} rows",
                         members_, sent, kept, kRowsMax));
    const ValueId all = gathered(op_.operands[0], sent);
    // By run that comes to this device, [runs, 1]: its first row among all, its size, its place in the
    // result.
    const ValueId begin = b_.add(OpKind::add_, {exchanged(op_.operands[2]), first_rows(sent)});
    const ValueId size = exchanged(op_.operands[3]), place = exchanged(op_.operands[4]);
    const std::vector<int64_t> grid{runs_, kept};
    const auto over_rows = [&](ValueId value) { return b_.broadcast_in_dim(value, grid, {0}); };
    const Type places = Type::tensor(kIndex, grid);
    const ValueId row = b_.add(OpKind::iota_, {}, {{Attr::iota_dimension, Attribute(int64_t{1})}}, {places});
    const ValueId step = b_.add(OpKind::subtract_, {row, over_rows(place)});
    const ValueId comes =
        b_.add(OpKind::and_, {b_.compare(graph::ComparisonDirection::kGe, step, b_.splat(places, 0)),
                              b_.compare(graph::ComparisonDirection::kLt, step, over_rows(size))});
    // -1 where no run comes to a row.
    const ValueId source =
        b_.reduce(OpKind::maximum_,
                  b_.add(OpKind::select_,
                         {comes, b_.add(OpKind::add_, {over_rows(begin), step}), b_.splat(places, -1)}),
                  {0});
    const Type rows = Type::tensor(kIndex, {kept});
    const ValueId found = b_.compare(graph::ComparisonDirection::kGe, source, b_.splat(rows, 0));
    const ValueId looked_up = rows_of(all, b_.add(OpKind::maximum_, {source, b_.splat(rows, 0)}), from, kept);
    return b_.add(OpKind::select_,
                  {b_.broadcast_in_dim(found, to.dims_vector(), {0}), looked_up, op_.operands[1]});
  }

 private:
  const Type& type(ValueId value) const { return b_.type(value); }

  [[noreturn]] void refuse(std::string why) const {
    Fault fault(FaultKind::kInput, "import.ragged_exchange", fmt::format("@ragged_all_to_all: {}", why),
                "jax.lax.ragged_all_to_all says what it takes");
    fault.set_location(b_.module().source(op_.location));
    throw fault;
  }

  void find_groups() {
    const Attribute* config = op_.find(Attr::backend_config);
    const graph::Dictionary* entries = config ? config->as_dictionary() : nullptr;
    if (entries == nullptr && op_.extra)
      if (const auto found = op_.extra->find("mhlo.backend_config"); found != op_.extra->end())
        entries = found->second.as_dictionary();
    if (entries == nullptr) refuse("it has no backend_config");
    if (const auto channel = entries->find("channel_id"); channel != entries->end())
      if (const auto* number = channel->second.get<int64_t>()) channel_ = *number;
    const auto groups = entries->find("replica_groups");
    const graph::Literal* table = groups == entries->end() ? nullptr : groups->second.get<graph::Literal>();
    if (table == nullptr || table->type().rank() != 2 || !graph::is_integer(table->type().element()) ||
        table->type().element_count() == 0)
      refuse("its backend_config has no replica_groups");
    groups_ = {table->type().dim(0), table->type().dim(1), {}};
    for (int64_t i = 0; i < table->type().element_count(); ++i)
      groups_.values.push_back(graph::load_integer(table->type().element(), table->element(i)));
    members_ = groups_.columns;
  }

  Builder::Attributes collective() const {
    return {{Attr::replica_groups, Attribute(groups_)}, {Attr::channel_id, Attribute(channel_)}};
  }

  ValueId gathered(ValueId value, int64_t rows) {
    std::vector<int64_t> dims = type(value).dims_vector();
    dims[0] = rows * members_;
    Builder::Attributes attributes = collective();
    attributes.emplace_back(Attr::all_gather_dim, Attribute(int64_t{0}));
    if (channel_ > 0) attributes.emplace_back(Attr::use_global_device_ids, Attribute(true));
    return b_.add(OpKind::all_gather_, {value}, std::move(attributes),
                  {Type::tensor(type(value).element(), dims)});
  }

  // A number of each run that is sent, as its receivers see it: [runs], by sender.
  ValueId exchanged(ValueId value) {
    Builder::Attributes attributes = collective();
    attributes.emplace_back(Attr::split_dimension, Attribute(int64_t{0}));
    attributes.emplace_back(Attr::concat_dimension, Attribute(int64_t{0}));
    attributes.emplace_back(Attr::split_count, Attribute(members_));
    return b_.add(OpKind::all_to_all_, {b_.convert(value, kIndex)}, std::move(attributes));
  }

  // The first row of each run's sender among those of all, [runs].
  ValueId first_rows(int64_t rows) {
    const Type by_sender = Type::tensor(kIndex, {members_, runs_ / members_});
    const ValueId sender =
        b_.add(OpKind::iota_, {}, {{Attr::iota_dimension, Attribute(int64_t{0})}}, {by_sender});
    const ValueId first = b_.add(OpKind::multiply_, {sender, b_.splat(by_sender, static_cast<double>(rows))});
    return b_.reshape(first, {runs_});
  }

  ValueId rows_of(ValueId all, ValueId numbers, const Type& row, int64_t count) {
    std::vector<int64_t> sizes = row.dims_vector(), offsets;
    sizes[0] = 1;
    for (int64_t i = 1; i < row.rank(); ++i) offsets.push_back(i);
    return b_.add(OpKind::gather_, {all, b_.reshape(numbers, {count, 1})},
                  {{Attr::offset_dims, Attribute(offsets)},
                   {Attr::collapsed_slice_dims, Attribute(std::vector<int64_t>{0})},
                   {Attr::start_index_map, Attribute(std::vector<int64_t>{0})},
                   {Attr::index_vector_dim, Attribute(int64_t{1})},
                   {Attr::slice_sizes, Attribute(sizes)}});
  }

  Builder& b_;
  const Op& op_;
  IntMatrix groups_;
  int64_t members_ = 0, runs_ = 0, channel_ = 0;
};

void exchanges_in_block(Module& module, Function& function, graph::BlockId block) {
  const auto is_ragged = [&](OpId id) {
    const Op& op = function.op(id);
    return op.kind == OpKind::custom_call_ && op.string(Attr::call_target_name) == "ragged_all_to_all";
  };
  if (std::ranges::none_of(function.block(block).ops, is_ragged)) return;
  const std::vector<OpId> ops = std::move(function.block(block).ops);
  function.block(block).ops.clear();
  Builder builder(module, function, block);
  for (const OpId id : ops) {
    if (!is_ragged(id)) {
      function.block(block).ops.push_back(id);
      continue;
    }
    const Op op = function.op(id);
    builder.set_location(op.location);
    function.replace_uses(op.results[0], Exchange(builder, op).made());
  }
}

}  // namespace

void replace_ragged_exchanges(Module& module) {
  for (Function& function : module.functions)
    for (size_t block = 0; block < function.block_count(); ++block)
      exchanges_in_block(module, function, static_cast<graph::BlockId>(block));
}

}  // namespace opentrn::import
