#include "cli/command.h"

#include <new>
#include <sstream>
#include <utility>

#include <fmt/format.h>

#include "arch/closest.h"
#include "cli/text_table.h"

namespace opentrn::cli {

namespace {

void declared_by(const CLI::App& command, const std::string& path, std::vector<DeclaredOption>& found) {
  for (const CLI::Option* option : command.get_options({})) {
    if (option == command.get_help_ptr()) continue;
    DeclaredOption& row = found.emplace_back(DeclaredOption{path, {}, option->get_description()});
    for (const std::string& name : option->get_snames()) row.names.push_back("-" + name);
    for (const std::string& name : option->get_lnames()) row.names.push_back("--" + name);
    if (row.names.empty()) row.names.push_back(option->get_single_name());
    row.flag = option->get_type_size() == 0;
  }
  for (const CLI::App* inner : command.get_subcommands({}))
    declared_by(*inner, path.empty() ? inner->get_name() : path + " " + inner->get_name(), found);
}

// The innermost command of a command line, and its words: "opentrn fabric predict".
std::pair<const CLI::App*, std::string> command_of(const CLI::App& app) {
  const CLI::App* command = &app;
  std::string words = app.get_name();
  while (!command->get_subcommands().empty()) {
    command = command->get_subcommands().back();
    words += " " + command->get_name();
  }
  return {command, words};
}

// "--jsn" of "The following arguments were not expected: 4 --jsn", which has an unknown option's value first;
// empty for other errors.
std::string unexpected_option(std::string_view error) {
  const size_t found = error.find("not expected: ");
  const size_t begin = found == std::string_view::npos ? found : error.find("--", found);
  if (begin == std::string_view::npos) return {};
  const std::string_view option = error.substr(begin);
  return std::string(option.substr(0, option.find_first_of(" =")));
}

std::string said_by(const CLI::ParseError& error) {
  const std::string text = error.what();
  if (const std::string option = unexpected_option(text); !option.empty())
    return option + ": there is no such option";
  constexpr std::string_view kTwice = "At Most 1 required but received ";
  if (const size_t found = text.find(kTwice); found != std::string::npos)
    return fmt::format("{}{} values, and it takes one", text.substr(0, found),
                       text.substr(found + kTwice.size()));
  return text;
}

// A command line that is none is the caller's fault, and says so in two lines: the usage of a command with
// fifty options would push what is wrong off the screen.
void print_refusal(const CLI::App& app, const CLI::ParseError& error, std::ostream& err) {
  const auto [command, words] = command_of(app);
  std::string hint = fmt::format("{} --help", words);
  if (const std::string option = unexpected_option(error.what()); !option.empty()) {
    std::vector<std::string> names;
    for (const CLI::Option* each : command->get_options({}))
      for (const std::string& name : each->get_lnames()) names.push_back("--" + name);
    hint = arch::did_you_mean(option, names, hint);
  }
  err << fmt::format("{}: {}\n    try: {}\n", words, said_by(error), hint);
}

}  // namespace

std::vector<DeclaredOption> declared_options(std::span<const AddCommand> commands) {
  std::ostringstream unused;
  CLI::App app{"OpenTrn", "opentrn"};
  for (AddCommand add : commands) add(app, unused);
  std::vector<DeclaredOption> found;
  declared_by(app, "", found);
  return found;
}

void refuse_given(const CLI::App& command, std::initializer_list<const char*> options, std::string_view why,
                  const char* label) {
  std::string given;
  int count = 0;
  for (const char* name : options) {
    if (command.get_option(name)->count() == 0) continue;
    given += (given.empty() ? "" : ", ") + std::string(name);
    ++count;
  }
  if (count > 0)
    throw Fault(FaultKind::kInput, label, fmt::format("{}: {}", given, why),
                fmt::format("leave {} out", count == 1 ? "it" : "them"));
}

int exit_code(FaultKind kind) {
  switch (kind) {
    case FaultKind::kProgram: return 1;
    case FaultKind::kInput: return 2;
    case FaultKind::kCapacity: return 3;
    case FaultKind::kNotModelled: return 4;
    case FaultKind::kUnspecified: return 5;
    case FaultKind::kInternal: return 70;
  }
  return 70;
}

std::string fitted_help(const std::string& help, size_t width) {
  constexpr size_t kColumn = 30;  // where CLI11 begins to say what an option does
  constexpr size_t kLeast = 2 * kColumn;
  std::istringstream lines(help);
  std::string out;
  for (std::string line; std::getline(lines, line);) {
    const bool is_row =
        line.size() > kColumn && line[0] == ' ' && line[kColumn - 1] == ' ' && line[kColumn] != ' ';
    if (line.size() <= width || width < kLeast)
      out += line + "\n";
    else if (is_row)
      out += line.substr(0, kColumn) + wrapped(line.substr(kColumn), kColumn, width).substr(kColumn);
    else
      out += wrapped_lines(line, width);
  }
  return out;
}

int run(std::span<const AddCommand> commands, int argc, const char* const* argv, std::ostream& out,
        std::ostream& err) {
  CLI::App app{"OpenTrn: an open AWS Trainium in software", "opentrn"};
  app.require_subcommand(1);
  for (AddCommand add : commands) add(app, out);
  try {
    app.parse(argc, argv);
    return 0;
  } catch (const CLI::Success& success) {  // --help
    std::ostringstream help;
    const int code = app.exit(success, help, err);
    out << fitted_help(help.str(), line_width());
    return code;
  } catch (const CLI::ParseError& error) {
    print_refusal(app, error, err);
    return exit_code(FaultKind::kInput);
  } catch (const Fault& fault) {
    err << "opentrn: " << fault.what() << "\n";
    return exit_code(fault.kind());
  } catch (const std::bad_alloc&) {
    const Fault fault(FaultKind::kCapacity, "cli.memory", "there is not enough memory for this",
                      "a smaller size, or fewer ranks");
    err << "opentrn: " << fault.what() << "\n";
    return exit_code(fault.kind());
  }
}

std::string ask(std::span<const AddCommand> commands, std::span<const std::string> arguments) {
  std::ostringstream out;
  CLI::App app{"OpenTrn", "opentrn"};
  app.require_subcommand(1);
  for (AddCommand add : commands) add(app, out);
  std::vector<std::string> words(arguments.rbegin(), arguments.rend());  // as CLI11 wants them
  try {
    app.parse(words);
  } catch (const CLI::ParseError& error) {
    throw Fault(
        FaultKind::kInput, "cli.argument", said_by(error),
        fmt::format("`opentrn {} --help` lists what there is", arguments.empty() ? "" : arguments[0]));
  }
  return out.str();
}

void TableOptions::add_to(CLI::App& command) {
  command
      .add_option("--set", overrides_.settings,
                  "What-if: change a table value, for example "
                  "neuron_core.v3.hbm_bandwidth_gb_s=500")
      ->type_name("KEY=VALUE")
      ->expected(1)
      ->take_all();
  command.add_option("--tables", overrides_.files, "What-if: a TOML file of table values to change")
      ->type_name("FILE")
      ->expected(1)
      ->take_all();
}

}  // namespace opentrn::cli
