// Arithmetic in the sequencer's registers, without the instructions whose results are known beforehand: in a
// loop of 60 steps the counter needs no clamp to [0, 59].
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "compiler/lowering/emitter.h"

namespace opentrn::compiler {

// Whole numbers from `low` to `high`.
struct Interval {
  int64_t low, high;

  bool is_one() const { return low == high; }
  bool operator==(const Interval&) const = default;
};

// What an instruction makes of operands in these intervals, 32-bit two's complement; nullopt where it may
// wrap or is not known.
std::optional<Interval> interval_of(AluOp op, Interval a, Interval b);

class Registers {
 public:
  using Value = Emitter::RegisterOrNumber;

  explicit Registers(Emitter& emitter) : emitter_(emitter) {}

  // The register never holds anything else from here on.
  void holds(isa::RegisterId id, Interval values) { known_.insert_or_assign(id, values); }
  // Of a register of which nothing is known: all that 32 bits can be.
  Interval interval(const Value& value) const;
  // A number or one of the operands where that is the result for certain, else a new register.
  Value alu(AluOp op, const Value& a, const Value& b);
  Value clamped(const Value& value, int64_t low, int64_t high);
  // In a register, whatever it is.
  isa::RegisterId in_register(const Value& value);

 private:
  std::optional<Value> result_for_certain(AluOp op, const Value& a, const Value& b) const;

  Emitter& emitter_;
  std::map<isa::RegisterId, Interval> known_;
};

}  // namespace opentrn::compiler
