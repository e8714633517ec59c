#include "compiler/lowering/repeated_load.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "compiler/lowering/partitions.h"

namespace opentrn::compiler {

namespace {

// Fewer columns are one transfer's fixed time whatever it moves.
constexpr int64_t kColumnsMin = 64;
// Instructions that write a tile.
constexpr int64_t kCopiesMax = 16;

// A dimension that both sides walk, in elements.
struct Joint {
  int64_t count = 1;
  int64_t to = 0, from = 0;  // steps
};

// Innermost first; nothing where the dimensions of one side cut those of the other in uneven parts.
std::optional<std::vector<Joint>> joined(std::vector<isa::Dim> to, std::vector<isa::Dim> from) {
  std::vector<Joint> result;
  for (auto* dims : {&to, &from}) std::erase_if(*dims, [](const isa::Dim& dim) { return dim.count == 1; });
  while (!to.empty() && !from.empty()) {
    isa::Dim &a = to.back(), &b = from.back();
    const int64_t count = std::min(a.count, b.count);
    if (count == 0 || a.count % count != 0 || b.count % count != 0) return std::nullopt;
    if (count > 1) result.push_back({count, a.step, b.step});
    for (auto [dims, dim] : {std::pair(&to, &a), std::pair(&from, &b)}) {
      dim->count /= count;
      dim->step *= count;
      if (dim->count == 1) dims->pop_back();
    }
  }
  return to.empty() && from.empty() ? std::optional(result) : std::nullopt;
}

// Columns of a view, behind the dimensions that walk over `rows`.
std::optional<std::vector<isa::Dim>> columns_of(const View& view, int64_t rows, size_t& row_rank) {
  int64_t walked = 1;
  for (row_rank = 0; row_rank < view.dims.size() && walked < rows; ++row_rank)
    walked *= view.dims[row_rank].count;
  if (walked != rows) return std::nullopt;
  return std::vector(view.dims.begin() + static_cast<std::ptrdiff_t>(row_rank), view.dims.end());
}

// Neighbours of which one step walks both are made one.
std::vector<Joint> merged_moving(const std::vector<Joint>& all) {
  std::vector<Joint> moving;
  for (const Joint& joint : all) {
    if (joint.from == 0) continue;
    Joint* inner = moving.empty() ? nullptr : &moving.back();
    if (inner != nullptr && joint.to == inner->to * inner->count && joint.from == inner->from * inner->count)
      inner->count *= joint.count;
    else
      moving.push_back(joint);
  }
  return moving;
}

}  // namespace

bool load_repeated(Emitter& emitter, const Tile& dst, const View& src) {
  if (dst.dtype != src.dtype || dst.space != isa::MemorySpace::kSbuf ||
      !engines_reach(dst.offset / dst.row_elements, dst.rows))
    return false;
  size_t row_rank = 0;
  const auto columns = columns_of(src, dst.rows, row_rank);
  if (!columns || columns->size() < 2 || columns->back().step != 0 || columns->back().count < 2) return false;
  const auto all = joined(
      {{dst.group_step, dst.groups}, {dst.run_step, dst.runs}, {dst.column_step, dst.columns}}, *columns);
  if (!all || all->empty() || all->front().from != 0) return false;
  const std::vector<Joint> moving = merged_moving(*all);
  int64_t elements = 1, total = 1;
  for (const Joint& joint : moving) elements *= joint.count;
  for (const Joint& joint : *all) total *= joint.count;
  const Joint each = all->front();
  const int64_t copies = total / elements / each.count;
  if (moving.empty() || moving.size() > 2 || total < kColumnsMin || copies > kCopiesMax) return false;

  View once_view = src;
  once_view.dims.resize(row_rank);
  for (size_t i = moving.size(); i-- > 0;) once_view.dims.push_back({moving[i].from, moving[i].count});
  const Tile once = emitter.sbuf(dst.rows, elements, dst.dtype, "once");
  emitter.load(once, once_view);

  const Joint run = moving.front(), group = moving.size() == 2 ? moving.back() : Joint{};
  Tile from = once, to = dst;
  from.columns = to.columns = each.count;
  from.runs = to.runs = run.count;
  from.groups = to.groups = group.count;
  from.column_step = 0, from.run_step = 1, from.group_step = run.count;
  to.column_step = each.to, to.run_step = run.to, to.group_step = group.to;
  for (int64_t copy = 0; copy < copies; ++copy) {
    Tile place = to;
    int64_t rest = copy;
    for (size_t i = 1; i < all->size(); ++i) {
      const Joint& joint = (*all)[i];
      if (joint.from != 0) continue;
      place.offset += rest % joint.count * joint.to;
      rest /= joint.count;
    }
    emitter.tensor_copy(place, from);
  }
  return true;
}

}  // namespace opentrn::compiler
