// How files call the tensors that a decoder's weights are made of.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "decoder/config.h"

namespace opentrn::decoder {

// What weights are read from: each names tensors in its own way.
enum class FileFormat : uint8_t { kGguf, kHuggingFace };

// "q" of layer "3": "model.layers.3.self_attn.q_proj.weight" of Hugging Face's Llama. `layer` is empty for a
// part outside the layers, `expert` that of a part of one expert. An internal fault for a part that a model
// of this configuration has not.
std::string tensor_name(const Config& config, FileFormat format, std::string_view part,
                        std::string_view layer, int64_t expert);

// What Hugging Face's folders call a tensor of a GGUF file; nothing for one that models without experts have
// not.
std::optional<std::string> hugging_face_name(std::string_view gguf_name);

}  // namespace opentrn::decoder
