// What the collectives of a run of a program of several devices did to the fabric. All devices do the same:
// one is shown, and links carry what all send.
#pragma once

#include <optional>
#include <string>

#include "runtime/settings.h"
#include "spmd/run/parallel.h"
#include "traffic/traffic.h"

namespace opentrn::spmd {

// nullopt where no collective has a known time. Of a loop that the host leads the first iteration.
// `name`: the title.
std::optional<traffic::Traffic> traffic_of(const ParallelProgram& program, const std::string& name,
                                           const runtime::Settings& settings);

}  // namespace opentrn::spmd
