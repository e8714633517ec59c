// Generations of which too little is public for a time: what stands in, and what the user has to state.
//
// Of NeuronCore-v1 AWS publishes peak rates only. Its instructions, the rules of their operands and their
// cycles are taken to be NeuronCore-v2's; memories and clocks come from the user (--set), and every time says
// so.
#pragma once

#include <string>
#include <vector>

#include "arch/tables.h"

namespace opentrn::arch {

// The generation whose instruction set, rules of operands and compiled programs hold on `generation`: itself,
// except where nothing about them is public.
Generation stand_in(Generation generation);

// Keys of the values that a predicted time needs and that nobody has stated.
std::vector<std::string> unstated(const Tables& tables, Generation generation);
// kUnspecified with all of them.
void expect_stated(const Tables& tables, Generation generation);

// What a time rests on beside the tables' facts, a sentence each.
std::vector<std::string> assumptions(const Tables& tables, Generation generation);

// Whether a NeuronCore has this engine. DMA is always triggered by a sequencer of its own, "sync".
bool has_engine(const TimingTable& table, std::string_view engine);

}  // namespace opentrn::arch
