#include "spmd/sharding.h"

#include <algorithm>
#include <charconv>
#include <cstring>

#include <fmt/format.h>

#include "base/fault.h"
#include "graph/element_value.h"

namespace opentrn::spmd {

namespace {

// Reads the text of one attribute.
class Cursor {
 public:
  explicit Cursor(std::string_view text) : all_(text), rest_(text) {}

  [[noreturn]] void fail(std::string_view wanted) const {
    throw Fault(FaultKind::kInput, "sdy.text",
                fmt::format("'{}' is no {} at character {}", all_, wanted, all_.size() - rest_.size()));
  }
  bool eat(std::string_view word) {
    skip();
    if (!rest_.starts_with(word)) return false;
    rest_.remove_prefix(word.size());
    return true;
  }
  void expect(std::string_view word) {
    if (!eat(word)) fail(fmt::format("sharding: '{}' is missing", word));
  }
  char peek() {
    skip();
    return rest_.empty() ? '\0' : rest_.front();
  }
  std::string quoted() {
    expect("\"");
    const size_t end = rest_.find('"');
    if (end == std::string_view::npos) fail("quoted name");
    std::string name(rest_.substr(0, end));
    rest_.remove_prefix(end + 1);
    return name;
  }
  // After '@': a bare name, or a quoted one.
  std::string symbol() {
    if (peek() == '"') return quoted();
    const size_t end = std::min(rest_.find_first_of(",>]} "), rest_.size());
    std::string name(rest_.substr(0, end));
    rest_.remove_prefix(end);
    return name;
  }
  int64_t number() {
    skip();
    int64_t value = 0;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    if (error != std::errc{}) fail("number");
    rest_.remove_prefix(static_cast<size_t>(end - rest_.data()));
    return value;
  }

