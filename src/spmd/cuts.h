// How arrays are cut, in the form that propagation and partition compute with.
//
// An axis here has a prime number of devices: the axis "tp" of a mesh with 8 devices is three axes of 2, of
// which the first is outermost. So 4 heads can be cut by two of them and what is in a head by the third.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "graph/type.h"
#include "spmd/sharding.h"

namespace opentrn::spmd {

using Axes = std::vector<int>;   // of an AxisGrid, the first outermost
using Cuts = std::vector<Axes>;  // by dimension of an array; no axis twice

// The axes that both lists begin with.
Axes common_prefix(const Axes& a, const Axes& b);
bool is_whole(const Cuts& cuts);

class AxisGrid {
 public:
  // `parts`: parts of axes that shardings name. NotModelled fault where two of them of one axis overlap.
  explicit AxisGrid(Mesh mesh, std::span<const AxisPart> parts = {});
  // Of shardings of several meshes over the same devices in the same order, such as dp=2,tp=4 and x=8: axes
  // are cut where any of them is. Those that do not go together with the mesh and the shardings before them
  // (other devices, another order, 3 x 2 devices beside 2 x 3) are left out: expresses() says which.
  AxisGrid(Mesh mesh, std::span<const Sharding> shardings);
  // Whether cuts_of() has cuts for it.
  bool expresses(const Sharding& sharding) const;

  const Mesh& mesh() const { return mesh_; }
  int64_t devices() const { return devices_; }
  int64_t size(int axis) const { return axes_[static_cast<size_t>(axis)].size; }
  // Product of the sizes.
  int64_t count(const Axes& axes) const;
  // Which shard of `count(axes)` a device holds.
  int64_t index(const Axes& axes, int64_t device) const;
  // Devices that differ along these axes only, in the order of index().
  std::vector<std::vector<int64_t>> groups(const Axes& axes) const;
  // Elements of a dimension that one device holds: where the devices do not divide it, the last ones hold
  // less, or nothing, and padding.
  int64_t local_size(int64_t size, const Axes& axes) const { return (size + count(axes) - 1) / count(axes); }
  bool divides(const Axes& axes, int64_t size) const { return size % count(axes) == 0; }
  graph::Type local(const graph::Type& whole, const Cuts& cuts) const;

  // `rank`: of the array. The sharding may be of another mesh that the grid was made for. Input fault where
  // the sharding has more dimensions than that, or an axis twice.
  Cuts cuts_of(const Sharding& sharding, int rank) const;
  // The axes along which devices hold terms, in the grid's order; as cuts_of(). NotModelled fault where the
  // grid does not express the sharding.
  Axes open_axes_of(const Sharding& sharding) const;
  Sharding sharding_of(const Cuts& cuts) const;

 private:
  struct Axis {
    std::string name;  // of the mesh's axis that it is a part of
    int64_t before = 1, size = 1;
    int64_t begin = 1;  // devices of the axes in front of it: its place in the line of all devices
  };
  void add_axes(std::span<const AxisPart> parts, const std::set<int64_t>& bounds);
  // Of axes between these places in the line of devices; the axes there do not make it up: no value.
  std::optional<Axes> axes_between(int64_t begin, int64_t end) const;
  Axes axes_of(const Mesh& mesh, const AxisPart& part) const;

  Mesh mesh_;
  std::vector<Axis> axes_;
  int64_t devices_ = 1;
};

}  // namespace opentrn::spmd
