// What a page reads back from the columns is what the trace has, in the page's order.
#include <cstring>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "profile/page.h"

namespace opentrn::profile {
namespace {

struct PageExample {
  trace::Recorder recorder;

  PageExample() {
    trace::StringTable& strings = recorder.strings();
    recorder.add_track({trace::TrackKind::kEngine, isa::Engine::kVector, 0, 0, strings.intern("vector")});
    recorder.add_track({trace::TrackKind::kDmaQueue, isa::Engine::kSync, 0, 0, strings.intern("qIn")});
    add(1, 10, 70, 1);
    add(0, 50, 90, 2);
    add(0, 20, 60, 1);
  }

  void add(uint32_t track, double start, double end, int line) {
    trace::StringTable& strings = recorder.strings();
    recorder.add_event({.start_ns = start,
                        .end_ns = end,
                        .busy_ns = 5,
                        .track = track,
                        .instruction = static_cast<uint32_t>(line),
                        .file = strings.intern("k.py"),
                        .function = strings.intern("k"),
                        .line = line});
  }
};

template <typename T>
std::vector<T> column(const std::string& bytes, size_t offset, size_t count) {
  std::vector<T> values(count);
  std::memcpy(values.data(), bytes.data() + offset, count * sizeof(T));
  return values;
}

TEST(Page, EventsComeByTrackAndStartWithDurationsOfTheirKind) {
  PageExample example;
  const PageColumns columns = page_columns(example.recorder.trace());
  ASSERT_EQ(columns.event_count, 3u);
  ASSERT_EQ(columns.events.size(), 3u * (8 + 4 + 4 + 4 + 4 + 4 + 4 + 2 + 1 + 1));
  EXPECT_THAT(column<double>(columns.events, 0, 3), testing::ElementsAre(20, 50, 10));
  // An engine is occupied for 5 ns, a transfer lasts from its start to its end.
  EXPECT_THAT(column<float>(columns.events, 24, 3), testing::ElementsAre(5, 5, 60));
  EXPECT_THAT(column<uint16_t>(columns.events, 3 * 32, 3), testing::ElementsAre(0, 0, 1));
}

TEST(Page, ASourceIsNamedOnce) {
  PageExample example;
  const PageColumns columns = page_columns(example.recorder.trace());
  EXPECT_EQ(columns.sources.dump(), R"([["k.py",1,"k"],["k.py",2,"k"]])");
  EXPECT_THAT(column<uint32_t>(columns.events, 3 * 28, 3), testing::ElementsAre(0, 1, 0));
}

TEST(Page, TheCriticalPathIsTurnedToItsBeginning) {
  PageExample example;
  example.recorder.finish({},
                          {{.start_ns = 40, .end_ns = 90, .instruction = 2}, {.start_ns = 0, .end_ns = 40}});
  const PageColumns columns = page_columns(example.recorder.trace());
  EXPECT_EQ(columns.critical_count, 2u);
  EXPECT_THAT(column<double>(columns.critical, 0, 2), testing::ElementsAre(0, 40));
  EXPECT_THAT(column<double>(columns.critical, 16, 2), testing::ElementsAre(40, 90));
  EXPECT_THAT(column<uint32_t>(columns.critical, 32, 2), testing::ElementsAre(trace::kNoIndex, 2u));
}

TEST(Page, JsonNamesTracksAndNumbers) {
  PageExample example;
  const nlohmann::ordered_json json =
      page_json(example.recorder.trace(), page_columns(example.recorder.trace()));
  EXPECT_EQ(json["tracks"][1]["kind"], "dma_queue");
  EXPECT_EQ(json["events"]["count"], 3);
  EXPECT_EQ(json["opcodes"].size(), static_cast<size_t>(isa::kOpcodeCount));
  EXPECT_EQ(json["skipped"].size(), 0u);
}

}  // namespace
}  // namespace opentrn::profile
