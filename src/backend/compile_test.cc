#include "backend/compile.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "backend/dependencies.h"
#include "backend/order_check.h"
#include "backend/sample_programs.h"

namespace opentrn::backend {
namespace {

using isa::Engine;
using isa::Opcode;

isa::Executable checked_compile(std::shared_ptr<const isa::Program> program, const Options& options = {}) {
  isa::Executable executable = compile(std::move(program), options);
  isa::verify(executable);
  return executable;
}

Engine engine_of(const isa::Executable& executable, isa::InstructionIndex i) {
  for (const auto& entry : executable.schedule)
    if (entry.instruction == i) return entry.engine;
  return Engine::kUnknown;
}

const isa::ScheduledInstruction& entry_of(const isa::Executable& executable, isa::InstructionIndex i) {
  for (const auto& entry : executable.schedule)
    if (entry.instruction == i) return entry;
  throw Fault(FaultKind::kInternal, "", "not scheduled");
}

TEST(Compile, PropertyEveryConflictingPairIsOrderedAndNoLiveBytesAreShared) {
  for (uint64_t seed = 0; seed < 150; ++seed) {
    for (int look_ahead : {0, 8}) {
      const auto executable = checked_compile(random_program(seed, 40),
                                              {.generation = Generation::kV3, .look_ahead = look_ahead});
      ASSERT_EQ(find_unordered_pair(executable), "") << "seed " << seed << " look-ahead " << look_ahead;
      ASSERT_EQ(find_shared_bytes(executable), "") << "seed " << seed;
    }
  }
}

// Of which no instruction is a copy: the order stays as it is.
TEST(Compile, PropertyCollectivesWithoutCopiesChangeNothing) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    for (int look_ahead : {0, 8}) {
      Options options{.generation = Generation::kV3, .look_ahead = look_ahead};
      const auto without = checked_compile(random_program(seed, 40), options);
      constexpr isa::TensorId kNoTensor = 1'000'000;
      options.collectives.push_back({{kNoTensor}, {}});
      const auto with = checked_compile(random_program(seed, 40), options);
      ASSERT_EQ(with.waits, without.waits) << "seed " << seed << " look-ahead " << look_ahead;
      for (size_t at = 0; at < with.schedule.size(); ++at)
        ASSERT_EQ(with.schedule[at].instruction, without.schedule[at].instruction) << "seed " << seed;
    }
  }
}

// A store of what the second of two collectives gave, ready long before what the first sends is made.
TEST(Compile, CollectivesKeepTheOrderOfTheProgram) {
  for (int look_ahead : {0, 8}) {
    ProgramBuilder b;
    Options options{.generation = Generation::kV3, .look_ahead = look_ahead};
    const auto collective = [&](isa::TensorId source) {
      const isa::TensorId arrived = b.sbuf(128, 256, DType::kFloat32);
      const isa::TensorId sent = b.hbm({128, 256}, DType::kFloat32, "sent");
      const isa::TensorId received = b.hbm({128, 256}, DType::kFloat32, "received");
      b.dma(b.all(sent), b.all(source));
      b.dma(b.all(arrived), b.all(received));
      options.collectives.push_back({{sent}, {received}});
      return arrived;
    };
    const isa::TensorId slow = b.sbuf(128, 256, DType::kFloat32), fast = b.sbuf(128, 256, DType::kFloat32);
    b.memset(b.all(fast));
    b.memset(b.all(slow));
    for (int i = 0; i < 30; ++i) b.tensor_tensor(b.all(slow), b.all(slow), b.all(slow));
    const auto first = static_cast<isa::InstructionIndex>(b.program().size());
    collective(slow);
    b.dma(b.all(b.hbm({128, 256}, DType::kFloat32, "out", true)), b.all(collective(fast)));
    const auto place = [](const isa::Executable& executable, isa::InstructionIndex i) {
      return std::ranges::find(executable.schedule, i, &isa::ScheduledInstruction::instruction);
    };
    const auto program = b.take();
    const isa::InstructionIndex sends = first, store = first + 4;
    auto executable = checked_compile(program, options);
    EXPECT_LT(place(executable, sends), place(executable, store)) << "look-ahead " << look_ahead;
    options.collectives.clear();  // an order for copies that are no more than that
    executable = checked_compile(program, options);
    EXPECT_GT(place(executable, sends), place(executable, store)) << "look-ahead " << look_ahead;
  }
}

