// Rows of a View as fp32 and back: the two ends of every arithmetic instruction.
//
// A row is what one partition holds. fp32 rows without gaps are used in place, everything else goes
// through scratch. Element-wise bodies work on blocks of rows small enough for the first-level cache.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <functional>

#include "numerics/alu.h"
#include "numerics/convert.h"
#include "sim/functional/context.h"
#include "sim/functional/producer.h"

namespace opentrn::sim {

// Elements of a block: a few of them in fp32 fit the first-level cache.
inline constexpr int64_t kBlockElements = 2048;

inline bool is_plain_float(DType dtype, const std::byte* at, int64_t stride) {
  return dtype == DType::kFloat32 && stride == 4 && (reinterpret_cast<uintptr_t>(at) & 3) == 0;
}

// Runs of fewer elements, as the halves of a merging network have them, are moved here: a call costs more.
inline constexpr int64_t kShortRun = 32;

// Elements as they are, `from_stride` and `to_stride` bytes apart.
template <typename Word>
void move_words(const std::byte* from, int64_t from_stride, std::byte* to, int64_t to_stride, int64_t n) {
  for (int64_t i = 0; i < n; ++i) std::memcpy(to + i * to_stride, from + i * from_stride, sizeof(Word));
}

inline void load_run(DType dtype, const std::byte* at, int64_t element_stride, float* out, int64_t n) {
  if (dtype == DType::kFloat32 && n < kShortRun)
    return move_words<float>(at, element_stride * 4, reinterpret_cast<std::byte*>(out), 4, n);
  if (element_stride == 1)
    numerics::load_f32(dtype, at, out, static_cast<size_t>(n));
  else
    numerics::load_f32_strided(dtype, at, element_stride, out, static_cast<size_t>(n));
}

inline void store_run(DType dtype, const float* in, std::byte* at, int64_t element_stride, int64_t n,
                      const numerics::Rounding& rounding = {}) {
  if (dtype == DType::kFloat32 && n < kShortRun)
    return move_words<float>(reinterpret_cast<const std::byte*>(in), 4, at, element_stride * 4, n);
  if (element_stride == 1)
    numerics::store_f32(dtype, in, at, static_cast<size_t>(n), rounding);
  else
    numerics::store_f32_strided(dtype, in, at, element_stride, static_cast<size_t>(n), rounding);
}

// Whether a row is a grid of fp32 whose runs are short, as the rounds of rotations and of merging networks
// have them.
inline bool is_fine_grid(const View& view) {
  return view.free_rank == 2 && view.dtype == DType::kFloat32 && view.free[1].count < kShortRun;
}

// run(address, count, stride) over the runs of a fine grid: what does not depend on the run stands outside of
// its loop.
template <typename Run>
void for_grid_runs(const View& view, int64_t p, Run&& run) {
  std::byte* at = view.row(p);
  const ByteDim outer = view.free[0], inner = view.free[1];
  for (int64_t i = 0; i < outer.count; ++i, at += outer.stride) run(at, inner.count, inner.stride);
}

inline void load_grid(const View& view, int64_t p, float* out) {
  const auto each = [&]<typename Copy>(Copy copy) {
    for_grid_runs(view, p, [&](const std::byte* at, int64_t n, int64_t stride) {
      copy(at, n, stride);
      out += n;
    });
  };
  switch (view.free[1].stride) {
    case 4:
      return each([&](const std::byte* at, int64_t n, int64_t) {
        for (int64_t i = 0; i < n; ++i) std::memcpy(out + i, at + i * 4, 4);
      });
    case 0:
      return each([&](const std::byte* at, int64_t n, int64_t) {
        float value;
        std::memcpy(&value, at, 4);
        for (int64_t i = 0; i < n; ++i) out[i] = value;
      });
    default:
      return each([&](const std::byte* at, int64_t n, int64_t stride) {
        move_words<float>(at, stride, reinterpret_cast<std::byte*>(out), 4, n);
      });
  }
}

// Row p as fp32: in place, or in `scratch`, which holds view.elements floats.
inline const float* load_row(const View& view, int64_t p, float* scratch) {
  if (view.free_rank <= 1) {
    const std::byte* at = view.row(p);
    const int64_t stride = view.free_stride();
    if (is_plain_float(view.dtype, at, stride)) return reinterpret_cast<const float*>(at);
    load_run(view.dtype, at, stride / view.element_bytes, scratch, view.elements);
    return scratch;
  }
  if (is_fine_grid(view)) {
    load_grid(view, p, scratch);
    return scratch;
  }
  float* out = scratch;
  for_runs_of_partition(view, p, [&](std::byte* at, int64_t n, int64_t stride) {
    load_run(view.dtype, at, stride / view.element_bytes, out, n);
    out += n;
  });
  return scratch;
}

inline void store_row(const View& view, int64_t p, const float* row) {
  if (is_fine_grid(view)) {  // fp32 stays as it is
    for_grid_runs(view, p, [&](std::byte* at, int64_t n, int64_t stride) {
      move_words<float>(reinterpret_cast<const std::byte*>(row), 4, at, stride, n);
      row += n;
    });
    return;
  }
  int64_t position = p * view.elements;
  for_runs_of_partition(view, p, [&](std::byte* at, int64_t n, int64_t stride) {
    if (reinterpret_cast<const float*>(at) != row)
      store_run(view.dtype, row, at, stride / view.element_bytes, n, view.rounding_from(position));
    row += n;
    position += n;
  });
}

// Where to compute row p: in place when it is plain fp32, else `scratch`. store_row() then does what is left.
inline float* target_row(const View& view, int64_t p, float* scratch) {
  if (view.free_rank > 1 || !is_plain_float(view.dtype, view.row(p), view.free_stride())) return scratch;
  return reinterpret_cast<float*>(view.row(p));
}

using numerics::FloatRows;
using numerics::MutableFloatRows;

// Whether the rows from p on can be used as FloatRows in place.
inline bool is_float_rows(const View& view, int64_t p) {
  return view.free_rank <= 1 && is_plain_float(view.dtype, view.row(p), view.free_stride()) &&
         view.partition_stride >= 0 && view.partition_stride % 4 == 0;
}

// Rows [p, p + rows): in place, or in `scratch`, which holds rows * view.elements floats.
inline FloatRows load_rows(const View& view, int64_t p, int64_t rows, float* scratch) {
  if (is_float_rows(view, p))
    return {reinterpret_cast<const float*>(view.row(p)), static_cast<size_t>(view.partition_stride / 4)};
  const int64_t n = view.elements;
  for (int64_t i = 0; i < rows; ++i) {
    float* const to = scratch + i * n;
    const float* row = load_row(view, p + i, to);
    if (row != to) std::copy_n(row, n, to);
  }
  return {scratch, static_cast<size_t>(n)};
}

// Integer rows.
inline void load_row_i64(const View& view, int64_t p, int64_t* out) {
  for_runs_of_partition(view, p, [&](std::byte* at, int64_t n, int64_t stride) {
    numerics::load_i64(view.dtype, at, stride / view.element_bytes, out, static_cast<size_t>(n));
    out += n;
  });
}

inline void store_row_i64(const View& view, int64_t p, const int64_t* row) {
  for_runs_of_partition(view, p, [&](std::byte* at, int64_t n, int64_t stride) {
    numerics::store_i64(view.dtype, row, at, stride / view.element_bytes, static_cast<size_t>(n));
    row += n;
  });
}

// What an element-wise body computes at a time: `rows` rows of n elements, of partition `row` and those after
// it, or all of that one.
template <size_t N>
struct Block {
  int64_t row, rows, n;
  std::array<FloatRows, N> in;
  MutableFloatRows out;
  bool one_partition = false;
  std::array<bool, N> one_a_row{};  // of `in`: one number for all of a row, in bodies that take such

