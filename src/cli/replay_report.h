// What `opentrn replay` prints.
#pragma once

#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "serving/replay.h"

namespace opentrn::cli {

// What a report says beside the results.
struct ReplayFacts {
  std::string trace;            // name and format
  std::string times;            // StepTimes::description()
  std::string machine;          // the instance; empty: none was named
  std::optional<double> usd_h;  // of all instances together; nothing: unknown
  serving::ReplayConfig config;
};

// USD for a million tokens given, of all instances for as long as the run took.
std::optional<double> usd_per_million(const ReplayFacts& facts, const serving::Replay& run);

std::string replay_text(const ReplayFacts& facts, const serving::Replay& run);
// Without the requests and bins where `whole` is false.
nlohmann::ordered_json replay_json(const ReplayFacts& facts, const serving::Replay& run, bool whole);
// One HTML file that needs nothing beside it.
std::string replay_page(const ReplayFacts& facts, const serving::Replay& run);

}  // namespace opentrn::cli
