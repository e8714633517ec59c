// The subcommands, each in the file of its name.
#pragma once

#include <ostream>

#include <CLI/CLI.hpp>

#include "cli/command.h"

namespace opentrn::cli {

void add_ls(CLI::App& app, std::ostream& out);          // what machines there are
void add_describe(CLI::App& app, std::ostream& out);    // everything the tables say about one of them
void add_fabric(CLI::App& app, std::ostream& out);      // links between chips, and collectives over them
void add_goodput(CLI::App& app, std::ostream& out);     // what failures leave of a training job
void add_nccom_test(CLI::App& app, std::ostream& out);  // AWS's benchmark of collectives
void add_neuron_ls(CLI::App& app, std::ostream& out);   // AWS's list of devices and processes
void add_opt(CLI::App& app, std::ostream& out);         // a model through the compiler's passes
void add_plan(CLI::App& app, std::ostream& out);        // layouts of a training job
void add_claims(CLI::App& app, std::ostream& out);      // headlines about Trainium
void add_replay(CLI::App& app, std::ostream& out);      // traces of requests through a server's scheduler

// All of them, in the order of the help.
inline constexpr AddCommand kCommands[] = {add_ls,  add_describe, add_fabric,  add_nccom_test, add_neuron_ls,
                                           add_opt, add_plan,     add_goodput, add_claims,     add_replay};

}  // namespace opentrn::cli
