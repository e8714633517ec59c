// The plan of a block: which ops become one device kernel, and in what order kernels run. Ops with regions of
// their own (loops, branches) are one kernel here; their blocks are planned when they are lowered. Values of
// the blocks around are memory that is there.
//
// A row-wise group is element-wise ops and reductions over one iteration space: `row_dims` go over
// partitions, `column_dims` along them. A value inside is full (rows x columns) or a column (one number per
// row: what a reduction over the columns gives, and what is computed from such). Softmax, layer and RMS
// norm, GELU, bias and residual are row-wise groups as they stand; nothing has to be recognised by name.
// Ops that only rearrange (broadcast_in_dim, transpose, reshape, slice) are no kernels: a consumer reads
// through them (views.h). Nor are conversions of 16-bit floats to fp32 whose readers are arithmetic: engines
// compute in fp32 whatever they read, so that what is in memory and moves is narrow.
//
// A product or a convolution begins a group of which it makes the full values: rows are its left free
// dimensions or its features, columns the others; what follows reads its sums on their way out of PSUM.
//
// Element-wise groups that only an operand of a product reads are its prologues: they are computed on the
// tiles of the operand as it is loaded (prologue.h), and their values are in no memory.
//
// Groups grow greedily, op by op in program order: an op joins the group of an operand when it fits its
// iteration space, when no operand from outside depends on the group, and when the tiles alive at once fit
// SBUF. Element-wise groups whose values one op reads become one group. What remains is one kernel per op.
//
// Integer arithmetic on single numbers that nothing reads but addresses is no kernel either: the sequencer
// does it in registers (scalars.h).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "base/generation.h"
#include "graph/module.h"

namespace opentrn::compiler {

struct Group {
  std::vector<graph::OpId> ops;  // in program order; none: they are a prologue or ops of another
  // Of the source, by the number of the operand; in program order.
  std::map<size_t, std::vector<graph::OpId>> prologues;
  bool rowwise = false;
  bool has_source = false;  // the first op is a product or a convolution (tile_source.h)
  bool whole_rows = false;  // a reduction needs every column of a row at once
  // Row-wise only. Empty `split` while no reduction has fixed it: rows are then the first `free_rank`
  // dimensions.
  std::vector<int64_t> shape;
  std::optional<int> split;
  int free_rank = 0;
  // For reductions over leading dimensions: the order in which `shape` takes the operand's dimensions.
  std::vector<int64_t> permutation;

  // Those of the prologues first.
  std::vector<graph::OpId> all_ops() const;
  int row_rank() const { return split.value_or(free_rank); }
  int64_t rows() const;
  int64_t columns() const;
};

// How a value is seen by a row-wise group.
enum class Form : uint8_t { kFull, kColumn };

class Plan {
 public:
  // `generation`: whose cost between instructions is weighed against columns. `columns_max`: elements of fp32
  // that a partition can hold of one group's full values alive at once. `in_register`: which value that the
  // block returns is asked for in a register: a loop's counter or condition. `prologue_elements`: of operands
  // that may get a prologue, at least. `donated_inputs`: arguments that name the result which takes their
  // place are the function's to overwrite.
  Plan(const graph::Function& function, graph::BlockId block, Generation generation, int64_t columns_max,
       std::optional<size_t> in_register = std::nullopt, int64_t prologue_elements = 0,
       bool donated_inputs = false);

  graph::BlockId block() const { return block_; }

