#include "nki/tensor_view.h"

#include <gtest/gtest.h>

#include "nki/machine.h"

namespace opentrn::nki {
namespace {

using isa::Dim;
using isa::MemorySpace;

std::shared_ptr<Machine> machine() { return Machine::create({}, nullptr); }

TensorView make(std::vector<int64_t> shape, MemorySpace space = MemorySpace::kSbuf) {
  return machine()->ndarray(shape, DType::kFloat32, space, "t", std::nullopt, 0);
}

std::vector<Dim> dims(const TensorView& view) {
  return {view.pattern.dims.begin(), view.pattern.dims.begin() + view.rank()};
}

// Examples and their results are those of the documentation (nki-aps.rst, class NkiTensor).
TEST(TensorView, SliceGivesTheDocumentedPattern) {
  const TensorView u = make({128, 64}).slice(1, 8, 24, 1);
  EXPECT_EQ(dims(u), (std::vector<Dim>{{64, 128}, {1, 16}}));
  EXPECT_EQ(u.offset, 8);
}

TEST(TensorView, DimensionsAreRearrangedByName) {
  const TensorView t =
      make({128, 32}).rearrange({{{"p"}, {"h", "w"}}, "p (h w)"}, {{{"p"}, {"w"}, {"h"}}, ""}, {{"h", 4}});
  EXPECT_EQ(dims(t), (std::vector<Dim>{{32, 128}, {1, 8}, {8, 4}}));
  const TensorView back = t.rearrange({{{"p"}, {"w"}, {"h"}}, ""}, {{{"p"}, {"h", "w"}}, ""}, {});
  EXPECT_EQ(dims(back), (std::vector<Dim>{{32, 128}, {1, 32}}));
}

TEST(TensorView, NamesOfARearrangementAreThoseOfTheTensor) {
  const auto label_of = [](const TensorView::NamedDims& source, const TensorView::NamedDims& target) {
    try {
      make({128, 30}).rearrange(source, target, {{"h", 4}});
    } catch (const Fault& fault) {
      return fault.label();
    }
    return std::string("none");
  };
  EXPECT_EQ(label_of({{{"p"}}, ""}, {{{"p"}}, ""}), "NkiTensor.rearrange");
  EXPECT_EQ(label_of({{{"p"}, {"f"}}, ""}, {{{"p"}}, ""}), "NkiTensor.rearrange");
  EXPECT_EQ(label_of({{{"p"}, {"f"}}, ""}, {{{"p"}, {"p"}}, ""}), "NkiTensor.rearrange");
  EXPECT_EQ(label_of({{{"p"}, {"h", "w"}}, ""}, {{{"p"}, {"w"}, {"h"}}, ""}), "nki.shape");
}

TEST(TensorView, StepsRoundUp) { EXPECT_EQ(make({128, 64}).slice(1, 0, 63, 2).size(1), 32); }

TEST(TensorView, AStepBeyondTheEndLeavesOneElement) {
  EXPECT_EQ(make({128, 64}).slice(1, 3, 64, INT64_MAX).size(1), 1);
}

TEST(TensorView, ReshapeDimPermuteAndFlatten) {
  const TensorView t = make({128, 24}).reshape_dim(1, {4, -1});
  EXPECT_EQ(dims(t), (std::vector<Dim>{{24, 128}, {6, 4}, {1, 6}}));
  const int64_t order[] = {0, 2, 1};
  const TensorView p = t.permute(order);
  EXPECT_EQ(dims(p), (std::vector<Dim>{{24, 128}, {1, 6}, {6, 4}}));
  EXPECT_THROW(p.flatten_dims(1, 2), Fault);
  EXPECT_EQ(dims(t.flatten_dims(1, 2)), (std::vector<Dim>{{24, 128}, {1, 24}}));
}

TEST(TensorView, ReshapeCrossesOnlyContiguousDims) {
  EXPECT_EQ(make({128, 4, 6}).reshape({128, 2, 12}).size(2), 12);
  EXPECT_THROW(make({128, 4, 6}).slice(2, 0, 3, 1).reshape({128, 12}), Fault);
  EXPECT_THROW(make({128, 4}).reshape({64, 8}), Fault) << "the partition dimension is fixed on-chip";
  EXPECT_EQ(make({4, 6}, MemorySpace::kHbm).reshape({24}).rank(), 1);
}

TEST(TensorView, ReinterpretScalesTheLastDimension) {
  const TensorView bytes = make({128, 64}).reinterpret(DType::kUint8);
  EXPECT_EQ(dims(bytes), (std::vector<Dim>{{256, 128}, {1, 256}}));
  EXPECT_EQ(dims(bytes.reinterpret(DType::kFloat32)), (std::vector<Dim>{{64, 128}, {1, 64}}));
}

TEST(TensorView, ApAddressesTheStorage) {
  const TensorView t = make({128, 256});
  TensorView::ApArguments inner{.pattern = {{256, 128}, {2, 128}}};
  TensorView::ApArguments outer{.pattern = {{256, 128}, {1, 64}}};
  EXPECT_EQ(dims(t.ap(inner).ap(outer)), outer.pattern);
  TensorView::ApArguments every_other{.pattern = {{512, 64}, {1, 32}}};
  EXPECT_THROW(t.ap(every_other), Fault) << "the partition step must be one partition";
  TensorView::ApArguments beyond{.pattern = {{256, 128}, {1, 64}}, .offset = 200};
  // A fault where an instruction takes it.
  EXPECT_THROW(t.ap(beyond).check_extent("ap"), Fault);
}

TEST(TensorView, ApOnPartOfEachPartitionTakesTheRowOfTheView) {
  const TensorView right_half = make({128, 256}).slice(1, 128, 256, 1);
  const TensorView part = right_half.ap({.pattern = {{128, 64}, {1, 32}}, .offset = 128 + 96});
  EXPECT_EQ(dims(part), (std::vector<Dim>{{256, 64}, {1, 32}}));
  EXPECT_EQ(part.offset, 256 + 128 + 96) << "one partition on, element 96 of the view's row";
  const TensorView odd = make({128, 256}).slice(1, 0, 256, 2);
  EXPECT_THROW(odd.ap({.pattern = {{128, 64}, {1, 32}}}), Fault) << "its rows are not one run";
  EXPECT_THROW(odd.ap({.pattern = {{0, 64}, {1, 32}}}), Fault);
  const TensorView column = make({128, 256}).slice(1, 0, 1, 1);
  EXPECT_EQ(column.ap({.pattern = {{1, 1}, {1, 64}}, .offset = 5}).offset, 5)
      << "one partition: the first step says nothing";
}

TEST(TensorView, BroadcastRepeatsOnlySizeOne) {
  EXPECT_EQ(make({128, 1, 64}).broadcast(1, 8).stride(1), 0);
  EXPECT_THROW(make({128, 2, 64}).broadcast(1, 8), Fault);
  EXPECT_THROW(make({1, 64}).broadcast(0, 8), Fault);
}

TEST(TensorView, OneRunTimeIndexAtMost) {
  auto m = machine();
  const int64_t shape[] = {4, 128, 8}, one[] = {1, 1};
  const TensorView t = m->ndarray(shape, DType::kFloat32, MemorySpace::kSharedHbm, "t", std::nullopt, 0);
  auto index =
      std::make_shared<TensorView>(m->ndarray(one, DType::kInt32, MemorySpace::kSbuf, "i", std::nullopt, 0));
  const TensorView selected = t.select_scalar(0, index);
  EXPECT_EQ(selected.rank(), 2);
  EXPECT_EQ(selected.indirection->stride, 128 * 8);
  EXPECT_EQ(selected.indirection->bound, 4);
  EXPECT_THROW(selected.select_scalar(0, index), Fault);
}

TEST(TensorView, DimensionsOfOneElementHaveTheStrideOfMore) {
  auto m = machine();
  const int64_t shape[] = {8, 4, 64, 1};
  const TensorView t = m->ndarray(shape, DType::kFloat32, MemorySpace::kSharedHbm, "t", std::nullopt, 0);
  EXPECT_EQ(dims(t.reshape({8, 4, 1, 64, 1})),
            (std::vector<isa::Dim>{{256, 8}, {64, 4}, {64, 1}, {1, 64}, {1, 1}}));
  EXPECT_EQ(dims(t.reshape({1, 8, 1, 256})),
            (std::vector<isa::Dim>{{2048, 1}, {256, 8}, {256, 1}, {1, 256}}));
}

// nki-library's TensorView names the last dimension of a stride, which may have a single element.
TEST(TensorView, AnIndexIsOfAllDimensionsOfItsStride) {
  auto m = machine();
  const int64_t shape[] = {8, 4, 1, 64}, one[] = {1, 1};
  const TensorView t = m->ndarray(shape, DType::kFloat32, MemorySpace::kSharedHbm, "t", std::nullopt, 0);
  auto index =
      std::make_shared<TensorView>(m->ndarray(one, DType::kInt32, MemorySpace::kSbuf, "i", std::nullopt, 0));
  for (const int dim : {1, 2}) {
    const TensorView at = t.ap({.pattern = {{256, 8}, {1, 64}}, .scalar_offset = index, .indirect_dim = dim});
    EXPECT_EQ(at.indirection->stride, 64);
    EXPECT_EQ(at.indirection->bound, 4);
  }
  EXPECT_EQ(t.ap({.pattern = {{1, 64}}, .scalar_offset = index, .indirect_dim = 0}).indirection->bound, 8);
}

TEST(TensorView, ShapesMeetDimensionByDimension) {
  const auto common = [](std::vector<int64_t> x, std::vector<int64_t> y) { return common_shape(x, y); };
  EXPECT_EQ(common({1, 512}, {128, 1}), (std::vector<int64_t>{128, 512}));
  EXPECT_THROW(common({128}, {128, 1}), Fault);
  EXPECT_THROW(common({128, 2}, {128, 3}), Fault);
}

}  // namespace
}  // namespace opentrn::nki
