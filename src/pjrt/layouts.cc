#include "pjrt/layouts.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/fault.h"
#include "pjrt/array.h"

namespace opentrn::pjrt {

using graph::Function;
using graph::Literal;
using graph::Op;
using graph::OpId;
using graph::OpKind;
using graph::Type;
using graph::ValueId;

MinorToMajor row_major(int64_t rank) {
  MinorToMajor order;
  for (int64_t d = rank; d-- > 0;) order.push_back(d);
  return order;
}

bool is_row_major(const MinorToMajor& order) {
  for (size_t i = 0; i < order.size(); ++i)
    if (order[i] != static_cast<int64_t>(order.size() - 1 - i)) return false;
  return true;
}

bool is_order(MinorToMajor order, int64_t rank) {
  std::sort(order.rbegin(), order.rend());
  return order == row_major(rank);
}

std::string to_text(const MinorToMajor& order) { return fmt::format("{{{}}}", fmt::join(order, ",")); }

bool Layouts::are_row_major() const {
  return std::all_of(arguments.begin(), arguments.end(), is_row_major) &&
         std::all_of(results.begin(), results.end(), is_row_major);
}

namespace {

using Permutation = std::vector<int64_t>;

constexpr std::string_view kAuto = "auto";

// "default" where nothing is said.
std::string mode_of(const std::vector<graph::Dictionary>& attributes, size_t i) {
  if (i >= attributes.size()) return "default";
  const auto found = attributes[i].find("mhlo.layout_mode");
  if (found == attributes[i].end()) return "default";
  const auto* mode = found->second.get<std::string>();
  return mode ? *mode : "default";
}

// "{0,1}"; what else it may be is in a fault that names `what`.
MinorToMajor parse(std::string_view mode, int64_t rank, const std::string& what) {
  const auto bad = [&](FaultKind kind, const char* why, const char* remedy) {
    return Fault(kind, "pjrt.layout", fmt::format("{} is wanted in the layout {}, {}", what, mode, why),
                 remedy);
  };
  if (mode.find(':') != std::string_view::npos)
    throw bad(FaultKind::kNotModelled, "which is in tiles; arrays on a NeuronCore have none",
              "ask for an order of dimensions alone, or leave the layout open (Layout.AUTO)");
  MinorToMajor order;
  const char* at = mode.data();
  const char* const end = at + mode.size();
  while (at != end && order.size() <= static_cast<size_t>(rank)) {
    if (*at == '{' || *at == ',' || *at == '}') {
      ++at;
      continue;
    }
    int64_t dimension = 0;
    const auto [next, error] = std::from_chars(at, end, dimension);
    if (error != std::errc()) break;
    order.push_back(dimension);
    at = next;
  }
  if (at != end || !is_order(order, rank))
    throw bad(FaultKind::kInput, "which is not an order of its dimensions", "name each dimension once");
  return order;
}

// Where the permutation takes dimension i of the logical array from: its place in memory.
Permutation major_to_minor(const MinorToMajor& order) { return {order.rbegin(), order.rend()}; }

Permutation inverse(const Permutation& permutation) {
  Permutation result(permutation.size());
  for (size_t i = 0; i < permutation.size(); ++i)
    result[static_cast<size_t>(permutation[i])] = static_cast<int64_t>(i);
  return result;
}

// The layout in which `value`, where it is the transpose of another, lies as that one does.
MinorToMajor free_order(const Function& function, ValueId value, const std::vector<MinorToMajor>& arguments) {
  const auto rank = function.type(value).rank();
  Permutation from = major_to_minor(row_major(rank));  // dimension i of the result is dimension from[i] of
  while (function.value(value).op != graph::kNoOp) {   // the value so far
    const Op& op = function.op(function.value(value).op);
    if (op.kind != OpKind::transpose_) break;
    const std::span<const int64_t> step = op.integers(graph::Attr::permutation);
    for (int64_t& dimension : from) dimension = step[static_cast<size_t>(dimension)];
    value = op.operands[0];
  }
  const graph::Value& source = function.value(value);
  const bool is_argument = source.op == graph::kNoOp && source.block == function.body();
  MinorToMajor order = is_argument ? arguments[source.index] : row_major(rank);
  const Permutation to = inverse(from);
  for (int64_t& dimension : order) dimension = to[static_cast<size_t>(dimension)];
  return order;
}

// `value`, an argument in memory, as the ops know it.
void lay_out_argument(Function& function, ValueId argument, const MinorToMajor& order) {
  const Type logical = function.type(argument);
  function.value(argument).type = in_memory(logical, order);
  const OpId made = function.insert(function.body(), 0, OpKind::transpose_, {argument}, {logical});
  function.replace_uses(argument, function.op(made).results[0]);
  function.op(made).operands[0] = argument;
  function.op(made).set(graph::Attr::permutation, inverse(major_to_minor(order)));
}

void lay_out_result(Function& function, size_t i, const MinorToMajor& order) {
  const size_t last = function.block(function.body()).ops.size() - 1;
  const OpId end = function.block(function.body()).ops[last];
  const ValueId logical = function.op(end).operands[i];
  const Type type = in_memory(function.type(logical), order);
  const OpId made = function.insert(function.body(), last, OpKind::transpose_, {logical}, {type});
  function.op(made).set(graph::Attr::permutation, major_to_minor(order));
  function.op(end).operands[i] = function.op(made).results[0];
  function.result_types[i] = type;
}

}  // namespace

Layouts layouts_of(const Function& entry, std::span<const Type> arguments, std::span<const Type> results,
                   std::string_view program) {
  Layouts layouts;
  const auto stated = [&](const std::vector<graph::Dictionary>& attributes, size_t i, const Type& type,
                          const char* kind) {
    const std::string mode = mode_of(attributes, i);
    if (mode == "default" || mode == kAuto) return row_major(type.rank());
    return parse(mode, type.rank(), fmt::format("{} {} of {}", kind, i, program));
  };
  for (size_t i = 0; i < arguments.size(); ++i)
    layouts.arguments.push_back(stated(entry.argument_attributes, i, arguments[i], "argument"));
  for (size_t i = 0; i < results.size(); ++i)
    layouts.results.push_back(mode_of(entry.result_attributes, i) == kAuto
                                  ? free_order(entry, entry.returned()[i], layouts.arguments)
                                  : stated(entry.result_attributes, i, results[i], "result"));
  return layouts;
}

void lay_out(Function& function, const Layouts& layouts) {
  for (size_t i = 0; i < layouts.arguments.size(); ++i)
    if (!is_row_major(layouts.arguments[i]))
      lay_out_argument(function, function.arguments()[i], layouts.arguments[i]);
  for (size_t i = 0; i < layouts.results.size(); ++i)
    if (!is_row_major(layouts.results[i])) lay_out_result(function, i, layouts.results[i]);
}

Type in_memory(const Type& type, const MinorToMajor& order) {
  std::vector<int64_t> dims;
  for (const int64_t dimension : major_to_minor(order)) dims.push_back(type.dim(static_cast<int>(dimension)));
  return Type::tensor(type.element(), dims);
}

Literal in_memory(const Literal& value, const MinorToMajor& order) {
  if (is_row_major(order)) return value;
  std::vector<std::byte> moved(static_cast<size_t>(value.type().byte_count()));
  write_host(value.is_splat() ? value.dense() : value.bytes(), value.type(), order, moved.data());
  return {in_memory(value.type(), order), std::move(moved)};
}

Literal from_memory(const Literal& value, const Type& type, const MinorToMajor& order) {
  if (is_row_major(order)) return value;
  const std::vector<std::byte> dense = value.dense();
  return {type, read_host(dense.data(), type, byte_strides_of(type, order))};
}

std::vector<Literal> in_memory(std::span<const Literal> values, std::span<const MinorToMajor> orders) {
  std::vector<Literal> moved;
  for (size_t i = 0; i < values.size(); ++i) moved.push_back(in_memory(values[i], orders[i]));
  return moved;
}

std::vector<Literal> from_memory(std::span<const Literal> values, std::span<const Type> types,
                                 std::span<const MinorToMajor> orders) {
  std::vector<Literal> moved;
  for (size_t i = 0; i < values.size(); ++i) moved.push_back(from_memory(values[i], types[i], orders[i]));
  return moved;
}

}  // namespace opentrn::pjrt
