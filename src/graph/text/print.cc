// The printer: MLIR's own spelling of a module, pretty or generic.
#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "graph/text/assembly_forms.h"
#include "graph/text/spelling.h"
#include "graph/text/text.h"

namespace opentrn::graph {

namespace text {

namespace {

std::string_view next_form_word(std::string_view& form) {
  const size_t end = form.find(' ');
  const std::string_view word = form.substr(0, end);
  form.remove_prefix(end == std::string_view::npos ? form.size() : end + 1);
  return word;
}

Attr attribute_named(std::string_view word) {
  const size_t open = word.find('{') + 1;
  return *attr_from_name(word.substr(open, word.find('}') - open));
}

class Printer {
 public:
  Printer(const Module& module, const PrintOptions& options) : module_(module), options_(options) {}

  std::string print() {
    options_.generic ? print_generic_module() : print_module();
    return std::move(out_);
  }

 private:
  // --- modules and functions
  Dictionary module_attributes() const {
    Dictionary attributes = module_.attributes;
    attributes.erase("sdy.meshes");
    return attributes;
  }

  void print_module() {
    out_ += "module ";
    if (!module_.name.empty()) out_ += spelled_symbol(module_.name) + " ";
    if (const Dictionary attributes = module_attributes(); !attributes.empty())
      out_ += "attributes " + spelled_dictionary(attributes, options_) + " ";
    out_ += "{\n";
    print_meshes();
    for (const Function& function : module_.functions) print_function(function);
    out_ += "}\n";
  }

  void print_meshes() {
    const auto found = module_.attributes.find("sdy.meshes");
    if (found == module_.attributes.end() || !found->second.as_dictionary()) return;
    for (const auto& [mesh, value] : *found->second.as_dictionary()) {
      std::string_view text = value.get<Opaque>() ? std::string_view(value.get<Opaque>()->text) : "";
      if (text.starts_with("#sdy.mesh")) text.remove_prefix(9);
      out_ += fmt::format("  sdy.mesh {} = {}\n", spelled_symbol(mesh), text);
    }
  }

  void enter(const Function& function) {
    function_ = &function;
    names_.assign(function.value_count(), {});
    next_argument_ = 0;
    next_result_ = 0;
    for (const ValueId id : function.arguments()) name_argument(id);
  }

  void print_function(const Function& function) {
    enter(function);
    indent_ = 1;
    out_ += fmt::format("  func.func {}{}(", function.is_public ? "public " : "private ",
                        spelled_symbol(function.name));
    const bool declared = function.block(function.body()).ops.empty();
    for (size_t i = 0; i < function.arguments().size(); ++i) {
      const ValueId id = function.arguments()[i];
      if (i > 0) out_ += ", ";
      if (!declared) out_ += name_of(id) + ": ";
      out_ += function.type(id).to_string();
      print_attributes_of(function.argument_attributes, i);
    }
    out_ += ")";
    if (!function.result_types.empty()) {
      const bool bare = function.result_types.size() == 1 && !has_entries(function.result_attributes, 0);
      out_ += bare ? " -> " : " -> (";
      for (size_t i = 0; i < function.result_types.size(); ++i) {
        if (i > 0) out_ += ", ";
        out_ += function.result_types[i].to_string();
        print_attributes_of(function.result_attributes, i);
      }
      if (!bare) out_ += ")";
    }
    if (!function.attributes.empty())
      out_ += " attributes " + spelled_dictionary(function.attributes, options_);
    if (declared) {
      out_ += "\n";
      return;
    }
    out_ += " {\n";
    print_block_ops(function.body(), "return");
    out_ += "  }\n";
  }

  static bool has_entries(const std::vector<Dictionary>& all, size_t i) {
    return i < all.size() && !all[i].empty();
  }

  void print_attributes_of(const std::vector<Dictionary>& all, size_t i) {
    if (has_entries(all, i)) out_ += " " + spelled_dictionary(all[i], options_);
  }

