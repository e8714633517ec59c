#include "spmd/run/parallel.h"

#include <gtest/gtest.h>

#include "graph/text/text.h"
#include "spmd/run/parts.h"

namespace opentrn::spmd {
namespace {

graph::eval::RuntimeValue floats(std::vector<float> values) {
  const auto* bytes = reinterpret_cast<const std::byte*>(values.data());
  return {graph::Literal(graph::Type::tensor(graph::ElementType::kF32, {static_cast<int64_t>(values.size())}),
                         std::vector<std::byte>(bytes, bytes + values.size() * sizeof(float)))};
}

// Two sums of what parts make, and a third of the second sum.
constexpr const char* kSums = R"(module {
  func.func public @main(%a: tensor<4xf32>, %b: tensor<4xf32>)
      -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
    %x = stablehlo.add %a, %b : tensor<4xf32>
    %y = stablehlo.multiply %a, %b : tensor<4xf32>
    %0 = "stablehlo.all_reduce"(%x) ({
      ^bb0(%p: tensor<f32>, %q: tensor<f32>):
        %s = stablehlo.add %p, %q : tensor<f32>
        stablehlo.return %s : tensor<f32>
    }) {replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids,
        channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>} : (tensor<4xf32>) -> tensor<4xf32>
    %1 = "stablehlo.all_reduce"(%y) ({
      ^bb0(%p: tensor<f32>, %q: tensor<f32>):
        %s = stablehlo.add %p, %q : tensor<f32>
        stablehlo.return %s : tensor<f32>
    }) {replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids,
        channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>} : (tensor<4xf32>) -> tensor<4xf32>
    %2 = "stablehlo.all_reduce"(%1) ({
      ^bb0(%p: tensor<f32>, %q: tensor<f32>):
        %s = stablehlo.add %p, %q : tensor<f32>
        stablehlo.return %s : tensor<f32>
    }) {replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids,
        channel_handle = #stablehlo.channel_handle<handle = 3, type = 1>} : (tensor<4xf32>) -> tensor<4xf32>
    return %0, %1, %2 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
  }
})";

// How many values the program's parts write.
size_t written_by_parts(const ParallelProgram& program) {
  size_t written = 0;
  for_stages(program.stages(), [&](const ParallelProgram::Stage& stage) {
    if (stage.program) written += stage.writes.size();
  });
  return written;
}

TEST(Parallel, EachCollectiveIsAStageOfItsOwn) {
  const graph::Module module = graph::parse_module(kSums, "sums.mlir");
  Parts parts;
  DeviceOptions options;
  options.parts = &parts;
  const ParallelProgram program(module, module.entry(), 2, options);
  std::vector<int64_t> bytes;
  for_stages(program.stages(), [&](const ParallelProgram::Stage& stage) {
    if (stage.collective) bytes.push_back(stage.collective->bytes);
  });
  EXPECT_EQ(bytes, (std::vector<int64_t>{16, 16, 16}));
  const auto results = program.run(
      {{floats({1, 2, 3, 4}), floats({1, 1, 1, 1})}, {floats({0, 0, 0, 0}), floats({2, 2, 2, 2})}});
  for (const auto& of_device : results) {
    EXPECT_EQ(of_device[0].literal(), floats({4, 5, 6, 7}).literal());
    EXPECT_EQ(of_device[1].literal(), floats({1, 2, 3, 4}).literal());
    EXPECT_EQ(of_device[2].literal(), floats({2, 4, 6, 8}).literal());
  }
}

