#include "compiler/analysis/pass_for_test.h"
#include "compiler/canonicalise/passes.h"

namespace opentrn::compiler {
namespace {

void run_known_slices(graph::Function& function) {
  slice_at_known_places(function);
  remove_dead_ops(function);
}

constexpr PassCase kKnownSlicesCases[] = {
    {"dynamic_slice", "(%x: tensor<8xf32>) -> tensor<3xf32>",
     R"(%at = stablehlo.constant dense<2> : tensor<i32>
        %a = stablehlo.dynamic_slice %x, %at, sizes = [3] : (tensor<8xf32>, tensor<i32>) -> tensor<3xf32>
        return %a : tensor<3xf32>)",
     R"(%a = stablehlo.slice %x [2:5] : (tensor<8xf32>) -> tensor<3xf32>
        return %a : tensor<3xf32>)"},
    // Beyond the end, a dynamic_slice begins where it still fits.
    {"clamped", "(%x: tensor<8xf32>) -> tensor<3xf32>",
     R"(%at = stablehlo.constant dense<7> : tensor<i32>
        %a = stablehlo.dynamic_slice %x, %at, sizes = [3] : (tensor<8xf32>, tensor<i32>) -> tensor<3xf32>
        return %a : tensor<3xf32>)",
     R"(%a = stablehlo.slice %x [5:8] : (tensor<8xf32>) -> tensor<3xf32>
        return %a : tensor<3xf32>)"},
};

TEST(SliceAtKnownPlaces, WritesSlices) { expect_cases(kKnownSlicesCases, run_known_slices); }

// x[:, (0, 2, 4)] as frameworks write it.
TEST(SliceAtKnownPlaces, TakesGathersOfEqualSteps) {
  const std::string text = main_of("(%x: tensor<2x6xf32>) -> tensor<2x3xf32>", R"(
    %at = stablehlo.constant dense<[[0], [2], [4]]> : tensor<3x1xi32>
    %a = "stablehlo.gather"(%x, %at) <{dimension_numbers = #stablehlo.gather<offset_dims = [0],
      collapsed_slice_dims = [1], start_index_map = [1], index_vector_dim = 1>,
      slice_sizes = array<i64: 2, 1>}> : (tensor<2x6xf32>, tensor<3x1xi32>) -> tensor<2x3xf32>
    return %a : tensor<2x3xf32>)");
  EXPECT_EQ(after(text, run_known_slices).find("gather"), std::string::npos);
  expect_same_values(text, run_known_slices);
}

// Windows of x by a gather of all their elements; `places`: row-major, [n, 1].
std::string gather_of(int64_t size, const std::vector<int64_t>& places) {
  std::string list;
  for (const int64_t place : places) list += (list.empty() ? "[" : ", [") + std::to_string(place) + "]";
  const std::string n = std::to_string(places.size()), in = std::to_string(size);
  return main_of("(%x: tensor<2x" + in + "xf32>) -> tensor<2x" + n + "xf32>",
                 "%at = stablehlo.constant dense<[" + list + "]> : tensor<" + n + "x1xi32>\n" +
                     R"(%a = "stablehlo.gather"(%x, %at) <{dimension_numbers = #stablehlo.gather<
      offset_dims = [0], collapsed_slice_dims = [1], start_index_map = [1], index_vector_dim = 1>,
      slice_sizes = array<i64: 2, 1>}> : (tensor<2x)" +
                     in + "xf32>, tensor<" + n + "x1xi32>) -> tensor<2x" + n + "xf32>\n" +
                     "return %a : tensor<2x" + n + "xf32>");
}

std::vector<int64_t> window_places(int64_t first, int64_t count, int64_t step, int64_t length,
                                   int64_t inner) {
  std::vector<int64_t> places;
  for (int64_t i = 0; i < count; ++i)
    for (int64_t j = 0; j < length; ++j) places.push_back(first + i * step + j * inner);
  return places;
}

