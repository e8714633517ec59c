// Ops of a loop's body as ops on all iterations, which are a dimension in front (loop_recurrences.cc). A loop
// that walks from the last row to the first one has its iterations in the order of the rows.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "compiler/analysis/dims.h"
#include "compiler/analysis/recurrence_call.h"
#include "graph/builder.h"

namespace opentrn::compiler {

class UnfoldedOps {
 public:
  // Ops are appended to the block that the loop is in.
  UnfoldedOps(graph::Function& function, graph::OpId loop, int64_t trips, size_t counter);

  // Whether the op may have such a form.
  static bool takes(const graph::Function& function, const graph::Op& op);

  graph::Builder& builder() { return builder_; }
  int64_t trips() const { return trips_; }
  graph::Type all_of(const graph::Type& row) const;

  // Of a value of the body: [iterations, ...]. nullopt where it depends on what is not known, or is too
  // large.
  std::optional<graph::ValueId> all(graph::ValueId value);
  void set_all(graph::ValueId value, graph::ValueId all) { parts_[value] = Part{all, true}; }
  // The same in every iteration.
  void set_same(graph::ValueId value, graph::ValueId same) { parts_[value] = Part{same, false}; }

  // The number of each iteration; and a value from outside, of each.
  graph::ValueId counted() const { return parts_.at(counter_)->id; }
  graph::ValueId same(graph::ValueId value) { return spread({value, false}, function_.type(value)); }

  // What a loop leaves that puts a row of `stacked`, which nothing else reads, in each iteration.
  std::optional<graph::ValueId> stack(const graph::Op& update, graph::ValueId stacked);
  // After each iteration.
  graph::ValueId recurrence(const RecurrenceCall& call, const graph::Type& row,
                            const std::optional<graph::ValueId>& factor,
                            const std::optional<graph::ValueId>& term, graph::ValueId start);
  // Of what is there after each iteration: the last, and what is there before each.
  graph::ValueId last(graph::ValueId after, const graph::Type& row);
  graph::ValueId moved_on(graph::ValueId after, const graph::Type& row, graph::ValueId start);

 private:
  struct Part {
    graph::ValueId id;
    bool varies;
  };
  using MaybePart = std::optional<Part>;
  using MaybeValue = std::optional<graph::ValueId>;
  // Of an index: scale * iteration + offset.
  using Line = std::pair<int64_t, int64_t>;

  bool is_inside(graph::ValueId value) const;
  MaybePart part(graph::ValueId value);
  MaybePart made(graph::ValueId value);
  graph::ValueId spread(const Part& part, const graph::Type& row);
  MaybeValue varying(const graph::Op& op, const std::vector<Part>& operands);
  MaybeValue by_elements(const graph::Op& op, const std::vector<Part>& operands);
  MaybeValue reduced(const graph::Op& op, const std::vector<Part>& operands);
  MaybeValue product(const graph::Op& op, const std::vector<Part>& operands);
  MaybeValue sliced(const graph::Op& op);
  std::optional<Line> line_of(graph::ValueId index, int depth = 0) const;
  std::optional<Line> row_line(graph::ValueId index) const;
  void find_direction();
  graph::ValueId step_by_step(const RecurrenceCall& call, const graph::Type& row, const MaybeValue& factor,
                              const MaybeValue& term, graph::ValueId start);
  // The dimension along which iterations go one by one: of `whole`, where a row is `row`.
  std::optional<int64_t> walked(const graph::Type& whole, const graph::Type& row) const;
  graph::ValueId in_front(graph::ValueId value, int64_t dimension);
  graph::ValueId reversed(graph::ValueId value, int64_t dimension);

  graph::Function& function_;
  graph::Module scratch_;
  graph::Builder builder_;
  graph::BlockId body_;
  int64_t trips_;
  graph::ValueId counter_;
  bool is_down_ = false;  // rows are in the opposite order of iterations
  std::map<graph::ValueId, MaybePart> parts_;
};

}  // namespace opentrn::compiler
