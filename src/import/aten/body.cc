#include "import/aten/body.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/fault.h"

namespace opentrn::import::aten {

namespace {

std::string names_of(const std::vector<Value>& values) {
  std::string text;
  for (const Value& value : values) text += (text.empty() ? "" : ", ") + value.name;
  return text;
}

std::string types_of(const std::vector<Value>& values) {
  std::string text;
  for (const Value& value : values) text += (text.empty() ? "" : ", ") + value.type();
  return text;
}

// A region's one block: what it is given, its lines, what it returns.
std::string block_text(const std::vector<Value>& given, const std::vector<std::string>& lines,
                       const std::vector<Value>& results) {
  std::string head;
  for (const Value& value : given)
    head += fmt::format("{}{}: {}", head.empty() ? "" : ", ", value.name, value.type());
  std::string text = fmt::format("{{\n^bb0({}):\n", head);
  for (const std::string& line : lines) text += line + "\n";
  return text +
         fmt::format("\"stablehlo.return\"({}) : ({}) -> ()\n}}", names_of(results), types_of(results));
}

Body::Build combining(std::string_view combiner) {
  return [combiner](Body& body, const std::vector<Value>& given) {
    return std::vector{body.binary(combiner, given[0], given[1])};
  };
}

template <typename Element>
std::string_view bytes_of(const std::vector<Element>& elements) {
  return {reinterpret_cast<const char*>(elements.data()), elements.size() * sizeof(Element)};
}

}  // namespace

std::string Value::type() const { return type_text(shape, dtype); }

std::string Body::fresh() { return fmt::format("%v{}", ++*counter_); }

Value Body::op(std::string_view name, const std::vector<Value>& operands, Shape shape, ElementType dtype,
               const std::string& attributes, const std::string& regions) {
  return ops(name, operands, {{std::move(shape), dtype}}, attributes, regions)[0];
}

std::vector<Value> Body::ops(std::string_view name, const std::vector<Value>& operands,
                             const std::vector<Kind>& results, const std::string& attributes,
                             const std::string& regions) {
  std::vector<Value> values;
  for (const auto& [shape, dtype] : results) values.push_back({fresh(), shape, dtype});
  const std::string dialect = name.find('.') == std::string_view::npos ? "stablehlo." : "";
  lines_.push_back(fmt::format("{} = \"{}{}\"({}){}{} : ({}) -> ({}){}", names_of(values), dialect, name,
                               names_of(operands), attributes.empty() ? "" : " <{" + attributes + "}>",
                               regions, types_of(operands), types_of(values), location));
  return values;
}

std::string Body::region(const std::vector<ElementType>& arguments, const Build& build) {
  std::vector<Kind> kinds;
  for (const ElementType dtype : arguments) kinds.emplace_back(Shape{}, dtype);
  return "(" + block(kinds, build) + ")";
}

std::string Body::block(const std::vector<Kind>& arguments, const Build& build) {
  Body inner(counter_, depth_ + 1);
  inner.location = location;
  std::vector<Value> given;
  for (const auto& [shape, dtype] : arguments) given.push_back({inner.fresh(), shape, dtype});
  const auto results = build(inner, given);
  return block_text(given, inner.lines_, results);
}

std::vector<Value> Body::open_block(const std::vector<Kind>& arguments) {
  Outer outer{std::move(lines_), splats_, location, read, {}};
  lines_.clear();
  ++depth_;
  for (const auto& [shape, dtype] : arguments) outer.given.push_back({fresh(), shape, dtype});
  outer_.push_back(std::move(outer));
  return outer_.back().given;
}

std::string Body::close_block(const std::vector<Value>& results) {
  OPENTRN_CHECK(!outer_.empty(), "no block is open");
  Outer outer = std::move(outer_.back());
  outer_.pop_back();
  std::string text = block_text(outer.given, lines_, results);
  lines_ = std::move(outer.lines);
  splats_ = std::move(outer.splats);
  location = std::move(outer.location);
  read = std::move(outer.read);
  --depth_;
  return text;
}

// ---- constants

Value Body::splat(const Number& value, ElementType dtype, const Shape& shape) {
  const std::string kind = type_text(shape, dtype);
  const std::string text = literal(value, dtype);
  const auto key = std::pair(kind, text);
  if (const auto known = splats_.find(key); known != splats_.end()) return known->second;
  const std::string held = is_empty(shape) ? "dense<>" : "dense<" + text + ">";
  return splats_[key] = op("constant", {}, shape, dtype, fmt::format("value = {} : {}", held, kind));
}

Value Body::constant(const Shape& shape, ElementType dtype, std::string_view bytes) {
  std::string held = "dense<>";
  if (!bytes.empty()) {
    held = "dense<\"0x";
    held.reserve(held.size() + 2 * bytes.size() + 2);
    for (const char byte : bytes) {
      held += "0123456789ABCDEF"[static_cast<uint8_t>(byte) >> 4];
      held += "0123456789ABCDEF"[static_cast<uint8_t>(byte) & 15];
    }
    held += "\">";
  }
  return op("constant", {}, shape, dtype, "value = " + held + " : " + type_text(shape, dtype));
}

Value Body::constant(const Shape& shape, const std::vector<float>& elements) {
  return constant(shape, ElementType::kF32, bytes_of(elements));
}

Value Body::constant(const Shape& shape, const std::vector<int32_t>& elements) {
  return constant(shape, ElementType::kI32, bytes_of(elements));
}

Value Body::constant(const Shape& shape, const std::vector<bool>& elements) {
  if (elements.empty()) return constant(shape, ElementType::kI1, std::string_view());
  const Shape flat = {static_cast<int64_t>(elements.size())};
  std::string flags;
  for (const bool element : elements) flags += fmt::format("{}{}", flags.empty() ? "" : ", ", element);
  const std::string text = fmt::format("value = dense<[{}]> : {}", flags, type_text(flat, ElementType::kI1));
  return reshape(op("constant", {}, flat, ElementType::kI1, text), shape);
}

Value Body::iota(const Shape& shape, int64_t dimension, ElementType dtype) {
  if (is_empty(shape)) return splat(0, dtype, shape);
  return op("iota", {}, shape, dtype, fmt::format("iota_dimension = {} : i64", dimension));
}

Value Body::tensor(const Arg& value, ElementType dtype, const Shape& shape) {
  return value.is_value() ? tensor(value.value(), dtype, shape) : splat(value.number(), dtype, shape);
}

Value Body::tensor(const Value& value, ElementType dtype, const Shape& shape) {
  return broadcast(convert(value, dtype), shape);
}

// ---- shapes

Value Body::convert(const Value& value, ElementType dtype) {
  if (value.dtype == dtype) return value;
  if (dtype == ElementType::kI1) return compare("NE", value, like(0, value));
  const bool from_complex = graph::is_complex(value.dtype);
  if (from_complex && !graph::is_complex(dtype))
    return convert(op("real", {value}, value.shape, graph::real_part(value.dtype)), dtype);
  if (graph::is_complex(dtype) && !from_complex) {
    const Value real = convert(value, graph::real_part(dtype));
    return op("complex", {real, like(0, real)}, value.shape, dtype);
  }
  const bool saturates = dtype == ElementType::kF8E4M3FN && torch().e4m3_saturates;
  return op("convert", {saturates ? within_e4m3(value) : value}, value.shape, dtype);
}

// Numbers and infinities beyond the largest float8_e4m3fn become it, as in torch; NaN stays NaN. StableHLO's
// convert gives NaN for them, which is what JAX expects.
Value Body::within_e4m3(Value value) {
  constexpr double kLargest = 448;
  if (value.dtype != ElementType::kF32 && value.dtype != ElementType::kBF16 &&
      value.dtype != ElementType::kF16)
    value = op("convert", {value}, value.shape, ElementType::kF32);
  const Value highest = like(kLargest, value);
  const Value lowest = like(-kLargest, value);
  return binary("maximum", binary("minimum", value, highest), lowest);
}

Value Body::reshape(const Value& value, const Shape& shape) {
  return shape == value.shape ? value : op("reshape", {value}, shape, value.dtype);
}

Value Body::transpose(const Value& value, const Shape& permutation) {
  if (permutation == counted_up(value.rank())) return value;
  Shape shape;
  for (const int64_t axis : permutation) shape.push_back(value.shape.at(axis));
  return op("transpose", {value}, shape, value.dtype, "permutation = " + numbers(permutation));
}

Value Body::broadcast_in_dim(const Value& value, const Shape& shape, const Shape& dimensions) {
  if (shape == value.shape && dimensions == counted_up(value.rank())) return value;
  return op("broadcast_in_dim", {value}, shape, value.dtype, "broadcast_dimensions = " + numbers(dimensions));
}

Value Body::broadcast(const Value& value, const Shape& shape) {
  Shape dimensions = counted_up(value.rank());
  for (int64_t& each : dimensions) each += static_cast<int64_t>(shape.size()) - value.rank();
  return broadcast_in_dim(value, shape, dimensions);
}

Value Body::slice(const Value& value, const Shape& start, const Shape& limit,
                  const std::optional<Shape>& strides) {
  const Shape steps = strides.value_or(Shape(value.shape.size(), 1));
  Shape shape;
  for (size_t i = 0; i < start.size(); ++i)
    shape.push_back(std::max<int64_t>(0, (limit[i] - start[i] + steps[i] - 1) / steps[i]));
  if (shape == value.shape) return value;
  if (is_empty(shape)) return splat(0, value.dtype, shape);
  return op("slice", {value}, shape, value.dtype,
            fmt::format("start_indices = {}, limit_indices = {}, strides = {}", numbers(start),
                        numbers(limit), numbers(steps)));
}

Value Body::slice_axis(const Value& value, int64_t axis, int64_t start, int64_t limit, int64_t step) {
  Shape starts(value.shape.size(), 0);
  Shape limits = value.shape;
  Shape steps(value.shape.size(), 1);
  starts.at(axis) = start;
  limits[axis] = limit;
  steps[axis] = step;
  return slice(value, starts, limits, steps);
}

Value Body::pad(const Value& value, const Shape& low, const Shape& high, const std::optional<Shape>& interior,
                const Number& fill) {
  const Shape gaps = interior.value_or(Shape(value.shape.size(), 0));
  const auto is_zero = [](const Shape& amounts) {
    return std::all_of(amounts.begin(), amounts.end(), [](int64_t each) { return each == 0; });
  };
  if (is_zero(low) && is_zero(high) && is_zero(gaps)) return value;
  Shape shape;
  for (size_t i = 0; i < value.shape.size(); ++i)
    shape.push_back(low[i] + high[i] + value.shape[i] + std::max<int64_t>(value.shape[i] - 1, 0) * gaps[i]);
  if (is_empty(value.shape) || is_empty(shape)) return splat(fill, value.dtype, shape);
  const std::string text = fmt::format("edge_padding_low = {}, edge_padding_high = {}, interior_padding = {}",
                                       numbers(low), numbers(high), numbers(gaps));
  return op("pad", {value, splat(fill, value.dtype)}, shape, value.dtype, text);
}

Value Body::concatenate(const std::vector<Value>& values, int64_t axis) {
  std::vector<Value> kept;
  int64_t size = 0;
  for (const Value& value : values) {
    if (value.shape.at(axis) != 0) kept.push_back(value);
    size += value.shape[axis];
  }
  if (kept.empty()) return values.at(0);
  if (kept.size() == 1) return kept[0];
  Shape shape = kept[0].shape;
  shape[axis] = size;
  return op("concatenate", kept, shape, kept[0].dtype, fmt::format("dimension = {} : i64", axis));
}

Value Body::reverse(const Value& value, const Shape& axes) {
  if (axes.empty() || is_empty(value.shape)) return value;
  return op("reverse", {value}, value.shape, value.dtype, "dimensions = " + numbers(axes));
}

// ---- elements

Value Body::binary(std::string_view name, const Value& left, const Value& right) {
  return op(name, {left, right}, left.shape, left.dtype);
}

Value Body::add(const Value& left, const Value& right) {
  return binary(left.dtype == ElementType::kI1 ? "or" : "add", left, right);
}

Value Body::multiply(const Value& left, const Value& right) {
  return binary(left.dtype == ElementType::kI1 ? "and" : "multiply", left, right);
}

Value Body::compare(std::string_view direction, const Value& left, const Value& right) {
  std::string_view kind = graph::is_signed_integer(left.dtype) ? "SIGNED" : "UNSIGNED";
  if (graph::is_float(left.dtype) || graph::is_complex(left.dtype)) kind = "FLOAT";
  const std::string text = fmt::format(
      "comparison_direction = #stablehlo<comparison_direction {}>, "
      "compare_type = #stablehlo<comparison_type {}>",
      direction, kind);
  return op("compare", {left, right}, left.shape, ElementType::kI1, text);
}

Value Body::select(const Value& condition, const Value& left, const Value& right) {
  return op("select", {condition, left, right}, left.shape, left.dtype);
}

Number Body::lowest(ElementType dtype) {
  if (graph::is_float(dtype)) return -std::numeric_limits<double>::infinity();
  return integer_range(dtype).first;
}

Number Body::highest(ElementType dtype) {
  if (graph::is_float(dtype)) return std::numeric_limits<double>::infinity();
  return static_cast<int64_t>(integer_range(dtype).second);
}

// ---- over dimensions

Value Body::reduce(std::string_view combiner, const Value& value, Shape axes, const Number& initial) {
  if (axes.empty()) return value;
  Shape shape;
  for (int axis = 0; axis < value.rank(); ++axis)
    if (!has(axes, axis)) shape.push_back(value.shape[axis]);
  if (is_empty(value.shape)) return splat(initial, value.dtype, shape);
  const std::string made = region({value.dtype, value.dtype}, combining(combiner));
  const Value start = splat(initial, value.dtype);
  std::sort(axes.begin(), axes.end());
  return op("reduce", {value, start}, shape, value.dtype, "dimensions = " + numbers(axes), made);
}

Value Body::reduce_window(std::string_view combiner, const Value& value, const Number& initial,
                          const Shape& window, const Shape& strides, const Pairs& padding,
                          const std::optional<Shape>& dilation) {
  const Shape gaps = dilation.value_or(Shape(value.shape.size(), 1));
  Shape shape;
  for (size_t i = 0; i < value.shape.size(); ++i) {
    const int64_t room =
        value.shape[i] + padding[i].first + padding[i].second - (gaps[i] * (window[i] - 1) + 1);
    shape.push_back(
        static_cast<int64_t>(std::floor(static_cast<double>(room) / static_cast<double>(strides[i]))) + 1);
  }
  const std::string made = region({value.dtype, value.dtype}, combining(combiner));
  const std::string text =
      fmt::format("window_dimensions = {}, window_strides = {}, window_dilations = {}, padding = {}",
                  numbers(window), numbers(strides), numbers(gaps), pairs(padding));
  const Value start = splat(initial, value.dtype);
  return op("reduce_window", {value, start}, shape, value.dtype, text, made);
}

Value Body::dot(const Value& left, const Value& right, const std::pair<Shape, Shape>& contract,
                const std::pair<Shape, Shape>& batch, std::optional<ElementType> dtype) {
  Shape shape;
  for (const int64_t axis : batch.first) shape.push_back(left.shape.at(axis));
  for (int axis = 0; axis < left.rank(); ++axis)
    if (!has(batch.first, axis) && !has(contract.first, axis)) shape.push_back(left.shape[axis]);
  for (int axis = 0; axis < right.rank(); ++axis)
    if (!has(batch.second, axis) && !has(contract.second, axis)) shape.push_back(right.shape[axis]);
  const ElementType kind = dtype.value_or(left.dtype);
  const bool sums_nothing = std::any_of(contract.first.begin(), contract.first.end(),
                                        [&](int64_t axis) { return left.shape.at(axis) == 0; });
  if (is_empty(shape) || sums_nothing) return splat(0, kind, shape);
  const std::string text = fmt::format(
      "dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = {}, "
      "rhs_batching_dimensions = {}, lhs_contracting_dimensions = {}, rhs_contracting_dimensions = {}>",
      list_text(batch.first), list_text(batch.second), list_text(contract.first), list_text(contract.second));
  return op("dot_general", {left, right}, shape, kind, text);
}

// ---- random numbers

Value Body::state_words() {
  if (!state_) state_ = Value{"%state", {4}, ElementType::kUI32};
  const std::vector<uint32_t> shift = {0, 0, 0, static_cast<uint32_t>(draws_)};
  return binary("add", *state_, constant({4}, ElementType::kUI32, bytes_of(shift)));
}

Value Body::random_words(const Shape& shape) {
  ++draws_;
  const Value key = op("bitcast_convert", {reshape(state_words(), {2, 2})}, {2}, ElementType::kUI64);
  return ops("rng_bit_generator", {key}, {{{2}, ElementType::kUI64}, {shape, ElementType::kUI32}},
             "rng_algorithm = #stablehlo<rng_algorithm THREE_FRY>")[1];
}

Value Body::saved_state(int64_t count) {
  constexpr int64_t kStateBytes = 16;  // four words
  const Value words = state_words();
  std::vector<Value> bytes;
  for (int64_t i = 0; i < 4; ++i) {
    const Value amount = like(8 * i, words);
    bytes.push_back(binary("shift_right_logical", words, amount));
  }
  for (Value& part : bytes) {
    const Value mask = like(255, part);
    part = convert(binary("and", part, mask), ElementType::kUI8);
  }
  bytes.push_back(splat(0, ElementType::kUI8, {count - kStateBytes}));
  return concatenate(bytes, 0);
}

void Body::draw_from(const Value& saved) {
  Value words = splat(0, ElementType::kUI32, {4});
  for (int64_t i = 0; i < 4; ++i) {
    const Value part = convert(slice_axis(saved, 0, 4 * i, 4 * i + 4), ElementType::kUI32);
    const Value amount = like(8 * i, part);
    words = binary("or", words, binary("shift_left", part, amount));
  }
  resumed_.emplace_back(state_, draws_);
  state_ = words;
  draws_ = 0;
}

void Body::resume_draws() {
  OPENTRN_CHECK(!resumed_.empty(), "no draws to resume");
  std::tie(state_, draws_) = std::move(resumed_.back());
  resumed_.pop_back();
}

// ---- checks

void Body::check_info(const Value& info, std::string name, bool is_matrix) {
  checks_.push_back({info, std::move(name), is_matrix, false});
}

void Body::check_that(const Value& condition, std::string message) {
  const Value failed = convert(compare("EQ", condition, like(0, condition)), ElementType::kI32);
  checks_.push_back({reshape(failed, {}), std::move(message), false, true});
}

void Body::check_chosen(const Value& mask, std::string_view comparison, int64_t rows, std::string message) {
  if (!holds_masks || depth_ > 0) return;
  const Value ones = reshape(convert(mask, ElementType::kI32), {size_of(mask.shape)});
  const Value count = reduce("add", ones, {0}, 0);
  check_that(compare(comparison, count, like(rows, count)), std::move(message));
}

}  // namespace opentrn::import::aten
