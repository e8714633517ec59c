#include "collectives/symmetric.h"

#include <algorithm>

#include "base/interrupt.h"
#include "collectives/coordinates.h"
#include "collectives/exchange.h"
#include "collectives/hierarchical.h"
#include "collectives/mesh.h"
#include "collectives/rules.h"

namespace opentrn::collectives {

namespace {

constexpr int kDirectedRingSlots = 2;  // of a directed ring
constexpr int kUnitsMax = 1 << 20, kRanksMax = 1 << 30;
constexpr int kAlikeRanksMax = 1 << 22;  // displacements are keys of the builder

const ExchangeAlgorithm* within_named(const std::string& name, const Layout& layout,
                                      const std::vector<int>& members) {
  if (name.empty()) return &default_within(layout, members);
  const ExchangeAlgorithm* found = find_stage(name);
  if (found == nullptr)
    refuse(Rule::kAlgorithm, "there is no algorithm '{}' within units; there are {}", name,
           names_of_stages());
  if (const auto reason = found->why_not(layout, members); !reason.empty())
    refuse(Rule::kServes, "{} within units: {}", name, reason);
  return found;
}

int rings_of(const Level& level) { return level.size == 2 ? 1 : 2; }
int channels_of(const Level& level) { return level.algorithm == "mesh" ? level.size : rings_of(level) + 1; }

class SymmetricWriter {
 public:
  SymmetricWriter(const Request& request, const Hierarchy& hierarchy, const Layout& layout, Parts parts,
                  bool one_rank)
      : parts_(parts),
        group_(hierarchy),
        layout_(layout),
        ranks_(static_cast<int>(layout.ranks.size())),
        written_ranks_(one_rank ? 1 : ranks_),
        ranks_of_units_(hierarchy, ranks_),
        builder_(unit_request(request), "hier") {
    plan_.request = request;
    plan_.hierarchy = hierarchy;
    plan_.ranks_alike = one_rank ? ranks_ : 0;
    if (one_rank)
      builder_.units(ranks_of_units_);
    else
      builder_.units(group_);
    members_ = all_ranks(ranks_);
    if (ranks_ > 1) within_ = within_named(hierarchy.within, layout, members_);
    if (within_) plan_.within = within_->name;
    int channel = within_ ? within_->channels(layout, members_) : 0;
    for (const Level& level : hierarchy.levels) {
      first_channel_.push_back(channel);
      channel += channels_of(level);
    }
  }

  SymmetricPlan run() {
    const int64_t bytes = plan_.request.bytes;
    if (plan_.request.kind == Kind::kAllReduce) {
      all_reduce();
    } else if (plan_.request.kind == Kind::kReduceScatter) {
      Part part = part_of_message(0, bytes);
      reduce_within(part);
      reduce_between(part, true);
    } else {
      Part part = part_of_message(0, bytes * plan_.request.ranks);
      gather_between(part, true);
      gather_within(part);
    }
    plan_.toward = builder_.take_displacements();
    plan_.waits_toward = builder_.take_wait_displacements();
    plan_.unit = std::move(builder_).take();
    for (size_t rank = 0; rank < plan_.toward.size(); ++rank) note_stage(static_cast<int>(rank));
    return std::move(plan_);
  }

 private:
  // A part of the message: the parts of one index lie together, those of its units in order of their numbers.
  struct Part {
    int64_t base = 0, of_index = 0;  // bytes of an index
    std::vector<Slice> partial;      // of each rank: what the last stage left, of its index
  };

  Request unit_request(const Request& request) const {
    Request out = request;
    out.ranks = written_ranks_;
    // The buffers have the sizes of those of all ranks.
    if (request.kind == Kind::kAllGather) out.bytes = request.bytes * (request.ranks / written_ranks_);
    return out;
  }
  Part part_of_message(int64_t base, int64_t bytes) const { return {base, bytes / ranks_, {}}; }
  int levels() const { return static_cast<int>(plan_.hierarchy.levels.size()); }
  const Level& level(int at) const { return plan_.hierarchy.levels[static_cast<size_t>(at)]; }
  // Bytes of a block of this level: of the units that have all coordinates up to it in common.
  int64_t block(const Part& part, int at) const { return part.of_index / plan_.units() * group_.weight(at); }
  Slice in_message(const Part& part, Buffer buffer, int rank) const {
    return {buffer, part.base + rank * part.of_index};
  }

