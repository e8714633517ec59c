// Copying ops of one function into another. Both belong to modules with the same table of locations
// (Module::without_functions), so that a copy keeps its place in the user's program.
#pragma once

#include <unordered_map>
#include <vector>

#include "graph/module.h"

namespace opentrn::graph {

// The op without its regions: kind, attributes, place and types of results. `operands` are values of `to`.
OpId copy_op(const Function& from, const Op& op, std::vector<ValueId> operands, Function& to, BlockId into);

// Copies ops with their regions and remembers where each value of `from` is in `to`.
class Copier {
 public:
  Copier(const Function& from, Function& to) : from_(from), to_(to) {}
  virtual ~Copier() = default;
  Copier(const Copier&) = delete;
  Copier& operator=(const Copier&) = delete;

  bool has(ValueId value) const { return copies_.contains(value); }
  // What stands for `value`; an internal fault when it has no copy and missing() makes none.
  ValueId at(ValueId value);
  void set(ValueId value, ValueId copy) { copies_[value] = copy; }
  // An argument of `into` for `value`.
  ValueId argument(ValueId value, BlockId into);
  OpId copy(const Op& op, BlockId into);

 protected:
  // Makes a copy of a value that is read and has none; its result is remembered.
  virtual ValueId missing(ValueId value);
  const Function& from() const { return from_; }
  Function& to() { return to_; }

 private:
  const Function& from_;
  Function& to_;
  std::unordered_map<ValueId, ValueId> copies_;
};

}  // namespace opentrn::graph
