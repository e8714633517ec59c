// How arrays are spread over the devices of a program, as Shardy's attributes say it.
//
// A mesh names axes of devices; a sharding gives each dimension of an array the axes that cut it, the first
// outermost. Devices are logical here: their place in the program's device assignment.
// Source: shardy/dialect/sdy/ir (attrs.td, dialect.td).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "graph/literal.h"
#include "graph/module.h"

namespace opentrn::spmd {

struct Mesh {
  struct Axis {
    std::string name;
    int64_t size;
  };
  std::vector<Axis> axes;
  std::vector<int64_t> devices;  // by place in the mesh; empty: in order

  // The place of a device along an axis.
  int64_t coordinate(int64_t device, std::string_view axis) const;
  const Axis& axis(std::string_view name) const;
};

using Meshes = std::map<std::string, Mesh, std::less<>>;
// Of the module's sdy.mesh ops. Input fault where their text is not understood.
Meshes meshes_of(const graph::Module& module);

struct AxisPart {
  std::string axis;
  int64_t before = 1, size = 0;  // "x":(before)size; size 0: the whole axis
};

struct Sharding {
  Mesh mesh;
  std::vector<std::vector<AxisPart>> dims;  // fewer than the array has: the rest is whole
  // Axes over which devices hold terms of a sum that has not been made yet.
  std::vector<std::string> unreduced;

  int64_t shards(size_t dim) const;
  // Which shard of a dimension a device holds.
  int64_t shard(size_t dim, int64_t device) const;
  // The shape of one device's part. Input fault where a dimension is not divisible.
  graph::Type local(const graph::Type& whole) const;
  bool divides(const graph::Type& whole) const;
  // The same where dimensions that are not divisible end in padding.
  graph::Type padded_local(const graph::Type& whole) const;
  // Every device holds the whole array.
  bool replicated() const;
  // Which of those that hold the same a device is.
  int64_t copy(int64_t device) const;
  // Which term of an open sum a device holds; the value of a closed one lies in the first.
  int64_t term(int64_t device) const;
  // Only cuts by these axes; the others count as whole.
  Sharding restricted_to(const std::vector<std::string>& axes) const;
};

// `text`: #sdy.sharding<@mesh, [{"x"}, {}]>, its beginning optional.
Sharding parse_sharding(std::string_view text, const Meshes& meshes);
// #sdy.sharding_per_value<[<...>, <...>]>
std::vector<Sharding> parse_shardings(std::string_view text, const Meshes& meshes);
// #sdy<manual_axes{"x", "y"}>
std::vector<std::string> parse_manual_axes(std::string_view text);

// The part of an array that a device holds, padded with zeros, and the array from all parts.
graph::Literal part_of(const graph::Literal& whole, const Sharding& sharding, int64_t device);
graph::Literal joined(std::span<const graph::Literal> parts, const graph::Type& whole,
                      const Sharding& sharding);

}  // namespace opentrn::spmd
