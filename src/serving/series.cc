#include "serving/series.h"

#include <algorithm>

#include "serving/replay.h"

namespace opentrn::serving {

Series::Series(int32_t bins) : limit_(2 * static_cast<size_t>(std::max(bins, 1))) {}

void Series::Sums::add(const Sums& o) {
  running += o.running;
  waiting += o.waiting;
  kv += o.kv;
  busy += o.busy;
  prefill += o.prefill;
  given += o.given;
  arrivals += o.arrivals;
  tokens += o.tokens;
  padded += o.padded;
}

Series::Sums& Series::at(Ps when) {
  while (static_cast<size_t>(when / width_) >= limit_) {
    width_ *= 2;
    for (size_t i = 0; i < sums_.size(); ++i) {
      if (i % 2 == 1) {
        sums_[i / 2].add(sums_[i]);
      } else if (i > 0) {
        sums_[i / 2] = sums_[i];
      }
    }
    sums_.resize((sums_.size() + 1) / 2);
  }
  const auto place = static_cast<size_t>(when / width_);
  if (sums_.size() <= place) sums_.resize(place + 1);
  return sums_[place];
}

void Series::arrival(Ps when) { at(when).arrivals += 1; }

// add(sums, share of the interval's time in ps) for every bin that [from, to) touches.
template <typename Add>
void Series::spread(Ps from, Ps to, const Add& add) {
  if (to <= from) return;
  at(to - 1);
  while (from < to) {
    const Ps stop = std::min(to, (from / width_ + 1) * width_);
    add(at(from), static_cast<double>(stop - from));
    from = stop;
  }
}

void Series::level_until(Level& level, Ps to) {
  spread(level.from, to, [&](Sums& sums, double ps) {
    sums.running += level.running * ps;
    sums.waiting += level.waiting * ps;
    sums.kv += level.kv * ps;
  });
  level.from = std::max(level.from, to);
}

void Series::step(size_t replica, const StepRecord& r, double kv_use, int64_t given) {
  if (levels_.size() <= replica) levels_.resize(replica + 1);
  // Until the next step starts, the state is what this one left; an idle engine has none.
  Level& level = levels_[replica];
  level_until(level, r.start);
  level = {r.start, static_cast<double>(r.running), static_cast<double>(r.waiting), kv_use};
  level_until(level, r.end);
  level = {r.end, 0, 0, 0};
  const bool prefill = r.phase == Phase::kPrefill;
  spread(r.start, r.end, [&](Sums& sums, double ps) {
    sums.busy += ps;
    if (prefill) sums.prefill += ps;
  });
  Sums& sums = at(std::max(r.end - 1, Ps{0}));
  sums.given += static_cast<double>(given);
  sums.tokens += static_cast<double>(r.tokens);
  sums.padded += static_cast<double>(r.padded_tokens);
}

std::vector<Bin> Series::bins(Ps end, int32_t replicas) {
  std::vector<Bin> out;
  for (size_t i = 0; i < sums_.size(); ++i) {
    const Sums& s = sums_[i];
    const Ps from = static_cast<Ps>(i) * width_;
    const auto ps = static_cast<double>(std::min(width_, std::max(end - from, Ps{1})));
    Bin bin;
    bin.running = s.running / ps;
    bin.waiting = s.waiting / ps;
    bin.kv_use = s.kv / ps / replicas;
    bin.busy = s.busy / ps / replicas;
    bin.prefill_busy = s.prefill / ps / replicas;
    bin.tokens_per_s = s.given / ps * kPsPerSecond;
    bin.arrivals_per_s = s.arrivals / ps * kPsPerSecond;
    bin.padding = s.padded > 0 ? 1 - s.tokens / s.padded : 0;
    out.push_back(bin);
  }
  return out;
}

}  // namespace opentrn::serving
