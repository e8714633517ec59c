#include "serving/block_pool.h"

#include <algorithm>
#include <deque>

#include <gtest/gtest.h>

#include "base/random.h"

namespace opentrn::serving {
namespace {

BlockHash name_of(uint64_t content) { return chained(BlockHash{}, content); }

// The same rules with a list that is searched from end to end.
class SlowPool {
 public:
  explicit SlowPool(int32_t blocks)
      : names_(static_cast<size_t>(blocks)), holders_(static_cast<size_t>(blocks)) {
    for (BlockId id = 1; id < blocks; ++id) free_.push_back(id);
  }
  BlockId cached(uint64_t content) const {
    BlockId oldest = -1;
    for (size_t id = 0; id < names_.size(); ++id)
      if (names_[id].first == content &&
          (oldest < 0 || names_[id].second < names_[static_cast<size_t>(oldest)].second))
        oldest = static_cast<BlockId>(id);
    return oldest;
  }
  void hold(BlockId id) {
    if (holders_[static_cast<size_t>(id)]++ == 0) std::erase(free_, id);
  }
  std::vector<BlockId> take(int32_t count) {
    std::vector<BlockId> out(free_.begin(), free_.begin() + count);
    for (const BlockId id : out) {
      names_[static_cast<size_t>(id)] = {};
      hold(id);
    }
    return out;
  }
  void release(const std::vector<BlockId>& blocks) {
    std::vector<BlockId> first;
    for (auto it = blocks.rbegin(); it != blocks.rend(); ++it) {
      if (--holders_[static_cast<size_t>(*it)] > 0) continue;
      if (names_[static_cast<size_t>(*it)].first != 0)
        free_.push_back(*it);
      else
        first.push_back(*it);
    }
    free_.insert(free_.begin(), first.begin(), first.end());
  }
  void name(BlockId id, uint64_t content) {
    auto& name = names_[static_cast<size_t>(id)];
    if (name.first == 0) name = {content, ++named_};
  }
  int32_t free() const { return static_cast<int32_t>(free_.size()); }

 private:
  std::vector<std::pair<uint64_t, int64_t>> names_;  // content and when it was named; 0: none
  std::vector<int32_t> holders_;
  std::deque<BlockId> free_;
  int64_t named_ = 0;
};

// Random requests take, share, name and release; both pools give the same blocks at every moment.
TEST(BlockPool, IsTheSlowOne) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SplitMix64 random(seed);
    const int32_t blocks = 2 + static_cast<int32_t>(random.below(40));
    BlockPool pool(blocks, true);
    SlowPool slow(blocks);
    std::vector<std::vector<BlockId>> tables;
    for (int i = 0; i < 400; ++i) {
      if (random.below(3) > 0 || tables.empty()) {
        std::vector<BlockId> table;
        while (true) {
          const BlockId found = pool.cached(name_of(1 + random.below(12)));
          if (found < 0 || random.below(3) == 0) break;
          if (std::find(table.begin(), table.end(), found) != table.end()) break;
          pool.hold({{found}});
          slow.hold(found);
          table.push_back(found);
        }
        const auto count = static_cast<int32_t>(random.below(static_cast<uint32_t>(pool.free_blocks()) + 1));
        const size_t before = table.size();
        pool.take(count, table);
        ASSERT_EQ(slow.take(count),
                  std::vector<BlockId>(table.begin() + static_cast<int64_t>(before), table.end()));
        for (size_t at = before; at < table.size() && random.below(4) > 0; ++at) {
          const uint64_t content = 1 + random.below(12);
          pool.name(table[at], name_of(content));
          slow.name(table[at], content);
        }
        tables.push_back(std::move(table));
      } else {
        const size_t which = random.below(static_cast<uint32_t>(tables.size()));
        pool.release(tables[which]);
        slow.release(tables[which]);
        tables.erase(tables.begin() + static_cast<int64_t>(which));
      }
      std::vector<const std::vector<BlockId>*> held;
      for (const auto& table : tables) held.push_back(&table);
      ASSERT_EQ(pool.audit(held), "");
      ASSERT_EQ(pool.free_blocks(), slow.free());
      for (uint64_t content = 1; content < 13; ++content)
        ASSERT_EQ(pool.cached(name_of(content)), slow.cached(content));
    }
  }
}

TEST(BlockPool, AuditFindsALostBlock) {
  BlockPool pool(4, true);
  std::vector<BlockId> table;
  pool.take(2, table);
  table.pop_back();
  const std::vector<BlockId>* tables[] = {&table};
  EXPECT_NE(pool.audit(tables), "");
}

}  // namespace
}  // namespace opentrn::serving