// Frames of a signal: overlapping, the last of them at its end, apart, with holes, and element by element.
TEST(SliceAtKnownPlaces, TakesWindows) {
  const std::vector<int64_t> cases[] = {window_places(0, 6, 3, 7, 1), window_places(2, 6, 3, 7, 1),
                                        window_places(1, 4, 5, 3, 1), window_places(0, 3, 4, 5, 2),
                                        window_places(0, 9, 1, 3, 4), window_places(0, 3, 2, 9, 1)};
  for (const std::vector<int64_t>& places : cases) {
    const std::string text = gather_of(24, places);
    EXPECT_EQ(after(text, run_known_slices).find("gather"), std::string::npos) << places[1] << " " << text;
    expect_same_values(text, run_known_slices);
  }
}

// A dimension that is shifted round (torch.roll), two of its pieces, and every other place and then the rest.
TEST(SliceAtKnownPlaces, TakesAFewRuns) {
  const std::vector<int64_t> cases[] = {{5, 6, 7, 8, 9, 10, 11, 0, 1, 2, 3, 4},
                                        {2, 3, 4, 9, 10, 11},
                                        {0, 2, 4, 6, 8, 10, 1, 3, 5, 7, 9, 11},
                                        {3, 4, 5, 6, 6, 5, 6, 7, 8},
                                        {3, 0, 1, 2}};
  for (const std::vector<int64_t>& places : cases) {
    const std::string text = gather_of(12, places);
    EXPECT_EQ(after(text, run_known_slices).find("gather"), std::string::npos) << places[1] << " " << text;
    expect_same_values(text, run_known_slices);
  }
  const std::string apart = gather_of(12, {0, 5, 3, 8, 1, 11});
  EXPECT_EQ(after(apart, run_known_slices), printed(apart));
}

// Positions relative to each other, of a line and of an image, and as few of them as begin elsewhere; a line
// read backwards; a table with rows that nobody asks for.
TEST(SliceAtKnownPlaces, TakesRelativePlaces) {
  const auto image = [](int64_t h, int64_t w, int64_t first, int64_t sign) {
    std::vector<int64_t> places;
    for (int64_t i = 0; i < h * w; ++i)
      for (int64_t j = 0; j < h * w; ++j)
        places.push_back(first + sign * ((i / w - j / w + h - 1) * (2 * w - 1) + i % w - j % w + w - 1));
    return places;
  };
  const struct {
    int64_t size;
    std::vector<int64_t> places;
  } cases[] = {{15, image(2, 3, 0, 1)}, {15, image(2, 3, 14, -1)},
               {17, image(2, 3, 0, 1)}, {9, image(1, 5, 0, 1)},
               {21, image(3, 2, 6, 1)}, {21, image(3, 2, 3, 1)},
               {25, image(3, 3, 0, 1)}, {12, {11, 10, 9, 8, 7, 6, 5, 4, 3}}};
  for (const auto& [size, places] : cases) {
    const std::string text = gather_of(size, places);
    EXPECT_EQ(after(text, run_known_slices).find("gather"), std::string::npos) << size << " " << text;
    expect_same_values(text, run_known_slices);
  }
  const std::string across = gather_of(12, {5, 4, 3, 4, 3, 1});
  EXPECT_EQ(after(across, run_known_slices), printed(across));
}

// Windows are many, and none of their places is far from another's: no slices are fewer than the elements.
TEST(SliceAtKnownPlaces, LeavesManyNarrowWindows) {
  const std::string text = gather_of(200, window_places(0, 100, 1, 90, 1));
  EXPECT_EQ(after(text, run_known_slices), printed(text));
}

TEST(SliceAtKnownPlaces, LeavesGathersOfUnequalSteps) {
  const std::string text = main_of("(%x: tensor<6xf32>) -> tensor<3xf32>", R"(
    %at = stablehlo.constant dense<[[0], [1], [4]]> : tensor<3x1xi32>
    %a = "stablehlo.gather"(%x, %at) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0],
      start_index_map = [0], index_vector_dim = 1>,
      slice_sizes = array<i64: 1>}> : (tensor<6xf32>, tensor<3x1xi32>) -> tensor<3xf32>
    return %a : tensor<3xf32>)");
  EXPECT_EQ(after(text, run_known_slices), printed(text));
}

}  // namespace
}  // namespace opentrn::compiler
