#include "profile/high_water.h"

#include <algorithm>
#include <limits>
#include <map>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

namespace opentrn::profile {

namespace {

constexpr double kAlways = std::numeric_limits<double>::infinity();

struct Life {
  double begin = 0;
  double end = 0;
  double until = -1;  // an access from here on is to another value: the loop that makes the tensor goes round
  isa::TensorId tensor = 0;
};

// One pass over the events of a core. A tensor that a loop makes lives anew in each iteration.
class Lives {
 public:
  Lives(const trace::Trace& trace, uint16_t core, const isa::Executable& executable)
      : trace_(trace), core_(core), program_(*executable.program), open_(program_.tensor_count()) {
    moved_by_dma_.resize(program_.size());
    for (const isa::ScheduledInstruction& entry : executable.schedule)
      moved_by_dma_[entry.instruction] = entry.engine == isa::Engine::kDma;
    for (const trace::Iteration& iteration : trace.iterations)
      if (iteration.core == core) ends_[iteration.loop].push_back(iteration.end_ns);
  }

  std::vector<Life> take() {
    for (const trace::Event& event : trace_.events)
      if (holds(event)) add(event);
    for (const Life& life : open_)
      if (life.until >= 0 && isa::is_on_chip(program_.tensor(life.tensor).space)) closed_.push_back(life);
    return std::move(closed_);
  }

 private:
  // The engine that triggers a transfer touches none of its bytes.
  bool holds(const trace::Event& event) const {
    const trace::Track& track = trace_.tracks[event.track];
    if (track.core != core_ || event.instruction >= program_.size()) return false;
    const bool transfer = moved_by_dma_[event.instruction];
    return track.kind == (transfer ? trace::TrackKind::kDmaQueue : trace::TrackKind::kEngine);
  }

  void add(const trace::Event& event) {
    for (const isa::Operand& operand : program_.operands(program_.instruction(event.instruction))) {
      if (!operand.is_access()) continue;
      touch(operand.tensor, event);
      if (operand.indirect == isa::kNoIndirect) continue;
      const isa::Operand& index = program_.indirect(operand).index;
      if (index.is_access()) touch(index.tensor, event);
    }
  }

  void touch(isa::TensorId id, const trace::Event& event) {
    Life& life = open_[id];
    if (event.start_ns >= life.until) begin(id, event);
    life.begin = std::min(life.begin, event.start_ns);
    life.end = std::max(life.end, event.end_ns);
  }

  void begin(isa::TensorId id, const trace::Event& event) {
    Life& life = open_[id];
    if (life.until >= 0) closed_.push_back(life);
    const auto loop = program_.tensor(id).loop;
    life = {event.start_ns, event.end_ns, loop ? end_of_iteration(*loop, event.start_ns) : kAlways, id};
  }

  double end_of_iteration(isa::InstructionIndex loop, double at) const {
    const auto found = ends_.find(loop);
    if (found == ends_.end()) return kAlways;
    const auto end = std::ranges::upper_bound(found->second, at);
    return end == found->second.end() ? kAlways : *end;
  }

  const trace::Trace& trace_;
  uint16_t core_;
  const isa::Program& program_;
  std::vector<bool> moved_by_dma_;                             // by instruction
  std::map<isa::InstructionIndex, std::vector<double>> ends_;  // of the iterations of a loop
  std::vector<Life> open_;                                     // by tensor
  std::vector<Life> closed_;
};

struct Change {
  double at;
  bool begins;  // what ends goes first: its bytes are given to what begins
  isa::TensorId tensor;
};

// Bytes of a partition that at least one live tensor covers. Two tensors may cover a byte at once, as their
// lives are those of all their bytes: the first part of a tensor is loaded into room that its last reader has
// left, while another part of that room is still read. The byte is there once.
class Coverage {
 public:
  // Between these offsets, sorted and each once, everything begins and ends.
  explicit Coverage(std::vector<int64_t> offsets) : offsets_(std::move(offsets)) {
    while (leaves_ < offsets_.size()) leaves_ *= 2;
    nodes_.resize(2 * leaves_);
  }

  void change(int64_t begin, int64_t end, bool begins) { change(1, 0, leaves_, begin, end, begins ? 1 : -1); }
  int64_t covered() const { return nodes_[1].covered; }

 private:
  struct Node {
    int64_t tenants = 0;  // that cover all of it, but not all of its parent
    int64_t covered = 0;  // bytes
  };

  int64_t offset(size_t leaf) const { return leaf < offsets_.size() ? offsets_[leaf] : offsets_.back(); }

