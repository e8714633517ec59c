#include "spmd/run/sharded_file.h"

#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/fault.h"
#include "graph/text/text.h"

namespace opentrn::spmd {
namespace {

using graph::Literal;
using graph::Type;
using nlohmann::json;

// A weight of the loop's body that is cut, one that every device has, and a sum of all devices in each trip.
constexpr const char* kLoop = R"(
module { func.func public @main(%x: tensor<8x32xf32>, %trips: tensor<i32>) -> tensor<8x32xf32> {
  %w1 = stablehlo.constant dense<WEIGHT> : tensor<32x48xf32> loc("w1")
  %w2 = stablehlo.constant dense<SECOND> : tensor<48x32xf32> loc("w2")
  %shift = stablehlo.constant dense<SHIFT> : tensor<32xf32>
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %0:2 = stablehlo.while(%i = %zero, %v = %x) : tensor<i32>, tensor<8x32xf32>
    cond {
      %c = stablehlo.compare LT, %i, %trips : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %h = stablehlo.dot_general %v, %w1, contracting_dims = [1] x [0]
        : (tensor<8x32xf32>, tensor<32x48xf32>) -> tensor<8x48xf32>
      %t = stablehlo.tanh %h : tensor<8x48xf32>
      %y = stablehlo.dot_general %t, %w2, contracting_dims = [1] x [0]
        : (tensor<8x48xf32>, tensor<48x32xf32>) -> tensor<8x32xf32>
      %b = stablehlo.broadcast_in_dim %shift, dims = [1] : (tensor<32xf32>) -> tensor<8x32xf32>
      %s = stablehlo.add %y, %b : tensor<8x32xf32>
      %n = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %n, %s : tensor<i32>, tensor<8x32xf32>
    }
  return %0#1 : tensor<8x32xf32> } }
)";

std::string hex(size_t count, float step) {
  std::string text = "\"0x";
  for (size_t i = 0; i < count; ++i) {
    const float value = step * static_cast<float>(i % 23) - 7 * step;
    for (const auto byte : std::as_bytes(std::span(&value, 1)))
      text += fmt::format("{:02X}", static_cast<unsigned>(byte));
  }
  return text + "\"";
}

std::string loop_text() {
  std::string text = kLoop;
  const auto put = [&](std::string_view word, const std::string& by) {
    text.replace(text.find(word), word.size(), by);
  };
  put("WEIGHT", hex(32 * 48, 0.01F));
  put("SECOND", hex(48 * 32, 0.02F));
  put("SHIFT", hex(32, 0.25F));
  return text;
}

std::shared_ptr<ShardedModel> compiled(const std::string& text, const std::string& mesh_text,
                                       const std::vector<std::string>& annotations,
                                       compiler::Options options = {}) {
  const Mesh mesh = parse_mesh(mesh_text);
  std::vector<Annotation> parsed;
  for (const std::string& annotation : annotations) parsed.push_back(parse_annotation(annotation));
  const runtime::Settings settings = devices_of("trn2", mesh);
  options.generation = settings.generation;
  return std::make_shared<ShardedModel>(graph::parse_module(text, "loop"), mesh, parsed, options, settings);
}

std::vector<Literal> inputs(int32_t trips) {
  std::vector<float> x(8 * 32);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 17) / 8 - 1;
  const auto bytes = std::as_bytes(std::span(x)), count = std::as_bytes(std::span(&trips, 1));
  return {{Type::tensor(graph::ElementType::kF32, {8, 32}), {bytes.begin(), bytes.end()}},
          {Type::scalar(graph::ElementType::kI32), {count.begin(), count.end()}}};
}

std::shared_ptr<ShardedModel> loaded(const std::string& bytes) {
  return sharded_model_of(runtime::artifact_of(bytes, "model.neuron"), "model.neuron");
}

std::string words(const std::vector<ShardedModel::Port>& ports) {
  std::string all;
  for (const ShardedModel::Port& port : ports)
    all +=
        fmt::format("{} {} {}\n", port.name, port.type.to_string(), to_text(port.sharding, port.type.rank()));
  return all;
}

void expect_same(const ShardedModel& a, const ShardedModel& b, const std::vector<Literal>& arguments) {
  EXPECT_EQ(words(a.inputs()), words(b.inputs()));
  EXPECT_EQ(words(a.outputs()), words(b.outputs()));
  EXPECT_EQ(words(a.weights()), words(b.weights()));
  EXPECT_EQ(a.control_inputs(), b.control_inputs());
  EXPECT_EQ(a.argument_bytes(), b.argument_bytes());
  EXPECT_EQ(a.local_text(), b.local_text());
  EXPECT_EQ(a.run(arguments), b.run(arguments));
  EXPECT_EQ(a.cost().device_us, b.cost().device_us);  // loops have run: both know how often
  EXPECT_TRUE(a.cost().device_us.has_value());
  EXPECT_EQ(a.cost().instructions, b.cost().instructions);
  ASSERT_EQ(a.collectives().size(), b.collectives().size());
  EXPECT_FALSE(a.collectives().empty());
}

TEST(ShardedFile, AModelThatIsLoadedGivesTheBitsOfTheOneThatWasCompiled) {
  for (const char* mesh : {"tp=2", "dp=2,tp=2", "tp=4"}) {
    SCOPED_TRACE(mesh);
    const auto model = compiled(loop_text(), mesh, {"w1=-,tp", "w2=tp"});
    EXPECT_EQ(model->weights().size(), 2);
    const std::string bytes = runtime::to_bytes(artifact_of(*model, {{"source", "loop"}}));
    const auto again = loaded(bytes);
    EXPECT_EQ(again->devices(), model->devices());
    expect_same(*model, *again, inputs(3));
    EXPECT_EQ(runtime::to_bytes(artifact_of(*again, {{"source", "loop"}})), bytes);
  }
}

TEST(ShardedFile, EnginesRoundAsTheyWereCompiledTo) {
  compiler::Options options;
  options.stochastic_rounding = true;
  options.auto_cast = compiler::AutoCastMode::kMatmult;
  const auto model = compiled(loop_text(), "tp=2", {"w1=-,tp"}, options);
  const auto again = loaded(runtime::to_bytes(artifact_of(*model, {})));
  EXPECT_EQ(model->run(inputs(2)), again->run(inputs(2)));
}

// A part that no device kernel takes is the evaluator's again, for the reason that the compiler gave.
TEST(ShardedFile, PartsOfTheHostStayTheHosts) {
  const auto model = compiled(loop_text(), "tp=2", {"w1=-,tp", "w2=tp"});
  runtime::Artifact artifact = artifact_of(*model, {});
  json record = json::parse(artifact.facts.at("devices"));
  record["parts"][0].erase("program");
  record["parts"][0]["reason"] = "no kernel of it";
  artifact.facts["devices"] = record.dump();
  const auto partly = sharded_model_of(artifact, "model.neuron");
  EXPECT_EQ(partly->host_reason(), "no kernel of it");
  const auto again = loaded(runtime::to_bytes(artifact_of(*partly, {})));
  EXPECT_EQ(again->host_reason(), "no kernel of it");
  EXPECT_EQ(again->run(inputs(2)), partly->run(inputs(2)));
}

class DamagedShardedFile : public ::testing::Test {
 protected:
  runtime::Artifact artifact_ = artifact_of(*model_, {});
  json record_ = json::parse(artifact_.facts.at("devices"));

