#include "serving/step.h"

#include <fmt/format.h>

namespace opentrn::serving {

const char* to_string(Phase phase) {
  switch (phase) {
    case Phase::kIdle: return "idle";
    case Phase::kPrefill: return "prefill";
    case Phase::kDecode: return "decode";
    case Phase::kMixed: return "mixed";
  }
  return "?";
}

std::string Step::program() const {
  if (phase == Phase::kPrefill && tokens_bucket > 0) return fmt::format("prefill_s{}", tokens_bucket);
  if (phase != Phase::kDecode || seqs_bucket == 0) return {};
  const std::string rows = tokens_bucket > 1 ? fmt::format("verify_b{}_t{}", seqs_bucket, tokens_bucket)
                                             : fmt::format("decode_b{}", seqs_bucket);
  return context_bucket == 0 ? rows : fmt::format("{}_c{}", rows, context_bucket);
}

}  // namespace opentrn::serving
