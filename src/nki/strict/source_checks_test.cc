#include "nki/strict/source_checks.h"

#include <gtest/gtest.h>

namespace opentrn::nki::strict {
namespace {

// A tree that is written from the inside out; its module is the first node.
class Written {
 public:
  Written() {
    tree.nodes.push_back({"Module"});
    tree.meaning = [this](NodeId id) -> std::optional<Meaning> {
      const std::string text = tree.dotted(id);
      if (!text.starts_with("nl.")) return std::nullopt;
      return Meaning("nki.language", text.substr(3));
    };
    tree.is_kernel = [this](NodeId id) { return tree.dotted(id) == "other"; };
    tree.text = [this](NodeId id) { return texts.contains(id) ? texts[id] : tree.dotted(id); };
  }

  NodeId node(std::string kind, std::vector<std::pair<std::string, std::vector<NodeId>>> fields = {},
              std::string name = "") {
    Node made{std::move(kind), std::move(name)};
    for (auto& [field, list] : fields) {
      for (const NodeId each : list)
        if (each != kNoNode) made.children.push_back(each);
      made.fields[field] = std::move(list);
    }
    tree.nodes.push_back(std::move(made));
    return static_cast<NodeId>(tree.nodes.size() - 1);
  }
  NodeId name(const std::string& id) { return node("Name", {{"ctx", {node("Load")}}}, id); }
  NodeId target(const std::string& id) { return node("Name", {{"ctx", {node("Store")}}}, id); }
  NodeId attribute(NodeId of, const std::string& attr) { return node("Attribute", {{"value", {of}}}, attr); }
  NodeId call(NodeId func, std::vector<NodeId> keywords = {}) {
    return node("Call", {{"func", {func}}, {"args", {}}, {"keywords", std::move(keywords)}});
  }
  NodeId keyword(const std::string& arg, NodeId value) { return node("keyword", {{"value", {value}}}, arg); }
  NodeId assign(const std::string& to, NodeId value) {
    return node("Assign", {{"targets", {target(to)}}, {"value", {value}}});
  }
  NodeId expression(NodeId value) { return node("Expr", {{"value", {value}}}); }
  NodeId returns(NodeId value) { return node("Return", {{"value", {value}}}); }
  NodeId constant(const std::string& text, bool is_text = false) {
    const NodeId made = node("Constant");
    tree.nodes[static_cast<size_t>(made)].is_text = is_text;
    texts[made] = text;
    return made;
  }

  SyntaxTree& function(std::vector<NodeId> body, std::vector<NodeId> parameters = {}) {
    const NodeId arguments = node("arguments", {{"args", std::move(parameters)}});
    const NodeId made = node("FunctionDef", {{"args", {arguments}}, {"body", std::move(body)}});
    tree.nodes[0].children = {made};
    tree.nodes[0].fields["body"] = {made};
    return tree;
  }

