// What an hour of an instance costs: dated, of one kind, from the tables or from a file of the user's.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "arch/tables.h"

namespace opentrn::planner {

struct Rate {
  double usd_h = 0;
  std::string kind;    // "on_demand", "reserved", "capacity_block", "spot"
  std::string date;    // "2026-07-20", "2024-12": of the list it stands in
  std::string region;  // empty where the source does not say
  std::string source;
  arch::Confidence confidence = arch::Confidence::kDocumented;
};

// Rates of the user's own, in the form of price.toml: they stand in for all of the tables' of that instance
// and kind. Input faults: a file that cannot be read, or is none.
std::shared_ptr<const arch::FactTable> read_prices(const std::string& path);

struct PriceQuery {
  std::string kind = "on_demand";
  std::string
      as_of;  // "2025-01", "2025-01-31": the latest rate that was valid then; empty: the latest of all
  std::shared_ptr<const arch::FactTable> file = nullptr;  // of read_prices(); none: the tables alone
};

// The rate, or none where no source gives one: nothing is ever priced from an unknown. Input faults: a kind
// that is none; a date that is none.
std::optional<Rate> rate_of(const arch::Tables& tables, const std::string& instance, const PriceQuery& query);

// The kinds of which rate_of() has a rate for this instance on the query's day, whatever kind it asks for.
std::vector<std::string> published_kinds(const arch::Tables& tables, const std::string& instance,
                                         const PriceQuery& query);

// Every rate that the tables hold of an instance, oldest first.
std::vector<Rate> rates_of(const arch::FactTable& facts, const std::string& instance);

std::string today();  // by the host's clock, in UTC
// Days between two dates ("2026-07-20", or a month: its last day); for marking what is stale.
int days_between(const std::string& from, const std::string& to);
inline constexpr int kStaleDays = 90;

std::vector<std::string> price_kinds();

}  // namespace opentrn::planner
