#include "serving/step_times.h"

#include <charconv>
#include <cmath>
#include <sstream>

#include <fmt/format.h>

#include "base/fault.h"
#include "base/text_file.h"
#include "base/utf8.h"
#include "serving/text.h"

namespace opentrn::serving {
namespace {

// An hour: no step is longer, and sums of steps stay far below kPsMax.
constexpr double kUsMax = 3.6e9;

constexpr const char* kLinearForm = "step=500,prefill_token=40,decode_seq=150,context_token=0.02";

double us_of(std::string_view text, const std::string& where) {
  const auto value = number_of(text);
  if (!value || *value < 0 || *value > kUsMax)
    throw Fault(FaultKind::kInput, "serving.times", fmt::format("{}: '{}' is not a time in us", where, text),
                "a number from 0 to 3.6e9");
  return *value;
}

}  // namespace

int64_t context_tokens(const Step& step) {
  int64_t sum = 0;
  for (const StepEntry& entry : step.entries) sum += entry.computed_before + entry.tokens;
  return sum;
}

Ps LinearTimes::of(const Step& step) const {
  int64_t prompts = 0, rows = 0;
  for (const StepEntry& entry : step.entries) (entry.prefill ? prompts : rows) += entry.tokens;
  if (step.phase == Phase::kPrefill) prompts = step.padded_tokens();
  if (step.phase == Phase::kDecode) rows = step.padded_tokens();
  double us =
      step_us + prefill_token_us * static_cast<double>(prompts) + decode_seq_us * static_cast<double>(rows);
  if (context_token_us > 0) us += context_token_us * static_cast<double>(context_tokens(step));
  return ps_of_us(std::min(us, kUsMax));
}

std::string LinearTimes::description() const {
  return fmt::format(
      "linear, in us: {} a step, {} a token of a prompt, {} a row of decode, {} a token of "
      "context",
      step_us, prefill_token_us, decode_seq_us, context_token_us);
}

std::unique_ptr<LinearTimes> LinearTimes::parse(const std::string& text) {
  auto out = std::make_unique<LinearTimes>();
  const std::map<std::string_view, double*> known{{"step", &out->step_us},
                                                  {"prefill_token", &out->prefill_token_us},
                                                  {"decode_seq", &out->decode_seq_us},
                                                  {"context_token", &out->context_token_us}};
  std::map<std::string_view, bool> given;
  for (const std::string_view item : split(text, ',')) {
    const size_t equals = item.find('=');
    const std::string_view key = trimmed(item.substr(0, equals));
    const auto found = known.find(key);
    if (equals == std::string_view::npos || found == known.end() || given[key])
      throw Fault(FaultKind::kInput, "serving.times", fmt::format("no linear step time: '{}'", item),
                  fmt::format("for example {}", kLinearForm));
    given[key] = true;
    *found->second = us_of(trimmed(item.substr(equals + 1)), std::string(key));
  }
  return out;
}

std::unique_ptr<TableTimes> TableTimes::read(std::istream& in, std::string name) {
  auto out = std::make_unique<TableTimes>();
  out->name_ = name;
  std::string line;
  const auto fail = [&](int number, const std::string& why, const std::string& hint) {
    throw Fault(FaultKind::kInput, "serving.times", fmt::format("{}, line {}: {}", name, number, why), hint);
  };
  int number = 0;
  while (next_line(in, line, name, "serving.times")) {
    ++number;
    const std::string_view text = trimmed(line);
    if (text.empty() || text.front() == '#') continue;
    const auto cells = split(text, ',');
    if (number == 1 || (out->rows_.empty() && trimmed(cells[0]) == "program")) {
      if (text != "program,us" && text != "program,us,context_token_us")
        fail(number, fmt::format("the header is '{}'", printable(text.substr(0, 80))),
             "program,us or program,us,context_token_us");
      continue;
    }
    if (cells.size() < 2 || cells.size() > 3) fail(number, "not two or three cells", "program,us");
    const std::string where = fmt::format("{}, line {}", name, number);
    Row row{ps_of_us(us_of(trimmed(cells[1]), where)), 0};
    if (cells.size() == 3 && !trimmed(cells[2]).empty())
      row.context_token_us = us_of(trimmed(cells[2]), where);
    if (!out->rows_.emplace(trimmed(cells[0]), row).second)
      fail(number, fmt::format("a second time of {}", trimmed(cells[0])), "one row per program");
  }
  if (out->rows_.empty()) fail(number, "no program has a time", "rows such as prefill_s512,12000");
  return out;
}

Ps TableTimes::of(const Step& step) const {
  const std::string program = step.program();
  if (program.empty())
    throw Fault(FaultKind::kInput, "serving.times", "a table of programs needs a policy that has buckets",
                "policy neuron or neuron-nxdi, or a linear step time");
  const auto found = rows_.find(program);
  if (found == rows_.end())
    throw Fault(FaultKind::kInput, "serving.times", fmt::format("{} has no time of {}", name_, program),
                "add the row, or leave the bucket out of the configuration");
  const Row& row = found->second;
  if (row.context_token_us == 0) return row.fixed;
  return row.fixed + ps_of_us(row.context_token_us * static_cast<double>(context_tokens(step)));
}

std::string TableTimes::description() const { return fmt::format("{}: {} programs", name_, rows_.size()); }

}  // namespace opentrn::serving
