#include "cli/fabric_traffic.h"

#include <algorithm>
#include <sstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "arch/evidence.h"
#include "base/new_file.h"
#include "base/units.h"
#include "cli/embedded_page.h"
#include "collectives/summary.h"

namespace opentrn::cli {

namespace {

constexpr size_t kStepsMax = 4'000'000;  // whose way over the links is followed

void replace(std::string& text, std::string_view place, const std::string& with) {
  for (size_t at = 0; (at = text.find(place, at)) != std::string::npos; at += with.size())
    text.replace(at, place.size(), with);
}

// `<` would end the script that holds the data.
std::string in_script(const std::string& text) {
  std::string out;
  for (const char c : text) c == '<' ? out += "\\u003c" : out += c;
  return out;
}

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) c == '<' ? out += "&lt;" : c == '&' ? out += "&amp;" : out += c;
  return out;
}

void write_text(const std::string& path, const std::string& text) {
  NewFile file(path, "fabric.file", "another path");
  file.put(text.data(), text.size());
  file.finish();
}

traffic::Collective told(const PredictedSize& size, size_t job, int first_rank, double offset_ns,
                         const std::string& datatype) {
  const collectives::Prediction& made = size.predictions.jobs[job];
  const collectives::Request& request = size.jobs[job].request;
  traffic::Collective out;
  out.name = fmt::format("{} of {}", name_of(request.kind), datatype);
  out.algorithm = made.algorithm;
  out.why = made.why;
  out.bytes = request.bytes * (request.kind == collectives::Kind::kAllGather ? request.ranks : 1);
  out.bus_factor = collectives::bus_factor(request.kind, request.ranks);
  for (int rank = 0; rank < request.ranks; ++rank) {
    out.group.push_back(first_rank + rank);
    out.ended_ns.push_back(offset_ns +
                           static_cast<double>(made.time.ends_ps[static_cast<size_t>(rank)]) / kPsPerNs);
  }
  out.triggered_ns.assign(out.group.size(), offset_ns);
  out.arrived_ns = out.triggered_ns;
  return out;
}

}  // namespace

traffic::Traffic traffic_of(const arch::Tables& tables, const fabric::Platform& platform,
                            const std::vector<const PredictedSize*>& sizes, const std::string& datatype) {
  traffic::Traffic out;
  out.machine = platform.name();
  int64_t total_ps = 0;
  size_t steps = 0, ranks = 0, left_out = 0;
  for (const PredictedSize* size : sizes) total_ps += size->predictions.end_ps;
  traffic::LinkMeter meter(platform, total_ps);
  int64_t offset_ps = 0;
  for (const PredictedSize* size : sizes) {
    std::vector<collectives::Run> runs;
    std::vector<collectives::RunTime> times;
    int first_rank = 0;
    for (size_t job = 0; job < size->jobs.size(); ++job) {
      const collectives::Prediction& made = size->predictions.jobs[job];
      out.collectives.push_back(
          told(*size, job, first_rank, static_cast<double>(offset_ps) / kPsPerNs, datatype));
      first_rank += size->jobs[job].request.ranks;
      runs.push_back({&made.plan,
                      collectives::costs_of(tables, platform.generation(), made.algorithm),
                      size->jobs[job].cores,
                      {},
                      0});
      times.push_back(made.time);
      steps += made.plan.step_count();
    }
    ranks = static_cast<size_t>(first_rank);
    if (steps <= kStepsMax)
      meter.add(runs, times, offset_ps);
    else
      ++left_out;
    offset_ps += size->predictions.end_ps;
  }
  if (!out.collectives.empty()) {
    out.title = fmt::format("{}, {} ranks", out.collectives[0].name, ranks);
    if (sizes.size() == 1) out.title += fmt::format(", {} B", out.collectives[0].bytes);
  }
  out.total_ns = out.collectives_ns = out.exposed_ns = static_cast<double>(total_ps) / kPsPerNs;
  for (size_t rank = 0; rank < ranks; ++rank) {
    traffic::Rank& made = out.ranks.emplace_back();
    made.name = fmt::format("rank {}", rank);
    made.total_ns = out.total_ns;
    for (const traffic::Collective& one : out.collectives)
      if (const auto member = std::ranges::find(one.group, static_cast<int>(rank)); member != one.group.end())
        made.collectives_ns += one.ended_ns[static_cast<size_t>(member - one.group.begin())] - one.start_ns();
    made.exposed_ns = made.collectives_ns;
  }
  meter.fill(out, out.collectives_ns);
  if (left_out > 0)
    out.assumptions.push_back(fmt::format(
        "links: of {} of the sizes the way over the links was not followed, as they have too many steps",
        left_out));
  out.band = arch::to_text(arch::band(tables, {.generation = platform.generation(), .collective = true}));
  out.basis = collectives::basis_of(tables, platform);
  return out;
}

void write_fabric_page(const std::string& path, const std::string& title,
                       const std::vector<traffic::Traffic>& traffics) {
  auto list = nlohmann::ordered_json::array();
  for (const traffic::Traffic& one : traffics) list.push_back(traffic::json(one));
  std::string page(embedded_fabric_page());
  replace(page, "{{title}}", escaped(title));
  replace(page, "{{data}}",
          in_script(list.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace)));
  write_text(path, page);
}

void write_fabric_events(const std::string& path, const traffic::Traffic& traffic) {
  std::ostringstream text;
  traffic::write_perfetto(traffic, text);
  write_text(path, text.str());
}

}  // namespace opentrn::cli
