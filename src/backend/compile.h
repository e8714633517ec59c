// The backend: isa::Program to isa::Executable.
//
//   auto executable = backend::compile(program, {.generation = Generation::kV3});
//
// Engines are chosen, tensors placed, dependencies found over the placed memory, an issue order picked,
// and semaphore waits reduced to those needed. The program itself is not changed.
#pragma once

#include <memory>

#include "backend/options.h"
#include "isa/executable.h"

namespace opentrn::backend {

// kCapacity when it does not fit, kProgram when it asks for what the generation does not have.
isa::Executable compile(std::shared_ptr<const isa::Program> program, const Options& options = {});

// How long the program takes, by the rough run that orders its instructions: to compare ways to write it.
double estimated_ns(const std::shared_ptr<const isa::Program>& program, const Options& options = {});

}  // namespace opentrn::backend
