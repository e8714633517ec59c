// opentrn._core: configurations of AWS's vLLM plugins and of vLLM's speculation (server/neuron_config.h).
// They cross as JSON; opentrn/serve puts them into its settings.
#include <string>
#include <tuple>
#include <vector>

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "base/fault.h"
#include "python/server_bindings.h"
#include "server/neuron_config.h"

namespace opentrn::python {

namespace nb = nanobind;
using namespace nb::literals;

namespace {

using nlohmann::ordered_json;

ordered_json object_of(const std::string& text, const char* label) {
  ordered_json config = ordered_json::parse(text, nullptr, false);
  if (config.is_object()) return config;
  throw Fault(FaultKind::kInput, label, "the configuration is not an object of JSON");
}

ordered_json neuron_config_of(const std::string& text) { return object_of(text, "serve.neuron_config"); }

ordered_json speculation_config_of(const std::string& text) { return object_of(text, "serve.settings"); }

server::Plugin plugin_of(bool nxdi) {
  return nxdi ? server::Plugin::kNxdInference : server::Plugin::kVllmNeuron;
}

std::string rows_text(const std::vector<server::Explained>& rows) {
  ordered_json list = ordered_json::array();
  for (const server::Explained& row : rows)
    list.push_back({row.key, row.value, server::name(row.verdict), row.why});
  return list.dump();
}

}  // namespace

void bind_neuron_config(nb::module_& module) {
  module.def(
      "neuron_config_keys",
      [](bool nxdi) {
        std::vector<std::tuple<std::string, std::string, std::string, std::string>> rows;
        for (const server::ConfigKey& row : server::keys_of(plugin_of(nxdi)))
          rows.emplace_back(row.key, std::string(server::name(row.verdict)), row.why, row.setting);
        return rows;
      },
      "nxdi"_a, "(key, verdict, why, setting) of every key that is known.");
  module.def(
      "explain_neuron_config",
      [](const std::string& config, bool nxdi) {
        return rows_text(server::explained(neuron_config_of(config), plugin_of(nxdi)));
      },
      "config"_a, "nxdi"_a,
      "[key, value, verdict, why] of every key, as JSON. Raises InputError for an unknown one.");
  module.def(
      "neuron_config_changes",
      [](const std::string& config, bool nxdi) {
        return server::changes(neuron_config_of(config), plugin_of(nxdi)).dump();
      },
      "config"_a, "nxdi"_a,
      "Settings with their values, as JSON. Raises InputError for the first key that is refused.");
  module.def("speculation_keys", &server::speculation_keys, "honoured"_a,
             "Keys of vLLM's speculative-config that are honoured, or those of methods that are not.");
  module.def(
      "explain_speculation",
      [](const std::string& config) {
        return rows_text(server::explained_speculation(speculation_config_of(config)));
      },
      "config"_a, "As explain_neuron_config().");
  module.def(
      "speculation_of",
      [](const std::string& config) {
        const server::Speculation made = server::speculation_of(speculation_config_of(config));
        return std::tuple(made.tokens, made.longest, made.shortest, made.model, made.eagle);
      },
      "config"_a,
      "(tokens, longest, shortest, model, eagle). Raises InputError for keys and values that are not "
      "honoured.");
}

}  // namespace opentrn::python
