// Flows, for runs in which few of them are under way at a time and the same ones come together again and
// again: the hops of a ring, the parts of a pipeline.
//
// An allocation depends on which links the flows under way cross with which shares, not on what they have
// left, nor on what was before. So what Flows gives a set of them is kept, and holds whenever the same set is
// under way again. Sets are compared number by number, not by hashes, so that times are those of Flows to the
// picosecond.
//
// Each change looks at all flows under way, and a set that was not met before is solved from nothing: the
// wrong way where there are many flows, or where few sets come again. pays() says so.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "fabric/flows.h"

namespace opentrn::fabric {

class RecurringFlows {
 public:
  explicit RecurringFlows(const Network& network);
  RecurringFlows(const RecurringFlows&) = delete;
  RecurringFlows& operator=(const RecurringFlows&) = delete;
  ~RecurringFlows();

  // As those of Flows.
  FlowId start(int64_t at_ps, const Flow& flow);
  int64_t now() const;
  int64_t next_end();
  std::span<const FlowId> advance(int64_t at_ps);
  int64_t carried(LinkId link) const;

  // How many flows were solved, and how many were in sets that had been met before.
  int64_t solved() const;
  int64_t spared() const;
  // False once many flows were solved and few spared, or where many are under way.
  bool pays() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace opentrn::fabric
