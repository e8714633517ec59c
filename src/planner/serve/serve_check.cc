#include "planner/serve/serve_check.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <regex>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "planner/check/csv.h"

namespace opentrn::planner {
namespace {

struct Refusal {
  std::string reason;
};

bool has(const std::string& text, const char* pattern) {
  return std::regex_search(text, std::regex(pattern, std::regex::icase));
}

double number(const std::string& text, const char* pattern) {
  std::smatch match;
  if (!std::regex_search(text, match, std::regex(pattern))) return 0;
  return std::strtod(match[1].str().c_str(), nullptr);
}

// "(dec 80L h8192 a64 kv8 ffn28672 vocab128256 70.6B)".
Model model_of_words(const std::string& text) {
  if (has(text, "MoE|experts")) throw Refusal{"a model with experts whose sizes the row does not state"};
  if (!has(text, "\\(dec ")) throw Refusal{"no decoder whose sizes the row states"};
  Model model;
  model.type = model.name = "llama";
  model.gated = true;
  model.layers = static_cast<int>(number(text, " ([0-9]+)L "));
  model.hidden = static_cast<int>(number(text, " h([0-9]+)"));
  model.heads = static_cast<int>(number(text, " a([0-9]+)"));
  model.kv_heads = static_cast<int>(number(text, " kv([0-9]+)"));
  model.ffn = static_cast<int>(number(text, " ffn([0-9]+)"));
  model.vocabulary = number(text, " vocab([0-9]+)");
  if (model.vocabulary <= 0) model.vocabulary = 32000;
  if (model.layers <= 0 || model.hidden <= 0 || model.heads <= 0 || model.kv_heads <= 0 || model.ffn <= 0)
    throw Refusal{"no decoder whose sizes the row states"};
  model.head_dim = has(text, "Qwen3-32B") ? 128 : model.hidden / model.heads;
  return model;
}

struct Asked {
  ServeJob job;
  Machine machine;
  ServeLayout layout;
  ServeStep step;
  bool decode = false;
  double rows = 0;  // of the one program that reads prompts, in parts where they are longer; 0: of several
  bool kernel = false;  // which computes attention by a kernel
  double measured_s = 0;
};

// Hugging Face's servers read every prompt in one program: of the longest sequence (optimum-neuron's exporter
// for TGI, where a batch is above 1; the graph builders of its vLLM), or of as many rows as "chunked prefill"
// says.
double rows_of_one_program(const std::string& workload) {
  if (const double part = number(workload, "chunked prefill ([0-9]+)"); part > 0) return part;
  const bool one =
      has(workload, "vLLM") || (has(workload, "TGI") && number(workload, "max batch=([0-9]+)") > 1);
  return one ? number(workload, "max seq=([0-9]+)") : 0;
}

Asked asked_of(const arch::Tables& tables, const Record& row) {
  const std::string &workload = row.cells[2], &metric = row.cells[3], &unit = row.cells[5];
  Asked out;
  const bool first = has(metric, "^TTFT (p50|mean|median)|^encoding time");
  const bool next = has(metric, "^TPOT (p50|median)|^inter-token latency (p50|mean)");
  if (!first && !next) throw Refusal{"neither the median time to the first token nor that per token"};
  if (has(workload, "speculation|EAGLE")) throw Refusal{"speculative decoding"};
  if (has(workload, "load=(async|through)|concurrency=([2-9]|1[0-9])|prefix cache"))
    throw Refusal{"requests that wait for each other, or prompts that are cached"};
  out.decode = next;
  out.job.model = model_of_words(workload);
  std::smatch match;
  if (!std::regex_search(workload, match, std::regex("instance=([a-z0-9-]+\\.[0-9]*xlarge)")))
    throw Refusal{"no instance"};
  out.machine = machine_of(tables, match[1], 1);
  out.layout.tp = static_cast<int>(number(workload, "TP=([0-9]+)"));
  if (out.layout.tp < 1 || out.layout.tp > out.machine.ranks_per_server) throw Refusal{"no TP"};
  const double batch = number(workload, "batch=([0-9]+)");
  out.layout.batch = static_cast<int>(std::max(1.0, batch));
  // A server with one request under way prefills it alone, in a program that decodes its whole batch.
  if (!out.decode && has(workload, "load=synchronous|concurrency=1(;|$)|max batch")) out.layout.batch = 1;
  out.job.prompt = number(workload, "[; ]in[=~]+([0-9]+)");
  if (out.job.prompt <= 0) out.job.prompt = number(workload, "prompts ([0-9]+)");
  if (!out.decode) out.rows = rows_of_one_program(workload);
  // From this length on; parts, which read the cache, never (attention_base.py of optimum-neuron).
  out.kernel = out.rows >= 4096 && !has(workload, "chunked prefill");
  if (out.job.prompt <= 0 && out.rows > 0) out.job.prompt = number(workload, "default ~([0-9]+) in");
  if (out.job.prompt <= 0) throw Refusal{"no length of the prompt"};
  out.job.output = number(workload, "out[=~]+([0-9]+)");
  if (out.job.output <= 0) out.job.output = number(workload, "([0-9]+)\\+-[0-9]+ generated");
  out.job.longest = std::max(number(workload, "seq=([0-9]+)"), out.job.prompt + out.job.output);
  if (has(workload, "weights=int8|fp8")) out.job.precision = Precision::kFp8;
  const double value = std::strtod(row.cells[4].c_str(), nullptr);
  if (unit != "ms" || !(value > 0)) throw Refusal{"no time in ms"};
  out.measured_s = value / 1e3;
  return out;
}

// The prompts of a batch are read together where the row is a batch's; a serving load's come alone.
ServeScored score(const arch::Tables& tables, const Record& row, LayerSource* source) {
  const Asked asked = asked_of(tables, row);
  ServeProgram program = serve_program_of(tables, asked.machine.kind);
  if (asked.kernel) program.score_passes = 0;
  AllReduces reduces(tables, asked.machine);
  std::string why;
  const auto bucket = [&](double tokens) {
    double size = 128;
    while (size < tokens) size *= 2;
    return static_cast<int64_t>(program.reads_buckets ? std::min(size, std::max(asked.job.longest, tokens))
                                                      : tokens);
  };
  ServeStep step{asked.layout.batch, 1, bucket(asked.job.prompt + asked.job.output / 2)};
  if (!asked.decode) step.tokens = step.context = bucket(asked.job.prompt);
  double parts = 1;
  if (asked.rows > 0) {
    step.tokens = static_cast<int64_t>(asked.rows);
    step.context = static_cast<int64_t>(std::max(asked.rows, asked.job.longest));
    parts = std::ceil(asked.job.prompt / asked.rows);
  }
  const ServeStepTime time =
      serve_step(asked.job, asked.machine, program, asked.layout.tp, step, reduces, source, why);
  ServeScored out;
  out.id = row.cells[0];
  out.decode = asked.decode;
  out.measured_s = asked.measured_s;
  out.predicted_s = parts * time.total();
  out.compiled = source != nullptr && why.empty();
  const double ratio = out.measured_s / out.predicted_s;
  out.inside = asked.decode ? ratio >= program.decode_low && ratio <= program.decode_high
                            : ratio >= program.prefill_low && ratio <= program.prefill_high;
  out.calibration = std::ranges::find(program.calibrated_on, out.id) != program.calibrated_on.end();
  out.group = fmt::format("{} {}", out.calibration ? "calibration" : out.id.substr(0, out.id.find('.')),
                          asked.decode ? "decode" : "prefill");
  out.what = fmt::format("{} TP{} batch {} of {} at {}: layers {:.2f}, output {:.2f}, collectives {:.2f} ms",
                         asked.machine.instance, asked.layout.tp, asked.layout.batch, step.tokens,
                         step.context, 1e3 * time.layers, 1e3 * time.output, 1e3 * time.collectives);
  return out;
}

}  // namespace

ServeCheck check_serving(const arch::Tables& tables, std::string_view text, const std::string& origin,
                         LayerSource* source) {
  ServeCheck check;
  std::map<std::string, std::vector<double>> errors;
  for (const Record& row :
       read_columns(text, origin, {"id", "category", "workload", "metric", "value", "unit"})) {
    if (row.cells[1] != "llm_prefill" && row.cells[1] != "llm_decode") continue;
    ++check.rows;
    try {
      check.scored.push_back(score(tables, row, source));
      errors[check.scored.back().group].push_back(check.scored.back().error());
    } catch (const Refusal& refusal) {
      ++check.reasons[refusal.reason];
    } catch (const Fault& fault) {
      if (fault.kind() == FaultKind::kInternal) throw;
      ++check.reasons[fault.message()];
    }
  }
  for (auto& [group, each] : errors) check.groups[group] = errors_of(std::move(each));
  return check;
}

namespace {

// The share of predicted rows that their intervals hold; none of no rows.
std::optional<double> inside_interval(const ServeCheck& check) {
  if (check.scored.empty()) return std::nullopt;
  const auto inside = std::ranges::count_if(check.scored, &ServeScored::inside);
  return double(inside) / double(check.scored.size());
}

}  // namespace

std::string serve_check_text(const ServeCheck& check, bool every_row) {
  std::string text;
  if (every_row)
    for (const ServeScored& each : check.scored)
      text += fmt::format("{:<66} measured {:>9.2f} ms, predicted {:>9.2f} ({:+5.0f}%)  {}\n", each.id,
                          1e3 * each.measured_s, 1e3 * each.predicted_s,
                          100 * (each.predicted_s / each.measured_s - 1), each.what);
  text += fmt::format("{:<22}{:>6}{:>9}{:>9}{:>9}\n", "", "rows", "mean", "median", "p90");
  for (const auto& [group, errors] : check.groups)
    text += fmt::format("{:<22}{:>6}{:>8.1f}%{:>8.1f}%{:>8.1f}%\n", group, errors.rows, 100 * errors.mean,
                        100 * errors.median, 100 * errors.p90);
  text += fmt::format("{} of {} rows predicted", check.scored.size(), check.rows);
  if (!check.scored.empty())
    text += fmt::format(", {} with compiled layers; {:.0f} % inside the 80 % interval",
                        std::ranges::count_if(check.scored, &ServeScored::compiled),
                        100 * *inside_interval(check));
  text += "\n";
  for (const auto& [reason, count] : check.reasons) text += fmt::format("{:>5} rows: {}\n", count, reason);
  return text;
}

std::string serve_check_json(const ServeCheck& check) {
  nlohmann::ordered_json groups = nlohmann::ordered_json::object();
  for (const auto& [group, errors] : check.groups)
    groups[group] = {
        {"rows", errors.rows}, {"mean", errors.mean}, {"median", errors.median}, {"p90", errors.p90}};
  nlohmann::ordered_json out{{"rows", check.rows}, {"scored", check.scored.size()}, {"groups", groups}};
  if (const auto share = inside_interval(check)) out["interval_coverage"] = *share;
  for (const auto& [reason, count] : check.reasons) out["not_predicted"][reason] = count;
  return out.dump();
}

}  // namespace opentrn::planner
