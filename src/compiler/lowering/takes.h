// What kernels take: all that the passes before may know of them.
#pragma once

#include <cstdint>
#include <optional>

#include "graph/module.h"

namespace opentrn::compiler {

// True when some kernel takes the op; for coverage reports, without lowering. Says nothing about the ops
// inside loops and branches, which are asked about themselves.
bool has_lowering(const graph::Function& function, const graph::Op& op);
// True when there is an element-wise body for this op on these element types (elementwise.h).
bool has_elementwise(const graph::Function& function, const graph::Op& op);
// A reduce_window that is a running sum, product or extreme of floats: along one dimension, from its first
// element on or up to its last.
struct RunningForm {
  int64_t dimension = 0, length = 0;
  bool is_backward = false;
};
std::optional<RunningForm> running_form_of(const graph::Function& function, const graph::Op& op);
// Of a row that the kernel of running sums (scan.cc) takes: longer ones are cut (expand/running.cc).
inline constexpr int64_t kScanColumns = 8192;
bool has_scan(const graph::Function& function, const graph::Op& op);
// True when the kernel of windows (reduce_window.cc) takes the op.
bool has_reduce_window(const graph::Function& function, const graph::Op& op);
// True when the kernel of largest elements (top_k.cc) takes the chlo.top_k: so many columns, and so many of
// them.
inline constexpr int64_t kTopKColumns = 4096, kTopKMost = 64;
bool has_top_k(const graph::Function& function, const graph::Op& op);
// Elements of a matrix that lies in one partition: with what a step needs for itself, four of them fit.
inline constexpr int64_t kSmallMatrixElements = 5184;
// True when the kernels of small matrices (small_lu.cc, small_factors.cc, small_qr.cc) take the
// decomposition: larger ones are taken apart (expand/linear_algebra.cc, expand/lu.cc, expand/qr.cc).
bool has_small_lu(const graph::Function& function, const graph::Op& op);
bool has_small_factors(const graph::Function& function, const graph::Op& op);
bool has_small_qr(const graph::Function& function, const graph::Op& op);
inline constexpr int64_t kSmallMatrixRows = 64;  // of what is taken apart
// True for a reduce that a row-wise group can hold: one operand, a known combiner, a known start.
bool is_reduction(const graph::Function& function, const graph::Op& op);
// True when the kernel of summed rows (scatter_sums.cc) takes the scatter.
bool has_scatter_sums(const graph::Function& function, const graph::Op& op);
// True when it would, were the whole numbers that are summed of fp32.
bool has_whole_row_sums(const graph::Function& function, const graph::Op& op);
// Columns of a reduction of integers or booleans, which is done by halves and needs all of them at once.
inline constexpr int64_t kExactReductionColumns = 8192;

// Bytes of a partition: the smallest part of a convolution's kernel that must lie in SBUF at once.
int64_t convolution_kernel_bytes(const graph::Function& function, const graph::Op& op);

// Of a scatter: windows that are unrolled, and elements of one. Longer ones become a loop.
inline constexpr int64_t kScatterWindowsMax = 4096;
inline constexpr int64_t kScatterWindowElementsMax = 8192;

// Of an iota that is written out as a constant of the program, at most: 256 MiB of 32 bits.
inline constexpr int64_t kWrittenIotaElements = int64_t{1} << 26;

}  // namespace opentrn::compiler
