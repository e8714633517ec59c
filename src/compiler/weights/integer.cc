// Constant weights that a model keeps in integers, as ONNX's quantised models do: they stay narrow.
//
//   dot_general(x, (convert(q) - zero) * s)   becomes   dot_general(x, convert(q')) * s
//
// where s is the same for all that is contracted, and q' = q - zero fits eight bits: the same product in
// other brackets. A product of integers takes convert(q') in place of its operand. Before anything is folded,
// since folding widens q to the type that the model computes in. Blocks of scales along the contraction, and
// zero points that lead out of eight bits, are left to folding and to the program.
#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "compiler/analysis/graph_names.h"
#include "compiler/analysis/number_sets.h"
#include "compiler/weights/layout.h"
#include "compiler/weights/weights.h"
#include "graph/element_value.h"

namespace opentrn::compiler {

namespace {

// A constant seen with the dimensions of a value: an element is at the sum of index * stride.
struct Strided {
  const Literal* literal;
  std::vector<int64_t> strides;
};

std::vector<int64_t> row_major(const Type& type) {
  std::vector<int64_t> strides(static_cast<size_t>(type.rank()), 1);
  for (int d = type.rank() - 2; d >= 0; --d)
    strides[static_cast<size_t>(d)] = strides[static_cast<size_t>(d) + 1] * type.dim(d + 1);
  return strides;
}

// Of all elements of these dimensions, the last one fastest.
std::vector<int64_t> offsets(const Type& type, std::span<const int64_t> dims,
                             const std::vector<int64_t>& strides) {
  std::vector<int64_t> result{0};
  for (const int64_t d : dims) {
    std::vector<int64_t> longer;
    for (const int64_t offset : result)
      for (int64_t i = 0; i < type.dim(static_cast<int>(d)); ++i)
        longer.push_back(offset + i * strides[static_cast<size_t>(d)]);
    result = std::move(longer);
  }
  return result;
}

class IntegerWeights {
 public:
  explicit IntegerWeights(Function& function) : function_(function) {}

  int64_t run() {
    for_products(function_, function_.body(),
                 [&](BlockId block, size_t at, OpId id) { return product(block, at, id); });
    return count_;
  }

 private:
  // A weight as the model writes it, with the dimensions of the product's operand.
  struct Written {
    Strided integers;
    std::optional<Strided> zero, scale;
  };

  size_t product(BlockId block, size_t at, OpId id) {
    for (const size_t side : {0, 1}) {
      const Op op = function_.op(id);
      const Type& type = function_.type(op.operands[side]);
      if (!type.is_tensor() || !type.is_static() || type.quantization() ||
          type.element_count() < kWeightElements)
        continue;
      const auto written =
          graph::is_float(type.element()) ? scaled(op.operands[side]) : integers(op.operands[side]);
      if (!written) continue;
      const WeightLayout layout = layout_of(function_, op, side);
      const auto weights = narrowed(*written, type, layout);
      if (!weights) continue;
      ++count_;
      if (written->scale) return multiply_scaled(function_, block, at, id, side, layout, *weights);
      return take(block, at, id, side, layout, *weights);
    }
    return 0;
  }

  // The operand of a product of integers, in the order that kernels read.
  size_t take(BlockId block, size_t at, OpId id, size_t side, const WeightLayout& layout,
              const ScaledWeights& narrow) {
    const graph::LocationId location = function_.op(id).location;
    const ElementType wide = function_.type(function_.op(id).operands[side]).element();
    const Type& type = narrow.weights.type();
    const OpId kept = function_.insert(block, at, OpKind::constant_, {}, {type}, location);
    function_.op(kept).set(Attr::value, narrow.weights);
    const OpId widened = function_.insert(block, at + 1, OpKind::convert_, {function_.op(kept).results[0]},
                                          {type.with_element(wide)}, location);
    name_dimensions(function_.op(id), side, layout);
    function_.op(id).operands[side] = function_.op(widened).results[0];
    return 2;
  }

