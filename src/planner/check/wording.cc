#include "planner/check/wording.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <regex>
#include <string_view>

#include <fmt/format.h>

#include "planner/recompute.h"

namespace opentrn::planner {
namespace {

// A cell's text is at most this long for the expressions below, whose time grows with it.
constexpr size_t kLongest = 400;

std::string shortened(const std::string& text) { return text.substr(0, kLongest); }

std::string lowered(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char each) { return std::tolower(each); });
  return text;
}

double value_of(std::string digits) {
  std::erase(digits, ',');
  return std::strtod(digits.c_str(), nullptr);
}

struct Number {
  double value = 0;
  std::string rest;  // behind it, without spaces before it
};

// The number at the start of a cell, with what follows.
std::optional<Number> leading(const std::string& text, double kilo) {
  static const std::regex expression(
      "^\\s*(?:~|≈|about |approx\\.? "
      ")?\\s*((?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+)(?:\\.[0-9]+)?(?:[eE][+-]?[0-9]{1,"
      "3})?)"
      "(?:([kKMBT])(?![A-Za-z]))?\\s*(.*)$");
  std::smatch match;
  const std::string cell = shortened(text);
  if (!std::regex_match(cell, match, expression)) return std::nullopt;
  double value = value_of(match[1]);
  const std::string suffix = match[2];
  if (suffix == "k" || suffix == "K") value *= kilo;
  if (suffix == "M") value *= 1e6;
  if (suffix == "B") value *= 1e9;
  if (suffix == "T") value *= 1e12;
  if (!std::isfinite(value)) return std::nullopt;
  return Number{value, match[3]};
}

// "..2048", "-8192", "to 16", ",5": more than one number.
bool is_range(const std::string& rest) {
  static const std::regex expression("^(?:\\.\\.|-|–|to |,|x ?)\\s*[0-9].*");
  return std::regex_match(rest, expression);
}

// The first number behind one of these words: "mbs=2", "TP8", "tp 8". Words may stand behind a digit and an
// x.
double after(const std::string& text, const char* pattern) {
  thread_local std::map<std::string, std::regex> known;
  const auto [at, is_new] = known.try_emplace(pattern);
  if (is_new)
    at->second = std::regex(
        std::string("(?:^|[^a-z]|[0-9]x)(?:") + pattern + ")[ =:_-]{0,3}([0-9][0-9,]*(?:\\.[0-9]+)?)",
        std::regex::icase);
  const std::regex& expression = at->second;
  std::smatch match;
  if (!std::regex_search(text, match, expression)) return 0;
  return value_of(match[1]);
}

// "8-way TP", "8 way tensor".
double before(const std::string& text, const char* pattern) {
  const std::regex expression(std::string("([0-9]+)[- ]?way[- ](?:") + pattern + ")", std::regex::icase);
  std::smatch match;
  return std::regex_search(text, match, expression) ? value_of(match[1]) : 0;
}

double degree(const std::string& text, const char* short_name, const char* long_name) {
  double found = after(text, short_name);
  if (found <= 0)
    found = after(
        text, (std::string(long_name) + "(?:[ _-](?:model[ _-])?parallel(?:ism)?)?(?:[ _-]size)?").c_str());
  if (found <= 0) found = before(text, (std::string(short_name) + "|" + long_name).c_str());
  return found;
}

// Neuron's pages: [8xNC(TP)x4(DP)] x 16nodes(DP).
void add_bracketed(Degrees& out, const std::string& text) {
  static const std::regex part("([0-9]+)(?:xNC|nodes)?\\((TP|PP|DP|CP|EP)\\)");
  for (std::sregex_iterator each(text.begin(), text.end(), part), end; each != end; ++each) {
    const std::string name = (*each)[2];
    double& stated = name == "TP"   ? out.tp
                     : name == "PP" ? out.pp
                     : name == "DP" ? out.dp
                     : name == "CP" ? out.cp
                                    : out.ep;
    stated = std::max(1.0, stated) * value_of((*each)[1]);
  }
}

// "save_qkv_proj", "remat_policy=minimal_flash", "remat=full": MaxText's names, the longer ones first.
std::optional<Recompute> policy_in(const std::string& text) {
  static const std::regex stated("remat(?:_policy)?[ =:]+([a-z_]+)", std::regex::icase);
  std::smatch match;
  if (std::regex_search(text, match, stated)) return recompute_named(lowered(match[1]));
  static const std::regex name("(?:^|[^a-z_])((?:save|minimal|qkv)_[a-z_]+)", std::regex::icase);
  if (std::regex_search(text, match, name)) return recompute_named(lowered(match[1]));
  return std::nullopt;
}

