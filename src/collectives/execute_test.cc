#include <cmath>
#include <ctime>

#include <gtest/gtest.h>

#include "base/fault.h"
#include "collectives/arithmetic.h"
#include "collectives/testing/cases.h"
#include "collectives/testing/exhaustive_check.h"
#include "collectives/testing/samples.h"

namespace opentrn::collectives {
namespace {

TEST(Execute, IsTheReferenceForExactTypes) {
  for (const int ranks : {1, 2, 3, 8, 16, 20})
    for_each_case(ranks, false, [](const Case& one) {
      for (const DType dtype : {DType::kInt32, DType::kInt64}) {
        Request request = sample_request(one.request.kind, one.request.ranks, dtype);
        request.root = one.request.root;
        Buffers found = random_buffers(request, 5), wanted = random_buffers(request, 5);
        execute(one.algorithm.plan(request, one.layout), found.spans);
        reference(request, wanted.spans);
        EXPECT_EQ(found.outputs, wanted.outputs) << one.name;
      }
    });
}

TEST(Execute, EveryTypeAndReduction) {
  for (int type = 0; type < kDTypeCount; ++type)
    for (int reduction = 0; reduction < kReductionCount; ++reduction) {
      Request request = sample_request(Kind::kAllReduce, 4, static_cast<DType>(type));
      request.reduction = static_cast<Reduction>(reduction);
      try {
        check(request);
      } catch (const Fault& fault) {
        EXPECT_EQ(fault.label(), "collectives.reduction");
        continue;
      }
      Buffers found = random_buffers(request, 9), wanted = random_buffers(request, 9);
      execute(make_plan("mesh", request, simple_layout(4)), found.spans);  // adds in the reference's order
      reference(request, wanted.spans);
      EXPECT_EQ(found.outputs, wanted.outputs) << name(request.dtype) << " " << name_of(request.reduction);
    }
}

TEST(Execute, FloatsHaveTheBitsOfThePlanWhateverTheOrderOfItsSteps) {
  SplitMix64 random(3);
  for (const int ranks : {3, 4, 8})
    for_each_case(ranks, false, [&](const Case& one) {
      if (!reduces(one.request.kind) || one.algorithm.name.starts_with("hier of")) return;
      for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
        const Request request = sample_request(one.request.kind, ranks, dtype, 3);
        const Plan plan = one.algorithm.plan(request, one.layout);
        Buffers found = random_buffers(request, 21);
        execute(plan, found.spans);
        for (int run = 0; run < 3; ++run)
          EXPECT_EQ(run_in_some_order(plan, found.inputs, random), found.outputs) << one.name;
      }
    });
}

TEST(Execute, FloatsAreNearTheReference) {
  const Request request = sample_request(Kind::kAllReduce, 16, DType::kFloat32, 40);
  for (const char* name : {"mesh", "ring", "rdh", "kangaring"}) {
    Buffers found = random_buffers(request, 2), wanted = random_buffers(request, 2);
    execute(make_plan(name, request,
                      torus_layout(1).ranks.size() == 16 && std::string(name) != "kangaring"
                          ? torus_layout(1)
                          : simple_layout(16, 2)),
            found.spans);
    reference(request, wanted.spans);
    for (size_t i = 0; i < wanted.outputs[0].size(); i += 4) {
      float a = 0, b = 0;
      std::memcpy(&a, &found.outputs[5][i], 4);
      std::memcpy(&b, &wanted.outputs[5][i], 4);
      EXPECT_NEAR(a, b, 1e-5) << name;
    }
  }
}

TEST(Execute, OutputsMayLieWhereInputsDo) {
  const Request request = sample_request(Kind::kAllReduce, 4, DType::kInt32);
  Buffers wanted = random_buffers(request, 4), found = random_buffers(request, 4);
  reference(request, wanted.spans);
  for (size_t rank = 0; rank < 4; ++rank) found.spans[rank].output = found.inputs[rank];
  execute(make_plan("ring", request, simple_layout(4)), found.spans);
  EXPECT_EQ(found.inputs, wanted.outputs);
}

TEST(Arithmetic, RoundsOncePerStep) {
  // 1 + 2^-8 + 2^-8 in bfloat16: each addition alone is lost, both at once are not.
  const std::array<uint16_t, 1> one = {0x3f80}, small = {0x3b80};
  std::array<uint16_t, 1> to{};
  const auto* a = reinterpret_cast<const std::byte*>(one.data());
  const auto* b = reinterpret_cast<const std::byte*>(small.data());
  auto* out = reinterpret_cast<std::byte*>(to.data());
  reduce_elements(Reduction::kAdd, DType::kBFloat16, std::array{a, b, b}, out, 2);
  EXPECT_EQ(to[0], 0x3f81);
  reduce_elements(Reduction::kAdd, DType::kBFloat16, std::array{a, b}, out, 2);
  EXPECT_EQ(to[0], 0x3f80);
}

TEST(Arithmetic, Int64AddsIn64Bits) {
  const int64_t a = (int64_t{1} << 60) + 1, b = 3;
  int64_t sum = 0;
  reduce_elements(Reduction::kAdd, DType::kInt64,
                  std::array{reinterpret_cast<const std::byte*>(&a), reinterpret_cast<const std::byte*>(&b)},
                  reinterpret_cast<std::byte*>(&sum), sizeof sum);
  EXPECT_EQ(sum, a + b);
}

// What all ranks give together was added up again for every rank: --check of 48 ranks took minutes.
TEST(Execute, TheReferenceAddsWhatAllRanksShareOnce) {
  Request request;
  request.kind = Kind::kAllReduce;
  request.ranks = 32;
  request.dtype = DType::kUint8;
  request.bytes = 1 << 16;
  Buffers all = random_buffers(request, 1), one = random_buffers(request, 1);
  const auto seconds = [](const auto& run) {
    const std::clock_t begin = std::clock();
    run();
    return static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  };
  const std::vector<int> first{0};
  const double of_one = seconds([&] { reference(request, one.spans, first); });
  const double of_all = seconds([&] { reference(request, all.spans); });
  EXPECT_LT(of_all, 8 * of_one);  // 32 times before
  for (const auto& output : all.outputs) EXPECT_EQ(output, one.outputs[0]);
}

}  // namespace
}  // namespace opentrn::collectives
