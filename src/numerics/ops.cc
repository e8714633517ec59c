#include "numerics/ops.h"

#include <array>

namespace opentrn {
namespace {

enum class AluClass : uint8_t { kMove, kBitvec, kArithmetic, kUnary };
enum class Reduces : bool { kNo, kYes };

struct AluRow {
  AluOp op;
  std::string_view name;
  AluClass kind;
  Reduces reduces;
};

constexpr auto kNo = Reduces::kNo;
constexpr auto kYes = Reduces::kYes;

// Columns "op" and "Legal Reduction op" of nki/api/nki.api.shared.rst, table "Supported Math
// Operators"; operators that nki.language lists and that table does not are marked no reduction.
constexpr std::array<AluRow, kAluOpCount> kAluRows{{
    {AluOp::kBypass, "bypass", AluClass::kMove, kNo},
    {AluOp::kInvert, "invert", AluClass::kBitvec, kNo},
    {AluOp::kBitwiseAnd, "bitwise_and", AluClass::kBitvec, kYes},
    {AluOp::kBitwiseOr, "bitwise_or", AluClass::kBitvec, kYes},
    {AluOp::kBitwiseXor, "bitwise_xor", AluClass::kBitvec, kYes},
    {AluOp::kLeftShift, "left_shift", AluClass::kBitvec, kNo},
    {AluOp::kRightShift, "right_shift", AluClass::kBitvec, kNo},
    {AluOp::kArithmeticRightShift, "arithmetic_right_shift", AluClass::kBitvec, kNo},
    {AluOp::kAdd, "add", AluClass::kArithmetic, kYes},
    {AluOp::kSubtract, "subtract", AluClass::kArithmetic, kYes},
    {AluOp::kMultiply, "multiply", AluClass::kArithmetic, kYes},
    {AluOp::kDivide, "divide", AluClass::kArithmetic, kNo},
    {AluOp::kMaximum, "maximum", AluClass::kArithmetic, kYes},
    {AluOp::kMinimum, "minimum", AluClass::kArithmetic, kYes},
    {AluOp::kEqual, "equal", AluClass::kArithmetic, kNo},
    {AluOp::kNotEqual, "not_equal", AluClass::kArithmetic, kNo},
    {AluOp::kGreater, "greater", AluClass::kArithmetic, kNo},
    {AluOp::kGreaterEqual, "greater_equal", AluClass::kArithmetic, kNo},
    {AluOp::kLess, "less", AluClass::kArithmetic, kNo},
    {AluOp::kLessEqual, "less_equal", AluClass::kArithmetic, kNo},
    {AluOp::kLogicalAnd, "logical_and", AluClass::kArithmetic, kYes},
    {AluOp::kLogicalOr, "logical_or", AluClass::kArithmetic, kYes},
    {AluOp::kLogicalXor, "logical_xor", AluClass::kArithmetic, kYes},
    {AluOp::kLogicalNot, "logical_not", AluClass::kUnary, kNo},
    {AluOp::kPower, "power", AluClass::kArithmetic, kNo},
    {AluOp::kAbsMax, "abs_max", AluClass::kArithmetic, kNo},
    {AluOp::kAbsMin, "abs_min", AluClass::kArithmetic, kNo},
    {AluOp::kMod, "mod", AluClass::kArithmetic, kNo},
    {AluOp::kFmod, "fmod", AluClass::kArithmetic, kNo},
    {AluOp::kAverage, "average", AluClass::kArithmetic, kNo},
    {AluOp::kAbs, "abs", AluClass::kUnary, kNo},
    {AluOp::kSquare, "square", AluClass::kUnary, kNo},
    {AluOp::kRelu, "relu", AluClass::kUnary, kNo},
    {AluOp::kRsqrt, "rsqrt", AluClass::kUnary, kNo},
    {AluOp::kReciprocal, "reciprocal", AluClass::kUnary, kNo},
    {AluOp::kNegative, "negative", AluClass::kUnary, kNo},
    {AluOp::kSqrt, "sqrt", AluClass::kUnary, kNo},
}};

struct ActivationRow {
  ActivationFunction function;
  std::string_view name;
};

constexpr std::array<ActivationRow, kActivationFunctionCount> kActivationRows{{
    {ActivationFunction::kCopy, "copy"},
    {ActivationFunction::kSquare, "square"},
    {ActivationFunction::kSigmoid, "sigmoid"},
    {ActivationFunction::kRelu, "relu"},
    {ActivationFunction::kPrelu, "prelu"},
    {ActivationFunction::kGelu, "gelu"},
    {ActivationFunction::kGeluDx, "gelu_dx"},
    {ActivationFunction::kGeluApprxTanh, "gelu_apprx_tanh"},
    {ActivationFunction::kGeluApprxSigmoid, "gelu_apprx_sigmoid"},
    {ActivationFunction::kGeluApprxSigmoidDx, "gelu_apprx_sigmoid_dx"},
    {ActivationFunction::kSilu, "silu"},
    {ActivationFunction::kSiluDx, "silu_dx"},
    {ActivationFunction::kTanh, "tanh"},
    {ActivationFunction::kSoftplus, "softplus"},
    {ActivationFunction::kMish, "mish"},
    {ActivationFunction::kErf, "erf"},
    {ActivationFunction::kErfDx, "erf_dx"},
    {ActivationFunction::kExp, "exp"},
    {ActivationFunction::kSign, "sign"},
    {ActivationFunction::kAbs, "abs"},
    {ActivationFunction::kLog, "log"},
    {ActivationFunction::kSin, "sin"},
    {ActivationFunction::kArctan, "arctan"},
    {ActivationFunction::kSqrt, "sqrt"},
    {ActivationFunction::kRsqrt, "rsqrt"},
    {ActivationFunction::kReciprocal, "reciprocal"},
}};

constexpr bool in_enum_order() {
  for (size_t i = 0; i < kAluRows.size(); ++i) {
    if (static_cast<size_t>(kAluRows[i].op) != i) return false;
  }
  for (size_t i = 0; i < kActivationRows.size(); ++i) {
    if (static_cast<size_t>(kActivationRows[i].function) != i) return false;
  }
  return true;
}
static_assert(in_enum_order());

constexpr const AluRow& row(AluOp op) { return kAluRows[static_cast<size_t>(op)]; }

}  // namespace

std::string_view name(AluOp op) { return row(op).name; }
std::string_view name(ActivationFunction function) {
  return kActivationRows[static_cast<size_t>(function)].name;
}

std::optional<AluOp> alu_op_from_name(std::string_view name) {
  for (const AluRow& r : kAluRows) {
    if (r.name == name) return r.op;
  }
  return std::nullopt;
}

std::optional<ActivationFunction> activation_from_name(std::string_view name) {
  for (const ActivationRow& r : kActivationRows) {
    if (r.name == name) return r.function;
  }
  return std::nullopt;
}

bool is_bitvec(AluOp op) { return row(op).kind == AluClass::kBitvec; }
bool is_unary(AluOp op) { return row(op).kind == AluClass::kUnary || op == AluOp::kInvert; }
bool is_reduction(AluOp op) { return row(op).reduces == Reduces::kYes; }

}  // namespace opentrn