TEST(OrderCheck, FindsAWaitThatIsMissing) {
  isa::Executable executable = checked_compile(stream_tiles(3, 8, DType::kFloat32));
  ASSERT_EQ(find_unordered_pair(executable), "");
  for (auto& entry : executable.schedule) entry.wait_count = 0;
  EXPECT_NE(find_unordered_pair(executable), "");
}

TEST(Compile, ComputeEnginesKeepProgramOrderWithoutLookAhead) {
  const auto executable = checked_compile(random_program(3, 200));
  std::map<isa::StreamId, isa::InstructionIndex> last;
  for (const auto& entry : executable.schedule) {
    if (entry.engine == Engine::kDma) continue;
    if (last.contains(entry.stream)) {
      EXPECT_LT(last[entry.stream], entry.instruction);
    }
    last[entry.stream] = entry.instruction;
  }
}

TEST(Compile, LoadsAreIssuedBeforeEarlierStoresThatAreNotReady) {
  const auto executable = checked_compile(stream_tiles(8, 1024, DType::kFloat32));
  // Instruction 2 stores tile 0; instructions 3, 6, 9 load tiles 1, 2, 3.
  const auto position = [&](isa::InstructionIndex i) {
    for (size_t at = 0; at < executable.schedule.size(); ++at)
      if (executable.schedule[at].instruction == i) return at;
    return size_t{0};
  };
  EXPECT_LT(position(9), position(2));
}

// An activation whose command is idle but that has a place for the reduced result reads the accumulators that
// an earlier one filled: it stays behind it, although its own data are there sooner.
TEST(Compile, ReadingAccumulatorsStaysBehindFillingThem) {
  ProgramBuilder b;
  const auto in = b.hbm({128, 4096}, DType::kFloat32, "in");
  const auto late = b.sbuf(128, 4096, DType::kFloat32), early = b.sbuf(128, 64, DType::kFloat32),
             made = b.sbuf(128, 4096, DType::kFloat32), other = b.sbuf(128, 64, DType::kFloat32),
             sums = b.sbuf(128, 1, DType::kFloat32);
  const auto relu = static_cast<int64_t>(ActivationFunction::kRelu);
  const auto add = static_cast<int64_t>(AluOp::kAdd);
  const auto reset_reduce = static_cast<int64_t>(isa::ReduceCmd::kResetReduce);
  b.memset(b.all(early));
  b.dma(b.all(late), b.all(in));
  using isa::Operand;
  b.append(Opcode::kActivation, {b.all(made), b.all(late), Operand::none(), Operand::imm(1), Operand::none()},
           {relu, add, reset_reduce}, Engine::kScalar);
  b.append(Opcode::kActivation, {b.all(other), b.all(early), Operand::none(), Operand::imm(1), b.all(sums)},
           {relu, add, static_cast<int64_t>(isa::ReduceCmd::kIdle)}, Engine::kScalar);
  const auto executable = checked_compile(b.take(), {.generation = Generation::kV3, .look_ahead = 8});
  std::vector<isa::InstructionIndex> scalar;
  for (const auto& entry : executable.schedule)
    if (entry.engine == Engine::kScalar && entry.instruction >= 2) scalar.push_back(entry.instruction);
  EXPECT_EQ(scalar, (std::vector<isa::InstructionIndex>{2, 3}));
}

