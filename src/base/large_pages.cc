#include "base/large_pages.h"

#include <cstdint>
#include <cstdlib>

#include <sys/mman.h>

namespace opentrn {

namespace {

constexpr size_t kPage = size_t{2} << 20;
constexpr size_t kLarge = 2 * kPage;  // less than this is left to the allocator

size_t whole_pages(size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

}  // namespace

void* allocate_in_large_pages(size_t bytes) {
  if (bytes < kLarge || bytes > SIZE_MAX - kPage)
    return ::operator new(bytes, std::align_val_t(kTableAlignment));
  void* at = std::aligned_alloc(kPage, whole_pages(bytes));
  if (at == nullptr) throw std::bad_alloc();
#ifdef MADV_HUGEPAGE
  madvise(at, whole_pages(bytes), MADV_HUGEPAGE);  // no more than a wish
#endif
  return at;
}

void free_in_large_pages(void* at, size_t bytes) noexcept {
  if (bytes < kLarge || bytes > SIZE_MAX - kPage)
    ::operator delete(at, std::align_val_t(kTableAlignment));
  else
    std::free(at);
}

}  // namespace opentrn
