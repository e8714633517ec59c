#include "base/utf8.h"

#include <gtest/gtest.h>

#include "base/fault.h"

namespace opentrn {
namespace {

TEST(Utf8, TextStaysAsItIs) {
  for (const char* text : {"", "plain",
                           "m\xC3\xB6"
                           "del",
                           "\xE2\x82\xAC", "\xF0\x9F\x98\x80", "\xF4\x8F\xBF\xBF"}) {
    EXPECT_TRUE(is_utf8(text));
    EXPECT_EQ(printable(text), text);
  }
}

TEST(Utf8, OtherBytesAreWrittenOut) {
  EXPECT_EQ(printable("a\xC2z"), "a\\xc2z");
  EXPECT_EQ(printable("\x80"), "\\x80");
  EXPECT_EQ(printable("\xC0\xAF"), "\\xc0\\xaf");           // overlong
  EXPECT_EQ(printable("\xED\xA0\x80"), "\\xed\\xa0\\x80");  // half of a surrogate pair
  EXPECT_EQ(printable("\xF4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");
  EXPECT_EQ(printable("\xE2\x82"), "\\xe2\\x82");  // cut off
}

TEST(Utf8, CharactersAreCounted) {
  EXPECT_EQ(character_count(""), 0);
  EXPECT_EQ(character_count("a\xE2\x82\xAC\xF0\x9F\x98\x80"), 3);
  EXPECT_EQ(character_count("\xFF\xE2\x82"), 3);  // as os.fsdecode() has them
}

TEST(Utf8, MessagesOfFaultsAreText) {
  Fault fault(FaultKind::kInput, "label", "found \xFF");
  fault.add_note("in \xFE");
  EXPECT_TRUE(is_utf8(fault.what()));
  EXPECT_STREQ(fault.what(), "input error [label]: found \\xff\n    in \\xfe");
}

}  // namespace
}  // namespace opentrn
