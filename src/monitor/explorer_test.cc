#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "base/fault.h"
#include "monitor/explorer_session.h"
#include "monitor/explorer_tables.h"

namespace opentrn::monitor {
namespace explorer_test {

namespace fs = std::filesystem;
using nlohmann::json;
using nlohmann::ordered_json;
using ::testing::HasSubstr;

json event(const std::string& name, int core, int track, double us, double duration_us, json args) {
  return {{"ph", "X"},          {"name", name},           {"pid", core}, {"tid", track}, {"ts", us},
          {"dur", duration_us}, {"args", std::move(args)}};
}

json track(int core, int number, const std::string& name) {
  return {{"ph", "M"}, {"name", "thread_name"}, {"pid", core}, {"tid", number}, {"args", {{"name", name}}}};
}

json trace() {
  return {{"otherData", {{"is_simulation", "true"}}},
          {"traceEvents",
           {track(0, 1000, "Tensor"), track(0, 1001, "Tensor +1"), track(0, 2000, "qsync"),
            track(0, 3000, "not drawn"),
            event("nc_matmul", 0, 1000, 0, 10, {{"instruction", 3}, {"stall_ns", 7.0}, {"flops", 128.0}}),
            event("nc_matmul", 0, 1001, 5, 7, {{"instruction", 4}, {"source", "k.py:3"}}),
            event("copy", 0, 1000, 20, 1, {{"instruction", 5}, {"name", "jit(f)/add"}}),
            event("dma", 0, 2000, 0, 4, {{"bytes", 64}, {"instruction", 1}}),
            event("dma", 0, 2000, 4, 4, {{"bytes", 64}, {"instruction", nullptr}}),
            event("loop", 0, 3000, 0, 1, {{"iterations", 9}})}}};
}

ordered_json tables_of(const json& from) { return explorer_tables(from.dump(), "p.ntff", "0.1.0"); }

TEST(ExplorerTables, TimesOverlapOnceAndLanesAreOneEngine) {
  const ordered_json tables = tables_of(trace());
  ASSERT_EQ(tables["Instruction"].size(), 3);
  const ordered_json& second = tables["Instruction"][1];
  EXPECT_EQ(second["engine"], "tensor");
  EXPECT_EQ(second["timeline_track"], "Tensor +1");
  EXPECT_EQ(second["pc"], 1);  // the second of its engine
  EXPECT_EQ(second["compiler_pc"], 4);
  EXPECT_EQ(second["nki_source_location"], "k.py:3");
  EXPECT_EQ(second["raw_flops"], nullptr);
  EXPECT_EQ(tables["Instruction"][0]["evt_wait_time_ns"], 7);
  EXPECT_EQ(tables["Instruction"][2]["hlo_name"], "jit(f)/add");
  ASSERT_EQ(tables["DmaPacketAggregated"].size(), 1);  // the other one is of no instruction
  EXPECT_EQ(tables["DmaPacketAggregated"][0]["queue_idx"], 2);
  const ordered_json& opcode = tables["OpcodeSummary"][1];
  EXPECT_EQ(opcode["opcode"], "nc_matmul");
  EXPECT_EQ(opcode["instruction_time_ns"], 17000);
  EXPECT_EQ(opcode["active_time_ns"], 12000);  // 0 to 10 and 5 to 12 us
  const ordered_json& summary = tables["Summary"][0];
  EXPECT_EQ(summary["total_time"], 21e-6);
  EXPECT_EQ(summary["hardware_flops"], 128);
  EXPECT_DOUBLE_EQ(summary["tensor_engine_active_time_percent"], 100.0 * 13 / 21);
  EXPECT_EQ(summary["vector_engine_active_time_percent"], 0);
  EXPECT_EQ(tables["Metadata"][0]["profile_schema_version"], "7.4.0");
  EXPECT_EQ(tables["Metadata"][0]["is_simulation"], true);
  EXPECT_THAT(tables["Warning"][1]["message"].get<std::string>(), HasSubstr("9 iterations"));
  EXPECT_THAT(explorer_summary_text(tables),
              HasSubstr("tensor   nc_matmul                           2 times"));
}

// Every value of the trace in turn is another one, or is gone.
TEST(ExplorerTables, ADamagedTraceIsRefusedOrRead) {
  const json whole = trace();
  const std::vector<json> others{nullptr, -1, 1e300, "x", json::array(), json::object(), true, 1.5};
  const auto flat = whole.flatten();
  for (const auto& [pointer, value] : flat.items())
    for (const json& other : others) {
      json damaged = whole;
      damaged[json::json_pointer(pointer)] = other;
      try {
        EXPECT_EQ(tables_of(damaged)["Metadata"][0]["is_simulation"], true);
      } catch (const Fault& fault) {
        EXPECT_EQ(fault.kind(), FaultKind::kInput) << pointer << " " << other;
        EXPECT_EQ(fault.label(), "tools.explorer");
      }
    }
  for (const char* text : {"", "{}", "[1]", "NTFF", R"({"traceEvents": [], "otherData": {}})"})
    EXPECT_THROW(explorer_tables(text, "p.ntff", ""), Fault) << text;
}

class SessionTest : public ::testing::Test {
 protected:
  SessionTest() {
    for (const char* name : {"simulated_pid_5", "simulated_pid_7"}) {
      put(std::string(name) + "/trace_info.json",
          {{"format", "opentrn-inspect-1"}, {"pid", name[14] - '0'}, {"is_simulation", true}});
      put(std::string(name) + "/ntrace.json", {{"events",
                                                {{{"name", "nrt_execute"},
                                                  {"type", "software"},
                                                  {"id", 1},
                                                  {"nc_idx", 0},
                                                  {"timestamp", 10},
                                                  {"duration", 3000},
                                                  {"model_id", "1"}},
                                                 {{"name", "nc_exec_running"},
                                                  {"type", "hardware"},
                                                  {"id", 2},
                                                  {"nc_idx", 1},
                                                  {"timestamp", 10},
                                                  {"duration", 2000},
                                                  {"nc_timestamp_ns", 0}}}}});
      put(std::string(name) + "/host_mem.json", {{"mem_usage", {{{"timestamp", 1}, {"resident_bytes", 2}}}}});
      put(std::string(name) + "/1_instid_0_vnc_0.ntff", trace());
    }
  }
  ~SessionTest() override { fs::remove_all(folder_); }

