#include "cli/yaml_reader.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "arch/closest.h"
#include "base/fault.h"
#include "base/text_file.h"

namespace opentrn::cli {

YAML::Node YamlReader::load(const std::string& unreadable) const {
  try {
    const std::vector<YAML::Node> documents =
        YAML::LoadAll(read_text_file(path_, unreadable, "the path of a job file"));
    if (documents.size() > 1)
      refuse(documents[1].Mark(), "a second document begins here", "a file for each job");
    return documents.empty() ? YAML::Node() : documents[0];
  } catch (const YAML::Exception& error) {
    refuse(error.mark, fmt::format("no YAML: {}", error.msg), "key: value, indented by blanks");
  }
}

void YamlReader::refuse(const YAML::Mark& mark, const std::string& what, const std::string& hint) const {
  throw Fault(FaultKind::kInput, label_,
              fmt::format("{}, line {}: {}", path_, std::max(mark.line, 0) + 1, what), hint);
}

void YamlReader::mapping(const YAML::Node& node, const std::string& name,
                         const std::map<std::string, Take>& keys) const {
  std::vector<std::string> names, seen;
  for (const auto& [key, take] : keys) names.push_back(key);
  const std::string known = fmt::format("one of: {}", fmt::join(names, ", "));
  if (!node.IsMap()) refuse(node.Mark(), fmt::format("'{}' is not a mapping", name), known);
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
  if (!node.IsScalar()) refuse(node.Mark(), fmt::format("'{}' is not text", key), "one word");
  return node.Scalar();
}

}  // namespace opentrn::cli