// Two tiles are loaded, and stored again in the other order.
std::shared_ptr<const isa::Program> crossed() {
  ProgramBuilder b;
  const auto in = b.hbm({128, 1024}, DType::kFloat32, "in"),
             out = b.hbm({128, 1024}, DType::kFloat32, "out", true);
  const auto late = b.sbuf(128, 512, DType::kFloat32), early = b.sbuf(128, 512, DType::kFloat32);
  b.dma(b.all(late), b.part(in, 0, 128, 0, 512));
  b.dma(b.all(early), b.part(in, 0, 128, 512, 512));
  for (const auto tile : {early, late}) {
    b.tensor_scalar(b.all(tile), b.all(tile), 2);
    b.dma(b.part(out, 0, 128, tile == late ? 0 : 512, 512), b.all(tile));
  }
  return b.take();
}

TEST(Compile, NeuronxCcLoadsFirstWhatTheFirstResultNeeds) {
  const auto first_load = [](const Options& options) {
    return checked_compile(crossed(), options).schedule[0].instruction;
  };
  EXPECT_EQ(first_load({.look_ahead = 8}), 0u);
  EXPECT_EQ(first_load({.look_ahead = 8, .neuronx_cc = true}), 1u);
  EXPECT_EQ(first_load({.neuronx_cc = true}), 0u);  // program order was asked for
}

TEST(EngineChoice, NeuronxCcHasGpSimdStartTheStoresOfResults) {
  const auto triggers = [](const Options& options) {
    const auto executable = checked_compile(crossed(), options);
    return std::pair(entry_of(executable, 0).trigger, entry_of(executable, 3).trigger);
  };
  EXPECT_EQ(triggers({.generation = Generation::kV2}), std::pair(Engine::kSync, Engine::kSync));
  EXPECT_EQ(triggers({.generation = Generation::kV2, .neuronx_cc = true}),
            std::pair(Engine::kSync, Engine::kGpSimd));
  // GpSimd cannot start hardware descriptor generation.
  EXPECT_EQ(triggers({.generation = Generation::kV3, .neuronx_cc = true}),
            std::pair(Engine::kSync, Engine::kSync));
}

TEST(Compile, AWaitImpliedByAnotherIsDropped) {
  ProgramBuilder b;
  const auto x = b.sbuf(128, 8, DType::kFloat32), y = b.sbuf(128, 8, DType::kFloat32),
             z = b.sbuf(128, 8, DType::kFloat32);
  b.memset(b.all(x), Engine::kGpSimd);                                          // 0
  b.activation(b.all(y), b.all(x), ActivationFunction::kExp);                   // 1 waits for 0
  b.tensor_tensor(b.all(z), b.all(x), b.all(y), AluOp::kAdd, Engine::kVector);  // 2 needs 0 and 1
  const auto executable = checked_compile(b.take());
  EXPECT_EQ(entry_of(executable, 1).wait_count, 1u);
  EXPECT_EQ(entry_of(executable, 2).wait_count, 1u) << "instruction 1 already waited for 0";
}

TEST(Compile, ADependentInstructionWaitsForItsOwnEnginesResult) {
  ProgramBuilder b;
  const auto x = b.sbuf(128, 8, DType::kFloat32), y = b.sbuf(128, 8, DType::kFloat32),
             z = b.sbuf(128, 8, DType::kFloat32);
  b.activation(b.all(y), b.all(x), ActivationFunction::kExp);
  b.activation(b.all(z), b.all(y), ActivationFunction::kExp);  // reads the result
  b.activation(b.all(y), b.all(x), ActivationFunction::kExp);  // only overwrites
  const auto executable = checked_compile(b.take());
  EXPECT_EQ(entry_of(executable, 1).wait_count, 1u);
  EXPECT_EQ(entry_of(executable, 2).wait_count, 0u);
}

TEST(Compile, AnInPlaceInstructionReadsTheResultOfTheOneBefore) {
  ProgramBuilder b;
  const auto x = b.sbuf(128, 8, DType::kFloat32);
  for (int i = 0; i < 3; ++i) b.activation(b.all(x), b.all(x), ActivationFunction::kExp);
  const auto executable = checked_compile(b.take());
  EXPECT_EQ(entry_of(executable, 1).wait_count, 1u);
  EXPECT_EQ(entry_of(executable, 2).wait_count, 1u);
}

