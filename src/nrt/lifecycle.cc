// Opening and closing, and what the library says of itself, the machine and a model.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string_view>

#include <fmt/format.h>

#include "graph/element_type.h"
#include "nrt/include/nrt/nrt_experimental.h"
#include "nrt/include/nrt/nrt_version.h"
#include "nrt/include/nrt/opentrn.h"
#include "nrt/model.h"
#include "nrt/state.h"

namespace opentrn::nrt {

namespace {

using graph::ElementType;

nrt_dtype_t dtype_of(ElementType type) {
  switch (type) {
    case ElementType::kI1:
    case ElementType::kUI8: return NRT_DTYPE_UINT8;
    case ElementType::kI8: return NRT_DTYPE_INT8;
    case ElementType::kI16: return NRT_DTYPE_INT16;
    case ElementType::kUI16: return NRT_DTYPE_UINT16;
    case ElementType::kI32: return NRT_DTYPE_INT32;
    case ElementType::kUI32: return NRT_DTYPE_UINT32;
    case ElementType::kI64: return NRT_DTYPE_INT64;
    case ElementType::kUI64: return NRT_DTYPE_UINT64;
    case ElementType::kF16: return NRT_DTYPE_FLOAT16;
    case ElementType::kBF16: return NRT_DTYPE_BFLOAT16;
    case ElementType::kF32: return NRT_DTYPE_FLOAT32;
    case ElementType::kTF32: return NRT_DTYPE_FP32R;
    // nkipy's spike reads 8-bit floats as int8, and says that AWS's containers have them so.
    case ElementType::kF8E3M4:
    case ElementType::kF8E4M3:
    case ElementType::kF8E4M3FN:
    case ElementType::kF8E5M2: return NRT_DTYPE_INT8;
    default: return NRT_DTYPE_UNKNOWN;
  }
}

void fill(nrt_tensor_info_t& to, const runtime::Port& port, const graph::Type& type,
          nrt_tensor_usage_t usage) {
  const size_t length = std::min(port.name.size(), sizeof to.name - 1);
  std::memcpy(to.name, port.name.data(), length);
  to.usage = usage;
  to.size = static_cast<size_t>(type.byte_count());
  to.dtype = dtype_of(type.element());
  // A scalar is a tensor of one element, as in AWS's containers (nkipy's tests of its own scalars say so).
  const std::vector<int64_t> shape = port.shape.empty() ? std::vector<int64_t>{1} : port.shape;
  to.ndim = static_cast<uint32_t>(shape.size());
  to.shape = static_cast<uint32_t*>(std::malloc(shape.size() * sizeof(uint32_t)));
  if (to.shape == nullptr) throw std::bad_alloc();
  std::transform(shape.begin(), shape.end(), to.shape,
                 [](int64_t size) { return static_cast<uint32_t>(size); });
}

nrt_tensor_info_array_t* tensor_info_of(const nrt_model& model) {
  const size_t inputs = model.model.inputs.size(), count = inputs + model.model.outputs.size();
  auto* array = static_cast<nrt_tensor_info_array_t*>(
      std::calloc(1, sizeof(nrt_tensor_info_array_t) + count * sizeof(nrt_tensor_info_t)));
  if (array == nullptr) throw std::bad_alloc();
  array->tensor_count = count;
  for (size_t i = 0; i < inputs; ++i)
    fill(array->tensor_array[i], model.model.inputs[i], model.input_types[i], NRT_TENSOR_USAGE_INPUT);
  for (size_t i = inputs; i < count; ++i)
    fill(array->tensor_array[i], model.model.outputs[i - inputs], model.output_types[i - inputs],
         NRT_TENSOR_USAGE_OUTPUT);
  return array;
}

template <size_t Size>
void put(char (&to)[Size], std::string_view text) {
  std::memcpy(to, text.data(), std::min(text.size(), Size - 1));
}

// "trn2.48xlarge": by AWS's names of families and sizes; those that the header does not name are unknown.
nrt_instance_info_t instance_info_of(const Machine& machine) {
  static const std::map<std::string_view, uint32_t> kFamilies{
      {"inf1", NRT_INSTANCE_INF1},   {"inf2", NRT_INSTANCE_INF2}, {"trn1", NRT_INSTANCE_TRN1},
      {"trn1n", NRT_INSTANCE_TRN1N}, {"trn2", NRT_INSTANCE_TRN2}, {"trn2n", NRT_INSTANCE_TRN2N},
      {"trn2u", NRT_INSTANCE_TRN2U}, {"trn3", NRT_INSTANCE_TRN3}};
  static const std::map<std::string_view, uint32_t> kSizes{
      {"xlarge", NRT_INSTANCE_SIZE_1XL},    {"2xlarge", NRT_INSTANCE_SIZE_2XL},
      {"3xlarge", NRT_INSTANCE_SIZE_3XL},   {"4xlarge", NRT_INSTANCE_SIZE_4XL},
      {"6xlarge", NRT_INSTANCE_SIZE_6XL},   {"8xlarge", NRT_INSTANCE_SIZE_8XL},
      {"24xlarge", NRT_INSTANCE_SIZE_24XL}, {"32xlarge", NRT_INSTANCE_SIZE_32XL},
      {"48xlarge", NRT_INSTANCE_SIZE_48XL}};
  const std::string_view target = machine.settings.target;
  const size_t point = target.find('.');
  nrt_instance_info_t info{};
  info.size = NRT_INSTANCE_SIZE_UNKNOWN;
  if (const auto family = kFamilies.find(target.substr(0, point)); family != kFamilies.end())
    info.family = family->second;
  if (point != std::string_view::npos)
    if (const auto size = kSizes.find(target.substr(point + 1)); size != kSizes.end())
      info.size = size->second;
  put(info.arch_name, machine.arch_name);
  return info;
}

// As far as the caller's structure goes.
template <typename From>
size_t put_structure(void* to, size_t size, const From& from) {
  const size_t count = std::min(size, sizeof from);
  std::memcpy(to, &from, count);
  return count;
}

NRT_STATUS give_count(const char* function, uint32_t* count, bool visible) {
  return answer(function, [&] {
    expect_given(count, "the place of the count");
    const Machine machine = machine_of_environment();
    *count = visible ? static_cast<uint32_t>(machine.settings.cores.size()) : machine.total_cores;
  });
}

}  // namespace

}  // namespace opentrn::nrt

