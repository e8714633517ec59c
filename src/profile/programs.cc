#include "profile/programs.h"

#include <algorithm>

#include <fmt/format.h>

namespace opentrn::profile {

using Json = nlohmann::ordered_json;

namespace {

std::optional<double> known(const Json& row, const char* key) {
  const auto found = row.find(key);
  if (found == row.end() || found->is_null()) return std::nullopt;
  return found->get<double>();
}

ProgramRuns program_of(const Json& row) {
  ProgramRuns program;
  program.name = row.at("name").get<std::string>();
  program.function = row.value("function", program.name);
  program.is_op = row.value("is_op", false);
  program.runs = row.at("runs").get<int64_t>();
  program.devices = row.at("devices").get<int64_t>();
  program.device_us = known(row, "device_us");
  program.launch_us = known(row, "launch_us").value_or(0);
  program.tensor_flops = known(row, "tensor_flops").value_or(0);
  program.host_s = row.at("host_s").get<double>();
  program.both_cores_us_min = known(row, "both_cores_us_min");
  return program;
}

Json or_null(const std::optional<double>& value) { return value ? Json(*value) : Json(); }

void add_times(Json& row, const ProgramRuns& program, double device_us) {
  if (!program.device_us) {
    row["run_us"] = row["total_us"] = row["share"] = nullptr;
    return;
  }
  row["run_us"] = program.run_us();
  row["total_us"] = program.total_us();
  row["share"] = device_us > 0 ? Json(program.total_us() / device_us) : Json();
}

// Names of the rows that have the key.
Json without_time(const std::vector<ProgramRuns>& programs) {
  Json names = Json::array();
  for (const ProgramRuns& program : programs)
    if (!program.device_us) names.push_back(program.name);
  return names;
}

Json on_host(const Json& rows) {
  Json reasons = Json::object();
  for (const Json& row : rows)
    if (row.contains("on_host")) reasons[row.at("name").get<std::string>()] = row.at("on_host");
  return reasons;
}

Json prices(const Json& rates, double core_hours) {
  Json out = Json::object();
  for (const auto& [kind, rate] : rates.items())
    out[kind] = rate.is_null() ? Json() : Json(rate.get<double>() * core_hours);
  return out;
}

// All programs that one function became.
struct FunctionRuns {
  bool is_op = false;
  int64_t runs = 0;
  double total_us = 0;
};

void find_step(const std::vector<ProgramRuns>& programs, ProgramTotals& totals) {
  std::map<std::string, FunctionRuns> functions;
  for (const ProgramRuns& program : programs) {
    if (!program.device_us) continue;
    FunctionRuns& of = functions[program.function];
    of.is_op = program.is_op;
    of.runs += program.runs;
    of.total_us += program.total_us();
  }
  const auto longest = std::ranges::max_element(functions, {}, [](const auto& function) {
    return function.second.is_op ? -1 : function.second.total_us;
  });
  if (longest->second.is_op) return;
  totals.step = longest->first;
  totals.steps = std::max<int64_t>(longest->second.runs, 1);
  double within_us = 0;
  for (const auto& [name, of] : functions)
    (of.runs >= totals.steps ? within_us : totals.beside_us) += of.total_us;
  totals.step_us = within_us / static_cast<double>(totals.steps);
}

// The step of the core whose steps take longest.
bool read_step(const std::vector<CoreClock>& clocks, ProgramTotals& totals) {
  for (const CoreClock& clock : clocks) {
    if (clock.steps < 1) continue;
    const double step_us = clock.steps_us / static_cast<double>(clock.steps);
    if (totals.step_us && *totals.step_us >= step_us) continue;
    totals.step = "from one step() of an optimizer to the next";
    totals.steps = clock.steps;
    totals.step_us = step_us;
    totals.beside_us = std::max(0.0, clock.stream_us - clock.steps_us);
  }
  return totals.step_us.has_value();
}

}  // namespace

ProgramTotals add_up(const std::vector<ProgramRuns>& programs, double tensor_peak_tflops, double host_s,
                     const std::vector<CoreClock>& clocks) {
  ProgramTotals totals;
  double flops = 0, busy_s = 0, bound_us = 0;
  bool has_bound = false;
  for (size_t i = 0; i < programs.size(); ++i) {
    const ProgramRuns& program = programs[i];
    const auto runs = static_cast<double>(program.runs);
    totals.runs += program.runs;
    busy_s += program.host_s;
    if (!program.device_us) continue;
    totals.device_us += program.total_us();
    totals.launch_us += program.launch_us * runs;
    flops += program.tensor_flops * runs;
    has_bound |= program.both_cores_us_min.has_value();
    bound_us += (program.both_cores_us_min.value_or(*program.device_us) + program.launch_us) * runs;
    if (!totals.longest || program.total_us() > programs[*totals.longest].total_us()) totals.longest = i;
  }
  if (has_bound) totals.both_cores_us_min = bound_us;
  totals.host_gap_s = std::max(0.0, host_s - busy_s);
  if (!totals.longest) return totals;
  const ProgramRuns& longest = programs[*totals.longest];
  if (!read_step(clocks, totals)) find_step(programs, totals);
  double clocks_us = 0;
  for (const CoreClock& clock : clocks) clocks_us += clock.stream_us;
  // Graphs of tensors of the host run beside every clock.
  const double paid_us = std::max(clocks_us, totals.device_us);
  totals.core_hours = paid_us / 3.6e9 * static_cast<double>(longest.devices);
  if (paid_us > 0) totals.mfu = flops / (paid_us * 1e6 * tensor_peak_tflops);
  return totals;
}

Json join_usages(std::vector<Json> usages) {
  std::map<int64_t, int64_t> cores_of;  // by rank; -1: of a framework without ranks
  Json whole = usages.at(0);
  whole["programs"] = Json::array();
  whole["clocks"] = Json::array();
  std::map<std::string, size_t> places;  // of a program's row
  for (Json& usage : usages) {
    const auto rank = usage.value("rank", int64_t{-1});
    int64_t& cores = cores_of[rank];
    cores = std::max(cores, usage.at("cores").get<int64_t>());
    whole["bytes_peak"] =
        std::max(whole.at("bytes_peak").get<double>(), usage.at("bytes_peak").get<double>());
    for (const Json& clock : usage.value("clocks", Json::array())) whole["clocks"].push_back(clock);
    // One program of several ranks is a row. Rows of one rank are different programs, whatever they are
    // called: the second of a name is the second of the other ranks.
    std::map<std::string, int64_t> seen;
    for (Json& row : usage.at("programs")) {
      const std::string name =
          Json::array({row.at("name"), row.value("types", ""), or_null(known(row, "device_us"))}).dump();
      const std::string key = fmt::format("{} {} {}", name, seen[name]++, rank < 0 ? places.size() : 0);
      const auto [place, is_new] = places.try_emplace(key, whole["programs"].size());
      if (is_new) {
        whole["programs"].push_back(std::move(row));
        continue;
      }
      Json& sum = whole["programs"][place->second];
      sum["runs"] = sum.at("runs").get<int64_t>() + row.at("runs").get<int64_t>();
      sum["host_s"] = sum.at("host_s").get<double>() + row.at("host_s").get<double>();
    }
  }
  int64_t cores = 0, ranks = 0;
  for (const auto& [rank, count] : cores_of) {
    cores = rank < 0 ? std::max(cores, count) : cores + count;
    ranks += rank >= 0 ? 1 : 0;
  }
  whole["cores"] = cores;
  whole["ranks"] = std::max<int64_t>(ranks, 1);
  whole.erase("rank");
  return whole;
}

Json summarise_programs(Json usage, double host_s) {
  Json rows = std::move(usage.at("programs"));
  std::vector<ProgramRuns> programs;
  for (const Json& row : rows) programs.push_back(program_of(row));
  std::vector<CoreClock> clocks;
  for (const Json& clock : usage.value("clocks", Json::array()))
    clocks.push_back({clock.at("stream_us").get<double>(), clock.at("steps").get<int64_t>(),
                      clock.at("steps_us").get<double>()});
  // Ranks run beside each other, each for as long.
  const auto ranks = static_cast<double>(usage.value("ranks", int64_t{1}));
  const ProgramTotals totals =
      add_up(programs, usage.at("tensor_peak_tflops_bf16").get<double>(), host_s * ranks, clocks);
  for (size_t i = 0; i < programs.size(); ++i) add_times(rows[i], programs[i], totals.device_us);
  usage["runs"] = totals.runs;
  usage["device_s"] = totals.device_us / 1e6;
  usage["launch_s"] = totals.launch_us / 1e6;
  usage["host_s"] = host_s;
  usage["host_gap_s"] = totals.host_gap_s / ranks;  // of a rank, in the mean
  usage["step_us"] = or_null(totals.step_us);
  usage["step"] = totals.step.empty() ? Json() : Json(totals.step);
  usage["steps"] = totals.steps;
  usage["beside_us"] = totals.beside_us;
  usage["mfu"] = or_null(totals.mfu);
  usage["both_cores_us_min"] = totals.both_cores_us_min;
  usage["usd"] = prices(usage.at("usd_h"), totals.core_hours);
  usage["without_time"] = without_time(programs);
  usage["on_host"] = on_host(rows);
  std::ranges::stable_sort(rows.get_ref<Json::array_t&>(), std::ranges::greater{},
                           [](const Json& row) { return known(row, "total_us").value_or(0); });
  usage["programs"] = std::move(rows);
  return usage;
}

}  // namespace opentrn::profile
