#include "compiler/lowering/readers.h"

#include <algorithm>
#include <vector>

namespace opentrn::compiler {

namespace {

constexpr int kReadersMost = 4;  // one after another

template <typename Takes>
bool all_readers(const Lowering& lowering, int group, Takes&& takes) {
  return std::ranges::all_of(lowering.plan().outputs(group), [&](graph::ValueId value) {
    const std::vector<size_t> reads = lowering.reads_of(value);
    return !reads.empty() &&
           std::ranges::all_of(reads, [&](size_t place) { return takes(lowering.group_at(place)); });
  });
}

bool takes_rows(const Lowering& lowering, int reader, int left) {
  const Group& group = lowering.plan().groups()[static_cast<size_t>(reader)];
  if (!group.rowwise || group.split) return true;
  return left > 0 &&
         all_readers(lowering, reader, [&](int next) { return takes_rows(lowering, next, left - 1); });
}

// A gather, or what is made element by element for gathers alone.
bool is_for_gathers(const Lowering& lowering, int reader, int left) {
  const Group& group = lowering.plan().groups()[static_cast<size_t>(reader)];
  if (!group.rowwise) return lowering.function().op(group.ops[0]).kind == graph::OpKind::gather_;
  return left > 0 && !group.split && !group.has_source && !group.whole_rows &&
         all_readers(lowering, reader, [&](int next) { return is_for_gathers(lowering, next, left - 1); });
}

}  // namespace

bool rows_are_read(const Lowering& lowering, int group) {
  return all_readers(lowering, group, [&](int reader) { return takes_rows(lowering, reader, kReadersMost); });
}

bool only_gathers_read(const Lowering& lowering, int group) {
  return all_readers(lowering, group,
                     [&](int reader) { return is_for_gathers(lowering, reader, kReadersMost); });
}

}  // namespace opentrn::compiler
