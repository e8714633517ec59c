#include "nki/strict/syntax_tree.h"

#include "base/fault.h"

namespace opentrn::nki::strict {

const std::vector<NodeId>& SyntaxTree::list(NodeId id, std::string_view field) const {
  static const std::vector<NodeId> kNone;
  const auto found = (*this)[id].fields.find(field);
  return found == (*this)[id].fields.end() ? kNone : found->second;
}

NodeId SyntaxTree::child(NodeId id, std::string_view field) const {
  const std::vector<NodeId>& found = list(id, field);
  return found.empty() ? kNoNode : found.front();
}

std::vector<NodeId> SyntaxTree::walk(NodeId top) const {
  OPENTRN_CHECK(top != kNoNode, "a walk from no node");
  std::vector<NodeId> found = {top};
  for (size_t at = 0; at < found.size(); ++at) {
    const std::vector<NodeId>& children = (*this)[found[at]].children;
    found.insert(found.end(), children.begin(), children.end());
  }
  return found;
}

std::string SyntaxTree::dotted(NodeId id) const {
  if (is(id, "Name")) return (*this)[id].name;
  if (!is(id, "Attribute")) return "";
  const std::string owner = dotted(child(id, "value"));
  return owner.empty() ? "" : owner + "." + (*this)[id].name;
}

std::string SyntaxTree::last_name(NodeId id) const {
  return is(id, "Name") || is(id, "Attribute") ? (*this)[id].name : "";
}

}  // namespace opentrn::nki::strict
