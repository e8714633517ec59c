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

}  // namespace

void Usage::add(const std::shared_ptr<const Program>& program, size_t devices, double host_seconds) {
  std::lock_guard lock(mutex_);
  Row& row = rows_[program->fingerprint()];
  row.program = program;
  row.devices = devices;
  ++row.runs;
  row.host_seconds += host_seconds;
}

void Usage::write(const Settings& settings, int64_t bytes_peak) const {
  if (!wanted()) return;
  std::lock_guard lock(mutex_);
  json programs = json::array();
  for (const auto& [fingerprint, used] : rows_) {
    json row{{"name", used.program->name()}, {"fingerprint", fingerprint},  {"runs", used.runs},
             {"devices", used.devices},      {"host_s", used.host_seconds}, {"device_us", nullptr}};
    if (const runtime::Model* model = used.program->device_model())
      add_prediction(row, *model);
    else
      row["on_host"] = row["why"] =
          used.program->host_reason().empty() ? "runs on every device" : used.program->host_reason();
    programs.push_back(std::move(row));
  }
  std::ofstream file(file_);
  file << json{{"target", settings.target},
               {"cores", settings.cores.size()},
               {"tensor_peak_tflops_bf16",
                arch::neuron_core(settings.generation).peak_tflops.at("bf16").value()},
               {"bytes_peak", bytes_peak},
               {"programs", std::move(programs)}}
              .dump(1);
  if (!file) fmt::print(stderr, "opentrn: {} could not be written\n", file_);
}

}  // namespace opentrn::pjrt
