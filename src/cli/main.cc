// The `opentrn` program: a table of contents. Each command is one file beside this one.
#include <iostream>

#include "cli/command.h"
#include "cli/commands.h"

int main(int argc, char** argv) {
  using namespace opentrn::cli;
  return run({add_ls, add_describe, add_fabric, add_nccom_test, add_plan, add_replay}, argc, argv, std::cout,
             std::cerr);
}
