// A syntax tree as Python's module ast has it: kinds and fields of nodes by their names there.
//
// What only Python knows of a node (what its name means, its text) is asked of the caller when it is needed.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace opentrn::nki::strict {

using NodeId = int;
inline constexpr NodeId kNoNode = -1;  // in a list of nodes: None

struct Node {
  std::string kind;      // "Call"
  std::string name;      // id of a Name, attr of an Attribute, arg of an argument or a keyword
  bool is_text = false;  // a Constant that is a string
  std::vector<NodeId> children;
  std::map<std::string, std::vector<NodeId>, std::less<>> fields;
};

// A module of the nki package and a name that it has, or has not.
using Meaning = std::pair<std::string, std::string>;

struct SyntaxTree {
  std::vector<Node> nodes;                                // the first is the module
  std::function<std::optional<Meaning>(NodeId)> meaning;  // of a Name or an Attribute
  std::function<bool(NodeId)> is_kernel;    // whether it names a function that nki.jit decorates
  std::function<std::string(NodeId)> text;  // as ast.unparse() writes it

  const Node& operator[](NodeId id) const { return nodes[static_cast<size_t>(id)]; }
  bool is(NodeId id, std::string_view kind) const { return id != kNoNode && (*this)[id].kind == kind; }
  const std::vector<NodeId>& list(NodeId id, std::string_view field) const;
  NodeId child(NodeId id, std::string_view field) const;  // kNoNode where there is none

  // A node and all in it, as ast.walk(): those of one depth before the next.
  std::vector<NodeId> walk(NodeId top) const;
  // "a.b.c" of names; empty of anything else.
  std::string dotted(NodeId id) const;
  // "c" of it, and of any other value's attribute c.
  std::string last_name(NodeId id) const;
};

}  // namespace opentrn::nki::strict
