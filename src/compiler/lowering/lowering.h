// Lowering of one function: graph values to HBM tensors, groups of a block's plan to device kernels. Blocks
// of loops and branches are lowered where their op stands, each with a plan of its own.
//
// Every value that a kernel reads from another lies in HBM, row-major unless a kernel says otherwise;
// rearranging ops are views of what they rearrange, and become copies only where no strides express them.
// Kernels are in files of their own, one family each; kKernels in
// lowering.cc is their table.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "compiler/lowering/choices.h"
#include "compiler/lowering/constant.h"
#include "compiler/lowering/emitter.h"
#include "compiler/lowering/plan.h"
#include "compiler/lowering/registers.h"
#include "compiler/lowering/residency.h"
#include "graph/module.h"

namespace opentrn::compiler {

class Matrix;

class Lowering {
 public:
  Lowering(const graph::Module& module, const graph::Function& function,
           std::shared_ptr<isa::Program> program, Generation generation, const Choices& choices);

  // Lowers the whole function. Fault{kNotModelled, "compiler.no_lowering"} names the first op without a
  // kernel, its shape and its place in the model.
  void run();

  const std::vector<isa::TensorId>& inputs() const { return inputs_; }
  const std::vector<isa::TensorId>& outputs() const { return outputs_; }
  std::vector<Constant> take_constants() { return std::move(constants_); }
  isa::Origin take_origin() { return std::move(emitter_.origin()); }

  // Ops of the kernel that run() was at when it threw; none when it was at none.
  std::span<const graph::OpId> failed() const { return failed_; }
  // Some value had no room in SBUF, or lost it.
  bool crowded() const { return residency_.crowded(); }
  // Operands that are computed as they are loaded (Group::prologues).
  int64_t prologues() const { return prologues_; }

  // -- for kernels
  const Choices& choices() const { return choices_; }
  const graph::Module& module() const { return module_; }
  const graph::Function& function() const { return function_; }
  const Plan& plan() const { return scopes_.back()->plan; }
  Emitter& emitter() { return emitter_; }
  // Instructions that follow are the op's: for reports and messages.
  void begin_op(graph::OpId id);
  // Where the value lies, seen with its own dimensions. Reads through rearranging ops; copies where needed.
  View view(graph::ValueId value);
  // Room for a value that a kernel makes; row-major.
  View allocate(graph::ValueId value);
  // Where a row-wise group writes its result: fresh memory, or an input's place (Plan::updated_input).
  View place_of(graph::ValueId result);
  // Whether a place has been given to the value.
  bool is_placed(graph::ValueId value) const { return views_[graph::index_of(value)].has_value(); }
  // What the group loads has the same place: the result is stored there, and not kept.
  bool is_in_place(graph::ValueId result);
  // The place is a tile in SBUF, of what the loop around carries.
  bool is_in_kept_place(graph::ValueId result);
  // An input of the program with these values, which a kernel wants and the model need not have.
  // `may_repeat`: one element may stand for equal ones.
  View constant(const graph::Literal& literal, bool may_repeat = true);
  View counted(int64_t count);  // fp32, 0, 1, 2, ...; kept for the next that asks
  // A tile that kernels make of rows of an input or a constant: made once where several want the same, as the
  // gathers of a decoder's layers do. `key` says which rows, and what is made of them; nobody may write the
  // tile.
  using TileKey = std::pair<isa::TensorId, std::vector<int64_t>>;
  Tile once(const TileKey& key, const std::function<Tile()>& make);
  // The same for tiles of `bytes` of a partition: large ones are made anew, and so are any that would be more
  // than the room that is left for small tiles.
  Tile small_once(const TileKey& key, int64_t bytes, const std::function<Tile()>& make);
  // Whether more than one product reads it.
  bool products_share(graph::ValueId value);
  // The elements as a tile, as Matrix::fetch has it; small inputs that several kernels read are loaded once.
  // Nobody may write the tile.
  Tile fetch(const Matrix& matrix, int64_t row_begin, int64_t row_count, int64_t column_begin,
             int64_t column_count);
  // The result lies where the operand lies, which is not read any more (Plan::may_overwrite). Its kept tile,
  // if there is one, is the result's.
  View take_over(graph::ValueId operand, graph::ValueId result);
  // Keeps a value in SBUF, its last dimension along the partitions, if there is room.
  void keep(const View& whole);
  // Copies a value to a place of the same shape, kept or not.
  void assign(const View& whole, const View& source);
  // A single integer or boolean in a register, or as a number.
  using Scalar = Emitter::RegisterOrNumber;
  Scalar scalar(graph::ValueId value);
  Registers& registers() { return registers_; }
  void set_scalar(graph::ValueId value, Scalar scalar);
  // How far on the box at these places lies: of each the value, the last one that is allowed and the step,
  // one after another. One register for all boxes of the block that lie alike, so that it can be seen that
  // they do.
  struct Offset {
    int64_t fixed = 0;  // elements
    std::optional<isa::RegisterId> moved;
    int64_t bound = 1;  // of the register
  };
  const Offset& offset_of(const std::vector<int64_t>& places, const std::function<Offset()>& find);
  void set_view(graph::ValueId value, const View& view);
  // What the region takes from outside is brought to where it is best read: views are made, and for a loop
  // what SBUF holds is written to HBM too, once.
  void prepare_captured(const graph::Op& op, bool is_loop);
  std::set<isa::TensorId> captured_tensors(const graph::Op& op);
  // Lowers the region and calls `then` with what it returns, while its values still exist. Its arguments have
  // been given views or scalars before; `counter` is Plan's. `begin` is called when the block is planned.
  using Returned = std::span<const graph::ValueId>;
  void lower_block(graph::BlockId block, std::optional<size_t> counter, const std::function<void()>& begin,
                   const std::function<void(Returned)>& then);
  // What `op`, a view, shows of its operand `source`; nullopt when strides cannot say it.
  static std::optional<View> rearranged(const graph::Function& function, const graph::Op& op, uint32_t result,
                                        const View& source);
  // The kernels of the block, by their places in its order, that read what a kernel makes.
  std::vector<size_t> reads_of(graph::ValueId value) const;
  // The group whose kernel has this place.
  int group_at(size_t place) const { return scopes_.back()->order[place]; }
  // How a value that a kernel makes is kept in SBUF.
  Arrangement arrangement_of(graph::ValueId value) const;
  // The same elements with another shape, when strides can say so.
  static std::optional<View> reshaped(const View& view, std::span<const int64_t> dims);
  // As reshaped(), through a copy where strides cannot.
  View reshaped_or_copied(const View& view, std::span<const int64_t> dims);
  // In a tensor of its own, in order.
  View copied(const View& view);

