// Ranks on one clock against a reference that knows no clock: each rank is run alone, again and again, with
// the ends of collectives that are known so far.
#include "sim/ranks/launch.h"

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/compile.h"
#include "backend/sample_programs.h"
#include "base/fault.h"
#include "base/random.h"
#include "collectives/predict.h"
#include "isa/definitions.h"

namespace opentrn::sim::ranks {
namespace {

using backend::ProgramBuilder;
using collectives::Kind;
using timing::LogicalCore;

const arch::DmaPackets kPackets = arch::dma_packets(arch::default_tables());

constexpr Generation kGeneration = Generation::kV3;
constexpr int64_t kColumns = 256;

// What is launched: a program for each core of each rank, and its collectives.
struct Launch {
  std::deque<isa::Executable> executables;
  std::vector<Rank> ranks;
  std::vector<Collective> collectives;
  collectives::RankCores cores;
};

// Of one core: compute, and the copies of its collectives between it.
class CoreProgram {
 public:
  CoreProgram() {
    for (int i = 0; i < 4; ++i) tiles_.push_back(tile());
    for (const isa::TensorId one : tiles_) b_.memset(b_.all(one));
  }
  // On what is there, received tiles with it.
  void compute(SplitMix64& random) {
    const isa::Engine engine = random.below(2) == 0 ? isa::Engine::kVector : isa::Engine::kGpSimd;
    add(tiles_[random.below(4)], any(random), any(random), engine);
  }
  void collective(size_t number, SplitMix64& random) {
    std::vector<isa::TensorId> sources;
    for (uint32_t parts = 1 + random.below(2); parts > 0; --parts) sources.push_back(any(random));
    for (const isa::TensorId arriving : collective(number, sources)) tiles_.push_back(arriving);
  }
  // The tiles to which what arrives is copied. `mode`: of the copies to what is sent.
  std::vector<isa::TensorId> collective(size_t number, const std::vector<isa::TensorId>& sources,
                                        isa::DgeMode mode = isa::DgeMode::kUnknown) {
    Copies copies{number, {}};
    const auto begin = static_cast<isa::InstructionIndex>(b_.program().size());
    for (const isa::TensorId source : sources) {
      copies.tensors.sent.push_back(b_.hbm({128, kColumns}, DType::kFloat32, "sent"));
      b_.dma(b_.all(copies.tensors.sent.back()), b_.all(source), mode);
    }
    const auto met = static_cast<isa::InstructionIndex>(b_.program().size());
    std::vector<isa::TensorId> arriving;
    for (size_t i = 0; i < sources.size(); ++i) {
      copies.tensors.received.push_back(b_.hbm({128, kColumns}, DType::kFloat32, "received"));
      arriving.push_back(tile());
      const auto consumer = static_cast<isa::InstructionIndex>(b_.program().size());
      b_.dma(b_.all(arriving.back()), b_.all(copies.tensors.received.back()));
      for (isa::InstructionIndex producer = begin; producer < met; ++producer)
        b_.program().add_edge({consumer, producer});  // as nki/collective_issue.cc has it
    }
    collectives.push_back(std::move(copies));
    return arriving;
  }
  isa::TensorId tile() { return b_.sbuf(128, kColumns, DType::kFloat32); }
  void add(isa::TensorId to, isa::TensorId a, isa::TensorId b, isa::Engine engine) {
    b_.tensor_tensor(b_.all(to), b_.all(a), b_.all(b), AluOp::kAdd, engine);
  }
  // A tile that takes some 30 us.
  isa::TensorId slow_tile() {
    const isa::TensorId made = tile();
    b_.memset(b_.all(made));
    for (int i = 0; i < 60; ++i) add(made, made, made, isa::Engine::kVector);
    return made;
  }
  isa::TensorId fast_tile() const { return tiles_[0]; }
  void load(isa::TensorId to) { b_.dma(b_.all(to), b_.all(b_.hbm({128, kColumns}, DType::kFloat32, "in"))); }
  void store(isa::TensorId from) {
    b_.dma(b_.all(b_.hbm({128, kColumns}, DType::kFloat32, "out", true)), b_.all(from));
  }
  ProgramBuilder& builder() { return b_; }
  // `tell`: whether the backend learns which copies are collectives'.
  isa::Executable take(int look_ahead = 0, bool tell = true) {
    backend::Options options{.generation = kGeneration, .look_ahead = look_ahead};
    for (const Copies& one : collectives)
      if (tell) options.collectives.push_back(one.tensors);
    return backend::compile(b_.take(), options);
  }

