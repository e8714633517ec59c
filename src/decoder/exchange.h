// What ranks that share a model take to exchange in a step, by the model of collectives.
#pragma once

#include <cstdint>
#include <string>

#include "arch/arch.h"
#include "decoder/program.h"
#include "graph/type.h"

namespace opentrn::decoder {

// Of the whole model.
struct ExchangeSizes {
  int64_t layers = 0, hidden = 0, vocabulary = 0;
};

// Microseconds on one `instance`, whose first cores the ranks are: two all-reduces a layer of the rows of the
// hidden size in `element`, and a gather of each sequence's logits in fp32, none of them hidden behind
// anything. 0 for one rank. Input fault decoder.ranks without an instance, or for one of another generation;
// those of collectives where the ranks do not fit it.
double exchange_us(const ExchangeSizes& sizes, const Bucket& bucket, graph::ElementType element,
                   int64_t ranks, const std::string& instance, opentrn::Generation generation);

}  // namespace opentrn::decoder
