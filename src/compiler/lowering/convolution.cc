// Convolution over one or two spatial dimensions, as products over shifted views of the images.
//
//   for each part: features whose kernel is held in SBUF     [input channels <= 128, taps x features]
//     for each panel: images, or a band of rows of one image
//       load the band: [input channels <= 128, images x padded rows x width], zeros where there is padding
//       for each block of results: PSUM = sum over taps and channel blocks of kernel[tap]^T band[tap]
//
// Nothing is copied per tap: a tap is a strided access of the band. Few input channels leave most of the
// Tensor engine's rows idle, so the rows of a window, or the taps of a window of one row, are then stacked
// over partitions, one copy of the band each. Where features are the innermost dimension of the result,
// positions go over partitions instead of features, so that stores are long runs.
//
// A depthwise convolution has no channels to sum over, which would leave the Tensor engine one row of 128.
// Its taps are multiplied and added by the Vector engine, each channel in its own partition.
#include <algorithm>
#include <map>
#include <optional>

#include "compiler/analysis/device_type.h"
#include "compiler/analysis/graph_names.h"
#include "compiler/lowering/lowering.h"
#include "compiler/lowering/rearrange.h"
#include "compiler/lowering/takes.h"
#include "compiler/lowering/tile_source.h"
#include "compiler/lowering/tiling.h"
#include "compiler/lowering/transposed_copy.h"
#include "compiler/lowering/window.h"

