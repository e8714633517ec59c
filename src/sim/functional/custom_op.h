// Custom operators: bodies of isa::Opcode::kCustomOp that users supply, in C++ or in a shared library.
//
// The registry belongs to the process; Programs name operators (isa/custom_ops.h). All functions are
// thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "numerics/dtype.h"

namespace opentrn::sim {

// Dense, row-major, partition first. A constant operand is a float32 of rank 0.
struct CustomOpTensor {
  std::byte* data;
  DType dtype;
  std::vector<int64_t> shape;

  int64_t element_count() const;
};

// Outputs hold nothing defined before: what an operator does not write counts as unwritten. Throw
// Fault{kProgram} to refuse the operands.
using CustomOp =
    std::function<void(std::span<CustomOpTensor> outputs, std::span<const CustomOpTensor> inputs)>;

// Registers or replaces the operator of that name.
void register_custom_op(std::string name, CustomOp op);
std::optional<CustomOp> find_custom_op(std::string_view name);
// Who makes the operators whose names begin with isa::kHostOpPrefix, from what follows it. Set once.
void set_host_ops(std::function<CustomOp(std::string_view ops)> make);
// Registers every operator that a shared library exports (custom_op_abi.h); returns their names. The library
// stays loaded. Errors: Fault{kInput} "custom_op.library".
std::vector<std::string> load_custom_op_library(const std::string& path);
// Loads the libraries that $OPENTRN_CUSTOM_OPS names, separated by colons, once in a process.
void load_custom_ops_of_environment();

}  // namespace opentrn::sim
