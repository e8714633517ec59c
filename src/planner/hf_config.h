// Models from Hugging Face's config.json, and by name from the catalogue of the tables (model.toml).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "arch/tables.h"
#include "planner/model.h"

namespace opentrn::planner {

// `origin` names the text in errors. Input faults: no JSON object; a model type that the planner has no rules
// for, with those it has; a key that changes the sizes and is not understood; a size that is missing, or
// none.
Model model_from_config(std::string_view json, const std::string& origin);

// The model of that name, or an alias of it; letter case and what stands between letters and digits do not
// matter. An input fault with the nearest names.
Model model_named(const arch::Tables& tables, std::string_view name);
bool has_model(const arch::Tables& tables, std::string_view name);
std::vector<std::string> model_names(const arch::Tables& tables);

// The name of the catalogue that stands in a text, the longest; empty where there is none.
std::string model_named_in(const arch::Tables& tables, std::string_view text);

// A file where one of that name exists, else a name of the catalogue.
Model model_of(const arch::Tables& tables, const std::string& path_or_name);

}  // namespace opentrn::planner
