#include "nki/record.h"

#include <map>
#include <set>

#include <fmt/format.h>

#include "isa/splice.h"

namespace opentrn::nki {

using isa::Instruction;
using isa::Opcode;
using isa::Program;
using isa::Splice;
using isa::TensorId;

namespace {

bool is_rendezvous(Opcode opcode) { return opcode == Opcode::kSendRecv || opcode == Opcode::kCoreBarrier; }

[[noreturn]] void refuse(const Program& program, const Instruction& in, std::string message) {
  Fault fault(FaultKind::kNotModelled, "kernel.cores", std::move(message),
              "launch the kernel on one core, kernel[1], where it stands in a model");
  fault.set_location(program.location(in.location));
  throw fault;
}

// Cores of one launch as one program.
class Merger {
 public:
  Merger(const std::vector<std::shared_ptr<Machine>>& machines, Program& merged) : merged_(merged) {
    OPENTRN_CHECK(machines.size() <= 2, "a launch on {} cores", machines.size());
    for (const auto& machine : machines) {
      cores_.push_back({machine.get(), machine->program().get(), 0});
      splices_.push_back(std::make_unique<Splice>(*machine->program(), merged));
    }
    for (size_t core = 1; core < cores_.size(); ++core) share(core);
  }

  void run() {
    while (true) {
      for (size_t core = 0; core < cores_.size(); ++core) copy_part(core);
      const bool ends = cores_[0].next == cores_[0].program->size();
      for (size_t core = 1; core < cores_.size(); ++core)
        OPENTRN_CHECK((cores_[core].next == cores_[core].program->size()) == ends,
                      "core {} of a launch that ended waits", ends ? core : 0);
      if (ends) return;
      meet();
    }
  }

  TensorId tensor(TensorId of_core, size_t core = 0) { return splices_[core]->tensor(of_core); }

 private:
  struct Core {
    Machine* machine;
    const Program* program;
    size_t next;
  };

  // shared_hbm tensors are made in the same order by all cores; arrays of the host are known by their bytes.
  void share(size_t core) {
    const std::vector<TensorId> first = shared(*cores_[0].program), own = shared(*cores_[core].program);
    for (size_t i = 0; i < std::min(first.size(), own.size()); ++i)
      splices_[core]->bind(own[i], splices_[0]->tensor(first[i]));
    std::map<const sim::Buffer*, TensorId> host;
    for (const auto& [id, buffer] : cores_[0].machine->host_buffers()) host[buffer.get()] = id;
    for (const auto& [id, buffer] : cores_[core].machine->host_buffers())
      if (const auto found = host.find(buffer.get()); found != host.end())
        splices_[core]->bind(id, splices_[0]->tensor(found->second));
  }

  static std::vector<TensorId> shared(const Program& program) {
    std::vector<TensorId> ids;
    for (TensorId id = 0; id < program.tensor_count(); ++id)
      if (program.tensor(id).space == isa::MemorySpace::kSharedHbm && !program.tensor(id).is_input)
        ids.push_back(id);
    return ids;
  }

  void copy_part(size_t index) {
    Core& core = cores_[index];
    int loops = 0;
    for (; core.next < core.program->size(); ++core.next) {
      const Instruction& in = core.program->instruction(static_cast<isa::InstructionIndex>(core.next));
      if (is_rendezvous(in.opcode)) {
        if (loops == 0) return;
        refuse(*core.program, in, "cores that meet inside a device loop cannot be put into a model");
      }
      loops += in.opcode == Opcode::kLoopBegin || in.opcode == Opcode::kWhileBegin;
      loops -= in.opcode == Opcode::kLoopEnd || in.opcode == Opcode::kWhileEnd;
      copy(index, in);
    }
  }

  // The two instructions beside each other, each in its core's tensors.
  void meet() {
    for (size_t core = 0; core < cores_.size(); ++core) copy(core, instruction(core));
    for (Core& core : cores_) ++core.next;
  }

  const Instruction& instruction(size_t core) const {
    return cores_[core].program->instruction(static_cast<isa::InstructionIndex>(cores_[core].next));
  }

  void copy(size_t core, const Instruction& in) {
    uint8_t flags = 0;
    if (cores_.size() > 1) {
      flags = core == 0 ? isa::kFlagCore0 : isa::kFlagCore1;
      if (merged_.size() == 0) flags |= isa::kFlagLaunch;
    }
    splices_[core]->copy(in, flags);
  }

  Program& merged_;
  std::vector<Core> cores_;
  std::vector<std::unique_ptr<Splice>> splices_;
};

isa::Kernel::Port port_of(TensorId tensor, const TensorView& view) {
  const bool whole = view.is_contiguous() && view.offset == 0 && !view.indirection &&
                     view.element_count() == view.storage->elements() && view.dtype == view.storage->dtype;
  if (!whole || view.on_chip())
    throw Fault(FaultKind::kProgram, "kernel.result",
                fmt::format("{} is not a whole tensor in HBM", view.describe()),
                "a kernel in a model returns tensors that it made with buffer=nl.shared_hbm, whole");
  std::vector<int64_t> shape;
  for (const isa::Dim& dim : view.pattern.view()) shape.push_back(dim.count);
  return {tensor, view.storage->name, std::move(shape)};
}

std::vector<std::byte> bytes_of(const sim::Buffer& buffer) {
  return {buffer.data(), buffer.data() + buffer.bytes()};
}

}  // namespace

isa::Kernel record(const Recorded& launch) {
  isa::Kernel kernel;
  kernel.name = launch.name;
  kernel.grid = launch.grid;
  Machine& first = *launch.machines[0];
  kernel.generation = first.generation();
  // A host tensor has an id once a core has met it.
  std::vector<TensorId> inputs, outputs;
  std::set<const sim::Buffer*> is_operand;
  for (const TensorView& view : launch.inputs) {
    is_operand.insert(view.storage->host_bytes.get());
    for (const auto& machine : launch.machines) machine->operand(view);
    inputs.push_back(first.operand(view).tensor);
  }
  for (const TensorView& view : launch.outputs) outputs.push_back(first.operand(view).tensor);
  Merger merger(launch.machines, kernel.program);
  merger.run();
  kernel.program.name = launch.name;
  for (size_t i = 0; i < inputs.size(); ++i)
    kernel.inputs.push_back(port_of(merger.tensor(inputs[i]), launch.inputs[i]));
  for (size_t i = 0; i < outputs.size(); ++i)
    kernel.outputs.push_back(port_of(merger.tensor(outputs[i]), launch.outputs[i]));
  std::map<TensorId, std::shared_ptr<sim::Buffer>> constants;
  for (size_t core = 0; core < launch.machines.size(); ++core)
    for (const auto& [id, buffer] : launch.machines[core]->host_buffers())
      if (!is_operand.contains(buffer.get())) constants[merger.tensor(id, core)] = buffer;
  for (const auto& [id, buffer] : constants) kernel.constants.push_back({id, bytes_of(*buffer)});
  if (launch.filled)
    for (TensorId id = 0; id < kernel.program.tensor_count(); ++id) kernel.program.tensor(id).filled = true;
  isa::separate(kernel);
  return kernel;
}

}  // namespace opentrn::nki
