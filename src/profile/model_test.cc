// Tests that the model's report adds up what a trace says, on a trace small enough to check by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "profile/reports.h"

namespace opentrn::profile {
namespace {

using isa::Opcode;
using testing::DoubleEq;
using testing::ElementsAre;
using testing::HasSubstr;

isa::ModelOp op(std::string name, double flops = 0) {
  return {"stablehlo.add", "tensor<4xf32>", {"m.py", 1, std::move(name)}, flops};
}

// A load of 256 bytes of a 512-byte input, a tensor_copy in "a/b", a transpose in "a/c", and a store of a
// spilled tile in "d"; 100 ns.
struct Example {
  isa::Executable executable;
  isa::Origin origin;
  trace::Recorder recorder;

  Example() {
    auto program = std::make_shared<isa::Program>();
    isa::Tensor hbm;
    hbm.space = isa::MemorySpace::kHbm;
    hbm.row_elements = 128;
    hbm.is_input = true;
    const isa::TensorId input = program->add_tensor(hbm);
    hbm.is_input = false;
    const isa::TensorId spilled = program->add_tensor(hbm);
    isa::Tensor tile;
    tile.rows = 4;
    tile.row_elements = 16;
    const isa::TensorId first = program->add_tensor(tile), second = program->add_tensor(tile);
    isa::Pattern pattern;
    pattern.rank = 2;
    pattern.dims[0] = {16, 4};
    pattern.dims[1] = {1, 16};
    const auto access = [&](isa::TensorId tensor) {
      isa::Operand operand;
      operand.kind = isa::OperandKind::kAccess;
      operand.tensor = tensor;
      operand.pattern = program->intern_pattern(pattern);
      return operand;
    };
    const auto append = [&](Opcode opcode, isa::TensorId dst, isa::TensorId src) {
      const std::vector<isa::Operand> operands{access(dst), access(src)};
      program->append(opcode, isa::Engine::kUnknown, operands, {}, 0);
    };
    append(Opcode::kDmaCopy, first, input);
    append(Opcode::kTensorCopy, second, first);
    append(Opcode::kNcTranspose, second, first);
    append(Opcode::kDmaCopy, spilled, second);
    origin.ops = {op("a/b", 10), op("a/c"), op("d")};
    origin.note({0, 0, 1});
    origin.note({1, 0, 1});
    origin.note({2, 1, 2});
    origin.note({3, 2, 3, isa::Purpose::kSpill});
    executable.program = program;
    executable.hbm_bytes_used = 1024;
    add_events();
  }

  void add_events() {
    const auto track = [this](trace::TrackKind kind, isa::Engine engine) {
      return recorder.add_track({kind, engine, 0, 0, 0});
    };
    const uint32_t queue = track(trace::TrackKind::kDmaQueue, isa::Engine::kSync);
    const uint32_t vector = track(trace::TrackKind::kEngine, isa::Engine::kVector);
    const uint32_t tensor = track(trace::TrackKind::kEngine, isa::Engine::kTensor);
    recorder.add_event({.start_ns = 0, .end_ns = 40, .bytes = 256, .track = queue, .instruction = 0});
    recorder.add_event({.start_ns = 30, .end_ns = 50, .busy_ns = 20, .track = vector, .instruction = 1});
    recorder.add_event(
        {.start_ns = 50, .end_ns = 60, .busy_ns = 10, .flops = 99, .track = tensor, .instruction = 2});
    recorder.add_event({.start_ns = 60, .end_ns = 100, .bytes = 256, .track = queue, .instruction = 3});
    trace::Summary summary;
    summary.total_ns = 100;
    summary.launch_ns = 900;
    summary.tensor_peak_flops_per_ns = 1;
    summary.hbm_peak_bytes_per_ns = 10;
    using trace::Resource;
    recorder.finish(summary, {{60, 100, Resource::kHbm, 3, 0},
                              {50, 60, Resource::kTensor, 2, 0},
                              {40, 50, Resource::kVector, 1, 0},
                              {0, 40, Resource::kDmaLatency, 0, 0}});
  }

