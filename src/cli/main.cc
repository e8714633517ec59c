// The `opentrn` program: a table of contents. Each command is one file beside this one.
#include <iostream>

#include "cli/command.h"
#include "cli/commands.h"

int main(int argc, char** argv) {
  return opentrn::cli::run(opentrn::cli::kCommands, argc, argv, std::cout, std::cerr);
}
