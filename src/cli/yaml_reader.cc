#include "cli/yaml_reader.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "arch/closest.h"
#include "base/fault.h"

namespace opentrn::cli {

namespace {

constexpr std::uintmax_t kBytesMax = std::uintmax_t{16} << 20;

// Also of a folder, which the standard library opens like a file and then throws.
std::string why_not_read(const std::string& path) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (error || !std::filesystem::exists(status)) return "there is no such file";
  if (std::filesystem::is_directory(status)) return "it is a folder";
  if (std::filesystem::is_regular_file(status) && std::filesystem::file_size(path, error) > kBytesMax)
    return "it has more than 16 MiB";
  return "";
}

}  // namespace

YAML::Node YamlReader::load(const std::string& unreadable) const {
  const auto cannot = [&](const std::string& why) {
    throw Fault(FaultKind::kInput, unreadable, fmt::format("cannot read '{}': {}", path_, why),
                "the path of a job file");
  };
  if (const std::string why = why_not_read(path_); !why.empty()) cannot(why);
  try {
    return YAML::LoadFile(path_);
  } catch (const YAML::BadFile&) {
    cannot("it cannot be opened");
  } catch (const YAML::Exception& error) {
    refuse(error.mark, fmt::format("no YAML: {}", error.msg), "key: value, indented by blanks");
  }
  return {};
}

void YamlReader::refuse(const YAML::Mark& mark, const std::string& what, const std::string& hint) const {
  throw Fault(FaultKind::kInput, label_, fmt::format("{}, line {}: {}", path_, mark.line + 1, what), hint);
}

void YamlReader::mapping(const YAML::Node& node, const std::string& name,
                         const std::map<std::string, Take>& keys) const {
  std::vector<std::string> names, seen;
  for (const auto& [key, take] : keys) names.push_back(key);
  const std::string known = fmt::format("one of: {}", fmt::join(names, ", "));
  if (!node.IsMap()) refuse(node.Mark(), fmt::format("'{}' is no mapping", name), known);
  for (const auto& each : node) {
    const std::string key = each.first.as<std::string>("");
    const auto found = keys.find(key);
    if (found == keys.end())
      refuse(each.first.Mark(), fmt::format("'{}' has no key '{}'", name, key),
             arch::did_you_mean(key, names, known));
    if (std::ranges::find(seen, key) != seen.end())
      refuse(each.first.Mark(), fmt::format("'{}' stands there twice", key), "one of the two");
    seen.push_back(key);
    found->second(each.second);
  }
}

std::string YamlReader::text(const YAML::Node& node, const std::string& key) const {
  if (!node.IsScalar()) refuse(node.Mark(), fmt::format("'{}' is no text", key), "one word");
  return node.Scalar();
}

}  // namespace opentrn::cli
