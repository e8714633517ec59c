// Weights in int8 or fp8, with one fp32 scale per channel.
//
// A weight is a constant that only products (dot_general) read. With s[n] = max |w[:, n]| / largest(type),
// over what is contracted, and q = round(w / s), to nearest even,
//
//   dot_general(x, w)   becomes   dot_general(x, convert(q)) * s
//
// which is the same product in other brackets, s being the same for every term of a sum. Converting q is
// exact. The product is computed with the operand type that the model gives, kernels load q as it is kept
// (read_narrow_constants), and the scale is applied to the sums on their way out of PSUM. A channel of zeros
// has scale 1.
//
// q is laid out as kernels read it: batches, what is contracted, channels.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <optional>
#include <vector>

#include "compiler/passes/passes.h"
#include "graph/element_value.h"
#include "numerics/convert.h"

namespace opentrn::compiler {

using graph::Attr;
using graph::BlockId;
using graph::ElementType;
using graph::Function;
using graph::Literal;
using graph::Op;
using graph::OpId;
using graph::OpKind;
using graph::ValueId;

namespace {

struct Format {
  ElementType element;
  float largest;
};

Format format_of(WeightType type) {
  switch (type) {
    case WeightType::kInt8: return {ElementType::kI8, 127};  // symmetric: -128 is not used
    case WeightType::kFp8E4M3: return {ElementType::kF8E4M3, 240};
    case WeightType::kFp8E4M3Fn: return {ElementType::kF8E4M3FN, 448};
    default: return {ElementType::kF8E5M2, 57344};
  }
}

// A weight as batches x contracted x channels: the place of an element is the sum of three offsets.
struct Layout {
  std::vector<int64_t> batch_dims, contracted_dims, channel_dims;
  std::vector<int64_t> batches, contracted, channels;  // offsets in elements
};

// Offsets of all elements of these dimensions, the last one fastest.
std::vector<int64_t> offsets(const graph::Type& type, std::span<const int64_t> dims) {
  std::vector<int64_t> strides(static_cast<size_t>(type.rank()), 1);
  for (int d = type.rank() - 2; d >= 0; --d)
    strides[static_cast<size_t>(d)] = strides[static_cast<size_t>(d) + 1] * type.dim(d + 1);
  std::vector<int64_t> result{0};
  for (const int64_t d : dims) {
    std::vector<int64_t> longer;
    longer.reserve(result.size() * static_cast<size_t>(type.dim(static_cast<int>(d))));
    for (const int64_t offset : result)
      for (int64_t i = 0; i < type.dim(static_cast<int>(d)); ++i)
        longer.push_back(offset + i * strides[static_cast<size_t>(d)]);
    result = std::move(longer);
  }
  return result;
}

std::vector<int64_t> dims_of(const graph::Type& type, std::span<const int64_t> dims) {
  std::vector<int64_t> result;
  for (const int64_t d : dims) result.push_back(type.dim(static_cast<int>(d)));
  return result;
}

Layout layout_of(const graph::Type& type, std::span<const int64_t> batching,
                 std::span<const int64_t> contracting) {
  Layout layout{{batching.begin(), batching.end()}, {contracting.begin(), contracting.end()}, {}, {}, {}, {}};
  for (int64_t d = 0; d < type.rank(); ++d)
    if (std::find(batching.begin(), batching.end(), d) == batching.end() &&
        std::find(contracting.begin(), contracting.end(), d) == contracting.end())
      layout.channel_dims.push_back(d);
  layout.batches = offsets(type, layout.batch_dims);
  layout.contracted = offsets(type, layout.contracted_dims);
  layout.channels = offsets(type, layout.channel_dims);
  return layout;
}

// The elements as fp32, in place where they are that already.
class Elements {
 public:
  explicit Elements(const Literal& literal) {
    if (literal.type().element() == ElementType::kF32) {
      data_ = reinterpret_cast<const float*>(literal.bytes().data());
      return;
    }
    copy_.resize(static_cast<size_t>(literal.type().element_count()));
    numerics::load_f32(*graph::to_dtype(literal.type().element()), literal.bytes().data(), copy_.data(),
                       copy_.size());
    data_ = copy_.data();
  }
  float operator[](int64_t i) const { return data_[i]; }

