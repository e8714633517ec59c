// nrt_inspect_*: profiles of everything that the process executes (runtime/inspect.h).
#include <cstdlib>
#include <cstring>
#include <limits>

#include <fmt/format.h>

#include "base/fault.h"
#include "nrt/include/nrt/nrt_profile.h"
#include "nrt/state.h"
#include "runtime/inspect.h"

struct nrt_inspect_config {
  opentrn::runtime::InspectOptions options;
  std::set<uint32_t> without_cores;  // by their index among the visible ones
};

namespace opentrn::nrt {

namespace {

// In AWS's order.
constexpr const char* kActivities[] = {"system_profile", "device_profile", "host_memory", "cpu_util"};

bool& activity_of(runtime::InspectOptions& options, std::string_view name) {
  if (name == kActivities[0]) return options.system_profile;
  if (name == kActivities[1]) return options.device_profile;
  if (name == kActivities[2]) return options.host_memory;
  if (name == kActivities[3]) return options.cpu_util;
  throw Refused{NRT_INVALID, fmt::format("no activity '{}'; there are system_profile, device_profile, "
                                         "host_memory, cpu_util and all",
                                         name)};
}

void set_defaults(nrt_inspect_config& config) {
  config = {};
  config.options.normal = config.options.on_fail = false;
  config.options.events = runtime::inspect_event_types();
}

// `body` on options that are there.
template <typename Body>
NRT_STATUS with_config(const char* function, nrt_inspect_config* config, Body&& body) {
  return answer(function, [&] {
    expect_given(config, "the options");
    body(*config);
  });
}

void give_activities(nrt_inspect_config& config, bool all, const char*** types, size_t* count) {
  expect_given(types, "the place of the names");
  expect_given(count, "the place of the count");
  auto** array = static_cast<const char**>(std::malloc(std::size(kActivities) * sizeof(char*)));
  if (array == nullptr) throw std::bad_alloc();
  size_t found = 0;
  for (const char* name : kActivities)
    if (all || activity_of(config.options, name)) array[found++] = strdup(name);
  *types = array;
  *count = found;
}

// The options with the cores that are left, by their numbers on the machine.
runtime::InspectOptions resolved(const nrt_inspect_config& config) {
  runtime::InspectOptions options = config.options;
  if (config.without_cores.empty()) return options;
  const std::vector<int> cores = machine_of_environment().settings.cores;
  for (size_t i = 0; i < cores.size(); ++i)
    if (!config.without_cores.contains(static_cast<uint32_t>(i)))
      options.cores.insert(static_cast<uint32_t>(cores[i]));
  // No core at all: the set must not be empty, which would mean all.
  if (options.cores.empty()) options.cores.insert(std::numeric_limits<uint32_t>::max());
  return options;
}

std::optional<std::string> nrt_variable(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == 0) return std::nullopt;
  return value;
}

}  // namespace

}  // namespace opentrn::nrt

using opentrn::nrt::Refused;
using opentrn::nrt::with_config;

