// opentrn plan: the layouts of a training job on instances, what they take and cost, and how far to trust that.
#include <fstream>
#include <memory>
#include <sstream>

#include "cli/command.h"
#include "cli/commands.h"
#include "planner/check/report.h"

namespace opentrn::cli {
namespace {

struct Options {
  TableOptions tables;
  std::string check;
  bool json = false, rows = false;
};

std::string text_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw Fault(FaultKind::kInput, "plan.file", "cannot read '" + path + "'", "the path of a file");
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

void print_check(const Options& options, std::ostream& out) {
  const auto tables = options.tables.load();
  const planner::Check check = planner::check_rows(*tables, planner::read_rows(text_of(options.check), options.check));
  if (options.json) out << planner::check_json(check) << "\n";
  else out << planner::check_text(check, options.rows);
}

}  // namespace

void add_plan(CLI::App& app, std::ostream& out) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("plan", "Layouts of a training job: time, memory and cost");
  options->tables.add_to(*command);
  command->add_option("--check", options->check, "Compare with published rows: a CSV file");
  command->add_flag("--rows", options->rows, "With --check: every row");
  command->add_flag("--json", options->json, "Print JSON");
  command->callback([options, &out] { print_check(*options, out); });
}

}  // namespace opentrn::cli
