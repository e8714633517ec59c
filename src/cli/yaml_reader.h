// A YAML file of settings, read with the line of each key: job files of `opentrn plan` and `opentrn fabric
// job`.
#pragma once

#include <functional>
#include <map>
#include <string>

#include <yaml-cpp/yaml.h>

namespace opentrn::cli {

class YamlReader {
 public:
  // label: of the input faults, such as "plan.yaml".
  YamlReader(std::string path, std::string label) : path_(std::move(path)), label_(std::move(label)) {}

  // The document. Throws an input fault with `unreadable` as its label for what is no file that can be read,
  // or one of more than 16 MiB.
  YAML::Node load(const std::string& unreadable) const;

  // Throws an input fault with the file and the line.
  [[noreturn]] void refuse(const YAML::Mark& mark, const std::string& what, const std::string& hint) const;

  using Take = std::function<void(const YAML::Node&)>;
  // Hands the value of each key to its function. Every key must be one of these, and stand there once.
  void mapping(const YAML::Node& node, const std::string& name,
               const std::map<std::string, Take>& keys) const;
  // A scalar as it is written.
  std::string text(const YAML::Node& node, const std::string& key) const;

 private:
  std::string path_, label_;
};

}  // namespace opentrn::cli
