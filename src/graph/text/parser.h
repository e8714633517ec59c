// The parser of StableHLO text, one class over several files:
//   parser.cc             modules, functions, aliases
//   parse_type.cc         types
//   parse_attribute.cc    attributes of any dialect, dictionaries, locations
//   parse_literal.cc      dense<...>
//   parse_op.cc           generic ops, blocks, regions, values
//   parse_pretty.cc       pretty forms: those of the table in assembly_forms.h, and the special ones
//   own_attributes.cc     from attributes as written to an op's own, flat ones
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "graph/module.h"
#include "graph/op_definitions.h"
#include "graph/text/cursor.h"

namespace opentrn::graph::text {

// Attributes as written, in order: name, value, place.
struct WrittenAttribute {
  std::string name;
  Attribute value;
  size_t position = 0;
};
using WrittenAttributes = std::vector<WrittenAttribute>;

struct FunctionType {
  std::vector<Type> inputs;
  std::vector<Type> results;
};

struct ResultNames {
  struct Group {
    std::string_view name;
    uint32_t count = 1;
    size_t position = 0;
  };
  std::vector<Group> groups;
  size_t total() const {
    size_t sum = 0;
    for (const Group& group : groups) sum += group.count;
    return sum;
  }
};

class Parser {
 public:
  Parser(std::string_view text, std::string_view filename) : in_(text, filename) {}
  Module parse();

 private:
  // A limit on nesting, so that no input exhausts the stack.
  class Nested {
   public:
    explicit Nested(Parser& parser) : parser_(parser) {
      if (++parser_.depth_ > kDepthMax) parser_.in_.fail("nested deeper than 200 levels");
    }
    ~Nested() { --parser_.depth_; }
    Nested(const Nested&) = delete;
    Nested& operator=(const Nested&) = delete;

   private:
    static constexpr int kDepthMax = 200;
    Parser& parser_;
  };

  // parser.cc
  void find_aliases();
  void read_resources();
  void read_resource_map();
  void skip_alias_definition();
  void parse_module_ops(bool in_module);
  void parse_module_op();
  void parse_generic_module();
  void parse_function();
  void parse_generic_function();
  void parse_function_signature(std::vector<std::pair<std::string_view, Type>>& arguments,
                                std::vector<Dictionary>& attributes);
  void parse_sdy_mesh();
  Function& open_function(std::string name, size_t position);
  template <typename Parse>
  auto at_alias(size_t position, Parse&& parse);

  // parse_type.cc
  Type parse_type();
  std::vector<Type> parse_types_in_parentheses();
  FunctionType parse_function_type();
  // `type` or `(types)` after an arrow.
  std::vector<Type> parse_result_types();
  ElementType parse_element_type();
  std::shared_ptr<const Quantization> parse_quantization();
  Type parse_tensor_type();
  std::vector<int64_t> parse_bounds();

  // parse_attribute.cc
  Attribute parse_attribute();
  Attribute parse_number_attribute();
  Attribute parse_array_attribute();
  std::string parse_symbol();
  Attribute parse_dialect_attribute();
  Dictionary parse_dictionary();
  // { name = value, ... }, from the brace on; `op` tells how struct attributes are meant.
  void parse_written_attributes(WrittenAttributes& into);
  void parse_optional_attributes(WrittenAttributes& into);
  std::vector<int64_t> parse_integers();  // [1, ?, 2]
  Dictionary parse_struct_fields();       // a = [0], b = 1>
  Dictionary parse_struct_of(std::string_view kind);
  Dictionary parse_convolution_dimensions();  // [b, 0, f]x[0, i, o]->[b, 0, f]
  Attribute parse_struct_attribute(std::string_view kind);
  Attribute opaque_from(size_t start);
  void skip_type_text();
  LocationId parse_location();  // after `loc`
  Location parse_location_body();
  LocationId parse_optional_location(size_t op_position);
  LocationId file_location(size_t position);

  // parse_literal.cc
  Literal parse_dense();     // after `dense`
  Literal parse_resource();  // after `dense_resource`
  Literal literal_from_elements(std::string_view elements, size_t position, Type type);
  Literal literal_from_hex(std::string_view digits, size_t position, Type type);

