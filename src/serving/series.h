// What happened when: a run of unknown length in a fixed number of bins.
//
// Bins start at a millisecond and double in width whenever the run outgrows them, so that memory does not
// depend on the length of the run.
#pragma once

#include <vector>

#include "serving/engine.h"

namespace opentrn::serving {

struct Bin;

class Series {
 public:
  // `bins` of the result, at most; twice as many are kept.
  explicit Series(int32_t bins);

  void arrival(Ps at);
  // `replica`: whose step it is. `kv_use`: fraction of its blocks. `given`: tokens that its requests got.
  void step(size_t replica, const StepRecord& record, double kv_use, int64_t given);
  // Up to `end`, of `replicas` engines together.
  std::vector<Bin> bins(Ps end, int32_t replicas);
  double bin_s() const { return seconds(width_); }

 private:
  struct Sums {  // times in picoseconds, as doubles: shares of a plot
    double running = 0, waiting = 0, kv = 0, busy = 0, prefill = 0;
    double given = 0, arrivals = 0, tokens = 0, padded = 0;

    void add(const Sums& other);
  };
  struct Level {  // of one replica, since `from`
    Ps from = 0;
    double running = 0, waiting = 0, kv = 0;
  };

  Sums& at(Ps when);
  template <typename Add>
  void spread(Ps from, Ps to, const Add& add);
  void level_until(Level& level, Ps to);

  size_t limit_;
  Ps width_ = kPsPerMs;
  std::vector<Sums> sums_;
  std::vector<Level> levels_;
};

}  // namespace opentrn::serving
