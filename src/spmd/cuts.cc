#include "spmd/cuts.h"

#include <algorithm>
#include <map>
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

AxisGrid::AxisGrid(Mesh mesh, std::span<const AxisPart> parts) : mesh_(std::move(mesh)) {
  for (const Mesh::Axis& axis : mesh_.axes) {
    devices_ *= axis.size;
    std::set<int64_t> bounds{1, axis.size};
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
        axes_.push_back({axis.name, before, prime});
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

Axes AxisGrid::axes_of(const AxisPart& part) const {
  const int64_t end = part.size > 0 ? part.before * part.size : mesh_.axis(part.axis).size;
  Axes found;
  for (size_t i = 0; i < axes_.size(); ++i) {
    const Axis& axis = axes_[i];
    if (axis.name == part.axis && axis.before >= part.before && axis.before * axis.size <= end)
      found.push_back(static_cast<int>(i));
  }
  return found;
}

Cuts AxisGrid::cuts_of(const Sharding& sharding, int rank) const {
  Cuts cuts(static_cast<size_t>(rank));
  if (sharding.dims.size() > cuts.size())
    throw Fault(FaultKind::kInput, "spmd.rank",
                fmt::format("a sharding of {} dimensions for an array of {}", sharding.dims.size(), rank));
  std::set<int> used;
  for (size_t d = 0; d < sharding.dims.size(); ++d)
    for (const AxisPart& part : sharding.dims[d])
      for (const int axis : axes_of(part)) {
        if (!used.insert(axis).second)
          throw Fault(FaultKind::kInput, "spmd.axis_twice",
                      fmt::format("the axis \"{}\" cuts one array twice", part.axis),
                      "an axis of devices can cut one dimension of an array only");
        cuts[d].push_back(axis);
      }
  return cuts;
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
