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
        parts_per_byte_(kParts / bytes_per_ps),
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
  static constexpr Ps kParts = 1024;  // of a picosecond
  size_t first_with_room(size_t slice) {
    return slice < room_.size() && room_[slice] > 0 ? slice : find_room(slice);
  }
  size_t find_room(size_t slice);
  // As a division, of what is not negative. Most moments are in the slice of the moment before or in the
  // next: whoever goes by that need not wait until it is known.
  size_t slice_at(Ps at) {
    const Ps behind = at - last_begin_;
    if (behind >= 0 && behind < slice_) [[likely]]
      return last_slice_;
    if (behind >= slice_ && behind < 2 * slice_) {
      last_begin_ += slice_;
      return ++last_slice_;
    }
    auto slice = static_cast<Ps>(static_cast<double>(at) * slices_per_ps_);
    if (slice * slice_ > at) --slice;
    if ((slice + 1) * slice_ <= at) ++slice;
    last_begin_ = slice * slice_;
    return last_slice_ = static_cast<size_t>(slice);
  }
  // The nearest to bytes / bytes_per_ps_. A product is beside the quotient by far less than a part of a
  // picosecond, so that it is the same where it is not within one part of where numbers are rounded up.
  Ps rounded_ps(double bytes) const {
    const Ps parts = static_cast<Ps>(bytes * parts_per_byte_ + static_cast<double>(kParts / 2));
    const Ps rest = parts % kParts;
    if (rest > 0 && rest < kParts - 1 && parts < Ps{1} << 42) [[likely]]
      return parts / kParts;
    return static_cast<Ps>(bytes / bytes_per_ps_ + 0.5);
  }
  void grow(size_t slice) {
    while (room_.size() <= slice) {
      next_.push_back(static_cast<uint32_t>(room_.size()));
      room_.push_back(bytes_per_slice_);
    }
  }

  double bytes_per_ps_;
  Ps slice_;
  double slices_per_ps_, parts_per_byte_;
  double bytes_per_slice_;
  Ps origin_ = 0;
  size_t last_slice_ = 0;  // of a moment, and where it begins
  Ps last_begin_ = 0;
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
  const Ps end = static_cast<Ps>(slice) * slice_ + rounded_ps(used);
  if (bytes != last_bytes_) {
    last_bytes_ = bytes;
    last_alone_ = static_cast<Ps>(static_cast<double>(bytes) / bytes_per_ps_ + 0.5);
  }
  return origin_ + std::max(end, from + last_alone_);
}

inline size_t BandwidthSlices::find_room(size_t slice) {
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
