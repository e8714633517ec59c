#include "import/onnx/location.h"

#include <charconv>
#include <optional>
#include <tuple>
#include <utility>

namespace opentrn::import::onnx {

namespace {

// The strings of a printed Python list: "['', 'model', 'model.encoder']".
std::vector<std::string> strings_of(std::string_view list) {
  std::vector<std::string> strings;
  size_t at = 0;
  while ((at = list.find_first_of("'\"", at)) != std::string_view::npos) {
    const size_t end = list.find(list[at], at + 1);
    if (end == std::string_view::npos) break;
    strings.emplace_back(list.substr(at + 1, end - at - 1));
    at = end + 1;
  }
  return strings;
}

// Module names repeat those around them: "model.encoder" inside "model" is "encoder".
std::string path_of(const std::vector<std::string>& scopes) {
  std::string path, around;
  for (const std::string& scope : scopes) {
    if (scope.empty()) continue;
    const bool inside = !around.empty() && scope.starts_with(around + ".");
    path += (path.empty() ? "" : "/") + (inside ? scope.substr(around.size() + 1) : scope);
    around = scope;
  }
  return path;
}

// The place in one line of a traceback, `File "model.py", line 12, in forward`; nothing when it is none.
std::optional<std::pair<std::string, int>> frame_of(std::string_view text) {
  constexpr std::string_view kFile = "File \"", kLine = "\", line ";
  const size_t begin = text.find(kFile);
  if (begin == std::string_view::npos) return std::nullopt;
  const size_t name = begin + kFile.size(), end = text.find(kLine, name);
  if (end == std::string_view::npos) return std::nullopt;
  int line = 0;
  const std::string_view digits = text.substr(end + kLine.size());
  if (std::from_chars(digits.data(), digits.data() + digits.size(), line).ec != std::errc{})
    return std::nullopt;
  return std::pair(std::string(text.substr(name, end - name)), line);
}

// The innermost frame that is not PyTorch's own, else the innermost.
void read_frame(std::string_view stack, graph::Location& location) {
  while (!stack.empty()) {
    const size_t begin = stack.rfind('\n');
    const size_t line = begin == std::string_view::npos ? 0 : begin + 1;
    if (const auto frame = frame_of(stack.substr(line))) {
      const bool torchs = frame->first.find("/torch/") != std::string::npos;
      if (location.file.empty() || !torchs) std::tie(location.file, location.line) = *frame;
      if (!torchs) return;
    }
    stack = stack.substr(0, line == 0 ? 0 : begin);
  }
}

}  // namespace

graph::Location location_of(const NodeProto& node) {
  graph::Location location{node.name.empty() ? node.op_type : node.name, "", 0, 0};
  if (const std::string path = path_of(strings_of(node.name_scopes)); !path.empty()) location.name = path;
  read_frame(node.stack_trace, location);
  return location;
}

}  // namespace opentrn::import::onnx
