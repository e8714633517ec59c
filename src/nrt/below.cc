// Functions of published headers below nrt.h: of the driver (ndl_, nds_), of the collectives library (nec_)
// and of the debugger's stream. Each answers as those of AWS do where there is no device, and says what it
// is.
//
// Their parameters do not matter: nothing of a caller's is read. The headers themselves are not OpenTrn's to
// give.
#include "nrt/include/nrt/nrt.h"
#include "nrt/state.h"

namespace {

NRT_STATUS below(const char* function) {
  return opentrn::nrt::refused(function, NRT_FAILURE,
                               "OpenTrn does not have this: a simulated device has no driver below nrt.h");
}

}  // namespace

// int: -1, as of a call of the driver that fails; bool: false; a pointer: null; a size: 0.
#define OPENTRN_BELOW_INT(name) \
  int name(void) {              \
    below(#name);               \
    return -1;                  \
  }
#define OPENTRN_BELOW_STATUS(name) \
  NRT_STATUS name(void) { return below(#name); }
#define OPENTRN_BELOW_VOID(name) \
  void name(void) { below(#name); }
#define OPENTRN_BELOW_NULL(name) \
  void* name(void) {             \
    below(#name);                \
    return nullptr;              \
  }
#define OPENTRN_BELOW_BOOL(name) \
  bool name(void) {              \
    below(#name);                \
    return false;                \
  }
#define OPENTRN_BELOW_SIZE(name) \
  size_t name(void) {            \
    below(#name);                \
    return 0;                    \
  }

extern "C" {

// nrt/ndebug_stream.h
OPENTRN_BELOW_STATUS(nrt_debug_client_connect)
OPENTRN_BELOW_VOID(nrt_debug_client_connect_close)
OPENTRN_BELOW_STATUS(nrt_debug_client_read_one_event)

// nrt/nec.h
OPENTRN_BELOW_VOID(nec_inc_semaphore)
OPENTRN_BELOW_SIZE(nec_get_dynamic_send_size_bytes)
OPENTRN_BELOW_SIZE(nec_get_dynamic_send_offset_bytes)
OPENTRN_BELOW_SIZE(nec_get_dynamic_recv_offset_bytes)
OPENTRN_BELOW_VOID(nec_set_recv_size_bytes)
OPENTRN_BELOW_INT(nec_get_device_count)
OPENTRN_BELOW_INT(nec_get_device_pci_bdf)
OPENTRN_BELOW_STATUS(nec_get_virtual_core_size)
OPENTRN_BELOW_STATUS(nec_get_version_info)
OPENTRN_BELOW_STATUS(nec_build_port_and_rid_map)
OPENTRN_BELOW_BOOL(nec_is_mla_available)
OPENTRN_BELOW_INT(nec_mla_idx_to_rid)
OPENTRN_BELOW_INT(nec_rid_to_mla_idx)
OPENTRN_BELOW_INT(nec_get_peer_mla_idx)
OPENTRN_BELOW_INT(nec_get_p2p_pod_peer_node)
OPENTRN_BELOW_STATUS(nec_pod_node_can_access_peer_node)
OPENTRN_BELOW_VOID(nec_ndl_printk)

// nrt/nds/neuron_ds.h
OPENTRN_BELOW_INT(nds_open)
OPENTRN_BELOW_INT(nds_close)
OPENTRN_BELOW_INT(nds_increment_nc_counter)
OPENTRN_BELOW_INT(nds_decrement_nc_counter)
OPENTRN_BELOW_INT(nds_get_nc_counter)
OPENTRN_BELOW_INT(nds_set_nc_counter)
OPENTRN_BELOW_INT(nds_increment_nd_counter)
OPENTRN_BELOW_INT(nds_decrement_nd_counter)
OPENTRN_BELOW_INT(nds_or_nd_counter)
OPENTRN_BELOW_INT(nds_get_nd_counter)
OPENTRN_BELOW_INT(nds_set_nd_counter)
OPENTRN_BELOW_INT(nds_obj_commit)
OPENTRN_BELOW_NULL(nds_obj_new)
OPENTRN_BELOW_INT(nds_obj_delete)
OPENTRN_BELOW_NULL(nds_obj_handle_to_model_node_info)
OPENTRN_BELOW_NULL(nds_obj_handle_to_model_node_mem_usage)
OPENTRN_BELOW_INT(nds_read_all_model_nodes)
OPENTRN_BELOW_NULL(nds_obj_handle_to_process_info)
OPENTRN_BELOW_NULL(nds_obj_handle_to_process_info_ext)
OPENTRN_BELOW_NULL(nds_read_process_info)
OPENTRN_BELOW_NULL(nds_read_process_info_ext)

// ndl/ndl.h
OPENTRN_BELOW_INT(ndl_get_version)
OPENTRN_BELOW_INT(ndl_get_compatible_version)
OPENTRN_BELOW_INT(ndl_open_device)
OPENTRN_BELOW_INT(ndl_close_device)
OPENTRN_BELOW_INT(ndl_available_devices)
OPENTRN_BELOW_INT(ndl_bar_read)
OPENTRN_BELOW_INT(ndl_bar_write)
OPENTRN_BELOW_INT(ndl_read_hw_counters)
OPENTRN_BELOW_INT(ndl_get_hbm_va)
OPENTRN_BELOW_INT(ndl_memory_alloc)
OPENTRN_BELOW_INT(ndl_memory_get_pa)
OPENTRN_BELOW_INT(ndl_memory_map)
OPENTRN_BELOW_INT(ndl_memory_unmap)
OPENTRN_BELOW_INT(ndl_memory_free)
OPENTRN_BELOW_INT(ndl_memory_buf_copyin)
OPENTRN_BELOW_INT(ndl_memory_buf_copyout)
OPENTRN_BELOW_INT(ndl_memory_buf_zerocopyin)
OPENTRN_BELOW_INT(ndl_memory_buf_zerocopyout)
OPENTRN_BELOW_INT(ndl_memory_buf_batch_copy)
OPENTRN_BELOW_INT(ndl_program_engine)
OPENTRN_BELOW_INT(ndl_memset)
OPENTRN_BELOW_INT(ndl_memory_copy)
OPENTRN_BELOW_INT(ndl_memory_copy_as)
OPENTRN_BELOW_INT(ndl_memory_copy_as_wait)
OPENTRN_BELOW_INT(ndl_dma_eng_set_state)
OPENTRN_BELOW_INT(ndl_dma_eng_get_state)
OPENTRN_BELOW_INT(ndl_dma_queue_get_state)
OPENTRN_BELOW_INT(ndl_dma_descriptor_copyout)
OPENTRN_BELOW_INT(ndl_dma_queue_init)
OPENTRN_BELOW_INT(ndl_dma_queue_init_batch)
OPENTRN_BELOW_INT(ndl_dma_queue_release)
OPENTRN_BELOW_INT(ndl_dma_queue_copy_start)
OPENTRN_BELOW_INT(ndl_dma_ack_completed_desc)
OPENTRN_BELOW_INT(ndl_dma_copy_descriptors)
OPENTRN_BELOW_INT(ndl_reset_ncs)
OPENTRN_BELOW_INT(ndl_register_soft_incompat_callback)
OPENTRN_BELOW_INT(ndl_ready_ncs)
OPENTRN_BELOW_INT(ndl_get_all_apps_info)
OPENTRN_BELOW_INT(ndl_nc_semaphore_increment)
OPENTRN_BELOW_INT(ndl_nc_semaphore_decrement)
OPENTRN_BELOW_INT(ndl_nc_semaphore_read)
OPENTRN_BELOW_INT(ndl_nc_semaphore_write)
OPENTRN_BELOW_INT(ndl_nc_event_get)
OPENTRN_BELOW_INT(ndl_nc_event_set)
OPENTRN_BELOW_INT(ndl_notification_init)
OPENTRN_BELOW_INT(ndl_notification_init_with_realloc)
OPENTRN_BELOW_INT(ndl_notification_get_mem_handle)
OPENTRN_BELOW_INT(ndl_notification_get_size)
OPENTRN_BELOW_INT(ndl_notification_map)
OPENTRN_BELOW_INT(ndl_notification_destroy)
OPENTRN_BELOW_INT(ndl_nds_open)
OPENTRN_BELOW_INT(ndl_nds_close)
OPENTRN_BELOW_INT(ndl_crwl_reader_enter)
OPENTRN_BELOW_INT(ndl_crwl_reader_exit)
OPENTRN_BELOW_INT(ndl_crwl_writer_enter)
OPENTRN_BELOW_INT(ndl_crwl_writer_downgrade)
OPENTRN_BELOW_INT(ndl_crwl_nc_range_mark)
OPENTRN_BELOW_INT(ndl_crwl_nc_range_unmark)
OPENTRN_BELOW_INT(ndl_get_copy_buf)
OPENTRN_BELOW_INT(ndl_nc_init_set_state)
OPENTRN_BELOW_INT(ndl_nc_model_started_count)
OPENTRN_BELOW_INT(ndl_get_board_info)
OPENTRN_BELOW_INT(ndl_get_device_bdf)
OPENTRN_BELOW_INT(ndl_get_dmabuf_fd)
OPENTRN_BELOW_INT(ndl_get_device_bdf_ext)
OPENTRN_BELOW_INT(ndl_mem_get_mc_mmap_info)
OPENTRN_BELOW_INT(ndl_mmap_bar_region)
OPENTRN_BELOW_VOID(ndl_device_cached_fd_close_all)
OPENTRN_BELOW_INT(ndl_printk)
OPENTRN_BELOW_INT(ndl_get_host_device_id)
OPENTRN_BELOW_INT(ndl_get_host_device_id_to_rid_map)
OPENTRN_BELOW_INT(ndl_dump_device_allocation_info)
OPENTRN_BELOW_INT(ndl_dump_nc_pid_info)
OPENTRN_BELOW_INT(ndl_hbm_scrub_start)
OPENTRN_BELOW_INT(ndl_hbm_scrub_wait)
OPENTRN_BELOW_INT(ndl_get_logical_to_physical_nc_map)
OPENTRN_BELOW_INT(ndl_pod_info)
OPENTRN_BELOW_INT(ndl_pod_election_state)
OPENTRN_BELOW_INT(ndl_pod_mapping_info)
OPENTRN_BELOW_INT(ndl_pod_status)
OPENTRN_BELOW_INT(ndl_pod_ctrl)
OPENTRN_BELOW_INT(ndl_alloc_contiguous_scratchpad)
OPENTRN_BELOW_INT(ndl_memory_map_contiguous_scratchpad)
OPENTRN_BELOW_INT(ndl_set_performance_profile)
OPENTRN_BELOW_INT(ndl_enable_throttling_notifications)
OPENTRN_BELOW_BOOL(ndl_feature_supported)
OPENTRN_BELOW_INT(ndl_h2t_dma_queue_alloc)
OPENTRN_BELOW_INT(ndl_h2t_dma_queue_free)
OPENTRN_BELOW_INT(ndl_metrics_ctrl)
OPENTRN_BELOW_INT(ndl_get_va_placement)

}  // extern "C"