namespace opentrn::compiler {

namespace {

// Bytes of a partition for one band of all channel blocks, and of one of them; and for the kernels of a part.
constexpr int64_t kBandBytes = 32 * 1024;
constexpr int64_t kBandBlockBytes = 16 * 1024;
constexpr int64_t kKernelBytes = 48 * 1024;
// Input channels whose taps are stacked, and of which positions over partitions have a copy of the image with
// its rows in runs.
constexpr int64_t kFewChannels = 8;
constexpr int64_t kStackedTapsMin = 4;
// Channels and features of a kernel that is turned on the chip.
constexpr int64_t kTurnedSideMin = 16;

bool is_convolution_type(graph::ElementType element) {
  const auto dtype = device_dtype(element);
  return dtype == DType::kFloat32 || dtype == DType::kBFloat16 || dtype == DType::kFloat16;
}

bool takes_convolution(const graph::Function& function, const Op& op) {
  if (op.kind != OpKind::convolution_) return false;
  const auto spatial = op.integers(Attr::input_spatial_dimensions);
  if (spatial.empty() || spatial.size() > 2 || op.integer(Attr::batch_group_count) != 1) return false;
  for (const int64_t reversed : op.integers_or(Attr::window_reversal, spatial.size(), 0))
    if (reversed != 0) return false;
  const auto lhs = function.type(op.operands[0]).element();
  return is_convolution_type(lhs) && lhs == function.type(op.operands[1]).element() &&
         graph::is_float(function.type(op.results[0]).element()) &&
         device_dtype(function.type(op.results[0]).element());
}

// Which dimensions of the result go over partitions.
enum class Order : uint8_t {
  kFeaturesImages,  // features; columns are images and positions
  kImagesFeatures,  // images and features; columns are positions
  kPositions,       // images and positions; columns are features
  kOther,           // as kFeaturesImages, and no group's shape
};

// One kernel of its own for every channel.
bool is_depthwise(const graph::Function& function, const Op& op) {
  const int64_t groups = op.integer(Attr::feature_group_count);
  const graph::Type& kernel = function.type(op.operands[1]);
  return groups > 1 && kernel.dim(static_cast<int>(op.integer(Attr::kernel_input_feature_dimension))) == 1 &&
         kernel.dim(static_cast<int>(op.integer(Attr::kernel_output_feature_dimension))) == groups;
}

Order order_of(const graph::Function& function, const Op& op) {
  const int rank = function.type(op.results[0]).rank();
  const int64_t feature = op.integer(Attr::output_feature_dimension),
                batch = op.integer(Attr::output_batch_dimension);
  const auto spatial = op.integers(Attr::output_spatial_dimensions);
  if (!std::is_sorted(spatial.begin(), spatial.end())) return Order::kOther;
  if (feature == 0 && batch == 1) return Order::kFeaturesImages;
  if (batch == 0 && feature == 1) return Order::kImagesFeatures;
  if (batch == 0 && feature == rank - 1)
    return is_depthwise(function, op) ? Order::kOther : Order::kPositions;
  return Order::kOther;
}

// The rows of a window over partitions, each with the input channels.
bool stacks_rows(const graph::Function& function, const Op& op) {
  const auto spatial = op.integers(Attr::kernel_spatial_dimensions);
  if (spatial.size() != 2 || is_depthwise(function, op)) return false;
  const graph::Type& kernel = function.type(op.operands[1]);
  const int64_t rows = kernel.dim(static_cast<int>(spatial[0])),
                channels = kernel.dim(static_cast<int>(op.integer(Attr::kernel_input_feature_dimension)));
  if (order_of(function, op) == Order::kPositions && channels > kFewChannels) return false;
  return rows > 1 && rows * channels <= kPartitions && op.integers_or(Attr::lhs_dilation, 2, 1)[0] == 1;
}

// The taps of a window of one row over partitions, each with the input channels, in blocks of up to 128.
bool stacks_taps(const graph::Function& function, const Op& op) {
  const auto spatial = op.integers(Attr::kernel_spatial_dimensions);
  if (is_depthwise(function, op)) return false;
  const size_t rank = spatial.size();
  const graph::Type &kernel = function.type(op.operands[1]), &result = function.type(op.results[0]);
  const int64_t taps = kernel.dim(static_cast<int>(spatial[rank - 1])),
                channels = kernel.dim(static_cast<int>(op.integer(Attr::kernel_input_feature_dimension)));
  if (taps < kStackedTapsMin || channels == 0 || channels > kFewChannels) return false;
  if (op.integers_or(Attr::lhs_dilation, rank, 1)[rank - 1] != 1) return false;
  if (rank == 2 &&
      (kernel.dim(static_cast<int>(spatial[0])) != 1 || op.integers_or(Attr::window_strides, 2, 1)[0] != 1 ||
       op.integers_or(Attr::lhs_dilation, 2, 1)[0] != 1 ||
       (op.has(Attr::padding) &&
        (op.matrix(Attr::padding).at(0, 0) != 0 || op.matrix(Attr::padding).at(0, 1) != 0))))
    return false;
  const int64_t width = result.dim(static_cast<int>(op.integers(Attr::output_spatial_dimensions)[rank - 1]));
  return tiles(taps, kPartitions / channels) * width * size_bytes(*device_dtype(result.element())) <=
         kBandBytes;
}

// Neighbouring outputs: whole images, or rows of one image, or part of a row.
struct Positions {
  int64_t image, images, row, rows, column, columns;
};

// The image. Where rows are to be read whose pixels have all channels side by side, a copy of it: rows are
// read more than once, and by single elements that would take a descriptor each.
View rows_in_runs(Lowering& lowering, const Op& op) {
  const View image = lowering.view(op.operands[0]);
  const Order order = order_of(lowering.function(), op);
  const auto spatial = op.integers(Attr::input_spatial_dimensions);
  const auto batch = static_cast<size_t>(op.integer(Attr::input_batch_dimension)),
             feature = static_cast<size_t>(op.integer(Attr::input_feature_dimension));
  const bool channels_last = image.dims[feature].step == 1 && image.dims[feature].count > 1;
  const graph::Type& kernel = lowering.function().type(op.operands[1]);
  const bool pointwise = kernel.element_count() ==
                         kernel.dim(static_cast<int>(op.integer(Attr::kernel_input_feature_dimension))) *
                             kernel.dim(static_cast<int>(op.integer(Attr::kernel_output_feature_dimension)));
  const bool over_positions = order == Order::kPositions && !stacks_rows(lowering.function(), op);
  if (over_positions || order == Order::kOther || !channels_last || spatial.empty() ||
      (pointwise && lowering.emitter().residency().holds(image.tensor)))
    return image;
  std::vector<int64_t> shape{image.dims[batch].count, image.dims[feature].count};
  for (const int64_t d : spatial) shape.push_back(image.dims[static_cast<size_t>(d)].count);
  const View copy = lowering.emitter().hbm(shape, image.dtype, "image");
  View same = copy;
  same.dims[batch] = copy.dims[0];
  same.dims[feature] = copy.dims[1];
  for (size_t i = 0; i < spatial.size(); ++i) same.dims[static_cast<size_t>(spatial[i])] = copy.dims[i + 2];
  rearrange(lowering.emitter(), same, image);
  return same;
}

// The kernel. Where its channels are neighbours in memory (that of a gradient is transposed and reversed), a
// copy whose features are: channels go over partitions, and would be loaded element by element.
View features_in_runs(Lowering& lowering, const Op& op) {
  const View kernel = lowering.view(op.operands[1]);
  const auto channel = static_cast<size_t>(op.integer(Attr::kernel_input_feature_dimension)),
             feature = static_cast<size_t>(op.integer(Attr::kernel_output_feature_dimension));
  if (kernel.dims[channel].step != 1 || kernel.dims[feature].step == 1 ||
      is_depthwise(lowering.function(), op))
    return kernel;
  std::vector<size_t> order;
  for (size_t d = 0; d < kernel.dims.size(); ++d)
    if (d != channel && d != feature) order.push_back(d);
  order.insert(order.end(), {channel, feature});
  std::vector<int64_t> shape;
  for (const size_t d : order) shape.push_back(kernel.dims[d].count);
  const View copy = lowering.emitter().hbm(shape, kernel.dtype, "kernel");
  View transposed = kernel;
  transposed.tensor = copy.tensor;
  transposed.offset = copy.offset;
  for (size_t i = 0; i < order.size(); ++i) transposed.dims[order[i]].step = copy.dims[i].step;
  return copy_transposed(lowering.emitter(), transposed, kernel) ? transposed : kernel;
}

class Convolution : public TileSource {
 public:
  Convolution(Lowering& lowering, const Op& op)
      : emitter_(lowering.emitter()),
        image_(rows_in_runs(lowering, op)),
        kernel_(features_in_runs(lowering, op)),
        order_(order_of(lowering.function(), op)),
        depthwise_(is_depthwise(lowering.function(), op)),
        stacked_(stacks_rows(lowering.function(), op)),
        stacked_taps_(!stacked_ && stacks_taps(lowering.function(), op)) {
    const auto in = op.integers(Attr::input_spatial_dimensions),
               taps = op.integers(Attr::kernel_spatial_dimensions),
               out = op.integers(Attr::output_spatial_dimensions);
    const graph::Type& result = lowering.function().type(op.results[0]);
    const size_t rank = in.size();
    const auto strides = op.integers_or(Attr::window_strides, rank, 1),
               base = op.integers_or(Attr::lhs_dilation, rank, 1),
               dilation = op.integers_or(Attr::rhs_dilation, rank, 1);
    const graph::Attribute* padding = op.find(Attr::padding);
    for (size_t i = 0; i < rank; ++i) {
      windows_[i + 2 - rank] = {.input = image_.dims[in[i]].count,
                                .output = result.dim(static_cast<int>(out[i])),
                                .size = kernel_.dims[taps[i]].count,
                                .stride = strides[i],
                                .low = padding ? op.matrix(Attr::padding).at(static_cast<int64_t>(i), 0) : 0,
                                .base_dilation = base[i],
                                .window_dilation = dilation[i]};
      image_space_[i + 2 - rank] = image_.dims[in[i]];
      kernel_space_[i + 2 - rank] = kernel_.dims[taps[i]];
    }
    groups_ = op.integer(Attr::feature_group_count);
    images_ = image_.dims[op.integer(Attr::input_batch_dimension)];
    input_features_ = image_.dims[op.integer(Attr::input_feature_dimension)];
    kernel_in_ = kernel_.dims[op.integer(Attr::kernel_input_feature_dimension)];
    kernel_out_ = kernel_.dims[op.integer(Attr::kernel_output_feature_dimension)];
    group_features_ = depthwise_ ? kernel_out_.count : kernel_out_.count / groups_;
    if (!depthwise_ && !stacked_taps_) read_forwards();
    choose_sizes();
  }

