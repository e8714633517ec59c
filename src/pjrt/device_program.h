// Graphs compiled for one core, and their values on host literals.
#pragma once

#include <span>
#include <vector>

#include "compiler/options.h"
#include "graph/literal.h"
#include "graph/module.h"
#include "pjrt/parts.h"
#include "runtime/model.h"

namespace opentrn::pjrt {

struct DeviceOptions {
  compiler::Options compiler;
  uint64_t rounding_seed = 0;  // where compiler.stochastic_rounding
  bool check = false;          // settings.h
  Parts* parts = nullptr;      // takes, or gives, what is compiled
};

// Faults of compiler::compile.
Parts::SharedModel compile_for_device(const graph::Module& module, const DeviceOptions& options);
// `results`: the types of what comes out.
std::vector<graph::Literal> run_on_device(const runtime::Model& model, std::span<const graph::Type> results,
                                          std::span<const graph::Literal> arguments);

}  // namespace opentrn::pjrt