  // The stage of the steps from here on.
  void begin_stage(std::vector<SeenFrom> seen) {
    note_stages();
    stage_now_ = seen.empty() ? -1 : static_cast<int>(plan_.seen.size());
    if (!seen.empty()) plan_.seen.push_back(std::move(seen));
  }
  void note_stages() {
    plan_.stage.resize(static_cast<size_t>(written_ranks_));
    for (int rank = 0; rank < written_ranks_; ++rank) note_stage(rank);
  }
  void note_stage(int rank) {
    auto& stages = plan_.stage[static_cast<size_t>(rank)];
    stages.resize(steps_of(rank), static_cast<int16_t>(stage_now_));
  }
  size_t steps_of(int rank) const {
    return plan_.toward.empty() ? builder_.step_count(rank) : plan_.toward[static_cast<size_t>(rank)].size();
  }

  void all_reduce() {
    const int parts = plan_.hierarchy.pipeline;
    const int64_t bytes = plan_.request.bytes / parts;
    std::vector<Part> list;
    for (int i = 0; i < parts; ++i) list.push_back(part_of_message(i * bytes, bytes));
    written_.resize(list.size());
    const auto stages = [&](int part, int phase, auto write) {
      if (part < 0 || part >= parts) return;
      if (part > 0 && parts_ == Parts::kAsFirst) return repeat(part, phase, part * bytes);
      const auto p = static_cast<size_t>(part);
      Phase& own = written_[p][static_cast<size_t>(phase)];
      begin_phase(own);
      write(list[p]);
      end_phase(own);
    };
    for (int turn = 0; turn < parts + 2; ++turn) {
      stages(turn - 2, 2, [&](Part& last) { gather_within(last); });
      stages(turn - 1, 1, [&](Part& middle) {
        reduce_between(middle, false);
        gather_between(middle, false);
      });
      stages(turn, 0, [&](Part& first) { reduce_within(first); });
    }
    if (parts > 1) return;
    plan_.phase_ends.resize(static_cast<size_t>(written_ranks_));
    for (size_t phase = 0; phase < written_[0].size(); ++phase)
      for (size_t rank = 0; rank < plan_.phase_ends.size(); ++rank)
        plan_.phase_ends[rank][phase] = static_cast<int32_t>(written_[0][phase].end[rank]);
  }

  // What a part of the pipeline takes for its stages within units, between them, and within them again.
  struct Phase {
    std::vector<size_t> begin, end;  // steps, [rank]
    int64_t scratch_begin = 0, scratch_end = 0;
    size_t seen_begin = 0, seen_end = 0;
  };
  void begin_phase(Phase& phase) const {
    for (int rank = 0; rank < written_ranks_; ++rank) phase.begin.push_back(builder_.step_count(rank));
    phase.scratch_begin = builder_.scratch_bytes();
    phase.seen_begin = plan_.seen.size();
  }
  void end_phase(Phase& phase) const {
    for (int rank = 0; rank < written_ranks_; ++rank) phase.end.push_back(builder_.step_count(rank));
    phase.scratch_end = builder_.scratch_bytes();
    phase.seen_end = plan_.seen.size();
  }

