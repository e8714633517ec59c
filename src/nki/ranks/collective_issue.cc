// A collective on a machine: staging copies, the meeting with other ranks, and the record of it.
#include <array>
#include <cstring>

#include <fmt/format.h>

#include "isa/definitions.h"
#include "nki/ranks/collective.h"

namespace opentrn::nki {

namespace {

using isa::MemorySpace;
using isa::Opcode;

std::vector<int64_t> shape_of(const TensorView& view) {
  std::vector<int64_t> shape;
  for (int i = 0; i < view.rank(); ++i) shape.push_back(view.size(i));
  return shape;
}

bool is_same(const TensorView& a, const TensorView& b) {
  if (a.offset != b.offset || a.dtype != b.dtype || a.rank() != b.rank()) return false;
  for (int i = 0; i < a.rank(); ++i)
    if (a.size(i) != b.size(i) || a.stride(i) != b.stride(i)) return false;
  return true;
}

class Issue {
 public:
  Issue(Machine& machine, const Collective& call, isa::LocationId location)
      : machine_(machine),
        call_(call),
        location_(location),
        name_(call.name.empty() ? 0 : machine.program()->intern_string(call.name)) {}

  void run() {
    if (machine_.open_loops() > 0)
      throw Fault(
          FaultKind::kNotModelled, "collectives.loop",
          fmt::format("{} inside a device loop, whose body is recorded once, before it runs", name_of(call_)),
          "write the loop with nl.static_range or nl.sequential_range, or execute eagerly "
          "(OPENTRN_EAGER=1, eager=True), which repeats the body in Python");
    check(call_, machine_);
    group_ = group_of(call_, machine_.rank());
    if (group_.empty()) return;
    if (group_.size() == 1 && call_.permute != Permute::kReducingRing) return copy_alone();
    const bool counts_once = machine_.core_count() > 1 && !call_.dsts[0].on_chip();
    if (counts_once) {
      meet_other_core();
      barrier(call_.srcs[0]);
    }
    if (!counts_once || machine_.core_id() == 0) exchange();
    if (counts_once) barrier(call_.dsts[0]);
  }

 private:
  SourceLocation where() const { return machine_.program()->location(location_); }

  void copy(const TensorView& dst, const TensorView& src) {
    const isa::Operand operands[] = {machine_.operand(dst), machine_.operand(src)};
    const isa::AttributeWord attributes[] = {{.integer = call_.priority}, {.integer = 0}, {.integer = 0}};
    machine_.emit(Opcode::kDmaCopy, isa::Engine::kUnknown, operands, attributes, location_, name_);
  }

  void copy_alone() {
    for (size_t i = 0; i < call_.dsts.size(); ++i) copy(call_.dsts[i], call_.srcs[i]);
  }

  // -- two cores

  void barrier(const TensorView& view) {
    const int64_t elements[] = {view.storage->elements()};
    std::vector<int64_t> cores;
    for (int core = 0; core < machine_.core_count(); ++core) cores.push_back(core);
    const isa::Operand operands[] = {machine_.operand(TensorView::whole(view.storage, elements))};
    const isa::AttributeWord attributes[] = {{.integer = machine_.program()->intern_list(cores)}};
    machine_.emit(Opcode::kCoreBarrier, isa::Engine::kGpSimd, operands, attributes, location_);
    machine_.flush();
  }

  // Both programs must be at the same collective, with the same operands.
  void meet_other_core() {
    machine_.flush();
    Contribution mine;
    mine.call = &call_;
    Ranks::Visit visit;
    for (int core = 0; core < machine_.core_count(); ++core) visit.members.push_back({machine_.rank(), core});
    visit.what = describe(call_);
    visit.where = where();
    visit.contribution = &mine;
    machine_.meet(std::move(visit), [&](std::span<Contribution* const> cores) {
      for (size_t core = 1; core < cores.size(); ++core)
        require_same_operands(*cores[0]->call, *cores[core]->call);
    });
  }

  void require_same_operands(const Collective& first, const Collective& other) const {
    const auto lists = [](const Collective& call) { return std::array{&call.srcs, &call.srcs1, &call.dsts}; };
    for (size_t list = 0; list < lists(first).size(); ++list)
      for (size_t i = 0; i < lists(first)[list]->size(); ++i) {
        const TensorView& a = (*lists(first)[list])[i];
        const TensorView& b = (*lists(other)[list])[i];
        if (buffer_of(a) == buffer_of(b) && is_same(a, b)) continue;
        throw Fault(
            FaultKind::kProgram, "collectives.programs",
            fmt::format("{}: the programs of the two cores of rank {} give it different operands, {} "
                        "from element {} and {} from element {}; it counts once for both",
                        name_of(call_), machine_.rank(), a.describe(), a.offset, b.describe(), b.offset),
            "give it whole tensors, not parts by nl.program_id, in both programs");
      }
  }

