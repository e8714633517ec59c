// The weights of a decoder as its programs take them: transposed, fused and rounded, from a file's tensors.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "decoder/adapter.h"
#include "decoder/config.h"
#include "decoder/program.h"
#include "decoder/tensor_names.h"
#include "import/weights/weight_file.h"
#include "sim/functional/buffer.h"

namespace opentrn::decoder {

// Row of a file that holds feature `row` of a matrix of queries or keys: llama.cpp lays the two halves of a
// head's features in turns (Config::rows_interleaved), of `turned` features behind the head's first ones.
int64_t interleaved_row(int64_t row, int64_t head_features, int64_t turned, int64_t first = 0);

using GivenWeights = std::map<std::string, std::shared_ptr<sim::Buffer>>;

// The transpose of an EAGLE-3 head's fc.weight, for a model of this configuration.
std::shared_ptr<sim::Buffer> load_feature_weight(const Config& model,
                                                 const import::weights::TensorTable& head,
                                                 graph::ElementType element);

// In the order of weights(): memory that is only read, in the type that the weight states. Input fault
// decoder.weights for a tensor that is absent or has another shape; not modelled decoder.architecture for one
// that nothing reads. `adapter`: what is added to its matrices,
// in fp32 before they are rounded; null: nothing. `given`: by name, weights that are not read.
std::vector<std::shared_ptr<sim::Buffer>> load_weights(const Config& config,
                                                       const import::weights::TensorTable& tensors,
                                                       FileFormat format, graph::ElementType element,
                                                       Adapter* adapter = nullptr,
                                                       const GivenWeights& given = {});

}  // namespace opentrn::decoder
