// opentrn describe <name>: everything the tables say about one machine, with where each number is from.
#include "cli/describe.h"

#include <memory>

#include <fmt/ranges.h>

#include "cli/command.h"
#include "cli/commands.h"

namespace opentrn::cli {
namespace {

struct DescribeOptions {
  std::vector<std::string> name;  // "Trn2 UltraServer" may be typed without quotes
  bool json = false;
  TableOptions tables;
};

void describe(const DescribeOptions& options, std::ostream& out) {
  const auto tables = options.tables.load();
  const Item item = find_item(*tables, fmt::format("{}", fmt::join(options.name, " ")));
  if (options.json) {
    out << describe_json(*tables, item).dump(2) << "\n";
  } else {
    out << describe_text(*tables, item);
  }
}

}  // namespace

void add_describe(CLI::App& app, std::ostream& out) {
  auto options = std::make_shared<DescribeOptions>();
  CLI::App* command = app.add_subcommand("describe",
                                         "Print everything known about a core, chip, instance, UltraServer "
                                         "or table, with sources");
  command->add_option("name", options->name, "A name that `opentrn ls` prints, or a table such as timing.v3")
      ->required();
  command->add_flag("--json", options->json, "Print JSON");
  options->tables.add_to(*command);
  command->callback([options, &out] { describe(*options, out); });
}

}  // namespace opentrn::cli
