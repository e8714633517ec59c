// How a subcommand joins the `opentrn` program.
//
// A command adds its CLI11 subcommand, options and callback to the app, and prints to `out`. What goes
// wrong is a Fault: run() turns it into a message and an exit code, so no command catches or exits.
#pragma once

#include <initializer_list>
#include <ostream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>

#include "arch/tables.h"
#include "base/fault.h"

namespace opentrn::cli {

using AddCommand = void (*)(CLI::App& app, std::ostream& out);

// Parses and runs; returns the exit code: 0, or exit_code() of the fault, or 2 for a bad command line.
int run(std::span<const AddCommand> commands, int argc, const char* const* argv, std::ostream& out,
        std::ostream& err);

// The text of --help in lines of `width` characters where words allow it; what is said of an option stays in
// its column.
std::string fitted_help(const std::string& help, size_t width);

// What a command prints. Faults pass; an input fault "cli.argument" for a command line that is none.
std::string ask(std::span<const AddCommand> commands, std::span<const std::string> arguments);

// An option or an argument that commands declare: of `command` ("fabric job"), as `names` ("--set", or "file"
// of what stands without dashes). A flag takes no value.
struct DeclaredOption {
  std::string command;
  std::vector<std::string> names;
  std::string help;
  bool flag = false;
};
// All of all commands, in their order; those of --help alone are left out.
std::vector<DeclaredOption> declared_options(std::span<const AddCommand> commands);

// Input fault `label` that names those of `options` that were given, as they would change nothing: `why` says
// of what they are ("of drawn requests, and a file of them is given").
void refuse_given(const CLI::App& command, std::initializer_list<const char*> options, std::string_view why,
                  const char* label = "cli.argument");

// 1 the program's fault, 2 bad input, 3 does not fit, 4 not modelled, 5 unspecified, 70 our bug.
int exit_code(FaultKind kind);

// --set key=value and --tables file, for every command that reads the machine tables.
class TableOptions {
 public:
  void add_to(CLI::App& command);
  std::shared_ptr<const arch::Tables> load() const { return arch::load_tables(overrides_); }

 private:
  arch::Overrides overrides_;
};

}  // namespace opentrn::cli
