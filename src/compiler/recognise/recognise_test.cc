#include "compiler/recognise/recognise.h"

#include <algorithm>

#include <fmt/format.h>

#include "compiler/analysis/activation_op.h"
#include "compiler/analysis/attention_op.h"
#include "compiler/analysis/pass_for_test.h"

namespace opentrn::compiler {
namespace {

constexpr PassCase kActivations[] = {
    {"silu", "(%x: tensor<4x8xf32>) -> tensor<4x8xf32>",
     R"(%a = stablehlo.logistic %x : tensor<4x8xf32>
        %b = stablehlo.multiply %x, %a : tensor<4x8xf32>
        return %b : tensor<4x8xf32>)",
     "opentrn.silu"},
    {"gelu_tanh", "(%x: tensor<4x8xf32>) -> tensor<4x8xf32>",
     R"(%c = stablehlo.constant dense<0.044715> : tensor<4x8xf32>
        %r = stablehlo.constant dense<0.797884583> : tensor<4x8xf32>
        %one = stablehlo.constant dense<1.0> : tensor<4x8xf32>
        %half = stablehlo.constant dense<0.5> : tensor<4x8xf32>
        %x2 = stablehlo.multiply %x, %x : tensor<4x8xf32>
        %x3 = stablehlo.multiply %x2, %x : tensor<4x8xf32>
        %p = stablehlo.multiply %c, %x3 : tensor<4x8xf32>
        %q = stablehlo.add %x, %p : tensor<4x8xf32>
        %s = stablehlo.multiply %r, %q : tensor<4x8xf32>
        %t = stablehlo.tanh %s : tensor<4x8xf32>
        %u = stablehlo.add %one, %t : tensor<4x8xf32>
        %v = stablehlo.multiply %half, %u : tensor<4x8xf32>
        %w = stablehlo.multiply %x, %v : tensor<4x8xf32>
        return %w : tensor<4x8xf32>)",
     "opentrn.gelu_tanh"},
    // Products of 16 bits with numbers that these do not hold, as PyTorch takes them: in float32.
    {"gelu_tanh of bf16", "(%x: tensor<4x8xbf16>) -> tensor<4x8xbf16>",
     R"(%c = stablehlo.constant dense<0.044715> : tensor<4x8xf32>
        %r = stablehlo.constant dense<0.797884583> : tensor<4x8xf32>
        %one = stablehlo.constant dense<1.0> : tensor<4x8xbf16>
        %half = stablehlo.constant dense<0.5> : tensor<4x8xbf16>
        %x2 = stablehlo.multiply %x, %x : tensor<4x8xbf16>
        %x3 = stablehlo.multiply %x2, %x : tensor<4x8xbf16>
        %x3w = stablehlo.convert %x3 : (tensor<4x8xbf16>) -> tensor<4x8xf32>
        %pw = stablehlo.multiply %x3w, %c : tensor<4x8xf32>
        %p = stablehlo.convert %pw : (tensor<4x8xf32>) -> tensor<4x8xbf16>
        %q = stablehlo.add %x, %p : tensor<4x8xbf16>
        %qw = stablehlo.convert %q : (tensor<4x8xbf16>) -> tensor<4x8xf32>
        %sw = stablehlo.multiply %qw, %r : tensor<4x8xf32>
        %s = stablehlo.convert %sw : (tensor<4x8xf32>) -> tensor<4x8xbf16>
        %t = stablehlo.tanh %s : tensor<4x8xbf16>
        %u = stablehlo.add %one, %t : tensor<4x8xbf16>
        %v = stablehlo.multiply %x, %half : tensor<4x8xbf16>
        %w = stablehlo.multiply %v, %u : tensor<4x8xbf16>
        return %w : tensor<4x8xbf16>)",
     "opentrn.gelu_tanh"},
};

TEST(RecogniseActivations, MakesOneCompositeOfThem) {
  for (const PassCase& given : kActivations) {
    SCOPED_TRACE(given.name);
    graph::Module module = parsed(main_of(given.signature, given.before));
    EXPECT_EQ(recognise_activations(module.entry()), 1);
    int found = 0;
    graph::walk(module.entry(), module.entry().body(), [&](graph::OpId id) {
      const graph::Op& op = module.entry().op(id);
      if (op.kind != graph::OpKind::composite_) return;
      ++found;
      EXPECT_EQ(op.string(graph::Attr::name), given.after);
      EXPECT_TRUE(activation_of_composite(op).has_value());
      EXPECT_TRUE(std::ranges::equal(op.operands, module.entry().arguments()));
    });
    EXPECT_EQ(found, 1);
  }
}