  std::vector<std::vector<RowBlock>> parts() const override {
    std::vector<std::vector<RowBlock>> result;
    if (order_ == Order::kPositions) {
      for (const Positions& panel : panels_) {
        auto& part = result.emplace_back();
        for (const Positions& block : cut(panel, kPartitions)) part.push_back({first(block), size(block)});
      }
      return result;
    }
    const int64_t images = order_ == Order::kImagesFeatures ? images_.count : 1;
    for (int64_t f = 0; f < kernel_out_.count; f = next_features(f))
      for (int64_t image = 0; image < images; ++image) {
        auto& part = result.emplace_back();
        for (int64_t block = f; block < next_features(f); block += kPartitions)
          part.push_back(
              {image * kernel_out_.count + block, std::min(kPartitions, next_features(f) - block)});
      }
    return result;
  }

  std::vector<ColumnBlock> panels() const override {
    std::vector<ColumnBlock> result;
    if (order_ == Order::kPositions)
      for (int64_t f = 0; f < kernel_out_.count; f = next_features(f))
        result.push_back({f, next_features(f) - f});
    else
      for (const Positions& panel : panels_) result.push_back({first(panel), size(panel)});
    return result;
  }

  std::vector<ColumnBlock> tiles_of(const ColumnBlock& panel) const override {
    std::vector<ColumnBlock> result;
    if (order_ == Order::kPositions)
      for (int64_t c = 0; c < panel.count; c += kPsumBankColumns)
        result.push_back({panel.begin + c, std::min(kPsumBankColumns, panel.count - c)});
    else
      for (const Positions& block : cut(positions(panel.begin, panel.count), kPsumBankColumns))
        result.push_back({first(block), size(block)});
    return result;
  }

  bool keepable() const override { return order_ == Order::kFeaturesImages && groups_ == 1; }

  void begin_rows(const std::vector<RowBlock>& part) override {
    const RowBlock& front = part.front();
    if (order_ == Order::kPositions) {
      load_bands(positions(front.begin, part.back().begin + part.back().count - front.begin), 0);
      return;
    }
    const int64_t feature = front.begin % kernel_out_.count;
    image_move_ = front.begin / kernel_out_.count * images_.step;
    load_kernel(feature);
  }

  void begin_columns(const ColumnBlock& panel) override {
    if (order_ == Order::kPositions)
      load_kernel(panel.begin);
    else
      load_bands(positions(panel.begin, panel.count), part_begin_ / group_features_);
  }

