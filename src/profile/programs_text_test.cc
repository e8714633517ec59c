#include "profile/programs_text.h"

#include <sstream>

#include <gtest/gtest.h>

namespace opentrn::profile {
namespace {

using Json = nlohmann::ordered_json;

TEST(ProgramsText, NumbersNamesThatComeTwiceAndFitsEightyColumns) {
  const Json summary =
      Json::parse(R"({"target": "trn2", "cores": 2, "ranks": 1, "runs": 5, "device_s": 0.0025,
      "host_s": 1.5, "bytes_peak": 1048576, "mfu": 0.25, "step": "step", "step_us": 1200.0, "launch_s": 0.0005,
      "beside_us": 3.0, "steps": 2, "host_gap_s": 0.25, "usd": {"on_demand": 0.012, "spot": null},
      "rented": {"on_demand": "trn2.48xlarge", "spot": null}, "both_cores_us_min": 0, "on_host": {"h": "why"},
      "without_time": ["h", "w"], "programs": [
        {"name": "a", "runs": 3, "run_us": 1.0, "total_us": 3.0, "share": 0.5, "types": "f32[2]"},
        {"name": "a", "runs": 1, "run_us": null, "total_us": null, "share": null, "collectives_us": null},
        {"name": "w", "runs": 1, "run_us": null, "total_us": null, "share": null, "why": "a loop"}]})");
  const std::string text = programs_text(summary, 2);
  for (const char* line : {"trn2, 2 cores: 5 program runs, 2.50 ms of device time; 1.50 s on this host\n",
                           "memory: 1.0 MiB of HBM at most; MFU 25.00% of the BF16 peak\n",
                           "a step (step): 1.20 ms of device time, 20% of it launches\n",
                           "2 steps; what runs less often takes 3.00 us in all\n",
                           "price on trn2.48xlarge, by the core: $0.012 on demand\n",
                           "a #1                                  3     1.00 us     3.00 us   50.0%\n",
                           "a #2                                  1           -           -       -\n",
                           "... and 1 more (--lines)\n", "a #1: f32[2]\n",
                           "a: what its collectives take is not known, and not in its time\n",
                           "no device time for h, which ran on the host: why\n"})
    EXPECT_NE(text.find(line), std::string::npos) << line << "\n" << text;
  EXPECT_TRUE(text.ends_with("no device time for w: a loop"));
}

TEST(ProgramsText, LongNamesAreToldApartInEightyColumns) {
  Json summary =
      Json::parse(R"({"target": "trn2", "cores": 1, "ranks": 1, "runs": 2, "device_s": 0.0, "host_s": 1.0,
      "bytes_peak": 0, "mfu": null, "step": "", "step_us": null, "launch_s": 0.0, "beside_us": null, "steps": 0,
      "host_gap_s": 0.0, "usd": {}, "rented": {}, "both_cores_us_min": 0, "on_host": {}, "without_time": [],
      "programs": []})");
  const std::string name = "a_name_of_many_many_words_that_is_too_long";
  std::string types = "f32[2]";
  while (types.size() < 200) types += ", f32[2]";
  for (const std::string& each : {types, std::string("f32[4]"), std::string()}) {
    Json row{{"name", name}, {"runs", 1}, {"run_us", 1.0}, {"total_us", 1.0}, {"share", 0.5}};
    if (!each.empty()) row["types"] = each;
    summary["programs"].push_back(row);
  }
  const std::string text = programs_text(summary, 8);
  for (const char* label : {"a_name_of_many_many_words_th #1 ", "a_name_of_many_many_words_th #2 ",
                            "a_name_of_many_many_words_th #3 ", "a_name_of_many_many_words_th #2: f32[4]"})
    EXPECT_NE(text.find(label), std::string::npos) << label << "\n" << text;
  EXPECT_EQ(text.find("#3:"), std::string::npos);  // PyTorch's parts say no types
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80U) << line;
}

}  // namespace
}  // namespace opentrn::profile