std::string sorted_rows(const char* direction, const char* taken, const char* result) {
  return main_of("(%x: tensor<3x40xf32>) -> tensor<3x" + std::string(result) + "xi32>",
                 R"(%i = stablehlo.iota dim = 1 : tensor<3x40xi32>
        %s:2 = "stablehlo.sort"(%x, %i) <{dimension = 1 : i64, is_stable = true}> ({
          ^bb0(%a: tensor<f32>, %b: tensor<f32>, %p: tensor<i32>, %q: tensor<i32>):
            %c = stablehlo.compare )" +
                     std::string(direction) +
                     R"(, %a, %b, TOTALORDER : (tensor<f32>, tensor<f32>) -> tensor<i1>
            stablehlo.return %c : tensor<i1>
          }) : (tensor<3x40xf32>, tensor<3x40xi32>) -> (tensor<3x40xf32>, tensor<3x40xi32>)
        %t = stablehlo.slice %s#1 [0:3, )" +
                     taken + "] : (tensor<3x40xi32>) -> tensor<3x" + result + R"(xi32>
        return %t : tensor<3x)" +
                     result + "xi32>");
}

void top_k_alone(graph::Function& function) { recognise_top_k(function); }

TEST(RecogniseTopK, TakesSortsOfWhichTheFirstElementsAreRead) {
  const std::string text = sorted_rows("GT", "0:5", "5");
  graph::Module module = parsed(text);
  EXPECT_EQ(recognise_top_k(module.entry()), 1);
  EXPECT_NE(graph::print_module(module).find("chlo.top_k"), std::string::npos);
  expect_same_values(text, top_k_alone);
}

TEST(RecogniseTopK, LeavesOtherSorts) {
  for (const std::string& text :
       {sorted_rows("LT", "0:5", "5"), sorted_rows("GT", "1:6", "5"), sorted_rows("GT", "0:40", "40")}) {
    graph::Module module = parsed(text);
    EXPECT_EQ(recognise_top_k(module.entry()), 0);
  }
}

// 1 / (1 + exp(-x)), alone and as SiLU's gate.
TEST(RecogniseActivations, ALogisticThatIsWrittenOutIsOne) {
  for (const char* const constant : {"1.0", "2.0"}) {
    graph::Module module =
        parsed(main_of("(%x: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>)", fmt::format(R"(
    %one = stablehlo.constant dense<{}> : tensor<4x8xf32>
    %a = stablehlo.negate %x : tensor<4x8xf32>
    %b = stablehlo.exponential %a : tensor<4x8xf32>
    %c = stablehlo.add %one, %b : tensor<4x8xf32>
    %d = stablehlo.divide %one, %c : tensor<4x8xf32>
    %e = stablehlo.multiply %x, %d : tensor<4x8xf32>
    return %d, %e : tensor<4x8xf32>, tensor<4x8xf32>)",
                                                                                                  constant)));
    const bool is_one = constant[0] == '1';
    EXPECT_EQ(recognise_activations(module.entry()), is_one ? 2 : 0);
    int logistics = 0, composites = 0;
    graph::walk(module.entry(), module.entry().body(), [&](graph::OpId id) {
      logistics += module.entry().op(id).kind == graph::OpKind::logistic_;
      composites += module.entry().op(id).kind == graph::OpKind::composite_;
    });
    EXPECT_EQ(logistics, is_one ? 1 : 0);
    EXPECT_EQ(composites, is_one ? 1 : 0);
  }
}

