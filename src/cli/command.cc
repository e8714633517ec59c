#include "cli/command.h"

#include <new>
#include <sstream>

#include <fmt/format.h>

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

int run(std::span<const AddCommand> commands, int argc, const char* const* argv, std::ostream& out,
        std::ostream& err) {
  CLI::App app{"OpenTrn: an open AWS Trainium in software", "opentrn"};
  app.require_subcommand(1);
  app.failure_message(CLI::FailureMessage::help);
  for (AddCommand add : commands) add(app, out);
  try {
    app.parse(argc, argv);
    return 0;
  } catch (const CLI::Success& success) {  // --help
    return app.exit(success, out, err);
  } catch (const CLI::ParseError& error) {
    app.exit(error, out, err);
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
        FaultKind::kInput, "cli.argument", error.what(),
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
