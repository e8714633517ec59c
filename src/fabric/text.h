// A platform for people and for programs.
#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "fabric/platform.h"

namespace opentrn::fabric {

std::string_view name_of(LinkClass kind);  // "NeuronLink", "EFA adapter"

// Servers, chips and cores; links by class and rate; where each rate comes from; who is wired to whom.
std::string show(const Platform& platform);
nlohmann::ordered_json show_json(const Platform& platform);

}  // namespace opentrn::fabric
