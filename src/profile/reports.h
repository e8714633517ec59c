// The forms in which a profile leaves the program.
#pragma once

#include <ostream>
#include <string>

#include <nlohmann/json.hpp>

#include "profile/model.h"
#include "profile/profile.h"

namespace opentrn::profile {

struct TextOptions {
  int lines_max = 12;  // of each table
  int depth = 0;       // of the tree of layers; 0: as deep as some 30 rows allow
};

// Aligned tables for a terminal, at most 120 columns.
std::string text(const Profile& profile, const TextOptions& options = {});

// The sections of a compiled model, at most 79 columns; they follow text(profile).
std::string text(const ModelProfile& model, const TextOptions& options = {});

// Version of the layout below; a key that is renamed, removed or changes its meaning raises it.
inline constexpr int kJsonSchemaVersion = 2;
// Stable keys; times in nanoseconds unless the key is one of Neuron Explorer's, which counts seconds
// ("summary"). Percentages are 0..100. What is not known is null. docs/profiling.md lists the keys.
nlohmann::ordered_json json(const Profile& profile);
// The value of the key "model" in it; docs/models_reference.md lists the keys.
nlohmann::ordered_json json(const ModelProfile& model);

// Chrome trace events, which ui.perfetto.dev opens: a process per core, a thread per engine and DMA queue.
void write_perfetto(const trace::Trace& trace, std::ostream& out);

}  // namespace opentrn::profile
