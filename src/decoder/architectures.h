// The architectures that there is a builder for, as llama.cpp (src/llama-arch.cpp) and Hugging Face call
// them.
#pragma once

#include <string_view>

#include "decoder/config_json.h"

namespace opentrn::decoder {

struct Architecture {
  std::string_view gguf, json;
  bool interleaved;  // in GGUF files: llama.cpp's LLAMA_ROPE_TYPE_NORM
  bool qkv_bias, qk_norm;
  Family family = Family::kLlama;
  bool folders_alone = false;  // GGUF files of it are not read
};

// Not modelled decoder.architecture for a name that is not known. Of several classes that llama.cpp gives one
// name that with experts, or that without.
const Architecture& architecture_of_gguf(std::string_view name, bool experts);
const Architecture& architecture_of_class(std::string_view name);

}  // namespace opentrn::decoder
