// Where a NaN in the results of a launch came from.
//
// Looking at every instruction's results would cost as much as executing them, so a launch runs without, and
// only when its results hold a NaN that its inputs did not are the recorded programs executed once more, this
// time looking after every instruction.
#pragma once

#include <memory>
#include <optional>
#include <span>

#include "base/fault.h"
#include "nki/machine.h"

namespace opentrn::nki {

// The first instruction whose result held a NaN when its operands held none ("sim.nan_origin", with its
// source line), for the machines of one launch that has ended. Nothing when the results hold no NaN, when one
// came in, or when the program overwrites its own inputs in a way that a second run would not see them as
// they were.
std::optional<Fault> find_nan_origin(std::span<const std::shared_ptr<Machine>> machines);

}  // namespace opentrn::nki
