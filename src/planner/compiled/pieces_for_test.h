// What tests of pieces and of layers put together share.
#pragma once

#include "planner/compiled/block_pieces.h"
#include "planner/hf_config.h"

namespace opentrn::planner::compiled {

inline const arch::Tables& tables() { return arch::default_tables(); }

inline Model small_model() {
  Model model = model_named(tables(), "Llama-2-7B");
  model.name = "small";
  model.layers = 4;
  model.hidden = 512;
  model.heads = model.kv_heads = 4;
  model.head_dim = 128;
  model.ffn = 1024;
  model.vocabulary = 2048;
  return model;
}

inline Piece products(int64_t rows) {
  Piece piece;
  piece.part = Part::kProducts;
  piece.rows = rows;
  piece.hidden = 512;
  piece.queries = piece.key_values = 512;
  piece.inner = 1024;
  piece.features = 128;
  piece.gated = true;
  return piece;
}

}  // namespace opentrn::planner::compiled
