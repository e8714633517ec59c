#include "spmd/sharding.h"

#include <numeric>

#include <gtest/gtest.h>

#include "base/fault.h"

namespace opentrn::spmd {
namespace {

Meshes meshes() {
  Mesh mesh;
  mesh.axes = {{"x", 2}, {"y", 4}};
  return {{"mesh", mesh}};
}

graph::Literal counting(std::vector<int64_t> dims) {
  const graph::Type type = graph::Type::tensor(graph::ElementType::kI32, std::move(dims));
  std::vector<int32_t> values(static_cast<size_t>(type.element_count()));
  std::iota(values.begin(), values.end(), 0);
  const auto* bytes = reinterpret_cast<const std::byte*>(values.data());
  return {type, std::vector<std::byte>(bytes, bytes + 4 * values.size())};
}

std::vector<graph::Literal> parts_of(const graph::Literal& whole, const Sharding& sharding) {
  std::vector<graph::Literal> parts;
  for (int64_t device = 0; device < 8; ++device) parts.push_back(part_of(whole, sharding, device));
  return parts;
}

TEST(Sharding, PartsMakeTheWhole) {
  const graph::Literal whole = counting({8, 16, 3});
  for (const char* text :
       {R"(#sdy.sharding<@mesh, [{"x"}, {"y"}, {}]>)", R"(<@mesh, [{"y", "x"}, {}]>)",
        R"(<@mesh, [{}, {"y"}, {?}]>)", R"(<@mesh, [{"y":(1)2, "x"}, {"y":(2)2}]>)", R"(<@mesh, []>)",
        R"(<@mesh, [{}, {"y", ?}p0], replicated={"x"}>)", R"(<@mesh, [{"y"}], unreduced={"x"}>)",
        R"(<mesh<["a"=8], device_ids=[7, 6, 5, 4, 3, 2, 1, 0]>, [{"a"}]>)"}) {
    const Sharding sharding = parse_sharding(text, meshes());
    EXPECT_EQ(joined(parts_of(whole, sharding), whole.type(), sharding), whole) << text;
  }
}

TEST(Sharding, TheFirstAxisIsOutermost) {
  const graph::Literal whole = counting({8});
  const auto first = [&](const char* text, int64_t device) {
    const graph::Literal part = part_of(whole, parse_sharding(text, meshes()), device);
    int32_t value;
    std::memcpy(&value, part.bytes().data(), sizeof(value));
    return value;
  };
  // Device 6 is x=1, y=2.
  EXPECT_EQ(first(R"(<@mesh, [{"x", "y"}]>)", 6), 6);
  EXPECT_EQ(first(R"(<@mesh, [{"y", "x"}]>)", 6), 5);
  EXPECT_EQ(first(R"(<@mesh, [{"y"}]>)", 6), 4);
  // y=2 is (1, 0) of its halves.
  EXPECT_EQ(first(R"(<@mesh, [{"y":(2)2, "x"}]>)", 6), 2);
  EXPECT_EQ(first(R"(<mesh<["a"=8], device_ids=[7, 6, 5, 4, 3, 2, 1, 0]>, [{"a"}]>)", 6), 1);
}

TEST(Sharding, LocalShapes) {
  const graph::Type type = graph::Type::tensor(graph::ElementType::kF32, {8, 12});
  EXPECT_EQ(parse_sharding(R"(<@mesh, [{"x"}, {"y"}]>)", meshes()).local(type).to_string(),
            "tensor<4x3xf32>");
  EXPECT_THROW(parse_sharding(R"(<@mesh, [{}, {"x", "y"}]>)", meshes()).local(type), Fault);
}

TEST(Sharding, BrokenTextIsRefused) {
  const std::string text = R"(#sdy.sharding<@mesh, [{"x":(1)2}, {"y", ?}p1], replicated={"x"}>)";
  EXPECT_NO_THROW(parse_sharding(text, meshes()));
  for (size_t cut = 0; cut + 1 < text.size(); ++cut)
    EXPECT_THROW(parse_sharding(text.substr(0, cut), meshes()), Fault) << text.substr(0, cut);
  EXPECT_THROW(parse_sharding(R"(<@other, [{}]>)", meshes()), Fault);
  EXPECT_THROW(parse_sharding(R"(<@mesh, [{"z"}]>)", meshes()), Fault);
}

}  // namespace
}  // namespace opentrn::spmd
