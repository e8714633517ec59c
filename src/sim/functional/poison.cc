#include "sim/functional/poison.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "base/random.h"

namespace opentrn::sim {

namespace {

constexpr int64_t kPatternBytes = 4096;
constexpr int64_t kRunMin = 8;  // bytes
// What is next to a gap may have been given the bits that it held: small elements at its ends pass as
// written.
constexpr int64_t kMargin = 4;  // bytes
// Outputs so small are taken for unwritten only as a whole, and smaller ones never.
constexpr int64_t kWholeMin = 4;

using NanPattern = std::array<uint8_t, kPatternBytes>;

// `exponent` and the lowest bit set, `quiet` clear: a signalling NaN of any sign and payload.
template <typename Word>
NanPattern signalling(Word exponent, Word quiet) {
  NanPattern pattern;
  SplitMix64 random(kPatternBytes);
  for (int64_t at = 0; at < kPatternBytes; at += static_cast<int64_t>(sizeof(Word))) {
    const auto word = static_cast<Word>((random.next() | exponent | 1u) & ~uint64_t{quiet});
    std::memcpy(pattern.data() + at, &word, sizeof word);
  }
  return pattern;
}

bool judged_by_element(DType dtype) {
  return dtype == DType::kFloat32 || dtype == DType::kTFloat32 || dtype == DType::kFloat16 ||
         dtype == DType::kBFloat16;
}

const NanPattern& pattern_of(DType dtype) {
  static const NanPattern of_float32 = signalling<uint32_t>(0x7F800000u, 0x00400000u);
  static const NanPattern of_bfloat16 = signalling<uint16_t>(0x7F80u, 0x0040u);
  static const NanPattern of_float16 = signalling<uint16_t>(0x7C00u, 0x0200u);
  static const NanPattern of_bytes = signalling<uint64_t>(0, 0);
  switch (dtype) {
    case DType::kFloat32:
    case DType::kTFloat32: return of_float32;
    case DType::kBFloat16: return of_bfloat16;
    case DType::kFloat16: return of_float16;
    default: return of_bytes;
  }
}

int64_t bytes_of(const View& dense) { return dense.total() * dense.element_bytes; }

// piece(memory, pattern, bytes) of one length of the pattern after the other.
template <typename Piece>
void for_pieces(const View& dense, Piece&& piece) {
  const NanPattern& pattern = pattern_of(dense.dtype);
  for (int64_t at = 0, end = bytes_of(dense); at < end; at += kPatternBytes)
    piece(dense.base + at, pattern.data(), std::min(kPatternBytes, end - at));
}

template <typename Word>
bool any_unchanged(const std::byte* memory, const uint8_t* pattern, int64_t bytes) {
  int64_t same = 0;
  for (int64_t at = 0; at + static_cast<int64_t>(sizeof(Word)) <= bytes; at += sizeof(Word)) {
    Word now, before;
    std::memcpy(&now, memory + at, sizeof now);
    std::memcpy(&before, pattern + at, sizeof before);
    same += now == before;
  }
  return same > 0;
}

bool may_hold_poison(const View& dense) {
  if (bytes_of(dense) < kRunMin) return true;
  bool found = false;
  for_pieces(dense, [&](const std::byte* memory, const uint8_t* pattern, int64_t bytes) {
    if (!judged_by_element(dense.dtype))
      found = found || any_unchanged<uint64_t>(memory, pattern, bytes);
    else if (dense.element_bytes == 4)
      found = found || any_unchanged<uint32_t>(memory, pattern, bytes);
    else
      found = found || any_unchanged<uint16_t>(memory, pattern, bytes);
  });
  return found;
}

// Unchanged bytes [begin, end) as whole elements.
void add_elements(std::vector<ElementRun>& runs, int64_t begin, int64_t end, int64_t element_bytes) {
  const int64_t first = (begin + element_bytes - 1) / element_bytes, last = end / element_bytes;
  if (first < last) runs.push_back({first, last - first});
}

}  // namespace

void poison(const View& dense) {
  for_pieces(dense, [](std::byte* memory, const uint8_t* pattern, int64_t bytes) {
    std::memcpy(memory, pattern, static_cast<size_t>(bytes));
  });
}

std::vector<ElementRun> still_poisoned(const View& dense) {
  std::vector<ElementRun> runs;
  if (!may_hold_poison(dense)) return runs;
  const NanPattern& pattern = pattern_of(dense.dtype);
  const int64_t bytes = bytes_of(dense);
  const int64_t least = judged_by_element(dense.dtype) ? int64_t{dense.element_bytes}
                                                       : std::max(kWholeMin, std::min(kRunMin, bytes));
  const int64_t margin = dense.element_bytes < kMargin && !judged_by_element(dense.dtype) ? kMargin : 0;
  int64_t begin = 0;  // of the unchanged bytes before `at`
  for (int64_t at = 0; at <= bytes; ++at) {
    if (at < bytes && dense.base[at] == std::byte{pattern[static_cast<size_t>(at % kPatternBytes)]}) continue;
    if (at - begin >= least)
      add_elements(runs, begin > 0 ? begin + margin : 0, at < bytes ? at - margin : bytes,
                   dense.element_bytes);
    begin = at + 1;
  }
  return runs;
}

}  // namespace opentrn::sim
