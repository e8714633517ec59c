#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>
#include <optional>
#include <span>
#include <vector>

#include "base/activity.h"
#include "base/interrupt.h"
#include "compiler/analysis/graph_names.h"
#include "compiler/analysis/number_sets.h"
#include "compiler/analysis/values.h"
#include "compiler/canonicalise/known_positions.h"
#include "compiler/canonicalise/passes.h"
#include "compiler/lowering/takes.h"
#include "graph/copy.h"
#include "graph/element_value.h"
#include "graph/eval/evaluate.h"
#include "graph/op_definitions.h"
#include "numerics/convert.h"

namespace opentrn::compiler {

namespace {

constexpr size_t kCopyBytes = size_t{1} << 22;  // one copy takes less than a millisecond
constexpr int64_t kNumbersBetweenPolls = 1024;

// Copies of the first `size` bytes, up to the end.
void repeat(std::span<std::byte> bytes, size_t size) {
  for (size_t filled = size; filled < bytes.size();) {
    interrupt::poll();
    const size_t within = filled % size;
    const size_t count = std::min({filled - within, bytes.size() - filled, kCopyBytes});
    std::memcpy(bytes.data() + filled, bytes.data() + within, count);
    filled += count;
  }
}

Literal counted(const graph::Type& type, int64_t axis) {
  const ElementType element = type.element();
  const auto bytes_each = static_cast<size_t>(graph::storage_bytes(element));
  std::vector<std::byte> bytes(static_cast<size_t>(type.byte_count()));
  const int64_t count = type.dim(static_cast<int>(axis));
  size_t inner = bytes_each;  // bytes of one number's copies side by side
  for (int i = static_cast<int>(axis) + 1; i < type.rank(); ++i) inner *= static_cast<size_t>(type.dim(i));
  if (bytes.empty()) return {type, std::move(bytes)};
  const std::span<std::byte> all(bytes);
  for (int64_t value = 0; value < count; ++value) {
    const std::span<std::byte> copies = all.subspan(static_cast<size_t>(value) * inner, inner);
    if (graph::is_float(element))
      graph::store_real(element, static_cast<double>(value), copies.data());
    else
      graph::store_integer(element, value, copies.data());
    repeat(copies, bytes_each);
    if (value % kNumbersBetweenPolls == 0) interrupt::poll();
  }
  repeat(all, static_cast<size_t>(count) * inner);
  return {type, std::move(bytes)};
}

// What costs less to do here than to keep the operand, whatever its size.
bool only_rearranges(OpKind kind) {
  return kind == OpKind::transpose_ || kind == OpKind::reshape_ || kind == OpKind::convert_;
}

// Of larger results, what is computed here: a run of the device would take longer than it takes to load them.
constexpr int64_t kComputedElements = int64_t{1} << 21, kMultiplications = int64_t{1} << 26;
constexpr int64_t kShortSlice = 64;  // elements: a slice is a descriptor, whatever its size

int64_t product_of(std::span<const int64_t> numbers) {
  return std::accumulate(numbers.begin(), numbers.end(), int64_t{1}, std::multiplies<>());
}

bool is_elementwise(const Op& op) {
  const OpClass op_class = graph::definition(op.kind).op_class;
  return op_class == OpClass::kUnaryElementwise || op_class == OpClass::kBinaryElementwise ||
         op.kind == OpKind::select_ || op.kind == OpKind::convert_ || op.kind == OpKind::clamp_ ||
         op.kind == OpKind::compare_;
}

// Elements of operands and result up to which the op is done here: tables of relative positions are gathers
// of a few heads' numbers, resized embeddings of positions are slices and products, and weights that are
// standardised or divided by their norm are sums, and arithmetic that gives as much as the constants have
// that it reads (`kept`).
int64_t elements_max(const Op& op, std::span<const Literal> operands, const graph::Type& result,
                     int64_t kept) {
  if (only_rearranges(op.kind)) return std::numeric_limits<int64_t>::max();
  if (op.kind == OpKind::gather_)
    return product_of(op.integers(Attr::slice_sizes)) <= kShortSlice ? kComputedElements : kFoldedElements;
  if (op.kind == OpKind::slice_ || op.kind == OpKind::reduce_) return kComputedElements;
  if (is_elementwise(op) && graph::is_float(result.element()) && result.element_count() <= 2 * kept)
    return kComputedElements;
  if (op.kind != OpKind::dot_general_) return kFoldedElements;
  int64_t terms = 1, largest = 0;
  for (const int64_t d : op.integers_or(Attr::lhs_contracting_dimensions, 0, 0))
    terms *= operands[0].type().dim(static_cast<int>(d));
  for (const Literal& operand : operands) largest = std::max(largest, operand.type().element_count());
  if (result.element_count() > kMultiplications / std::max<int64_t>(terms, 1)) return 0;
  return result.element_count() <= 2 * largest ? kComputedElements : kFoldedElements;
}

bool can_fold(OpKind kind) {
  switch (kind) {
    case OpKind::broadcast_in_dim_:
    case OpKind::clamp_:
    case OpKind::compare_:
    case OpKind::concatenate_:
    case OpKind::convert_:
    case OpKind::dot_general_:
    case OpKind::gather_:
    case OpKind::pad_:
    case OpKind::reduce_:
    case OpKind::reshape_:
    case OpKind::reverse_:
    case OpKind::scatter_:
    case OpKind::select_:
    case OpKind::slice_:
    case OpKind::transpose_: return true;
    // Rounding to another size is a device's own business.
    case OpKind::reduce_precision_: return false;
    default: {
      const OpClass op_class = graph::definition(kind).op_class;
      return op_class == OpClass::kUnaryElementwise || op_class == OpClass::kBinaryElementwise;
    }
  }
}

// An op with regions alone, by the reference evaluator. They read nothing from outside.
Literal evaluated_whole(const graph::Function& function, const Op& op, std::span<const Literal> operands) {
  graph::Module module;
  graph::Function& single = module.add_function("main");
  graph::Copier copier(function, single);
  std::vector<graph::eval::RuntimeValue> values;
  for (size_t i = 0; i < operands.size(); ++i) {
    copier.set(op.operands[i], single.add_argument(single.body(), operands[i].type()));
    values.push_back({operands[i]});
  }
  const OpId made = copier.copy(op, single.body());
  single.append(single.body(), OpKind::return_, {single.op(made).results[0]}, {});
  single.result_types = {single.type(single.op(made).results[0])};
  return graph::eval::evaluate(module, single, values)[0].literal();
}

// The op alone, by the reference evaluator.
Literal evaluated(const Op& op, std::span<const Literal> operands, const graph::Type& result) {
  graph::Module module;
  graph::Function& single = module.add_function("main");
  std::vector<ValueId> arguments;
  std::vector<graph::eval::RuntimeValue> values;
  for (const Literal& operand : operands) {
    arguments.push_back(single.add_argument(single.body(), operand.type()));
    values.push_back({operand});
  }
  const OpId made = single.append(single.body(), op.kind, std::move(arguments), {result});
  single.op(made).attributes = op.attributes;
  single.append(single.body(), OpKind::return_, {single.op(made).results[0]}, {});
  single.result_types = {result};
  return graph::eval::evaluate(module, single, values)[0].literal();
}

class Folding {
 public:
  explicit Folding(graph::Function& function) : function_(function) {
    std::vector<bool> read_otherwise(function.value_count(), false);
    read_by_product_.assign(function.value_count(), false);
    graph::walk(function, function.body(), [&](OpId id) {
      const Op& op = function.op(id);
      for (const ValueId operand : op.operands)
        (op.kind == OpKind::dot_general_ ? read_by_product_ : read_otherwise)[graph::index_of(operand)] =
            true;
    });
    for (size_t i = 0; i < read_otherwise.size(); ++i)
      if (read_otherwise[i]) read_by_product_[i] = false;
  }

