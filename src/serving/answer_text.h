// Text of an answer as its tokens come: characters in several tokens, stop strings, the bytes of one token.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace opentrn::serving {

// The text of tokens, without special ones; U+FFFD where a character is not whole. The tokenizer's.
using Decode = std::function<std::string(const std::vector<int32_t>&)>;

// A character whose bytes are in several tokens comes with the last of them.
//
// Tokens are decoded with some in front of them, as tokenizers leave out the space of the first piece of a
// text (SentencePiece's). `before`: the last tokens of what the text goes on from; empty: it begins.
class TextStream {
 public:
  explicit TextStream(Decode decode, std::vector<int32_t> before = {});

  std::string add(int32_t token);  // the text that one more token adds
  std::string rest() const;        // what was held back, as it is

 private:
  std::string keep_last(std::string text);

  Decode decode_;
  std::vector<int32_t> tokens_;
  std::string given_;  // their text, but for what is held back
  size_t whole_ = 0;   // of them, how many were there when nothing was held back
};

// What may be shown of an answer so far. Text that may become a stop string is held back.
class AnswerText {
 public:
  // keeps_stop: the stop string is shown too.
  AnswerText(Decode decode, std::vector<std::string> stop, bool keeps_stop, std::vector<int32_t> before = {});

  std::string add(int32_t token);
  std::string rest();
  const std::optional<std::string>& stopped() const { return stopped_; }  // the stop string that ended it

 private:
  std::string shown(std::string text);

  TextStream stream_;
  std::vector<std::string> stop_;
  bool keeps_stop_;
  std::string held_;
  std::optional<std::string> stopped_;
};

// The bytes that a token of a byte-level vocabulary stands for, by GPT-2's letters for bytes; any other
// token's own bytes.
std::string bytes_of_letters(std::string_view letters);
// The same of a piece of SentencePiece's: U+2581 is a space, "<0x0A>" a byte.
std::string bytes_of_piece(std::string_view piece);

}  // namespace opentrn::serving
