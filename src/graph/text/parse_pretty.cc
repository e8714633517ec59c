#include <charconv>

#include <fmt/format.h>

#include "graph/text/assembly_forms.h"
#include "graph/text/parser.h"

namespace opentrn::graph::text {

namespace {

// The next word of a form.
std::string_view next_word(std::string_view& form) {
  const size_t end = form.find(' ');
  const std::string_view word = form.substr(0, end);
  form.remove_prefix(end == std::string_view::npos ? form.size() : end + 1);
  return word;
}

// lower of ?{lower}
std::string_view attribute_of(std::string_view word) {
  const size_t open = word.find('{') + 1;
  return word.substr(open, word.find('}') - open);
}

}  // namespace

void Parser::parse_pretty_op(BlockId block, const ResultNames& names, size_t position) {
  const std::string_view op_name = in_.word("an op");
  if (op_name.starts_with("check.") || op_name.starts_with("interpreter."))
    return parse_check_op(block, op_name, names, position);
  if (op_name == "sdy.manual_computation") return parse_manual_computation(block, names, position);
  if (op_name == "sdy.sharding_constraint" || op_name == "sdy.reshard")
    return parse_sharding_constraint(block, op_name, names, position);
  if (op_name == "arith.constant") return parse_constant(block, "stablehlo.constant", names, position);
  const std::optional<OpKind> kind = op_name == "sdy.return" ? OpKind::return_ : op_kind_from_name(op_name);
  const std::string_view form = kind ? assembly_form(*kind) : std::string_view{};
  if (!kind)
    in_.fail_not_modelled(
        position, fmt::format("op {} is not taken", op_name),
        "graphs hold the ops of the dialects stablehlo and chlo, func.call and func.return");
  if (form.empty())
    in_.fail(position, fmt::format("{} has no short form; write \"{}\"(...)", op_name, op_name));
  if (form != "special") return parse_form(block, *kind, form, names, position);
  switch (*kind) {
    case OpKind::while_: return parse_while(block, names, position);
    case OpKind::reduce_: return parse_reduce(block, names, position);
    case OpKind::convolution_: return parse_convolution(block, names, position);
    case OpKind::dot_:
    case OpKind::dot_general_: return parse_dot(block, *kind, names, position);
    case OpKind::composite_: return parse_composite(block, names, position);
    case OpKind::chlo_top_k_: return parse_top_k(block, names, position);
    case OpKind::chlo_scan_: return parse_scan(block, names, position);
    default: return parse_constant(block, op_name, names, position);
  }
}

void Parser::parse_form(BlockId block, OpKind kind, std::string_view form, const ResultNames& names,
                        size_t position) {
  const OpDefinition& defined = definition(kind);
  WrittenAttributes attributes;
  std::vector<ValueId> operands;
  const auto write = [&](std::string_view attribute) {
    const size_t start = (in_.peek(), in_.position());
    const AttrSpec* spec = find_spec(defined, *attr_from_name(attribute));
    attributes.push_back({std::string(attribute), parse_form_attribute(*spec, attributes), start});
  };
  while (!form.empty()) {
    const std::string_view word = next_word(form);
    if (word == "%") {
      operands.push_back(parse_value());
    } else if (word == "%*") {
      for (const ValueId value : parse_values()) operands.push_back(value);
    } else if (word == "dict") {
      parse_optional_attributes(attributes);
    } else if (word == "{slice}") {
      parse_slice_ranges(attributes);
    } else if (word == "{format}") {
      // e5m10
      const size_t start = (in_.peek(), in_.position());
      const std::string_view text = in_.word("a format: e5m10");
      int64_t exponent = 0;
      int64_t mantissa = 0;
      const char* end = text.data() + text.size();
      const auto first = std::from_chars(text.data() + 1, end, exponent);
      const auto second = first.ptr < end && *first.ptr == 'm'
                              ? std::from_chars(first.ptr + 1, end, mantissa)
                              : std::from_chars_result{end, std::errc::invalid_argument};
      if (text[0] != 'e' || first.ec != std::errc() || second.ec != std::errc() || second.ptr != end)
        in_.fail(start, fmt::format("found `{}`, expected a format like e5m10", text));
      attributes.push_back({"exponent_bits", Attribute(exponent), start});
      attributes.push_back({"mantissa_bits", Attribute(mantissa), start});
    } else if (word.starts_with("@{")) {
      const size_t start = (in_.peek(), in_.position());
      std::string symbol = parse_symbol();
      const bool is_symbol = word == "@{callee}";
      attributes.push_back(
          {std::string(attribute_of(word)),
           is_symbol ? Attribute(SymbolRef{std::move(symbol)}) : Attribute(std::move(symbol)), start});
    } else if (word.starts_with("?!{")) {
      if (in_.eat(",")) write(attribute_of(word));
    } else if (word.starts_with("?{")) {
      if (!in_.eat(",")) continue;
      in_.expect_word(attribute_of(word));
      in_.expect("=");
      write(attribute_of(word));
    } else if (word.starts_with("{")) {
      write(attribute_of(word));
    } else if (word.starts_with(":") && word.size() > 1) {
      const OpId id = begin_op(block, name(kind), position, std::move(operands));
      std::vector<Type> results = parse_form_types(word, id, position);
      return finish_op(id, names, std::move(results), std::move(attributes), position);
    } else if (word[0] >= 'a' && word[0] <= 'z') {
      in_.expect_word(word);
    } else {
      in_.expect(word);
    }
  }
}

Attribute Parser::parse_form_attribute(const AttrSpec& spec, WrittenAttributes&) {
  switch (spec.kind) {
    case AttrKind::kInt: {
      const int64_t value = in_.integer();
      if (in_.peek() == ':' && in_.raw(1) == ' ' &&
          (in_.raw(2) == 'i' && in_.raw(3) >= '0' && in_.raw(3) <= '9')) {
        in_.expect(":");
        (void)in_.word("the number's type");
      }
      return Attribute(value);
    }
    case AttrKind::kInts: return in_.peek() == '[' ? Attribute(parse_integers()) : parse_attribute();
    case AttrKind::kBool:
    case AttrKind::kString: return parse_attribute();
    default: break;
  }
  // An enumeration's word.
  if (in_.peek() == '#') return parse_attribute();
  return Attribute(std::string(in_.word("a word")));
}

std::vector<Type> Parser::parse_form_types(std::string_view rule, OpId id, size_t position) {
  const size_t count = op(id).operands.size();
  if (rule == ":operands") {
    if (count == 0 && in_.peek() != ':') return {};
    in_.expect(":");
    std::vector<Type> types;
    do types.push_back(parse_type());
    while (in_.eat(","));
    check_operand_types(op(id), types, position);
    return {};
  }
  if (rule == ":pairwise" && count == 0) {
    in_.expect("(");
    in_.expect(")");
    return {};
  }
  in_.expect(":");
  const size_t start = (in_.peek(), in_.position());
  const auto checked = [&](std::vector<Type> operands, std::vector<Type> results) {
    check_operand_types(op(id), operands, start);
    return results;
  };
  if (rule == ":result") return {parse_type()};
  if (rule == ":pairwise") {
    std::vector<Type> types;
    do types.push_back(parse_type());
    while (in_.eat(","));
    return checked(types, types);
  }
  if (rule == ":arrow") {
    std::vector<Type> types;
    do types.push_back(parse_type());
    while (in_.eat(","));
    in_.expect("->");
    return checked(std::move(types), parse_result_types());
  }
  if (in_.peek() == '(') {
    FunctionType type = parse_function_type();
    return checked(std::move(type.inputs), std::move(type.results));
  }
  Type type = parse_type();
  if (rule == ":fn") in_.fail(start, "expected `(operand types) -> result types`");
  if (rule == ":same") return checked(std::vector<Type>(count, type), {type});
  if (rule == ":tuple") {
    if (!type.is_tuple()) in_.fail(start, fmt::format("found {}, expected a tuple", type.to_string()));
    return checked({type.elements().begin(), type.elements().end()}, {type});
  }
  if (rule == ":complex") {
    if (!type.is_tensor() || !is_complex(type.element()))
      in_.fail(start, fmt::format("found {}, expected a tensor of complex", type.to_string()));
    return checked(std::vector<Type>(count, type.with_element(real_part(type.element()))), {type});
  }
  // :select, of the predicate's type and the result's
  in_.expect(",");
  Type result = parse_type();
  return checked({std::move(type), result, result}, {result});
}

// [0:4, 1:8:2]: start, limit, stride.
void Parser::parse_slice_ranges(WrittenAttributes& attributes) {
  const size_t start = (in_.peek(), in_.position());
  std::vector<int64_t> starts;
  std::vector<int64_t> limits;
  std::vector<int64_t> strides;
  in_.expect("[");
  if (!in_.eat("]")) {
    do {
      starts.push_back(in_.integer());
      in_.expect(":");
      limits.push_back(in_.integer());
      strides.push_back(in_.eat(":") ? in_.integer() : 1);
    } while (in_.eat(","));
    in_.expect("]");
  }
  attributes.push_back({"start_indices", Attribute(std::move(starts)), start});
  attributes.push_back({"limit_indices", Attribute(std::move(limits)), start});
  attributes.push_back({"strides", Attribute(std::move(strides)), start});
}

// constant {attributes} dense<...> : type, or the generic form behind the bare name when the result's type
// is not the data's (quantized).
void Parser::parse_constant(BlockId block, std::string_view op_name, const ResultNames& names,
                            size_t position) {
  WrittenAttributes attributes;
  if (in_.eat("(")) {
    in_.expect(")");
    if (in_.eat("<")) {
      parse_written_attributes(attributes);
      in_.expect(">");
    }
    parse_optional_attributes(attributes);
    in_.expect(":");
    FunctionType type = parse_function_type();
    const OpId id = begin_op(block, op_name, position, {});
    return finish_op(id, names, std::move(type.results), std::move(attributes), position);
  }
  parse_optional_attributes(attributes);
  const size_t start = (in_.peek(), in_.position());
  Attribute value = parse_attribute();
  const auto* literal = value.get<Literal>();
  if (!literal) in_.fail(start, "expected dense<...> : tensor<...>");
  Type type = literal->type();
  attributes.push_back({"value", std::move(value), start});
  const OpId id = begin_op(block, op_name, position, {});
  finish_op(id, names, {std::move(type)}, std::move(attributes), position);
}

// while(%i = %a, ...) : types attributes {...} cond {...} do {...}
void Parser::parse_while(BlockId block, const ResultNames& names, size_t position) {
  std::vector<std::pair<std::string_view, Type>> arguments;
  std::vector<ValueId> operands;
  in_.expect("(");
  if (!in_.eat(")")) {
    do {
      in_.peek();
      arguments.emplace_back(parse_value_name(), Type());
      in_.expect("=");
      operands.push_back((in_.peek(), parse_value()));
    } while (in_.eat(","));
    in_.expect(")");
  }
  std::vector<Type> types;
  if (!operands.empty()) {
    in_.expect(":");
    do types.push_back(parse_type());
    while (in_.eat(","));
  }
  const OpId id = begin_op(block, name(OpKind::while_), position, std::move(operands));
  check_operand_types(op(id), types, position);
  for (size_t i = 0; i < types.size(); ++i) arguments[i].second = types[i];
  WrittenAttributes attributes;
  if (in_.eat_word("attributes")) parse_optional_attributes(attributes);
  in_.expect_word("cond");
  parse_region(id, &arguments);
  in_.expect_word("do");
  parse_region(id, &arguments);
  finish_op(id, names, std::move(types), std::move(attributes), position);
}

// reduce(%a init: %b), (...) [applies op] across dimensions = [...] {...} : (types) -> types [reducer (...)
// {...}]
void Parser::parse_reduce(BlockId block, const ResultNames& names, size_t position) {
  std::vector<ValueId> operands;
  std::vector<ValueId> inits;
  do {
    in_.expect("(");
    operands.push_back((in_.peek(), parse_value()));
    in_.expect_word("init");
    in_.expect(":");
    inits.push_back((in_.peek(), parse_value()));
    in_.expect(")");
  } while (in_.eat(","));
  const size_t count = operands.size();
  operands.insert(operands.end(), inits.begin(), inits.end());
  std::optional<OpKind> applied;
  if (in_.eat_word("applies")) {
    const size_t start = (in_.peek(), in_.position());
    const std::string inner = in_.at_string() ? in_.string() : std::string(in_.word("an op"));
    applied = op_kind_from_name(inner);
    if (!applied || definition(*applied).op_class != OpClass::kBinaryElementwise)
      in_.fail(start, fmt::format("found {}, expected an op of two operands", inner));
  }
  in_.expect_word("across");
  in_.expect_word("dimensions");
  in_.expect("=");
  WrittenAttributes attributes;
  const size_t dimensions_position = (in_.peek(), in_.position());
  attributes.push_back({"dimensions", Attribute(parse_integers()), dimensions_position});
  parse_optional_attributes(attributes);
  in_.expect(":");
  const size_t types_position = (in_.peek(), in_.position());
  FunctionType type = parse_function_type();
  const OpId id = begin_op(block, name(OpKind::reduce_), position, std::move(operands));
  check_operand_types(op(id), type.inputs, types_position);
  if (!applied) {
    // Pairs of an element and an accumulator; the block has all elements first.
    std::vector<std::pair<std::string_view, Type>> arguments(2 * count);
    std::optional<LocationId> location;
    if (in_.eat_word("loc")) location = parse_location();
    in_.expect_word("reducer");
    for (size_t i = 0; i < count; ++i) {
      in_.expect("(");
      for (const size_t at : {i, i + count}) {
        if (at >= count) in_.expect(",");
        in_.peek();
        arguments[at].first = parse_value_name();
        in_.expect(":");
        arguments[at].second = parse_type();
        if (in_.eat_word("loc")) (void)parse_location();
      }
      in_.expect(")");
    }
    parse_region(id, &arguments);
    finish_op(id, names, std::move(type.results), std::move(attributes), position);
    if (location) op(id).location = *location;
    return;
  }
  if (count != 1) in_.fail(position, "`applies` takes one input");
  if (!type.inputs[0].is_tensor()) in_.fail(types_position, "expected a tensor to reduce");
  const Type scalar = type.inputs[0].with_dims({});
  const BlockId body = function().add_block(id);
  const ValueId left = function().add_argument(body, scalar);
  const ValueId right = function().add_argument(body, scalar);
  finish_op(id, names, std::move(type.results), std::move(attributes), position);
  const LocationId location = op(id).location;
  const OpId inner = function().append(body, *applied, {left, right}, {scalar}, location);
  function().append(body, OpKind::return_, {op(inner).results[0]}, {}, location);
}

// precision = [HIGH, DEFAULT]
void Parser::parse_precision(WrittenAttributes& attributes) {
  const size_t start = (in_.peek(), in_.position());
  in_.expect("=");
  in_.expect("[");
  AttributeList words;
  if (!in_.eat("]")) {
    do words.emplace_back(std::string(in_.word("a precision")));
    while (in_.eat(","));
    in_.expect("]");
  }
  attributes.push_back({"precision_config", Attribute::list(std::move(words)), start});
}

// dot %a, %b[, precision = [...]] and dot_general %a, %b, [batching_dims = [0] x [0],]
// contracting_dims = [1] x [0][, precision = [...]][, algorithm = <...>]
void Parser::parse_dot(BlockId block, OpKind kind, const ResultNames& names, size_t position) {
  WrittenAttributes attributes;
  std::vector<ValueId> operands;
  operands.push_back((in_.peek(), parse_value()));
  in_.expect(",");
  operands.push_back((in_.peek(), parse_value()));
  const auto pair = [&](const char* left, const char* right) {
    const size_t start = in_.position();
    in_.expect("=");
    std::vector<int64_t> dims = parse_integers();
    attributes.push_back({left, Attribute(std::move(dims)), start});
    if (in_.peek() != 'x') in_.fail_expected("`x`");
    in_.move_to(in_.position() + 1);
    dims = parse_integers();
    attributes.push_back({right, Attribute(std::move(dims)), start});
  };
  while (in_.eat(",")) {
    const size_t start = (in_.peek(), in_.position());
    const std::string_view word = in_.word("contracting_dims, batching_dims, precision or algorithm");
    if (word == "precision") {
      parse_precision(attributes);
    } else if (kind == OpKind::dot_general_ && word == "batching_dims") {
      pair("lhs_batching_dimensions", "rhs_batching_dimensions");
    } else if (kind == OpKind::dot_general_ && word == "contracting_dims") {
      pair("lhs_contracting_dimensions", "rhs_contracting_dimensions");
    } else if (kind == OpKind::dot_general_ && word == "algorithm") {
      in_.expect("=");
      attributes.push_back({"algorithm", Attribute::dictionary(parse_struct_of("dot_algorithm")), start});
    } else {
      in_.fail(
          start,
          fmt::format("found `{}`, expected contracting_dims, batching_dims, precision or algorithm", word));
    }
  }
  parse_optional_attributes(attributes);
  const OpId id = begin_op(block, name(kind), position, std::move(operands));
  std::vector<Type> results = parse_form_types(":fn", id, position);
  finish_op(id, names, std::move(results), std::move(attributes), position);
}

// window = {stride = [2, 2], pad = [[0, 1], [0, 1]], lhs_dilate = ..., rhs_dilate = ..., reverse = ...}
void Parser::parse_window(WrittenAttributes& attributes) {
  in_.expect("{");
  if (in_.eat("}")) return;
  do {
    const size_t start = (in_.peek(), in_.position());
    const std::string_view word = in_.word("stride, pad, lhs_dilate, rhs_dilate or reverse");
    in_.expect("=");
    if (word == "pad") {
      IntMatrix padding;
      padding.columns = 2;
      in_.expect("[");
      if (!in_.eat("]")) {
        do {
          const size_t row = (in_.peek(), in_.position());
          const std::vector<int64_t> both = parse_integers();
          if (both.size() != 2)
            in_.fail(row, fmt::format("{} numbers of padding, expected low and high", both.size()));
          padding.values.insert(padding.values.end(), both.begin(), both.end());
          ++padding.rows;
        } while (in_.eat(","));
        in_.expect("]");
      }
      attributes.push_back({"padding", Attribute(std::move(padding)), start});
      continue;
    }
    const char* attribute = word == "stride"       ? "window_strides"
                            : word == "lhs_dilate" ? "lhs_dilation"
                            : word == "rhs_dilate" ? "rhs_dilation"
                            : word == "reverse"    ? "window_reversal"
                                                   : nullptr;
    if (!attribute)
      in_.fail(start,
               fmt::format("found `{}`, expected stride, pad, lhs_dilate, rhs_dilate or reverse", word));
    attributes.push_back({attribute, Attribute(parse_integers()), start});
  } while (in_.eat(","));
  in_.expect("}");
}

void Parser::parse_convolution(BlockId block, const ResultNames& names, size_t position) {
  WrittenAttributes attributes;
  in_.expect("(");
  std::vector<ValueId> operands = parse_values();
  in_.expect(")");
  in_.expect_word("dim_numbers");
  in_.expect("=");
  const size_t start = (in_.peek(), in_.position());
  Dictionary dimensions = parse_convolution_dimensions();
  attributes.push_back({"dimension_numbers", Attribute::dictionary(std::move(dimensions)), start});
  in_.expect(",");
  in_.expect_word("window");
  in_.expect("=");
  parse_window(attributes);
  parse_optional_attributes(attributes);
  const OpId id = begin_op(block, name(OpKind::convolution_), position, std::move(operands));
  std::vector<Type> results = parse_form_types(":fn", id, position);
  finish_op(id, names, std::move(results), std::move(attributes), position);
}

// composite "name" %a, %b ({region}) {...} : (types) -> types
void Parser::parse_composite(BlockId block, const ResultNames& names, size_t position) {
  WrittenAttributes attributes;
  const size_t start = (in_.peek(), in_.position());
  attributes.push_back({"name", Attribute(in_.string()), start});
  const OpId id = begin_op(block, name(OpKind::composite_), position, parse_values());
  if (in_.peek() == '(') parse_regions_in_parentheses(id);
  parse_optional_attributes(attributes);
  std::vector<Type> results = parse_form_types(":fn", id, position);
  finish_op(id, names, std::move(results), std::move(attributes), position);
}

// top_k(%a, k = 8[, is_stable = true]) {...} : type -> (type, type)
void Parser::parse_top_k(BlockId block, const ResultNames& names, size_t position) {
  WrittenAttributes attributes;
  in_.expect("(");
  std::vector<ValueId> operands;
  operands.push_back((in_.peek(), parse_value()));
  in_.expect(",");
  const size_t start = (in_.peek(), in_.position());
  in_.expect_word("k");
  in_.expect("=");
  attributes.push_back({"k", Attribute(in_.integer()), start});
  if (in_.eat(",")) {
    const size_t at = (in_.peek(), in_.position());
    in_.expect_word("is_stable");
    in_.expect("=");
    attributes.push_back({"is_stable", parse_attribute(), at});
  }
  in_.expect(")");
  parse_optional_attributes(attributes);
  const OpId id = begin_op(block, name(OpKind::chlo_top_k_), position, std::move(operands));
  std::vector<Type> results = parse_form_types(":arrow", id, position);
  finish_op(id, names, std::move(results), std::move(attributes), position);
}

// scan(%a, ...) inits (%b, ...) dimension = 0 attributes {...} {region} : (types) -> types
void Parser::parse_scan(BlockId block, const ResultNames& names, size_t position) {
  WrittenAttributes attributes;
  in_.expect("(");
  std::vector<ValueId> operands = parse_values();
  in_.expect(")");
  in_.expect_word("inits");
  in_.expect("(");
  const std::vector<ValueId> inits = parse_values();
  in_.expect(")");
  const auto inputs = static_cast<int64_t>(operands.size());
  const auto carries = static_cast<int64_t>(inits.size());
  operands.insert(operands.end(), inits.begin(), inits.end());
  const size_t start = (in_.peek(), in_.position());
  in_.expect_word("dimension");
  in_.expect("=");
  attributes.push_back({"dimension", Attribute(in_.integer()), start});
  if (in_.eat_word("attributes")) parse_optional_attributes(attributes);
  const OpId id = begin_op(block, name(OpKind::chlo_scan_), position, std::move(operands));
  parse_region(id);
  std::vector<Type> results = parse_form_types(":fn", id, position);
  const auto outputs = static_cast<int64_t>(results.size()) - carries;
  if (outputs < 0)
    in_.fail(position, fmt::format("{} results for {} carried values", results.size(), carries));
  attributes.push_back({"operandSegmentSizes", Attribute(std::vector<int64_t>{inputs, carries}), start});
  attributes.push_back({"resultSegmentSizes", Attribute(std::vector<int64_t>{outputs, carries}), start});
  finish_op(id, names, std::move(results), std::move(attributes), position);
}

// The ops of test programs: check.expect_eq_const %a, dense<...> : type and its kin, interpreter.probe,
// interpreter.print.
void Parser::parse_check_op(BlockId block, std::string_view op_name, const ResultNames& names,
                            size_t position) {
  WrittenAttributes attributes;
  std::vector<ValueId> operands = parse_values();
  while (in_.eat(",")) {
    const size_t start = (in_.peek(), in_.position());
    if (in_.peek_word() == "dense" || in_.peek_word() == "dense_resource") {
      attributes.push_back({"value", parse_attribute(), start});
      continue;
    }
    std::string key(in_.word("dense<...> or name = value"));
    in_.expect("=");
    // `tolerance = 0.1 : tensor<...>`: the colon is the op's.
    Attribute value;
    const char c = in_.peek();
    if (c == '-' || c == '+' || (c >= '0' && c <= '9')) {
      const std::string_view digits = in_.number();
      const bool real = digits.find('.') != std::string_view::npos;
      in_.move_to(in_.position() - digits.size());
      if (real) {
        (void)in_.number();
        double number = 0;
        const std::string_view plain = digits.front() == '+' ? digits.substr(1) : digits;
        (void)std::from_chars(plain.data(), plain.data() + plain.size(), number);
        value = Attribute(number);
      } else {
        value = Attribute(in_.integer());
      }
      // A type of the number, when another colon or the end of the op comes behind.
      const size_t colon = in_.position();
      if (in_.eat(":")) {
        const std::string_view word = in_.peek_word();
        if (word == "tensor" || word == "tuple") {
          in_.move_to(colon);
        } else if (!in_.peek_word().empty() && element_type_from_name(word)) {
          in_.expect_word(word);
        } else {
          in_.move_to(colon);
        }
      }
    } else {
      const std::string text = in_.string();
      value = Attribute(text);
    }
    attributes.push_back({key == "iter" ? "iteration" : std::move(key), std::move(value), start});
  }
  parse_optional_attributes(attributes);
  const OpId id = begin_op(block, op_name, position, std::move(operands));
  std::vector<Type> results;
  if (in_.eat(":")) {
    parse_optional_attributes(attributes);
    do results.push_back(parse_type());
    while (in_.eat(","));
  }
  if (op_name != "interpreter.probe") results.clear();
  finish_op(id, names, std::move(results), std::move(attributes), position);
}

// sdy.sharding_constraint %a <@mesh, [...]> : type
void Parser::parse_sharding_constraint(BlockId block, std::string_view op_name, const ResultNames& names,
                                       size_t position) {
  std::vector<ValueId> operands;
  operands.push_back((in_.peek(), parse_value()));
  const size_t start = (in_.peek(), in_.position());
  WrittenAttributes attributes;
  attributes.push_back(
      {"sharding", Attribute(Opaque{fmt::format("#sdy.sharding{}", in_.balanced())}), start});
  parse_optional_attributes(attributes);
  const OpId id = begin_op(block, op_name, position, std::move(operands));
  std::vector<Type> results = parse_form_types(":same", id, position);
  finish_op(id, names, std::move(results), std::move(attributes), position);
}

// sdy.manual_computation(%a) in_shardings=[...] out_shardings=[...] manual_axes={...} (%b: type) {...} :
// (types) -> types
void Parser::parse_manual_computation(BlockId block, const ResultNames& names, size_t position) {
  in_.expect("(");
  std::vector<ValueId> operands = parse_values();
  in_.expect(")");
  WrittenAttributes attributes;
  for (const char* key : {"in_shardings", "out_shardings", "manual_axes"}) {
    const size_t start = (in_.peek(), in_.position());
    in_.expect_word(key);
    in_.expect("=");
    const bool axes = std::string_view(key) == "manual_axes";
    attributes.push_back(
        {key,
         Attribute(Opaque{axes ? fmt::format("#sdy<manual_axes{}>", in_.balanced())
                               : fmt::format("#sdy.sharding_per_value<{}>", in_.balanced())}),
         start});
  }
  const OpId id = begin_op(block, "sdy.manual_computation", position, std::move(operands));
  std::vector<std::pair<std::string_view, Type>> arguments;
  in_.expect("(");
  if (!in_.eat(")")) {
    do {
      in_.peek();
      const std::string_view argument = parse_value_name();
      in_.expect(":");
      arguments.emplace_back(argument, parse_type());
      if (in_.eat_word("loc")) (void)parse_location();
    } while (in_.eat(","));
    in_.expect(")");
  }
  parse_region(id, &arguments);
  parse_optional_attributes(attributes);
  std::vector<Type> results = parse_form_types(":fn", id, position);
  finish_op(id, names, std::move(results), std::move(attributes), position);
}

}  // namespace opentrn::graph::text
