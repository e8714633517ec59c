// From attributes as StableHLO writes them to the flat ones of op_definitions.h: structs are spread over
// their fields, enumerations become numbers, dense and array lists become lists of integers.
#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "graph/element_value.h"
#include "graph/text/parser.h"

namespace opentrn::graph::text {

namespace {

struct StructName {
  std::string_view attribute;
  std::string_view kind;
};
constexpr std::array kStructs{
    StructName{"algorithm", "dot_algorithm"},
    StructName{"channel_handle", "channel_handle"},
    StructName{"dimension_numbers", "gather or conv"},
    StructName{"dot_dimension_numbers", "dot"},
    StructName{"ragged_dot_dimension_numbers", "ragged_dot"},
    StructName{"scatter_dimension_numbers", "scatter"},
};

std::vector<int64_t> integers_of(const Literal& literal) {
  const ElementType element = literal.type().element();
  const int64_t count = literal.type().element_count();
  std::vector<int64_t> values;
  values.reserve(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) values.push_back(load_integer(element, literal.element(i)));
  return values;
}

class Converter {
 public:
  Converter(const Cursor& in, size_t position, std::string_view op_name, const AttrSpec& spec)
      : in_(in), position_(position), op_name_(op_name), spec_(spec) {}

  Attribute convert(Attribute value) const {
    switch (spec_.kind) {
      case AttrKind::kBool:
        if (value.get<Unit>()) return Attribute(true);
        if (value.get<bool>()) return value;
        wrong("true or false");
      case AttrKind::kInt:
        if (value.get<int64_t>()) return value;
        if (const auto* literal = value.get<Literal>(); literal && is_number_list(*literal)) {
          const std::vector<int64_t> one = integers_of(*literal);
          if (one.size() == 1) return Attribute(one[0]);
        }
        wrong("an integer");
      case AttrKind::kReal:
        if (value.get<double>()) return value;
        wrong("a float");
      case AttrKind::kString:
        if (value.get<std::string>()) return value;
        wrong("a string");
      case AttrKind::kInts: return integers(std::move(value));
      case AttrKind::kMatrix: return matrix(std::move(value));
      case AttrKind::kLiteral:
        if (value.get<Literal>()) return value;
        wrong("dense<...>");
      case AttrKind::kType:
        if (value.get<Type>()) return value;
        if (const auto* text = value.get<Opaque>())
          if (const auto element = element_type_from_name(text->text))
            return Attribute(Type::scalar(*element));
        wrong("a type");
      case AttrKind::kSymbol:
        if (value.get<SymbolRef>()) return value;
        wrong("a symbol: @name");
      case AttrKind::kSymbols:
        if (const auto* list = value.as_list())
          if (std::all_of(list->begin(), list->end(), [](const Attribute& a) { return a.get<SymbolRef>(); }))
            return value;
        wrong("a list of symbols");
      case AttrKind::kDictionary:
        if (value.as_dictionary()) return value;
        wrong("a dictionary");
      case AttrKind::kAny: return value;
      case AttrKind::kPrecisions: return precisions(std::move(value));
      default: return enumeration(value);
    }
  }

 private:
  static bool is_number_list(const Literal& literal) {
    const ElementType element = literal.type().element();
    return is_integer(element) || is_bool(element);
  }

  Attribute integers(Attribute value) const {
    if (value.get<std::vector<int64_t>>()) return value;
    if (const auto* literal = value.get<Literal>(); literal && is_number_list(*literal)) {
      if (literal->type().rank() <= 1 && literal->type().element_count() <= kIntegersMax)
        return Attribute(integers_of(*literal));
    }
    if (const auto* list = value.as_list()) {
      std::vector<int64_t> values;
      for (const Attribute& each : *list) {
        const auto* number = each.get<int64_t>();
        const auto* truth = each.get<bool>();
        if (!number && !truth) wrong("a list of integers");
        values.push_back(number ? *number : static_cast<int64_t>(*truth));
      }
      return Attribute(std::move(values));
    }
    wrong("a list of integers");
  }

  Attribute matrix(Attribute value) const {
    if (value.get<IntMatrix>()) return value;
    if (const auto* opaque = value.get<Opaque>())
      in_.fail_not_modelled(position_,
                            fmt::format("{} of {} by axes of a mesh is not taken: {}", name(spec_.attr),
                                        op_name_, opaque->text),
                            "list the groups: dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>");
    const auto* literal = value.get<Literal>();
    if (!literal || !is_number_list(*literal) || literal->type().rank() > 2 ||
        literal->type().element_count() > kIntegersMax)
      wrong("dense<[[...], ...]> of integers with two dimensions");
    IntMatrix matrix;
    const Type& type = literal->type();
    matrix.rows = type.rank() > 0 ? type.dim(0) : 1;
    matrix.columns = type.rank() > 1 ? type.dim(1) : 1;
    matrix.values = integers_of(*literal);
    return Attribute(std::move(matrix));
  }

