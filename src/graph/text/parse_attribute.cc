#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "graph/element_value.h"
#include "graph/text/parser.h"

namespace opentrn::graph::text {

namespace {

bool is_integer_word(std::string_view word) {
  const auto element = element_type_from_name(word);
  return element && (is_integer(*element) || is_bool(*element));
}

}  // namespace

// On one line: runs of space become one, but in strings.
Attribute Parser::opaque_from(size_t start) {
  std::string text;
  bool quoted = false;
  for (const char c : in_.slice(start, in_.position())) {
    if (c == '"' && (text.empty() || text.back() != '\\')) quoted = !quoted;
    const bool space = !quoted && (c == ' ' || c == '\n' || c == '\t' || c == '\r');
    if (!space) {
      text += c;
    } else if (!text.empty() && text.back() != ' ') {
      text += ' ';
    }
  }
  return Attribute(Opaque{std::move(text)});
}

// A type that is kept as text: its word and what is in its brackets.
void Parser::skip_type_text() {
  if (in_.eat("!")) {
    (void)in_.suffix("a type's name");
  } else {
    (void)in_.word("a type");
  }
  if (in_.raw() == '<') (void)in_.balanced();
}

Attribute Parser::parse_attribute() {
  const Nested nested(*this);
  const char c = in_.peek();
  const size_t start = in_.position();
  if (c == '"') return Attribute(in_.string());
  if (c == '[') return parse_array_attribute();
  if (c == '{') return Attribute::dictionary(parse_dictionary());
  if (c == '@') return Attribute(SymbolRef{parse_symbol()});
  if (c == '#') return parse_dialect_attribute();
  if (c == '-' || c == '+' || (c >= '0' && c <= '9')) return parse_number_attribute();
  if (c == '(') {
    (void)in_.balanced();
    in_.expect("->");
    if (in_.peek() == '(') {
      (void)in_.balanced();
    } else {
      skip_type_text();
    }
    return opaque_from(start);
  }
  if (c == '!') {
    if (in_.text().substr(start).starts_with("!stablehlo.token")) return Attribute(parse_type());
    skip_type_text();
    return opaque_from(start);
  }
  const std::string_view word = in_.peek_word();
  if (in_.eat_word("true")) return Attribute(true);
  if (in_.eat_word("false")) return Attribute(false);
  if (in_.eat_word("unit")) return Attribute(Unit{});
  if (in_.eat_word("dense")) return Attribute(parse_dense());
  if (in_.eat_word("dense_resource")) return Attribute(parse_resource());
  if (word == "tensor" || word == "tuple") return Attribute(parse_type());
  if (in_.eat_word("array")) {
    in_.expect("<");
    const std::string_view element = in_.word("the array's element type");
    if (!is_integer_word(element)) {
      in_.move_to(start);
      (void)in_.word("array");
      (void)in_.balanced();
      return opaque_from(start);
    }
    std::vector<int64_t> values;
    if (in_.eat(":")) do {
        if (in_.eat_word("true")) {
          values.push_back(1);
        } else if (in_.eat_word("false")) {
          values.push_back(0);
        } else {
          values.push_back(in_.integer());
        }
      } while (in_.eat(","));
    in_.expect(">");
    return Attribute(std::move(values));
  }
  if (in_.eat_word("loc") || in_.eat_word("distinct")) {
    (void)in_.balanced();
    if (in_.raw() == '<') (void)in_.balanced();
    return opaque_from(start);
  }
  if (word.empty()) in_.fail_expected("an attribute");
  skip_type_text();  // f32, affine_map<...>, strided<...>
  return opaque_from(start);
}

// 1, 1 : i32, 0x10 : index, 1.5e3 : f32, 0x7F800000 : f32 (the bits of a float).
Attribute Parser::parse_number_attribute() {
  const size_t start = in_.position();
  std::string_view digits = in_.number();
  const size_t after = in_.position();
  const std::string_view type = in_.eat(":") ? in_.word("the number's type") : std::string_view{};
  const ElementType element = element_type_from_name(type).value_or(ElementType::kIndex);
  if (!type.empty() && !element_type_from_name(type))
    in_.fail(after, fmt::format("`{}` is not a type of a number", type));
  const bool hex = digits.find('x') != std::string_view::npos;
  const bool real = digits.find('.') != std::string_view::npos;
  if (real || is_float(element)) {
    if (!type.empty() && !is_float(element))
      in_.fail(start, fmt::format("`{}` is not a value of {}", digits, type));
    if (hex) {
      in_.move_to(start);
      std::byte bytes[16] = {};
      store_bits(element, static_cast<uint64_t>(in_.integer()), bytes);
      in_.expect(":");
      (void)in_.word("the number's type");
      return Attribute(load_real(element, bytes));
    }
    if (digits.front() == '+') digits.remove_prefix(1);
    double value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error != std::errc()) in_.fail(start, fmt::format("{} is out of the range of f64", digits));
    return Attribute(value);
  }
  in_.move_to(start);
  const int64_t value = in_.integer();
  if (in_.eat(":")) (void)in_.word("the number's type");
  return Attribute(value);
}