  Tile sums(const RowBlock& rows, const ColumnBlock& columns) override {
    const bool over_positions = order_ == Order::kPositions;
    const Positions at =
        over_positions ? positions(rows.begin, rows.count) : positions(columns.begin, columns.count);
    const ColumnBlock features =
        over_positions ? columns : ColumnBlock{rows.begin % kernel_out_.count, rows.count};
    // Bands are of one group of features; over positions they follow the columns.
    if (over_positions && features.begin / group_features_ != band_group_)
      load_bands(band_, features.begin / group_features_);
    if (depthwise_) return products(rows, columns, at);
    const Tile sum = emitter_.psum(rows.count, columns.count, DType::kFloat32, "sum");
    const int64_t vertical = stacked_ ? 1 : windows_[0].size;
    bool accumulate = false;
    const int64_t across = stacked_taps_ ? 1 : windows_[1].size;
    for (int64_t y = 0; y < vertical; ++y)
      for (int64_t x = 0; x < across; ++x)
        for (size_t c = 0; c < bands_.size(); ++c) {
          const Tile seen = seen_by(bands_[c], row_window(), y, x, at);
          const Tile weights = kernel_of(c, y, x, features);
          emitter_.matmul(sum, over_positions ? seen : weights, over_positions ? weights : seen, accumulate);
          accumulate = true;
        }
    if (!accumulate) emitter_.memset(sum, 0.0);
    return sum;
  }

 private:
  // Of a block of channels, the weights of one place.
  Tile kernel_of(size_t block, int64_t y, int64_t x, const ColumnBlock& features) const {
    const auto at = [&](size_t i, int64_t tap) {
      return reversed_[i] ? kernel_space_[i].count - 1 - tap : tap;
    };
    const int64_t place = (stacked_ ? 0 : at(0, y)) * (stacked_taps_ ? 1 : kernel_space_[1].count) + at(1, x);
    const int64_t first = features.begin - part_begin_;
    if (!taps_lie_innermost())
      return kernels_[block].column_range(place * part_features_ + first, features.count);
    return kernels_[block].patch(place + first * loaded_taps(), 1, 0, features.count, loaded_taps());
  }

  Tile seen_by(const Band& band, const Window& vertical, int64_t y, int64_t x, const Positions& at) const {
    return tap(band, vertical, column_window(), y, x, at.row - band_.row, at.rows, at.column, at.columns,
               at.image - band_.image, at.images);
  }

  // Depthwise: each channel's taps times its own weights, added up in fp32.
  Tile products(const RowBlock& rows, const ColumnBlock& columns, const Positions& at) {
    const Tile sum = emitter_.sbuf(rows.count, columns.count, DType::kFloat32, "sum");
    for (int64_t y = 0; y < windows_[0].size; ++y)
      for (int64_t x = 0; x < windows_[1].size; ++x) {
        const Tile seen = seen_by(bands_[0], windows_[0], y, x, at);
        const Tile weight = kernels_[0].column_range(y * windows_[1].size + x, 1);
        if (y == 0 && x == 0)
          emitter_.tensor_scalar(AluOp::kMultiply, sum, seen, weight);
        else
          emitter_.scalar_tensor_tensor(AluOp::kMultiply, weight, AluOp::kAdd, sum, seen, sum);
      }
    if (windows_[0].size * windows_[1].size == 0) emitter_.memset(sum, 0.0);
    return sum;
  }

  void choose_sizes() {
    const int64_t element = size_bytes(image_.dtype), blocks = channel_blocks();
    const int64_t taps = stacked_taps_ ? 1 : windows_[0].size * windows_[1].size;
    const int64_t held = kKernelBytes / std::max<int64_t>(1, blocks * taps * element);
    part_limit_ = depthwise_ ? kPartitions : std::max(kPartitions, held / kPartitions * kPartitions);
    const int64_t limit = std::min(kBandBytes / blocks, kBandBlockBytes);
    panels_ = panels_within(limit);
    // Bands over positions are transposed on chip, which the estimate leaves out.
    if (depthwise_ || order_ == Order::kPositions || panels_.empty()) return;
    double best_ns = estimated_ns(panels_);
    for (const int64_t part : {2, 4}) {
      auto smaller = panels_within(limit / part);
      const double ns = estimated_ns(smaller);
      if (ns < best_ns) panels_ = std::move(smaller), best_ns = ns;
    }
  }

  // Of one channel, as it lies in SBUF.
  int64_t band_bytes(int64_t images, int64_t rows) const {
    return images * row_window().extent(rows) * column_window().extent(windows_[1].output) *
           size_bytes(image_.dtype);
  }

  // From when the first band may be loaded.
  double estimated_ns(const std::vector<Positions>& panels) const {
    const Generation generation = emitter_.generation();
    const double blocks = static_cast<double>(channel_blocks());
    const double steps =
        blocks * static_cast<double>(column_window().size * (stacked_ ? 1 : windows_[0].size));
    const double feature_blocks = static_cast<double>(tiles(kernel_out_.count, kPartitions));
    double loads = 0, products = 0;
    const auto load_ns = [&](const Positions& at) {
      return blocks * transfer_ns(generation, kPartitions, band_bytes(at.images, at.rows));
    };
    for (const Positions& panel : panels) {
      loads += load_ns(panel);
      for (const Positions& at : cut(panel, kPsumBankColumns))
        products += steps * feature_blocks * matmul_ns(generation, size(at), size_bytes(image_.dtype));
    }
    return streamed_ns(load_ns(panels.front()), loads, products);
  }

