// Ops that communicate between processes. Each finds its process group, meets the others there, and
// computes its own result from what all brought.
#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "graph/eval/bodies.h"
#include "graph/eval/indexing.h"
#include "graph/eval/interpreter.h"
#include "graph/eval/process_groups.h"

namespace opentrn::graph::eval {

namespace {

Process& process_of(const Call& call) { return call.interpreter().process(); }

int64_t channel_of(const Call& call) { return call.op().integer_or(Attr::channel_id, 0); }

int64_t checked(const Call& call, int64_t id, int64_t count) {
  if (id < 0 || id >= count) call.fail(fmt::format("process {} in a group, of {}", id, count));
  return id;
}

std::vector<ProcessGroup> groups_of(const Call& call) {
  const ProcessGrid& grid = process_of(call).grid();
  return process_groups(call.op(), grid.num_replicas(), grid.num_partitions(),
                        [&](const std::string& what) { call.fail(what); });
}

const ProcessGroup* group_of(const std::vector<ProcessGroup>& groups, int64_t process) {
  for (const ProcessGroup& group : groups)
    if (std::find(group.begin(), group.end(), process) != group.end()) return &group;
  return nullptr;
}

// A group and this process's place in it.
struct Membership {
  ProcessGroup group;
  size_t place = 0;
};

Membership membership(const Call& call) {
  const std::vector<ProcessGroup> groups = groups_of(call);
  const int64_t id = process_of(call).id();
  const ProcessGroup* group = group_of(groups, id);
  if (!group) call.fail(fmt::format("no group has process {}", id), "name every process in replica_groups");
  return {*group, static_cast<size_t>(std::find(group->begin(), group->end(), id) - group->begin())};
}

// What all members of a group say of their collective: the op, how it goes, and the types of its operands.
std::string collective_of(const Call& call, const std::vector<Tensor>& brought) {
  constexpr Attr kSaid[] = {Attr::all_gather_dim, Attr::scatter_dimension, Attr::split_dimension,
                            Attr::concat_dimension, Attr::split_count};
  std::vector<std::string> how;
  for (const OpId id : call.op().regions.empty() ? std::vector<OpId>() : call.region_block(0).ops)
    if (const OpKind kind = call.function().op(id).kind; kind != OpKind::return_)
      how.emplace_back(name(kind));
  for (const Attr attr : kSaid)
    if (call.op().has(attr)) how.push_back(fmt::format("{} {}", name(attr), call.op().integer(attr)));
  std::vector<std::string> types;
  for (const Tensor& tensor : brought) types.push_back(tensor.type().to_string());
  return fmt::format("{}{} of {}", name(call.kind()),
                     how.empty() ? "" : fmt::format(" [{}]", fmt::join(how, ", ")), fmt::join(types, ", "));
}

std::string place_of(const Call& call) {
  const Location& at = call.module().location(call.op().location);
  return at.file.empty() ? std::string() : fmt::format("{}:{}", at.file, at.line);
}

std::vector<std::vector<Tensor>> meet(const Call& call, const ProcessGroup& group,
                                      std::vector<Tensor> brought) {
  Process& process = process_of(call);
  Arrival arrival{{}, collective_of(call, brought), place_of(call)};
  arrival.tensors = std::move(brought);
  return process.grid().meet(group, channel_of(call), process.id(), std::move(arrival), name(call.kind()));
}

// The region over the same element of every tensor, in the group's order.
Tensor reduce_tensors(const Call& call, const std::vector<Tensor>& tensors, const Type& type) {
  return visit_values(tensors.front(), [&]<typename T>(std::vector<T> values) {
    const Combiner<T> combine(call, 0);
    for (size_t k = 1; k < tensors.size(); ++k) {
      const std::vector<T>& more = tensors[k].values<T>();
      for (size_t i = 0; i < values.size(); ++i) values[i] = combine(values[i], more[i]);
    }
    // Promoted sums come back in the type of the result.
    return Tensor(type, std::move(values));
  });
}

std::vector<Tensor> column(const std::vector<std::vector<Tensor>>& brought, size_t operand) {
  std::vector<Tensor> all;
  for (const auto& row : brought) all.push_back(row[operand]);
  return all;
}

Tensor zero_result(const Call& call, size_t i, const Tensor& like) {
  return zero_tensor(call.result(like.dims(), i));
}

// The place in the group of the process whose values win: the first, or as the last operand says per
// result.
size_t root_of(const Call& call, size_t result, const ProcessGroup& group) {
  if (!call.op().boolean_or(Attr::has_dynamic_root, false)) return 0;
  const int64_t root = integer_at(call.tensor(call.operand_count() - 1), static_cast<int64_t>(result));
  return static_cast<size_t>(checked(call, root, static_cast<int64_t>(group.size())));
}

}  // namespace

Items all_gather(const Call& call) {
  const Membership own = membership(call);
  const auto brought = meet(call, own.group, call.tensors(0, call.operand_count()));
  Items results;
  for (size_t k = 0; k < call.operand_count(); ++k) {
    const Tensor joined = concatenate(column(brought, k), call.op().integer(Attr::all_gather_dim));
    results.push_back(joined.with_type(call.result(joined.dims(), k)));
  }
  return results;
}

Items all_reduce(const Call& call) {
  const Membership own = membership(call);
  const auto brought = meet(call, own.group, call.tensors(0, call.operand_count()));
  Items results;
  for (size_t k = 0; k < call.operand_count(); ++k)
    results.push_back(reduce_tensors(call, column(brought, k), call.result(call.tensor(k).dims(), k)));
  return results;
}

Items reduce_scatter(const Call& call) {
  const Membership own = membership(call);
  const auto brought = meet(call, own.group, {call.tensor(0)});
  const int64_t axis = call.op().integer(Attr::scatter_dimension);
  const Tensor& operand = call.tensor(0);
  const auto members = static_cast<int64_t>(own.group.size());
  if (axis < 0 || axis >= operand.rank() || operand.dims()[static_cast<size_t>(axis)] % members != 0)
    call.fail(fmt::format("{} does not split {} ways along {}", operand.type().to_string(), members, axis));
  const int64_t length = operand.dims()[static_cast<size_t>(axis)] / members;
  const Type type = Type::tensor(call.stated().element(), copy_dims(operand.dims()));
  const Tensor reduced = reduce_tensors(call, column(brought, 0), type);
  const Tensor part = slice_along(reduced, axis, static_cast<int64_t>(own.place) * length, length);
  return {part.with_type(call.result(part.dims()))};
}

Items all_to_all(const Call& call) {
  const Membership own = membership(call);
  const auto brought = meet(call, own.group, call.tensors(0, call.operand_count()));
  const int64_t split = call.op().integer(Attr::split_dimension);
  const int64_t count = call.op().integer(Attr::split_count);
  Items results;
  for (size_t k = 0; k < call.operand_count(); ++k) {
    const Tensor& operand = call.tensor(k);
    if (count < 1 || own.place >= static_cast<size_t>(count) || split < 0 || split >= operand.rank() ||
        operand.dims()[static_cast<size_t>(split)] % count != 0)
      call.fail(fmt::format("{} does not split {} ways along {}", operand.type().to_string(), count, split));
    const int64_t length = operand.dims()[static_cast<size_t>(split)] / count;
    std::vector<Tensor> parts;
    for (const Tensor& whole : column(brought, k))
      parts.push_back(slice_along(whole, split, static_cast<int64_t>(own.place) * length, length));
    const Tensor joined = concatenate(parts, call.op().integer(Attr::concat_dimension));
    results.push_back(joined.with_type(call.result(joined.dims(), k)));
  }
  return results;
}

Items collective_broadcast(const Call& call) {
  const auto groups = groups_of(call);
  const ProcessGroup* group = group_of(groups, process_of(call).id());
  const size_t count = call.op().results.size();
  Items results;
  if (!group) {
    for (size_t k = 0; k < count; ++k) results.push_back(zero_result(call, k, call.tensor(k)));
    return results;
  }
  const auto brought = meet(call, *group, call.tensors(0, count));
  for (size_t k = 0; k < count; ++k) {
    const Tensor& root = brought[root_of(call, k, *group)][k];
    results.push_back(root.with_type(call.result(root.dims(), k)));
  }
  return results;
}

Items collective_reduce(const Call& call) {
  const Membership own = membership(call);
  const size_t count = call.op().results.size();
  const auto brought = meet(call, own.group, call.tensors(0, count));
  Items results;
  for (size_t k = 0; k < count; ++k) {
    if (root_of(call, k, own.group) == own.place)
      results.push_back(reduce_tensors(call, column(brought, k), call.result(call.tensor(k).dims(), k)));
    else
      results.push_back(zero_result(call, k, call.tensor(k)));
  }
  return results;
}

// Every pair meets, in the order of the pairs, so a process that sends and receives goes to two rendezvous.
Items collective_permute(const Call& call) {
  const auto pairs = groups_of(call);
  const int64_t id = process_of(call).id();
  const std::vector<Tensor> operands = call.tensors(0, call.operand_count());
  std::vector<Tensor> received;
  for (const ProcessGroup& pair : pairs) {
    if (pair.size() != 2) call.fail("a source_target_pair of another size than 2");
    if (pair[0] != id && pair[1] != id) continue;
    if (pair[0] == pair[1]) {
      received = operands;
      continue;
    }
    auto brought = meet(call, pair, operands);
    if (pair[1] == id) received = std::move(brought[0]);
  }
  Items results;
  for (size_t k = 0; k < operands.size(); ++k)
    results.push_back(received.empty() ? zero_result(call, k, operands[k])
                                       : received[k].with_type(call.result(received[k].dims(), k)));
  return results;
}

// Host transfers have no receiver: whoever receives first gets them.
constexpr int64_t kHost = -1;

Items send(const Call& call) {
  ProcessGrid& grid = process_of(call).grid();
  const std::vector<Tensor> inputs = call.tensors(0, call.operand_count() - 1);
  const bool has_pairs =
      call.op().has(Attr::source_target_pairs) && call.op().matrix(Attr::source_target_pairs).rows > 0;
  if (call.op().boolean_or(Attr::is_host_transfer, false) || !has_pairs) {
    grid.send(channel_of(call), kHost, inputs);
    return {Item()};
  }
  const auto pairs = groups_of(call);
  for (const ProcessGroup& pair : pairs)
    if (pair.size() == 2 && pair[0] == process_of(call).id()) grid.send(channel_of(call), pair[1], inputs);
  return {Item()};
}

Items recv(const Call& call) {
  ProcessGrid& grid = process_of(call).grid();
  const bool has_pairs =
      call.op().has(Attr::source_target_pairs) && call.op().matrix(Attr::source_target_pairs).rows > 0;
  const bool host = call.op().boolean_or(Attr::is_host_transfer, false) || !has_pairs;
  const std::vector<Tensor> tensors = grid.receive(channel_of(call), host ? kHost : process_of(call).id());
  if (tensors.size() + 1 != call.op().results.size())
    call.fail(fmt::format("{} tensors arrived, the program states {}", tensors.size(),
                          call.op().results.size() - 1));
  Items results(tensors.begin(), tensors.end());
  results.emplace_back();
  return results;
}

}  // namespace opentrn::graph::eval
