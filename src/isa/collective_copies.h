// A collective in a core's program: the copies that stand for its trigger.
//
// In a recorded program a collective is copies to what is sent and copies of what arrived. On the device it
// is one trigger: a write to a CC-core, which moves the data by its own DMA rings. Whoever orders or times
// instructions must know these copies from others; they are known by their tensors.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "isa/program.h"

namespace opentrn::isa {

struct CollectiveCopies {
  std::vector<TensorId> sent;      // written by copies of what the rank sends
  std::vector<TensorId> received;  // read by copies of what arrived
};

// Which collective an instruction is a copy of.
class CollectiveFinder {
 public:
  CollectiveFinder() = default;
  // Numbered as given.
  explicit CollectiveFinder(std::span<const CollectiveCopies> collectives) {
    for (size_t i = 0; i < collectives.size(); ++i)
      for (const auto* tensors : {&collectives[i].sent, &collectives[i].received})
        for (const TensorId tensor : *tensors) of_tensor_.emplace(tensor, static_cast<int32_t>(i));
  }

  // -1: of none. `dma`: whether the DMA engines execute it; others are no copies.
  int32_t of(const Program& program, const Instruction& in, bool dma) const {
    if (!dma || of_tensor_.empty()) return -1;
    for (const Operand& operand : program.operands(in))
      if (operand.is_access())
        if (const auto found = of_tensor_.find(operand.tensor); found != of_tensor_.end())
          return found->second;
    return -1;
  }

 private:
  std::unordered_map<TensorId, int32_t> of_tensor_;
};

}  // namespace opentrn::isa