  void put(const std::string& name, const json& content) const {
    fs::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name) << content;
  }

  const fs::path folder_ = fs::path(::testing::TempDir()) / ("session_" + std::to_string(::getpid()));
};

TEST_F(SessionTest, EventsOfAllProcessesAreRows) {
  const Session session(folder_, {});
  ASSERT_EQ(session.system_rows().size(), 4);
  EXPECT_EQ(session.system_rows()[3]["process_id"], 7);
  EXPECT_EQ(session.system_rows()[1]["trace_event_source"], "neuron_hw");
  EXPECT_EQ(session.system_rows()[1]["end_ts"], 2010);
  EXPECT_EQ(session.system_rows()[0]["extra_attributes_json"], R"({"model_id":"1"})");
  EXPECT_EQ(session.host_rows("host_mem.json", "mem_usage")[1],
            (ordered_json{
                {"instance_id", "simulated"}, {"process_id", 7}, {"resident_bytes", 2}, {"timestamp", 1}}));
  ASSERT_EQ(session.models().size(), 1);  // the same program in both
  EXPECT_EQ(session.models()[0].first, "1_core_0");
  const ordered_json summary = session.summary("0.1.0");
  EXPECT_EQ(summary["executions"], 2);
  EXPECT_EQ(summary["neuroncores"], (std::vector<int>{0, 1}));
  EXPECT_DOUBLE_EQ(summary["device_time_s"], 4e-6);
  EXPECT_EQ(summary["models"]["1_core_0"]["total_time"], 21e-6);
  EXPECT_THAT(session_summary_text(summary), HasSubstr("model 1_core_0"));
}

TEST_F(SessionTest, FiltersLeaveOut) {
  EXPECT_EQ(Session(folder_, {.cores = {1}}).system_rows().size(), 2);
  EXPECT_EQ(Session(folder_, {.types = {"nrt_execute"}}).system_rows().size(), 2);
  EXPECT_TRUE(Session(folder_, {.without_system = true}).system_rows().empty());
  EXPECT_TRUE(Session(folder_, {.without_device = true}).models().empty());
  EXPECT_THROW(Session(folder_, {.instances = {"i-1"}}), Fault);
  EXPECT_EQ(Session(folder_ / "simulated_pid_5", {}).system_rows().size(), 2);
}

TEST_F(SessionTest, GroupsAreProcessesAndRowsOfTheTrace) {
  const Session session(folder_, {});
  const ordered_json made = session.perfetto({"instance_id", "process_id"}, {"lnc_idx"});
  std::vector<std::string> names;
  for (const ordered_json& row : made["traceEvents"])
    if (row["ph"] == "M") names.push_back(row["args"]["name"]);
  EXPECT_EQ(names,
            (std::vector<std::string>{"instance_id simulated, process_id 5", "lnc_idx 0", "lnc_idx 1",
                                      "instance_id simulated, process_id 7", "lnc_idx 0", "lnc_idx 1"}));
  EXPECT_EQ(session_groups("process_id,lnc_idx", "--x").size(), 2);
  EXPECT_THROW(session_groups("thread_id", "--x"), Fault);
  EXPECT_THROW(session_groups("", "--x"), Fault);
  EXPECT_EQ(session_cores("0,12"), (std::set<int64_t>{0, 12}));
  for (const char* text : {"x", "-1", "1234567", "1.5", "٣"})
    EXPECT_THROW(session_cores(text), Fault) << text;
}

TEST_F(SessionTest, DamagedFilesAreNamed) {
  const auto expect_refused = [&](const std::string& file, const json& content) {
    std::ifstream before(folder_ / file);
    const std::string kept{std::istreambuf_iterator<char>(before), {}};
    put(file, content);
    try {
      const Session session(folder_, {});
      session.host_rows("host_mem.json", "mem_usage");
      ADD_FAILURE() << file << " " << content;
    } catch (const Fault& fault) {
      EXPECT_EQ(fault.label(), "tools.explorer");
      EXPECT_THAT(fault.message(), HasSubstr("simulated_pid_5"));
    }
    std::ofstream(folder_ / file) << kept;
  };
  const std::string place = "simulated_pid_5/";
  for (const json& content : {json(), json(5), json{{"format", "opentrn-inspect-1"}}, json{{"pid", 5}}})
    expect_refused(place + "trace_info.json", content);
  const json good{{"name", "n"}, {"type", "t"}, {"id", 1}, {"nc_idx", 0}, {"timestamp", 1}, {"duration", 1}};
  for (const auto& [key, value] : good.items()) {
    json bad = good;
    bad[key] = -1;
    expect_refused(place + "ntrace.json", {{"events", {bad}}});
  }
  expect_refused(place + "host_mem.json", {{"mem_usage", {5}}});
}

}  // namespace explorer_test
}  // namespace opentrn::monitor