  // The steps of the first part once more, `bytes` further in the message, with scratch memory of their own.
  // Parts touch no memory of each other and begin their phases in one order, so no step waits for one of
  // another part: waits are those of the first part.
  void repeat(int part, int phase, int64_t bytes) {
    note_stages();
    const auto& first = written_[0];
    auto& own = written_[static_cast<size_t>(part)];
    const Phase& from = first[static_cast<size_t>(phase)];
    Phase& to = own[static_cast<size_t>(phase)];
    begin_phase(to);
    builder_.scratch(from.scratch_end - from.scratch_begin);
    const auto slice_of = [&](Slice slice) {
      if (slice.buffer != Buffer::kScratch) return Slice{slice.buffer, slice.offset + bytes};
      for (size_t i = 0; i < first.size(); ++i)
        if (slice.offset >= first[i].scratch_begin && slice.offset < first[i].scratch_end)
          return Slice{slice.buffer, slice.offset - first[i].scratch_begin + own[i].scratch_begin};
      OPENTRN_CHECK(false, "scratch memory of no phase");
    };
    const auto step_of = [&](StepRef step) {
      const auto rank = static_cast<size_t>(step.rank), number = static_cast<size_t>(step.step);
      for (size_t i = 0; i < first.size(); ++i)
        if (!first[i].end.empty() && number >= first[i].begin[rank] && number < first[i].end[rank])
          return StepRef{step.rank, static_cast<int32_t>(number - first[i].begin[rank] + own[i].begin[rank])};
      OPENTRN_CHECK(false, "a step of the first part waits for none of its steps");
    };
    for (size_t i = from.seen_begin; i < from.seen_end; ++i) {
      std::vector<SeenFrom> seen = plan_.seen[i];
      for (SeenFrom& range : seen) {
        const int64_t size = range.end - range.begin;
        range.begin = slice_of({range.buffer, range.begin}).offset;
        range.end = range.begin + size;
      }
      plan_.seen.push_back(std::move(seen));
    }
    for (int rank = 0; rank < written_ranks_; ++rank) {
      const auto r = static_cast<size_t>(rank);
      builder_.repeat(rank, from.begin[r], from.end[r], slice_of, step_of);
      auto& stages = plan_.stage[r];
      for (size_t i = from.begin[r]; i < from.end[r]; ++i)
        stages.push_back(
            stages[i] < 0
                ? stages[i]
                : static_cast<int16_t>(stages[i] + static_cast<int16_t>(to.seen_begin - from.seen_begin)));
    }
    end_phase(to);
  }

  Exchange exchange_of(const Part& part) const {
    Exchange out;
    out.members = members_;
    for (int rank = 0; rank < ranks_; ++rank)
      out.parts.push_back({{part.base + rank * part.of_index, part.of_index}});
    return out;
  }

  // Of the rank that is written: parts lie in the order of their ranks' displacements from it.
  MeshOfOne mesh_of_one(const Part& part, Buffer buffer) const {
    return {ranks_, part.of_index,
            [this, &part, buffer](int other) { return in_message(part, buffer, other); }};
  }

  void reduce_within(Part& part) {
    begin_stage({});
    if (!within_) {
      part.partial = {in_message(part, Buffer::kInput, 0)};
      return;
    }
    const int64_t offset = builder_.scratch(part.of_index);
    part.partial.assign(static_cast<size_t>(written_ranks_), {Buffer::kScratch, offset});
    if (plan_.ranks_alike > 0)
      return reduce_by_mesh_of_one(builder_, mesh_of_one(part, Buffer::kInput), part.partial[0]);
    Exchange exchange = exchange_of(part);
    exchange.source = view_of(Buffer::kInput);
    exchange.target = [&](int member, int64_t position) {
      return Slice{Buffer::kScratch, offset + position - part.base - member * part.of_index};
    };
    within_->reduce(builder_, layout_, exchange);
  }

  void gather_within(const Part& part) {
    begin_stage({});
    if (!within_) return;
    for (int rank = 0; rank < written_ranks_; ++rank)
      builder_.as_one({rank, in_message(part, Buffer::kOutput, rank)}, part.of_index);
    if (plan_.ranks_alike > 0) return gather_by_mesh_of_one(builder_, mesh_of_one(part, Buffer::kOutput));
    Exchange exchange = exchange_of(part);
    exchange.source = exchange.target = view_of(Buffer::kOutput);
    within_->gather(builder_, layout_, exchange);
  }