TEST(RecogniseActivations, LeavesWhatOnlyLooksLikeThem) {
  graph::Module module = parsed(main_of("(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32>", R"(
    %a = stablehlo.logistic %y : tensor<4xf32>
    %b = stablehlo.multiply %x, %a : tensor<4xf32>
    return %b : tensor<4xf32>)"));
  EXPECT_EQ(recognise_activations(module.entry()), 0);
}

// `scores`: ops that make %s of the products %p.
std::string attention(
    std::string_view reduced_by,
    std::string_view scores = "%s = stablehlo.multiply %p, %scale : tensor<2x256x256xf32>") {
  return main_of(
      "(%q: tensor<2x256x64xf32>, %k: tensor<2x256x64xf32>, %v: tensor<2x256x64xf32>) -> "
      "tensor<2x256x64xf32>",
      fmt::format(R"(
    %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %scale = stablehlo.constant dense<0.125> : tensor<2x256x256xf32>
    %p = stablehlo.dot_general %q, %k, batching_dims = [0] x [0], contracting_dims = [2] x [2]
         : (tensor<2x256x64xf32>, tensor<2x256x64xf32>) -> tensor<2x256x256xf32>
    {}
    %m = stablehlo.reduce(%s init: %low) applies stablehlo.{} across dimensions = [2]
         : (tensor<2x256x256xf32>, tensor<f32>) -> tensor<2x256xf32>
    %mb = stablehlo.broadcast_in_dim %m, dims = [0, 1] : (tensor<2x256xf32>) -> tensor<2x256x256xf32>
    %d = stablehlo.subtract %s, %mb : tensor<2x256x256xf32>
    %e = stablehlo.exponential %d : tensor<2x256x256xf32>
    %t = stablehlo.reduce(%e init: %zero) applies stablehlo.add across dimensions = [2]
         : (tensor<2x256x256xf32>, tensor<f32>) -> tensor<2x256xf32>
    %tb = stablehlo.broadcast_in_dim %t, dims = [0, 1] : (tensor<2x256xf32>) -> tensor<2x256x256xf32>
    %w = stablehlo.divide %e, %tb : tensor<2x256x256xf32>
    %o = stablehlo.dot_general %w, %v, batching_dims = [0] x [0], contracting_dims = [2] x [1]
         : (tensor<2x256x256xf32>, tensor<2x256x64xf32>) -> tensor<2x256x64xf32>
    return %o : tensor<2x256x64xf32>)",
                  scores, reduced_by));
}

TEST(RecogniseAttention, TakesASoftCapOfTheScores) {
  const auto capped = [](std::string_view cap, std::string_view last = "%cap") {
    return attention("maximum", fmt::format(R"(
    %cap = stablehlo.constant dense<{}> : tensor<2x256x256xf32>
    %a = stablehlo.multiply %p, %scale : tensor<2x256x256xf32>
    %part = stablehlo.divide %a, %cap : tensor<2x256x256xf32>
    %bent = stablehlo.tanh %part : tensor<2x256x256xf32>
    %s = stablehlo.multiply %bent, {} : tensor<2x256x256xf32>)",
                                            cap, last));
  };
  graph::Module module = parsed(capped("50.0"));
  EXPECT_EQ(recognise_attention(module.entry()), 1);
  graph::walk(module.entry(), module.entry().body(), [&](graph::OpId id) {
    if (const auto op = attention_of(module.entry().op(id))) {
      EXPECT_EQ(op->cap, 50.0);
      EXPECT_NEAR(op->scale, 0.125, 1e-12);
    }
  });
  for (const char* cap : {"500.0", "-50.0"}) {
    graph::Module other = parsed(capped(cap));
    EXPECT_EQ(recognise_attention(other.entry()), 0) << cap;
  }
  // Divided by one number and multiplied by another: of tanh's cap, and a scale of 50 / 0.125 behind it.
  graph::Module mixed = parsed(capped("50.0", "%scale"));
  EXPECT_EQ(recognise_attention(mixed.entry()), 1);
  graph::walk(mixed.entry(), mixed.entry().body(), [&](graph::OpId id) {
    if (const auto op = attention_of(mixed.entry().op(id))) {
      EXPECT_EQ(op->cap, 0.125);
    }
  });
}

TEST(RecogniseAttention, TakesSoftmaxBetweenTwoProducts) {
  graph::Module module = parsed(attention("maximum"));
  EXPECT_EQ(recognise_attention(module.entry()), 1);
  int found = 0;
  graph::walk(module.entry(), module.entry().body(), [&](graph::OpId id) {
    if (const auto op = attention_of(module.entry().op(id))) {
      ++found;
      EXPECT_EQ(op->scale, 0.125);
      EXPECT_TRUE(op->masks.empty());
      EXPECT_FALSE(op->diagonal.has_value());
    }
  });
  EXPECT_EQ(found, 1);
}