  std::vector<Copies> collectives;

 private:
  isa::TensorId any(SplitMix64& random) { return tiles_[random.below(static_cast<uint32_t>(tiles_.size()))]; }

  ProgramBuilder b_;
  std::vector<isa::TensorId> tiles_;  // four that compute writes, then what was received
};

collectives::Request random_request(int ranks, SplitMix64& random) {
  const Kind kinds[] = {Kind::kAllReduce, Kind::kAllGather, Kind::kReduceScatter, Kind::kAllToAll};
  collectives::Request request;
  request.kind = kinds[random.below(4)];
  request.ranks = ranks;
  request.bytes = ranks * (int64_t{4} << random.below(18));
  request.dtype = DType::kFloat32;
  return request;
}

// Collectives of random groups, which all ranks issue in one order, between random compute.
void fill(Launch& launch, const fabric::Platform& platform, SplitMix64& random) {
  const int lnc = 1 + static_cast<int>(random.below(2)), ranks = 2 + static_cast<int>(random.below(7));
  launch.cores = collectives::place_ranks(platform, ranks, lnc, 0);
  std::vector<std::vector<CoreProgram>> programs(static_cast<size_t>(ranks));
  for (auto& own : programs) own.resize(static_cast<size_t>(lnc));
  // Some are chains of more than are timed anew with each start.
  const uint32_t most = random.below(5) == 0 ? 30 : 6;
  for (uint32_t i = 0, count = 1 + random.below(most); i < count; ++i) {
    Collective one;
    one.label = "one";
    one.core = static_cast<int>(random.below(static_cast<uint32_t>(lnc)));
    one.of_one_core = lnc > 1 && random.below(2) == 0;
    for (int rank = 0; rank < ranks; ++rank)
      if (random.below(3) != 0) one.group.push_back(rank);
    if (one.group.size() < 2) one.group = {0, ranks - 1};
    for (uint32_t r = 1 + random.below(2); r > 0; --r)
      one.requests.push_back(random_request(static_cast<int>(one.group.size()), random));
    for (auto& own : programs)
      for (CoreProgram& program : own)
        for (uint32_t n = random.below(12); n > 0; --n) program.compute(random);
    for (const int rank : one.group)
      programs[static_cast<size_t>(rank)][static_cast<size_t>(one.core)].collective(launch.collectives.size(),
                                                                                    random);
    launch.collectives.push_back(std::move(one));
  }
  const int look_ahead = random.below(2) == 0 ? 0 : 16;
  for (auto& own : programs) {
    Rank& rank = launch.ranks.emplace_back();
    for (CoreProgram& program : own) {
      for (uint32_t n = random.below(6); n > 0; --n) program.compute(random);
      rank.collectives.push_back(program.collectives);
      rank.cores.push_back(&launch.executables.emplace_back(program.take(look_ahead)));
    }
  }
}

// The definition: a collective arrives at a rank when it was triggered there and those before it in the queue
// have ended; it starts when it has arrived everywhere; from then on it shares links with all others.
class Reference {
 public:
  Reference(const fabric::Platform& platform, const Launch& launch) : platform_(platform), launch_(launch) {
    for (const Collective& one : launch.collectives) {
      times_.push_back({std::vector<Ps>(one.group.size(), -1), std::vector<Ps>(one.group.size(), -1),
                        std::vector<Ps>(one.group.size(), -1)});
      add_runs(one);
    }
  }

  struct Times {
    std::vector<Ps> triggered, arrived, ended;
  };

  void run() {
    for (size_t known = 0;; ++known) {
      total_ns.clear();
      for (size_t rank = 0; rank < launch_.ranks.size(); ++rank) total_ns.push_back(alone(rank));
      if (known == times_.size()) return;
      size_t first = times_.size();
      for (size_t i = 0; i < times_.size(); ++i)
        if (!started_.contains(i) && arrives(i) && (first == times_.size() || start(i) < start(first)))
          first = i;
      ASSERT_LT(first, times_.size());
      started_.insert(first);
      time_all(start(first));
    }
  }

  const std::vector<Times>& times() const { return times_; }
  std::vector<double> total_ns;

