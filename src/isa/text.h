// The text form of programs and executables: one line per tensor, instruction and schedule entry.
//
//   opentrn program 1 "kernel"
//   registers 1
//   tensor %0 hbm float32 [128, 512] "x" input
//   tensor %1 sbuf float32 [128, 512] "tile"
//   dma_copy dst=%1 src=%0 priority=-1
//   activation dst=%1[512:128, 1:256] data=%1[+256, 512:128, 1:256] scale=1 op=exp @ kernel.py:41 softmax
//
// An access is a tensor, whole where nothing follows, else its element offset and [step:count] pairs,
// outermost first; ":bfloat16" after the tensor reinterprets it, "{...}" is an index known at run time.
// "loop 7" after a tensor: every iteration of the loop that instruction 7 begins makes it afresh.
// "iteration 4 of 2 in 3 independent" begins loop 2 of the kernel, which was written out, in iteration 3 (0:
// in no loop); "iteration 5 of 2" is its next one; "iteration=5" after an instruction says where it was
// recorded. Operands and attributes have the names of the instruction table; those left out are absent, or
// zero. "#" starts a comment. Printing what was parsed gives the same text: parse is the inverse of print.
#pragma once

#include <string>
#include <string_view>

#include "isa/executable.h"
#include "isa/program.h"

namespace opentrn::isa {

std::string to_text(const Program& program);
// With the program, then streams, placements and the schedule.
std::string to_text(const Executable& executable);
// One instruction on one line, without its location.
std::string to_text(const Program& program, const Instruction& instruction);

// Throw Fault{kInput} "text.*" with the line in its location and the column in its message.
// `filename` is only for messages.
Program parse_program(std::string_view text, std::string_view filename = "<text>");
Executable parse_executable(std::string_view text, std::string_view filename = "<text>");

}  // namespace opentrn::isa