  int64_t partition(int64_t r) const { return one_partition ? row : row + r; }
  numerics::RowScalars scalars(const PerPartition& operand) const {
    numerics::RowScalars scalars = operand.from(row);
    if (one_partition) scalars.step = 0;
    return scalars;
  }
};

// The body of a block from one of a row: body(p, in[], out, n).
template <size_t N, typename Body>
auto row_by_row(Body body) {
  return [body](const Block<N>& block) {
    std::array<const float*, N> in;
    for (int64_t r = 0; r < block.rows; ++r) {
      for (size_t i = 0; i < N; ++i) in[i] = block.in[i].data + r * static_cast<int64_t>(block.in[i].pitch);
      body(block.partition(r), in.data(), block.out.data + r * static_cast<int64_t>(block.out.pitch),
           block.n);
    }
  };
}

// Whether elements can be taken by their number within a row.
inline bool is_sliceable(const View& view) { return view.free_rank <= 1 && view.table == nullptr; }

// `rows` rows from row p of the view on, elements [first, first + n) of each, where they lie as fp32 without
// gaps; else null.
inline float* plain_rows(const View& view, int64_t p, int64_t rows, int64_t first, size_t* pitch) {
  const int64_t stride = view.free_stride();
  std::byte* const at = view.row(p) + first * stride;
  if (!is_plain_float(view.dtype, at, stride)) return nullptr;
  if (rows > 1 && (view.partition_stride < 0 || view.partition_stride % 4 != 0)) return nullptr;
  *pitch = rows > 1 ? static_cast<size_t>(view.partition_stride / 4) : 0;
  return reinterpret_cast<float*>(at);
}

// The sources of an element-wise instruction. Row 0 of the views is partition `origin`; a source that has a
// producer is not read.
template <size_t N>
struct Sources {
  std::array<const View*, N> views;
  std::array<const Producer*, N> producers{};
  int64_t origin = 0;

