// What the elements of a PSUM block hold, so that the first matmul of a group overwrites and later ones add.
//
// Almost every block is written and read through views that are rectangles of [rows, elements], equal, apart
// or one inside the other. Then one state per view is kept; views that cut each other turn the block into one
// state per element. python/opentrn/nki_legacy/psum_state.py is the same in Python.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace opentrn::python {

enum PsumContent : uint8_t { kUnwritten, kZeroPending, kMatmul, kOther };

// A view of a block: where it is, and the rectangle around it.
struct PsumView {
  struct Dim {
    int64_t step, count;
    bool operator==(const Dim&) const = default;
  };
  int64_t offset = 0;
  int rank = 0;
  std::array<Dim, 16> dims;
  int64_t row_elements = 0;
  int64_t first_row = 0, rows = 0, low = 0, high = 0;  // high: the last element of a row
  bool bounded = true;      // the rectangle holds the view: no dimension runs backwards
  bool rectangle = false;   // and the view is all of it
  bool other_size = false;  // elements of another size than the block's: stands for the whole block

  int64_t area() const { return rows * (high - low + 1); }
  bool overlaps(const PsumView& other) const {
    return first_row < other.first_row + other.rows && other.first_row < first_row + rows &&
           low <= other.high && other.low <= high;
  }
  bool holds(const PsumView& other) const {
    return first_row <= other.first_row && other.first_row + other.rows <= first_row + rows &&
           low <= other.low && other.high <= high;
  }
  bool same(const PsumView& other) const;
};

class PsumState {
 public:
  PsumState(int64_t elements, PsumContent initial) : elements_(elements), initial_(initial) {}

  // The one state of all elements of the view; nothing when they differ.
  std::optional<PsumContent> uniform(const PsumView& view);
  // All elements of the view are in `state` now.
  void fill(const PsumView& view, PsumContent state);
  // One state per element of the block; from now on there is no other record.
  std::span<uint8_t> elements();

 private:
  struct Known {
    PsumView view;
    PsumContent state;
  };
  // The state of the view as far as the known views tell; false when they do not.
  bool told_by_views(const PsumView& view, std::optional<PsumContent>& state) const;
  bool kept_as_view(const PsumView& view, PsumContent state);

  int64_t elements_;
  PsumContent initial_;
  std::vector<Known> views_;    // disjoint
  std::vector<uint8_t> dense_;  // empty until needed
};

}  // namespace opentrn::python
