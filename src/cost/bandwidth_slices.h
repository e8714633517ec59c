// A shared bandwidth as slices of time with room for so many bytes each: a transfer takes the first room
// from its beginning on, in whatever order transfers are announced.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "cost/rules.h"

namespace opentrn::cost {

class BandwidthSlices {
 public:
  BandwidthSlices(double bytes_per_ps, Ps slice)
      : bytes_per_ps_(bytes_per_ps),
        slice_(slice),
        slices_per_ps_(1.0 / static_cast<double>(slice)),
        bytes_per_slice_(bytes_per_ps * static_cast<double>(slice)) {}

  // When a transfer that may begin at `begin` is through, if nothing but this bandwidth holds it.
  Ps reserve(Ps begin, int64_t bytes);
  // Bytes of the slice of a moment: announced, and still left.
  struct Bytes {
    double taken = 0, left = 0;
  };
  Bytes bytes_at(Ps at) const {
    const auto slice = static_cast<size_t>(std::max<Ps>(0, at - origin_) / slice_);
    const double left = slice < room_.size() ? room_[slice] : bytes_per_slice_;
    return {bytes_per_slice_ - left, left};
  }
  // Time passed in which nothing was announced.
  void shift(Ps by) { origin_ += by; }

 private:
  size_t first_with_room(size_t slice);
  // As a division, of what is not negative: a product is at most one beside it.
  size_t slice_at(Ps at) const {
    auto slice = static_cast<Ps>(static_cast<double>(at) * slices_per_ps_);
    if (slice * slice_ > at) --slice;
    if ((slice + 1) * slice_ <= at) ++slice;
    return static_cast<size_t>(slice);
  }
  void grow(size_t slice) {
    while (room_.size() <= slice) {
      next_.push_back(static_cast<uint32_t>(room_.size()));
      room_.push_back(bytes_per_slice_);
    }
  }

  double bytes_per_ps_;
  Ps slice_;
  double slices_per_ps_;
  double bytes_per_slice_;
  Ps origin_ = 0;
  int64_t last_bytes_ = 0;  // and how long a transfer of so many takes alone
  Ps last_alone_ = 0;
  std::vector<double> room_;    // bytes left, by slice
  std::vector<uint32_t> next_;  // of a full slice: one that may have room; else itself
};

inline Ps BandwidthSlices::reserve(Ps begin, int64_t bytes) {
  const Ps from = std::max<Ps>(0, begin - origin_);
  size_t slice = first_with_room(slice_at(from));
  double left = static_cast<double>(bytes);
  while (left > room_[slice]) {
    left -= room_[slice];
    room_[slice] = 0;
    slice = first_with_room(slice + 1);
  }
  room_[slice] -= left;
  const double used = bytes_per_slice_ - room_[slice];
  const Ps end = static_cast<Ps>(slice) * slice_ + static_cast<Ps>(used / bytes_per_ps_ + 0.5);
  if (bytes != last_bytes_) {
    last_bytes_ = bytes;
    last_alone_ = static_cast<Ps>(static_cast<double>(bytes) / bytes_per_ps_ + 0.5);
  }
  return origin_ + std::max(end, from + last_alone_);
}

inline size_t BandwidthSlices::first_with_room(size_t slice) {
  grow(slice);
  size_t found = slice;
  while (room_[found] <= 0) {
    found = next_[found] == found ? found + 1 : next_[found];
    grow(found);
  }
  while (slice < found) {  // shorten the way for the next search
    const size_t next = next_[slice] == slice ? slice + 1 : next_[slice];
    next_[slice] = static_cast<uint32_t>(found);
    slice = next;
  }
  return found;
}

}  // namespace opentrn::cost
