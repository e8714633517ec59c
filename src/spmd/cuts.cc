#include "spmd/cuts.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include <fmt/format.h>

#include "base/fault.h"

namespace opentrn::spmd {

namespace {

std::vector<int64_t> primes_of(int64_t number) {
  std::vector<int64_t> primes;
  for (int64_t p = 2; p * p <= number; ++p)
    for (; number % p == 0; number /= p) primes.push_back(p);
  if (number > 1) primes.push_back(number);
  return primes;
}

}  // namespace

Axes common_prefix(const Axes& a, const Axes& b) {
  const auto end = std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first;
  return {a.begin(), end};
}

bool is_whole(const Cuts& cuts) {
  return std::ranges::all_of(cuts, [](const Axes& axes) { return axes.empty(); });
}

namespace {

// The devices in front of a part of an axis, and those up to its end, in the line of the mesh's devices.
std::pair<int64_t, int64_t> range_of(const Mesh& mesh, const AxisPart& part) {
  int64_t begin = 1;
  for (const Mesh::Axis& axis : mesh.axes) {
    if (axis.name == part.axis)
      return {begin * part.before, begin * (part.size > 0 ? part.before * part.size : axis.size)};
    begin *= axis.size;
  }
  return {1, mesh.axis(part.axis).size};  // which refuses the name
}

std::vector<int64_t> line_of(const Mesh& mesh) {
  if (!mesh.devices.empty()) return mesh.devices;
  int64_t devices = 1;
  for (const Mesh::Axis& axis : mesh.axes) devices *= axis.size;
  std::vector<int64_t> line(static_cast<size_t>(devices));
  std::iota(line.begin(), line.end(), int64_t{0});
  return line;
}

}  // namespace

AxisGrid::AxisGrid(Mesh mesh, std::span<const AxisPart> parts) : mesh_(std::move(mesh)) {
  add_axes(parts, {});
}

namespace {

// The places in the line of devices at which a sharding cuts axes.
std::set<int64_t> bounds_of(const Sharding& sharding) {
  std::set<int64_t> bounds;
  const auto add = [&](const AxisPart& part) {
    const auto [begin, end] = range_of(sharding.mesh, part);
    bounds.insert({begin, end});
  };
  for (const auto& dim : sharding.dims)
    for (const AxisPart& part : dim) add(part);
  for (const std::string& axis : sharding.unreduced) add({axis, 1, 0});
  return bounds;
}

// Whether axes may be cut at all of them.
bool go_together(const std::set<int64_t>& bounds) {
  return std::adjacent_find(bounds.begin(), bounds.end(), [](int64_t a, int64_t b) { return b % a != 0; }) ==
         bounds.end();
}

}  // namespace

AxisGrid::AxisGrid(Mesh mesh, std::span<const Sharding> shardings) : mesh_(std::move(mesh)) {
  std::set<int64_t> bounds{1};
  int64_t devices = 1;
  for (const Mesh::Axis& axis : mesh_.axes) bounds.insert(devices *= axis.size);
  const std::vector<int64_t> line = line_of(mesh_);
  for (const Sharding& sharding : shardings) {
    if (line_of(sharding.mesh) != line) continue;
    std::set<int64_t> with = bounds_of(sharding);
    with.insert(bounds.begin(), bounds.end());
    if (go_together(with)) bounds = std::move(with);
  }
  add_axes({}, bounds);
}

bool AxisGrid::expresses(const Sharding& sharding) const {
  if (sharding.replicated() && sharding.unreduced.empty()) return true;
  if (line_of(sharding.mesh) != line_of(mesh_)) return false;
  const auto fits = [&](const AxisPart& part) {
    const auto [begin, end] = range_of(sharding.mesh, part);
    return axes_between(begin, end).has_value();
  };
  return std::ranges::all_of(sharding.dims,
                             [&](const auto& dim) { return std::ranges::all_of(dim, fits); }) &&
         std::ranges::all_of(sharding.unreduced, [&](const std::string& axis) {
           return fits({axis, 1, 0});
         });
}

// `bounds_of_line`: places in the line of devices at which axes are cut.
void AxisGrid::add_axes(std::span<const AxisPart> parts, const std::set<int64_t>& bounds_of_line) {
  for (const Mesh::Axis& axis : mesh_.axes) {
    const int64_t begin = devices_;
    devices_ *= axis.size;
    std::set<int64_t> bounds{1, axis.size};
    for (const int64_t place : bounds_of_line) {
      if (place <= begin || place >= devices_) continue;
      if (place % begin != 0)
        throw Fault(FaultKind::kNotModelled, "spmd.axis_parts",
                    fmt::format("axes of several meshes overlap on the axis \"{}\"", axis.name));
      bounds.insert(place / begin);
    }
    for (const AxisPart& part : parts) {
      if (part.axis != axis.name || part.size == 0) continue;
      bounds.insert(part.before);
      bounds.insert(part.before * part.size);
    }
    int64_t before = 1;
    for (const int64_t bound : bounds) {
      if (bound % before != 0)
        throw Fault(FaultKind::kNotModelled, "spmd.axis_parts",
                    fmt::format("parts of the axis \"{}\" overlap", axis.name));
      for (const int64_t prime : primes_of(bound / before)) {
        axes_.push_back({axis.name, before, prime, begin * before});
        before *= prime;
      }
    }
  }
}

int64_t AxisGrid::count(const Axes& axes) const {
  int64_t product = 1;
  for (const int axis : axes) product *= size(axis);
  return product;
}

int64_t AxisGrid::index(const Axes& axes, int64_t device) const {
  int64_t place = 0;
  for (const int number : axes) {
    const Axis& axis = axes_[static_cast<size_t>(number)];
    const int64_t rest = mesh_.axis(axis.name).size / (axis.before * axis.size);
    place = place * axis.size + mesh_.coordinate(device, axis.name) / rest % axis.size;
  }
  return place;
}

std::vector<std::vector<int64_t>> AxisGrid::groups(const Axes& axes) const {
  Axes others;
  for (int axis = 0; axis < static_cast<int>(axes_.size()); ++axis)
    if (std::ranges::find(axes, axis) == axes.end()) others.push_back(axis);
  std::vector<std::vector<int64_t>> groups(static_cast<size_t>(count(others)),
                                           std::vector<int64_t>(static_cast<size_t>(count(axes))));
  for (int64_t device = 0; device < devices_; ++device)
    groups[static_cast<size_t>(index(others, device))][static_cast<size_t>(index(axes, device))] = device;
  return groups;
}

graph::Type AxisGrid::local(const graph::Type& whole, const Cuts& cuts) const {
  if (!whole.is_tensor() || is_whole(cuts)) return whole;
  std::vector<int64_t> dims = whole.dims_vector();
  for (size_t d = 0; d < dims.size(); ++d) dims[d] = local_size(dims[d], cuts[d]);
  return whole.with_dims(std::move(dims));
}

std::optional<Axes> AxisGrid::axes_between(int64_t begin, int64_t end) const {
  Axes found;
  for (size_t i = 0; i < axes_.size(); ++i)
    if (axes_[i].begin >= begin && axes_[i].begin * axes_[i].size <= end)
      found.push_back(static_cast<int>(i));
  if (count(found) * begin != end) return std::nullopt;
  return found;
}

Axes AxisGrid::axes_of(const Mesh& mesh, const AxisPart& part) const {
  const auto [begin, end] = range_of(mesh, part);
  if (const auto found = axes_between(begin, end)) return *found;
  throw Fault(FaultKind::kNotModelled, "spmd.axis_parts",
              fmt::format("a part of the axis \"{}\" is not made of the grid's", part.axis));
}

Cuts AxisGrid::cuts_of(const Sharding& sharding, int rank) const {
  Cuts cuts(static_cast<size_t>(rank));
  if (sharding.dims.size() > cuts.size())
    throw Fault(FaultKind::kInput, "spmd.rank",
                fmt::format("a sharding of {} dimensions for an array of {}", sharding.dims.size(), rank));
  std::set<int> used;
  for (size_t d = 0; d < sharding.dims.size(); ++d)
    for (const AxisPart& part : sharding.dims[d])
      for (const int axis : axes_of(sharding.mesh, part)) {
        if (!used.insert(axis).second)
          throw Fault(FaultKind::kInput, "spmd.axis_twice",
                      fmt::format("the axis \"{}\" cuts one array twice", part.axis),
                      "an axis of devices can cut one dimension of an array only");
        cuts[d].push_back(axis);
      }
  return cuts;
}

Axes AxisGrid::open_axes_of(const Sharding& sharding) const {
  if (!expresses(sharding))
    throw Fault(FaultKind::kNotModelled, "sdy.unreduced",
                "a sum that stays open between devices of another mesh than the program's");
  Sharding one{sharding.mesh, {{}}, {}};
  for (const std::string& axis : sharding.unreduced) one.dims[0].push_back({axis, 1, 0});
  Axes axes = cuts_of(one, 1)[0];
  std::ranges::sort(axes);
  return axes;
}

Sharding AxisGrid::sharding_of(const Cuts& cuts) const {
  Sharding sharding{mesh_, {}, {}};
  for (const Axes& axes : cuts) {
    std::vector<AxisPart>& parts = sharding.dims.emplace_back();
    for (const int number : axes) {
      const Axis& axis = axes_[static_cast<size_t>(number)];
      if (!parts.empty() && parts.back().axis == axis.name &&
          parts.back().before * parts.back().size == axis.before)
        parts.back().size *= axis.size;
      else
        parts.push_back({axis.name, axis.before, axis.size});
    }
    for (AxisPart& part : parts)
      if (part.before == 1 && part.size == mesh_.axis(part.axis).size) part.size = 0;
  }
  return sharding;
}

}  // namespace opentrn::spmd
