// Files of text from anywhere: tables, jobs, traces of requests. What is no file is never waited for, nor
// read without end. A byte order mark in front is not of the text.
#pragma once

#include <cstddef>
#include <filesystem>
#include <istream>
#include <string>

namespace opentrn {

constexpr size_t kTextBytesMax = size_t{256} << 20;  // of a file that is read whole
constexpr size_t kLineBytesMax = size_t{16} << 20;   // of a file that is read by lines

// Input fault `label` when there is no such file, or it is a folder or a device, or a FIFO: but for one that
// the shell has opened, <(command) and /dev/stdin.
void expect_text_file(const std::filesystem::path& path, const std::string& label,
                      const std::string& hint = "the path of a file");
// The whole file; input fault `label` also when it has more than kTextBytesMax.
std::string read_text_file(const std::filesystem::path& path, const std::string& label,
                           const std::string& hint = "the path of a file");
// As std::getline(), at most kLineBytesMax; input fault `label` for a longer one. `name`: of the file, for
// the message.
bool next_line(std::istream& in, std::string& line, const std::string& name, const std::string& label);

}  // namespace opentrn
