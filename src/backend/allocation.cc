#include "backend/allocation.h"

#include <algorithm>
#include <bit>
#include <optional>
#include <string>

#include <fmt/format.h>

#include "backend/array_places.h"
#include "backend/occupancy.h"
#include "backend/space_map.h"
#include "base/interrupt.h"

namespace opentrn::backend {

namespace {

using isa::MemorySpace;
using isa::TensorId;

// What takes this part of the memory is large: where it rotates, it soon finds no place in one piece.
constexpr int64_t kLargeShare = 24;
// And what takes these has a part of its own where that fails, too.
constexpr int64_t kApartShares[] = {4, 8, 16};
// What is no larger cuts the memory into pieces where there are many.
constexpr int64_t kTinyBytes = 64;
// Instructions before the one whose tensor finds no place whose tensors are packed first, and how often more
// are.
constexpr int64_t kPackedInstructions = 256;
constexpr int kPackingsMax = 32;

int64_t round_up(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }

// One of the two on-chip memories, its rules and its tenants.
class OnChip {
 public:
  OnChip(const isa::Program& program, const std::vector<Lifetime>& lifetimes, MemorySpace space,
         const Options& options, const arch::NeuronCore& core, ArrayPlaces& array)
      : program_(program), lifetimes_(lifetimes), space_(space), partitions_(core.partitions), array_(array) {
    const bool psum = space == MemorySpace::kPsum;
    capacity_ = psum ? core.psum_bytes_per_partition : core.sbuf_bytes_per_partition;
    bank_bytes_ = psum ? core.psum_bank_bytes_per_partition.value() : 0;
    alignment_ = options.sbuf_alignment_bytes;
    for (TensorId id = 0; id < program.tensor_count(); ++id) {
      if (program.tensor(id).space != space || !lifetimes[id].used) continue;
      (program.tensor(id).address ? pinned_ : floating_).push_back(id);
    }
    const auto by_birth = [&](TensorId a, TensorId b) {
      return std::pair(lifetimes[a].first, a) < std::pair(lifetimes[b].first, b);
    };
    std::ranges::sort(pinned_, by_birth);
    if (!std::ranges::is_sorted(floating_, by_birth)) std::ranges::sort(floating_, by_birth);
  }

  // False only with Ways::kRotating and kApart: no place was found.
  bool place(std::vector<isa::Placement>& placements, Ways ways) {
    check_sizes();
    pin(placements);
    peak_.reset();
    rotates_ = true;
    if (floating_.empty()) return true;
    if (ways == Ways::kApart && bank_bytes_ == 0) return rotate_apart(placements);
    if (rotate(placements, {SpaceMap::Policy::kOldest, bank_bytes_ > 0, false, 0})) return true;
    if (rotate(placements, {SpaceMap::Policy::kOldest, false, true, 0})) return true;
    if (bank_bytes_ == 0 && rotate_but_where_it_is_tight(placements)) {
      rotates_ = false;
      return true;
    }
    if (rotate(placements, {SpaceMap::Policy::kOldest, false, true, capacity_ / kLargeShare})) return true;
    if (ways == Ways::kRotating) return false;
    rotates_ = false;
    if (rotate(placements, {SpaceMap::Policy::kLowest, false, true, 0})) return true;
    constexpr size_t kBySizeMax = 20'000;  // it compares every pair
    if (floating_.size() + pinned_.size() <= kBySizeMax && by_size(placements)) return true;
    throw_full(most_live());
  }

  // What was placed was, by ways that rotate everywhere.
  bool rotates() const { return rotates_; }

  // As peak_live_bytes() of an SBUF and peak_live_banks() of a PSUM that were placed.
  int64_t peak(const std::vector<isa::Placement>& placements) const {
    if (peak_) return *peak_;
    return bank_bytes_ > 0 ? peak_live_banks(program_, lifetimes_, placements, space_, bank_bytes_)
                           : peak_live_bytes(program_, lifetimes_, space_, partitions_);
  }

  void check_places() const {
    check_sizes();
    check_pinned();
  }

  void check_capacity() const {
    const MostLive most = most_live();
    if (most.bytes > capacity_) throw_full(most);
  }

