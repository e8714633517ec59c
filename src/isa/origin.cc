#include "isa/origin.h"

#include <algorithm>
#include <set>

namespace opentrn::isa {

std::string_view name(Purpose purpose) {
  switch (purpose) {
    case Purpose::kCompute: return "compute";
    case Purpose::kLayoutCopy: return "layout copy";
    case Purpose::kResultCopy: return "result copy";
    case Purpose::kSpill: return "spill";
    case Purpose::kWriteBack: return "write-back";
  }
  return "?";
}

void Origin::note(const OriginSpan& span) {
  OPENTRN_CHECK(spans.empty() || spans.back().begin < span.begin, "instruction {} after {}", span.begin,
                spans.back().begin);
  if (spans.empty() || !spans.back().same_source(span)) spans.push_back(span);
}

OriginSpan Origin::at(InstructionIndex instruction) const {
  const auto after = std::ranges::upper_bound(spans, instruction, {}, &OriginSpan::begin);
  return after == spans.begin() ? OriginSpan{} : *(after - 1);
}

int64_t Origin::kernel_count() const {
  std::set<uint32_t> kernels;
  for (const OriginSpan& span : spans) kernels.insert(span.kernel);
  return static_cast<int64_t>(kernels.size());
}

}  // namespace opentrn::isa
