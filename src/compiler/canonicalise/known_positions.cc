#include "compiler/canonicalise/known_positions.h"

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "compiler/analysis/graph_names.h"
#include "compiler/analysis/index_pattern.h"
#include "compiler/analysis/values.h"
#include "compiler/canonicalise/passes.h"

namespace opentrn::compiler {

namespace {

// All numbers on the way are below it, so that none wraps in 32 bits.
constexpr int64_t kBound = int64_t{1} << 31;

bool is_counted(const Type& type) {
  if (!type.is_tensor() || !type.is_static() || type.quantization()) return false;
  const ElementType element = type.element();
  return element == ElementType::kI32 || element == ElementType::kUI32 || element == ElementType::kI64 ||
         element == ElementType::kUI64;
}

int64_t largest(const IndexPattern& pattern, const Type& type) {
  int64_t sum = pattern.offset;
  for (int d = 0; d < type.rank(); ++d) sum += pattern.steps[static_cast<size_t>(d)] * (type.dim(d) - 1);
  return sum;
}

class Patterns {
 public:
  explicit Patterns(const Function& function) : function_(function) {}

  const std::optional<IndexPattern>& of(ValueId value) {
    const auto found = known_.find(value);
    if (found != known_.end()) return found->second;
    std::optional<IndexPattern> pattern = made(value);
    if (pattern && (largest(*pattern, function_.type(value)) >= kBound)) pattern.reset();
    return known_.emplace(value, std::move(pattern)).first->second;
  }

 private:
  std::optional<IndexPattern> made(ValueId value) {
    const Type& type = function_.type(value);
    const Op* op = maker(function_, value);
    if (op == nullptr || !is_counted(type)) return std::nullopt;
    IndexPattern pattern{std::vector<int64_t>(static_cast<size_t>(type.rank()))};
    if (const auto number = splat_of(function_, value)) {
      if (!(*number >= 0 && *number < static_cast<double>(kBound))) return std::nullopt;
      pattern.offset = static_cast<int64_t>(*number);
      return pattern;
    }
    switch (op->kind) {
      case OpKind::iota_:
        pattern.steps[static_cast<size_t>(op->integer(Attr::iota_dimension))] = 1;
        return pattern;
      case OpKind::convert_:
        return is_counted(function_.type(op->operands[0])) ? of(op->operands[0]) : std::nullopt;
      case OpKind::add_: return sum(*op);
      case OpKind::multiply_: return product(*op);
      default: return std::nullopt;
    }
  }

  std::optional<IndexPattern> sum(const Op& op) {
    std::optional<IndexPattern> total = of(op.operands[0]);
    const auto& more = of(op.operands[1]);
    if (!total || !more) return std::nullopt;
    total->offset += more->offset;
    for (size_t d = 0; d < total->steps.size(); ++d) total->steps[d] += more->steps[d];
    return total;
  }

  // Both are below the bound: no product of theirs is beyond 64 bits.
  std::optional<IndexPattern> product(const Op& op) {
    for (const size_t place : {0, 1}) {
      const auto factor = splat_of(function_, op.operands[place]);
      std::optional<IndexPattern> scaled = of(op.operands[1 - place]);
      if (!factor || !(*factor >= 0 && *factor < static_cast<double>(kBound)) || !scaled) continue;
      const auto number = static_cast<int64_t>(*factor);
      if (largest(*scaled, function_.type(op.operands[1 - place])) > 0 &&
          number >= kBound / largest(*scaled, function_.type(op.operands[1 - place])) + 1)
        return std::nullopt;
      scaled->offset *= number;
      for (int64_t& step : scaled->steps) step *= number;
      return scaled;
    }
    return std::nullopt;
  }

  const Function& function_;
  std::map<ValueId, std::optional<IndexPattern>> known_;
};

bool numbers_elements(const IndexPattern& pattern, const Type& type) {
  if (pattern.offset != 0) return false;
  int64_t stride = 1;
  for (int d = type.rank(); d-- > 0; stride *= type.dim(d))
    if (type.dim(d) > 1 && pattern.steps[static_cast<size_t>(d)] != stride) return false;
  return true;
}

void become_zero(Function& function, Op& op) {
  const Type& type = function.type(op.results[0]);
  const auto bytes = static_cast<size_t>(graph::storage_bytes(type.element()));
  op.kind = OpKind::constant_;
  op.operands.clear();
  op.attributes.clear();
  op.set(Attr::value, graph::Literal(type, std::vector<std::byte>(bytes)));
}

void become_numbers(Function& function, OpId id) {
  const Type type = function.type(function.op(id).results[0]);
  const OpId counted = function.insert(function.body(), 0, OpKind::iota_, {},
                                       {type.with_dims({type.element_count()})}, function.op(id).location);
  function.op(counted).set(Attr::iota_dimension, int64_t{0});
  Op& op = function.op(id);
  op.kind = OpKind::reshape_;
  op.operands = {function.op(counted).results[0]};
  op.attributes.clear();
}

}  // namespace

int64_t number_positions(Function& function) {
  std::vector<OpId> zeros, numbers;
  Patterns patterns(function);
  graph::walk(function, function.body(), [&](OpId id) {
    const Op& op = function.op(id);
    if (op.results.size() != 1 || op.operands.empty() || !is_counted(function.type(op.results[0]))) return;
    const Type& type = function.type(op.results[0]);
    if (type.element_count() <= kFoldedElements) return;
    if (op.kind == OpKind::shift_right_logical_) {
      const auto places = splat_of(function, op.operands[1]);
      const auto& pattern = patterns.of(op.operands[0]);
      if (places && *places >= 31 && *places < graph::bit_width(type.element()) && pattern)
        zeros.push_back(id);
    } else if (op.kind == OpKind::add_ || op.kind == OpKind::convert_) {
      const auto& pattern = patterns.of(op.results[0]);
      if (pattern && numbers_elements(*pattern, type)) numbers.push_back(id);
    }
  });
  for (const OpId id : zeros) become_zero(function, function.op(id));
  for (const OpId id : numbers) become_numbers(function, id);
  return static_cast<int64_t>(zeros.size() + numbers.size());
}

}  // namespace opentrn::compiler
