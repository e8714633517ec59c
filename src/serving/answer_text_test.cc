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

// As SentencePiece's tokenizers: '_' is a space, which is left out where a text begins; '^' is special; 1, 2
// are the bytes of one character.
std::string of_pieces(const std::vector<int32_t>& tokens) {
  std::string text;
  for (size_t i = 0; i < tokens.size(); ++i) {
    const bool is_whole = tokens[i] == 1 && i + 1 < tokens.size() && tokens[i + 1] == 2;
    if (is_whole)
      text += "\xC3\xA9", ++i;
    else if (tokens[i] == 1 || tokens[i] == 2)
      text += "\xEF\xBF\xBD";
    else if (tokens[i] != '^')
      text += tokens[i] == '_' ? ' ' : static_cast<char>(tokens[i]);
  }
  return text.starts_with(' ') ? text.substr(1) : text;
}

TEST(TextStream, SpacesBetweenPiecesStay) {
  const std::string tokens = "_a_b__c\1\2_d\1\2\1\2_e^_f^^^__________________________________________g_";
  TextStream stream(of_pieces);
  std::string all;
  for (const char token : tokens) all += stream.add(token);
  EXPECT_EQ(all + stream.rest(), of_pieces(std::vector<int32_t>(tokens.begin(), tokens.end())));
}

TEST(TextStream, ATextThatGoesOnBeginsWithItsSpace) {
  TextStream goes_on(of_pieces, {'a', 'b'});
  EXPECT_EQ(goes_on.add('_'), " ");
  EXPECT_EQ(goes_on.add('c'), "c");
  TextStream begins(of_pieces, {'^'});
  EXPECT_EQ(begins.add('_'), "");
  EXPECT_EQ(begins.add('c'), "c");
  TextStream behind_half_a_character(of_pieces, {'a', 1});
  EXPECT_EQ(behind_half_a_character.add('c'), "c");
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

TEST(BytesOfPiece, SpacesAndBytesHaveNames) {
  EXPECT_EQ(bytes_of_piece("\xE2\x96\x81the"), " the");
  EXPECT_EQ(bytes_of_piece("a\xE2\x96\x81"), "a ");
  EXPECT_EQ(bytes_of_piece("<0x0A>"), "\n");
  EXPECT_EQ(bytes_of_piece("<0xe6>"), "\xE6");
  EXPECT_EQ(bytes_of_piece("<0xG0>"), "<0xG0>");
  EXPECT_EQ(bytes_of_piece("\xC3\xA9"), "\xC3\xA9");
  EXPECT_EQ(bytes_of_piece(""), "");
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