  const std::vector<Group>& groups() const { return groups_; }
  // Kernels in an order that respects what they read.
  std::vector<int> order() const;
  // The group that makes this value; -1 for arguments, constants and views.
  int group_of(graph::ValueId value) const;
  // How `group` sees a value, where it makes it: through columns' broadcasts and reshapes too. `base` is
  // the value that an op of the group makes.
  struct Seen {
    graph::ValueId base;
    Form form;
  };
  std::optional<Seen> seen_inside(int group, graph::ValueId value) const;
  // Values of the group that others read, or that the function returns.
  std::vector<graph::ValueId> outputs(int group) const;
  // The value behind broadcasts, transposes, reshapes and slices: an argument, a constant or what a group
  // makes.
  graph::ValueId base_of(graph::ValueId value) const;
  // What the op reads of memory: bases of its operands and of what its regions take from outside, those
  // behind arithmetic in registers included.
  std::vector<graph::ValueId> bases_read_by(graph::OpId id) const;
  // A consumer reads through the op: it rearranges, or it widens what engines read as it is.
  bool is_read_through(graph::OpId id) const;
  bool is_widening(graph::OpId id) const { return is_widening_[graph::index_of(id)]; }
  // A dynamic_slice whose readers load it from where it lies, at the place that registers hold.
  bool is_read_in_place(graph::OpId id) const { return is_read_in_place_[graph::index_of(id)]; }
  // The op is done in registers where its value is needed.
  bool in_registers(graph::OpId id) const { return in_registers_[graph::index_of(id)]; }
  // The op may write its result where its operand lies: nobody reads the operand afterwards. Updates and
  // loops ask; other readers are ordered before them.
  bool may_overwrite(graph::OpId id, size_t operand) const;
  // The donated input, or what a loop carries, in whose place a row-wise group may write this result, element
  // after element. `reads`: the group reads it too; another only comes after all that do.
  struct Update {
    graph::ValueId input;
    bool reads;
  };
  std::optional<Update> updated_input(graph::ValueId result) const;
  // The dynamic_update_slice that only puts this result of a row-wise group into its operand: the group may
  // write it there.
  std::optional<graph::OpId> update_with(graph::ValueId result) const;
  // A value of the block has a reader that takes it from memory.
  bool read_from_memory(graph::ValueId value) const { return read_outside_[graph::index_of(value)]; }

 private:
  bool is_loop_body() const;
  bool is_donated(graph::ValueId value) const;
  void find_register_ops(std::optional<size_t> in_register);
  bool widens_as_it_reads(const graph::Op& op, size_t operand) const;
  void find_widening();
  void find_read_in_place();
  bool reads_in_place(const graph::Op& op, size_t operand) const;
  bool is_large(graph::ValueId value) const;
  // The value behind views that are no slices in place.
  graph::ValueId made_or_sliced(graph::ValueId value) const;
  using Readers =
      std::map<graph::ValueId, std::vector<graph::OpId>>;  // an op that reads twice is there twice
  void find_overwritten();
  void find_written(graph::OpId id, const Readers& readers);
  std::optional<graph::ValueId> same_order(graph::ValueId value) const;
  bool makes_full(int group, graph::ValueId value) const;
  bool reads_what_it_writes(int writer, graph::ValueId result, const graph::Op& update) const;
  void find_updated();
  std::optional<Update> update_of(graph::ValueId input, graph::ValueId result) const;
  bool comes_last(graph::ValueId input, graph::ValueId result);
  bool order_before(graph::OpId id, std::span<const graph::OpId> readers);
  void add_base(graph::ValueId value, std::vector<graph::ValueId>& bases) const;
  void add_addresses(graph::ValueId value, std::vector<graph::ValueId>& bases) const;
  void place(graph::OpId id);
  bool try_join(graph::OpId id, int group);
  bool try_merge(int from, int into);
  void start_group(graph::OpId id);
  void add_reads(int group, graph::OpId id);
  void find_prologues();
  std::optional<int> prologue_of(int group, size_t operand,
                                 const std::vector<std::vector<graph::OpId>>& users) const;
  std::vector<int> groups_read_by(graph::OpId id) const;
  bool depends(int from, int on) const;
  bool fits(const Group& group) const;
  void find_outputs(std::optional<size_t> in_register);
  std::optional<Form> result_form(int group, graph::OpId id) const;

  const graph::Function& function_;
  graph::BlockId block_;
  Generation generation_;
  int64_t columns_max_, prologue_elements_;
  bool donated_inputs_;
  std::vector<bool> in_registers_;                    // by op
  std::vector<bool> is_widening_, is_read_in_place_;  // by op
  std::vector<uint32_t> place_of_op_;                 // in the block's list
  bool in_order_of_block_ = true;                     // a group reads only what comes before it in the block
  std::set<std::pair<graph::OpId, size_t>> overwritten_;
  std::map<graph::ValueId, Update> updated_;       // by result
  std::map<graph::ValueId, graph::OpId> written_;  // by result
  std::vector<Group> groups_;
  std::vector<std::vector<int>> reads_, readers_;  // by group
  std::vector<uint32_t> latest_;  // by group: the place of the last op of it and of all that it depends on
  std::vector<int> group_of_op_;
  std::vector<Form> form_of_value_;
  std::vector<bool> read_outside_;  // by value: somebody reads it from memory
};

// How many of the result's dimensions go over rows, when the op is a source (tile_source.h).
std::optional<int> source_row_rank(const graph::Function& function, const graph::Op& op);

}  // namespace opentrn::compiler
