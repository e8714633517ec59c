/* What AWS's library of collectives asks the runtime. OpenTrn's own text; names and layouts: nrt_status.h
 * says of what.
 *
 * Here is what these functions take. AWS's header also has the structures that its runtime and its library of
 * collectives share, which nothing of OpenTrn's reads. nec_dev_id and "mla" are a device's number; "rid" is
 * its routing number, which is the same here (ndl/ndl.h). A call that fails is -1, false or a status. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nrt/nrt_status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum nec_pod_type {
  NEC_POD_TYPE_NONE,
  NEC_POD_TYPE_P2P,
  NEC_POD_TYPE_SWITCH,
  NEC_POD_TYPE_INVALID
} nec_pod_type_t;

typedef uint64_t dma_addr_t;

typedef struct enc_host_mem {
  void* mem_handle;
  void* va;
  dma_addr_t pa;
  size_t size;
} enc_host_mem_t;

/* Refused, all five: they are of the thread that sends what a collective inside of a program has ready. */
void nec_inc_semaphore(volatile uint32_t* sem_inc_addr, uint32_t val);
size_t nec_get_dynamic_send_size_bytes(enc_host_mem_t* dyn_input, size_t data_type_sz, int dst_rank,
                                       int rank_n);
size_t nec_get_dynamic_send_offset_bytes(enc_host_mem_t* dyn_input, size_t data_type_sz, int dst_rank,
                                         int rank_n);
size_t nec_get_dynamic_recv_offset_bytes(enc_host_mem_t* dyn_input, size_t data_type_sz, int src_rank,
                                         int rank_n);
void nec_set_recv_size_bytes(enc_host_mem_t* dyn_input, size_t recv_size_bytes, size_t data_type_sz,
                             int src_rank, int rank_n);

/* How many devices there are; their numbers as far as the array goes. */
int nec_get_device_count(int* available_devices_array, uint32_t array_size);
/* 0, or -1 where no page of AWS's tells it. */
int nec_get_device_pci_bdf(int neuron_dev, uint32_t* domain, uint32_t* bus_num, uint8_t* pci_slot,
                           uint8_t* dev_func);
/* Physical cores of a logical one. */
NRT_STATUS nec_get_virtual_core_size(uint32_t* virtual_core_size);

typedef struct nec_version_info {
  uint64_t major;
  uint64_t minor;
  uint64_t patch;
  uint64_t maintenance;
  char git_hash[16];
  uint64_t compatibility_version;
  __extension__ uint8_t future_fields[];
} nec_version_info_t;
/* OpenTrn's version; git_hash is empty, maintenance and compatibility_version are 0. */
NRT_STATUS nec_get_version_info(nec_version_info_t* version_info);

/* Which device each mla index is, for the three functions below, which know of no other. Ports are not
 * mapped.
 */
NRT_STATUS nec_build_port_and_rid_map(int local_nec_dev_id, int* mla_indexes, int* host_device_ids,
                                      int count);
bool nec_is_mla_available(int local_nec_dev_id, int mla_idx);
int nec_mla_idx_to_rid(int local_nec_dev_id, int mla_idx);
int nec_rid_to_mla_idx(int local_nec_dev_id, int rid);

/* Refused: which port of a device leads where is not published. */
int nec_get_peer_mla_idx(int local_nec_dev_id, int mla_idx, int port);
int nec_get_p2p_pod_peer_node(uint32_t nec_dev_id, int node, uint32_t port_distance, int* peer_node);
/* Refused: which devices of an UltraServer's servers see each other is not published. */
NRT_STATUS nec_pod_node_can_access_peer_node(nec_pod_type_t pod_type, uint32_t local_rid,
                                             uint32_t local_node_id, uint32_t remote_rid,
                                             uint32_t remote_node_id, int* can_access_peer);

/* ndl_printk(). */
void nec_ndl_printk(char* str, uint32_t size, uint32_t action);

#ifdef __cplusplus
}
#endif
