#include "nrt/model.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/fault.h"
#include "device/presence.h"
#include "device/registry.h"
#include "model/runtime_model.h"
#include "nrt/debug_stream.h"
#include "nrt/state.h"
#include "runtime/model_file.h"
#include "runtime/timing.h"
#include "sim/functional/custom_op.h"

nrt_model::~nrt_model() {
  using opentrn::nrt::State;
  State& state = State::instance();
  const std::lock_guard lock(state.mutex);
  opentrn::device::unload(model.program.get());
  if (state.epoch() != epoch) return;
  --state.models_on_core[core];
  state.give_hbm(core, hbm_bytes);
}

namespace opentrn::nrt {

namespace {

std::vector<graph::Type> types_of(const std::vector<runtime::Port>& ports) {
  std::vector<graph::Type> types;
  for (const runtime::Port& port : ports) {
    const auto element = graph::element_type_from_name(port.element);
    if (!element)
      throw Refused{NRT_INVALID, fmt::format("{} is of the unknown type {}", port.name, port.element)};
    types.push_back(graph::Type::tensor(*element, port.shape));
  }
  return types;
}

bool rounds_stochastically(const std::map<std::string, std::string>& facts) {
  const auto found = facts.find("options");
  if (found == facts.end()) return false;
  const auto options = nlohmann::json::parse(found->second, nullptr, false);
  return options.is_object() && options.value("enable_stochastic_rounding", nlohmann::json(false)) == true;
}

runtime::Model read_model(const void* bytes, size_t size, const Machine& machine) {
  const std::string_view text(static_cast<const char*>(bytes), size);
  if (text.substr(0, 4) != "OTNM")
    throw Refused{
        NRT_UNSUPPORTED_NEFF_VERSION,
        "this is not OpenTrn's container of a compiled model: compile the program with `opentrn compile` "
        "or OpenTrn's `neuronx-cc` (the instructions of AWS's NEFF are not documented)"};
  sim::load_custom_ops_of_environment();
  runtime::Artifact artifact = runtime::artifact_of(text, "the model");
  if (const auto mesh = artifact.facts.find(std::string(runtime::kMeshFact)); mesh != artifact.facts.end())
    throw Refused{
        NRT_INVALID,
        fmt::format("the container is of a model on the mesh {}, and a program of one NeuronCore is "
                    "loaded here; run it by `opentrn run`, or compile it without --mesh",
                    mesh->second)};
  if (artifact.buckets.size() != 1)
    throw Refused{NRT_INVALID,
                  fmt::format("the container has {} programs, one for each size of an open dimension; "
                              "compile it for one size",
                              artifact.buckets.size())};
  runtime::Model model = std::move(artifact.buckets.front().model);
  if (model.generation != machine.settings.generation)
    throw Refused{
        NRT_INVALID,
        fmt::format("the model is compiled for NeuronCore-v{}, the machine {} has NeuronCore-v{}; set "
                    "NEURON_PLATFORM_TARGET_OVERRIDE or compile with another --target",
                    version(model.generation), machine.settings.target,
                    version(machine.settings.generation))};
  if (machine.settings.rounds_stochastically || rounds_stochastically(artifact.facts))
    model.rounding = std::make_shared<runtime::StochasticRounding>(machine.settings.rounding_seed);
  return model;
}

bool is_hbm(const isa::Tensor& tensor) {
  return tensor.space != isa::MemorySpace::kSbuf && tensor.space != isa::MemorySpace::kPsum;
}

// Bytes of HBM of the program that are no input, output or constant.
int64_t scratchpad_of(const runtime::Model& model) {
  std::vector<bool> elsewhere(model.program->tensor_count());
  for (const auto* ports : {&model.inputs, &model.outputs})
    for (const runtime::Port& port : *ports) elsewhere[port.tensor] = true;
  for (const runtime::ConstantData& constant : model.constants) elsewhere[constant.tensor] = true;
  int64_t bytes = 0;
  for (size_t i = 0; i < elsewhere.size(); ++i) {
    const isa::Tensor& tensor = model.program->tensor(static_cast<isa::TensorId>(i));
    if (is_hbm(tensor) && !elsewhere[i]) bytes += tensor.bytes();
  }
  return bytes;
}

size_t emptiest_core(const State& state) {
  const auto& models = state.models_on_core;
  return static_cast<size_t>(std::min_element(models.begin(), models.end()) - models.begin());
}

nrt_model_t* load(State& state, const void* bytes, size_t size, int32_t vnc) {
  auto made = std::make_shared<nrt_model>();
  made->epoch = state.epoch() - 1;  // holds nothing of a core until below
  made->model = read_model(bytes, size, state.machine());
  made->input_types = types_of(made->model.inputs);
  made->output_types = types_of(made->model.outputs);
  made->core = vnc == -1 ? emptiest_core(state) : state.core_at(vnc);
  const int64_t constants = made->model.constant_bytes(), scratchpad = scratchpad_of(made->model);
  made->hbm_bytes = constants + scratchpad;
  state.take_hbm(made->core, made->hbm_bytes, "a model's constants and scratchpad");
  made->epoch = state.epoch();
  ++state.models_on_core[made->core];
  made->id = ++state.last_model_id;
  const device::CoreScope scope(state.machine().settings.cores[made->core]);
  device::load({made->model.program.get(), made->model.program->name, 0, static_cast<uint64_t>(constants),
                device::kUnknown, static_cast<uint64_t>(scratchpad)});
  nrt_model_t* handle = made.get();
  state.adopt(handle, std::move(made));
  return handle;
}

int64_t bytes_of(const graph::Type& type) { return type.byte_count(); }

// A tensor of a set while it is used: its bytes stay where they are.
struct Held {
  std::shared_ptr<Storage> storage;
  std::shared_ptr<void> owner;
  nrt_tensor* tensor = nullptr;
  std::byte* data = nullptr;
};

std::vector<Held> held(State& state, const nrt_model& model, const TensorSet& set,
                       const std::vector<runtime::Port>& ports, const std::vector<graph::Type>& types,
                       const char* kind) {
  std::vector<Held> all;
  for (size_t i = 0; i < ports.size(); ++i) {
    const auto found = set.tensors.find(ports[i].name);
    if (found == set.tensors.end())
      throw Refused{NRT_INVALID, fmt::format("the model's {} '{}' is not in its set", kind, ports[i].name)};
    nrt_tensor& tensor = tensor_at(found->second);
    const int64_t bytes = bytes_of(types[i]);
    if (tensor.storage == nullptr || static_cast<int64_t>(tensor.size) < bytes)
      throw Refused{NRT_INVALID, fmt::format("the tensor of the {} '{}' has {} bytes; the model has {} ({})",
                                             kind, ports[i].name, tensor.size, bytes, types[i].to_string())};
    if (const auto core = tensor.storage->core(); core && *core != model.core)
      throw Refused{NRT_INVALID, fmt::format("the tensor of the {} '{}' is on core {}, the model on core {}",
                                             kind, ports[i].name, *core, model.core)};
    all.push_back({tensor.storage, state.owner_of(found->second), &tensor, tensor.data()});
  }
  return all;
}

bool is_updated_in_place(const runtime::Model& model, size_t input) {
  return std::any_of(model.outputs.begin(), model.outputs.end(), [&](const runtime::Port& output) {
    return output.tensor == model.inputs[input].tensor;
  });
}

std::shared_ptr<sim::Buffer> buffer_of(const nrt_model& model, size_t i, const Held& from) {
  const std::span<const std::byte> bytes(from.data, static_cast<size_t>(bytes_of(model.input_types[i])));
  auto buffer = model::device_buffer(model.input_types[i], bytes);
  if (!is_updated_in_place(model.model, i)) return buffer;
  auto copy = std::make_shared<std::vector<std::byte>>(buffer->data(), buffer->data() + buffer->bytes());
  return sim::Buffer::wrap(copy->data(), buffer->bytes(), copy);
}

}  // namespace

std::shared_ptr<nrt_model> model_at(const nrt_model_t* handle) {
  State& state = State::instance();
  state.expect(handle, "model");
  return std::static_pointer_cast<nrt_model>(state.owner_of(handle));
}

Executed execute(nrt_model& model, const nrt_tensor_set_t* inputs, nrt_tensor_set_t* outputs) {
  State& state = State::instance();
  std::vector<Held> from, to;
  int core = 0;
  {
    const std::lock_guard lock(state.mutex);
    from = held(state, model, set_at(inputs), model.model.inputs, model.input_types, "input");
    to = held(state, model, set_at(outputs), model.model.outputs, model.output_types, "output");
    core = state.machine().settings.cores[model.core];
  }
  Executed executed;
  executed.begin_ns = device::monotonic_ns();
  std::vector<std::shared_ptr<sim::Buffer>> buffers;
  for (size_t i = 0; i < from.size(); ++i) buffers.push_back(buffer_of(model, i, from[i]));
  runtime::LoopTrips trips;
  const device::CoreScope scope(core);
  const runtime::PrintScope prints(prints_of(model.core));
  const auto results = runtime::execute(model.model, buffers, &trips);
  for (size_t i = 0; i < results.size(); ++i) {
    const graph::Literal value = model::host_literal(model.output_types[i], results[i]);
    std::memcpy(to[i].data, value.bytes().data(), value.bytes().size());
    to[i].tensor->completions.fetch_add(1);
  }
  executed.end_ns = device::monotonic_ns();
  const std::lock_guard lock(state.mutex);
  model.executed = true;
  if (!trips.empty()) model.predicted_ns.reset();
  model.trips = std::move(trips);
  return executed;
}

std::optional<double> predicted_ns(nrt_model& model) {
  State& state = State::instance();
  runtime::LoopTrips trips;
  {
    const std::lock_guard lock(state.mutex);
    if (model.predicted_ns) return model.predicted_ns;
    trips = model.trips;
  }
  try {
    const double total = runtime::timed(model.model, trips).total_ns;
    const std::lock_guard lock(state.mutex);
    model.predicted_ns = total;
    return total;
  } catch (const Fault&) {
    return std::nullopt;
  }
}

}  // namespace opentrn::nrt

