#include "nki/machine.h"

#include <gtest/gtest.h>

#include "isa/definitions.h"

namespace opentrn::nki {
namespace {

using isa::MemorySpace;
using isa::Opcode;

constexpr int64_t kShape[] = {4, 8};

std::shared_ptr<Machine> machine(Execute execute = Execute::kBatched) {
  MachineOptions options;
  options.execute = execute;
  return Machine::create(options, nullptr);
}

TensorView tile(Machine& m) {
  return m.ndarray(kShape, DType::kFloat32, MemorySpace::kSbuf, "t", std::nullopt, 0);
}

void fill(Machine& m, const TensorView& dst, double value) {
  const isa::Operand operands[] = {m.operand(dst), isa::Operand::imm(value)};
  m.emit(Opcode::kMemset, isa::Engine::kVector, operands, {}, 0);
}

TEST(Machine, BatchedAndEagerGiveTheSameValue) {
  for (Execute execute : {Execute::kBatched, Execute::kEager}) {
    auto m = machine(execute);
    const TensorView t = tile(*m);
    fill(*m, t, 1.5);
    fill(*m, t.slice(1, 2, 4, 1), -2.0);
    EXPECT_EQ(m->executed(), execute == Execute::kEager ? 2u : 0u);
    const auto bytes = m->value(t);
    const float* values = reinterpret_cast<const float*>(bytes->data());
    EXPECT_EQ(values[1], 1.5f);
    EXPECT_EQ(values[2], -2.0f);
    EXPECT_EQ(values[8 + 3], -2.0f);
  }
}

TEST(Machine, ARecordingMachineHasNoValues) {
  auto m = machine(Execute::kNever);
  const TensorView t = tile(*m);
  fill(*m, t, 1.0);
  EXPECT_EQ(m->program()->size(), 1u);
  EXPECT_THROW(m->value(t), Fault);
}

TEST(Machine, ATensorOfAnotherMachineIsRefused) {
  auto a = machine(), b = machine();
  const TensorView t = tile(*a);
  EXPECT_THROW(b->operand(t), Fault);
}

TEST(Machine, NdarrayLimits) {
  auto m = machine();
  const auto label = [&](std::vector<int64_t> shape) -> std::string {
    try {
      m->ndarray(shape, DType::kFloat32, MemorySpace::kSbuf, "", std::nullopt, 0);
    } catch (const Fault& fault) {
      return fault.label();
    }
    return "none";
  };
  EXPECT_EQ(label({128, 4}), "none");
  EXPECT_EQ(label({129, 4}), "ndarray.partitions");
  EXPECT_EQ(label({128}), "ndarray.rank");
  EXPECT_EQ(label({128, 0}), "ndarray.shape");
}

TEST(Machine, AHostArrayIsOneTensorPerMachine) {
  std::vector<float> host(32, 3.0f);
  auto bytes = sim::Buffer::wrap(host.data(), 32 * 4);
  const TensorView input = Machine::host_tensor(kShape, DType::kFloat32, MemorySpace::kHbm, bytes, "x");
  auto a = machine(), b = machine();
  EXPECT_EQ(a->operand(input).tensor, a->operand(input.slice(0, 1, 2, 1)).tensor);
  const TensorView t = tile(*b);
  const isa::Operand operands[] = {b->operand(t), b->operand(input)};
  const isa::AttributeWord attributes[] = {{-1}, {0}, {0}};
  b->emit(Opcode::kDmaCopy, isa::Engine::kUnknown, operands, attributes, 0);
  EXPECT_EQ(reinterpret_cast<const float*>(b->value(t)->data())[31], 3.0f);
}

}  // namespace
}  // namespace opentrn::nki
