// When a named row of the timing tables applies. The words are the `when` of the rows in timing_v*.toml.
#include <fmt/format.h>

#include "cost/rules.h"

namespace opentrn::cost {

namespace {

using isa::Instruction;
using isa::Opcode;
using isa::Program;

bool one_input_in_psum(const Program&, const Instruction&, const OperandFeatures& f) {
  return f.wide_inputs == 2 && f.wide_inputs_in_psum == 1;
}

bool is_add_or_max(AluOp op) { return op == AluOp::kAdd || op == AluOp::kMaximum; }

bool tensor_tensor_bf16(const Program& program, const Instruction& in, const OperandFeatures& f) {
  const AluOp op = program.attribute_alu(in, isa::slot::tensor_tensor::kAOp);
  const bool cheap = op == AluOp::kAdd || op == AluOp::kSubtract || op == AluOp::kMultiply;
  return f.all_bf16 && f.inputs_in_sbuf && f.contiguous && cheap;
}

bool scalar_tensor_tensor_bf16(const Program& program, const Instruction& in, const OperandFeatures& f) {
  namespace s = isa::slot::scalar_tensor_tensor;
  return f.all_bf16 && f.longest % 2 == 0 && program.attribute_alu(in, s::kAOp0) == AluOp::kSubtract &&
         program.attribute_alu(in, s::kAOp1) == AluOp::kMultiply;
}

bool tensor_reduce_bf16(const Program& program, const Instruction& in, const OperandFeatures& f) {
  return f.all_bf16 && is_add_or_max(program.attribute_alu(in, isa::slot::tensor_reduce::kAOp));
}

bool memset_zero_16bit(const Program& program, const Instruction& in, const OperandFeatures& f) {
  const isa::Operand& value = program.operand(in, isa::slot::memset::kValue);
  return f.all_16bit && value.kind == isa::OperandKind::kImmediate && value.immediate == 0;
}

bool four_times(const Program&, const Instruction&, const OperandFeatures& f) {
  return f.all_16bit && f.all_in_sbuf && f.contiguous;
}

bool twice(const Program&, const Instruction&, const OperandFeatures& f) {
  if (!f.all_16bit) return false;
  return f.all_in_sbuf || (f.contiguous && f.psum_operands == 1);
}

bool all_fp32(const Program&, const Instruction&, const OperandFeatures& f) {
  return f.all_fp32 && f.all_in_sbuf && f.contiguous;
}

bool to_or_from_fp8(const Program&, const Instruction&, const OperandFeatures& f) {
  return f.all_narrow_floats && f.all_in_sbuf;
}

bool tensor_tensor_16bit(const Program&, const Instruction&, const OperandFeatures& f) {
  return f.all_16bit && f.inputs_in_sbuf;
}

bool all_16bit(const Program&, const Instruction&, const OperandFeatures& f) { return f.all_16bit; }

// Where FP8 has the rate of 16 bits, floats of either width may mix.
bool narrow_four_times(const Program&, const Instruction&, const OperandFeatures& f) {
  return f.all_narrow_floats && f.all_in_sbuf && f.contiguous;
}

bool narrow_beside_psum(const Program&, const Instruction&, const OperandFeatures& f) {
  return f.all_narrow_floats && f.contiguous && f.psum_operands == 1;
}

bool tensor_tensor_narrow(const Program&, const Instruction&, const OperandFeatures& f) {
  return f.all_narrow_floats && f.inputs_in_sbuf;
}

bool all_narrow(const Program&, const Instruction&, const OperandFeatures& f) { return f.all_narrow_floats; }

bool has_reduce_result(const Program& program, const Instruction& in, const OperandFeatures&) {
  const int slot = in.opcode == Opcode::kActivate2 ? static_cast<int>(isa::slot::activate2::kReduceRes)
                                                   : static_cast<int>(isa::slot::activation::kReduceRes);
  return slot < in.operand_count && program.operand(in, slot).is_access();
}

bool is_rsqrt(const Program& program, const Instruction& in, const OperandFeatures&) {
  namespace s = isa::slot::tensor_scalar;
  return program.attribute_alu(in, s::kAOp0) == AluOp::kRsqrt ||
         static_cast<AluOp>(program.attribute_int(in, s::kAOp1)) == AluOp::kRsqrt;
}

bool dynamic_address(const Program&, const Instruction&, const OperandFeatures& f) {
  return f.dynamic_address;
}

struct Named {
  const char* instruction;  // "" for any
  const char* mode;
  Condition condition;
};

constexpr RowKind kUsual = RowKind::kUsual, kFaster = RowKind::kFaster, kSlower = RowKind::kSlower;
constexpr Named kConditions[] = {
    {"", "default", {kUsual, nullptr}},
    {"", "gpsimd", {kUsual, nullptr}},  // the usual cost on that engine
    {"", "vector", {kUsual, nullptr}},
    {"", "scalar", {kUsual, nullptr}},
    {"", "dynamic", {kSlower, dynamic_address}},
    {"", "fast_psum_sbuf", {kFaster, one_input_in_psum}},
    {"tensor_tensor", "bf16_fast", {kFaster, tensor_tensor_bf16}},
    {"tensor_tensor", "bf16_2x", {kFaster, tensor_tensor_16bit}},
    {"scalar_tensor_tensor", "bf16_fast", {kFaster, scalar_tensor_tensor_bf16}},
    {"tensor_reduce", "bf16_fast", {kFaster, tensor_reduce_bf16}},
    {"memset", "zero_16bit", {kFaster, memset_zero_16bit}},
    {"tensor_copy", "bf16_4x", {kFaster, four_times}},
    {"tensor_scalar", "bf16_4x", {kFaster, four_times}},
    {"tensor_copy", "bf16_2x", {kFaster, twice}},
    {"tensor_scalar", "bf16_2x", {kFaster, twice}},
    {"tensor_scalar", "fp32_2x", {kFaster, all_fp32}},
    {"tensor_copy", "fp8_2x", {kFaster, to_or_from_fp8}},
    {"tensor_scalar", "fp8_2x", {kFaster, to_or_from_fp8}},
    {"tensor_copy", "fp8_4x", {kFaster, narrow_four_times}},
    {"tensor_scalar", "fp8_4x", {kFaster, narrow_four_times}},
    {"tensor_copy", "fp8_psum_2x", {kFaster, narrow_beside_psum}},
    {"tensor_scalar", "fp8_psum_2x", {kFaster, narrow_beside_psum}},
    {"tensor_tensor", "fp8_2x", {kFaster, tensor_tensor_narrow}},
    {"tensor_copy", "scalar_bf16_2x", {kFaster, all_16bit}},
    {"tensor_scalar", "scalar_bf16_2x", {kFaster, all_16bit}},
    {"tensor_copy", "scalar_fp8_2x", {kFaster, all_narrow}},
    {"tensor_scalar", "scalar_fp8_2x", {kFaster, all_narrow}},
    {"tensor_scalar", "gpsimd_rsqrt", {kSlower, is_rsqrt}},
    {"activation", "reduce", {kSlower, has_reduce_result}},
    {"activate2", "reduce", {kSlower, has_reduce_result}},
};

}  // namespace

Condition condition_named(const std::string& instruction, const std::string& mode) {
  for (const Named& named : kConditions)
    if (mode == named.mode && (*named.instruction == '\0' || instruction == named.instruction))
      return named.condition;
  throw Fault(FaultKind::kInput, "timing.mode",
              fmt::format("the timing table has a cost '{}' for {}, and no rule says when it applies", mode,
                          instruction),
              "add the condition to src/cost/conditions.cc");
}

}  // namespace opentrn::cost
