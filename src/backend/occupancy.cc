#include "backend/occupancy.h"

#include <algorithm>
#include <utility>

#include "backend/space_map.h"

namespace opentrn::backend {

namespace {

constexpr uint32_t kNoTensor = UINT32_MAX;

// Tensors of a memory by the instruction after which they end, and by the one at which they begin: ends come
// before beginnings there.
struct Changes {
  std::vector<uint32_t> first_end, next_end;  // by instruction, by tensor
  std::vector<uint32_t> first_begin, next_begin;

  Changes(const isa::Program& program, const std::vector<Lifetime>& lifetimes, isa::MemorySpace space)
      : first_end(program.size() + 1, kNoTensor),
        next_end(program.tensor_count(), kNoTensor),
        first_begin(program.size() + 1, kNoTensor),
        next_begin(program.tensor_count(), kNoTensor) {
    for (isa::TensorId id = static_cast<isa::TensorId>(program.tensor_count()); id-- > 0;) {
      if (program.tensor(id).space != space || !lifetimes[id].used) continue;
      next_begin[id] = std::exchange(first_begin[lifetimes[id].first], id);
      next_end[id] = std::exchange(first_end[lifetimes[id].last + 1], id);
    }
  }
  // Calls change(tensor, begins) in order.
  template <typename Change>
  void for_each(Change&& change) const {
    for (size_t at = 0; at < first_end.size(); ++at) {
      for (uint32_t id = first_end[at]; id != kNoTensor; id = next_end[id]) change(id, false);
      for (uint32_t id = first_begin[at]; id != kNoTensor; id = next_begin[id]) change(id, true);
    }
  }
};

}  // namespace

void LiveBytes::change(const isa::Tensor& tensor, bool begins) {
  const int64_t share = quadrants_taken(tensor.rows, partitions_);
  quarters_ += (begins ? share : -share) * tensor.row_bytes();
  peak_ = std::max(peak_, quarters_);
}

void LiveBanks::change(const isa::Tensor& tensor, int64_t begin, bool begins) {
  const int64_t end = begin + std::max<int64_t>(1, tensor.row_bytes());
  for (int64_t bank = begin / bank_bytes_; bank * bank_bytes_ < end; ++bank) {
    if (bank >= static_cast<int64_t>(tenants_.size())) tenants_.resize(static_cast<size_t>(bank) + 1);
    int64_t& count = tenants_[static_cast<size_t>(bank)];
    live_ -= count > 0;
    count += begins ? 1 : -1;
    live_ += count > 0;
  }
  peak_ = std::max(peak_, live_);
}

int64_t peak_live_bytes(const isa::Program& program, const std::vector<Lifetime>& lifetimes,
                        isa::MemorySpace space, int64_t partitions) {
  LiveBytes live(partitions);
  Changes(program, lifetimes, space).for_each([&](isa::TensorId id, bool begins) {
    live.change(program.tensor(id), begins);
  });
  return live.peak();
}

int64_t peak_live_banks(const isa::Program& program, const std::vector<Lifetime>& lifetimes,
                        const std::vector<isa::Placement>& placements, isa::MemorySpace space,
                        int64_t bank_bytes) {
  LiveBanks live(bank_bytes);
  Changes(program, lifetimes, space).for_each([&](isa::TensorId id, bool begins) {
    live.change(program.tensor(id), placements[id].address.byte_offset, begins);
  });
  return live.peak();
}

}  // namespace opentrn::backend
