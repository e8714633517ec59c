// What a run of a model left unwritten of its results: a kernel or a custom operator in it may, the
// compiler's own instructions never do.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/fault.h"
#include "runtime/model.h"

namespace opentrn::runtime {

struct UnwrittenOutput {
  size_t number = 0;         // of the port
  int64_t count = 0;         // elements that nothing wrote, as the device holds them
  int64_t first = 0;         // row-major
  std::string moved;         // who left it so, in words; or empty
  SourceLocation made = {};  // of what computes it; may be unknown
};

// `outputs` as the core leaves them. Fault{kInternal} where a kernel of the compiler's leaves something out.
std::vector<UnwrittenOutput> unwritten_outputs(const Model& model,
                                               std::span<const std::shared_ptr<sim::Buffer>> outputs);

// One line or two, for whoever has no warnings of a language.
std::string text_of(const Model& model, const UnwrittenOutput& output);

}  // namespace opentrn::runtime
