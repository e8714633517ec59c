// The time of several ranks on one clock, and what their collectives did to the fabric.
#include "python/rank_bindings.h"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "base/fault.h"
#include "nki/machine.h"
#include "nki/ranks/recording.h"
#include "python/report_file.h"
#include "python/timed_programs.h"
#include "python/unlocked.h"
#include "runtime/settings.h"
#include "sim/ranks/traffic.h"
#include "traffic/events.h"
#include "traffic/traffic.h"

namespace opentrn::python {

namespace nb = nanobind;
using namespace nb::literals;

namespace {

using Machines = std::vector<std::shared_ptr<nki::Machine>>;

// Of a core's program, in its order: the tensors by which copies of a collective are known.
std::vector<sim::ranks::Copies> copies_of(const nki::RecordedCore& core) {
  std::vector<sim::ranks::Copies> all;
  const isa::Program& program = *core.program;
  for (const nki::Machine::CollectiveMark& mark : core.collectives) {
    sim::ranks::Copies& copies = all.emplace_back();
    copies.collective = mark.record;
    for (size_t i = mark.begin; i < mark.end; ++i) {
      const isa::Instruction& in = program.instruction(static_cast<isa::InstructionIndex>(i));
      const bool sent = i < mark.met;
      (sent ? copies.tensors.sent : copies.tensors.received)
          .push_back(
              program.operand(in, sent ? isa::slot::dma_copy::kDst : isa::slot::dma_copy::kSrc).tensor);
    }
  }
  return all;
}

std::vector<sim::ranks::Collective> collectives_of(const std::vector<nki::CollectiveRecord>& records) {
  std::vector<sim::ranks::Collective> all;
  for (const nki::CollectiveRecord& one : records)
    all.push_back({one.function, one.group, one.requests, one.core, one.on_chip, one.priority});
  return all;
}

std::vector<std::string> assumptions_of(const std::vector<nki::CollectiveRecord>& records) {
  std::vector<std::string> lines;
  if (std::ranges::any_of(records, &nki::CollectiveRecord::lengths_assumed))
    lines.emplace_back(
        "without values the lengths of all_gather_v and all_to_all_v are those of whole sources");
  if (std::ranges::any_of(records, &nki::CollectiveRecord::on_chip))
    lines.emplace_back("collectives of operands in SBUF take the time of operands in HBM");
  return lines;
}

// The ranks of one launch on one clock, and what collectives did to the fabric. `encoded`: of processes.
nb::tuple time_ranks(const std::vector<Machines>& ranks, const std::string& name,
                     const std::vector<std::string>& settings, std::optional<int> look_ahead, bool neuronx_cc,
                     bool dge, std::optional<int64_t> default_trip_count,
                     const std::optional<std::string>& target, bool middle_end,
                     const std::vector<nb::bytes>& encoded) {
  std::vector<std::shared_ptr<Timing>> timings;
  auto traffic = std::make_shared<traffic::Traffic>();
  std::vector<std::span<const std::byte>> shared;
  for (const nb::bytes& one : encoded)
    shared.emplace_back(static_cast<const std::byte*>(one.data()), one.size());
  {
    const Unlocked unlocked;
    const nki::RecordedLaunch launch =
        shared.empty() ? nki::recorded_launch(ranks) : nki::decode_launch(shared);
    const auto count = static_cast<int>(launch.ranks.size());
    const Generation generation = target ? arch::resolve_target(*target) : launch.ranks[0].generation;
    const int cores = static_cast<int>(launch.ranks[0].cores.size());
    std::vector<trace::Recorder> recorders(launch.ranks.size());
    std::vector<sim::ranks::Rank> timed;
    for (const nki::RecordedRank& recorded : launch.ranks) {
      const size_t r = timed.size();
      Programs programs;
      for (const nki::RecordedCore& core : recorded.cores) {
        core.program->name = name;
        programs.push_back(core.program);
      }
      TimeOptions options{.name = name,
                          .settings = settings,
                          .look_ahead = look_ahead,
                          .neuronx_cc = neuronx_cc,
                          .middle_end = middle_end,
                          .dge = dge,
                          .default_trip_count = default_trip_count,
                          .trips = &recorded.trips,
                          .moves_rows = recorded.moves_rows};
      sim::ranks::Rank& rank = timed.emplace_back();
      for (const nki::RecordedCore& core : recorded.cores) {
        rank.collectives.push_back(copies_of(core));
        std::vector<isa::CollectiveCopies>& tensors = options.collectives.emplace_back();
        for (const sim::ranks::Copies& copies : rank.collectives.back()) tensors.push_back(copies.tensors);
      }
      timings.push_back(compiled(programs, generation, options));
      rank.cores = cores_of(*timings[r]);
      rank.sink = &recorders[r];
      rank.options = simulate_options_of(*timings[r], *programs[0], options);
    }
    const arch::Tables& tables = *timings[0]->tables;
    const fabric::Platform platform =
        collectives::machine_of(tables, target.value_or(""), generation, count, cores);
    const collectives::RankCores placed = collectives::place_ranks(platform, count, cores, 0);
    const std::vector<sim::ranks::Collective> collectives = collectives_of(launch.records);
    const auto packets = runtime::dma_packets_of_environment();
    const auto result = sim::ranks::simulate(tables, platform, placed, timed, collectives, packets);
    std::vector<const trace::Trace*> traces;
    for (size_t r = 0; r < timings.size(); ++r) {
      timings[r]->trace = recorders[r].take();
      timings[r]->profile = profile::analyse(timings[r]->trace, timed[r].cores, tables);
      traces.push_back(&timings[r]->trace);
    }
    std::vector<std::string> names, places;
    for (const auto& record : launch.records) {
      names.push_back(record.what.substr(0, record.what.find(" over ")));
      places.push_back(record.where.known() ? fmt::format("{}:{}", record.where.file, record.where.line)
                                            : "");
    }
    *traffic = sim::ranks::traffic_of(tables, platform, collectives, names, places, result, traces);
    traffic->assumptions = assumptions_of(launch.records);
  }
  nb::list list;
  for (const auto& timing : timings) list.append(nb::cast(timing));
  return nb::make_tuple(list, nb::cast(traffic));
}
}  // namespace

void bind_ranks(nb::module_& module) {
  nb::class_<traffic::Traffic>(module, "Traffic")
      .def(
          "text", [](const traffic::Traffic& t, size_t most) { return traffic::text(t, most); }, "most"_a = 8)
      .def("json",
           [](const traffic::Traffic& t) {
             return traffic::json(t).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
           })
      .def(
          "save_perfetto",
          [](const traffic::Traffic& t, const std::filesystem::path& path) {
            write_report(path, [&](std::ostream& out) { traffic::write_perfetto(t, out); });
          },
          "path"_a);
  module.def(
      "save_traffic_events",
      [](const std::string& json, const std::filesystem::path& path) {
        const std::vector<traffic::Traffic> all = traffic::read_json(json);
        write_report(path, [&](std::ostream& out) { traffic::write_perfetto(all, out); });
      },
      "json"_a, "path"_a);
  module.def("time_ranks", &time_ranks, "ranks"_a, "name"_a = "kernel",
             "settings"_a = std::vector<std::string>{}, "look_ahead"_a = nb::none(), "neuronx_cc"_a = false,
             "dge"_a = true, "default_trip_count"_a = nb::none(), "target"_a = nb::none(),
             "middle_end"_a = true, "encoded"_a = std::vector<nb::bytes>{});
}

}  // namespace opentrn::python
