#include "backend/occupancy.h"

#include <algorithm>
#include <tuple>

#include "backend/space_map.h"

namespace opentrn::backend {

namespace {

struct Change {
  uint64_t at;  // instruction; ends come before beginnings there
  isa::TensorId tensor;
  bool begins;
};

std::vector<Change> changes_of(const isa::Program& program, const std::vector<Lifetime>& lifetimes,
                               isa::MemorySpace space) {
  std::vector<Change> changes;
  for (isa::TensorId id = 0; id < program.tensor_count(); ++id) {
    if (program.tensor(id).space != space || !lifetimes[id].used) continue;
    changes.push_back({lifetimes[id].first, id, true});
    changes.push_back({uint64_t{lifetimes[id].last} + 1, id, false});
  }
  std::ranges::sort(changes, {}, [](const Change& c) { return std::tuple(c.at, c.begins, c.tensor); });
  return changes;
}

}  // namespace

int64_t peak_live_bytes(const isa::Program& program, const std::vector<Lifetime>& lifetimes,
                        isa::MemorySpace space, int64_t partitions) {
  int64_t quarters = 0, peak = 0;
  for (const Change& change : changes_of(program, lifetimes, space)) {
    const isa::Tensor& tensor = program.tensor(change.tensor);
    const int64_t share = quadrants_taken(tensor.rows, partitions);
    quarters += (change.begins ? share : -share) * tensor.row_bytes();
    peak = std::max(peak, quarters);
  }
  return (peak + 3) / 4;
}

int64_t peak_live_banks(const isa::Program& program, const std::vector<Lifetime>& lifetimes,
                        const std::vector<isa::Placement>& placements, isa::MemorySpace space,
                        int64_t bank_bytes) {
  std::vector<int64_t> tenants;
  int64_t live = 0, peak = 0;
  for (const Change& change : changes_of(program, lifetimes, space)) {
    const int64_t begin = placements[change.tensor].address.byte_offset;
    const int64_t end = begin + std::max<int64_t>(1, program.tensor(change.tensor).row_bytes());
    for (int64_t bank = begin / bank_bytes; bank * bank_bytes < end; ++bank) {
      if (bank >= static_cast<int64_t>(tenants.size())) tenants.resize(static_cast<size_t>(bank) + 1);
      int64_t& count = tenants[static_cast<size_t>(bank)];
      live -= count > 0;
      count += change.begins ? 1 : -1;
      live += count > 0;
    }
    peak = std::max(peak, live);
  }
  return peak;
}

}  // namespace opentrn::backend