  bool fold(Op& op) {
    if (op.results.size() != 1 || op.operands.empty() || !can_fold(op.kind)) return false;
    if (!op.regions.empty() && !captured_by(function_, op).empty()) return false;
    const graph::Type& result = function_.type(op.results[0]);
    if (!result.is_tensor() || !result.is_static() || result.quantization()) return false;
    if (!std::ranges::all_of(op.operands, [&](ValueId operand) {
          return is_known(op, operand) && !function_.type(operand).quantization();
        }))
      return false;
    std::vector<Literal> operands;
    int64_t elements = result.element_count(), kept = 0;
    for (const ValueId operand : op.operands) {
      operands.push_back(known_value(operand));
      const int64_t count = operands.back().type().element_count();
      if (is_constant(operand)) kept += operands.back().is_splat() ? 1 : count;
      elements = std::max(elements, count);
    }
    if (elements == 0 || stays_narrow(op, elements)) return false;
    const bool splats = op.regions.empty() && op.kind != OpKind::dot_general_ &&
                        std::all_of(operands.begin(), operands.end(),
                                    [](const Literal& literal) { return literal.is_splat(); });
    if (auto value =
            splats ? folded_splat(op, operands, result) : folded(op, operands, result, elements, kept)) {
      op.kind = OpKind::constant_;
      op.operands.clear();
      op.regions.clear();
      op.attributes.clear();
      op.set(Attr::value, std::move(*value));
      return true;
    }
    return false;
  }

