#include <fmt/format.h>

#include "collectives/messages.h"

namespace opentrn::collectives {

std::string goal_of_plan(const Plan& plan) {
  const auto ranks = messages_of(plan);
  std::string out = fmt::format("num_ranks {}\n", ranks.size());
  const auto to = std::back_inserter(out);
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    fmt::format_to(to, "\nrank {} {{\n", rank);
    for (size_t i = 0; i < ranks[rank].size(); ++i) {
      const Operation& one = ranks[rank][i];
      switch (one.kind) {
        case Operation::Kind::kSend:
          fmt::format_to(to, "l{}: send {}b to {} tag {}\n", i + 1, one.bytes, one.peer, one.tag);
          break;
        case Operation::Kind::kReceive:
          fmt::format_to(to, "l{}: recv {}b from {} tag {}\n", i + 1, one.bytes, one.peer, one.tag);
          break;
        case Operation::Kind::kCompute: fmt::format_to(to, "l{}: calc 0\n", i + 1); break;
      }
    }
    for (size_t i = 0; i < ranks[rank].size(); ++i)
      for (const int32_t before : ranks[rank][i].after)
        fmt::format_to(to, "l{} requires l{}\n", i + 1, before + 1);
    out += "}\n";
  }
  return out;
}

}  // namespace opentrn::collectives
