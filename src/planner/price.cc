#include "planner/price.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "arch/closest.h"
#include "base/text_file.h"
#include "base/utf8.h"
#include "planner/machine.h"

namespace opentrn::planner {
namespace {

using std::chrono::year_month_day;

std::optional<std::chrono::sys_days> day_of(const std::string& text) {
  int year = 0, month = 0, day = 0, end = 0;
  const auto whole = [&] { return end == static_cast<int>(text.size()); };
  if (std::sscanf(text.c_str(), "%4d-%2d-%2d%n", &year, &month, &day, &end) == 3 && whole()) {
    const year_month_day date{std::chrono::year(year), std::chrono::month(month), std::chrono::day(day)};
    if (date.ok()) return std::chrono::sys_days(date);
    return std::nullopt;
  }
  end = 0;
  if (std::sscanf(text.c_str(), "%4d-%2d%n", &year, &month, &end) == 2 && whole()) {
    const auto last = std::chrono::year(year) / std::chrono::month(month) / std::chrono::last;
    if (last.ok()) return std::chrono::sys_days(last);
  }
  return std::nullopt;
}

std::chrono::sys_days need_day(const std::string& text) {
  const auto day = day_of(text);
  if (!day)
    throw Fault(FaultKind::kInput, "plan.date", fmt::format("'{}' is not a date", text),
                "2025-01-31, or 2025-01 for its end");
  return *day;
}

// A rate of a name that nothing is planned for would be of no effect, and the list's rate be taken.
void expect_instance(const std::string& key, const std::string& path) {
  const size_t first = key.find('.') + 1;
  size_t end = key.rfind('.');
  if (!key.starts_with("price."))
    for (const std::string& kind : price_kinds())
      if (const size_t at = key.find("." + kind + ".", first); at != std::string::npos) end = at;
  const std::string name = key.substr(first, end > first ? end - first : std::string::npos);
  std::vector<std::string> known = arch::default_tables().facts().items("price");
  std::ranges::copy(plannable_instances(arch::default_tables()), std::back_inserter(known));
  if (std::ranges::find(known, name) != known.end()) return;
  std::ranges::sort(known);
  known.erase(std::ranges::unique(known).begin(), known.end());
  throw Fault(FaultKind::kInput, "plan.price",
              fmt::format("{}: a rate of '{}', which is no instance", path, printable(name)),
              arch::did_you_mean(name, known, fmt::format("one of: {}", fmt::join(known, ", "))));
}

// That a row of a file of the user's is a rate: nothing that is not one would be of effect.
void expect_rate(const arch::Fact& fact, const std::string& path) {
  const std::vector<std::string> kinds = price_kinds();
  const bool named = std::ranges::any_of(kinds, [&](const std::string& kind) {
    return fact.key.starts_with("price.") ? fact.key.ends_with("." + kind + "_usd_h")
                                          : fact.key.find("." + kind + ".") != std::string::npos;
  });
  const std::string form =
      "[source], [price.\"<instance>\"] and [price_history.\"<instance>\".<kind>], as in price.toml";
  if (!named)
    throw Fault(FaultKind::kInput, "plan.price",
                fmt::format("{}: '{}' is no rate", path, printable(fact.key)),
                fmt::format("{}_usd_h: dollars an hour; {}", fmt::join(kinds, "_usd_h, "), form));
  expect_instance(fact.key, path);
  if (!fact.known()) return;
  if (const double value = fact.as<double>(); !std::isfinite(value) || value <= 0)
    throw Fault(FaultKind::kInput, "plan.price",
                fmt::format("{}: {} is {}", path, printable(fact.key), value), "dollars an hour, above zero");
  if (!fact.date.empty() && !day_of(fact.date))
    throw Fault(FaultKind::kInput, "plan.date",
                fmt::format("{}: {}: '{}' is not a date", path, printable(fact.key), printable(fact.date)),
                "2025-01-31, or 2025-01 for its end");
}

}  // namespace

std::vector<std::string> price_kinds() { return {"on_demand", "reserved", "capacity_block", "spot"}; }

std::string today() {
  const std::chrono::year_month_day day{
      std::chrono::floor<std::chrono::days>(std::chrono::system_clock::now())};
  return fmt::format("{:04}-{:02}-{:02}", int{day.year()}, unsigned{day.month()}, unsigned{day.day()});
}

int days_between(const std::string& from, const std::string& to) {
  return static_cast<int>((need_day(to) - need_day(from)).count());
}

std::shared_ptr<const arch::FactTable> read_prices(const std::string& path) {
  const std::string text = read_text_file(path, "plan.file", "the path of a TOML file");
  auto facts = std::make_shared<arch::FactTable>();
  facts->read(text, path);
  for (const arch::Fact& fact : facts->all())
    if (const std::string table = fact.key.substr(0, fact.key.find('.'));
        table != "price" && table != "price_history")
      throw Fault(
          FaultKind::kInput, "plan.price", fmt::format("{}: a table '{}'", path, table),
          "[source], [price.\"<instance>\"] and [price_history.\"<instance>\".<kind>], as in price.toml");
  for (const arch::Fact& fact : facts->all()) expect_rate(fact, path);
  return facts;
}

std::vector<Rate> rates_of(const arch::FactTable& facts, const std::string& instance) {
  std::vector<Rate> rates;
  for (const std::string& kind : price_kinds()) {
    const std::string key = fmt::format("price.{}.{}_usd_h", instance, kind);
    const auto add = [&](const arch::Fact& fact) {
      if (!fact.known()) return;
      rates.push_back({fact.as<double>(), kind, fact.date, fact.note, fact.source, fact.confidence});
    };
    if (const arch::Fact* fact = facts.find(key)) add(*fact);
    for (const arch::Fact* fact : facts.under(fmt::format("price_history.{}.{}", instance, kind))) add(*fact);
  }
  std::ranges::stable_sort(rates, {}, &Rate::date);
  return rates;
}

std::optional<Rate> rate_of(const arch::Tables& tables, const std::string& instance,
                            const PriceQuery& query) {
  const std::vector<std::string> kinds = price_kinds();
  if (std::ranges::find(kinds, query.kind) == kinds.end())
    throw Fault(FaultKind::kInput, "plan.price", fmt::format("there is no kind of price '{}'", query.kind),
                fmt::format("one of: {}", fmt::join(kinds, ", ")));
  std::optional<Rate> latest;
  const bool has_limit = !query.as_of.empty();
  const auto limit = has_limit ? need_day(query.as_of) : std::chrono::sys_days::max();
  const auto of_kind = [&](const Rate& rate) { return rate.kind == query.kind; };
  std::vector<Rate> rates;
  if (query.file) rates = rates_of(*query.file, instance);
  if (std::ranges::none_of(rates, of_kind)) rates = rates_of(tables.facts(), instance);
  for (const Rate& rate : rates) {
    if (rate.kind != query.kind) continue;
    if (has_limit && (rate.date.empty() || *day_of(rate.date) > limit)) continue;
    latest = rate;
  }
  return latest;
}

std::vector<std::string> published_kinds(const arch::Tables& tables, const std::string& instance,
                                         const PriceQuery& query) {
  std::vector<std::string> out;
  for (const std::string& kind : price_kinds()) {
    PriceQuery other = query;
    other.kind = kind;
    if (rate_of(tables, instance, other)) out.push_back(kind);
  }
  return out;
}

}  // namespace opentrn::planner
