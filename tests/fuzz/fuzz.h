// Fuzz targets of the C++ core. A target runs one case of a seed and throws std::runtime_error when the
// library broke a promise; a crash or a hang is caught by fuzz_main.cc.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

#include <fmt/format.h>

#include "base/random.h"

namespace opentrn::fuzz {

template <typename... Args>
[[noreturn]] void broken(fmt::format_string<Args...> format, Args&&... args) {
  throw std::runtime_error(fmt::format(format, std::forward<Args>(args)...));
}

// Text forms, whole and mutated: parse is the inverse of print, and bad text is Fault{kInput}.
void text_case(uint64_t seed);
// File forms, whole and mutated, also behind a right checksum.
void file_case(uint64_t seed);
// Compiled models and their tables of ops, damaged behind right checksums.
void model_case(uint64_t seed);
void origin_case(uint64_t seed);
// Models as text, VHLO bytecode and HLO, whole and mutated.
void graph_case(uint64_t seed);
// ONNX models of one node of every operator, whole and mutated.
void onnx_case(uint64_t seed);
// Weight files, GGUF and safetensors, whole and mutated.
void weights_case(uint64_t seed);
// config.json of language models, and the steps of what it describes.
void decoder_case(uint64_t seed);
// Files that commands read beside models: jobs, tables, prices, traces, step times, annotations.
void config_case(uint64_t seed);
// Meaningless but well-formed programs on the constraints and the functional model: a Fault, or values.
void run_case(uint64_t seed);
// Meaningful kernels: a program and what the backend's passes make of it for neuronx-cc give equal bits.
void passes_case(uint64_t seed);
// Meaningful kernels: program order, and the schedule of the backend under random interleavings, give equal
// bits.
void schedule_case(uint64_t seed);
// What the tools read: neuron-monitor's configuration, records of processes, nccom-test's sizes and files,
// variables of the environment.
void monitor_case(uint64_t seed);
void record_case(uint64_t seed);
void nccom_case(uint64_t seed);
void variables_case(uint64_t seed);
// Collectives: proofs of plans, whole and mutated, against a slow check, and their values.
void plans_case(uint64_t seed);

}  // namespace opentrn::fuzz
