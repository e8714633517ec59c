#include "server/settings.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/fault.h"

namespace opentrn::server {

namespace {

[[noreturn]] void refuse(std::string message, std::string hint = {}) {
  throw Fault(FaultKind::kInput, "serve.settings", std::move(message), std::move(hint));
}

void check_without_values(const Settings& settings) {
  if (settings.quantization != "none")
    refuse("a server without values has no weights to narrow",
           "--step-times of opentrn step-times --quantization have their time");
  if (settings.kv_cache_dtype != "auto")
    refuse("a server without values has no keys to narrow",
           "--step-times of opentrn step-times --kv-cache-dtype have their time");
  if (settings.has_adapters)
    refuse("an adapter without values changes nothing", "--lora goes with weights, not with --no-values");
  if (settings.ranks > 1)
    refuse("ranks without values change nothing: steps take what the table says",
           "opentrn step-times --ranks makes the table of ranks");
}

}  // namespace

void check(const Settings& settings) {
  if (settings.values && settings.policy == "neuron-nxdi")
    refuse(
        "policy neuron-nxdi reads a prompt in one step, and the programs of a model read 512 tokens at most",
        "policy neuron, or --no-values");
  if (!settings.values) check_without_values(settings);
  if (settings.guesses > 0 && (!settings.values || settings.has_step_times))
    refuse(
        "speculation needs a model's own programs: drawn tokens are not guessed, and a table of opentrn "
        "step-times has no programs of guesses",
        "leave --speculative-config out, or --no-values and --step-times");
}

ProgramSizes chosen_sizes(const ProgramSizes& stated, int32_t context, int32_t max_num_seqs) {
  ProgramSizes sizes = program_sizes(context, max_num_seqs);
  if (!stated.sequences.empty()) sizes.sequences = stated.sequences;
  if (!stated.tokens.empty()) sizes.tokens = stated.tokens;
  if (!stated.contexts.empty()) {
    sizes.contexts = stated.contexts;
    sizes.contexts.push_back(context);
    std::ranges::sort(sizes.contexts);
    sizes.contexts.erase(std::ranges::unique(sizes.contexts).begin(), sizes.contexts.end());
  }
  const auto expect_last = [](const char* what, int32_t last, int32_t most) {
    if (last != most)
      refuse(fmt::format("the last of the {} buckets is {}, and {} are the most", what, last, most));
  };
  expect_last("num_seqs", sizes.sequences.back(), max_num_seqs);
  expect_last("context", sizes.contexts.back(), context);
  const bool whole =
      std::ranges::all_of(sizes.contexts, [](int32_t size) { return size % kBlockTokens == 0; });
  if (!whole || sizes.tokens.back() > sizes.contexts.back())
    refuse(fmt::format("programs of {} tokens and {} positions", sizes.tokens, sizes.contexts),
           fmt::format("no more tokens than positions, and positions in blocks of {}", kBlockTokens));
  return sizes;
}

}  // namespace opentrn::server