  // Elements of source i as fp32: in place, or in scratch.
  FloatRows load(size_t i, const Rect& rect, ScratchScope& scope) const {
    const View& view = *views[i];
    const int64_t p = rect.row - origin;
    FloatRows rows{};
    if (producers[i] == nullptr) {
      rows.data = plain_rows(view, p, rect.rows, rect.first, &rows.pitch);
      if (rows.data != nullptr) return rows;
    }
    float* const to = scope.floats(rect.rows * rect.n);
    rows = {to, static_cast<size_t>(rect.n)};
    if (producers[i] != nullptr) {
      (*producers[i])(rect, to, rect.n);
      return rows;
    }
    const int64_t stride = view.free_stride();
    for (int64_t r = 0; r < rect.rows; ++r)
      load_run(view.dtype, view.row(p + r) + rect.first * stride, stride / view.element_bytes,
               to + r * rect.n, rect.n);
    return rows;
  }

  template <typename Body>
  void compute(const Rect& rect, MutableFloatRows out, Body&& body) const {
    ScratchScope scope;
    Block<N> block{rect.row, rect.rows, rect.n, {}, out};
    for (size_t i = 0; i < N; ++i) block.in[i] = load(i, rect, scope);
    body(block);
  }
};

// The runs of a view's rows, as windows of images have them, where they are fp32 of `length` elements each or
// rows without gaps; `length` is 0 before the first view that has runs. False for other views.
inline bool has_float_runs(const View& view, bool is_source, int64_t& length) {
  if (view.table != nullptr || view.free_rank > 2 || view.partition_stride % 4 != 0) return false;
  if (view.free_rank < 2) return is_plain_float(view.dtype, view.base, view.free_stride());
  const ByteDim outer = view.free[0], inner = view.free[1];
  const int64_t apart = is_source ? 0 : inner.count * 4;
  if (!is_plain_float(view.dtype, view.base, inner.stride) || outer.stride % 4 != 0 || outer.stride < apart)
    return false;
  if (length == 0) length = inner.count;
  return length == inner.count;
}

// One number of fp32 for all of a run.
inline bool has_one_a_run(const View& view, int64_t& length) {
  if (view.table != nullptr || view.free_rank != 2 || view.partition_stride % 4 != 0) return false;
  const ByteDim outer = view.free[0], inner = view.free[1];
  if (inner.stride != 0 || !is_plain_float(view.dtype, view.base, 4) || outer.stride % 4 != 0 ||
      outer.stride < 0)
    return false;
  if (length == 0) length = inner.count;
  return length == inner.count;
}

// What a body needs of blocks, and what it takes beyond rows.
struct BlockNeeds {
  bool whole_rows = false;
  bool takes_one_a_row = false;
};

// The work of for_blocks in jobs: blocks of a few rows, or pieces of a row.
template <size_t N>
class Blocks {
 public:
  Blocks(const Sources<N>& sources, const View& destination, bool by_partition, BlockNeeds needs = {})
      : sources_(sources), destination_(destination) {
    bool dense = destination.dense();
    for (size_t i = 0; i < N; ++i) {
      sliceable_ = sliceable_ && is_sliceable(*sources.views[i]);
      dense = dense && sources.views[i]->dense() && sources.producers[i] == nullptr;
    }
    if (dense && !by_partition) {
      elements_ *= rows_;
      rows_ = 1;
    }
    if (!sliceable_ && !needs.whole_rows) run_ = common_run(needs.takes_one_a_row);
    block_ = sliceable_ && !needs.whole_rows ? std::min(elements_, kBlockElements) : elements_;
    // A body may go over its rows several times, so rows that are written over each other come one by one.
    const bool several = sliceable_ && (rows_ == 1 || rows_are_apart());
    block_rows_ = several ? std::clamp<int64_t>(kBlockElements / std::max<int64_t>(block_, 1), 1, rows_) : 1;
    per_row_ = (elements_ + block_ - 1) / block_;
  }
  int64_t jobs() const { return (rows_ + block_rows_ - 1) / block_rows_ * per_row_; }

