// What json() wrote, read again: programs of a process that has ended tell their traffic so.
#pragma once

#include <iosfwd>
#include <span>
#include <string>
#include <vector>

#include "traffic/traffic.h"

namespace opentrn::traffic {

// A list of what json() gives. An input fault for text that is none.
std::vector<Traffic> read_json(const std::string& text);

// As write_perfetto() of one: three processes for each, which have its title where there are several.
void write_perfetto(std::span<const Traffic> all, std::ostream& out);

}  // namespace opentrn::traffic
