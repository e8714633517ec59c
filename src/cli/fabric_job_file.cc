#include "cli/fabric_job_file.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <map>

#include <fmt/ranges.h>
#include <yaml-cpp/yaml.h>

#include "arch/closest.h"
#include "base/fault.h"
#include "base/units.h"
#include "cli/nccom_options.h"
#include "cli/yaml_reader.h"

namespace opentrn::cli {
namespace {

using collectives::TrainingStep;

constexpr int kDeepest = 8;  // steps within steps
constexpr int kMostSteps = 20'000;
constexpr double kLongestUs = 1e9;

class Reader : public YamlReader {
 public:
  explicit Reader(const std::string& path) : YamlReader(path, "fabric.yaml") {}

  int64_t whole(const YAML::Node& node, const std::string& key, int64_t most) const {
    const std::string word = text(node, key);
    int64_t value = 0;
    const char* end = word.data() + word.size();
    if (std::from_chars(word.data(), end, value).ptr != end || word.empty() || value < 1 || value > most)
      refuse(node.Mark(), fmt::format("'{}' is '{}'", key, word),
             fmt::format("a whole number from 1 to {}", most));
    return value;
  }
  // "900us", "1.5ms", "2s".
  int64_t time(const YAML::Node& node, const std::string& key) const {
    const std::string word = text(node, key);
    double value = 0;
    const auto read = std::from_chars(word.data(), word.data() + word.size(), value);
    const std::string unit(read.ptr, word.data() + word.size());
    const std::map<std::string, double> units = {{"ns", 1e-3}, {"us", 1}, {"ms", 1e3}, {"s", 1e6}};
    const auto found = units.find(unit);
    if (read.ec != std::errc() || found == units.end() || !(value > 0) || value * found->second > kLongestUs)
      refuse(node.Mark(), fmt::format("'{}' is '{}'", key, word),
             "a time such as 900us, 1.5ms or 2s, at most 1000s");
    return std::max<int64_t>(1, std::llround(value * found->second * kPsPerUs));
  }
  int64_t bytes(const YAML::Node& node, const std::string& key) const {
    const std::string word = text(node, key);
    try {
      return nccom::bytes_of(word, key);
    } catch (const Fault& fault) {
      refuse(node.Mark(), fmt::format("'{}' is '{}'", key, word), "a size such as 64kb, 16MB or 1gb");
    }
  }
  bool truth(const YAML::Node& node, const std::string& key) const {
    bool value = false;
    if (!node.IsScalar() || !YAML::convert<bool>::decode(node, value))
      refuse(node.Mark(), fmt::format("'{}' is neither true nor false", key), "true or false");
    return value;
  }
};

constexpr const char* kCollectives[] = {"all_reduce", "all_gather", "reduce_scatter", "all_to_all", "shift"};

collectives::Kind kind_of(const std::string& word) {
  if (word == "shift") return collectives::Kind::kPermute;
  return word == "all_to_all" ? collectives::Kind::kAllToAll : nccom::kind_of(word);
}

// Where in a job a list of steps stands. An alias stands for all that it names, so steps are counted as they
// are read.
struct Place {
  int depth = 1;
  int& steps;  // of the job, up to here
};

TrainingStep step_of(const Reader& read, const YAML::Node& node, Place place);

std::vector<TrainingStep> steps_of(const Reader& read, const YAML::Node& node, Place place) {
  if (place.depth > kDeepest)
    read.refuse(node.Mark(), "steps within steps within steps", fmt::format("at most {} deep", kDeepest));
  if (!node.IsSequence() || node.size() == 0)
    read.refuse(node.Mark(), "'steps' is not a list",
                "steps: [{compute: 900us}, {all_reduce: 16MB, over: tp}]");
  std::vector<TrainingStep> steps;
  for (const auto& each : node) {
    if (++place.steps > kMostSteps)
      read.refuse(each.Mark(), fmt::format("a job of more than {} steps", kMostSteps),
                  "repeat: 32, and the steps once");
    steps.push_back(step_of(read, each, place));
  }
  return steps;
}

TrainingStep step_of(const Reader& read, const YAML::Node& node, Place place) {
  TrainingStep step;
  std::map<std::string, Reader::Take> keys = {
      {"name", [&](const YAML::Node& each) { step.name = read.text(each, "name"); }},
      {"compute", [&](const YAML::Node& each) { step.compute_ps = read.time(each, "compute"); }},
      {"hbm", [&](const YAML::Node& each) { step.hbm_bytes = read.bytes(each, "hbm"); }},
      {"beside", [&](const YAML::Node& each) { step.beside = read.truth(each, "beside"); }},
      {"wait", [&](const YAML::Node& each) { step.waits = read.truth(each, "wait"); }},
      {"repeat", [&](const YAML::Node& each) { step.repeat = read.whole(each, "repeat", 1'000'000); }},
      {"steps",
       [&](const YAML::Node& each) {
         step.steps = steps_of(read, each, {place.depth + 1, place.steps});
       }},
      {"over", [&](const YAML::Node& each) {
         if (!each.IsSequence())
           step.over = {read.text(each, "over")};
         else
           for (const auto& one : each) step.over.push_back(read.text(one, "over"));
       }}};
  for (const char* word : kCollectives)
    keys[word] = [&, word](const YAML::Node& each) {
      if (step.kind) read.refuse(each.Mark(), "a step with two collectives", "two steps");
      step.kind = kind_of(word);
      step.bytes = read.bytes(each, word);
      if (step.bytes < 1) read.refuse(each.Mark(), fmt::format("'{}' of no bytes", word), "at least one");
    };
  read.mapping(node, "a step", keys);
  const int roles = (step.compute_ps > 0) + step.kind.has_value() + step.waits + !step.steps.empty();
  if (roles != 1)
    read.refuse(node.Mark(), roles == 0 ? "a step that does nothing" : "a step that does several things",
                fmt::format("one of compute, {}, wait and steps", fmt::join(kCollectives, ", ")));
  if (step.kind.has_value() != !step.over.empty())
    read.refuse(node.Mark(), step.kind ? "a collective without 'over'" : "'over' without a collective",
                "{all_reduce: 16MB, over: tp}");
  if (step.kind == collectives::Kind::kPermute && step.over.size() != 1)
    read.refuse(node.Mark(), "a shift over several axes", "one axis");
  if (step.beside && !step.kind) read.refuse(node.Mark(), "'beside' without a collective", "leave it out");
  if (step.hbm_bytes > 0 && step.compute_ps == 0)
    read.refuse(node.Mark(), "'hbm' without 'compute'", "leave it out");
  return step;
}

void read_document(const Reader& read, const YAML::Node& node, collectives::TrainingJob& job) {
  int steps = 0;
  read.mapping(
      node, "a job",
      {{"axes",
        [&](const YAML::Node& axes) {
          if (!axes.IsMap() || axes.size() == 0)
            read.refuse(axes.Mark(), "'axes' is not a mapping",
                        "axes: {tp: 16, dp: 392}, the first one fastest");
          for (const auto& each : axes) {
            const std::string name = read.text(each.first, "axes");
            job.axes.push_back({name, static_cast<int>(read.whole(each.second, name, 1 << 24))});
          }
        }},
       {"blocks", [&](const YAML::Node& blocks) {
          if (!blocks.IsSequence() || blocks.size() == 0)
            read.refuse(blocks.Mark(), "'blocks' is not a list", "blocks: [{name: step, steps: [...]}]");
          for (const auto& each : blocks) {
            collectives::TrainingBlock block;
            read.mapping(
                each, "a block",
                {{"name", [&](const YAML::Node& one) { block.name = read.text(one, "name"); }},
                 {"repeat",
                  [&](const YAML::Node& one) { block.repeat = read.whole(one, "repeat", 1'000'000); }},
                 {"steps", [&](const YAML::Node& one) {
                    block.steps = steps_of(read, one, {1, steps});
                  }}});
            if (block.steps.empty()) read.refuse(each.Mark(), "a block without steps", "steps: [...]");
            if (block.name.empty()) block.name = fmt::format("block {}", job.blocks.size() + 1);
            job.blocks.push_back(std::move(block));
          }
        }}});
  if (job.axes.empty())
    read.refuse(node.Mark(), "no 'axes'", "axes: {tp: 16, dp: 392}, the first one fastest");
  if (job.blocks.empty()) read.refuse(node.Mark(), "no 'blocks'", "blocks: [{name: step, steps: [...]}]");
}

}  // namespace

void read_training_file(const std::string& path, collectives::TrainingJob& job) {
  const Reader read(path);
  read_document(read, read.load("fabric.file"), job);
}

}  // namespace opentrn::cli
