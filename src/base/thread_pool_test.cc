#include "base/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <vector>

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

}  // namespace
}  // namespace opentrn
