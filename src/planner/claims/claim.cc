#include "planner/claims/claim.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/fault.h"
#include "planner/hf_config.h"
#include "planner/interval.h"
#include "planner/search.h"

namespace opentrn::planner {
namespace {

constexpr double kSupported = 0.9, kNotSupported = 0.1;  // shares of the samples

Verdict verdict_of(double probability) {
  return probability >= kSupported      ? Verdict::kSupported
         : probability <= kNotSupported ? Verdict::kNotSupported
                                        : Verdict::kNotDecidable;
}

Between between_of(const arch::Fact& fact) {
  if (std::holds_alternative<std::vector<double>>(fact.value)) {
    const auto values = fact.as<std::vector<double>>();
    const bool ordered =
        values.size() == 3 && values[1] <= values[0] && values[0] <= values[2] && values[1] > 0;
    if (!ordered)
      throw Fault(FaultKind::kInput, "claims.input",
                  fmt::format("{} = {}", fact.key, arch::to_string(fact.value)),
                  "a number, or [value, low, high] above zero");
    return {values[0], values[1], values[2]};
  }
  const double value = fact.as<double>();
  return {value, value, value};
}

}  // namespace

std::string_view to_string(Verdict verdict) {
  switch (verdict) {
    case Verdict::kSupported: return "supported";
    case Verdict::kNotSupported: return "not supported";
    case Verdict::kNotDecidable: return "not decidable";
  }
  OPENTRN_CHECK(false, "a verdict without a name");
}

double Sample::operator()(const std::string& name) const {
  const auto found = values_.find(name);
  OPENTRN_CHECK(found != values_.end(), "a claim reads '{}', which is not an input of it", name);
  return found->second;
}

ClaimMaker::ClaimMaker(const arch::Tables& tables, const ClaimOptions& options, const std::string& id)
    : tables_(tables), options_(options) {
  const auto text = [&](const char* member) {
    const arch::Fact* fact = tables.facts().find(fmt::format("claims.{}.{}", id, member));
    return fact == nullptr ? std::string() : fact->as<std::string>();
  };
  claim_.id = id;
  claim_.sentence = text("sentence");
  claim_.quantity = text("quantity");
  claim_.missing = text("missing");
  claim_.changes = text("changes");
}

void ClaimMaker::number(const std::string& name, Between value, const std::string& confidence,
                        const std::string& source) {
  claim_.inputs.push_back({name, value, confidence, source, ""});
}

void ClaimMaker::table(const std::string& name, const std::string& key) {
  const arch::Fact& fact = tables_.facts().at(key);
  claim_.inputs.push_back(
      {name, between_of(fact), std::string(arch::to_string(fact.confidence)), fact.source, fact.note});
}

void ClaimMaker::input(const std::string& name) { input_of(claim_.id, name); }

void ClaimMaker::input_of(const std::string& claim, const std::string& name) {
  table(name, fmt::format("claims.{}.{}", claim, name));
}

bool ClaimMaker::price(const std::string& name, const std::string& instance) {
  const auto rate = rate_of(tables_, instance, options_.price);
  if (!rate) {
    missing(fmt::format("a {} price of {}{}", options_.price.kind, instance,
                        options_.price.as_of.empty() ? "" : " as of " + options_.price.as_of));
    return false;
  }
  claim_.inputs.push_back({name,
                           {rate->usd_h, rate->usd_h, rate->usd_h},
                           std::string(arch::to_string(rate->confidence)),
                           rate->source,
                           fmt::format("{} of {}, list of {}", rate->kind, instance,
                                       rate->date.empty() ? "no date" : rate->date)});
  return true;
}

void ClaimMaker::step_s(const std::string& name, const std::string& model, const std::string& instance,
                        int64_t count, double seq, double global_batch) {
  Job job;
  job.model = model_of(tables_, model);
  job.seq = seq;
  job.global_batch = global_batch;
  const Machine machine = machine_of(tables_, instance, count);
  const Stack stack = stack_of(tables_, default_stack(machine.kind));
  SearchOptions search_options;
  search_options.top = 1;
  const SearchResult found = search(job, machine, stack, search_options);
  if (found.best.empty()) return missing(fmt::format("a layout of {} on {} x {}", model, count, instance));
  const double step = found.best.front().step_s;
  const Interval interval = interval_of(tables_, stack, machine, step);
  number(name, {step, interval.low, interval.high}, "predicted",
         fmt::format("opentrn plan: {} on {} x {}, {}{}", model, count, instance,
                     to_string(found.best.front().layout),
                     interval.measured ? "" : "; no training on it was ever published, interval widened"));
}

void ClaimMaker::reading(const std::string& name, const std::string& wanted, Formula formula,
                         std::function<bool(double)> holds) {
  Reading reading;
  reading.name = name;
  reading.wanted = wanted;
  claim_.readings.push_back(std::move(reading));
  asked_.push_back({std::move(formula), std::move(holds)});
}
void ClaimMaker::at_least(const std::string& name, double limit, Formula formula) {
  reading(name, fmt::format("at least {:.4g}", limit), std::move(formula),
          [limit](double value) { return value >= limit; });
}
void ClaimMaker::at_most(const std::string& name, double limit, Formula formula) {
  reading(name, fmt::format("at most {:.4g}", limit), std::move(formula),
          [limit](double value) { return value <= limit; });
}
void ClaimMaker::between(const std::string& name, double low, double high, Formula formula) {
  reading(name, fmt::format("{:.4g} to {:.4g}", low, high), std::move(formula),
          [low, high](double value) { return value >= low && value <= high; });
}
void ClaimMaker::shown(const std::string& name, Formula formula) {
  reading(name, "", std::move(formula), nullptr);
}

void ClaimMaker::missing(const std::string& what) {
  claim_.missing += claim_.missing.empty() ? what : "; " + what;
}

Sample ClaimMaker::nominal_of(const arch::Tables& tables, const std::string& claim,
                              std::span<const char* const> names) {
  Sample out;
  for (const char* name : names)
    out.values_[name] = between_of(tables.facts().at(fmt::format("claims.{}.{}", claim, name))).value;
  return out;
}

Claim ClaimMaker::finish() {
  Sample nominal;
  for (const ClaimInput& input : claim_.inputs) nominal.values_[input.name] = input.value.value;
  std::vector<std::vector<double>> values(claim_.readings.size());
  SplitMix64 random(options_.seed);
  for (int i = 0; i < options_.samples; ++i) {
    Sample sampled;
    for (const ClaimInput& input : claim_.inputs) sampled.values_[input.name] = sample(input.value, random);
    for (size_t r = 0; r < asked_.size(); ++r) values[r].push_back(asked_[r].formula(sampled));
  }
  bool all = true, none = true, any = false;
  for (size_t r = 0; r < asked_.size(); ++r) {
    Reading& reading = claim_.readings[r];
    if (asked_[r].holds) {
      any = true;
      reading.probability =
          double(std::ranges::count_if(values[r], asked_[r].holds)) / static_cast<double>(values[r].size());
      reading.verdict = verdict_of(reading.probability);
      all = all && reading.verdict == Verdict::kSupported;
      none = none && reading.verdict == Verdict::kNotSupported;
    }
    reading.quantity = summary_of(asked_[r].formula(nominal), values[r]);
  }
  if (any && claim_.missing.empty() && all) claim_.verdict = Verdict::kSupported;
  if (any && claim_.missing.empty() && none) claim_.verdict = Verdict::kNotSupported;
  return claim_;
}

}  // namespace opentrn::planner