  // From level to level, into scratch memory; in the end into the own part of the output, or all of it.
  void reduce_between(Part& part, bool scatters) {
    for (int at = 0; at < levels(); ++at) {
      const int64_t bytes = block(part, at);
      const bool is_last = at + 1 == levels();
      const int64_t offset = is_last ? 0 : builder_.scratch(bytes);
      begin_stage(seen_by(part, at, part.partial, is_last && !scatters));
      for (int rank = 0; rank < written_ranks_; ++rank)
        builder_.as_one({rank, part.partial[static_cast<size_t>(rank)]}, bytes * level(at).size);
      for (int rank = 0; rank < written_ranks_; ++rank) {
        Slice& partial = part.partial[static_cast<size_t>(rank)];
        const Slice target = !is_last   ? Slice{Buffer::kScratch, offset}
                             : scatters ? Slice{Buffer::kOutput, 0}
                                        : in_message(part, Buffer::kOutput, rank);
        if (level(at).algorithm == "mesh")
          reduce_by_mesh(at, rank, partial, target, bytes);
        else
          reduce_by_rings(at, rank, partial, target, bytes);
        partial = target;
      }
    }
  }

  void gather_between(const Part& part, bool brings) {
    for (int at = levels() - 1; at >= 0; --at) {
      const int64_t bytes = block(part, at);
      const bool from_input = brings && at + 1 == levels();
      begin_stage(seen_by(part, at, {}, true));
      for (int rank = 0; rank < written_ranks_; ++rank) {
        const Slice target = in_message(part, Buffer::kOutput, rank);
        const Slice own = from_input ? Slice{Buffer::kInput, 0} : target;
        if (!from_input) builder_.as_one({rank, own}, bytes);
        if (level(at).algorithm == "mesh")
          gather_by_mesh(at, rank, own, target, bytes);
        else
          gather_by_rings(at, rank, own, target, bytes);
      }
    }
  }

  std::vector<SeenFrom> seen_by(const Part& part, int at, const std::vector<Slice>& partial,
                                bool with_output) const {
    std::vector<SeenFrom> seen;
    // Input and scratch memory of the stage: at the same place in all ranks.
    if (!partial.empty())
      seen.push_back({partial[0].buffer, partial[0].offset,
                      partial[0].offset + block(part, at) * level(at).size, 0, at, false});
    if (with_output)
      seen.push_back(
          {Buffer::kOutput, part.base, part.base + ranks_ * part.of_index, part.of_index, at, true});
    return seen;
  }

  int32_t toward_unit(int at, int distance) const {
    return group_.at(at, distance) * std::max(plan_.ranks_alike, 1);
  }

  // -- one level; `bytes`: of a block of it ------------------------------------------------------------
  void reduce_by_rings(int at, int rank, Slice source, Slice target, int64_t bytes) {
    const int size = level(at).size, rings = rings_of(level(at)), element = builder_.element_bytes();
    for (int ring = 0; ring < rings; ++ring) {
      const Range share = part_of(Range{0, bytes}, rings, ring, element);
      const int step = ring == 0 ? 1 : -1;
      const std::vector<int64_t> slots =
          slots_of(at, ring, part_of(Range{0, bytes}, rings, rings - 1, element).bytes);
      for (int hop = 0; hop < size; ++hop) {
        const int seen = ((-step * (hop + 1)) % size + size) % size;
        std::vector<At> sources;
        if (hop > 0)
          sources.push_back(
              {rank, {Buffer::kScratch, slots[static_cast<size_t>((hop - 1) % kDirectedRingSlots)]}});
        sources.push_back({rank, {source.buffer, source.offset + seen * bytes + share.offset}});
        const bool is_last = hop == size - 1;
        if (!is_last) builder_.toward(toward_unit(at, step));
        builder_.combine(
            first_channel_[static_cast<size_t>(at)] + ring, sources,
            is_last ? At{rank, {target.buffer, target.offset + share.offset}}
                    : At{rank, {Buffer::kScratch, slots[static_cast<size_t>(hop % kDirectedRingSlots)]}},
            share.bytes);
        builder_.toward(0);
      }
    }
  }

