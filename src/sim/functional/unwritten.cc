#include "sim/functional/unwritten.h"

#include <algorithm>
#include <mutex>

#include <fmt/format.h>

#include "isa/tensor_label.h"
#include "sim/functional/context.h"

namespace opentrn::sim {

namespace {

// Bytes to hold one flag per element of `view`, all 0, with the view's dimensions.
View flags_like(Context& cx, const View& view) {
  View flags;
  flags.element_bytes = 1;
  flags.dtype = DType::kUint8;
  flags.partitions = view.partitions;
  flags.elements = view.elements;
  flags.partition_stride = view.elements;
  flags.free_rank = view.free_rank;
  int64_t stride = 1;
  for (int d = view.free_rank - 1; d >= 0; --d) {
    flags.free[d] = {view.free[d].count, stride};
    stride *= view.free[d].count;
  }
  flags.base = cx.scratch.bytes(view.total());
  std::fill_n(flags.base, view.total(), std::byte{0});
  return flags;
}

std::string origin(const Context& cx, int slot, std::string_view did = "moved it there") {
  std::string what =
      fmt::format("{} {} from {}", cx.name(), did, isa::tensor_label(cx.program, cx.operand(slot).tensor));
  if (cx.in.location >= cx.program.location_count()) return what;
  const SourceLocation& where = cx.program.location(cx.in.location);
  return where.known() ? fmt::format("{} at {}:{}", what, where.file, where.line) : what;
}

// No matmul may accumulate onto it, either.
void make_unwritten(Buffer& buffer, int64_t byte, int64_t bytes) {
  buffer.initialised().clear(byte, bytes);
  buffer.accumulatable().clear(byte, bytes);
}

}  // namespace

void Context::settle_fill(const View& view, bool overwritten) const {
  // A transfer that may skip indices leaves elements as they are.
  const bool whole = overwritten && !view.skipped && !skip_indices_out_of_bounds && view.dense() &&
                     view.total() * view.element_bytes == view.buffer->bytes();
  view.buffer->settle_fill(whole);
}

void Context::list_unwritten(const View& view, std::vector<bool>& unwritten) const {
  const ByteMask& mask = view.buffer->initialised();
  std::unique_lock guard(view.buffer->mask_lock());
  for (int64_t p = 0; p < view.partitions; ++p)
    for_runs_of_partition(view, p, [&](std::byte* at, int64_t count, int64_t stride) {
      for (int64_t i = 0; i < count; ++i)
        unwritten.push_back(!mask.test_all(view.buffer->logical(at + i * stride), view.element_bytes));
    });
}

void leave_unwritten(Context& cx, const View& dst, int slot, const std::function<bool(int64_t)>& which) {
  if (dst.buffer == nullptr) return;
  std::lock_guard guard(dst.buffer->mask_lock());
  if (dst.buffer->unwritten_origin().empty())
    dst.buffer->set_unwritten_origin(origin(cx, slot, "computed it"));
  int64_t element = 0;
  for_runs(dst, [&](std::byte* at, int64_t count, int64_t stride) {
    for (int64_t i = 0; i < count; ++i)
      if (!which || which(element++))
        make_unwritten(*dst.buffer, dst.buffer->logical(at + i * stride), dst.element_bytes);
  });
}

Unwritten::Unwritten(Context& cx, int slot) : slot_(slot) {
  if (!cx.checks_reads() || cx.is_tensor_indirect(cx.operand(slot))) {
    source_ = cx.source(slot);
    return;
  }
  source_ = cx.unchecked(slot);
  if (source_.skipped) return;
  cx.note_read(source_);
  if (cx.first_unwritten(source_) < 0) return;
  flags_ = flags_like(cx, source_);
  const ByteMask& mask = source_.buffer->initialised();
  const FlatView flat = flatten(source_);
  std::byte* flag = flags_.base;
  bool some_written = false;
  {
    std::lock_guard guard(source_.buffer->mask_lock());
    for (RunCursor at(flat); at.remaining() > 0; at.advance(at.remaining()))
      for (int64_t i = 0; i < at.remaining(); ++i, ++flag) {
        if (at.skipped()) continue;
        const int64_t byte = source_.buffer->logical(at.address() + i * at.stride());
        const bool written = mask.test_all(byte, source_.element_bytes);
        *flag = std::byte{!written};
        some_written |= written;
      }
  }
  if (!some_written) cx.check_initialised(source_, slot);
}

void Unwritten::carry_to(Context& cx, const View& dst, const FlatView& flags) const {
  const bool leaves = isa::is_hbm(dst.space) && dst.space != isa::MemorySpace::kPrivateHbm;
  if (leaves || dst.buffer == nullptr) cx.check_initialised(source_, slot_);
  if (dst.buffer == nullptr) return;
  std::lock_guard guard(dst.buffer->mask_lock());
  if (dst.buffer->unwritten_origin().empty()) dst.buffer->set_unwritten_origin(origin(cx, slot_));
  const FlatView flat = flatten(dst);
  RunCursor flag(flags), to(flat);
  while (to.remaining() > 0 && flag.remaining() > 0) {
    const int64_t n = std::min(to.remaining(), flag.remaining());
    for (int64_t i = 0; i < n && !to.skipped(); ++i) {
      if (flag.address()[i * flag.stride()] == std::byte{0}) continue;
      const int64_t byte = dst.buffer->logical(to.address() + i * to.stride());
      make_unwritten(*dst.buffer, byte, dst.element_bytes);
    }
    to.advance(n);
    flag.advance(n);
  }
}

}  // namespace opentrn::sim
