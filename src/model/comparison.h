// A model on every chip: what an inference takes on each NeuronCore, and costs on each instance size.
//
// One copy of the model per NeuronCore, all cores busy, those of an HBM stack sharing its bandwidth (the
// latency is that of one alone), launches not overlapped, host and network not counted: the assumptions of a
// profile's table of serving, from which the rows are made.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "arch/tables.h"

namespace opentrn::model {

// One target of every NeuronCore, by which models are compared; the chips that share a core share its program
// and its time. Of the table's names of a core the one of the training family, else the first.
struct ComparedTarget {
  std::string name, core;  // "trn1", "NeuronCore-v2"
  std::vector<std::string> chips;
};
std::vector<ComparedTarget> compared_targets(const arch::Tables& tables);

// The kinds of rate in a profile's table of serving, and what tables for people call them.
struct RateKind {
  std::string_view key, title;
};
inline constexpr std::array<RateKind, 3> kComparedRates = {
    {{"on_demand", "on demand"}, {"reserved_3_years", "3 years"}, {"capacity_block", "block"}}};

// Of one NeuronCore. With `why`, what keeps its time unknown, the rest is unknown. Latency counts the launch;
// times are in us, bytes are of HBM and of SBUF per partition, percent of the core's own peaks.
struct ChipRow {
  std::string neuron_core;
  std::vector<std::string> chips;
  std::string why;
  double compile_s = 0, latency_us = 0, launch_us = 0, mfu_percent = 0, mbu_percent = 0;
  std::optional<std::string> bound_by;
  std::string trust, band;  // Timing's text, and its band as JSON
  int64_t hbm_bytes = 0, sbuf_bytes = 0, host_ops = 0;
};

// One instance size with all its cores at work; USD per million inferences by kind of rate, where known.
struct InstanceRow {
  std::string instance, chip;
  int64_t chips = 0;
  bool is_known = false;  // whether the rest is
  int64_t cores = 0;
  double latency_us = 0, inferences_per_s = 0;
  bool fits = false;
  std::array<std::optional<double>, kComparedRates.size()> prices;

  // The cheapest of the known prices; nothing where the model does not fit.
  std::optional<double> usd_per_million() const;
};

// What Timing and the compilation say of a model for one NeuronCore.
struct ComparedRun {
  double compile_s = 0, mfu_percent = 0, mbu_percent = 0;
  std::optional<std::string> bound_by;
  std::string trust, band;
  int64_t host_ops = 0;
};

class Comparison {
 public:
  // `source`: the model's name. `tables`: the instances and chips; they outlive it.
  Comparison(std::string source, const arch::Tables& tables);

  // Of a NeuronCore that compared_targets() has. `profile`: the timing's, as JSON; of a model in stages,
  // which run one after the other, "stages" of profiles, and all of them stay in the memory.
  void add(const ComparedTarget& target, const ComparedRun& run, const nlohmann::json& profile);
  void add_unknown(const ComparedTarget& target, std::string why);
  // Of an inference, where a model's shapes depend on data; as "rows=5".
  void set_sizes(std::vector<std::pair<std::string, int64_t>> sizes) { sizes_ = std::move(sizes); }

  const std::vector<ChipRow>& chips() const { return chips_; }
  std::vector<InstanceRow> instances() const;  // the cheapest first, then the fastest
  std::string text(size_t width = 100) const;  // two tables, in lines of so many characters
  nlohmann::ordered_json json() const;

 private:
  std::string source_;
  const arch::Tables& tables_;
  std::vector<ChipRow> chips_;
  std::vector<InstanceRow> instances_;
  std::vector<std::pair<std::string, int64_t>> sizes_;
};

}  // namespace opentrn::model
