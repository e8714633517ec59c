// What would make a program faster, read off its predicted timeline: each section is a fact of the timing
// model, what is known to help against it, and a bound: the run cannot become faster than if the time in
// question were gone.
#pragma once

#include <functional>
#include <string>

#include <nlohmann/json.hpp>

namespace opentrn::profile {

// The text of a line of a source file, "" where it is not there.
using SourceLine = std::function<std::string(const std::string& file, int64_t line)>;

// Markdown. `profile`: json.h's of a program.
std::string recommendations(const nlohmann::ordered_json& profile, const SourceLine& source);

}  // namespace opentrn::profile
