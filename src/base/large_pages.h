// An allocator for tables of a program's million instructions: in pages of 2 MiB where the system gives them,
// as faults of 4 KiB pages would be a sixth of the time; and elements of plain types are not set to zero
// first, so that who makes such a vector of a size writes all of it.
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>
#include <vector>

namespace opentrn {

// What every allocation is aligned to, in bytes.
inline constexpr size_t kTableAlignment = 64;

// As operator new and delete, aligned to kTableAlignment; large ones on pages of their own.
void* allocate_in_large_pages(size_t bytes);
void free_in_large_pages(void* at, size_t bytes) noexcept;

template <typename T>
struct LargePages {
  static_assert(alignof(T) <= kTableAlignment);
  using value_type = T;
  LargePages() = default;
  template <typename U>
  LargePages(const LargePages<U>&) {}

  T* allocate(size_t count) { return static_cast<T*>(allocate_in_large_pages(count * sizeof(T))); }
  void deallocate(T* at, size_t count) noexcept { free_in_large_pages(at, count * sizeof(T)); }
  template <typename U, typename... Args>
  void construct(U* at, Args&&... args) {
    if constexpr (sizeof...(Args) == 0)
      ::new (static_cast<void*>(at)) U;
    else
      ::new (static_cast<void*>(at)) U(std::forward<Args>(args)...);
  }
  bool operator==(const LargePages&) const = default;
};

template <typename T>
using LargeVector = std::vector<T, LargePages<T>>;

}  // namespace opentrn
