#include "base/task_graph.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <random>
#include <stdexcept>
#include <thread>
#include <vector>

namespace opentrn {
namespace {

using Task = TaskGraph::Task;

// A random graph in which task t waits for some of the tasks just before it.
std::vector<std::vector<Task>> random_edges(uint32_t seed, Task count) {
  std::mt19937 random(seed);
  std::vector<std::vector<Task>> before(count);
  for (Task t = 1; t < count; ++t)
    for (uint32_t k = random() % 4; k > 0; --k) before[t].push_back(t - 1 - random() % std::min<Task>(t, 20));
  return before;
}

void fill(TaskGraph& graph, const std::vector<std::vector<Task>>& before) {
  graph.reset(static_cast<Task>(before.size()));
  for (Task t = 0; t < before.size(); ++t)
    for (Task b : before[t]) graph.add_edge(b, t);
}

TEST(TaskGraph, ATaskRunsOnceAndAfterThoseItDependsOn) {
  for (int threads : {1, 2, 4}) {
    ThreadPool pool(threads);
    TaskGraph graph;
    for (uint32_t seed = 0; seed < 20; ++seed) {
      graph.set_highest_first(seed % 2 != 0);
      const auto before = random_edges(seed, 700);
      fill(graph, before);
      std::vector<std::atomic<int>> runs(before.size());
      std::vector<Task> retired;
      graph.run(
          pool,
          [&](Task t) {
            for (Task b : before[t]) EXPECT_EQ(runs[b].load(), 1) << t << " ran before " << b;
            ++runs[t];
          },
          [&](Task t) { retired.push_back(t); });
      for (const auto& count : runs) ASSERT_EQ(count.load(), 1);
      ASSERT_EQ(retired.size(), before.size());
      for (Task t = 0; t < before.size(); ++t) ASSERT_EQ(retired[t], t);
    }
  }
}

TEST(TaskGraph, AThreadGoesOnWithWhatItMadeReady) {
  ThreadPool pool(1);
  TaskGraph graph;
  graph.reset(5);
  graph.add_edge(0, 3);
  graph.add_edge(0, 4);
  std::vector<Task> order;
  graph.run(
      pool, [&](Task t) { order.push_back(t); }, [](Task) {});
  EXPECT_EQ(order, (std::vector<Task>{0, 3, 1, 2, 4}));
}

TEST(TaskGraph, NothingBeyondTheWindowFollows) {
  ThreadPool pool(1);
  TaskGraph graph;
  graph.reset(1000);
  graph.add_edge(0, 900);
  std::vector<Task> order;
  graph.run(
      pool, [&](Task t) { order.push_back(t); }, [](Task) {});
  EXPECT_EQ(order[900], 900u);
}

TEST(TaskGraph, TheFailureOfTheLowestTaskIsTheOneReported) {
  for (int threads : {1, 2, 4}) {
    ThreadPool pool(threads);
    TaskGraph graph;
    for (uint32_t seed = 0; seed < 40; ++seed) {
      graph.set_highest_first(seed % 2 != 0);
      const auto before = random_edges(seed, 300);
      fill(graph, before);
      const Task first = 40 + seed * 5;
      std::vector<std::atomic<int>> runs(before.size());
      Task retired = 0;
      const auto execute = [&](Task t) {
        if (t == first || t == first + 1 || t == first + 7) throw std::out_of_range(std::to_string(t));
        ++runs[t];
      };
      try {
        graph.run(pool, execute, [&](Task t) { retired = t + 1; });
        FAIL() << "nothing was thrown";
      } catch (const std::out_of_range& error) {
        EXPECT_EQ(error.what(), std::to_string(first));
      }
      EXPECT_EQ(retired, first);
      for (Task t = 0; t < first; ++t) EXPECT_EQ(runs[t].load(), 1) << "task " << t << " below " << first;
    }
  }
}

TEST(TaskGraph, LoopsOfTasksHandleEveryIndexOnce) {
  ThreadPool pool(3);
  TaskGraph graph;
  for (int round = 0; round < 50; ++round) {
    graph.reset(40);
    for (Task t = 1; t < 40; ++t)
      if (t % 3 != 0) graph.add_edge(t - 1, t);  // few tasks at a time, so that threads idle
    std::vector<std::vector<std::atomic<int>>> hits(40);
    for (auto& row : hits) row = std::vector<std::atomic<int>>(500);
    graph.run(
        pool,
        [&](Task t) {
          pool.parallel_for(
              500,
              [&](size_t begin, size_t end, int) {
                for (size_t i = begin; i < end; ++i) ++hits[t][i];
              },
              t % 2 == 0 ? Split::kAlways : Split::kIfHelped);
          for (const auto& hit : hits[t]) ASSERT_EQ(hit.load(), 1) << "task " << t;
        },
        [](Task) {});
  }
}

TEST(TaskGraph, AThreadThatBecomesFreeHelpsWithALoop) {
  ThreadPool pool(2);
  TaskGraph graph;
  graph.reset(2);
  std::atomic<bool> in_loop{false}, helped{false};
  const auto wait_for = [](const std::atomic<bool>& flag) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!flag && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  };
  const auto part = [&](size_t begin, size_t, int) {
    in_loop = true;
    if (begin > 0)
      helped = true;
    else
      wait_for(helped);  // the other parts are another thread's
  };
  graph.run(
      pool,
      [&](Task t) {
        if (t == 0)
          pool.parallel_for(8, part, Split::kAlways);
        else
          wait_for(in_loop);  // this thread was not free when the loop began
      },
      [](Task) {});
  EXPECT_TRUE(helped);
}

TEST(TaskGraph, AFreeThreadHelpsWithEveryLoopThatIsOpen) {
  ThreadPool pool(3);
  TaskGraph graph;
  graph.reset(3);
  std::array<std::atomic<bool>, 2> in_loop{}, helped{};
  const auto wait_for = [](const std::atomic<bool>& flag) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!flag && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  };
  const auto execute = [&](Task t) {
    if (t == 2) {
      for (const auto& flag : in_loop) wait_for(flag);
      return;
    }
    const auto part = [&](size_t begin, size_t, int) {
      in_loop[t] = true;
      if (begin > 0)
        helped[t] = true;
      else
        wait_for(helped[t]);
    };
    pool.parallel_for(8, part, Split::kAlways);
  };
  graph.run(pool, execute, [](Task) {});
  EXPECT_TRUE(helped[0]);
  EXPECT_TRUE(helped[1]);
}

TEST(TaskGraph, AnExceptionInALoopOfATaskIsTheTasks) {
  ThreadPool pool(2);
  TaskGraph graph;
  graph.reset(2);
  graph.add_edge(0, 1);
  const auto execute = [&](Task t) {
    pool.parallel_for(100, [&](size_t, size_t end, int) {
      if (t == 0 && end == 100) throw std::runtime_error("part");
    });
  };
  EXPECT_THROW(graph.run(pool, execute, [](Task) {}), std::runtime_error);
  std::atomic<int> total{0};
  pool.parallel_for(30, [&](size_t begin, size_t end, int) { total += static_cast<int>(end - begin); });
  EXPECT_EQ(total, 30) << "the pool must stay usable";
}

}  // namespace
}  // namespace opentrn
