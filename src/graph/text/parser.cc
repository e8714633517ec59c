#include "graph/text/parser.h"

#include <fmt/format.h>

#include "graph/text/text.h"

namespace opentrn::graph {

Module parse_module(std::string_view text, std::string_view filename) {
  return text::Parser(text, filename).parse();
}

std::vector<std::string_view> split_input_file(std::string_view text) {
  constexpr std::string_view kMark = "// -----";
  std::vector<std::string_view> parts;
  size_t start = 0;
  for (size_t at = 0; (at = text.find(kMark, at)) != std::string_view::npos; at += kMark.size()) {
    const size_t line = at == 0 ? 0 : text.rfind('\n', at - 1) + 1;
    if (text.substr(line, at - line).find_first_not_of(" \t") != std::string_view::npos) continue;
    parts.push_back(text.substr(start, line - start));
    const size_t end = text.find('\n', at);
    start = end == std::string_view::npos ? text.size() : end + 1;
  }
  parts.push_back(text.substr(start));
  return parts;
}

namespace text {

Module Parser::parse() {
  find_aliases();
  read_resources();
  parse_module_ops(false);
  return std::move(module_);
}

// #name = ... and !name = ... at the start of a line; locations are defined behind their uses.
void Parser::find_aliases() {
  const std::string_view text = in_.text();
  for (size_t line = 0; line < text.size();) {
    const char sigil = text[line];
    if (sigil == '#' || sigil == '!') {
      in_.move_to(line + 1);
      const char first = in_.raw();
      const bool is_name = (first >= 'a' && first <= 'z') || (first >= 'A' && first <= 'Z') || first == '_' ||
                           first == '$' || (first >= '0' && first <= '9');
      if (is_name) {
        const std::string_view name = in_.suffix("a name");
        if (in_.eat("=")) (sigil == '#' ? attribute_aliases_ : type_aliases_).emplace(name, in_.position());
      }
    }
    const size_t newline = text.find('\n', line);
    if (newline == std::string_view::npos) break;
    line = newline + 1;
  }
  in_.move_to(0);
}

// {-# dialect_resources: { builtin: { name: "0x..." } } #-} at the end of the text.
void Parser::read_resources() {
  const std::string_view text = in_.text();
  const size_t last = text.find_last_not_of(" \t\r\n");
  if (last == std::string_view::npos || !text.substr(0, last + 1).ends_with("#-}")) return;
  const size_t start = text.rfind("{-#");
  if (start == std::string_view::npos) return;
  in_.move_to(start + 3);
  while (!in_.eat("#-}")) {
    (void)in_.word("dialect_resources or external_resources");
    in_.expect(":");
    read_resource_map();
    (void)in_.eat(",");
  }
  in_.move_to(0);
}

void Parser::read_resource_map() {
  const Nested nested(*this);
  in_.expect("{");
  if (in_.eat("}")) return;
  do {
    const std::string key = in_.at_string() ? in_.string() : std::string(in_.word("a resource's name"));
    in_.expect(":");
    if (in_.peek() == '{') {
      read_resource_map();
    } else if (in_.peek() == '"') {
      const size_t open = in_.position();
      const size_t close = in_.text().find('"', open + 1);
      if (close == std::string_view::npos) in_.fail("this string has no end");
      resources_[key] = {open + 1, in_.slice(open + 1, close)};
      in_.move_to(close + 1);
    } else {
      (void)in_.word("a string, true or false");
    }
  } while (in_.eat(","));
  in_.expect("}");
}

void Parser::skip_alias_definition() {
  in_.move_to(in_.position() + 1);
  (void)in_.suffix("a name");
  in_.expect("=");
  const char c = in_.peek();
  if (c == '#' || c == '!') {
    in_.move_to(in_.position() + 1);
    (void)in_.suffix("a name");
    if (in_.raw() == '<') (void)in_.balanced();
  } else if (c == '(') {
    (void)parse_attribute();
  } else if (c == '[' || c == '{') {
    (void)in_.balanced();
  } else if (c == '"') {
    (void)in_.string();
  } else if (c == '-' || (c >= '0' && c <= '9')) {
    (void)in_.number();
  } else {
    (void)in_.word("an attribute or a type");
    if (in_.raw() == '<' || in_.raw() == '(') (void)in_.balanced();
  }
  if (in_.eat(":")) skip_type_text();
}

void Parser::parse_module_ops(bool in_module) {
  bool seen_module = false;
  while (true) {
    const char c = in_.peek();
    const size_t start = in_.position();
    if (c == '#' || c == '!') {
      skip_alias_definition();
      continue;
    }
    if (in_.at_end()) {
      if (in_module) in_.fail_expected("`}` of the module");
      return;
    }
    if (c == '}' && in_module) return;
    if (c == '{' && in_.raw(1) == '-' && in_.raw(2) == '#') {  // read before
      in_.move_to(in_.text().size());
      continue;
    }
    if (seen_module) in_.fail(start, "found more behind the module", "split the file with `// -----`");
    if (c == '"') {
      const std::string op_name = in_.string();
      if (op_name == "func.func") {
        parse_generic_function();
      } else if (op_name == "builtin.module" && !in_module) {
        parse_generic_module();
        seen_module = true;
      } else {
        in_.fail_not_modelled(start, fmt::format("op {} is not taken in a module", op_name));
      }
      continue;
    }
    const std::string_view word = in_.word("module or func.func");
    if (word == "func.func" || word == "func") {
      parse_function();
    } else if ((word == "module" || word == "builtin.module") && !in_module) {
      parse_module_op();
      seen_module = true;
    } else if (word == "sdy.mesh") {
      parse_sdy_mesh();
    } else {
      in_.fail_not_modelled(start, fmt::format("op {} is not taken in a module", word),
                            "a module holds func.func and sdy.mesh");
    }
  }
}

void Parser::parse_module_op() {
  if (in_.peek() == '@') module_.name = parse_symbol();
  if (in_.eat_word("attributes")) module_.attributes = parse_dictionary();
  in_.expect("{");
  parse_module_ops(true);
  in_.expect("}");
  if (in_.eat_word("loc")) (void)parse_location();
}

void Parser::parse_generic_module() {
  const auto read = [&] {
    Dictionary entries = parse_dictionary();
    for (auto& [key, value] : entries) {
      const auto* text = value.get<std::string>();
      if (key == "sym_name" && text) {
        module_.name = *text;
      } else {
        module_.attributes[key] = std::move(value);
      }
    }
  };
  in_.expect("(");
  in_.expect(")");
  if (in_.eat("<")) {
    read();
    in_.expect(">");
  }
  in_.expect("(");
  in_.expect("{");
  if (in_.eat("^")) {
    (void)in_.suffix("a block's name");
    in_.expect(":");
  }
  parse_module_ops(true);
  in_.expect("}");
  in_.expect(")");
  if (in_.peek() == '{') read();
  in_.expect(":");
  (void)parse_function_type();
  if (in_.eat_word("loc")) (void)parse_location();
}

// sdy.mesh @mesh = <["x"=2]>: kept as text among the module's attributes, under "sdy.meshes".
void Parser::parse_sdy_mesh() {
  std::string name = parse_symbol();
  in_.expect("=");
  in_.peek();
  Dictionary meshes;
  if (const auto found = module_.attributes.find("sdy.meshes"); found != module_.attributes.end())
    if (const Dictionary* known = found->second.as_dictionary()) meshes = *known;
  std::string text = fmt::format("#sdy.mesh{}", in_.balanced());
  if (in_.peek() == '{') text += fmt::format(" {}", in_.balanced());
  meshes[name] = Attribute(Opaque{std::move(text)});
  module_.attributes["sdy.meshes"] = Attribute::dictionary(std::move(meshes));
  if (in_.eat_word("loc")) (void)parse_location();
}

Function& Parser::open_function(std::string name, size_t position) {
  if (module_.find(name)) in_.fail(position, fmt::format("@{} is defined twice", name));
  values_.clear();
  scope_.clear();
  function_ = &module_.add_function(std::move(name));
  return *function_;
}

// (%a: type {...} loc(...), ...) -> (type {...}, ...); a declaration has types without names.
void Parser::parse_function_signature(std::vector<std::pair<std::string_view, Type>>& arguments,
                                      std::vector<Dictionary>& attributes) {
  in_.expect("(");
  if (!in_.eat(")")) {
    do {
      std::string_view name;
      if (in_.peek() == '%') {
        name = parse_value_name();
        in_.expect(":");
      }
      arguments.emplace_back(name, parse_type());
      attributes.push_back(in_.peek() == '{' ? parse_dictionary() : Dictionary{});
      if (in_.eat_word("loc")) (void)parse_location();
    } while (in_.eat(","));
    in_.expect(")");
  }
  if (!in_.eat("->")) return;
  const auto result = [&] {
    function().result_types.push_back(parse_type());
    function().result_attributes.push_back(in_.peek() == '{' ? parse_dictionary() : Dictionary{});
  };
  if (!in_.eat("(")) {
    function().result_types.push_back(parse_type());
    function().result_attributes.emplace_back();
    return;
  }
  if (in_.eat(")")) return;
  do result();
  while (in_.eat(","));
  in_.expect(")");
}

void Parser::parse_function() {
  const bool is_private = in_.eat_word("private") || in_.eat_word("nested");
  if (!is_private) (void)in_.eat_word("public");
  const size_t start = (in_.peek(), in_.position());
  open_function(parse_symbol(), start).is_public = !is_private;
  std::vector<std::pair<std::string_view, Type>> arguments;
  std::vector<Dictionary> attributes;
  parse_function_signature(arguments, attributes);
  for (const auto& [name, type] : arguments) {
    const ValueId value = function().add_argument(function().body(), type);
    if (!name.empty()) define(name, value, 1, start);
  }
  function().argument_attributes = std::move(attributes);
  if (in_.eat_word("attributes")) function().attributes = parse_dictionary();
  if (in_.eat("{")) {
    parse_block_ops(function().body());
    in_.expect("}");
  }
  if (in_.eat_word("loc")) (void)parse_location();
}

// "func.func"() <{function_type = ..., sym_name = "f", arg_attrs = [...]}> ({ body }) {...} : () -> ()
void Parser::parse_generic_function() {
  const size_t start = in_.position();
  Function& made = open_function("", start);
  FunctionType type;
  bool typed = false;
  const auto dictionaries = [&](Attribute value) {
    std::vector<Dictionary> found;
    if (const AttributeList* list = value.as_list())
      for (const Attribute& each : *list)
        found.push_back(each.as_dictionary() ? *each.as_dictionary() : Dictionary{});
    return found;
  };
  const auto read = [&] {
    in_.expect("{");
    if (in_.eat("}")) return;
    do {
      const std::string key = in_.at_string() ? in_.string() : std::string(in_.word("an attribute's name"));
      if (key == "function_type") {
        in_.expect("=");
        type = parse_function_type();
        typed = true;
        continue;
      }
      Attribute value = in_.eat("=") ? parse_attribute() : Attribute(Unit{});
      const auto* text = value.get<std::string>();
      if (key == "sym_name" && text) {
        for (const Function& other : module_.functions)
          if (&other != &made && other.name == *text)
            in_.fail(start, fmt::format("@{} is defined twice", *text));
        made.name = *text;
      } else if (key == "sym_visibility" && text) {
        made.is_public = *text == "public";
      } else if (key == "arg_attrs") {
        made.argument_attributes = dictionaries(std::move(value));
      } else if (key == "res_attrs") {
        made.result_attributes = dictionaries(std::move(value));
      } else {
        made.attributes[key] = std::move(value);
      }
    } while (in_.eat(","));
    in_.expect("}");
  };
  in_.expect("(");
  in_.expect(")");
  if (in_.eat("<")) {
    read();
    in_.expect(">");
  }
  in_.expect("(");
  in_.expect("{");
  if (in_.eat("^")) {
    (void)in_.suffix("a block's name");
    if (in_.eat("(") && !in_.eat(")")) {
      do {
        const size_t at = (in_.peek(), in_.position());
        const std::string_view name = parse_value_name();
        in_.expect(":");
        define(name, made.add_argument(made.body(), parse_type()), 1, at);
        if (in_.eat_word("loc")) (void)parse_location();
      } while (in_.eat(","));
      in_.expect(")");
    }
    in_.expect(":");
  }
  parse_block_ops(made.body());
  in_.expect("}");
  in_.expect(")");
  if (in_.peek() == '{') read();
  in_.expect(":");
  (void)parse_function_type();
  if (in_.eat_word("loc")) (void)parse_location();
  if (!typed || made.name.empty()) in_.fail(start, "func.func needs function_type and sym_name");
  if (made.arguments().empty())
    for (const Type& input : type.inputs) made.add_argument(made.body(), input);
  if (made.argument_types() != type.inputs)
    in_.fail(start, "function_type differs from the body's arguments");
  made.result_types = std::move(type.results);
  made.argument_attributes.resize(made.arguments().size());
  made.result_attributes.resize(made.result_types.size());
}

}  // namespace text
}  // namespace opentrn::graph
