// From HLO computations to functions of StableHLO ops.
//
// HLO passes tuples around: operands of loops, results of reductions, the program's own result. Here a tuple
// is only a list of values while converting; none is left in the graph. `call` and `fusion` become calls of a
// function per computation; the computations of reductions, loops and the like become regions.
#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <unordered_map>

#include <fmt/format.h>

#include "base/interrupt.h"
#include "graph/own_attribute.h"
#include "import/hlo.h"
#include "import/hlo/proto.h"

namespace opentrn::import {

namespace hlo {

namespace {

using graph::Attr;
using graph::Attribute;
using graph::BlockId;
using graph::ElementType;
using graph::Function;
using graph::IntMatrix;
using graph::Module;
using graph::OpId;
using graph::OpKind;
using graph::Type;
using graph::ValueId;

constexpr int kDepthMax = 100;
constexpr size_t kFlatMax = 1 << 16;  // values of one tuple

// An array or a tuple.
struct Value {
  ValueId id{};
  std::shared_ptr<const std::vector<Value>> parts;
};

[[noreturn]] void not_taken(std::string_view what) {
  throw Fault(FaultKind::kNotModelled, "hlo.proto", fmt::format("HLO {} is not taken", what));
}

// Opcodes that are an op of the same meaning, all whose attributes follow from operands and result.
std::optional<OpKind> plain_op(std::string_view opcode) {
  static const std::unordered_map<std::string_view, OpKind> kPlain = [] {
    std::unordered_map<std::string_view, OpKind> map;
    for (const char* name : {"abs",
                             "add",
                             "after-all",
                             "and",
                             "atan2",
                             "bitcast-convert",
                             "cbrt",
                             "ceil",
                             "clamp",
                             "complex",
                             "convert",
                             "cosine",
                             "divide",
                             "exponential",
                             "exponential-minus-one",
                             "floor",
                             "imag",
                             "is-finite",
                             "log",
                             "log-plus-one",
                             "logistic",
                             "maximum",
                             "minimum",
                             "multiply",
                             "negate",
                             "not",
                             "or",
                             "partition-id",
                             "popcnt",
                             "power",
                             "real",
                             "remainder",
                             "replica-id",
                             "reshape",
                             "round-nearest-afz",
                             "round-nearest-even",
                             "rsqrt",
                             "select",
                             "shift-left",
                             "shift-right-arithmetic",
                             "shift-right-logical",
                             "sign",
                             "sine",
                             "sqrt",
                             "subtract",
                             "tan",
                             "tanh",
                             "xor",
                             "dynamic-update-slice",
                             "dynamic-reshape"}) {
      std::string op(name);
      std::replace(op.begin(), op.end(), '-', '_');
      map.emplace(name, *graph::op_kind_from_name("stablehlo." + op));
    }
    map.emplace("count-leading-zeros", OpKind::count_leading_zeros_);
    map.emplace("erf", OpKind::chlo_erf_);
    map.emplace("acos", OpKind::chlo_acos_);
    map.emplace("acosh", OpKind::chlo_acosh_);
    map.emplace("asin", OpKind::chlo_asin_);
    map.emplace("asinh", OpKind::chlo_asinh_);
    map.emplace("atanh", OpKind::chlo_atanh_);
    map.emplace("cosh", OpKind::chlo_cosh_);
    map.emplace("sinh", OpKind::chlo_sinh_);
    return map;
  }();
  const auto found = kPlain.find(opcode);
  return found == kPlain.end() ? std::nullopt : std::optional(found->second);
}

class Converter {
 public:
  explicit Converter(const ModuleProto& proto) : proto_(proto) {
    for (const Computation& each : proto.computations) {
      if (!computations_.emplace(each.id, &each).second)
        fail(fmt::format("two computations have the id {}", each.id));
      budget_ += 64 * each.instructions.size();
    }
  }

  Module convert() {
    module_.name = proto_.name;
    const Computation& entry = computation(proto_.entry);
    (void)function_of(entry, "main", true);
    for (const Alias& alias : proto_.aliases) donate(entry, alias);
    take_names(entry);
    return std::move(module_);
  }

