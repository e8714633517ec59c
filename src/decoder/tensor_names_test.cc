#include "decoder/tensor_names.h"

#include <gtest/gtest.h>

#include "decoder/config.h"
#include "decoder/weights.h"

namespace opentrn::decoder {
namespace {

TEST(Checkpoint, TensorsHaveTheNamesThatAreRead) {
  EXPECT_EQ(hugging_face_name("token_embd.weight"), "model.embed_tokens.weight");
  EXPECT_EQ(hugging_face_name("blk.12.attn_k.bias"), "model.layers.12.self_attn.k_proj.bias");
  EXPECT_EQ(hugging_face_name("blk.0.ffn_down.weight"), "model.layers.0.mlp.down_proj.weight");
  for (const char* other :
       {"blk.x.ffn_down.weight", "blk..ffn_down.weight", "blk.0.ffn_down", "rope_freqs.weight", ""})
    EXPECT_EQ(hugging_face_name(other), std::nullopt) << other;
}

TEST(Checkpoint, RowsOfAHeadThatTakeTurnsAreTwoHalves) {
  const int64_t rows[] = {0, 2, 4, 1, 3, 5, 6, 8, 10, 7, 9, 11};  // two heads of six features
  for (int64_t row = 0; row < 12; ++row) EXPECT_EQ(interleaved_row(row, 6, 6), rows[row]);
}

TEST(Checkpoint, AnArchitectureHasAClass) {
  EXPECT_EQ(hugging_face_class("llama"), "LlamaForCausalLM");
  EXPECT_EQ(hugging_face_class("granite"), "GraniteForCausalLM");
}

}  // namespace
}  // namespace opentrn::decoder
