// From attributes as StableHLO writes them to the flat ones of op_definitions.h: structs are spread over
// their fields, enumerations become numbers, dense and array lists become lists of integers.
#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "graph/own_attribute.h"
#include "graph/text/parser.h"

namespace opentrn::graph::text {

namespace {

struct StructName {
  std::string_view attribute;
  std::string_view kind;
};
constexpr std::array kStructs{
    StructName{"algorithm", "dot_algorithm"},
    StructName{"channel_handle", "channel_handle"},
    StructName{"dimension_numbers", "gather or conv"},
    StructName{"dot_dimension_numbers", "dot"},
    StructName{"ragged_dot_dimension_numbers", "ragged_dot"},
    StructName{"scatter_dimension_numbers", "scatter"},
};

}  // namespace

std::string_view struct_kind(std::string_view attribute_name) {
  for (const StructName& each : kStructs)
    if (each.attribute == attribute_name) return each.kind;
  return {};
}

void apply_attributes(const Cursor& in, Op& op, WrittenAttributes attributes) {
  const OpDefinition& defined = definition(op.kind);
  Dictionary extra;
  const auto place = [&](const std::string& written_name, Attribute value, size_t position,
                         bool must_be_own) {
    const auto attr = attr_from_name(written_name);
    const AttrSpec* spec = attr ? find_spec(defined, *attr) : nullptr;
    if (spec) {
      if (op.has(*attr)) in.fail(position, fmt::format("`{}` is given twice", written_name));
      try {
        op.set(*attr, own_attribute(op.kind, *spec, std::move(value)));
      } catch (const Fault& fault) {
        if (fault.kind() == FaultKind::kNotModelled)
          in.fail_not_modelled(position, fault.message(), fault.hint());
        in.fail(position, fault.message(), fault.hint());
      }
    } else if (must_be_own) {
      in.fail(position, fmt::format("{} has no field `{}`", name(op.kind), written_name));
    } else if (!extra.try_emplace(written_name, std::move(value)).second) {
      in.fail(position, fmt::format("`{}` is given twice", written_name));
    }
  };
  for (WrittenAttribute& each : attributes) {
    const auto* fields = each.value.as_dictionary();
    const auto is_own = [&](const auto& field) {
      const auto attr = attr_from_name(field.first);
      return attr && find_spec(defined, *attr);
    };
    const bool is_struct = fields && !struct_kind(each.name).empty() &&
                           (fields->empty() || std::any_of(fields->begin(), fields->end(), is_own));
    if (!is_struct) {
      place(each.name, std::move(each.value), each.position, false);
      continue;
    }
    for (const auto& [field, value] : *fields) {
      // Collectives have the channel's number alone.
      if (field == "channel_type" && !find_spec(defined, Attr::channel_type)) continue;
      place(field, value, each.position, true);
    }
  }
  if (!extra.empty()) op.extra = std::make_shared<const Dictionary>(std::move(extra));
}

}  // namespace opentrn::graph::text
