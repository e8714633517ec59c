// The words of `opentrn plan` and of the commands that price its results.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/command.h"
#include "planner/goodput/profile.h"
#include "planner/interval.h"
#include "planner/price.h"
#include "planner/recost.h"
#include "planner/search.h"

namespace opentrn::cli {

// Of --serve.
struct PlanServeOptions {
  bool on = false;
  double prompt = 0, output = 0, longest = 0, rate = 0;
  int batch = 0;
  std::string slo, trace;
};

struct PlanOptions {
  TableOptions tables;
  std::string model, check, precision, stack;
  std::vector<std::string> instances;
  std::vector<int64_t> counts;
  double seq = 0, global_batch = 0, tokens = 0;
  planner::SearchOptions search;
  std::vector<std::string> schedules;
  std::string layer_times;  // a file of stated ones
  std::string recompute, sp, price_file, html, format, folder;
  planner::PriceQuery price;
  std::string reliability;  // whose failures, of `opentrn goodput --profiles`; empty: none are counted
  double checkpoint_gb_s = 0, restart_s = 0;
  int spares = -1;
  int explain = 0;
  std::optional<int> lnc;
  PlanServeOptions serve;
  int compiled = 0;                           // finalists whose layers are compiled; 0: none
  std::map<std::string, std::string> places;  // label of a fault -> file, line and key that it is about
  bool json = false, rows = false, exhaustive = false, list_models = false, list_instances = false;
};

// One machine's plans.
struct Planned {
  planner::Machine machine;
  int64_t count = 0;
  std::optional<planner::Rate> rate;
  planner::SearchResult result;
  planner::Stack stack;
  std::optional<planner::GoodputInterval> goodput;  // with --reliability
  std::vector<std::string> assumed;                 // by it
  double mttf_h = 0;
  std::optional<planner::Recost> recost;  // with --compiled
  int64_t programs = 0;                   // that it compiled, and did not find in the cache

  // Time of the clock for a second of steps.
  double stretch() const { return goodput ? 1 / goodput->useful.value : 1; }
};

// The interval of a plan's time of the clock, failures included.
planner::Interval clock_interval(const arch::Tables& tables, const Planned& on, double step_s);

// A plan of one of the machines, in the order of the printed table.
struct Line {
  const Planned* on = nullptr;
  const planner::Estimate* plan = nullptr;
};

std::string plan_table(const arch::Tables& tables, const planner::Job& job, const PlanOptions& options,
                       const std::vector<Planned>& machines, const std::vector<Line>& lines);
std::string plan_explained(const arch::Tables& tables, const planner::Job& job, const Line& line, int number);
std::string plan_json(const arch::Tables& tables, const planner::Job& job, const PlanOptions& options,
                      const std::vector<Planned>& machines, const std::vector<Line>& lines);

std::string plan_page(const arch::Tables& tables, const planner::Job& job, const PlanOptions& options,
                      const std::vector<Planned>& machines, const std::vector<Line>& lines);

// USD for a million tokens, failures included; none without a rate.
std::optional<double> usd_per_mtok(const planner::Job& job, const Line& line, double step_s);

}  // namespace opentrn::cli
