// A traced kernel as one unit: its program, which HBM tensors are its operands and its results, and what it
// brings along. What stands in a model where the user called an NKI kernel.
//
// The text form is one line, `opentrn-kernel-1 NAME ` and base64 of: a version, the fields below, and the
// program's file form (isa/file.h). It travels as the backend_config of a custom call (decision 0021). A
// malformed one is Fault{kInput} "kernel.*" or "file.*".
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/generation.h"
#include "isa/program.h"

namespace opentrn::isa {

struct Kernel {
  // A whole HBM tensor of the program, row-major, seen with this shape.
  struct Port {
    TensorId tensor = 0;
    std::string name;
    std::vector<int64_t> shape;
  };
  // An array that the kernel took from its host and that is no operand.
  struct Constant {
    TensorId tensor = 0;
    std::vector<std::byte> bytes;
  };

  std::string name;
  Generation generation = Generation::kV3;  // of the core it was traced for
  std::vector<int64_t> grid;                // as launched; programs of all its members are in `program`
  Program program;
  // Operands are not written, and results are neither operands nor one another: see separate().
  std::vector<Port> inputs, outputs;
  std::vector<Constant> constants;

  DType dtype(const Port& port) const { return program.tensor(port.tensor).dtype; }
};

// A kernel as it was recorded may write its operands, and return one, or one tensor twice. Afterwards it
// works on copies.
void separate(Kernel& kernel);

std::string to_text(const Kernel& kernel);
Kernel kernel_from_text(std::string_view text);
// Whether the text is one of a kernel, and if so of which. Nothing is decoded.
bool is_kernel_text(std::string_view text);
std::string_view kernel_name(std::string_view text);

// Arithmetic of the program's products; loops whose bounds are not in the program count once.
double matmul_flops(const Program& program);

}  // namespace opentrn::isa
