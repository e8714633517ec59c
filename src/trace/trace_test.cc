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

}  // namespace
}  // namespace opentrn::trace