  void print_generic_module() {
    out_ += "\"builtin.module\"() ";
    if (!module_.name.empty()) out_ += fmt::format("<{{sym_name = {}}}> ", spelled_string(module_.name));
    out_ += "({\n";
    print_meshes();
    if (module_.functions.empty()) out_ += "^bb0:\n";
    for (const Function& function : module_.functions) print_generic_function(function);
    out_ += "})";
    if (const Dictionary attributes = module_attributes(); !attributes.empty())
      out_ += " " + spelled_dictionary(attributes, options_);
    out_ += " : () -> ()\n";
  }

  void print_generic_function(const Function& function) {
    enter(function);
    indent_ = 1;
    std::string properties;
    const auto dictionaries = [&](const char* key, const std::vector<Dictionary>& all) {
      if (std::all_of(all.begin(), all.end(), [](const Dictionary& each) { return each.empty(); })) return;
      std::vector<std::string> parts;
      for (const Dictionary& each : all) parts.push_back(spelled_dictionary(each, options_));
      properties += fmt::format("{} = [{}], ", key, fmt::join(parts, ", "));
    };
    dictionaries("arg_attrs", function.argument_attributes);
    properties +=
        fmt::format("function_type = {}, ", function_type(function.argument_types(), function.result_types));
    dictionaries("res_attrs", function.result_attributes);
    properties += fmt::format("sym_name = {}, sym_visibility = \"{}\"", spelled_string(function.name),
                              function.is_public ? "public" : "private");
    out_ += fmt::format("  \"func.func\"() <{{{}}}> ({{", properties);
    if (!function.block(function.body()).ops.empty()) {
      out_ += "\n";
      if (!function.arguments().empty()) print_label(function.body());
      print_block_ops(function.body(), "func.return");
      out_ += "  ";
    }
    out_ += "})";
    if (!function.attributes.empty()) out_ += " " + spelled_dictionary(function.attributes, options_);
    out_ += " : () -> ()\n";
  }

  // --- values and types
  struct Name {
    char kind = 0;  // 'a'rgument, 'r'esult, or of a 'g'roup
    uint32_t number = 0;
    uint32_t index = 0;
  };

  void name_argument(ValueId id) { names_[index_of(id)] = {'a', next_argument_++, 0}; }

  std::string name_of(ValueId id) const {
    const Name& name = names_[index_of(id)];
    if (name.kind == 'a') return fmt::format("%arg{}", name.number);
    if (name.kind == 'g') return fmt::format("%{}#{}", name.number, name.index);
    if (name.kind == 'r') return fmt::format("%{}", name.number);
    return fmt::format("%undefined{}", index_of(id));  // a module that the verifier would refuse
  }

  std::string names_of(std::span<const ValueId> ids) const {
    std::string out;
    for (const ValueId id : ids) out += (out.empty() ? "" : ", ") + name_of(id);
    return out;
  }

  std::vector<Type> types_of(std::span<const ValueId> ids) const {
    std::vector<Type> types;
    for (const ValueId id : ids) types.push_back(function_->type(id));
    return types;
  }

  static std::string joined(std::span<const Type> types) {
    std::string out;
    for (const Type& type : types) out += (out.empty() ? "" : ", ") + type.to_string();
    return out;
  }

  static std::string function_type(std::span<const Type> inputs, std::span<const Type> results) {
    return fmt::format("({}) -> {}", joined(inputs), result_types(results));
  }
  static std::string result_types(std::span<const Type> results) {
    return results.size() == 1 ? results[0].to_string() : fmt::format("({})", joined(results));
  }
  std::string function_type(const Op& op) const {
    return function_type(types_of(op.operands), types_of(op.results));
  }

  // --- ops
  void pad() { out_.append(2 * static_cast<size_t>(indent_), ' '); }

  void print_label(BlockId block) {
    pad();
    out_ += "^bb0(";
    bool first = true;
    for (const ValueId id : function_->block(block).arguments) {
      if (!first) out_ += ", ";
      first = false;
      out_ += fmt::format("{}: {}", name_of(id), function_->type(id).to_string());
    }
    out_ += "):\n";
  }

