// What a run is judged by, with the definitions of vLLM's `bench serve`: TTFT from arrival to the first
// token; TPOT the mean time per token after the first, one value per request of two or more; ITL the times
// between tokens, one value each; E2E from arrival to the last token.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "serving/engine.h"
#include "serving/request.h"

namespace opentrn::serving {

// Values with how often each occurred.
class Distribution {
 public:
  void add(double value, int64_t times = 1);
  int64_t count() const { return count_; }
  double mean() const;
  // Between neighbours linearly, as numpy.percentile does. `percent` 0 to 100; the distribution is not empty.
  double percentile(double percent) const;

 private:
  mutable std::vector<std::pair<double, int64_t>> values_;
  mutable bool sorted_ = true;
  int64_t count_ = 0;
  double sum_ = 0;
};

// Upper limits in milliseconds; a request is good when it keeps all of them.
struct Slo {
  std::optional<double> ttft_ms, tpot_ms, e2e_ms;

  bool given() const { return ttft_ms || tpot_ms || e2e_ms; }
  bool kept_by(const Request& request) const;
  // "ttft=500,tpot=50,e2e=20000". Input fault `serving.slo`.
  static Slo parse(const std::string& text);
};

double ttft_ms(const Request& request);
double tpot_ms(const Request& request);  // 0 for one token
double e2e_ms(const Request& request);

// Sums over steps.
struct StepTotals {
  int64_t steps = 0, prefill_steps = 0, decode_steps = 0, mixed_steps = 0;
  int64_t tokens = 0, padded_tokens = 0;                  // of all steps
  int64_t prefill_tokens = 0, prefill_padded_tokens = 0;  // of steps of prefill alone
  int64_t decode_rows = 0, decode_padded_rows = 0;        // of steps of decode alone
  Ps busy = 0, end = 0;

  void add(const StepRecord& record);
  void add(const StepTotals& other);
};

struct Summary {
  int64_t requests = 0, completed = 0, refused = 0;
  int64_t prompt_tokens = 0, output_tokens = 0, prefix_hit_tokens = 0, preemptions = 0;
  Ps first_arrival = 0, makespan = 0;  // to the last token
  Distribution ttft_ms, tpot_ms, itl_ms, e2e_ms, queue_ms;
  int64_t good = 0;  // requests that keep the SLO

  void add(const Request& request, const Slo& slo);
  double duration_s() const { return seconds(makespan - first_arrival); }
};

}  // namespace opentrn::serving
