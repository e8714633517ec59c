// The two forms in which `describe` prints an item.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "cli/item.h"

namespace opentrn::cli {

std::string describe_text(const arch::Tables& tables, const Item& item);
nlohmann::ordered_json describe_json(const arch::Tables& tables, const Item& item);

// A value as JSON; unknown is null.
nlohmann::ordered_json json_of(const arch::FactValue& value);

}  // namespace opentrn::cli
