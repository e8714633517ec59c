#include "graph/module.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/interrupt.h"
#include "base/utf8.h"

namespace opentrn::graph {

namespace {

auto place_of(const Op& op, Attr attr) {
  return std::lower_bound(op.attributes.begin(), op.attributes.end(), attr,
                          [](const auto& entry, Attr wanted) { return entry.first < wanted; });
}

template <typename T>
const T& wanted(const Op& op, Attr attr) {
  const Attribute* found = op.find(attr);
  const T* value = found ? found->get<T>() : nullptr;
  OPENTRN_CHECK(value != nullptr, "{} has no attribute {} of the kind asked for", name(op.kind), name(attr));
  return *value;
}

}  // namespace

const Attribute* Op::find(Attr attr) const {
  const auto place = place_of(*this, attr);
  return place != attributes.end() && place->first == attr ? &place->second : nullptr;
}

void Op::set(Attr attr, Attribute value) {
  const auto place = attributes.begin() + (place_of(*this, attr) - attributes.cbegin());
  if (place != attributes.end() && place->first == attr)
    place->second = std::move(value);
  else
    attributes.emplace(place, attr, std::move(value));
}

void Op::remove(Attr attr) {
  const auto place = place_of(*this, attr);
  if (place != attributes.end() && place->first == attr) attributes.erase(place);
}

int64_t Op::integer(Attr attr) const { return wanted<int64_t>(*this, attr); }
bool Op::boolean(Attr attr) const { return wanted<bool>(*this, attr); }
double Op::real(Attr attr) const { return wanted<double>(*this, attr); }
const std::string& Op::string(Attr attr) const { return wanted<std::string>(*this, attr); }
std::span<const int64_t> Op::integers(Attr attr) const { return wanted<std::vector<int64_t>>(*this, attr); }
const IntMatrix& Op::matrix(Attr attr) const { return wanted<IntMatrix>(*this, attr); }
const Literal& Op::literal(Attr attr) const { return wanted<Literal>(*this, attr); }
int64_t Op::integer_or(Attr attr, int64_t absent) const { return has(attr) ? integer(attr) : absent; }
bool Op::boolean_or(Attr attr, bool absent) const { return has(attr) ? boolean(attr) : absent; }

std::vector<int64_t> Op::integers_or(Attr attr, size_t count, int64_t absent) const {
  if (!has(attr)) return std::vector<int64_t>(count, absent);
  const auto values = integers(attr);
  return {values.begin(), values.end()};
}

Function::Function(std::string function_name) : name(std::move(function_name)) { blocks_.emplace_back(); }

std::vector<Type> Function::argument_types() const {
  std::vector<Type> types;
  for (const ValueId id : arguments()) types.push_back(type(id));
  return types;
}

std::span<const ValueId> Function::returned() const {
  const auto& ops = block(body()).ops;
  if (ops.empty() || op(ops.back()).kind != OpKind::return_) return {};
  return op(ops.back()).operands;
}

BlockId Function::add_block(OpId parent) {
  const BlockId id{static_cast<uint32_t>(blocks_.size())};
  blocks_.emplace_back();
  blocks_.back().parent = parent;
  if (parent != kNoOp) op(parent).regions.push_back(id);
  return id;
}

ValueId Function::add_argument(BlockId block_id, Type type) {
  const ValueId id{static_cast<uint32_t>(values_.size())};
  Block& target = block(block_id);
  values_.push_back({std::move(type), kNoOp, block_id, static_cast<uint32_t>(target.arguments.size())});
  target.arguments.push_back(id);
  if (block_id == body()) argument_attributes.emplace_back();
  return id;
}

OpId Function::append(BlockId block_id, OpKind kind, std::vector<ValueId> operands, std::vector<Type> types,
                      LocationId location) {
  return insert(block_id, block(block_id).ops.size(), kind, std::move(operands), std::move(types), location);
}

OpId Function::insert(BlockId block_id, size_t position, OpKind kind, std::vector<ValueId> operands,
                      std::vector<Type> types, LocationId location) {
  interrupt::poll();
  const OpId id{static_cast<uint32_t>(ops_.size())};
  Op& made = ops_.emplace_back();
  made.kind = kind;
  made.operands = std::move(operands);
  made.block = block_id;
  made.location = location;
  for (Type& type : types) {
    made.results.push_back(ValueId{static_cast<uint32_t>(values_.size())});
    values_.push_back({std::move(type), id, kNoBlock, static_cast<uint32_t>(made.results.size() - 1)});
  }
  auto& list = block(block_id).ops;
  list.insert(list.begin() + static_cast<std::ptrdiff_t>(position), id);
  return id;
}

ValueId Function::add_result(OpId op_id, Type type) {
  const ValueId id{static_cast<uint32_t>(values_.size())};
  std::vector<ValueId>& results = op(op_id).results;
  values_.push_back({std::move(type), op_id, kNoBlock, static_cast<uint32_t>(results.size())});
  results.push_back(id);
  return id;
}

void Function::replace_uses(ValueId from, ValueId to) {
  for (Op& each : ops_) std::replace(each.operands.begin(), each.operands.end(), from, to);
}

Function& Module::add_function(std::string function_name) {
  return functions.emplace_back(std::move(function_name));
}

const Function* Module::find(std::string_view wanted_name) const {
  for (const Function& function : functions)
    if (function.name == wanted_name) return &function;
  return nullptr;
}

Function* Module::find(std::string_view wanted_name) {
  return const_cast<Function*>(std::as_const(*this).find(wanted_name));
}

const Function& Module::entry() const {
  if (const Function* main = find("main")) return *main;
  const Function* only = nullptr;
  for (const Function& function : functions) {
    if (!function.is_public) continue;
    if (only)
      throw Fault(
          FaultKind::kInput, "graph.entry",
          fmt::format("no function is called main, and {} and {} are both public", only->name, function.name),
          "call the entry main");
    only = &function;
  }
  if (!only) throw Fault(FaultKind::kInput, "graph.entry", "the module has no public function");
  return *only;
}

Function& Module::entry() { return const_cast<Function&>(std::as_const(*this).entry()); }

Module Module::without_functions() const {
  Module module;
  module.name = name;
  module.attributes = attributes;
  module.locations_ = locations_;
  return module;
}

LocationId Module::intern(Location location) {
  // Ops of one source line follow each other.
  if (locations_.back() == location) return LocationId{static_cast<uint32_t>(locations_.size() - 1)};
  locations_.push_back(std::move(location));
  return LocationId{static_cast<uint32_t>(locations_.size() - 1)};
}

SourceLocation Module::source(LocationId id) const {
  if (index_of(id) >= locations_.size()) return {};  // of another module: a pass builds with one of its own
  const Location& at = location(id);
  return {printable(at.file), at.line, printable(at.name)};  // as the file that was read has them: any bytes
}

}  // namespace opentrn::graph
