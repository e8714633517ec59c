#include "base/sleepers.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <ctime>

namespace opentrn {

namespace {

constexpr timespec kNap{.tv_sec = 0, .tv_nsec = 2'000'000};

uint32_t* address_of(std::atomic<uint32_t>& word) {
  static_assert(std::atomic<uint32_t>::is_always_lock_free && sizeof word == sizeof(uint32_t));
  return reinterpret_cast<uint32_t*>(&word);
}

}  // namespace

Sleepers::Ticket::Ticket(Sleepers& of) : of_(of) {
  of_.tickets_.fetch_add(1, std::memory_order_seq_cst);
  epoch_ = of_.epoch_.load(std::memory_order_seq_cst);
}

Sleepers::Ticket::~Ticket() { of_.tickets_.fetch_sub(1, std::memory_order_release); }

void Sleepers::Ticket::sleep() {
  syscall(SYS_futex, address_of(of_.epoch_), FUTEX_WAIT_PRIVATE, epoch_, &kNap, nullptr, 0);
}

void Sleepers::notify(int count) {
  // The change before this load: who takes a ticket after it sees the change, who took one before it is
  // woken.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (tickets_.load(std::memory_order_relaxed) == 0) return;
  epoch_.fetch_add(1, std::memory_order_seq_cst);
  syscall(SYS_futex, address_of(epoch_), FUTEX_WAKE_PRIVATE, count, nullptr, nullptr, 0);
}

}  // namespace opentrn
