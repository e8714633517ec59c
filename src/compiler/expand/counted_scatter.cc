// Scatters at places of which a component counts along a dimension of the updates that no other component
// looks at: that dimension is one of whole windows. PyTorch writes its scatters and gradients of look-ups so,
// with a coordinate for every dimension of the table (scatter_add of rows by an index for each of their
// elements, grid_sample's gradient), as programs of JAX do (x.at[i, arange(n)]). Numbers become rows, which
// kernels take together. Updates that meet have the same coordinate, so that their order stays.
#include <algorithm>
#include <optional>

#include "compiler/analysis/dims.h"
#include "compiler/analysis/graph_names.h"
#include "compiler/analysis/index_pattern.h"
#include "compiler/expand/expand.h"
#include "compiler/expand/scatter_rows.h"
#include "compiler/expand/varying.h"
#include "compiler/rewrite/inline_region.h"

namespace opentrn::compiler {

namespace {

// Fewer updates are over before a row of them is.
constexpr int64_t kUpdatesMin = 256;

// The component, and the dimension of the indices along which it counts.
struct Counted {
  size_t component;
  int64_t along;
};

std::optional<Counted> counted_of(const Function& function, const Op& op) {
  if (op.results.size() != 1 || op.operands.size() != 3 || !dims_of(op, Attr::input_batching_dims).empty() ||
      !can_inline_region(function, op.regions[0]))
    return std::nullopt;
  for (const ValueId id : op.operands) {
    const Type& type = function.type(id);
    if (!type.is_tensor() || !type.is_static() || type.quantization() || graph::is_complex(type.element()) ||
        type.element_count() == 0)
      return std::nullopt;
  }
  const Type &table = function.type(op.operands[0]), &indices = function.type(op.operands[1]);
  const Dims map = dims_of(op, Attr::scatter_dims_to_operand_dims),
             inserted = dims_of(op, Attr::inserted_window_dims);
  const int64_t vector = op.integer(Attr::index_vector_dim);
  const graph::OpId id = function.value(op.operands[1]).op;
  if (map.size() < 2 || vector != indices.rank() - 1 || id == graph::kNoOp ||
      function.type(op.operands[2]).element_count() < kUpdatesMin)
    return std::nullopt;
  const Op& maker = function.op(id);
  if (maker.kind != OpKind::concatenate_ || maker.integer(Attr::dimension) != vector ||
      maker.operands.size() != map.size())
    return std::nullopt;
  for (size_t c = 0; c < map.size(); ++c) {
    const auto pattern = index_pattern(function, maker.operands[c]);
    const int64_t size = table.dim(static_cast<int>(map[c]));
    if (!pattern || pattern->offset != 0 || size < 2 || std::ranges::find(inserted, map[c]) == inserted.end())
      continue;
    for (int64_t k = 0; k < vector; ++k) {
      if (pattern->steps[static_cast<size_t>(k)] != 1 || indices.dim(static_cast<int>(k)) != size ||
          std::ranges::count(pattern->steps, 0) != std::ssize(pattern->steps) - 1)
        continue;
      bool is_alone = true;
      for (size_t other = 0; other < map.size(); ++other)
        is_alone = is_alone && (other == c || !varies(function, maker.operands[other], k));
      if (is_alone) return Counted{c, k};
    }
  }
  return std::nullopt;
}

bool has_counted_component(const Function& function, const Op& op) {
  return op.kind == OpKind::scatter_ && counted_of(function, op).has_value();
}

std::vector<ValueId> in_whole_windows(Builder& builder, const Function& function, const Op& op,
                                      std::span<const ValueId> operands) {
  const auto [component, along] = *counted_of(function, op);
  const Type table = function.type(op.operands[0]), updates = function.type(op.operands[2]);
  Dims map = dims_of(op, Attr::scatter_dims_to_operand_dims);
  const int64_t whole = map[component], vector = op.integer(Attr::index_vector_dim);
  // Indices without the component, at the first place of the dimension that it counts along.
  std::vector<ValueId> parts;
  for (size_t c = 0; c < map.size(); ++c) {
    if (c == component) continue;
    const auto at = static_cast<int64_t>(c);
    const ValueId one = part_of(builder, operands[1], vector, at, at + 1);
    const ValueId first = part_of(builder, one, along, 0, 1);
    Dims dims = builder.type(first).dims_vector();
    dims.erase(dims.begin() + along);
    parts.push_back(builder.reshape(first, dims));
  }
  const ValueId indices = parts.size() == 1 ? parts[0] : builder.concatenate(parts, vector - 1);
  // Updates with what numbers the windows in front, then windows in the table's order.
  Dims order = scatter_dims(function, op), inserted = dims_of(op, Attr::inserted_window_dims);
  const int64_t counted = order[static_cast<size_t>(along)];
  order.erase(order.begin() + along);
  const auto numbers = std::ssize(order);
  Dims old_window = dims_of(op, Attr::update_window_dims), window;
  std::erase(inserted, whole);
  auto next = old_window.begin();
  for (int64_t d = 0; d < table.rank(); ++d) {
    if (std::ranges::find(inserted, d) != inserted.end()) continue;
    window.push_back(numbers + std::ssize(window));
    order.push_back(d == whole ? counted : *next++);
  }
  map.erase(map.begin() + static_cast<std::ptrdiff_t>(component));
  const Type scalar = table.with_dims({});
  const graph::RegionBody body{{scalar, scalar}, [&](Builder& inside, std::span<const ValueId> a) {
                                 return inline_region(inside, function, op.regions[0], a, {});
                               }};
  Builder::Attributes attributes{{Attr::update_window_dims, Attribute(window)},
                                 {Attr::inserted_window_dims, Attribute(inserted)},
                                 {Attr::scatter_dims_to_operand_dims, Attribute(map)},
                                 {Attr::index_vector_dim, Attribute(vector - 1)}};
  const OpId made = builder.add_with_regions(OpKind::scatter_,
                                             {operands[0], indices, builder.transpose(operands[2], order)},
                                             std::move(attributes), {table}, {body});
  return {builder.function().op(made).results[0]};
}

constexpr Expansion kCountedScatters[] = {{OpKind::scatter_, has_counted_component, in_whole_windows}};

}  // namespace

std::span<const Expansion> counted_scatter_expansions() { return kCountedScatters; }

}  // namespace opentrn::compiler