void set_modes(Degrees& out, const std::string& text) {
  out.no_sp = has(text, "no[- ]SP");
  out.sp = !out.no_sp && has(text, "(^|[^A-Za-z])SP($|[^A-Za-z0-9])|sequence[- _]parallel");
  out.overlap = has(text, "tp-overlap|comm overlap|AsyncTP|async-?tp|userbuffers");
  out.interleaved = has(text, "interleaved");
  constexpr std::pair<const char*, Schedule> schedules[] = {{"dual-?pipe", Schedule::kDualPipe},
                                                            {"v-?half", Schedule::kVHalf},
                                                            {"v-?min", Schedule::kVMin},
                                                            {"zb-?v|zero-?bubble[- ]?v", Schedule::kZbV},
                                                            {"(^|[^a-z])zb|zero-?bubble", Schedule::kZbH1}};
  for (const auto& [pattern, schedule] : schedules)
    if (!out.schedule && has(text, pattern)) out.schedule = schedule;
  if (const auto policy = policy_in(text))
    out.recompute = policy;
  else if (has(text, "no[- ](re-?compute|ac($|[^a-z])|checkpointing)|ckpt=False|recompute=none"))
    out.recompute = Recompute::kNone;
  else if (has(text, "selective"))
    out.recompute = Recompute::kSelective;
  else if (has(text,
               "full-recompute|full-AC|full recompute|ckpt=True|recompute=full|full-activation|"
               "full activation"))
    out.recompute = Recompute::kFull;
  out.recompute_layers = after(text,
                               "recompute[-_ ](?:num[-_ ])?layers|act(?:ivations?)?[-_ "
                               "]c(?:hec)?kp(?:oin)?t(?:ing)?[-_ ](?:num[-_ ])?layers");
  if (out.recompute_layers > 0 && !out.recompute) out.recompute = Recompute::kFull;
}

}  // namespace

bool has(const std::string& text, const char* pattern) {
  // Patterns are written in the source: a few dozen, which take longer to read than to look for.
  thread_local std::map<std::string, std::regex> known;
  const auto [at, is_new] = known.try_emplace(pattern);
  if (is_new) at->second = std::regex(pattern, std::regex::icase);
  return std::regex_search(shortened(text), at->second);
}

std::optional<double> number_in(const std::string& text, double kilo) {
  const std::optional<Number> found = leading(text, kilo);
  if (!found || is_range(found->rest)) return std::nullopt;
  // A letter that touches the number makes it one of something else.
  const size_t at = text.find(found->rest);
  const bool touches = !found->rest.empty() && at != std::string::npos && at > 0 &&
                       std::isdigit(static_cast<unsigned char>(text[at - 1])) != 0 &&
                       std::isalpha(static_cast<unsigned char>(found->rest[0])) != 0;
  if (touches) return std::nullopt;
  return found->value;
}

std::optional<double> chips_in(const std::string& text) {
  const std::optional<double> found = number_in(text);
  if (!found) return std::nullopt;
  const std::string rest = leading(text, 1000)->rest;
  if (!rest.empty() && rest[0] != '(' &&
      !has(rest, "^(x )?(gpu|chip|device|accelerator|tpu|npu|card|[AHB][0-9]00)"))
    return std::nullopt;
  return found;
}

std::optional<double> batch_in(const std::string& text, double seq) {
  const std::optional<double> found = number_in(text, 1024);
  if (!found || !has(text, "token")) return found;
  if (seq <= 0) return std::nullopt;
  return leading(text, 1000)->value / seq;
}

Degrees degrees_of(const std::string& whole) {
  const std::string text = shortened(whole);
  Degrees out;
  out.tp = degree(text, "TP", "tensor");
  out.cp = degree(text, "CP", "context");
  out.pp = degree(text, "PP", "pipeline");
  out.dp = degree(text, "DP", "data");
  out.ep = degree(text, "EP", "expert");
  out.vpp = after(text, "VPP?|virtual[ _-]pipeline");
  out.micro_batch = after(text, "mbs|micro[-_ ]?batch(?:[ _-]size)?");
  out.global_batch = after(text, "gbs|global[-_ ]batch(?:[ _-]size)?");
  out.accumulated = after(text, "accum|grad(?:ient)?[ _-]accum(?:ulation)?(?:[ _-]steps)?|ga");
  out.local_batch = after(text, "local-batch");
  out.model_parallel = after(text, "MP");
  if (has(text, "mbs=[0-9]+\\(local\\)")) std::swap(out.micro_batch, out.local_batch);
  add_bracketed(out, text);
  const double fsdp = after(text, "FSDP");
  out.fsdp = has(text, "FSDP|FULL_SHARD");
  if (fsdp > 0 && !has(text, "FSDP2([^0-9]|$)")) out.dp = fsdp;
  if (out.fsdp) out.zero = 3;
  if (has(text, "SHARD_GRAD_OP")) out.zero = 2;
  if (has(text, "HYBRID_SHARD|HSDP")) out.shard = 8;
  if (has(text, "ZeRO[- ]?[0-3]")) out.zero = after(text, "ZeRO");
  // InternEvo's size of the groups that share an optimizer: "zero1=8", or -1 for all.
  if (has(text, "zero1 ?= ?[0-9]")) out.shard = after(text, "zero1");
  set_modes(out, text);
  return out;
}

