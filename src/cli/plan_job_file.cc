#include "cli/plan_job_file.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <map>

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include "cli/yaml_reader.h"
#include "planner/recompute.h"
#include "planner/schedule.h"

namespace opentrn::cli {
namespace {

class JobReader : public YamlReader {
 public:
  explicit JobReader(const std::string& path) : YamlReader(path, "plan.yaml"), file_(path) {}

  std::string one_of(const YAML::Node& node, const char* key, const std::vector<std::string>& words) const {
    const std::string word = text(node, key);
    if (std::ranges::find(words, word) == words.end())
      refuse(node.Mark(), fmt::format("'{}' is '{}'", key, word),
             fmt::format("one of: {}", fmt::join(words, ", ")));
    return word;
  }
  // A whole number above zero, also as 15e12.
  double number(const YAML::Node& node, const char* key) const {
    return read_number(node, key, "a whole number above zero", [](double value) {
      return value >= 1 && std::floor(value) == value && value <= 1e18;
    });
  }
  // What the command line takes as a fraction, too.
  double amount(const YAML::Node& node, const char* key) const {
    return read_number(node, key, "a number above zero",
                       [](double value) { return value > 0 && value <= 1e18; });
  }
  std::vector<std::string> texts(const YAML::Node& node, const char* key) const {
    std::vector<std::string> out;
    if (!node.IsSequence()) return {text(node, key)};
    for (const auto& each : node) out.push_back(text(each, key));
    return out;
  }
  // 32, [8, 16], or 8..64: that and its doubles.
  std::vector<int64_t> counts(const YAML::Node& node) const {
    std::vector<int64_t> out;
    const auto one = [&](const YAML::Node& each) {
      const double value = number(each, "count");
      if (value > 100'000) refuse(each.Mark(), fmt::format("'count' is {}", value), "at most 100,000");
      return static_cast<int64_t>(value);
    };
    if (node.IsSequence()) {
      for (const auto& each : node) out.push_back(one(each));
      return out;
    }
    const std::string word = text(node, "count");
    const size_t dots = word.find("..");
    if (dots == std::string::npos) return {one(node)};
    const int64_t first = one(YAML::Node(word.substr(0, dots))),
                  last = one(YAML::Node(word.substr(dots + 2)));
    if (first > last) refuse(node.Mark(), fmt::format("'count' is '{}'", word), "the smaller number first");
    for (int64_t each = first; each <= last; each *= 2) out.push_back(each);
    return out;
  }
  // Where the key is, for a fault with one of these labels that its value causes later.
  void mark(const YAML::Node& node, const char* key, std::initializer_list<const char*> labels,
            PlanOptions& options) const {
    for (const char* label : labels)
      options.places[label] = fmt::format("{}, line {}, '{}'", file_, node.Mark().line + 1, key);
  }
  // A value may be stated by the file or by the command line.
  template <typename T>
  void set(const YAML::Node& node, const char* option, T& to, const T& unset, T value) const {
    if (to != unset)
      refuse(node.Mark(), fmt::format("{} is also on the command line", option), "state it once");
    to = std::move(value);
  }
  template <typename Is>
  double read_number(const YAML::Node& node, const char* key, const char* wanted, Is is) const {
    double value = 0;
    const bool read = node.IsScalar() && YAML::convert<double>::decode(node, value);
    if (!read || !std::isfinite(value) || !is(value))
      refuse(node.Mark(), fmt::format("'{}' is '{}'", key, node.IsScalar() ? node.Scalar() : "no number"),
             wanted);
    return value;
  }

 private:
  std::string file_;
};

// The network above the units, whose links collectives are simulated on.
void read_links(const JobReader& read, const YAML::Node& node, PlanOptions& options) {
  options.links.on = true;
  read.mark(node, "links", {"plan.links", "fabric.cluster"}, options);
  read.mapping(node, "links",
               {{"pod",
                 [&](const YAML::Node& each) {
                   read.set(each, "--pod", options.links.pod, 0,
                            static_cast<int>(std::min(1e6, read.number(each, "pod"))));
                 }},
                {"oversubscription", [&](const YAML::Node& each) {
                   const auto is = [](double value) { return value >= 1 && value <= 1000; };
                   read.set(each, "--oversubscription", options.links.oversubscription, 1.0,
                            read.read_number(each, "oversubscription", "a number from 1 to 1000", is));
                 }}});
}

void read_fixed(const JobReader& read, const YAML::Node& node, PlanOptions& options) {
  planner::Fixed& fixed = options.search.fixed;
  std::map<std::string, JobReader::Take> keys;
  const auto degree = [&](const char* key, std::optional<int>& to) {
    keys[key] = [&read, &to, key](const YAML::Node& each) {
      const double value = read.number(each, key);
      if (value > 1 << 20) read.refuse(each.Mark(), fmt::format("'{}' is {}", key, value), "at most 1048576");
      read.set(each, key, to, std::optional<int>(), std::optional<int>(static_cast<int>(value)));
    };
  };
  degree("tp", fixed.tp);
  degree("cp", fixed.cp);
  degree("pp", fixed.pp);
  degree("vpp", fixed.vpp);
  degree("ep", fixed.ep);
  degree("dp", fixed.dp);
  degree("micro_batch", fixed.micro_batch);
  keys["zero"] = [&](const YAML::Node& each) {
    read.set(each, "--zero", fixed.zero, {},
             std::optional<int>(read.one_of(each, "zero", {"0", "1", "2", "3"})[0] - '0'));
  };
  keys["recompute"] = [&](const YAML::Node& each) {
    read.set(each, "--recompute", fixed.recompute, {},
             planner::recompute_named(read.one_of(each, "recompute", planner::recompute_names())));
  };
  degree("recompute_layers", fixed.recompute_layers);
  keys["sp"] = [&](const YAML::Node& each) {
    read.set(each, "--sp", options.sp, {}, read.one_of(each, "sp", {"on", "off"}));
  };
  keys["schedule"] = [&](const YAML::Node& each) {
    std::vector<std::string> words;
    const auto add = [&](const YAML::Node& word) {
      words.push_back(read.one_of(word, "schedule", planner::schedule_names()));
    };
    if (!each.IsSequence()) add(each);
    if (each.IsSequence())
      for (const auto& word : each) add(word);
    read.set(each, "--schedule", options.schedules, {}, words);
  };
  keys["offload"] = [&](const YAML::Node& each) {
    read.set(each, "--offload", fixed.offload, false, read.one_of(each, "offload", {"on", "off"}) == "on");
  };
  keys["mesh"] = [&](const YAML::Node& each) {
    read.set(each, "--mesh", options.program.mesh, {}, read.text(each, "mesh"));
    read.mark(each, "mesh", {"spmd.mesh", "spmd.devices"}, options);
  };
  keys["shard"] = [&](const YAML::Node& each) {
    if (!each.IsMap()) read.refuse(each.Mark(), "'shard' is not a mapping", "input0: dp,-");
    for (const auto& tensor : each)
      options.program.shard.push_back(
          fmt::format("{}={}", read.text(tensor.first, "shard"), read.text(tensor.second, "shard")));
    read.mark(each, "shard", {"spmd.annotation", "spmd.tensor", "spmd.axis", "spmd.rank", "spmd.axis_twice"},
              options);
  };
  read.mapping(node, "fix", keys);
}

// What a program states itself, and what only a program has.
void refuse_of_the_other_kind(const JobReader& read, const YAML::Node& node) {
  const bool is_program = node.IsMap() && node["step"].IsDefined();
  const auto refuse = [&](const YAML::Node& in, const std::string& of,
                          std::initializer_list<const char*> keys, const char* hint) {
    if (!in.IsDefined() || !in.IsMap()) return;
    for (const char* key : keys)
      for (const auto& each : in)
        if (each.first.as<std::string>("") == key)
          read.refuse(each.first.Mark(),
                      fmt::format("'{}{}' {}", of, key, is_program ? "beside 'step'" : "without 'step'"),
                      hint);
  };
  if (is_program) {
    const char* hint = "leave it out: the program says it";
    refuse(node, "", {"model", "precision", "stack", "serve"}, hint);
    refuse(node["data"], "data.", {"seq", "global_batch", "tokens"}, hint);
    refuse(node["fix"], "fix.",
           {"cp", "pp", "vpp", "ep", "zero", "micro_batch", "recompute", "recompute_layers", "sp", "schedule",
            "offload"},
           hint);
  } else if (node.IsMap()) {
    refuse(node["data"], "data.", {"steps"}, "of a program: step: train.mlir");
    refuse(node["fix"], "fix.", {"mesh", "shard"}, "of a program: step: train.mlir");
  }
}

void read_document(const JobReader& read, const YAML::Node& node, const std::string& path,
                   PlanOptions& options) {
  const auto beside = [&](const std::string& model) {
    const std::filesystem::path file = std::filesystem::path(path).parent_path() / model;
    std::error_code ignored;
    const bool is_there = std::filesystem::is_regular_file(file, ignored) ||
                          std::filesystem::is_regular_file(file / "config.json", ignored);
    return is_there ? file.string() : model;
  };
  refuse_of_the_other_kind(read, node);
  read.mapping(
      node, "the job file",
      {{"step",
        [&](const YAML::Node& each) {
          options.program.file = beside(read.text(each, "step"));
          options.model.clear();
          read.mark(each, "step", {"plan.program"}, options);
          options.program.place = options.places["plan.program"];
        }},
       {"model",
        [&](const YAML::Node& each) {
          options.model = beside(read.text(each, "model"));
          read.mark(each, "model", {"plan.model", "plan.config"}, options);
        }},
       {"stack",
        [&](const YAML::Node& each) {
          read.set(each, "--stack", options.stack, {}, read.text(each, "stack"));
          read.mark(each, "stack", {"plan.stack"}, options);
        }},
       {"precision",
        [&](const YAML::Node& each) {
          read.set(each, "--precision", options.precision, {},
                   read.one_of(each, "precision", {"bf16", "fp8", "fp32"}));
        }},
       {"data",
        [&](const YAML::Node& data) {
          read.mark(data, "data", {"plan.job"}, options);
          read.mapping(data, "data",
                       {{"seq",
                         [&](const YAML::Node& each) {
                           read.set(each, "--seq", options.seq, 0.0, read.number(each, "seq"));
                         }},
                        {"global_batch",
                         [&](const YAML::Node& each) {
                           read.set(each, "--global-batch", options.global_batch, 0.0,
                                    read.number(each, "global_batch"));
                         }},
                        {"steps",
                         [&](const YAML::Node& each) {
                           read.set(each, "--steps", options.program.steps, 0.0, read.number(each, "steps"));
                         }},
                        {"tokens", [&](const YAML::Node& each) {
                           read.set(each, "--tokens", options.tokens, 0.0, read.number(each, "tokens"));
                         }}});
        }},
       {"cluster",
        [&](const YAML::Node& cluster) {
          read.mapping(cluster, "cluster",
                       {{"instance",
                         [&](const YAML::Node& each) {
                           read.set(each, "--instance", options.instances, {}, read.texts(each, "instance"));
                           read.mark(each, "instance", {"plan.instance", "plan.chip"}, options);
                         }},
                        {"count",
                         [&](const YAML::Node& each) {
                           read.set(each, "--count", options.counts, {}, read.counts(each));
                         }},
                        {"lnc",
                         [&](const YAML::Node& each) {
                           read.set(each, "--lnc", options.lnc, {},
                                    std::optional<int>(read.one_of(each, "lnc", {"1", "2"})[0] - '0'));
                         }},
                        {"links", [&](const YAML::Node& links) { read_links(read, links, options); }}});
        }},
       {"reliability",
        [&](const YAML::Node& reliability) {
          read.mapping(
              reliability, "reliability",
              {{"profile",
                [&](const YAML::Node& each) {
                  read.set(each, "--reliability", options.reliability, {}, read.text(each, "profile"));
                  read.mark(each, "profile", {"goodput.profile"}, options);
                }},
               {"checkpoint_gb_s",
                [&](const YAML::Node& each) {
                  read.set(each, "--checkpoint-gb-s", options.checkpoint_gb_s, 0.0,
                           read.amount(each, "checkpoint_gb_s"));
                }},
               {"restart_s",
                [&](const YAML::Node& each) {
                  read.set(each, "--restart-s", options.restart_s, 0.0, read.amount(each, "restart_s"));
                }},
               {"spares", [&](const YAML::Node& each) {
                  const auto is = [](double value) {
                    return value >= 0 && value <= 1e5 && std::floor(value) == value;
                  };
                  const double spares = read.read_number(each, "spares", "a whole number to 100,000", is);
                  read.set(each, "--spares", options.spares, -1, static_cast<int>(spares));
                }}});
        }},
       {"serve",
        [&](const YAML::Node& node) {
          PlanServeOptions& serve = options.serve;
          serve.on = true;
          read.mark(node, "serve", {"plan.serve"}, options);
          const auto number = [&](const char* key, const char* option, auto& to) {
            return std::pair<const std::string, JobReader::Take>(
                key, [&read, &to, key, option](const YAML::Node& each) {
                  using T = std::remove_reference_t<decltype(to)>;
                  read.set(each, option, to, T{0}, static_cast<T>(std::min(1e7, read.number(each, key))));
                });
          };
          read.mapping(node, "serve",
                       {number("prompt_tokens", "--prompt-tokens", serve.prompt),
                        number("output_tokens", "--output-tokens", serve.output),
                        number("max_model_len", "--max-model-len", serve.longest),
                        {"requests_per_s",
                         [&](const YAML::Node& each) {
                           read.set(each, "--rate", serve.rate, 0.0, read.amount(each, "requests_per_s"));
                         }},
                        number("batch", "--batch", serve.batch),
                        {"slo", [&](const YAML::Node& each) {
                           read.set(each, "--slo", serve.slo, {}, read.text(each, "slo"));
                         }}});
        }},
       {"fix",
        [&](const YAML::Node& each) {
          read_fixed(read, each, options);
          read.mark(each, "fix", {"plan.layout", "plan.recompute"}, options);
        }},
       {"price", [&](const YAML::Node& price) {
          read.mapping(price, "price",
                       {{"kind",
                         [&](const YAML::Node& each) {
                           options.price.kind = read.one_of(each, "kind", planner::price_kinds());
                         }},
                        {"as_of", [&](const YAML::Node& each) {
                           read.set(each, "--as-of", options.price.as_of, {}, read.text(each, "as_of"));
                           read.mark(each, "as_of", {"plan.date"}, options);
                         }}});
        }}});
  if (options.model == path)
    read.refuse(node.Mark(), "no 'model' and no 'step'",
                "model: a config.json or a name of the catalogue; step: a program, train.mlir");
}

}  // namespace

void read_job_file(const std::string& path, PlanOptions& options) {
  const JobReader read(path);
  read_document(read, read.load("plan.file"), path, options);
}

}  // namespace opentrn::cli
