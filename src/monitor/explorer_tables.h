// Rows of Neuron Explorer's tables from a predicted timeline: the trace in Chrome's JSON that
// `neuron-explorer capture` writes (profile/perfetto.cc).
//
// Names are those of the published schema (tools/neuron-explorer/profile-schema-reference of the SDK's
// documents). Fields that a simulated device does not know are left out of a row, and tables that it does not
// know are not made. Times are in ns.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

namespace opentrn::monitor {

inline constexpr std::string_view kExplorerSchemaVersion = "7.4.0";

// The bytes of a trace's file. Input fault "tools.explorer" where it cannot be read, or is larger than 2 GiB.
std::string read_explorer_file(const std::filesystem::path& path);

// Rows by table: Instruction, DmaPacketAggregated, OpcodeSummary, Summary, Metadata, Warning. `name`: of the
// trace, `version`: of OpenTrn. Input fault "tools.explorer" for what is no trace of OpenTrn's and for a
// damaged one.
nlohmann::ordered_json explorer_tables(std::string_view trace, const std::string& name,
                                       const std::string& version);

// Lines of `name value`: the row of Summary, and the opcodes that take most.
std::string explorer_summary_text(const nlohmann::ordered_json& tables);

}  // namespace opentrn::monitor