  std::vector<Positions> panels_within(int64_t limit) const {
    std::vector<Positions> panels;
    const int64_t count = order_ == Order::kImagesFeatures ? 1 : images_.count;
    const int64_t height = windows_[0].output;
    if (band_bytes(1, height) <= limit) {
      const int64_t together =
          std::clamp<int64_t>(limit / std::max<int64_t>(1, band_bytes(1, height)), 1, count);
      for (int64_t image = 0; image < count; image += together)
        panels.push_back({image, std::min(together, count - image), 0, height, 0, windows_[1].output});
      return panels;
    }
    int64_t rows = height;
    while (rows > 1 && band_bytes(1, rows) > limit) rows = (rows + 1) / 2;
    for (int64_t image = 0; image < count; ++image)
      for (int64_t row = 0; row < height; row += rows)
        panels.push_back({image, 1, row, std::min(rows, height - row), 0, windows_[1].output});
    return panels;
  }

  // The vertical window as the bands have it: stacked bands have one row per output row.
  Window row_window() const {
    if (!stacked_) return windows_[0];
    return {.input = windows_[0].output, .output = windows_[0].output};
  }

  // Likewise the horizontal one: stacked taps have one column per output.
  Window column_window() const {
    if (!stacked_taps_) return windows_[1];
    return {.input = windows_[1].output, .output = windows_[1].output};
  }
  // Taps in one block of partitions, and blocks that are added up.
  int64_t block_taps() const { return kPartitions / kernel_in_.count; }
  int64_t channel_blocks() const {
    return stacked_taps_ ? tiles(windows_[1].size, block_taps())
                         : std::max<int64_t>(1, tiles(kernel_in_.count, kPartitions));
  }

  // -- positions by number: images, rows, columns
  int64_t first(const Positions& at) const {
    return (at.image * windows_[0].output + at.row) * windows_[1].output + at.column;
  }
  static int64_t size(const Positions& at) { return at.images * at.rows * at.columns; }
  // What cut() or panels_ has made.
  Positions positions(int64_t begin, int64_t count) const {
    const int64_t width = windows_[1].output, area = width * windows_[0].output;
    Positions at{begin / area, 1, begin % area / width, 1, begin % width, count};
    if (count >= width) at.rows = count / width, at.columns = width;
    if (count > area) at.images = count / area, at.rows = windows_[0].output;
    return at;
  }
  std::vector<Positions> cut(const Positions& all, int64_t limit) const {
    const int64_t width = windows_[1].output, area = width * windows_[0].output;
    std::vector<Positions> result;
    if (all.images > 1 && area <= limit) {
      for (int64_t i = 0; i < all.images; i += limit / area)
        result.push_back({all.image + i, std::min(limit / area, all.images - i), 0, all.rows, 0, width});
      return result;
    }
    // `all` may be a part of one row: columns are cut from where it begins to where it ends.
    const int64_t rows = std::max<int64_t>(1, limit / width), columns = std::min(limit, all.columns);
    for (int64_t i = 0; i < all.images; ++i)
      for (int64_t row = 0; row < all.rows; row += rows)
        for (int64_t column = 0; column < all.columns; column += columns)
          result.push_back({all.image + i, 1, all.row + row, std::min(rows, all.rows - row),
                            all.column + column, std::min(columns, all.columns - column)});
    return result;
  }

  // -- features: a part ends with its group
  int64_t next_features(int64_t feature) const {
    const int64_t group_end = (feature / group_features_ + 1) * group_features_;
    return std::min(group_end, feature + part_limit_);
  }

  // Kernel tiles [input channels, taps x features] by channel block; stacked: [rows of the window x channels,
  // taps of a row x features].
  void load_kernel(int64_t feature) {
    if (!kernels_.empty() && part_begin_ == feature) return;
    part_begin_ = feature;
    part_features_ = next_features(feature) - feature;
    kernels_.clear();
    View base{kernel_.tensor, kernel_.dtype, kernel_.offset + feature * kernel_out_.step, {}};
    const isa::Dim features{kernel_out_.step, part_features_};
    if (depthwise_) {
      kernels_.push_back(channel_weights(base, features));
      return;
    }
    if (stacked_) {
      const Matrix all = rows_of_kernel(base, {kernel_space_[0], kernel_in_}, {kernel_space_[1]}, features);
      const Tile tile = emitter_.sbuf(all.rows(), all.columns(), kernel_.dtype, "kernel");
      if (features_lie_outermost())
        turn_features(tile, base, 0, kernel_in_.count);
      else
        all.load(emitter_, tile, 0, 0);
      kernels_.push_back(tile);
      return;
    }
    if (stacked_taps_) {
      const Matrix all(base, {kernel_space_[1], kernel_in_}, {features});
      const int64_t rows = block_taps() * kernel_in_.count;
      for (int64_t row = 0; row < all.rows(); row += rows) {
        const Tile tile =
            emitter_.sbuf(std::min(rows, all.rows() - row), all.columns(), kernel_.dtype, "kernel");
        all.load(emitter_, tile, row, 0);
        kernels_.push_back(tile);
      }
      return;
    }
    const Matrix all = rows_of_kernel(base, {kernel_in_}, {kernel_space_[0], kernel_space_[1]}, features);
    for (int64_t c = 0; c < kernel_in_.count; c += kPartitions) {
      const Tile tile =
          emitter_.sbuf(std::min(kPartitions, kernel_in_.count - c), all.columns(), kernel_.dtype, "kernel");
      if (features_lie_outermost())
        turn_features(tile, base, c, tile.rows);
      else
        all.load(emitter_, tile, c, 0);
      kernels_.push_back(tile);
    }
  }

