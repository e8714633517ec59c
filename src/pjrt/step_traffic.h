// What the collectives of a run of a program of several devices did to the fabric. All devices do the same:
// one is shown, and links carry what all send.
#pragma once

#include <optional>

#include "pjrt/program.h"
#include "traffic/traffic.h"

namespace opentrn::pjrt {

// nullopt where no collective has a known time. Of a loop that the host leads the first iteration.
std::optional<traffic::Traffic> traffic_of(const Program& program);

}  // namespace opentrn::pjrt
