#include "graph/attribute.h"

#include <array>
#include <unordered_map>

namespace opentrn::graph {

namespace {

constexpr std::array<std::string_view, kAttrCount> kAttributeNames{
#define X(name) #name,
    OPENTRN_GRAPH_ATTRIBUTES(X)
#undef X
};

}  // namespace

Attribute Attribute::list(AttributeList elements) {
  return Attribute(std::make_shared<const AttributeList>(std::move(elements)));
}

Attribute Attribute::dictionary(Dictionary entries) {
  return Attribute(std::make_shared<const Dictionary>(std::move(entries)));
}

const AttributeList* Attribute::as_list() const {
  const auto* list = get<std::shared_ptr<const AttributeList>>();
  return list ? list->get() : nullptr;
}

const Dictionary* Attribute::as_dictionary() const {
  const auto* dictionary = get<std::shared_ptr<const Dictionary>>();
  return dictionary ? dictionary->get() : nullptr;
}

bool Attribute::operator==(const Attribute& other) const {
  if (as_list() && other.as_list()) return *as_list() == *other.as_list();
  if (as_dictionary() && other.as_dictionary()) return *as_dictionary() == *other.as_dictionary();
  return value == other.value;
}

std::string_view name(Attr attr) { return kAttributeNames[static_cast<size_t>(attr)]; }

std::optional<Attr> attr_from_name(std::string_view name) {
  static const auto index = [] {
    std::unordered_map<std::string_view, Attr> names;
    for (int i = 0; i < kAttrCount; ++i) names.emplace(kAttributeNames[i], static_cast<Attr>(i));
    return names;
  }();
  const auto found = index.find(name);
  if (found == index.end()) return std::nullopt;
  return found->second;
}

}  // namespace opentrn::graph