  static const sim::Buffer* buffer_of(const TensorView& view) {
    if (view.storage->host_bytes) return view.storage->host_bytes.get();
    return view.storage->machine->core().buffer(view.storage->id).get();
  }

  // -- the exchange

  // The tensor's elements in memory of their own.
  TensorView staged(const TensorView& src, std::string_view part) {
    const TensorView copy_of =
        machine_.ndarray(shape_of(src), src.dtype, MemorySpace::kPrivateHbm,
                         fmt::format("{}.{}", name_of(call_), part), std::nullopt, location_);
    copy(copy_of, src);
    return copy_of;
  }

  TensorView arriving(const TensorView& like, std::shared_ptr<sim::Buffer> bytes) {
    return Machine::host_tensor(shape_of(like), like.dtype, MemorySpace::kPrivateHbm, std::move(bytes),
                                fmt::format("{}.received", name_of(call_)));
  }

  void exchange() {
    const size_t begin = machine_.program()->size();
    for (const TensorView& src : call_.srcs) in_.push_back(staged(src, "sent"));
    for (const TensorView& src : call_.srcs1) in1_.push_back(staged(src, "sent"));
    if (call_.metadata) metadata_ = staged(*call_.metadata, "metadata");
    machine_.flush();
    Contribution mine = contribution();
    machine_.meet(visit_of(mine), [&](std::span<Contribution* const> members) { complete(members); });
    const size_t met = machine_.program()->size();
    for (size_t i = 0; i < call_.dsts.size(); ++i) receive(mine, i);
    if (call_.metadata && !call_.recv_counts_known) write_counts(mine);
    const size_t end = machine_.program()->size();
    // One trigger on the device: no copy of what arrived goes before one of what is sent.
    for (size_t consumer = met; consumer < end; ++consumer)
      for (size_t producer = begin; producer < met; ++producer)
        machine_.program()->add_edge(
            {static_cast<isa::InstructionIndex>(consumer), static_cast<isa::InstructionIndex>(producer)});
    if (machine_.ranks()) machine_.add_collective({mine.record, begin, met, end});
  }

  Ranks::Visit visit_of(Contribution& mine) const {
    Ranks::Visit visit;
    const int core = call_.dsts[0].on_chip() ? machine_.core_id() : 0;
    for (const int rank : group_) visit.members.push_back({rank, core});
    visit.what = describe(call_);
    visit.where = where();
    visit.contribution = &mine;
    return visit;
  }

  Contribution contribution() {
    Contribution mine;
    mine.call = &call_;
    mine.receives.assign(call_.dsts.size(), false);
    for (const TensorView& dst : call_.dsts)
      out_.push_back(sim::Buffer::allocate(dst.element_count() * size_bytes(dst.dtype)));
    if (!machine_.executes()) return mine;
    for (const TensorView& view : in_) bring(mine, mine.in, view);
    for (const TensorView& view : in1_) bring(mine, mine.in1, view);
    for (const auto& buffer : out_)
      mine.out.emplace_back(buffer->data(), static_cast<size_t>(buffer->bytes()));
    if (metadata_) {
      const auto bytes = machine_.value(*metadata_);
      if (!bytes->initialised().all()) require_metadata(*bytes);
      mine.metadata.resize(static_cast<size_t>(metadata_->element_count()));
      std::memcpy(mine.metadata.data(), bytes->data(), mine.metadata.size() * sizeof(uint32_t));
    }
    return mine;
  }

  void bring(Contribution& mine, std::vector<std::span<const std::byte>>& list, const TensorView& view) {
    const auto buffer = machine_.value(view);
    held_.push_back(buffer);
    list.emplace_back(buffer->data(), static_cast<size_t>(buffer->bytes()));
    if (buffer->initialised().all() || !machine_.core().checks().uninitialised_reads) return;
    const auto bytes = static_cast<size_t>(buffer->bytes());
    std::vector<std::byte> flags(bytes);
    for (size_t i = 0; i < bytes; ++i)
      flags[i] = std::byte{!buffer->initialised().test_all(static_cast<int64_t>(i), 1)};
    mine.unwritten_in.resize(call_.srcs.size());
    if (list.size() <= mine.unwritten_in.size()) mine.unwritten_in[list.size() - 1] = std::move(flags);
  }