  // `terminator`: how return_ is called here.
  void print_block_ops(BlockId block, std::string_view terminator) {
    ++indent_;
    for (const OpId id : function_->block(block).ops) print_op(function_->op(id), terminator);
    --indent_;
  }

  void print_op(const Op& op, std::string_view terminator) {
    pad();
    if (!op.results.empty()) {
      const bool group = op.results.size() > 1;
      for (size_t i = 0; i < op.results.size(); ++i)
        names_[index_of(op.results[i])] = {group ? 'g' : 'r', next_result_, static_cast<uint32_t>(i)};
      out_ += group ? fmt::format("%{}:{} = ", next_result_, op.results.size())
                    : fmt::format("%{} = ", next_result_);
      ++next_result_;
    }
    const size_t start = out_.size();
    // Inside a function's own block `func.` goes without saying.
    const bool bare = terminator == "return" && !options_.generic;
    const std::string_view shown = op.kind == OpKind::return_         ? terminator
                                   : op.kind == OpKind::call_ && bare ? std::string_view("call")
                                                                      : name(op.kind);
    if (options_.generic || !print_pretty(op, shown)) {
      out_.resize(start);
      print_generic(op, op.kind == OpKind::return_ && terminator == "return" ? "func.return" : shown);
    }
    if (options_.locations) out_ += " " + spelled_location(module_.location(op.location));
    out_ += "\n";
  }

  // {a = ..., b = ...} of what is not written yet, sorted by name as MLIR does; empty when there is none.
  std::string dictionary(const Op& op, const std::vector<Attr>& skip, bool own, bool extra) const {
    std::vector<SpelledAttribute> entries;
    if (own) entries = spelled_own_attributes(*function_, op, skip, options_);
    if (extra && op.extra) {
      for (const auto& [key, value] : *op.extra)
        entries.push_back(
            {spelled_key(key), value.get<Unit>() ? "" : spelled_attribute(key, value, options_)});
    }
    if (entries.empty()) return {};
    std::sort(entries.begin(), entries.end(),
              [](const SpelledAttribute& a, const SpelledAttribute& b) { return a.name < b.name; });
    std::string out = "{";
    for (const SpelledAttribute& each : entries) {
      if (out.size() > 1) out += ", ";
      out += each.name;
      if (!each.text.empty()) out += " = " + each.text;
    }
    return out + "}";
  }

  void print_regions(const Op& op) {
    out_ += " (";
    for (size_t i = 0; i < op.regions.size(); ++i) {
      const BlockId region = op.regions[i];
      out_ += i > 0 ? ", {\n" : "{\n";
      for (const ValueId id : function_->block(region).arguments) name_argument(id);
      if (!function_->block(region).arguments.empty()) print_label(region);
      print_block_ops(region, "stablehlo.return");
      pad();
      out_ += "}";
    }
    out_ += ")";
  }

  void print_generic(const Op& op, std::string_view shown) {
    out_ += fmt::format("\"{}\"({})", shown, names_of(op.operands));
    if (const std::string own = dictionary(op, {}, true, false); !own.empty())
      out_ += fmt::format(" <{}>", own);
    if (!op.regions.empty()) print_regions(op);
    if (const std::string extra = dictionary(op, {}, false, true); !extra.empty()) out_ += " " + extra;
    out_ += " : " + function_type(op);
  }

  // False when the op does not fit its pretty form; what was written is then dropped.
  bool print_pretty(const Op& op, std::string_view shown) {
    const std::string_view form = assembly_form(op.kind);
    if (op.kind == OpKind::custom_call_ && print_sharding_op(op)) return true;
    if (form.empty()) return false;
    if (form != "special") return op.regions.empty() && print_form(op, form, shown);
    switch (op.kind) {
      case OpKind::while_: return print_while(op);
      case OpKind::reduce_: return print_reduce(op);
      case OpKind::convolution_: return print_convolution(op);
      case OpKind::dot_:
      case OpKind::dot_general_: return print_dot(op);
      case OpKind::composite_: return print_composite(op);
      case OpKind::chlo_top_k_: return print_top_k(op);
      case OpKind::chlo_scan_: return print_scan(op);
      default: return print_constant(op);
    }
  }