  // (convert(integers) * scale), in any float type, transposed or not.
  std::optional<Written> scaled(ValueId value) {
    const OpId id = function_.value(value).op;
    if (id == graph::kNoOp) return std::nullopt;
    const Op& op = function_.op(id);
    if (op.kind == OpKind::transpose_) return transposed(scaled(op.operands[0]), op);
    if (op.kind != OpKind::multiply_ || function_.type(value).element() != ElementType::kF32)
      return std::nullopt;
    for (const size_t i : {0, 1}) {
      const OpId cast = function_.value(op.operands[i]).op;
      if (cast == graph::kNoOp || function_.op(cast).kind != OpKind::convert_) continue;
      auto written = integers(function_.op(cast).operands[0]);
      auto scale = strided(op.operands[1 - i]);
      if (!written || !scale || scale->literal->type().element() != ElementType::kF32) continue;
      written->scale = std::move(scale);
      return written;
    }
    return std::nullopt;
  }

  // convert(constant of eight bits or fewer), less a constant or not.
  std::optional<Written> integers(ValueId value) {
    const OpId id = function_.value(value).op;
    if (id == graph::kNoOp) return std::nullopt;
    const Op& op = function_.op(id);
    if (op.kind == OpKind::transpose_) return transposed(integers(op.operands[0]), op);
    if (op.kind == OpKind::subtract_) {
      auto written = integers(op.operands[0]);
      auto zero = strided(op.operands[1]);
      if (!written || written->zero || !zero || !graph::is_integer(zero->literal->type().element()))
        return std::nullopt;
      written->zero = std::move(zero);
      return written;
    }
    auto constant = strided(value);
    if (!constant || constant->literal->is_splat()) return std::nullopt;
    const ElementType element = constant->literal->type().element();
    if (!graph::is_integer(element) || graph::bit_width(element) > 8) return std::nullopt;
    return Written{std::move(*constant), {}, {}};
  }

  std::optional<Written> transposed(std::optional<Written> written, const Op& op) const {
    if (!written) return std::nullopt;
    const auto permutation = op.integers(Attr::permutation);
    for (Strided* each : {&written->integers, written->zero ? &*written->zero : nullptr,
                          written->scale ? &*written->scale : nullptr}) {
      if (!each) continue;
      std::vector<int64_t> strides;
      for (const int64_t d : permutation) strides.push_back(each->strides[static_cast<size_t>(d)]);
      each->strides = std::move(strides);
    }
    return written;
  }

  // A constant through what keeps its values.
  std::optional<Strided> strided(ValueId value) const {
    const OpId id = function_.value(value).op;
    if (id == graph::kNoOp) return std::nullopt;
    const Op& op = function_.op(id);
    const Type& type = function_.type(value);
    switch (op.kind) {
      case OpKind::constant_: {
        const Literal& literal = op.literal(Attr::value);
        if (literal.is_splat()) return Strided{&literal, std::vector<int64_t>(type.dims().size(), 0)};
        return Strided{&literal, row_major(type)};
      }
      case OpKind::convert_:
        if (!holds_all(function_.type(op.operands[0]).element(), type.element())) return std::nullopt;
        return strided(op.operands[0]);
      case OpKind::reshape_: return reshaped(strided(op.operands[0]), function_.type(op.operands[0]), type);
      case OpKind::broadcast_in_dim_: {
        const auto inner = strided(op.operands[0]);
        if (!inner) return std::nullopt;
        Strided wide{inner->literal, std::vector<int64_t>(type.dims().size(), 0)};
        const auto places = op.integers(Attr::broadcast_dimensions);
        for (size_t i = 0; i < places.size(); ++i)
          if (function_.type(op.operands[0]).dim(static_cast<int>(i)) != 1)
            wide.strides[static_cast<size_t>(places[i])] = inner->strides[i];
        return wide;
      }
      default: return std::nullopt;
    }
  }

  // Only dimensions of one may come and go.
  static std::optional<Strided> reshaped(std::optional<Strided> from, const Type& before, const Type& after) {
    if (!from) return std::nullopt;
    std::vector<std::pair<int64_t, int64_t>> dims;  // size, stride
    for (int d = 0; d < before.rank(); ++d)
      if (before.dim(d) != 1) dims.emplace_back(before.dim(d), from->strides[static_cast<size_t>(d)]);
    Strided result{from->literal, {}};
    size_t at = 0;
    for (int d = 0; d < after.rank(); ++d) {
      if (after.dim(d) == 1) {
        result.strides.push_back(0);
        continue;
      }
      if (at == dims.size() || dims[at].first != after.dim(d)) return std::nullopt;
      result.strides.push_back(dims[at++].second);
    }
    return result;
  }