 private:
  void add_runs(const Collective& one) {
    collectives::RankCores cores;
    for (const int rank : one.group) {
      const auto& own = launch_.cores[static_cast<size_t>(rank)];
      cores.push_back(one.of_one_core ? std::vector<int>{own[static_cast<size_t>(one.core)]} : own);
    }
    auto& runs = runs_.emplace_back();
    for (const collectives::Request& request : one.requests) {
      const auto layout = collectives::layout_of(platform_, cores);
      const auto choice = collectives::choose_on(arch::default_tables(), platform_, request, cores, layout);
      plans_.push_back(choice.algorithm.plan(request, layout));
      runs.push_back({&plans_.back(),
                      collectives::costs_of(arch::default_tables(), kGeneration, choice.algorithm.name),
                      cores,
                      {},
                      0});
    }
  }

  static size_t member_of(const Collective& one, size_t rank) {
    return static_cast<size_t>(std::ranges::find(one.group, static_cast<int>(rank)) - one.group.begin());
  }

  // Runs a rank with the ends that are known; to where it waits for others, or to its end.
  double alone(size_t rank) {
    const Rank& of = launch_.ranks[rank];
    LogicalCore core(of.cores, arch::default_tables().timing(kGeneration), nullptr, {});
    std::vector<std::set<int32_t>> triggered(of.cores.size());
    for (size_t c = 0; c < of.cores.size(); ++c) {
      std::vector<timing::CollectiveCopies> copies;
      for (const Copies& one : of.collectives[c]) copies.push_back(one.tensors);
      core.set_collectives(c, copies);
    }
    while (true) {
      const Ps next = core.next();
      // The earliest end of what was triggered.
      Ps end = -1;
      size_t at_core = 0;
      int32_t which = 0;
      for (size_t c = 0; c < triggered.size(); ++c)
        for (const int32_t own : triggered[c]) {
          const size_t number = of.collectives[c][static_cast<size_t>(own)].collective;
          const Ps known = times_[number].ended[member_of(launch_.collectives[number], rank)];
          if (known >= 0 && (end < 0 || known < end)) end = known, at_core = c, which = own;
        }
      if (end >= 0 && (next < 0 || end <= next)) {
        core.complete(at_core, which, end, "");
        triggered[at_core].erase(which);
        continue;
      }
      if (next == LogicalCore::kDone) return core.finish().total_ns;
      if (next == LogicalCore::kAwaitsCollective) return -1;
      core.step();
      for (size_t c = 0; c < triggered.size(); ++c) {
        Ps at = 0;
        for (int32_t own = 0; (own = core.take_trigger(c, &at)) >= 0;) {
          triggered[c].insert(own);
          const size_t number = of.collectives[c][static_cast<size_t>(own)].collective;
          times_[number].triggered[member_of(launch_.collectives[number], rank)] = at;
        }
      }
    }
  }

  // Whether it is triggered everywhere, behind what has ended.
  bool arrives(size_t number) {
    const Collective& one = launch_.collectives[number];
    for (size_t m = 0; m < one.group.size(); ++m) {
      const auto rank = static_cast<size_t>(one.group[m]);
      Ps at = times_[number].triggered[m];
      if (at < 0) return false;
      for (const Copies& before : launch_.ranks[rank].collectives[static_cast<size_t>(one.core)]) {
        if (before.collective == number) break;
        const Ps end =
            times_[before.collective].ended[member_of(launch_.collectives[before.collective], rank)];
        if (end < 0) return false;
        at = std::max(at, end);
      }
      times_[number].arrived[m] = at;
    }
    return true;
  }
  Ps start(size_t number) const { return *std::ranges::max_element(times_[number].arrived); }

  // All that have started, together and step by step.
  void time_all(Ps now) {
    std::vector<collectives::Run> runs;
    for (const size_t number : started_)
      for (collectives::Run run : runs_[number]) {
        run.arrivals_ps.assign(times_[number].arrived.size(), start(number));
        runs.push_back(run);
      }
    const auto timing = collectives::time_of(platform_, runs, collectives::Folding::kNone);
    size_t next = 0;
    for (const size_t number : started_) {
      std::vector<Ps> ends(times_[number].ended.size(), 0);
      for (size_t i = 0; i < runs_[number].size(); ++i, ++next)
        for (size_t m = 0; m < ends.size(); ++m) ends[m] = std::max(ends[m], timing.runs[next].ends_ps[m]);
      for (size_t m = 0; m < ends.size(); ++m) {
        const Ps before = times_[number].ended[m];
        if (before >= 0 && before <= now) {
          EXPECT_EQ(before, ends[m]);  // what is past stays
        }
        times_[number].ended[m] = ends[m];
      }
    }
  }

