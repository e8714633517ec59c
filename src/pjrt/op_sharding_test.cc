#include "pjrt/op_sharding.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <protozero/pbf_reader.hpp>

namespace opentrn::pjrt {
namespace {

// Of a message of xla.OpSharding: numbers of a packed field (xla_data.proto: 3 tile dimensions, 4 devices).
std::vector<int64_t> numbers(const std::string& bytes, uint32_t field) {
  std::vector<int64_t> all;
  protozero::pbf_reader reader(bytes);
  while (reader.next()) {
    if (reader.tag() != field) {
      reader.skip();
      continue;
    }
    for (const int64_t value : reader.get_packed_int64()) all.push_back(value);
  }
  return all;
}

spmd::Sharding sharding(const char* text) {
  spmd::Mesh mesh;
  mesh.axes = {{"x", 2}, {"y", 4}};
  return spmd::parse_sharding(text, {{"mesh", mesh}});
}

TEST(OpSharding, AReplicatedArrayIsAnEmptyMessage) {
  EXPECT_EQ(op_sharding(sharding("<@mesh, [{}, {}]>"), 2, 8), "");
}

TEST(OpSharding, DevicesOfTheFirstTileComeFirst) {
  const std::string bytes = op_sharding(sharding(R"(<@mesh, [{}, {"y", "x"}]>)"), 2, 8);
  EXPECT_EQ(numbers(bytes, 3), (std::vector<int64_t>{1, 8}));
  EXPECT_EQ(numbers(bytes, 4), (std::vector<int64_t>{0, 4, 1, 5, 2, 6, 3, 7}));
}

TEST(OpSharding, CopiesAreALastDimension) {
  const std::string bytes = op_sharding(sharding(R"(<@mesh, [{"x"}]>)"), 1, 8);
  EXPECT_EQ(numbers(bytes, 3), (std::vector<int64_t>{2, 4}));
  EXPECT_EQ(numbers(bytes, 4), (std::vector<int64_t>{0, 1, 2, 3, 4, 5, 6, 7}));
}

}  // namespace
}  // namespace opentrn::pjrt
