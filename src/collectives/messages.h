// Plans as messages: what formats say whose ranks only send, receive and compute.
//
// A rank's operations wait for other operations of the same rank. What a plan orders otherwise becomes
// messages: a step that waits for the end of a step between two other ranks waits for a message of one byte
// from its (first) target; a source in another rank's memory is asked for with one byte, and sent. A wait
// for an own step is one for its send: such formats do not tell a sender of the delivery.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "collectives/plan.h"

namespace opentrn::collectives {

struct Operation {
  enum class Kind : uint8_t { kSend, kReceive, kCompute };  // kCompute: reduces, or copies within the rank
  Kind kind = Kind::kCompute;
  int64_t bytes = 0;
  int peer = -1;               // of messages
  int tag = 0;                 // of messages: 0, 1, ... of those from the sender to the receiver
  std::vector<int32_t> after;  // operations of the rank, all before this one in its list
};

// [rank]. Of a plan that has been proved; lists are in an order that all waits allow.
std::vector<std::vector<Operation>> messages_of(const Plan& plan);

// GOAL, the text that LogGOPSim and ATLAHS read: computing takes no time in it.
std::string goal_of_plan(const Plan& plan);

// Chakra execution traces (MLCommons, schema 0.0.4): the bytes of the file of each rank. Sends and receives
// are COMM_SEND_NODE and COMM_RECV_NODE with comm_src, comm_dst, comm_tag and comm_size; what a rank does in
// its own memory is a COMP_NODE with tensor_size, and no operations, as the DMA engines do it.
std::vector<std::string> chakra_of_plan(const Plan& plan);

}  // namespace opentrn::collectives
