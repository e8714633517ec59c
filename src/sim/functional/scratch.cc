#include "sim/functional/scratch.h"

#include <algorithm>
#include <cstdlib>

#include <fmt/format.h>

#include "base/fault.h"

namespace opentrn::sim {

namespace {

constexpr int64_t kAlignment = 64;
constexpr int64_t kBlockBytesMin = int64_t{1} << 20;
constexpr int64_t kBlockBytesKept = int64_t{64} << 20;

struct Free {
  void operator()(std::byte* data) const { std::free(data); }
};

struct ScratchBlock {
  std::unique_ptr<std::byte, Free> data;
  int64_t capacity;
};

ScratchBlock make_block(int64_t bytes) {
  const int64_t capacity = (std::max(bytes, kBlockBytesMin) + kAlignment - 1) / kAlignment * kAlignment;
  auto* data = static_cast<std::byte*>(std::aligned_alloc(kAlignment, static_cast<size_t>(capacity)));
  if (data == nullptr)
    throw Fault(FaultKind::kCapacity, "sim.host_memory",
                fmt::format("the host has no {} bytes of scratch", bytes));
  return {std::unique_ptr<std::byte, Free>(data), capacity};
}

}  // namespace

struct ScratchScope::Stack {
  std::vector<ScratchBlock> blocks;
  size_t block = 0;  // blocks before it are full
  int64_t used = 0;  // of blocks[block]
};

ScratchScope::Stack& ScratchScope::local() {
  thread_local Stack stack;
  return stack;
}

ScratchScope::ScratchScope() : block_(local().block), used_(local().used) {}

ScratchScope::~ScratchScope() {
  Stack& stack = local();
  stack.block = block_;
  stack.used = used_;
  if (block_ == 0 && used_ == 0 && stack.blocks.size() > 1) {  // keep one block, the largest of moderate size
    auto best = std::max_element(stack.blocks.begin(), stack.blocks.end(),
                                 [](const ScratchBlock& a, const ScratchBlock& b) {
                                   return (a.capacity <= kBlockBytesKept ? a.capacity : 0) <
                                          (b.capacity <= kBlockBytesKept ? b.capacity : 0);
                                 });
    ScratchBlock kept = std::move(*best);
    stack.blocks.clear();
    stack.blocks.push_back(std::move(kept));
  }
}

std::byte* ScratchScope::bytes(int64_t count) {
  Stack& stack = local();
  const int64_t rounded = (std::max<int64_t>(count, 1) + kAlignment - 1) / kAlignment * kAlignment;
  while (true) {
    if (stack.block == stack.blocks.size()) {
      const int64_t previous = stack.blocks.empty() ? 0 : stack.blocks.back().capacity;
      stack.blocks.push_back(make_block(std::max(rounded, 2 * std::min(previous, kBlockBytesKept / 2))));
    }
    ScratchBlock& block = stack.blocks[stack.block];
    if (stack.used + rounded <= block.capacity) {
      std::byte* result = block.data.get() + stack.used;
      stack.used += rounded;
      return result;
    }
    ++stack.block;
    stack.used = 0;
  }
}

}  // namespace opentrn::sim
