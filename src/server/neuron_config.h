// Configurations of AWS's vLLM plugins and of vLLM's speculation for this server: which keys it honours, and
// what becomes of the others.
//
// `neuron_config` is that of the plugin from 0.21 on (--additional-config); override_neuron_config that of
// the plugin up to 0.5, over NxD Inference. Sources: aws-neuron-sdk,
// vllm-neuron/docs/guides/reference-configuration.md, and its api-guide.rst of NxD Inference;
// vllm/config/speculative.py, 0.32. A key is honoured in values and time, without effect, or refused; a
// program computes what it is timed for, so none changes the time alone. A key that is in no table is an
// input fault.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

namespace opentrn::server {

enum class Plugin : uint8_t { kVllmNeuron, kNxdInference };

enum class Verdict : uint8_t { kHonoured, kWithoutEffect, kRefused };
std::string_view name(Verdict verdict);  // "values and time", "without effect", "refused"

struct ConfigKey {
  std::string key;
  Verdict verdict = Verdict::kRefused;
  std::string why;
  std::string setting;               // of the server, that takes the value; empty: none
  std::vector<nlohmann::json> only;  // values that are fine; empty: the verdict is of all values
};
std::span<const ConfigKey> keys_of(Plugin plugin);

// Of a key that is given.
struct Explained {
  std::string key;
  nlohmann::ordered_json value;
  Verdict verdict = Verdict::kRefused;
  std::string why;
};
// Of every key, refused ones included. Input fault "serve.neuron_config" for an unknown one.
std::vector<Explained> explained(const nlohmann::ordered_json& config, Plugin plugin);
// Settings of the server by their names, with the values that the configuration says. Input fault
// "serve.neuron_config" for the first key that is refused.
nlohmann::ordered_json changes(const nlohmann::ordered_json& config, Plugin plugin);

// Guesses of a request in a step; of none all is as it stands here.
struct Speculation {
  int64_t tokens = 0;                 // at most
  int64_t longest = 5, shortest = 5;  // tokens that are looked for: vLLM's default
  std::string model;                  // that makes the guesses, in place of looking
  int64_t eagle = 0;                  // the version of the EAGLE head that it is; 0: it is a model
  bool operator==(const Speculation&) const = default;
};
// Input fault "serve.settings" for keys and values that are not honoured.
Speculation speculation_of(const nlohmann::ordered_json& config);
// As explained(). Input fault "serve.settings" for an unknown key.
std::vector<Explained> explained_speculation(const nlohmann::ordered_json& config);
// Keys that are honoured, and keys of methods that are not.
std::vector<std::string> speculation_keys(bool honoured);

}  // namespace opentrn::server