  const fabric::Platform& platform_;
  const Launch& launch_;
  std::deque<collectives::Plan> plans_;
  std::vector<std::vector<collectives::Run>> runs_;
  std::vector<Times> times_;
  std::set<size_t> started_;
};

TEST(Launch, RanksOnOneClockAreRanksRunAloneUntilTheyAgree) {
  const auto platform = fabric::Platform::make(arch::default_tables(), "trn2.48xlarge");
  int waited = 0, shared = 0, chains = 0;
  for (uint64_t seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE(seed);
    SplitMix64 random(seed);
    Launch launch;
    fill(launch, platform, random);
    // Kernels yield to collectives in all: the reference runs each by itself.
    const arch::DmaPackets collectives_first{0, 1};
    const Result result = simulate(arch::default_tables(), platform, launch.cores, launch.ranks,
                                   launch.collectives, collectives_first);
    chains += launch.collectives.size() > 12;
    Reference reference(platform, launch);
    reference.run();
    if (HasFatalFailure()) return;
    for (size_t i = 0; i < launch.collectives.size(); ++i) {
      ASSERT_EQ(result.collectives[i].triggered, reference.times()[i].triggered)
          << "seed " << seed << " " << i;
      ASSERT_EQ(result.collectives[i].arrived, reference.times()[i].arrived) << "seed " << seed << " " << i;
      ASSERT_EQ(result.collectives[i].ended, reference.times()[i].ended) << "seed " << seed << " " << i;
      waited += result.collectives[i].arrived != result.collectives[i].triggered;
      for (size_t j = 0; j < i; ++j)
        shared += *std::ranges::max_element(result.collectives[i].arrived) <
                      *std::ranges::max_element(result.collectives[j].ended) &&
                  *std::ranges::max_element(result.collectives[j].arrived) <
                      *std::ranges::max_element(result.collectives[i].ended);
    }
    for (size_t r = 0; r < launch.ranks.size(); ++r)
      ASSERT_EQ(result.ranks[r].total_ns, reference.total_ns[r]) << "seed " << seed << " rank " << r;
  }
  // What the cases must contain for the above to say something.
  EXPECT_GT(waited, 20);
  EXPECT_GT(shared, 20);
  EXPECT_GT(chains, 5);
}

// Two ranks on two stacks: a sum of 4 MiB beside loads of both cores of the first rank, or alone.
Ps length_of_sum(const arch::DmaPackets& packets, int loads) {
  const auto platform = fabric::Platform::make(arch::default_tables(), "trn2.48xlarge");
  Launch launch;
  launch.cores = {{0, 1}, {2, 3}};
  collectives::Request request;
  request.kind = Kind::kAllReduce;
  request.ranks = 2;
  request.bytes = int64_t{4} << 20;
  request.dtype = DType::kFloat32;
  launch.collectives.push_back({.label = "sum", .group = {0, 1}, .requests = {request}, .of_one_core = true});
  for (size_t rank = 0; rank < 2; ++rank) {
    Rank& of = launch.ranks.emplace_back();
    for (size_t core = 0; core < 2; ++core) {
      CoreProgram program;
      if (core == 0) program.collective(0, {program.fast_tile()});
      std::vector<isa::TensorId> tiles;
      for (int i = 0; i < 24; ++i) tiles.push_back(program.tile());
      for (int i = 0; rank == 0 && i < loads; ++i) program.load(tiles[static_cast<size_t>(i) % tiles.size()]);
      of.collectives.push_back(program.collectives);
      of.cores.push_back(&launch.executables.emplace_back(program.take(16, true)));
    }
  }
  const Result result =
      simulate(arch::default_tables(), platform, launch.cores, launch.ranks, launch.collectives, packets);
  return *std::ranges::max_element(result.collectives[0].ended) -
         *std::ranges::max_element(result.collectives[0].arrived);
}

TEST(Launch, KernelsTrafficSlowsCollectivesByTheShareOfTheirPackets) {
  const arch::DmaPackets compute_first{65536, 64}, alike{4096, 4096};
  const Ps alone = length_of_sum(kPackets, 0), beside = length_of_sum(kPackets, 400);
  EXPECT_EQ(length_of_sum(compute_first, 0), alone);  // nobody to yield to
  EXPECT_LT(alone, beside);
  EXPECT_LE(beside, alone + alone / 16);  // a seventeenth at most is not theirs
  const Ps half = length_of_sum(alike, 400), yields = length_of_sum(compute_first, 400);
  EXPECT_LT(beside, half);
  EXPECT_LT(half, yields);
  EXPECT_GT(yields, alone + alone / 4);
}

// -- what would wait for itself if the backend took a collective's copies for copies

class InOrder : public testing::Test {
 protected:
  using Fill = std::function<void(CoreProgram&, size_t rank, size_t core)>;

