// The mesh of a large group of 2^n members, written for one of them: seen from itself, each has the same
// steps.
#pragma once

#include <functional>

#include "collectives/builder.h"

namespace opentrn::collectives {

// Whether sums take their sources by their place relative to the owner (mesh.cc). Members are then counted
// from each one by exclusive or, and their steps and waits are those of member 0.
bool mesh_is_alike(int members);

// Rank 0 of the builder is the member; the one that is `other` away is at this displacement.
struct MeshOfOne {
  int members = 1;
  int64_t bytes = 0;                     // of a part
  std::function<Slice(int other)> part;  // of that member
};
void gather_by_mesh_of_one(Builder& builder, const MeshOfOne& mesh);
void reduce_by_mesh_of_one(Builder& builder, const MeshOfOne& mesh, Slice target);

}  // namespace opentrn::collectives