TEST(Compile, MatmulsAccumulatingInOneBankDoNotWaitForEachOther) {
  ProgramBuilder b;
  const auto x = b.sbuf(128, 128, DType::kBFloat16), y = b.sbuf(128, 512, DType::kBFloat16);
  const auto acc = b.psum(128, 512);
  for (int k = 0; k < 8; ++k) b.matmul(b.all(acc), b.all(x), b.all(y), k > 0);
  const auto program = b.take();
  EXPECT_TRUE(checked_compile(program).waits.empty());
  EXPECT_TRUE(compile(program, {.look_ahead = usual_look_ahead(false)}).waits.empty());
}

// Recorded kernels are refused before (dma_copy.C4, C7); a program from a file comes as far as this.
TEST(Compile, ADmaIsTriggeredByAnEngineThatCan) {
  ProgramBuilder b;
  const auto x = b.hbm({128, 64}, DType::kFloat32, "x");
  const auto tile = b.sbuf(128, 64, DType::kFloat32);
  b.append(isa::Opcode::kDmaCopy, {b.all(tile), b.all(x)}, {-1, 0, 0}, isa::Engine::kGpSimd);
  try {
    compile(b.take());
    FAIL();
  } catch (const Fault& fault) {
    EXPECT_EQ(fault.label(), "dma.hwdge_trigger");
  }
}

TEST(Compile, NoReorderBlocksAndEdgesBecomeWaits) {
  ProgramBuilder b;
  const auto x = b.sbuf(128, 8, DType::kFloat32), y = b.sbuf(128, 8, DType::kFloat32),
             z = b.sbuf(128, 8, DType::kFloat32);
  b.activation(b.all(y), b.all(x), ActivationFunction::kExp);
  b.tensor_scalar(b.all(z), b.all(x), 2, AluOp::kAdd, Engine::kVector);
  b.program().add_edge({1, 0});
  const auto executable = checked_compile(b.take());
  EXPECT_EQ(entry_of(executable, 1).wait_count, 1u);
}

TEST(EngineChoice, Int32AdditionGoesToGpSimdUnlessItTouchesPsum) {
  ProgramBuilder b;
  const auto x = b.sbuf(128, 8, DType::kInt32), y = b.sbuf(128, 8, DType::kInt32);
  const auto p = b.psum(128, 8, DType::kInt32);
  b.tensor_tensor(b.all(y), b.all(x), b.all(x));
  b.tensor_tensor(b.all(y), b.all(x), b.all(p));
  const auto executable = checked_compile(b.take());
  EXPECT_EQ(engine_of(executable, 0), Engine::kGpSimd);
  EXPECT_EQ(engine_of(executable, 1), Engine::kVector);
}

// The engines which AWS documents for these operators: docs/operators.md.
TEST(EngineChoice, AnOperatorGoesToAnEngineThatHasIt) {
  ProgramBuilder b;
  const auto x = b.sbuf(128, 8, DType::kFloat32), y = b.sbuf(128, 8, DType::kFloat32);
  const auto i = b.sbuf(128, 8, DType::kInt32), j = b.sbuf(128, 8, DType::kInt32);
  b.tensor_scalar(b.all(y), b.all(x), 0, AluOp::kRsqrt);
  b.tensor_tensor(b.all(y), b.all(x), b.all(x), AluOp::kPower);
  b.tensor_tensor(b.all(j), b.all(i), b.all(i), AluOp::kBitwiseAnd);
  b.tensor_tensor(b.all(j), b.all(i), b.all(i), AluOp::kAbsMax);
  const auto executable = checked_compile(b.take(), {.generation = Generation::kV4});
  EXPECT_EQ(engine_of(executable, 0), Engine::kGpSimd);
  EXPECT_EQ(engine_of(executable, 1), Engine::kGpSimd);
  EXPECT_EQ(engine_of(executable, 2), Engine::kVector);
  EXPECT_EQ(engine_of(executable, 3), Engine::kVector);
}

