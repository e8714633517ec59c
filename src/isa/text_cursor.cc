#include "isa/text_cursor.h"

#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "base/fault.h"
#include "base/utf8.h"

namespace opentrn::isa::text {

namespace {

bool is_word_start(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool is_plain(char c) { return is_word(c) || c == '.' || c == '/' || c == '-' || c == '<' || c == '>'; }

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

void Cursor::fail(std::string message) const {
  Fault fault(FaultKind::kInput, "text.syntax", fmt::format("column {}: {}", at_ - line_start_ + 1, message));
  fault.set_location({filename_, line_, ""});
  throw fault;
}

void Cursor::skip_spaces() {
  while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\r')) ++at_;
  if (at_ < text_.size() && text_[at_] == '#')
    while (!at_line_end()) ++at_;
}

bool Cursor::line_ends() {
  skip_spaces();
  return at_line_end();
}

bool Cursor::next_line() {
  while (line_ends()) {
    if (at_ >= text_.size()) return false;
    ++at_;
    ++line_;
    line_start_ = at_;
  }
  return true;
}

void Cursor::expect_line_end() {
  if (!line_ends())
    fail(fmt::format("unexpected '{}'", text_.substr(at_, 20).substr(0, text_.substr(at_, 20).find('\n'))));
}

char Cursor::peek() {
  skip_spaces();
  return at_line_end() ? '\n' : text_[at_];
}

bool Cursor::accept(char c) {
  skip_spaces();
  if (at_line_end() || text_[at_] != c) return false;
  ++at_;
  return true;
}

void Cursor::expect(char c) {
  if (!accept(c)) fail(fmt::format("expected '{}'", c));
}

std::string_view Cursor::word() {
  skip_spaces();
  const size_t start = at_;
  if (!at_line_end() && is_word_start(text_[at_]))
    while (!at_line_end() && is_word(text_[at_])) ++at_;
  if (at_ == start) fail("expected a word");
  return text_.substr(start, at_ - start);
}

std::string_view Cursor::plain() {
  skip_spaces();
  const size_t start = at_;
  while (!at_line_end() && is_plain(text_[at_])) ++at_;
  if (at_ == start) fail("expected a name");
  return text_.substr(start, at_ - start);
}

bool Cursor::accept_word(std::string_view expected) {
  skip_spaces();
  const std::string_view rest = text_.substr(at_);
  if (!rest.starts_with(expected) || (rest.size() > expected.size() && is_word(rest[expected.size()])))
    return false;
  at_ += expected.size();
  return true;
}

int64_t Cursor::integer() {
  skip_spaces();
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
  if (error == std::errc::result_out_of_range) fail("the number does not fit in 64 bits");
  if (error != std::errc()) fail("expected an integer");
  at_ = static_cast<size_t>(end - text_.data());
  return value;
}

int64_t Cursor::integer(int64_t low, int64_t high, std::string_view what) {
  skip_spaces();
  const size_t start = at_;
  const int64_t value = integer();
  if (value >= low && value <= high) return value;
  at_ = start;
  fail(fmt::format("{} is {}; {} to {} are possible", what, value, low, high));
}

double Cursor::real() {
  skip_spaces();
  double value = 0;
  const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
  if (error != std::errc()) fail("expected a number");
  // from_chars leaves the sign of a NaN open.
  if (std::isnan(value))
    value = std::copysign(std::numeric_limits<double>::quiet_NaN(), text_[at_] == '-' ? -1.0 : 1.0);
  at_ = static_cast<size_t>(end - text_.data());
  return value;
}

std::string Cursor::quoted() {
  expect('"');
  std::string value;
  while (true) {
    if (at_line_end()) fail("the string does not end");
    char c = text_[at_++];
    if (c == '"') return is_utf8(value) ? value : printable(value);
    if (c == '\\') {
      if (at_line_end()) fail("the string does not end");
      c = text_[at_++];
      if (c == 'x') {
        const int high = at_line_end() ? -1 : hex_digit(text_[at_++]);
        const int low = at_line_end() ? -1 : hex_digit(text_[at_++]);
        if (high < 0 || low < 0) fail("\\x needs two hexadecimal digits");
        c = static_cast<char>(high * 16 + low);
      } else if (c != '"' && c != '\\') {
        fail(fmt::format("\\{} is not an escape; \\\", \\\\ and \\xHH are", c));
      }
    }
    value += c;
  }
}

std::string Cursor::plain_or_quoted() { return peek() == '"' ? quoted() : std::string(plain()); }

}  // namespace opentrn::isa::text