 private:
  std::vector<float> copy_;
  const float* data_ = nullptr;
};

// Calls visit(contracted, channel, offset) for all elements of a batch, in blocks that suit both orders of
// memory.
template <typename Visit>
void for_elements(const Layout& layout, int64_t batch_offset, Visit&& visit) {
  constexpr size_t kBlock = 64;
  const size_t rows = layout.contracted.size(), columns = layout.channels.size();
  for (size_t k0 = 0; k0 < rows; k0 += kBlock)
    for (size_t n0 = 0; n0 < columns; n0 += kBlock)
      for (size_t k = k0; k < std::min(rows, k0 + kBlock); ++k)
        for (size_t n = n0; n < std::min(columns, n0 + kBlock); ++n)
          visit(k, n, batch_offset + layout.contracted[k] + layout.channels[n]);
}

struct Quantised {
  Literal weights, scales;
};

// nullopt where an element is no finite number.
std::optional<Quantised> quantised(const Literal& literal, const Layout& layout, const Format& format) {
  const graph::Type& type = literal.type();
  const Elements elements(literal);
  const size_t rows = layout.contracted.size(), columns = layout.channels.size(),
               batches = layout.batches.size();
  std::vector<float> scales(batches * columns, 0.0f), ratios(rows * columns);
  std::vector<std::byte> bytes(batches * rows * columns);
  for (size_t b = 0; b < batches; ++b) {
    const std::span scale(scales.data() + b * columns, columns);
    bool finite = true;
    for_elements(layout, layout.batches[b], [&](size_t, size_t n, int64_t at) {
      const float size = std::fabs(elements[at]);
      finite &= std::isfinite(size);
      scale[n] = std::max(scale[n], size);
    });
    if (!finite) return std::nullopt;
    for (float& each : scale) {
      each /= format.largest;
      if (each == 0.0f) each = 1.0f;
    }
    for_elements(layout, layout.batches[b], [&](size_t k, size_t n, int64_t at) {
      ratios[k * columns + n] = std::clamp(elements[at] / scale[n], -format.largest, format.largest);
    });
    std::byte* to = bytes.data() + b * rows * columns;
    if (format.element == ElementType::kI8)
      for (size_t i = 0; i < ratios.size(); ++i)
        to[i] = static_cast<std::byte>(static_cast<int8_t>(std::nearbyintf(ratios[i])));
    else
      numerics::store_f32(*graph::to_dtype(format.element), ratios.data(), to, ratios.size());
  }
  std::vector<int64_t> dims = dims_of(type, layout.batch_dims), scale_dims = dims;
  const auto contracted = dims_of(type, layout.contracted_dims), free = dims_of(type, layout.channel_dims);
  dims.insert(dims.end(), contracted.begin(), contracted.end());
  dims.insert(dims.end(), free.begin(), free.end());
  scale_dims.insert(scale_dims.end(), free.begin(), free.end());
  std::vector<std::byte> scale_bytes(scales.size() * sizeof(float));
  std::memcpy(scale_bytes.data(), scales.data(), scale_bytes.size());
  return Quantised{{graph::Type::tensor(format.element, dims), std::move(bytes)},
                   {graph::Type::tensor(ElementType::kF32, scale_dims), std::move(scale_bytes)}};
}

class Quantisation {
 public:
  Quantisation(Function& function, WeightType type) : function_(function), format_(format_of(type)) {}

  QuantisedWeights run() {
    find_readers();
    block(function_.body());
    return counts_;
  }

 private:
  static constexpr Attr kBatching[] = {Attr::lhs_batching_dimensions, Attr::rhs_batching_dimensions};
  static constexpr Attr kContracting[] = {Attr::lhs_contracting_dimensions, Attr::rhs_contracting_dimensions};

  void find_readers() {
    read_otherwise_.assign(function_.value_count(), false);
    graph::walk(function_, function_.body(), [&](OpId id) {
      const Op& op = function_.op(id);
      if (op.kind == OpKind::dot_general_) return;
      for (const ValueId operand : op.operands) read_otherwise_[graph::index_of(operand)] = true;
    });
  }

  const Literal* constant(ValueId value) const {
    const OpId id = function_.value(value).op;
    if (id == graph::kNoOp || function_.op(id).kind != OpKind::constant_) return nullptr;
    return &function_.op(id).literal(Attr::value);
  }

  void block(BlockId id) {
    for (size_t at = 0; at < function_.block(id).ops.size(); ++at) {
      const OpId op = function_.block(id).ops[at];
      for (const BlockId region : std::vector(function_.op(op).regions)) block(region);
      if (function_.op(op).kind == OpKind::dot_general_) at += product(id, at, op);
    }
  }

  static std::vector<int64_t> integers(const Op& op, Attr attr) {
    if (!op.has(attr)) return {};
    const auto values = op.integers(attr);
    return {values.begin(), values.end()};
  }

  // Whether the operand is a weight; what is none for another reason than its kind is counted.
  bool is_weight(const Op& op, size_t i) {
    const Literal* literal = constant(op.operands[i]);
    if (!literal || literal->is_splat() || constant(op.operands[1 - i])) return false;
    const graph::Type& type = literal->type();
    const ElementType element = type.element();
    if (type.quantization() ||
        (element != ElementType::kF32 && element != ElementType::kBF16 && element != ElementType::kF16))
      return false;
    if (type.element_count() < kQuantisedElements) return ++counts_.small, false;
    if (read_otherwise_[graph::index_of(op.operands[i])]) return ++counts_.shared, false;
    return true;
  }