  // Rows that the collective reads; counts that it writes need no value before.
  void require_metadata(const sim::Buffer& buffer) const {
    const int64_t row = static_cast<int64_t>(group_.size() * sizeof(uint32_t));
    const int64_t read =
        call_.kind == collectives::Kind::kAllGatherV ? static_cast<int64_t>(sizeof(uint32_t)) : row;
    for (const int64_t at : {int64_t{0}, int64_t{1}, int64_t{3}}) {
      if (at == 3 && !call_.has_rdispls) continue;
      if (!buffer.initialised().test_all(at * row, read))
        throw Fault(FaultKind::kProgram, "sim.uninitialised_read",
                    fmt::format("{}: row {} of metadata_tensor is read and not written", name_of(call_), at),
                    "write its rows first");
    }
  }

  void complete(std::span<Contribution* const> members) const {
    CollectiveRecord record;
    record.function = name_of(call_);
    record.what = describe(*members[0]->call);
    record.group = group_;
    record.core = machine_.core_id();
    for (const auto* list : {&call_.srcs, &call_.srcs1})
      for (const TensorView& src : *list) record.bytes += src.element_count() * size_bytes(src.dtype);
    record.where = where();
    record.on_chip = call_.dsts[0].on_chip();
    record.priority = static_cast<int>(call_.priority);
    record.requests = requests_of(group_, members);
    record.lengths_assumed = is_v(call_) && members[0]->metadata.empty();
    if (machine_.executes()) record.computed_by = compute(group_, members, machine_.rank_layout());
    if (!machine_.ranks()) return;
    const size_t number = machine_.ranks()->add_record(std::make_shared<CollectiveRecord>(std::move(record)));
    for (Contribution* member : members) member->record = number;
  }

  // -- what arrived

  void receive(const Contribution& mine, size_t i) {
    sim::Buffer& buffer = *out_[i];
    mark_written(buffer, mine, i);
    const bool by_pairs = is_by_pairs(call_);
    if (by_pairs && machine_.executes() && !mine.receives[i]) return;
    const TensorView from = arriving(call_.dsts[i], out_[i]);
    if (!is_v(call_) || !machine_.executes()) return copy(call_.dsts[i], from);
    const std::vector<int64_t> flat = {from.element_count()};
    const TensorView src = from.reshape(flat), dst = call_.dsts[i].reshape(flat);
    const int64_t slot = flat[0] / static_cast<int64_t>(group_.size());
    for (size_t rank = 0; rank < group_.size(); ++rank) {
      if (mine.received[rank] == 0) continue;
      const int64_t first = call_.has_rdispls ? static_cast<int64_t>(mine.metadata[3 * group_.size() + rank])
                                              : slot * static_cast<int64_t>(rank);
      copy(dst.slice(0, first, first + mine.received[rank], 1),
           src.slice(0, first, first + mine.received[rank], 1));
    }
  }

  static void mark_written(sim::Buffer& buffer, const Contribution& mine, size_t i) {
    buffer.mark_all_initialised();
    if (i >= mine.unwritten_out.size()) return;
    const std::vector<std::byte>& unwritten = mine.unwritten_out[i];
    for (size_t at = 0; at < unwritten.size(); ++at)
      if (unwritten[at] != std::byte{0}) buffer.initialised().clear(static_cast<int64_t>(at), 1);
  }

  void write_counts(const Contribution& mine) {
    const int rows = call_.metadata->on_chip() ? 1 : 0;
    const TensorView row = call_.metadata->slice(rows, 2, 3, 1);
    auto bytes = sim::Buffer::allocate(row.element_count() * size_bytes(row.dtype));
    std::vector<uint32_t> counts(group_.size());
    for (size_t i = 0; i < mine.received.size(); ++i) counts[i] = static_cast<uint32_t>(mine.received[i]);
    std::memcpy(bytes->data(), counts.data(), counts.size() * sizeof(uint32_t));
    bytes->mark_all_initialised();
    copy(row, arriving(row, std::move(bytes)));
  }

  Machine& machine_;
  const Collective& call_;
  isa::LocationId location_;
  uint32_t name_;
  std::vector<int> group_;
  std::vector<TensorView> in_, in1_;
  std::optional<TensorView> metadata_;
  std::vector<std::shared_ptr<sim::Buffer>> held_, out_;
};

}  // namespace

void issue(Machine& machine, const Collective& call, isa::LocationId location) {
  try {
    Issue(machine, call, location).run();
  } catch (Fault& fault) {
    fault.set_location(machine.program()->location(location));
    throw;
  }
}

}  // namespace opentrn::nki
