// Random bits by Threefry-2x32 and Philox-4x32-10, the numbers of the reference evaluator
// (graph/eval/random.cc) and so of XLA:CPU: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC
// 2011. Words are ui32.
//
// A state of ui64 has no device form; rng_bit_generator is taken where the state is seen as words, as JAX
// writes it: bitcast_convert from ui32 before it, bitcast_convert to ui32 after it.
#include <algorithm>
#include <array>
#include <numbers>

#include "compiler/analysis/dims.h"
#include "compiler/analysis/graph_names.h"
#include "compiler/expand/expand.h"

namespace opentrn::compiler {

using graph::RngAlgorithm;

namespace {

using Values = std::vector<ValueId>;
using Operands = std::span<const ValueId>;

// A 64-bit number, or one for each element.
struct Wide {
  Expr low, high;
};

Wide plus(const Wide& a, const Expr& b) {
  const Expr low = a.low + b;
  return {low, a.high + (low < a.low).as(ElementType::kUI32)};
}

Expr rotated(const Expr& x, int bits) { return (x << bits) | (x >> (32 - bits)); }

std::array<Expr, 2> threefry(const Wide& key, const Wide& counter) {
  constexpr int kRotations[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
  const std::array<Expr, 3> keys{key.low, key.high, key.low ^ key.high ^ key.low.number(0x1BD11BDAu)};
  Expr x0 = counter.low + keys[0], x1 = counter.high + keys[1];
  for (size_t group = 0; group < 5; ++group) {
    for (const int rotation : kRotations[group % 2]) {
      x0 = x0 + x1;
      x1 = rotated(x1, rotation) ^ x0;
    }
    x0 = x0 + keys[(group + 1) % 3];
    x1 = x1 + keys[(group + 2) % 3] + static_cast<double>(group + 1);
  }
  return {x0, x1};
}

std::array<Expr, 4> philox(const Wide& key, const Wide& low, const Wide& high) {
  Expr k0 = key.low, k1 = key.high;
  std::array<Expr, 4> c{low.low, low.high, high.low, high.high};
  for (int round = 0; round < 10; ++round) {
    const Expr m0 = c[0].number(0xD2511F53u), m1 = c[0].number(0xCD9E8D57u);
    c = {c[2].binary(OpKind::chlo_mulhi_, m1) ^ c[1] ^ k0, c[2] * m1,
         c[0].binary(OpKind::chlo_mulhi_, m0) ^ c[3] ^ k1, c[0] * m0};
    k0 = k0 + static_cast<double>(0x9E3779B9u);
    k1 = k1 + static_cast<double>(0xBB67AE85u);
  }
  return c;
}

// 0, 1, 2, ... of this shape.
Expr counted(Builder& builder, const Dims& dims) {
  int64_t count = 1;
  for (const int64_t dim : dims) count *= dim;
  const ValueId flat = builder.add(OpKind::iota_, {}, {{Attr::iota_dimension, graph::Attribute(int64_t{0})}},
                                   {graph::Type::tensor(ElementType::kUI32, {count})});
  return {builder, builder.reshape(flat, dims)};
}

// The words of a state [n, 2], for every element of `dims`.
class State {
 public:
  State(Builder& builder, ValueId words) : builder_(builder), words_(words) {}

  int64_t size() const { return builder_.type(words_).dim(0); }
  Expr word(int64_t index, int64_t half) {
    const ValueId word = builder_.slice(words_, {index, half}, {index + 1, half + 1});
    return {builder_, builder_.reshape(word, {})};
  }
  Wide number(int64_t index) { return {word(index, 0), word(index, 1)}; }
  Wide number(int64_t index, const Dims& dims) {
    const auto spread = [&](const Expr& x) {
      return Expr(builder_, builder_.broadcast_in_dim(x.id(), dims, {}));
    };
    return {spread(word(index, 0)), spread(word(index, 1))};
  }

 private:
  Builder& builder_;
  ValueId words_;
};

struct Made {
  ValueId codes;  // ui32
  int64_t blocks;
};

// Two words of a block lie side by side along the first even dimension, or along the longest.
Made threefry_codes(Builder& builder, State& state, const Dims& shape) {
  const Dims dims = shape.empty() ? Dims{1} : shape;
  auto split = std::find_if(dims.begin(), dims.end(), [](int64_t dim) { return dim % 2 == 0; });
  if (split == dims.end()) split = std::max_element(dims.begin(), dims.end());
  const auto axis = split - dims.begin();
  Dims half = dims;
  half[static_cast<size_t>(axis)] = (*split + 1) / 2;
  int64_t blocks = 1;
  for (const int64_t dim : half) blocks *= dim;
  const auto words = threefry(state.number(0, half), plus(state.number(1, half), counted(builder, half)));
  Dims single = half;
  single.insert(single.begin() + axis + 1, 1);
  ValueId both = builder.concatenate(
      {builder.reshape(words[0].id(), single), builder.reshape(words[1].id(), single)}, axis + 1);
  Dims whole = half;
  whole[static_cast<size_t>(axis)] *= 2;
  both = builder.reshape(both, whole);
  if (whole != dims) both = builder.slice(both, Dims(dims.size(), 0), dims);
  return {builder.reshape(both, shape), blocks};
}

// Four words of a block follow one another.
Made philox_codes(Builder& builder, State& state, const Dims& shape) {
  int64_t count = 1;
  for (const int64_t dim : shape) count *= dim;
  const int64_t blocks = (count + 3) / 4;
  const Dims dims{blocks};
  const Wide low = state.number(1, dims), at = plus(low, counted(builder, dims));
  const Wide upper = state.number(state.size() == 3 ? 2 : 0, dims);
  const Expr wrapped =
      ((at.high < low.high) | ((at.high == low.high) & (at.low < low.low))).as(ElementType::kUI32);
  const auto words = philox(state.number(0, dims), at, plus(upper, wrapped));
  Values columns;
  for (const Expr& word : words) columns.push_back(builder.reshape(word.id(), {blocks, 1}));
  const ValueId flat = builder.reshape(builder.concatenate(std::move(columns), 1), {4 * blocks});
  return {builder.reshape(builder.slice(flat, {0}, {count}), shape), blocks};
}

bool is_words(const graph::Type& type) {
  return type.is_tensor() && type.is_static() && type.element() == ElementType::kUI32 && type.rank() == 2 &&
         type.dim(1) == 2;
}

// The ui32 words that a ui64 value was made of.
std::optional<ValueId> words_of(const Function& function, ValueId value) {
  const graph::OpId id = function.value(value).op;
  if (id == graph::kNoOp || function.op(id).kind != OpKind::bitcast_convert_) return std::nullopt;
  const ValueId source = function.op(id).operands[0];
  return is_words(function.type(source)) ? std::optional(source) : std::nullopt;
}

bool takes_state(const Function& function, const Op& op) {
  const graph::Type& type = function.type(op.results[1]);
  const auto words = words_of(function, op.operands[0]);
  const int64_t size = words ? function.type(*words).dim(0) : 0;
  const bool threefry =
      op.enumeration(Attr::rng_algorithm, RngAlgorithm::kDefault) == RngAlgorithm::kThreeFry;
  return words && type.is_static() && graph::bit_width(type.element()) <= 32 && type.element_count() > 0 &&
         !graph::is_bool(type.element()) && (size == 2 || (size == 3 && !threefry));
}

Values bit_generator(Builder& builder, const Function& function, const Op& op, Operands operands) {
  const graph::Type& type = function.type(op.results[1]);
  State state(builder, *words_of(builder.function(), operands[0]));
  const bool is_threefry =
      op.enumeration(Attr::rng_algorithm, RngAlgorithm::kDefault) == RngAlgorithm::kThreeFry;
  const Made made = is_threefry ? threefry_codes(builder, state, type.dims_vector())
                                : philox_codes(builder, state, type.dims_vector());
  const Wide before = state.number(1);
  const Wide next = plus(before, before.low.number(static_cast<double>(made.blocks)));
  std::vector<Wide> numbers{state.number(0), next};
  if (state.size() == 3) {
    const Expr wrapped = (next.high < before.high).as(ElementType::kUI32);
    numbers.push_back(plus(state.number(2), wrapped));
  }
  Values words;
  for (const Wide& number : numbers)
    for (const Expr& word : {number.low, number.high}) words.push_back(builder.reshape(word.id(), {1}));
  const auto size = static_cast<int64_t>(numbers.size());
  const ValueId pairs = builder.reshape(builder.concatenate(std::move(words), 0), {size, 2});
  const ValueId next_state =
      builder.add(OpKind::bitcast_convert_, {pairs}, {}, {graph::Type::tensor(ElementType::kUI64, {size})});
  // The low bits of each word.
  const int width = graph::bit_width(type.element());
  const ElementType whole = width == 32   ? ElementType::kUI32
                            : width == 16 ? ElementType::kUI16
                                          : ElementType::kUI8;
  const Expr codes = Expr(builder, made.codes).as(whole);
  const bool is_float = graph::is_float(type.element());
  return {next_state, (is_float ? codes.seen_as(type.element()) : codes.as(type.element())).id()};
}

// -- rng: one Philox block per element, which gives two numbers of 64 bits.

bool takes_floats(const Function& function, const Op& op) {
  const graph::Type& type = function.type(op.results[0]);
  return type.is_tensor() && type.is_static() && graph::is_float(type.element());
}

// In [0, 1): the words as a fraction, which must not round to one.
Expr unit(const Expr& low, const Expr& high) {
  const Expr value = high.as(ElementType::kF32) * 0x1p-32 + low.as(ElementType::kF32) * 0x1p-64;
  return min(value, value.number(1 - 0x1p-24));
}

Values distribution(Builder& builder, const Function& function, const Op& op, Operands operands) {
  const graph::Type& type = function.type(op.results[0]);
  const Dims dims = type.dims_vector();
  const Expr index = counted(builder, dims), zero = index.number(0);
  constexpr uint64_t kKey = 0x6F70656E74726Eull;  // graph/eval/random.cc
  const Wide key{index.number(static_cast<double>(kKey & 0xFFFFFFFFu)),
                 index.number(static_cast<double>(kKey >> 32))};
  const auto words = philox(key, {index, zero}, {zero, zero});
  const auto spread = [&](ValueId value) {
    return Expr(builder, builder.broadcast_in_dim(builder.convert(value, ElementType::kF32), dims, {}));
  };
  const Expr a = spread(operands[0]), b = spread(operands[1]);
  const Expr first = unit(words[0], words[1]);
  const bool normal = op.enumeration(Attr::rng_distribution, graph::RngDistribution::kInvalid) ==
                      graph::RngDistribution::kNormal;
  if (!normal) return {(a + (b - a) * first).as(type.element()).id()};
  // ln(1 - u): 1 - u from the complement's bits where u is large.
  const Expr rest = (~words[1]).as(ElementType::kF32) * 0x1p-32 + (~words[0]).as(ElementType::kF32) * 0x1p-64;
  const Expr logarithm = select(first < 0.5, log1p(-first), log(max(rest, rest.number(0x1p-64))));
  const Expr angle = unit(words[2], words[3]) * (2 * std::numbers::pi);
  return {(a + b * (sqrt(logarithm * -2.0) * cos(angle))).as(type.element()).id()};
}

constexpr Expansion kRandomExpansions[] = {
    {OpKind::rng_bit_generator_, takes_state, bit_generator},
    {OpKind::rng_, takes_floats, distribution},
};

}  // namespace

std::span<const Expansion> random_expansions() { return kRandomExpansions; }

}  // namespace opentrn::compiler
