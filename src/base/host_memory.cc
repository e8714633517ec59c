#include "base/host_memory.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <optional>
#include <string>

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "base/fault.h"

namespace opentrn {

namespace {

constexpr int64_t kUnknown = std::numeric_limits<int64_t>::max();
constexpr double kGiB = 1024.0 * 1024 * 1024;

// The number behind a name, in a file with one of each a line.
std::optional<int64_t> number_of(const char* path, std::string_view wanted) {
  std::ifstream file(path);
  for (std::string name; file >> name;) {
    int64_t number = 0;
    if (name == wanted && file >> number) return number;
    file.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return std::nullopt;
}

// A file with one number; "max" is none.
std::optional<int64_t> number_in(const char* path) {
  std::ifstream file(path);
  int64_t number = 0;
  if (file >> number) return number;
  return std::nullopt;
}

// What the limit of the process' address space (ulimit -v) leaves; kUnknown without one.
int64_t address_space_left() {
  struct rlimit limit {};
  if (::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return kUnknown;
  const int64_t used = number_in("/proc/self/statm").value_or(0) * ::sysconf(_SC_PAGESIZE);
  return std::max<int64_t>(0, static_cast<int64_t>(limit.rlim_cur) - used);
}

}  // namespace

int64_t host_memory_available() {
  const auto kib = number_of("/proc/meminfo", "MemAvailable:");
  const int64_t swap = number_of("/proc/meminfo", "SwapFree:").value_or(0) * 1024;
  int64_t available = kib ? *kib * 1024 + swap : kUnknown;
  // Of a control group, whose files in memory make room when they must.
  const auto limit = number_in("/sys/fs/cgroup/memory.max"),
             used = number_in("/sys/fs/cgroup/memory.current");
  const int64_t files = number_of("/sys/fs/cgroup/memory.stat", "inactive_file").value_or(0);
  if (limit && used) available = std::min(available, std::max<int64_t>(0, *limit - *used + files) + swap);
  return std::min(available, address_space_left());
}

void expect_host_memory(int64_t bytes, std::string_view what) {
  const int64_t available = host_memory_available();
  if (bytes <= available) return;
  throw Fault(FaultKind::kCapacity, "host_memory",
              fmt::format("{} takes {:.1f} GiB of this host's memory, which has {:.1f} left", what,
                          static_cast<double>(bytes) / kGiB, static_cast<double>(available) / kGiB),
              "a smaller model or batch, a share of it for each core, or a host with more memory");
}

#ifdef __GLIBC__
bool grow_heap_in_huge_pages(size_t bytes) {
  constexpr uintptr_t kHugePage = uintptr_t{2} << 20;
  constexpr size_t kOwnMappingMax = size_t{32} << 20;  // as much as glibc takes
  const auto number = [](size_t size) {
    return static_cast<int>(std::min<size_t>(size, std::numeric_limits<int>::max()));
  };
  // What is freed at the heap's end stays, and no block of less has a mapping of its own.
  if (mallopt(M_TOP_PAD, number(bytes)) == 0 || mallopt(M_TRIM_THRESHOLD, number(bytes)) == 0 ||
      mallopt(M_MMAP_THRESHOLD, number(std::min(bytes, kOwnMappingMax))) == 0)
    return false;
  const auto above = [](uintptr_t address) { return (address + kHugePage - 1) / kHugePage * kHugePage; };
  void* block = std::malloc(kHugePage);  // more than is left, so that the heap grows
  const auto begin = above(reinterpret_cast<uintptr_t>(block)), end = reinterpret_cast<uintptr_t>(sbrk(0));
  const bool done = begin < end && madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE) == 0;
  std::free(block);
  return done;
}
#else
bool grow_heap_in_huge_pages(size_t) { return false; }
#endif

}  // namespace opentrn