  void print_dictionary(const Op& op, const std::vector<Attr>& skip) {
    if (const std::string rest = dictionary(op, skip, true, true); !rest.empty()) out_ += " " + rest;
  }

  std::string form_value(const Op& op, Attr attr) const {
    const AttrSpec& spec = *find_spec(definition(op.kind), attr);
    const Attribute& value = *op.find(attr);
    switch (spec.kind) {
      case AttrKind::kInt: return fmt::format("{}", op.integer(attr));
      case AttrKind::kInts: return spelled_integers(op.integers(attr));
      case AttrKind::kBool:
      case AttrKind::kString: return spelled_attribute(name(attr), value, options_);
      default: return std::string(enum_word(spec.kind, op.integer(attr)));
    }
  }

  bool print_form(const Op& op, std::string_view form, std::string_view shown) {
    out_ += shown;
    std::vector<Attr> written;
    size_t operand = 0;
    // Words are set apart by spaces, but for `,` and inside ( ).
    bool tight = false;
    const auto space = [&] {
      if (!tight) out_ += ' ';
      tight = false;
    };
    const bool call = op.kind == OpKind::custom_call_ || op.kind == OpKind::call_;
    while (!form.empty()) {
      const std::string_view word = next_form_word(form);
      if (word == "%") {
        if (operand >= op.operands.size()) return false;
        space();
        out_ += name_of(op.operands[operand++]);
      } else if (word == "%*") {
        const std::string rest = names_of(std::span(op.operands).subspan(operand));
        if (!rest.empty()) space();
        out_ += rest;
        operand = op.operands.size();
      } else if (word == "dict") {
        print_dictionary(op, written);
      } else if (word == "{slice}") {
        if (!print_slice(op, written)) return false;
      } else if (word == "{format}") {
        if (op.integer_or(Attr::exponent_bits, -1) < 0 || op.integer_or(Attr::mantissa_bits, -1) < 0)
          return false;
        out_ += fmt::format(" e{}m{}", op.integer(Attr::exponent_bits), op.integer(Attr::mantissa_bits));
        written.insert(written.end(), {Attr::exponent_bits, Attr::mantissa_bits});
      } else if (word.find('{') != std::string_view::npos) {
        const Attr attr = attribute_named(word);
        if (!op.has(attr)) {
          if (word[0] == '?') continue;
          return false;
        }
        written.push_back(attr);
        if (word.starts_with("?!")) {
          out_ += ", " + form_value(op, attr);
        } else if (word.starts_with("?")) {
          out_ += fmt::format(", {} = {}", name(attr), form_value(op, attr));
        } else if (word.starts_with("@")) {
          space();
          const auto* symbol = op.find(attr)->get<SymbolRef>();
          out_ += spelled_symbol(symbol ? symbol->name : op.string(attr));
        } else {
          space();
          out_ += form_value(op, attr);
        }
      } else if (word.starts_with(":") && word.size() > 1) {
        return operand == op.operands.size() && print_form_types(op, word);
      } else if (word == ",") {
        out_ += ",";
      } else if (word == "(" || word == "[") {
        if (word == "[" && op.kind == OpKind::get_tuple_element_) out_ += "[";
        if (call) out_ += "(";
        tight = true;
      } else if (word == ")" || word == "]") {
        out_ += word;
        tight = false;
      } else {
        space();
        out_ += word;
      }
    }
    return false;
  }

  bool print_slice(const Op& op, std::vector<Attr>& written) {
    for (const Attr attr : {Attr::start_indices, Attr::limit_indices, Attr::strides})
      if (!op.has(attr)) return false;
    const auto starts = op.integers(Attr::start_indices);
    const auto limits = op.integers(Attr::limit_indices);
    const auto strides = op.integers(Attr::strides);
    if (starts.size() != limits.size() || starts.size() != strides.size()) return false;
    out_ += " [";
    for (size_t i = 0; i < starts.size(); ++i) {
      out_ += fmt::format("{}{}:{}", i > 0 ? ", " : "", starts[i], limits[i]);
      if (strides[i] != 1) out_ += fmt::format(":{}", strides[i]);
    }
    out_ += "]";
    written.insert(written.end(), {Attr::start_indices, Attr::limit_indices, Attr::strides});
    return true;
  }

