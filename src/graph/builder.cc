#include "graph/builder.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "base/fault.h"
#include "graph/element_value.h"
#include "graph/shape_rules.h"

namespace opentrn::graph {

namespace {

Literal literal_of(Type type, auto&& store) {
  std::vector<std::byte> bytes(static_cast<size_t>(storage_bytes(type.element())));
  store(bytes.data());
  if (type.element_count() == 0) bytes.clear();
  return {std::move(type), std::move(bytes)};
}

// The largest or lowest value of a real type; an infinity where the format has them.
double extreme(ElementType element, bool largest) {
  const double infinity = std::numeric_limits<double>::infinity();
  std::byte bytes[8];
  store_real(element, infinity, bytes);
  if (load_real(element, bytes) == infinity) return largest ? infinity : -infinity;
  double found = 0;
  for (uint64_t code = 0; code < 256; ++code) {
    if (code >> bit_width(element)) break;
    store_bits(element, code, bytes);
    const double value = load_real(element, bytes);
    if (largest ? value > found : value < found) found = value;
  }
  return found;
}

int64_t extreme_integer(ElementType element, bool largest) {
  const int bits = bit_width(element);
  if (is_signed_integer(element)) {
    const int64_t top = bits == 64 ? INT64_MAX : (int64_t{1} << (bits - 1)) - 1;
    return largest ? top : -top - 1;
  }
  return largest ? -1 : 0;  // store_integer keeps the low bits
}

}  // namespace

namespace {

// The nearest int64: the conversion of what is outside is undefined.
int64_t saturated(double value) {
  constexpr double kEnd = 9223372036854775808.0;
  if (value >= kEnd) return INT64_MAX;
  return value < -kEnd ? INT64_MIN : static_cast<int64_t>(value);
}

}  // namespace

Literal splat_literal(Type type, double value) {
  const ElementType element = type.element();
  return literal_of(std::move(type), [&](std::byte* bytes) {
    if (is_complex(element))
      store_real(real_part(element), value, bytes);
    else if (is_float(element))
      store_real(element, value, bytes);
    else if (is_bool(element))
      *bytes = std::byte{value != 0};
    else
      store_integer(element, saturated(value), bytes);
  });
}

Literal neutral_element(OpKind combiner, ElementType element) {
  const Type scalar = Type::scalar(element);
  if (combiner == OpKind::add_ || combiner == OpKind::or_) return splat_literal(scalar, 0);
  if (combiner == OpKind::multiply_) return splat_literal(scalar, 1);
  const bool largest = combiner == OpKind::minimum_ || combiner == OpKind::and_;
  OPENTRN_CHECK(largest || combiner == OpKind::maximum_, "{} has no neutral element", name(combiner));
  if (is_complex(element))
    throw Fault(FaultKind::kInput, "graph.complex_order",
                fmt::format("{} of {}: complex numbers have no order", name(combiner), name(element)));
  if (is_bool(element)) return splat_literal(scalar, largest ? 1 : 0);
  if (is_float(element)) return splat_literal(scalar, extreme(element, largest));
  const int64_t value = combiner == OpKind::and_ ? -1 : extreme_integer(element, largest);
  return literal_of(scalar, [&](std::byte* bytes) { store_integer(element, value, bytes); });
}

Op& Builder::make(OpId id, Attributes attributes) {
  Op& op = function_.op(id);
  for (auto& [attr, value] : attributes) op.set(attr, std::move(value));
  return op;
}

OpId Builder::add_op(OpKind kind, std::vector<ValueId> operands, Attributes attributes,
                     std::vector<Type> stated) {
  Op op;
  op.kind = kind;
  op.operands = std::move(operands);
  op.location = location_;
  for (auto& [attr, value] : attributes) op.set(attr, std::move(value));
  std::vector<Type> types = infer_types(module_, function_, op, stated);
  const OpId id = function_.append(block_, kind, std::move(op.operands), std::move(types), location_);
  function_.op(id).attributes = std::move(op.attributes);
  return id;
}

ValueId Builder::add(OpKind kind, std::vector<ValueId> operands, Attributes attributes,
                     std::vector<Type> stated) {
  const OpId id = add_op(kind, std::move(operands), std::move(attributes), std::move(stated));
  const auto& results = function_.op(id).results;
  OPENTRN_CHECK(results.size() == 1, "{} has {} results", name(kind), results.size());
  return results[0];
}

OpId Builder::add_with_regions(OpKind kind, std::vector<ValueId> operands, Attributes attributes,
                               std::vector<Type> results, std::span<const RegionBody> regions) {
  const OpId id = function_.append(block_, kind, std::move(operands), results, location_);
  make(id, std::move(attributes));
  for (const RegionBody& region : regions) {
    const BlockId inner = function_.add_block(id);
    std::vector<ValueId> arguments;
    for (const Type& type : region.arguments) arguments.push_back(function_.add_argument(inner, type));
    Builder body(module_, function_, inner);
    body.set_location(location_);
    body.return_values(region.build(body, arguments));
  }
  (void)infer_types(module_, function_, function_.op(id), results);
  return id;
}

ValueId Builder::constant(Literal value) {
  return add(OpKind::constant_, {}, {{Attr::value, Attribute(std::move(value))}});
}

ValueId Builder::splat(Type type, double value) { return constant(splat_literal(std::move(type), value)); }

ValueId Builder::shape_constant(std::span<const int64_t> values) {
  const auto bytes = std::as_bytes(values);
  return constant(Literal(Type::tensor(ElementType::kI64, {static_cast<int64_t>(values.size())}),
                          std::vector<std::byte>(bytes.begin(), bytes.end())));
}

ValueId Builder::reshape(ValueId value, std::vector<int64_t> dims) {
  const Type target = type(value).with_dims(std::move(dims));
  if (target == type(value)) return value;
  return add(OpKind::reshape_, {value}, {}, {target});
}

ValueId Builder::convert(ValueId value, ElementType element) {
  if (type(value).element() == element) return value;
  return add(OpKind::convert_, {value}, {}, {type(value).with_element(element)});
}

ValueId Builder::transpose(ValueId value, std::vector<int64_t> permutation) {
  return add(OpKind::transpose_, {value}, {{Attr::permutation, Attribute(std::move(permutation))}});
}

ValueId Builder::broadcast_in_dim(ValueId value, std::vector<int64_t> dims,
                                  std::vector<int64_t> broadcast_dimensions) {
  return add(OpKind::broadcast_in_dim_, {value},
             {{Attr::broadcast_dimensions, Attribute(std::move(broadcast_dimensions))}},
             {type(value).with_dims(std::move(dims))});
}

ValueId Builder::slice(ValueId value, std::vector<int64_t> start, std::vector<int64_t> limit) {
  std::vector<int64_t> strides(start.size(), 1);
  return add(OpKind::slice_, {value},
             {{Attr::start_indices, Attribute(std::move(start))},
              {Attr::limit_indices, Attribute(std::move(limit))},
              {Attr::strides, Attribute(std::move(strides))}});
}

ValueId Builder::compare(ComparisonDirection direction, ValueId lhs, ValueId rhs) {
  return add(OpKind::compare_, {lhs, rhs},
             {{Attr::comparison_direction, Attribute(static_cast<int64_t>(direction))}});
}

ValueId Builder::concatenate(std::vector<ValueId> values, int64_t dimension) {
  if (values.size() == 1) return values[0];
  return add(OpKind::concatenate_, std::move(values), {{Attr::dimension, Attribute(dimension)}});
}

ValueId Builder::reduce(OpKind combiner, ValueId value, std::vector<int64_t> dimensions) {
  const Type& input = type(value);
  const Type scalar = Type::scalar(input.element());
  std::vector<int64_t> dims;
  for (int i = 0; i < input.rank(); ++i)
    if (std::find(dimensions.begin(), dimensions.end(), i) == dimensions.end()) dims.push_back(input.dim(i));
  const Type result = input.with_dims(std::move(dims));
  const ValueId initial = constant(neutral_element(combiner, scalar.element()));
  const RegionBody body{{scalar, scalar}, [&](Builder& b, std::span<const ValueId> arguments) {
                          return std::vector<ValueId>{b.add(combiner, {arguments[0], arguments[1]})};
                        }};
  const OpId id = add_with_regions(OpKind::reduce_, {value, initial},
                                   {{Attr::dimensions, Attribute(std::move(dimensions))}}, {result}, {body});
  return function_.op(id).results[0];
}

void Builder::return_values(std::vector<ValueId> values) {
  function_.append(block_, OpKind::return_, std::move(values), {}, location_);
}

}  // namespace opentrn::graph