  ModelProfile analyse() const {
    return analyse_model(recorder.trace(), executable, origin, arch::default_tables());
  }
};

TEST(ModelProfile, TwoCoresHaveTwiceThePeakAndOneStack) {
  Example example;
  example.recorder.add_event({.start_ns = 50, .end_ns = 60, .flops = 60, .track = 2, .instruction = 1});
  trace::Trace trace = example.recorder.take();
  trace.cores = trace.summary.cores = 2;
  const ModelProfile model = analyse_model(trace, example.executable, example.origin, arch::default_tables());
  EXPECT_DOUBLE_EQ(model.tensor_peak_flops_per_ns, 2);
  EXPECT_DOUBLE_EQ(model.hbm_peak_bytes_per_ns, 10);
  EXPECT_DOUBLE_EQ(model.whole.children[0].mfu_percent, 100 * 60 / (2.0 * 60));
}

TEST(ModelProfile, LayersAreATreeOfTheNames) {
  const ModelProfile model = Example().analyse();
  ASSERT_EQ(model.whole.children.size(), 2u);
  const Layer& a = model.whole.children[0];
  EXPECT_EQ(a.name, "a");
  EXPECT_EQ(a.children[0].name, "b");
  EXPECT_EQ(a.ops, 2);
  EXPECT_DOUBLE_EQ(a.critical_ns, 60);
  EXPECT_DOUBLE_EQ(a.active_ns, 60);              // 0 to 60 without a gap
  EXPECT_DOUBLE_EQ(a.children[0].active_ns, 50);  // 0 to 40 and 30 to 50 overlap
  EXPECT_EQ(a.hbm_bytes_read, 256);
  EXPECT_EQ(a.intermediate_bytes, 0);
  EXPECT_EQ(a.tensor_flops, 0);  // a transpose is no arithmetic of the model
  EXPECT_EQ(a.transposes, 1);
  EXPECT_DOUBLE_EQ(a.model_flops, 10);
  EXPECT_DOUBLE_EQ(a.children[0].mbu_percent, 100 * 256 / (10.0 * 50));
  EXPECT_EQ(a.bound_by(), trace::Resource::kDmaLatency);
  EXPECT_DOUBLE_EQ(model.whole.critical_ns, 100);
  EXPECT_EQ(model.whole.children[1].intermediate_bytes, 256);
  EXPECT_EQ(model.whole.children[1].moved_bytes, 256);
}

TEST(ModelProfile, MovementsAreByCause) {
  const ModelProfile model = Example().analyse();
  ASSERT_EQ(model.movements.size(), 2u);
  EXPECT_EQ(model.movements[0].op + model.movements[1].op, 3u);
  for (const Movement& row : model.movements) {
    EXPECT_EQ(row.what, row.op == 2 ? "spill" : "transpose");
    EXPECT_EQ(row.bytes, 256);
    EXPECT_DOUBLE_EQ(row.critical_ns, row.op == 2 ? 40 : 10);
  }
}

TEST(ModelProfile, MemoryIsHeldFromFirstToLastUse) {
  const ModelProfile model = Example().analyse();
  const MemoryCurve& sbuf = model.memory[0];
  // The first tile from 0 to 60, the second from 30 to 100; 256 bytes each.
  EXPECT_THAT(sbuf.steps, ElementsAre(std::pair(0.0, 256), std::pair(30.0, 512), std::pair(60.0, 256),
                                      std::pair(100.0, 0)));
  EXPECT_EQ(sbuf.peak_bytes, 512);
  EXPECT_DOUBLE_EQ(sbuf.peak_ns, 30);
  const MemoryCurve& hbm = model.memory[2];
  EXPECT_THAT(hbm.steps, ElementsAre(std::pair(0.0, 512), std::pair(60.0, 1024), std::pair(100.0, 512)));
}

// The second tile begins while the first, in its later half, is still read.
TEST(ModelProfile, BytesOfTwoTensorsCountOnce) {
  Example example;
  example.executable.placements.resize(4);
  example.executable.placements[2] = {true, {0, 32}};
  example.executable.placements[3] = {true, {0, 0}};
  const trace::Trace trace = example.recorder.trace();
  const MemoryCurve apart = memory_over_time(trace, example.executable, arch::default_tables())[0];
  EXPECT_EQ(apart.peak_bytes, 512 - 4 * 32);
  EXPECT_THAT(apart.steps, ElementsAre(std::pair(0.0, 256), std::pair(30.0, 384), std::pair(60.0, 256),
                                       std::pair(100.0, 0)));
}

TEST(ModelProfile, WhatTriggersATransferHoldsNoBytes) {
  Example example;
  example.executable.schedule = {{.instruction = 0, .engine = isa::Engine::kDma}};
  trace::Trace trace = example.recorder.trace();
  for (trace::Event& event : trace.events)
    if (event.instruction == 0) event.start_ns = 20;
  trace.events.push_back({.start_ns = 0, .end_ns = 5, .track = 1, .instruction = 0});
  const MemoryCurve sbuf = memory_over_time(trace, example.executable, arch::default_tables())[0];
  EXPECT_EQ(sbuf.steps.front(), std::pair(20.0, int64_t{256}));
}

TEST(ModelProfile, ThinnedCurvesKeepTheirPeak) {
  Example example;
  trace::Trace trace = example.recorder.trace();
  auto program = std::make_shared<isa::Program>(*example.executable.program);
  isa::Pattern pattern;
  for (int i = 0; i < 5000; ++i) {
    isa::Tensor tile;
    tile.rows = 1;
    tile.row_elements = i == 2345 ? 1000 : 1;
    isa::Operand operand;
    operand.kind = isa::OperandKind::kAccess;
    operand.tensor = program->add_tensor(tile);
    operand.pattern = program->intern_pattern(pattern);
    const auto instruction =
        program->append(Opcode::kMemset, isa::Engine::kVector, std::vector{operand}, {}, 0);
    trace.events.push_back(
        {.start_ns = i * 0.02, .end_ns = i * 0.02 + 0.01, .track = 1, .instruction = instruction});
  }
  example.executable.program = program;
  const MemoryCurve sbuf = memory_over_time(trace, example.executable, arch::default_tables())[0];
  EXPECT_LT(sbuf.steps.size(), 600u);
  EXPECT_EQ(std::ranges::max_element(sbuf.steps, {}, [](auto& s) { return s.second; })->second,
            sbuf.peak_bytes);
  EXPECT_GE(sbuf.peak_bytes, 4000);
  EXPECT_NEAR(sbuf.peak_ns, 2345 * 0.02, 1e-9);
}

TEST(Serving, CountsEveryCoreAndKnowsWhatFits) {
  const arch::Tables& tables = arch::default_tables();
  const int64_t share = hbm_bytes_per_core(tables, Generation::kV2);
  EXPECT_EQ(share, 16ll << 30);  // 32 GiB for two cores
  const auto rows = serving(tables, Generation::kV2, 1e6, share);
  const auto row = std::ranges::find(rows, "inf2.48xlarge", &Serving::instance);
  ASSERT_NE(row, rows.end());
  EXPECT_EQ(row->cores, 24);
  EXPECT_TRUE(row->fits);
  EXPECT_DOUBLE_EQ(row->inferences_per_s, 24'000);
  EXPECT_THAT(row->on_demand.usd_per_million, DoubleEq(row->on_demand.usd_h / 3600 / 24'000 * 1e6));
  EXPECT_FALSE(row->capacity_block.known);
  for (const Serving& other : serving(tables, Generation::kV2, 1e6, share + 1))
    EXPECT_FALSE(other.fits) << other.instance;
}

TEST(Serving, RatesAreThoseBesideCopiesOnTheStack) {
  const Example example;
  ModelProfile model = example.analyse();
  const double alone = model.latency_ns, run = alone - model.launch_ns;
  add_serving(model, example.executable, arch::default_tables(), 0, 1);
  EXPECT_EQ(model.busy_latency_ns, alone);
  const double rate = model.serving.at(0).inferences_per_s;
  EXPECT_THAT(profile::text(model), testing::Not(HasSubstr("beside others on its HBM stack")));
  add_serving(model, example.executable, arch::default_tables(), 2 * run, 1);
  EXPECT_DOUBLE_EQ(model.busy_latency_ns, alone + run);
  EXPECT_NEAR(model.serving.at(0).inferences_per_s, rate * alone / (alone + run), 1e-6);
  EXPECT_EQ(model.latency_ns, alone);
  EXPECT_THAT(profile::text(model), HasSubstr("beside others on its HBM stack"));
}

TEST(LayerPath, NamesAreCutOutsideParentheses) {
  EXPECT_THAT(layer_path(op("/encoder/layer.0/MatMul")), ElementsAre("encoder", "layer.0", "MatMul"));
  EXPECT_THAT(layer_path(op("jit(f)/vmap(a/b)/add")), ElementsAre("jit(f)", "vmap(a/b)", "add"));
  EXPECT_THAT(layer_path(op("")), ElementsAre("m.py:1 add"));
  EXPECT_THAT(layer_path({"stablehlo.add", "", {}, 0}), ElementsAre("add"));
}

TEST(ModelText, SaysWhatIsNotKnown) {
  const Example example;
  ModelProfile model = example.analyse();
  add_serving(model, example.executable, arch::default_tables(), 0, 1);
  const std::string text = profile::text(model);
  EXPECT_THAT(text, HasSubstr("spill"));
  EXPECT_THAT(text, HasSubstr("unknown"));
}

}  // namespace
}  // namespace opentrn::profile
