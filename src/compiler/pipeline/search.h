// Which of several lowerings of a model is the fastest, by the timing model.
#pragma once

#include <functional>

#include "compiler/compile.h"
#include "compiler/lowering/choices.h"

namespace opentrn::compiler {

struct Lowered {
  CompiledModule module;
  bool crowded = false;  // some value had no room in SBUF, or lost it
};

// The one that ends first: by the timing model, or by the scheduler's estimate of programs that are large or
// have no sourced costs.
CompiledModule faster(CompiledModule one, CompiledModule other, const Options& options);

// The same with work shared out by who ends first (backend/engine_choice.h), where that is faster: of short
// programs without loops.
CompiledModule with_shared_work(CompiledModule module, const Options& options);

// Level::k2 takes what is usual where every value finds room, else the best of several shares of it; and
// prologues of products only where they are no slower than the kernels that they replace.
// Level::k3 also varies layouts and the sizes of panels, and is never slower than Level::k2. Programs too
// large to be timed several times get half of the room where not every value finds some.
CompiledModule fastest(const std::function<Lowered(const Choices&)>& lower, const Options& options);

}  // namespace opentrn::compiler
