// What one physical core has of a step of a model that ranks of one or two cores share, for its time.
#pragma once

#include <cstdint>

#include "decoder/program.h"

namespace opentrn::decoder {

struct CorePart {
  Config config;
  Bucket bucket;
  StepOptions options;
};

// `cores`: physical ones, all together, of which `cores_per_rank` are a rank. Each core has heads of its own
// as long as there are enough. With more cores than heads the cores of a rank share its heads, as AWS's
// kernels for logical cores divide them: of a prompt each core has a part of the tokens, and else, as a
// decode step's time is that of what it reads, a part of each head's features. Input faults: decoder.ranks
// for cores that are no whole ranks; decoder.config for more ranks than heads.
CorePart core_part(const Config& config, const Bucket& bucket, int64_t cores, int cores_per_rank,
                   StepOptions options = {});

}  // namespace opentrn::decoder
