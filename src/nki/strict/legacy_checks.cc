// What NKI 0.1 documents as errors (nki.errors) and shows in a kernel's source.
#include <algorithm>
#include <cctype>
#include <map>
#include <set>

#include <fmt/format.h>

#include "nki/strict/source_checks.h"

namespace opentrn::nki::strict {

namespace {

using Found = std::optional<Finding>;
using Names = std::set<std::string>;

bool is_plain(const SyntaxTree& tree, NodeId statement) {
  return !tree.is(statement, "For") && !tree.is(statement, "While") && !tree.is(statement, "If") &&
         !tree.is(statement, "FunctionDef");
}

// A call such as nl.load(...) or nisa.activation(...).
bool makes_tensor(const SyntaxTree& tree, NodeId node) {
  if (!tree.is(node, "Call")) return false;
  const NodeId called = tree.child(node, "func");
  if (!tree.is(called, "Attribute")) return false;
  const std::string owner = tree.dotted(tree.child(called, "value"));
  return owner == "nl" || owner == "nisa" || owner == "nki.language";
}

// The first use of a variable behind the block in which it was first made, as a tensor.
class Scopes {
 public:
  explicit Scopes(const SyntaxTree& tree) : tree_(tree) {}

  NodeId first_outside(NodeId definition) {
    Names known;
    for (const NodeId argument : tree_.list(tree_.child(definition, "args"), "args"))
      known.insert(tree_[argument].name);
    visit(tree_.list(definition, "body"), known);
    return found_;
  }

 private:
  // The names that are known in a block at its end, or were in one that has ended.
  Names visit(const std::vector<NodeId>& body, Names known) {
    Names gone;  // made in a block that has ended
    for (const NodeId statement : body) {
      std::vector<const std::vector<NodeId>*> inner;
      for (const char* field : {"body", "orelse"})
        if (!is_plain(tree_, statement) && !tree_.list(statement, field).empty())
          inner.push_back(&tree_.list(statement, field));
      look_for_uses(statement, inner, gone);
      if (tree_.is(statement, "Assign")) assign(statement, known, gone);
      for (const std::vector<NodeId>* block : inner)
        for (const std::string& name : visit(*block, known))
          if (!known.contains(name) && tensors_.contains(name)) gone.insert(name);
    }
    known.merge(gone);
    return known;
  }

  void look_for_uses(NodeId statement, const std::vector<const std::vector<NodeId>*>& inner,
                     const Names& gone) {
    std::set<NodeId> inside;
    for (const std::vector<NodeId>* block : inner)
      for (const NodeId each : *block)
        for (const NodeId node : tree_.walk(each)) inside.insert(node);
    for (const NodeId node : tree_.walk(statement)) {
      if (found_ != kNoNode) return;
      if (tree_.is(node, "Name") && tree_.is(tree_.child(node, "ctx"), "Load") && !inside.contains(node) &&
          gone.contains(tree_[node].name))
        found_ = node;
    }
  }

  void assign(NodeId statement, Names& known, Names& gone) {
    for (const NodeId target : tree_.list(statement, "targets")) {
      if (!tree_.is(target, "Name")) continue;
      const std::string& name = tree_[target].name;
      known.insert(name);
      gone.erase(name);
      if (makes_tensor(tree_, tree_.child(statement, "value"))) tensors_.insert(name);
    }
  }

  const SyntaxTree& tree_;
  Names tensors_;
  NodeId found_ = kNoNode;
};

// Whether "vector" begins a word of a text, whatever the case of its letters.
bool names_vector(const std::string& text) {
  constexpr std::string_view kWord = "vector";
  const auto alike = [](char a, char b) { return std::tolower(static_cast<unsigned char>(a)) == b; };
  for (auto at = text.begin();; ++at) {
    at = std::search(at, text.end(), kWord.begin(), kWord.end(), alike);
    if (at == text.end()) return false;
    if (at == text.begin() || !std::isalpha(static_cast<unsigned char>(at[-1]))) return true;
  }
}

class LegacyChecks {
 public:
  LegacyChecks(const SyntaxTree& tree, std::span<const Rule> rules, NodeId definition, bool is_launched)
      : tree_(tree),
        rules_(rules),
        definition_(definition),
        is_launched_(is_launched),
        nodes_(tree.walk(definition)) {}

  Found run() const {
    if (Found found = by_rule("nested_grid", [&](NodeId node) { return nested_grid(node); })) return found;
    const std::set<NodeId> allowed = top_level();
    if (Found found = by_rule("shared_hbm_level", [&](NodeId node) { return shared(node, allowed); }))
      return found;
    if (Found found = mutable_returned()) return found;
    if (allocates())
      for (size_t i = 0; i < rules_.size(); ++i)
        if (Found found = in_allocated(i)) return found;
    return out_of_scope();
  }

 private:
  using Detail = std::optional<std::string>;

  size_t number_of(std::string_view kind) const {
    return static_cast<size_t>(std::ranges::find(rules_, kind, &Rule::kind) - rules_.begin());
  }