  bool print_form_types(const Op& op, std::string_view rule) {
    const std::vector<Type> inputs = types_of(op.operands);
    const std::vector<Type> results = types_of(op.results);
    const auto all_are = [&](std::span<const Type> types, const Type& type) {
      return std::all_of(types.begin(), types.end(), [&](const Type& each) { return each == type; });
    };
    if (rule == ":operands") {
      if (!results.empty()) return false;
      if (!inputs.empty()) out_ += " : " + joined(inputs);
      return true;
    }
    if (rule == ":pairwise") {
      if (inputs != results) return false;
      out_ += inputs.empty() ? " ()" : " : " + joined(inputs);
      return true;
    }
    if (rule == ":arrow") {
      if (inputs.empty() || results.size() != 1) return false;
      out_ += fmt::format(" : {} -> {}", joined(inputs), results[0].to_string());
      return true;
    }
    if (rule != ":fn" && results.size() != 1) return false;
    if (rule == ":result") {
      if (!inputs.empty()) return false;
      out_ += " : " + results[0].to_string();
      return true;
    }
    if (rule == ":same" && all_are(inputs, results[0])) {
      out_ += " : " + results[0].to_string();
      return true;
    }
    if (rule == ":tuple") {
      if (!results[0].is_tuple() || !std::equal(inputs.begin(), inputs.end(), results[0].elements().begin(),
                                                results[0].elements().end()))
        return false;
      out_ += " : " + results[0].to_string();
      return true;
    }
    if (rule == ":complex" && results[0].is_tensor() && is_complex(results[0].element()) &&
        all_are(inputs, results[0].with_element(real_part(results[0].element())))) {
      out_ += " : " + results[0].to_string();
      return true;
    }
    if (rule == ":select" && inputs.size() == 3 && inputs[1] == results[0] && inputs[2] == results[0]) {
      out_ += fmt::format(" : {}, {}", inputs[0].to_string(), results[0].to_string());
      return true;
    }
    out_ += " : " + function_type(op);
    return true;
  }

  bool print_constant(const Op& op) {
    const Attribute* value = op.find(Attr::value);
    const Literal* literal = value ? value->get<Literal>() : nullptr;
    if (!literal || op.results.size() != 1 || !(literal->type() == function_->type(op.results[0])))
      return false;
    out_ += name(op.kind);
    print_dictionary(op, {Attr::value});
    out_ += " " + spelled_literal(*literal, options_);
    return true;
  }

  bool print_while(const Op& op) {
    const std::vector<Type> types = types_of(op.operands);
    if (op.regions.size() != 2 || types_of(op.results) != types) return false;
    for (const BlockId region : op.regions)
      if (types_of(function_->block(region).arguments) != types) return false;
    out_ += "stablehlo.while(";
    const std::vector<ValueId>& first = function_->block(op.regions[0]).arguments;
    const std::vector<ValueId>& second = function_->block(op.regions[1]).arguments;
    for (size_t i = 0; i < first.size(); ++i) {
      name_argument(first[i]);
      names_[index_of(second[i])] = names_[index_of(first[i])];
      out_ += fmt::format("{}{} = {}", i > 0 ? ", " : "", name_of(first[i]), name_of(op.operands[i]));
    }
    out_ += ")";
    if (!types.empty()) out_ += " : " + joined(types);
    if (const std::string rest = dictionary(op, {}, true, true); !rest.empty()) out_ += " attributes " + rest;
    out_ += "\n";
    pad();
    for (size_t i = 0; i < 2; ++i) {
      out_ += i == 0 ? "cond {\n" : " do {\n";
      print_block_ops(op.regions[i], "stablehlo.return");
      pad();
      out_ += "}";
    }
    return true;
  }