  // Jobs [begin, end).
  template <typename Body>
  void run(int64_t begin, int64_t end, Body&& body) const {
    if (runs_of_partitions(end - begin)) return run_grids(begin, end, body);
    for (int64_t job = begin; job < end; ++job) {
      const int64_t group = per_row_ == 1 ? job : job / per_row_;
      const int64_t p = group * block_rows_, first = (job - group * per_row_) * block_;
      const int64_t rows = std::min(block_rows_, rows_ - p), n = std::min(block_, elements_ - first);
      if (sliceable_)
        run_block(p, {sources_.origin + p, rows, first, n}, body);
      else if (run_ > 0)
        run_grid(p, body);
      else
        run_row(p, body);
    }
  }

 private:
  bool rows_are_apart() const {
    return destination_.partition_stride >= destination_.elements * destination_.element_bytes ||
           !destination_.free_contiguous();
  }

  template <typename Body>
  void run_block(int64_t p, const Rect& rect, Body&& body) const {
    MutableFloatRows out{};
    out.data = plain_rows(destination_, p, rect.rows, rect.first, &out.pitch);
    if (out.data != nullptr) return sources_.compute(rect, out, body);
    ScratchScope scope;
    out = {scope.floats(rect.rows * rect.n), static_cast<size_t>(rect.n)};
    sources_.compute(rect, out, body);
    const int64_t stride = destination_.free_stride();
    for (int64_t r = 0; r < rect.rows; ++r)
      store_run(destination_.dtype, out.data + r * rect.n, destination_.row(p + r) + rect.first * stride,
                stride / destination_.element_bytes, rect.n,
                destination_.rounding_from((p + r) * destination_.elements + rect.first));
  }

  // The length of the runs that all rows have; 0 if there is none. One source may have one number for each.
  int64_t common_run(bool takes_one_a_row) {
    int64_t length = 0;
    bool all = has_float_runs(destination_, false, length);
    for (size_t i = 0; i < N && all; ++i) {
      const View& view = *sources_.views[i];
      one_a_row_[i] = takes_one_a_row && has_one_a_run(view, length);
      takes_one_a_row &= !one_a_row_[i];
      all = sources_.producers[i] == nullptr && (one_a_row_[i] || has_float_runs(view, true, length));
    }
    return all ? length : 0;
  }

  // Whether there are fewer runs in a row than rows: then blocks of one run of many rows are longer.
  bool runs_of_partitions(int64_t rows) const {
    if (run_ == 0 || elements_ / run_ >= rows) return false;
    const int64_t row = elements_ / run_ * static_cast<int64_t>(runs_of(destination_, 0, 0).pitch) * 4;
    return destination_.partition_stride >= row &&
           std::ranges::all_of(sources_.views, [](const View* view) { return view->partition_stride >= 0; });
  }

