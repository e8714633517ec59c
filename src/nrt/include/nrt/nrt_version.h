/* Which library this is. Names and layout: nrt_status.h says of what. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "nrt/nrt_status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define RT_VERSION_DETAIL_LEN 128
#define GIT_HASH_LEN 64

typedef struct nrt_version {
  uint64_t rt_major, rt_minor, rt_patch; /* OpenTrn's own */
  uint64_t rt_maintenance;               /* 0 */
  char rt_detail[RT_VERSION_DETAIL_LEN]; /* "OpenTrn 0.3.0: a simulated Neuron device" */
  char git_hash[GIT_HASH_LEN];           /* empty */
} nrt_version_t;

/* Needs no nrt_init(). `size`: sizeof the caller's structure, which is filled as far as it goes. */
NRT_STATUS nrt_get_version(nrt_version_t* ver, size_t size);

#ifdef __cplusplus
}
#endif
