// reduce_window over the last two dimensions at most: pooling. Everything else goes over partitions; each tap
// is one Vector instruction on a strided access of the band in SBUF.
#include <algorithm>
#include <limits>
#include <optional>

#include "compiler/analysis/device_type.h"
#include "compiler/analysis/graph_names.h"
#include "compiler/analysis/values.h"
#include "compiler/lowering/elementwise.h"
#include "compiler/lowering/exact_reduction.h"
#include "compiler/lowering/lowering.h"
#include "compiler/lowering/takes.h"
#include "compiler/lowering/window.h"

namespace opentrn::compiler {

namespace {

constexpr int64_t kWindowBandBytes = 24 * 1024;
// Of a partition, for a row of windows with what it is summed in.
constexpr int64_t kRowBytesMax = 96 * 1024;
// Each place of a window is an instruction; more of them are combined by doubling (expand/windows.cc).
constexpr int64_t kPlacesMax = 128;

std::optional<AluOp> alu_of_window(const graph::Function& function, const Op& op) {
  const auto combiner = combiner_of(function, op);
  if (!combiner) return std::nullopt;
  switch (*combiner) {
    case OpKind::add_: return AluOp::kAdd;
    case OpKind::maximum_: return AluOp::kMaximum;
    case OpKind::minimum_: return AluOp::kMinimum;
    case OpKind::multiply_: return AluOp::kMultiply;
    default: return std::nullopt;
  }
}

struct Shape {
  std::vector<int64_t> spatial;  // dimensions with a window; one or two
  std::vector<int64_t> others;
};

// Window attributes of one dimension.
Window window_of(const graph::Function& function, const Op& op, int64_t d) {
  const auto rank = static_cast<size_t>(function.type(op.operands[0]).rank());
  const auto at = [&](Attr attr) { return op.integers_or(attr, rank, 1)[static_cast<size_t>(d)]; };
  return {.input = function.type(op.operands[0]).dim(static_cast<int>(d)),
          .output = function.type(op.results[0]).dim(static_cast<int>(d)),
          .size = op.integers(Attr::window_dimensions)[static_cast<size_t>(d)],
          .stride = at(Attr::window_strides),
          .low = op.has(Attr::padding) ? op.matrix(Attr::padding).at(d, 0) : 0,
          .base_dilation = at(Attr::base_dilations),
          .window_dilation = at(Attr::window_dilations)};
}

bool is_plain(const Window& w) {
  return w.size == 1 && w.stride == 1 && w.low == 0 && w.base_dilation == 1 && w.input == w.output;
}

Shape shape_of(const graph::Function& function, const Op& op) {
  Shape shape;
  for (int64_t d = 0; d < function.type(op.operands[0]).rank(); ++d)
    (is_plain(window_of(function, op, d)) ? shape.others : shape.spatial).push_back(d);
  return shape;
}

bool takes_reduce_window(const graph::Function& function, const Op& op) {
  if (op.kind != OpKind::reduce_window_ || op.results.size() != 1 || !alu_of_window(function, op))
    return false;
  const auto element = function.type(op.operands[0]).element();
  if (graph::is_bool(element) || !device_dtype(element) || !splat_of(function, op.operands[1])) return false;
  const Shape shape = shape_of(function, op);
  if (shape.spatial.size() > 2) return false;
  int64_t places = 1, row_elements = 0, band_elements = 1;
  for (size_t i = 0; i < shape.spatial.size(); ++i) {
    const Window window = window_of(function, op, shape.spatial[i]);
    const bool across = i + 1 == shape.spatial.size();
    places *= window.size;
    band_elements *= window.extent(across ? window.output : 1);
    if (across) row_elements = window.output;
  }
  return places <= kPlacesMax && (band_elements + 3 * row_elements) * 4 <= kRowBytesMax;
}

struct Combining {
  AluOp alu;
  DType dtype;
  std::optional<double> initial;  // where it changes something
};

// Tiles of one size, one after another.
class Combined {
 public:
  Combined(Emitter& emitter, const Combining& how, int64_t rows, int64_t columns)
      : emitter_(emitter), how_(how), rows_(rows), columns_(columns) {}

  void start() {
    total_ = fresh();
    emitter_.memset(*total_, *how_.initial);
  }
  void add(const Tile& next) {
    if (!total_) {
      total_ = next;
      return;
    }
    const Tile made = fresh();
    emitter_.tensor_tensor(how_.alu, made, *total_, next);
    total_ = made;
    is_made_ = true;
  }
  // In a tile of its own, without gaps.
  Tile take() {
    if (!is_made_) {
      const Tile made = fresh();
      emitter_.tensor_copy(made, *total_);
      total_ = made;
    }
    return *total_;
  }

 private:
  Tile fresh() { return emitter_.sbuf(rows_, columns_, how_.dtype, "pool"); }