  // The number of a word, alone, or inside #stablehlo<kind WORD>, #stablehlo.kind<WORD>.
  int64_t number_of(const Attribute& value) const {
    const std::span<const std::string_view> words =
        enum_words(spec_.kind == AttrKind::kPrecisions ? AttrKind::kPrecisions : spec_.kind);
    if (const auto* number = value.get<int64_t>()) {
      if (*number >= 0 && *number < static_cast<int64_t>(words.size())) return *number;
      wrong(fmt::format("a number below {}", words.size()));
    }
    std::string_view text;
    if (const auto* opaque = value.get<Opaque>()) text = opaque->text;
    if (const auto* string = value.get<std::string>()) text = *string;
    if (text.ends_with('>')) text.remove_suffix(1);
    while (text.ends_with(' ')) text.remove_suffix(1);
    if (const size_t before = text.find_last_of(" <"); before != std::string_view::npos)
      text.remove_prefix(before + 1);
    for (size_t i = 0; i < words.size(); ++i)
      if (!words[i].empty() && words[i] == text) return static_cast<int64_t>(i);
    std::string known;
    for (const std::string_view word : words)
      if (!word.empty()) known += (known.empty() ? "" : ", ") + std::string(word);
    wrong("one of " + known);
  }

  Attribute enumeration(const Attribute& value) const { return Attribute(number_of(value)); }

  Attribute precisions(Attribute value) const {
    if (value.get<std::vector<int64_t>>()) return value;
    const auto* list = value.as_list();
    if (!list) wrong("a list of precisions");
    std::vector<int64_t> numbers;
    for (const Attribute& each : *list) numbers.push_back(number_of(each));
    return Attribute(std::move(numbers));
  }

  [[noreturn]] void wrong(std::string_view expected) const {
    in_.fail(position_, fmt::format("{} of {} takes {}", name(spec_.attr), op_name_, expected));
  }

  static constexpr int64_t kIntegersMax = 1 << 24;  // a splat could ask for any number
  const Cursor& in_;
  size_t position_;
  std::string_view op_name_;
  const AttrSpec& spec_;
};

}  // namespace

std::string_view struct_kind(std::string_view attribute_name) {
  for (const StructName& each : kStructs)
    if (each.attribute == attribute_name) return each.kind;
  return {};
}

void apply_attributes(const Cursor& in, Op& op, WrittenAttributes attributes) {
  const OpDefinition& defined = definition(op.kind);
  Dictionary extra;
  const auto place = [&](const std::string& written_name, Attribute value, size_t position,
                         bool must_be_own) {
    const auto attr = attr_from_name(written_name);
    const AttrSpec* spec = attr ? find_spec(defined, *attr) : nullptr;
    if (spec) {
      if (op.has(*attr)) in.fail(position, fmt::format("`{}` is given twice", written_name));
      op.set(*attr, Converter(in, position, name(op.kind), *spec).convert(std::move(value)));
    } else if (must_be_own) {
      in.fail(position, fmt::format("{} has no field `{}`", name(op.kind), written_name));
    } else if (!extra.try_emplace(written_name, std::move(value)).second) {
      in.fail(position, fmt::format("`{}` is given twice", written_name));
    }
  };
  for (WrittenAttribute& each : attributes) {
    const auto* fields = each.value.as_dictionary();
    const auto is_own = [&](const auto& field) {
      const auto attr = attr_from_name(field.first);
      return attr && find_spec(defined, *attr);
    };
    const bool is_struct = fields && !struct_kind(each.name).empty() &&
                           (fields->empty() || std::any_of(fields->begin(), fields->end(), is_own));
    if (!is_struct) {
      place(each.name, std::move(each.value), each.position, false);
      continue;
    }
    for (const auto& [field, value] : *fields) {
      // Collectives have the channel's number alone.
      if (field == "channel_type" && !find_spec(defined, Attr::channel_type)) continue;
      place(field, value, each.position, true);
    }
  }
  if (!extra.empty()) op.extra = std::make_shared<const Dictionary>(std::move(extra));
}

}  // namespace opentrn::graph::text
