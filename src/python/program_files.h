// Files of programs and executables in both their forms, told apart by how they begin.
#pragma once

#include <string>

#include "isa/program.h"

namespace opentrn::python {

// The program of a file, or the one that an executable was made of. Throws Fault{kInput}.
isa::Program program_in(const std::string& path);
// The text form of what a file holds: an executable with its schedule. Throws Fault{kInput}.
std::string listing_of(const std::string& path);

}  // namespace opentrn::python