  // Two ranks; collectives of both, all-reduces, each on the core given.
  Result run(const std::vector<int>& cores_of_collectives, int lnc, const Fill& fill, int look_ahead,
             bool tell) {
    Launch launch;
    launch.cores = collectives::place_ranks(platform_, 2, lnc, 0);
    for (const int core : cores_of_collectives) {
      collectives::Request request;
      request.kind = Kind::kAllReduce;
      request.ranks = 2;
      request.bytes = 128 * kColumns * 4;
      request.dtype = DType::kFloat32;
      launch.collectives.push_back(
          {.label = "one", .group = {0, 1}, .requests = {request}, .core = core, .of_one_core = lnc > 1});
    }
    for (size_t rank = 0; rank < 2; ++rank) {
      Rank& of = launch.ranks.emplace_back();
      for (size_t core = 0; core < static_cast<size_t>(lnc); ++core) {
        CoreProgram program;
        fill(program, rank, core);
        of.collectives.push_back(program.collectives);
        of.cores.push_back(&launch.executables.emplace_back(program.take(look_ahead, tell)));
        isa::verify(launch.executables.back());
      }
    }
    return simulate(arch::default_tables(), platform_, launch.cores, launch.ranks, launch.collectives,
                    kPackets);
  }

  // Runs to its end, each collective after the one before it on its core; and did not before the backend was
  // told what a collective is.
  void expect_ends(const std::vector<int>& cores_of_collectives, int lnc, const Fill& fill, int look_ahead) {
    try {
      run(cores_of_collectives, lnc, fill, look_ahead, false);
      ADD_FAILURE() << "nothing is wrong with this order";
    } catch (const Fault& fault) {
      EXPECT_EQ(fault.label(), "timing.deadlock");
    }
    const Result result = run(cores_of_collectives, lnc, fill, look_ahead, true);
    std::map<int, Ps> ended;
    for (size_t i = 0; i < cores_of_collectives.size(); ++i)
      for (size_t rank = 0; rank < 2; ++rank) {
        const int core = static_cast<int>(rank) * lnc + cores_of_collectives[i];
        EXPECT_GE(result.collectives[i].arrived[rank], ended[core]);
        ended[core] = result.collectives[i].ended[rank];
      }
  }

