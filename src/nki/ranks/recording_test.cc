#include "nki/ranks/recording.h"

#include <gtest/gtest.h>

namespace opentrn::nki {
namespace {

CollectiveRecord record_of(std::vector<int> group, std::string what) {
  CollectiveRecord record;
  record.function = "permute";
  record.what = std::move(what);
  record.group = std::move(group);
  record.bytes = 96;
  record.priority = 2;
  record.where = {"kernel.py", 12, "kernel"};
  collectives::Request& request = record.requests.emplace_back();
  request.kind = collectives::Kind::kPermute;
  request.ranks = 2;
  request.bytes = 96;
  request.pairs = {{0, 1}, {1, 0}};
  return record;
}

// One core whose collectives have these numbers in the records of its process.
std::vector<std::byte> rank_of(const std::vector<size_t>& marks,
                               const std::vector<CollectiveRecord>& records) {
  RecordedRank rank;
  rank.generation = Generation::kV3;
  rank.moves_rows = true;
  rank.trips[7].runs = {{3, 2}, {5, 1}};
  RecordedCore& core = rank.cores.emplace_back();
  core.program = std::make_shared<isa::Program>();
  core.program->name = "kernel";
  for (const size_t mark : marks) core.collectives.push_back({mark, 10 * mark, 10 * mark + 1, 10 * mark + 2});
  return encode(rank, records);
}

std::vector<std::span<const std::byte>> spans_of(const std::vector<std::vector<std::byte>>& ranks) {
  return {ranks.begin(), ranks.end()};
}

// Three processes have a rank each, and number what they have met at as it came.
TEST(Recording, CollectivesOfOneGroupAreTheSameInAllProcesses) {
  const std::vector<std::vector<std::byte>> ranks = {
      rank_of({0, 1, 2}, {record_of({0, 1}, "a"), record_of({0, 2}, "b"), record_of({0, 1}, "c")}),
      rank_of({0, 1}, {record_of({0, 1}, "a"), record_of({0, 1}, "c")}),
      rank_of({0}, {record_of({0, 2}, "b")}),
  };
  const RecordedLaunch launch = decode_launch(spans_of(ranks));
  std::vector<std::string> what;
  for (const CollectiveRecord& record : launch.records) what.push_back(record.what);
  EXPECT_EQ(what, (std::vector<std::string>{"a", "b", "c"}));
  ASSERT_EQ(launch.ranks.size(), 3U);
  std::vector<std::vector<size_t>> numbers;
  for (const RecordedRank& rank : launch.ranks) {
    auto& own = numbers.emplace_back();
    for (const auto& mark : rank.cores.at(0).collectives) own.push_back(mark.record);
  }
  EXPECT_EQ(numbers, (std::vector<std::vector<size_t>>{{0, 1, 2}, {0, 2}, {1}}));
}

TEST(Recording, WhatATimeNeedsComesBack) {
  const std::vector<std::vector<std::byte>> ranks = {rank_of({0}, {record_of({0, 1}, "a")})};
  const RecordedLaunch launch = decode_launch(spans_of(ranks));
  const RecordedRank& rank = launch.ranks.at(0);
  EXPECT_EQ(rank.generation, Generation::kV3);
  EXPECT_TRUE(rank.moves_rows);
  ASSERT_EQ(rank.trips.at(7).runs.size(), 2U);
  EXPECT_EQ(rank.trips.at(7).runs[0].iterations, 3);
  EXPECT_EQ(rank.trips.at(7).runs[1].entries, 1);
  EXPECT_EQ(rank.cores.at(0).program->name, "kernel");
  const CollectiveRecord& record = launch.records.at(0);
  EXPECT_EQ(record.bytes, 96);
  EXPECT_EQ(record.priority, 2);
  EXPECT_EQ(record.where.line, 12);
  EXPECT_EQ(record.requests.at(0).pairs, (std::vector<std::pair<int, int>>{{0, 1}, {1, 0}}));
}

TEST(Recording, HalfARankIsRefused) {
  std::vector<std::vector<std::byte>> ranks = {rank_of({0}, {record_of({0, 1}, "a")})};
  ranks[0].resize(ranks[0].size() / 2);
  EXPECT_THROW(decode_launch(spans_of(ranks)), Fault);
}

}  // namespace
}  // namespace opentrn::nki
