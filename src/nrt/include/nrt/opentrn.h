/* What libnrt of OpenTrn has beyond AWS's: why a call did not succeed, and what an execution is predicted to
 * take. */
#pragma once

#include "nrt/nrt.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Of this thread's last call that did not succeed; "" before one. Good until its next such call. The same
 * text goes to standard error, unless NEURON_RT_LOG_LEVEL is NONE. */
const char* opentrn_nrt_last_message(void);

/* Of the model's last execution, in nanoseconds on the device. NRT_INVALID before one, NRT_FAILURE where the
 * timing model cannot tell. The first call for a program runs the timing model. */
NRT_STATUS opentrn_nrt_predicted_ns(nrt_model_t* model, double* nanoseconds);

#ifdef __cplusplus
}
#endif
