#include "pjrt/worker.h"

#include <atomic>
#include <future>
#include <memory>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace opentrn::pjrt {
namespace {

// Runs after everything that was added before.
void drain(Worker& worker) {
  auto done = std::make_shared<std::promise<void>>();
  worker.add([done] { done->set_value(); });
  done->get_future().wait();
}

TEST(Worker, AShortTaskRunsHereWhereNothingIsUnderWay) {
  Worker worker;
  drain(worker);
  // The worker may still be on its way from the last task: then the task is the next one, else it runs here.
  std::thread::id where;
  while (where != std::this_thread::get_id()) {
    auto ran = std::make_shared<std::promise<std::thread::id>>();
    worker.run_or_add([ran] { ran->set_value(std::this_thread::get_id()); });
    where = ran->get_future().get();
  }
  worker.add([&] { where = std::this_thread::get_id(); });
  drain(worker);
  EXPECT_NE(where, std::this_thread::get_id());
}

TEST(Worker, AShortTaskWaitsForThoseBefore) {
  Worker worker;
  std::promise<void> begun, go;
  std::vector<int> order;
  worker.add([&] {
    begun.set_value();
    go.get_future().wait();
    order.push_back(1);
  });
  begun.get_future().wait();
  worker.run_or_add([&] { order.push_back(2); });  // returns although the first waits
  EXPECT_TRUE(order.empty());
  go.set_value();
  drain(worker);
  EXPECT_EQ(order, (std::vector{1, 2}));
}

TEST(Worker, OtherThreadsWaitForATaskThatRunsHere) {
  Worker worker;
  std::atomic<int> running = 0, most = 0, count = 0;
  const auto task = [&] {
    const int now = ++running;
    if (now > most) most = now;
    ++count;
    --running;
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      for (int j = 0; j < 500; ++j) j % 2 == 0 ? worker.run_or_add(task) : worker.add(task);
    });
  for (std::thread& each : threads) each.join();
  drain(worker);
  EXPECT_EQ(count, 2000);
  EXPECT_EQ(most, 1);
}

TEST(Worker, WhatATaskAddsRunsAtOnce) {
  Worker worker;
  bool at_once = false;
  worker.run_or_add([&] {
    bool ran = false;
    worker.add([&] { ran = true; });
    at_once = ran;
  });
  drain(worker);
  EXPECT_TRUE(at_once);
}

TEST(Worker, TheEndRunsWhatIsLeft) {
  int count = 0;
  {
    Worker worker;
    for (int i = 0; i < 100; ++i) worker.run_or_add([&] { ++count; });
  }
  EXPECT_EQ(count, 100);
}

}  // namespace
}  // namespace opentrn::pjrt
