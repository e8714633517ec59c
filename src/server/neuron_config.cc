#include "server/neuron_config.h"

#include <algorithm>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "arch/closest.h"
#include "base/fault.h"

namespace opentrn::server {

namespace {

using nlohmann::ordered_json;
using Names = std::span<const std::string_view>;

constexpr std::string_view kLists[] = {"token_buckets", "sequence_buckets", "context_buckets"};
constexpr std::string_view kCounts[] = {"max_num_seqs", "max_model_len", "num_blocks", "max_logprobs",
                                        "ranks"};
constexpr std::string_view kSwitches[] = {"structured", "prefix_caching", "cold", "quantized",
                                          "kv_cache_quant"};
// Settings that are one together: the type of narrow weights.
constexpr std::string_view kQuantisation[] = {"quantized", "quantization_dtype", "quantization_type",
                                              "mx_type", "modules_to_not_convert"};
// Attributes of OnDeviceSamplingConfig, and those that the plugin from 0.21 on reads. What is asked of a
// request decides where its tokens are chosen, so that the defaults of requests change nothing.
constexpr std::string_view kSampling[] = {"all_greedy", "temperature", "do_sample",     "top_k",
                                          "top_p",      "dynamic",     "deterministic", "global_topk"};
constexpr std::pair<std::string_view, std::string_view> kTypes[] = {{"bfloat16", "bf16"},
                                                                    {"float16", "f16"},
                                                                    {"float32", "f32"},
                                                                    {"f8e4m3", "fp8_e4m3"},
                                                                    {"f8e5m2", "fp8_e5m2"}};

bool is_one_of(std::string_view text, Names names) { return std::ranges::find(names, text) != names.end(); }

Fault refusal(const std::string& key, const std::string& message, const std::string& hint = "") {
  return Fault(FaultKind::kInput, "serve.neuron_config", fmt::format("{}: {}", key, message), hint);
}

// A value as the user wrote it.
std::string shown(const ordered_json& value) {
  return value.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

std::string near(std::string_view name, Names known, const std::string& otherwise) {
  const std::vector<std::string> found = arch::closest(name, {known.begin(), known.end()}, 1);
  return found.empty() ? otherwise : found[0] + "?";
}

const ConfigKey& row_of(const std::string& key, Plugin plugin) {
  const std::span<const ConfigKey> rows = keys_of(plugin);
  const auto found = std::ranges::find(rows, key, &ConfigKey::key);
  if (found != rows.end()) return *found;
  std::vector<std::string_view> names;
  for (const ConfigKey& row : rows) names.push_back(row.key);
  throw refusal(key, "not a key that is known here", near(key, names, ""));
}

bool is_count(const ordered_json& value) {
  return value.is_number_unsigned() ? value.get<uint64_t>() >= 1 && value.get<uint64_t>() <= INT32_MAX
                                    : value.is_number_integer() && value.get<int64_t>() >= 1;
}

bool is_text(const ordered_json& value) {
  return value.is_string() && !value.get_ref<const std::string&>().empty();
}

bool is_ascending_list(const ordered_json& value) {
  if (!value.is_array() || value.empty() || !std::ranges::all_of(value, is_count)) return false;
  for (size_t i = 1; i < value.size(); ++i)
    if (value[i - 1].get<int64_t>() >= value[i].get<int64_t>()) return false;
  return true;
}

bool is_list_of_modules(const ordered_json& value) {
  return value.is_array() && std::ranges::all_of(value, [](const ordered_json& each) {
           return is_text(each) && each.get_ref<const std::string&>().find(',') == std::string::npos;
         });
}

// What programs choose.
std::string sampling(const std::string& key, const ordered_json& value) {
  if (!value.is_object())
    throw refusal(key, fmt::format("{} is not an object", shown(value)), R"({"temperature": "0"})");
  std::set<std::string> unknown;
  for (const auto& [name, attribute] : value.items())
    if (!is_one_of(name, kSampling)) unknown.insert(name);
  if (!unknown.empty())
    throw refusal(key, fmt::format("'{}' is not an attribute of it", *unknown.begin()),
                  near(*unknown.begin(), kSampling, fmt::format("{}", fmt::join(kSampling, ", "))));
  for (const char* name : {"do_sample", "all_greedy"})
    if (value.contains(name) && !value[name].is_boolean())
      throw refusal(key, fmt::format("{} is {}, which is neither true nor false", name, shown(value[name])));
  const bool draws = value.value("do_sample", false);
  if (value.contains("do_sample") && value.contains("all_greedy") &&
      value["do_sample"] == value["all_greedy"])
    throw refusal(key, fmt::format("do_sample is {}, and all_greedy too", draws),
                  "one of them says whether tokens are drawn");
  return draws || !value.value("all_greedy", true) ? "drawn-truncated" : "likeliest";
}

std::string type_of(const std::string& name) {
  for (const auto& [theirs, ours] : kTypes)
    if (theirs == name) return std::string(ours);
  return name;
}

// A value of the type that the setting has.
ordered_json checked(const std::string& key, const std::string& setting, const ordered_json& value) {
  const auto expect = [&](bool holds, const char* what, const char* hint = "") {
    if (!holds) throw refusal(key, fmt::format("{} {}", shown(value), what), hint);
  };
  if (is_one_of(setting, kLists)) expect(is_ascending_list(value), "is not an ascending list of sizes");
  if (setting == "modules_to_not_convert")
    expect(is_list_of_modules(value), "is not a list of modules", R"(["self_attn", "lm_head"])");
  if (is_one_of(setting, kCounts)) expect(is_count(value), "is not a number of 1 or more");
  if (is_one_of(setting, kSwitches)) expect(value.is_boolean(), "is neither true nor false");
  if (setting == "target") expect(is_text(value), "is not a name of a chip");
  if (setting == "on_device_sampling") return sampling(key, value);
  return setting == "dtype" ? ordered_json(type_of(value.get<std::string>())) : value;
}

// The type of narrow weights, or "": of settings that kQuantisation names.
std::string narrow(const ordered_json& given) {
  std::vector<std::string> words;
  if (given.contains("mx_type")) {
    words.push_back(given["mx_type"]);
  } else if (given.value("quantized", false)) {
    words.push_back(type_of(given.value("quantization_dtype", "int8")));
    words.push_back(given.value("quantization_type", "per_tensor_symmetric"));
  } else {
    for (const auto& [key, value] : given.items())
      if (key != "quantized" && value != ordered_json::array())
        throw refusal(key, "nothing is quantised", "quantized: true");
    return "";
  }
  for (const ordered_json& module : given.value("modules_to_not_convert", ordered_json::array()))
    words.push_back("except=" + module.get<std::string>());
  return fmt::format("{}", fmt::join(words, ","));
}

}  // namespace

std::string_view name(Verdict verdict) {
  switch (verdict) {
    case Verdict::kHonoured: return "values and time";
    case Verdict::kWithoutEffect: return "without effect";
    case Verdict::kRefused: return "refused";
  }
  return "?";
}

std::vector<Explained> explained(const ordered_json& config, Plugin plugin) {
  std::vector<Explained> rows;
  for (const auto& [key, value] : config.items()) {
    const ConfigKey& row = row_of(key, plugin);
    Verdict verdict = row.verdict;
    if (!row.only.empty()) {
      const bool fine = std::ranges::any_of(row.only, [&, &given = value](const nlohmann::json& only) {
        return only.type_name() == std::string_view(given.type_name()) && nlohmann::json(given) == only;
      });
      if (!fine)
        verdict = Verdict::kRefused;
      else if (verdict == Verdict::kRefused)
        verdict = Verdict::kWithoutEffect;
    }
    rows.push_back({key, value, verdict, row.why});
  }
  return rows;
}

ordered_json changes(const ordered_json& config, Plugin plugin) {
  ordered_json made = ordered_json::object();
  for (const Explained& row : explained(config, plugin)) {
    if (row.verdict == Verdict::kRefused)
      throw refusal(row.key, fmt::format("{} is not possible here: {}", shown(row.value), row.why));
    std::string setting = row_of(row.key, plugin).setting;
    if (setting.empty() || row.value.is_null()) continue;
    ordered_json value = checked(row.key, setting, row.value);
    if (setting == "mx_type" && value == "bf16") setting = "dtype";
    if (made.contains(setting) && made[setting] != value)
      throw refusal(row.key, fmt::format("{}, and another key says {}", shown(value), shown(made[setting])));
    made[setting] = std::move(value);
  }
  ordered_json narrowed = ordered_json::object();
  for (const std::string_view setting : kQuantisation)
    if (const std::string key(setting); made.contains(key)) {
      narrowed[key] = made[key];
      made.erase(key);
    }
  if (const std::string type = narrow(narrowed); !type.empty()) made["quantization"] = type;
  if (made.value("kv_cache_quant", false)) made["kv_cache_dtype"] = "fp8_e4m3";
  if (made.value("cold", false)) made["warm"] = false;
  made.erase("kv_cache_quant");
  made.erase("cold");
  return made;
}

}  // namespace opentrn::server
