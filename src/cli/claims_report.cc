#include "cli/claims_report.h"

#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/embedded_page.h"
#include "cli/text_table.h"

namespace opentrn::cli {
namespace {

std::string figure(double value) {
  if (value == 0) return "0";
  const double size = std::abs(value);
  return size >= 1e6 || size < 1e-3 ? fmt::format("{:.3g}", value)
         : size >= 1000             ? fmt::format("{:.0f}", value)
                                    : fmt::format("{:.4g}", value);
}

std::string range(const planner::Between& value) {
  if (value.low == value.high) return fmt::format("{:.7g}", value.value);
  return fmt::format("{} ({} .. {})", figure(value.value), figure(value.low), figure(value.high));
}

nlohmann::ordered_json claimed_value_json(const planner::Between& value, const std::string& source) {
  return {{"value", value.value}, {"low", value.low}, {"high", value.high}, {"source", source}};
}

}  // namespace

std::string claims_table(const std::vector<planner::Claim>& claims) {
  TextTable table({"claim", "verdict", "sentence"});
  for (const planner::Claim& claim : claims) {
    std::string sentence = claim.sentence;
    // In a narrower terminal it stands below its row, whole.
    if (sentence.size() > 68 && line_width() == kLineWidth) sentence = sentence.substr(0, 65) + "...";
    table.add_row({claim.id, std::string(to_string(claim.verdict)), sentence});
  }
  return table.str() +
         "`opentrn claims --only NAME` shows inputs, intervals, and what would change a verdict.\n";
}

std::string claim_text(const planner::Claim& claim) {
  std::string text = wrapped(fmt::format("{}: {}", claim.id, claim.sentence), 0);
  text += fmt::format("Verdict: {}{}\n", to_string(claim.verdict), claim.missing.empty() ? "" : " as stated");
  if (!claim.quantity.empty()) text += wrapped("Quantity: " + claim.quantity, 0);
  if (!claim.readings.empty()) {
    TextTable table({"reading", "here (80 % interval)", "claimed", "chance", "verdict"});
    for (const planner::Reading& reading : claim.readings) {
      const bool judged = !reading.wanted.empty();
      table.add_row({reading.name, range(reading.quantity), judged ? reading.wanted : "-",
                     judged ? fmt::format("{:.0f} %", 100 * reading.probability) : "-",
                     judged ? std::string(to_string(reading.verdict)) : "-"});
    }
    text += table.str();
  }
  if (!claim.missing.empty()) text += wrapped("Missing: " + claim.missing, 0);
  if (!claim.changes.empty()) text += wrapped("What would change it: " + claim.changes, 0);
  if (!claim.inputs.empty()) text += "Inputs:\n";
  for (const planner::ClaimInput& input : claim.inputs)
    text += wrapped(fmt::format("{} = {} ({}: {}{}{})", input.name, range(input.value), input.confidence,
                                input.source, input.note.empty() ? "" : "; ", input.note),
                    2);
  return text;
}

std::string claims_json(const std::vector<planner::Claim>& claims,
                        const std::vector<planner::SavingLine>& saving, const planner::PriceQuery& price,
                        int indent) {
  auto out = nlohmann::ordered_json::array();
  for (const planner::Claim& claim : claims) {
    nlohmann::ordered_json each = {{"id", claim.id},
                                   {"sentence", claim.sentence},
                                   {"verdict", to_string(claim.verdict)},
                                   {"quantity", claim.quantity},
                                   {"missing", claim.missing},
                                   {"what_would_change_it", claim.changes}};
    each["readings"] = nlohmann::ordered_json::array();
    for (const planner::Reading& reading : claim.readings) {
      nlohmann::ordered_json one = {{"name", reading.name},
                                    {"quantity", claimed_value_json(reading.quantity, "opentrn claims")}};
      if (!reading.wanted.empty()) {
        one["claimed"] = reading.wanted;
        one["probability"] = reading.probability;
        one["verdict"] = to_string(reading.verdict);
      }
      each["readings"].push_back(std::move(one));
    }
    each["inputs"] = nlohmann::ordered_json::object();
    for (const planner::ClaimInput& input : claim.inputs) {
      auto one = claimed_value_json(input.value, input.source);
      one["confidence"] = input.confidence;
      if (!input.note.empty()) one["note"] = input.note;
      each["inputs"][input.name] = std::move(one);
    }
    out.push_back(std::move(each));
  }
  auto lines = nlohmann::ordered_json::array();
  for (const planner::SavingLine& line : saving)
    lines.push_back({{"model", line.model},
                     {"instance", line.instance},
                     {"months", line.months},
                     {"saving", line.saving}});
  return nlohmann::ordered_json{{"schema", 1},
                                {"price", {{"kind", price.kind}, {"as_of", price.as_of}}},
                                {"claims", std::move(out)},
                                {"saving", std::move(lines)}}
      .dump(indent, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

std::string claims_page(const std::vector<planner::Claim>& claims,
                        const std::vector<planner::SavingLine>& saving, const planner::PriceQuery& price) {
  std::string escaped;  // `<` would end the script that holds the data
  for (const char c : claims_json(claims, saving, price, -1)) c == '<' ? escaped += "\\u003c" : escaped += c;
  std::string page(embedded_claims_page());
  constexpr std::string_view kPlace = "{{data}}";
  return page.replace(page.find(kPlace), kPlace.size(), escaped);
}

}  // namespace opentrn::cli
