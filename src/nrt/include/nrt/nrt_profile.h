/* Profiles of executions, in predicted time. Names: nrt_status.h says of what.
 *
 * AWS's NTFF is not documented. What is written here is a trace in Chrome's JSON, which ui.perfetto.dev and
 * `neuron-explorer view` of OpenTrn open, whatever the file is called. */
#pragma once

#include "nrt/nrt.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One model at a time: NRT_INVALID while another one is profiled. */
NRT_STATUS nrt_profile_start(nrt_model_t* model, const char* filename);
/* Writes the timeline of the last execution since the start. NRT_INVALID where nothing was started or
 * executed under this file name, NRT_FAILURE where the file cannot be written or the timing model cannot
 * tell. */
NRT_STATUS nrt_profile_stop(const char* filename);

/* Between start and stop, save() writes the timeline of the model that a core executed last, into the folder
 * of the options it is given (./output without any). NRT_INVALID where nothing was started, or executed, or
 * the process is inspected. */
typedef struct nrt_profile_continuous_options nrt_profile_continuous_options_t;
NRT_STATUS nrt_profile_continuous_options_allocate(nrt_profile_continuous_options_t** options);
NRT_STATUS nrt_profile_continuous_options_free(nrt_profile_continuous_options_t* options);
NRT_STATUS nrt_profile_continuous_options_set_output_dir(nrt_profile_continuous_options_t* options,
                                                         const char* output_dir);
NRT_STATUS nrt_profile_continuous_start(nrt_profile_continuous_options_t* options);
NRT_STATUS nrt_profile_continuous_save(uint32_t vnc, nrt_profile_continuous_options_t* options);
NRT_STATUS nrt_profile_continuous_stop(void);

/* What the whole process executes between begin and stop, written into FOLDER/..._pid_PID at stop: events,
 * host memory and CPU time as JSON, and each program's predicted timeline. nrt_inspect_begin() reads the
 * variables NEURON_RT_INSPECT_*, and is NRT_INVALID where NEURON_RT_INSPECT_ENABLE is not 1. The defaults of
 * the options record nothing until nrt_inspect_config_set_enable_inspect() or ..._on_fail() says so. */
typedef struct nrt_inspect_config nrt_inspect_config_t;
NRT_STATUS nrt_inspect_begin(void);
NRT_STATUS nrt_inspect_stop(void);
NRT_STATUS nrt_inspect_config_allocate(nrt_inspect_config_t** options);
NRT_STATUS nrt_inspect_config_set_defaults(nrt_inspect_config_t* options);
NRT_STATUS nrt_inspect_config_free(nrt_inspect_config_t* options);
NRT_STATUS nrt_inspect_config_set_session_id(nrt_inspect_config_t* options, int session_id);
NRT_STATUS nrt_inspect_config_set_output_dir(nrt_inspect_config_t* options, const char* output_dir);
NRT_STATUS nrt_inspect_config_set_sys_trace_max_events_per_nc(nrt_inspect_config_t* options,
                                                              uint64_t sys_trace_max_events_per_nc);
NRT_STATUS nrt_inspect_config_set_capture_enabled_for_nc(nrt_inspect_config_t* options, uint32_t nc_idx,
                                                         bool enabled);
NRT_STATUS nrt_inspect_config_set_capture_enabled_for_event_type_string(nrt_inspect_config_t* options,
                                                                        const char* event_type, bool enabled);
NRT_STATUS nrt_inspect_config_set_enable_inspect(nrt_inspect_config_t* options, bool enable_inspect);
NRT_STATUS nrt_inspect_config_set_enable_inspect_on_fail(nrt_inspect_config_t* options,
                                                         bool enable_inspect_on_fail);
NRT_STATUS nrt_inspect_begin_with_options(nrt_inspect_config_t* options);
NRT_STATUS nrt_inspect_config_get_all_activity_types(const char*** activity_types, size_t* count);
NRT_STATUS nrt_inspect_config_get_enabled_activity_types(nrt_inspect_config_t* options,
                                                         const char*** activity_types, size_t* count);
void nrt_inspect_config_free_activity_types(const char** activity_types, size_t count);
NRT_STATUS nrt_inspect_config_set_activity(nrt_inspect_config_t* options, const char* activity_type,
                                           bool enabled);

#ifdef __cplusplus
}
#endif