  // parse_op.cc
  void parse_block_ops(BlockId block);
  void parse_op(BlockId block);
  void parse_generic_op(BlockId block, const ResultNames& names, size_t position);
  void parse_region(OpId op, const std::vector<std::pair<std::string_view, Type>>* arguments = nullptr);
  void parse_regions_in_parentheses(OpId op);
  ValueId parse_value();
  std::vector<ValueId> parse_values();
  std::string_view parse_value_name();
  void define(std::string_view name, ValueId first, uint32_t count, size_t position);
  void name_results(const ResultNames& names, OpId op, size_t position);
  void check_operand_types(const Op& op, std::span<const Type> types, size_t position);
  void add_results(OpId op, std::vector<Type> types);
  OpId begin_op(BlockId block, std::string_view name, size_t position, std::vector<ValueId> operands);
  void finish_op(OpId op, const ResultNames& names, std::vector<Type> results, WrittenAttributes attributes,
                 size_t position);

  // parse_pretty.cc
  void parse_pretty_op(BlockId block, const ResultNames& names, size_t position);
  void parse_form(BlockId block, OpKind kind, std::string_view form, const ResultNames& names,
                  size_t position);
  Attribute parse_form_attribute(const AttrSpec& spec, WrittenAttributes& attributes);
  void parse_constant(BlockId block, std::string_view name, const ResultNames& names, size_t position);
  void parse_while(BlockId block, const ResultNames& names, size_t position);
  void parse_reduce(BlockId block, const ResultNames& names, size_t position);
  void parse_convolution(BlockId block, const ResultNames& names, size_t position);
  void parse_dot(BlockId block, OpKind kind, const ResultNames& names, size_t position);
  void parse_composite(BlockId block, const ResultNames& names, size_t position);
  void parse_top_k(BlockId block, const ResultNames& names, size_t position);
  void parse_scan(BlockId block, const ResultNames& names, size_t position);
  void parse_check_op(BlockId block, std::string_view name, const ResultNames& names, size_t position);
  void parse_manual_computation(BlockId block, const ResultNames& names, size_t position);
  void parse_sharding_constraint(BlockId block, std::string_view name, const ResultNames& names,
                                 size_t position);
  void parse_precision(WrittenAttributes& attributes);
  void parse_window(WrittenAttributes& attributes);
  void parse_slice_ranges(WrittenAttributes& attributes);
  // The types after a pretty form's colon, by the form's last word.
  std::vector<Type> parse_form_types(std::string_view rule, OpId op, size_t position);

  Function& function() { return *function_; }
  Op& op(OpId id) { return function_->op(id); }

  Cursor in_;
  Module module_;
  Function* function_ = nullptr;
  int depth_ = 0;

  struct Named {
    ValueId first;
    uint32_t count;
  };
  std::unordered_map<std::string_view, Named> values_;
  std::vector<std::string_view> scope_;  // names in order of definition, for leaving a region

  std::unordered_map<std::string_view, size_t> attribute_aliases_;
  std::unordered_map<std::string_view, size_t> type_aliases_;
  std::unordered_map<std::string_view, LocationId> location_aliases_;
  std::unordered_map<std::string, std::pair<size_t, std::string_view>> resources_;

  size_t line_position_ = 0;  // for counting lines in one pass
  int line_ = 1;
};

// own_attributes.cc: sorts what was written into the op's own attributes and Op::extra.
void apply_attributes(const Cursor& in, Op& op, WrittenAttributes attributes);
// The name under which struct attributes are written: "dot_dimension_numbers" -> "dot"; empty if none.
std::string_view struct_kind(std::string_view attribute_name);

template <typename Parse>
auto Parser::at_alias(size_t position, Parse&& parse) {
  const Nested nested(*this);
  const size_t back = in_.position();
  in_.move_to(position);
  auto parsed = parse();
  in_.move_to(back);
  return parsed;
}

}  // namespace opentrn::graph::text
