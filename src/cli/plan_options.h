// The words of `opentrn plan` and of the commands that price its results.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "planner/contributors.h"
#include "planner/cost_on_links.h"
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

// Of a program in place of a model.
struct PlanProgramOptions {
  std::string file;                // empty: the job is a model
  std::string place;               // of a job file's key `step`: "job.yaml, line 2, 'step'"
  std::string mesh;                // stated, with `shard`; empty: searched
  std::vector<std::string> shard;  // annotations of tensors
  double steps = 0;                // of the whole training, for hours and dollars
};

// Of --links: collectives on the links of the cluster, and the network above its units.
struct PlanLinksOptions {
  bool on = false;
  int pod = 0;
  double oversubscription = 1;
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
  std::string sp, price_file, html, format, folder;
  planner::PriceQuery price;
  std::string reliability;  // whose failures, of `opentrn goodput --profiles`; empty: none are counted
  double checkpoint_gb_s = 0, restart_s = 0;
  int spares = -1;
  int explain = 0;
  std::optional<int> lnc;
  PlanServeOptions serve;
  PlanProgramOptions program;
  PlanLinksOptions links;
  int compiled = 0;                           // finalists whose layers are compiled; 0: none
  std::map<std::string, std::string> places;  // label of a fault -> file, line and key that it is about
  bool json = false, rows = false, exhaustive = false, list_models = false, list_instances = false;
};

// One machine's plans.
struct Planned {
  planner::Machine machine;
  int64_t count = 0;
  std::optional<planner::Rate> rate;
  std::vector<std::string> published;  // kinds of rates
  planner::SearchResult result;
  planner::Stack stack;
  std::optional<planner::GoodputInterval> goodput;  // with --reliability
  std::vector<std::string> assumed;                 // by it
  double mttf_h = 0;
  std::optional<planner::Recost> recost;     // with --compiled
  int64_t programs = 0;                      // that it compiled, and did not find in the cache
  std::optional<planner::OnLinks> on_links;  // with --links

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

// The page, of the JSON that it shows.
std::string plan_page(const std::string& json);
std::string plan_page(const arch::Tables& tables, const planner::Job& job, const PlanOptions& options,
                      const std::vector<Planned>& machines, const std::vector<Line>& lines);

// "0.5 s", and a rate with its kind, date and what is stale about it.
std::string seconds_text(double value);
std::string price_line(const Planned& on, const PlanOptions& options);
std::string price_line(const std::string& instance, const std::optional<planner::Rate>& known,
                       const std::vector<std::string>& published, const PlanOptions& options);

// What failures leave of a job whose checkpoints have so many bytes, on this machine; nothing without
// --reliability.
void set_goodput(const PlanOptions& options, const arch::Tables& tables, double checkpoint_bytes,
                 Planned& on);

void write_page(const std::string& path, const std::string& page);

// What a plan's interval rests on most: "rate of the memory (planner.chip..., assumed), 0.80 to 1.25 of it:
// ...".
std::string contributor_text(const planner::Contributor& contributor);
nlohmann::ordered_json contributors_json(const std::vector<planner::Contributor>& contributors);

// USD for a million tokens, failures included; none without a rate.
std::optional<double> usd_per_mtok(const planner::Job& job, const Line& line, double step_s);

}  // namespace opentrn::cli
