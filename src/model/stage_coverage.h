// Which ops a model has whose shapes depend on data, and which of them have a device kernel: of all its
// stages, as far as they are known without running it.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "compiler/compile.h"
#include "model/stage.h"

namespace opentrn::model {

struct StagedCoverage {
  std::vector<compiler::OpCoverage> rows;  // in the order in which ops come up first
  std::vector<std::string> notes;          // what was assumed, or not looked at, and why
};

// Of a count its bound is assumed, unless `dimensions` says otherwise by its name. Behind a value that is no
// count the model is looked at for what `inputs` (by their number) make of it, if no other input has a part
// in it; else not at all.
StagedCoverage coverage_of_stages(const std::shared_ptr<Stage>& first,
                                  const std::map<std::string, int64_t>& dimensions,
                                  const std::map<size_t, graph::Literal>& inputs);

}  // namespace opentrn::model