using opentrn::nrt::answer;
using opentrn::nrt::expect_given;
using opentrn::nrt::Refused;
using opentrn::nrt::State;

extern "C" {

NRT_STATUS nrt_load(const void* bytes, size_t size, int32_t vnc, int32_t /*vnc_count*/, nrt_model_t** model) {
  return answer("nrt_load", [&] {
    State& state = State::instance();
    const std::lock_guard lock(state.mutex);
    state.expect_open();
    expect_given(bytes, "the program");
    expect_given(model, "the place of the model");
    *model = opentrn::nrt::load(state, bytes, size, vnc);
  });
}

NRT_STATUS nrt_load_collectives(const void* bytes, size_t size, int32_t vnc, int32_t vnc_count, uint32_t id,
                                uint32_t count, nrt_model_t** model) {
  if (count == 0 || id >= count)
    return opentrn::nrt::refused("nrt_load_collectives", NRT_INVALID,
                                 fmt::format("device {} of {}", id, count));
  return nrt_load(bytes, size, vnc, vnc_count, model);
}

NRT_STATUS nrt_unload(nrt_model_t* model) {
  return answer("nrt_unload", [&] {
    State& state = State::instance();
    const std::lock_guard lock(state.mutex);
    state.expect_open();
    state.expect(model, "model");
    state.release(model);
  });
}

NRT_STATUS nrt_get_model_nc_count(const nrt_model_t* model, uint32_t* count) {
  return answer("nrt_get_model_nc_count", [&] {
    State& state = State::instance();
    const std::lock_guard lock(state.mutex);
    state.expect_open();
    state.expect(model, "model");
    expect_given(count, "the place of the count");
    *count = 1;
  });
}
NRT_STATUS nrt_get_model_vnc_count(const nrt_model_t* model, uint32_t* count) {
  return nrt_get_model_nc_count(model, count);
}
NRT_STATUS nrt_get_model_instance_count(nrt_model_t* model, uint32_t* count) {
  return nrt_get_model_nc_count(model, count);
}

}  // extern "C"
