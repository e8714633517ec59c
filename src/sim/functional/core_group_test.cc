#include "sim/functional/core_group.h"

#include "sim/functional/test_kernel.h"

namespace opentrn::sim::core_group_tests {
namespace {

using isa::Opcode;
using isa::Operand;

// One program per core, built with the helpers of TestKernel; its own core is not used.
struct Pair {
  TestKernel a, b;
  CoreGroup group{Generation::kV3, 2};

  TestKernel& kernel(int rank) { return rank == 0 ? a : b; }
  Tile tile_with(int rank, std::vector<float> values) {
    TestKernel& k = kernel(rank);
    const Tile t = k.sbuf(1, static_cast<int64_t>(values.size()));
    const auto buffer = group.core(rank).buffer(k.program, t.id);
    std::memcpy(buffer->data(), values.data(), values.size() * sizeof(float));
    buffer->mark_all_initialised();
    return t;
  }
  std::vector<float> get(int rank, Tile t) {
    std::vector<float> values(static_cast<size_t>(t.columns));
    std::memcpy(values.data(), group.core(rank).buffer(t.id)->data(), values.size() * sizeof(float));
    return values;
  }
  void sendrecv(int rank, Tile dst, Tile src, int64_t pipe = 0) {
    TestKernel& k = kernel(rank);
    const int64_t other = 1 - rank;
    k.emit(Opcode::kSendRecv, {k.op(dst), k.op(src)},
           {word(other), word(other), word(pipe), word(int64_t{1})});
  }
  void barrier(int rank, Tile data) {
    TestKernel& k = kernel(rank);
    k.emit(Opcode::kCoreBarrier, {k.op(data)}, {word(k.list({0, 1}))});
  }
  void run() {
    for (TestKernel* k : {&a, &b})  // keep every tile for get()
      for (isa::TensorId id = 0; id < k->program.tensor_count(); ++id) k->program.tensor(id).is_output = true;
    const isa::Program* programs[] = {&a.program, &b.program};
    group.run(programs);
  }
};

TEST(CoreGroup, SendrecvSwapsTiles) {
  Pair pair;
  const Tile mine = pair.tile_with(0, {1, 2}), yours = pair.tile_with(1, {10, 20});
  const Tile to_a = pair.a.sbuf(1, 2);
  pair.sendrecv(0, to_a, mine);
  pair.sendrecv(1, yours, yours);  // receives over what it sends
  pair.run();
  EXPECT_EQ(pair.get(0, to_a), (std::vector<float>{10, 20}));
  EXPECT_EQ(pair.get(1, yours), (std::vector<float>{1, 2}));
}

TEST(CoreGroup, ARunStopsAtTheRendezvousAndGoesOnAfterThePartner) {
  Pair pair;
  const Tile x = pair.tile_with(0, {1}), y = pair.tile_with(1, {2});
  const Tile to_a = pair.a.sbuf(1, 1), to_b = pair.b.sbuf(1, 1);
  pair.sendrecv(0, to_a, x);
  pair.sendrecv(1, to_b, y);
  EXPECT_EQ(pair.group.core(0).run(pair.a.program, 0, 1), 0u);
  EXPECT_EQ(pair.group.waiting_at(0), 0u);
  EXPECT_EQ(pair.group.core(1).run(pair.b.program, 0, 1), 1u);
  EXPECT_EQ(pair.group.waiting_at(0), std::nullopt);
  EXPECT_EQ(pair.group.core(0).run(pair.a.program, 0, 1), 1u);
  EXPECT_EQ(pair.get(0, to_a), (std::vector<float>{2}));
  EXPECT_EQ(pair.get(1, to_b), (std::vector<float>{1}));
}

TEST(CoreGroup, BarrierOrdersWritesToSharedHbm) {
  Pair pair;
  const auto plain = {word(int64_t{0}), word(int64_t{0}), word(int64_t{0})};
  const auto shared = Buffer::allocate(8);
  std::array<Tile, 2> hbm, own, seen;
  for (int rank = 0; rank < 2; ++rank) {
    TestKernel& k = pair.kernel(rank);
    hbm[rank] = k.tile(isa::MemorySpace::kSharedHbm, 1, 2);
    pair.group.core(rank).bind(hbm[rank].id, shared);
    own[rank] = pair.tile_with(rank, {static_cast<float>(rank + 5)});
    seen[rank] = k.sbuf(1, 2);
    k.emit(Opcode::kDmaCopy, {k.op(hbm[rank], rank, {{1, 1}}), k.op(own[rank])}, plain);
    pair.barrier(rank, hbm[rank]);
    k.emit(Opcode::kDmaCopy, {k.op(seen[rank]), k.op(hbm[rank])}, plain);
  }
  pair.run();
  for (int rank = 0; rank < 2; ++rank) EXPECT_EQ(pair.get(rank, seen[rank]), (std::vector<float>{5, 6}));
}

TEST(CoreGroup, WaitingForDifferentThingsIsADeadlockThatNamesBothLines) {
  Pair pair;
  const Tile x = pair.tile_with(0, {1}), y = pair.tile_with(1, {2});
  pair.sendrecv(0, x, x, /*pipe=*/0);
  const Tile other = pair.b.sbuf(1, 1);
  pair.b.emit(Opcode::kMemset, {pair.b.op(other), Operand::imm(0)});
  pair.sendrecv(1, y, y, /*pipe=*/1);
  const Fault fault = fault_of([&] { pair.run(); });
  EXPECT_EQ(fault.label(), "sim.deadlock");
  EXPECT_NE(fault.message().find("core 0 waits in sendrecv (instruction 0, kernel.py:1)"), std::string::npos)
      << fault.what();
  EXPECT_NE(fault.message().find("core 1 waits in sendrecv (instruction 1, kernel.py:2)"), std::string::npos)
      << fault.what();
}

TEST(CoreGroup, WaitingForACoreThatHasEndedIsADeadlock) {
  for (int waiting : {0, 1}) {
    Pair pair;
    const Tile x = pair.tile_with(waiting, {1});
    pair.sendrecv(waiting, x, x);
    EXPECT_EQ(fault_of([&] { pair.run(); }).label(), "sim.deadlock") << waiting;
  }
}

TEST(CoreGroup, ShapesOfBothSidesMustAgree) {
  Pair pair;
  const Tile x = pair.tile_with(0, {1, 2}), y = pair.tile_with(1, {2});
  pair.sendrecv(0, x, x);
  pair.sendrecv(1, y, y);
  EXPECT_EQ(fault_of([&] { pair.run(); }).label(), "sendrecv.shape");
}

TEST(CoreGroup, OneCoreAloneHasNobodyToMeet) {
  TestKernel k;
  const Tile t = k.sbuf_of(1, 1, {1});
  EXPECT_EQ(fault_of([&] {
              k.run(Opcode::kSendRecv, {k.op(t), k.op(t)},
                    {word(int64_t{1}), word(int64_t{1}), word(int64_t{0}), word(int64_t{1})});
            }).label(),
            "sendrecv.lnc");
}

TEST(CoreGroup, RendezvousInsideALoop) {
  Pair pair;
  std::array<Tile, 2> t;
  for (int rank = 0; rank < 2; ++rank) {
    TestKernel& k = pair.kernel(rank);
    t[rank] = pair.tile_with(rank, {rank == 0 ? 1.0f : 100.0f});
    const isa::RegisterId i = k.program.add_register();
    const auto begin = k.loop_begin(i, Operand::imm(0), Operand::imm(3));
    k.emit(Opcode::kTensorScalar, {k.op(t[rank]), k.op(t[rank]), Operand::imm(1), Operand::none()},
           {word(AluOp::kAdd), word(int64_t{0}), word(int64_t{-1}), word(int64_t{0})});
    pair.sendrecv(rank, t[rank], t[rank]);
    k.loop_end(i, begin);
  }
  pair.run();
  EXPECT_EQ(pair.get(0, t[0]), (std::vector<float>{103}));
  EXPECT_EQ(pair.get(1, t[1]), (std::vector<float>{4}));
}

}  // namespace
}  // namespace opentrn::sim::core_group_tests
