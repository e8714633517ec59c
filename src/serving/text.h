// Pieces of text files: cells and numbers.
#pragma once

#include <charconv>
#include <optional>
#include <string_view>
#include <vector>

namespace opentrn::serving {

inline std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\n";
  const size_t begin = text.find_first_not_of(kBlank);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlank) - begin + 1);
}

inline std::vector<std::string_view> split(std::string_view text, char at) {
  std::vector<std::string_view> out;
  for (size_t begin = 0;;) {
    const size_t end = text.find(at, begin);
    out.push_back(text.substr(begin, end == std::string_view::npos ? end : end - begin));
    if (end == std::string_view::npos) return out;
    begin = end + 1;
  }
}

// The whole text as a finite number.
template <typename T = double>
std::optional<T> number_of(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  if (value - value != 0) return std::nullopt;  // infinity, not a number
  return value;
}

}  // namespace opentrn::serving
