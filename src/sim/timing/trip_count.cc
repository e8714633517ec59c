#include "sim/timing/trip_count.h"

#include <algorithm>

#include <fmt/format.h>

namespace opentrn::sim::timing {

using isa::Opcode;
using isa::Operand;

namespace {

std::optional<int64_t> evaluate(AluOp op, int64_t a, int64_t b) {
  switch (op) {
    case AluOp::kAdd: return a + b;
    case AluOp::kSubtract: return a - b;
    case AluOp::kMultiply: return a * b;
    case AluOp::kMaximum: return std::max(a, b);
    case AluOp::kMinimum: return std::min(a, b);
    case AluOp::kEqual: return a == b;
    case AluOp::kNotEqual: return a != b;
    case AluOp::kGreater: return a > b;
    case AluOp::kGreaterEqual: return a >= b;
    case AluOp::kLess: return a < b;
    case AluOp::kLessEqual: return a <= b;
    case AluOp::kBitwiseAnd: return a & b;
    case AluOp::kBitwiseOr: return a | b;
    case AluOp::kBitwiseXor: return a ^ b;
    default: return std::nullopt;
  }
}

bool is_comparison(AluOp op) {
  switch (op) {
    case AluOp::kEqual:
    case AluOp::kNotEqual:
    case AluOp::kGreater:
    case AluOp::kGreaterEqual:
    case AluOp::kLess:
    case AluOp::kLessEqual: return true;
    default: return false;
  }
}

}  // namespace

std::optional<int64_t> RegisterTracker::value(const Operand& operand) const {
  if (operand.kind == isa::OperandKind::kImmediate) return static_cast<int64_t>(operand.immediate);
  if (operand.kind == isa::OperandKind::kRegister) return known_[operand.tensor];
  return std::nullopt;
}

bool RegisterTracker::is_truth(const Operand& operand) const {
  return operand.kind == isa::OperandKind::kRegister && truth_[operand.tensor];
}

void RegisterTracker::follow(const isa::Instruction& in) {
  if (in.opcode == Opcode::kRegisterLoad) {
    const auto dst = program_.operand(in, isa::slot::register_load::kDst).tensor;
    known_[dst] = std::nullopt;
    truth_[dst] = false;
  } else if (in.opcode == Opcode::kRegisterMove) {
    namespace s = isa::slot::register_move;
    const auto dst = program_.operand(in, s::kDst).tensor;
    known_[dst] = value(program_.operand(in, s::kSrc));
    truth_[dst] = is_truth(program_.operand(in, s::kSrc));
  } else if (in.opcode == Opcode::kRegisterAlu) {
    namespace s = isa::slot::register_alu;
    const auto a = value(program_.operand(in, s::kA)), b = value(program_.operand(in, s::kB));
    const auto dst = program_.operand(in, s::kDst).tensor;
    known_[dst] = a && b ? evaluate(program_.attribute_alu(in, s::kAOp), *a, *b) : std::nullopt;
    truth_[dst] = is_comparison(program_.attribute_alu(in, s::kAOp));
  }
}

int64_t trip_count(const isa::Program& program, isa::InstructionIndex begin, int64_t entry,
                   const RegisterTracker& registers, const SimulateOptions& options) {
  const auto given = options.trip_counts.find(begin);
  if (given != options.trip_counts.end()) return given->second;
  const isa::Instruction& in = program.instruction(begin);
  if (in.opcode == Opcode::kLoopBegin) {
    namespace s = isa::slot::loop;
    const auto lower = registers.value(program.operand(in, s::kLower)),
               upper = registers.value(program.operand(in, s::kUpper));
    const int64_t step = program.attribute_int(in, s::kAStep);
    if (lower && upper && step > 0) return *lower < *upper ? (*upper - *lower - 1) / step + 1 : 0;
  }
  const auto observed = options.observed_trips.find(begin);
  if (observed != options.observed_trips.end() && !observed->second.empty()) {
    for (const auto& [iterations, entries] : observed->second) {
      if (entry < entries) return iterations;
      entry -= entries;
    }
    return observed->second.back().first;
  }
  if (options.default_trip_count) {
    // A branch is a loop from 0 to a truth value: taken, not repeated.
    namespace s = isa::slot::loop;
    const bool is_branch =
        in.opcode == Opcode::kLoopBegin && registers.is_truth(program.operand(in, s::kUpper));
    return is_branch ? std::min<int64_t>(*options.default_trip_count, 1) : *options.default_trip_count;
  }
  Fault fault(
      FaultKind::kInput, "timing.trip_count",
      fmt::format(
          "how often the loop at instruction {} runs depends on values, which a timing run never sees",
          begin),
      "--loop-iterations N (in Python: loop_iterations=N)");
  fault.set_location(program.location(in.location));
  throw fault;
}

}  // namespace opentrn::sim::timing