TEST(EngineChoice, CopiesAreSharedOutBetweenVectorAndScalarFromV3On) {
  for (const auto& [generation, scalars] : {std::pair{Generation::kV2, 0}, std::pair{Generation::kV3, 1}}) {
    ProgramBuilder b;
    for (int i = 0; i < 8; ++i) {
      const auto x = b.sbuf(128, 512, DType::kFloat32), y = b.sbuf(128, 512, DType::kFloat32);
      b.copy(b.all(y), b.all(x));
    }
    const auto executable = checked_compile(b.take(), {.generation = generation});
    int found = 0;
    for (const auto& entry : executable.schedule) found += entry.engine == Engine::kScalar;
    EXPECT_EQ(found > 0, scalars > 0);
  }
}

TEST(EngineChoice, DescriptorsAreHardwareMadeFromV3AndPreparedBefore) {
  for (const auto& [generation, mode] :
       {std::pair{Generation::kV2, isa::DgeMode::kNone}, std::pair{Generation::kV3, isa::DgeMode::kHwdge}}) {
    const auto executable = checked_compile(stream_tiles(1, 64, DType::kFloat32), {.generation = generation});
    EXPECT_EQ(entry_of(executable, 0).dge, mode);
    EXPECT_EQ(entry_of(executable, 0).trigger, Engine::kSync);
  }
}

// A product of every transpose, which an engine copies out of PSUM first.
TEST(Order, TransposesLieBetweenTheProductsOfTheStepsBefore) {
  ProgramBuilder b;
  const auto x = b.sbuf(128, 128, DType::kFloat16), moving = b.sbuf(128, 512, DType::kFloat16);
  const auto sum = b.psum(128, 512);
  const auto out = b.hbm({128, 512}, DType::kFloat32, "out"), in = b.hbm({128, 512}, DType::kFloat16, "in");
  b.dma(b.all(moving), b.all(in));
  b.dma(b.all(x), b.part(in, 0, 128, 0, 128));
  constexpr int kSteps = 24;
  for (int i = 0; i < kSteps; ++i) {
    const auto turned = b.psum(128, 128, DType::kFloat16), stationary = b.sbuf(128, 128, DType::kFloat16);
    b.append(Opcode::kNcTranspose, {b.all(turned), b.all(x)}, {}, Engine::kTensor);
    b.copy(b.all(stationary), b.all(turned));
    b.matmul(b.all(sum), b.all(stationary), b.all(moving), i > 0);
  }
  const auto result = b.sbuf(128, 512, DType::kFloat32);
  b.copy(b.all(result), b.all(sum));
  b.dma(b.all(out), b.all(result));
  const auto executable = checked_compile(b.take(), {.look_ahead = 1024, .neuronx_cc = true});
  std::vector<Opcode> order;
  for (const auto& entry : executable.schedule)
    if (entry.engine == Engine::kTensor)
      order.push_back(executable.program->instruction(entry.instruction).opcode);
  ASSERT_EQ(order.size(), 2 * kSteps);
  int longest = 0, run = 0;  // of transposes, once the first products are under way
  for (size_t i = 12; i + 12 < order.size(); ++i) {
    run = order[i] == Opcode::kNcTranspose ? run + 1 : 0;
    longest = std::max(longest, run);
  }
  EXPECT_EQ(longest, 1);
}

