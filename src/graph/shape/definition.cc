#include <algorithm>

#include "graph/op_definitions.h"
#include "graph/shape/rules.h"

namespace opentrn::graph::shape {

namespace {

void check_count(const Context& c, size_t found, Count wanted, std::string_view what) {
  if (wanted.holds(found)) return;
  const std::string limit = wanted.high == kVariadic    ? fmt::format("at least {}", wanted.low)
                            : wanted.low == wanted.high ? fmt::format("{}", wanted.low)
                                                        : fmt::format("{} to {}", wanted.low, wanted.high);
  c.fail(what, fmt::format("{} {}; {} are wanted", found, what, limit));
}

bool is_enumeration(AttrKind kind) { return !enum_words(kind).empty(); }

bool has_kind(const Attribute& attribute, AttrKind kind) {
  switch (kind) {
    case AttrKind::kBool: return attribute.get<bool>();
    case AttrKind::kInt: return attribute.get<int64_t>();
    case AttrKind::kReal: return attribute.get<double>();
    case AttrKind::kString: return attribute.get<std::string>();
    case AttrKind::kInts: return attribute.get<std::vector<int64_t>>();
    case AttrKind::kMatrix: {
      const IntMatrix* matrix = attribute.get<IntMatrix>();
      return matrix && matrix->rows >= 0 && matrix->columns >= 0 &&
             static_cast<size_t>(matrix->rows * matrix->columns) == matrix->values.size();
    }
    case AttrKind::kLiteral: return attribute.get<Literal>();
    case AttrKind::kType: return attribute.get<Type>();
    case AttrKind::kSymbol: return attribute.get<SymbolRef>();
    case AttrKind::kSymbols: {
      const AttributeList* list = attribute.as_list();
      if (!list) return false;
      for (const Attribute& each : *list)
        if (!each.get<SymbolRef>()) return false;
      return true;
    }
    case AttrKind::kDictionary: return attribute.as_dictionary();
    case AttrKind::kAny: return true;
    case AttrKind::kPrecisions: {
      const auto* list = attribute.get<std::vector<int64_t>>();
      return list && in_range(*list, 0, static_cast<int64_t>(enum_words(kind).size()));
    }
    default: {
      const int64_t* value = attribute.get<int64_t>();
      return value && is_enumeration(kind) && 0 <= *value &&
             *value < static_cast<int64_t>(enum_words(kind).size());
    }
  }
}

void check_quantization(const Context& c, const Type& type, const Quantization& q) {
  if (q.axis >= type.rank() || q.axis < -1)
    c.fail("type", fmt::format("{} is quantized along a dimension that it does not have", type.to_string()));
  const size_t wanted = q.per_axis() ? q.scales.size() : 1;
  if (q.scales.empty() || q.scales.size() != wanted || q.zero_points.size() != wanted)
    c.fail("type", fmt::format("{} scales and {} zero points", q.scales.size(), q.zero_points.size()));
  if (q.per_axis() && !agrees(type.dim(static_cast<int>(q.axis)), static_cast<int64_t>(q.scales.size())))
    c.fail("type",
           fmt::format("{} scales for dimension {} of {}", q.scales.size(), q.axis, type.to_string()));
}

}  // namespace

void check_definition(const Context& c, const Op& op) {
  const OpDefinition& wanted = definition(op.kind);
  check_count(c, op.operands.size(), wanted.operands, "operands");
  check_count(c, op.regions.size(), wanted.regions, "regions");
  if (c.has_stated()) check_count(c, c.stated().size(), wanted.results, "results");
  for (const AttrSpec& spec : wanted.attributes) {
    const Attribute* found = op.find(spec.attr);
    if (!found && spec.needed == Needed::kYes)
      c.fail("attributes", fmt::format("attribute {} is missing", name(spec.attr)));
    if (found && !has_kind(*found, spec.kind))
      c.fail("attributes", fmt::format("attribute {} has not the right kind of value", name(spec.attr)));
  }
  for (const auto& [attr, value] : op.attributes)
    if (!find_spec(wanted, attr)) c.fail("attributes", fmt::format("there is no attribute {}", name(attr)));
}

void check_type(const Context& c, const Type& type) {
  if (type.is_tuple()) {
    for (const Type& element : type.elements()) check_type(c, element);
    return;
  }
  if (!type.is_tensor()) return;
  for (const int64_t dim : type.dims())
    if (dim < 0 && !is_dynamic(dim))
      c.fail("type", fmt::format("{} has a negative dimension", type.to_string()));
  if (!type.bounds().empty()) {
    if (type.bounds().size() != static_cast<size_t>(type.rank()))
      c.fail("type", fmt::format("{} bounds for rank {}", type.bounds().size(), type.rank()));
    for (int i = 0; i < type.rank(); ++i)
      if (!is_dynamic(type.bounds()[static_cast<size_t>(i)]) && !is_dynamic(type.dim(i)))
        c.fail("type", fmt::format("{} bounds a static dimension", type.to_string()));
  }
  if (const Quantization* q = type.quantization()) check_quantization(c, type, *q);
}

}  // namespace opentrn::graph::shape