using opentrn::nrt::answer;
using opentrn::nrt::expect_given;
using opentrn::nrt::Refused;
using opentrn::nrt::State;

extern "C" {

const char* opentrn_nrt_last_message(void) { return opentrn::nrt::last_message(); }

const char* nrt_get_status_as_str(NRT_STATUS status) {
#define OPENTRN_STATUS(name) \
  case name: return #name
  switch (status) {
    OPENTRN_STATUS(NRT_SUCCESS);
    OPENTRN_STATUS(NRT_FAILURE);
    OPENTRN_STATUS(NRT_INVALID);
    OPENTRN_STATUS(NRT_INVALID_HANDLE);
    OPENTRN_STATUS(NRT_RESOURCE);
    OPENTRN_STATUS(NRT_TIMEOUT);
    OPENTRN_STATUS(NRT_HW_ERROR);
    OPENTRN_STATUS(NRT_QUEUE_FULL);
    OPENTRN_STATUS(NRT_LOAD_NOT_ENOUGH_NC);
    OPENTRN_STATUS(NRT_UNSUPPORTED_NEFF_VERSION);
    OPENTRN_STATUS(NRT_FAIL_HOST_MEM_ALLOC);
    OPENTRN_STATUS(NRT_UNINITIALIZED);
    OPENTRN_STATUS(NRT_CLOSED);
    OPENTRN_STATUS(NRT_QUEUE_EMPTY);
    OPENTRN_STATUS(NRT_EXEC_UNIT_UNRECOVERABLE);
    OPENTRN_STATUS(NRT_EXEC_BAD_INPUT);
    OPENTRN_STATUS(NRT_EXEC_COMPLETED_WITH_NUM_ERR);
    OPENTRN_STATUS(NRT_EXEC_COMPLETED_WITH_ERR);
    OPENTRN_STATUS(NRT_EXEC_NC_BUSY);
    OPENTRN_STATUS(NRT_EXEC_OOB);
    OPENTRN_STATUS(NRT_COLL_PENDING);
    OPENTRN_STATUS(NRT_EXEC_HW_ERR_COLLECTIVES);
    OPENTRN_STATUS(NRT_EXEC_HW_ERR_HBM_UE);
    OPENTRN_STATUS(NRT_EXEC_HW_ERR_NC_UE);
    OPENTRN_STATUS(NRT_EXEC_HW_ERR_DMA_ABORT);
    OPENTRN_STATUS(NRT_EXEC_SW_NQ_OVERFLOW);
    OPENTRN_STATUS(NRT_EXEC_HW_ERR_REPAIRABLE_HBM_UE);
    OPENTRN_STATUS(NRT_NETWORK_PROXY_FAILURE);
  }
#undef OPENTRN_STATUS
  return "NRT_UNKNOWN";
}

NRT_STATUS nrt_init(nrt_framework_type_t /*framework*/, const char* /*fw_version*/,
                    const char* /*fal_version*/) {
  return answer("nrt_init", [] { State::instance().open(); });
}

void nrt_close(void) { State::instance().close(); }

NRT_STATUS nrt_get_version(nrt_version_t* ver, size_t size) {
  return answer("nrt_get_version", [&] {
    expect_given(ver, "the place of the version");
    nrt_version_t made{};
    unsigned major = 0, minor = 0, patch = 0;
    if (std::sscanf(OPENTRN_VERSION, "%u.%u.%u", &major, &minor, &patch) != 3) major = minor = patch = 0;
    made.rt_major = major;
    made.rt_minor = minor;
    made.rt_patch = patch;
    opentrn::nrt::put(made.rt_detail, "OpenTrn " OPENTRN_VERSION ": a simulated Neuron device");
    opentrn::nrt::put_structure(ver, size, made);
  });
}

NRT_STATUS nrt_get_instance_info(nrt_instance_info_t* info, size_t size) {
  return answer("nrt_get_instance_info", [&] {
    expect_given(info, "the place of the information");
    opentrn::nrt::put_structure(info, size,
                                opentrn::nrt::instance_info_of(opentrn::nrt::machine_of_environment()));
  });
}

NRT_STATUS nrt_get_total_nc_count(uint32_t* count) {
  return opentrn::nrt::give_count("nrt_get_total_nc_count", count, false);
}
NRT_STATUS nrt_get_total_vnc_count(uint32_t* count) {
  return opentrn::nrt::give_count("nrt_get_total_vnc_count", count, false);
}
NRT_STATUS nrt_get_visible_nc_count(uint32_t* count) {
  return opentrn::nrt::give_count("nrt_get_visible_nc_count", count, true);
}
NRT_STATUS nrt_get_visible_vnc_count(uint32_t* count) {
  return opentrn::nrt::give_count("nrt_get_visible_vnc_count", count, true);
}

NRT_STATUS nrt_host_device_id_get(int neuron_dev, uint32_t* host_device_id) {
  return answer("nrt_host_device_id_get", [&] {
    expect_given(host_device_id, "the place of the number");
    if (neuron_dev < 0) throw Refused{NRT_INVALID, fmt::format("device {}", neuron_dev)};
    *host_device_id = static_cast<uint32_t>(neuron_dev);
  });
}

NRT_STATUS nrt_get_vnc_memory_stats(uint32_t vnc, nrt_vnc_memory_stats_t* stats, size_t size_in,
                                    size_t* size_out) {
  return answer("nrt_get_vnc_memory_stats", [&] {
    State& state = State::instance();
    const std::lock_guard lock(state.mutex);
    state.expect_open();
    expect_given(stats, "the place of the statistics");
    const size_t core = state.core_at(vnc);
    const nrt_vnc_memory_stats_t made{static_cast<size_t>(state.hbm_used(core)),
                                      static_cast<size_t>(state.machine().hbm_per_core)};
    const size_t written = opentrn::nrt::put_structure(stats, size_in, made);
    if (size_out != nullptr) *size_out = written;
  });
}

NRT_STATUS nrt_get_model_tensor_info(nrt_model_t* model, nrt_tensor_info_array_t** tensor_info) {
  return answer("nrt_get_model_tensor_info", [&] {
    State& state = State::instance();
    const std::lock_guard lock(state.mutex);
    state.expect_open();
    expect_given(tensor_info, "the place of the information");
    *tensor_info = opentrn::nrt::tensor_info_of(*opentrn::nrt::model_at(model));
  });
}

NRT_STATUS nrt_free_model_tensor_info(nrt_tensor_info_array_t* tensor_info) {
  if (tensor_info == nullptr) return NRT_SUCCESS;
  for (uint64_t i = 0; i < tensor_info->tensor_count; ++i) std::free(tensor_info->tensor_array[i].shape);
  std::free(tensor_info);
  return NRT_SUCCESS;
}

NRT_STATUS nrt_get_model_info(const nrt_model_t* model, nrt_model_info_t* info, size_t size_in,
                              size_t* size_out) {
  return answer("nrt_get_model_info", [&] {
    State& state = State::instance();
    const std::lock_guard lock(state.mutex);
    state.expect_open();
    expect_given(info, "the place of the information");
    const nrt_model_info_t made{static_cast<uint32_t>(opentrn::nrt::model_at(model)->core)};
    const size_t written = opentrn::nrt::put_structure(info, size_in, made);
    if (size_out != nullptr) *size_out = written;
  });
}

}  // extern "C"
