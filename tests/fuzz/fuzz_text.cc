#include <functional>

#include "isa/text.h"
#include "isa/text_random.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/mutate.h"

namespace opentrn::fuzz {

namespace {

constexpr std::string_view kWords[] = {"%0",
                                       "%99",
                                       "[",
                                       "]",
                                       ":",
                                       "+1",
                                       "{vector dim=0 index=",
                                       "}",
                                       "@",
                                       "none",
                                       "r0",
                                       "nan",
                                       "\"",
                                       "\\x",
                                       "-",
                                       "inf",
                                       "#",
                                       "dst=",
                                       "src=",
                                       "tensor",
                                       "\n",
                                       "9223372036854775807",
                                       "-1",
                                       "match=",
                                       "edge 0 after 1\n",
                                       "op=add",
                                       "1e999"};

void round_trip(const std::string& text, const std::function<std::string(const std::string&)>& again) {
  if (again(text) != text) broken("printing what was parsed gives another text");
}

void damaged(SplitMix64& random, std::string text,
             const std::function<std::string(const std::string&)>& again) {
  mutate(random, text, kWords);
  std::string accepted;
  try {
    accepted = again(text);
  } catch (const Fault& fault) {
    if (fault.kind() != FaultKind::kInput) broken("bad text is not an input error: {}", fault.what());
    if (!fault.location().known()) broken("no line in: {}", fault.what());
    return;
  }
  round_trip(accepted, again);
}

}  // namespace

void text_case(uint64_t seed) {
  SplitMix64 random(seed);
  const auto program = [](const std::string& text) { return isa::to_text(isa::parse_program(text)); };
  const auto executable = [](const std::string& text) { return isa::to_text(isa::parse_executable(text)); };
  const int instructions = static_cast<int>(random.below(20));
  const std::string one = isa::to_text(isa::random_program(random, instructions));
  const std::string other = isa::to_text(isa::random_executable(random, instructions));
  round_trip(one, program);
  round_trip(other, executable);
  for (int i = 0; i < 10; ++i) {
    damaged(random, one, program);
    damaged(random, other, executable);
  }
}

}  // namespace opentrn::fuzz