  // Taps that lie backwards in memory, as those of a gradient, are loaded as they lie.
  void read_forwards() {
    for (size_t i = stacked_ ? 1 : 0; i < 2; ++i) {
      isa::Dim& taps = kernel_space_[i];
      reversed_[i] = taps.step < 0;
      if (!reversed_[i]) continue;
      kernel_.offset += (taps.count - 1) * taps.step;
      taps.step = -taps.step;
    }
  }

  int64_t taps_of_channel() const { return kernel_space_[0].count * kernel_space_[1].count; }

  bool taps_are_runs() const {
    const auto follows = [](const isa::Dim& dim, int64_t step) { return dim.count == 1 || dim.step == step; };
    return follows(kernel_space_[1], 1) && follows(kernel_space_[0], kernel_space_[1].count);
  }

  // [feature, channel, taps] without gaps, as PyTorch keeps weights: every element that goes over partitions
  // would be a descriptor of its own.
  bool features_lie_outermost() const {
    const int64_t taps = taps_of_channel();
    return taps_are_runs() && kernel_in_.count >= kTurnedSideMin && kernel_out_.count >= kTurnedSideMin &&
           kernel_in_.step == taps && kernel_out_.step >= taps * kernel_in_.count;
  }

  // Taps are neighbours in memory and features are not, as in the gradients of both operands: a feature's
  // taps are loaded as they lie, and the Tensor engine reads every n-th element.
  bool taps_lie_innermost() const {
    return !depthwise_ && !stacked_taps_ && kernel_space_[1].step == 1 && kernel_space_[1].count > 1 &&
           kernel_out_.count > 1 && kernel_out_.step != 1 && !features_lie_outermost();
  }
  int64_t loaded_taps() const { return stacked_ ? kernel_space_[1].count : taps_of_channel(); }

  Matrix rows_of_kernel(const View& base, std::vector<isa::Dim> rows, std::vector<isa::Dim> taps,
                        const isa::Dim& features) const {
    taps.insert(taps_lie_innermost() ? taps.begin() : taps.end(), features);
    return {base, std::move(rows), std::move(taps)};
  }

  // The part's features of some channels as long runs, then tap by tap (stacked: column by column of taps)
  // transposed by the Tensor engine.
  void turn_features(const Tile& tile, const View& base, int64_t channel, int64_t channels) {
    const int64_t across = kernel_space_[1].count, taps = kernel_space_[0].count * across;
    for (int64_t f = 0; f < part_features_; f += kPartitions) {
      const int64_t count = std::min(kPartitions, part_features_ - f);
      const Tile natural = emitter_.sbuf(count, channels * taps, kernel_.dtype, "natural");
      emitter_.load(natural, {base.tensor,
                              base.dtype,
                              base.offset + f * kernel_out_.step + channel * taps,
                              {{kernel_out_.step, count}, {1, channels * taps}}});
      for (int64_t place = 0; place < (stacked_ ? across : taps); ++place) {
        const Tile seen = stacked_ ? natural.patch(place, kernel_space_[0].count, across, channels, taps)
                                   : natural.patch(place, 1, 0, channels, taps);
        const Tile turned = emitter_.psum_transposed(tile.rows, count, kernel_.dtype, "turned");
        emitter_.transpose(turned, seen);
        emitter_.tensor_copy(tile.column_range(place * part_features_ + f, count), turned);
      }
    }
  }

  // [channels, taps] in fp32, as what each partition is multiplied by has to be. Where the channels of a tap
  // are neighbours in memory, taps are loaded and turned.
  Tile channel_weights(const View& base, const isa::Dim& features) {
    const Matrix all(base, {features}, {kernel_space_[0], kernel_space_[1]});
    const Tile tile = emitter_.sbuf(all.rows(), all.columns(), kernel_.dtype, "kernel");
    if (features.step == 1 && features.count > 1 && all.columns() > 1)
      turn_in(tile, Matrix(base, {kernel_space_[0], kernel_space_[1]}, {features}));
    else
      all.load(emitter_, tile, 0, 0);
    if (kernel_.dtype == DType::kFloat32) return tile;
    const Tile wide = emitter_.sbuf(all.rows(), all.columns(), DType::kFloat32, "kernel");
    emitter_.tensor_copy(wide, tile);
    return wide;
  }

