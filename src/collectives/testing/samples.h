// Requests, layouts and buffers that tests of collectives share.
#pragma once

#include <cstring>
#include <string>
#include <vector>

#include "base/random.h"
#include "collectives/algorithms.h"
#include "collectives/values.h"
#include "collectives/verify.h"
#include "numerics/convert.h"

namespace opentrn::collectives {

// A request of every kind, such that parts are of different sizes where they may be.
inline Request sample_request(Kind kind, int ranks, DType dtype = DType::kUint8, int64_t elements = 7) {
  Request request;
  request.kind = kind;
  request.ranks = ranks;
  request.dtype = dtype;
  const int64_t element = size_bytes(dtype);
  const bool is_scattered = kind == Kind::kReduceScatter || kind == Kind::kAllToAll;
  request.bytes = element * elements * (is_scattered ? ranks : 1);
  if (kind == Kind::kAllReduce) request.bytes = element * (elements * ranks + 3);
  if (kind == Kind::kPermute)
    for (int rank = 0; rank + 1 < ranks; ++rank) request.pairs.emplace_back(rank, (rank * 3 + 1) % ranks);
  if (kind == Kind::kPermute && ranks % 3 == 0) {
    request.pairs.clear();
    for (int rank = 0; rank < ranks; ++rank) request.pairs.emplace_back(rank, ranks - 1 - rank);
  }
  if (kind == Kind::kAllGatherV || kind == Kind::kAllToAllV) {
    request.bytes = 0;
    const int count = kind == Kind::kAllGatherV ? ranks : ranks * ranks;
    for (int i = 0; i < count; ++i) request.counts.push_back(element * (i * 5 % 4) * elements);
  }
  return request;
}

struct Buffers {
  std::vector<std::vector<std::byte>> inputs, outputs;
  std::vector<RankBuffers> spans;
};

// Inputs of small random numbers, outputs of 0xee.
inline Buffers random_buffers(const Request& request, uint64_t seed) {
  SplitMix64 random(seed);
  Buffers buffers;
  for (int rank = 0; rank < request.ranks; ++rank) {
    auto& input = buffers.inputs.emplace_back(static_cast<size_t>(input_bytes(request, rank)));
    buffers.outputs.emplace_back(static_cast<size_t>(output_bytes(request, rank)), std::byte{0xee});
    const auto element = static_cast<size_t>(size_bytes(request.dtype));
    for (size_t i = 0; i < input.size() / element; ++i) {
      if (is_float(request.dtype) && request.dtype != DType::kFloat64) {
        const auto value = static_cast<float>(random.uniform() * 4 - 2);
        numerics::store_f32(request.dtype, &value, input.data() + i * element, 1);
      } else if (request.dtype == DType::kFloat64) {
        const double value = random.uniform() * 4 - 2;
        std::memcpy(input.data() + i * element, &value, sizeof value);
      } else if (request.dtype == DType::kBool) {
        input[i] = static_cast<std::byte>(random.below(2));
      } else {
        const uint64_t bits = random.next();
        std::memcpy(input.data() + i * element, &bits, element);
      }
    }
  }
  for (size_t rank = 0; rank < buffers.inputs.size(); ++rank)
    buffers.spans.push_back({buffers.inputs[rank], buffers.outputs[rank]});
  return buffers;
}

inline std::string joined(const std::vector<Finding>& findings) {
  std::string text;
  for (const Finding& finding : findings) text += finding.label + ": " + finding.text + "\n";
  return text;
}

}  // namespace opentrn::collectives
