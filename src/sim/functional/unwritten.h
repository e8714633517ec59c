// Unwritten: the elements of a source that nothing has written, for instructions that only move them.
//
// A copy or transpose of a partly written tile carries its unwritten elements along: they are unwritten where
// they arrive, too, and the first instruction that computes with one fails. See
// docs/decisions/0014-unwritten-memory.md.
#pragma once

#include <cstdint>
#include <functional>

#include "sim/functional/view.h"

namespace opentrn::sim {

class Context;

// Makes an on-chip result unwritten that the instruction computes from unwritten elements of `slot`, where
// its other results are good: whoever reads it fails.
// `which`: elements of `dst`, all without it.
void leave_unwritten(Context& cx, const View& dst, int slot, const std::function<bool(int64_t)>& which = {});

class Unwritten {
 public:
  // The source in `slot`, resolved and checked. Fails when none of its elements was ever written. To be made
  // before the destination is resolved, which marks that written.
  Unwritten(Context& cx, int slot);

  const View& source() const { return source_; }
  bool any() const { return flags_.base != nullptr; }
  // One byte per element in the dense shape of source(), not 0 where it is unwritten; only with any().
  const View& flags() const { return flags_; }
  // Makes elements of `dst` unwritten again: those whose byte in `flags`, walked in the order of `dst`, is
  // not 0. Fails when dst lies in HBM that the kernel's caller or another core may read.
  void carry_to(Context& cx, const View& dst, const FlatView& flags) const;
  // In the order of the source.
  void carry_to(Context& cx, const View& dst) const {
    if (any()) carry_to(cx, dst, flatten(flags_));
  }

 private:
  int slot_;
  View source_;
  View flags_;
};

}  // namespace opentrn::sim
