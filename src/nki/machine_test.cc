#include "nki/machine.h"

#include <gtest/gtest.h>

#include "isa/definitions.h"

namespace opentrn::nki {
namespace {

using isa::MemorySpace;
using isa::Opcode;

constexpr int64_t kShape[] = {4, 8};

std::shared_ptr<Machine> plain_machine(Execute execute = Execute::kBatched) {
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

// Batches that run while more is recorded: values, and the first Fault, are those of program order.
TEST(Machine, BatchesRunByThemselves) {
  auto m = plain_machine();
  const TensorView t = tile(*m), other = tile(*m);
  fill(*m, t, 0);
  constexpr int kAdditions = 5000;
  for (int i = 0; i < kAdditions; ++i) {
    const TensorView more = tile(*m);
    fill(*m, more, 1);
    const isa::Operand operands[] = {m->operand(t), m->operand(t), m->operand(more)};
    const isa::AttributeWord add[] = {{.integer = static_cast<int64_t>(AluOp::kAdd)}};
    m->emit(Opcode::kTensorTensor, isa::Engine::kVector, operands, add, 0);
    if (m->wants_flush()) m->start_flush();
  }
  for (int looks = 0; looks < 2; ++looks) {
    const auto bytes = m->value(t);
    EXPECT_EQ(reinterpret_cast<const float*>(bytes->data())[5], static_cast<float>(kAdditions));
    EXPECT_EQ(m->executed(), m->program()->size());
  }
  const isa::Operand operands[] = {m->operand(t), m->operand(other)};
  const isa::InstructionIndex bad = m->emit(Opcode::kTensorCopy, isa::Engine::kVector, operands, {}, 0);
  for (int i = 0; i < 600; ++i) fill(*m, t, 2);
  m->start_flush();
  try {
    m->flush();
    FAIL() << "nothing was thrown";
  } catch (const Fault& fault) {
    EXPECT_EQ(fault.label(), "sim.uninitialised_read");
    EXPECT_NE(std::string(fault.what()).find(fmt::format("instruction {}", bad)), std::string::npos);
  }
}

TEST(Machine, BatchedAndEagerGiveTheSameValue) {
  for (Execute execute : {Execute::kBatched, Execute::kEager}) {
    auto m = plain_machine(execute);
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
  auto m = plain_machine(Execute::kNever);
  const TensorView t = tile(*m);
  fill(*m, t, 1.0);
  EXPECT_EQ(m->program()->size(), 1u);
  EXPECT_THROW(m->value(t), Fault);
}

TEST(Machine, ATensorOfAnotherMachineIsRefused) {
  auto a = plain_machine(), b = plain_machine();
  const TensorView t = tile(*a);
  EXPECT_THROW(b->operand(t), Fault);
}

TEST(Machine, NdarrayLimits) {
  auto m = plain_machine();
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
  auto a = plain_machine(), b = plain_machine();
  EXPECT_EQ(a->operand(input).tensor, a->operand(input.slice(0, 1, 2, 1)).tensor);
  const TensorView t = tile(*b);
  const isa::Operand operands[] = {b->operand(t), b->operand(input)};
  const isa::AttributeWord attributes[] = {{-1}, {0}, {0}};
  b->emit(Opcode::kDmaCopy, isa::Engine::kUnknown, operands, attributes, 0);
  EXPECT_EQ(reinterpret_cast<const float*>(b->value(t)->data())[31], 3.0f);
}

}  // namespace
}  // namespace opentrn::nki
