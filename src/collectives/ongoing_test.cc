#include "collectives/ongoing.h"

#include <deque>

#include <gtest/gtest.h>

#include "base/random.h"
#include "collectives/choose.h"
#include "collectives/predict.h"

namespace opentrn::collectives {
namespace {

// Runs that start one after the other on one instance.
class Chain {
 public:
  void add(const Request& request, const RankCores& cores, int64_t start_ps) {
    const arch::Tables& tables = arch::default_tables();
    const Layout layout = layout_of(platform_, cores);
    const auto choice = choose(tables, platform_.generation(), request, layout);
    plans_.push_back(choice.algorithm.plan(request, layout));
    runs_.push_back({&plans_.back(), costs_of(tables, platform_.generation(), choice.algorithm.name), cores,
                     std::vector<int64_t>(cores.size(), start_ps), 0});
  }
  const fabric::Platform& platform() const { return platform_; }
  const std::vector<Run>& runs() const { return runs_; }
  OngoingRuns joined() const {
    OngoingRuns all(platform_);
    for (const Run& run : runs_) all.join(std::span(&run, 1), run.arrivals_ps[0]);
    return all;
  }

 private:
  fabric::Platform platform_ = fabric::Platform::make(arch::default_tables(), "trn2.48xlarge");
  std::deque<Plan> plans_;
  std::vector<Run> runs_;
};

TEST(Ongoing, RunsThatJoinHaveTheTimesOfAllFromTheBeginning) {
  int overlap = 0;
  for (uint64_t seed = 0; seed < 25; ++seed) {
    SplitMix64 random(seed);
    Chain chain;
    int64_t now = 0;
    for (uint32_t i = 0, count = 2 + random.below(9); i < count; ++i) {
      const Kind kinds[] = {Kind::kAllReduce, Kind::kAllGather, Kind::kReduceScatter, Kind::kAllToAll};
      const int ranks = 2 + static_cast<int>(random.below(5)), first = static_cast<int>(random.below(12));
      RankCores cores;
      for (int rank = 0; rank < ranks; ++rank) cores.push_back({first + 2 * rank});
      Request request;
      request.kind = kinds[random.below(4)];
      request.ranks = ranks;
      request.bytes = ranks * (int64_t{1024} << random.below(9));
      request.dtype = DType::kFloat32;
      chain.add(request, cores, now);
      now += static_cast<int64_t>(random.below(20'000'000));  // some at once
      if (random.below(4) == 0) now = chain.runs().back().arrivals_ps[0];
    }
    const Timing slow = time_of(chain.platform(), chain.runs(), Folding::kNone);
    const OngoingRuns all = chain.joined();
    ASSERT_EQ(all.size(), chain.runs().size());
    for (size_t i = 0; i < all.size(); ++i) {
      const RunTime found = all.time(i);
      ASSERT_EQ(found.ends_ps, slow.runs[i].ends_ps) << seed << " " << i;
      for (size_t rank = 0; rank < found.steps.size(); ++rank)
        for (size_t step = 0; step < found.steps[rank].size(); ++step) {
          ASSERT_EQ(found.steps[rank][step].start_ps, slow.runs[i].steps[rank][step].start_ps);
          ASSERT_EQ(found.steps[rank][step].end_ps, slow.runs[i].steps[rank][step].end_ps);
        }
      overlap += i > 0 && chain.runs()[i].arrivals_ps[0] < slow.runs[i - 1].end_ps();
    }
  }
  EXPECT_GT(overlap, 30);
}

// Two groups over the same stacks, each of whose sums begins in the middle of the other's.
int64_t steps_of_chain(int sums) {
  Chain chain;
  Request request;
  request.kind = Kind::kAllReduce;
  request.ranks = 2;
  request.bytes = 1 << 20;
  request.dtype = DType::kFloat32;
  chain.add(request, {{0}, {2}}, 0);
  const int64_t half = time_of(chain.platform(), chain.runs()).end_ps() / 2;
  for (int i = 1; i < sums; ++i)
    chain.add(request, i % 2 == 0 ? RankCores{{0}, {2}} : RankCores{{1}, {3}}, i * half);
  return chain.joined().steps_simulated();
}

TEST(Ongoing, AStartOfAChainCostsWhatIsLeft) {
  const int64_t short_chain = steps_of_chain(50), long_chain = steps_of_chain(200);
  EXPECT_LT(long_chain, 5 * short_chain);  // four times the starts
}

}  // namespace
}  // namespace opentrn::collectives