// As jax.nn.dot_product_attention has it: two heads share each of three keys' heads as a free dimension of
// the queries, the softmax has it in front, and the maximum is taken before the scores are transposed, or a
// mask lies behind the transpose.
std::string shared_heads(bool masked, std::string_view order = "3, 0, 1, 2") {
  const std::string scores = masked ? R"(
    %x = stablehlo.transpose %s, dims = [ORDER, 4] : (tensor<2x3x256x2x128xf32>) -> tensor<2x2x3x256x128xf32>
    %i = stablehlo.iota dim = 0 : tensor<256x128xi32>
    %j = stablehlo.iota dim = 1 : tensor<256x128xi32>
    %c = stablehlo.compare GE, %i, %j, SIGNED : (tensor<256x128xi32>, tensor<256x128xi32>) -> tensor<256x128xi1>
    %cb = stablehlo.broadcast_in_dim %c, dims = [3, 4] : (tensor<256x128xi1>) -> tensor<2x2x3x256x128xi1>
    %fill = stablehlo.constant dense<-2.0e+38> : tensor<2x2x3x256x128xf32>
    %xm = stablehlo.select %cb, %x, %fill : tensor<2x2x3x256x128xi1>, tensor<2x2x3x256x128xf32>
    %m = stablehlo.reduce(%xm init: %low) applies stablehlo.maximum across dimensions = [4]
         : (tensor<2x2x3x256x128xf32>, tensor<f32>) -> tensor<2x2x3x256xf32>)"
                                    : R"(
    %n = stablehlo.reduce(%s init: %low) applies stablehlo.maximum across dimensions = [4]
         : (tensor<2x3x256x2x128xf32>, tensor<f32>) -> tensor<2x3x256x2xf32>
    %m = stablehlo.transpose %n, dims = [ORDER] : (tensor<2x3x256x2xf32>) -> tensor<2x2x3x256xf32>
    %xm = stablehlo.transpose %s, dims = [3, 0, 1, 2, 4] : (tensor<2x3x256x2x128xf32>) -> tensor<2x2x3x256x128xf32>)";
  std::string text = main_of(
      "(%q: tensor<2x256x3x2x64xbf16>, %k: tensor<2x128x3x64xbf16>, %v: tensor<2x128x3x64xbf16>) -> "
      "tensor<2x3x64x2x256xbf16>",
      R"(
    %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %scale = stablehlo.constant dense<0.125> : tensor<2x3x256x2x128xf32>
    %p = stablehlo.dot_general %q, %k, batching_dims = [0, 2] x [0, 2], contracting_dims = [4] x [3]
         : (tensor<2x256x3x2x64xbf16>, tensor<2x128x3x64xbf16>) -> tensor<2x3x256x2x128xf32>
    %s = stablehlo.multiply %p, %scale : tensor<2x3x256x2x128xf32>)" +
          scores + R"(
    %mb = stablehlo.broadcast_in_dim %m, dims = [0, 1, 2, 3] : (tensor<2x2x3x256xf32>) -> tensor<2x2x3x256x128xf32>
    %d = stablehlo.subtract %xm, %mb : tensor<2x2x3x256x128xf32>
    %e = stablehlo.exponential %d : tensor<2x2x3x256x128xf32>
    %t = stablehlo.reduce(%e init: %zero) applies stablehlo.add across dimensions = [4]
         : (tensor<2x2x3x256x128xf32>, tensor<f32>) -> tensor<2x2x3x256xf32>
    %tb = stablehlo.broadcast_in_dim %t, dims = [0, 1, 2, 3] : (tensor<2x2x3x256xf32>) -> tensor<2x2x3x256x128xf32>
    %w = stablehlo.divide %e, %tb : tensor<2x2x3x256x128xf32>
    %wb = stablehlo.convert %w : (tensor<2x2x3x256x128xf32>) -> tensor<2x2x3x256x128xbf16>
    %o = stablehlo.dot_general %v, %wb, batching_dims = [0, 2] x [1, 2], contracting_dims = [1] x [4]
         : (tensor<2x128x3x64xbf16>, tensor<2x2x3x256x128xbf16>) -> tensor<2x3x64x2x256xbf16>
    return %o : tensor<2x3x64x2x256xbf16>)");
  for (size_t at = text.find("ORDER"); at != std::string::npos; at = text.find("ORDER"))
    text.replace(at, 5, order);
  return text;
}