 private:
  using Values = std::unordered_map<int64_t, Value>;

  // One computation being written into a block.
  struct Frame {
    BlockId block;
    Values values;
    const std::vector<Value>* arguments = nullptr;
  };

  // As StableHLO programs of frameworks say it: tf.aliasing_output on the argument.
  void donate(const Computation& entry, const Alias& alias) {
    Function& main = module_.functions.front();
    const std::vector<const Instruction*> parameters = parameters_of(entry);
    const bool plain_arguments = parameters.size() == main.arguments().size();
    const int64_t result = alias.output.empty() ? 0 : alias.output[0];
    if (!plain_arguments || !alias.parameter_element.empty() || alias.output.size() > 1)
      not_taken("an alias inside nested tuples");
    if (alias.parameter < 0 || alias.parameter >= static_cast<int64_t>(parameters.size()) || result < 0 ||
        result >= static_cast<int64_t>(main.result_types.size()))
      fail(fmt::format("result {} takes the place of argument {}: there is none", result, alias.parameter));
    main.argument_attributes[static_cast<size_t>(alias.parameter)]["tf.aliasing_output"] = result;
  }

  // Of the ports of the compiled program; names that do not fit the number of ports name nothing.
  void take_names(const Computation& entry) {
    Function& main = module_.functions.front();
    const std::vector<const Instruction*> parameters = parameters_of(entry);
    if (parameters.size() == main.arguments().size())
      for (size_t i = 0; i < parameters.size(); ++i)
        if (!parameters[i]->input_names.empty())
          main.argument_attributes[i]["onnx.name"] = std::string(parameters[i]->input_names);
    for (const Instruction& each : entry.instructions) {
      if (each.id != entry.root || each.output_names.empty()) continue;
      std::vector<std::string> names(1);
      for (const char c : each.output_names) {
        if (c == ',')
          names.emplace_back();
        else
          names.back() += c;
      }
      if (names.size() != main.result_types.size()) continue;
      for (size_t i = 0; i < names.size(); ++i) main.result_attributes[i]["onnx.name"] = names[i];
    }
  }

  const Computation& computation(int64_t id) const {
    const auto found = computations_.find(id);
    if (found == computations_.end()) fail(fmt::format("there is no computation {}", id));
    return *found->second;
  }

  // --- tuples
  Value tuple(std::vector<Value> parts) {
    Value made;
    made.parts = std::make_shared<const std::vector<Value>>(std::move(parts));
    return made;
  }
  void flatten(const Value& value, std::vector<ValueId>& to) const {
    if (!value.parts) {
      if (to.size() >= kFlatMax) fail("a tuple of too many values");
      to.push_back(value.id);
      return;
    }
    for (const Value& part : *value.parts) flatten(part, to);
  }
  std::vector<ValueId> flat(const Value& value) const {
    std::vector<ValueId> ids;
    flatten(value, ids);
    return ids;
  }
  void flatten(const Type& type, std::vector<Type>& to) const {
    if (!type.is_tuple()) {
      if (to.size() >= kFlatMax) fail("a tuple of too many values");
      to.push_back(type);
      return;
    }
    for (const Type& part : type.elements()) flatten(part, to);
  }
  std::vector<Type> flat(const Type& type) const {
    std::vector<Type> types;
    flatten(type, types);
    return types;
  }
  // The tuple of `type` whose values in order are `ids`, from `at` on.
  Value shaped(const Type& type, std::span<const ValueId> ids, size_t& at) {
    if (!type.is_tuple()) return {ids[at++], nullptr};
    std::vector<Value> parts;
    for (const Type& part : type.elements()) parts.push_back(shaped(part, ids, at));
    return tuple(std::move(parts));
  }
  Value shaped(const Type& type, std::span<const ValueId> ids) {
    size_t at = 0;
    return shaped(type, ids, at);
  }

  Function& function() { return module_.functions[current_]; }

