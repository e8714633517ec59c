#include "serving/answer_text.h"

#include <gtest/gtest.h>

namespace opentrn::serving {
namespace {

// A token is a byte; bytes that are no whole characters at the end are shown as U+FFFD, as tokenizers do.
std::string decoded(const std::vector<int32_t>& tokens) {
  std::string text(tokens.begin(), tokens.end());
  const bool whole = text.empty() || !(text.back() & 0x80) || text.ends_with("\xC3\xA9");
  if (!whole) text = text.substr(0, text.size() - 1) + "\xEF\xBF\xBD";
  return text;
}

std::string shown(AnswerText& text, std::string_view tokens) {
  std::string all;
  for (const char token : tokens) all += text.add(token) + "|";
  return all + text.rest();
}

TEST(TextStream, ACharacterComesWithItsLastToken) {
  TextStream stream(decoded);
  EXPECT_EQ(stream.add('a'), "a");
  EXPECT_EQ(stream.add(static_cast<char>(0xC3)), "");
  EXPECT_EQ(stream.add(static_cast<char>(0xA9)), "\xC3\xA9");
  EXPECT_EQ(stream.add('b'), "b");
  EXPECT_EQ(stream.add(static_cast<char>(0xC3)), "");
  EXPECT_EQ(stream.rest(), "\xEF\xBF\xBD");
}

TEST(AnswerText, WhatMayBecomeAStopStringIsHeldBack) {
  AnswerText none(decoded, {""}, false);
  EXPECT_EQ(shown(none, "abc"), "a|b|c|");
  AnswerText ends(decoded, {"END", "EEE"}, false);
  EXPECT_EQ(shown(ends, "xEEND."), "x|||E||.|");
  EXPECT_EQ(ends.stopped(), "END");
  AnswerText goes_on(decoded, {"END"}, false);
  EXPECT_EQ(shown(goes_on, "xENx"), "x|||ENx|");
  AnswerText is_cut(decoded, {"END"}, false);
  EXPECT_EQ(shown(is_cut, "xEN"), "x|||EN");
  EXPECT_FALSE(is_cut.stopped());
}

TEST(AnswerText, TheFirstStopStringCountsAndIsShownIfAsked) {
  AnswerText keeps(decoded, {"cd", "bc"}, true);
  EXPECT_EQ(shown(keeps, "abcd"), "a||bc|d|");
  EXPECT_EQ(keeps.stopped(), "bc");
}

TEST(BytesOfLetters, Gpt2WritesEveryByteAsALetter) {
  EXPECT_EQ(bytes_of_letters("a"), "a");
  EXPECT_EQ(bytes_of_letters("\xC4\xA0the"), " the");             // U+0120 is the space
  EXPECT_EQ(bytes_of_letters("\xC4\x80"), std::string(1, '\0'));  // U+0100
  EXPECT_EQ(bytes_of_letters("\xC5\x83"), "\xAD");                // U+0143, the last one
  EXPECT_EQ(bytes_of_letters("\xC3\xA9"), "\xE9");
  EXPECT_EQ(bytes_of_letters("\xC5\x84"), "\xC5\x84");  // U+0144 is none
  EXPECT_EQ(bytes_of_letters("\xE2\x96\x81the"), "\xE2\x96\x81the");
  EXPECT_EQ(bytes_of_letters(" "), " ");
}

}  // namespace
}  // namespace opentrn::serving
