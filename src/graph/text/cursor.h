// A place in MLIR text: skips space and comments, reads tokens, reports line and column.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "base/fault.h"

namespace opentrn::graph::text {

class Cursor {
 public:
  Cursor(std::string_view text, std::string_view filename) : text_(text), filename_(filename) {}

  size_t position() const { return at_; }
  void move_to(size_t position) { at_ = position; }
  std::string_view text() const { return text_; }
  std::string_view filename() const { return filename_; }
  std::string_view slice(size_t from, size_t to) const { return text_.substr(from, to - from); }

  // The next character after space and comments, not consumed; '\0' at the end.
  char peek() {
    skip_space();
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  // The character `ahead` of the current one, without skipping.
  char raw(size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }
  bool at_end() { return peek() == '\0' && at_ >= text_.size(); }

  // Consumes the punctuation when it comes next.
  bool eat(std::string_view punctuation) {
    skip_space();
    if (text_.compare(at_, punctuation.size(), punctuation) != 0) return false;
    at_ += punctuation.size();
    return true;
  }
  void expect(std::string_view punctuation) {
    if (!eat(punctuation)) fail_expected("`" + std::string(punctuation) + "`");
  }
  // As eat() and expect(), for a whole word.
  bool eat_word(std::string_view word);
  void expect_word(std::string_view word);
  // The word that comes next ([A-Za-z_][A-Za-z0-9_$.]*), empty when none does; not consumed.
  std::string_view peek_word();
  std::string_view word(std::string_view what);

  int64_t integer();
  // What follows one of the sigils % @ # ! ^: digits, or a word with `$._-` inside.
  std::string_view suffix(std::string_view what);
  // "..." with its escapes undone.
  std::string string();
  bool at_string() { return peek() == '"'; }
  // A number as MLIR writes it: sign, digits, fraction, exponent; or 0x and digits. Not converted.
  std::string_view number();

  // Everything up to the bracket that closes the one at the current place, which must be one; both included.
  // Knows ( [ { < and strings, and that -> and => close nothing.
  std::string_view balanced();

  void skip_space();
  [[noreturn]] void fail(size_t position, std::string message, std::string hint = {}) const;
  [[noreturn]] void fail(std::string message, std::string hint = {}) const {
    fail(at_, std::move(message), std::move(hint));
  }
  // "found ..., expected ..."
  [[noreturn]] void fail_expected(std::string_view expected);
  // A valid program that OpenTrn does not take.
  [[noreturn]] void fail_not_modelled(size_t position, std::string message, std::string hint = {}) const;
  int line(size_t position) const;
  int column(size_t position) const;

 private:
  Fault fault(FaultKind kind, size_t position, std::string message, std::string hint) const;

  std::string_view text_;
  std::string filename_;
  size_t at_ = 0;
};

}  // namespace opentrn::graph::text