  // Rows [begin, end), a run of several of them at a time.
  template <typename Body>
  void run_grids(int64_t begin, int64_t end, Body&& body) const {
    const int64_t runs = elements_ / run_, group = std::max<int64_t>(kBlockElements / run_, 1);
    const auto rows_of = [](const View& view, MutableFloatRows first) {
      return MutableFloatRows{first.data, static_cast<size_t>(view.partition_stride / 4)};
    };
    for (int64_t p = begin; p < end; p += group)
      for (int64_t run = 0; run < runs; ++run) {
        Block<N> block{sources_.origin + p, std::min(group, end - p), run_, {}, {}, false, one_a_row_};
        for (size_t i = 0; i < N; ++i)
          block.in[i] = rows_of(*sources_.views[i], runs_of(*sources_.views[i], p, run));
        block.out = rows_of(destination_, runs_of(destination_, p, run));
        body(block);
      }
  }

  MutableFloatRows runs_of(const View& view, int64_t p, int64_t first) const {
    const int64_t stride = view.free_rank == 2 ? view.free[0].stride : run_ * 4;
    return {reinterpret_cast<float*>(view.row(p) + first * stride), static_cast<size_t>(stride / 4)};
  }

  // The runs of a row in place, as the rows of blocks.
  template <typename Body>
  void run_grid(int64_t p, Body&& body) const {
    const int64_t runs = elements_ / run_, group = std::max<int64_t>(kBlockElements / run_, 1);
    for (int64_t first = 0; first < runs; first += group) {
      Block<N> block{sources_.origin + p, std::min(group, runs - first), run_, {}, {}, true, one_a_row_};
      for (size_t i = 0; i < N; ++i) block.in[i] = runs_of(*sources_.views[i], p, first);
      block.out = runs_of(destination_, p, first);
      body(block);
    }
  }

  template <typename Body>
  void run_row(int64_t p, Body&& body) const {
    ScratchScope scope;
    Block<N> block{sources_.origin + p, 1, elements_, {}, {scope.floats(elements_), 0}};
    for (size_t i = 0; i < N; ++i) {
      if (sources_.producers[i] != nullptr)
        block.in[i] = sources_.load(i, {block.row, 1, 0, elements_}, scope);
      else
        block.in[i] = {load_row(*sources_.views[i], p, scope.floats(elements_)), 0};
    }
    body(block);
    store_row(destination_, p, block.out.data);
  }

  const Sources<N>& sources_;
  const View& destination_;
  int64_t rows_ = destination_.partitions;
  int64_t elements_ = destination_.elements;
  bool sliceable_ = is_sliceable(destination_);
  int64_t block_ = 0;       // elements
  int64_t block_rows_ = 0;  // of a block
  int64_t per_row_ = 0;     // blocks
  int64_t run_ = 0;         // elements, of rows in place that are grids
  std::array<bool, N> one_a_row_{};
};

// The parts of views from partition `begin` to `end`.
template <size_t N>
class Parts {
 public:
  Parts(const std::array<const View*, N>& whole, int64_t begin, int64_t end) {
    for (size_t i = 0; i < N; ++i) {
      parts_[i] = whole[i]->part(begin, end);
      views[i] = &parts_[i];
    }
  }
  std::array<const View*, N> views;

