// A transformer as the planner sees it: sizes, and what follows from them. Read from a Hugging Face
// config.json (hf_config.h) or from the catalogue of the tables.
#pragma once

#include <cstdint>
#include <string>

namespace opentrn::planner {

struct Model {
  std::string name;
  std::string type;       // "llama", "gpt2", "bert", ...
  std::string stored_as;  // "fp8", "mxfp4", ...: its checkpoint's weights; empty: as they are
  int layers = 0;
  int hidden = 0;
  int heads = 0;
  int kv_heads = 0;
  int head_dim = 0;
  int ffn = 0;           // inner width of a dense block's MLP
  bool gated = false;    // three matrices in an MLP, not two
  bool tied = false;     // the output layer is the embedding
  bool causal = true;    // a decoder; false: an encoder
  bool biases = false;   // of the linear layers, and of norms that have a mean
  bool dropout = false;  // its masks are kept for the backward pass
  double vocabulary = 0;
  int positions = 0;      // rows of a learned position embedding; 0: none
  int window = 0;         // of sliding-window attention; 0: none
  int window_layers = 0;  // how many layers have it

  int experts = 0;  // 0: every block is dense
  int active_experts = 0;
  int expert_ffn = 0;
  int shared_ffn = 0;    // inner width of the experts that every token visits, together
  int dense_layers = 0;  // blocks without experts, in a model that has them

  // MMDiT (Stable Diffusion 3): tokens of text and of the image have weights of their own and attend to each
  // other; a sequence is both.
  int streams = 1;                             // sets of a block's weights, of which a token meets one
  int text_tokens = 0;                         // of a sequence, in the second stream
  int text_features = 0, pooled_features = 0;  // of a token of text, and of all of it, as they are given
  double modulation = 0;  // parameters of a block that make scales and shifts of the time step, per stream
  double input_parameters = 0;  // that embed patches, text and the time step
  // ViT: a token is a patch of an image, and one more has what the image is, of so many classes.
  int patch_features = 0;  // numbers of a patch, which a product makes a token of; of MMDiT too
  int classes = 0;
  int image_sequence = 0;  // tokens of a sequence, where the config says the image's size; else 0

  // Multi-head latent attention (DeepSeek): ranks of the compressed query and of keys and values; 0: none.
  int query_rank = 0, kv_rank = 0;
  int rope_dim = 0, nope_dim = 0, value_dim = 0;

  bool latent() const { return kv_rank > 0; }
  bool of_images() const { return patch_features > 0 && streams == 1; }
  bool has_ends() const { return vocabulary > 0 || patch_features > 0; }  // which a step begins and ends with
  double labels() const { return of_images() ? classes : vocabulary; }    // of which a loss knows one
  int expert_layers() const { return experts > 0 ? layers - dense_layers : 0; }
  // Tokens of a sequence that an expert takes: what an even spread gives each.
  int64_t expert_capacity(double seq) const;

  // Parameters.
  double attention_parameters() const;  // of one block
  // Of one of `tp` ranks: each has at least one head of keys and values, and all of latent attention's
  // projections to fewer features.
  double attention_parameters_of_rank(int tp) const;
  double dense_mlp_parameters() const;     // of one block
  double expert_parameters() const;        // of one expert
  double expert_block_parameters() const;  // of one block's experts, shared ones and router
  // Norms have a mean and a bias; where MLPs have gates (gpt-oss), products alone have biases.
  bool layer_norms() const;
  double norm_parameters() const;       // of one block
  double embedding_parameters() const;  // the table, and learned positions
  double class_parameters() const;      // that say of an image what it is; met by one token
  double output_parameters() const;     // 0 where the output layer is the embedding
  double parameters() const;
  double active_parameters() const;  // that one token meets, embeddings included once

  // Useful floating-point operations of one token's forward and backward pass in a sequence of `seq`: six for
  // each active weight of a matrix product, and attention's two products, in full where it is causal too, as
  // published MFU counts them (PaLM, appendix B).
  double flops_per_token(double seq) const;
};

// "8.0B", "86M" or "640": of parameters.
std::string count_text(double count);
// ", stored as fp8", of a checkpoint that holds other numbers than a plan computes with; else empty.
std::string stored_text(const Model& model);

}  // namespace opentrn::planner
