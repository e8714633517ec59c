// Ops between processes. Sizes of process groups follow from replica_groups alone where the process grid
// does not multiply them: with flattened ids, and with cross_replica; C3 of all_gather and its like, which
// compare with the number of replicas, are checked where a run states the grid (eval).
#include <algorithm>

#include "graph/shape/rules.h"

namespace opentrn::graph::shape {

namespace {

struct Groups {
  int64_t count;
  int64_t size;
};

// unique: entries differ; range: they are 0 .. n-1 for some n, -1 filling ragged groups.
Groups checked_groups(const Context& c, int unique, int range, bool complete, bool ragged = false) {
  const IntMatrix& groups = c.op().matrix(Attr::replica_groups);
  Dims ids;
  c.check(ragged || !contains(groups.values, -1), range, "replica_groups is {}; groups must be of one size",
          text(groups.values));
  for (const int64_t id : groups.values)
    if (id != -1) ids.push_back(id);
  c.check(is_unique(ids), unique, "replica_groups is {}; entries must differ", text(groups.values));
  const int64_t limit = complete ? static_cast<int64_t>(ids.size()) : INT64_MAX;
  c.check(in_range(ids, 0, limit), range, "replica_groups is {}; entries must be 0 to {}",
          text(groups.values), limit - 1);
  return {groups.rows, groups.columns};
}

void check_global_ids(const Context& c, int constraint) {
  c.check(
      !c.op().boolean_or(Attr::use_global_device_ids, false) || c.op().integer_or(Attr::channel_id, 0) > 0,
      constraint, "use_global_device_ids needs a channel_id above 0; it is {}",
      c.op().integer_or(Attr::channel_id, 0));
}

// With a channel and without global ids a group spans the partitions of its replicas, whose number a
// module does not say.
bool spans_partitions(const Context& c) {
  return c.op().integer_or(Attr::channel_id, 0) > 0 && !c.op().boolean_or(Attr::use_global_device_ids, false);
}

}  // namespace

void check_source_target_pairs(const Context& c) {
  const IntMatrix& pairs = c.op().matrix(Attr::source_target_pairs);
  c.check(pairs.columns == 2 || pairs.rows == 0, 1, "source_target_pairs is {} x {}; it must be n x 2",
          pairs.rows, pairs.columns);
  Dims sources;
  Dims targets;
  for (int64_t i = 0; i < pairs.rows; ++i) {
    sources.push_back(pairs.at(i, 0));
    targets.push_back(pairs.at(i, 1));
  }
  c.check(is_unique(sources), 2, "sources are {}; each sends once", text(sources));
  c.check(is_unique(targets), 3, "targets are {}; each receives once", text(targets));
  c.check(in_range(concatenated({sources, targets}), 0, INT64_MAX), 4,
          "source_target_pairs is {}; ids must not be negative", text(pairs.values));
}

Types all_gather(const Context& c) {
  const int64_t axis = c.integer(Attr::all_gather_dim);
  const Groups groups = checked_groups(c, 2, 4, true);
  check_global_ids(c, 5);
  Types results;
  for (size_t i = 0; i < c.operand_count(); ++i) {
    const Type& operand = c.tensor(i);
    c.check(0 <= axis && axis < operand.rank(), 1, "all_gather_dim is {} for {}", axis, operand.to_string());
    Dims dims = operand.dims_vector();
    int64_t& size = dims[static_cast<size_t>(axis)];
    int64_t by = groups.size;
    if (spans_partitions(c) && i < c.stated().size() && c.stated()[i].is_tensor() &&
        c.stated()[i].rank() == operand.rank()) {
      // Whole numbers of partitions per replica; the run knows how many.
      const int64_t stated = c.stated()[i].dim(static_cast<int>(axis));
      const bool known = !is_dynamic(stated) && !is_dynamic(size) && size != 0;
      c.check(!known || stated % size == 0, 6, "{} gathered in groups of {} cannot be {}",
              operand.to_string(), by, c.stated()[i].to_string());
      size = stated;
    } else {
      size = times(size, by);
    }
    results.push_back(typed(operand, std::move(dims)));
  }
  return results;
}

Types all_reduce(const Context& c) {
  checked_groups(c, 1, 3, true, true);
  check_global_ids(c, 4);
  Types results;
  for (size_t i = 0; i < c.operand_count(); ++i) {
    const Types scalar{typed(c.tensor(i), {})};
    results.push_back(typed(combiner(c, 0, scalar, 5)[0], c.tensor(i).dims_vector()));
    results.back().set_bounds({c.tensor(i).bounds().begin(), c.tensor(i).bounds().end()});
  }
  return results;
}

Types all_to_all(const Context& c) {
  const int64_t split = c.integer(Attr::split_dimension);
  const int64_t join = c.integer(Attr::concat_dimension);
  const int64_t count = c.integer(Attr::split_count);
  c.check(count > 0, 4, "split_count is {}; it must be positive", count);
  const Groups groups = checked_groups(c, 5, 7, true);
  c.check(groups.size == count, 8, "replica groups have {} members and split_count is {}", groups.size,
          count);
  Types results;
  for (size_t i = 0; i < c.operand_count(); ++i) {
    const Type& operand = c.tensor(i);
    c.check(0 <= split && split < operand.rank(), 1, "split_dimension is {} for {}", split,
            operand.to_string());
    c.check(0 <= join && join < operand.rank(), 3, "concat_dimension is {} for {}", join,
            operand.to_string());
    Dims dims = operand.dims_vector();
    int64_t& size = dims[static_cast<size_t>(split)];
    c.check(is_dynamic(size) || size % count == 0, 2, "dimension {} of {} does not split by {}", split,
            operand.to_string(), count);
    if (!is_dynamic(size)) size /= count;
    dims[static_cast<size_t>(join)] = times(dims[static_cast<size_t>(join)], count);
    results.push_back(typed(operand, std::move(dims)));
  }
  return results;
}

Types reduce_scatter(const Context& c) {
  const Type& operand = c.tensor(0);
  const int64_t axis = c.integer(Attr::scatter_dimension);
  c.check(0 <= axis && axis < operand.rank(), 2, "scatter_dimension is {} for {}", axis, operand.to_string());
  const Groups groups = checked_groups(c, 3, 5, true);
  check_global_ids(c, 6);
  const Types scalar{typed(operand, {})};
  const Type element = combiner(c, 0, scalar, 7)[0];
  Dims dims = operand.dims_vector();
  int64_t& size = dims[static_cast<size_t>(axis)];
  if (is_dynamic(size)) return {typed(element, std::move(dims))};
  c.check(groups.size > 0 && size % groups.size == 0, 1, "dimension {} of {} does not split by {}", axis,
          operand.to_string(), groups.size);
  if (spans_partitions(c) && c.has_stated() && c.stated()[0].is_tensor() &&
      c.stated()[0].rank() == operand.rank()) {
    const int64_t stated = c.stated()[0].dim(static_cast<int>(axis));
    c.check(is_dynamic(stated) || (stated > 0 && size / groups.size % stated == 0), 8,
            "{} scattered in groups of {} cannot be {}", operand.to_string(), groups.size,
            c.stated()[0].to_string());
    size = stated;
  } else {
    size /= groups.size;
  }
  return {typed(element, std::move(dims))};
}

namespace {

// Operands of the collectives with a root: with a dynamic root the last one says which member it is.
size_t checked_root(const Context& c, int constraint) {
  if (!c.op().boolean_or(Attr::has_dynamic_root, false)) return c.operand_count();
  c.check(c.operand_count() >= 2, constraint, "a dynamic root needs at least two operands");
  const size_t n = c.operand_count() - 1;
  const Type& root = c.tensor(n, kInts);
  c.check(
      root.element() == ElementType::kI32 && root.rank() == 1 && agrees(root.dim(0), static_cast<int64_t>(n)),
      constraint, "the root is {}; it must be tensor<{}xi32>", root.to_string(), n);
  return n;
}

}  // namespace

Types collective_broadcast(const Context& c) {
  checked_groups(c, 1, 2, false, true);
  const size_t n = checked_root(c, 4);
  c.check(!c.has_stated() || c.stated().size() == n, 5, "{} results for {} operands", c.stated().size(), n);
  Types results;
  for (size_t i = 0; i < n; ++i) results.push_back(c.tensor(i));
  return results;
}

Types collective_reduce(const Context& c) {
  checked_groups(c, 1, 2, false, true);
  const size_t n = checked_root(c, 3);
  check_global_ids(c, 1);
  Types results;
  for (size_t i = 0; i < n; ++i) {
    const Types scalar{typed(c.tensor(i), {})};
    results.push_back(typed(combiner(c, 0, scalar, 4)[0], c.tensor(i).dims_vector()));
  }
  return results;
}

Types collective_permute(const Context& c) {
  check_source_target_pairs(c);
  Types results;
  for (size_t i = 0; i < c.operand_count(); ++i) results.push_back(c.tensor(i));
  return results;
}

Types process_id(const Context&) { return {Type::scalar(ElementType::kUI32)}; }

// A future is the tuple of what its body returns.
Types async_start(const Context& c) {
  const Signature body = c.region(0);
  Types operands;
  for (size_t i = 0; i < c.operand_count(); ++i) operands.push_back(c.operand_type(i));
  c.check(agree(body.arguments, operands), 3, "the body takes {} arguments for {} operands",
          body.arguments.size(), operands.size());
  return {Type::tuple(body.results)};
}

Types async_done(const Context& c) {
  const Type& future = c.operand_type(0);
  if (!future.is_tuple()) c.fail("I1", fmt::format("operand 0 is {}, not a future", future.to_string()));
  return {future.elements().begin(), future.elements().end()};
}

}  // namespace opentrn::graph::shape