  SyntaxTree tree;
  std::map<NodeId, std::string> texts;
};

using Found = std::optional<Finding>;

TEST(SourceChecks, NamesCallsAndArgumentsByWhatTheyMean) {
  const Rule rules[] = {{"name", "nki.language", "arange", ""},
                        {"call", "nki.language", "divide", ""},
                        {"argument", "nki.language", "load", "dtype"},
                        {"mask", "", "", ""}};
  const auto found = [&](const char* called, const char* keyword) {
    Written it;
    std::vector<NodeId> keywords;
    if (keyword) keywords.push_back(it.keyword(keyword, it.name("x")));
    const NodeId function = it.attribute(it.name("nl"), called);
    return find_refused(it.function({it.expression(it.call(function, std::move(keywords)))}), rules);
  };
  EXPECT_EQ(found("arange", nullptr).value().rule, 0u);
  EXPECT_EQ(found("divide", nullptr).value().rule, 1u);
  EXPECT_EQ(found("load", "dtype").value().rule, 2u);
  const Found mask = found("load", "mask");
  EXPECT_EQ(mask.value().rule, 3u);
  EXPECT_EQ(mask->detail, "of nki.language.load");
  EXPECT_FALSE(found("load", "buffer"));
}

TEST(SourceChecks, ComparisonsKeysAndKernelsAreNamedByTheirText) {
  const Rule rules[] = {{"identity", "", "", ""}, {"dict_keys", "", "", ""}, {"nested_jit", "", "", ""}};
  Written same;
  const NodeId compared = same.node("Compare", {{"ops", {same.node("IsNot")}}});
  same.texts[compared] = "a is not b";
  const Found identity = find_refused(same.function({same.expression(compared)}), rules);
  EXPECT_EQ(identity.value().detail, "a is not b");
  Written keys;
  const NodeId dictionary =
      keys.node("Dict", {{"keys", {kNoNode, keys.constant("'a'", true), keys.constant("1")}}});
  EXPECT_EQ(find_refused(keys.function({keys.expression(dictionary)}), rules).value().detail, "the key 1");
  Written nested;
  const Found inner =
      find_refused(nested.function({nested.expression(nested.call(nested.name("other")))}), rules);
  EXPECT_EQ(inner.value().rule, 2u);
  EXPECT_EQ(inner->detail, "other");
}

// for ...: t = nl.load(); then a use of t.
TEST(LegacyChecks, ATensorOfALoopIsNotUsedBehindIt) {
  const Rule rules[] = {{"scope", "", "", ""}};
  const auto found = [&](const char* maker, bool before) {
    Written it;
    const NodeId made = it.call(it.attribute(it.name(maker), "load"));
    std::vector<NodeId> body;
    if (before) body.push_back(it.assign("t", it.constant("0")));
    body.push_back(it.node("For", {{"body", {it.assign("t", made)}}, {"orelse", {}}}));
    body.push_back(it.returns(it.name("t")));
    return find_refused_legacy(it.function(std::move(body)), rules, true);
  };
  EXPECT_EQ(found("nl", false).value().detail, "variable t");
  EXPECT_FALSE(found("nl", true));
  EXPECT_FALSE(found("np", false));
}

TEST(LegacyChecks, AKernelThatPlacesTilesPlacesAll) {
  const Rule rules[] = {{"allocated_bias", "", "", ""}, {"allocated_transpose", "", "", ""}};
  const auto found = [&](const char* function, const char* engine, bool places) {
    Written it;
    const NodeId buffer = it.attribute(it.attribute(it.name("ncc"), places ? "sbuf" : "hbm"), "mod_alloc");
    std::vector<NodeId> keywords;
    if (engine) keywords.push_back(it.keyword("engine", it.constant(engine)));
    const NodeId call = it.call(it.attribute(it.name("nisa"), function), std::move(keywords));
    return find_refused_legacy(it.function({it.expression(it.call(buffer)), it.expression(call)}), rules,
                               true);
  };
  EXPECT_EQ(found("activation", nullptr, true).value().rule, 0u);
  EXPECT_FALSE(found("activation", nullptr, false));
  EXPECT_EQ(found("nc_transpose", nullptr, true).value().rule, 1u);
  EXPECT_EQ(found("nc_transpose", "nisa.tensor_engine", true).value().rule, 1u);
  EXPECT_FALSE(found("nc_transpose", "nisa.vector_engine", true));
  EXPECT_FALSE(found("nc_transpose", "Engine.VECTOR", true));
}

TEST(LegacyChecks, SharedMemoryIsMadeAtTheTopOfTheKernel) {
  const Rule rules[] = {{"shared_hbm_level", "", "", ""}};
  const auto found = [&](bool in_loop, bool is_launched) {
    Written it;
    NodeId statement = it.expression(it.attribute(it.name("nl"), "shared_hbm"));
    if (in_loop) statement = it.node("For", {{"body", {statement}}});
    return find_refused_legacy(it.function({statement}), rules, is_launched).has_value();
  };
  EXPECT_FALSE(found(false, true));
  EXPECT_TRUE(found(true, true));
  EXPECT_TRUE(found(false, false));
}

TEST(LegacyChecks, MutableParametersAreReturned) {
  const Rule rules[] = {{"mutable_returned", "", "", ""}};
  Written it;
  const auto parameter = [&](const char* name) {
    return it.node("arg", {{"annotation", {it.constant("nt.mutable_tensor")}}}, name);
  };
  it.function({it.returns(it.name("a"))}, {parameter("a"), parameter("b")});
  EXPECT_EQ(find_refused_legacy(it.tree, rules, true).value().detail, "parameter b");
  EXPECT_FALSE(find_refused_legacy(it.tree, rules, false));
}

TEST(SourceChecks, WhatAFunctionWrites) {
  Written stores, returns, reads;
  EXPECT_TRUE(writes(
      stores.function({stores.expression(stores.call(stores.attribute(stores.name("nl"), "store")))})));
  EXPECT_TRUE(writes(returns.function({returns.returns(returns.name("x"))})));
  EXPECT_FALSE(
      writes(reads.function({reads.assign("x", reads.call(reads.attribute(reads.name("nl"), "load")))})));
  Written element;
  const NodeId assigned =
      element.node("Assign", {{"targets", {element.node("Subscript")}}, {"value", {element.name("x")}}});
  EXPECT_TRUE(writes(element.function({assigned})));
}

}  // namespace
}  // namespace opentrn::nki::strict