  // --- functions and regions
  std::string function_of(const Computation& from, std::string name, bool is_public) {
    if (const auto known = functions_.find(from.id); known != functions_.end()) {
      if (known->second.empty()) fail(fmt::format("computation {} calls itself", from.name));
      return known->second;
    }
    functions_.emplace(from.id, "");
    if (module_.find(name)) name += fmt::format(".{}", from.id);
    const size_t outer = current_;
    current_ = module_.functions.size();
    module_.add_function(name).is_public = is_public;
    std::vector<const Instruction*> parameters = parameters_of(from);
    std::vector<Value> arguments;
    for (const Instruction* parameter : parameters) {
      std::vector<ValueId> ids;
      for (const Type& type : flat(parameter->type))
        ids.push_back(function().add_argument(function().body(), type));
      arguments.push_back(shaped(parameter->type, ids));
    }
    const std::vector<ValueId> results = write(from, function().body(), arguments);
    for (const ValueId id : results) function().result_types.push_back(function().type(id));
    function().result_attributes.resize(results.size());
    current_ = outer;
    functions_[from.id] = name;
    return name;
  }

  static std::vector<const Instruction*> parameters_of(const Computation& from) {
    std::vector<const Instruction*> parameters;
    for (const Instruction& each : from.instructions) {
      if (each.opcode != "parameter") continue;
      const int64_t number = each.parameter_number;
      if (number < 0 || number >= static_cast<int64_t>(from.instructions.size()))
        fail(fmt::format("parameter {} of {}", number, from.name));
      if (static_cast<size_t>(number) >= parameters.size())
        parameters.resize(static_cast<size_t>(number) + 1);
      if (parameters[static_cast<size_t>(number)])
        fail(fmt::format("{} has parameter {} twice", from.name, number));
      parameters[static_cast<size_t>(number)] = &each;
    }
    for (const Instruction* each : parameters)
      if (!each) fail(fmt::format("{} lacks a parameter", from.name));
    return parameters;
  }

  // The instructions of a computation, and the return of its root, at the end of `block`.
  std::vector<ValueId> write(const Computation& from, BlockId block, const std::vector<Value>& arguments) {
    if (++depth_ > kDepthMax) fail("computations call each other deeper than 100 levels");
    if (from.instructions.size() > budget_)
      fail("computations are used so often that the program would not fit");
    budget_ -= from.instructions.size();
    Frame frame{block, {}, &arguments};
    for (const Instruction& each : from.instructions) {
      interrupt::poll();
      try {
        frame.values[each.id] = write(each, frame);
      } catch (Fault& fault) {
        fault.add_note(fmt::format("in {} of computation {}", each.name, from.name));
        throw;
      }
    }
    const auto root = frame.values.find(from.root);
    if (root == frame.values.end()) fail(fmt::format("{} has no root", from.name));
    std::vector<ValueId> results = flat(root->second);
    function().append(block, OpKind::return_, results, {});
    --depth_;
    return results;
  }

  // A region of `op` whose arguments have `types`.
  void region(OpId op, int64_t id, const std::vector<Type>& types) {
    const Computation& from = computation(id);
    const BlockId block = function().add_block(op);
    std::vector<ValueId> ids;
    for (const Type& type : types) ids.push_back(function().add_argument(block, type));
    size_t at = 0;
    std::vector<Value> arguments;
    for (const Instruction* parameter : parameters_of(from)) {
      if (at + flat(parameter->type).size() > ids.size())
        fail(fmt::format("{} takes too many values", from.name));
      arguments.push_back(shaped(parameter->type, ids, at));
    }
    (void)write(from, block, arguments);
  }

  // A region that has no arguments of its own but uses `value` of outside.
  void branch(OpId op, int64_t id, const Value& value) {
    const BlockId block = function().add_block(op);
    (void)write(computation(id), block, {value});
  }

