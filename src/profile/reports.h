// The forms in which a profile leaves the program.
#pragma once

#include <ostream>
#include <string>

#include <nlohmann/json.hpp>

#include "profile/profile.h"

namespace opentrn::profile {

struct TextOptions {
  int lines_max = 12;  // of each table
};

// Aligned tables for a terminal, at most 120 columns.
std::string text(const Profile& profile, const TextOptions& options = {});

// Version of the layout below; a key that is renamed, removed or changes its meaning raises it.
inline constexpr int kJsonSchemaVersion = 1;
// Stable keys; times in nanoseconds unless the key is one of Neuron Explorer's, which counts seconds
// ("summary"). Percentages are 0..100. What is not known is null. docs/profiling.md lists the keys.
nlohmann::ordered_json json(const Profile& profile);

// Chrome trace events, which ui.perfetto.dev opens: a process per core, a thread per engine and DMA queue.
void write_perfetto(const trace::Trace& trace, std::ostream& out);

}  // namespace opentrn::profile
