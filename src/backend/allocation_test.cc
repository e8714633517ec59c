#include "backend/allocation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "backend/compile.h"
#include "backend/order_check.h"
#include "backend/sample_programs.h"
#include "backend/space_map.h"
#include "isa/text.h"

namespace opentrn::backend {
namespace {

TEST(SpaceMap, TakesTheRangeThatHasBeenFreeForLongest) {
  SpaceMap map(300);
  map.take(0, 300, kAllQuadrants);
  map.release(100, 100, kAllQuadrants, 5);
  map.release(0, 100, kAllQuadrants, 9);
  const auto found = map.find({100, 1, 0, false}, {kAllQuadrants}, SpaceMap::Policy::kOldest);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->offset, 100);
  EXPECT_EQ(map.find({100, 1, 0, false}, {kAllQuadrants}, SpaceMap::Policy::kLowest)->offset, 0);
  EXPECT_FALSE(map.find({201, 1, 0, false}, {kAllQuadrants}, SpaceMap::Policy::kLowest));
}

TEST(SpaceMap, SmallTilesShareARangeOfBytesInDifferentQuadrants) {
  SpaceMap map(100);
  std::vector<int> quadrants;
  for (int i = 0; i < 4; ++i) {
    const auto found = map.find({100, 1, 0, false}, {1, 2, 4, 8}, SpaceMap::Policy::kLowest);
    ASSERT_TRUE(found);
    quadrants.push_back(found->quadrants);
    map.take(found->offset, 100, found->quadrants);
  }
  EXPECT_EQ(quadrants, (std::vector<int>{1, 2, 4, 8}));
  EXPECT_FALSE(map.find({1, 1, 0, false}, {1, 2, 4, 8}, SpaceMap::Policy::kLowest));
}

TEST(SpaceMap, ABankIsNotCrossed) {
  SpaceMap map(4096);
  map.take(0, 1500, kAllQuadrants);
  EXPECT_EQ(map.find({1000, 4, 2048, false}, {kAllQuadrants}, SpaceMap::Policy::kLowest)->offset, 2048);
  EXPECT_EQ(map.find({500, 4, 2048, false}, {kAllQuadrants}, SpaceMap::Policy::kLowest)->offset, 1500);
}

isa::TensorId tensor_at(ProgramBuilder& b, int64_t rows, int64_t elements, int64_t byte_offset) {
  const auto id = b.sbuf(rows, elements, DType::kFloat32, "pinned");
  b.program().tensor(id).address = isa::Address{0, byte_offset};
  return id;
}

TEST(Allocation, TensorsWithAnAddressStayThereAndOthersAvoidThem) {
  ProgramBuilder b;
  const auto pinned = tensor_at(b, 128, 256, 0);
  const auto other = b.sbuf(128, 256, DType::kFloat32);
  b.copy(b.all(other), b.all(pinned));
  const auto executable = compile(b.take());
  EXPECT_EQ(executable.placements[pinned].address.byte_offset, 0);
  EXPECT_EQ(find_shared_bytes(executable), "");
}

TEST(Allocation, SbufOverlap_TwoLiveTensorsPlacedOnTheSameBytesAreRefused) {
  ProgramBuilder b;
  const auto first = tensor_at(b, 128, 256, 0), second = tensor_at(b, 128, 256, 512);
  b.memset(b.all(first));
  b.memset(b.all(second));
  b.copy(b.all(second), b.all(first));
  try {
    compile(b.take());
    FAIL();
  } catch (const Fault& fault) {
    EXPECT_EQ(fault.kind(), FaultKind::kProgram);
    EXPECT_EQ(fault.label(), "sbuf.overlap");
  }
}

TEST(Allocation, PlacedTensorsMayReuseBytesAfterTheirLastUse) {
  ProgramBuilder b;
  const auto first = tensor_at(b, 128, 256, 0), second = tensor_at(b, 128, 256, 512);
  const auto out = b.sbuf(128, 256, DType::kFloat32);
  b.memset(b.all(first));
  b.copy(b.all(out), b.all(first));
  b.memset(b.all(second));
  EXPECT_NO_THROW(compile(b.take()));
}

TEST(Allocation, SbufCapacity_SaysHowMuchTooMuchAndWhoIsLive) {
  ProgramBuilder b;
  std::vector<isa::TensorId> tiles;
  for (int i = 0; i < 8; ++i) tiles.push_back(b.sbuf(128, 8192, DType::kFloat32, "big" + std::to_string(i)));
  for (auto tile : tiles) b.memset(b.all(tile));
  for (auto tile : tiles) b.copy(b.all(tiles[0]), b.all(tile));
  try {
    compile(b.take(), {.generation = Generation::kV3});
    FAIL();
  } catch (const Fault& fault) {
    EXPECT_EQ(fault.kind(), FaultKind::kCapacity);
    EXPECT_EQ(fault.label(), "sbuf.capacity");
    EXPECT_NE(std::string(fault.what()).find("32768 B too many"), std::string::npos) << fault.what();
    EXPECT_NE(std::string(fault.what()).find("big7"), std::string::npos);
  }
}

// Written one after the other, then all read: `count` tiles of 32 KiB.
std::shared_ptr<const isa::Program> live_together(int count) {
  ProgramBuilder b;
  std::vector<isa::TensorId> tiles;
  for (int i = 0; i < count; ++i) tiles.push_back(b.sbuf(128, 8192, DType::kFloat32));
  for (auto tile : tiles) b.memset(b.all(tile));
  for (auto tile : tiles) b.copy(b.all(tiles[0]), b.all(tile));
  return b.take();
}

std::string label_of_misfit(const isa::Program& program, bool spills) {
  try {
    check_fits(program, arch::default_tables().neuron_core(Generation::kV3), spills);
  } catch (const Fault& fault) {
    return fault.label();
  }
  return "";
}

TEST(CheckFits, CapacityIsAMatterOfCompilersThatDoNotSpill) {
  EXPECT_EQ(label_of_misfit(*live_together(7), false), "");  // 224 KiB: exactly full
  EXPECT_EQ(label_of_misfit(*live_together(8), false), "sbuf.capacity");
  EXPECT_EQ(label_of_misfit(*live_together(8), true), "");
}

TEST(CheckFits, AddressesAreCheckedWhateverTheCompilerDoes) {
  for (const bool spills : {false, true}) {
    for (const auto& [offset, label] :
         {std::pair{512, "sbuf.overlap"}, {300'000, "sbuf.address"}, {1024, ""}}) {
      ProgramBuilder b;
      const auto first = tensor_at(b, 128, 256, 0), second = tensor_at(b, 128, 256, offset);
      b.memset(b.all(first));
      b.memset(b.all(second));
      b.copy(b.all(second), b.all(first));
      EXPECT_EQ(label_of_misfit(*b.take(), spills), label) << offset;
    }
  }
}

TEST(Allocation, ALargerMemoryHoldsWhatASmallerOneRefuses) {
  EXPECT_THROW(compile(live_together(8), {.generation = Generation::kV3}), Fault);  // 224 KiB
  EXPECT_NO_THROW(compile(live_together(8), {.generation = Generation::kV4}));      // 256 KiB: exactly full
}

TEST(Allocation, PsumTilesGetBanksOfTheirOwnWhileThereAreEnough) {
  ProgramBuilder b;
  const auto x = b.sbuf(128, 64, DType::kBFloat16);
  std::vector<isa::TensorId> acc;
  for (int i = 0; i < 8; ++i) acc.push_back(b.psum(128, 64));
  for (auto id : acc) b.matmul(b.all(id), b.all(x), b.all(x), false);
  const auto out = b.sbuf(128, 64, DType::kFloat32);
  for (auto id : acc) b.copy(b.all(out), b.all(id));
  const auto executable = compile(b.take());
  std::vector<int64_t> banks;
  for (auto id : acc) banks.push_back(executable.placements[id].address.byte_offset / 2048);
  std::ranges::sort(banks);
  EXPECT_EQ(banks, (std::vector<int64_t>{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(executable.psum_banks_used, 8);
}

TEST(Allocation, SmallPsumTilesShareBanksWhenThereAreTooMany) {
  ProgramBuilder b;
  const auto x = b.sbuf(128, 64, DType::kBFloat16);
  std::vector<isa::TensorId> acc;
  for (int i = 0; i < 20; ++i) acc.push_back(b.psum(128, 64));
  for (auto id : acc) b.matmul(b.all(id), b.all(x), b.all(x), false);
  const auto out = b.sbuf(128, 64, DType::kFloat32);
  for (auto id : acc) b.copy(b.all(out), b.all(id));
  EXPECT_EQ(find_shared_bytes(compile(b.take())), "");
}

TEST(Allocation, RotationKeepsWritersOffBytesThatWereJustRead) {
  // Eight tiles one after the other; there is room for all, so none waits for another.
  const auto executable = compile(stream_tiles(8, 512, DType::kFloat32));
  for (const auto& entry : executable.schedule)
    if (entry.instruction % 3 == 0) {
      EXPECT_EQ(entry.wait_count, 0u) << "load " << entry.instruction;
    }
}

// Small tensors that live long come from everywhere in a rotation, between them no hole is left for a large
// one: they have parts of their own, and the small ones rotate still.
TEST(Allocation, LargeTensorsHaveAPartOfTheirOwnWhereRotationLeavesNoHole) {
  ProgramBuilder b;
  const int64_t kib = 1024 / 4;
  const auto large = [&] {
    const auto tile = b.sbuf(128, 80 * kib, DType::kFloat32, "large");
    b.memset(b.all(tile));
    b.copy(b.all(tile), b.all(tile));
  };
  std::vector<isa::TensorId> kept, passing;
  for (int i = 0; i < 24; ++i) {
    kept.push_back(b.sbuf(128, kib, DType::kFloat32, "kept"));
    b.memset(b.all(kept.back()));
    passing.push_back(b.sbuf(128, 7 * kib, DType::kFloat32, "passing"));
    b.memset(b.all(passing.back()));
    b.copy(b.all(kept.back()), b.all(passing.back()));
  }
  large();
  for (const auto tile : kept) b.copy(b.all(kept[0]), b.all(tile));
  const auto rest = b.sbuf(128, 1, DType::kFloat32);
  for (int i = 0; i < 600; ++i) b.memset(b.all(rest));  // none lives for a quarter of the program
  const auto executable = compile(b.take(), {.generation = Generation::kV2});
  EXPECT_EQ(find_shared_bytes(executable), "");
  // By first fit each would lie on the one before.
  int overlaps = 0;
  for (size_t i = 1; i < passing.size(); ++i)
    overlaps += std::abs(executable.placements[passing[i]].address.byte_offset -
                         executable.placements[passing[i - 1]].address.byte_offset) < 7 * 1024;
  EXPECT_LE(overlaps, 4);
}

// One place in a long program that is tight, where no parts for large and small tensors fit either: the
// tensors around it are packed, all others rotate.
TEST(Allocation, OnlyWhatLiesAroundATightPlaceIsPacked) {
  ProgramBuilder b;
  const int64_t kib = 1024 / 4;
  std::vector<isa::TensorId> passing, kept, wide;
  const auto pass = [&](int64_t size) {
    passing.push_back(b.sbuf(128, size * kib, DType::kFloat32, "passing"));
    b.memset(b.all(passing.back()));
  };
  for (int i = 0; i < 15; ++i) wide.push_back(b.sbuf(128, 8 * kib, DType::kFloat32, "wide"));
  for (const auto tile : wide) b.memset(b.all(tile));
  for (const auto tile : wide) b.copy(b.all(wide[0]), b.all(tile));
  for (int i = 0; i < 600; ++i) pass(7);
  const size_t before = passing.size();
  for (int i = 0; i < 24; ++i) {
    kept.push_back(b.sbuf(128, kib, DType::kFloat32, "kept"));
    b.memset(b.all(kept.back()));
    pass(7);
  }
  const auto large = b.sbuf(128, 100 * kib, DType::kFloat32, "large");
  b.memset(b.all(large));
  for (const auto tile : kept) b.copy(b.all(kept[0]), b.all(tile));
  const auto executable = compile(b.take(), {.generation = Generation::kV2});
  EXPECT_EQ(find_shared_bytes(executable), "");
  int overlaps = 0;
  for (size_t i = 1; i < before; ++i)
    overlaps += executable.placements[passing[i]].address.byte_offset ==
                executable.placements[passing[i - 1]].address.byte_offset;
  EXPECT_LE(overlaps, 300);  // those within 256 instructions of the place
}

TEST(Allocation, UseIsWhatIsLiveAtOnceNotHowFarTensorsAreSpread) {
  ProgramBuilder builder;
  for (int i = 0; i < 10; ++i) {  // one after the other: two live at a time
    const auto a = builder.sbuf(128, 256, DType::kFloat32);
    const auto b = builder.sbuf(128, 256, DType::kFloat32);
    const auto sum = builder.psum(128, 256);
    builder.memset(builder.all(a));
    builder.copy(builder.all(b), builder.all(a));
    builder.copy(builder.all(sum), builder.all(b));
  }
  const isa::Executable executable = compile(builder.take());
  EXPECT_EQ(executable.sbuf_bytes_per_partition_used, 2 * 1024);
  EXPECT_EQ(executable.psum_banks_used, 1);
}

TEST(Lifetime, ATensorUsedInALoopLivesForAllOfIt) {
  ProgramBuilder b;
  const auto x = b.sbuf(128, 8, DType::kFloat32), y = b.sbuf(128, 8, DType::kFloat32);
  const auto counter = b.program().add_register();
  b.memset(b.all(x));
  const auto begin = b.loop_begin(counter, 0, 4);
  b.copy(b.all(y), b.all(x));
  b.copy(b.all(y), b.all(y));
  b.loop_end(counter, begin);
  const auto program = b.take();
  const auto lifetimes = find_lifetimes(*program, find_loops(*program));
  EXPECT_EQ(lifetimes[x].first, 0u);
  EXPECT_EQ(lifetimes[x].last, 4u);
  EXPECT_EQ(lifetimes[y].first, 1u);
  EXPECT_EQ(lifetimes[y].last, 4u);
}

TEST(Lifetime, ATensorThatALoopMakesLivesWithinAnIteration) {
  const isa::Program program = isa::parse_program(R"(opentrn program 1 "k"
registers 2
tensor %0 sbuf float32 [128, 8] "a" loop 0
tensor %1 sbuf float32 [128, 8] "b" loop 0
tensor %2 sbuf float32 [128, 8] "c" loop 0
loop_begin register=r0 lower=0 upper=4 step=1 match=7
  memset dst=%0 value=1
  tensor_copy dst=%1 src=%0
  memset dst=%2 value=1
  loop_begin register=r1 lower=0 upper=4 step=1 match=6
    tensor_copy dst=%2 src=%1
  loop_end register=r1 step=1 match=4
loop_end register=r0 step=1
)");
  const auto lifetimes = find_lifetimes(program, find_loops(program));
  EXPECT_EQ(lifetimes[0].first, 1u);
  EXPECT_EQ(lifetimes[0].last, 2u);
  EXPECT_EQ(lifetimes[1].first, 2u);
  EXPECT_EQ(lifetimes[1].last, 6u);  // to the end of the inner loop
  EXPECT_FALSE(lifetimes[0].overlaps(lifetimes[2]));
}

}  // namespace
}  // namespace opentrn::backend
