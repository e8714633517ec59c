#include "cli/aws_words.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <deque>
#include <optional>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/fault.h"
#include "base/utf8.h"
#include "compiler/flags.h"

namespace opentrn::cli {

namespace {

using nlohmann::ordered_json;
using Names = std::span<const std::string_view>;

constexpr std::string_view kFrameworks[] = {"XLA"};
constexpr std::string_view kModels[] = {"generic", "transformer", "unet-inference"};
constexpr std::string_view kDistributions[] = {"generic", "llm-training", "NEMO"};
constexpr std::string_view kIntegers[] = {"default", "enabled", "disabled"};
constexpr std::string_view kCores[] = {"1", "2"};
// Phases of AWS's compiler that --pipeline may name: the whole of it, and one that keeps its intermediate
// files.
constexpr std::string_view kPipeline[] = {"compile", "SaveTemps"};
constexpr std::string_view kCommands[] = {"collect", "compile", "clean", "clear-locks", "analyze"};
constexpr std::array<std::pair<std::string_view, int>, 5> kLevels{
    {{"debug", 10}, {"info", 20}, {"warning", 30}, {"error", 40}, {"critical", 50}}};
constexpr int kLevelMax = 100, kRetriesMax = 100;

bool is_one_of(std::string_view text, Names names) { return std::ranges::find(names, text) != names.end(); }

// Values of an option that takes few; none of all others.
Names values_of(std::string_view option) {
  if (option == "model-type") return kModels;
  if (option == "distribution-strategy") return kDistributions;
  if (option == "native-int64") return kIntegers;
  if (option == "logical-nc-config" || option == "lnc") return kCores;
  return {};
}

std::string in_case(std::string text, int (*letter)(int)) {
  for (char& c : text) c = static_cast<char>(letter(static_cast<unsigned char>(c)));
  return text;
}

// Of digits alone, up to `most`.
std::optional<int> number_of(std::string_view text, int most) {
  if (text.empty() || !std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; }))
    return std::nullopt;
  int value = 0;
  for (const char digit : text) {
    value = value * 10 + (digit - '0');
    if (value > most) return std::nullopt;
  }
  return value;
}

// A word as a message quotes it: at most so many characters.
std::string in_quotes(std::string_view word) {
  std::string shown = printable(word);
  if (constexpr size_t kMost = 40; shown.size() > kMost) {
    shown.resize(kMost);
    while (!is_utf8(shown)) shown.pop_back();
  }
  return "'" + shown + "'";
}

Fault of_compiler(const std::string& message, const char* hint = "neuronx-cc compile --help") {
  return Fault(FaultKind::kInput, "tools.neuronx_cc", message, hint);
}

Fault of_parallel(const std::string& message, const char* hint = "") {
  return Fault(FaultKind::kInput, "tools.parallel_compile", message, hint);
}

// Documents turn dashes into others.
std::string with_plain_dashes(std::string word) {
  const std::pair<std::string_view, std::string_view> kDashes[] = {{"\u2014", "--"}, {"\u2013", "-"}};
  if (!word.starts_with(kDashes[0].first) && !word.starts_with(kDashes[1].first)) return word;
  for (const auto& [dash, plain] : kDashes)
    for (size_t at = 0; (at = word.find(dash, at)) != std::string::npos; at += plain.size())
      word.replace(at, dash.size(), plain);
  return word;
}

// `--output=x` of a word; -O1, -lnc=2 in the long form.
std::string normal(const std::string& given) {
  std::string word = with_plain_dashes(given);
  if (word.starts_with("---")) word.erase(0, 1);
  if (word == "-O") return "--optlevel";
  if (word.starts_with("-O"))
    return "--optlevel=" + word.substr(std::min(word.find_first_not_of('=', 2), word.size()));
  return word.starts_with("-lnc") ? "--lnc" + word.substr(4) : word;
}

bool is_flag(const std::string& word) {
  try {
    (void)compiler::parse_compiler_flags(word);
    return true;
  } catch (const Fault&) {
    return false;
  }
}

// Whether an option that stands alone lacks its value: it then takes the next word.
bool takes_value(const std::string& name) { return !is_flag("--" + name) && is_flag("--" + name + "=1"); }

int level_of(const std::string& value) {
  const std::string name = in_case(value, std::tolower);
  for (const auto& [known, level] : kLevels)
    if (known == name) return level;
  if (const auto number = number_of(value, kLevelMax)) return *number;  // scripts give numbers too
  std::vector<std::string_view> names;
  for (const auto& [known, level] : kLevels) names.push_back(known);
  throw of_compiler(fmt::format("--verbose {}: it is one of {}", value, fmt::join(names, ", ")));
}

