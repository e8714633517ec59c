// Proves a plan, or says what is wrong with it: no bytes and no time are involved.
//
// Checked: every range lies in its buffer; every output range ends up with exactly what the request asks,
// each contribution once (a sum of a part twice is wrong even where its bytes happen to agree); no two steps
// that are not ordered by waits and channels touch one range when one of them writes it; nothing reads a
// range that nothing has written; and waits and channels have no circle, also across plans that share the
// channels of ranks.
//
// How: the steps with their waits and the order on channels are a graph. A circle in it is a deadlock, as no
// step depends on values. Along one order that the graph allows, every range of every buffer carries which
// ranks' inputs have gone into it; each access is held to the last ones to its range, which must come before
// it in every order that the graph allows. So the one order stands for all.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "collectives/plan.h"

namespace opentrn::collectives {

struct Finding {
  // "bad_request": the request is none. "bad_reference": a step names what does not exist. "out_of_range": a
  // range outside its buffer. "misaligned": a reduction that cuts elements. "writes_input": of a plan that is
  // not in place. "deadlock". "race": two accesses without an order. "nondeterministic": two reductions into
  // one range without an order. "unwritten": a read of what nothing has written. "wrong_result": an output
  // that is not what the request asks. "issue_order": ranks list plans of one communicator in different
  // orders.
  std::string label;
  std::string text;  // ranks, steps and ranges: "rank 3 step 5 (ring, channel 1) waits for ..."
  std::vector<StepRef> steps;
};

// Empty: the plan is proved. At most kFindingsMax, the first ones.
inline constexpr size_t kFindingsMax = 16;
std::vector<Finding> verify(const Plan& plan);

// Plans that run at once on one set of ranks: `ranks[i]` is the global rank of the plan's rank i. Steps on
// one channel of one global rank start in the order in which the rank lists the plans in `issue_order[rank]`.
struct Placed {
  const Plan* plan = nullptr;
  std::vector<int> ranks;
  // Plans of one communicator (0, 1, ...) share the scratch memory of their ranks; -1 shares nothing. Inputs
  // and outputs are each plan's own.
  int communicator = -1;
  // The plan's first steps wait until each of its ranks has ended its steps of all plans that it lists
  // before.
  bool handshake = false;
};
std::vector<Finding> verify_together(std::span<const Placed> plans,
                                     std::span<const std::vector<int>> issue_order);

}  // namespace opentrn::collectives