  // The one op that a reduction applies to its two arguments, when the short form can say it.
  const Op* applied_op(const Op& op) const {
    const Block& body = function_->block(op.regions[0]);
    if (body.arguments.size() != 2 || body.ops.size() != 2 || !function_->type(op.operands[0]).is_tensor())
      return nullptr;
    const Op& inner = function_->op(body.ops[0]);
    const Op& last = function_->op(body.ops[1]);
    switch (inner.kind) {
      case OpKind::add_:
      case OpKind::multiply_:
      case OpKind::maximum_:
      case OpKind::minimum_:
      case OpKind::and_:
      case OpKind::or_:
      case OpKind::xor_: break;
      default: return nullptr;
    }
    const Type scalar = function_->type(op.operands[0]).with_dims({});
    const bool forwards = inner.operands == body.arguments && last.kind == OpKind::return_ &&
                          last.operands == inner.results && inner.results.size() == 1;
    const bool typed = forwards && function_->type(body.arguments[0]) == scalar &&
                       function_->type(body.arguments[1]) == scalar &&
                       function_->type(inner.results[0]) == scalar;
    return typed && inner.attributes.empty() && !inner.extra && !last.extra ? &inner : nullptr;
  }

  bool print_reduce(const Op& op) {
    const size_t count = op.operands.size() / 2;
    if (op.regions.size() != 1 || count == 0 || op.operands.size() != 2 * count || !op.has(Attr::dimensions))
      return false;
    const Block& body = function_->block(op.regions[0]);
    const Op* inner = applied_op(op);
    if (!inner && body.arguments.size() != 2 * count) return false;
    out_ += "stablehlo.reduce";
    for (size_t i = 0; i < count; ++i)
      out_ += fmt::format("{}({} init: {})", i > 0 ? ", " : "", name_of(op.operands[i]),
                          name_of(op.operands[i + count]));
    if (inner) out_ += fmt::format(" applies {}", name(inner->kind));
    out_ += fmt::format(" across dimensions = {}", spelled_integers(op.integers(Attr::dimensions)));
    print_dictionary(op, {Attr::dimensions});
    out_ += " : " + function_type(op);
    if (inner) return true;
    out_ += "\n";
    pad();
    out_ += " reducer";
    for (const ValueId id : body.arguments) name_argument(id);
    for (size_t i = 0; i < count; ++i) {
      const ValueId element = body.arguments[i];
      const ValueId sum = body.arguments[i + count];
      out_ += fmt::format("({}: {}, {}: {}) ", name_of(element), function_->type(element).to_string(),
                          name_of(sum), function_->type(sum).to_string());
    }
    out_ += " {\n";
    print_block_ops(op.regions[0], "stablehlo.return");
    pad();
    out_ += "}";
    return true;
  }

  std::string precisions(const Op& op) const {
    std::vector<std::string_view> words;
    for (const int64_t each : op.integers(Attr::precision_config))
      words.push_back(enum_word(AttrKind::kPrecisions, each));
    return fmt::format(", precision = [{}]", fmt::join(words, ", "));
  }

  bool print_dot(const Op& op) {
    if (op.operands.size() != 2) return false;
    out_ += fmt::format("{} {}", name(op.kind), names_of(op.operands));
    std::vector<Attr> written{Attr::precision_config};
    if (op.kind == OpKind::dot_general_) {
      const auto dims = [&](const char* word, Attr left, Attr right, bool always) {
        const auto of = [&](Attr attr) {
          return op.has(attr) ? op.integers(attr) : std::span<const int64_t>();
        };
        written.insert(written.end(), {left, right});
        if (always || !of(left).empty() || !of(right).empty())
          out_ +=
              fmt::format(", {} = {} x {}", word, spelled_integers(of(left)), spelled_integers(of(right)));
      };
      dims("batching_dims", Attr::lhs_batching_dimensions, Attr::rhs_batching_dimensions, false);
      dims("contracting_dims", Attr::lhs_contracting_dimensions, Attr::rhs_contracting_dimensions, true);
    }
    if (op.has(Attr::precision_config)) out_ += precisions(op);
    if (op.has(Attr::lhs_precision_type)) {
      out_ += ", algorithm = " + spelled_dot_algorithm(op);
      written.insert(written.end(),
                     {Attr::lhs_precision_type, Attr::rhs_precision_type, Attr::accumulation_type,
                      Attr::lhs_component_count, Attr::rhs_component_count, Attr::num_primitive_operations,
                      Attr::allow_imprecise_accumulation});
    }
    print_dictionary(op, written);
    out_ += " : " + function_type(op);
    return true;
  }

