// nrt_execute and its recorders: profiles of single executions, and the events of a system trace.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include <unistd.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/fault.h"
#include "nrt/exec_callback.h"
#include "nrt/include/nrt/nrt_async.h"
#include "nrt/include/nrt/nrt_profile.h"
#include "nrt/include/nrt/nrt_sys_trace.h"
#include "nrt/include/nrt/opentrn.h"
#include "nrt/model.h"
#include "nrt/state.h"
#include "profile/reports.h"
#include "runtime/inspect.h"
#include "runtime/timing.h"

struct nrt_sys_trace_config {
  std::set<uint32_t> without_cores;  // by their index among the visible ones
  std::set<std::string> events{"nc_exec_running", "nrt_execute"};
  uint64_t events_max = 1'000'000;
};

struct nrt_profile_continuous_options {
  std::string folder = "./output";
};

struct nrt_sys_trace_fetch_options {
  uint64_t events_max = UINT64_MAX, core = UINT64_MAX;
};

namespace opentrn::nrt {

namespace {

constexpr const char* kEventTypes[] = {"nc_exec_running", "nrt_execute"};

struct Profile {
  std::weak_ptr<nrt_model> model;
  std::string file;
  bool executed = false;
};

struct Trace {
  nrt_sys_trace_config config;
  std::map<size_t, std::deque<nlohmann::ordered_json>> events;  // by core
  std::map<size_t, double> clock_ns;                            // of the simulated cores
  uint64_t last_id = 0;
};

// Guarded by the state's mutex.
std::optional<Profile>& profile() {
  static std::optional<Profile> instance;
  return instance;
}
// Which model each core executed last, since nrt_profile_continuous_start().
struct Continuous {
  std::map<size_t, std::weak_ptr<nrt_model>> last;
  uint64_t saved = 0;
};
std::optional<Continuous>& continuous() {
  static std::optional<Continuous> instance;
  return instance;
}
std::optional<Trace>& trace() {
  static std::optional<Trace> instance;
  return instance;
}

void add_event(Trace& to, size_t core, const char* type, const char* phase, uint64_t id,
               nlohmann::ordered_json data) {
  auto& events = to.events[core];
  if (events.size() >= to.config.events_max) events.pop_front();
  events.push_back({{"event_type", type},
                    {"phase", phase},
                    {"tracking_id", id},
                    {"nc_idx", core},
                    {"data", std::move(data)}});
}

void record(const std::shared_ptr<nrt_model>& handle, const Executed& executed) {
  nrt_model& model = *handle;
  State& state = State::instance();
  bool traced = false;
  {
    const std::lock_guard lock(state.mutex);
    if (profile() && profile()->model.lock().get() == &model) profile()->executed = true;
    if (continuous()) continuous()->last[model.core] = handle;
    traced = trace() && !trace()->config.without_cores.contains(static_cast<uint32_t>(model.core));
  }
  if (!traced) return;
  const auto predicted = predicted_ns(model);
  const std::lock_guard lock(state.mutex);
  if (!trace()) return;
  Trace& to = *trace();
  const uint64_t id = ++to.last_id;
  if (to.config.events.contains("nrt_execute")) {
    add_event(to, model.core, "nrt_execute", "start", id, {{"timestamp_ns", executed.begin_ns}});
    add_event(to, model.core, "nrt_execute", "stop", id, {{"timestamp_ns", executed.end_ns}});
  }
  if (!predicted || !to.config.events.contains("nc_exec_running")) return;
  double& clock = to.clock_ns[model.core];
  const auto at = [&] { return nlohmann::ordered_json{{"nc_timestamp_ns", static_cast<uint64_t>(clock)}}; };
  add_event(to, model.core, "nc_exec_running", "start", id, at());
  clock += *predicted;
  add_event(to, model.core, "nc_exec_running", "stop", id, at());
}

std::shared_ptr<nrt_model> open_model(const nrt_model_t* handle) {
  State& state = State::instance();
  const std::lock_guard lock(state.mutex);
  state.expect_open();
  return model_at(handle);
}

template <typename Body>
NRT_STATUS with_state(const char* function, Body&& body) noexcept {
  return answer(function, [&] {
    State& state = State::instance();
    const std::lock_guard lock(state.mutex);
    state.expect_open();
    body(state);
  });
}

void write_profile(const std::string& file, nrt_model& model, const runtime::LoopTrips& trips) {
  const trace::Trace timeline = runtime::timeline(model.model, trips);
  std::ofstream out(file, std::ios::binary);
  opentrn::profile::write_perfetto(timeline, out);
  out.close();
  if (!out) throw Refused{NRT_FAILURE, fmt::format("{}: the profile cannot be written", file)};
}

const char** strings(const std::set<std::string>& names, size_t* count) {
  auto** array = static_cast<const char**>(std::malloc(std::max<size_t>(names.size(), 1) * sizeof(char*)));
  if (array == nullptr) throw std::bad_alloc();
  size_t i = 0;
  for (const std::string& name : names) array[i++] = strdup(name.c_str());
  *count = names.size();
  return array;
}

// Takes up to so many events of a core, or of all (UINT64_MAX), out of the trace.
nlohmann::ordered_json taken_events(Trace& from, uint64_t core, uint64_t events_max) {
  auto events = nlohmann::ordered_json::array();
  for (auto& [index, queue] : from.events) {
    if (core != UINT64_MAX && core != index) continue;
    for (uint64_t i = 0; i < events_max && !queue.empty(); ++i) {
      events.push_back(std::move(queue.front()));
      queue.pop_front();
    }
  }
  return {{"events", std::move(events)}};
}

// FOLDER/continuous_pid_PID_N_vnc_CORE.ntff, which is not there yet.
std::string name_of_profile(const std::string& folder, uint64_t number, size_t core) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw Refused{NRT_FAILURE, fmt::format("{}: {}", folder, error.message())};
  return fmt::format("{}/continuous_pid_{}_{}_vnc_{}.ntff", folder, getpid(), number, core);
}

void give_strings(const std::set<std::string>& names, const char*** to, size_t* count) {
  expect_given(to, "the place of the names");
  expect_given(count, "the place of the count");
  *to = strings(names, count);
}

}  // namespace

