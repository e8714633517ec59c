#include "pjrt/usage.h"

#include <cstdio>
#include <fstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "backend/compile.h"
#include "sim/timing/simulate.h"

namespace opentrn::pjrt {

namespace {

using nlohmann::json;

void add_prediction(json& row, const runtime::Model& model) {
  row["instructions"] = model.program->size();
  try {
    const isa::Executable executable = backend::compile(
        model.program, {.generation = model.generation, .look_ahead = backend::usual_look_ahead(false)});
    const auto timed = sim::timing::simulate(executable, arch::timing(model.generation));
    row["device_us"] = timed.total_ns / 1e3;
    row["tensor_flops"] = timed.tensor_flops();
    row["bound_by"] = trace::name(timed.bound_by());
  } catch (const Fault& fault) {
    // Loops whose trips depend on values have no time before they have run.
    row["why"] = fault.message();
  }
}

// Of one device in one run; `runs` is of all devices. Collectives and the host's calls have no time here.
void add_parts(json& row, const ParallelProgram& program, double runs) {
  int64_t instructions = 0;
  double device_us = 0, flops = 0, longest = 0;
  for (const auto& [model, part_runs] : program.parts()) {
    json part{{"device_us", nullptr}};
    add_prediction(part, *model);
    instructions += model->program->size();
    if (part["device_us"].is_null()) {
      row["why"] = part["why"];
      return;
    }
    const double share = static_cast<double>(part_runs) / runs;
    device_us += part["device_us"].get<double>() * share;
    flops += part["tensor_flops"].get<double>() * share;
    if (part["device_us"].get<double>() * share < longest) continue;
    longest = part["device_us"].get<double>() * share;
    row["bound_by"] = part["bound_by"];
  }
  row["instructions"] = instructions;
  row["device_us"] = device_us;
  row["tensor_flops"] = flops;
  row["without"] = "collectives";
}

// Of one logical core for an hour, in USD: the cheapest published rate of each kind among the instances that
// have the chip. Null where none is published.
json price_of_core(const Settings& settings) {
  json prices{{"on_demand", nullptr}, {"reserved", nullptr}, {"capacity_block", nullptr}};
  const auto take = [&](const char* kind, const arch::Spec<double>& rate, double cores) {
    if (!rate.known()) return;
    const double usd = rate / cores;
    if (prices[kind].is_null() || prices[kind].get<double>() > usd) prices[kind] = usd;
  };
  for (const arch::Instance& instance : arch::default_tables().instances()) {
    const arch::Chip& chip = arch::chip(instance.chip);
    if (chip.generation != settings.generation ||
        (instance.name != settings.target && settings.target.find('.') != std::string::npos))
      continue;
    const double cores = double(instance.chips) * int{chip.cores} / settings.physical_cores_per_core;
    take("on_demand", instance.price.on_demand_usd_h, cores);
    take("reserved", instance.price.reserved_usd_h, cores);
    take("capacity_block", instance.price.capacity_block_usd_h, cores);
  }
  return prices;
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
    json row{{"name", used.program->name()}, {"fingerprint", fingerprint},  {"runs", used.runs},
             {"devices", used.devices},      {"host_s", used.host_seconds}, {"device_us", nullptr}};
    if (const runtime::Model* model = used.program->device_model())
      add_prediction(row, *model);
    else if (const ParallelProgram* parallel = used.program->parallel();
             parallel && !parallel->parts().empty())
      add_parts(row, *parallel, static_cast<double>(used.runs) * static_cast<double>(used.devices));
    else
      row["on_host"] = row["why"] =
          used.program->host_reason().empty() ? "runs on every device" : used.program->host_reason();
    programs.push_back(std::move(row));
  }
  return json{
      {"target", settings.target},
      {"cores", settings.cores.size()},
      {"tensor_peak_tflops_bf16", arch::neuron_core(settings.generation).peak_tflops.at("bf16").value()},
      {"bytes_peak", bytes_peak},
      {"usd_h", price_of_core(settings)},
      {"programs", std::move(programs)}}
      .dump(1);
}

}  // namespace opentrn::pjrt
