// Random collectives: the verifier proves what algorithms make, agrees with the exhaustive check on plans
// with something wrong, and what it proves executes to the reference's result.
#include "base/fault.h"
#include "collectives/hierarchical.h"
#include "collectives/testing/exhaustive_check.h"
#include "collectives/testing/mutate.h"
#include "collectives/testing/samples.h"
#include "tests/fuzz/fuzz.h"

namespace opentrn::fuzz {

namespace {

using namespace collectives;

Request random_request(SplitMix64& random, int ranks) {
  constexpr DType kTypes[] = {DType::kUint8, DType::kInt8, DType::kUint16, DType::kInt32, DType::kInt64};
  Request request = sample_request(static_cast<Kind>(random.below(kKindCount)), ranks,
                                   kTypes[random.below(std::size(kTypes))], random.below(6));
  request.root = static_cast<int>(random.below(static_cast<uint32_t>(ranks)));
  if (request.kind == Kind::kAllReduce) request.bytes = size_bytes(request.dtype) * random.below(40);
  for (int64_t& count : request.counts) count = size_bytes(request.dtype) * random.below(4);
  return request;
}

Layout random_layout(SplitMix64& random, int ranks) {
  const int servers = ranks % 2 == 0 && random.below(2) == 0 ? 2 : 1;
  Layout layout = simple_servers(servers, ranks / servers, static_cast<int>(1 + random.below(3)));
  if (random.below(4) == 0) layout.cycles.clear();
  if (random.below(4) == 0)
    std::swap(layout.ranks[0], layout.ranks[random.below(static_cast<uint32_t>(ranks))]);
  return layout;
}

Algorithm random_algorithm(SplitMix64& random) {
  if (random.below(4) > 0) return algorithms()[random.below(static_cast<uint32_t>(algorithms().size()))];
  constexpr const char* kStages[] = {"", "mesh", "ring", "rdh", "kangaring"};
  HierarchicalOptions options;
  options.within = kStages[random.below(5)];
  options.between = kStages[random.below(4)];
  options.pipeline = static_cast<int>(1 + random.below(kPipelineMax));
  return hierarchical(options);
}

void executes_to_the_reference(const Plan& plan, uint64_t seed) {
  Buffers found = random_buffers(plan.request, seed), wanted = random_buffers(plan.request, seed);
  execute_proved(plan, found.spans);
  reference(plan.request, wanted.spans);
  if (found.outputs != wanted.outputs)
    broken("a proved plan of {} for {} gives another result", plan.algorithm, name_of(plan.request.kind));
}

}  // namespace

void plans_case(uint64_t seed) {
  SplitMix64 random(seed);
  const int ranks = static_cast<int>(1 + random.below(9));
  const Request request = random_request(random, ranks);
  const Layout layout = random_layout(random, ranks);
  const Algorithm algorithm = random_algorithm(random);
  check(request);
  check(layout, ranks);
  if (!algorithm.why_not(request, layout).empty()) return;
  Plan plan = algorithm.plan(request, layout);
  if (const auto findings = verify(plan); !findings.empty())
    broken("{} for {} on {} ranks is not proved: {}", algorithm.name, name_of(request.kind), ranks,
           joined(findings));
  executes_to_the_reference(plan, seed);

  std::string changes;
  for (uint32_t i = 0, count = 1 + random.below(3); i < count; ++i) changes += mutate(plan, random) + "; ";
  const auto findings = verify(plan);
  if (const std::string flaw = exhaustive_check(plan, seed); flaw.empty() != findings.empty())
    broken("{} for {} on {} ranks with {}the exhaustive check says '{}', the verifier: {}", algorithm.name,
           name_of(request.kind), ranks, changes, flaw, joined(findings));
  if (findings.empty()) return executes_to_the_reference(plan, seed);
  Buffers buffers = random_buffers(request, seed);
  try {
    execute(plan, buffers.spans);
  } catch (const Fault& fault) {
    if (fault.label() == "collectives.plan") return;
  }
  broken("a plan with {}was executed", changes);
}

}  // namespace opentrn::fuzz
