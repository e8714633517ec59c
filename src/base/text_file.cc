#include "base/text_file.h"

#include <algorithm>
#include <fstream>
#include <system_error>

#include <fmt/format.h>

#include "base/fault.h"
#include "base/interrupt.h"
#include "base/utf8.h"

namespace opentrn {
namespace {

constexpr size_t kChunk = size_t{1} << 20;

bool is_opened_by_the_shell(const std::string& path) {
  return path.starts_with("/dev/fd/") || path.starts_with("/proc/self/fd/") || path == "/dev/stdin";
}

[[noreturn]] void refuse(const std::string& label, const std::string& what, const std::string& hint) {
  throw Fault(FaultKind::kInput, label, what, hint);
}

// The byte order mark that Windows' programs put in front of a file.
void drop_mark(std::string& text) {
  constexpr std::string_view kMark = "\xEF\xBB\xBF";
  if (text.starts_with(kMark)) text.erase(0, kMark.size());
}

}  // namespace

void expect_text_file(const std::filesystem::path& path, const std::string& label, const std::string& hint) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status))
    refuse(label, fmt::format("there is no file '{}'", printable(path.string())), hint);
  const bool piped =
      status.type() == std::filesystem::file_type::fifo && is_opened_by_the_shell(path.string());
  if (!std::filesystem::is_regular_file(status) && !piped)
    refuse(label, fmt::format("'{}' is not a regular file", printable(path.string())), hint);
}

std::string read_text_file(const std::filesystem::path& path, const std::string& label,
                           const std::string& hint) {
  expect_text_file(path, label, hint);
  std::ifstream in(path, std::ios::binary);
  if (!in) refuse(label, fmt::format("'{}' cannot be read", printable(path.string())), hint);
  std::string text;
  while (in) {
    interrupt::poll();
    const size_t before = text.size();
    text.resize(before + kChunk);
    in.read(text.data() + before, static_cast<std::streamsize>(kChunk));
    text.resize(before + static_cast<size_t>(in.gcount()));
    if (text.size() > kTextBytesMax)
      refuse(label, fmt::format("'{}' has more than {} MiB", printable(path.string()), kTextBytesMax >> 20),
             "a smaller file");
  }
  drop_mark(text);
  return text;
}

bool next_line(std::istream& in, std::string& line, const std::string& name, const std::string& label) {
  line.clear();
  std::streambuf* from = in.rdbuf();
  for (;;) {
    const int at = from->sbumpc();
    if (at == std::char_traits<char>::eof()) {
      drop_mark(line);
      in.setstate(line.empty() ? std::ios::eofbit | std::ios::failbit : std::ios::eofbit);
      return !line.empty();
    }
    if (at == '\n') {
      drop_mark(line);
      return true;
    }
    if (line.size() == kLineBytesMax)
      refuse(label, fmt::format("{} has a line of more than {} MiB", name, kLineBytesMax >> 20),
             "one request or row per line");
    line.push_back(static_cast<char>(at));
  }
}

}  // namespace opentrn