  void load_bands(const Positions& at, int64_t group) {
    band_ = at;
    band_group_ = group;
    bands_.clear();
    View channels{image_.tensor,
                  image_.dtype,
                  image_.offset + image_move_ + at.image * images_.step +
                      group * kernel_in_.count * input_features_.step,
                  {input_features_, {images_.step, at.images}, image_space_[0], image_space_[1]}};
    if (stacked_) {
      channels.dims[0].count = kernel_in_.count;
      const int64_t width = windows_[1].extent(windows_[1].output);
      const Band band{emitter_.sbuf(windows_[0].size * kernel_in_.count, at.images * at.rows * width,
                                    image_.dtype, "band"),
                      width, at.rows};
      if (windows_[0].low != 0 || windows_[1].low != 0 || padded_behind()) emitter_.memset(band.tile, 0.0);
      for (int64_t y = 0; y < windows_[0].size; ++y)
        load_tap_rows(emitter_, band, y * kernel_in_.count, channels, windows_[0], windows_[1], y, at.row,
                      at.rows);
      bands_.push_back(band);
      return;
    }
    if (stacked_taps_) {
      channels.dims[0].count = kernel_in_.count;
      for (int64_t tap = 0; tap < windows_[1].size; tap += block_taps())
        bands_.push_back(band_of_taps(channels, at, tap, std::min(block_taps(), windows_[1].size - tap)));
      return;
    }
    if (depthwise_) channels.offset += part_begin_ * input_features_.step;
    const int64_t count = depthwise_ ? part_features_ : kernel_in_.count;
    for (int64_t c = 0; c < count; c += kPartitions) {
      channels.dims[0].count = std::min(kPartitions, count - c);
      bands_.push_back(pointwise() ? whole_band(channels, at)
                                   : load_band(emitter_, channels, windows_[0], windows_[1], at.row, at.rows,
                                               0.0, image_.dtype));
      channels.offset += channels.dims[0].count * input_features_.step;
    }
  }

  // Taps [first, first + count) of every window: [taps x channels, images x rows x outputs]. Windows inside
  // the image are one overlapping view of it; where there is padding, each tap has its own outputs.
  Band band_of_taps(const View& channels, const Positions& at, int64_t first, int64_t count) {
    const Window& w = windows_[1];
    const int64_t high = channels.dims[0].count, step = image_space_[1].step;
    const Band band{emitter_.sbuf(count * high, at.images * at.rows * w.output, image_.dtype, "band"),
                    w.output, at.rows};
    View base = channels;
    base.offset += at.row * image_space_[0].step;
    base.dims[2].count = at.rows;
    if (w.low == 0 && !padded_behind()) {
      base.offset += first * w.window_dilation * step;
      const isa::Dim taps{w.window_dilation * step, count}, outputs{w.stride * step, w.output};
      // Taps are neighbours in memory and outputs are not: rows of taps, transposed on chip.
      if (high == 1 && taps.step == 1 && outputs.step > 1)
        turn_in(band.tile, Matrix(base, {base.dims[1], base.dims[2], outputs}, {taps}));
      else
        Matrix(base, {taps, base.dims[0]}, {base.dims[1], base.dims[2], outputs})
            .load(emitter_, band.tile, 0, 0);
      return band;
    }
    emitter_.memset(band.tile, 0.0);
    for (int64_t tap = 0; tap < count; ++tap) {
      const int64_t shift = (first + tap) * w.window_dilation - w.low;
      int64_t from = 0, to = w.output;
      while (from < to && from * w.stride + shift < 0) ++from;
      while (from < to && (to - 1) * w.stride + shift >= w.input) --to;
      if (from == to) continue;
      View part = base;
      part.offset += (from * w.stride + shift) * step;
      part.dims[3] = {w.stride * step, to - from};
      emitter_.load(band.tile.row_range(tap * high, high)
                        .patches(from, at.images, at.rows * w.output, at.rows, w.output, to - from, 1),
                    part);
    }
    return band;
  }

  // `source` transposed, by the Tensor engine.
  void turn_in(const Tile& tile, const Matrix& source) {
    for (int64_t row = 0; row < source.rows(); row += kPartitions) {
      const int64_t rows = std::min(kPartitions, source.rows() - row);
      const Tile natural = emitter_.sbuf(rows, source.columns(), source.dtype(), "natural"),
                 transposed = emitter_.psum_transposed(source.columns(), rows, source.dtype(), "transposed");
      source.load(emitter_, natural, row, 0);
      emitter_.transpose(transposed, natural);
      emitter_.tensor_copy(tile.column_range(row, rows), transposed);
    }
  }

  bool padded_behind() const {
    return windows_[0].extent(windows_[0].output) - windows_[0].low > windows_[0].input ||
           windows_[1].extent(windows_[1].output) - windows_[1].low > windows_[1].input ||
           windows_[1].base_dilation > 1;
  }
  // One tap, nothing skipped and nothing added: the band is the image, which may lie in SBUF already.
  bool pointwise() const {
    return std::all_of(std::begin(windows_), std::end(windows_), [](const Window& w) {
      return w.size == 1 && w.stride == 1 && w.low == 0 && w.base_dilation == 1 && w.input == w.output;
    });
  }
  Band whole_band(View channels, const Positions& at) {
    channels.offset += at.row * image_space_[0].step;
    channels.dims[2].count = at.rows;
    const Matrix all(channels, 1);
    if (const auto kept = all.kept(emitter_, 0, all.rows(), 0, all.columns(), /*first_partition=*/true))
      return {*kept, windows_[1].output, at.rows};
    const Tile tile = emitter_.sbuf(all.rows(), all.columns(), all.dtype(), "band");
    all.load(emitter_, tile, 0, 0);
    return {tile, windows_[1].output, at.rows};
  }

