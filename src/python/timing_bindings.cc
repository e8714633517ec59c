// compile_and_time() and the Timing it returns; opentrn/kernel/run.py is how users reach them.
#include "python/timing_bindings.h"

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <mutex>
#include <set>
#include <sstream>
#include <tuple>

#include <nanobind/ndarray.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "arch/evidence.h"
#include "arch/stated.h"
#include "backend/allocation.h"
#include "backend/compile.h"
#include "backend/pair.h"
#include "base/text_file.h"
#include "isa/definitions.h"
#include "isa/file.h"
#include "isa/text.h"
#include "nki/instance_races.h"
#include "nki/machine.h"
#include "profile/reports.h"
#include "python/phase_clock.h"
#include "python/program_files.h"
#include "python/report_file.h"
#include "python/timed_programs.h"
#include "python/timing.h"
#include "python/unlocked.h"
#include "runtime/settings.h"
#include "runtime/timing.h"
#include "sim/timing/simulate.h"

namespace opentrn::python {

namespace nb = nanobind;
using namespace nb::literals;

namespace {

using Machines = std::vector<std::shared_ptr<nki::Machine>>;

std::shared_ptr<Timing> time_programs(const Programs& programs, const isa::Program& executed,
                                      Generation generation, const TimeOptions& options) {
  const std::shared_ptr<Timing> timing = compiled(programs, generation, options);
  PhaseClock clock(timing->phase_seconds);
  const std::vector<const isa::Executable*> cores = cores_of(*timing);
  trace::Recorder recorder;
  timing->simulate_options = simulate_options_of(*timing, executed, options);
  sim::timing::simulate(cores, timing->tables->timing(generation), &recorder, timing->simulate_options);
  timing->trace = recorder.take();
  clock.end_of("simulate");
  timing->profile = profile::analyse(timing->trace, cores, *timing->tables);
  clock.end_of("analyse");
  return timing;
}

// `target`: what the programs are timed on, where that is not the machines' generation.
std::shared_ptr<Timing> compile_and_time(const Machines& machines, const std::string& name,
                                         const std::vector<std::string>& settings,
                                         std::optional<int> look_ahead, bool neuronx_cc, bool dge,
                                         bool dma_engine_tracks, std::optional<int64_t> default_trip_count,
                                         const std::optional<std::string>& target, bool middle_end) {
  if (machines.empty())
    throw Fault(FaultKind::kInput, "compile_and_time", "there is no machine to time",
                "launch the kernel first");
  const Unlocked unlocked;
  Programs programs;
  for (const auto& machine : machines) {
    machine->program()->name = name;
    programs.push_back(machine->program());
  }
  const Generation recorded_for = machines[0]->generation();
  return time_programs(programs, *programs[0], target ? arch::resolve_target(*target) : recorded_for,
                       {.name = name,
                        .settings = settings,
                        .look_ahead = look_ahead,
                        .neuronx_cc = neuronx_cc,
                        .middle_end = middle_end,
                        .dge = dge,
                        .dma_engine_tracks = dma_engine_tracks,
                        .default_trip_count = default_trip_count,
                        .trips = &machines[0]->core().trip_counts(),
                        .moves_rows = machines[0]->moves_rows()});
}

// What a launch that is not timed does not learn from the backend: whether its tiles fit. Faults as
// backend::check_fits().
void check_fits(const Machines& machines) {
  const Unlocked unlocked;
  for (const auto& machine : machines) {
    const Generation generation = machine->generation();
    backend::check_fits(*machine->program(), arch::default_tables().neuron_core(generation),
                        machine->spills());
  }
}

// begins: the first instruction of every instance of an NKI 0.1 launch grid. Faults of
// nki::check_instances().
void check_instances(const std::shared_ptr<nki::Machine>& machine,
                     const std::vector<isa::InstructionIndex>& begins) {
  nb::gil_scoped_release unlocked;
  nki::check_instances(*machine, begins);
}

// Programs that save_program() wrote, one file per core: FILE, FILE.core1.
std::shared_ptr<Timing> time_files(const std::filesystem::path& first, int cores, const std::string& target,
                                   const std::vector<std::string>& settings, bool neuronx_cc, bool dge,
                                   std::optional<int> look_ahead, std::optional<int64_t> default_trip_count) {
  const Unlocked unlocked;
  Programs programs;
  for (int core = 0; core < cores; ++core) {
    const std::string path = core == 0 ? first.string() : fmt::format("{}.core{}", first.string(), core);
    programs.push_back(std::make_shared<isa::Program>(program_in(path)));
  }
  return time_programs(programs, *programs[0], arch::resolve_target(target),
                       {.settings = settings,
                        .look_ahead = look_ahead,
                        .neuronx_cc = neuronx_cc,
                        .dge = dge,
                        .default_trip_count = default_trip_count,
                        .moves_rows = true});  // a file does not tell its dialect
}

using Bytes = nb::ndarray<nb::numpy, const uint8_t, nb::ndim<1>>;

// Rows as they lie in memory, kept alive by the array; event_layout() and critical_layout() say what lies
// where.
template <typename Row>
Bytes rows_of(const std::shared_ptr<Timing>& timing, const std::vector<Row>& rows) {
  auto* owner = new std::shared_ptr<Timing>(timing);
  nb::capsule capsule(owner, [](void* p) noexcept { delete static_cast<std::shared_ptr<Timing>*>(p); });
  return {reinterpret_cast<const uint8_t*>(rows.data()), {rows.size() * sizeof(Row)}, capsule};
}

struct Field {
  const char* name;
  const char* format;
  size_t offset;
};

// What numpy.dtype() takes.
nb::dict layout_of(std::initializer_list<Field> fields, size_t itemsize) {
  nb::list names, formats, offsets;
  for (const Field& field : fields) {
    names.append(field.name);
    formats.append(field.format);
    offsets.append(field.offset);
  }
  nb::dict layout;
  layout["names"] = names;
  layout["formats"] = formats;
  layout["offsets"] = offsets;
  layout["itemsize"] = itemsize;
  return layout;
}

nb::dict event_layout() {
  using trace::Event;
  return layout_of({{"start_ns", "f8", offsetof(Event, start_ns)},
                    {"end_ns", "f8", offsetof(Event, end_ns)},
                    {"busy_ns", "f8", offsetof(Event, busy_ns)},
                    {"stall_ns", "f8", offsetof(Event, stall_ns)},
                    {"bytes", "i8", offsetof(Event, bytes)},
                    {"flops", "f8", offsetof(Event, flops)},
                    {"track", "u4", offsetof(Event, track)},
                    {"instruction", "u4", offsetof(Event, instruction)},
                    {"waited_for", "u4", offsetof(Event, waited_for)},
                    {"iteration", "u4", offsetof(Event, iteration)},
                    {"name", "u4", offsetof(Event, name)},
                    {"file", "u4", offsetof(Event, file)},
                    {"function", "u4", offsetof(Event, function)},
                    {"line", "i4", offsetof(Event, line)},
                    {"opcode", "u1", offsetof(Event, opcode)},
                    {"stall", "u1", offsetof(Event, stall)},
                    {"times", "i8", offsetof(Event, times)}},
                   sizeof(Event));
}

nb::dict critical_layout() {
  using trace::CriticalSegment;
  return layout_of({{"start_ns", "f8", offsetof(CriticalSegment, start_ns)},
                    {"end_ns", "f8", offsetof(CriticalSegment, end_ns)},
                    {"resource", "u1", offsetof(CriticalSegment, resource)},
                    {"instruction", "u4", offsetof(CriticalSegment, instruction)},
                    {"core", "u2", offsetof(CriticalSegment, core)},
                    {"times", "i8", offsetof(CriticalSegment, times)}},
                   sizeof(CriticalSegment));
}

std::vector<std::string> strings(const Timing& self) {
  std::vector<std::string> all;
  for (size_t id = 0; id < self.trace.strings.size(); ++id)
    all.push_back(self.trace.strings[static_cast<trace::StringId>(id)]);
  return all;
}

void save_perfetto(const Timing& self, const std::filesystem::path& path) {
  write_report(path, [&](std::ostream& out) { profile::write_perfetto(self.trace, out); });
}

}  // namespace

nb::object time_program(std::shared_ptr<const isa::Program> program, Generation generation,
                        const std::vector<std::string>& settings, const isa::Origin& origin,
                        const runtime::LoopTrips* trips, std::optional<int64_t> loop_iterations,
                        bool language) {
  std::shared_ptr<Timing> timing;
  {
    const Unlocked unlocked;
    const std::vector<backend::CorePart> parts = backend::core_parts(program);
    Programs programs;
    for (const backend::CorePart& part : parts) programs.push_back(part.program);
    timing = time_programs(programs, *program, generation,
                           {.settings = settings,
                            .model = true,
                            .language = language,
                            .default_trip_count = loop_iterations,
                            .trips = trips});
    for (size_t core = 0; core < parts.size(); ++core)
      OPENTRN_CHECK(timing->executables[core].program->size() == programs[core]->size(),
                    "{} instructions became {}", programs[core]->size(),
                    timing->executables[core].program->size());
    runtime::merge(timing->trace, parts);
    if (!origin.empty()) {
      isa::Executable whole = timing->executables[0];
      if (parts.size() > 1) whole.program = program;
      timing->model = profile::analyse_model(timing->trace, whole, origin, *timing->tables);
    }
  }
  return nb::cast(timing);
}

void bind_timing(nb::module_& module) {
  nb::class_<Timing>(module, "Timing", nb::dynamic_attr())
      .def_prop_ro("total_ns", [](const Timing& t) { return t.profile.summary.total_ns; })
      .def_prop_ro("launch_ns", [](const Timing& t) { return t.profile.summary.launch_ns; })
      .def_prop_ro(
          "nc_latency_ns",
          [](const Timing& t) { return t.profile.summary.total_ns + t.profile.summary.timed_extra_ns; })
      .def_prop_ro("beside_ns", &beside_ns)
      .def_prop_ro("extrapolated_ns", [](const Timing& t) { return t.profile.summary.extrapolated_ns; })
      .def_prop_ro("instruction_count", [](const Timing& t) { return t.profile.summary.instructions; })
      .def_prop_ro("bound_by",
                   [](const Timing& t) -> std::optional<std::string> {
                     if (t.profile.bound_by.empty()) return std::nullopt;
                     return std::string(trace::name(t.profile.bound_by[0].resource));
                   })
      .def_prop_ro("mfu_percent", [](const Timing& t) { return t.profile.mfu_estimated_percent; })
      .def_prop_ro("mbu_percent", [](const Timing& t) { return t.profile.mbu_estimated_percent; })
      .def_prop_ro("tensor_flops", [](const Timing& t) { return t.profile.summary.tensor_flops(); })
      .def_prop_ro("hbm_bytes",
                   [](const Timing& t) {
                     const auto& dma = t.profile.summary.dma;
                     return dma.hbm_bytes_read + dma.hbm_bytes_written;
                   })
      .def_prop_ro("phase_seconds",
                   [](const Timing& t) {
                     nb::dict seconds;
                     for (const auto& [phase, time] : t.phase_seconds) seconds[phase] = time;
                     return seconds;
                   })
      .def_ro("assumptions", &Timing::assumptions)
      .def("trust_text", &trust_text)
      .def("trust_json",
           [](const Timing& t) {
             return nlohmann::ordered_json{
                 {"kind", t.kind.key()}, {"band", band_json(t)}, {"basis", basis_json(t)}}
                 .dump();
           })
      .def("json",
           [](Timing& t) {
             const Unlocked unlocked;
             return dumped(profile_json(t));
           })
      .def("text", &timing_text, "lines_max"_a = 12)
      .def("model_text", &timing_model_text, "lines_max"_a = 12, "depth"_a = 0)
      .def(
          "executable_text",
          [](const Timing& t, size_t core) { return isa::to_text(t.executables.at(core)); }, "core"_a)
      .def(
          "save_executable",
          [](const Timing& t, const std::filesystem::path& path, size_t core) {
            isa::save(t.executables.at(core), path.string());
          },
          "path"_a, "core"_a)
      .def("save_perfetto", &save_perfetto, "path"_a)
      .def("event_bytes", [](const std::shared_ptr<Timing>& t) { return rows_of(t, t->trace.events); })
      .def("critical_bytes",
           [](const std::shared_ptr<Timing>& t) { return rows_of(t, t->trace.critical_path); })
      .def("page",
           [](Timing& t) {
             std::pair<std::string, profile::PageColumns> page;
             {
               const Unlocked unlocked;
               page = page_of(t);
             }
             const auto& [json, columns] = page;
             return nb::make_tuple(json, nb::bytes(columns.events.data(), columns.events.size()),
                                   nb::bytes(columns.critical.data(), columns.critical.size()));
           })
      .def("tracks_json", [](const Timing& t) { return dumped(profile::tracks_json(t.trace)); })
      .def("skipped_json", [](const Timing& t) { return dumped(profile::skipped_json(t.trace)); })
      .def("memory_map", &memory_map,
           "(memory, name, role, offset, bytes) of every placed HBM tensor of the first core, by offset.")
      .def("strings", &strings);
  module.def("compile_and_time", &compile_and_time, "machines"_a, "name"_a = "kernel",
             "settings"_a = std::vector<std::string>{}, "look_ahead"_a = nb::none(), "neuronx_cc"_a = false,
             "dge"_a = true, "dma_engine_tracks"_a = false, "default_trip_count"_a = nb::none(),
             "target"_a = nb::none(), "middle_end"_a = true);
  module.def("check_fits", &check_fits, "machines"_a);
  module.def("check_instances", &check_instances, "machine"_a, "begins"_a);
  module.def("event_layout", &event_layout);
  module.def("critical_layout", &critical_layout);
  module.def("resource_names", [] {
    std::vector<std::string> names;
    for (int i = 0; i < trace::kResourceCount; ++i)
      names.emplace_back(trace::name(static_cast<trace::Resource>(i)));
    return names;
  });
  module.def("opcode_names", [] {
    std::vector<std::string> names;
    for (int i = 0; i < isa::kOpcodeCount; ++i) names.emplace_back(isa::name(static_cast<isa::Opcode>(i)));
    return names;
  });
  module.def("stall_names", [] {
    std::vector<std::string> names;
    for (int i = 0; i < trace::kStallCount; ++i)
      names.emplace_back(trace::name(static_cast<trace::Stall>(i)));
    return names;
  });
  module.def(
      "listing",
      [](const nki::Machine& machine, const std::string& name) {
        machine.program()->name = name;
        return isa::to_text(*machine.program());
      },
      "machine"_a, "name"_a = "kernel");
  module.def(
      "read_text_file",
      [](const std::filesystem::path& path, const std::string& label, const std::string& hint) {
        const Unlocked unlocked;
        return read_text_file(path, label, hint);
      },
      "path"_a, "label"_a, "hint"_a,
      "The text of a regular file, or of a pipe that the shell opened. Raises InputError with the label for "
      "any other, and for more than 256 MiB.");
  module.def(
      "listing_of_file", [](const std::filesystem::path& path) { return listing_of(path.string()); },
      "path"_a);
  module.def(
      "save_program",
      [](const nki::Machine& machine, const std::filesystem::path& path, const std::string& name) {
        machine.program()->name = name;
        isa::save(*machine.program(), path.string());
      },
      "machine"_a, "path"_a, "name"_a = "kernel");
  module.def("time_files", &time_files, "path"_a, "cores"_a, "target"_a,
             "settings"_a = std::vector<std::string>{}, "neuronx_cc"_a = false, "dge"_a = true,
             "look_ahead"_a = nb::none(), "default_trip_count"_a = nb::none());
  module.def("calibrations", [] { return arch::calibrations(arch::default_tables()); });
  module.def("target_generation",
             [](const std::string& target) { return version(arch::stand_in(arch::resolve_target(target))); });
  module.def(
      "check_settings", [](const std::vector<std::string>& settings) { tables_of(settings); }, "settings"_a,
      "Raises for a value that the tables do not have or that nothing computes with.");
}

}  // namespace opentrn::python
