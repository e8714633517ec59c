// opentrn_collectives_msccl FILE KIND RANKS CHUNKS [SHIFT]: proves a program of MSCCL-tools;
// conformance/msccl runs it.
//
// KIND is an operation ("all_reduce") of CHUNKS chunks of each rank's input; for "permute", rank i sends to
// rank i + SHIFT, where there is one. Status 0: proved; 1: findings, one on each line; 2: no program.
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include <fmt/format.h>

#include "base/fault.h"
#include "collectives/msccl.h"
#include "collectives/verify.h"

int main(int argc, char** argv) {
  using namespace opentrn;
  using namespace opentrn::collectives;
  if (argc < 5) {
    fmt::print(stderr, "usage: opentrn_collectives_msccl FILE KIND RANKS CHUNKS [SHIFT]\n");
    return 2;
  }
  std::ifstream file(argv[1]);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  MscclOptions options;
  try {
    Request request{.ranks = std::atoi(argv[3]),
                    .bytes = std::atoll(argv[4]) * options.chunk_bytes,
                    .dtype = options.dtype};
    for (int kind = 0; kind < kKindCount; ++kind)
      if (name_of(static_cast<Kind>(kind)) == argv[2]) request.kind = static_cast<Kind>(kind);
    const int shift = argc > 5 ? std::atoi(argv[5]) : 1;
    for (int rank = 0; request.kind == Kind::kPermute && rank < request.ranks; ++rank)
      if (rank + shift >= 0 && rank + shift < request.ranks) request.pairs.emplace_back(rank, rank + shift);
    options.request = request;
    const auto findings = verify(plan_of_msccl(text, options));
    for (const Finding& finding : findings) fmt::print("{}: {}\n", finding.label, finding.text);
    return findings.empty() ? 0 : 1;
  } catch (const Fault& fault) {
    fmt::print("{}\n", fault.what());
    return 2;
  }
}
