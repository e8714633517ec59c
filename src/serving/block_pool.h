// The blocks of the KV cache: which are free, who holds which, and which contents they have.
//
// The rules are those of vLLM's BlockPool, so that the two give out the same blocks in the same order: block
// 0 is the null block and never given out; blocks are taken from the front of the free list; what is returned
// goes to its end if the prefix cache knows it (so it lives long), and to its front if not; a block on the
// free list stays in the prefix cache until it is given out again.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "serving/block_hash.h"
#include "serving/request.h"

namespace opentrn::serving {

class BlockPool {
 public:
  // `blocks`: with the null block, at least 2.
  BlockPool(int32_t blocks, bool prefix_caching);

  bool prefix_caching() const { return prefix_caching_; }
  int32_t blocks() const { return static_cast<int32_t>(blocks_.size()); }
  int32_t usable_blocks() const { return blocks() - 1; }  // without the null block
  int32_t free_blocks() const { return free_; }
  // Fraction of the usable blocks that requests hold.
  double usage() const { return 1.0 - static_cast<double>(free_) / usable_blocks(); }

  // The block with these contents that has been in the cache for longest, or -1.
  BlockId cached(const BlockHash& hash) const;
  // Whether nobody holds the block, so that holding it takes one from the free list.
  bool idle(BlockId block) const { return blocks_[index(block)].holders == 0; }
  // One more holder of each; at most free_blocks() of them are idle.
  void hold(std::span<const BlockId> blocks);
  // Appends `count` blocks, at most free_blocks(), with one holder each; their old contents are forgotten.
  void take(int32_t count, std::vector<BlockId>& out);
  // One holder less of each. `blocks` in the order of a request: the last is given out again first.
  void release(std::span<const BlockId> blocks);
  // From now on the block can be found by its contents; a block that has a name keeps it.
  void name(BlockId block, const BlockHash& hash);

  // What is wrong with the books, given every block table in use: empty, or a sentence. Slow: for tests.
  std::string audit(std::span<const std::vector<BlockId>* const> tables) const;

 private:
  static constexpr BlockId kNone = -1;
  struct Block {
    BlockId before = kNone, after = kNone;  // on the free list
    int32_t holders = 0;
    bool named = false;
    BlockHash hash;
    BlockId twin = kNone;  // the next block with the same contents
  };

  static size_t index(BlockId block) { return static_cast<size_t>(block); }
  void unlink(BlockId block);
  void link(BlockId block, BlockId before);  // behind `before`
  void forget(BlockId block);

  bool prefix_caching_;
  std::vector<Block> blocks_;
  int32_t free_ = 0;
  std::unordered_map<BlockHash, BlockId, BlockHashHasher> by_hash_;  // the oldest of its twins
};

}  // namespace opentrn::serving
