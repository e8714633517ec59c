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

// Physical cores that share a model as ranks of tensor parallelism, each its part: logical cores of two
// (LNC 2), or single ones.
struct Sharing {
  int64_t cores = 1;
  int cores_per_rank = 1;  // physical cores of a logical one; it divides `cores`
  std::string instance;    // of several cores
};

// Microseconds on the instance, whose first cores these are: two all-reduces a layer of the rows of the
// hidden size in `element`, and a gather of each sequence's logits in fp32 (of a bucket of the
// likeliest tokens, of each rank's and its logit), none of them hidden behind anything. The two cores of a
// logical one first add up their terms, half of them each (a reduce-scatter of two), and what logical cores
// exchange lies in the HBM stack that both read. 0 for one core. Input fault decoder.ranks without an
// instance, or for one of another generation; those of collectives where the cores do not fit it.
double exchange_us(const ExchangeSizes& sizes, const Bucket& bucket, graph::ElementType element,
                   const Sharing& sharing, opentrn::Generation generation);

// Microseconds that a step's results take to the host, at runtime.host_transfer_gb_s: logits in fp32, or
// tokens with their logits where the bucket chooses.
double results_us(const Bucket& bucket, int64_t vocabulary);

// How many of them share an HBM stack, and with it its bandwidth.
int cores_on_stack(opentrn::Generation generation, int64_t cores);

}  // namespace opentrn::decoder
