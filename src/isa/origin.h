// Where the instructions of a compiled model come from: which op of the model, which device kernel, and
// whether an instruction computes or only moves what another one needs elsewhere.
//
// Reports add instructions up by it; nothing else depends on it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/fault.h"
#include "isa/program.h"

namespace opentrn::isa {

enum class Purpose : uint8_t {
  kCompute,     // what the op's kernel does: loads, arithmetic, stores
  kLayoutCopy,  // HBM to HBM: no strides express what a reader wants
  kResultCopy,  // HBM to HBM: a result of the model must be a tensor of its own
  kSpill,       // a value kept in SBUF makes room for another
  kWriteBack,   // a value kept in SBUF is wanted in HBM
};
inline constexpr int kPurposeCount = static_cast<int>(Purpose::kWriteBack) + 1;
std::string_view name(Purpose purpose);  // "layout copy"

// One op of the model, after the compiler's graph passes.
struct ModelOp {
  std::string kind;      // "stablehlo.dot_general"
  std::string result;    // types of the results, "tensor<8x4xf32>"
  SourceLocation where;  // `function` is the framework's name of the op, "jit(f)/jit(main)/dot_general"
  double flops = 0;      // of the model's arithmetic, not of how it was lowered
};

inline constexpr uint32_t kNoModelOp = 0xFFFFFFFFu;

// Instructions from `begin` to the next span's.
struct OriginSpan {
  InstructionIndex begin = 0;
  uint32_t op = kNoModelOp;  // index into Origin::ops
  uint32_t kernel = 0;       // numbered in the order in which they were lowered
  Purpose purpose = Purpose::kCompute;

  bool same_source(const OriginSpan& other) const {
    return op == other.op && kernel == other.kernel && purpose == other.purpose;
  }
};

struct Origin {
  std::vector<ModelOp> ops;
  std::vector<OriginSpan> spans;  // by `begin`, which only grows

  bool empty() const { return spans.empty(); }
  // The next instruction has this index and this source.
  void note(const OriginSpan& span);
  // The source of an instruction; kNoModelOp before the first span.
  OriginSpan at(InstructionIndex instruction) const;
  int64_t kernel_count() const;
};

}  // namespace opentrn::isa