 private:
  std::string label(const char* rule) const { return fmt::format("{}.{}", isa::name(space_), rule); }
  int64_t bytes_of(TensorId id) const { return std::max<int64_t>(1, program_.tensor(id).row_bytes()); }
  // In a memory of four quadrants of 32 partitions, as the generations so far have it.
  // Until it is asked for the next.
  const std::vector<QuadrantMask>& choices(TensorId id) {
    const int64_t rows = program_.tensor(id).rows;
    if (rows > partitions_ / 2) return all_quadrants_;
    const bool half = rows > partitions_ / 4;
    choices_.clear();
    for (int q = 0; q < 4; q += half ? 2 : 1)
      if (array_.starts(id) >> q & 1) choices_.push_back(static_cast<QuadrantMask>((half ? 3u : 1u) << q));
    OPENTRN_CHECK(!choices_.empty(), "no partitions are left for tensor {}", id);
    return choices_;
  }
  void put(TensorId id, const SpaceMap::Found& found, std::vector<isa::Placement>& placements) {
    placements[id] = {true, {first_partition(found.quadrants), found.offset}};
    array_.choose(id, std::countr_zero(found.quadrants));
  }
  QuadrantMask quadrants_of(int32_t partition, int64_t rows) const {
    QuadrantMask quadrants = 0;
    const int64_t quadrant_rows = partitions_ / 4;
    for (int64_t q = partition / quadrant_rows; q <= (partition + rows - 1) / quadrant_rows && q < 4; ++q)
      quadrants |= static_cast<QuadrantMask>(1u << q);
    return quadrants;
  }
  int32_t first_partition(QuadrantMask quadrants) const {
    int q = 0;
    while ((quadrants >> q & 1) == 0) ++q;
    return static_cast<int32_t>(q * partitions_ / 4);
  }
  Request request_for(TensorId id, bool whole_banks, bool tight) const {
    const int64_t unit = tight ? placed_alignment(bytes_of(id), alignment_) : alignment_;
    Request request{round_up(bytes_of(id), unit), unit, bank_bytes_, whole_banks};
    const bool banks = bank_bytes_ > 0 && (whole_banks || request.bytes > bank_bytes_);
    if (banks) request.bytes = round_up(request.bytes, bank_bytes_);
    return request;
  }
  Fault fault_at(TensorId id, FaultKind kind, const char* rule, std::string message, std::string hint) const {
    Fault fault(kind, label(rule), std::move(message), std::move(hint));
    fault.set_location(program_.location(program_.tensor(id).location));
    return fault;
  }
  std::string describe(TensorId id) const {
    const isa::Tensor& tensor = program_.tensor(id);
    const SourceLocation where = program_.location(tensor.location);
    return fmt::format("{} {}[{} x {} B]{}", tensor.name.empty() ? fmt::format("tensor {}", id) : tensor.name,
                       name(tensor.dtype), tensor.rows, tensor.row_bytes(),
                       where.known() ? fmt::format(" at {}:{}", where.file, where.line) : "");
  }

  void check_sizes() const {
    for (const auto* list : {&pinned_, &floating_}) {
      for (TensorId id : *list) {
        const isa::Tensor& tensor = program_.tensor(id);
        if (tensor.rows > partitions_)
          throw fault_at(
              id, FaultKind::kProgram, "partitions",
              fmt::format("{} has {} rows; there are {} partitions", describe(id), tensor.rows, partitions_),
              "tile the partition dimension");
        if (bytes_of(id) > capacity_)
          throw fault_at(id, FaultKind::kCapacity, "capacity",
                         fmt::format("{} needs {} B in each partition; a partition has {}", describe(id),
                                     bytes_of(id), capacity_),
                         "tile the free dimension");
      }
    }
  }

  void check_pinned() const {
    std::vector<TensorId> live;
    for (TensorId id : pinned_) {
      const isa::Tensor& tensor = program_.tensor(id);
      const isa::Address at = *tensor.address;
      if (at.partition < 0 || at.byte_offset < 0 || at.partition + tensor.rows > partitions_ ||
          at.byte_offset + bytes_of(id) > capacity_)
        throw fault_at(
            id, FaultKind::kProgram, "address",
            fmt::format("{} is placed at partition {} byte {}; the memory has {} partitions of {} B",
                        describe(id), at.partition, at.byte_offset, partitions_, capacity_),
            "choose an address inside the memory");
      std::erase_if(live, [&](TensorId other) { return lifetimes_[other].last < lifetimes_[id].first; });
      for (TensorId other : live) check_apart(id, other);
      live.push_back(id);
    }
  }

  void pin(std::vector<isa::Placement>& placements) const {
    check_pinned();
    for (TensorId id : pinned_) placements[id] = {true, *program_.tensor(id).address};
  }

