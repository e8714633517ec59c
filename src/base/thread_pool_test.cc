#include "base/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/fault.h"

namespace opentrn {
namespace {

TEST(ThreadPool, EveryIndexIsHandledOnce) {
  for (int threads : {1, 2, 5}) {
    ThreadPool pool(threads);
    for (size_t n : {0u, 1u, 2u, 7u, 1000u}) {
      std::vector<std::atomic<int>> hits(n);
      pool.parallel_for(n, [&](size_t begin, size_t end, int) {
        for (size_t i = begin; i < end; ++i) ++hits[i];
      });
      for (size_t i = 0; i < n; ++i)
        EXPECT_EQ(hits[i], 1) << "index " << i << " of " << n << ", threads " << threads;
    }
  }
}

TEST(ThreadPool, AnExceptionInAPartReachesTheCaller) {
  ThreadPool pool(3);
  EXPECT_THROW(pool.parallel_for(30,
                                 [](size_t begin, size_t, int) {
                                   if (begin > 0) throw std::runtime_error("part failed");
                                 }),
               std::runtime_error);
  std::atomic<int> total{0};
  pool.parallel_for(30, [&](size_t begin, size_t end, int) { total += static_cast<int>(end - begin); });
  EXPECT_EQ(total, 30) << "the pool must stay usable";
}

TEST(ThreadPool, TheEnvironmentSaysHowManyThreads) {
  const char* const before = std::getenv("OPENTRN_NUM_THREADS");
  const std::string kept = before ? before : "";
  ::unsetenv("OPENTRN_NUM_THREADS");
  const int unsaid = default_thread_count();
  EXPECT_GE(unsaid, 1);
  ::setenv("OPENTRN_NUM_THREADS", std::to_string(unsaid + 3).c_str(), 1);
  EXPECT_EQ(default_thread_count(), unsaid + 3);
  for (const char* text : {"0", "-1", "two", "1 ", "1e3", "99999999999"}) {
    ::setenv("OPENTRN_NUM_THREADS", text, 1);
    try {
      default_thread_count();
      ADD_FAILURE() << text;
    } catch (const Fault& fault) {
      EXPECT_EQ(fault.kind(), FaultKind::kInput);
      EXPECT_EQ(fault.label(), "environment");
      EXPECT_NE(fault.message().find(text), std::string::npos);
    }
  }
  if (before)
    ::setenv("OPENTRN_NUM_THREADS", kept.c_str(), 1);
  else
    ::unsetenv("OPENTRN_NUM_THREADS");
}

}  // namespace
}  // namespace opentrn