Attribute Parser::parse_array_attribute() {
  in_.expect("[");
  AttributeList list;
  if (!in_.eat("]")) {
    do list.push_back(parse_attribute());
    while (in_.eat(","));
    in_.expect("]");
  }
  return Attribute::list(std::move(list));
}

// @name, @"any text", @outer::@inner (kept as "outer::@inner").
std::string Parser::parse_symbol() {
  in_.expect("@");
  std::string name = in_.raw() == '"' ? in_.string() : std::string(in_.suffix("a symbol's name"));
  while (in_.raw() == ':' && in_.raw(1) == ':') {
    in_.expect("::");
    in_.expect("@");
    name += "::@";
    name += in_.raw() == '"' ? in_.string() : std::string(in_.suffix("a symbol's name"));
  }
  return name;
}

// #alias, #stablehlo<precision HIGH>, #sdy.sharding<...>: all but aliases are kept as text.
Attribute Parser::parse_dialect_attribute() {
  const size_t start = in_.position();
  in_.expect("#");
  const std::string_view name = in_.suffix("an attribute's name");
  if (const auto alias = attribute_aliases_.find(name); alias != attribute_aliases_.end())
    return at_alias(alias->second, [&] { return parse_attribute(); });
  if (in_.raw() == '<') {
    (void)in_.balanced();
  } else if (name.find('.') == std::string_view::npos) {
    in_.fail(start, fmt::format("#{} is not defined", name));
  }
  return opaque_from(start);
}

Dictionary Parser::parse_dictionary() {
  WrittenAttributes written;
  parse_written_attributes(written);
  Dictionary entries;
  for (WrittenAttribute& each : written) {
    if (!entries.try_emplace(each.name, std::move(each.value)).second)
      in_.fail(each.position, fmt::format("`{}` is given twice", each.name));
  }
  return entries;
}

void Parser::parse_written_attributes(WrittenAttributes& into) {
  in_.expect("{");
  if (in_.eat("}")) return;
  do {
    WrittenAttribute& written = into.emplace_back();
    written.position = (in_.peek(), in_.position());
    written.name = in_.at_string() ? in_.string() : std::string(in_.word("an attribute's name"));
    if (in_.eat("=")) {
      const std::string_view kind = struct_kind(written.name);
      Attribute value = !kind.empty() && in_.peek() == '#' ? parse_struct_attribute(kind) : parse_attribute();
      into.back().value = std::move(value);
    }
  } while (in_.eat(","));
  in_.expect("}");
}

void Parser::parse_optional_attributes(WrittenAttributes& into) {
  if (in_.peek() == '{') parse_written_attributes(into);
}

std::vector<int64_t> Parser::parse_integers() {
  std::vector<int64_t> values;
  in_.expect("[");
  if (in_.eat("]")) return values;
  do {
    if (in_.eat("?")) {
      values.push_back(kDynamic);
    } else if (in_.eat_word("true")) {
      values.push_back(1);
    } else if (in_.eat_word("false")) {
      values.push_back(0);
    } else {
      values.push_back(in_.integer());
    }
  } while (in_.eat(","));
  in_.expect("]");
  return values;
}

