#include "graph/shape/context.h"

#include <algorithm>

#include "base/fault.h"

namespace opentrn::graph::shape {

namespace {

uint32_t kind_of(const Type& type) {
  if (const Quantization* q = type.quantization())
    return q->per_axis() ? kQuantizedPerAxis : kQuantizedPerTensor;
  const ElementType e = type.element();
  if (is_bool(e)) return kBools;
  if (is_signed_integer(e)) return kSigned;
  if (is_unsigned_integer(e)) return kUnsigned;
  return is_float(e) ? kFloats : kComplexes;
}

std::string spelled(uint32_t set) {
  constexpr std::pair<uint32_t, std::string_view> kWords[] = {
      {kBools, "i1"},
      {kSigned, "signed integer"},
      {kUnsigned, "unsigned integer"},
      {kFloats, "floating-point"},
      {kComplexes, "complex"},
      {kQuantizedPerTensor, "per-tensor quantized"},
      {kQuantizedPerAxis, "per-axis quantized"},
  };
  std::vector<std::string_view> words;
  for (const auto& [bit, word] : kWords)
    if (set & bit) words.push_back(word);
  return fmt::format("{}", fmt::join(words, ", "));
}

[[noreturn]] void too_large() {
  throw Fault(FaultKind::kInput, "graph.type", "a dimension passes the range of i64");
}

}  // namespace

const Type& Context::tensor(size_t i, uint32_t allowed) const {
  const Type& type = operand_type(i);
  want_tensor(type, fmt::format("operand {}", i), fmt::format("I{}", i + 1), allowed);
  return type;
}

const Type& Context::scalar(size_t i, uint32_t allowed) const {
  const Type& type = tensor(i, allowed);
  if (type.rank() != 0)
    fail(fmt::format("I{}", i + 1), fmt::format("operand {} is {}, not a scalar", i, type.to_string()));
  return type;
}

const Type& Context::vector(size_t i, uint32_t allowed) const {
  const Type& type = tensor(i, allowed);
  if (type.rank() != 1)
    fail(fmt::format("I{}", i + 1),
         fmt::format("operand {} is {}; one dimension is wanted", i, type.to_string()));
  return type;
}

void Context::want_tensor(const Type& type, std::string_view what, std::string_view label,
                          uint32_t allowed) const {
  if (!type.is_tensor()) fail(label, fmt::format("{} is {}, not a tensor", what, type.to_string()));
  if (!(kind_of(type) & allowed))
    fail(label, fmt::format("{} is {}; its elements may be {}", what, type.to_string(), spelled(allowed)));
}

const Type& Context::stated_tensor(size_t i, uint32_t allowed) const {
  if (i >= stated_.size()) fail("results", "the result's type does not follow from operands; state it");
  want_tensor(stated_[i], fmt::format("result {}", i), "results", allowed);
  return stated_[i];
}

Signature Context::region(size_t i) const {
  const Block& block = function_.block(op_.regions[i]);
  Signature signature;
  for (const ValueId id : block.arguments) signature.arguments.push_back(function_.type(id));
  if (block.ops.empty() || function_.op(block.ops.back()).kind != OpKind::return_)
    fail("regions", fmt::format("region {} does not end in a return", i));
  for (const ValueId id : function_.op(block.ops.back()).operands)
    signature.results.push_back(function_.type(id));
  return signature;
}

std::string Context::op_name() const {
  std::string_view full = name(op_.kind);
  if (full.starts_with("stablehlo.")) full.remove_prefix(10);
  return std::string(full);
}

void Context::fail(int constraint, std::string message) const {
  fail(constraint > 0 ? fmt::format("C{}", constraint) : std::string(), std::move(message));
}

void Context::fail(std::string_view suffix, std::string message) const {
  const std::string label = suffix.empty() ? op_name() : fmt::format("{}.{}", op_name(), suffix);
  throw Fault(FaultKind::kInput, label, std::move(message));
}

bool shapes_agree(std::span<const int64_t> a, std::span<const int64_t> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), agrees);
}

bool same_element(const Type& a, const Type& b) {
  if (a.element() != b.element()) return false;
  const Quantization* p = a.quantization();
  const Quantization* q = b.quantization();
  if (!p || !q) return p == q;
  return p->storage == q->storage && p->expressed == q->expressed && p->storage_min == q->storage_min &&
         p->storage_max == q->storage_max && p->per_axis() == q->per_axis();
}

namespace {

bool within_bounds(const Type& a, const Type& b) {
  for (size_t i = 0; i < a.bounds().size(); ++i) {
    const int64_t bound = a.bounds()[i];
    const int64_t dim = b.dim(static_cast<int>(i));
    if (bound != kDynamic && dim != kDynamic && dim > bound) return false;
  }
  return true;
}

}  // namespace

