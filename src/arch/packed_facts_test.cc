#include "arch/packed_facts.h"

#include <gtest/gtest.h>

#include "arch/embedded_tables.h"
#include "arch/tables.h"

namespace opentrn::arch {
namespace {

FactTable read_from_toml() {
  FactTable table;
  for (const EmbeddedTable& text : embedded_tables()) table.read(text.text, text.file);
  table.resolve_inheritance();
  return table;
}

void expect_equal(const Fact& a, const Fact& b) {
  EXPECT_EQ(a.key, b.key);
  EXPECT_EQ(a.value, b.value) << a.key;
  EXPECT_EQ(a.confidence, b.confidence) << a.key;
  EXPECT_EQ(a.source, b.source) << a.key;
  EXPECT_EQ(a.date, b.date) << a.key;
  EXPECT_EQ(a.when, b.when) << a.key;
  EXPECT_EQ(a.note, b.note) << a.key;
  EXPECT_EQ(a.reason, b.reason) << a.key;
  EXPECT_EQ(a.calibrated_on, b.calibrated_on) << a.key;
  EXPECT_EQ(a.information, b.information) << a.key;
  ASSERT_EQ(a.alternatives.size(), b.alternatives.size()) << a.key;
  for (size_t i = 0; i < a.alternatives.size(); ++i) {
    EXPECT_EQ(a.alternatives[i].value, b.alternatives[i].value) << a.key;
    EXPECT_EQ(a.alternatives[i].source, b.alternatives[i].source) << a.key;
    EXPECT_EQ(a.alternatives[i].note, b.alternatives[i].note) << a.key;
  }
}

void expect_equal(const FactTable& a, const FactTable& b) {
  ASSERT_EQ(a.all().size(), b.all().size());
  for (size_t i = 0; i < a.all().size(); ++i) {
    const Fact& fact = a.all()[i];
    expect_equal(fact, b.all()[i]);
    EXPECT_EQ(&b.at(fact.key), &b.all()[i]) << fact.key;
    for (size_t end = 0; end != std::string::npos; end = fact.key.find('.', end + 1)) {
      const std::string prefix = fact.key.substr(0, end);
      EXPECT_EQ(a.items(prefix), b.items(prefix)) << prefix;
    }
  }
}

// Tests that a command computes with what stands in the tables' files, which are packed when OpenTrn is
// built.
TEST(PackedFacts, OfThisBuildAreWhatTheFilesSay) {
  const FactTable read = read_from_toml();
  ASSERT_GT(read.all().size(), 500u);
  expect_equal(read, default_tables().facts());
}

TEST(PackedFacts, KeepEveryKindOfValueAndRemark) {
  FactTable table;
  table.read("[source]\npage = \"owner/repo@1:page.rst\"\n", "sources.toml");
  table.read(R"(
confidence = "documented"
source = "page"
[a]
flag = true
off = false
number = -2.5e-30
text = ""
numbers = [1, 2.5]
texts = ["x", "y\u0000z"]
none = {value = "unknown", confidence = "unknown", source = "page"}
[a.full]
value = 3
confidence = "fitted"
date = "2026-01-01"
when = "w"
note = "n"
reason = "r"
calibrated_on = ["row-*"]
information = true
alternatives = [{value = "four", source = "page", note = "m"}, {value = [5], source = "page"}]
[b]
inherits = "a"
drop = ["full"]
number = 7
)",
             "test.toml");
  table.resolve_inheritance();
  expect_equal(table, unpack_facts(pack_facts(table)));
}

TEST(PackedFacts, ATableOfNothingIsOne) { expect_equal(FactTable(), unpack_facts(pack_facts(FactTable()))); }

}  // namespace
}  // namespace opentrn::arch
