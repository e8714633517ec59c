#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "graph/text/parser.h"

namespace opentrn::graph::text {

Type Parser::parse_type() {
  const Nested nested(*this);
  const size_t start = (in_.peek(), in_.position());
  if (in_.eat("!")) {
    const size_t name_start = in_.position();
    const std::string_view name = in_.suffix("a type's name");
    if (name == "stablehlo.token" || name == "mhlo.token") return Type::token();
    if (const auto alias = type_aliases_.find(name); alias != type_aliases_.end())
      return at_alias(alias->second, [&] { return parse_type(); });
    in_.fail_not_modelled(name_start, fmt::format("values of type !{} are not taken", name));
  }
  const std::string_view word = in_.peek_word();
  if (word == "tensor") return parse_tensor_type();
  if (word == "tuple") {
    in_.expect_word("tuple");
    in_.expect("<");
    std::vector<Type> elements;
    if (!in_.eat(">")) {
      do elements.push_back(parse_type());
      while (in_.eat(","));
      in_.expect(">");
    }
    return Type::tuple(std::move(elements));
  }
  if (element_type_from_name(word) || word == "memref" || word == "vector" || word == "none")
    in_.fail_not_modelled(start, fmt::format("values of type {} are not taken", word),
                          "graphs hold tensors, tuples and tokens");
  in_.fail_expected("a type: tensor<...>, tuple<...> or !stablehlo.token");
}

Type Parser::parse_tensor_type() {
  in_.expect_word("tensor");
  in_.expect("<");
  if (in_.peek() == '*')
    in_.fail_not_modelled(in_.position(), "tensors without a rank are not taken",
                          "give the tensor a rank; dimensions may be `?`");
  std::vector<int64_t> dims;
  while (true) {
    const char c = in_.peek();
    if (c == '?') {
      in_.expect("?");
      dims.push_back(kDynamic);
    } else if (c >= '0' && c <= '9') {
      int64_t dim = 0;
      const std::string_view rest = in_.text().substr(in_.position());
      const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), dim);
      if (error != std::errc()) in_.fail("this dimension is larger than 64 bits hold");
      in_.move_to(in_.position() + static_cast<size_t>(end - rest.data()));
      dims.push_back(dim);
    } else {
      break;
    }
    if (in_.raw() != 'x') in_.fail_expected("`x` after a dimension");
    in_.move_to(in_.position() + 1);
  }
  Type type;
  if (in_.peek() == '!') {
    const size_t start = in_.position();
    in_.expect("!");
    const std::string_view name = in_.suffix("a type's name");
    std::shared_ptr<const Quantization> quantization;
    if (name == "quant.uniform") {
      quantization = parse_quantization();
    } else if (const auto alias = type_aliases_.find(name); alias != type_aliases_.end()) {
      at_alias(alias->second, [&] {
        if (in_.eat("!quant.uniform")) {
          quantization = parse_quantization();
        } else {
          type = Type::scalar(parse_element_type());
        }
        return 0;
      });
    } else {
      in_.fail_not_modelled(start, fmt::format("tensors of !{} are not taken", name));
    }
    type = quantization ? Type::quantized(*quantization, std::move(dims)) : type.with_dims(std::move(dims));
  } else {
    type = Type::tensor(parse_element_type(), std::move(dims));
  }
  if (in_.eat(",")) {
    std::vector<int64_t> bounds = parse_bounds();
    if (bounds.size() != static_cast<size_t>(type.rank()))
      in_.fail(fmt::format("{} bounds for {}", bounds.size(), type.to_string()));
    type.set_bounds(std::move(bounds));
  }
  in_.expect(">");
  return type;
}

ElementType Parser::parse_element_type() {
  const size_t start = (in_.peek(), in_.position());
  const std::string_view word = in_.word("an element type");
  if (word == "complex") {
    in_.expect("<");
    const std::string_view part = in_.word("f32 or f64");
    in_.expect(">");
    if (part == "f32") return ElementType::kComplexF32;
    if (part == "f64") return ElementType::kComplexF64;
    in_.fail_not_modelled(start, fmt::format("complex<{}> is not an element type of StableHLO", part));
  }
  if (const auto element = element_type_from_name(word)) return *element;
  in_.fail(start, fmt::format("found `{}`, expected an element type", word),
           "known are i1, i2 .. i64, ui2 .. ui64, the floats of StableHLO, complex<f32>, complex<f64>");
}

