// Sleepers: a place where threads that have waited for a while sleep until another one says that something
// has changed.
//
// A waiter takes a ticket, looks once more at what it waits for, and sleeps with the ticket. Whoever changes
// that calls notify() after the change: a load where nobody sleeps. A change between the ticket and the sleep
// ends the sleep.
//
// Use:  Sleepers::Ticket ticket(sleepers); if (!there_is_something()) ticket.sleep();
#pragma once

#include <atomic>
#include <cstdint>

#include "base/spin_lock.h"

namespace opentrn {

class Sleepers {
 public:
  class Ticket {
   public:
    explicit Ticket(Sleepers& of);
    ~Ticket();
    Ticket(const Ticket&) = delete;
    Ticket& operator=(const Ticket&) = delete;
    // Until notify() after this ticket was taken, or for a few milliseconds: signals are served in between.
    void sleep();

   private:
    Sleepers& of_;
    uint32_t epoch_;
  };

  // Wakes at most `count` of those who sleep.
  void notify(int count = 1);

 private:
  std::atomic<uint32_t> epoch_{0};  // what the system sleeps on
  std::atomic<int> tickets_{0};
};

// How a thread waits for what comes within microseconds when all goes well: it spins for some 200 us, then
// sleeps. It does not give way in between: Linux puts the deadline of a thread that calls sched_yield() off
// by a slice, so that where others want the processor it comes last when there is something to do.
class PatientWait {
 public:
  explicit PatientWait(Sleepers& sleepers) : sleepers_(sleepers) {}

  // Waits a little, at most some milliseconds. `is_over()` is asked before it sleeps.
  template <typename Condition>
  void wait(const Condition& is_over) {
    if (++rounds_ < kSpins) return relax_cpu();
    Sleepers::Ticket ticket(sleepers_);
    if (!is_over()) ticket.sleep();
  }

 private:
  static constexpr int kSpins = 8000;

  Sleepers& sleepers_;
  int rounds_ = 0;
};

}  // namespace opentrn