// Reads the words of `neuronx-cc compile`.
class CompilerWords {
 public:
  explicit CompilerWords(std::span<const std::string> words) {
    for (const std::string& word : words) left_.push_back(normal(word));
  }

  NeuronxCc read() {
    made_.command = "compile";
    while (!left_.empty()) {
      const std::string word = next();
      if (!word.starts_with("-"))
        set_model(word);
      else
        read_option(word);
    }
    if (made_.model.empty()) throw of_compiler("no model is named");
    if (made_.target.empty()) throw of_compiler("no --target is named", "--target trn2");
    return std::move(made_);
  }

 private:
  std::string next() {
    std::string word = std::move(left_.front());
    left_.pop_front();
    return word;
  }

  bool has_word() const { return !left_.empty() && !left_.front().starts_with("-"); }

  void set_model(const std::string& word) {
    if (!made_.model.empty())
      throw of_compiler(fmt::format("two models, {} and {}: XLA's are one file", made_.model, word));
    made_.model = word;
  }

  void read_option(const std::string& word) {
    const size_t equals = word.find('=');
    std::optional<std::string> value;
    if (equals != std::string::npos) value = word.substr(equals + 1);
    const std::string name = word.substr(0, equals).substr(word.starts_with("--") ? 2 : 0);
    if (name == "pipeline") return read_pipeline(value);
    std::string* const text = name == "target"    ? &made_.target
                              : name == "output"  ? &made_.output
                              : name == "logfile" ? &made_.logfile
                                                  : nullptr;
    if (!text && name != "framework" && name != "verbose") return read_flag(word, name, value);
    if (!value) value = value_of(name);
    if (text)
      *text = *value;
    else if (name == "verbose")
      made_.level = level_of(*value);
    else if (in_case(*value, std::toupper) != kFrameworks[0])
      throw of_compiler(fmt::format("--framework {}: there is XLA", *value));
  }

  std::string value_of(const std::string& name) {
    if (left_.empty()) throw of_compiler(fmt::format("--{} has no value", name));
    return next();
  }

  void read_pipeline(const std::optional<std::string>& value) {
    std::vector<std::string> steps;
    if (value) steps.push_back(*value);
    while (has_word() && (steps.empty() || is_one_of(left_.front(), kPipeline))) steps.push_back(next());
    for (const std::string& step : steps)
      if (!is_one_of(step, kPipeline))
        throw Fault(FaultKind::kNotModelled, "tools.neuronx_cc",
                    fmt::format("--pipeline {}: OpenTrn's compiler has no such step of AWS's", step),
                    "--pipeline compile SaveTemps; `opentrn opt` prints the programs between its own passes");
  }

  // What the compiler reads: whether it is an option is found out there.
  void read_flag(const std::string& word, const std::string& name, std::optional<std::string> value) {
    made_.flags.push_back(word);
    if (const Names known = values_of(name); !known.empty()) {
      if (!value) made_.flags.push_back(*(value = value_of(name)));
      if (!is_one_of(*value, known))
        throw of_compiler(fmt::format("--{} {}: it is one of {}", name, *value, fmt::join(known, ", ")));
    } else if (!value && has_word() && takes_value(name)) {
      made_.flags.push_back(next());
    }
  }

  std::deque<std::string> left_;
  NeuronxCc made_;
};

NeuronxCc list_operators(std::span<const std::string> words) {
  constexpr const char* kHint = "neuronx-cc list-operators --framework XLA";
  std::vector<std::string> rest;
  for (const std::string& word : words) rest.push_back(normal(word));
  if (rest.size() == 1 && rest[0].starts_with("--framework=")) rest = {"--framework", rest[0].substr(12)};
  if (rest.empty() || rest[0] != "--framework") throw of_compiler("list-operators takes --framework", kHint);
  if (rest.size() != 2 || in_case(rest[1], std::toupper) != kFrameworks[0])
    throw of_compiler(fmt::format("--framework {}: there is XLA", fmt::join(std::span(rest).subspan(1), " ")),
                      kHint);
  return {.command = "list-operators"};
}

constexpr const char* kParallelHint = "neuron_parallel_compile --help";

void set(ParallelCompile& made, const std::string& name, const std::string& value) {
  if (name == "--command") {
    if (!is_one_of(value, kCommands))
      throw of_parallel(fmt::format("--command {}: one of {}", in_quotes(value), fmt::join(kCommands, ", ")));
    made.command = value;
  } else if (name == "--analyze-output") {
    made.output = value;
  } else {
    if (value != "1" && value != "2")
      throw of_parallel(fmt::format("--analyze-verbosity {}: 1 or 2", in_quotes(value)));
    made.verbosity = value[0] - '0';
  }
}

}  // namespace

