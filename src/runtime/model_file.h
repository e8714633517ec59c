// The .neuron container: a compiled model in one file.
//
//   offset  bytes  what
//        0      4  "OTNM"
//        4      4  version, 1
//        8      8  bytes of the header
//       16      8  FNV-1a of the header
//       24         the header: JSON with the name, the generation, inputs, outputs, and where in the file the
//       program
//                  (isa/file.h) and each constant lie
//    ...           program; constants, each at a multiple of 64
//
// Constants are mapped, not read: a model of many gigabytes opens at once. A malformed file is
// Fault{kInput, "model_file"}: offsets, sizes and tensors are checked against the file and the program.
#pragma once

#include <string>

#include "runtime/model.h"

namespace opentrn::runtime {

void save(const Model& model, const std::string& path);
Model load_model(const std::string& path);
// True when the file begins as a container does.
bool is_model_file(const std::string& path);

}  // namespace opentrn::runtime
