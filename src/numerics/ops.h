// Names of the arithmetic that engines perform: ALU operators of Vector, GpSimd and DMA, and
// activation functions of Scalar. Names follow nki.language (nki/api/nki.api.shared.rst, tables
// "supported math operators" and "supported activation functions").
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace opentrn {

enum class AluOp : uint8_t {
  kBypass,
  // bit-vector: keep bits, integer operands
  kInvert,
  kBitwiseAnd,
  kBitwiseOr,
  kBitwiseXor,
  kLeftShift,
  kRightShift,
  kArithmeticRightShift,
  // arithmetic: fp32 in, fp32 out
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kMaximum,
  kMinimum,
  kEqual,
  kNotEqual,
  kGreater,
  kGreaterEqual,
  kLess,
  kLessEqual,
  kLogicalAnd,
  kLogicalOr,
  kLogicalXor,
  kLogicalNot,
  kPower,
  kAbsMax,
  kAbsMin,
  kMod,
  kFmod,
  kAverage,
  // unary: the second operand is ignored
  kAbs,
  kSquare,
  kRelu,
  kRsqrt,
  kReciprocal,
  kNegative,
  kSqrt,
};
inline constexpr int kAluOpCount = static_cast<int>(AluOp::kSqrt) + 1;

enum class ActivationFunction : uint8_t {
  kCopy,
  kSquare,
  kSigmoid,
  kRelu,
  kPrelu,
  kGelu,
  kGeluDx,
  kGeluApprxTanh,
  kGeluApprxSigmoid,
  kGeluApprxSigmoidDx,
  kSilu,
  kSiluDx,
  kTanh,
  kSoftplus,
  kMish,
  kErf,
  kErfDx,
  kExp,
  kSign,
  kAbs,
  kLog,
  kSin,
  kArctan,
  kSqrt,
  kRsqrt,
  kReciprocal,
};
inline constexpr int kActivationFunctionCount = static_cast<int>(ActivationFunction::kReciprocal) + 1;

std::string_view name(AluOp op);  // "bitwise_and"
std::string_view name(ActivationFunction function);
std::optional<AluOp> alu_op_from_name(std::string_view name);
std::optional<ActivationFunction> activation_from_name(std::string_view name);

bool is_bitvec(AluOp op);
bool is_unary(AluOp op);
// True for add, subtract, multiply, maximum, minimum, logical_*, bitwise and/or/xor: the operators
// a reduction may use.
bool is_reduction(AluOp op);

}  // namespace opentrn
