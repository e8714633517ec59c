#include "model/diff_report.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

namespace opentrn::model {

namespace {

constexpr std::string_view kBug = "bug";

// Those in doubt first.
int rank_of(std::string_view verdict) {
  constexpr std::array<std::string_view, 4> kOrder = {kBug, "not judged", "rounding", "exact"};
  return static_cast<int>(std::ranges::find(kOrder, verdict) - kOrder.begin());
}

std::string tail(const std::string& text, size_t width) {
  return text.size() <= width ? text : "..." + text.substr(text.size() - (width - 3));
}

std::string share(const std::optional<double>& of_limit) {
  if (!of_limit) return "?";
  return *of_limit < 100 ? fmt::format("{:.2f}", *of_limit) : fmt::format("{:.0e}", *of_limit);
}

std::string line_of(const DiffRow& row) {
  const std::string op = row.op.substr(row.op.rfind('.') + 1);
  return fmt::format("  {:<16} {:<20} {:>7.0e} {:>7.0e}  {:>9}  {}\n", tail(op, 16), tail(row.place(), 20),
                     row.error.accumulated.max_abs, row.error.accumulated.max_rel, share(row.error.of_limit),
                     row.error.verdict);
}

std::string text_of(const ResultRow& row, size_t number) {
  std::string text = fmt::format("result {}: max abs {:.1e}, rel {:.1e}; fused: {}, {}\n", number,
                                 row.error.accumulated.max_abs, row.error.accumulated.max_rel,
                                 row.error.same_bits ? "same bits" : "other bits", row.error.verdict);
  if (row.from_model)
    text += fmt::format("  from the model without these options: relative RMS {:.1e}, cosine {:.6f}\n",
                        row.from_model->relative_rms, row.from_model->cosine);
  return text;
}

std::string text_of_bug(const DiffRow& bug) {
  std::string text =
      fmt::format("first bug: op {}, {} -> {}\n  at {}", bug.number, bug.op, bug.type, bug.place());
  if (bug.line) text += fmt::format(" ({}:{})", bug.file, bug.line);
  text += fmt::format("\n  own error: {:.3g} {}, {} of what rounding explains\n", bug.error.own_ulp,
                      bug.judgement == "exact" ? "elements differ" : "units in the last place",
                      share(bug.error.of_limit));
  if (bug.is_narrowed) text += "  the device keeps 64-bit numbers in 32 bits: values beyond them are lost\n";
  return text;
}

bool is_kept_in_half(graph::ElementType element) {
  using enum graph::ElementType;
  return element == kF64 || element == kI64 || element == kUI64 || element == kIndex;
}

}  // namespace

std::string DiffRow::place() const {
  if (!name.empty() || line == 0) return name;
  return fmt::format("{}:{}", file.substr(file.rfind('/') + 1), line);
}

const DiffRow* DiffReport::first_bug() const {
  const auto found = std::ranges::find(ops, kBug, [](const DiffRow& row) { return row.error.verdict; });
  return found == ops.end() ? nullptr : &*found;
}

bool DiffReport::is_clean() const {
  return !first_bug() &&
         std::ranges::none_of(results, [](const ResultRow& row) { return row.error.verdict == kBug; });
}

std::string DiffReport::text(size_t rows_max) const {
  std::vector<const DiffRow*> shown;
  for (const DiffRow& row : ops) shown.push_back(&row);
  std::ranges::stable_sort(shown, {}, [](const DiffRow* row) {
    return std::pair(rank_of(row->error.verdict), -row->error.of_limit.value_or(0));
  });
  shown.resize(std::min(shown.size(), rows_max));
  std::string text =
      fmt::format("{} ops on {} against float64\n  {:<16} {:<20} {:>7} {:>7}  {:>9}  verdict\n", ops.size(),
                  target, "op", "at", "max abs", "rel", "own limit");
  for (const DiffRow* row : shown) text += line_of(*row);
  if (ops.size() > shown.size()) text += fmt::format("  ... and {} more\n", ops.size() - shown.size());
  text += "  abs, rel: accumulated; own limit: own error over what rounding explains\n";
  for (size_t number = 0; number < results.size(); ++number) text += text_of(results[number], number);
  const DiffRow* bug = first_bug();
  return text + (bug ? text_of_bug(*bug) : "every judged op's error is what rounding explains\n");
}

DiffReport report_of(std::string target, const compiler::ObservedValues& observed,
                     const std::vector<OpDiff>& judged) {
  constexpr std::string_view kJudgements[] = {"exact", "rounded", "function", "sum", "unknown"};
  DiffReport report{std::move(target), {}, {}};
  for (size_t i = 0; i < judged.size(); ++i) {
    const compiler::ObservedValue& value = observed.values[i];
    report.ops.push_back({i, value.kind, value.where.function, value.where.file, value.where.line,
                          value.type.to_string(), is_kept_in_half(value.type.element()),
                          kJudgements[static_cast<size_t>(value.judgement)], judged[i]});
  }
  return report;
}

}  // namespace opentrn::model
