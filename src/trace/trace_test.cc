#include "trace/trace.h"

#include <gtest/gtest.h>

#include "base/fault.h"

namespace opentrn::trace {
namespace {

TEST(StringTable, SameTextHasTheSameNumberAndEmptyIsZero) {
  StringTable table;
  const StringId first = table.intern("attention.py");
  EXPECT_EQ(table.intern("attention.py"), first);
  EXPECT_EQ(table.intern(""), kEmptyString);
  EXPECT_EQ(table[first], "attention.py");
}

TEST(Summary, BoundByIsTheLargestShareAndTransposesAreNoModelFlops) {
  Summary summary;
  summary.total_ns = 100;
  summary.tensor_peak_flops_per_ns = 10;
  summary.flops[static_cast<size_t>(FlopKind::kBf16)] = 400;
  summary.flops[static_cast<size_t>(FlopKind::kTranspose)] = 300;
  summary.bound_by_ns[static_cast<size_t>(Resource::kHbm)] = 60;
  summary.bound_by_ns[static_cast<size_t>(Resource::kTensor)] = 40;
  EXPECT_EQ(summary.bound_by(), Resource::kHbm);
  EXPECT_DOUBLE_EQ(summary.model_flops_utilization(), 0.4);
}

// Neuron Explorer's mbu_estimated_percent: of a stack, the same for one core and for two.
TEST(Summary, HbmIsUsedInPartsOfTheStackWhoeverOfItsCoresRuns) {
  Summary summary;
  summary.total_ns = 100;
  summary.hbm_peak_bytes_per_ns = 725;
  summary.dma.hbm_bytes_read = 29'000;
  summary.dma.hbm_bytes_written = 7'250;
  for (summary.cores = 1; summary.cores <= 2; ++summary.cores)
    EXPECT_DOUBLE_EQ(summary.hbm_utilization(), 0.5) << summary.cores;
}

TEST(Summary, AnUnknownEngineHasNoResource) { EXPECT_THROW(resource_of(isa::Engine::kUnknown), Fault); }

TEST(Recorder, KeepsTracksEventsAndSummary) {
  Recorder recorder;
  const uint32_t track =
      recorder.add_track({.engine = isa::Engine::kVector, .name = recorder.strings().intern("vector")});
  Event event;
  event.track = track;
  event.end_ns = 5;
  recorder.add_event(event);
  Summary summary;
  summary.program = "softmax";
  recorder.finish(summary, {{.start_ns = 0, .end_ns = 5, .resource = Resource::kVector}});
  const Trace trace = recorder.take();
  EXPECT_EQ(trace.program, "softmax");
  EXPECT_EQ(trace.strings[trace.tracks[track].name], "vector");
  ASSERT_EQ(trace.events.size(), 1u);
  EXPECT_EQ(trace.critical_path.front().resource, Resource::kVector);
}

TEST(Recorder, EventsOfASkippedIterationHappenedAsOftenAsAllOfThem) {
  Recorder recorder;
  const uint32_t here = recorder.add_track({.core = 0}), there = recorder.add_track({.core = 1});
  const auto event = [&](uint32_t track, double start_ns) {
    recorder.add_event({.start_ns = start_ns, .end_ns = start_ns + 5, .track = track});
  };
  event(here, 0);
  event(here, 10);   // of the inner loop, whose 3 further rounds are skipped
  event(there, 12);  // on the other core
  recorder.add_iteration({.start_ns = 10, .end_ns = 20, .skipped = 3});
  event(here, 60);
  recorder.add_iteration({.start_ns = 5, .end_ns = 70, .skipped = 1});
  const Trace trace = recorder.take();
  EXPECT_EQ(trace.events[0].times, 1);
  EXPECT_EQ(trace.events[1].times, 8);
  EXPECT_EQ(trace.events[2].times, 1);
  EXPECT_EQ(trace.events[3].times, 2);
  EXPECT_EQ(trace.iterations[0].skipped_end_ns(), 50);
}

}  // namespace
}  // namespace opentrn::trace
