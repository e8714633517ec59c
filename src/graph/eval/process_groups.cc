#include "graph/eval/process_groups.h"

#include <fmt/format.h>

namespace opentrn::graph::eval {

namespace {

using Fail = std::function<void(const std::string&)>;

// stablehlo/docs/spec.md, "Collective ops": how the rows of replica_groups name processes.
enum class Strategy { kCrossReplica, kCrossPartition, kCrossReplicaAndPartition, kFlattenedIds };

Strategy strategy_of(const Op& op, const Fail& fail) {
  const bool has_channel = op.integer_or(Attr::channel_id, 0) > 0;
  const bool reduces =
      op.kind == OpKind::all_gather_ || op.kind == OpKind::all_reduce_ || op.kind == OpKind::reduce_scatter_;
  if (!reduces) return has_channel ? Strategy::kCrossPartition : Strategy::kCrossReplica;
  const bool global = op.boolean_or(Attr::use_global_device_ids, false);
  if (has_channel) return global ? Strategy::kFlattenedIds : Strategy::kCrossReplicaAndPartition;
  if (global) fail("use_global_device_ids without a channel");
  return Strategy::kCrossReplica;
}

}  // namespace

std::vector<ProcessGroup> process_groups(const Op& op, int64_t replicas, int64_t partitions,
                                         const Fail& fail) {
  const auto checked = [&](int64_t id, int64_t count) {
    if (id < 0 || id >= count) fail(fmt::format("process {} in a group, of {}", id, count));
    return id;
  };
  const Strategy strategy = strategy_of(op, fail);
  const IntMatrix& rows =
      op.matrix(op.has(Attr::source_target_pairs) ? Attr::source_target_pairs : Attr::replica_groups);
  std::vector<ProcessGroup> groups;
  for (int64_t row = 0; row < rows.rows; ++row) {
    std::vector<int64_t> ids;
    for (int64_t column = 0; column < rows.columns; ++column)
      if (rows.at(row, column) >= 0) ids.push_back(rows.at(row, column));
    // One group for each process of the other kind, or one for all.
    if (strategy == Strategy::kCrossReplica) {
      for (int64_t partition = 0; partition < partitions; ++partition) {
        ProcessGroup& group = groups.emplace_back();
        for (const int64_t id : ids) group.push_back(checked(id, replicas) * partitions + partition);
      }
    } else if (strategy == Strategy::kCrossPartition) {
      for (int64_t replica = 0; replica < replicas; ++replica) {
        ProcessGroup& group = groups.emplace_back();
        for (const int64_t id : ids) group.push_back(replica * partitions + checked(id, partitions));
      }
    } else if (strategy == Strategy::kCrossReplicaAndPartition) {
      ProcessGroup& group = groups.emplace_back();
      for (int64_t partition = 0; partition < partitions; ++partition)
        for (const int64_t id : ids) group.push_back(checked(id, replicas) * partitions + partition);
    } else {
      for (const int64_t id : ids) (void)checked(id, replicas * partitions);
      groups.push_back(ids);
    }
  }
  return groups;
}

}  // namespace opentrn::graph::eval
