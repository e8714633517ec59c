#include "sim/functional/buffer.h"

#include <cstring>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <mutex>
#include <new>

#ifdef __linux__
#include <sys/mman.h>
#endif

#include <fmt/format.h>

#include "base/fault.h"
#include "base/host_memory.h"

namespace opentrn::sim {

namespace {

constexpr size_t kAlignment = 64;
constexpr int64_t kCapacityQuantum = 256;

// From here on the kernel is asked for huge pages: touching a gigabyte of weights by 4 KiB pages takes
// seconds on a virtual machine.
constexpr int64_t kHugePage = int64_t{2} << 20;
constexpr int64_t kHugeFrom = 8 * kHugePage;
// Tensors so large are asked for before they are allocated.
constexpr int64_t kAskFrom = int64_t{1} << 30;

std::byte* allocate_aligned(int64_t capacity) {
  const bool huge = capacity >= kHugeFrom;
  if (capacity >= kAskFrom) expect_host_memory(capacity, "a tensor");
  const size_t alignment = huge ? kHugePage : kAlignment;
  const size_t size = (static_cast<size_t>(capacity) + alignment - 1) / alignment * alignment;
  void* data = std::aligned_alloc(alignment, size);
#ifdef __linux__
  if (huge && data != nullptr)
    ::madvise(data, size, MADV_HUGEPAGE);  // advice: no page is lost if it is not taken
#endif
  if (data == nullptr)
    throw Fault(FaultKind::kCapacity, "host_memory",
                fmt::format("the host has no {} bytes for a tensor", capacity),
                "a smaller model or batch, or a host with more memory");
  return static_cast<std::byte*>(data);
}

int64_t capacity_for(int64_t bytes) {
  return std::max<int64_t>(kCapacityQuantum,
                           (bytes + kCapacityQuantum - 1) / kCapacityQuantum * kCapacityQuantum);
}

// std::popcount is a function call on baseline x86-64, which has no instruction for it.
int64_t bits_in(uint64_t word) {
  constexpr uint64_t kEach2 = 0x5555555555555555, kEach4 = 0x3333333333333333, kEach8 = 0x0F0F0F0F0F0F0F0F;
  word -= word >> 1 & kEach2;
  word = (word & kEach4) + (word >> 2 & kEach4);
  word = (word + (word >> 4)) & kEach8;
  return static_cast<int64_t>(word * 0x0101010101010101 >> 56);
}

}  // namespace

// -- ByteMask

void ByteMask::set_range(int64_t begin, int64_t end) {
  words_.clear();
  begin_ = begin;
  count_.store(end - begin, std::memory_order_relaxed);
}

void ByteMask::set_all() { set_range(0, bytes_); }
void ByteMask::clear_all() { set_range(0, 0); }

void ByteMask::materialise() {
  if (!words_.empty()) return;
  words_.assign((bytes_ + 63) / 64, 0);
  for_words(begin_, count(), [&](int64_t i, uint64_t bits) { words_[i] |= bits; });
}

// Calls word(index, bits of that word inside the range).
template <typename Word>
void ByteMask::for_words(int64_t begin, int64_t length, Word&& word) {
  if (length <= 0) return;
  const int64_t end = begin + length, last = (end - 1) / 64;
  int64_t index = begin / 64;
  const uint64_t from_begin = ~uint64_t{0} << (begin % 64), to_end = ~uint64_t{0} >> (63 - (end - 1) % 64);
  if (index == last) return word(index, from_begin & to_end);
  word(index++, from_begin);
  for (; index < last; ++index) word(index, ~uint64_t{0});  // whole words: several at once
  word(last, to_end);
}

// The same for ranges that lie `stride` apart. Where several begin in a word, their bits repeat from word to
// word if the stride divides its size: elements of 4 bytes, every second one, are 0x0F0F...
template <typename Word>
void ByteMask::for_words_of_each(int64_t begin, int64_t length, int64_t stride, int64_t count, Word&& word) {
  if (length <= 0 || count <= 0) return;
  if (stride == length) return for_words(begin, length * count, word);
  if (stride % 64 == 0 && begin / 64 == (begin + length - 1) / 64) {  // the same bits of one word each
    for_words(begin, length, [&](int64_t first, uint64_t bits) {
      for (int64_t i = 0; i < count; ++i) word(first + i * (stride / 64), bits);
    });
    return;
  }
  if (stride > 64 || stride < length || !std::has_single_bit(static_cast<uint64_t>(stride))) {
    for (int64_t i = 0; i < count; ++i) for_words(begin + i * stride, length, word);
    return;
  }
  uint64_t pattern = 0;
  for (int64_t at = 0; at < 64; at += stride) pattern |= ((uint64_t{1} << length) - 1) << at;
  pattern = std::rotl(pattern, static_cast<int>(begin % stride));
  for_words(begin, (count - 1) * stride + length, [&](int64_t i, uint64_t bits) { word(i, bits & pattern); });
}

void ByteMask::set_each(int64_t begin, int64_t length, int64_t stride, int64_t count) {
  if (all() || length <= 0 || count <= 0) return;
  if (count == 1 || stride == length) return set(begin, length * count);
  materialise();
  int64_t added = 0;
  for_words_of_each(begin, length, stride, count, [&](int64_t i, uint64_t bits) {
    const uint64_t fresh = bits & ~words_[static_cast<size_t>(i)];
    added += fresh == ~uint64_t{0} ? 64 : bits_in(fresh);
    words_[static_cast<size_t>(i)] |= bits;
  });
  add(added);
  if (all()) set_all();
}

bool ByteMask::test_all_of_each(int64_t begin, int64_t length, int64_t stride, int64_t count) const {
  if (all() || length <= 0 || count <= 0) return true;
  const int64_t end = begin + (count - 1) * stride + length;
  if (words_.empty()) return begin_ <= begin && end <= begin_ + this->count();
  bool result = true;
  for_words_of_each(begin, length, stride, count, [&](int64_t i, uint64_t bits) {
    result &= (words_[static_cast<size_t>(i)] & bits) == bits;
  });
  return result;
}

void ByteMask::set(int64_t begin, int64_t length) {
  if (all() || length <= 0) return;
  const int64_t end = begin + length;
  if (none()) return set_range(begin, end);
  if (words_.empty() && begin <= begin_ + count() && begin_ <= end)  // the ranges touch
    return set_range(std::min(begin, begin_), std::max(end, begin_ + count()));
  materialise();
  int64_t added = 0;
  for_words(begin, length, [&](int64_t i, uint64_t bits) {
    const uint64_t fresh =
        bits & ~words_[i];  // mostly all of the word or, of a word at the range's ends, a part
    added += fresh == ~uint64_t{0} ? 64 : bits_in(fresh);
    words_[i] |= bits;
  });
  add(added);
  if (all()) set_all();
}

void ByteMask::clear(int64_t begin, int64_t length) {
  if (none() || length <= 0) return;
  if (length == bytes_) return clear_all();
  materialise();
  int64_t removed = 0;
  for_words(begin, length, [&](int64_t i, uint64_t bits) {
    removed += bits_in(bits & words_[i]);
    words_[i] &= ~bits;
  });
  add(-removed);
  if (none()) clear_all();
}

bool ByteMask::test_all(int64_t begin, int64_t length) const {
  if (all() || length <= 0) return true;
  if (words_.empty()) return begin_ <= begin && begin + length <= begin_ + count();
  bool result = true;
  for_words(begin, length, [&](int64_t i, uint64_t bits) { result &= (words_[i] & bits) == bits; });
  return result;
}

bool ByteMask::test_none(int64_t begin, int64_t length) const {
  if (none() || length <= 0) return true;
  if (words_.empty()) return begin + length <= begin_ || begin_ + count() <= begin;
  bool result = true;
  for_words(begin, length, [&](int64_t i, uint64_t bits) { result &= (words_[i] & bits) == 0; });
  return result;
}

// -- Buffer

Buffer::Buffer(std::byte* data, int64_t bytes, bool writable, std::shared_ptr<void> owner)
    : data_(data),
      bytes_(bytes),
      row_bytes_(bytes),
      row_pitch_(bytes),
      writable_(writable),
      owner_(std::move(owner)),
      initialised_(bytes),
      accumulatable_(bytes) {}

Buffer::~Buffer() {
  if (owned_capacity_ > 0) std::free(data_);
}

std::shared_ptr<Buffer> Buffer::allocate(int64_t bytes) {
  OPENTRN_CHECK(bytes >= 0, "{} bytes", bytes);
  const int64_t capacity = capacity_for(bytes);
  std::shared_ptr<Buffer> buffer(new Buffer(allocate_aligned(capacity), bytes, true, nullptr));
  buffer->owned_capacity_ = capacity;
  return buffer;
}

std::shared_ptr<Buffer> Buffer::wrap(void* data, int64_t bytes, std::shared_ptr<void> owner,
                                     bool initialised) {
  std::shared_ptr<Buffer> buffer(new Buffer(static_cast<std::byte*>(data), bytes, true, std::move(owner)));
  if (initialised) buffer->initialised_.set_all();
  return buffer;
}

std::shared_ptr<Buffer> Buffer::wrap_read_only(const void* data, int64_t bytes, std::shared_ptr<void> owner) {
  auto* bytes_of =
      const_cast<std::byte*>(static_cast<const std::byte*>(data));  // never written: writable_ is false
  std::shared_ptr<Buffer> buffer(new Buffer(bytes_of, bytes, false, std::move(owner)));
  buffer->initialised_.set_all();
  return buffer;
}

std::shared_ptr<Buffer> Buffer::placed(std::byte* first_row, int64_t rows, int64_t row_bytes,
                                       int64_t row_pitch, std::shared_ptr<void> owner) {
  std::shared_ptr<Buffer> buffer(new Buffer(first_row, rows * row_bytes, true, std::move(owner)));
  buffer->row_bytes_ = row_bytes;
  buffer->row_pitch_ = row_pitch;
  return buffer;
}

std::shared_ptr<Buffer> Buffer::folded(std::byte* data, int64_t bytes, int64_t row_bytes, int64_t row_pitch,
                                       int64_t fold_rows, std::shared_ptr<void> owner) {
  std::shared_ptr<Buffer> buffer(new Buffer(data, bytes, true, std::move(owner)));
  buffer->row_bytes_ = row_bytes;
  buffer->row_pitch_ = row_pitch;
  buffer->fold_rows_ = fold_rows;
  return buffer;
}

void Buffer::set_row_bytes(int64_t row_bytes) {
  if (!contiguous() || row_bytes == 0) return;
  row_bytes_ = row_pitch_ = row_bytes;
}

int64_t Buffer::logical(const std::byte* address) const {
  const int64_t offset = address - data_;
  if (contiguous()) return offset;
  return offset / row_pitch_ * row_bytes_ + offset % row_pitch_;
}

void Buffer::reset_masks() {
  initialised_.clear_all();
  accumulatable_.clear_all();
  unwritten_origin_.clear();
}

// -- BufferPool

bool BlockList::put(Block block) {
  while (blocks_.size() == kBlocksMax || bytes_ + block.capacity > kBytesMax) {
    const auto smallest = std::ranges::min_element(blocks_, {}, &Block::capacity);
    if (smallest == blocks_.end() || smallest->capacity >= block.capacity) return false;
    std::free(smallest->data);
    bytes_ -= smallest->capacity;
    blocks_.erase(smallest);
  }
  blocks_.push_back(block);
  bytes_ += block.capacity;
  return true;
}

std::optional<BlockList::Block> BlockList::take(int64_t capacity) {
  for (size_t i = blocks_.size(); i-- > 0;) {
    const Block block = blocks_[i];
    if (block.capacity < capacity || block.capacity > 2 * capacity) continue;
    blocks_.erase(blocks_.begin() + static_cast<std::ptrdiff_t>(i));
    bytes_ -= block.capacity;
    return block;
  }
  return std::nullopt;
}

namespace {

// What the pools of earlier launches left: fresh memory of the system costs a page fault per 4 KiB, which for
// element-wise kernels is as much as their arithmetic.
struct Spare {
  std::mutex mutex;
  BlockList list;
};
Spare& spare() {
  static auto* instance = new Spare;  // outlives every buffer
  return *instance;
}

}  // namespace

BufferPool::~BufferPool() {
  std::lock_guard guard(spare().mutex);
  while (const auto block = free_.take_any())
    if (!spare().list.put(*block)) std::free(block->data);
}

void Buffer::fill_fresh(DType dtype) {
  if (!is_integer(dtype)) {
    std::memset(data_, 0xFF, static_cast<size_t>(bytes_));  // a NaN in every floating format
    return;
  }
  std::memset(data_, 0, static_cast<size_t>(bytes_));
  for (int64_t i = 0; i < bytes_; i += size_bytes(dtype)) data_[i] = std::byte{4};
}

void Buffer::fill_when_needed(DType dtype) {
  fill_dtype_ = dtype;
  awaits_fill_.store(true, std::memory_order_release);
}

void Buffer::settle_fill(bool every_byte_is_written) {
  std::lock_guard guard(mask_lock_);
  if (!awaits_fill_.load(std::memory_order_relaxed)) return;  // another thread was faster
  if (!every_byte_is_written) fill_fresh(fill_dtype_);
  awaits_fill_.store(false, std::memory_order_release);
}

std::shared_ptr<Buffer> BufferPool::allocate(int64_t bytes) {
  bytes_in_use_ += bytes;
  bytes_peak_ = std::max(bytes_peak_, bytes_in_use_);
  const int64_t capacity = capacity_for(bytes);
  std::optional<BlockList::Block> block = free_.take(capacity);
  if (!block) {
    std::lock_guard guard(spare().mutex);
    block = spare().list.take(capacity);
  }
  if (block) {
    std::shared_ptr<Buffer> buffer(new Buffer(block->data, bytes, true, nullptr));
    buffer->owned_capacity_ = block->capacity;
    return buffer;
  }
  return Buffer::allocate(bytes);
}

void BufferPool::recycle(std::shared_ptr<Buffer> buffer) {
  bytes_in_use_ -= buffer->bytes();
  const bool ours = buffer.use_count() == 1 && buffer->owned_capacity_ > 0;
  if (!ours || !free_.put({buffer->data_, buffer->owned_capacity_})) return;
  buffer->owned_capacity_ = 0;
}

}  // namespace opentrn::sim