 private:
  bool is_worth_a_copy(const View& view, graph::ValueId value) const;
  // The element type of a value on the device; not modelled where there is none.
  DType dtype(graph::ValueId value) const;
  uint32_t origin_number(graph::OpId id);
  // A block that is being lowered, and what has been remembered of its values.
  struct Scope {
    Plan plan;
    std::vector<int> order;                               // of the plan's groups
    std::vector<std::vector<graph::ValueId>> last_read;   // by place in the order
    std::map<graph::ValueId, std::vector<size_t>> reads;  // places, of values that the block makes
    std::map<graph::ValueId, Arrangement> arrangements;   // of values that are not kept by rows
    std::vector<graph::ValueId> views_set, scalars_set;   // to be forgotten
    std::map<std::vector<int64_t>, Offset> offsets;
  };
  void begin_scope(graph::BlockId block, std::optional<size_t> counter);
  void end_scope();
  void lower_groups();
  // Shared weights (shared_weights.cc): by value, the places of the outermost block at which products read
  // them.
  void find_shared_weights();
  void keep_shared_weights(size_t place);
  void lower_group(int group);
  void lower_kernel(int index, const Group& group);
  void find_readers(Scope& scope) const;
  int64_t room_beside(const Group& group) const;
  void drop_what_nobody_reads(size_t place);
  void return_values();
  View view_of_op(const graph::Op& op, uint32_t result);
  bool lies_in_memory(graph::ValueId value) const;
  bool is_argument_that_stays(isa::TensorId tensor) const;  // no result is written there
  bool fits_kept_place(graph::ValueId result, isa::TensorId tensor) const;
  Scalar scalar_of_op(const graph::Op& op);