extern "C" {

NRT_STATUS nrt_inspect_begin(void) {
  return opentrn::nrt::answer("nrt_inspect_begin", [] {
    const auto options = opentrn::runtime::read_inspect_options(opentrn::nrt::nrt_variable);
    if (!options) throw Refused{NRT_INVALID, "NEURON_RT_INSPECT_ENABLE is not 1"};
    if (!opentrn::runtime::is_inspected()) opentrn::runtime::begin_inspection(*options);
  });
}
NRT_STATUS nrt_inspect_begin_with_options(nrt_inspect_config_t* options) {
  return opentrn::nrt::answer("nrt_inspect_begin_with_options", [&] {
    nrt_inspect_config config;
    opentrn::nrt::set_defaults(config);
    opentrn::runtime::begin_inspection(opentrn::nrt::resolved(options == nullptr ? config : *options));
  });
}
NRT_STATUS nrt_inspect_stop(void) {
  return opentrn::nrt::answer("nrt_inspect_stop", [] { opentrn::runtime::end_inspection(); });
}

NRT_STATUS nrt_inspect_config_allocate(nrt_inspect_config_t** options) {
  return opentrn::nrt::answer("nrt_inspect_config_allocate", [&] {
    opentrn::nrt::expect_given(options, "the place of the options");
    auto made = std::make_unique<nrt_inspect_config>();
    opentrn::nrt::set_defaults(*made);
    *options = made.release();
  });
}
NRT_STATUS nrt_inspect_config_set_defaults(nrt_inspect_config_t* options) {
  return with_config("nrt_inspect_config_set_defaults", options, opentrn::nrt::set_defaults);
}
NRT_STATUS nrt_inspect_config_free(nrt_inspect_config_t* options) {
  delete options;
  return NRT_SUCCESS;
}
NRT_STATUS nrt_inspect_config_set_session_id(nrt_inspect_config_t* options, int session_id) {
  return with_config("nrt_inspect_config_set_session_id", options,
                     [&](nrt_inspect_config& config) { config.options.session = session_id; });
}
NRT_STATUS nrt_inspect_config_set_output_dir(nrt_inspect_config_t* options, const char* output_dir) {
  return with_config("nrt_inspect_config_set_output_dir", options, [&](nrt_inspect_config& config) {
    if (output_dir == nullptr || *output_dir == 0) throw Refused{NRT_INVALID, "the folder has no name"};
    config.options.folder = output_dir;
  });
}
NRT_STATUS nrt_inspect_config_set_sys_trace_max_events_per_nc(nrt_inspect_config_t* options,
                                                              uint64_t sys_trace_max_events_per_nc) {
  return with_config("nrt_inspect_config_set_sys_trace_max_events_per_nc", options,
                     [&](nrt_inspect_config& config) {
                       if (sys_trace_max_events_per_nc == 0) throw Refused{NRT_INVALID, "0 events"};
                       config.options.events_max = sys_trace_max_events_per_nc;
                     });
}
NRT_STATUS nrt_inspect_config_set_capture_enabled_for_nc(nrt_inspect_config_t* options, uint32_t nc_idx,
                                                         bool enabled) {
  return with_config("nrt_inspect_config_set_capture_enabled_for_nc", options,
                     [&](nrt_inspect_config& config) {
                       if (enabled)
                         config.without_cores.erase(nc_idx);
                       else
                         config.without_cores.insert(nc_idx);
                     });
}
NRT_STATUS nrt_inspect_config_set_capture_enabled_for_event_type_string(nrt_inspect_config_t* options,
                                                                        const char* event_type,
                                                                        bool enabled) {
  return with_config("nrt_inspect_config_set_capture_enabled_for_event_type_string", options,
                     [&](nrt_inspect_config& config) {
                       opentrn::nrt::expect_given(event_type, "the event type");
                       if (!opentrn::runtime::inspect_event_types().contains(event_type))
                         throw Refused{NRT_INVALID, fmt::format("no event type '{}'", event_type)};
                       if (enabled)
                         config.options.events.insert(event_type);
                       else
                         config.options.events.erase(event_type);
                     });
}
NRT_STATUS nrt_inspect_config_set_enable_inspect(nrt_inspect_config_t* options, bool enable_inspect) {
  return with_config("nrt_inspect_config_set_enable_inspect", options,
                     [&](nrt_inspect_config& config) { config.options.normal = enable_inspect; });
}
NRT_STATUS nrt_inspect_config_set_enable_inspect_on_fail(nrt_inspect_config_t* options,
                                                         bool enable_inspect_on_fail) {
  return with_config("nrt_inspect_config_set_enable_inspect_on_fail", options,
                     [&](nrt_inspect_config& config) { config.options.on_fail = enable_inspect_on_fail; });
}
NRT_STATUS nrt_inspect_config_get_all_activity_types(const char*** activity_types, size_t* count) {
  return opentrn::nrt::answer("nrt_inspect_config_get_all_activity_types", [&] {
    nrt_inspect_config config;
    opentrn::nrt::give_activities(config, true, activity_types, count);
  });
}
NRT_STATUS nrt_inspect_config_get_enabled_activity_types(nrt_inspect_config_t* options,
                                                         const char*** activity_types, size_t* count) {
  return with_config("nrt_inspect_config_get_enabled_activity_types", options,
                     [&](nrt_inspect_config& config) {
                       opentrn::nrt::give_activities(config, false, activity_types, count);
                     });
}
void nrt_inspect_config_free_activity_types(const char** activity_types, size_t count) {
  if (activity_types == nullptr) return;
  for (size_t i = 0; i < count; ++i) std::free(const_cast<char*>(activity_types[i]));  // NOLINT: of strdup
  std::free(static_cast<void*>(activity_types));
}
NRT_STATUS nrt_inspect_config_set_activity(nrt_inspect_config_t* options, const char* activity_type,
                                           bool enabled) {
  return with_config("nrt_inspect_config_set_activity", options, [&](nrt_inspect_config& config) {
    opentrn::nrt::expect_given(activity_type, "the activity");
    for (const char* name : opentrn::nrt::kActivities)
      if (std::strcmp(activity_type, "all") == 0) opentrn::nrt::activity_of(config.options, name) = enabled;
    if (std::strcmp(activity_type, "all") != 0)
      opentrn::nrt::activity_of(config.options, activity_type) = enabled;
  });
}

}  // extern "C"
