// What the time of a launch on several ranks is made of: the programs of their cores, and the collectives
// that they met at. As bytes, too, so that processes that share the ranks have all of it.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "nki/machine.h"
#include "nki/ranks.h"
#include "nki/ranks/collective.h"

namespace opentrn::nki {

struct RecordedCore {
  std::shared_ptr<isa::Program> program;
  std::vector<Machine::CollectiveMark> collectives;
};

struct RecordedRank {
  Generation generation = Generation::kV2;
  std::vector<RecordedCore> cores;
  std::map<isa::InstructionIndex, sim::TripCounts> trips;  // of the first core, where it was executed
  bool moves_rows = false;                                 // Machine::moves_rows()
};

struct RecordedLaunch {
  std::vector<RecordedRank> ranks;
  std::vector<CollectiveRecord> records;  // that the marks of the cores number
};

// Of the machines of a rank, whose programs it shares.
RecordedRank recorded(std::span<const std::shared_ptr<Machine>> cores);
// Of all ranks of this process's launch, by rank and core.
RecordedLaunch recorded_launch(std::span<const std::vector<std::shared_ptr<Machine>>> ranks);
// With what its marks need of `records`, which are those of its process.
std::vector<std::byte> encode(const RecordedRank& rank, std::span<const CollectiveRecord> records);
// The launch of ranks that encode() wrote, in whatever process: the n-th collective of the same group and
// core is the same one in all of them. Every process numbers them alike. Input faults "file.payload" for what
// is no such rank.
RecordedLaunch decode_launch(std::span<const std::span<const std::byte>> ranks);

}  // namespace opentrn::nki