  // --- instructions
  const Value& operand(const Instruction& from, const Frame& frame, size_t i) const {
    if (i >= from.operands.size()) fail(fmt::format("{} has no operand {}", from.opcode, i));
    const auto found = frame.values.find(from.operands[i]);
    if (found == frame.values.end()) fail(fmt::format("operand {} is not defined before", from.operands[i]));
    return found->second;
  }
  ValueId array(const Instruction& from, const Frame& frame, size_t i) const {
    const Value& value = operand(from, frame, i);
    if (value.parts) fail(fmt::format("operand {} of {} is a tuple", i, from.opcode));
    return value.id;
  }
  std::vector<ValueId> arrays(const Instruction& from, const Frame& frame) const {
    std::vector<ValueId> ids;
    for (size_t i = 0; i < from.operands.size(); ++i) ids.push_back(array(from, frame, i));
    return ids;
  }
  static int64_t called(const Instruction& from, size_t i) {
    if (i >= from.called.size())
      fail(fmt::format("{} names {} computations", from.opcode, from.called.size()));
    return from.called[i];
  }
  Type scalar_of(ValueId id) {
    const Type& type = function().type(id);
    if (!type.is_tensor()) fail("an array is expected here");
    return Type::scalar(type.element());
  }

  OpId append(const Instruction& from, const Frame& frame, OpKind kind, std::vector<ValueId> operands,
              std::vector<Type> results) {
    const OpId id = function().append(frame.block, kind, std::move(operands), std::move(results));
    if (!from.op_name.empty() || !from.source_file.empty())
      function().op(id).location =
          module_.intern({std::string(from.op_name), std::string(from.source_file), from.source_line, 0});
    return id;
  }
  // The op's results as the instruction's array or tuple.
  Value result(const Instruction& from, OpId id) { return shaped(from.type, function().op(id).results); }
  graph::Op& op(OpId id) { return function().op(id); }

  Value write(const Instruction& from, const Frame& frame) {
    const std::string_view opcode = from.opcode;
    if (opcode == "parameter") {
      const auto number = static_cast<size_t>(from.parameter_number);
      if (number >= frame.arguments->size())
        fail(fmt::format("parameter {} of {}", number, frame.arguments->size()));
      return (*frame.arguments)[number];
    }
    if (opcode == "tuple") {
      std::vector<Value> parts;
      for (size_t i = 0; i < from.operands.size(); ++i) parts.push_back(operand(from, frame, i));
      return tuple(std::move(parts));
    }
    if (opcode == "get-tuple-element") {
      const Value& of = operand(from, frame, 0);
      if (!of.parts || from.tuple_index < 0 || from.tuple_index >= static_cast<int64_t>(of.parts->size()))
        fail(fmt::format("element {} of a tuple that does not have it", from.tuple_index));
      return (*of.parts)[static_cast<size_t>(from.tuple_index)];
    }
    if (opcode == "copy" || opcode == "domain") return operand(from, frame, 0);
    if (opcode == "bitcast")
      return {op(append(from, frame, OpKind::reshape_, arrays(from, frame), {from.type})).results[0],
              nullptr};
    if (opcode == "optimization-barrier") {
      const std::vector<ValueId> ids = flat(operand(from, frame, 0));
      std::vector<Type> types;
      for (const ValueId id : ids) types.push_back(function().type(id));
      return result(from, append(from, frame, OpKind::optimization_barrier_, ids, types));
    }
    if (opcode == "call" || opcode == "fusion") return call(from, frame);
    if (opcode == "while") return loop(from, frame);
    if (opcode == "conditional") return conditional(from, frame);
    if (const auto kind = plain_op(opcode))
      return result(from, append(from, frame, *kind, arrays(from, frame), flat(from.type)));
    return with_attributes(from, frame);
  }

  Value call(const Instruction& from, const Frame& frame) {
    std::vector<ValueId> operands;
    for (size_t i = 0; i < from.operands.size(); ++i) flatten(operand(from, frame, i), operands);
    const Computation& callee = computation(called(from, 0));
    std::string name = function_of(callee, std::string(callee.name), false);
    const OpId id = append(from, frame, OpKind::call_, std::move(operands), flat(from.type));
    op(id).set(Attr::callee, Attribute(graph::SymbolRef{std::move(name)}));
    return result(from, id);
  }

  // called: the body, then the condition; both take the carried tuple.
  Value loop(const Instruction& from, const Frame& frame) {
    const std::vector<ValueId> operands = flat(operand(from, frame, 0));
    const std::vector<Type> types = flat(from.type);
    if (operands.size() != types.size()) fail("while carries another tuple than it gives");
    const OpId id = append(from, frame, OpKind::while_, operands, types);
    region(id, called(from, 1), types);
    region(id, called(from, 0), types);
    return result(from, id);
  }

