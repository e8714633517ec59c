// opentrn claims: headlines about Trainium, recomputed.

#include <fmt/format.h>

#include "base/new_file.h"
#include "cli/claims_report.h"
#include "cli/commands.h"
#include "cli/validators.h"

namespace opentrn::cli {
namespace {

struct ClaimsOptions {
  TableOptions tables;
  planner::ClaimOptions claims;
  std::vector<std::string> only;
  std::string price_file, html;
  bool json = false, list = false, all = false;
};

void run_claims(ClaimsOptions options, std::ostream& out) {
  const auto tables = options.tables.load();
  if (!options.price_file.empty()) options.claims.price.file = planner::read_prices(options.price_file);
  const std::vector<std::string> names = planner::claim_names(*tables);
  if (options.list) {
    for (const std::string& name : names) out << name << "\n";
    return;
  }
  std::vector<planner::Claim> claims;
  for (const std::string& name : options.only.empty() ? names : options.only)
    claims.push_back(planner::claim_of(*tables, options.claims, name));
  const auto saving = planner::saving_over_time(*tables, options.claims);
  if (!options.html.empty()) {
    const std::string page = claims_page(claims, saving, options.claims.price);
    NewFile file(options.html, "cli.output", "a path in an existing folder");
    file.put(page.data(), page.size());
    file.finish();
  }
  if (options.json)
    out << claims_json(claims, saving, options.claims.price, 2) << "\n";
  else if (options.only.empty() && !options.all)
    out << claims_table(claims);
  else
    for (size_t i = 0; i < claims.size(); ++i) out << (i > 0 ? "\n" : "") << claim_text(claims[i]);
}

}  // namespace

void add_claims(CLI::App& app, std::ostream& out) {
  auto options = std::make_shared<ClaimsOptions>();
  CLI::App* command = app.add_subcommand("claims", "Recompute published claims about Trainium");
  options->tables.add_to(*command);
  command->add_option("--only", options->only,
                      "Only these claims, with inputs and intervals (--list names them)");
  command->add_flag("--all", options->all, "All claims, with inputs and intervals");
  command->add_flag("--list", options->list, "List the claims");
  command->add_option("--price", options->claims.price.kind, "on_demand, reserved, capacity_block or spot");
  command->add_option("--price-file", options->price_file, "Your rates, in the form of price.toml")
      ->envname("OPENTRN_PRICES");
  command->add_option("--as-of", options->claims.price.as_of, "Use prices that were valid then: 2024-12");
  command->add_option("--seed", options->claims.seed, "Seed of the samples (default: 1)")
      ->check(whole_within(0, INT64_MAX));
  command->add_option("--html", options->html, "Also write a page with the saving over time");
  command->add_flag("--json", options->json, "Print JSON");
  command->callback([options, command, &out] {
    if (!options->only.empty())
      refuse_given(*command, {"--all"}, "only for all headlines, and --only names some");
    if (options->list)
      refuse_given(*command, {"--only", "--all", "--html", "--json"},
                   "only for headlines, and --list names them");
    run_claims(*options, out);
  });
}

}  // namespace opentrn::cli