  Emitter& emitter_;
  const Combining& how_;
  int64_t rows_, columns_;
  std::optional<Tile> total_;
  bool is_made_ = false;
};

// Of `rows` rows of windows. A window's columns first, for all rows of the band, then its rows, where that is
// less than every place of it by itself.
Tile combined(Emitter& emitter, const Combining& how, const Band& band, const Window (&windows)[2],
              int64_t rows) {
  const int64_t width = windows[1].output, count = band.tile.rows;
  const int64_t places = windows[0].size * windows[1].size;
  const int64_t by_parts = band.height * (windows[1].size - 1) + rows * (windows[0].size - 1);
  Combined all(emitter, how, count, rows * width);
  if (how.initial) all.start();
  if (windows[0].size == 1 || windows[1].size == 1 || by_parts >= rows * (places - 1)) {
    for (int64_t y = 0; y < windows[0].size; ++y)
      for (int64_t x = 0; x < windows[1].size; ++x)
        all.add(tap(band, windows[0], windows[1], y, x, 0, rows, 0, width));
    return all.take();
  }
  const Combining parts{how.alu, how.dtype, std::nullopt};
  const Window each_row{.input = band.height, .output = band.height},
      each_column{.input = width, .output = width};
  Combined across(emitter, parts, count, band.height * width);
  for (int64_t x = 0; x < windows[1].size; ++x)
    across.add(tap(band, each_row, windows[1], 0, x, 0, band.height, 0, width));
  const Band narrow{across.take(), width, band.height};
  for (int64_t y = 0; y < windows[0].size; ++y)
    all.add(tap(narrow, windows[0], each_column, y, 0, 0, rows, 0, width));
  return all.take();
}

}  // namespace

bool has_reduce_window(const graph::Function& function, const Op& op) {
  return takes_reduce_window(function, op);
}

bool lower_reduce_window(Lowering& lowering, const Op& op) {
  const graph::Function& function = lowering.function();
  if (!takes_reduce_window(function, op)) return false;
  Emitter& emitter = lowering.emitter();
  const AluOp alu = *alu_of_window(function, op);
  const double initial = *splat_of(function, op.operands[1]);
  const graph::ElementType element = function.type(op.operands[0]).element();
  const bool is_float = graph::is_float(element);
  const DType total_type = is_float ? DType::kFloat32 : wide_integer(element);
  const Shape shape = shape_of(function, op);
  const View in = lowering.view(op.operands[0]), out = lowering.allocate(op.results[0]);
  if (out.element_count() == 0) return true;
  Window windows[2];
  std::vector<isa::Dim> in_space(2, {0, 1}), out_space(2, {0, 1}), in_others, out_others;
  for (size_t i = 0; i < shape.spatial.size(); ++i) {
    const size_t at = i + 2 - shape.spatial.size();
    windows[at] = window_of(function, op, shape.spatial[i]);
    in_space[at] = in.dims[shape.spatial[i]];
    out_space[at] = out.dims[shape.spatial[i]];
  }
  for (const int64_t d : shape.others) {
    in_others.push_back(in.dims[d]);
    out_others.push_back(out.dims[d]);
  }
  // Channels must be one stride; the rest of them is walked image by image.
  const Matrix result(out, out_others, out_space);
  View merged{in.tensor, in.dtype, in.offset, in_others};
  merged = merged.merged();
  const isa::Dim channels = merged.dims.empty() ? isa::Dim{0, 1} : merged.dims.back();
  int64_t images = 1;
  for (size_t i = 0; i + 1 < merged.dims.size(); ++i) images *= merged.dims[i].count;
  const DType band_type = is_float ? in.dtype : total_type;
  const int64_t band_size = band_rows(windows[0], windows[1], size_bytes(band_type), kWindowBandBytes);
  for (int64_t n = 0; n < images; ++n) {
    View image{in.tensor, in.dtype, in.offset, {channels, in_space[0], in_space[1]}};
    int64_t rest = n;
    for (size_t i = merged.dims.size(); i-- > 1;) {
      image.offset += rest % merged.dims[i - 1].count * merged.dims[i - 1].step;
      rest /= merged.dims[i - 1].count;
    }
    for (int64_t c = 0; c < channels.count; c += kPartitions)
      for (int64_t row = 0; row < windows[0].output; row += band_size) {
        const int64_t rows = std::min(band_size, windows[0].output - row), width = windows[1].output;
        const int64_t count = std::min(kPartitions, channels.count - c);
        View block = image;
        block.offset += c * image.dims[0].step;
        block.dims = {{image.dims[0].step, count}, {0, 1}, image.dims[1], image.dims[2]};
        const Band band = load_band(emitter, block, windows[0], windows[1], row, rows, initial, band_type);
        const bool changes_nothing = is_neutral(*combiner_of(function, op), element, initial);
        const Tile total =
            combined(emitter, {alu, total_type, changes_nothing ? std::nullopt : std::optional(initial)},
                     band, windows, rows);
        Tile rounded = total;
        if (!is_float) {
          rounded = narrow_integer(emitter, total, element);
        } else if (out.dtype != DType::kFloat32) {
          rounded = emitter.sbuf(count, rows * width, out.dtype, "pool");
          emitter.tensor_copy(rounded, total);
        }
        result.store(emitter, rounded, n * channels.count + c, row * width);
      }
  }
  return true;
}

}  // namespace opentrn::compiler
