// graph::Module: a typed SSA graph with StableHLO's ops. Every importer ends here; every graph pass
// and the lowering to NeuronCore programs start here.
//
// A module has functions; a function owns its values, ops and blocks in dense tables and names them
// by index, so that passes use plain vectors beside them. A region of an op is one block (StableHLO
// has no others); its ops may use values of the blocks around it. The last op of a block is return_.
// Erasing leaves holes: passes drop ops from their block's list, compact() renumbers.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/fault.h"
#include "graph/attribute.h"
#include "graph/op_kind.h"
#include "graph/type.h"

namespace opentrn::graph {

enum class ValueId : uint32_t {};
enum class OpId : uint32_t {};
enum class BlockId : uint32_t {};
enum class LocationId : uint32_t {};
inline constexpr OpId kNoOp{UINT32_MAX};
inline constexpr BlockId kNoBlock{UINT32_MAX};
inline constexpr LocationId kNoLocation{0};

template <typename Id>
constexpr size_t index_of(Id id) {
  return static_cast<size_t>(id);
}

struct Value {
  Type type;
  OpId op = kNoOp;           // the op that makes it, or
  BlockId block = kNoBlock;  // the block that has it as argument
  uint32_t index = 0;        // which result or argument
};

struct Op {
  OpKind kind = OpKind::return_;
  std::vector<ValueId> operands;
  std::vector<ValueId> results;
  std::vector<BlockId> regions;
  std::vector<std::pair<Attr, Attribute>> attributes;  // ordered by Attr
  std::shared_ptr<const Dictionary> extra;             // what else the program carried; may be null
  BlockId block = kNoBlock;
  LocationId location = kNoLocation;

  const Attribute* find(Attr attr) const;
  void set(Attr attr, Attribute value);
  void remove(Attr attr);
  bool has(Attr attr) const { return find(attr) != nullptr; }

  // An internal fault when the attribute is absent or of another kind: the verifier has looked.
  int64_t integer(Attr attr) const;
  bool boolean(Attr attr) const;
  double real(Attr attr) const;
  const std::string& string(Attr attr) const;
  std::span<const int64_t> integers(Attr attr) const;
  const IntMatrix& matrix(Attr attr) const;
  const Literal& literal(Attr attr) const;
  // The default where the attribute is absent.
  int64_t integer_or(Attr attr, int64_t absent) const;
  bool boolean_or(Attr attr, bool absent) const;
  // `count` times `absent` where the attribute is absent.
  std::vector<int64_t> integers_or(Attr attr, size_t count, int64_t absent) const;
  template <typename Enum>
  Enum enumeration(Attr attr, Enum absent) const {
    return static_cast<Enum>(integer_or(attr, static_cast<int64_t>(absent)));
  }
};

struct Block {
  std::vector<ValueId> arguments;
  std::vector<OpId> ops;
  OpId parent = kNoOp;  // the op whose region this is; kNoOp for a function's body
};

class Function {
 public:
  explicit Function(std::string name);

  std::string name;
  bool is_public = true;
  std::vector<Type> result_types;
  std::vector<Dictionary> argument_attributes;  // one per argument
  std::vector<Dictionary> result_attributes;    // one per result
  Dictionary attributes;                        // what else the program says about the function

  BlockId body() const { return BlockId{0}; }
  const Value& value(ValueId id) const { return values_[index_of(id)]; }
  Value& value(ValueId id) { return values_[index_of(id)]; }
  const Op& op(OpId id) const { return ops_[index_of(id)]; }
  Op& op(OpId id) { return ops_[index_of(id)]; }
  const Block& block(BlockId id) const { return blocks_[index_of(id)]; }
  Block& block(BlockId id) { return blocks_[index_of(id)]; }
  size_t value_count() const { return values_.size(); }
  size_t op_count() const { return ops_.size(); }
  size_t block_count() const { return blocks_.size(); }

  const Type& type(ValueId id) const { return value(id).type; }
  std::span<const ValueId> arguments() const { return block(body()).arguments; }
  std::vector<Type> argument_types() const;
  // The values that the body returns.
  std::span<const ValueId> returned() const;

  BlockId add_block(OpId parent);
  ValueId add_argument(BlockId block, Type type);
  // Appends to `block`; the new op's results get `types`.
  OpId append(BlockId block, OpKind kind, std::vector<ValueId> operands, std::vector<Type> types,
              LocationId location = kNoLocation);
  // As append, in front of the op at `position` of the block's list.
  OpId insert(BlockId block, size_t position, OpKind kind, std::vector<ValueId> operands,
              std::vector<Type> types, LocationId location = kNoLocation);
  // One more result of an op that is being built: readers know the types after the regions.
  ValueId add_result(OpId op, Type type);
  // Every use of `from`, in all blocks, becomes `to`.
  void replace_uses(ValueId from, ValueId to);

 private:
  // Deques: what value(), op(), block() and type() refer to stays where it is while passes add to it.
  std::deque<Value> values_;
  std::deque<Op> ops_;
  std::deque<Block> blocks_;
};

// Where an op comes from: the user's file and line, and the name that the framework gave it
// ("jit(f)/jit(main)/dot_general").
struct Location {
  std::string name;
  std::string file;
  int line = 0;
  int column = 0;
  bool operator==(const Location&) const = default;
};

class Module {
 public:
  std::string name;
  Dictionary attributes;
  std::vector<Function> functions;

  Function& add_function(std::string name);
  // Null when there is none.
  const Function* find(std::string_view name) const;
  Function* find(std::string_view name);
  // "main", or the only public function. Input fault when there is neither.
  const Function& entry() const;
  Function& entry();

  // A module with the same name, attributes and locations, for copies of ops.
  Module without_functions() const;

  LocationId intern(Location location);
  const Location& location(LocationId id) const { return locations_[index_of(id)]; }
  SourceLocation source(LocationId id) const;

 private:
  std::vector<Location> locations_{Location{}};
};

// Visits every op of `block` and of the regions inside, an op before its regions.
template <typename Visit>
void walk(const Function& function, BlockId block, Visit&& visit) {
  for (const OpId id : function.block(block).ops) {
    visit(id);
    for (const BlockId region : function.op(id).regions) walk(function, region, visit);
  }
}

}  // namespace opentrn::graph
