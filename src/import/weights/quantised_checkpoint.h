// Checkpoints whose matrices were quantised before they were published: config.json's quantization_config
// names the method, and several tensors hold one matrix. They are read as matrices of numbers, row by row, so
// that nothing else needs to know of it.
//
//   fp8, fbgemm_fp8      weight F8, weight_scale or weight_scale_inv of all, of rows, or of blocks
//   compressed-tensors   the same, also I8 and with weight_zero_point; weight_packed, of 2, 4 or 8 bits in
//   I32, or FP4 modelopt             FP8 as above; FP4 in U8, weight_scale in F8 times weight_scale_2 gptq,
//   awq            qweight, qzeros, scales and (gptq) g_idx, of 2, 4 or 8 bits (awq: 4)
//
// Formats: transformers' finegrained_fp8.py, the package compressed-tensors, AutoGPTQ's and AutoAWQ's
// packing. Scales of activations are not read: activations keep their type here.
#pragma once

#include <string_view>

#include "import/weights/weight_file.h"

namespace opentrn::import::weights {

// `tensors` as they are without quantization_config in `config` (the text of config.json), and for "mxfp4",
// whose blocks are a model's own tensors (gpt-oss). Input fault checkpoint.quantization for parts that do not
// belong to each other; not modelled, with the same label, for other methods.
TensorTable with_whole_matrices(TensorTable tensors, std::string_view config);

}  // namespace opentrn::import::weights
