// What belongs to a tile of a row-wise group while it is computed.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "compiler/lowering/elementwise.h"
#include "compiler/lowering/joint_transfers.h"
#include "compiler/lowering/steps.h"

namespace opentrn::compiler {

struct TileInHand {
  int64_t column_begin = 0, column_count = 0;
  std::map<graph::ValueId, Term> terms;     // what its ops made
  std::map<graph::ValueId, Steps> waiting;  // for the next op
  std::map<JointTransfers::Key, Tile> loads;
  std::optional<Tile> words;           // in PSUM: room for one word of each element
  std::optional<graph::ValueId> word;  // that was put there last
};

}  // namespace opentrn::compiler