  Emitter& emitter_;
  View image_, kernel_;
  Order order_;
  bool depthwise_, stacked_, stacked_taps_, reversed_[2] = {false, false};
  Window windows_[2];
  isa::Dim image_space_[2] = {{0, 1}, {0, 1}}, kernel_space_[2] = {{0, 1}, {0, 1}};
  isa::Dim images_, input_features_, kernel_in_, kernel_out_;
  int64_t groups_ = 1, group_features_ = 1;
  int64_t part_limit_ = 0;
  std::vector<Positions> panels_;

  int64_t image_move_ = 0, part_begin_ = 0, part_features_ = 0;
  std::vector<Tile> kernels_;
  Positions band_{};
  int64_t band_group_ = 0;
  std::vector<Band> bands_;
};

}  // namespace

// A convolution whose result's dimensions are in no order that a group has is a kernel of its own.
bool has_convolution(const graph::Function& function, const Op& op) {
  return takes_convolution(function, op);
}

std::optional<int> convolution_row_rank(const graph::Function& function, const Op& op) {
  if (!takes_convolution(function, op)) return std::nullopt;
  switch (order_of(function, op)) {
    case Order::kFeaturesImages: return 1;
    case Order::kImagesFeatures: return 2;
    case Order::kPositions: return function.type(op.results[0]).rank() - 1;
    case Order::kOther: return std::nullopt;
  }
  return std::nullopt;
}

int64_t convolution_bytes(const graph::Function& function, const Op& op) {
  const graph::Type &image = function.type(op.operands[0]), &kernel = function.type(op.operands[1]);
  const auto element = static_cast<int64_t>(size_bytes(*device_dtype(image.element())));
  const int64_t channels = kernel.dim(static_cast<int>(op.integer(Attr::kernel_input_feature_dimension)));
  if (channels == 0 || image.element_count() == 0) return 0;
  const int64_t blocks = tiles(channels, kPartitions);
  const int64_t all_channels = image.dim(static_cast<int>(op.integer(Attr::input_feature_dimension)));
  const int64_t kernels = std::min(2 * kKernelBytes, blocks * (kernel.element_count() / channels) * element);
  // And the rows of a band before they are spread.
  const int64_t bands = std::min(kBandBytes, 2 * blocks * (image.element_count() / all_channels) * element);
  return 2 * (kernels + bands) + std::min(kBandBlockBytes, bands);
}

int64_t convolution_kernel_bytes(const graph::Function& function, const Op& op) {
  const graph::Type& kernel = function.type(op.operands[1]);
  const auto dtype = device_dtype(kernel.element());
  if (!dtype) return 0;
  const int64_t channels = kernel.dim(static_cast<int>(op.integer(Attr::kernel_input_feature_dimension))),
                features = kernel.dim(static_cast<int>(op.integer(Attr::kernel_output_feature_dimension))) /
                           op.integer(Attr::feature_group_count);
  const auto spatial = op.integers(Attr::kernel_spatial_dimensions);
  int64_t taps = 1;
  for (size_t i = stacks_rows(function, op) ? 1 : 0; i < spatial.size(); ++i)
    taps *= kernel.dim(static_cast<int>(spatial[i]));
  if (stacks_taps(function, op)) taps = tiles(taps, kPartitions / channels);
  return tiles(channels, kPartitions) * std::min(features, kPartitions) * taps * size_bytes(*dtype);
}

std::unique_ptr<TileSource> convolution_source(Lowering& lowering, const Op& op) {
  return std::make_unique<Convolution>(lowering, op);
}

bool lower_convolution(Lowering& lowering, const Op& op) {
  if (!takes_convolution(lowering.function(), op)) return false;
  const View out = lowering.allocate(op.results[0]);
  if (out.element_count() == 0) return true;
  Convolution source(lowering, op);
  std::vector<isa::Dim> columns{out.dims[op.integer(Attr::output_batch_dimension)]};
  for (const int64_t d : op.integers(Attr::output_spatial_dimensions)) columns.push_back(out.dims[d]);
  const Matrix target(View{out.tensor, out.dtype, out.offset, {}},
                      {out.dims[op.integer(Attr::output_feature_dimension)]}, columns);
  for (const auto& part : source.parts()) {
    source.begin_rows(part);
    for (const ColumnBlock& panel : source.panels()) {
      source.begin_columns(panel);
      for (const RowBlock& rows : part)
        for (const ColumnBlock& tile : source.tiles_of(panel)) {
          const Tile result = lowering.emitter().sbuf(rows.count, tile.count, out.dtype, "conv");
          lowering.emitter().tensor_copy(result, source.sums(rows, tile));
          target.store(lowering.emitter(), result, rows.begin, tile.begin);
        }
    }
  }
  return true;
}

}  // namespace opentrn::compiler
