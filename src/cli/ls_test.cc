#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "cli/run_for_test.h"
#include "cli/text_table.h"

namespace opentrn::cli {
namespace {

using testing::HasSubstr;

TEST(Ls, NamesEveryMachineWithinTheWidthOfATerminal) {
  const Ran ran = run_for_test({"ls"});
  EXPECT_EQ(ran.code, 0);
  const arch::Tables& tables = arch::default_tables();
  for (const auto& core : tables.neuron_cores()) EXPECT_THAT(ran.out, HasSubstr(core.name));
  for (const auto& chip : tables.chips()) EXPECT_THAT(ran.out, HasSubstr(chip.name));
  for (const auto& instance : tables.instances()) EXPECT_THAT(ran.out, HasSubstr(instance.name));
  for (const auto& server : tables.ultraservers()) EXPECT_THAT(ran.out, HasSubstr(server.name));
  for (const auto& chip : tables.comparison_chips()) EXPECT_THAT(ran.out, HasSubstr(chip.name));
  EXPECT_LE(longest_line(ran.out), kTerminalWidth);
}

TEST(Ls, JsonHoldsValuesAndNullForUnknown) {
  const auto json = nlohmann::json::parse(run_for_test({"ls", "--json"}).out);
  EXPECT_EQ(json["neuron_cores"][2]["sbuf_bytes_per_partition"], 229376);
  EXPECT_TRUE(json["neuron_cores"][0]["gpsimd_clock_ghz"].is_null());
  EXPECT_EQ(json["ultraservers"][4]["servers"], 36);
}

TEST(Ls, AWhatIfShows) {
  const Ran ran = run_for_test({"ls", "--json", "--set", "chip.Trainium2.memory_gib=192"});
  EXPECT_EQ(nlohmann::json::parse(ran.out)["chips"][3]["memory_gib"], 192);
}

}  // namespace
}  // namespace opentrn::cli
