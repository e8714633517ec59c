// What a program that comes from outside must satisfy before anything else looks at it, so that sums and
// products of sizes cannot overflow and every id exists. The rules of the instruction set are not checked
// here (constraints.h). Each function returns what is wrong, or an empty string.
#pragma once

#include <string>

#include "isa/executable.h"
#include "isa/program.h"

namespace opentrn::isa {

std::string tensor_error(const Tensor& tensor);
std::string pattern_error(const Pattern& pattern);
// The operand of an access or register: ids exist, and a static access lies within its tensor.
std::string operand_error(const Program& program, const Operand& operand);
// Loop markers, whose partners must exist and point back, and edges.
std::string program_error(const Program& program);
// Ids, order and counts of a schedule over executable.program.
std::string executable_error(const Executable& executable);

}  // namespace opentrn::isa