  void gather_by_rings(int at, int rank, Slice own, Slice target, int64_t bytes) {
    const int size = level(at).size, rings = rings_of(level(at));
    const int first = first_channel_[static_cast<size_t>(at)];
    for (int ring = 0; ring < rings; ++ring) {
      const Range share = part_of(Range{0, bytes}, rings, ring, builder_.element_bytes());
      const int step = ring == 0 ? 1 : -1;
      for (int hop = 0; hop + 1 < size; ++hop) {
        const auto seen = [&](int by) { return ((-step * by) % size + size) % size * bytes + share.offset; };
        const Slice from = hop == 0 ? Slice{own.buffer, own.offset + share.offset}
                                    : Slice{target.buffer, target.offset + seen(hop)};
        builder_.toward(toward_unit(at, step));
        builder_.copy(first + ring, {rank, from}, {rank, {target.buffer, target.offset + seen(hop + 1)}},
                      share.bytes);
        builder_.toward(0);
      }
    }
    builder_.copy(first + rings, {rank, own}, {rank, target}, bytes);
  }

  void reduce_by_mesh(int at, int rank, Slice source, Slice target, int64_t bytes) {
    const int size = level(at).size, first = first_channel_[static_cast<size_t>(at)];
    const std::vector<int64_t> slots = slots_of(at, 0, bytes);
    std::vector<At> sources = {{rank, source}};
    for (int distance = 1; distance < size; ++distance) {
      builder_.toward(toward_unit(at, distance));
      builder_.copy(first + distance - 1, {rank, {source.buffer, source.offset + distance * bytes}},
                    {rank, {Buffer::kScratch, slots[static_cast<size_t>(size - distance - 1)]}}, bytes);
      builder_.toward(0);
      sources.push_back({rank, {Buffer::kScratch, slots[static_cast<size_t>(distance - 1)]}});
    }
    builder_.combine(first + size - 1, sources, {rank, target}, bytes);
  }

  void gather_by_mesh(int at, int rank, Slice own, Slice target, int64_t bytes) {
    const int size = level(at).size, first = first_channel_[static_cast<size_t>(at)];
    for (int distance = 1; distance < size; ++distance) {
      builder_.toward(toward_unit(at, distance));
      builder_.copy(first + distance - 1, {rank, own},
                    {rank, {target.buffer, target.offset + (size - distance) * bytes}}, bytes);
      builder_.toward(0);
    }
    builder_.copy(first + size - 1, {rank, own}, {rank, target}, bytes);
  }

  // Of the stage that is being written; the same for all ranks.
  std::vector<int64_t> slots_of(int at, int ring, int64_t bytes) {
    auto& slots = slots_[{plan_.seen.size(), ring}];
    if (slots.empty()) {
      const int count = level(at).algorithm == "mesh" ? level(at).size - 1 : kDirectedRingSlots;
      for (int i = 0; i < count; ++i) slots.push_back(builder_.scratch(bytes));
    }
    return slots;
  }

  Parts parts_;
  Coordinates group_;
  const Layout& layout_;
  int ranks_ = 1, written_ranks_ = 1;
  RanksOfUnits ranks_of_units_;
  Builder builder_;
  SymmetricPlan plan_;
  std::vector<std::array<Phase, 3>> written_;  // [part]
  std::vector<int> members_, first_channel_;
  const ExchangeAlgorithm* within_ = nullptr;
  std::map<std::pair<size_t, int>, std::vector<int64_t>> slots_;
  int stage_now_ = -1;
};

// Writes a plan out for all units.
class Expansion {
 public:
  explicit Expansion(const SymmetricPlan& plan) : plan_(plan), group_(plan.hierarchy), units_(plan.units()) {}