bool agree(const Type& a, const Type& b) {
  if (a.kind() != b.kind()) return false;
  if (a.is_tuple()) return agree(a.elements(), b.elements());
  if (a.is_token()) return true;
  return same_element(a, b) && shapes_agree(a.dims(), b.dims()) && within_bounds(a, b) && within_bounds(b, a);
}

bool agree(std::span<const Type> a, std::span<const Type> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const Type& x, const Type& y) { return agree(x, y); });
}

Type merged(const Type& a, const Type& b) {
  if (!a.is_tensor()) return a;
  Dims dims(a.dims().begin(), a.dims().end());
  Dims bounds(dims.size(), kDynamic);
  bool bounded = false;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (is_dynamic(dims[i])) dims[i] = b.dim(static_cast<int>(i));
    if (!is_dynamic(dims[i])) continue;
    for (const Type* each : {&a, &b}) {
      const int64_t bound = each->bounds().empty() ? kDynamic : each->bounds()[i];
      if (!is_dynamic(bound)) bounds[i] = is_dynamic(bounds[i]) ? bound : std::min(bounds[i], bound);
    }
    bounded |= !is_dynamic(bounds[i]);
  }
  Type type = a.with_dims(std::move(dims));
  if (bounded) type.set_bounds(std::move(bounds));
  return type;
}

bool is_promotable(const Type& from, const Type& to) {
  const Quantization* p = from.quantization();
  const Quantization* q = to.quantization();
  if (p || q) return p && q && p->expressed == q->expressed && bit_width(p->storage) <= bit_width(q->storage);
  const ElementType a = from.element();
  const ElementType b = to.element();
  const bool same_class = (is_bool(a) && is_bool(b)) || (is_integer(a) && is_integer(b)) ||
                          (is_float(a) && is_float(b)) || (is_complex(a) && is_complex(b));
  return same_class && bit_width(a) <= bit_width(b);
}

Type typed(const Type& like, Dims dims) { return like.with_dims(std::move(dims)); }

bool is_unique(std::span<const int64_t> values) {
  Dims sorted(values.begin(), values.end());
  std::sort(sorted.begin(), sorted.end());
  return std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end();
}

bool is_sorted(std::span<const int64_t> values) { return std::is_sorted(values.begin(), values.end()); }

bool in_range(std::span<const int64_t> values, int64_t low, int64_t high) {
  return std::all_of(values.begin(), values.end(), [&](int64_t v) { return low <= v && v < high; });
}

bool contains(std::span<const int64_t> values, int64_t value) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

Dims concatenated(std::initializer_list<std::span<const int64_t>> lists) {
  Dims all;
  for (const auto& list : lists) all.insert(all.end(), list.begin(), list.end());
  return all;
}

int64_t plus(int64_t a, int64_t b) {
  if (is_dynamic(a) || is_dynamic(b)) return kDynamic;
  int64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) too_large();
  return sum;
}

int64_t times(int64_t a, int64_t b) {
  if (is_dynamic(a) || is_dynamic(b)) return kDynamic;
  int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) too_large();
  return product;
}

std::string text(std::span<const int64_t> dims) {
  std::vector<std::string> words;
  for (const int64_t dim : dims) words.push_back(is_dynamic(dim) ? "?" : fmt::format("{}", dim));
  return fmt::format("[{}]", fmt::join(words, ", "));
}

int64_t window_count(int64_t input, const Window& window) {
  if (is_dynamic(input) || is_dynamic(window.size)) return kDynamic;
  const int64_t dilated = input == 0 ? 0 : plus(times(input - 1, window.base_dilation), 1);
  const int64_t padded = plus(plus(window.padding_low, dilated), window.padding_high);
  const int64_t reach = window.size == 0 ? 0 : plus(times(window.size - 1, window.window_dilation), 1);
  if (padded == 0 || reach > padded) return 0;
  return (padded - reach) / window.stride + 1;
}

Types combiner(const Context& c, size_t region, std::span<const Type> inputs, int constraint) {
  const Signature signature = c.region(region);
  const size_t n = inputs.size();
  c.check(signature.arguments.size() == 2 * n && signature.results.size() == n, constraint,
          "the computation takes {} values and returns {}; for {} inputs it must take {} and return {}",
          signature.arguments.size(), signature.results.size(), n, 2 * n, n);
  for (size_t i = 0; i < n; ++i) {
    const Type& result = signature.results[i];
    c.check(result.is_tensor() && result.rank() == 0, constraint, "the computation returns {}, not a scalar",
            result.to_string());
    for (const size_t at : {i, n + i})
      c.check(agree(signature.arguments[at], result), constraint,
              "the computation takes {} as argument {} and returns {}", signature.arguments[at].to_string(),
              at, result.to_string());
    c.check(is_promotable(inputs[i], result), constraint, "{} cannot be combined as {}",
            inputs[i].to_string(), result.to_string());
  }
  return signature.results;
}

}  // namespace opentrn::graph::shape
