#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>

#include "nki/strict/source_checks.h"
#include "python/kernel_bindings.h"

namespace opentrn::python {

namespace nb = nanobind;
using namespace nb::literals;

namespace {

using nki::strict::Meaning;
using nki::strict::Node;
using nki::strict::NodeId;
using nki::strict::SyntaxTree;

// A tree of Python's module ast, and its nodes by their numbers.
class PythonTree {
 public:
  explicit PythonTree(nb::handle module) : ast_(nb::module_::import_("ast")), node_class_(ast_.attr("AST")) {
    add(module);
  }

  void answer_by(const nb::callable& meaning, const nb::callable& is_kernel) {
    tree_.meaning = [this, meaning](NodeId id) {
      return nb::cast<std::optional<Meaning>>(meaning((*this)[id]));
    };
    tree_.is_kernel = [this, is_kernel](NodeId id) { return nb::cast<bool>(is_kernel((*this)[id])); };
    tree_.text = [this](NodeId id) { return nb::cast<std::string>(ast_.attr("unparse")((*this)[id])); };
  }
  const SyntaxTree& tree() const { return tree_; }
  nb::handle operator[](NodeId id) const { return objects_[static_cast<size_t>(id)]; }

 private:
  NodeId add(nb::handle from) {
    const auto id = static_cast<NodeId>(objects_.size());
    objects_.push_back(nb::borrow(from));
    Node node;
    node.kind = nb::cast<std::string>(from.type().attr("__name__"));
    tree_.nodes.emplace_back();
    for (const nb::handle name : from.attr("_fields")) add_field(node, from, nb::cast<std::string>(name));
    tree_.nodes[static_cast<size_t>(id)] = std::move(node);
    return id;
  }

  void add_field(Node& node, nb::handle from, const std::string& name) {
    const nb::object value = nb::getattr(from, name.c_str(), nb::none());
    if (nb::isinstance(value, node_class_)) {
      node.children.push_back(add(value));
      node.fields[name] = {node.children.back()};
    } else if (nb::isinstance<nb::list>(value)) {
      std::vector<NodeId> list;
      for (const nb::handle each : nb::borrow<nb::list>(value)) {
        const bool is_node = nb::isinstance(each, node_class_);
        list.push_back(is_node ? add(each) : nki::strict::kNoNode);
        if (is_node) node.children.push_back(list.back());
      }
      node.fields[name] = std::move(list);
    } else if (nb::isinstance<nb::str>(value)) {
      if (name == "id" || name == "attr" || name == "arg") node.name = nb::cast<std::string>(value);
      if (name == "value") node.is_text = true;
    }
  }

  nb::object ast_, node_class_;
  SyntaxTree tree_;
  std::vector<nb::object> objects_;
};

std::string text_field(nb::handle from, const char* name) { return nb::cast<std::string>(from.attr(name)); }

std::vector<nki::strict::Rule> rules_of(const nb::list& rows) {
  std::vector<nki::strict::Rule> rules;
  for (const nb::handle row : rows)
    rules.push_back({text_field(row, "kind"), text_field(row, "where"), text_field(row, "name"),
                     text_field(row, "argument")});
  return rules;
}

// (node, rule, detail) of what is refused first; None where nothing is.
std::optional<nb::tuple> source_finding(nb::handle tree, const nb::list& rules, const nb::callable& meaning,
                                        const nb::callable& is_kernel, bool legacy, bool is_launched) {
  PythonTree read(tree);
  read.answer_by(meaning, is_kernel);
  const auto rows = rules_of(rules);
  const auto found = legacy ? nki::strict::find_refused_legacy(read.tree(), rows, is_launched)
                            : nki::strict::find_refused(read.tree(), rows);
  if (!found) return std::nullopt;
  return nb::make_tuple(read[found->node], nb::object(rules[found->rule]), found->detail);
}

}  // namespace

void bind_source_checks(nb::module_& module) {
  module.def("source_finding", &source_finding, "tree"_a, "rules"_a, "meaning"_a, "is_kernel"_a, "legacy"_a,
             "is_launched"_a);
  module.def(
      "source_writes", [](nb::handle tree) { return nki::strict::writes(PythonTree(tree).tree()); },
      "tree"_a);
}

}  // namespace opentrn::python
