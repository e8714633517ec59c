// Flows, for networks of which much is alike: of 100,000 chips that begin a collective at one time.
//
// Flows that share links, directly or by way of others, are a component, and nothing outside of it has a say
// in its rates. What a component is at a moment (its flows, what they have left, and which links they share)
// is its state, in which links have numbers of the component. Components with the same states that see the
// same flows start and end together go on to the same states: one of them is solved, by Flows, and the others
// are spared it. Numbers are compared, not hashes, so that times are those of Flows to the picosecond; what
// is alike and was not found to be, as its flows started in another order, is solved twice.
//
// A component is solved as a whole, so this is the wrong way where little is alike: pays() says so.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "fabric/flows.h"

namespace opentrn::fabric {

class AlikeFlows {
 public:
  explicit AlikeFlows(const Network& network);
  AlikeFlows(const AlikeFlows&) = delete;
  AlikeFlows& operator=(const AlikeFlows&) = delete;
  ~AlikeFlows();

  // As those of Flows.
  FlowId start(int64_t at_ps, const Flow& flow);
  int64_t now() const;
  int64_t next_end();
  std::span<const FlowId> advance(int64_t at_ps);
  int64_t carried(LinkId link) const;

  // How many flows were solved, and how many were in components that others stood for.
  int64_t solved() const;
  int64_t spared() const;
  // False once many flows were solved and few spared.
  bool pays() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace opentrn::fabric
