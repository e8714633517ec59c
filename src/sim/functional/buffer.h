// Buffer: the bytes of one tensor, with a memory of which bytes were ever written.
//
// A buffer owns its bytes, or wraps memory of somebody else (a numpy array) without copying. Rows are
// `row_pitch` bytes apart: for the tensors of a Program that is the row length; for tensors placed in a
// physical SBUF or PSUM it is the partition size, so that the same instruction bodies run on both.
// Masks are addressed by *logical* bytes, row * row_bytes + column, whatever the pitch.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/spin_lock.h"
#include "numerics/dtype.h"

namespace opentrn::sim {

// One bit per byte of a tensor; starts all clear. A single range, and so "all" and "none", needs no storage.
//
// Instructions on disjoint parts of a tensor may run at the same time: they hold the buffer's lock around
// everything but all(), none() and count(), which need none for a part that only they touch.
class ByteMask {
 public:
  explicit ByteMask(int64_t bytes) : bytes_(bytes) {}

  bool all() const { return count() == bytes_; }
  bool none() const { return count() == 0; }
  void set_all();
  void clear_all();
  void set(int64_t begin, int64_t length);
  void clear(int64_t begin, int64_t length);
  // The same for `count` ranges of `length` bytes, the first from `begin` on, `stride` > 0 apart.
  void set_each(int64_t begin, int64_t length, int64_t stride, int64_t count);
  // True when every byte of the range is set.
  bool test_all(int64_t begin, int64_t length) const;
  bool test_none(int64_t begin, int64_t length) const;
  // Of ranges as set_each() takes them.
  bool test_all_of_each(int64_t begin, int64_t length, int64_t stride, int64_t count) const;
  int64_t count() const { return count_.load(std::memory_order_relaxed); }

 private:
  template <typename Word>
  static void for_words(int64_t begin, int64_t length, Word&& word);
  template <typename Word>
  static void for_words_of_each(int64_t begin, int64_t length, int64_t stride, int64_t count, Word&& word);
  void set_range(int64_t begin, int64_t end);
  void add(int64_t change) { count_.store(count() + change, std::memory_order_relaxed); }
  void materialise();

  int64_t bytes_;
  std::atomic<int64_t> count_ = 0;
  int64_t begin_ = 0;            // of the range [begin_, begin_ + count_), while words_ is empty
  std::vector<uint64_t> words_;  // empty for a single range
};

// The lane of a chain (chain.h) that this thread computes: each has rows of its own in a folded buffer.
class FoldLane {
 public:
  class Scope {
   public:
    explicit Scope(int64_t lane) : previous_(current_) { current_ = lane; }
    ~Scope() { current_ = previous_; }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    int64_t previous_;
  };
  static int64_t current() { return current_; }

 private:
  static inline constinit thread_local int64_t current_ = 0;
};

class SharedAccesses;

class Buffer {
 public:
  // Fresh memory; its bytes are uninitialised.
  static std::shared_ptr<Buffer> allocate(int64_t bytes);
  // Memory of the caller, all of it initialised unless told otherwise. `owner` is kept alive.
  static std::shared_ptr<Buffer> wrap(void* data, int64_t bytes, std::shared_ptr<void> owner = nullptr,
                                      bool initialised = true);
  // As wrap(), but a write to it is a Fault{kProgram} "sim.read_only".
  static std::shared_ptr<Buffer> wrap_read_only(const void* data, int64_t bytes,
                                                std::shared_ptr<void> owner = nullptr);
  // Rows of a larger memory, `row_pitch` bytes apart.
  static std::shared_ptr<Buffer> placed(std::byte* first_row, int64_t rows, int64_t row_bytes,
                                        int64_t row_pitch, std::shared_ptr<void> owner);
  // `bytes` of rows, of which only `fold_rows` exist for every lane: row r lies where row r % fold_rows of
  // the thread's FoldLane does. Only for rows taken by View::part(); see chain.h.
  static std::shared_ptr<Buffer> folded(std::byte* data, int64_t bytes, int64_t row_bytes, int64_t row_pitch,
                                        int64_t fold_rows, std::shared_ptr<void> owner);
  // Of a folded buffer, whose own memory is not used from now on: row r is the one at `rows` + r * `pitch`.
  void alias(std::byte* rows, int64_t pitch) {
    alias_rows_ = rows;
    alias_pitch_ = pitch;
  }
  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  std::byte* data() { return data_; }
  const std::byte* data() const { return data_; }
  int64_t bytes() const { return bytes_; }  // logical
  bool owns_memory() const { return owned_capacity_ > 0; }
  bool writable() const { return writable_; }
  bool contiguous() const { return row_pitch_ == row_bytes_; }
  int64_t row_bytes() const { return row_bytes_; }
  int64_t row_pitch() const { return row_pitch_; }
  int64_t fold_rows() const { return fold_rows_; }       // of a lane; 0: every row exists
  std::byte* alias_rows() const { return alias_rows_; }  // null: no alias
  int64_t alias_pitch() const { return alias_pitch_; }

