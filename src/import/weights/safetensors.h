// safetensors files, and folders of them as Hugging Face publishes models: config.json, model.safetensors or
// an index of several files. Format: huggingface/safetensors, README "Format". Files are untrusted.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "import/weights/weight_file.h"

namespace opentrn::import::weights {

// `owner` keeps `bytes` alive. Input fault safetensors.header or safetensors.tensor; not modelled
// safetensors.type for tensors whose type is not read.
TensorTable read_safetensors(std::span<const std::byte> bytes, std::shared_ptr<const void> owner);

struct Checkpoint {
  std::string config;  // the text of config.json
  TensorTable tensors;
};
// Input fault checkpoint.folder where a file of it is absent, or is named with a way out of the folder.
// Matrices that were quantised are read as with_whole_matrices() (quantised_checkpoint.h) says.
Checkpoint read_checkpoint(const std::filesystem::path& folder);
// The same of an adapter that PEFT saved: adapter_config.json and adapter_model.safetensors.
Checkpoint read_adapter(const std::filesystem::path& folder);

}  // namespace opentrn::import::weights
