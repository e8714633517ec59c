// Where every tensor lies.
//
// SBUF and PSUM: tensors get byte ranges of the partitions by lifetime in program order. Three ways are
// tried, in this order:
//   1. rotate: the range that has been free for longest, never-used memory first, so that a writer rarely
//      waits for the readers of the previous tenant; long-lived tensors are kept together at the far end;
//      then the same with small tensors packed; then, in SBUF, with first fit around those tensors that find
//      no place otherwise; then with large and tiny tensors apart;
//   2. first fit: the lowest range that is free, which fragments less;
//   3. by size: the largest tensor first, each at its lowest offset free for its whole lifetime.
// In SBUF there is one way more, for who asks: large tensors rotate in a part of their own, all others in the
// rest.
// A tensor of up to 32 rows takes one quadrant of the partitions, up to 64 rows a half, as the engines'
// start-partition rule demands; which one, the matrix products that it takes part in have a say in
// (array_places.h). In PSUM a tensor stays inside one bank, or starts at a bank and takes
// whole ones; banks are not shared while enough are free.
// Tensors with an address stay there. HBM tensors are laid end to end.
#pragma once

#include <optional>
#include <vector>

#include "arch/arch.h"
#include "backend/lifetime.h"
#include "backend/options.h"
#include "isa/executable.h"

namespace opentrn::backend {

struct Allocation {
  std::vector<isa::Placement> placements;     // by TensorId
  bool sbuf_rotates = true;                   // placed by a way that rotates everywhere
  int64_t sbuf_bytes_per_partition_used = 0;  // live at once, at most
  int64_t psum_banks_used = 0;                // that hold something at once, at most
  int64_t hbm_bytes_used = 0;
};

// kCapacity (sbuf.capacity, psum.capacity) with a table of live tensors when they do not fit; kProgram
// (sbuf.overlap, psum.overlap) when two live tensors with given addresses share bytes.
// Nothing when only ways that rotate are wanted and they fail, or only the one with a part for large tensors.
// `products_ask`: whether a product may have a say in where tensors lie (survey.h).
enum class Ways : uint8_t { kAll, kRotating, kApart };
std::optional<Allocation> allocate(const isa::Program& program, const std::vector<Lifetime>& lifetimes,
                                   const Options& options, const arch::NeuronCore& core,
                                   Ways ways = Ways::kAll, bool products_ask = true);

// Throws what allocate() throws whichever way it tries: kProgram (<memory>.partitions, .address, .overlap),
// and those of ArrayPlaces, then kCapacity, unless the compiler `spills` (and moves rows), for more live at
// once than the memory has in the order that the program is written in. Places nothing, so it costs little
// beside executing the program.
void check_fits(const isa::Program& program, const arch::NeuronCore& core, bool spills);

}  // namespace opentrn::backend