  bool print_convolution(const Op& op) {
    const std::string dims = spelled_convolution_dimensions(op);
    const IntMatrix* padding = op.has(Attr::padding) ? &op.matrix(Attr::padding) : nullptr;
    if (dims.empty() || (padding && padding->columns != 2)) return false;
    std::vector<std::string> window;
    const auto list = [&](Attr attr, const char* word) {
      if (!op.has(attr)) return;
      std::vector<std::string> parts;
      for (const int64_t each : op.integers(attr))
        parts.push_back(attr == Attr::window_reversal ? (each != 0 ? "true" : "false")
                                                      : fmt::format("{}", each));
      window.push_back(fmt::format("{} = [{}]", word, fmt::join(parts, ", ")));
    };
    list(Attr::window_strides, "stride");
    if (padding) {
      std::vector<std::string> rows;
      for (int64_t row = 0; row < padding->rows; ++row)
        rows.push_back(fmt::format("[{}, {}]", padding->at(row, 0), padding->at(row, 1)));
      window.push_back(fmt::format("pad = [{}]", fmt::join(rows, ", ")));
    }
    list(Attr::lhs_dilation, "lhs_dilate");
    list(Attr::rhs_dilation, "rhs_dilate");
    list(Attr::window_reversal, "reverse");
    out_ += fmt::format("stablehlo.convolution({}) dim_numbers = {}, window = {{{}}}", names_of(op.operands),
                        dims, fmt::join(window, ", "));
    print_dictionary(
        op, {Attr::window_strides, Attr::padding, Attr::lhs_dilation, Attr::rhs_dilation,
             Attr::window_reversal, Attr::input_batch_dimension, Attr::input_feature_dimension,
             Attr::input_spatial_dimensions, Attr::kernel_input_feature_dimension,
             Attr::kernel_output_feature_dimension, Attr::kernel_spatial_dimensions,
             Attr::output_batch_dimension, Attr::output_feature_dimension, Attr::output_spatial_dimensions});
    out_ += " : " + function_type(op);
    return true;
  }

  bool print_composite(const Op& op) {
    if (!op.has(Attr::name)) return false;
    out_ += fmt::format("stablehlo.composite {}", spelled_string(op.string(Attr::name)));
    if (!op.operands.empty()) out_ += " " + names_of(op.operands);
    if (!op.regions.empty()) print_regions(op);
    print_dictionary(op, {Attr::name});
    out_ += " : " + function_type(op);
    return true;
  }

  bool print_top_k(const Op& op) {
    if (op.operands.size() != 1 || op.results.size() != 2 || !op.has(Attr::k)) return false;
    out_ += fmt::format("chlo.top_k({}, k = {}", name_of(op.operands[0]), op.integer(Attr::k));
    if (op.has(Attr::is_stable)) out_ += fmt::format(", is_stable = {}", op.boolean(Attr::is_stable));
    out_ += ")";
    print_dictionary(op, {Attr::k, Attr::is_stable});
    out_ += fmt::format(" : {} -> {}", joined(types_of(op.operands)), result_types(types_of(op.results)));
    return true;
  }