  void check_apart(TensorId a, TensorId b) const {
    const isa::Tensor& ta = program_.tensor(a);
    const isa::Tensor& tb = program_.tensor(b);
    const bool rows = ta.address->partition < tb.address->partition + tb.rows &&
                      tb.address->partition < ta.address->partition + ta.rows;
    const bool bytes = ta.address->byte_offset < tb.address->byte_offset + bytes_of(b) &&
                       tb.address->byte_offset < ta.address->byte_offset + bytes_of(a);
    if (!rows || !bytes) return;
    throw fault_at(
        a, FaultKind::kProgram, "overlap",
        fmt::format(
            "{} at partition {} byte {} shares bytes with {} at partition {} byte {}, which is still in use",
            describe(a), ta.address->partition, ta.address->byte_offset, describe(b), tb.address->partition,
            tb.address->byte_offset),
        "move one of them, or finish with the first before the second is written");
  }

  // Ways 1 and 2. Bytes that a pinned tensor ever uses are left alone for the whole program.
  struct Rotation {
    SpaceMap::Policy policy;
    bool whole_banks;
    bool tight;           // small tensors are packed
    int64_t large_bytes;  // tensors of this size are kept together at the far end, tiny ones at the near
                          // end; 0: none is
    int64_t apart = 0;  // where tensors of `large_bytes` begin, and all others end; 0: they share the memory
    const std::vector<bool>* packed = nullptr;  // by TensorId: by first fit whatever the policy is
  };
  bool rotate(std::vector<isa::Placement>& placements, const Rotation& rotation) {
    return !first_without_place(placements, rotation);
  }

  // The first tensor for which no range is free; nothing where all are placed.
  std::optional<TensorId> first_without_place(std::vector<isa::Placement>& placements,
                                              const Rotation& rotation) {
    array_.restart();
    SpaceMap near(rotation.apart > 0 ? rotation.apart : capacity_), far(capacity_ - rotation.apart);
    for (TensorId id : pinned_) {
      const isa::Address at = placements[id].address;
      near.take(at.byte_offset, bytes_of(id), quadrants_of(at.partition, program_.tensor(id).rows));
    }
    struct Tenant {
      isa::InstructionIndex last;
      int64_t offset, bytes;
      QuadrantMask quadrants;
      SpaceMap* map;
      TensorId id;
      bool operator>(const Tenant& other) const { return last > other.last; }
    };
    std::vector<Tenant> tenants;  // a heap, earliest end first
    LiveBytes live_bytes(partitions_);
    LiveBanks live_banks(bank_bytes_);
    const auto note_live = [&](TensorId id, bool begins) {
      if (bank_bytes_ > 0)
        live_banks.change(program_.tensor(id), placements[id].address.byte_offset, begins);
      else
        live_bytes.change(program_.tensor(id), begins);
    };
    const uint32_t long_life = static_cast<uint32_t>(program_.size() / 4);
    for (TensorId id : floating_) {
      interrupt::poll();
      const Lifetime& life = lifetimes_[id];
      while (!tenants.empty() && tenants.front().last < life.first) {
        const Tenant gone = tenants.front();
        std::ranges::pop_heap(tenants, std::greater{});
        tenants.pop_back();
        gone.map->release(gone.offset, gone.bytes, gone.quadrants, gone.last + 1);
        note_live(gone.id, false);
      }
      const bool is_packed = rotation.packed != nullptr && (*rotation.packed)[id];
      const SpaceMap::Policy policy = is_packed ? SpaceMap::Policy::kLowest : rotation.policy;
      const Request request = request_for(id, rotation.whole_banks, rotation.tight);
      const bool is_large = rotation.large_bytes > 0 && request.bytes >= rotation.large_bytes;
      const bool is_apart = is_large && rotation.apart > 0;
      const bool keep_aside = policy == SpaceMap::Policy::kOldest &&
                              ((is_large && !is_apart) || life.last - life.first > long_life);
      const bool is_tiny = rotation.large_bytes > 0 && request.bytes <= kTinyBytes;
      SpaceMap& map = is_apart ? far : near;
      auto found = map.find(request, choices(id),
                            keep_aside ? SpaceMap::Policy::kHighest
                            : is_tiny  ? SpaceMap::Policy::kLowest
                                       : policy);
      if (!found) return id;
      map.take(*found, request.bytes);
      tenants.push_back({life.last, found->offset, request.bytes, found->quadrants, &map, id});
      std::ranges::push_heap(tenants, std::greater{});
      if (is_apart) found->offset += rotation.apart;
      put(id, *found, placements);
      note_live(id, true);
    }
    if (pinned_.empty()) peak_ = bank_bytes_ > 0 ? live_banks.peak() : live_bytes.peak();
    return std::nullopt;
  }