std::string chip_in(const std::string& system) {
  // The longer names first. What is another part than the one of the tables is none of them.
  constexpr std::pair<const char*, const char*> chips[] = {{"gb300", "GB300"},
                                                           {"gb200", "GB200"},
                                                           {"b300", "B300 SXM"},
                                                           {"b200", "B200 SXM"},
                                                           {"h200", "H200 SXM"},
                                                           {"h100-96gb", "H100 SXM 96GB"},
                                                           {"h100", "H100 SXM"},
                                                           {"h800", "H100 SXM"},
                                                           {"hopper", "H100 SXM"},
                                                           {"a100-40gb", "A100 SXM 40GB"},
                                                           {"a100-sxm4-40gb", "A100 SXM 40GB"},
                                                           {"a100 40gb", "A100 SXM 40GB"},
                                                           {"a100", "A100 SXM 80GB"},
                                                           {"a800", "A100 SXM 80GB"},
                                                           {"ampere", "A100 SXM 80GB"},
                                                           {"mi355x", "MI355X"},
                                                           {"mi300x", "MI300X"},
                                                           {"tpu v6e", "TPU v6e"},
                                                           {"v6e", "TPU v6e"},
                                                           {"trillium", "TPU v6e"},
                                                           {"tpu v5p", "TPU v5p"},
                                                           {"v5p", "TPU v5p"},
                                                           {"tpu v5e", "TPU v5e"},
                                                           {"v5e", "TPU v5e"},
                                                           {"gaudi2", "Gaudi2"},
                                                           {"gaudi 2", "Gaudi2"},
                                                           {"gaudi3", "Gaudi3"},
                                                           {"gaudi 3", "Gaudi3"}};
  const std::string text = lowered(shortened(system));
  if (has(text, "pcie|nvl($|[^0-9])")) return {};
  for (const auto& [word, chip] : chips)
    if (text.find(word) != std::string::npos) return chip;
  return {};
}

double network_in(const std::string& system) {
  // Jean Zay's servers have four links of 100 Gb/s.
  if (has(system, "Jean Zay")) return 400.0 / 8 / 8;
  std::smatch match;
  const std::string text = shortened(system);
  if (!std::regex_search(text, match, std::regex("([0-9.]+) ?Gb/s"))) return 0;
  return value_of(match[1]) / 8 / (has(text, "per GPU") ? 1 : 8);
}

double links_in(const std::string& system) { return has(system, "[AH]800") ? 200 : 0; }

std::string stated_twice(const std::string& text) {
  static const std::regex stated("(?:^|[^A-Za-z])(TP|PP|DP|CP|EP)[ =:_-]{0,3}([0-9]+)", std::regex::icase);
  std::map<std::string, double> found;
  for (std::sregex_iterator each(text.begin(), text.end(), stated), end; each != end; ++each) {
    const double value = value_of((*each)[2]);
    const auto [at, is_new] = found.try_emplace(lowered((*each)[1]), value);
    if (!is_new && at->second != value) return fmt::format("{} is {} and {}", at->first, at->second, value);
  }
  return {};
}

bool is_precision(const std::string& dtype) {
  return dtype.find_first_not_of(' ') == std::string::npos || has(dtype, "not stated") ||
         has(dtype,
             "fp8|float8|int8|fp4|bf16|bfloat16|amp|f(p|loat)?16|half|autocast|mixed|f(p|loat)?32|tf32");
}

Precision precision_in(const std::string& dtype) {
  if (has(dtype, "fp8|float8|int8|fp4")) return Precision::kFp8;
  if (has(dtype, "bf16|amp|fp16|half|autocast|mixed")) return Precision::kBf16;
  if (has(dtype, "fp32|tf32")) return Precision::kFp32;
  return Precision::kBf16;
}

}  // namespace opentrn::planner
