#include "serving/block_pool.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/fault.h"

namespace opentrn::serving {

// The free list is a ring through block 0: the null block is never on it, so it is its head.
BlockPool::BlockPool(int32_t blocks, bool prefix_caching) : prefix_caching_(prefix_caching) {
  OPENTRN_CHECK(blocks >= 2, "a pool of {} blocks", blocks);
  blocks_.resize(index(blocks));
  for (BlockId id = 0; id < blocks; ++id) {
    blocks_[index(id)].before = id == 0 ? blocks - 1 : id - 1;
    blocks_[index(id)].after = id + 1 == blocks ? 0 : id + 1;
  }
  free_ = blocks - 1;
}

BlockId BlockPool::cached(const BlockHash& hash) const {
  const auto found = by_hash_.find(hash);
  return found == by_hash_.end() ? kNone : found->second;
}

void BlockPool::unlink(BlockId block) {
  Block& b = blocks_[index(block)];
  blocks_[index(b.before)].after = b.after;
  blocks_[index(b.after)].before = b.before;
  b.before = b.after = kNone;
  --free_;
}

void BlockPool::link(BlockId block, BlockId before) {
  Block& b = blocks_[index(block)];
  b.before = before;
  b.after = blocks_[index(before)].after;
  blocks_[index(b.after)].before = block;
  blocks_[index(before)].after = block;
  ++free_;
}

void BlockPool::hold(std::span<const BlockId> blocks) {
  for (const BlockId block : blocks) {
    if (idle(block)) unlink(block);
    ++blocks_[index(block)].holders;
  }
}

void BlockPool::forget(BlockId block) {
  Block& b = blocks_[index(block)];
  if (!b.named) return;
  const auto found = by_hash_.find(b.hash);
  if (found->second == block) {
    if (b.twin == kNone)
      by_hash_.erase(found);
    else
      found->second = b.twin;
  } else {
    BlockId at = found->second;
    while (blocks_[index(at)].twin != block) at = blocks_[index(at)].twin;
    blocks_[index(at)].twin = b.twin;
  }
  b.named = false;
  b.twin = kNone;
}

void BlockPool::take(int32_t count, std::vector<BlockId>& out) {
  OPENTRN_CHECK(count <= free_, "{} blocks of {} that are free", count, free_);
  for (int32_t i = 0; i < count; ++i) {
    const BlockId block = blocks_[0].after;
    unlink(block);
    forget(block);
    blocks_[index(block)].holders = 1;
    out.push_back(block);
  }
}

void BlockPool::release(std::span<const BlockId> blocks) {
  BlockId front = 0;
  for (auto it = blocks.rbegin(); it != blocks.rend(); ++it) {
    Block& b = blocks_[index(*it)];
    OPENTRN_CHECK(b.holders > 0, "block {} is released by nobody who holds it", *it);
    if (--b.holders > 0) continue;
    if (b.named) {
      link(*it, blocks_[0].before);
    } else {
      link(*it, front);
      front = *it;
    }
  }
}

void BlockPool::name(BlockId block, const BlockHash& hash) {
  Block& b = blocks_[index(block)];
  if (!prefix_caching_ || b.named) return;
  b.named = true;
  b.hash = hash;
  const auto [found, fresh] = by_hash_.try_emplace(hash, block);
  if (fresh) return;
  BlockId at = found->second;
  while (blocks_[index(at)].twin != kNone) at = blocks_[index(at)].twin;
  blocks_[index(at)].twin = block;
}

std::string BlockPool::audit(std::span<const std::vector<BlockId>* const> tables) const {
  std::vector<int32_t> holders(blocks_.size()), listed(blocks_.size());
  for (const auto* table : tables)
    for (const BlockId block : *table) {
      if (block <= 0 || block >= blocks()) return fmt::format("a request holds block {}", block);
      ++holders[index(block)];
    }
  int32_t count = 0;
  for (BlockId at = blocks_[0].after; at != 0; at = blocks_[index(at)].after) {
    if (blocks_[index(blocks_[index(at)].after)].before != at) return fmt::format("links at block {}", at);
    if (++listed[index(at)] > 1) return fmt::format("block {} is on the free list twice", at);
    ++count;
  }
  if (count != free_) return fmt::format("{} blocks on the free list, {} in its count", count, free_);
  size_t named = 0;
  for (BlockId id = 1; id < blocks(); ++id) {
    const Block& b = blocks_[index(id)];
    if (b.holders != holders[index(id)])
      return fmt::format("block {} has {} holders, {} tables have it", id, b.holders, holders[index(id)]);
    if ((b.holders == 0) != (listed[index(id)] == 1))
      return fmt::format("block {} has {} holders and is {}on the free list", id, b.holders,
                         listed[index(id)] ? "" : "not ");
    if (!b.named) continue;
    ++named;
    BlockId at = cached(b.hash);
    while (at != kNone && at != id) at = blocks_[index(at)].twin;
    if (at != id) return fmt::format("block {} has a name that does not find it", id);
  }
  for (const auto& [hash, first] : by_hash_)
    for (BlockId at = first; at != kNone; at = blocks_[index(at)].twin) {
      if (!blocks_[index(at)].named || blocks_[index(at)].hash != hash)
        return fmt::format("block {} is found by a name that it does not have", at);
      --named;
    }
  if (named != 0) return fmt::format("{} names more than blocks that are found by one", named);
  return {};
}

}  // namespace opentrn::serving