  const graph::Module& module_;
  const graph::Function& function_;
  Emitter emitter_;
  Choices choices_;
  Residency residency_;
  Registers registers_{emitter_};
  std::vector<std::unique_ptr<Scope>> scopes_;  // innermost last
  std::vector<std::optional<View>> views_;      // by value
  std::map<graph::ValueId, Scalar> scalars_;
  std::map<int64_t, View> counted_;  // by count
  std::map<TileKey, Tile> tiles_of_inputs_;
  int64_t small_once_bytes_ = 0;                 // of a partition, by small_once()
  std::map<graph::ValueId, int> product_reads_;  // empty until products_share() is asked
  std::map<graph::ValueId, std::vector<size_t>> shared_weights_;
  std::set<graph::ValueId> taken_over_;  // values whose place is another's now
  std::vector<uint32_t> origin_op_;      // by op: its number in the origin
  std::vector<isa::TensorId> inputs_, outputs_;
  std::vector<Constant> constants_;
  std::vector<graph::OpId> failed_;
  int64_t prologues_ = 0;
};

// Where a slice lies in its operand (Plan::is_read_in_place).
View slice_in_place(Lowering& lowering, const graph::Op& op);
// Where an update, which comes later, puts a result of these dimensions (Plan::update_with): the operand's
// place is the update's from here on. nullopt where the operand has to stay in SBUF.
std::optional<View> place_in_update(Lowering& lowering, const graph::Op& op, std::span<const int64_t> dims);
// Where the operand of an update lies, which becomes its result, or a copy of it.
View place_of_update(Lowering& lowering, const graph::Op& op);

// Kernels: true when the op is theirs and has been lowered.
void lower_rowwise(Lowering& lowering, int group);
bool lower_attention(Lowering& lowering, const graph::Op& op);
bool lower_decode_attention(Lowering& lowering, const graph::Op& op);
bool lower_gather(Lowering& lowering, const graph::Op& op);
bool lower_convolution(Lowering& lowering, const graph::Op& op);
bool lower_scan(Lowering& lowering, const graph::Op& op);
bool lower_reduce_window(Lowering& lowering, const graph::Op& op);
bool lower_reduce(Lowering& lowering, const graph::Op& op);
bool lower_scatter_rows(Lowering& lowering, const graph::Op& op);
bool lower_scatter_sums(Lowering& lowering, const graph::Op& op);
bool lower_scatter(Lowering& lowering, const graph::Op& op);
bool lower_data_movement(Lowering& lowering, const graph::Op& op);
bool lower_control_flow(Lowering& lowering, const graph::Op& op);
bool lower_gather_elements(Lowering& lowering, const graph::Op& op);
bool lower_sort(Lowering& lowering, const graph::Op& op);
bool lower_top_k(Lowering& lowering, const graph::Op& op);
bool lower_small_lu(Lowering& lowering, const graph::Op& op);
bool lower_small_factors(Lowering& lowering, const graph::Op& op);
bool lower_small_qr(Lowering& lowering, const graph::Op& op);
bool lower_small_rotations(Lowering& lowering, const graph::Op& op);
bool has_small_rotations(const graph::Function& function, const graph::Op& op);
bool lower_row_rotations(Lowering& lowering, const graph::Op& op);
bool has_row_rotations(const graph::Function& function, const graph::Op& op);
bool lower_recurrence(Lowering& lowering, const graph::Op& op);
bool has_recurrence(const graph::Function& function, const graph::Op& op);
bool lower_dynamic_slices(Lowering& lowering, const graph::Op& op);
bool lower_complex(Lowering& lowering, const graph::Op& op);
bool lower_kernel_call(Lowering& lowering, const graph::Op& op);
bool lower_custom_operator(Lowering& lowering, const graph::Op& op);
bool lower_host_call(Lowering& lowering, const graph::Op& op);
// How many dimensions of the result go over rows, where the op can be the source of a group (tile_source.h).
std::optional<int> dot_general_row_rank(const graph::Function& function, const graph::Op& op);
std::optional<int> packed_product_row_rank(const graph::Function& function, const graph::Op& op);
std::optional<int> convolution_row_rank(const graph::Function& function, const graph::Op& op);
bool has_attention(const graph::Function& function, const graph::Op& op);
bool has_convolution(const graph::Function& function, const graph::Op& op);
bool has_reduce(const graph::Function& function, const graph::Op& op);
bool scatters_rows(const graph::Function& function, const graph::Op& op);
bool has_scatter(const graph::Function& function, const graph::Op& op);
bool has_gather(const graph::Function& function, const graph::Op& op);
bool has_data_movement(const graph::Function& function, const graph::Op& op);
bool has_control_flow(const graph::Function& function, const graph::Op& op);
bool has_gather_elements(const graph::Function& function, const graph::Op& op);
bool has_sort(const graph::Function& function, const graph::Op& op);
bool has_dynamic_slices(const graph::Function& function, const graph::Op& op);
bool has_complex(const graph::Function& function, const graph::Op& op);
bool has_kernel_call(const graph::Function& function, const graph::Op& op);
bool has_custom_operator(const graph::Function& function, const graph::Op& op);
bool has_host_call(const graph::Function& function, const graph::Op& op);

// Bytes of a partition that the kernel of the group needs for tiles of its own; nullopt where nobody has
// counted.
std::optional<int64_t> working_bytes(const graph::Function& function, const Group& group,
                                     const Choices& choices, Generation generation);

// How values are best kept, from what reads them (arrangements.cc).
std::map<graph::ValueId, Arrangement> find_arrangements(const graph::Function& function, const Plan& plan,
                                                        Generation generation);

}  // namespace opentrn::compiler