  // Node `at` stands for the leaves [first, last): leaf k for the bytes from the k-th offset to the next.
  void change(size_t at, size_t first, size_t last, int64_t begin, int64_t end, int64_t by) {
    const int64_t low = offset(first), high = offset(last);
    if (high <= begin || end <= low) return;
    Node& node = nodes_[at];
    if (begin <= low && high <= end) {
      node.tenants += by;
    } else {
      const size_t middle = (first + last) / 2;
      change(2 * at, first, middle, begin, end, by);
      change(2 * at + 1, middle, last, begin, end, by);
    }
    const bool is_leaf = last - first == 1;
    node.covered = node.tenants > 0 ? high - low
                   : is_leaf        ? 0
                                    : nodes_[2 * at].covered + nodes_[2 * at + 1].covered;
  }

  std::vector<int64_t> offsets_;
  size_t leaves_ = 1;
  std::vector<Node> nodes_;  // a complete binary tree; [1] is its root
};

constexpr int64_t kQuadrants = 4;

// Which quadrants of the partitions a tensor's rows lie in, the first and behind the last.
std::pair<int64_t, int64_t> quadrants_of(const isa::Address& address, int64_t rows, int64_t partitions) {
  const int64_t each = partitions / kQuadrants;
  return {address.partition / each, std::min(kQuadrants, (address.partition + rows - 1) / each + 1)};
}

// SBUF, by quadrants.
class Sbuf {
 public:
  Sbuf(const isa::Executable& executable, std::span<const Change> changes, int64_t partitions)
      : executable_(executable), partitions_(partitions) {
    std::vector<int64_t> offsets{0};
    for (const Change& change : changes) {
      const int64_t begin = executable.placements[change.tensor].address.byte_offset;
      offsets.push_back(begin);
      offsets.push_back(begin + executable.program->tensor(change.tensor).row_bytes());
    }
    std::ranges::sort(offsets);
    offsets.erase(std::unique(offsets.begin(), offsets.end()), offsets.end());
    quadrants_.assign(kQuadrants, Coverage(offsets));
  }

  // Bytes of a partition that are held then, in the mean over quadrants.
  int64_t change(const Change& change) {
    const isa::Tensor& tensor = executable_.program->tensor(change.tensor);
    const isa::Address& address = executable_.placements[change.tensor].address;
    const auto [first, last] = quadrants_of(address, tensor.rows, partitions_);
    for (int64_t q = first; q < last; ++q)
      quadrants_[static_cast<size_t>(q)].change(address.byte_offset, address.byte_offset + tensor.row_bytes(),
                                                change.begins);
    int64_t sum = 0;
    for (const Coverage& quadrant : quadrants_) sum += quadrant.covered();
    return (sum + kQuadrants - 1) / kQuadrants;
  }

 private:
  const isa::Executable& executable_;
  int64_t partitions_;
  std::vector<Coverage> quadrants_;
};

// Banks that hold something; tensors may share one.
class Banks {
 public:
  explicit Banks(int64_t bank_bytes) : bank_bytes_(bank_bytes) {}
  int64_t change(int64_t begin, int64_t bytes, bool begins) {
    for (int64_t bank = begin / bank_bytes_; bank * bank_bytes_ < begin + std::max<int64_t>(1, bytes);
         ++bank) {
      if (bank >= static_cast<int64_t>(tenants_.size())) tenants_.resize(static_cast<size_t>(bank) + 1);
      int64_t& count = tenants_[static_cast<size_t>(bank)];
      held_ -= count > 0;
      count += begins ? 1 : -1;
      held_ += count > 0;
    }
    return held_;
  }

 private:
  int64_t bank_bytes_;
  std::vector<int64_t> tenants_;
  int64_t held_ = 0;
};

}  // namespace

HighWater high_water(const trace::Trace& trace, uint16_t core, const isa::Executable& executable,
                     const arch::NeuronCore& limits) {
  std::vector<Change> changes;
  for (const Life& life : Lives(trace, core, executable).take()) {
    if (life.end <= life.begin) continue;  // would end before it begins
    changes.push_back({life.begin, true, life.tensor});
    changes.push_back({life.end, false, life.tensor});
  }
  std::ranges::sort(changes, {}, [](const Change& c) { return std::tuple(c.at, c.begins, c.tensor); });
  HighWater peak;
  Sbuf sbuf(executable, changes, limits.partitions);
  Banks banks(limits.psum_bank_bytes_per_partition);
  for (const Change& change : changes) {
    const isa::Tensor& tensor = executable.program->tensor(change.tensor);
    if (tensor.space == isa::MemorySpace::kPsum) {
      const int64_t begin = executable.placements[change.tensor].address.byte_offset;
      peak.psum_banks = std::max(peak.psum_banks, banks.change(begin, tensor.row_bytes(), change.begins));
      continue;
    }
    peak.sbuf_bytes_per_partition = std::max(peak.sbuf_bytes_per_partition, sbuf.change(change));
  }
  return peak;
}

}  // namespace opentrn::profile
