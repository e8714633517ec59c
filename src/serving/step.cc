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
  if (context_bucket == 0) return fmt::format("decode_b{}", seqs_bucket);
  return fmt::format("decode_b{}_c{}", seqs_bucket, context_bucket);
}

}  // namespace opentrn::serving