NRT_STATUS run_and_answer(const char* function, nrt_model_t* handle, const nrt_tensor_set_t* inputs,
                          nrt_tensor_set_t* outputs, int count, bool is_asynchronous) noexcept {
  std::shared_ptr<nrt_model> model;
  NRT_STATUS status = NRT_SUCCESS;
  bool is_posted = is_asynchronous;
  try {
    model = open_model(handle);
    if (count < 0) throw Refused{NRT_INVALID, fmt::format("{} repetitions", count)};
    is_posted = is_posted || executes_asynchronously();
    for (int i = 0; i < count; ++i) {
      record(model, execute(*model, inputs, outputs));
      if (is_posted) post_execution(*model, NRT_SUCCESS);
    }
  } catch (...) {
    status = answer_exception(function, true);
    if (is_posted && model) post_execution(*model, status);
  }
  return status;
}

}  // namespace opentrn::nrt

using opentrn::nrt::answer;
using opentrn::nrt::continuous;
using opentrn::nrt::expect_given;
using opentrn::nrt::profile;
using opentrn::nrt::Refused;
using opentrn::nrt::State;
using opentrn::nrt::trace;
using opentrn::nrt::with_state;

extern "C" {

NRT_STATUS nrt_execute(nrt_model_t* model, const nrt_tensor_set_t* input_set, nrt_tensor_set_t* output_set) {
  return opentrn::nrt::run_and_answer("nrt_execute", model, input_set, output_set, 1, false);
}

NRT_STATUS nrt_execute_repeat(nrt_model_t* model, const nrt_tensor_set_t* input_set,
                              nrt_tensor_set_t* output_set, int repeat_count) {
  return opentrn::nrt::run_and_answer("nrt_execute_repeat", model, input_set, output_set, repeat_count,
                                      false);
}

NRT_STATUS opentrn_nrt_predicted_ns(nrt_model_t* model, double* nanoseconds) {
  return answer("opentrn_nrt_predicted_ns", [&] {
    State& state = State::instance();
    std::shared_ptr<nrt_model> found;
    {
      const std::lock_guard lock(state.mutex);
      state.expect_open();
      found = opentrn::nrt::model_at(model);
      expect_given(nanoseconds, "the place of the time");
      if (!found->executed) throw Refused{NRT_INVALID, "the model has not been executed"};
    }
    const auto predicted = opentrn::nrt::predicted_ns(*found);
    if (!predicted) throw Refused{NRT_FAILURE, "the timing model cannot tell what this program takes"};
    *nanoseconds = *predicted;
  });
}

NRT_STATUS nrt_profile_start(nrt_model_t* model, const char* filename) {
  return with_state("nrt_profile_start", [&](State&) {
    auto found = opentrn::nrt::model_at(model);
    expect_given(filename, "the file's name");
    if (profile())
      throw Refused{NRT_INVALID, fmt::format("the profile {} has not been stopped", profile()->file)};
    profile() = {std::move(found), filename, false};
  });
}

NRT_STATUS nrt_profile_stop(const char* filename) {
  return answer("nrt_profile_stop", [&] {
    State& state = State::instance();
    std::shared_ptr<nrt_model> model;
    opentrn::runtime::LoopTrips trips;
    {
      const std::lock_guard lock(state.mutex);
      state.expect_open();
      expect_given(filename, "the file's name");
      if (!profile() || profile()->file != filename)
        throw Refused{NRT_INVALID, fmt::format("no profile {} was started", filename)};
      const auto ended = *profile();
      profile().reset();
      model = ended.model.lock();
      if (!model || !ended.executed) throw Refused{NRT_INVALID, "the model was not executed since the start"};
      trips = model->trips;
    }
    opentrn::nrt::write_profile(filename, *model, trips);
  });
}

NRT_STATUS nrt_profile_continuous_options_allocate(nrt_profile_continuous_options_t** options) {
  return answer("nrt_profile_continuous_options_allocate", [&] {
    expect_given(options, "the place of the options");
    *options = new nrt_profile_continuous_options;
  });
}
NRT_STATUS nrt_profile_continuous_options_free(nrt_profile_continuous_options_t* options) {
  delete options;
  return NRT_SUCCESS;
}
NRT_STATUS nrt_profile_continuous_options_set_output_dir(nrt_profile_continuous_options_t* options,
                                                         const char* output_dir) {
  return answer("nrt_profile_continuous_options_set_output_dir", [&] {
    expect_given(options, "the options");
    if (output_dir == nullptr || *output_dir == 0) throw Refused{NRT_INVALID, "the folder has no name"};
    options->folder = output_dir;
  });
}
NRT_STATUS nrt_profile_continuous_start(nrt_profile_continuous_options_t*) {
  return with_state("nrt_profile_continuous_start", [&](State&) {
    if (continuous()) throw Refused{NRT_INVALID, "continuous profiling is under way"};
    if (opentrn::runtime::is_inspected())
      throw Refused{NRT_INVALID, "the process is inspected (nrt_inspect_begin, NEURON_RT_INSPECT_ENABLE)"};
    continuous().emplace();
  });
}
NRT_STATUS nrt_profile_continuous_save(uint32_t vnc, nrt_profile_continuous_options_t* options) {
  return answer("nrt_profile_continuous_save", [&] {
    State& state = State::instance();
    std::shared_ptr<nrt_model> model;
    opentrn::runtime::LoopTrips trips;
    std::string file;
    {
      const std::lock_guard lock(state.mutex);
      state.expect_open();
      if (!continuous()) throw Refused{NRT_INVALID, "continuous profiling was not started"};
      const size_t core = state.core_at(vnc);
      model = continuous()->last[core].lock();
      if (!model)
        throw Refused{NRT_INVALID, fmt::format("core {} has executed nothing since the start", core)};
      trips = model->trips;
      const std::string folder = options == nullptr ? "./output" : options->folder;
      file = opentrn::nrt::name_of_profile(folder, ++continuous()->saved, core);
    }
    opentrn::nrt::write_profile(file, *model, trips);
  });
}
NRT_STATUS nrt_profile_continuous_stop(void) {
  return with_state("nrt_profile_continuous_stop", [&](State&) {
    if (!continuous()) throw Refused{NRT_INVALID, "continuous profiling was not started"};
    continuous().reset();
  });
}

NRT_STATUS nrt_trace_start(bool trace_mem) {
  if (trace_mem)
    return opentrn::nrt::refused("nrt_trace_start", NRT_FAILURE,
                                 "OpenTrn does not have this: allocations are not events of a trace");
  return nrt_sys_trace_start(nullptr);
}
NRT_STATUS nrt_trace_stop(const char* filename) {
  return with_state("nrt_trace_stop", [&](State&) {
    expect_given(filename, "the file's name");
    if (!trace()) throw Refused{NRT_INVALID, "no trace is running"};
    std::ofstream out(filename, std::ios::binary);
    out << opentrn::nrt::taken_events(*trace(), UINT64_MAX, UINT64_MAX).dump() << '\n';
    out.close();
    if (!out) throw Refused{NRT_FAILURE, fmt::format("{} cannot be written", filename)};
    trace().reset();
  });
}

NRT_STATUS nrt_sys_trace_config_allocate(nrt_sys_trace_config_t** options) {
  return answer("nrt_sys_trace_config_allocate", [&] {
    expect_given(options, "the place of the options");
    *options = new nrt_sys_trace_config;
  });
}
void nrt_sys_trace_config_set_defaults(nrt_sys_trace_config_t* options) {
  if (options != nullptr) *options = {};
}
void nrt_sys_trace_config_free(nrt_sys_trace_config_t* options) { delete options; }
void nrt_sys_trace_config_set_max_events_per_nc(nrt_sys_trace_config_t* options, uint64_t count) {
  if (options != nullptr) options->events_max = std::max<uint64_t>(count, 1);
}
void nrt_sys_trace_config_set_capture_enabled_for_nc(nrt_sys_trace_config_t* options, uint32_t nc_idx,
                                                     bool enabled) {
  if (options == nullptr) return;
  if (enabled)
    options->without_cores.erase(nc_idx);
  else
    options->without_cores.insert(nc_idx);
}
NRT_STATUS nrt_sys_trace_config_set_capture_enabled_for_event_type(nrt_sys_trace_config_t* options,
                                                                   const char* event_type, bool enabled) {
  return answer("nrt_sys_trace_config_set_capture_enabled_for_event_type", [&] {
    expect_given(options, "the options");
    expect_given(event_type, "the event type");
    const auto& known = opentrn::nrt::kEventTypes;
    if (std::none_of(std::begin(known), std::end(known),
                     [&](const char* type) { return std::strcmp(type, event_type) == 0; }))
      throw Refused{NRT_INVALID,
                    fmt::format("no event type '{}'; there are {} and {}", event_type, known[0], known[1])};
    if (enabled)
      options->events.insert(event_type);
    else
      options->events.erase(event_type);
  });
}
NRT_STATUS nrt_sys_trace_get_event_types(const char*** event_types, size_t* count) {
  return answer("nrt_sys_trace_get_event_types",
                [&] { opentrn::nrt::give_strings(nrt_sys_trace_config{}.events, event_types, count); });
}
void nrt_sys_trace_free_event_types(const char** event_types, size_t count) {
  if (event_types == nullptr) return;
  for (size_t i = 0; i < count; ++i) std::free(const_cast<char*>(event_types[i]));  // NOLINT: of strdup
  std::free(static_cast<void*>(event_types));
}
NRT_STATUS nrt_sys_trace_config_get_enabled_event_types(nrt_sys_trace_config_t* options,
                                                        const char*** event_types, size_t* count) {
  return answer("nrt_sys_trace_config_get_enabled_event_types", [&] {
    expect_given(options, "the options");
    opentrn::nrt::give_strings(options->events, event_types, count);
  });
}

NRT_STATUS nrt_sys_trace_start(nrt_sys_trace_config_t* options) {
  return with_state("nrt_sys_trace_start", [&](State&) {
    if (trace()) throw Refused{NRT_INVALID, "a trace is running"};
    trace().emplace();
    if (options != nullptr) trace()->config = *options;
  });
}
NRT_STATUS nrt_sys_trace_stop(void) {
  return with_state("nrt_sys_trace_stop", [&](State&) {
    if (!trace()) throw Refused{NRT_INVALID, "no trace is running"};
    trace().reset();
  });
}

NRT_STATUS nrt_sys_trace_fetch_options_allocate(nrt_sys_trace_fetch_options_t** options) {
  return answer("nrt_sys_trace_fetch_options_allocate", [&] {
    expect_given(options, "the place of the options");
    *options = new nrt_sys_trace_fetch_options;
  });
}
void nrt_sys_trace_fetch_options_set_defaults(nrt_sys_trace_fetch_options_t* options) {
  if (options != nullptr) *options = {};
}
void nrt_sys_trace_fetch_options_free(nrt_sys_trace_fetch_options_t* options) { delete options; }
void nrt_sys_trace_fetch_options_set_max_events_per_nc(nrt_sys_trace_fetch_options_t* options,
                                                       uint64_t count) {
  if (options != nullptr) options->events_max = count;
}
void nrt_sys_trace_fetch_options_set_nc_idx(nrt_sys_trace_fetch_options_t* options, uint64_t nc_idx) {
  if (options != nullptr) options->core = nc_idx;
}
NRT_STATUS nrt_sys_trace_fetch_events(char** buffer, size_t* written_size,
                                      const nrt_sys_trace_fetch_options_t* options) {
  return with_state("nrt_sys_trace_fetch_events", [&](State&) {
    expect_given(buffer, "the place of the buffer");
    expect_given(written_size, "the place of the size");
    if (!trace()) throw Refused{NRT_INVALID, "no trace is running"};
    const nrt_sys_trace_fetch_options wanted = options == nullptr ? nrt_sys_trace_fetch_options{} : *options;
    const std::string text = opentrn::nrt::taken_events(*trace(), wanted.core, wanted.events_max).dump();
    char* copy = strdup(text.c_str());
    if (copy == nullptr) throw std::bad_alloc();
    *buffer = copy;
    *written_size = text.size();
  });
}
void nrt_sys_trace_buffer_free(char* buffer) { std::free(buffer); }

}  // extern "C"