 private:
  bool is_constant(ValueId value) const {
    const OpId id = function_.value(value).op;
    return id != graph::kNoOp && function_.op(id).kind == OpKind::constant_;
  }

  // A constant, or what arithmetic of floats reads of one that was broadcast: such a table (positions by
  // frequencies, taps of a filter by phases) is kept in their place, and so is a weight beside numbers for
  // each of its rows. With a number beside it the smaller one is better kept.
  bool is_known(const Op& op, ValueId value) const {
    if (is_constant(value)) return true;
    const OpId id = function_.value(value).op;
    if (id == graph::kNoOp) return false;
    const Op& maker = function_.op(id);
    const graph::Type& type = function_.type(value);
    if (maker.kind != OpKind::broadcast_in_dim_ || !is_constant(maker.operands[0]) ||
        graph::definition(op.kind).op_class != OpClass::kBinaryElementwise ||
        !graph::is_float(function_.type(op.results[0]).element()) || !type.is_static() ||
        function_.type(maker.operands[0]).quantization() ||
        std::ranges::any_of(op.operands,
                            [&](ValueId operand) { return splat_of(function_, operand).has_value(); }))
      return false;
    const bool is_beside_a_weight =
        std::ranges::any_of(op.operands, [&](ValueId operand) { return is_constant(operand); });
    return type.element_count() <= (is_beside_a_weight ? kComputedElements : kFoldedElements);
  }

  Literal known_value(ValueId value) const {
    const Op& maker = function_.op(function_.value(value).op);
    if (maker.kind == OpKind::constant_) return maker.literal(Attr::value);
    const Literal from = function_.op(function_.value(maker.operands[0]).op).literal(Attr::value);
    return evaluated(maker, std::span(&from, 1), function_.type(value));
  }

  // Products widen what they load: large weights take less room as they are.
  bool stays_narrow(const Op& op, int64_t elements) const {
    return op.kind == OpKind::convert_ && elements > kFoldedElements / 8 &&
           read_by_product_[graph::index_of(op.results[0])] &&
           is_narrow_operand_type(function_.type(op.operands[0]).element(),
                                  function_.type(op.results[0]).element());
  }