 private:
  void skip() {
    while (!rest_.empty() && rest_.front() == ' ') rest_.remove_prefix(1);
  }
  std::string_view all_, rest_;
};

// <["x"=2, "y"=4], device_ids=[...]>
Mesh read_mesh(Cursor& in) {
  Mesh mesh;
  in.expect("<");
  in.expect("[");
  while (!in.eat("]")) {
    std::string name = in.quoted();
    in.expect("=");
    mesh.axes.push_back({std::move(name), in.number()});
    in.eat(",");
  }
  if (in.eat(",")) {
    in.expect("device_ids");
    in.expect("=");
    in.expect("[");
    while (!in.eat("]")) {
      mesh.devices.push_back(in.number());
      in.eat(",");
    }
  }
  in.expect(">");
  return mesh;
}

AxisPart read_axis(Cursor& in) {
  AxisPart part{in.quoted()};
  if (in.eat(":")) {
    in.expect("(");
    part.before = in.number();
    in.expect(")");
    part.size = in.number();
  }
  return part;
}

// <@mesh, [{"x"}, {?}], replicated={"y"}>
Sharding read_sharding(Cursor& in, const Meshes& meshes) {
  Sharding sharding;
  in.expect("<");
  if (in.eat("@")) {
    const std::string name = in.symbol();
    const auto found = meshes.find(name);
    if (found == meshes.end()) in.fail(fmt::format("sharding: there is no mesh @{}", name));
    sharding.mesh = found->second;
  } else {
    in.expect("mesh");
    sharding.mesh = read_mesh(in);
  }
  in.expect(",");
  in.expect("[");
  while (!in.eat("]")) {
    std::vector<AxisPart>& axes = sharding.dims.emplace_back();
    in.expect("{");
    while (!in.eat("}")) {
      if (!in.eat("?")) {
        axes.push_back(read_axis(in));
        sharding.mesh.axis(axes.back().axis);
      }
      in.eat(",");
    }
    if (in.eat("p")) in.number();
    in.eat(",");
  }
  while (in.eat(",")) {
    const bool open = in.eat("unreduced");
    if (!open) in.expect("replicated");
    in.expect("=");
    in.expect("{");
    while (!in.eat("}")) {
      const AxisPart part = read_axis(in);
      if (open && part.size > 0)
        throw Fault(FaultKind::kNotModelled, "sdy.unreduced", "a sum that is open over a part of an axis");
      if (open) sharding.unreduced.push_back(part.axis);
      in.eat(",");
    }
  }
  in.expect(">");
  return sharding;
}

// to += from, in the arithmetic of the type.
void add(graph::ElementType element, std::span<const std::byte> from, std::byte* to) {
  const auto size = static_cast<size_t>(graph::storage_bytes(element));
  if (graph::is_complex(element) || graph::is_bool(element))
    throw Fault(FaultKind::kNotModelled, "sdy.unreduced",
                fmt::format("an open sum of {}", graph::name(element)));
  for (size_t at = 0; at < from.size(); at += size) {
    if (graph::is_float(element))
      graph::store_real(
          element, graph::load_real(element, to + at) + graph::load_real(element, from.data() + at), to + at);
    else
      graph::store_integer(
          element,
          static_cast<int64_t>(static_cast<uint64_t>(graph::load_integer(element, to + at)) +
                               static_cast<uint64_t>(graph::load_integer(element, from.data() + at))),
          to + at);
  }
}

std::vector<int64_t> strides_of(const graph::Type& type, int64_t element) {
  std::vector<int64_t> strides(static_cast<size_t>(type.rank()));
  for (size_t d = strides.size(); d-- > 0;) {
    strides[d] = element;
    element *= type.dims()[d];
  }
  return strides;
}

// Copies the rows (innermost dimension) of a device's part between the array and the part; padding of the
// part is left out.
template <typename Copy>
void for_rows(const graph::Type& whole, const graph::Type& part, const Sharding& sharding, int64_t device,
              Copy&& copy) {
  const int64_t size = graph::storage_bytes(whole.element());
  const std::vector<int64_t> strides = strides_of(whole, size), part_strides = strides_of(part, size);
  std::vector<int64_t> counts(strides.size());
  int64_t start = 0;
  for (size_t d = 0; d < strides.size(); ++d) {
    const int64_t begin = sharding.shard(d, device) * part.dims()[d];
    counts[d] = std::clamp<int64_t>(whole.dims()[d] - begin, 0, part.dims()[d]);
    if (counts[d] == 0) return;
    start += begin * strides[d];
  }
  const size_t outer = strides.empty() ? 0 : strides.size() - 1;
  const int64_t row = strides.empty() ? size : counts[outer] * size;
  std::vector<int64_t> at(outer);
  int64_t from = start, to = 0;
  for (;;) {
    copy(from, to, row);
    size_t d = outer;
    while (d-- > 0) {
      from += strides[d];
      to += part_strides[d];
      if (++at[d] < counts[d]) break;
      from -= strides[d] * counts[d];
      to -= part_strides[d] * counts[d];
      at[d] = 0;
    }
    if (d == SIZE_MAX) return;
  }
}

}  // namespace

const Mesh::Axis& Mesh::axis(std::string_view name) const {
  for (const Axis& axis : axes)
    if (axis.name == name) return axis;
  throw Fault(FaultKind::kInput, "sdy.axis", fmt::format("the mesh has no axis \"{}\"", name));
}

int64_t Mesh::coordinate(int64_t device, std::string_view name) const {
  int64_t place = device;
  if (!devices.empty()) place = std::find(devices.begin(), devices.end(), device) - devices.begin();
  for (size_t i = axes.size(); i-- > 0;) {
    if (axes[i].name == name) return place % axes[i].size;
    place /= axes[i].size;
  }
  throw Fault(FaultKind::kInput, "sdy.axis", fmt::format("the mesh has no axis \"{}\"", name));
}

Meshes meshes_of(const graph::Module& module) {
  Meshes meshes;
  const auto found = module.attributes.find("sdy.meshes");
  if (found == module.attributes.end()) return meshes;
  for (const auto& [name, attribute] : *found->second.as_dictionary()) {
    const auto* opaque = attribute.get<graph::Opaque>();
    if (!opaque) throw Fault(FaultKind::kInput, "sdy.mesh", fmt::format("mesh @{} is not a mesh", name));
    Cursor in(opaque->text);
    in.expect("#sdy.mesh");
    meshes[name] = read_mesh(in);
  }
  return meshes;
}

int64_t Sharding::shards(size_t dim) const {
  int64_t count = 1;
  if (dim < dims.size())
    for (const AxisPart& part : dims[dim]) count *= part.size > 0 ? part.size : mesh.axis(part.axis).size;
  return count;
}

int64_t Sharding::shard(size_t dim, int64_t device) const {
  int64_t index = 0;
  if (dim >= dims.size()) return 0;
  for (const AxisPart& part : dims[dim]) {
    const int64_t whole = mesh.axis(part.axis).size;
    const int64_t size = part.size > 0 ? part.size : whole;
    // An axis of n is (before, size, the rest), the first outermost.
    const int64_t rest = whole / (part.before * size);
    index = index * size + mesh.coordinate(device, part.axis) / rest % size;
  }
  return index;
}

graph::Type Sharding::local(const graph::Type& whole) const {
  std::vector<int64_t> sizes = whole.dims_vector();
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] % shards(d) != 0)
      throw Fault(
          FaultKind::kNotModelled, "sdy.divisible",
          fmt::format("dimension {} of {} over {} devices leaves a rest", d, whole.to_string(), shards(d)),
          "pad it, or shard another dimension");
    sizes[d] /= shards(d);
  }
  return whole.with_dims(std::move(sizes));
}

