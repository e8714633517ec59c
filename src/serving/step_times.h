// How long the device takes for a step.
//
// A Neuron server runs compiled programs of fixed sizes, so its times are a table with one row per program,
// and what depends on data inside a program is the keys and values that its attention reads. Until tables are
// made from compiled models, users give one, or state a linear model.
#pragma once

#include <istream>
#include <map>
#include <memory>
#include <string>

#include "serving/step.h"
#include "serving/time.h"

namespace opentrn::serving {

class StepTimes {
 public:
  virtual ~StepTimes() = default;
  virtual Ps of(const Step& step) const = 0;
  // For reports: what the times are.
  virtual std::string description() const = 0;
};

// Microseconds: step + prefill_token * (padded tokens of prompts) + decode_seq * (padded rows of decode) +
// context_token * (tokens of keys and values that attention reads).
struct LinearTimes final : StepTimes {
  double step_us = 0, prefill_token_us = 0, decode_seq_us = 0, context_token_us = 0;

  Ps of(const Step& step) const override;
  std::string description() const override;
  // "step=500,prefill_token=40,decode_seq=150,context_token=0.02", each at most once and none negative. Input
  // fault `serving.times`.
  static std::unique_ptr<LinearTimes> parse(const std::string& text);
};

// CSV with the header `program,us` or `program,us,context_token_us`: rows such as prefill_s512, decode_b8 and
// decode_b8_c2048 (Step::program). The third column is the time per token that attention reads beyond the
// program's own; it may be empty. Only for policies with buckets.
class TableTimes final : public StepTimes {
 public:
  // Input fault `serving.times` that names the line. `name`: of the file, for messages.
  static std::unique_ptr<TableTimes> read(std::istream& in, std::string name);
  Ps of(const Step& step) const override;
  std::string description() const override;

 private:
  struct Row {
    Ps fixed;
    double context_token_us;
  };
  std::string name_;
  std::map<std::string, Row, std::less<>> rows_;
};

// Tokens of keys and values that the attention of a step reads: all before each computed token of decode, and
// all before and within each chunk of a prompt.
int64_t context_tokens(const Step& step);

}  // namespace opentrn::serving
