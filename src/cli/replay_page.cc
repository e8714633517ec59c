// The page of `opentrn replay --html`: replay_page.html with the report's JSON in it.
#include <algorithm>

#include "cli/embedded_page.h"
#include "cli/replay_report.h"

namespace opentrn::cli {
namespace {

// Requests in the plot of single ones: more cannot be told apart.
constexpr size_t kDotsMax = 3000;

nlohmann::ordered_json dots(const serving::Replay& run) {
  auto out = nlohmann::ordered_json::array();
  const size_t step = run.requests.size() / kDotsMax + 1;
  for (size_t i = 0; i < run.requests.size(); i += step) {
    const serving::Request& request = run.requests[i];
    if (request.first_token < 0) continue;
    out.push_back({serving::seconds(request.arrival), serving::ttft_ms(request), serving::e2e_ms(request)});
  }
  return out;
}

}  // namespace

std::string replay_page(const ReplayFacts& facts, const serving::Replay& run) {
  nlohmann::ordered_json data = replay_json(facts, run, true);
  data["dots"] = dots(run);
  data["text"] = replay_text(facts, run);
  // Names of files are bytes: what is no UTF-8 is replaced. `<` would end the script that holds the data.
  std::string json = data.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  std::string escaped;
  for (const char c : json) c == '<' ? escaped += "\\u003c" : escaped += c;
  std::string page(embedded_replay_page());
  constexpr std::string_view kPlace = "{{data}}";
  return page.replace(page.find(kPlace), kPlace.size(), escaped);
}

}  // namespace opentrn::cli
