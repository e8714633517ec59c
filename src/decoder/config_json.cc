#include "decoder/config_json.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/fault.h"
#include "base/utf8.h"

namespace opentrn::decoder {

void refuse_config(std::string message, std::string hint) {
  throw Fault(FaultKind::kInput, "decoder.config", std::move(message), std::move(hint));
}

void refuse_architecture(std::string message, std::string hint) {
  throw Fault(FaultKind::kNotModelled, "decoder.architecture", std::move(message), std::move(hint));
}

void expect_size(std::string_view what, int64_t value) {
  if (value < 1 || value > kSizeMax)
    refuse_config(fmt::format("{} is {}; 1 to {} are read", what, value, kSizeMax));
}

int64_t integer(const Json& json, const char* key, std::optional<int64_t> absent) {
  const auto found = json.find(key);
  if (found == json.end() || found->is_null()) {
    if (absent) return *absent;
    refuse_config(fmt::format("config.json has no {}", key));
  }
  if (!found->is_number_integer()) refuse_config(fmt::format("{} of config.json is not an integer", key));
  return found->get<int64_t>();
}

double real(const Json& json, const char* key, double absent) {
  const auto found = json.find(key);
  if (found == json.end() || found->is_null()) return absent;
  if (!found->is_number()) refuse_config(fmt::format("{} of config.json is not a number", key));
  return found->get<double>();
}

bool boolean(const Json& json, const char* key, bool absent) {
  const auto found = json.find(key);
  if (found == json.end() || found->is_null()) return absent;
  if (!found->is_boolean()) refuse_config(fmt::format("{} of config.json is neither true nor false", key));
  return found->get<bool>();
}

std::string expect_activation(const Json& json, std::initializer_list<const char*> keys,
                              std::initializer_list<std::string_view> wanted) {
  for (const char* key : keys) {
    const auto found = json.find(key);
    if (found == json.end() || found->is_null()) continue;
    const std::string name = found->is_string() ? found->get<std::string>() : found->dump();
    if (std::ranges::find(wanted, name) == wanted.end())
      throw Fault(FaultKind::kNotModelled, "decoder.architecture",
                  fmt::format("{} is '{}'; there is {}", key, printable(name), fmt::join(wanted, ", ")));
    return name;
  }
  return {};
}

}  // namespace opentrn::decoder