NeuronxCc neuronx_cc(std::span<const std::string> words) {
  const auto asks_for_help = [](const std::string& word) { return word == "--help" || word == "-h"; };
  if (words.empty() || words[0] == "help" || std::ranges::any_of(words, asks_for_help))
    return {.command = "help"};
  if (words[0] == "--version") return {.command = words[0]};
  if (words[0] == "list-operators") return list_operators(words.subspan(1));
  if (words[0] == "compile") return CompilerWords(words.subspan(1)).read();
  throw of_compiler(fmt::format("'{}' is not a command", words[0]), "compile, or list-operators");
}

ParallelCompile parallel_compile(std::span<const std::string> words) {
  if (words.empty() || words[0] == "-h" || words[0] == "--help") return {.command = "help"};
  constexpr std::string_view kOptions[] = {"--command", "--analyze-output", "--analyze-verbosity"};
  ParallelCompile made;
  std::string of_analysis;
  size_t i = 0;
  for (; i < words.size(); ++i) {
    const size_t equals = words[i].find('=');
    const std::string name = words[i].substr(0, equals);
    if (!is_one_of(name, kOptions)) break;
    if (name != kOptions[0]) of_analysis = name;
    if (equals == std::string::npos && i + 1 == words.size())
      throw of_parallel(fmt::format("{} takes a value", name), kParallelHint);
    set(made, name, equals == std::string::npos ? words[++i] : words[i].substr(equals + 1));
  }
  if (i < words.size() && words[i].starts_with("-"))
    throw of_parallel(fmt::format("{} is not an option", in_quotes(words[i])), kParallelHint);
  if (!of_analysis.empty() && made.command != "analyze")
    throw of_parallel(fmt::format("{} is an option of --command analyze", of_analysis));
  made.program.assign(words.begin() + static_cast<std::ptrdiff_t>(i), words.end());
  if (made.program.empty() &&
      (made.command.empty() || made.command == "collect" || made.command == "analyze"))
    throw of_parallel("no program is named", kParallelHint);
  return made;
}

int parallel_compile_retries(std::string_view text) {
  if (text.empty()) return 0;
  if (const auto count = number_of(text, kRetriesMax)) return *count;
  throw of_parallel(fmt::format("NEURON_PARALLEL_COMPILE_MAX_RETRIES={}: a number from 0 to {}",
                                in_quotes(text), kRetriesMax));
}

ParallelSummary parallel_summary(std::span<const CompiledGraph> graphs) {
  ParallelSummary made;
  ordered_json counts = ordered_json::object(), report = ordered_json::object();
  for (const CompiledGraph& graph : graphs) {
    report[graph.path] = {{"status", graph.why.empty()}, {"retry", graph.retries}};
    if (!graph.why.empty()) made.failures.push_back(fmt::format("{}: {}", graph.path, graph.why));
  }
  const size_t failed = made.failures.size(), good = graphs.size() - failed;
  if (good > 0) counts["true"] = good;
  if (failed > 0) counts["false"] = failed;
  made.json =
      ordered_json{{"compilation_summary", counts}, {"compilation_report", report}}.dump(4, ' ', true);
  made.totals = {fmt::format("Total graphs: {}", graphs.size()),
                 fmt::format("Total successful compilations: {}", good),
                 fmt::format("Total failed compilations: {}", failed)};
  return made;
}

ParallelAnalysis parallel_analysis(std::span<const AnalysedGraph> graphs, int verbosity) {
  std::vector<const char*> kept{"op", "count", "unsupported", "emulated"};
  if (verbosity == 2) kept.insert(kept.end(), {"example", "file", "line"});
  ParallelAnalysis made;
  std::set<std::string> lacking;
  ordered_json shown = ordered_json::object();
  for (const AnalysedGraph& graph : graphs) {
    if (!graph.error.empty()) {
      shown[graph.path] = {{"error", graph.error}};
      made.complete = false;
      continue;
    }
    ordered_json rows = ordered_json::array();
    for (const ordered_json& row : ordered_json::parse(graph.rows)) {
      if (row.at("unsupported").get<int64_t>() > 0) lacking.insert(row.at("op").get<std::string>());
      ordered_json facts;
      for (const char* key : kept) facts[key] = row.at(key);
      rows.push_back(std::move(facts));
    }
    shown[graph.path] = {{"operations", std::move(rows)}};
  }
  made.unsupported.assign(lacking.begin(), lacking.end());
  made.complete = made.complete && lacking.empty();
  made.json = ordered_json{{"unsupported", made.unsupported}, {"graphs", shown}}.dump(1, ' ', true);
  return made;
}

}  // namespace opentrn::cli
