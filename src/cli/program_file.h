// A program of the user's in any format: those that C++ reads (import/load.h), and exported programs of
// PyTorch and JAX, which their own Python reads.
#pragma once

#include <functional>
#include <string>

#include "graph/module.h"

namespace opentrn::cli {

// By its name: .mlir, .mlirbc, .stablehlo, .hlo, .pb, .onnx, .pt2, .jax, .jaxexport.
bool is_program_file(const std::string& name);

// Input faults of the reader, with the file's name.
graph::Module read_program(const std::string& path);

// StableHLO, text or bytecode, of a file that only Python reads. Set once, by whoever has Python
// (src/python); without it such files are refused.
using PythonReader = std::function<std::string(const std::string& path)>;
void set_python_reader(PythonReader reader);

}  // namespace opentrn::cli
