// MSCCL's XML programs as plans: the format of microsoft/msccl-tools, which other tools of the field write
// too.
//
// A thread block becomes a channel. MSCCL has sends and receives with a queue between them for each pair of
// thread blocks; here that queue is staging memory of the receiver with a finite number of slots, a send is a
// step into the next slot, and a receive moves what it finds there on. Fused instructions (rcs, rrcs, rrs)
// are the steps that they stand for.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "collectives/plan.h"

namespace opentrn::collectives {

struct MscclOptions {
  int64_t chunk_bytes = 4;       // of one chunk; a multiple of an element
  DType dtype = DType::kUint32;  // of what is reduced
  // Of a queue between two thread blocks. [assumed: as many as NCCL_STEPS]
  int queue_slots = 8;

  // What the program is to compute: needed where its collective is "custom", and where it does not touch the
  // last chunks, as MSCCL counts chunks by use. Bytes are chunk_bytes for each chunk.
  std::optional<Request> request;
};

// An input fault (collectives.msccl) for text that is no such program, with what is wrong.
Plan plan_of_msccl(std::string_view xml, const MscclOptions& options = {});

struct MscclProgram {
  std::string xml;
  MscclOptions options;  // with which plan_of_msccl() reads it back: the size of a chunk, the request
};
// The plan as a program. MSCCL sums two things at a time, so longer sums become several instructions, and it
// has waits within a rank only: others must follow from what arrives. An input fault (collectives.msccl) for
// a plan that cannot be said so: what comes out is read back and proved.
MscclProgram msccl_of_plan(const Plan& plan);

}  // namespace opentrn::collectives