// Of an attribute like #stablehlo.dot<...>, whose fields become the op's flat attributes.
Attribute Parser::parse_struct_attribute(std::string_view kind) {
  const size_t start = in_.position();
  in_.expect("#");
  const std::string_view name = in_.suffix("an attribute's name");
  if (const auto alias = attribute_aliases_.find(name); alias != attribute_aliases_.end())
    return at_alias(alias->second, [&] { return (in_.peek(), parse_struct_attribute(kind)); });
  const size_t dot = name.find('.');
  const std::string_view found = dot == std::string_view::npos ? name : name.substr(dot + 1);
  if (found != kind && found != "gather" && found != "conv") {
    in_.move_to(start);
    return parse_dialect_attribute();
  }
  return Attribute::dictionary(parse_struct_of(found));
}

Dictionary Parser::parse_struct_of(std::string_view kind) {
  in_.expect("<");
  if (kind == "conv" && !in_.eat_word("raw")) {
    Dictionary fields = parse_convolution_dimensions();
    in_.expect(">");
    return fields;
  }
  Dictionary fields = parse_struct_fields();
  if (kind == "scatter" || kind == "gather") fields.try_emplace("index_vector_dim", Attribute(int64_t{0}));
  if (kind != "channel_handle") return fields;
  Dictionary flat;
  if (const auto handle = fields.find("handle"); handle != fields.end()) flat["channel_id"] = handle->second;
  if (const auto type = fields.find("type"); type != fields.end()) flat["channel_type"] = type->second;
  return flat;
}

Dictionary Parser::parse_struct_fields() {
  Dictionary fields;
  while (!in_.eat(">")) {
    const size_t start = (in_.peek(), in_.position());
    const std::string_view name = in_.word("a field's name");
    in_.expect("=");
    const char c = in_.peek();
    Attribute value = c == '['                             ? Attribute(parse_integers())
                      : c == '-' || (c >= '0' && c <= '9') ? Attribute(in_.integer())
                                                           : parse_attribute();
    if (!fields.try_emplace(std::string(name), std::move(value)).second)
      in_.fail(start, fmt::format("`{}` is given twice", name));
    if (in_.eat(",")) continue;
    in_.expect(">");
    break;
  }
  return fields;
}

// [b, 0, f]x[0, i, o]->[b, 0, f]: where the batch, the features and the spatial dimensions are.
Dictionary Parser::parse_convolution_dimensions() {
  Dictionary fields;
  const auto side = [&](const char* first_name, char first, const char* second_name, char second,
                        const char* spatial_name) {
    in_.expect("[");
    const size_t start = in_.position();
    int64_t index = 0;
    std::vector<std::pair<int64_t, int64_t>> spatial;  // which spatial dimension, where
    do {
      const char c = in_.peek();
      if (c >= '0' && c <= '9') {
        const int64_t dimension = in_.integer();
        for (const auto& [other, where] : spatial)
          if (other == dimension) in_.fail(fmt::format("spatial dimension {} stands twice", dimension));
        spatial.emplace_back(dimension, index);
      } else {
        const std::string_view word = in_.word("a dimension: a number or a letter");
        const char* name = word.size() == 1 && word[0] == first    ? first_name
                           : word.size() == 1 && word[0] == second ? second_name
                                                                   : nullptr;
        if (!name || !fields.try_emplace(name, Attribute(index)).second)
          in_.fail(fmt::format("found `{}`, expected `{}` and `{}` once each", word, first, second));
      }
      ++index;
    } while (in_.eat(","));
    in_.expect("]");
    if (!fields.contains(first_name) || !fields.contains(second_name))
      in_.fail(start, fmt::format("expected both `{}` and `{}` here", first, second));
    std::vector<int64_t> places(spatial.size());
    for (const auto& [dimension, where] : spatial) {
      if (dimension >= static_cast<int64_t>(spatial.size()))
        in_.fail(start, fmt::format("spatial dimension {} of {}", dimension, spatial.size()));
      places[static_cast<size_t>(dimension)] = where;
    }
    fields[spatial_name] = Attribute(std::move(places));
  };
  side("input_batch_dimension", 'b', "input_feature_dimension", 'f', "input_spatial_dimensions");
  // The x between the brackets may touch the next one.
  if (in_.peek() != 'x') in_.fail_expected("`x`");
  in_.move_to(in_.position() + 1);
  side("kernel_input_feature_dimension", 'i', "kernel_output_feature_dimension", 'o',
       "kernel_spatial_dimensions");
  in_.expect("->");
  side("output_batch_dimension", 'b', "output_feature_dimension", 'f', "output_spatial_dimensions");
  return fields;
}