  // How many ops were inserted around the product.
  size_t product(BlockId block, size_t at, OpId id) {
    for (const size_t i : {0, 1}) {
      const Op op = function_.op(id);
      if (op.operands.size() != 2 || !is_weight(op, i)) continue;
      const ValueId weight = op.operands[i];
      const Layout layout =
          layout_of(function_.type(weight), integers(op, kBatching[i]), integers(op, kContracting[i]));
      const Quantised* narrow = quantised_once(weight, layout);
      if (!narrow) continue;
      return rewrite(block, at, id, i, layout, *narrow);
    }
    return 0;
  }

  // A weight of several products with the same channels is quantised once.
  const Quantised* quantised_once(ValueId weight, const Layout& layout) {
    const auto key = std::tuple(weight, layout.batch_dims, layout.contracted_dims);
    auto found = done_.find(key);
    if (found == done_.end()) {
      const Literal& literal = *constant(weight);
      found = done_.emplace(key, quantised(literal, layout, format_)).first;
      if (!found->second) {
        ++counts_.not_finite;
      } else {
        ++counts_.count;
        counts_.bytes_before += static_cast<int64_t>(literal.bytes().size());
        counts_.bytes_after += static_cast<int64_t>(found->second->weights.bytes().size() +
                                                    found->second->scales.bytes().size());
      }
    }
    return found->second ? &*found->second : nullptr;
  }

  size_t rewrite(BlockId block, size_t at, OpId id, size_t side, const Layout& layout,
                 const Quantised& narrow) {
    const graph::LocationId location = function_.op(id).location;
    const ValueId result = function_.op(id).results[0];
    const graph::Type stated = function_.type(result),
                      weight = function_.type(function_.op(id).operands[side]);
    const graph::Type sums = stated.with_element(ElementType::kF32);
    size_t inserted = 0;
    const auto insert = [&](size_t position, OpKind kind, std::vector<ValueId> operands,
                            const graph::Type& type) {
      ++inserted;
      return function_.insert(block, position, kind, std::move(operands), {type}, location);
    };
    const auto value_of = [&](OpId made) { return function_.op(made).results[0]; };

    const OpId kept = insert(at, OpKind::constant_, {}, narrow.weights.type());
    function_.op(kept).set(Attr::value, narrow.weights);
    const OpId wide = insert(at + 1, OpKind::convert_, {value_of(kept)},
                             narrow.weights.type().with_element(weight.element()));
    {
      Op& op = function_.op(id);
      op.operands[side] = value_of(wide);
      std::vector<int64_t> batching, contracting;
      for (size_t i = 0; i < layout.batch_dims.size(); ++i) batching.push_back(static_cast<int64_t>(i));
      for (size_t i = 0; i < layout.contracted_dims.size(); ++i)
        contracting.push_back(static_cast<int64_t>(layout.batch_dims.size() + i));
      op.set(kBatching[side], std::move(batching));
      op.set(kContracting[side], std::move(contracting));
    }
    function_.value(result).type = sums;

    const OpId scale = insert(at + 3, OpKind::constant_, {}, narrow.scales.type());
    function_.op(scale).set(Attr::value, narrow.scales);
    const OpId spread = insert(at + 4, OpKind::broadcast_in_dim_, {value_of(scale)}, sums);
    function_.op(spread).set(Attr::broadcast_dimensions, places_of_scale(sums, side, layout));
    const OpId scaled = insert(at + 5, OpKind::multiply_, {result, value_of(spread)}, sums);
    ValueId replacement = value_of(scaled);
    OpId last = scaled;
    if (stated.element() != ElementType::kF32) {
      last = insert(at + 6, OpKind::convert_, {replacement}, stated);
      replacement = value_of(last);
    }
    function_.replace_uses(result, replacement);
    function_.op(scaled).operands[0] = result;
    return inserted;
  }

  // Where the result has what the scale has: batches first, then the free dimensions of the left and of the
  // right operand.
  static std::vector<int64_t> places_of_scale(const graph::Type& result, size_t side, const Layout& layout) {
    std::vector<int64_t> places;
    for (size_t i = 0; i < layout.batch_dims.size(); ++i) places.push_back(static_cast<int64_t>(i));
    const auto free = static_cast<int64_t>(layout.channel_dims.size());
    const int64_t first = side == 0 ? static_cast<int64_t>(layout.batch_dims.size()) : result.rank() - free;
    for (int64_t i = 0; i < free; ++i) places.push_back(first + i);
    return places;
  }

  Function& function_;
  Format format_;
  std::vector<bool> read_otherwise_;  // by value: by an op that is no product
  std::map<std::tuple<ValueId, std::vector<int64_t>, std::vector<int64_t>>, std::optional<Quantised>> done_;
  QuantisedWeights counts_;
};

}  // namespace

QuantisedWeights quantise_weights(Function& function, WeightType type) {
  return Quantisation(function, type).run();
}

}  // namespace opentrn::compiler