// Pairs of two functions whose operands are all there: each table is loaded once. A chain keeps its order.
TEST(Order, ActivationsOfOneTableGoTogether) {
  const auto functions_of = [](const std::shared_ptr<const isa::Program>& program, const Options& options) {
    const auto executable = checked_compile(program, options);
    std::vector<ActivationFunction> order;
    for (const auto& entry : executable.schedule)
      if (const isa::Instruction& in = executable.program->instruction(entry.instruction);
          in.opcode == Opcode::kActivation)
        order.push_back(executable.program->attribute_activation(in, isa::slot::activation::kAOp));
    return order;
  };
  const auto switches = [](const std::vector<ActivationFunction>& order) {
    int count = 0;
    for (size_t i = 1; i < order.size(); ++i) count += order[i] != order[i - 1];
    return count;
  };
  const auto pairs = [](bool chained) {
    ProgramBuilder b;
    const auto in = b.hbm({128, 64}, DType::kFloat32, "in"), x = b.sbuf(128, 64, DType::kFloat32);
    b.dma(b.all(x), b.all(in));
    auto last = x;
    for (int i = 0; i < 8; ++i) {
      const auto made = b.sbuf(128, 64, DType::kFloat32);
      const auto out = b.hbm({128, 64}, DType::kFloat32, "out" + std::to_string(i));
      b.activation(b.all(made), b.all(chained ? last : x),
                   i % 2 == 0 ? ActivationFunction::kSigmoid : ActivationFunction::kTanh);
      b.dma(b.all(out), b.all(made));
      last = made;
    }
    return b.take();
  };
  EXPECT_EQ(switches(functions_of(pairs(false), {.look_ahead = 256})), 1);
  EXPECT_EQ(switches(functions_of(pairs(true), {.look_ahead = 256})), 7);
  EXPECT_EQ(switches(functions_of(pairs(false), {.look_ahead = 0})), 7);  // the author's order
}

TEST(EngineChoice, WithoutDgeDescriptorsAreKnownBeforeTheLaunch) {
  const auto executable = checked_compile(stream_tiles(1, 64, DType::kFloat32), {.dge = false});
  EXPECT_EQ(entry_of(executable, 0).dge, isa::DgeMode::kNone);
}

TEST(EngineChoice, GatherUsesGpSimdDescriptorsAndRefusesHardwareOnes) {
  for (const auto asked : {isa::DgeMode::kUnknown, isa::DgeMode::kHwdge}) {
    ProgramBuilder b;
    const auto table = b.hbm({1024, 64}, DType::kFloat32, "table");
    const auto rows = b.sbuf(128, 64, DType::kFloat32), index = b.sbuf(128, 1, DType::kUint32);
    isa::Operand source = b.part(table, 0, 128, 0, 64);
    isa::Indirect indirect;
    indirect.kind = isa::IndirectKind::kVector;
    indirect.index = b.all(index);
    indirect.stride = 64;
    indirect.bound = 1024;
    source.indirect = b.program().add_indirect(indirect);
    b.dma(b.all(rows), source, asked);
    const auto program = b.take();
    if (asked == isa::DgeMode::kHwdge) {
      EXPECT_THROW(compile(program), Fault);
      continue;
    }
    const auto executable = checked_compile(program);
    EXPECT_EQ(entry_of(executable, 0).dge, isa::DgeMode::kSwdge);
    EXPECT_EQ(entry_of(executable, 0).trigger, Engine::kGpSimd);
  }
}

TEST(Compile, LoopMarkersKeepEverythingOnItsSide) {
  ProgramBuilder b;
  const auto x = b.sbuf(128, 8, DType::kFloat32), y = b.sbuf(128, 8, DType::kFloat32);
  const auto counter = b.program().add_register();
  b.memset(b.all(x), Engine::kGpSimd);
  const auto begin = b.loop_begin(counter, 0, 4);
  b.activation(b.all(y), b.all(x), ActivationFunction::kExp);
  b.tensor_scalar(b.all(x), b.all(y), 2, AluOp::kAdd, Engine::kVector);
  b.loop_end(counter, begin);
  b.memset(b.all(y), Engine::kGpSimd);
  const auto executable = checked_compile(b.take());
  std::vector<isa::InstructionIndex> order;
  for (const auto& entry : executable.schedule) order.push_back(entry.instruction);
  EXPECT_EQ(order, (std::vector<isa::InstructionIndex>{0, 1, 2, 3, 4, 5}));
}

TEST(Dependencies, StayNearLinearOnALongProgram) {
  const auto program = stream_tiles(4000, 512, DType::kFloat32);
  const auto executable = checked_compile(program);
  EXPECT_LT(executable.waits.size(), 4 * program->size());
}

}  // namespace
}  // namespace opentrn::backend
