#include "pjrt/usage.h"

#include <algorithm>
#include <cstdio>
#include <fstream>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "arch/price.h"
#include "spmd/run/cost.h"
#include "spmd/run/step_traffic.h"
#include "traffic/traffic.h"

namespace opentrn::pjrt {

namespace {

using nlohmann::json;

void add_cost(json& row, const spmd::Cost& cost) {
  if (!cost.on_device) row["on_host"] = cost.why;
  if (!cost.why.empty()) row["why"] = cost.why;
  if (cost.device_us) {
    row["device_us"] = *cost.device_us;
    row["launch_us"] = cost.launch_us;
    // Of a physical core, whose peak utilisation is a share of.
    row["tensor_flops"] = cost.tensor_flops / cost.cores;
    row["hbm_bytes"] = cost.hbm_bytes;
    row["bound_by"] = cost.bound_by;
  }
  if (cost.on_device) row["instructions"] = cost.instructions;
  // An estimate that device_us holds, or null: nobody knows.
  if (!cost.collectives_us)
    row["collectives_us"] = nullptr;
  else if (*cost.collectives_us > 0)
    row["collectives_us"] = *cost.collectives_us;
  if (cost.collectives_us.value_or(1) > 0) row["exposed_us"] = cost.exposed_us;
}

// Whether both physical cores of a logical one computed, else what a run would take at least if they did.
void add_cores(json& row, const Program& program, const spmd::Cost& cost, const Settings& settings) {
  if (settings.physical_cores_per_core != 2 || !cost.device_us) return;
  row["physical_cores_used"] = cost.cores;
  if (cost.cores == 2) {
    row["both_cores_by"] = program.both_cores_way();
    return;
  }
  row["one_core_because"] = program.one_core_reason();
  row["both_cores_us_min"] =
      spmd::both_cores_us_min(*cost.device_us, cost.exposed_us, cost.hbm_bytes, settings.generation);
}

// "f32[8,16], f32[] -> f32[8]": programs of one name are told apart by it.
std::string types_of(const Program& program) {
  const auto list = [](const std::vector<graph::Type>& types) {
    std::string text;
    for (const graph::Type& type : types) {
      if (!text.empty()) text += ", ";
      text += fmt::format("{}[{}]", graph::name(type.element()), fmt::join(type.dims(), ","));
    }
    return text;
  };
  return fmt::format("{} -> {}", list(program.inputs()), list(program.outputs()));
}

}  // namespace

void Usage::add(const std::shared_ptr<const Program>& program, size_t devices, double host_seconds) {
  std::lock_guard lock(mutex_);
  for (Rows* rows : {file_.empty() ? nullptr : &rows_, block_ ? &*block_ : nullptr}) {
    if (!rows) continue;
    Row& row = (*rows)[program->fingerprint()];
    row.program = program;
    row.devices = devices;
    ++row.runs;
    row.host_seconds += host_seconds;
  }
}

void Usage::begin() {
  std::lock_guard lock(mutex_);
  if (block_)
    throw Fault(FaultKind::kInput, "pjrt.usage", "a program is profiled already",
                "profile one block at a time");
  block_.emplace();
  wanted_ = true;
}

std::string Usage::end(const Settings& settings, int64_t bytes_peak) {
  std::lock_guard lock(mutex_);
  const Rows rows = block_.value_or(Rows{});
  block_.reset();
  wanted_ = !file_.empty();
  return text(rows, settings, bytes_peak);
}

void Usage::write(const Settings& settings, int64_t bytes_peak) const {
  if (file_.empty()) return;
  std::lock_guard lock(mutex_);
  std::ofstream file(file_);
  file << text(rows_, settings, bytes_peak);
  if (!file) fmt::print(stderr, "opentrn: {} could not be written\n", file_);
}

std::string Usage::text(const Rows& rows, const Settings& settings, int64_t bytes_peak) {
  json programs = json::array();
  for (const auto& [fingerprint, used] : rows) {
    json row{{"name", used.program->name()}, {"types", types_of(*used.program)},
             {"fingerprint", fingerprint},   {"runs", used.runs},
             {"devices", used.devices},      {"host_s", used.host_seconds},
             {"device_us", nullptr}};
    const spmd::Cost cost = used.program->cost();
    add_cost(row, cost);
    add_cores(row, *used.program, cost, settings);
    if (const ParallelProgram* parallel = used.program->parallel())
      if (const auto traffic =
              spmd::traffic_of(*parallel, used.program->name(), used.program->parallel_settings()))
        row["traffic"] = traffic::json(*traffic);
    programs.push_back(std::move(row));
  }
  json out{{"target", settings.target},
           {"cores", settings.cores.size()},
           {"physical_cores_per_core", settings.physical_cores_per_core},
           {"tensor_peak_tflops_bf16", arch::neuron_core(settings.generation).peak_tflops.at("bf16").value()},
           {"bytes_peak", bytes_peak},
           {"programs", std::move(programs)}};
  for (const auto& [kind, rate] :
       arch::rates_of_core(arch::default_tables(), settings.target, settings.physical_cores_per_core)) {
    out["usd_h"][kind] = rate ? json(rate->usd_h) : json(nullptr);
    out["rented"][kind] = rate ? json(rate->instance) : json(nullptr);
  }
  return out.dump(1);
}

}  // namespace opentrn::pjrt
