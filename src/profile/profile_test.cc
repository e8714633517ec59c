// Tests that a profile adds up what the trace says, on traces small enough to check by hand.
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "profile/reports.h"

namespace opentrn::profile {
namespace {

using isa::Opcode;
using trace::Stall;
using trace::TrackKind;

// A DMA at line 10 brings a tile in; a tensor_copy at line 20 waits for it. 100 ns.
struct ProfileExample {
  isa::Executable executable;
  trace::Recorder recorder;

  ProfileExample() {
    auto program = std::make_shared<isa::Program>();
    program->append(Opcode::kDmaCopy, isa::Engine::kUnknown, {}, {},
                    program->intern_location("k.py", 10, "k"));
    program->append(Opcode::kTensorCopy, isa::Engine::kVector, {}, {},
                    program->intern_location("k.py", 20, "k"));
    executable.program = program;
    executable.sbuf_bytes_per_partition_used = 2048;
    const auto track = [this](TrackKind kind, isa::Engine engine, const char* name) {
      return recorder.add_track({kind, engine, 0, 0, recorder.strings().intern(name)});
    };
    const uint32_t sync = track(TrackKind::kEngine, isa::Engine::kSync, "sync");
    const uint32_t vector = track(TrackKind::kEngine, isa::Engine::kVector, "vector");
    const uint32_t queue = track(TrackKind::kDmaQueue, isa::Engine::kSync, "qIn");
    add({.start_ns = 0,
         .end_ns = 5,
         .busy_ns = 5,
         .track = sync,
         .instruction = 0,
         .line = 10,
         .opcode = Opcode::kDmaCopy});
    add({.start_ns = 5,
         .end_ns = 60,
         .busy_ns = 55,
         .bytes = 1100,
         .track = queue,
         .instruction = 0,
         .line = 10,
         .opcode = Opcode::kDmaCopy});
    add({.start_ns = 60,
         .end_ns = 100,
         .busy_ns = 40,
         .stall_ns = 60,
         .track = vector,
         .instruction = 1,
         .waited_for = 0,
         .line = 20,
         .opcode = Opcode::kTensorCopy,
         .stall = Stall::kDma});
    trace::Summary summary;
    summary.program = "k";
    summary.total_ns = 100;
    summary.instructions = 2;
    summary.engines[static_cast<size_t>(isa::Engine::kVector)] = {
        .busy_ns = 40, .stall_dma_ns = 60, .instructions = 1};
    summary.engines[static_cast<size_t>(isa::Engine::kSync)] = {.busy_ns = 5, .instructions = 1};
    summary.dma = {.transfers = 1,
                   .descriptors = 11,
                   .bytes = 1100,
                   .hbm_bytes_read = 1100,
                   .active_ns = 55,
                   .engine_busy_ns = 110,
                   .efficiency = 0.5};
    summary.flops[static_cast<size_t>(trace::FlopKind::kBf16)] = 300;
    summary.flops[static_cast<size_t>(trace::FlopKind::kTranspose)] = 100;
    summary.tensor_peak_flops_per_ns = 10;
    summary.hbm_peak_bytes_per_ns = 22;
    summary.bound_by_ns[static_cast<size_t>(trace::Resource::kDmaEngines)] = 60;
    summary.bound_by_ns[static_cast<size_t>(trace::Resource::kVector)] = 40;
    recorder.finish(summary,
                    {{60, 100, trace::Resource::kVector, 1, 0}, {0, 60, trace::Resource::kDmaEngines, 0, 0}});
  }