  void expect_refused(const std::function<void()>& change, const std::string& says) {
    const runtime::Artifact before = artifact_;
    const json record = record_;
    change();
    artifact_.facts["devices"] = record_.dump();
    try {
      sharded_model_of(artifact_, "model.neuron");
      ADD_FAILURE() << "was loaded: " << says;
    } catch (const Fault& fault) {
      EXPECT_EQ(fault.kind(), FaultKind::kInput) << fault.what();
      EXPECT_THAT(fault.what(), ::testing::HasSubstr(says));
      EXPECT_THAT(fault.what(), ::testing::HasSubstr("model.neuron"));
    }
    artifact_ = before;
    record_ = record;
  }

 private:
  static inline const std::shared_ptr<ShardedModel> model_ =
      compiled(loop_text(), "tp=2", {"w1=-,tp", "w2=tp"});
};

TEST_F(DamagedShardedFile, ARecordThatIsNotOfTheProgramIsRefusedByName) {
  const json::json_pointer cuts("/weights/0/cuts/1/0");
  const std::vector<std::pair<std::function<void()>, std::string>> changes{
      {[&] { record_["weights"][0]["cuts"][1][0][0] = "dp"; }, "axis that its mesh does not have"},
      {[&] {
         record_[cuts] = {"tp", 1, 3};
       },
       "cuts by a part of the axis 'tp'"},
      {[&] {
         record_[cuts] = {"tp", -1, 0};
       },
       "cuts by a part of the axis 'tp'"},
      {[&] {
         record_["weights"][0]["cuts"][0].push_back({"tp", 1, 0});
       },
       "more parts than there are devices"},
      {[&] { record_["weights"][0]["cuts"].push_back(json::array()); }, "more dimensions than a tensor has"},
      {[&] { record_["weights"][0]["constant"] = 99; }, "attached file 99"},
      {[&] {
         record_["weights"][0]["shape"] = {32, 47};
       },
       "bytes for a constant"},
      {[&] {
         record_["weights"][0]["shape"] = {-1, 48};
       },
       "impossible size"},
      {[&] {
         record_["weights"][0]["shape"] = {int64_t{1} << 60, 48};
       },
       "impossible size"},
      {[&] { record_["weights"][0]["element"] = "f33"; }, "unknown type"},
      {[&] {
         record_["inputs"][0]["shape"] = {8, 64};
       },
       "does not take its inputs"},
      {[&] { record_["inputs"].erase(0); }, "does not take"},
      {[&] { record_["outputs"][0]["element"] = "i32"; }, "does not take its inputs or give its results"},
      {[&] { record_["control_inputs"] = {2}; }, "input that it does not take"},
      {[&] { record_["constants"][0][0] = 1000; }, "constants that its program lacks"},
      {[&] { record_["constants"][0][0] = 9; }, "which it is not"},
      {[&] { record_["program"] = 0; }, "model.neuron"},  // a weight's bytes are not a program's text
      {[&] { record_["parts"][0]["program"] = 50; }, "refers to program 50"},
      {[&] { record_["parts"][0]["graph"] = "00"; }, "parts that its program is not cut into"},
      {[&] { record_["parts"][0]["graph"] = ""; }, "without its graph"},
      {[&] { record_["parts"].erase(0); }, "parts that its program is not cut into"},
      {[&] { record_["parts"].clear(); }, "fewer parts"},
      {[&] { record_["parts"].push_back(record_["parts"][0]); }, "more parts"},
      {[&] { record_["target"] = "trn1"; }, "NeuronCore-v3"},
      {[&] { record_.erase("choice"); }, "cannot be read"},
      {[&] { record_["inputs"] = 5; }, "cannot be read"},
      {[&] { artifact_.facts["mesh"] = "tp=4"; }, "does not take its inputs"},
      {[&] { artifact_.attachments.clear(); }, "it has 0"},
  };
  for (size_t i = 0; i < changes.size(); ++i) {
    SCOPED_TRACE(i);
    expect_refused(changes[i].first, changes[i].second);
  }
}

TEST_F(DamagedShardedFile, PartsInAnotherOrderAreRefused) {
  ASSERT_GE(record_["parts"].size(), 2);
  expect_refused([&] { std::swap(record_["parts"][0], record_["parts"][1]); },
                 "parts that its program is not cut into");
  expect_refused(
      [&] {  // the graphs are right, the programs are each other's
        std::swap(record_["parts"][0]["program"], record_["parts"][1]["program"]);
      },
      "not of the types of its program");
}

TEST_F(DamagedShardedFile, BytesThatAreMissingOrOtherAreRefused) {
  const std::string bytes = runtime::to_bytes(artifact_);
  for (size_t cut = 1; cut < bytes.size(); cut += bytes.size() / 29)
    EXPECT_THROW(loaded(bytes.substr(0, bytes.size() - cut)), Fault) << cut;
  const Literal found = loaded(bytes)->run(inputs(1))[0];
  for (size_t at = 0; at < bytes.size(); at += bytes.size() / 97) {
    std::string other = bytes;
    other[at] = static_cast<char>(other[at] ^ 0x10);
    try {
      EXPECT_EQ(loaded(other)->run(inputs(1))[0], found) << at;  // between two pieces
    } catch (const Fault& fault) {
      EXPECT_EQ(fault.kind(), FaultKind::kInput) << fault.what();
    }
  }
}

}  // namespace
}  // namespace opentrn::spmd
