// The results of `opentrn claims` as text, as JSON and as a page.
#pragma once

#include <string>
#include <vector>

#include "planner/claims/claim.h"

namespace opentrn::cli {

std::string claims_table(const std::vector<planner::Claim>& claims);
std::string claim_text(const planner::Claim& claim);
// {"schema", "price", "claims": [...], "saving": [...]}; `indent` as of nlohmann's dump().
std::string claims_json(const std::vector<planner::Claim>& claims,
                        const std::vector<planner::SavingLine>& saving, const planner::PriceQuery& price,
                        int indent);
std::string claims_page(const std::vector<planner::Claim>& claims,
                        const std::vector<planner::SavingLine>& saving, const planner::PriceQuery& price);

}  // namespace opentrn::cli