  bool print_scan(const Op& op) {
    const auto sizes = op.extra ? op.extra->find("operandSegmentSizes") : Dictionary::const_iterator();
    if (op.regions.size() != 1 || !op.extra || sizes == op.extra->end() || !op.has(Attr::dimension))
      return false;
    const auto* counts = sizes->second.get<std::vector<int64_t>>();
    if (!counts || counts->size() != 2 ||
        (*counts)[0] + (*counts)[1] != static_cast<int64_t>(op.operands.size()) || (*counts)[0] < 0 ||
        (*counts)[1] < 0)
      return false;
    const auto inputs = static_cast<size_t>((*counts)[0]);
    const std::span<const ValueId> operands(op.operands);
    out_ += fmt::format("chlo.scan({}) inits ({}) dimension={}", names_of(operands.first(inputs)),
                        names_of(operands.subspan(inputs)), op.integer(Attr::dimension));
    Op shown;
    shown.kind = op.kind;
    shown.attributes = op.attributes;
    Dictionary extra = *op.extra;
    extra.erase("operandSegmentSizes");
    extra.erase("resultSegmentSizes");
    shown.extra = std::make_shared<const Dictionary>(std::move(extra));
    if (const std::string rest = dictionary(shown, {Attr::dimension}, true, true); !rest.empty())
      out_ += " attributes " + rest;
    const BlockId region = op.regions[0];
    for (const ValueId id : function_->block(region).arguments) name_argument(id);
    out_ += " {\n";
    if (!function_->block(region).arguments.empty()) print_label(region);
    print_block_ops(region, "stablehlo.return");
    pad();
    out_ += "} : " + function_type(op);
    return true;
  }

  // sdy.sharding_constraint and its kin came as custom calls and go out as they came.
  bool print_sharding_op(const Op& op) {
    if (!op.extra || !op.has(Attr::call_target_name)) return false;
    const std::string& target = op.string(Attr::call_target_name);
    const auto text = [&](std::string_view key, std::string_view prefix) -> std::optional<std::string> {
      const auto found = op.extra->find(key);
      const auto* opaque = found == op.extra->end() ? nullptr : found->second.get<Opaque>();
      if (!opaque || !opaque->text.starts_with(prefix)) return std::nullopt;
      return opaque->text.substr(prefix.size());
    };
    if (target == "sdy.sharding_constraint" || target == "sdy.reshard") {
      const auto sharding = text("sharding", "#sdy.sharding");
      if (!sharding || op.extra->size() != 1 || op.operands.size() != 1 || op.results.size() != 1 ||
          types_of(op.operands) != types_of(op.results))
        return false;
      out_ += fmt::format("{} {} {} : {}", target, names_of(op.operands), *sharding,
                          joined(types_of(op.results)));
      return true;
    }
    if (target != "sdy.manual_computation" || op.regions.size() != 1 || op.extra->size() != 3) return false;
    const auto in = text("in_shardings", "#sdy.sharding_per_value<");
    const auto out = text("out_shardings", "#sdy.sharding_per_value<");
    const auto axes = text("manual_axes", "#sdy<manual_axes");
    if (!in || !out || !axes) return false;
    const auto inner = [](const std::string& closed) { return closed.substr(0, closed.size() - 1); };
    out_ += fmt::format("{}({}) in_shardings={} out_shardings={} manual_axes={} (", target,
                        names_of(op.operands), inner(*in), inner(*out), inner(*axes));
    bool first = true;
    for (const ValueId id : function_->block(op.regions[0]).arguments) {
      name_argument(id);
      out_ += fmt::format("{}{}: {}", first ? "" : ", ", name_of(id), function_->type(id).to_string());
      first = false;
    }
    out_ += ") {\n";
    print_block_ops(op.regions[0], "sdy.return");
    pad();
    out_ += "} : " + function_type(op);
    return true;
  }

  const Module& module_;
  const PrintOptions& options_;
  const Function* function_ = nullptr;
  std::string out_;
  std::vector<Name> names_;
  uint32_t next_argument_ = 0;
  uint32_t next_result_ = 0;
  int indent_ = 0;
};

}  // namespace

}  // namespace text

std::string print_module(const Module& module, const PrintOptions& options) {
  return text::Printer(module, options).print();
}

}  // namespace opentrn::graph