// A weight that a barrier ties to a sum is read as it lies by the part behind the next sum.
TEST(Parallel, WhatABarrierPassesOnIsNotWrittenAgain) {
  const graph::Module module = graph::parse_module(R"(module {
  func.func public @main(%a: tensor<4xf32>, %w: tensor<4xf32>) -> tensor<4xf32> {
    %0 = "stablehlo.all_reduce"(%a) ({
      ^bb0(%p: tensor<f32>, %q: tensor<f32>):
        %s = stablehlo.add %p, %q : tensor<f32>
        stablehlo.return %s : tensor<f32>
    }) {replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids,
        channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>} : (tensor<4xf32>) -> tensor<4xf32>
    %1:2 = stablehlo.optimization_barrier %w, %0 : tensor<4xf32>, tensor<4xf32>
    %2 = stablehlo.negate %1#1 : tensor<4xf32>
    %3 = "stablehlo.all_reduce"(%2) ({
      ^bb0(%p: tensor<f32>, %q: tensor<f32>):
        %s = stablehlo.add %p, %q : tensor<f32>
        stablehlo.return %s : tensor<f32>
    }) {replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids,
        channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>} : (tensor<4xf32>) -> tensor<4xf32>
    %4 = stablehlo.multiply %3, %1#0 : tensor<4xf32>
    return %4 : tensor<4xf32>
  }
})",
                                                   "barrier.mlir");
  Parts parts;
  DeviceOptions options;
  options.parts = &parts;
  const ParallelProgram program(module, module.entry(), 2, options);
  EXPECT_EQ(written_by_parts(program), 2);  // the negated sum, and the result
  const auto results = program.run(
      {{floats({1, 2, 3, 4}), floats({1, 2, 1, 2})}, {floats({0, 0, 0, 1}), floats({1, 2, 1, 2})}});
  EXPECT_EQ(results[0][0].literal(), floats({-2, -8, -6, -20}).literal());
}

// The new shape of a sum, which two parts read, is written by neither: the sum lies in memory.
TEST(Parallel, NewShapesOfWhatDevicesExchangeAreMadeWhereTheyAreRead) {
  const graph::Module module = graph::parse_module(R"(module {
  func.func public @main(%a: tensor<4xf32>) -> tensor<2x2xf32> {
    %0 = "stablehlo.all_reduce"(%a) ({
      ^bb0(%p: tensor<f32>, %q: tensor<f32>):
        %s = stablehlo.add %p, %q : tensor<f32>
        stablehlo.return %s : tensor<f32>
    }) {replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids,
        channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>} : (tensor<4xf32>) -> tensor<4xf32>
    %1 = stablehlo.reshape %0 : (tensor<4xf32>) -> tensor<2x2xf32>
    %2 = stablehlo.negate %1 : tensor<2x2xf32>
    %3 = "stablehlo.all_reduce"(%2) ({
      ^bb0(%p: tensor<f32>, %q: tensor<f32>):
        %s = stablehlo.add %p, %q : tensor<f32>
        stablehlo.return %s : tensor<f32>
    }) {replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids,
        channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>} : (tensor<2x2xf32>) -> tensor<2x2xf32>
    %4 = stablehlo.multiply %3, %1 : tensor<2x2xf32>
    return %4 : tensor<2x2xf32>
  }
})",
                                                   "shapes.mlir");
  Parts parts;
  DeviceOptions options;
  options.parts = &parts;
  const ParallelProgram program(module, module.entry(), 2, options);
  EXPECT_EQ(written_by_parts(program), 2);  // the negated sum, and the result
  const auto results = program.run({{floats({1, 2, 3, 4})}, {floats({0, 0, 1, 1})}});
  const auto* bytes = reinterpret_cast<const float*>(results[0][0].literal().bytes().data());
  EXPECT_EQ(std::vector<float>(bytes, bytes + 4), (std::vector<float>{-2, -8, -32, -50}));
}

