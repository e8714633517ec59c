// Generations of which little is public: what stands in, and what a time rests on.
//
// Of NeuronCore-v1 AWS publishes peak rates only. Its instructions, the rules of their operands, their cycles
// and its memories are taken to be NeuronCore-v2's, at the rates that are published of v1
// (tables/timing_v1.toml, neuron_core.toml); every time says so.
#pragma once

#include <string>
#include <vector>

#include "arch/tables.h"

namespace opentrn::arch {

// The generation whose instruction set, rules of operands and compiled programs hold on `generation`: itself,
// except where nothing about them is public.
Generation stand_in(Generation generation);

// What a time rests on beside the tables' facts, a sentence each.
std::vector<std::string> assumptions(const Tables& tables, Generation generation);

// Whether a NeuronCore has this engine. DMA is always triggered by a sequencer of its own, "sync".
bool has_engine(const TimingTable& table, std::string_view engine);

}  // namespace opentrn::arch
