#include "nki/strict/source_checks.h"

#include <algorithm>

#include <fmt/format.h>

namespace opentrn::nki::strict {

namespace {

class Checks {
 public:
  Checks(const SyntaxTree& tree, std::span<const Rule> rules) : tree_(tree), rules_(rules) {}

  std::optional<Finding> run() const {
    for (const NodeId node : tree_.walk(0))
      if (auto found = in_node(node)) return found;
    return std::nullopt;
  }

 private:
  std::optional<Finding> in_node(NodeId node) const {
    if (tree_.is(node, "Name") || tree_.is(node, "Attribute")) return in_name(node);
    if (tree_.is(node, "Compare")) return in_comparison(node);
    if (tree_.is(node, "Dict")) return in_dictionary(node);
    if (tree_.is(node, "Call")) return in_call(node);
    return std::nullopt;
  }

  std::optional<Finding> in_name(NodeId node) const {
    const auto meaning = tree_.meaning(node);
    return meaning ? by_name(node, "name", *meaning) : std::nullopt;
  }

  std::optional<Finding> in_comparison(NodeId node) const {
    const auto is_identity = [&](NodeId op) { return tree_.is(op, "Is") || tree_.is(op, "IsNot"); };
    if (std::ranges::none_of(tree_.list(node, "ops"), is_identity)) return std::nullopt;
    return of_kind(node, "identity", [&] { return tree_.text(node); });
  }

  std::optional<Finding> in_dictionary(NodeId node) const {
    const std::vector<NodeId>& keys = tree_.list(node, "keys");
    const auto bad = std::ranges::find_if(
        keys, [&](NodeId key) { return tree_.is(key, "Constant") && !tree_[key].is_text; });
    if (bad == keys.end()) return std::nullopt;
    return of_kind(node, "dict_keys", [&] { return "the key " + tree_.text(*bad); });
  }

  std::optional<Finding> in_call(NodeId node) const {
    const NodeId called = tree_.child(node, "func");
    const bool has_name = tree_.is(called, "Name") || tree_.is(called, "Attribute");
    if (const auto meaning = has_name ? tree_.meaning(called) : std::nullopt) {
      if (auto found = by_name(node, "call", *meaning)) return found;
      for (const NodeId keyword : tree_.list(node, "keywords"))
        if (auto found = in_keyword(node, *meaning, tree_[keyword].name)) return found;
    }
    if (!has_name || !tree_.is_kernel(called)) return std::nullopt;
    return of_kind(node, "nested_jit", [&] { return tree_.text(called); });
  }

  // `argument` is empty for `**more`.
  std::optional<Finding> in_keyword(NodeId node, const Meaning& of, const std::string& argument) const {
    if (argument.empty()) return std::nullopt;
    for (size_t i = 0; i < rules_.size(); ++i)
      if (is_of(rules_[i], "argument", of) && rules_[i].argument == argument) return Finding{node, i, ""};
    if (argument != "mask") return std::nullopt;
    return of_kind(node, "mask", [&] { return fmt::format("of {}.{}", of.first, of.second); });
  }

  static bool is_of(const Rule& rule, std::string_view kind, const Meaning& of) {
    return rule.kind == kind && rule.where == of.first && rule.name == of.second;
  }
  std::optional<Finding> by_name(NodeId node, std::string_view kind, const Meaning& of) const {
    for (size_t i = 0; i < rules_.size(); ++i)
      if (is_of(rules_[i], kind, of)) return Finding{node, i, ""};
    return std::nullopt;
  }
  template <typename Detail>
  std::optional<Finding> of_kind(NodeId node, std::string_view kind, Detail&& detail) const {
    const auto found = std::ranges::find(rules_, kind, &Rule::kind);
    if (found == rules_.end()) return std::nullopt;
    return Finding{node, static_cast<size_t>(found - rules_.begin()), detail()};
  }

  const SyntaxTree& tree_;
  const std::span<const Rule> rules_;
};

}  // namespace

std::optional<Finding> find_refused(const SyntaxTree& tree, std::span<const Rule> rules) {
  return Checks(tree, rules).run();
}

bool writes(const SyntaxTree& tree) {
  return std::ranges::any_of(tree.walk(0), [&](NodeId node) {
    if (tree.is(node, "Return")) return tree.child(node, "value") != kNoNode;
    if (tree.is(node, "Assign"))
      return std::ranges::any_of(tree.list(node, "targets"),
                                 [&](NodeId target) { return tree.is(target, "Subscript"); });
    if (!tree.is(node, "Call")) return false;
    const std::string called = tree.last_name(tree.child(node, "func"));
    return called == "store" || called == "dma_copy";
  });
}

}  // namespace opentrn::nki::strict