  static int64_t integer(const Strided& of, int64_t offset) {
    const ElementType element = of.literal->type().element();
    return graph::load_integer(element, of.literal->element(offset));
  }

  // nullopt where a scale is not the same for all that is contracted, or eight bits do not hold the integers.
  static std::optional<ScaledWeights> narrowed(const Written& written, const Type& type,
                                               const WeightLayout& layout) {
    if (written.scale)
      for (const int64_t d : layout.contracted_dims)
        if (type.dim(static_cast<int>(d)) > 1 && written.scale->strides[static_cast<size_t>(d)] != 0)
          return std::nullopt;
    const auto values = centred(written, type, layout);
    const auto [low, high] = std::minmax_element(values.begin(), values.end());
    const bool is_signed = *low < 0;
    if (is_signed ? *low < INT8_MIN || *high > INT8_MAX : *high > UINT8_MAX) return std::nullopt;
    std::vector<std::byte> bytes;
    bytes.reserve(values.size());
    for (const int16_t value : values) bytes.push_back(static_cast<std::byte>(value));
    std::vector<int64_t> dims = dims_of(type, layout.batch_dims), scale_dims = dims;
    const auto contracted = dims_of(type, layout.contracted_dims), free = dims_of(type, layout.channel_dims);
    dims.insert(dims.end(), contracted.begin(), contracted.end());
    dims.insert(dims.end(), free.begin(), free.end());
    scale_dims.insert(scale_dims.end(), free.begin(), free.end());
    ScaledWeights result;
    const ElementType element = is_signed ? ElementType::kI8 : ElementType::kUI8;
    result.weights = Literal(Type::tensor(element, dims), std::move(bytes));
    if (written.scale)
      result.scales = Literal(Type::tensor(ElementType::kF32, scale_dims), scales(written, type, layout));
    return result;
  }

  // Integers less their zero point; up to nine bits and a sign.
  static std::vector<int16_t> centred(const Written& written, const Type& type, const WeightLayout& layout) {
    const auto places = [&](const Strided& of) {
      return std::array{offsets(type, layout.batch_dims, of.strides),
                        offsets(type, layout.contracted_dims, of.strides),
                        offsets(type, layout.channel_dims, of.strides)};
    };
    const auto at = places(written.integers);
    const auto zero_at = written.zero ? places(*written.zero) : decltype(at){};
    std::vector<int16_t> values;
    values.reserve(static_cast<size_t>(type.element_count()));
    for (size_t b = 0; b < at[0].size(); ++b)
      for (size_t k = 0; k < at[1].size(); ++k)
        for (size_t n = 0; n < at[2].size(); ++n) {
          int64_t value = integer(written.integers, at[0][b] + at[1][k] + at[2][n]);
          if (written.zero) value -= integer(*written.zero, zero_at[0][b] + zero_at[1][k] + zero_at[2][n]);
          values.push_back(static_cast<int16_t>(std::clamp<int64_t>(value, INT16_MIN, INT16_MAX)));
        }
    return values;
  }

  static std::vector<std::byte> scales(const Written& written, const Type& type, const WeightLayout& layout) {
    const auto batches = offsets(type, layout.batch_dims, written.scale->strides),
               channels = offsets(type, layout.channel_dims, written.scale->strides);
    std::vector<std::byte> bytes;
    for (const int64_t batch : batches)
      for (const int64_t channel : channels) {
        const std::byte* from = written.scale->literal->element(batch + channel);
        bytes.insert(bytes.end(), from, from + sizeof(float));
      }
    return bytes;
  }

  Function& function_;
  int64_t count_ = 0;
};

bool has_narrow_integers(const Function& function) {
  bool found = false;
  graph::walk(function, function.body(), [&](OpId id) {
    const Op& op = function.op(id);
    if (op.kind != OpKind::constant_) return;
    const Type& type = function.type(op.results[0]);
    found |= graph::is_integer(type.element()) && graph::bit_width(type.element()) <= 8 &&
             type.element_count() >= kWeightElements;
  });
  return found;
}

}  // namespace

int64_t keep_integer_weights(Function& function) {
  return has_narrow_integers(function) ? IntegerWeights(function).run() : 0;
}

}  // namespace opentrn::compiler
