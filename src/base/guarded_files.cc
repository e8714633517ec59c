#include "base/guarded_files.h"

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <mutex>

#include <sys/mman.h>
#include <unistd.h>

namespace opentrn {

namespace {

// What the handler reads: fixed, and without a lock. A row is free while its `end` is 0. A model has one
// file, or a few; one that finds no row is not guarded.
struct Row {
  std::atomic<bool> taken{false}, lost{false};
  std::atomic<uintptr_t> begin{0}, end{0};
};
std::array<Row, 256> rows;
constexpr size_t kNoRow = rows.size();

struct sigaction before;  // the handler that was there
uintptr_t page_bytes;

// As if this handler were not there.
void pass_on(int number, siginfo_t* info, void* context) {
  if ((before.sa_flags & SA_SIGINFO) != 0) return before.sa_sigaction(number, info, context);
  if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) return before.sa_handler(number);
  struct sigaction standard {};
  standard.sa_handler = SIG_DFL;
  ::sigaction(number, &standard, nullptr);
  ::raise(number);  // delivered when this handler returns
}

void handle(int number, siginfo_t* info, void* context) {
  const auto address = reinterpret_cast<uintptr_t>(info->si_addr);
  if (info->si_code == BUS_ADRERR)
    for (Row& row : rows) {
      const uintptr_t end = row.end.load(std::memory_order_acquire);
      if (end == 0 || address >= end || address < row.begin.load(std::memory_order_relaxed)) continue;
      const int error = errno;
      void* const page = reinterpret_cast<void*>(address / page_bytes * page_bytes);
      const bool made =
          ::mmap(page, page_bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == page;
      errno = error;
      if (!made) break;
      row.lost.store(true, std::memory_order_release);
      return;
    }
  pass_on(number, info, context);
}

void install() {
  static std::once_flag once;
  std::call_once(once, [] {
    page_bytes = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
    struct sigaction action {};
    action.sa_sigaction = &handle;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigemptyset(&action.sa_mask);
    ::sigaction(SIGBUS, nullptr, &before);  // complete before the handler can run
    ::sigaction(SIGBUS, &action, nullptr);
  });
}

size_t take_row(std::span<const std::byte> bytes) {
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].taken.exchange(true)) continue;
    const auto begin = reinterpret_cast<uintptr_t>(bytes.data());
    rows[i].lost.store(false);
    rows[i].begin.store(begin);
    rows[i].end.store(begin + bytes.size(), std::memory_order_release);
    return i;
  }
  return kNoRow;
}

}  // namespace

GuardedFiles::GuardedFiles(const std::set<const MappedFile*>& files) {
  for (const MappedFile* file : files) file->expect_unchanged();
  if (!files.empty()) install();
  for (const MappedFile* file : files) places_.emplace_back(file, take_row(file->bytes()));
}

GuardedFiles::~GuardedFiles() {
  for (const auto& [file, place] : places_) {
    if (place == kNoRow) continue;
    if (rows[place].lost.load()) file->mark_lost();
    rows[place].end.store(0);
    rows[place].taken.store(false);
  }
}

void GuardedFiles::expect_unchanged() const {
  for (const auto& [file, place] : places_) {
    if (place != kNoRow && rows[place].lost.load(std::memory_order_acquire)) file->mark_lost();
    file->expect_unchanged();
  }
}

}  // namespace opentrn