  // Rotates, but for the tensors around those that find no place: what is live when one is born, and what was
  // born some instructions before, are packed by first fit, so that the rest of a long program rotates still.
  bool rotate_but_where_it_is_tight(std::vector<isa::Placement>& placements) {
    std::vector<bool> packed(lifetimes_.size());
    int64_t reach = kPackedInstructions, failed_last = 0;
    for (int packing = 0; packing < kPackingsMax; ++packing) {
      const std::optional<TensorId> failed =
          first_without_place(placements, {SpaceMap::Policy::kOldest, false, true, 0, 0, &packed});
      if (!failed) return true;
      const int64_t born = lifetimes_[*failed].first;
      reach = packing > 0 && born <= failed_last + reach ? 2 * reach : kPackedInstructions;
      failed_last = born;
      for (TensorId id : floating_) {
        const Lifetime& life = lifetimes_[id];
        if (life.first <= born && (life.last >= born || life.first + reach >= born)) packed[id] = true;
      }
    }
    return false;
  }

  // Large tensors in a part of the memory of their own: those around would cut it into pieces that are too
  // small for them, however much is free. Each part is as large as what is live there at most, and more by as
  // much.
  bool rotate_apart(std::vector<isa::Placement>& placements) {
    if (!pinned_.empty() || bank_bytes_ > 0) return false;
    for (const int64_t share : kApartShares) {
      const int64_t large_bytes = capacity_ / share;
      const auto is_large = [&](TensorId id) { return request_for(id, false, true).bytes >= large_bytes; };
      const int64_t large = most_live(is_large).bytes;
      const int64_t others = most_live([&](TensorId id) { return !is_large(id); }).bytes;
      if (large == 0 || large + others > capacity_) continue;
      const int64_t apart = round_up(capacity_ * others / (large + others), alignment_);
      if (rotate(placements, {SpaceMap::Policy::kOldest, false, true, large_bytes, apart})) return true;
    }
    return false;
  }

  // Way 3.
  bool by_size(std::vector<isa::Placement>& placements) {
    struct Tenant {
      Lifetime life;
      int64_t offset, bytes;
      QuadrantMask quadrants;
    };
    array_.restart();
    std::vector<Tenant> placed;
    for (TensorId id : pinned_) {
      const isa::Address at = placements[id].address;
      placed.push_back({lifetimes_[id], at.byte_offset, bytes_of(id),
                        quadrants_of(at.partition, program_.tensor(id).rows)});
    }
    std::vector<TensorId> order = floating_;
    std::ranges::stable_sort(order, [&](TensorId a, TensorId b) {
      return std::pair(choices(b).front() == kAllQuadrants, bytes_of(b)) <
             std::pair(choices(a).front() == kAllQuadrants, bytes_of(a));
    });
    for (TensorId id : order) {
      interrupt::poll();
      SpaceMap map(capacity_);
      for (const Tenant& other : placed)
        if (other.life.overlaps(lifetimes_[id])) map.take(other.offset, other.bytes, other.quadrants);
      const Request request = request_for(id, false, true);
      const auto found = map.find(request, choices(id), SpaceMap::Policy::kLowest);
      if (!found) return false;
      placed.push_back({lifetimes_[id], found->offset, request.bytes, found->quadrants});
      put(id, *found, placements);
    }
    return true;
  }

  // The instruction at which most bytes of each partition are live, in the mean over quadrants.
  struct MostLive {
    int64_t bytes = 0;
    isa::InstructionIndex at = 0;
  };
  MostLive most_live() const {
    return most_live([](TensorId) { return true; });
  }
  template <typename Counts>
  MostLive most_live(Counts&& counts) const {
    std::vector<std::pair<isa::InstructionIndex, int64_t>> changes;
    for (const auto* list : {&pinned_, &floating_}) {
      for (TensorId id : *list) {
        if (!counts(id)) continue;
        const int64_t quarters =
            quadrants_taken(program_.tensor(id).rows, partitions_) * request_for(id, false, true).bytes;
        changes.push_back({lifetimes_[id].first, quarters});
        changes.push_back({lifetimes_[id].last + 1, -quarters});
      }
    }
    std::ranges::sort(changes);
    int64_t quarters = 0, peak = 0;
    MostLive most;
    for (const auto& [at, delta] : changes) {
      quarters += delta;
      if (quarters > peak) peak = quarters, most.at = at;
    }
    most.bytes = (peak + 3) / 4;
    return most;
  }

