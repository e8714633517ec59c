// What must hold of every platform, and what no algorithm can beat on one.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "fabric/platform.h"

namespace opentrn::fabric {

// One line for each thing that is not so; empty: the platform is sound.
//  * Every core reaches every other (of one unit, and of the next), over links that join up: the bytes that
//    enter a chip, a switch or an adapter leave it, but at the ends of the way.
//  * The way there and the way back have as many links between chips, and the same latency on them.
//  * The pair of cores that has a link (SENG) has it to a neighbour, each neighbour once.
//  * A step round a cycle loads no link between chips with more than its one transfer, in either direction,
//  nor
//    does a shift of all chips by one along a row.
std::vector<std::string> verify(const Platform& platform);

// The most bytes per second that can leave these cores' chips' parts of the network for those, by the
// smallest cut: HBM and DMA rings of the cores, links, adapters. No algorithm moves bytes from the first to
// the second faster.
int64_t min_cut_bytes_per_s(const Platform& platform, std::span<const int> from, std::span<const int> to);

// The most bytes per second of its own that each of these cores can send to all the others at once, by the
// cut that holds most of them back. An all-gather of B bytes per core takes B over this at least, and so does
// a reduce-scatter in which B is what each core keeps.
int64_t all_gather_bytes_per_s(const Platform& platform, std::span<const int> cores);

}  // namespace opentrn::fabric