  // Guards the masks; see ByteMask.
  SpinLock& mask_lock() const { return mask_lock_; }
  ByteMask& initialised() { return initialised_; }
  const ByteMask& initialised() const { return initialised_; }
  // PSUM: bytes whose last writer was a matmul, which may therefore be accumulated onto.
  ByteMask& accumulatable() { return accumulatable_; }
  // Gives every byte the value of CheckOptions::fill_fresh_memory; the masks stay clear.
  void fill_fresh(DType dtype);
  // The same when somebody needs it: many tiles are written as a whole before anyone reads them.
  void fill_when_needed(DType dtype);
  bool awaits_fill() const { return awaits_fill_.load(std::memory_order_acquire); }
  // What was put off, unless every byte is about to be written.
  void settle_fill(bool every_byte_is_written);
  void mark_all_initialised() { initialised_.set_all(); }
  // Who first moved unwritten elements here, in words; empty when nobody did.
  const std::string& unwritten_origin() const { return unwritten_origin_; }
  void set_unwritten_origin(std::string origin) { unwritten_origin_ = std::move(origin); }
  // What is watched of HBM that both cores of a launch reach (core_races.h); null elsewhere.
  SharedAccesses* shared() const { return shared_.get(); }
  void share(std::shared_ptr<SharedAccesses> accesses) { shared_ = std::move(accesses); }
  // The logical byte of an address inside the buffer.
  int64_t logical(const std::byte* address) const;
  // The row length of the tensor that this buffer holds; a placed buffer keeps its own.
  void set_row_bytes(int64_t row_bytes);
  // Forgets what was written, as when a tensor of a loop body comes to be again.
  void reset_masks();

 private:
  Buffer(std::byte* data, int64_t bytes, bool writable, std::shared_ptr<void> owner);
  friend class BufferPool;

  std::byte* data_;
  int64_t bytes_;
  int64_t row_bytes_;
  int64_t row_pitch_;
  int64_t fold_rows_ = 0;
  std::byte* alias_rows_ = nullptr;
  int64_t alias_pitch_ = 0;
  bool writable_;
  std::shared_ptr<void> owner_;  // of data_, when it is not ours
  int64_t owned_capacity_ = 0;   // > 0: data_ came from aligned allocation of this size
  mutable SpinLock mask_lock_;
  ByteMask initialised_;
  ByteMask accumulatable_;
  std::string unwritten_origin_;
  std::shared_ptr<SharedAccesses> shared_;
  std::atomic<bool> awaits_fill_ = false;
  DType fill_dtype_ = DType::kFloat32;
};

// A few free blocks, the newest taken first.
class BlockList {
 public:
  struct Block {
    std::byte* data;
    int64_t capacity;
  };
  // Frees smaller blocks for one that the list has no room for: larger ones cost more to get anew. False when
  // there are none: the block stays the caller's.
  bool put(Block block);
  // A block of at least `capacity` bytes and not many more.
  std::optional<Block> take(int64_t capacity);
  std::optional<Block> take_any() { return blocks_.empty() ? std::nullopt : take(blocks_.back().capacity); }

 private:
  static constexpr size_t kBlocksMax = 64;
  static constexpr int64_t kBytesMax = int64_t{64} << 20;
  std::vector<Block> blocks_;
  int64_t bytes_ = 0;
};

// A few freed blocks kept for the next tensors: tiles come and go thousands of times per kernel.
class BufferPool {
 public:
  ~BufferPool();
  std::shared_ptr<Buffer> allocate(int64_t bytes);
  // Takes the block back when nobody else holds the buffer; otherwise just drops it.
  void recycle(std::shared_ptr<Buffer> buffer);
  int64_t bytes_in_use() const { return bytes_in_use_; }
  int64_t bytes_peak() const { return bytes_peak_; }

 private:
  BlockList free_;
  int64_t bytes_in_use_ = 0;
  int64_t bytes_peak_ = 0;
};

}  // namespace opentrn::sim
