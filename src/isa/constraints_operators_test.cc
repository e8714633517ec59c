// Which engine and which generation has which operator: docs/operators.md, line by line.
#include <gtest/gtest.h>

#include "isa/constraints.h"
#include "isa/constraints_draft.h"

namespace opentrn::isa {
namespace {

struct OnEngine {
  Opcode opcode;
  AluOp op;
  Engine engine;
  Generation generation;
  std::string_view label;  // of the refusal; "" if it is allowed
};

TEST(ConstraintsOperators, HaveTheirEnginesAndGenerations) {
  constexpr Opcode kPair = Opcode::kTensorTensor, kScale = Opcode::kTensorScalar;
  const OnEngine lines[] = {
      {kPair, AluOp::kPower, Engine::kGpSimd, Generation::kV3, ""},
      {kPair, AluOp::kPower, Engine::kVector, Generation::kV3, "tensor_tensor.C4"},
      {kPair, AluOp::kAbsMax, Engine::kVector, Generation::kV4, ""},
      {kPair, AluOp::kAbsMin, Engine::kGpSimd, Generation::kV4, "tensor_tensor.C6"},
      {kPair, AluOp::kAbsMin, Engine::kVector, Generation::kV3, "isa.C13"},
      {kPair, AluOp::kAdd, Engine::kGpSimd, Generation::kV3, ""},
      {kScale, AluOp::kRsqrt, Engine::kGpSimd, Generation::kV3, ""},
      {kScale, AluOp::kRsqrt, Engine::kUnknown, Generation::kV2, ""},
      {kScale, AluOp::kRsqrt, Engine::kVector, Generation::kV3, "tensor_scalar.C11"},
      {kScale, AluOp::kRsqrt, Engine::kScalar, Generation::kV3, "tensor_scalar.C4"},
      {kScale, AluOp::kMultiply, Engine::kGpSimd, Generation::kV4, "tensor_scalar.C10"},
      {kScale, AluOp::kPower, Engine::kVector, Generation::kV3, ""},
      {kScale, AluOp::kAbsMax, Engine::kScalar, Generation::kV4, "tensor_scalar.C7"},
      {kScale, AluOp::kSquare, Engine::kVector, Generation::kV4, ""},
      {kScale, AluOp::kSquare, Engine::kVector, Generation::kV3, "isa.C13"},
      {kScale, AluOp::kRelu, Engine::kUnknown, Generation::kV2, "isa.C13"},
      {kScale, AluOp::kAbs, Engine::kVector, Generation::kV2, ""},
  };
  for (const OnEngine& line : lines) {
    Draft draft(line.opcode);
    draft.engine = line.engine;
    draft.generation = line.generation;
    draft.set(0, line.op);
    std::string_view refused;
    try {
      draft.run();
    } catch (const Fault& fault) {
      refused = fault.label() == line.label ? line.label : std::string_view("another rule");
    }
    EXPECT_EQ(refused, line.label) << name(line.op) << " on " << name(line.engine) << ", "
                                   << opentrn::name(line.generation);
  }
}

}  // namespace
}  // namespace opentrn::isa
