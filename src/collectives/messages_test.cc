#include "collectives/messages.h"

#include <algorithm>
#include <map>
#include <tuple>

#include <gtest/gtest.h>

#include "collectives/testing/cases.h"
#include "collectives/testing/samples.h"

namespace opentrn::collectives {
namespace {

// Runs the messages as a machine would that knows nothing of plans; how many operations it could not start.
size_t stuck(const std::vector<std::vector<Operation>>& ranks) {
  std::vector<std::vector<bool>> done;
  for (const auto& list : ranks) done.emplace_back(list.size(), false);
  std::map<std::tuple<int, int, int>, int64_t> flying;
  size_t left = 0;
  for (const auto& list : ranks) left += list.size();
  for (bool moves = true; moves;) {
    moves = false;
    for (size_t rank = 0; rank < ranks.size(); ++rank)
      for (size_t i = 0; i < ranks[rank].size(); ++i) {
        const Operation& one = ranks[rank][i];
        const auto ended = [&](int32_t before) { return done[rank][static_cast<size_t>(before)]; };
        if (done[rank][i] || !std::ranges::all_of(one.after, ended)) continue;
        const int self = static_cast<int>(rank);
        if (one.kind == Operation::Kind::kSend) flying[{self, one.peer, one.tag}] = one.bytes;
        if (one.kind == Operation::Kind::kReceive) {
          const auto found = flying.find({one.peer, self, one.tag});
          if (found == flying.end()) continue;
          EXPECT_EQ(found->second, one.bytes);
          flying.erase(found);
        }
        done[rank][i] = true;
        moves = true;
        --left;
      }
  }
  EXPECT_TRUE(flying.empty());
  return left;
}

TEST(Messages, EveryPlanEnds) {
  for (const int ranks : {1, 2, 3, 8})
    for_each_case(ranks, false, [](const Case& one) {
      EXPECT_EQ(stuck(messages_of(one.algorithm.plan(one.request, one.layout))), 0U) << one.name;
    });
}

TEST(Messages, ARingSendsWhatARingSends) {
  Request request;
  request.ranks = 4;
  request.bytes = 4096;
  request.dtype = DType::kFloat32;
  const auto ranks = messages_of(make_plan("ring", request, simple_layout(4)));
  for (const auto& list : ranks) {
    int64_t sent = 0;
    for (const Operation& one : list)
      if (one.kind == Operation::Kind::kSend && one.bytes > 1) sent += one.bytes;
    EXPECT_EQ(sent, 2 * 3 * 4096 / 4);
  }
}

}  // namespace
}  // namespace opentrn::collectives
