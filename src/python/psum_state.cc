#include "python/psum_state.h"

#include <algorithm>
#include <utility>

namespace opentrn::python {

namespace {

constexpr size_t kViewsMax = 64;  // beyond this, comparing views costs more than counting elements

// Calls run(first element, elements) for every contiguous run of the view.
template <typename Run>
void for_each_run(const PsumView& view, int dim, int64_t at, Run&& run) {
  if (dim == view.rank) return run(at, int64_t{1});
  const auto [step, count] = view.dims[dim];
  if (dim + 1 == view.rank && step == 1) return run(at, count);
  for (int64_t i = 0; i < count; ++i) for_each_run(view, dim + 1, at + i * step, run);
}

// The same; what a view has beyond the block is left out, whoever made it.
template <typename Run>
void for_each_run(const PsumView& view, int64_t elements, Run&& run) {
  if (view.other_size) return run(int64_t{0}, elements);
  for_each_run(view, 0, view.offset, [&](int64_t at, int64_t count) {
    const int64_t begin = std::max<int64_t>(at, 0), end = std::min(at + count, elements);
    if (begin < end) run(begin, end - begin);
  });
}

}  // namespace

bool PsumView::same(const PsumView& other) const {
  if (other_size || other.other_size) return false;
  if (rectangle && other.rectangle)
    return first_row == other.first_row && rows == other.rows && low == other.low && high == other.high;
  return offset == other.offset && rank == other.rank &&
         std::equal(dims.begin(), dims.begin() + rank, other.dims.begin());
}

bool PsumState::told_by_views(const PsumView& view, std::optional<PsumContent>& state) const {
  if (view.other_size || !view.bounded) return false;
  int64_t covered = 0;
  bool one_state = true;
  const Known* first = nullptr;
  for (const Known& known : views_) {
    if (known.view.same(view) || (known.view.rectangle && known.view.holds(view))) {
      state = known.state;
      return true;
    }
    if (!known.view.overlaps(view)) continue;
    if (!known.view.rectangle || !view.rectangle || !view.holds(known.view)) return false;
    if (!first) first = &known;
    one_state = one_state && known.state == first->state;
    covered += known.view.area();
  }
  if (!first)
    state = initial_;
  else if (one_state && (covered == view.area() || first->state == initial_))
    state = first->state;
  else
    state = std::nullopt;
  return true;
}

bool PsumState::kept_as_view(const PsumView& view, PsumContent state) {
  if (view.other_size || !view.bounded) return false;
  for (Known& known : views_)
    if (known.view.same(view)) {
      known.state = state;
      return true;
    }
  const auto covered = [&](const Known& known) { return view.rectangle && view.holds(known.view); };
  for (const Known& known : views_)
    if (known.view.overlaps(view) && !covered(known)) return false;
  std::erase_if(views_, covered);
  if (views_.size() >= kViewsMax) return false;
  views_.push_back({view, state});
  return true;
}

std::optional<PsumContent> PsumState::uniform(const PsumView& view) {
  std::optional<PsumContent> state;
  if (dense_.empty() && told_by_views(view, state)) return state;
  const std::span<uint8_t> states = elements();
  bool first = true, differs = false;
  uint8_t value = 0;
  for_each_run(view, elements_, [&](int64_t at, int64_t count) {
    if (std::exchange(first, false)) value = states[at];
    const auto part = states.subspan(at, count);
    differs = differs || std::ranges::any_of(part, [&](uint8_t one) { return one != value; });
  });
  if (differs) return std::nullopt;
  return static_cast<PsumContent>(value);
}

void PsumState::fill(const PsumView& view, PsumContent state) {
  if (dense_.empty() && kept_as_view(view, state)) return;
  const std::span<uint8_t> states = elements();
  for_each_run(view, elements_, [&](int64_t at, int64_t count) {
    std::ranges::fill(states.subspan(at, count), static_cast<uint8_t>(state));
  });
}

std::span<uint8_t> PsumState::elements() {
  if (dense_.empty()) {
    dense_.assign(elements_, static_cast<uint8_t>(initial_));
    for (const Known& known : views_)
      for_each_run(known.view, elements_, [&](int64_t at, int64_t count) {
        std::fill_n(dense_.begin() + at, count, static_cast<uint8_t>(known.state));
      });
    views_.clear();
  }
  return dense_;
}

}  // namespace opentrn::python
