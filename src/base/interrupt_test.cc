#include "base/interrupt.h"

#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <functional>
#include <thread>

#include "base/task_graph.h"
#include "base/thread_pool.h"

namespace opentrn {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

// Polls until it is stopped; false after ten seconds, which no machine is too busy for.
bool poll_until_interrupted() {
  for (const auto begin = Clock::now(); Clock::now() - begin < 10s;) interrupt::poll();
  return false;
}

TEST(Interrupt, OnlyStoppedWorkEnds) {
  interrupt::Work work, other;
  other.stop();
  const interrupt::Scope scope(work);
  EXPECT_NO_THROW(interrupt::poll());
  work.stop();
  EXPECT_THROW(interrupt::poll(), Interrupted);
}

TEST(Interrupt, WorkAroundTheInnermostEndsIt) {
  interrupt::Work outer, inner;
  const interrupt::Scope outer_scope(outer);
  const interrupt::Scope inner_scope(inner);
  outer.stop();
  EXPECT_THROW(interrupt::poll(), Interrupted);
}

TEST(Interrupt, NothingIsLeftOfWorkThatIsOver) {
  {
    interrupt::Work work;
    work.stop();
    work.stop();
    EXPECT_NE(interrupt::detail::attention.load(), 0u);
  }
  EXPECT_EQ(interrupt::detail::attention.load(), 0u);
}

TEST(Interrupt, FirstPlaceIsKept) {
  Interrupted stop;
  stop.set_location({"kernel.py", 7, "kernel"});
  stop.set_location({"outer.py", 9, "outer"});
  stop.set_activity("inner");
  stop.set_activity("outer");
  EXPECT_EQ(stop.location().line, 7);
  EXPECT_EQ(stop.activity(), "inner");
}

TEST(Interrupt, PoolThreadsBelongToTheirCaller) {
  ThreadPool pool(4);
  interrupt::Work work;
  const interrupt::Scope scope(work);
  std::thread stopper([&] {
    std::this_thread::sleep_for(20ms);
    work.stop();
  });
  EXPECT_THROW(pool.parallel_for(4, [](size_t, size_t, int) { poll_until_interrupted(); }), Interrupted);
  stopper.join();
}

TEST(Interrupt, PoolServesOthersAfterwards) {
  ThreadPool pool(4);
  {
    interrupt::Work work;
    const interrupt::Scope scope(work);
    work.stop();
    EXPECT_THROW(pool.parallel_for(4, [](size_t, size_t, int) {}), Interrupted);
  }
  std::atomic<int> ran = 0;
  pool.parallel_for(4, [&](size_t, size_t, int) { ++ran; });
  EXPECT_EQ(ran, 4);
}

TEST(Interrupt, TaskGraphsEnd) {
  ThreadPool pool(3);
  TaskGraph graph;
  graph.reset(100);
  for (uint32_t task = 0; task + 1 < 100; ++task) graph.add_edge(task, task + 1);
  interrupt::Work work;
  const interrupt::Scope scope(work);
  std::thread stopper([&] {
    std::this_thread::sleep_for(20ms);
    work.stop();
  });
  EXPECT_THROW(graph.run(
                   pool, [](TaskGraph::Task) { poll_until_interrupted(); }, [](TaskGraph::Task) {}),
               Interrupted);
  stopper.join();
}

TEST(Interrupt, WaitsAndLocksEnd) {
  interrupt::Work work;
  const interrupt::Scope scope(work);
  work.stop();
  std::mutex mutex;
  std::condition_variable changed;
  std::unique_lock lock(mutex);
  EXPECT_THROW(interrupt::wait(changed, lock, [] { return false; }), Interrupted);
  std::timed_mutex held;
  held.lock();
  EXPECT_THROW(std::thread([&] {
                 const interrupt::Scope inherited(work);
                 EXPECT_THROW((void)interrupt::lock(held), Interrupted);
               }).join();
               interrupt::poll(), Interrupted);
  held.unlock();
}

// -- the host

std::atomic<int> asked = 0;
std::function<bool()> handler;

bool run_handler() {
  ++asked;
  return handler();
}

class InterruptHost : public testing::Test {
 protected:
  InterruptHost() {
    asked = 0;
    handler = [] { return false; };
    interrupt::set_host(&run_handler, static_cast<std::uintptr_t>(pthread_self()));
  }
  ~InterruptHost() override {
    interrupt::host_error_taken();
    interrupt::set_host(nullptr, 0);
  }
};

TEST_F(InterruptHost, IsAskedWhileWorkIsUnderWay) {
  const interrupt::HostWork work;
  for (const auto begin = Clock::now(); asked < 2 && Clock::now() - begin < 10s;) interrupt::poll();
  EXPECT_GE(asked, 2);
}

TEST_F(InterruptHost, HandlerThatRaisesEndsTheWork) {
  handler = [] { return true; };
  const interrupt::HostWork work;
  EXPECT_THROW(poll_until_interrupted(), Interrupted);
  EXPECT_THROW(interrupt::poll(), Interrupted) << "until the host has its error";
}

TEST_F(InterruptHost, NextWorkRunsOnceTheErrorIsTaken) {
  handler = [] { return true; };
  {
    const interrupt::HostWork work;
    EXPECT_THROW(poll_until_interrupted(), Interrupted);
  }
  interrupt::host_error_taken();
  handler = [] { return false; };
  const interrupt::HostWork work;
  EXPECT_NO_THROW(interrupt::poll());
}

TEST_F(InterruptHost, MainThreadThatWaitsForItsPoolIsAsked) {
  handler = [] { return true; };
  ThreadPool pool(2);
  const interrupt::HostWork work;
  const auto caller = std::this_thread::get_id();
  std::atomic<bool> helped = false;
  const auto body = [&](size_t, size_t, int) {
    if (std::this_thread::get_id() != caller) {
      helped = true;
      poll_until_interrupted();
    }
    for (const auto begin = Clock::now(); !helped && Clock::now() - begin < 10s;) std::this_thread::yield();
  };
  EXPECT_THROW(pool.parallel_for(2, body), Interrupted);
}

TEST_F(InterruptHost, OtherThreadsRunNoHandlers) {
  handler = [] { return true; };
  std::thread([] {
    const interrupt::HostWork work;
    for (const auto begin = Clock::now(); Clock::now() - begin < 150ms;) interrupt::poll();
  }).join();
  EXPECT_EQ(asked, 0);
}

TEST_F(InterruptHost, HandlerMayNotBeginWork) {
  bool refused = false;
  handler = [&] {
    try {
      interrupt::refuse_in_handler();
    } catch (const Fault& fault) {
      refused = fault.label() == "interrupt.handler";
    }
    return true;
  };
  const interrupt::HostWork work;
  EXPECT_THROW(poll_until_interrupted(), Interrupted);
  EXPECT_TRUE(refused);
  EXPECT_NO_THROW(interrupt::refuse_in_handler());
}

}  // namespace
}  // namespace opentrn
