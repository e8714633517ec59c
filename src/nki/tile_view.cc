#include "nki/tile_view.h"

#include <algorithm>
#include <numeric>

#include <fmt/ranges.h>

#include "base/fault.h"

namespace opentrn::nki {

namespace {

[[noreturn]] void refuse(const char* label, std::string message, std::string hint = {}) {
  throw Fault(FaultKind::kProgram, label, std::move(message), std::move(hint));
}

[[noreturn]] void not_modelled(const char* label, std::string message) {
  throw Fault(FaultKind::kNotModelled, label, std::move(message));
}

constexpr char kOutOfBounds[] = "err_tensor_access_out_of_bound";

}  // namespace

size_t TileView::open_blocks() const {
  return static_cast<size_t>(std::ranges::count_if(blocks, &TileBlock::is_open));
}

Shape TileView::shape() const {
  Shape made;
  for (const TileBlock& block : blocks)
    if (block.is_open) made.push_back(block.range.count);
  for (const isa::Dim& dim : dims) made.push_back(dim.count);
  return made;
}

int64_t TileView::size() const { return count_of_elements(shape()); }

void check_limits(const TileView& view, const Describe& tensor) {
  for (const IndexLimit& limit : view.limits) {
    int64_t low = limit.constant, high = limit.constant;
    for (size_t i = 0; i < std::min(limit.steps.size(), view.dims.size()); ++i) {
      const int64_t end = limit.steps[i] * (view.dims[i].count - 1);
      (end < 0 ? low : high) += end;
    }
    if (low < 0 || high >= limit.size)
      refuse("nki.index_bounds",
             fmt::format("{}: {} is accessed at {}..{} of a dimension with {} elements", kOutOfBounds,
                         tensor(), low, high, limit.size),
             "narrow the access with mask=");
  }
}

// -- indices

namespace {

std::string slice_text(const IndexSlice& slice) {
  const auto text = [](const std::optional<int64_t>& bound) {
    return bound ? fmt::to_string(*bound) : "None";
  };
  return fmt::format("slice({}, {}, {})", text(slice.start), text(slice.stop), text(slice.step));
}

// What a key takes of a dimension: one index, or several.
std::variant<int64_t, IndexRange> chosen(const IndexKey& key, int64_t size, const Describe& view) {
  if (const auto* index = std::get_if<int64_t>(&key)) return *index < 0 ? *index + size : *index;
  if (const auto* slice = std::get_if<IndexSlice>(&key)) return range_of(*slice, size, view);
  return std::get<IndexRange>(key);
}

IndexRange as_range(const std::variant<int64_t, IndexRange>& part) {
  if (const auto* index = std::get_if<int64_t>(&part)) return {*index, 1, 1};
  return std::get<IndexRange>(part);
}

int64_t last_of(const IndexRange& range) { return range.start + range.step * (range.count - 1); }

TileBlock block_at(const TileBlock& block, const std::variant<int64_t, IndexRange>& part,
                   const Describe& view) {
  const IndexRange taken = as_range(part);
  if (taken.start < 0 || last_of(taken) >= block.range.count)
    refuse("nki.index_bounds",
           fmt::format("{}: block {} of {} in {}", kOutOfBounds, last_of(taken), block.range.count, view()));
  const IndexRange range{block.range.start + block.range.step * taken.start, block.range.step * taken.step,
                         taken.count};
  return {range, std::holds_alternative<IndexRange>(part)};
}

// The blocks with every one that remains looked at by `choose`, in order.
template <typename Choose>
std::vector<TileBlock> chosen_blocks(const TileView& base, Choose&& choose) {
  std::vector<TileBlock> made = base.blocks;
  for (TileBlock& block : made)
    if (block.is_open) block = choose(block);
  return made;
}

}  // namespace

IndexRange range_of(const IndexSlice& slice, int64_t size, const Describe& view) {
  const auto counted = [&](int64_t bound) { return bound < 0 ? bound + size : bound; };
  const int64_t start = counted(slice.start.value_or(0)), stop = counted(slice.stop.value_or(size));
  const int64_t step = slice.step.value_or(1);
  if (step < 1 || stop <= start)
    refuse("nki.index", fmt::format("slice {} of a dimension with {} elements in {} is empty",
                                    slice_text(slice), size, view()));
  return {start, step, (stop - start - 1) / step + 1};
}

TileView indexed(const TileView& base, std::span<const IndexKey> keys, const Describe& view) {
  TileView made{base.on_chip, {}, base.offset, {}, {}};
  size_t open = base.open_blocks(), next_block = 0, next_dim = 0;
  std::vector<std::pair<size_t, IndexLimit>> leaving;  // with the dimension that each is of
  const auto keep_chosen_blocks = [&] {
    while (next_block < base.blocks.size() && !base.blocks[next_block].is_open)
      made.blocks.push_back(base.blocks[next_block++]);
  };
  for (const IndexKey& key : keys) {
    if (std::holds_alternative<NewAxis>(key)) {
      if (open > 0 || (base.on_chip && made.dims.empty()))
        refuse("nki.index", fmt::format("{}: no new dimension goes before the partition dimension", view()));
      made.dims.push_back({0, 1});
      continue;
    }
    if (open > 0) {
      keep_chosen_blocks();
      const TileBlock& block = base.blocks[next_block++];
      made.blocks.push_back(block_at(block, chosen(key, block.range.count, view), view));
      --open;
      continue;
    }
    const isa::Dim dim = base.dims[next_dim++];
    const auto part = chosen(key, dim.count, view);
    const IndexRange taken = as_range(part);
    made.offset += dim.step * taken.start;
    if (const auto* index = std::get_if<int64_t>(&part)) {
      if (*index < 0 || *index >= dim.count)
        refuse("nki.index_bounds", fmt::format("{}: index {} of a dimension with {} elements in {}",
                                               kOutOfBounds, *index, dim.count, view()));
      if (base.on_chip && next_dim == 1) made.dims.push_back({dim.step, 1});
      continue;
    }
    if (taken.start < 0 || last_of(taken) >= dim.count)
      leaving.push_back({made.dims.size(), {taken.start, {taken.step}, dim.count}});
    made.dims.push_back({dim.step * taken.step, taken.count});
  }
  made.blocks.insert(made.blocks.end(), base.blocks.begin() + static_cast<ptrdiff_t>(next_block),
                     base.blocks.end());
  if (base.on_chip && made.open_blocks() == 0 && made.dims.size() < 2) made.dims.push_back({0, 1});
  for (auto& [dim, limit] : leaving) {
    const int64_t step = limit.steps[0];
    limit.steps.assign(made.dims.size(), 0);
    limit.steps[dim] = step;
    made.limits.push_back(std::move(limit));
  }
  return made;
}

namespace {

using Expressions = std::span<const IndexExpression* const>;

void check_line(const TileView& base, const IndexLine& line, size_t position, int rank,
                const Describe& view) {
  if (!base.on_chip || (position == 0) == (line.axis == -rank)) return;
  not_modelled("nki.index",
               fmt::format("{}: {}; only the first index may vary along axis 0 of an on-chip access", view(),
                           position == 0 ? "partitions indexed along a free axis"
                                         : "free elements indexed differently in each partition"));
}

std::vector<int64_t> steps_of(const IndexExpression& key, int rank) {
  std::vector<int64_t> steps(static_cast<size_t>(rank));
  for (const IndexLine& line : key.lines) steps[static_cast<size_t>(line.axis + rank)] = line.step;
  return steps;
}

// The step along an axis of lines of which some have none of their own: their sum may have one.
int64_t step_of_sum(const TileView& base, Expressions keys, int axis, int64_t size, int rank,
                    const Describe& view) {
  std::vector<int64_t> addresses(static_cast<size_t>(size));
  for (size_t position = 0; position < keys.size(); ++position) {
    const IndexLine* line = keys[position] ? keys[position]->line(axis) : nullptr;
    for (int64_t i = 0; line && i < size; ++i)
      addresses[static_cast<size_t>(i)] += line->at(i) * base.dims[position].step;
  }
  const int64_t step = addresses[1] - addresses[0];
  for (size_t i = 1; i < addresses.size(); ++i)
    if (addresses[i] - addresses[i - 1] != step)
      not_modelled(
          "nki.index",
          fmt::format(
              "{}: index [{}]... along axis {} has no constant step, which no access pattern expresses",
              view(), fmt::join(addresses.begin(), addresses.begin() + std::min<int64_t>(8, size), ", "),
              axis + rank));
  return step;
}

// Adds what an index of dimension `position` says to the access; whether all of its lines have a step.
bool add_index(TileView& made, const TileView& base, const IndexExpression& key, size_t position,
               const Describe& view) {
  if (!key.dense.empty())
    not_modelled(
        "nki.index",
        fmt::format("{}: <index expression of shape {}> mixes axes in a way that is not an access pattern",
                    view(), tuple_text(key.shape)));
  const int rank = static_cast<int>(made.dims.size());
  const isa::Dim dim = base.dims[position];
  bool is_even = true;
  for (const IndexLine& line : key.lines) {
    check_line(base, line, position, rank, view);
    made.dims[static_cast<size_t>(line.axis + rank)].step += line.step * dim.step;
    is_even &= line.is_affine();
  }
  made.offset += key.constant * dim.step;
  const auto [low, high] = key.range();
  if (low < 0 || high >= dim.count) made.limits.push_back({key.constant, steps_of(key, rank), dim.count});
  return is_even;
}

}  // namespace

TileView indexed(const TileView& base, Expressions keys, const Shape& shape, const Describe& view) {
  TileView made{base.on_chip, {}, base.offset, {}, {}};
  size_t next = 0;
  made.blocks = chosen_blocks(base, [&](const TileBlock& block) {
    const IndexExpression* key = keys[next++];
    if (!key || !key->lines.empty() || !key->dense.empty())
      refuse("nki.index",
             fmt::format("{}: dimensions before the partition dimension take integers only", view()));
    return block_at(block, chosen(key->constant, block.range.count, view), view);
  });
  keys = keys.subspan(next);
  for (const int64_t size : shape) made.dims.push_back({0, size});
  bool are_even = true;
  for (size_t position = 0; position < keys.size(); ++position)
    if (keys[position]) are_even &= add_index(made, base, *keys[position], position, view);
  const int rank = static_cast<int>(shape.size());
  for (int axis = -rank; axis < 0 && !are_even; ++axis) {
    const auto is_uneven = [&](const IndexExpression* key) {
      const IndexLine* line = key ? key->line(axis) : nullptr;
      return line && !line->is_affine();
    };
    isa::Dim& dim = made.dims[static_cast<size_t>(axis + rank)];
    if (std::ranges::any_of(keys, is_uneven)) dim.step = step_of_sum(base, keys, axis, dim.count, rank, view);
  }
  // Nothing varies along an axis of one element.
  if (base.on_chip && shape[0] == 1) made.dims[0].step = base.dims[0].step;
  return made;
}

// -- other views

TileView part_of(const TileView& view, const IndexBox& box) {
  TileView made = view;
  made.dims.resize(std::min(view.dims.size(), box.size()));
  for (size_t i = 0; i < made.dims.size(); ++i) {
    made.offset += view.dims[i].step * box[i].start;
    made.dims[i] = {view.dims[i].step * box[i].step, box[i].count};
  }
  for (IndexLimit& limit : made.limits)
    for (size_t i = 0; i < std::min(limit.steps.size(), box.size()); ++i) {
      limit.constant += limit.steps[i] * box[i].start;
      limit.steps[i] *= box[i].step;
    }
  return made;
}

TileView permuted(const TileView& view, std::span<const int64_t> axes) {
  TileView made = view;
  made.dims.clear();
  for (const int64_t axis : axes) made.dims.push_back(view.dims.at(static_cast<size_t>(axis)));
  return made;
}

TileView broadcast(const TileView& view, const Shape& shape, const Describe& text) {
  TileView made = view;
  while (made.dims.size() < shape.size())
    made.dims.insert(made.dims.begin() + (made.dims.empty() ? 0 : 1), isa::Dim{0, 1});
  bool fits = made.limits.empty() && made.dims.size() == shape.size();
  for (size_t i = 0; fits && i < shape.size(); ++i)
    fits = made.dims[i].count == 1 || made.dims[i].count == shape[i];
  if (!fits) refuse("nki.shape", fmt::format("{} does not broadcast to {}", text(), tuple_text(shape)));
  if (made.dims[0].count != shape[0])
    not_modelled("nki.view",
                 fmt::format("{} to {}: a stride of 0 along partitions", text(), tuple_text(shape)));
  for (size_t i = 0; i < shape.size(); ++i)
    if (made.dims[i].count != shape[i]) made.dims[i] = {0, shape[i]};
  return made;
}

namespace {

// Strides of `dims` for other sizes of as many elements; nothing where that needs a copy. Neighbours that are
// one run are joined, and what is joined is divided again.
std::optional<std::vector<isa::Dim>> divided(std::span<const isa::Dim> dims, std::span<const int64_t> sizes) {
  std::vector<isa::Dim> joined;  // no sizes of one
  for (const isa::Dim& dim : dims) {
    if (dim.count == 1) continue;
    if (!joined.empty() && joined.back().step == dim.step * dim.count)
      joined.back() = {dim.step, joined.back().count * dim.count};
    else
      joined.push_back(dim);
  }
  std::vector<isa::Dim> made(sizes.size());
  size_t last = joined.size();
  int64_t left = 1, step = 1;  // of the run that is being divided, from its end
  for (size_t i = sizes.size(); i-- > 0;) {
    if (sizes[i] == 1) {
      made[i] = {0, 1};
      continue;
    }
    if (left == 1) {
      if (last == 0) return std::nullopt;
      left = joined[--last].count;
      step = joined[last].step;
    }
    if (left % sizes[i] != 0) return std::nullopt;
    made[i] = {step, sizes[i]};
    left /= sizes[i];
    step *= sizes[i];
  }
  return made;
}

}  // namespace

TileView reshaped(const TileView& view, Shape sizes, const Describe& text) {
  const int64_t size = view.size();
  if (const auto open = std::ranges::find(sizes, -1); open != sizes.end()) {
    const int64_t others = -count_of_elements(sizes);
    *open = others == 0 ? 0 : size / others;
  }
  if (count_of_elements(sizes) != size)
    refuse("nki.shape", fmt::format("reshape of {} to {}: the sizes differ", text(), tuple_text(sizes)));
  if (view.open_blocks() > 0)
    refuse("nki.view",
           fmt::format("reshape of {}: dimensions before the partition cannot be reshaped", text()));
  const size_t first = view.on_chip ? 1 : 0;
  if (view.on_chip && (sizes.empty() || sizes[0] != view.dims[0].count))
    refuse("nki.view",
           fmt::format("reshape of {} to {}: the partition dimension stays", text(), tuple_text(sizes)));
  const auto dims = divided(std::span(view.dims).subspan(first), std::span(sizes).subspan(first));
  if (!dims)
    refuse("nki.view", fmt::format("reshape of {} to {} would need a copy", text(), tuple_text(sizes)));
  TileView made = view;
  made.limits.clear();
  made.dims.resize(first);
  made.dims.insert(made.dims.end(), dims->begin(), dims->end());
  return made;
}

TileView with_dims_of_one(const TileView& view, std::span<const int64_t> axes) {
  const auto rank = static_cast<int64_t>(view.dims.size() + axes.size());
  std::vector<int64_t> places;
  for (const int64_t axis : axes) places.push_back(((axis % rank) + rank) % rank);
  std::ranges::sort(places);
  if (view.on_chip && !places.empty() && places[0] == 0)
    refuse("nki.view", "expand_dims: no dimension goes before the partition dimension");
  TileView made = view;
  for (const int64_t place : places) made.dims.insert(made.dims.begin() + place, isa::Dim{0, 1});
  return made;
}

TileView reinterpreted(const TileView& view, int64_t old_bytes, int64_t new_bytes, const std::string& dtype,
                       const Describe& text) {
  TileView made = view;
  if (old_bytes == new_bytes) return made;
  made.limits.clear();
  isa::Dim& last = made.dims.back();
  bool fits =
      last.step == 1 && last.count * old_bytes % new_bytes == 0 && view.offset * old_bytes % new_bytes == 0;
  for (size_t i = 0; i + 1 < made.dims.size(); ++i) {
    fits &= made.dims[i].step * old_bytes % new_bytes == 0;
    made.dims[i].step = made.dims[i].step * old_bytes / new_bytes;
  }
  if (!fits)
    refuse("nki.view", fmt::format("view({}) of {}: the last dimension must be contiguous", dtype, text()));
  last = {1, last.count * old_bytes / new_bytes};
  made.offset = view.offset * old_bytes / new_bytes;
  return made;
}

}  // namespace opentrn::nki
