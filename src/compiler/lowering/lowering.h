// Lowering of one function: graph values to HBM tensors, groups of the plan to device kernels.
//
// Every value that a kernel reads from another lies in HBM, row-major unless a kernel says otherwise;
// rearranging ops are views of what they rearrange, and become copies only where no strides express them.
// Kernels are in files of their own, one family each; kKernels in
// lowering.cc is their table.
#pragma once

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "compiler/constant.h"
#include "compiler/lowering/emitter.h"
#include "compiler/lowering/plan.h"
#include "compiler/lowering/residency.h"
#include "graph/module.h"

namespace opentrn::compiler {

class Lowering {
 public:
  Lowering(const graph::Module& module, const graph::Function& function,
           std::shared_ptr<isa::Program> program, arch::Generation generation);

  // Lowers the whole function. Fault{kNotModelled, "compiler.no_lowering"} names the first op without a
  // kernel, its shape and its place in the model.
  void run();

  const std::vector<isa::TensorId>& inputs() const { return inputs_; }
  const std::vector<isa::TensorId>& outputs() const { return outputs_; }
  std::vector<Constant> take_constants() { return std::move(constants_); }
  isa::Origin take_origin() { return std::move(emitter_.origin()); }

  // -- for kernels
  const graph::Module& module() const { return module_; }
  const graph::Function& function() const { return function_; }
  const Plan& plan() const { return plan_; }
  Emitter& emitter() { return emitter_; }
  // Instructions that follow are the op's: for reports and messages.
  void begin_op(graph::OpId id);
  // Where the value lies, seen with its own dimensions. Reads through rearranging ops; copies where needed.
  View view(graph::ValueId value);
  // Room for a value that a kernel makes; row-major.
  View allocate(graph::ValueId value);
  // The same elements with another shape, when strides can say so.
  static std::optional<View> reshaped(const View& view, std::span<const int64_t> dims);
  // As reshaped(), through a copy where strides cannot.
  View reshaped_or_copied(const View& view, std::span<const int64_t> dims);

 private:
  void lower_group(int group);
  void find_last_readers();
  void drop_what_nobody_reads(int position);
  void return_values();
  View view_of_op(const graph::Op& op, uint32_t result);
  View constant(const graph::Op& op);

  const graph::Module& module_;
  const graph::Function& function_;
  Emitter emitter_;
  Residency residency_;
  Plan plan_;
  std::vector<std::optional<View>> views_;              // by value
  std::vector<std::vector<graph::ValueId>> last_read_;  // by position in the order of groups
  std::vector<uint32_t> origin_op_;                     // by op: its number in the origin
  std::vector<isa::TensorId> inputs_, outputs_;
  std::vector<Constant> constants_;
};

// Kernels: true when the op is theirs and has been lowered.
void lower_rowwise(Lowering& lowering, int group);
bool lower_dot_general(Lowering& lowering, const graph::Op& op);
bool lower_gather(Lowering& lowering, const graph::Op& op);
bool lower_convolution(Lowering& lowering, const graph::Op& op);
bool lower_reduce_window(Lowering& lowering, const graph::Op& op);
bool lower_reduce(Lowering& lowering, const graph::Op& op);
bool lower_scatter(Lowering& lowering, const graph::Op& op);
bool lower_data_movement(Lowering& lowering, const graph::Op& op);
bool has_dot_general(const graph::Function& function, const graph::Op& op);
bool has_convolution(const graph::Function& function, const graph::Op& op);
bool has_reduce_window(const graph::Function& function, const graph::Op& op);
bool has_reduce(const graph::Function& function, const graph::Op& op);
bool has_scatter(const graph::Function& function, const graph::Op& op);
bool has_gather(const graph::Function& function, const graph::Op& op);
bool has_data_movement(const graph::Function& function, const graph::Op& op);

// True when some kernel takes the op; for coverage reports, without lowering.
bool has_lowering(const graph::Function& function, const graph::Op& op);

}  // namespace opentrn::compiler
