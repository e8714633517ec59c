#include "profile/recommendations.h"

#include <gtest/gtest.h>

namespace opentrn::profile {
namespace {

using Json = nlohmann::ordered_json;

TEST(Recommendations, AreThoseThatSaveMost) {
  const Json profile = Json::parse(R"({"program": "k", "neuron_core": "v3", "total_ns": 1000.0,
      "bound_by": {"shares": [{"resource": "DMA latency", "percent": 30.0, "ns": 300.0},
                              {"resource": "DMA engines", "percent": 4.0, "ns": 40.0},
                              {"resource": "something", "percent": 66.0, "ns": 660.0}]},
      "stalls": [{"engine": "vector", "cause": "for a DMA", "ns": 400.0, "count": 3},
                 {"engine": "sync", "cause": "for a DMA", "ns": 900.0, "count": 3}],
      "memory": {"spill_save_bytes": 0, "spill_reload_bytes": 0}, "dma": {"achieved_gb_s": 1.0},
      "flops": {"fp32": 1.0, "bf16": 1.0}, "engines": [{"engine": "tensor", "busy_ns": 100.0}],
      "lines": [{"file": "k.py", "line": 3, "critical_percent": 61.4}]})");
  const std::string text = recommendations(profile, [](const std::string&, int64_t) { return "nl.load()"; });
  const size_t waits =
      text.find("## 1. The Vector engine waits\n\n- **Symptom:** 0.40 us for a DMA, 3 times");
  const size_t latency = text.find("## 2. Bound by DMA latency\n\n- **Symptom:** 30 % of the critical path");
  const size_t wide = text.find("## 3. Products in FP32\n\n- **Symptom:** 50 % of the arithmetic is FP32");
  EXPECT_LT(waits, latency);
  EXPECT_LT(latency, wide);
  EXPECT_NE(wide, std::string::npos);
  EXPECT_EQ(text.find("DMA engines"), std::string::npos);  // 4 % of the run
  EXPECT_NE(text.find("- **Bound:** at most 1.67 times as fast"), std::string::npos);
  EXPECT_TRUE(text.ends_with("- `k.py:3`: 61 % of the critical path: `nl.load()`\n"));
}

}  // namespace
}  // namespace opentrn::profile
