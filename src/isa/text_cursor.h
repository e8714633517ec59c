// Reads the words of a text, line by line, and knows where it is.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace opentrn::isa::text {

class Cursor {
 public:
  Cursor(std::string_view text, std::string_view filename) : text_(text), filename_(filename) {}

  // To the first word of the next line that has one; false at the end of the text.
  bool next_line();
  // No more words on this line (spaces and a comment are passed over).
  bool line_ends();
  void expect_line_end();

  bool accept(char c);  // passes over spaces first
  void expect(char c);
  char peek();               // the next character that is no space; '\n' at the end of a line
  std::string_view word();   // [A-Za-z_][A-Za-z0-9_]*
  std::string_view plain();  // a run of [A-Za-z0-9_./<>-]
  bool accept_word(std::string_view expected);
  int64_t integer();
  int64_t integer(int64_t low, int64_t high, std::string_view what);
  double real();
  std::string quoted();
  std::string plain_or_quoted();

  [[noreturn]] void fail(std::string message) const;

 private:
  bool at_line_end() const { return at_ >= text_.size() || text_[at_] == '\n'; }
  void skip_spaces();

  std::string_view text_;
  std::string filename_;
  size_t at_ = 0;
  size_t line_start_ = 0;
  int line_ = 1;
};

}  // namespace opentrn::isa::text
