// Memory of the driver's library: allocations by handle, copies, and where they lie.
#include <cstring>

#include <fmt/format.h>

#include "nrt/driver.h"

namespace opentrn::nrt {

namespace {

int give_memory(const char* function, ndl_device_t* device, const Wanted& wanted,
                uint64_t* mem_handle) noexcept {
  return drive(function, [&] {
    expect_place(mem_handle, "the place of the handle");
    Driver& driver = Driver::instance();
    const std::lock_guard lock(driver.mutex);
    *mem_handle = allocate(driver, driver.device_at(device), wanted);
  });
}

void expect_queue(int qid) {
  if (qid != NEURON_DMA_H2T_DEFAULT_QID)
    throw Failed{
        EINVAL, fmt::format("queue {}: there is the default one alone, {}", qid, NEURON_DMA_H2T_DEFAULT_QID)};
}

int copy_in(const char* function, uint64_t handle, const void* buffer, uint64_t offset, size_t size,
            int qid) noexcept {
  return drive(function, [&] {
    expect_queue(qid);
    const auto memory = memory_of(handle);
    std::byte* to = range_of(*memory, offset, size);
    if (size == 0) return;
    expect_place(buffer, "the buffer");
    std::memmove(to, buffer, size);
  });
}

int copy_out(const char* function, uint64_t handle, void* buffer, uint64_t offset, size_t size,
             int qid) noexcept {
  return drive(function, [&] {
    expect_queue(qid);
    const auto memory = memory_of(handle);
    const std::byte* from = range_of(*memory, offset, size);
    if (size == 0) return;
    expect_place(buffer, "the buffer");
    std::memmove(buffer, from, size);
  });
}

void copy(uint64_t source, uint64_t destination, uint64_t from, uint64_t to, size_t size) {
  const auto first = memory_of(source), second = memory_of(destination);
  const std::byte* begin = range_of(*first, from, size);
  std::memmove(range_of(*second, to, size), begin, size);
}

// All are looked at before the first byte moves.
void copy_batches(const neuron_memcpy_batch_t* batches, uint64_t count, bool reads) {
  std::vector<std::shared_ptr<Allocation>> memories;
  for (uint64_t i = 0; i < count; ++i) {
    const neuron_memcpy_batch_t& batch = batches[i];
    memories.push_back(memory_of(batch.mem_handle));
    range_of(*memories.back(), batch.mem_handle_offset, 0);
    const uint64_t left = memories.back()->face.size - batch.mem_handle_offset;
    if (batch.num_ops > 0) expect_place(batch.ops_ptr, "the array of operations");
    for (uint32_t j = 0; j < batch.num_ops; ++j) {
      const nrt_tensor_batch_op_t& op = batch.ops_ptr[j];
      if (op.offset > left)
        throw Failed{EINVAL, fmt::format("an operation at {} of {} bytes", op.offset, left)};
      range_of(*memories.back(), batch.mem_handle_offset + op.offset, op.size);
      if (op.size > 0) expect_place(op.buffer, "a buffer");
    }
  }
  for (uint64_t i = 0; i < count; ++i)
    for (uint32_t j = 0; j < batches[i].num_ops; ++j) {
      const nrt_tensor_batch_op_t& op = batches[i].ops_ptr[j];
      std::byte* at = memories[i]->data + batches[i].mem_handle_offset + op.offset;
      if (op.size == 0) continue;
      if (reads)
        std::memmove(op.buffer, at, op.size);
      else
        std::memmove(at, op.buffer, op.size);
    }
}

void map_memory(uint64_t handle, void** va) {
  expect_place(va, "the place of the address");
  Driver& driver = Driver::instance();
  const std::lock_guard lock(driver.mutex);
  const auto memory = driver.memory_at(handle);
  memory->face.mmap_va = memory->data;
  *va = memory->data;
}

}  // namespace

}  // namespace opentrn::nrt

using opentrn::nrt::drive;
using opentrn::nrt::Driver;
using opentrn::nrt::expect_place;
using opentrn::nrt::Failed;