LocationId Parser::parse_location() {
  in_.expect("(");
  Location location = parse_location_body();
  in_.expect(")");
  return location == Location{} ? kNoLocation : module_.intern(std::move(location));
}

// One place of several is kept: the first file and line from the inside out, and the outermost name.
Location Parser::parse_location_body() {
  const Nested nested(*this);
  const auto fill = [](Location& location, const Location& from) {
    if (location.file.empty()) {
      location.file = from.file;
      location.line = from.line;
      location.column = from.column;
    }
    if (location.name.empty()) location.name = from.name;
  };
  if (in_.peek() == '#') {
    const size_t start = in_.position();
    in_.expect("#");
    const std::string_view name = in_.suffix("a location's name");
    if (const auto known = location_aliases_.find(name); known != location_aliases_.end())
      return module_.location(known->second);
    const auto alias = attribute_aliases_.find(name);
    if (alias == attribute_aliases_.end()) in_.fail(start, fmt::format("#{} is not defined", name));
    const LocationId id = at_alias(alias->second, [&] {
      in_.expect_word("loc");
      return parse_location();
    });
    location_aliases_.emplace(name, id);
    return module_.location(id);
  }
  Location location;
  if (in_.at_string()) {
    std::string text = in_.string();
    if (in_.eat(":")) {
      location.file = std::move(text);
      location.line = static_cast<int>(in_.integer());
      if (in_.eat(":")) location.column = static_cast<int>(in_.integer());
      if (in_.eat_word("to")) {  // a range: its start is kept
        if (in_.peek() != ':') (void)in_.integer();
        in_.expect(":");
        (void)in_.integer();
      }
      return location;
    }
    location.name = std::move(text);
    if (in_.eat("(")) {
      fill(location, parse_location_body());
      in_.expect(")");
    }
    return location;
  }
  const std::string_view word = in_.peek_word();
  if (in_.eat_word("unknown")) return location;
  if (in_.eat_word("callsite")) {
    in_.expect("(");
    fill(location, parse_location_body());
    in_.expect_word("at");
    fill(location, parse_location_body());
    in_.expect(")");
    return location;
  }
  if (in_.eat_word("fused")) {
    if (in_.peek() == '<') (void)in_.balanced();
    in_.expect("[");
    if (in_.eat("]")) return location;
    do fill(location, parse_location_body());
    while (in_.eat(","));
    in_.expect("]");
    return location;
  }
  if (word == "loc") {
    in_.expect_word("loc");
    in_.expect("(");
    location = parse_location_body();
    in_.expect(")");
    return location;
  }
  in_.fail_expected("a location: \"file\":line:column, \"name\"(...), callsite, fused or unknown");
}

// Without loc(...) an op is where it stands in this file.
LocationId Parser::parse_optional_location(size_t op_position) {
  if (in_.eat_word("loc")) return parse_location();
  return file_location(op_position);
}

LocationId Parser::file_location(size_t position) {
  if (position < line_position_) {
    line_position_ = 0;
    line_ = 1;
  }
  const std::string_view passed = in_.slice(line_position_, position);
  line_ += static_cast<int>(std::count(passed.begin(), passed.end(), '\n'));
  line_position_ = position;
  Location location;
  location.file = in_.filename();
  location.line = line_;
  location.column = in_.column(position);
  return module_.intern(std::move(location));
}

}  // namespace opentrn::graph::text
