// What fuzzers of bytes do with one file. Any bytes may come; std::runtime_error where the library broke a
// promise.
//
// fuzz_*.cc hand over files that they made and damaged, coverage_guided.cc what libFuzzer found. Where a
// format has checksums, these are made right first: what lies behind them is what is tested.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/random.h"

namespace opentrn::fuzz {

using Bytes = std::span<const std::byte>;

// A .neuron container (runtime/model_file.h).
void model_bytes(Bytes file);
// The table of ops of one (runtime/origin_file.h).
void origin_bytes(Bytes file);
// The payload of a program file (isa/file.h).
void program_bytes(Bytes payload);
// A model in any format that import/load.h reads.
void import_bytes(Bytes file);
// A weight file (import/weights).
void weights_bytes(Bytes file);
// config.json of a language model (decoder/config.h).
void decoder_bytes(Bytes file);
// A job, tables, prices, a trace, step times or annotations, behind a byte that says which.
void config_bytes(Bytes file);

// Files to begin with, each of another seed.
std::vector<std::byte> model_seed(SplitMix64& random);
std::vector<std::byte> origin_seed(SplitMix64& random);
std::vector<std::byte> program_seed(SplitMix64& random);
std::vector<std::byte> import_seed(SplitMix64& random);
std::vector<std::byte> weights_seed(SplitMix64& random);
std::vector<std::byte> decoder_seed(SplitMix64& random);
std::vector<std::byte> config_seed(SplitMix64& random);

}  // namespace opentrn::fuzz
