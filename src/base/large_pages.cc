#include "base/large_pages.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <vector>

#include <sys/mman.h>

namespace opentrn {

namespace {

constexpr size_t kPage = size_t{2} << 20;
constexpr size_t kLarge = 2 * kPage;  // less than this is left to the allocator

size_t whole_pages(size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

// Fresh pages, which begin at a multiple of their size: what the allocator has was given out in small pages
// before, and stays so.
void* map_pages(size_t bytes) {
  const size_t around = bytes + kPage;
  void* mapped = mmap(nullptr, around, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) throw std::bad_alloc();
  auto* begin = static_cast<std::byte*>(mapped);
  const size_t before = (kPage - reinterpret_cast<uintptr_t>(begin) % kPage) % kPage;
  if (before > 0) munmap(begin, before);
  if (before < kPage) munmap(begin + before + bytes, kPage - before);
#ifdef MADV_HUGEPAGE
  madvise(begin + before, bytes, MADV_HUGEPAGE);  // no more than a wish
#endif
  return begin + before;
}

// Tables that were freed, for the next ones of the same size: the system clears pages before it gives them,
// which is a tenth of the time that a compilation of a million instructions takes.
class Freed {
 public:
  void* take(size_t bytes) {
    const std::lock_guard lock(mutex_);
    const auto found = std::ranges::find(tables_, bytes, &Table::bytes);
    if (found == tables_.end()) return nullptr;
    void* at = found->at;
    tables_.erase(found);
    bytes_ -= bytes;
    return at;
  }
  // False: there is no room.
  bool keep(void* at, size_t bytes) noexcept {
    constexpr size_t kBytesMax = size_t{64} << 20, kTablesMax = 16;
    const std::lock_guard lock(mutex_);
    if (bytes_ + bytes > kBytesMax || tables_.size() == kTablesMax) return false;
    if (tables_.capacity() == 0) tables_.reserve(kTablesMax);
    tables_.push_back({at, bytes});
    bytes_ += bytes;
    return true;
  }

 private:
  struct Table {
    void* at;
    size_t bytes;
  };
  std::mutex mutex_;
  std::vector<Table> tables_;
  size_t bytes_ = 0;
};

// Never destroyed: tables of static objects may be freed after it would be.
Freed& freed() {
  static Freed& all = *new Freed;
  return all;
}

}  // namespace

void* allocate_in_large_pages(size_t bytes) {
  if (bytes < kLarge || bytes > SIZE_MAX - 2 * kPage)
    return ::operator new(bytes, std::align_val_t(kTableAlignment));
  const size_t whole = whole_pages(bytes);
  if (void* kept = freed().take(whole)) return kept;
  return map_pages(whole);
}

void free_in_large_pages(void* at, size_t bytes) noexcept {
  if (bytes < kLarge || bytes > SIZE_MAX - 2 * kPage) {
    ::operator delete(at, std::align_val_t(kTableAlignment));
    return;
  }
  const size_t whole = whole_pages(bytes);
  if (!freed().keep(at, whole)) munmap(at, whole);
}

}  // namespace opentrn