// The encoding of a tensor type: #stablehlo.bounds<3, ?> or #stablehlo.type_extensions<bounds = [3, ?]>.
std::vector<int64_t> Parser::parse_bounds() {
  const size_t start = (in_.peek(), in_.position());
  in_.expect("#");
  const std::string_view name = in_.suffix("an encoding");
  if (const auto alias = attribute_aliases_.find(name); alias != attribute_aliases_.end())
    return at_alias(alias->second, [&] { return parse_bounds(); });
  std::vector<int64_t> bounds;
  if (name == "stablehlo.bounds" || name == "mhlo.bounds") {
    in_.expect("<");
    if (in_.eat(">")) return bounds;
    do bounds.push_back(in_.eat("?") ? kDynamic : in_.integer());
    while (in_.eat(","));
    in_.expect(">");
    return bounds;
  }
  if (name == "stablehlo.type_extensions" || name == "mhlo.type_extensions") {
    in_.expect("<");
    in_.expect_word("bounds");
    in_.expect("=");
    bounds = parse_integers();
    in_.expect(">");
    return bounds;
  }
  in_.fail_not_modelled(start, fmt::format("tensors with the encoding #{} are not taken", name));
}

// After !quant.uniform: <i8<-128:127>:f32, 0.5:3> or <i8:f32:1, {0.5, 0.25:3}>.
std::shared_ptr<const Quantization> Parser::parse_quantization() {
  auto made = std::make_shared<Quantization>();
  in_.expect("<");
  const size_t start = (in_.peek(), in_.position());
  const std::string_view storage = in_.word("a storage type");
  const bool is_unsigned = storage.starts_with('u');
  // i8, si8, u8 or ui8.
  const size_t digits = std::min(storage.find_first_of("0123456789"), storage.size());
  const std::string spelled = fmt::format("{}{}", is_unsigned ? "ui" : "i", storage.substr(digits));
  const auto element = element_type_from_name(spelled);
  if (!element || !is_integer(*element) || bit_width(*element) > 32)
    in_.fail(start, fmt::format("found `{}`, expected an integer of 2 to 32 bits to store", storage));
  made->storage = *element;
  const int bits = bit_width(*element);
  made->storage_min = is_unsigned ? 0 : -(int64_t{1} << (bits - 1));
  made->storage_max = is_unsigned ? (int64_t{1} << bits) - 1 : (int64_t{1} << (bits - 1)) - 1;
  if (in_.eat("<")) {
    made->storage_min = in_.integer();
    in_.expect(":");
    made->storage_max = in_.integer();
    in_.expect(">");
  }
  in_.expect(":");
  made->expressed = parse_element_type();
  if (in_.eat(":")) {
    if (in_.peek() == '{')
      in_.fail_not_modelled(in_.position(), "quantization of blocks (sub-channel) is not taken");
    made->axis = in_.integer();
  }
  in_.expect(",");
  const auto scale = [&] {
    const size_t at = (in_.peek(), in_.position());
    const std::string_view digits = in_.number();
    double value = 0;
    const std::string_view unsigned_digits = digits.front() == '+' ? digits.substr(1) : digits;
    const auto [end, error] =
        std::from_chars(unsigned_digits.data(), unsigned_digits.data() + unsigned_digits.size(), value);
    if (error != std::errc() || end != unsigned_digits.data() + unsigned_digits.size())
      in_.fail(at, fmt::format("found `{}`, expected a scale", digits));
    made->scales.push_back(value);
    made->zero_points.push_back(in_.eat(":") ? in_.integer() : 0);
  };
  if (in_.eat("{")) {
    if (in_.peek() == '{')
      in_.fail_not_modelled(in_.position(), "quantization of blocks (sub-channel) is not taken");
    do scale();
    while (in_.eat(","));
    in_.expect("}");
  } else {
    scale();
  }
  in_.expect(">");
  return made;
}

std::vector<Type> Parser::parse_types_in_parentheses() {
  std::vector<Type> types;
  in_.expect("(");
  if (in_.eat(")")) return types;
  do types.push_back(parse_type());
  while (in_.eat(","));
  in_.expect(")");
  return types;
}

std::vector<Type> Parser::parse_result_types() {
  if (in_.peek() == '(') return parse_types_in_parentheses();
  std::vector<Type> types;
  types.push_back(parse_type());
  return types;
}

FunctionType Parser::parse_function_type() {
  FunctionType type;
  type.inputs = parse_types_in_parentheses();
  in_.expect("->");
  type.results = parse_result_types();
  return type;
}

}  // namespace opentrn::graph::text