  Plan run() {
    Plan out;
    out.request = plan_.request;
    out.algorithm = plan_.unit.algorithm;
    out.channels = plan_.unit.channels;
    out.scratch_bytes = plan_.unit.scratch_bytes;
    const auto ranks = static_cast<size_t>(plan_.request.ranks);
    out.steps.resize(ranks);
    out.wait_pool.resize(ranks);
    out.place_pool.resize(ranks);
    for (int rank = 0; rank < static_cast<int>(plan_.unit.steps.size()); ++rank)
      for (int unit = 0; unit < units_; ++unit) add_rank(out, rank, unit);
    return out;
  }

 private:
  int global(int rank, int unit) const { return rank * units_ + unit; }

  void add_rank(Plan& out, int rank, int unit) {
    const auto r = static_cast<size_t>(rank), to = static_cast<size_t>(global(rank, unit));
    const auto& waits = plan_.unit.wait_pool[r];
    for (size_t i = 0; i < waits.size(); ++i) {
      interrupt::poll();
      out.wait_pool[to].push_back(
          {global(waits[i].rank, group_.add(unit, plan_.waits_toward[r][i])), waits[i].step});
    }
    out.place_pool[to].resize(plan_.unit.place_pool[r].size());
    for (size_t i = 0; i < plan_.unit.steps[r].size(); ++i) {
      interrupt::poll();
      Step step = plan_.unit.steps[r][i];
      stage_ = plan_.stage[r][i];
      const int target = group_.add(unit, plan_.toward[r][i]);
      for (uint32_t p = 0; p < step.places.count; ++p) {
        const At& place = plan_.unit.place_pool[r][step.places.begin + p];
        const bool is_target = step.has_second_target && p + 1 == step.places.count;
        const int of = is_target ? target : unit;
        out.place_pool[to][step.places.begin + p] = {global(place.rank, of), seen(place.slice, of)};
      }
      step.peer = global(step.peer, target);
      step.from = seen(step.from, unit);
      step.to = seen(step.to, target);
      out.steps[to].push_back(step);
    }
  }

  // What the unit itself calls by this slice.
  Slice seen(Slice slice, int unit) const {
    if (stage_ < 0) return slice;
    for (const SeenFrom& from : plan_.seen[static_cast<size_t>(stage_)]) {
      if (slice.buffer != from.buffer || slice.offset < from.begin || slice.offset >= from.end) continue;
      const int64_t size = plan_.hierarchy.levels[static_cast<size_t>(from.level)].size;
      int64_t base = from.begin, at = slice.offset - from.begin;
      if (from.is_whole) {
        const int64_t of_unit = from.period / units_, start = base + at / from.period * from.period;
        const auto coordinates = static_cast<int32_t>(at % from.period / of_unit);
        return {slice.buffer, start + group_.add(unit, coordinates) * of_unit + at % of_unit};
      }
      int64_t block = (from.end - from.begin) / size;
      if (from.is_absolute) {
        base += at / from.period * from.period;
        at %= from.period;
        block = from.period / units_ * group_.weight(from.level);
        for (int level = 0; level < from.level; ++level)
          base += group_.digit(unit, level) * (from.period / units_ * group_.weight(level));
      }
      const int64_t coordinate = (at / block + group_.digit(unit, from.level)) % size;
      return {slice.buffer, base + coordinate * block + at % block};
    }
    return slice;
  }

