// What a compiled model is kept by: SHA-256 over all that its compilation depends on.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "runtime/model_file.h"

namespace opentrn::model {

// `compiler`: what compiles, by content. `options`: a JSON object. Of the model: its text; or its file, for
// ONNX with the parts of files that its weights are (`parts`, the model first).
struct KeyedModel {
  std::string_view compiler, options;
  std::optional<std::string_view> text;
  std::filesystem::path path;
  std::span<const std::shared_ptr<runtime::Attachment>> parts = {};
};

// In hexadecimal. What it is made of is written in tests/compiler/test_cache_key.py once more: another
// formula empties everybody's cache. Input fault for a file that cannot be read and for options that are no
// JSON.
std::string cache_key(const KeyedModel& model);

// SHA-256 of a model with the parts of files that its weights are: whether they are what they were.
std::string digest_of(std::span<const std::shared_ptr<runtime::Attachment>> files);

}  // namespace opentrn::model
