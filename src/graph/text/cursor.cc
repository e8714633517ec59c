#include "graph/text/cursor.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

namespace opentrn::graph::text {

namespace {

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_word(char c) { return is_letter(c) || is_digit(c) || c == '$' || c == '.'; }
bool is_hex(char c) { return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }

int hex_value(char c) { return is_digit(c) ? c - '0' : (c | 0x20) - 'a' + 10; }

char opening_of(char closing) {
  switch (closing) {
    case ')': return '(';
    case ']': return '[';
    case '}': return '{';
    default: return '<';
  }
}

}  // namespace

void Cursor::skip_space() {
  while (at_ < text_.size()) {
    const char c = text_[at_];
    if (c == ' ' || c == '\n' || c == '\t' || c == '\r') {
      ++at_;
    } else if (c == '/' && raw(1) == '/') {
      const size_t end = text_.find('\n', at_);
      at_ = end == std::string_view::npos ? text_.size() : end;
    } else {
      return;
    }
  }
}

std::string_view Cursor::peek_word() {
  skip_space();
  size_t end = at_;
  if (end < text_.size() && is_letter(text_[end]))
    while (end < text_.size() && is_word(text_[end])) ++end;
  return text_.substr(at_, end - at_);
}

bool Cursor::eat_word(std::string_view word) {
  if (peek_word() != word) return false;
  at_ += word.size();
  return true;
}

void Cursor::expect_word(std::string_view word) {
  if (!eat_word(word)) fail_expected("`" + std::string(word) + "`");
}

std::string_view Cursor::word(std::string_view what) {
  const std::string_view found = peek_word();
  if (found.empty()) fail_expected(what);
  at_ += found.size();
  return found;
}

std::string_view Cursor::number() {
  skip_space();
  const size_t start = at_;
  if (raw() == '-' || raw() == '+') ++at_;
  if (!is_digit(raw())) {
    at_ = start;
    fail_expected("a number");
  }
  if (raw() == '0' && raw(1) == 'x' && is_hex(raw(2))) {
    at_ += 2;
    while (is_hex(raw())) ++at_;
    return slice(start, at_);
  }
  while (is_digit(raw())) ++at_;
  if (raw() == '.') {
    ++at_;
    while (is_digit(raw())) ++at_;
    const size_t sign = raw(1) == '-' || raw(1) == '+' ? 1 : 0;
    if ((raw() == 'e' || raw() == 'E') && is_digit(raw(1 + sign))) {
      at_ += 1 + sign;
      while (is_digit(raw())) ++at_;
    }
  }
  return slice(start, at_);
}

int64_t Cursor::integer() {
  skip_space();
  const size_t start = at_;
  std::string_view digits = number();
  const bool negative = digits.front() == '-';
  if (negative || digits.front() == '+') digits.remove_prefix(1);
  const bool hex = digits.starts_with("0x");
  if (hex) digits.remove_prefix(2);
  uint64_t magnitude = 0;
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), magnitude, hex ? 16 : 10);
  if (error != std::errc() || end != digits.data() + digits.size())
    fail(start, fmt::format("found `{}`, expected an integer of 64 bits", slice(start, at_)));
  return static_cast<int64_t>(negative ? uint64_t{0} - magnitude : magnitude);
}

std::string_view Cursor::suffix(std::string_view what) {
  const size_t start = at_;
  if (is_digit(raw())) {
    while (is_digit(raw())) ++at_;
  } else {
    while (is_word(raw()) || raw() == '-') ++at_;
  }
  if (at_ == start) fail_expected(what);
  return slice(start, at_);
}

std::string Cursor::string() {
  if (peek() != '"') fail_expected("a string");
  const size_t start = at_++;
  std::string value;
  while (true) {
    const size_t stop = text_.find_first_of("\"\\\n", at_);
    if (stop == std::string_view::npos || text_[stop] == '\n') fail(start, "this string has no end");
    value.append(text_, at_, stop - at_);
    at_ = stop + 1;
    if (text_[stop] == '"') return value;
    const char escape = raw();
    if (escape == 'n' || escape == 't' || escape == '"' || escape == '\\') {
      value += escape == 'n' ? '\n' : escape == 't' ? '\t' : escape;
      ++at_;
    } else if (is_hex(escape) && is_hex(raw(1))) {
      value += static_cast<char>(hex_value(escape) * 16 + hex_value(raw(1)));
      at_ += 2;
    } else {
      fail(stop, "unknown escape in a string; known are \\n, \\t, \\\", \\\\ and two hex digits");
    }
  }
}

std::string_view Cursor::balanced() {
  skip_space();
  const size_t start = at_;
  if (at_ == text_.size() || std::string_view("([{<").find(text_[at_]) == std::string_view::npos)
    fail(fmt::format("found `{}`, expected a bracket that opens", text_.substr(at_, 1)));
  std::string open;
  while (at_ < text_.size()) {
    const char c = text_[at_];
    if (c == '"') {
      // Steps over it without undoing escapes.
      size_t end = at_ + 1;
      while (end < text_.size() && text_[end] != '"' && text_[end] != '\n') end += text_[end] == '\\' ? 2 : 1;
      if (end >= text_.size() || text_[end] == '\n') fail("this string has no end");
      at_ = end + 1;
      continue;
    }
    if (c == '(' || c == '[' || c == '{' || c == '<') {
      open += c;
    } else if ((c == '-' || c == '=') && raw(1) == '>') {
      ++at_;
    } else if (c == ')' || c == ']' || c == '}' || c == '>') {
      if (open.empty() || open.back() != opening_of(c))
        fail(fmt::format("found `{}`, which closes no open bracket", c));
      open.pop_back();
    }
    ++at_;
    if (open.empty()) return slice(start, at_);
  }
  fail(start, fmt::format("this `{}` is never closed", text_.substr(start, 1)));
}

int Cursor::line(size_t position) const {
  const auto end = text_.begin() + static_cast<std::ptrdiff_t>(std::min(position, text_.size()));
  return 1 + static_cast<int>(std::count(text_.begin(), end, '\n'));
}

int Cursor::column(size_t position) const {
  position = std::min(position, text_.size());
  const size_t newline = position == 0 ? std::string_view::npos : text_.rfind('\n', position - 1);
  return static_cast<int>(newline == std::string_view::npos ? position + 1 : position - newline);
}

Fault Cursor::fault(FaultKind kind, size_t position, std::string message, std::string hint) const {
  Fault fault(kind, "stablehlo.text", fmt::format("{} (column {})", message, column(position)),
              std::move(hint));
  fault.set_location({filename_, line(position), {}});
  return fault;
}

void Cursor::fail(size_t position, std::string message, std::string hint) const {
  throw fault(FaultKind::kInput, position, std::move(message), std::move(hint));
}

void Cursor::fail_not_modelled(size_t position, std::string message, std::string hint) const {
  throw fault(FaultKind::kNotModelled, position, std::move(message), std::move(hint));
}

void Cursor::fail_expected(std::string_view expected) {
  skip_space();
  size_t end = at_;
  while (end < text_.size() && end < at_ + 40 && is_word(text_[end])) ++end;
  const std::string_view found = slice(at_, std::max(end, std::min(at_ + 1, text_.size())));
  fail(at_, found.empty() ? fmt::format("found the end of the text, expected {}", expected)
                          : fmt::format("found `{}`, expected {}", found, expected));
}

}  // namespace opentrn::graph::text
