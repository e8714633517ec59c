// A GGUF file's model as Hugging Face publishes models: config.json and model.safetensors in a folder.
#pragma once

#include <filesystem>
#include <span>

#include "graph/element_type.h"
#include "import/weights/gguf.h"

namespace opentrn::decoder {

// Makes the folder. `matrices`: their type (f16, bf16 or f32), vectors are f32; `stop_tokens`: what ends an
// answer. Input fault decoder.config for a file that is no model, generate.checkpoint for a tensor without a
// name; not modelled generate.checkpoint for an architecture that is written by nobody here, and for scaled
// rotary positions.
void write_checkpoint(const import::weights::Gguf& file, const std::filesystem::path& folder,
                      graph::ElementType matrices, std::span<const int64_t> stop_tokens);

}  // namespace opentrn::decoder