bool Sharding::divides(const graph::Type& whole) const {
  for (size_t d = 0; d < whole.dims().size(); ++d)
    if (whole.dims()[d] % shards(d) != 0) return false;
  return true;
}

graph::Type Sharding::padded_local(const graph::Type& whole) const {
  std::vector<int64_t> sizes = whole.dims_vector();
  for (size_t d = 0; d < sizes.size(); ++d) sizes[d] = (sizes[d] + shards(d) - 1) / shards(d);
  return whole.with_dims(std::move(sizes));
}

bool Sharding::replicated() const {
  return unreduced.empty() &&
         std::all_of(dims.begin(), dims.end(), [](const auto& axes) { return axes.empty(); });
}

int64_t Sharding::copy(int64_t device) const {
  int64_t index = 0;
  for (const Mesh::Axis& axis : mesh.axes) {
    bool used = std::find(unreduced.begin(), unreduced.end(), axis.name) != unreduced.end();
    for (const auto& dim : dims)
      for (const AxisPart& part : dim) used |= part.axis == axis.name;
    if (!used) index = index * axis.size + mesh.coordinate(device, axis.name);
  }
  return index;
}

int64_t Sharding::term(int64_t device) const {
  int64_t index = 0;
  for (const std::string& axis : unreduced)
    index = index * mesh.axis(axis).size + mesh.coordinate(device, axis);
  return index;
}

Sharding Sharding::restricted_to(const std::vector<std::string>& axes) const {
  Sharding only = *this;
  for (auto& dim : only.dims)
    std::erase_if(dim, [&](const AxisPart& part) {
      return std::find(axes.begin(), axes.end(), part.axis) == axes.end();
    });
  std::erase_if(only.unreduced, [&](const std::string& axis) {
    return std::find(axes.begin(), axes.end(), axis) == axes.end();
  });
  return only;
}

Sharding parse_sharding(std::string_view text, const Meshes& meshes) {
  Cursor in(text);
  in.eat("#sdy.sharding");
  return read_sharding(in, meshes);
}

std::vector<Sharding> parse_shardings(std::string_view text, const Meshes& meshes) {
  Cursor in(text);
  in.expect("#sdy.sharding_per_value<[");
  std::vector<Sharding> all;
  while (!in.eat("]")) {
    all.push_back(read_sharding(in, meshes));
    in.eat(",");
  }
  return all;
}

std::vector<std::string> parse_manual_axes(std::string_view text) {
  Cursor in(text);
  in.expect("#sdy<manual_axes{");
  std::vector<std::string> axes;
  while (!in.eat("}")) {
    axes.push_back(in.quoted());
    in.eat(",");
  }
  return axes;
}

graph::Literal part_of(const graph::Literal& whole, const Sharding& sharding, int64_t device) {
  if (sharding.replicated()) return whole;
  const graph::Type type = sharding.padded_local(whole.type());
  const std::vector<std::byte> all = whole.dense();
  std::vector<std::byte> bytes(static_cast<size_t>(type.byte_count()));
  if (sharding.term(device) != 0) return {type, std::move(bytes)};
  for_rows(whole.type(), type, sharding, device, [&](int64_t from, int64_t to, int64_t count) {
    std::memcpy(bytes.data() + to, all.data() + from, static_cast<size_t>(count));
  });
  return {type, std::move(bytes)};
}

graph::Literal joined(std::span<const graph::Literal> parts, const graph::Type& whole,
                      const Sharding& sharding) {
  if (sharding.replicated()) return parts.front();
  std::vector<std::byte> all(static_cast<size_t>(whole.byte_count()));
  for (size_t device = 0; device < parts.size(); ++device) {
    if (sharding.copy(static_cast<int64_t>(device)) != 0) continue;
    const std::vector<std::byte> bytes = parts[device].dense();
    for_rows(whole, parts[device].type(), sharding, static_cast<int64_t>(device),
             [&](int64_t to, int64_t from, int64_t count) {
               const auto row =
                   std::span(bytes).subspan(static_cast<size_t>(from), static_cast<size_t>(count));
               if (sharding.unreduced.empty())
                 std::memcpy(all.data() + to, row.data(), row.size());
               else
                 add(whole.element(), row, all.data() + to);
             });
  }
  return {whole, std::move(all)};
}

}  // namespace opentrn::spmd
