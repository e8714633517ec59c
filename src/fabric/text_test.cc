#include "fabric/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace opentrn::fabric {
namespace {

using testing::HasSubstr;

TEST(Text, AnInstanceForPeople) {
  const std::string text = show(Platform::make(arch::default_tables(), "trn1n"));
  EXPECT_THAT(text,
              HasSubstr("trn1n.32xlarge: 1 server of 16 chips, 2 physical cores each; 32 cores in all"));
  EXPECT_THAT(text, testing::ContainsRegex("NeuronLink +64 +37.50 +1050"));
  EXPECT_THAT(text, testing::ContainsRegex("network adapter +32 +6.40 +7000"));
  EXPECT_THAT(text, HasSubstr("fabric.trn1n.neuronlink_gb_s = 37.5: fitted"));
  EXPECT_THAT(text, HasSubstr("   0  12, 3, 4, 1"));
}

TEST(Text, AnInstanceForPrograms) {
  const nlohmann::ordered_json json = show_json(Platform::make(arch::default_tables(), "trn2"));
  EXPECT_EQ(json["cores"], 128);
  EXPECT_EQ(json["rings"].size(), 2u);
  bool found = false;
  for (const auto& fact : json["facts"])
    if (fact["key"] == "fabric.trn2.link_efficiency") {
      found = true;
      EXPECT_EQ(fact["confidence"], "assumed");
    }
  EXPECT_TRUE(found);
}

}  // namespace
}  // namespace opentrn::fabric