  // One number stands for all, before and after.
  std::optional<Literal> folded_splat(const Op& op, std::vector<Literal>& operands,
                                      const graph::Type& result) {
    if (result.element_count() == 0) return Literal(result, std::vector<std::byte>{});
    if (op.kind == OpKind::concatenate_ || op.kind == OpKind::pad_) return std::nullopt;
    const auto with_first = [&](const Literal& from) {
      const auto size = static_cast<size_t>(graph::storage_bytes(from.type().element()));
      return Literal(result,
                     std::vector<std::byte>(from.bytes().begin(),
                                            from.bytes().begin() + static_cast<std::ptrdiff_t>(size)));
    };
    if (!is_elementwise(op)) return with_first(operands[0]);
    for (Literal& operand : operands) operand = one(operand);
    return with_first(evaluated(op, operands, result.with_dims({})));
  }

  static Literal one(const Literal& splat) {
    return {splat.type().with_dims({}), std::vector<std::byte>(splat.bytes().begin(), splat.bytes().end())};
  }

  std::optional<Literal> folded(const Op& op, std::span<const Literal> operands, const graph::Type& result,
                                int64_t elements, int64_t kept) {
    if (elements > elements_max(op, operands, result, kept)) return std::nullopt;
    // A broadcast is free to read and not to keep; integers are places, on which other passes depend.
    const bool places = graph::is_integer(result.element()) && elements <= kFoldedPlaces;
    if (op.kind == OpKind::broadcast_in_dim_ && elements > operands[0].type().element_count() && !places)
      return std::nullopt;
    if (op.kind == OpKind::reshape_)
      return Literal(result, operands[0].bytes(), std::make_shared<Literal>(operands[0]));
    if (op.kind == OpKind::convert_)
      if (auto narrow = narrowed(operands[0], result)) return narrow;
    if (!op.regions.empty()) return evaluated_whole(function_, op, operands);
    return evaluated(op, operands, result);
  }

  // Weights of an autocast are many: the device's own cast, which rounds to nearest even as the evaluator
  // does.
  static std::optional<Literal> narrowed(const Literal& literal, const graph::Type& result) {
    if (literal.type().element() != ElementType::kF32 || result.element() != ElementType::kBF16)
      return std::nullopt;
    std::vector<std::byte> bytes(static_cast<size_t>(result.byte_count()));
    numerics::convert(DType::kFloat32, literal.bytes().data(), 1, DType::kBFloat16, bytes.data(), 1,
                      static_cast<size_t>(result.element_count()));
    return Literal(result, std::move(bytes));
  }

  graph::Function& function_;
  std::vector<bool> read_by_product_;  // by value: by nothing else
};

bool fold_iota(const graph::Function& function, Op& op) {
  if (op.kind != OpKind::iota_) return false;
  const graph::Type& type = function.type(op.results[0]);
  if (!type.is_static() || graph::is_complex(type.element())) return false;
  if (type.element_count() > kWrittenIotaElements) return false;  // expand/counting.cc
  Literal value = counted(type, op.integer(Attr::iota_dimension));
  op.kind = OpKind::constant_;
  op.attributes.clear();
  op.set(Attr::value, std::move(value));
  return true;
}

bool is_small_iota(const graph::Function& function, const Op& op) {
  return op.kind == OpKind::iota_ && function.type(op.results[0]).is_static() &&
         function.type(op.results[0]).element_count() <= kFoldedElements;
}

}  // namespace

int64_t fold_constants(graph::Function& function, bool fold_ops) {
  const Activity activity("folding constants");
  int64_t folded = fold_ops ? number_positions(function) : 0;
  Folding folding(function);
  graph::walk(function, function.body(), [&](OpId id) {
    interrupt::poll();
    Op& op = function.op(id);
    if (!fold_ops || is_small_iota(function, op)) folded += fold_iota(function, op);
    if (fold_ops) folded += folding.fold(op);
  });
  return folded;
}

}  // namespace opentrn::compiler
