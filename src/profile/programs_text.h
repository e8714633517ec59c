// Words of `opentrn profile -- COMMAND`, in at most 80 columns.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

namespace opentrn::profile {

// `summary`: of summarise_programs(). `rows_max`: programs that the table has.
std::string programs_text(const nlohmann::ordered_json& summary, size_t rows_max);

}  // namespace opentrn::profile