 private:
  std::array<View, N> parts_;
};

// What a deferred instruction does for a band of rows: rows(sources, destination, begin), with the parts of
// the views from partition `begin` on.
template <size_t N, typename Rows>
void defer_rows(const Context& cx, const std::array<const View*, N>& sources, const View& destination,
                Rows&& rows, const Producer* producer = nullptr) {
  const auto band = [&](int64_t begin, int64_t end) {
    const Parts<N> parts(sources, begin, end);
    rows(parts.views, destination.part(begin, end), begin);
  };
  cx.defer(destination, std::ref(band), producer);
}

template <size_t N>
std::array<const Producer*, N> producers_of(const Context& cx, const std::array<const View*, N>& sources) {
  std::array<const Producer*, N> producers;
  for (size_t i = 0; i < N; ++i) producers[i] = cx.producer(*sources[i]);
  return producers;
}

template <size_t N, typename Body>
void defer_blocks(const Context& cx, const std::array<const View*, N>& sources, const View& destination,
                  bool by_partition, Body&& body, BlockNeeds needs) {
  const std::array<const Producer*, N> producers = producers_of<N>(cx, sources);
  const auto produce = [&](const Rect& rect, float* out, int64_t pitch) {
    const Parts<N> parts(sources, rect.row, rect.row + rect.rows);
    Sources<N>{parts.views, producers, rect.row}.compute(rect, {out, static_cast<size_t>(pitch)}, body);
  };
  const Producer producer = std::ref(produce);
  bool produces = is_sliceable(destination) && destination.dtype == DType::kFloat32;
  for (const View* source : sources) produces = produces && is_sliceable(*source);
  defer_rows<N>(
      cx, sources, destination,
      [&](const std::array<const View*, N>& from, const View& to, int64_t p0) {
        const Sources<N> part{from, producers, p0};
        const Blocks<N> blocks(part, to, by_partition, needs);
        blocks.run(0, blocks.jobs(), body);
      },
      produces ? &producer : nullptr);
}

// body(block) computes some rows, or a part of a row, from N sources as fp32.
//
// `by_partition` says that the body looks at block.row. When it does not and all views are dense, the whole
// tile is one long row. A destination that visits an element twice stays on one thread, in order. `cost` is
// the time of an element in fp32 additions.
template <size_t N, typename Body>
void for_blocks(const Context& cx, const std::array<const View*, N>& sources, const View& destination,
                bool by_partition, Body&& body, int64_t cost = 2, BlockNeeds needs = {}) {
  if (cx.defers()) return defer_blocks<N>(cx, sources, destination, by_partition, body, needs);
  const Sources<N> whole{sources};
  const Blocks<N> blocks(whole, destination, by_partition, needs);
  const int64_t work = destination.repeats() ? 0 : destination.total() * cost;
  cx.parallel(blocks.jobs(), work, [&](int64_t begin, int64_t end) { blocks.run(begin, end, body); });
}

// The same over whole rows, for bodies that reduce them.
template <size_t N, typename Body>
void for_whole_rows(const Context& cx, const std::array<const View*, N>& sources, const View& destination,
                    Body&& body, int64_t cost = 2) {
  const Sources<N> whole{sources};
  const Blocks<N> blocks(whole, destination, true, {.whole_rows = true});
  const int64_t work = destination.repeats() ? 0 : destination.total() * cost;
  cx.parallel(blocks.jobs(), work, [&](int64_t begin, int64_t end) { blocks.run(begin, end, body); });
}

// body(p, in[], out, n) over whole rows, for reductions and scans.
template <size_t N, typename Body>
void for_rows(const Context& cx, const std::array<const View*, N>& sources, const View& destination,
              Body&& body, int64_t cost = 2) {
  const int64_t n = destination.elements;
  cx.parallel(destination.partitions, destination.repeats() ? 0 : destination.total() * cost,
              [&](int64_t begin, int64_t end) {
                ScratchScope scope;
                std::array<float*, N> scratch;
                for (size_t i = 0; i < N; ++i) scratch[i] = scope.floats(sources[i]->elements);
                float* const out_scratch = scope.floats(n);
                std::array<const float*, N> in;
                for (int64_t p = begin; p < end; ++p) {
                  for (size_t i = 0; i < N; ++i) in[i] = load_row(*sources[i], p, scratch[i]);
                  float* out = target_row(destination, p, out_scratch);
                  body(p, in.data(), out, n);
                  store_row(destination, p, out);
                }
              });
}

// body(p, in[], out) over whole integer rows.
template <size_t N, typename Body>
void for_rows_i64(const Context& cx, const std::array<const View*, N>& sources, const View& destination,
                  Body&& body) {
  const auto run = [&](const std::array<const View*, N>& from, const View& to, int64_t p0, int64_t begin,
                       int64_t end) {
    ScratchScope scope;
    std::array<int64_t*, N> in;
    for (size_t i = 0; i < N; ++i) in[i] = scope.array<int64_t>(from[i]->elements);
    int64_t* out = scope.array<int64_t>(to.elements);
    for (int64_t p = begin; p < end; ++p) {
      for (size_t i = 0; i < N; ++i) load_row_i64(*from[i], p, in[i]);
      body(p0 + p, in, out);
      store_row_i64(to, p, out);
    }
  };
  if (cx.defers()) {
    defer_rows<N>(cx, sources, destination,
                  [&](const std::array<const View*, N>& from, const View& to, int64_t p0) {
                    run(from, to, p0, 0, to.partitions);
                  });
    return;
  }
  cx.parallel(destination.partitions, destination.repeats() ? 0 : destination.total() * 3,
              [&](int64_t begin, int64_t end) { run(sources, destination, 0, begin, end); });
}

// Whether the elements of row p, of integers, are not zero.
inline void load_row_truth(const View& view, int64_t p, uint8_t* out) {
  const auto load = [&]<typename Word>(Word) {
    for_runs_of_partition(view, p, [&](const std::byte* at, int64_t n, int64_t stride) {
      for (int64_t i = 0; i < n; ++i) {
        Word word;
        std::memcpy(&word, at + i * stride, sizeof word);
        out[i] = word != 0;
      }
      out += n;
    });
  };
  switch (view.element_bytes) {
    case 1: return load(uint8_t{});
    case 2: return load(uint16_t{});
    case 4: return load(uint32_t{});
    default: return load(uint64_t{});
  }
}

template <typename Word>
Word* plain_words(const View& view, int64_t p) {
  constexpr size_t kBytes = sizeof(Word);
  std::byte* const at = view.row(p);
  const bool is_plain = view.free_rank <= 1 && view.free_stride() == kBytes &&
                        (reinterpret_cast<uintptr_t>(at) & (kBytes - 1)) == 0;
  return is_plain ? reinterpret_cast<Word*>(at) : nullptr;
}

template <typename Word>
void copy_words(const std::byte* from, int64_t from_stride, std::byte* to, int64_t to_stride, int64_t n) {
  constexpr int64_t kBytes = sizeof(Word);
  const auto places =
      reinterpret_cast<intptr_t>(from) | reinterpret_cast<intptr_t>(to) | from_stride | to_stride;
  if (n < kShortRun || places % kBytes != 0) return move_words<Word>(from, from_stride, to, to_stride, n);
  numerics::copy_bits(kBytes, from, from_stride / kBytes, to, to_stride / kBytes, static_cast<size_t>(n));
}

// Row p of words: in place, or in `scratch`, which holds view.elements of them.
template <typename Word>
const Word* load_words(const View& view, int64_t p, Word* scratch) {
  if (const Word* words = plain_words<Word>(view, p)) return words;
  Word* out = scratch;
  for_runs_of_partition(view, p, [&](std::byte* at, int64_t n, int64_t stride) {
    copy_words<Word>(at, stride, reinterpret_cast<std::byte*>(out), sizeof(Word), n);
    out += n;
  });
  return scratch;
}

// body(p, in[], out) over whole rows of words, of 32 bits or of fewer; all views are of such types.
template <size_t N, typename Word = uint32_t, typename Body>
void for_word_rows(const Context& cx, const std::array<const View*, N>& sources, const View& destination,
                   Body&& body) {
  const auto run = [&](const std::array<const View*, N>& from, const View& to, int64_t p0, int64_t begin,
                       int64_t end) {
    ScratchScope scope;
    std::array<Word*, N> scratch;
    for (size_t i = 0; i < N; ++i) scratch[i] = scope.array<Word>(from[i]->elements);
    Word* const made = scope.array<Word>(to.elements);
    std::array<const Word*, N> in;
    for (int64_t p = begin; p < end; ++p) {
      for (size_t i = 0; i < N; ++i) in[i] = load_words<Word>(*from[i], p, scratch[i]);
      Word* const place = plain_words<Word>(to, p);
      body(p0 + p, in, place != nullptr ? place : made);
      if (place != nullptr) continue;
      const Word* row = made;
      for_runs_of_partition(to, p, [&](std::byte* at, int64_t n, int64_t stride) {
        copy_words<Word>(reinterpret_cast<const std::byte*>(row), sizeof(Word), at, stride, n);
        row += n;
      });
    }
  };
  if (cx.defers()) {
    defer_rows<N>(cx, sources, destination,
                  [&](const std::array<const View*, N>& from, const View& to, int64_t p0) {
                    run(from, to, p0, 0, to.partitions);
                  });
    return;
  }
  cx.parallel(destination.partitions, destination.repeats() ? 0 : destination.total(),
              [&](int64_t begin, int64_t end) { run(sources, destination, 0, begin, end); });
}

}  // namespace opentrn::sim
