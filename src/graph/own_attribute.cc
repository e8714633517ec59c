#include "graph/own_attribute.h"

#include <algorithm>

#include <fmt/format.h>

#include "graph/element_value.h"

namespace opentrn::graph {

namespace {

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
  Converter(std::string_view op_name, const AttrSpec& spec) : op_name_(op_name), spec_(spec) {}

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
        if (const auto* text = value.get<std::string>()) return Attribute(SymbolRef{*text});
        wrong("a symbol: @name");
      case AttrKind::kSymbols:
        if (value.as_list()) return symbols(*value.as_list());
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
      throw Fault(FaultKind::kNotModelled, "graph.attribute",
                  fmt::format("{} of {} by axes of a mesh is not taken: {}", name(spec_.attr), op_name_,
                              opaque->text),
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

  Attribute symbols(const AttributeList& list) const {
    AttributeList found;
    for (const Attribute& each : list) {
      const auto* symbol = each.get<SymbolRef>();
      const auto* text = each.get<std::string>();
      if (!symbol && !text) wrong("a list of symbols");
      found.emplace_back(symbol ? *symbol : SymbolRef{*text});
    }
    return Attribute::list(std::move(found));
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
    throw Fault(FaultKind::kInput, "graph.attribute",
                fmt::format("{} of {} takes {}", name(spec_.attr), op_name_, expected));
  }

  static constexpr int64_t kIntegersMax = 1 << 20;  // a splat could ask for any number
  std::string_view op_name_;
  const AttrSpec& spec_;
};

bool all_are(const std::vector<int64_t>& values, int64_t wanted) {
  return std::all_of(values.begin(), values.end(), [&](int64_t each) { return each == wanted; });
}

bool says_nothing(const Op& op, Attr attr, const Attribute& value) {
  if (const auto* integers = value.get<std::vector<int64_t>>()) {
    switch (attr) {
      case Attr::window_strides:
      case Attr::base_dilations:
      case Attr::window_dilations:
      case Attr::lhs_dilation:
      case Attr::rhs_dilation: return all_are(*integers, 1);
      case Attr::window_reversal:
      case Attr::precision_config: return all_are(*integers, 0);
      default: return integers->empty();
    }
  }
  if (const auto* matrix = value.get<IntMatrix>())
    return attr == Attr::padding ? all_are(matrix->values, 0) : matrix->values.empty();
  if (const auto* number = value.get<int64_t>()) {
    if (attr == Attr::api_version) return *number == static_cast<int64_t>(CustomCallApi::kOriginal);
    if (attr == Attr::dimension && op.kind == OpKind::sort_) return *number == -1;
    return (attr == Attr::channel_id && op.kind != OpKind::send_ && op.kind != OpKind::recv_ &&
            *number == 0) ||
           ((attr == Attr::compare_type || attr == Attr::version) && *number == 0);
  }
  if (const auto* truth = value.get<bool>()) {
    if (op.kind == OpKind::chlo_top_k_ && attr == Attr::is_stable) return *truth;
    return attr != Attr::allow_imprecise_accumulation && !*truth;
  }
  if (const auto* text = value.get<std::string>()) return text->empty();
  if (const auto* list = value.as_list()) return list->empty();
  if (const auto* entries = value.as_dictionary()) return entries->empty();
  if (const auto* opaque = value.get<Opaque>())
    return attr == Attr::result_accuracy && opaque->text.find("<DEFAULT>") != std::string::npos;
  return false;
}

}  // namespace

Attribute own_attribute(OpKind op, const AttrSpec& spec, Attribute value) {
  return Converter(name(op), spec).convert(std::move(value));
}

void drop_defaults(Op& op) {
  const OpDefinition& defined = definition(op.kind);
  std::erase_if(op.attributes, [&](const std::pair<Attr, Attribute>& each) {
    const AttrSpec* spec = find_spec(defined, each.first);
    return spec && spec->needed == Needed::kNo && says_nothing(op, each.first, each.second);
  });
}

Literal literal_from_storage(Type type, std::span<const std::byte> bytes, std::shared_ptr<const void> owner) {
  const ElementType element = type.element();
  const auto count = static_cast<size_t>(type.element_count());
  if (element == ElementType::kTF32)
    throw Fault(FaultKind::kNotModelled, "graph.literal", "raw bytes of tf32 are not taken");
  if (count == 0) return {std::move(type), std::vector<std::byte>{}};
  if (is_bool(element)) {
    const auto bit = [](bool on) { return std::byte{on ? uint8_t{1} : uint8_t{0}}; };
    const bool one_for_all = bytes.size() == 1 && (count == 1 || count > 8 || bytes[0] == std::byte{0} ||
                                                   bytes[0] == std::byte{0xFF});
    std::vector<std::byte> wide;
    if (one_for_all) {
      wide.push_back(bit(bytes[0] != std::byte{0}));
    } else if (bytes.size() == (count + 7) / 8) {
      wide.resize(count);
      for (size_t i = 0; i < count; ++i) wide[i] = (bytes[i / 8] >> (i % 8)) & std::byte{1};
    } else {
      for (const std::byte each : bytes) wide.push_back(bit(each != std::byte{0}));
    }
    return {std::move(type), std::move(wide)};
  }
  if (bit_width(element) < 8) {
    std::vector<std::byte> clean(bytes.begin(), bytes.end());
    for (std::byte& each : clean) {
      if (is_integer(element)) {
        store_integer(element, static_cast<int64_t>(each), &each);
      } else {
        each &= std::byte{static_cast<uint8_t>((1 << bit_width(element)) - 1)};
      }
    }
    return {std::move(type), std::move(clean)};
  }
  return {std::move(type), bytes, std::move(owner)};
}

}  // namespace opentrn::graph