  // Of the first node that `look` has something to say of.
  template <typename Look>
  Found by_rule(std::string_view kind, Look&& look) const {
    const size_t rule = number_of(kind);
    if (rule == rules_.size()) return std::nullopt;
    for (const NodeId node : nodes_)
      if (Detail detail = look(node)) return Finding{node, rule, *detail};
    return std::nullopt;
  }

  Detail nested_grid(NodeId node) const {
    const NodeId called = tree_.is(node, "Call") ? tree_.child(node, "func") : kNoNode;
    if (!tree_.is(called, "Subscript") || !tree_.is_kernel(tree_.child(called, "value"))) return std::nullopt;
    return tree_.text(called);
  }

  // What stands in no loop, branch or function of the kernel.
  std::set<NodeId> top_level() const {
    std::set<NodeId> allowed;
    if (!is_launched_) return allowed;
    for (const NodeId statement : tree_.list(definition_, "body"))
      if (is_plain(tree_, statement))
        for (const NodeId node : tree_.walk(statement)) allowed.insert(node);
    return allowed;
  }
  Detail shared(NodeId node, const std::set<NodeId>& allowed) const {
    if (!tree_.is(node, "Attribute") || tree_[node].name != "shared_hbm" || allowed.contains(node))
      return std::nullopt;
    return "";
  }

  Found mutable_returned() const {
    const size_t rule = number_of("mutable_returned");
    if (rule == rules_.size() || !is_launched_) return std::nullopt;
    Names returned;
    for (const NodeId node : nodes_)
      if (tree_.is(node, "Return"))
        for (const NodeId part : tree_.walk(node))
          if (tree_.is(part, "Name")) returned.insert(tree_[part].name);
    for (const NodeId argument : tree_.list(tree_.child(definition_, "args"), "args")) {
      const NodeId annotation = tree_.child(argument, "annotation");
      const std::string& name = tree_[argument].name;
      if (annotation != kNoNode && !returned.contains(name) &&
          tree_.text(annotation).find("mutable_tensor") != std::string::npos)
        return Finding{argument, rule, "parameter " + name};
    }
    return std::nullopt;
  }

  // Whether a function places tiles itself: `ncc.sbuf.mod_alloc(...)`, `ncc.psum.alloc(...)`.
  bool allocates() const {
    return std::ranges::any_of(nodes_, [&](NodeId node) {
      if (!tree_.is(node, "Attribute")) return false;
      const std::string& name = tree_[node].name;
      const std::string owner = tree_.last_name(tree_.child(node, "value"));
      return (name == "alloc" || name == "mod_alloc") && (owner == "sbuf" || owner == "psum");
    });
  }

  // Calls that need a tile which the compiler would have to place.
  Found in_allocated(size_t rule) const {
    for (const NodeId node : nodes_) {
      const NodeId called = tree_.is(node, "Call") ? tree_.child(node, "func") : kNoNode;
      if (!tree_.is(called, "Attribute")) continue;
      const std::string owner = tree_.last_name(tree_.child(called, "value"));
      if (owner != "nisa" && owner != "nl" && owner != "isa" && owner != "language") continue;
      if (needs_a_place(rules_[rule].kind, node, tree_[called].name))
        return Finding{node, rule, tree_.text(called)};
    }
    return std::nullopt;
  }

  bool needs_a_place(std::string_view kind, NodeId call, const std::string& name) const {
    const auto given = [&](std::string_view argument) -> std::optional<std::string> {
      for (const NodeId keyword : tree_.list(call, "keywords"))
        if (tree_[keyword].name == argument) return tree_.text(tree_.child(keyword, "value"));
      return std::nullopt;
    };
    if (kind == "allocated_bias") return name == "activation" && !given("bias");
    if (kind == "allocated_value")
      return (name == "full" || name == "zeros" || name == "ones") &&
             given("buffer").value_or("").find("alloc") != std::string::npos;
    if (kind != "allocated_transpose") return false;
    return (name == "nc_transpose" && !names_vector(given("engine").value_or(""))) ||
           (name == "matmul" && given("transpose_x") != "True");
  }

  Found out_of_scope() const {
    const size_t rule = number_of("scope");
    if (rule == rules_.size()) return std::nullopt;
    const NodeId node = Scopes(tree_).first_outside(definition_);
    if (node == kNoNode) return std::nullopt;
    return Finding{node, rule, "variable " + tree_[node].name};
  }

  const SyntaxTree& tree_;
  const std::span<const Rule> rules_;
  const NodeId definition_;
  const bool is_launched_;
  const std::vector<NodeId> nodes_;
};

}  // namespace

std::optional<Finding> find_refused_legacy(const SyntaxTree& tree, std::span<const Rule> rules,
                                           bool is_launched) {
  const NodeId definition = tree.child(0, "body");
  if (!tree.is(definition, "FunctionDef")) return std::nullopt;
  return LegacyChecks(tree, rules, definition, is_launched).run();
}

}  // namespace opentrn::nki::strict
