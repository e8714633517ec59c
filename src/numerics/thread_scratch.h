// Memory of one thread that kernels pack operands into.
#pragma once

#include <cstddef>
#include <new>

namespace opentrn::numerics {

// Grows and never shrinks; begins with a cache line.
class ThreadScratch {
 public:
  ThreadScratch() = default;
  ~ThreadScratch() { release(); }
  ThreadScratch(const ThreadScratch&) = delete;
  ThreadScratch& operator=(const ThreadScratch&) = delete;

  // 32-bit words, with what was there before undefined.
  template <typename Word>
  Word* words(size_t count) {
    static_assert(sizeof(Word) == 4);
    if (words_ < count) {
      release();
      data_ = ::operator new[](count * sizeof(Word), kLine);
      words_ = count;
    }
    return static_cast<Word*>(data_);
  }

 private:
  static constexpr std::align_val_t kLine{64};

  void release() {
    ::operator delete[](data_, kLine);
    data_ = nullptr;
    words_ = 0;
  }

  void* data_ = nullptr;
  size_t words_ = 0;
};

}  // namespace opentrn::numerics
