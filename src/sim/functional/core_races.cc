#include "sim/functional/core_races.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "isa/roles.h"
#include "sim/functional/context.h"

namespace opentrn::sim {

using isa::Operand;

namespace {

constexpr const char* kLabel = "sim.core_race";
constexpr const char* kHint =
    "let both cores meet between the two, nisa.core_barrier(data=tensor, cores=(0, 1)), or let one core do "
    "both";

// run(address, count) over contiguous elements where there are any, one by one elsewhere.
template <typename Run>
void for_runs(const FlatView& flat, Run&& run) {
  for (RunCursor at(flat); at.remaining() > 0; at.advance(at.remaining())) {
    if (at.skipped()) continue;
    if (at.stride() == flat.element_bytes) {
      run(at.address(), at.remaining());
      continue;
    }
    for (int64_t i = 0; i < at.remaining(); ++i) run(at.address() + i * at.stride(), int64_t{1});
  }
}

}  // namespace

// -- one buffer

SharedAccesses::SharedAccesses(Buffer& buffer, std::shared_ptr<Epoch> epoch)
    : origin_(buffer.data()), bytes_(buffer.bytes()), epoch_(std::move(epoch)) {}

void SharedAccesses::start_epoch() {
  if (seen_ == epoch_->number) return;
  seen_ = epoch_->number;
  keeps_history_ = false;
  sites_.clear();
  tables_.clear();
  dims_.clear();
  oldest_ = 0;
}

void SharedAccesses::make_room(const View& view) {
  const bool full = tables_.size() + dims_.size() > kTablesMax;
  if (full || sites_.size() == kSitesMax) keep_history(view.element_bytes);
  if (!full) return;
  sites_.clear();
  tables_.clear();
  dims_.clear();
  oldest_ = 0;
}

SharedSite SharedAccesses::remember(const Context& cx, const View& view, bool writes) {
  make_room(view);
  const FlatView flat = flatten(view);
  SharedSite site{.index = cx.index,
                  .location = cx.in.location,
                  .opcode = cx.in.opcode,
                  .core = static_cast<int8_t>(cx.rank()),
                  .writes = writes,
                  .element_bytes = view.element_bytes,
                  .rank = static_cast<uint8_t>(flat.rank),
                  .table_dim = static_cast<int8_t>(flat.table == nullptr ? -1 : flat.table_dim),
                  .dims = static_cast<uint32_t>(dims_.size()),
                  .table = static_cast<uint32_t>(tables_.size()),
                  .offset = view.base - origin_,
                  .begin = view.column_begin,
                  .end = view.column_end};
  const bool as_before = !sites_.empty() && newest().rank == site.rank &&
                         std::equal(flat.dims.begin(), flat.dims.begin() + flat.rank,
                                    dims_.begin() + newest().dims, [](const ByteDim& a, const ByteDim& b) {
                                      return a.count == b.count && a.stride == b.stride;
                                    });
  if (as_before)
    site.dims = newest().dims;
  else
    dims_.insert(dims_.end(), flat.dims.begin(), flat.dims.begin() + flat.rank);
  if (flat.table != nullptr)
    tables_.insert(tables_.end(), flat.table, flat.table + flat.dims[flat.table_dim].count);
  if (sites_.size() < kSitesMax)
    sites_.push_back(site);
  else
    sites_[std::exchange(oldest_, (oldest_ + 1) % kSitesMax)] = site;
  note_names(cx, view);
  return site;
}

const SharedSite& SharedAccesses::newest() const {
  return sites_[(oldest_ + sites_.size() - 1) % sites_.size()];
}

void SharedAccesses::note_names(const Context& cx, const View& view) {
  const auto where = [&](isa::LocationId id) {
    return id < cx.program.location_count() ? cx.program.location(id) : SourceLocation{};
  };
  const auto [place, added] = places_.try_emplace({cx.rank(), cx.in.location});
  if (added) place->second = where(cx.in.location);
  if (subject_) return;
  const isa::Tensor& tensor = cx.program.tensor(view.tensor);
  subject_ = {fmt::format("'{}'", tensor.name), tensor.shape, size_bytes(tensor.dtype)};
  if (!tensor.name.empty()) return;
  const SourceLocation made = where(tensor.location);
  subject_->name = made.known() ? fmt::format("the tensor made at {}:{}", made.file, made.line) : "a tensor";
}

FlatView SharedAccesses::walk(const SharedSite& site) const {
  FlatView flat{.base = origin_ + site.offset, .element_bytes = site.element_bytes};
  flat.rank = site.rank;
  std::copy_n(dims_.begin() + site.dims, site.rank, flat.dims.begin());
  for (int d = 0; d < flat.rank; ++d)  // a broadcast reads once
    if (flat.dims[d].stride == 0 && d != site.table_dim) flat.dims[d].count = 1;
  if (site.table_dim < 0) return flat;
  flat.table = tables_.data() + site.table;
  flat.table_dim = site.table_dim;
  return flat;
}

int64_t SharedAccesses::read_bytes(const SharedSite& site) {
  int64_t bad = SharedHistory::kNoRace;
  for_runs(walk(site), [&](const std::byte* at, int64_t count) {
    if (bad < 0) bad = history_->read(site.core, at - origin_, count * site.element_bytes);
  });
  return bad;
}

// From now on bytes have states; what was read so far enters them.
void SharedAccesses::keep_history(int unit_bytes) {
  if (std::exchange(keeps_history_, true)) return;
  if (!history_) history_ = std::make_unique<SharedHistory>(bytes_, unit_bytes, epoch_);
  for (const SharedSite& site : sites_) read_bytes(site);
}

void SharedAccesses::read(const Context& cx, const View& view) {
  std::lock_guard guard(lock_);
  start_epoch();
  const SharedSite site = remember(cx, view, false);
  if (!keeps_history_) return;
  if (const int64_t byte = read_bytes(site); byte >= 0) fail(cx, site, byte);
}

// Copies what is there if it has to be known afterwards.
void SharedAccesses::snapshot(Context& cx, SharedWrite& write) const {
  const View& view = write.view;
  std::lock_guard mask_guard(view.buffer->mask_lock());
  const ByteMask& mask = view.buffer->initialised();
  if (mask.none()) return;
  bool all = true, needed = false;
  const FlatView flat = flatten(view);
  for_runs(flat, [&](const std::byte* at, int64_t count) {
    const int64_t begin = view.buffer->logical(at), bytes = count * view.element_bytes;
    if (mask.test_none(begin, bytes)) {
      all = false;
      return;
    }
    all = all && mask.test_all(begin, bytes);
    needed = needed || history_->needs_values(cx.rank(), begin, bytes);
  });
  if (!needed) return;
  std::byte* values = cx.scratch.bytes(view.total() * view.element_bytes);
  uint8_t* flags = all ? nullptr : cx.scratch.array<uint8_t>(view.total());
  write.before = values;
  write.unwritten = flags;
  for_runs(flat, [&](const std::byte* at, int64_t count) {
    std::memcpy(values, at, static_cast<size_t>(count * view.element_bytes));
    values += count * view.element_bytes;
    const int64_t begin = view.buffer->logical(at);
    for (int64_t i = 0; flags != nullptr && i < count; ++i)
      *flags++ = !mask.test_all(begin + i * view.element_bytes, view.element_bytes);
  });
}

SharedWrite SharedAccesses::begin_write(Context& cx, const View& view) {
  std::lock_guard guard(lock_);
  start_epoch();
  keep_history(view.element_bytes);
  SharedWrite write{view};
  snapshot(cx, write);
  return write;
}

void SharedAccesses::finish_write(const Context& cx, const SharedWrite& write) {
  std::lock_guard guard(lock_);
  const int64_t element = write.view.element_bytes;
  const SharedSite site = remember(cx, write.view, true);
  int64_t done = 0;  // elements
  for_runs(flatten(write.view), [&](const std::byte* at, int64_t count) {
    for (const int64_t end = done + count; done < end;) {
      bool fresh = write.before == nullptr;
      int64_t n = end - done;
      if (write.unwritten != nullptr) {
        const uint8_t* flags = write.unwritten + done;
        fresh = *flags != 0;
        n = std::find_if(flags, flags + n, [&](uint8_t flag) { return (flag != 0) != fresh; }) - flags;
      }
      const int64_t byte = history_->write(site.core, write.view.buffer->logical(at), n * element, at,
                                           fresh ? nullptr : write.before + done * element);
      if (byte >= 0) fail(cx, site, byte);
      at += n * element;
      done += n;
    }
  });
}

// -- messages

bool SharedAccesses::holds(const SharedSite& site, int64_t byte) const {
  if (byte < site.begin || byte >= site.end) return false;
  bool found = false;
  for_runs(walk(site), [&](const std::byte* at, int64_t count) {
    const auto begin = at - origin_;
    found = found || (byte >= begin && byte < begin + count * site.element_bytes);
  });
  return found;
}

const SharedSite* SharedAccesses::find(int core, bool writes, int64_t byte) const {
  for (size_t i = 0; i < sites_.size(); ++i) {
    const SharedSite& site = sites_[(oldest_ + sites_.size() - 1 - i) % sites_.size()];
    if (site.core == core && site.writes == writes && holds(site, byte)) return &site;
  }
  return nullptr;
}

// "core 1 (dma_copy, instruction 7, kernel.py:12)"
std::string SharedAccesses::describe(int core, const SharedSite* site) const {
  if (site == nullptr) return fmt::format("core {}", core);
  const SourceLocation& at = places_.at({core, site->location});
  return fmt::format("core {} ({}, instruction {}{})", core, isa::name(site->opcode), site->index,
                     at.known() ? fmt::format(", {}:{}", at.file, at.line) : "");
}

// "element [3, 0] of 'out'", by the shape that the tensor was made with.
std::string SharedAccesses::element(int64_t byte) const {
  int64_t number = byte / subject_->element_bytes;
  std::vector<int64_t> index(subject_->shape.size());
  for (size_t d = index.size(); d-- > 0;) {
    const int64_t count = std::max<int64_t>(1, subject_->shape[d]);
    index[d] = d == 0 ? number : number % count;
    number /= count;
  }
  return fmt::format("element [{}] of {}", fmt::join(index, ", "), subject_->name);
}

void SharedAccesses::fail(const Context& cx, const SharedSite& site, int64_t byte) const {
  const int other = 1 - site.core;
  const bool against_read = site.writes && history_->has_read(other, byte);
  const SharedSite* theirs = find(other, !against_read, byte);
  cx.fail(
      FaultKind::kProgram, kLabel,
      fmt::format("core {} {} {}, which {} {}, and the cores do not meet in between: what is {} depends on "
                  "which is first",
                  site.core, site.writes ? "writes" : "reads", element(byte), describe(other, theirs),
                  against_read ? "reads" : "writes", site.writes && !against_read ? "left" : "read"),
      kHint);
}

void SharedAccesses::check_parted() const {
  const int64_t byte = history_ ? history_->parted() : SharedHistory::kNoRace;
  if (byte < 0) return;
  const std::array<const SharedSite*, 2> sites = {find(0, true, byte), find(1, true, byte)};
  Fault fault(
      FaultKind::kProgram, kLabel,
      fmt::format("{} and {} write different values to {}, and the cores do not meet in between: what "
                  "is left depends on which is last",
                  describe(0, sites[0]), describe(1, sites[1]), element(byte)),
      kHint);
  if (const SharedSite* named = sites[1] != nullptr ? sites[1] : sites[0])
    if (const SourceLocation& at = places_.at({named->core, named->location}); at.known())
      fault.set_location(at);
  throw fault;
}

int64_t SharedAccesses::memory_bytes() const {
  const size_t lists = sites_.capacity() * sizeof(SharedSite) + tables_.capacity() * sizeof(int64_t) +
                       dims_.capacity() * sizeof(ByteDim);
  return static_cast<int64_t>(lists) + (history_ ? history_->memory_bytes() : 0);
}

// -- all buffers

CoreRaces::~CoreRaces() {
  for (const Watched& each : watched_)
    if (const auto buffer = each.buffer.lock(); buffer && buffer->shared() == each.accesses.get())
      buffer->share(nullptr);
}

void CoreRaces::watch(const std::shared_ptr<Buffer>& buffer) {
  if (!buffer->writable()) return;
  std::lock_guard guard(mutex_);
  if (buffer->shared() != nullptr && buffer->shared()->belongs_to(*epoch_)) return;
  watched_.push_back({buffer, std::make_shared<SharedAccesses>(*buffer, epoch_)});
  buffer->share(watched_.back().accesses);
}

void CoreRaces::meet() {
  std::lock_guard guard(mutex_);
  if (epoch_->parted.load() > 0)
    for (const Watched& each : watched_) each.accesses->check_parted();
  ++epoch_->number;
  std::erase_if(watched_, [](const Watched& each) { return each.buffer.expired(); });
}

// -- what an instruction tells

// Of a program that holds both cores', only instructions of a launch race.
SharedAccesses* Context::watched(const View& view) const {
  if (view.buffer == nullptr || view.buffer->shared() == nullptr) return nullptr;
  return core.group_ != nullptr || in.flags & isa::kFlagsOfPair ? view.buffer->shared() : nullptr;
}

void Context::note_read(const View& view) const {
  if (SharedAccesses* shared = watched(view)) shared->read(*this, view);
}

void Context::note_write(const View& view) {
  if (SharedAccesses* shared = watched(view)) shared_writes_.push_back(shared->begin_write(*this, view));
}

// -- launches inside programs

std::vector<bool> tensors_of_both(const isa::Program& program) {
  const auto on_second = [](const isa::Instruction& in) { return (in.flags & isa::kFlagCore1) != 0; };
  if (std::ranges::none_of(program.instructions(), on_second)) return {};
  enum : uint8_t { kFirst = 1, kSecond = 2, kWritten = 4, kAll = 7 };
  std::vector<uint8_t> uses(program.tensor_count());
  for (const isa::Instruction& in : program.instructions()) {
    if ((in.flags & isa::kFlagsOfPair) == 0 || in.opcode == isa::Opcode::kCoreBarrier) continue;
    const uint8_t core = on_second(in) ? kSecond : kFirst;
    int slot = 0;
    for (const Operand& op : program.operands(in)) {
      const bool writes = isa::role_of(program, in, slot++) != isa::Role::kIn;
      if (!op.is_access()) continue;
      uses[op.tensor] |= static_cast<uint8_t>(core | (writes ? kWritten : 0));
      if (op.indirect == isa::kNoIndirect) continue;
      if (const Operand& index = program.indirect(op).index; index.is_access()) uses[index.tensor] |= core;
    }
  }
  std::vector<bool> both(uses.size());
  for (isa::TensorId id = 0; id < uses.size(); ++id)
    both[id] = uses[id] == kAll && isa::is_hbm(program.tensor(id).space);
  return both;
}

}  // namespace opentrn::sim