TEST(RecogniseAttention, TakesHeadsThatShareKeysAsAFreeDimension) {
  for (const bool masked : {false, true}) {
    graph::Module module = parsed(shared_heads(masked));
    EXPECT_EQ(recognise_attention(module.entry()), 1);
    graph::walk(module.entry(), module.entry().body(), [&](graph::OpId id) {
      const auto op = attention_of(module.entry().op(id));
      if (!op) return;
      EXPECT_EQ(op->diagonal.has_value(), masked);
      // Batch, heads of keys, heads that share them: in the order of the result, so that nothing is turned.
      EXPECT_EQ(module.entry().type(module.entry().op(id).operands[0]).dims_vector(),
                (std::vector<int64_t>{2, 3, 2, 256, 64}));
    });
  }
}

// Positions in front of the heads that share keys: a kernel for each position would have two rows.
TEST(RecogniseAttention, LeavesPositionsInFrontOfHeadsThatShareKeys) {
  graph::Module module =
      parsed(main_of("(%q: tensor<3x256x2x64xbf16>, %k: tensor<3x128x64xbf16>, %v: tensor<3x128x64xbf16>) -> "
                     "tensor<3x256x2x64xbf16>",
                     R"(
    %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %scale = stablehlo.constant dense<0.125> : tensor<3x256x2x128xf32>
    %p = stablehlo.dot_general %q, %k, batching_dims = [0] x [0], contracting_dims = [3] x [2]
         : (tensor<3x256x2x64xbf16>, tensor<3x128x64xbf16>) -> tensor<3x256x2x128xf32>
    %s = stablehlo.multiply %p, %scale : tensor<3x256x2x128xf32>
    %m = stablehlo.reduce(%s init: %low) applies stablehlo.maximum across dimensions = [3]
         : (tensor<3x256x2x128xf32>, tensor<f32>) -> tensor<3x256x2xf32>
    %mb = stablehlo.broadcast_in_dim %m, dims = [0, 1, 2] : (tensor<3x256x2xf32>) -> tensor<3x256x2x128xf32>
    %d = stablehlo.subtract %s, %mb : tensor<3x256x2x128xf32>
    %e = stablehlo.exponential %d : tensor<3x256x2x128xf32>
    %t = stablehlo.reduce(%e init: %zero) applies stablehlo.add across dimensions = [3]
         : (tensor<3x256x2x128xf32>, tensor<f32>) -> tensor<3x256x2xf32>
    %tb = stablehlo.broadcast_in_dim %t, dims = [0, 1, 2] : (tensor<3x256x2xf32>) -> tensor<3x256x2x128xf32>
    %w = stablehlo.divide %e, %tb : tensor<3x256x2x128xf32>
    %wb = stablehlo.convert %w : (tensor<3x256x2x128xf32>) -> tensor<3x256x2x128xbf16>
    %o = stablehlo.dot_general %wb, %v, batching_dims = [0] x [0], contracting_dims = [3] x [1]
         : (tensor<3x256x2x128xbf16>, tensor<3x128x64xbf16>) -> tensor<3x256x2x64xbf16>
    return %o : tensor<3x256x2x64xbf16>)"));
  EXPECT_EQ(recognise_attention(module.entry()), 0);
}

// The maxima of other rows: batch and heads of the maximum are exchanged, where both have as many.
TEST(RecogniseAttention, LeavesMaximaInAnotherOrder) {
  graph::Module module = parsed(shared_heads(false, "0, 3, 1, 2"));
  EXPECT_EQ(recognise_attention(module.entry()), 0);
}

TEST(RecogniseAttention, LeavesOtherReductions) {
  graph::Module module = parsed(attention("minimum"));
  EXPECT_EQ(recognise_attention(module.entry()), 0);
}

}  // namespace
}  // namespace opentrn::compiler
