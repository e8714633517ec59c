// Operators of com.microsoft that stand for several of ONNX's own: what ONNX Runtime's optimizer and
// exporters of language models write in their place.
#include <algorithm>
#include <cmath>

#include "import/onnx/ops.h"

namespace opentrn::import::onnx {

namespace {

constexpr double kSkipEpsilon = 1e-12;

// Normalised over the last dimension in fp32, with what else the operators give.
struct Normalised {
  ValueId y, mean, inverse_deviation;
};

Normalised normalised(const Emit& e, ValueId x, double epsilon, bool centres) {
  const ElementType narrow = e.element(x);
  const Dims last{e.rank(x) - 1};
  const ValueId wide = e.cast(x, ElementType::kF32);
  const ValueId mean = e.mean(wide, last, true);
  const ValueId centred = centres ? e.sub(wide, mean) : wide;
  const ValueId variance = e.mean(e.mul(centred, centred), last, true);
  const ValueId inverse = e.unary(OpKind::rsqrt_, e.add(variance, epsilon));
  return {e.cast(e.mul(centred, inverse), narrow), mean, inverse};
}

void skip_normalization(Node& n, bool centres) {
  const Emit& e = n.emit;
  ValueId sum = e.add(n.in(0), n.in(1));
  const size_t bias = centres ? 4 : 3;
  if (n.has(bias)) sum = e.add(sum, n.in(bias));
  const Normalised x = normalised(e, sum, n.real("epsilon", kSkipEpsilon), centres);
  const ValueId scaled = e.mul(x.y, n.in(2));
  n.set(0, centres && n.has(3) ? e.add(scaled, n.in(3)) : scaled);
  if (centres) n.set(1, x.mean);
  n.set(2, x.inverse_deviation);
  n.set(3, sum);
}

// What FusedConv and FusedGemm do with their sums; parameters by place.
ValueId activated(const Node& n, ValueId x, const std::vector<float>& parameters) {
  const Emit& e = n.emit;
  const std::string name = n.string("activation", "");
  const auto at = [&](size_t i, double absent) {
    return i < parameters.size() ? static_cast<double>(parameters[i]) : absent;
  };
  if (name.empty()) return x;
  if (name == "Relu") return e.max(x, 0);
  if (name == "Sigmoid") return e.sigmoid(x);
  if (name == "Tanh") return e.tanh(x);
  if (name == "LeakyRelu") return leaky_relu(e, x, at(0, 0.01));
  if (name == "HardSigmoid") return hard_sigmoid(e, x, at(0, 0.2), at(1, 0.5));
  n.check(name == "Clip" && parameters.size() == 2, "activation is '{}' with {} parameters", name,
          parameters.size());
  return e.min(e.max(x, at(0, 0)), at(1, 0));
}

void with_activation(Node& n, const std::vector<float>& parameters) {
  if (n.wants(0)) n.set(0, activated(n, *n.outputs()[0], parameters));
}

ValueId swapped(const Emit& e, ValueId x, bool swaps) {
  if (!swaps || e.rank(x) < 2) return x;
  Dims order = range(0, e.rank(x));
  std::swap(order[order.size() - 1], order[order.size() - 2]);
  return e.transpose(x, order);
}

}  // namespace

void import_bias_gelu(Node& n) { n.set(0, gelu(n.emit, n.emit.add(n.in(0), n.in(1)), false)); }
void import_microsoft_gelu(Node& n) { n.set(0, gelu(n.emit, n.in(0), false)); }
void import_fast_gelu(Node& n) {
  n.set(0, gelu(n.emit, n.has(1) ? n.emit.add(n.in(0), n.in(1)) : n.in(0), true));
}
void import_quick_gelu(Node& n) {
  const Emit& e = n.emit;
  n.set(0, e.mul(n.in(0), e.sigmoid(e.mul(n.in(0), n.real("alpha", 1.702)))));
}

void import_skip_layer_normalization(Node& n) { skip_normalization(n, true); }
void import_skip_simplified_layer_normalization(Node& n) { skip_normalization(n, false); }

// Words, positions and segments of tokens, normalised; the second output counts the tokens of each row.
void import_embed_layer_normalization(Node& n) {
  const Emit& e = n.emit;
  const Dims d = n.dims(0);
  n.check(d.size() == 2, "input_ids of rank {}", d.size());
  ValueId sum = e.take_along(n.in(2), n.in(0), 0);
  const ValueId places = n.has(8) ? e.take_along(n.in(3), n.in(8), 0) : e.slice(n.in(3), 0, 0, d[1]);
  sum = e.add(sum, places);
  // Without segment ids all tokens are of the first segment.
  if (n.has(4)) sum = e.add(sum, n.has(1) ? e.take_along(n.in(4), n.in(1), 0) : e.slice(n.in(4), 0, 0, 1));
  const Normalised x = normalised(e, sum, n.real("epsilon", kSkipEpsilon), true);
  n.set(0, e.add(e.mul(x.y, n.in(5)), n.in(6)));
  n.set(1, n.has(7) ? e.sum(e.cast(n.in(7), ElementType::kI32), {1}, false)
                    : e.full(ElementType::kI32, {d[0]}, 0));
  n.set(2, sum);
}

void import_fused_matmul(Node& n) {
  const Emit& e = n.emit;
  if (n.flag("transBatchA", false) || n.flag("transBatchB", false))
    n.refuse("transBatchA and transBatchB are not imported", "a Transpose in front of it");
  const ValueId y =
      e.matmul(swapped(e, n.in(0), n.flag("transA", false)), swapped(e, n.in(1), n.flag("transB", false)));
  const double alpha = n.real("alpha", 1);
  n.set(0, alpha == 1 ? y : e.mul(y, alpha));
}

void import_fused_gemm(Node& n) {
  import_gemm(n);
  std::vector<float> parameters;
  for (const char* name : {"activation_alpha", "activation_beta"})
    if (n.attribute(name)) parameters.push_back(static_cast<float>(n.real(name, 0)));
  with_activation(n, parameters);
}

// The third operand is added to the sums before the activation.
void import_fused_conv(Node& n) {
  import_conv(n);
  if (n.has(3) && n.wants(0)) n.set(0, n.emit.add(*n.outputs()[0], n.in(3)));
  with_activation(n, n.reals("activation_params").value_or(std::vector<float>{}));
}

ValueId unpacked_bits(const Emit& e, ValueId packed, int64_t bits, int64_t numbers) {
  const Dims d = e.dims(packed);
  const ValueId x = e.reshape(packed, {d[0], d[1], 1});
  Values parts;
  for (int64_t shift = 0; shift < 8; shift += bits) {
    const ValueId low = e.binary(OpKind::shift_right_logical_, x, e.like(x, static_cast<double>(shift)));
    parts.push_back(e.binary(OpKind::and_, low, e.like(low, static_cast<double>((1 << bits) - 1))));
  }
  const int64_t all = d[1] * static_cast<int64_t>(parts.size());
  const ValueId joined = e.reshape(e.concat(std::move(parts), 2), {d[0], all});
  return e.cast(e.slice(joined, 1, 0, numbers), ElementType::kF32);
}

// Weights of `bits` bits, the lowest first in each byte, in blocks of block_size along K that share a scale
// and a zero point: y = A x transpose((B - zero) * scale).
void import_matmul_nbits(Node& n) {
  const Emit& e = n.emit;
  const int64_t rows = n.integer("N", 0), columns = n.integer("K", 0);
  const int64_t bits = n.integer("bits", 4), block = n.integer("block_size", 0);
  n.check(rows > 0 && columns > 0 && block >= 16 && (bits == 2 || bits == 4 || bits == 8),
          "N, K, bits and block_size are {}, {}, {} and {}", rows, columns, bits, block);
  if (n.has(4)) n.refuse("g_idx, weights in another order, is not imported");
  if (n.integer("weight_prepacked", 0) != 0) n.refuse("weights packed for one kernel are not imported");
  const int64_t blocks = (columns + block - 1) / block;
  const int64_t bytes = (block * bits + 7) / 8;
  const Dims given = n.dims(1);
  n.check(product(given) == rows * blocks * bytes, "B has {} bytes for {} rows of {} blocks of {}",
          product(given), rows, blocks, bytes);
  const ValueId whole = e.reshape(unpacked_bits(e, e.reshape(n.in(1), {rows * blocks, bytes}), bits, block),
                                  {rows, blocks, block});
  ValueId zero = e.full(ElementType::kF32, {rows, blocks, 1}, static_cast<double>(1 << (bits - 1)));
  if (n.has(3)) {
    const bool is_packed = n.element(3) == ElementType::kUI8;
    const ValueId numbers =
        is_packed ? unpacked_bits(e, e.reshape(n.in(3), {rows, (blocks * bits + 7) / 8}), bits, blocks)
                  : n.in(3);
    zero = e.reshape(e.cast(numbers, ElementType::kF32), {rows, blocks, 1});
  }
  const ValueId scale = e.reshape(e.cast(n.in(2), ElementType::kF32), {rows, blocks, 1});
  ValueId weights = e.reshape(e.mul(e.sub(whole, zero), scale), {rows, blocks * block});
  weights = e.cast(e.slice(weights, 1, 0, columns), n.element(0));
  const ValueId y = e.dot_general(n.in(0), weights, {}, {}, {n.rank(0) - 1}, {1});
  n.set(0, n.has(5) ? e.add(y, n.in(5)) : y);
}

// Slices of a table in few bits along gather_axis, dequantised: (data - zero) * scale, with a scale and a
// zero point for each block along quantize_axis. A place outside of the table gives zeros. Only what is read
// is dequantised, not the table. Bytes hold the lowest number first along the last dimension.
void import_gather_block_quantized(Node& n) {
  const Emit& e = n.emit;
  const Dims data = n.dims(0);
  const auto rank = static_cast<int64_t>(data.size());
  n.check(rank > 0 && n.rank(2) == rank, "data of rank {} and scales of rank {}", rank, n.rank(2));
  n.check(!n.has(3) || n.rank(3) == rank, "data of rank {} and zero points of rank {}", rank,
          n.has(3) ? n.rank(3) : 0);
  const bool floats = graph::is_float(n.element(0));
  const bool bytes = n.element(0) == ElementType::kUI8;
  const int64_t bits = bytes ? n.integer("bits", 4) : 8;
  n.check(bits == 2 || bits == 4 || bits == 8, "bits is {}", bits);
  const int64_t axis = n.axis(n.integer("gather_axis", 0), rank);
  const int64_t quantized_axis = n.axis(n.integer("quantize_axis", 1), rank);
  n.check(!bytes || axis == 0, "gather_axis is {} of bytes", axis);
  n.check(axis != quantized_axis, "gather_axis and quantize_axis are both {}", axis);
  const int64_t block = n.integer("block_size", floats ? 0 : 128);
  n.check(block > 0 || floats, "block_size is {}", block);
  const int64_t entries = data[static_cast<size_t>(axis)];
  const ValueId places = e.cast(n.in(1), ElementType::kI64);
  const auto bound = [&](double value) { return e.like(places, value); };
  const ValueId inside =
      e.min(e.max(places, bound(-static_cast<double>(entries))), bound(static_cast<double>(entries) - 1));
  // A scale that all entries share has one entry, which every place reads.
  const auto rows = [&](ValueId x) {
    const bool is_shared = e.dim(x, axis) == 1;
    n.check(is_shared || e.dim(x, axis) == entries, "{} rows of scales or zero points for {}", e.dim(x, axis),
            entries);
    return e.take_along(x, is_shared ? e.like(inside, 0) : inside, axis);
  };
  const auto numbers = [&](ValueId x) {
    if (!bytes || bits == 8) return e.cast(x, ElementType::kF32);
    Dims d = e.dims(x);
    const int64_t last = d.back();
    d.back() = last * 8 / bits;
    return e.reshape(unpacked_bits(e, e.reshape(x, {product(e.dims(x)) / std::max<int64_t>(last, 1), last}),
                                   bits, d.back()),
                     d);
  };
  const ValueId whole = numbers(rows(n.in(0)));
  // The axis behind the dimensions of the indices.
  const int64_t at = quantized_axis > axis ? quantized_axis + n.rank(1) - 1 : quantized_axis;
  const int64_t size = e.dim(whole, at);
  const auto spread = [&](ValueId x) {
    const int64_t blocks = e.dim(x, at);
    const int64_t each = block == 0 ? size : block;
    n.check(each > 0 && (blocks == 1 ? each >= size || block == 0 : blocks == (size + each - 1) / each),
            "{} blocks of {} for {}", blocks, each, size);
    if (blocks == 1) return x;
    Dims wide = e.dims(x), joined = wide;
    Dims places = range(0, e.rank(x));
    for (size_t i = static_cast<size_t>(at) + 1; i < places.size(); ++i) ++places[i];
    wide.insert(wide.begin() + at + 1, each);
    joined[static_cast<size_t>(at)] = blocks * each;
    return e.slice(e.reshape(e.builder().broadcast_in_dim(x, wide, places), joined), at, 0, size);
  };
  ValueId y = whole;
  if (n.has(3)) {
    ValueId zero = numbers(rows(n.in(3)));
    const int64_t blocks = (size + block - 1) / std::max<int64_t>(block, 1);
    if (e.dim(zero, at) > blocks) zero = e.slice(zero, at, 0, blocks);
    y = e.sub(y, spread(zero));
  } else if (bytes) {
    y = e.sub(y, static_cast<double>(1 << (bits - 1)));
  }
  y = e.mul(y, spread(e.cast(rows(n.in(2)), ElementType::kF32)));
  Dims along(e.dims(y).size(), 1);
  const Dims of_places = e.dims(places);
  std::ranges::copy(of_places, along.begin() + axis);
  const ValueId is_inside = e.reshape(e.compare(ComparisonDirection::kEq, inside, places), along);
  n.set(0, e.cast(e.select(is_inside, y, e.like(y, 0)), n.element(2)));
}

}  // namespace opentrn::import::onnx
