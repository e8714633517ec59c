#include "spmd/split_axes.h"

#include <gtest/gtest.h>

namespace opentrn::spmd {
namespace {

using Parts = std::vector<SplitPart>;
using Names = std::vector<std::string>;

TEST(SplitAxes, CutAxesAreTheSameDevicesInTheSameOrder) {
  SplitAxes axes({{"x", 2}, {"y", 12}});
  EXPECT_FALSE(axes.cut(Parts{}));
  EXPECT_TRUE(axes.cut(Parts{{"y", 1, 4}}));
  const std::string mesh = R"(#sdy.mesh<["x"=2, "y"=12]>)";
  EXPECT_EQ(axes.applied(mesh), R"(#sdy.mesh<["x"=2, "y.1"=4, "y.4"=3]>)");
  EXPECT_EQ(
      axes.applied(R"(#sdy.sharding<@mesh, [{"x", "y"}, {"y":(1)4}, {"y":(4)3, ?}], replicated={"x"}>)"),
      R"(#sdy.sharding<@mesh, [{"x", "y.1", "y.4"}, {"y.1"}, {"y.4", ?}], replicated={"x"}>)");
  EXPECT_EQ(axes.applied(R"(#sdy<manual_axes{"y"}>)"), R"(#sdy<manual_axes{"y.1", "y.4"}>)");
  const std::string elsewhere = R"(loc("y"(#loc1)) "y" {a = "y"})";
  EXPECT_EQ(axes.applied(elsewhere), elsewhere);
  // A part of a piece, in the axis that the program has.
  EXPECT_TRUE(axes.cut(Parts{{"y.1", 2, 2}}));
  EXPECT_EQ(axes.applied(mesh), R"(#sdy.mesh<["x"=2, "y.1"=2, "y.2"=2, "y.4"=3]>)");
  EXPECT_FALSE(axes.cut(Parts{{"y", 1, 4}}));  // nothing new
}

TEST(SplitAxes, PiecesAreWholeTogetherAndInOrder) {
  SplitAxes axes({{"x", 2}, {"y", 12}});
  EXPECT_TRUE(axes.cut(Parts{{"y", 1, 4}}));
  for (const Names& names : {Names{"x", "y.1", "y.4"}, Names{"y.1", "y.4", "x"}, Names{}})
    EXPECT_TRUE(axes.are_whole(names));
  for (const Names& names : {Names{"y.1"}, Names{"y.4"}, Names{"y.4", "y.1"}, Names{"y.1", "x", "y.4"}})
    EXPECT_FALSE(axes.are_whole(names));
}

TEST(SplitAxes, PartsThatDoNotDivideEachOtherAreRefused) {
  SplitAxes axes({{"x", 12}});
  EXPECT_TRUE(axes.cut(Parts{{"x", 1, 4}}));
  EXPECT_FALSE(axes.cut(Parts{{"x", 1, 6}}));
  EXPECT_FALSE(axes.cut(Parts{{"z", 1, 2}}));
  EXPECT_EQ(axes.applied(R"(<@mesh, [{"x"}]>)"), R"(<@mesh, [{"x.1", "x.4"}]>)");
}

TEST(SplitAxes, TextThatEndsEarlyStays) {
  SplitAxes axes({{"x", 12}});
  EXPECT_TRUE(axes.cut(Parts{{"x", 1, 4}}));
  for (const char* text : {"", "<@mesh", "#sdy.mesh<[\"x\"=12", "<@mesh, [{\"x}]>"})
    EXPECT_EQ(axes.applied(text), text);
}

TEST(SolverRule, BatchesAreSharedAndMatricesWhole) {
  using Shapes = std::vector<std::vector<int64_t>>;
  EXPECT_EQ(solver_rule(Shapes{{4, 8, 6}}, Shapes{{4, 8, 6}, {4, 6}}),
            "#sdy.op_sharding_rule<([i, j, k])->([i, l, m], [i, n]) {i=4, j=8, k=6, l=8, m=6, n=6} "
            "need_replication={j, k, l, m, n}, custom>");
  const std::string many = solver_rule(Shapes(10, {2, 2}), Shapes{{2, 2}});
  EXPECT_NE(many.find("z, z_1"), std::string::npos) << many;
}

}  // namespace
}  // namespace opentrn::spmd
