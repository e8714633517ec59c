#include "nki/unwritten_elements.h"

#include "nki/machine.h"

namespace opentrn::nki {

namespace {

// To the next row, in row-major order; false after the last.
bool next_row(std::vector<int64_t>& index, const isa::Pattern& pattern) {
  for (int dim = pattern.rank - 2; dim >= 0; --dim) {
    if (++index[static_cast<size_t>(dim)] < pattern.dims[dim].count) return true;
    index[static_cast<size_t>(dim)] = 0;
  }
  return false;
}

int64_t first_of_row(const TensorView& view, const std::vector<int64_t>& index) {
  int64_t element = view.offset;
  for (int dim = 0; dim + 1 < view.rank(); ++dim)
    element += index[static_cast<size_t>(dim)] * view.stride(dim);
  return element;
}

// Elements of one row, by their place in it.
struct Row {
  const sim::ByteMask& written;
  int64_t element_bytes;
  int64_t begin;  // element of the storage
  int64_t step;

  // Unwritten ones of [from, to). Halves that are all written or all unwritten, as nearly all are, cost one
  // look.
  int64_t unwritten(int64_t from, int64_t to) const {
    const int64_t elements = to - from, bytes = elements * element_bytes;
    const int64_t at = (begin + from * step) * element_bytes;
    if ((step == 1 || elements == 1) && written.test_all(at, bytes)) return 0;
    if (elements == 1) return 1;
    if (step == 1 && written.test_none(at, bytes)) return elements;
    const int64_t middle = from + elements / 2;
    return unwritten(from, middle) + unwritten(middle, to);
  }

  int64_t first_unwritten(int64_t from, int64_t to) const {
    while (to - from > 1) {
      const int64_t middle = from + (to - from) / 2;
      (unwritten(from, middle) > 0 ? to : from) = middle;
    }
    return from;
  }
};

UnwrittenElements count_unwritten(const TensorView& view, const sim::ByteMask& written) {
  UnwrittenElements found;
  const isa::Dim last = view.pattern.dims[view.rank() - 1];
  std::vector<int64_t> index(static_cast<size_t>(view.rank()));
  do {
    const Row row{written, size_bytes(view.dtype), first_of_row(view, index), last.step};
    const int64_t count = row.unwritten(0, last.count);
    if (count > 0 && found.count == 0) {
      found.first = index;
      found.first.back() = row.first_unwritten(0, last.count);
    }
    found.count += count;
  } while (next_row(index, view.pattern));
  return found;
}

}  // namespace

std::optional<UnwrittenElements> unwritten_elements(const TensorView& view) {
  Machine* machine = view.storage->machine.get();
  const auto buffer = machine ? machine->value(view) : view.storage->host_bytes;
  const sim::ByteMask& written = buffer->initialised();
  if (written.all() || view.element_count() == 0) return std::nullopt;
  UnwrittenElements found = count_unwritten(view, written);
  if (found.count == 0) return std::nullopt;
  if (machine)
    found.made = machine->program()->location(machine->program()->tensor(view.storage->id).location);
  found.moved = buffer->unwritten_origin();
  return found;
}

}  // namespace opentrn::nki