// What is made of arguments alone and read behind the sum is no result of the part before it.
TEST(Parallel, WhatOnlyALaterPartReadsIsMadeThere) {
  const graph::Module module = graph::parse_module(R"(module {
  func.func public @main(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> {
    %x = stablehlo.add %a, %b : tensor<4xf32>
    %two = stablehlo.constant dense<2.0> : tensor<4xf32>
    %y = stablehlo.multiply %b, %two : tensor<4xf32>
    %z = stablehlo.negate %y : tensor<4xf32>
    %0 = "stablehlo.all_reduce"(%x) ({
      ^bb0(%p: tensor<f32>, %q: tensor<f32>):
        %s = stablehlo.add %p, %q : tensor<f32>
        stablehlo.return %s : tensor<f32>
    }) {replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids,
        channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>} : (tensor<4xf32>) -> tensor<4xf32>
    %out = stablehlo.add %0, %z : tensor<4xf32>
    return %out : tensor<4xf32>
  }
})",
                                                   "late.mlir");
  Parts parts;
  DeviceOptions options;
  options.parts = &parts;
  const ParallelProgram program(module, module.entry(), 2, options);
  std::vector<size_t> writes;
  for_stages(program.stages(), [&](const ParallelProgram::Stage& stage) {
    if (stage.program) writes.push_back(stage.writes.size());
  });
  EXPECT_EQ(writes, (std::vector<size_t>{1, 1}));
  const auto results = program.run(
      {{floats({1, 2, 3, 4}), floats({1, 1, 1, 1})}, {floats({0, 0, 0, 0}), floats({2, 2, 2, 2})}});
  EXPECT_EQ(results[0][0].literal(), floats({2, 3, 4, 5}).literal());
  EXPECT_EQ(results[1][0].literal(), floats({0, 1, 2, 3}).literal());
}

TEST(Parallel, MemoryIsWhereARunTakesMost) {
  const graph::Module module = graph::parse_module(kSums, "sums.mlir");
  Parts parts;
  DeviceOptions options;
  options.parts = &parts;
  const ParallelProgram program(module, module.entry(), 2, options);
  // Both arguments and, behind the part, two values and the sum of one; then sums in place of values.
  EXPECT_GE(program.bytes_at_most(), 5 * 16);
  EXPECT_LE(program.bytes_at_most(), 7 * 16);
}

// What a loop carries lies where it began: it is counted once, beside what a trip makes.
// Both parts of a trip, before the sum and behind it, read the trip's row of the weights where it lies.
TEST(Parallel, PartsOfWhatALoopOnlyReadsAreNotWrittenAgain) {
  const graph::Module module = graph::parse_module(R"(module {
  func.func public @main(%a: tensor<4xf32>, %w: tensor<2x4xf32>) -> tensor<4xf32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %two = stablehlo.constant dense<2> : tensor<i32>
    %0:3 = stablehlo.while(%i = %zero, %v = %a, %u = %w) : tensor<i32>, tensor<4xf32>, tensor<2x4xf32>
    cond {
      %c = stablehlo.compare LT, %i, %two : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %n = stablehlo.add %i, %one : tensor<i32>
      %r = stablehlo.dynamic_slice %u, %i, %zero, sizes = [1, 4]
          : (tensor<2x4xf32>, tensor<i32>, tensor<i32>) -> tensor<1x4xf32>
      %row = stablehlo.reshape %r : (tensor<1x4xf32>) -> tensor<4xf32>
      %x = stablehlo.multiply %v, %row : tensor<4xf32>
      %y = "stablehlo.all_reduce"(%x) ({
        ^bb0(%p: tensor<f32>, %q: tensor<f32>):
          %s = stablehlo.add %p, %q : tensor<f32>
          stablehlo.return %s : tensor<f32>
      }) {replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids,
          channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>} : (tensor<4xf32>) -> tensor<4xf32>
      %z = stablehlo.add %y, %row : tensor<4xf32>
      stablehlo.return %n, %z, %u : tensor<i32>, tensor<4xf32>, tensor<2x4xf32>
    }
    return %0#1 : tensor<4xf32>
  }
})",
                                                   "rows.mlir");
  Parts parts;
  DeviceOptions options;
  options.parts = &parts;
  const ParallelProgram program(module, module.entry(), 2, options);
  EXPECT_EQ(written_by_parts(program),
            4);  // the test, the next index, what is added up, and what a trip gives
  const graph::Literal rows = floats({1, 2, 1, 2, 1, 1, 3, 3}).literal();
  const graph::eval::RuntimeValue weights{graph::Literal(
      graph::Type::tensor(graph::ElementType::kF32, {2, 4}), {rows.bytes().begin(), rows.bytes().end()})};
  const auto results = program.run({{floats({1, 2, 3, 4}), weights}, {floats({0, 0, 0, 1}), weights}});
  EXPECT_EQ(results[0][0].literal(), floats({5, 13, 27, 75}).literal());
}

