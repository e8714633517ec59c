// How much of an on-chip memory holds something at once.
#pragma once

#include <vector>

#include "backend/lifetime.h"
#include "isa/executable.h"

namespace opentrn::backend {

// Bytes of a partition that live tensors take together, in quarters, and the most so far.
class LiveBytes {
 public:
  explicit LiveBytes(int64_t partitions) : partitions_(partitions) {}
  void change(const isa::Tensor& tensor, bool begins);
  int64_t peak() const { return (peak_ + 3) / 4; }

 private:
  int64_t partitions_, quarters_ = 0, peak_ = 0;
};

// Banks that hold a live tensor, and the most so far.
class LiveBanks {
 public:
  explicit LiveBanks(int64_t bank_bytes) : bank_bytes_(bank_bytes) {}
  // Of a tensor that lies from byte `begin` on.
  void change(const isa::Tensor& tensor, int64_t begin, bool begins);
  int64_t peak() const { return peak_; }

 private:
  int64_t bank_bytes_, live_ = 0, peak_ = 0;
  std::vector<int64_t> tenants_;  // by bank
};

// Most bytes of a partition that live tensors of `space` take together. A tensor of up to 32 rows counts a
// quarter, of up to 64 rows a half: others can lie beside it.
int64_t peak_live_bytes(const isa::Program& program, const std::vector<Lifetime>& lifetimes,
                        isa::MemorySpace space, int64_t partitions);

// Most banks of `bank_bytes` that hold a live tensor of `space` at once, as they are placed.
int64_t peak_live_banks(const isa::Program& program, const std::vector<Lifetime>& lifetimes,
                        const std::vector<isa::Placement>& placements, isa::MemorySpace space,
                        int64_t bank_bytes);

}  // namespace opentrn::backend