  Value conditional(const Instruction& from, const Frame& frame) {
    const ValueId index = array(from, frame, 0);
    const bool two = graph::is_bool(scalar_of(index).element());
    if (from.operands.size() != from.called.size() + 1 || (two && from.called.size() != 2))
      fail("conditional has another number of branches than of operands for them");
    const OpId id = append(from, frame, two ? OpKind::if_ : OpKind::case_, {index}, flat(from.type));
    for (size_t i = 0; i < from.called.size(); ++i) branch(id, from.called[i], operand(from, frame, i + 1));
    return result(from, id);
  }

  static IntMatrix padding(const Window& window) {
    IntMatrix made;
    made.rows = static_cast<int64_t>(window.size.size());
    made.columns = 2;
    for (size_t i = 0; i < window.size.size(); ++i) {
      made.values.push_back(window.padding_low[i]);
      made.values.push_back(window.padding_high[i]);
    }
    return made;
  }

  static std::vector<int64_t> list(const Instruction& from, int field) {
    const auto found = from.numbers.find(field);
    return found == from.numbers.end() ? std::vector<int64_t>() : found->second;
  }
  static int64_t one(const Instruction& from, int field) {
    const std::vector<int64_t> found = list(from, field);
    return found.empty() ? 0 : found.back();
  }
  static int64_t word(graph::AttrKind kind, std::string_view text) {
    const auto words = graph::enum_words(kind);
    for (size_t i = 0; i < words.size(); ++i)
      if (words[i] == text) return static_cast<int64_t>(i);
    fail(fmt::format("unknown word {}", text));
  }

  static IntMatrix groups(const Instruction& from) {
    IntMatrix made;
    made.rows = static_cast<int64_t>(from.replica_groups.size());
    for (const auto& group : from.replica_groups)
      made.columns = std::max(made.columns, static_cast<int64_t>(group.size()));
    if (made.rows * made.columns > 1 << 24) fail("replica groups of too many processes");
    for (const auto& group : from.replica_groups)
      for (int64_t i = 0; i < made.columns; ++i)
        made.values.push_back(i < static_cast<int64_t>(group.size()) ? group[static_cast<size_t>(i)] : -1);
    return made;
  }
  void communicate(const Instruction& from, graph::Op& made) {
    made.set(Attr::replica_groups, Attribute(groups(from)));
    made.set(Attr::channel_id, Attribute(from.channel_id));
    if (graph::find_spec(graph::definition(made.kind), Attr::use_global_device_ids))
      made.set(Attr::use_global_device_ids, Attribute(from.use_global_device_ids));
  }

  // A region on scalars of the operands' types: `twice` of each, as reductions have them.
  void scalar_region(OpId id, int64_t computation, std::span<const ValueId> of) {
    std::vector<Type> types;
    for (int side = 0; side < 2; ++side)
      for (const ValueId each : of) types.push_back(scalar_of(each));
    region(id, computation, types);
  }

  Value with_attributes(const Instruction& from, const Frame& frame);
  OpId attributed(const Instruction& from, const Frame& frame, std::vector<ValueId> operands);

