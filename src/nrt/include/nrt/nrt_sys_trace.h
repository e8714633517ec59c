/* Events of executions as JSON. Names: nrt_status.h says of what.
 *
 * Two event types are recorded, each with a start and a stop: "nrt_execute", on this host's clock, and
 * "nc_exec_running", whose data.nc_timestamp_ns is the simulated core's clock: predicted time, which stands
 * still between executions. */
#pragma once

#include "nrt/nrt.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct nrt_sys_trace_config nrt_sys_trace_config_t;
/* All cores, all events, at most 1,000,000 events a core. Needs no nrt_init(). */
NRT_STATUS nrt_sys_trace_config_allocate(nrt_sys_trace_config_t** options);
void nrt_sys_trace_config_set_defaults(nrt_sys_trace_config_t* options);
void nrt_sys_trace_config_free(nrt_sys_trace_config_t* options);
void nrt_sys_trace_config_set_max_events_per_nc(nrt_sys_trace_config_t* options, uint64_t max_events_per_nc);
void nrt_sys_trace_config_set_capture_enabled_for_nc(nrt_sys_trace_config_t* options, uint32_t nc_idx,
                                                     bool enabled);
/* NRT_INVALID for an event type that nrt_sys_trace_get_event_types() does not name. */
NRT_STATUS nrt_sys_trace_config_set_capture_enabled_for_event_type(nrt_sys_trace_config_t* options,
                                                                   const char* event_type, bool enabled);
/* The array and its strings are the caller's. */
NRT_STATUS nrt_sys_trace_get_event_types(const char*** event_types, size_t* count);
void nrt_sys_trace_free_event_types(const char** event_types, size_t count);
NRT_STATUS nrt_sys_trace_config_get_enabled_event_types(nrt_sys_trace_config_t* options,
                                                        const char*** event_types, size_t* count);
/* NRT_INVALID while one runs. */
NRT_STATUS nrt_sys_trace_start(nrt_sys_trace_config_t* options);
NRT_STATUS nrt_sys_trace_stop(void);

typedef struct nrt_sys_trace_fetch_options nrt_sys_trace_fetch_options_t;
NRT_STATUS nrt_sys_trace_fetch_options_allocate(nrt_sys_trace_fetch_options_t** options);
void nrt_sys_trace_fetch_options_set_defaults(nrt_sys_trace_fetch_options_t* options);
void nrt_sys_trace_fetch_options_free(nrt_sys_trace_fetch_options_t* options);
void nrt_sys_trace_fetch_options_set_max_events_per_nc(nrt_sys_trace_fetch_options_t* options,
                                                       uint64_t max_events_per_nc);
void nrt_sys_trace_fetch_options_set_nc_idx(nrt_sys_trace_fetch_options_t* options, uint64_t nc_idx);
/* {"events": [...]}, terminated by a zero byte that *written_size does not count; each event once. Null
 * options: all cores. NRT_INVALID where no trace was started. */
NRT_STATUS nrt_sys_trace_fetch_events(char** buffer, size_t* written_size,
                                      const nrt_sys_trace_fetch_options_t* options);
void nrt_sys_trace_buffer_free(char* buffer);

#ifdef __cplusplus
}
#endif