extern "C" {

int ndl_memory_alloc(ndl_device_t* device, size_t size, uint64_t align, uint32_t host_memory,
                     uint32_t dram_channel, uint32_t dram_region, uint32_t nc_id, uint32_t mem_alloc_type,
                     uint64_t* mem_handle) {
  return opentrn::nrt::give_memory(
      "ndl_memory_alloc", device,
      {size, align, host_memory != 0, dram_channel, dram_region, nc_id, mem_alloc_type}, mem_handle);
}

int ndl_alloc_contiguous_scratchpad(ndl_device_t* device, uint64_t size, uint32_t hbm_index, uint32_t nc_id,
                                    uint64_t* mem_handle) {
  return opentrn::nrt::give_memory(
      "ndl_alloc_contiguous_scratchpad", device,
      {size, 0, false, hbm_index, 0, nc_id, NEURON_MEMALLOC_TYPE_CONTIGUOUS_SCRATCHPAD_DEVICE}, mem_handle);
}

int ndl_memory_get_pa(uint64_t mem_handle, uint64_t* pa) {
  return drive("ndl_memory_get_pa", [&] {
    expect_place(pa, "the place of the address");
    *pa = opentrn::nrt::memory_of(mem_handle)->face.pa;
  });
}

int ndl_memory_map(uint64_t mem_handle, void** va) {
  return drive("ndl_memory_map", [&] { opentrn::nrt::map_memory(mem_handle, va); });
}

int ndl_memory_map_contiguous_scratchpad(uint64_t mem_handle, void** va, uint64_t size) {
  return drive("ndl_memory_map_contiguous_scratchpad", [&] {
    opentrn::nrt::range_of(*opentrn::nrt::memory_of(mem_handle), 0, size);
    opentrn::nrt::map_memory(mem_handle, va);
  });
}

int ndl_memory_unmap(uint64_t mem_handle) {
  return drive("ndl_memory_unmap", [&] {
    Driver& driver = Driver::instance();
    const std::lock_guard lock(driver.mutex);
    const auto memory = driver.memory_at(mem_handle);
    if (memory->face.mmap_va == nullptr) throw Failed{EINVAL, "the memory is not mapped"};
    memory->face.mmap_va = nullptr;
  });
}

int ndl_memory_free(uint64_t mem_handle) {
  return drive("ndl_memory_free", [&] {
    Driver& driver = Driver::instance();
    const std::lock_guard lock(driver.mutex);
    const auto memory = driver.memory_at(mem_handle);
    for (const ndl_copy_buf_t& buffer : memory->face.device->cpy_bufs)
      if (buffer.mem_handle == mem_handle)
        throw Failed{EINVAL,
                     "this is the buffer of ndl_get_copy_buf(), which stays until the device is closed"};
    driver.memories.erase(mem_handle);
  });
}

int ndl_memory_buf_copyin(uint64_t mem_handle, void* buffer, uint64_t offset, size_t size) {
  return opentrn::nrt::copy_in("ndl_memory_buf_copyin", mem_handle, buffer, offset, size,
                               NEURON_DMA_H2T_DEFAULT_QID);
}
int ndl_memory_buf_copyout(uint64_t mem_handle, void* buffer, uint64_t offset, size_t size) {
  return opentrn::nrt::copy_out("ndl_memory_buf_copyout", mem_handle, buffer, offset, size,
                                NEURON_DMA_H2T_DEFAULT_QID);
}
// Which writes go by BAR 4 is a question of speed, and there is no BAR.
int ndl_memory_buf_zerocopyin(uint64_t mem_handle, void* buffer, uint64_t offset, size_t size, int qid,
                              uint32_t /*bar4_wr_threshold*/) {
  return opentrn::nrt::copy_in("ndl_memory_buf_zerocopyin", mem_handle, buffer, offset, size, qid);
}
int ndl_memory_buf_zerocopyout(uint64_t mem_handle, void* buffer, uint64_t offset, size_t size, int qid) {
  return opentrn::nrt::copy_out("ndl_memory_buf_zerocopyout", mem_handle, buffer, offset, size, qid);
}

int ndl_memory_buf_batch_copy(neuron_memcpy_batch_t* batches, uint64_t num_batches, uint32_t direction,
                              int qid) {
  return drive("ndl_memory_buf_batch_copy", [&] {
    opentrn::nrt::expect_queue(qid);
    if (direction > 1)
      throw Failed{EINVAL, fmt::format("direction {}: 0 to the device, 1 from it", direction)};
    if (num_batches > 0) expect_place(batches, "the array of batches");
    opentrn::nrt::copy_batches(batches, num_batches, direction == 1);
  });
}

int ndl_memset(const uint64_t addr, uint64_t offset, const int value, const size_t size) {
  return drive("ndl_memset", [&] {
    const auto memory = opentrn::nrt::memory_of(addr);
    std::memset(opentrn::nrt::range_of(*memory, offset, size), value, size);
  });
}

int ndl_memory_copy(uint64_t src_mem_handle, uint64_t dst_mem_handle, uint64_t src_offset,
                    uint64_t dst_offset, size_t size) {
  return drive("ndl_memory_copy",
               [&] { opentrn::nrt::copy(src_mem_handle, dst_mem_handle, src_offset, dst_offset, size); });
}

int ndl_memory_copy_as(uint64_t src_mem_handle, uint64_t dst_mem_handle, uint64_t src_offset,
                       uint64_t dst_offset, size_t size, uint64_t /*prefetch_addr*/, int* wait_handle) {
  return drive("ndl_memory_copy_as", [&] {
    expect_place(wait_handle, "the place of the wait handle");
    if (*wait_handle < NEURON_DMA_H2T_CTX_HANDLE_NONE || *wait_handle >= NEURON_DMA_H2T_CTX_HANDLE_CNT)
      throw Failed{EINVAL, fmt::format("{} is not a wait handle", *wait_handle)};
    opentrn::nrt::copy(src_mem_handle, dst_mem_handle, src_offset, dst_offset, size);
    *wait_handle = *wait_handle == NEURON_DMA_H2T_CTX_HANDLE_ASYNC1 ? NEURON_DMA_H2T_CTX_HANDLE_ASYNC2
                                                                    : NEURON_DMA_H2T_CTX_HANDLE_ASYNC1;
  });
}

int ndl_memory_copy_as_wait(uint64_t mem_handle, int wait_handle) {
  return drive("ndl_memory_copy_as_wait", [&] {
    static_cast<void>(opentrn::nrt::memory_of(mem_handle));
    if (wait_handle < NEURON_DMA_H2T_CTX_HANDLE_NONE || wait_handle >= NEURON_DMA_H2T_CTX_HANDLE_CNT)
      throw Failed{EINVAL, fmt::format("{} is not a wait handle", wait_handle)};
  });
}

int ndl_dump_device_allocation_info(ndl_device_t* device, uint32_t hbm_index,
                                    struct neuron_ioctl_mem_chunk_info* data, uint32_t* num_entries) {
  return drive("ndl_dump_device_allocation_info", [&] {
    expect_place(num_entries, "the place of the count");
    if (*num_entries > 0) expect_place(data, "the array");
    Driver& driver = Driver::instance();
    const std::lock_guard lock(driver.mutex);
    const auto& hbm = driver.device_at(device).hbm(hbm_index);
    const auto all = hbm.taken();
    for (size_t i = 0; i < all.size() && i < *num_entries; ++i)
      data[i] = {hbm.address() + all[i].offset, all[i].bytes, all[i].kind};
    *num_entries = static_cast<uint32_t>(all.size());
  });
}

int ndl_get_va_placement(const void* va, int* device_index, int* hbm_index) {
  return drive("ndl_get_va_placement", [&] {
    expect_place(device_index, "the place of the device");
    expect_place(hbm_index, "the place of the HBM");
    const opentrn::nrt::Hbm* hbm = opentrn::nrt::hbm_at(va);
    if (hbm == nullptr) throw Failed{EINVAL, fmt::format("{} is not an address of an HBM", va)};
    *device_index = hbm->device();
    *hbm_index = hbm->index();
  });
}

}  // extern "C"