  const fabric::Platform platform_ = fabric::Platform::make(arch::default_tables(), "trn2.48xlarge");
};

// Store and copies are on one queue, the store ready long before what the first collective sends.
TEST_F(InOrder, TransfersOfALaterCollectivesResult) {
  const auto fill = [](CoreProgram& program, size_t, size_t) {
    program.collective(0, {program.slow_tile()});
    program.store(program.collective(1, {program.fast_tile()})[0]);
  };
  for (const int look_ahead : {0, 16}) expect_ends({0, 0}, 1, fill, look_ahead);
}

// With look-ahead an engine takes what the second collective gave before it goes on for the first.
TEST_F(InOrder, ComputeOnALaterCollectivesResult) {
  expect_ends(
      {0, 0}, 1,
      [](CoreProgram& program, size_t, size_t) {
        program.collective(0, {program.slow_tile()});
        const isa::TensorId arrived = program.collective(1, {program.fast_tile()})[0];
        program.add(program.tile(), arrived, arrived, isa::Engine::kVector);
      },
      16);
}

// A tile is free again once it was sent, which is when the collective has ended, not its copy alone.
TEST_F(InOrder, LoadsOverWhatACollectiveSends) {
  const auto fill = [](CoreProgram& program, size_t, size_t) {
    const isa::TensorId slow = program.slow_tile();
    program.collective(0, {program.fast_tile(), slow});
    program.load(program.fast_tile());
  };
  expect_ends({0}, 1, fill, 0);
}

// The copy of what arrived comes behind the copy of what is sent, and before the load, in one queue. That the
// second has started does not tell the load that the first is complete: the load waits for it itself.
TEST_F(InOrder, LoadsWaitForTheEndOfTheCollectiveThatSendsTheTile) {
  CoreProgram program;
  program.collective(0, {program.fast_tile()});
  program.load(program.fast_tile());
  const isa::TensorId sent = program.collectives[0].tensors.sent[0];
  const isa::Executable executable = program.take();
  const isa::ScheduledInstruction& load = executable.schedule.back();
  ASSERT_EQ(load.instruction + 1, executable.program->size());
  const auto copies_to_sent = [&](uint32_t wait) {
    const isa::Instruction& in = executable.program->instruction(executable.schedule[wait].instruction);
    return executable.program->operand(in, isa::slot::dma_copy::kDst).tensor == sent;
  };
  EXPECT_TRUE(std::ranges::any_of(executable.waits_of(load), copies_to_sent));
}

// Core 1 of rank 0 has to come to the first barrier for rank 1 to come behind the second, where core 1 there
// makes what collective 1 sends.
TEST_F(InOrder, MeetingsOfTheCoresOfARank) {
  const auto fill = [](CoreProgram& program, size_t rank, size_t core) {
    ProgramBuilder& b = program.builder();
    const isa::TensorId shared = b.hbm({128, kColumns}, DType::kFloat32, "shared");
    const auto barrier = [&] {
      const int64_t cores[] = {0, 1};
      b.append(isa::Opcode::kCoreBarrier, {b.all(shared)}, {b.program().intern_list(cores)},
               isa::Engine::kGpSimd);
    };
    if (core == 1) b.dma(b.all(shared), b.all(program.slow_tile()));
    barrier();
    if (core == 0) {
      const isa::TensorId sent = program.tile();
      b.dma(b.all(sent), b.all(shared));
      b.dma(b.all(shared), b.all(program.collective(0, {sent})[0]));
    }
    barrier();
    if (core == 0) return;
    isa::TensorId source = program.fast_tile();
    if (rank == 1) b.dma(b.all(source = program.tile()), b.all(shared));
    const isa::TensorId arrived = program.collective(1, {source})[0];
    program.add(program.tile(), arrived, arrived, isa::Engine::kGpSimd);
  };
  expect_ends({0, 1}, 2, fill, 16);
}

// The copies to what is sent are started by GpSimd, which is late; those of what arrived by Sync, which
// waits.
TEST_F(InOrder, CopiesOfOneCollectiveOnTwoEngines) {
  const auto fill = [](CoreProgram& program, size_t, size_t) {
    program.store(program.collective(0, {program.slow_tile()}, isa::DgeMode::kSwdge)[0]);
  };
  const Result result = run({0}, 1, fill, 0, true);
  EXPECT_GT(result.collectives[0].triggered[0], 10'000'000);
  EXPECT_GT(result.collectives[0].ended[0], result.collectives[0].triggered[0]);
}

TEST(Launch, OrdersThatDifferAreADeadlockAndNoHang) {
  const auto platform = fabric::Platform::make(arch::default_tables(), "trn2.48xlarge");
  Launch launch;
  launch.cores = collectives::place_ranks(platform, 2, 1, 0);
  for (int i = 0; i < 2; ++i) {
    SplitMix64 random(1);
    launch.collectives.push_back({.label = "one", .group = {0, 1}, .requests = {random_request(2, random)}});
  }
  for (size_t rank = 0; rank < 2; ++rank) {
    SplitMix64 random(2);
    CoreProgram program;
    program.collective(rank, random);
    program.collective(1 - rank, random);
    Rank& of = launch.ranks.emplace_back();
    of.collectives = {program.collectives};
    of.cores = {&launch.executables.emplace_back(program.take())};
  }
  try {
    simulate(arch::default_tables(), platform, launch.cores, launch.ranks, launch.collectives, kPackets);
    FAIL() << "it came to an end";
  } catch (const Fault& fault) {
    EXPECT_EQ(fault.label(), "timing.deadlock");
  }
}

}  // namespace
}  // namespace opentrn::sim::ranks
