// What a program of several devices takes of one device's memory.
#include <algorithm>
#include <map>
#include <set>

#include "compiler/compile.h"
#include "spmd/run/parallel.h"

namespace opentrn::spmd {

using graph::Function;
using graph::ValueId;

namespace {

int64_t bytes_of_value(const Function& function, ValueId value) {
  const graph::Type& type = function.type(value);
  return type.is_tensor() && type.is_static() ? type.byte_count() : 0;
}

int64_t bytes_of_ports(const runtime::Model& model) {
  int64_t bytes = 0;
  std::set<isa::TensorId> counted;
  for (const auto* ports : {&model.inputs, &model.outputs})
    for (const runtime::Port& port : *ports)
      if (counted.insert(port.tensor).second) bytes += model.device_bytes(port);
  return bytes;
}

// Output -> the input in whose place it lies.
std::map<size_t, size_t> in_place(const runtime::Model& model) {
  std::map<size_t, size_t> places;
  for (size_t output = 0; output < model.outputs.size(); ++output)
    for (size_t input = 0; input < model.inputs.size(); ++input)
      if (model.inputs[input].tensor == model.outputs[output].tensor) places.emplace(output, input);
  return places;
}

}  // namespace

bool ParallelProgram::is_given_up(size_t argument) const {
  if (argument >= function_.argument_attributes.size()) return false;
  const graph::Dictionary& attributes = function_.argument_attributes[argument];
  return attributes.contains("tf.aliasing_output") || attributes.contains("jax.buffer_donor");
}

int64_t ParallelProgram::bytes_of(const Step& step) const {
  int64_t inside = 0;
  if (step.model) {
    const runtime::Model& model = step.model->model();
    std::vector<isa::TensorId> always;
    for (const auto* ports : {&model.inputs, &model.outputs})
      for (const runtime::Port& port : *ports) always.push_back(port.tensor);
    for (const runtime::ConstantData& constant : model.constants) always.push_back(constant.tensor);
    inside =
        std::max<int64_t>(0, compiler::hbm_bytes_at_most(*model.program, always) - bytes_of_ports(model));
  }
  // What a region is given lies where the step's inputs lie.
  for (const auto& region : step.regions) {
    int64_t given = 0;
    for (const ValueId value : region->arguments) given += bytes_of_value(function_, value);
    inside = std::max(inside, bytes_at_most(*region, {}) - given);
  }
  return inside;
}

int64_t ParallelProgram::bytes_at_most(const Sequence& sequence, const std::set<ValueId>& kept) const {
  std::map<ValueId, size_t> last;  // the step that reads a value last
  for (size_t i = 0; i < sequence.steps.size(); ++i)
    for (const ValueId value : sequence.steps[i]->inputs) last[value] = i;
  for (const ValueId value : sequence.returned) last[value] = sequence.steps.size();
  std::set<ValueId> alive(sequence.arguments.begin(), sequence.arguments.end());
  int64_t now = 0;
  for (const ValueId value : alive) now += bytes_of_value(function_, value);
  int64_t most = now;
  for (size_t i = 0; i < sequence.steps.size(); ++i) {
    const Step& step = *sequence.steps[i];
    // What a loop or a branch gives is what its last region made: counted inside of it, and from then on.
    const bool is_led = !step.regions.empty();
    const auto give = [&] {
      const auto places = step.model ? in_place(step.model->model()) : std::map<size_t, size_t>{};
      for (size_t output = 0; output < step.outputs.size(); ++output) {
        if (!alive.insert(step.outputs[output]).second) continue;
        const auto place = places.find(output);
        if (place != places.end() && alive.erase(step.inputs[place->second]) > 0) continue;
        now += bytes_of_value(function_, step.outputs[output]);
      }
    };
    if (!is_led) give();
    most = std::max(most, now + bytes_of(step));
    if (is_led) give();
    std::erase_if(alive, [&](ValueId value) {
      const auto read = last.find(value);
      const bool is_done = !kept.contains(value) && (read == last.end() || read->second <= i);
      if (is_done) now -= bytes_of_value(function_, value);
      return is_done;
    });
    most = std::max(most, now);
  }
  return most;
}

int64_t ParallelProgram::bytes_at_most() const {
  std::set<ValueId> kept;
  for (size_t i = 0; i < function_.arguments().size(); ++i)
    if (!is_given_up(i)) kept.insert(function_.arguments()[i]);
  return bytes_at_most(*body_, kept);
}

}  // namespace opentrn::spmd
