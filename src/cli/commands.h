// The program's commands, from the one table of them (commands.def). Each of C++ is the file of its name.
#pragma once

#include <ostream>
#include <string_view>

#include <CLI/CLI.hpp>

#include "cli/command.h"

namespace opentrn::cli {

// A row of the table. `entry` is Python's module:function, and empty for a command of C++.
struct Command {
  std::string_view name, entry, line;
  bool passed_on = false;  // the Python function takes the words as they are
};

#define OPENTRN_CPP_COMMAND(stem, name, line) void add_##stem(CLI::App& app, std::ostream& out);
#define OPENTRN_PYTHON_COMMAND(name, entry, line)
#define OPENTRN_PASSED_ON_COMMAND(name, entry, line)
#include "cli/commands.def"
#undef OPENTRN_CPP_COMMAND
#undef OPENTRN_PYTHON_COMMAND
#undef OPENTRN_PASSED_ON_COMMAND

// Those of C++, in the order of the help.
#define OPENTRN_CPP_COMMAND(stem, name, line) add_##stem,
#define OPENTRN_PYTHON_COMMAND(name, entry, line)
#define OPENTRN_PASSED_ON_COMMAND(name, entry, line)
inline constexpr AddCommand kCommands[] = {
#include "cli/commands.def"
};
#undef OPENTRN_CPP_COMMAND
#undef OPENTRN_PYTHON_COMMAND
#undef OPENTRN_PASSED_ON_COMMAND

// All of them, of both languages.
#define OPENTRN_CPP_COMMAND(stem, name, line) {name, "", line},
#define OPENTRN_PYTHON_COMMAND(name, entry, line) {name, entry, line},
#define OPENTRN_PASSED_ON_COMMAND(name, entry, line) {name, entry, line, true},
inline constexpr Command kProgram[] = {
#include "cli/commands.def"
};
#undef OPENTRN_CPP_COMMAND
#undef OPENTRN_PYTHON_COMMAND
#undef OPENTRN_PASSED_ON_COMMAND

}  // namespace opentrn::cli
