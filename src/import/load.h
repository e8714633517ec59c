// One entry for model files of every format that OpenTrn reads: what the command line and the compiler use.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "graph/module.h"

namespace opentrn::import {

enum class Format : uint8_t { kStablehloText, kVhloBytecode, kHloProto, kOnnx };
std::string_view name(Format format);

// By the first bytes: ML\xEFR is bytecode; a protocol buffer is HLO when its first field is a name or a
// module, ONNX when it is a version; text is StableHLO. Input fault when it is none of them.
Format sniff(std::span<const std::byte> bytes, std::string_view filename);

// `owner`, when given, keeps `bytes` alive, and constants may refer to them.
// Calls of LAPACK's become what stands for them (lapack.h).
graph::Module load(std::span<const std::byte> bytes, std::string_view filename,
                   std::shared_ptr<const void> owner = nullptr);
// StableHLO text, as load().
graph::Module load_text(std::string_view text, std::string_view filename);
// Reads the file; constants of bytecode refer to what was read, those of ONNX to the mapped file. Input fault
// when it cannot be read. `dimensions`: sizes of the symbolic dimensions of an ONNX model (onnx.h); an input
// fault where the file is no ONNX model.
graph::Module load_file(const std::string& path, const std::map<std::string, int64_t>& dimensions = {});

}  // namespace opentrn::import