TEST(Parallel, ALoopTakesWhatATripMakesBesideWhatItCarries) {
  const graph::Module module = graph::parse_module(R"(module {
  func.func public @main(%a: tensor<256xf32>) -> tensor<256xf32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %three = stablehlo.constant dense<3> : tensor<i32>
    %0:2 = stablehlo.while(%i = %zero, %v = %a) : tensor<i32>, tensor<256xf32>
    cond {
      %c = stablehlo.compare LT, %i, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %n = stablehlo.add %i, %one : tensor<i32>
      %w = "stablehlo.all_reduce"(%v) ({
        ^bb0(%p: tensor<f32>, %q: tensor<f32>):
          %s = stablehlo.add %p, %q : tensor<f32>
          stablehlo.return %s : tensor<f32>
      }) {replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids,
          channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>} : (tensor<256xf32>) -> tensor<256xf32>
      stablehlo.return %n, %w : tensor<i32>, tensor<256xf32>
    }
    return %0#1 : tensor<256xf32>
  }
})",
                                                   "loop.mlir");
  Parts parts;
  DeviceOptions options;
  options.parts = &parts;
  const ParallelProgram program(module, module.entry(), 2, options);
  // The argument, which is the caller's, and the sum of a trip, of 1 KiB each.
  EXPECT_GE(program.bytes_at_most(), 2 * 1024);
  EXPECT_LT(program.bytes_at_most(), 3 * 1024);
}

// State that the caller gives up is updated where it lies by the part that reads it last.
TEST(Parallel, DonatedStateIsUpdatedInPlace) {
  const auto text = [](const std::string& donated) {
    return R"(module {
  func.func public @main(%w: tensor<4096xf32> )" +
           donated + ", %m: tensor<4096xf32> " + donated +
           R"(, %x: tensor<4096xf32>) -> (tensor<4096xf32>, tensor<4096xf32>) {
    %g = stablehlo.multiply %w, %x : tensor<4096xf32>
    %0 = "stablehlo.all_reduce"(%g) ({
      ^bb0(%p: tensor<f32>, %q: tensor<f32>):
        %s = stablehlo.add %p, %q : tensor<f32>
        stablehlo.return %s : tensor<f32>
    }) {replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids,
        channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>} : (tensor<4096xf32>) -> tensor<4096xf32>
    %new = stablehlo.add %m, %0 : tensor<4096xf32>
    %out = stablehlo.subtract %w, %new : tensor<4096xf32>
    return %out, %new : tensor<4096xf32>, tensor<4096xf32>
  }
})";
  };
  std::vector<int64_t> bytes;
  std::vector<std::vector<ParallelProgram::Values>> results;
  std::vector<float> w(4096), x(4096);
  for (size_t i = 0; i < w.size(); ++i) {
    w[i] = float(i % 7);
    x[i] = float(i % 5) - 2;
  }
  for (const char* const donated : {"", "{jax.buffer_donor = true}"}) {
    const graph::Module module = graph::parse_module(text(donated), "state.mlir");
    Parts parts;
    DeviceOptions options;
    options.parts = &parts;
    const ParallelProgram program(module, module.entry(), 2, options);
    bytes.push_back(program.bytes_at_most());
    results.push_back(program.run({{floats(w), floats(x), floats(x)}, {floats(w), floats(x), floats(x)}}));
  }
  // At the end: state, input, sum and new state; state, input, gradient and sum behind the first part.
  EXPECT_EQ(bytes[0] - bytes[1], 4096 * 4);
  for (const size_t i : {0, 1}) EXPECT_EQ(results[0][1][i].literal(), results[1][1][i].literal());
}

}  // namespace
}  // namespace opentrn::spmd
