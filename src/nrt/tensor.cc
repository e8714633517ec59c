#include "nrt/tensor.h"

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <new>
#include <thread>

#include <fmt/format.h>

#include "device/presence.h"
#include "nrt/include/ndl/neuron_driver_shared.h"
#include "nrt/state.h"

namespace opentrn::nrt {

Storage::Storage(size_t bytes, std::optional<size_t> core) : bytes_(bytes), core_(core), owned_(true) {
  State& state = State::instance();
  epoch_ = state.epoch();
  if (!core) {
    data_ = static_cast<std::byte*>(std::calloc(1, bytes));
    if (data_ == nullptr)
      throw Refused{NRT_RESOURCE, fmt::format("this host has no {} bytes of memory left", bytes)};
    return;
  }
  const int number = state.machine().settings.cores[*core];
  Hbm& hbm = state.machine().hbm_of_core(number);
  state.take_hbm(*core, static_cast<int64_t>(bytes), "a tensor");
  const auto taken = hbm.take(bytes, NEURON_MEMALLOC_TYPE_TENSORS_DEVICE);
  if (!taken) {
    state.give_hbm(*core, static_cast<int64_t>(bytes));
    throw Refused{NRT_RESOURCE,
                  fmt::format("a tensor of {} bytes: HBM {} of device {} has no such room in one piece",
                              bytes, hbm.index(), hbm.device())};
  }
  hbm_ = &hbm;
  taken_ = *taken;
  data_ = hbm.data() + taken->offset;
  const device::CoreScope scope(number);
  device::add_memory(device::Memory::kTensors, static_cast<int64_t>(bytes));
}

Storage::~Storage() {
  if (!owned_ || data_ == nullptr) return;
  if (hbm_ == nullptr) {
    std::free(data_);
    return;
  }
  hbm_->give(taken_);
  State& state = State::instance();
  const std::lock_guard lock(state.mutex);
  if (state.epoch() != epoch_) return;  // closed and opened again: nothing of it is counted any more
  state.give_hbm(*core_, static_cast<int64_t>(bytes_));
  const device::CoreScope scope(state.machine().settings.cores[*core_]);
  device::add_memory(device::Memory::kTensors, -static_cast<int64_t>(bytes_));
}

nrt_tensor& tensor_at(const nrt_tensor_t* handle) {
  State::instance().expect(handle, "tensor");
  return *const_cast<nrt_tensor_t*>(handle);  // NOLINT(cppcoreguidelines-pro-type-const-cast): C's handles
}

std::byte* range_of(const nrt_tensor& tensor, uint64_t offset, uint64_t size) {
  if (tensor.storage == nullptr)
    throw Refused{NRT_INVALID, fmt::format("tensor '{}' is empty: attach a buffer first", tensor.name)};
  if (offset > tensor.size || size > tensor.size - offset)
    throw Refused{NRT_INVALID, fmt::format("bytes {} to {} + {} of tensor '{}', which has {}", offset, offset,
                                           size, tensor.name, tensor.size)};
  return tensor.data() + offset;
}

TensorSet& set_at(const nrt_tensor_set_t* handle) {
  State::instance().expect(handle, "tensor set");
  return *static_cast<TensorSet*>(const_cast<void*>(handle));  // NOLINT: C's handles
}

namespace {

nrt_tensor_t* adopt(std::shared_ptr<nrt_tensor> tensor, const char* name) {
  tensor->name = name == nullptr ? "" : name;
  nrt_tensor_t* handle = tensor.get();
  State::instance().adopt(handle, std::move(tensor));
  return handle;
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

void check_batches(const nrt_tensor_batch_t* batches, uint64_t count) {
  if (count == 0) return;
  expect_given(batches, "the array of batches");
  for (uint64_t i = 0; i < count; ++i) {
    const nrt_tensor& tensor = tensor_at(batches[i].tensor);
    if (batches[i].num_ops > 0) expect_given(batches[i].ops, "the array of operations");
    for (uint32_t j = 0; j < batches[i].num_ops; ++j) {
      const nrt_tensor_batch_op_t& op = batches[i].ops[j];
      range_of(tensor, op.offset, op.size);
      expect_given(op.buffer, "a buffer");
    }
  }
}

template <typename Copy>
NRT_STATUS batch(const char* function, const nrt_tensor_batch_t* batches, uint64_t count,
                 Copy&& copy) noexcept {
  return with_state(function, [&](State&) {
    check_batches(batches, count);
    for (uint64_t i = 0; i < count; ++i)
      for (uint32_t j = 0; j < batches[i].num_ops; ++j) {
        const nrt_tensor_batch_op_t& op = batches[i].ops[j];
        copy(range_of(tensor_at(batches[i].tensor), op.offset, op.size), op);
      }
  });
}

}  // namespace

}  // namespace opentrn::nrt

using opentrn::nrt::answer;
using opentrn::nrt::expect_given;
using opentrn::nrt::Refused;
using opentrn::nrt::State;
using opentrn::nrt::Storage;
using opentrn::nrt::TensorSet;

extern "C" {

NRT_STATUS nrt_tensor_allocate(nrt_tensor_placement_t placement, int vnc, size_t size, const char* name,
                               nrt_tensor_t** tensor) {
  return opentrn::nrt::with_state("nrt_tensor_allocate", [&](State& state) {
    expect_given(tensor, "the place of the tensor");
    if (size == 0) throw Refused{NRT_INVALID, "a tensor of no bytes"};
    auto made = std::make_shared<nrt_tensor>();
    switch (placement) {
      case NRT_TENSOR_PLACEMENT_DEVICE:
        made->storage = std::make_shared<Storage>(size, state.core_at(vnc));
        break;
      case NRT_TENSOR_PLACEMENT_HOST: made->storage = std::make_shared<Storage>(size, std::nullopt); break;
      case NRT_TENSOR_PLACEMENT_VIRTUAL:
        throw Refused{NRT_FAILURE,
                      "virtual placement is not supported; place the tensor on the device or the host"};
      default: throw Refused{NRT_INVALID, fmt::format("placement {}", static_cast<int>(placement))};
    }
    made->size = size;
    *tensor = opentrn::nrt::adopt(std::move(made), name);
  });
}

void nrt_tensor_free(nrt_tensor_t** tensor) {
  if (tensor == nullptr || *tensor == nullptr) return;
  State& state = State::instance();
  const std::lock_guard lock(state.mutex);
  state.release(*tensor);
  *tensor = nullptr;
}

NRT_STATUS nrt_tensor_allocate_empty(const char* name, nrt_tensor_t** tensor) {
  return opentrn::nrt::with_state("nrt_tensor_allocate_empty", [&](State&) {
    expect_given(tensor, "the place of the tensor");
    *tensor = opentrn::nrt::adopt(std::make_shared<nrt_tensor>(), name);
  });
}

NRT_STATUS nrt_tensor_attach_buffer(nrt_tensor_t* tensor, void* buffer, size_t size) {
  return opentrn::nrt::with_state("nrt_tensor_attach_buffer", [&](State&) {
    nrt_tensor& to = opentrn::nrt::tensor_at(tensor);
    expect_given(buffer, "the buffer");
    if (size == 0) throw Refused{NRT_INVALID, "a buffer of no bytes"};
    to.storage = std::make_shared<Storage>(static_cast<std::byte*>(buffer), size);
    to.offset = 0;
    to.size = size;
  });
}

NRT_STATUS nrt_tensor_allocate_slice(const nrt_tensor_t* source, size_t offset, size_t size, const char* name,
                                     nrt_tensor_t** slice) {
  return opentrn::nrt::with_state("nrt_tensor_allocate_slice", [&](State&) {
    const nrt_tensor& from = opentrn::nrt::tensor_at(source);
    expect_given(slice, "the place of the slice");
    if (size == 0) throw Refused{NRT_INVALID, "a slice of no bytes"};
    opentrn::nrt::range_of(from, offset, size);
    auto made = std::make_shared<nrt_tensor>();
    made->storage = from.storage;
    made->offset = from.offset + offset;
    made->size = size;
    *slice = opentrn::nrt::adopt(std::move(made), name);
  });
}

NRT_STATUS nrt_tensor_read(const nrt_tensor_t* tensor, void* buf, size_t offset, size_t size) {
  return opentrn::nrt::with_state("nrt_tensor_read", [&](State&) {
    const std::byte* from = opentrn::nrt::range_of(opentrn::nrt::tensor_at(tensor), offset, size);
    if (size == 0) return;
    expect_given(buf, "the buffer");
    std::memmove(buf, from, size);
  });
}

NRT_STATUS nrt_tensor_write(nrt_tensor_t* tensor, const void* buf, size_t offset, size_t size) {
  return opentrn::nrt::with_state("nrt_tensor_write", [&](State&) {
    std::byte* to = opentrn::nrt::range_of(opentrn::nrt::tensor_at(tensor), offset, size);
    if (size == 0) return;
    expect_given(buf, "the buffer");
    std::memmove(to, buf, size);
  });
}

NRT_STATUS nrt_tensor_read_batch(const nrt_tensor_batch_t* batches, uint64_t num_batches, bool /*unsafe*/) {
  return opentrn::nrt::batch(
      "nrt_tensor_read_batch", batches, num_batches,
      [](const std::byte* from, const nrt_tensor_batch_op_t& op) { std::memmove(op.buffer, from, op.size); });
}

NRT_STATUS nrt_tensor_write_batch(const nrt_tensor_batch_t* batches, uint64_t num_batches, bool /*unsafe*/) {
  return opentrn::nrt::batch(
      "nrt_tensor_write_batch", batches, num_batches,
      [](std::byte* to, const nrt_tensor_batch_op_t& op) { std::memmove(to, op.buffer, op.size); });
}

NRT_STATUS nrt_tensor_copy(const nrt_tensor_t* src, size_t src_offset, nrt_tensor_t* dst, size_t dst_offset,
                           size_t size) {
  return opentrn::nrt::with_state("nrt_tensor_copy", [&](State&) {
    const nrt_tensor &from = opentrn::nrt::tensor_at(src), &to = opentrn::nrt::tensor_at(dst);
    const std::byte* first = opentrn::nrt::range_of(from, src_offset, size);
    std::byte* second = opentrn::nrt::range_of(to, dst_offset, size);
    const auto a = from.storage->core(), b = to.storage->core();
    if (a && b && *a != *b)
      throw Refused{NRT_INVALID, fmt::format("from core {} to core {}: copies stay on one core", *a, *b)};
    std::memmove(second, first, size);
  });
}

size_t nrt_tensor_get_size(const nrt_tensor_t* tensor) {
  size_t size = 0;
  (void)opentrn::nrt::with_state("nrt_tensor_get_size",
                                 [&](State&) { size = opentrn::nrt::tensor_at(tensor).size; });
  return size;
}

NRT_STATUS nrt_tensor_memset(nrt_tensor_t* tensor, uint64_t offset, int value, size_t size) {
  return opentrn::nrt::with_state("nrt_tensor_memset", [&](State&) {
    std::memset(opentrn::nrt::range_of(opentrn::nrt::tensor_at(tensor), offset, size), value, size);
  });
}

void* nrt_tensor_get_va(const nrt_tensor_t* tensor) {
  void* address = nullptr;
  (void)opentrn::nrt::with_state("nrt_tensor_get_va", [&](State&) {
    const nrt_tensor& found = opentrn::nrt::tensor_at(tensor);
    if (found.storage != nullptr) address = found.data();
  });
  return address;
}

NRT_STATUS nrt_tensor_check_output_completion(const nrt_tensor_t* tensor, int64_t timeout,
                                              uint64_t expected) {
  return answer("nrt_tensor_check_output_completion", [&] {
    using Clock = std::chrono::steady_clock;
    const auto begin = Clock::now();
    State& state = State::instance();
    while (true) {
      {
        const std::lock_guard lock(state.mutex);
        state.expect_open();
        const uint64_t seen = opentrn::nrt::tensor_at(tensor).completions;
        if (seen >= expected) return;
        if (timeout >= 0 && Clock::now() - begin >= std::chrono::microseconds(timeout))
          throw Refused{NRT_TIMEOUT, fmt::format("{} of {} completions", seen, expected)};
      }
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
  });
}

NRT_STATUS nrt_tensor_reset_output_completion(nrt_tensor_t* tensor) {
  return opentrn::nrt::with_state("nrt_tensor_reset_output_completion",
                                  [&](State&) { opentrn::nrt::tensor_at(tensor).completions = 0; });
}

NRT_STATUS nrt_memcpy_to_device(void* dest, const void* src, size_t size) {
  return opentrn::nrt::with_state("nrt_memcpy_to_device", [&](State&) {
    expect_given(dest, "the destination");
    expect_given(src, "the source");
    std::memmove(dest, src, size);
  });
}

NRT_STATUS nrt_allocate_tensor_set(nrt_tensor_set_t** result) {
  return opentrn::nrt::with_state("nrt_allocate_tensor_set", [&](State& state) {
    expect_given(result, "the place of the set");
    auto set = std::make_shared<TensorSet>();
    *result = set.get();
    state.adopt(set.get(), set);
  });
}

void nrt_destroy_tensor_set(nrt_tensor_set_t** tensor_set) {
  if (tensor_set == nullptr || *tensor_set == nullptr) return;
  State& state = State::instance();
  const std::lock_guard lock(state.mutex);
  state.release(*tensor_set);
  *tensor_set = nullptr;
}

NRT_STATUS nrt_add_tensor_to_tensor_set(nrt_tensor_set_t* tensor_set, const char* tensor_name,
                                        nrt_tensor_t* tensor) {
  return opentrn::nrt::with_state("nrt_add_tensor_to_tensor_set", [&](State&) {
    TensorSet& set = opentrn::nrt::set_at(tensor_set);
    expect_given(tensor_name, "the name");
    set.tensors[tensor_name] = &opentrn::nrt::tensor_at(tensor);
  });
}

NRT_STATUS nrt_get_tensor_from_tensor_set(nrt_tensor_set_t* tensor_set, const char* tensor_name,
                                          nrt_tensor_t** tensor) {
  return opentrn::nrt::with_state("nrt_get_tensor_from_tensor_set", [&](State&) {
    const TensorSet& set = opentrn::nrt::set_at(tensor_set);
    expect_given(tensor_name, "the name");
    expect_given(tensor, "the place of the tensor");
    const auto found = set.tensors.find(tensor_name);
    if (found == set.tensors.end())
      throw Refused{NRT_INVALID, fmt::format("the set has no tensor '{}'", tensor_name)};
    *tensor = found->second;
  });
}

}  // extern "C"
