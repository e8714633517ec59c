// What each sentence of claims.toml claims, as a quantity: one function a claim.
#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "arch/closest.h"
#include "base/fault.h"
#include "planner/claims/claim.h"
#include "planner/goodput/profile.h"
#include "planner/hf_config.h"
#include "planner/model.h"

namespace opentrn::planner {
namespace {

constexpr double kTrn1Chips = 16, kA100s = 8;  // of a trn1.32xlarge and of a p4d or p4de

// Models with published throughput on both. Sequences of Llama are 4,096 tokens here and 2,048 there, which
// favours the A100s by the share of attention.
struct Pair {
  const char* model;
  double (*trn1)(const Sample&);              // tokens (BERT: sequences) a second of a trn1.32xlarge
  double (*a100)(const Sample&, bool large);  // of eight A100, of 80 GB or 40
};
constexpr std::array<Pair, 5> kPairs = {{
    {"GPT-3 175B", [](const Sample& v) { return v("trn1_gpt3") * 2048 / 512 * kTrn1Chips; },
     [](const Sample& v, bool) { return v("a100_gpt3_batch") * 2048 / v("a100_gpt3_s") / 512 * kA100s; }},
    {"Llama-2-70B", [](const Sample& v) { return v("trn1_llama70") * 4096 / 512 * kTrn1Chips; },
     [](const Sample& v, bool large) { return v(large ? "a100_80_llama70" : "a100_40_llama70") * kA100s; }},
    {"Llama-2-13B", [](const Sample& v) { return v("trn1_llama13") * 4096 / 512 * kTrn1Chips; },
     [](const Sample& v, bool large) { return v(large ? "a100_80_llama13" : "a100_40_llama13") * kA100s; }},
    {"Llama-2-7B", [](const Sample& v) { return v("trn1_llama7") * 4096 / 256 * kTrn1Chips; },
     [](const Sample& v, bool large) { return v(large ? "a100_80_llama7" : "a100_40_llama7") * kA100s; }},
    {"BERT-Large", [](const Sample& v) { return v("trn1_bert"); },
     [](const Sample& v, bool) { return v("a100_bert"); }},
}};

constexpr const char* kPairInputs[] = {
    "trn1_gpt3",       "a100_gpt3_s",    "a100_gpt3_batch", "trn1_llama70",    "trn1_llama13",
    "trn1_llama7",     "trn1_bert",      "a100_40_llama70", "a100_80_llama70", "a100_40_llama13",
    "a100_80_llama13", "a100_40_llama7", "a100_80_llama7",  "a100_bert",       "network"};

void add_pairs(ClaimMaker& make) {
  for (const char* name : kPairInputs) make.input_of("trn1-50-percent", name);
}

// BERT runs on one instance, whose network does not count.
double ratio_of(const Pair& pair, const Sample& v, bool large) {
  const bool one = std::string_view(pair.model) == "BERT-Large";
  return pair.trn1(v) / (pair.a100(v, large) * (one ? 1 : v("network")));
}

double largest_saving(const Sample& v, bool large, const char* price) {
  double best = -INFINITY;
  for (const Pair& pair : kPairs)
    best = std::max(best, 1 - v("trn1") / (v(price) * ratio_of(pair, v, large)));
  return best;
}

void trn1_50_percent(ClaimMaker& make, const arch::Tables&) {
  add_pairs(make);
  if (!make.price("trn1", "trn1.32xlarge")) return;
  // "50 %" is what rounds to it.
  if (make.price("p4d", "p4d.24xlarge"))
    make.at_least("against p4d", 0.45, [](const Sample& v) { return largest_saving(v, false, "p4d"); });
  if (make.price("p4de", "p4de.24xlarge"))
    make.at_least("against p4de", 0.45, [](const Sample& v) { return largest_saving(v, true, "p4de"); });
}

void faq_p4d(ClaimMaker& make, const arch::Tables&) {
  add_pairs(make);
  for (const Pair& pair : kPairs)
    make.between(pair.model, 1.4, 5, [&pair](const Sample& v) { return ratio_of(pair, v, false); });
}

void anthropic_40(ClaimMaker& make, const arch::Tables&) {
  make.step_s("trn2_step", "Llama-3.1-70B", "trn2.48xlarge", 32, 8192, 1024);
  make.step_s("p5_step", "Llama-3.1-70B", "p5.48xlarge", 32, 8192, 1024);
  if (make.price("p5", "p5.48xlarge"))
    make.shown("USD an hour of trn2.48xlarge, Llama-3.1-70B against p5.48xlarge",
               [](const Sample& v) { return 0.6 * v("p5") * v("p5_step") / v("trn2_step"); });
}

void stability(ClaimMaker& make, const arch::Tables&) {
  make.input("a100_images_16");
  make.input("a100_images_256");
  if (!make.price("trn1", "trn1.32xlarge") || !make.price("p4de", "p4de.24xlarge")) return;
  make.shown("images/s needed, against 16 A100",
             [](const Sample& v) { return 1.5 * v("a100_images_16") / 2 * v("trn1") / v("p4de"); });
  make.shown("images/s needed, against 256 A100",
             [](const Sample& v) { return 1.5 * v("a100_images_256") / 32 * v("trn1") / v("p4de"); });
}

void llama70b_30(ClaimMaker& make, const arch::Tables&) {
  add_pairs(make);
  const auto saved = [](const Sample& v, bool large, double instances) {
    return 1 - instances / ratio_of(kPairs[1], v, large);
  };
  make.at_least("as many p4d instances", 0.3, [=](const Sample& v) { return saved(v, false, 1); });
  if (!make.price("trn1", "trn1.32xlarge")) return;
  if (make.price("p4d", "p4d.24xlarge"))
    make.at_least("p4d for as many dollars", 0.3,
                  [=](const Sample& v) { return saved(v, false, v("trn1") / v("p4d")); });
  if (make.price("p4de", "p4de.24xlarge"))
    make.at_least("p4de for as many dollars", 0.3,
                  [=](const Sample& v) { return saved(v, true, v("trn1") / v("p4de")); });
}

// What failures leave of a job of so many Trn2 chips whose model has a trillion parameters.
void add_goodput(ClaimMaker& make, const arch::Tables& tables, const char* name, double chips) {
  GoodputJob ask;
  ask.chips = chips;
  ask.chips_per_host = 16;
  ask.own_hardware = false;
  ask.checkpoint_bytes = checkpoint_bytes(tables, 1e12);
  const Between share = goodput_interval(reliability_of(tables, ask), 1).useful;
  make.number(
      name, share, "predicted",
      fmt::format("opentrn goodput --instance trn2.48xlarge --count {}: failures as llama3's, assumed",
                  chips / 16));
}

constexpr double kThreeWeeksS = 21 * 86400.0, kTera = 1e12;

void moe_1t(ClaimMaker& make, const arch::Tables& tables) {
  make.table("peak", "chip.Trainium2.peak_tflops.bf16");
  make.input("utilisation");
  make.input("active_parameters");
  make.input("wanted_tokens");
  add_goodput(make, tables, "goodput_4096", 4096);
  add_goodput(make, tables, "goodput_8192", 8192);
  for (const double chips : {4096.0, 8192.0}) {
    const std::string goodput = fmt::format("goodput_{:.0f}", chips);
    const auto tokens = [=](const Sample& v) {
      return chips * v("peak") * kTera * v("utilisation") * v(goodput) * kThreeWeeksS /
             (6 * v("active_parameters")) / kTera;
    };
    make.shown(fmt::format("tokens in trillions, {:.0f} chips", chips), tokens);
    make.at_least(fmt::format("share of the wanted tokens, {:.0f} chips", chips), 1,
                  [=](const Sample& v) { return tokens(v) / v("wanted_tokens"); });
  }
}

void bloom_85(ClaimMaker& make, const arch::Tables&) {
  make.input_of("trn1-50-percent", "trn1_gpt3");
  make.input("a100_bloom_s");
  make.input("a100_peak");
  make.table("trn1_peak", "chip.Trainium.peak_tflops.bf16");
  const auto chip = [](const Sample& v) {
    return v("trn1_gpt3") * 2048 / 512 / (2048 * 2048 / v("a100_bloom_s") / 384);
  };
  make.at_least("per chip", 0.85, chip);
  make.at_least("per peak FLOP/s", 0.85,
                [=](const Sample& v) { return chip(v) * v("a100_peak") / v("trn1_peak"); });
  make.at_least("per instance", 0.85, [=](const Sample& v) { return chip(v) * kTrn1Chips / kA100s; });
  if (make.price("trn1", "trn1.32xlarge") && make.price("p4de", "p4de.24xlarge"))
    make.at_least("per dollar", 0.85,
                  [=](const Sample& v) { return chip(v) * kTrn1Chips / kA100s * v("p4de") / v("trn1"); });
}

void trn2_ratio(ClaimMaker& make, double wanted) {
  for (const auto& [name, key] : {std::pair("bf16", "peak_tflops.bf16"), std::pair("fp8", "peak_tflops.fp8"),
                                  std::pair("bandwidth", "memory_bandwidth_gb_s")}) {
    make.table(fmt::format("trn1_{}", name), fmt::format("chip.Trainium.{}", key));
    make.table(fmt::format("trn2_{}", name), fmt::format("chip.Trainium2.{}", key));
  }
  make.step_s("trn1_step", "Llama-3.1-8B", "trn1.32xlarge", 4, 4096, 256);
  make.step_s("trn2_step", "Llama-3.1-8B", "trn2.48xlarge", 4, 4096, 256);
  make.at_least("BF16 peak", wanted, [](const Sample& v) { return v("trn2_bf16") / v("trn1_bf16"); });
  make.at_least("FP8 peak", wanted, [](const Sample& v) { return v("trn2_fp8") / v("trn1_fp8"); });
  make.at_least("memory bandwidth", wanted,
                [](const Sample& v) { return v("trn2_bandwidth") / v("trn1_bandwidth"); });
  make.at_least("a training step of Llama-3.1-8B, planned", wanted,
                [](const Sample& v) { return v("trn1_step") / v("trn2_step"); });
}

void trn3_ultraserver(ClaimMaker& make, const arch::Tables&) {
  const std::pair<const char*, std::pair<const char*, const char*>> figures[] = {
      {"FP8 peak", {"published.mxfp8_tflops", "published.fp8_tflops"}},
      {"BF16 peak", {"published.bf16_tflops", "published.bf16_tflops"}},
      {"memory bandwidth", {"published.memory_bandwidth_gb_s", "published.memory_bandwidth_gb_s"}}};
  for (const auto& [name, keys] : figures) {
    const std::string trn3 = fmt::format("trn3 {}", name), trn2 = fmt::format("trn2 {}", name);
    make.table(trn3, fmt::format("ultraserver.Trn3 Gen2 UltraServer.{}", keys.first));
    make.table(trn2, fmt::format("ultraserver.Trn2 UltraServer.{}", keys.second));
    make.at_least(name, 4.35, [=](const Sample& v) { return v(trn3) / v(trn2); });  // what rounds to 4.4
  }
}

void trn3_efficiency(ClaimMaker& make, const arch::Tables&) {
  make.table("trn3", "ultraserver.Trn3 Gen2 UltraServer.published.mxfp8_tflops");
  make.table("trn2", "ultraserver.Trn2 UltraServer.published.fp8_tflops");
  make.shown("power of Trn3 over Trn2's below which it holds, FP8",
             [](const Sample& v) { return v("trn3") / v("trn2") / 4; });
}

void ultracluster(ClaimMaker& make, const arch::Tables& tables) {
  make.table("peak", "chip.Trainium2.peak_tflops.bf16");
  make.input_of("moe-1t-3-weeks", "utilisation");
  add_goodput(make, tables, "goodput", 100'352);
  make.shown("exaflop/s of bfloat16, 100,352 chips",
             [](const Sample& v) { return 100'352 * v("peak") / 1e6; });
  make.shown("of them in the model, failures included",
             [](const Sample& v) { return 100'352 * v("peak") / 1e6 * v("utilisation") * v("goodput"); });
}

void rainier(ClaimMaker& make, const arch::Tables&) {
  make.input("chips");
  make.table("peak", "chip.Trainium2.peak_tflops.bf16");
  make.shown("exaflop/s of bfloat16", [](const Sample& v) { return v("chips") * v("peak") / 1e6; });
}

void dense_1t(ClaimMaker& make, const arch::Tables& tables) {
  make.table("peak", "chip.Trainium2.peak_tflops.bf16");
  make.input_of("moe-1t-3-weeks", "utilisation");
  add_goodput(make, tables, "goodput_4096", 4096);
  add_goodput(make, tables, "goodput_8192", 8192);
  for (const double tokens : {1e12, 20e12})
    for (const double chips : {4096.0, 8192.0}) {
      const std::string goodput = fmt::format("goodput_{:.0f}", chips);
      // Two months and less are weeks.
      make.at_most(fmt::format("days, {:.0f}T tokens on {:.0f} chips", tokens / kTera, chips), 61,
                   [=](const Sample& v) {
                     return 6 * 1e12 * tokens / (chips * v("peak") * kTera * v("utilisation") * v(goodput)) /
                            86400;
                   });
    }
}

void inf2_memory(ClaimMaker& make, const arch::Tables&) {
  make.table("inf1_memory", "chip.Inferentia.memory_gib");
  make.table("inf2_memory", "chip.Inferentia2.memory_gib");
  make.table("inf1_bandwidth", "chip.Inferentia.memory_bandwidth_gb_s");
  make.table("inf2_bandwidth", "chip.Inferentia2.memory_bandwidth_gb_s");
  make.at_least("memory", 4, [](const Sample& v) { return v("inf2_memory") / v("inf1_memory"); });
  make.at_least("bandwidth", 10, [](const Sample& v) { return v("inf2_bandwidth") / v("inf1_bandwidth"); });
}

// A figure of a sentence against the tables. Where documents disagree, one of them is enough, and is named.
void add_stated(ClaimMaker& make, const arch::Fact& fact, const std::string& label, double stated,
                double factor) {
  constexpr double kRounding = 0.015;
  double value = fact.as<double>() * factor;
  const auto near = [&](double found) { return std::abs(found / stated - 1) <= kRounding; };
  std::string source = fact.source;
  if (!near(value))
    for (const arch::Alternative& other : fact.alternatives)
      if (const double* found = std::get_if<double>(&other.value);
          found != nullptr && near(*found * factor)) {
        value = *found * factor;
        source = fmt::format("{}; {} says {}", other.source, fact.source, arch::to_string(fact.value));
        break;
      }
  make.number(label, {value, value, value}, std::string(arch::to_string(fact.confidence)), source);
  make.between(label, stated * (1 - kRounding), stated * (1 + kRounding),
               [label](const Sample& v) { return v(label); });
}

Claim spec_claim(const arch::Tables& tables, const ClaimOptions& options, const std::string& id) {
  ClaimMaker make(tables, options, id);
  const arch::FactTable& facts = tables.facts();
  const auto fact = [&](const char* member) { return facts.find(fmt::format("claims.{}.{}", id, member)); };
  const arch::Fact* keys = fact("keys");
  if (keys == nullptr) return make.finish();
  const auto names = keys->as<std::vector<std::string>>(),
             labels = fact("labels")->as<std::vector<std::string>>();
  if (const arch::Fact* text = fact("stated_text")) {
    for (size_t i = 0; i < names.size(); ++i) {
      const arch::Fact& found = facts.at(names[i]);
      const bool same = found.as<std::string>() == text->as<std::string>();
      make.reading(
          fmt::format("{} is a {}", labels[i], found.as<std::string>()), "a " + text->as<std::string>(),
          [same](const Sample&) { return same ? 1.0 : 0.0; }, [](double value) { return value > 0; });
    }
    return make.finish();
  }
  const auto stated = fact("stated")->as<std::vector<double>>(),
             factors = fact("factors")->as<std::vector<double>>();
  OPENTRN_CHECK(
      stated.size() == names.size() && factors.size() == names.size() && labels.size() == names.size(),
      "claims.{}: lists of different lengths", id);
  for (size_t i = 0; i < names.size(); ++i)
    add_stated(make, facts.at(names[i]), labels[i], stated[i], factors[i]);
  return make.finish();
}

struct Kind {
  std::string_view name;
  void (*quantity)(ClaimMaker&, const arch::Tables&);  // none: nothing of it can be computed
};
constexpr Kind kClaims[] = {
    {"trn1-50-percent", trn1_50_percent},
    {"faq-p4d", faq_p4d},
    {"anthropic-40", anthropic_40},
    {"stability-1-5", stability},
    {"llama70b-30", llama70b_30},
    {"moe-1t-3-weeks", moe_1t},
    {"bloom-85", bloom_85},
    {"trn2-4x", [](ClaimMaker& make, const arch::Tables&) { trn2_ratio(make, 4); }},
    {"trn2-2x", [](ClaimMaker& make, const arch::Tables&) { trn2_ratio(make, 2); }},
    {"trn3-4-4x", trn3_ultraserver},
    {"trn3-efficiency", trn3_efficiency},
    {"ultracluster-100k", ultracluster},
    {"rainier", rainier},
    {"dense-1t-weeks", dense_1t},
    {"inf2-memory", inf2_memory},
    {"inf2-efficiency", nullptr},
};

}  // namespace

std::vector<std::string> claim_names(const arch::Tables& tables) {
  std::vector<std::string> names;
  for (const std::string& name : tables.facts().items("claims"))
    if (name != "spec") names.push_back(name);
  for (const std::string& name : tables.facts().items("claims.spec")) names.push_back("spec." + name);
  return names;
}

Claim claim_of(const arch::Tables& tables, const ClaimOptions& options, const std::string& name) {
  const std::vector<std::string> names = claim_names(tables);
  if (std::ranges::find(names, name) == names.end())
    throw Fault(FaultKind::kInput, "claims.name", fmt::format("there is no claim '{}'", name),
                arch::did_you_mean(name, names, fmt::format("one of: {}", fmt::join(names, ", "))));
  if (name.starts_with("spec.")) return spec_claim(tables, options, name);
  ClaimMaker make(tables, options, name);
  const auto found = std::ranges::find(kClaims, name, &Kind::name);
  OPENTRN_CHECK(found != std::end(kClaims), "claim '{}' has no quantity", name);
  if (found->quantity != nullptr) found->quantity(make, tables);
  return make.finish();
}

std::vector<SavingLine> saving_over_time(const arch::Tables& tables, const ClaimOptions& options) {
  std::vector<SavingLine> lines;
  Sample nominal = ClaimMaker::nominal_of(tables, "trn1-50-percent", kPairInputs);
  for (const bool large : {false, true})
    for (const Pair& pair : kPairs) {
      SavingLine line{pair.model, large ? "p4de.24xlarge" : "p4d.24xlarge", {}, {}};
      for (int year = 2022; year <= 2026; ++year)
        for (int month = 1; month <= 12; ++month) {
          PriceQuery query = options.price;
          query.as_of = fmt::format("{}-{:02}", year, month);
          if (query.as_of > "2026-07") break;
          const auto ours = rate_of(tables, "trn1.32xlarge", query),
                     theirs = rate_of(tables, line.instance, query);
          if (!ours || !theirs) continue;
          line.months.push_back(query.as_of);
          line.saving.push_back(1 - ours->usd_h / (theirs->usd_h * ratio_of(pair, nominal, large)));
        }
      lines.push_back(std::move(line));
    }
  return lines;
}

}  // namespace opentrn::planner