  const ModuleProto& proto_;
  std::unordered_map<int64_t, const Computation*> computations_;
  std::unordered_map<int64_t, std::string> functions_;  // empty while being written
  Module module_;
  size_t current_ = 0;
  size_t budget_ = 10000;
  int depth_ = 0;
};

Value Converter::with_attributes(const Instruction& from, const Frame& frame) {
  const OpId id = attributed(from, frame, arrays(from, frame));
  graph::drop_defaults(op(id));
  return result(from, id);
}

OpId Converter::attributed(const Instruction& from, const Frame& frame, std::vector<ValueId> operands) {
  const std::string_view opcode = from.opcode;
  const std::vector<ValueId> inputs = operands;
  const auto make = [&](OpKind kind) { return append(from, frame, kind, operands, flat(from.type)); };
  const auto set = [&](OpId id, Attr attr, auto value) { op(id).set(attr, Attribute(std::move(value))); };
  const int64_t dimension = from.dimensions.empty() ? 0 : from.dimensions[0];

  if (opcode == "constant") {
    const OpId id = make(OpKind::constant_);
    graph::Literal value = read_literal(from.literal);
    if (!(value.type() == from.type)) fail("a constant's data has another type than it");
    set(id, Attr::value, std::move(value));
    return id;
  }
  if (opcode == "iota") {
    const OpId id = make(OpKind::iota_);
    set(id, Attr::iota_dimension, dimension);
    return id;
  }
  if (opcode == "broadcast") {
    const OpId id = make(OpKind::broadcast_in_dim_);
    set(id, Attr::broadcast_dimensions, from.dimensions);
    return id;
  }
  if (opcode == "transpose") {
    const OpId id = make(OpKind::transpose_);
    set(id, Attr::permutation, from.dimensions);
    return id;
  }
  if (opcode == "reverse") {
    const OpId id = make(OpKind::reverse_);
    set(id, Attr::dimensions, from.dimensions);
    return id;
  }
  if (opcode == "concatenate" || opcode == "get-dimension-size" || opcode == "set-dimension-size") {
    const OpId id = make(opcode == "concatenate"          ? OpKind::concatenate_
                         : opcode == "get-dimension-size" ? OpKind::get_dimension_size_
                                                          : OpKind::set_dimension_size_);
    set(id, Attr::dimension, dimension);
    return id;
  }
  if (opcode == "slice") {
    const OpId id = make(OpKind::slice_);
    set(id, Attr::start_indices, from.slice_starts);
    set(id, Attr::limit_indices, from.slice_limits);
    set(id, Attr::strides, from.slice_strides);
    return id;
  }
  if (opcode == "dynamic-slice") {
    const OpId id = make(OpKind::dynamic_slice_);
    set(id, Attr::slice_sizes, from.dynamic_slice_sizes);
    return id;
  }
  if (opcode == "pad") {
    const OpId id = make(OpKind::pad_);
    set(id, Attr::edge_padding_low, from.padding_low);
    set(id, Attr::edge_padding_high, from.padding_high);
    set(id, Attr::interior_padding, from.padding_interior);
    return id;
  }
  if (opcode == "compare") {
    const OpId id = make(OpKind::compare_);
    set(id, Attr::comparison_direction, word(graph::AttrKind::kComparisonDirection, from.direction));
    if (!from.comparison_type.empty())
      set(id, Attr::compare_type, word(graph::AttrKind::kComparisonType, from.comparison_type));
    return id;
  }
  if (opcode == "reduce-precision") {
    const OpId id = make(OpKind::reduce_precision_);
    set(id, Attr::exponent_bits, from.exponent_bits);
    set(id, Attr::mantissa_bits, from.mantissa_bits);
    return id;
  }
  if (opcode == "dot") {
    const OpId id = make(OpKind::dot_general_);
    set(id, Attr::lhs_contracting_dimensions, list(from, 1));
    set(id, Attr::rhs_contracting_dimensions, list(from, 2));
    set(id, Attr::lhs_batching_dimensions, list(from, 3));
    set(id, Attr::rhs_batching_dimensions, list(from, 4));
    set(id, Attr::precision_config, from.precision);
    return id;
  }
  if (opcode == "convolution") {
    const OpId id = make(OpKind::convolution_);
    set(id, Attr::window_strides, from.window.stride);
    set(id, Attr::padding, padding(from.window));
    set(id, Attr::lhs_dilation, from.window.base_dilation);
    set(id, Attr::rhs_dilation, from.window.window_dilation);
    set(id, Attr::window_reversal, from.window.reversal);
    set(id, Attr::kernel_input_feature_dimension, one(from, 3));
    set(id, Attr::kernel_output_feature_dimension, one(from, 4));
    set(id, Attr::kernel_spatial_dimensions, list(from, 6));
    set(id, Attr::input_batch_dimension, one(from, 7));
    set(id, Attr::input_feature_dimension, one(from, 8));
    set(id, Attr::output_batch_dimension, one(from, 9));
    set(id, Attr::output_feature_dimension, one(from, 10));
    set(id, Attr::input_spatial_dimensions, list(from, 11));
    set(id, Attr::output_spatial_dimensions, list(from, 12));
    set(id, Attr::feature_group_count, from.feature_group_count);
    set(id, Attr::batch_group_count, from.batch_group_count);
    set(id, Attr::precision_config, from.precision);
    return id;
  }
  if (opcode == "gather") {
    const OpId id = make(OpKind::gather_);
    set(id, Attr::offset_dims, list(from, 1));
    set(id, Attr::collapsed_slice_dims, list(from, 2));
    set(id, Attr::start_index_map, list(from, 3));
    set(id, Attr::index_vector_dim, one(from, 4));
    set(id, Attr::operand_batching_dims, list(from, 5));
    set(id, Attr::start_indices_batching_dims, list(from, 6));
    set(id, Attr::slice_sizes, from.gather_slice_sizes);
    set(id, Attr::indices_are_sorted, from.indices_are_sorted);
    return id;
  }
  if (opcode == "scatter") {
    const OpId id = make(OpKind::scatter_);
    set(id, Attr::update_window_dims, list(from, 1));
    set(id, Attr::inserted_window_dims, list(from, 2));
    set(id, Attr::scatter_dims_to_operand_dims, list(from, 3));
    set(id, Attr::index_vector_dim, one(from, 4));
    set(id, Attr::input_batching_dims, list(from, 5));
    set(id, Attr::scatter_indices_batching_dims, list(from, 6));
    set(id, Attr::indices_are_sorted, from.indices_are_sorted);
    set(id, Attr::unique_indices, from.unique_indices);
    scalar_region(id, called(from, 0), std::span(inputs).first(inputs.size() / 2));
    return id;
  }
  if (opcode == "reduce") {
    const OpId id = make(OpKind::reduce_);
    set(id, Attr::dimensions, from.dimensions);
    scalar_region(id, called(from, 0), std::span(inputs).first(inputs.size() / 2));
    return id;
  }
  if (opcode == "reduce-window") {
    const OpId id = make(OpKind::reduce_window_);
    set(id, Attr::window_dimensions, from.window.size);
    set(id, Attr::window_strides, from.window.stride);
    set(id, Attr::base_dilations, from.window.base_dilation);
    set(id, Attr::window_dilations, from.window.window_dilation);
    set(id, Attr::padding, padding(from.window));
    scalar_region(id, called(from, 0), std::span(inputs).first(inputs.size() / 2));
    return id;
  }
  if (opcode == "select-and-scatter") {
    const OpId id = make(OpKind::select_and_scatter_);
    set(id, Attr::window_dimensions, from.window.size);
    set(id, Attr::window_strides, from.window.stride);
    set(id, Attr::padding, padding(from.window));
    if (inputs.empty()) fail("select-and-scatter without operands");
    scalar_region(id, called(from, 0), std::span(inputs).first(1));
    scalar_region(id, called(from, 1), std::span(inputs).first(1));
    return id;
  }
  if (opcode == "sort") {
    const OpId id = make(OpKind::sort_);
    set(id, Attr::dimension, dimension);
    set(id, Attr::is_stable, from.is_stable);
    std::vector<Type> types;  // the comparator sees pairs
    for (const ValueId each : inputs) types.insert(types.end(), 2, scalar_of(each));
    region(id, called(from, 0), types);
    return id;
  }
  if (opcode == "map") {
    const OpId id = make(OpKind::map_);
    set(id, Attr::dimensions, from.dimensions);
    std::vector<Type> types;
    for (const ValueId each : inputs) types.push_back(scalar_of(each));
    region(id, called(from, 0), types);
    return id;
  }
  if (opcode == "fft") {
    const OpId id = make(OpKind::fft_);
    if (from.fft_type < 0 || from.fft_type > 3) fail(fmt::format("fft type {}", from.fft_type));
    set(id, Attr::fft_type, from.fft_type);
    set(id, Attr::fft_length, from.fft_length);
    return id;
  }
  if (opcode == "cholesky") {
    const OpId id = make(OpKind::cholesky_);
    set(id, Attr::lower, from.lower);
    return id;
  }
  if (opcode == "triangular-solve") {
    const OpId id = make(OpKind::triangular_solve_);
    if (from.transpose_a < 0 || from.transpose_a > 3) fail(fmt::format("transpose_a {}", from.transpose_a));
    set(id, Attr::left_side, from.left_side);
    set(id, Attr::lower, from.lower);
    set(id, Attr::unit_diagonal, from.unit_diagonal);
    set(id, Attr::transpose_a, from.transpose_a);
    return id;
  }
  if (opcode == "topk") {
    if (!from.largest) not_taken("topk of the smallest");
    const OpId id = make(OpKind::chlo_top_k_);
    set(id, Attr::k, from.k);
    return id;
  }
  if (opcode == "rng-bit-generator") {
    const OpId id = make(OpKind::rng_bit_generator_);
    if (from.rng_algorithm < 0 || from.rng_algorithm > 2)
      fail(fmt::format("rng algorithm {}", from.rng_algorithm));
    set(id, Attr::rng_algorithm, from.rng_algorithm);
    return id;
  }
  if (opcode == "batch-norm-training" || opcode == "batch-norm-inference" || opcode == "batch-norm-grad") {
    const OpId id = make(opcode == "batch-norm-training"    ? OpKind::batch_norm_training_
                         : opcode == "batch-norm-inference" ? OpKind::batch_norm_inference_
                                                            : OpKind::batch_norm_grad_);
    set(id, Attr::epsilon, from.epsilon);
    set(id, Attr::feature_index, from.feature_index);
    return id;
  }
  if (opcode == "custom-call") {
    const OpId id = make(OpKind::custom_call_);
    if (from.api_version < 0 || from.api_version > 4)
      fail(fmt::format("custom call api version {}", from.api_version));
    set(id, Attr::call_target_name, std::string(from.target));
    set(id, Attr::has_side_effect, from.has_side_effect);
    set(id, Attr::backend_config, std::string(from.backend_config));
    set(id, Attr::api_version, from.api_version);
    return id;
  }
  if (opcode == "all-reduce" || opcode == "reduce-scatter") {
    const OpId id = make(opcode == "all-reduce" ? OpKind::all_reduce_ : OpKind::reduce_scatter_);
    communicate(from, op(id));
    if (opcode == "reduce-scatter") set(id, Attr::scatter_dimension, dimension);
    if (inputs.empty()) fail("a collective without operands");
    scalar_region(id, called(from, 0), std::span(inputs).first(1));
    return id;
  }
  if (opcode == "all-gather") {
    const OpId id = make(OpKind::all_gather_);
    communicate(from, op(id));
    set(id, Attr::all_gather_dim, dimension);
    return id;
  }
  if (opcode == "all-to-all") {
    if (from.dimensions.empty() || from.replica_groups.empty()) not_taken("all-to-all of tuples");
    const OpId id = make(OpKind::all_to_all_);
    communicate(from, op(id));
    set(id, Attr::split_dimension, dimension);
    set(id, Attr::concat_dimension, dimension);
    set(id, Attr::split_count, static_cast<int64_t>(from.replica_groups[0].size()));
    return id;
  }
  if (opcode == "collective-permute") {
    const OpId id = make(OpKind::collective_permute_);
    IntMatrix pairs{static_cast<int64_t>(from.source_target_pairs.size()), 2, {}};
    for (const auto& [source, target] : from.source_target_pairs)
      pairs.values.insert(pairs.values.end(), {source, target});
    set(id, Attr::source_target_pairs, std::move(pairs));
    set(id, Attr::channel_id, from.channel_id);
    return id;
  }
  not_taken(fmt::format("opcode {}", opcode));
}

}  // namespace

}  // namespace hlo

graph::Module read_hlo(std::span<const std::byte> bytes) {
  const hlo::ModuleProto proto = hlo::read_module(bytes);
  return hlo::Converter(proto).convert();
}

}  // namespace opentrn::import
