// A program that logical cores of two physical ones run, as one that their physical cores run.
//
// Device d of the program becomes the devices 2d and 2d + 1, which hold the same values. What logical cores
// exchange, their cores do: the first ones among themselves, and the second ones. partition() then cuts the
// program over the axis "core" of core_grid(), with the exchanges inside of a logical core that this takes.
#pragma once

#include <cstdint>
#include <optional>

#include "graph/module.h"
#include "spmd/cuts.h"

namespace opentrn::spmd {

inline constexpr int64_t kCoresOfPair = 2;

// The axes "device", of `devices`, and "core".
AxisGrid core_grid(int64_t devices);
// Of a core_grid(): those that the axis "core" became.
Axes core_axes(const AxisGrid& grid);

// `function` of `devices` devices, which is written anew for their cores.
void on_core_pairs(graph::Function& function, int64_t devices);

// Whether a logical core runs the op once, for both of its cores, which have the same operands: a kernel,
// which is written for one of them or for both together, or a call of the host.
bool is_once_of_logical_core(const graph::Op& op);

// Marks the exchanges whose groups are the devices 2d and 2d + 1 alone, in a function of the cores of logical
// ones: both read the HBM stack in which what each brings lies.
void mark_exchanges_inside(graph::Function& function, int64_t cores);
bool is_inside_logical_core(const graph::Op& op);

// Of a collective among logical cores: the bytes that one brings to it, however its cores share them out.
// nullopt of any other op.
std::optional<int64_t> bytes_of_logical_core(const graph::Op& op);

}  // namespace opentrn::spmd
