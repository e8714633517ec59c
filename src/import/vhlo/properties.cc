#include "import/vhlo/properties.h"

#include <algorithm>
#include <charconv>
#include <string>

#include "graph/op_definitions.h"
#include "import/vhlo/encoding.h"

namespace opentrn::import::vhlo {

namespace {

// Attributes that version 1 of an op did not have yet. Source: stablehlo/dialect/VhloOps.td.
struct Later {
  std::string_view attribute;
  std::string_view op;  // empty: any
};
constexpr Later kLaterThanV1[] = {
    {"result_accuracy", {}},
    {"accumulation_type", "dot_general"},
    {"allow_imprecise_accumulation", "dot_general"},
    {"lhs_component_count", "dot_general"},
    {"lhs_precision_type", "dot_general"},
    {"num_primitive_operations", "dot_general"},
    {"rhs_component_count", "dot_general"},
    {"rhs_precision_type", "dot_general"},
    {"operand_batching_dims", {}},
    {"start_indices_batching_dims", {}},
    {"input_batching_dims", "scatter"},
    {"scatter_indices_batching_dims", "scatter"},
    {"has_dynamic_root", "collective_broadcast"},
    {"source_target_pairs", "send"},
    {"source_target_pairs", "recv"},
    {"result_tilings", "custom_call"},
};

bool came_later(std::string_view attribute, std::string_view op) {
  return std::any_of(std::begin(kLaterThanV1), std::end(kLaterThanV1), [&](const Later& later) {
    return later.attribute == attribute && (later.op.empty() || later.op == op);
  });
}

}  // namespace

VersionedName versioned_name(std::string_view name) {
  const size_t mark = name.rfind("_v");
  if (mark == std::string_view::npos) return {name, 0};
  VersionedName versioned{name.substr(0, mark), 0};
  const char* end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(name.data() + mark + 2, end, versioned.version);
  if (error != std::errc() || stop != end) return {name, 0};
  return versioned;
}

std::vector<std::string_view> vhlo_properties(std::string_view name) {
  const auto [base, version] = versioned_name(name);
  if (base == "func") return {"arg_attrs", "function_type", "res_attrs", "sym_name", "sym_visibility"};
  const auto kind =
      base == "call" ? graph::OpKind::call_ : graph::op_kind_from_name("stablehlo." + std::string(base));
  if (!kind) return {};
  std::vector<std::string_view> names;
  for (const graph::AttrSpec& spec : graph::definition(*kind).attributes) {
    const std::string_view attribute = graph::name(spec.attr);
    if (version > 1 || !came_later(attribute, base)) names.push_back(attribute);
  }
  // The second version of dynamic_conv lost an attribute.
  if (base == "dynamic_conv" && version == 1) names.push_back("padding");
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<std::string_view> other_properties(std::string_view dialect, std::string_view name) {
  if (dialect == "builtin" && name == "module") return {"sym_name?", "sym_visibility?"};
  if (dialect == "sdy") {
    if (name == "mesh") return {"mesh", "sym_name"};
    if (name == "sharding_constraint" || name == "reshard") return {"sharding"};
    if (name == "manual_computation") return {"in_shardings", "manual_axes", "out_shardings"};
  }
  return {};
}

}  // namespace opentrn::import::vhlo