  void add(trace::Event event) {
    event.file = recorder.strings().intern("k.py");
    recorder.add_event(event);
  }
  Profile profile() const {
    const isa::Executable* cores[] = {&executable};
    return analyse(recorder.trace(), cores, arch::default_tables());
  }
};

TEST(Profile, CriticalTimeOfTheLinesAddsUpToTheRun) {
  const Profile p = ProfileExample().profile();
  ASSERT_EQ(p.lines.size(), 2u);
  EXPECT_EQ(p.lines[0].line, 10);  // most critical first
  EXPECT_EQ(p.lines[0].critical_ns, 60);
  EXPECT_EQ(p.lines[1].critical_ns, 40);
}

TEST(Profile, TransfersAreNotBusyEngines) {
  const Profile p = ProfileExample().profile();
  EXPECT_EQ(p.lines[0].busy_ns, 5);  // the trigger
  EXPECT_EQ(p.lines[0].dma_ns, 55);
  EXPECT_EQ(p.lines[0].dma_bytes, 1100);
  EXPECT_EQ(p.lines[0].instructions, 1);
}

TEST(Profile, UtilisationFollowsNeuronExplorer) {
  const Profile p = ProfileExample().profile();
  EXPECT_DOUBLE_EQ(p.mfu_estimated_percent, 30);  // 300 / (10 * 100)
  EXPECT_DOUBLE_EQ(p.hfu_estimated_percent, 40);  // with the transposes
  EXPECT_DOUBLE_EQ(p.mbu_estimated_percent, 50);  // 1100 / (22 * 100)
  EXPECT_DOUBLE_EQ(p.bytes_per_descriptor, 100);
}

TEST(Profile, AWaitNamesBothLines) {
  const Profile p = ProfileExample().profile();
  ASSERT_EQ(p.waits.size(), 1u);
  EXPECT_EQ(p.lines[p.waits[0].waiting].line, 20);
  EXPECT_EQ(p.lines[p.waits[0].waited_for].line, 10);
  EXPECT_EQ(p.waits[0].ns, 60);
  EXPECT_EQ(p.waits[0].cause, Stall::kDma);
}

TEST(Profile, OverlappingTransfersOfAQueueAreCountedOnceInItsActiveTime) {
  ProfileExample example;
  example.add(
      {.start_ns = 30, .end_ns = 80, .busy_ns = 50, .bytes = 100, .track = 2, .instruction = 0, .line = 10});
  const Profile p = example.profile();
  ASSERT_EQ(p.queues.size(), 1u);
  EXPECT_EQ(p.queues[0].active_ns, 75);  // 5 to 80
  EXPECT_EQ(p.queues[0].latency_max_ns, 55);
}

TEST(Profile, EventsCountAsOftenAsTheyHappened) {
  ProfileExample example;
  example.recorder.add_iteration({.start_ns = 0, .end_ns = 100, .skipped = 9});
  const Profile p = example.profile();
  EXPECT_EQ(p.lines[0].dma_bytes, 11'000);
  EXPECT_EQ(p.lines[1].busy_ns, 400);
  EXPECT_EQ(p.lines[1].opcodes[0].count, 10);
  EXPECT_EQ(p.opcodes[0].count, 10);
  EXPECT_EQ(p.stalls[0].ns, 600);
  EXPECT_EQ(p.waits[0].count, 10);
  EXPECT_EQ(p.queues[0].transfers, 10);
  EXPECT_EQ(p.queues[0].active_ns, 550);
  EXPECT_EQ(p.queues[0].latency_mean_ns, 55);
}

TEST(Profile, ATraceOfOtherCoresIsRefused) {
  const ProfileExample example;
  EXPECT_THROW(analyse(example.recorder.trace(), {}, arch::default_tables()), Fault);
}

TEST(ProfileJson, HasTheKeysOfItsSchema) {
  const nlohmann::ordered_json j = json(ProfileExample().profile());
  EXPECT_EQ(j["schema_version"], kJsonSchemaVersion);
  EXPECT_EQ(j["is_simulation"], true);
  for (const char* key :
       {"summary", "bound_by", "engines", "stalls", "lines", "waits", "opcodes", "dma", "memory", "flops"})
    EXPECT_TRUE(j.contains(key)) << key;
  EXPECT_EQ(j["bound_by"]["verdict"], "DMA engines");
  EXPECT_DOUBLE_EQ(j["summary"]["total_time"], 100e-9);
  EXPECT_EQ(j["lines"][0]["opcodes"]["dma_copy"], 1);
}

TEST(ProfileJson, NothingBoundsAProgramInWhichNothingRuns) {
  const nlohmann::ordered_json j = json(Profile{});
  EXPECT_TRUE(j["bound_by"]["verdict"].is_null());
  EXPECT_TRUE(j["bound_by"]["shares"].empty());
}

// Definitions: Neuron Explorer's profile schema reference, table Summary.
TEST(ProfileJson, TimesOfTwoCoresAreNoLongerThanTheRun) {
  ProfileExample example;
  trace::Trace trace = example.recorder.take();
  trace.cores = trace.summary.cores = 2;
  trace.summary.engines[static_cast<size_t>(isa::Engine::kVector)].busy_ns = 140;  // 40 and 100
  const isa::Executable* cores[] = {&example.executable, &example.executable};
  const nlohmann::ordered_json summary = json(analyse(trace, cores, arch::default_tables()))["summary"];
  EXPECT_DOUBLE_EQ(summary["vector_engine_active_time"], 70e-9);
  EXPECT_DOUBLE_EQ(summary["vector_engine_active_time_percent"], 70);
  EXPECT_DOUBLE_EQ(summary["dma_active_time"], 55e-9);  // at least one packet of any core
  EXPECT_DOUBLE_EQ(summary["dma_active_time_percent"], 55);
  EXPECT_DOUBLE_EQ(summary["mbu_estimated_percent"], 50);
  EXPECT_DOUBLE_EQ(summary["peak_flops_bandwidth_ratio"], 2 * 10 / 22.0);
}

TEST(ProfileJson, SavesAndReloadsOfSpilledBytesAreToldApart) {
  ProfileExample example;
  example.executable.spill_save_bytes = 7;
  example.executable.spill_reload_bytes = 21;
  const nlohmann::ordered_json j = json(example.profile());
  EXPECT_EQ(j["summary"]["spill_save_bytes"], 7);
  EXPECT_EQ(j["summary"]["spill_reload_bytes"], 21);
  EXPECT_THAT(text(example.profile()), testing::HasSubstr("reloaded 21 B"));
}

TEST(ProfileText, DescriptorsComeWithAHint) {
  ProfileExample example;
  trace::Summary summary = example.recorder.trace().summary;
  EXPECT_THAT(text(example.profile()), testing::Not(testing::HasSubstr("try:")));
  summary.bound_by_ns[static_cast<size_t>(trace::Resource::kDescriptors)] = 90;
  example.recorder.finish(summary, {{0, 90, trace::Resource::kDescriptors, 0, 0}});
  EXPECT_THAT(text(example.profile()), testing::HasSubstr("try: fewer and longer DMA pieces"));
}

TEST(ProfileText, FitsATerminal) {
  ProfileExample example;
  const std::string out = text(example.profile());
  EXPECT_THAT(out, testing::HasSubstr("bound by DMA engines"));
  EXPECT_THAT(out, testing::HasSubstr("k.py:10"));
  std::istringstream lines(out);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 120u) << line;
}

TEST(Perfetto, OverlappingTransfersGoToThreadsOfTheirOwn) {
  ProfileExample example;
  example.add(
      {.start_ns = 30, .end_ns = 80, .busy_ns = 50, .bytes = 100, .track = 2, .instruction = 0, .line = 10});
  std::ostringstream out;
  write_perfetto(example.recorder.trace(), out);
  const auto j = nlohmann::json::parse(out.str());
  std::vector<std::string> threads;
  int slices = 0;
  for (const auto& event : j["traceEvents"]) {
    if (event["name"] == "thread_name") threads.push_back(event["args"]["name"]);
    slices += event["ph"] == "X";
  }
  EXPECT_THAT(threads, testing::UnorderedElementsAre("sync", "vector", "qIn", "qIn +1"));
  EXPECT_EQ(slices, 4);
}

TEST(Perfetto, AnArrowLeadsFromTheTransferToWhatWaitedForIt) {
  ProfileExample example;
  std::ostringstream out;
  write_perfetto(example.recorder.trace(), out);
  const auto j = nlohmann::json::parse(out.str());
  std::map<std::string, nlohmann::json> ends;
  for (const auto& event : j["traceEvents"])
    if (event.value("cat", "") == "wait") ends[event["ph"]] = event;
  ASSERT_EQ(ends.size(), 2u);
  EXPECT_EQ(ends["s"]["id"], ends["f"]["id"]);
  EXPECT_EQ(ends["s"]["tid"], 2 * 1000);  // the queue, not the engine that started the transfer
  EXPECT_EQ(ends["f"]["tid"], 1 * 1000);
  EXPECT_NEAR(ends["s"]["ts"], 0.0599, 1e-9);
  EXPECT_NEAR(ends["f"]["ts"], 0.0601, 1e-9);
}

TEST(Perfetto, AnArrowLeadsFromTheIterationBefore) {
  ProfileExample example;
  example.add({.start_ns = 100, .end_ns = 120, .busy_ns = 20, .track = 0, .instruction = 2});
  example.add({.start_ns = 120,
               .end_ns = 130,
               .busy_ns = 10,
               .stall_ns = 20,
               .track = 1,
               .instruction = 3,
               .waited_for = 2,
               .stall = Stall::kEngine});
  example.add({.start_ns = 200, .end_ns = 220, .busy_ns = 20, .track = 0, .instruction = 2});
  std::ostringstream out;
  write_perfetto(example.recorder.trace(), out);
  const auto j = nlohmann::json::parse(out.str());
  std::vector<double> begins;
  for (const auto& event : j["traceEvents"])
    if (event["ph"] == "s") begins.push_back(event["ts"]);
  EXPECT_THAT(begins,
              testing::ElementsAre(testing::DoubleNear(0.0599, 1e-9), testing::DoubleNear(0.1199, 1e-9)));
}

TEST(Perfetto, SaysWhereIterationsAreNotDrawn) {
  ProfileExample example;
  example.recorder.add_iteration({.start_ns = 60, .end_ns = 100, .skipped = 4});
  std::ostringstream out;
  write_perfetto(example.recorder.trace(), out);
  const auto j = nlohmann::json::parse(out.str());
  EXPECT_EQ(j["otherData"]["iterations_not_drawn"], "4");
  const auto slice = std::ranges::find(j["traceEvents"], "4 iterations like the one before, not drawn",
                                       [](const auto& event) { return event["name"]; });
  ASSERT_NE(slice, j["traceEvents"].end());
  EXPECT_DOUBLE_EQ((*slice)["ts"], 0.1);
  EXPECT_DOUBLE_EQ((*slice)["dur"], 0.16);
}

}  // namespace
}  // namespace opentrn::profile
