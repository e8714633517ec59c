// What the page of a profile is drawn from, beside the profile's own JSON: tracks, skipped iterations, names
// by number, and the events as columns that a browser reads straight into typed arrays.
#pragma once

#include <cstddef>
#include <string>

#include <nlohmann/json.hpp>

#include "trace/trace.h"

namespace opentrn::profile {

// Little-endian values, column after column, 64-bit ones first so that each begins at a multiple of its size;
// events.js reads them in this order. Of events, by track and then by start: start_ns (f64), duration_ns,
// stall_ns, bytes (f32), instruction, waited_for, source (u32), track (u16), opcode, stall (u8). Of the
// critical path, earliest first: start_ns, end_ns (f64), instruction (u32), resource (u8).
struct PageColumns {
  size_t event_count = 0, critical_count = 0;
  std::string events, critical;
  // [file, line, function]: what the events' column "source" counts.
  nlohmann::ordered_json sources = nlohmann::ordered_json::array();
};
PageColumns page_columns(const trace::Trace& trace);

// {"kind", "name", "engine", "core"} of each track.
nlohmann::ordered_json tracks_json(const trace::Trace& trace);
// Where iterations of loops were not stepped.
nlohmann::ordered_json skipped_json(const trace::Trace& trace);

// Everything but the profile, the columns' bytes and the texts of source files.
nlohmann::ordered_json page_json(const trace::Trace& trace, const PageColumns& columns);

}  // namespace opentrn::profile