  [[noreturn]] void throw_full(const MostLive& most) const {
    std::vector<TensorId> live;
    for (const auto* list : {&pinned_, &floating_})
      for (TensorId id : *list)
        if (lifetimes_[id].first <= most.at && most.at <= lifetimes_[id].last) live.push_back(id);
    std::ranges::stable_sort(live, std::greater{}, [&](TensorId id) { return bytes_of(id); });
    const std::string over = most.bytes > capacity_
                                 ? fmt::format("{} B too many", most.bytes - capacity_)
                                 : std::string("they fit in sum, but not in one piece each");
    Fault fault(FaultKind::kCapacity, label("capacity"),
                fmt::format("{} tensors that are live together need {} B of each partition; there are {}: {}",
                            live.size(), most.bytes, capacity_, over),
                space_ == MemorySpace::kPsum
                    ? "copy results out of PSUM sooner, or use smaller tiles"
                    : "use smaller tiles, store and reload what is not needed soon, or split the kernel");
    const isa::Instruction& at = program_.instruction(
        std::min<isa::InstructionIndex>(most.at, static_cast<isa::InstructionIndex>(program_.size() - 1)));
    fault.set_location(program_.location(at.location));
    constexpr size_t kRowsMax = 20;
    for (size_t i = 0; i < live.size() && i < kRowsMax; ++i) fault.add_note(describe(live[i]));
    if (live.size() > kRowsMax) fault.add_note(fmt::format("and {} smaller ones", live.size() - kRowsMax));
    throw fault;
  }

  const isa::Program& program_;
  const std::vector<Lifetime>& lifetimes_;
  MemorySpace space_;
  int64_t partitions_ = 0;
  int64_t capacity_ = 0;
  int64_t bank_bytes_ = 0;
  int64_t alignment_ = 1;
  ArrayPlaces& array_;
  std::vector<TensorId> pinned_, floating_;
  const std::vector<QuadrantMask> all_quadrants_ = {kAllQuadrants};
  std::vector<QuadrantMask> choices_;
  std::optional<int64_t> peak_;  // where tensors were placed one by one as they begin
  bool rotates_ = true;
};

int64_t place_hbm(const isa::Program& program, const Options& options,
                  std::vector<isa::Placement>& placements) {
  int64_t end = 0;
  for (TensorId id = 0; id < program.tensor_count(); ++id) {
    const isa::Tensor& tensor = program.tensor(id);
    if (!isa::is_hbm(tensor.space)) continue;
    placements[id] = {true, {0, end}};
    end = round_up(end + tensor.bytes(), options.hbm_alignment_bytes);
  }
  return end;
}

}  // namespace

std::optional<Allocation> allocate(const isa::Program& program, const std::vector<Lifetime>& lifetimes,
                                   const Options& options, const arch::NeuronCore& core, Ways ways,
                                   bool products_ask) {
  Allocation result;
  result.placements.resize(program.tensor_count());
  ArrayPlaces array(program, options.moves_rows || options.neuronx_cc || !products_ask);
  OnChip sbuf(program, lifetimes, MemorySpace::kSbuf, options, core, array);
  if (!sbuf.place(result.placements, ways)) return std::nullopt;
  result.sbuf_rotates = sbuf.rotates();
  result.sbuf_bytes_per_partition_used = sbuf.peak(result.placements);
  OnChip psum(program, lifetimes, MemorySpace::kPsum, options, core, array);
  if (!psum.place(result.placements, ways)) return std::nullopt;
  result.psum_banks_used = psum.peak(result.placements);
  result.hbm_bytes_used = place_hbm(program, options, result.placements);
  return result;
}

void check_fits(const isa::Program& program, const arch::NeuronCore& core, bool spills) {
  const std::vector<Lifetime> lifetimes = find_lifetimes(program, find_loops(program));
  ArrayPlaces array(program, spills);
  const OnChip sbuf(program, lifetimes, MemorySpace::kSbuf, Options{}, core, array);
  const OnChip psum(program, lifetimes, MemorySpace::kPsum, Options{}, core, array);
  sbuf.check_places();
  psum.check_places();
  if (spills) return;
  sbuf.check_capacity();
  psum.check_capacity();
}

}  // namespace opentrn::backend