  const SymmetricPlan& plan_;
  Coordinates group_;
  int units_ = 1;
  int stage_ = -1;
};

void check(const Request& request, const Hierarchy& hierarchy, const Layout& unit) {
  if (request.kind != Kind::kAllReduce && request.kind != Kind::kAllGather &&
      request.kind != Kind::kReduceScatter)
    refuse(Rule::kServes, "units that do the same have all_reduce, all_gather and reduce_scatter, not {}",
           name_of(request.kind));
  int64_t units = 1;
  for (const Level& level : hierarchy.levels) {
    if (level.size < 2) refuse(Rule::kAlgorithm, "a level of {} units", level.size);
    if (level.algorithm != "ring" && level.algorithm != "mesh")
      refuse(Rule::kAlgorithm, "there is no algorithm '{}' for a level; there are ring and mesh",
             level.algorithm);
    units *= level.size;
    if (units > kUnitsMax) refuse(Rule::kRanks, "more than {} units", kUnitsMax);
  }
  if (hierarchy.levels.empty()) refuse(Rule::kAlgorithm, "a hierarchy without levels");
  if (hierarchy.pipeline < 1 || hierarchy.pipeline > 3)
    refuse(Rule::kAlgorithm, "a pipeline of {} parts; there may be 1 to 3", hierarchy.pipeline);
  const auto per_unit = static_cast<int64_t>(unit.ranks.size());
  if (units * per_unit > kRanksMax || request.ranks != units * per_unit)
    refuse(Rule::kRanks, "{} ranks for {} units of {}", request.ranks, units, per_unit);
  const int64_t bytes =
      symmetric_bytes(hierarchy, request.kind, request.bytes, request.dtype, static_cast<int>(per_unit));
  if (bytes != request.bytes)
    refuse(Rule::kDivides, "{} B do not make equal parts for {} ranks; {} B do", request.bytes, request.ranks,
           bytes);
}

}  // namespace

int Hierarchy::units() const {
  int units = 1;
  for (const Level& level : levels) units *= level.size;
  return units;
}

std::vector<bool> SymmetricPlan::leaving_pod() const {
  const Coordinates group(hierarchy);
  std::vector<bool> leaves(static_cast<size_t>(units()));
  for (size_t level = 0; level < hierarchy.levels.size(); ++level)
    if (hierarchy.levels[level].between_pods)
      for (int32_t unit = 0; unit < units(); ++unit)
        if (group.digit(unit, static_cast<int>(level)) != 0) leaves[static_cast<size_t>(unit)] = true;
  return leaves;
}

std::vector<int> SymmetricPlan::exchanging_instances() const {
  const Coordinates group(hierarchy);
  std::vector<int> by(static_cast<size_t>(units()));
  for (size_t level = 0; level < hierarchy.levels.size(); ++level)
    for (int32_t unit = 0; unit < units(); ++unit)
      if (group.digit(unit, static_cast<int>(level)) != 0)
        by[static_cast<size_t>(unit)] ^= hierarchy.levels[level].instance;
  return by;
}

int64_t symmetric_bytes(const Hierarchy& hierarchy, Kind kind, int64_t bytes, DType dtype,
                        int ranks_per_unit) {
  const int64_t ranks = int64_t{hierarchy.units()} * ranks_per_unit;
  int64_t unit = size_bytes(dtype);
  if (kind == Kind::kAllReduce) unit *= ranks * hierarchy.pipeline;
  if (kind == Kind::kReduceScatter || kind == Kind::kAllToAll) unit *= ranks;
  return (bytes + unit - 1) / unit * unit;
}

SymmetricPlan symmetric_plan(const Request& request, const Hierarchy& hierarchy, const Layout& unit,
                             Parts parts) {
  check(request, hierarchy, unit);
  check(unit, static_cast<int>(unit.ranks.size()));
  return SymmetricWriter(request, hierarchy, unit, parts, false).run();
}

bool has_alike_ranks(const Hierarchy& hierarchy, const Layout& unit) {
  const auto ranks = static_cast<int>(unit.ranks.size());
  return hierarchy.within == "mesh" && mesh_is_alike(ranks) &&
         int64_t{hierarchy.units()} * ranks <= kAlikeRanksMax;
}

SymmetricPlan symmetric_plan_of_rank(const Request& request, const Hierarchy& hierarchy, const Layout& unit) {
  check(request, hierarchy, unit);
  check(unit, static_cast<int>(unit.ranks.size()));
  OPENTRN_CHECK(has_alike_ranks(hierarchy, unit), "ranks of a unit that do not do the same");
  return SymmetricWriter(request, hierarchy, unit, Parts::kAsFirst, true).run();
}

Plan expanded(const SymmetricPlan& plan) { return Expansion(plan).run(); }

}  // namespace opentrn::collectives
