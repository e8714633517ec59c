#include <fmt/format.h>

#include "base/interrupt.h"

#include "graph/text/parser.h"

namespace opentrn::graph::text {

std::string_view Parser::parse_value_name() {
  in_.expect("%");
  return in_.suffix("a value's name");
}

ValueId Parser::parse_value() {
  const size_t start = (in_.peek(), in_.position());
  const std::string_view name = parse_value_name();
  const auto found = values_.find(name);
  if (found == values_.end()) in_.fail(start, fmt::format("%{} is used here and not defined before", name));
  uint32_t index = 0;
  if (in_.raw() == '#') {
    in_.expect("#");
    const int64_t number = in_.integer();
    if (number < 0 || number >= found->second.count)
      in_.fail(start, fmt::format("%{}#{}: %{} has {} results", name, number, name, found->second.count));
    index = static_cast<uint32_t>(number);
  }
  return ValueId{static_cast<uint32_t>(index_of(found->second.first) + index)};
}

// As many values as follow, separated by commas; a comma with no value behind stays.
std::vector<ValueId> Parser::parse_values() {
  std::vector<ValueId> values;
  if (in_.peek() != '%') return values;
  while (true) {
    values.push_back(parse_value());
    const size_t before = in_.position();
    if (!in_.eat(",")) return values;
    if (in_.peek() != '%') {
      in_.move_to(before);
      return values;
    }
  }
}

void Parser::define(std::string_view name, ValueId first, uint32_t count, size_t position) {
  if (!values_.try_emplace(name, Named{first, count}).second)
    in_.fail(position, fmt::format("%{} is defined twice", name));
  scope_.push_back(name);
}

void Parser::parse_block_ops(BlockId block) {
  while (true) {
    const char c = in_.peek();
    if (c == '}') return;
    if (c == '^')
      in_.fail_not_modelled(in_.position(), "a region of several blocks is not taken",
                            "StableHLO's control flow is if, case and while");
    if (c == '\0' && in_.at_end()) in_.fail_expected("an op or `}`");
    parse_op(block);
  }
}

void Parser::parse_op(BlockId block) {
  interrupt::poll();
  const Nested nested(*this);
  ResultNames names;
  const size_t start = (in_.peek(), in_.position());
  if (in_.peek() == '%') {
    do {
      ResultNames::Group group;
      group.position = (in_.peek(), in_.position());
      group.name = parse_value_name();
      if (in_.eat(":")) {
        const int64_t count = in_.integer();
        if (count < 1 || count > 1 << 20) in_.fail(fmt::format("{} results", count));
        group.count = static_cast<uint32_t>(count);
      }
      names.groups.push_back(group);
    } while (in_.eat(","));
    in_.expect("=");
  }
  if (in_.at_string()) {
    parse_generic_op(block, names, start);
  } else {
    parse_pretty_op(block, names, start);
  }
}

// Makes the op with its operands; results and attributes come when they have been read.
OpId Parser::begin_op(BlockId block, std::string_view op_name, size_t position,
                      std::vector<ValueId> operands) {
  std::optional<OpKind> kind = op_kind_from_name(op_name);
  bool is_target = false;
  if (!kind) {
    is_target =
        op_name.starts_with("check.") || op_name.starts_with("interpreter.") || op_name.starts_with("sdy.");
    if (!is_target)
      in_.fail_not_modelled(
          position, fmt::format("op {} is not taken", op_name),
          "graphs hold the ops of the dialects stablehlo and chlo, func.call and func.return");
    kind = op_name == "sdy.return" ? OpKind::return_ : OpKind::custom_call_;
  }
  const OpId id = function().append(block, *kind, std::move(operands), {});
  if (*kind == OpKind::custom_call_ && is_target)
    op(id).set(Attr::call_target_name, Attribute(std::string(op_name)));
  return id;
}

void Parser::add_results(OpId id, std::vector<Type> types) {
  for (Type& type : types) function().add_result(id, std::move(type));
}

void Parser::name_results(const ResultNames& names, OpId id, size_t position) {
  const Op& made = op(id);
  if (names.groups.empty()) return;
  if (names.total() != made.results.size())
    in_.fail(position, fmt::format("{} names for the {} results of {}", names.total(), made.results.size(),
                                   name(made.kind)));
  size_t at = 0;
  for (const ResultNames::Group& group : names.groups) {
    define(group.name, made.results[at], group.count, group.position);
    at += group.count;
  }
}

void Parser::check_operand_types(const Op& made, std::span<const Type> types, size_t position) {
  if (types.size() != made.operands.size())
    in_.fail(position, fmt::format("{} has {} operands and {} types for them", name(made.kind),
                                   made.operands.size(), types.size()));
  for (size_t i = 0; i < types.size(); ++i) {
    const Type& actual = function().type(made.operands[i]);
    if (!(actual == types[i]))
      in_.fail(position, fmt::format("operand {} of {} is {}, written here as {}", i, name(made.kind),
                                     actual.to_string(), types[i].to_string()));
  }
}

void Parser::finish_op(OpId id, const ResultNames& names, std::vector<Type> results,
                       WrittenAttributes attributes, size_t position) {
  apply_attributes(in_, op(id), std::move(attributes));
  add_results(id, std::move(results));
  op(id).location = parse_optional_location(position);
  name_results(names, id, position);
}

// { ^bb0(%a: type, ...): ops }. `arguments`: those that the op's own form names.
void Parser::parse_region(OpId id, const std::vector<std::pair<std::string_view, Type>>* arguments) {
  const BlockId block = function().add_block(id);
  const size_t outer = scope_.size();
  in_.expect("{");
  if (arguments) {
    for (const auto& [name, type] : *arguments)
      define(name, function().add_argument(block, type), 1, in_.position());
  } else if (in_.eat("^")) {
    (void)in_.suffix("a block's name");
    if (in_.eat("(") && !in_.eat(")")) {
      do {
        const size_t start = (in_.peek(), in_.position());
        const std::string_view name = parse_value_name();
        in_.expect(":");
        define(name, function().add_argument(block, parse_type()), 1, start);
        if (in_.eat_word("loc")) (void)parse_location();
      } while (in_.eat(","));
      in_.expect(")");
    }
    in_.expect(":");
  }
  parse_block_ops(block);
  in_.expect("}");
  while (scope_.size() > outer) {
    values_.erase(scope_.back());
    scope_.pop_back();
  }
}

void Parser::parse_regions_in_parentheses(OpId id) {
  in_.expect("(");
  if (in_.eat(")")) return;
  do parse_region(id);
  while (in_.eat(","));
  in_.expect(")");
}

// "name"(%a, %b) <{properties}> ({regions}) {attributes} : (types) -> types
void Parser::parse_generic_op(BlockId block, const ResultNames& names, size_t position) {
  const std::string op_name = in_.string();
  in_.expect("(");
  std::vector<ValueId> operands = parse_values();
  in_.expect(")");
  const OpId id = begin_op(block, op_name, position, std::move(operands));
  if (in_.peek() == '[')
    in_.fail_not_modelled(in_.position(),
                          fmt::format("{} branches to other blocks; that is not taken", op_name));
  WrittenAttributes attributes;
  if (in_.eat("<")) {
    parse_written_attributes(attributes);
    in_.expect(">");
  }
  if (in_.peek() == '(') parse_regions_in_parentheses(id);
  parse_optional_attributes(attributes);
  in_.expect(":");
  const size_t types_position = (in_.peek(), in_.position());
  FunctionType type = parse_function_type();
  check_operand_types(op(id), type.inputs, types_position);
  finish_op(id, names, std::move(type.results), std::move(attributes), position);
}

}  // namespace opentrn::graph::text
