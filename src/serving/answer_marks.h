// Marks in the text of an answer that is not whole yet.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace opentrn::serving {

inline constexpr std::string_view kSpaces = " \t\n\r\f\v";

inline bool is_space(std::string_view text) {
  return !text.empty() && text.find_first_not_of(kSpaces) == std::string_view::npos;
}

inline std::string_view stripped(std::string_view text) {
  const size_t first = text.find_first_not_of(kSpaces);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpaces) + 1 - first);
}

// How much of the end of `text` can be the beginning of `mark`, which is not in it.
inline size_t begun(std::string_view text, std::string_view mark) {
  for (size_t count = std::min(text.size(), mark.size() - 1); count > 0; --count)
    if (mark.starts_with(text.substr(text.size() - count))) return count;
  return 0;
}

// The same, with the spaces before it, which go where the mark comes.
inline size_t begun_with_spaces(std::string_view text, std::string_view mark) {
  const std::string_view before = text.substr(0, text.size() - begun(text, mark));
  const size_t last = before.find_last_not_of(kSpaces);
  return text.size() - (last == std::string_view::npos ? 0 : last + 1);
}

inline std::string_view without_spaces_behind(std::string_view text) {
  return text.substr(0, text.find_last_not_of(kSpaces) + 1);
}

inline bool is_call(std::string_view text) {
  const auto found = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  return found.is_object() && found.contains("name") && found["name"].is_string();
}

// Takes `count` characters off the beginning of `text`.
inline std::string take(std::string& text, size_t count) {
  std::string taken = text.substr(0, count);
  text.erase(0, count);
  return taken;
}

}  // namespace opentrn::serving
