// Convolution over one or two spatial dimensions, as matrix products over shifted views of the image.
//
//   for each image, feature group and band of result rows
//     load the band: [input channels <= 128, padded rows x width], zeros where there is padding
//     for each block of results
//       PSUM = sum over taps and channel blocks of kernel[tap]^T image[tap]
//
// Nothing is copied per tap: a tap is a strided access of the band in SBUF. Where features are the innermost
// dimension of the result, positions go over partitions instead, so that stores are long runs.
#include <algorithm>
#include <map>

#include "compiler/lowering/device_type.h"
#include "compiler/lowering/lowering.h"
#include "compiler/lowering/window.h"

namespace opentrn::compiler {

using graph::Attr;
using graph::Op;
using graph::OpKind;

namespace {

// Bytes of a partition for the band of one channel block.
constexpr int64_t kBandBytes = 24 * 1024;

bool is_matmul_type(graph::ElementType element) {
  switch (device_dtype(element).value_or(DType::kInt64)) {
    case DType::kFloat32:
    case DType::kTFloat32:
    case DType::kBFloat16:
    case DType::kFloat16:
    case DType::kFloat8E4M3:
    case DType::kFloat8E5M2: return true;
    default: return false;
  }
}

bool takes(const graph::Function& function, const Op& op) {
  if (op.kind != OpKind::convolution_) return false;
  const auto spatial = op.integers(Attr::input_spatial_dimensions);
  if (spatial.empty() || spatial.size() > 2 || op.integer(Attr::batch_group_count) != 1) return false;
  for (const int64_t reversed : op.integers_or(Attr::window_reversal, spatial.size(), 0))
    if (reversed != 0) return false;
  const auto lhs = function.type(op.operands[0]).element();
  return is_matmul_type(lhs) && lhs == function.type(op.operands[1]).element() &&
         graph::is_float(function.type(op.results[0]).element()) &&
         device_dtype(function.type(op.results[0]).element());
}

class Convolution {
 public:
  Convolution(Lowering& lowering, const Op& op)
      : emitter_(lowering.emitter()),
        op_(op),
        image_(lowering.view(op.operands[0])),
        kernel_(lowering.view(op.operands[1])),
        out_(lowering.allocate(op.results[0])) {
    const auto in = op.integers(Attr::input_spatial_dimensions),
               taps = op.integers(Attr::kernel_spatial_dimensions),
               out = op.integers(Attr::output_spatial_dimensions);
    const size_t rank = in.size();
    const auto strides = op.integers_or(Attr::window_strides, rank, 1),
               base = op.integers_or(Attr::lhs_dilation, rank, 1),
               dilation = op.integers_or(Attr::rhs_dilation, rank, 1);
    const graph::Attribute* padding = op.find(Attr::padding);
    for (size_t i = 0; i < rank; ++i) {
      Window& window = windows_[i + 2 - rank];
      window = {.input = image_.dims[in[i]].count,
                .output = out_.dims[out[i]].count,
                .size = kernel_.dims[taps[i]].count,
                .stride = strides[i],
                .low = padding ? op.matrix(Attr::padding).at(static_cast<int64_t>(i), 0) : 0,
                .base_dilation = base[i],
                .window_dilation = dilation[i]};
      image_space_[i + 2 - rank] = image_.dims[in[i]];
      kernel_space_[i + 2 - rank] = kernel_.dims[taps[i]];
      out_space_[i + 2 - rank] = out_.dims[out[i]];
    }
    groups_ = op.integer(Attr::feature_group_count);
    input_features_ = image_.dims[op.integer(Attr::input_feature_dimension)];
    kernel_in_ = kernel_.dims[op.integer(Attr::kernel_input_feature_dimension)];
    kernel_out_ = kernel_.dims[op.integer(Attr::kernel_output_feature_dimension)];
    out_features_ = out_.dims[op.integer(Attr::output_feature_dimension)];
    features_per_group_ = kernel_out_.count / groups_;
  }

  void run() {
    if (out_.element_count() == 0) return;
    const isa::Dim images = image_.dims[op_.integer(Attr::input_batch_dimension)];
    const isa::Dim results = out_.dims[op_.integer(Attr::output_batch_dimension)];
    const int64_t rows = band_rows(windows_[0], windows_[1], size_bytes(image_.dtype), kBandBytes);
    for (int64_t group = 0; group < groups_; ++group) {
      load_kernel(group);
      for (int64_t n = 0; n < images.count; ++n)
        for (int64_t row = 0; row < windows_[0].output; row += rows) {
          image_move_ = n * images.step;
          out_move_ = n * results.step;
          band(group, row, std::min(rows, windows_[0].output - row));
        }
    }
  }

 private:
  // Kernel tiles [input channels, output channels] by tap and channel block. All taps of a block are one
  // load.
  void load_kernel(int64_t group) {
    const int64_t taps = windows_[0].size * windows_[1].size;
    std::vector<Tile> blocks;
    View base{
        kernel_.tensor, kernel_.dtype, kernel_.offset + group * features_per_group_ * kernel_out_.step, {}};
    const Matrix whole(base, {kernel_in_},
                       {kernel_space_[0], kernel_space_[1], {kernel_out_.step, features_per_group_}});
    for (int64_t c = 0; c < kernel_in_.count; c += kPartitions) {
      blocks.push_back(emitter_.sbuf(std::min(kPartitions, kernel_in_.count - c), taps * features_per_group_,
                                     kernel_.dtype, "kernel"));
      whole.load(emitter_, blocks.back(), c, 0);
    }
    kernel_tiles_.clear();
    for (int64_t tap = 0; tap < taps; ++tap)
      for (const Tile& block : blocks)
        kernel_tiles_.push_back(block.column_range(tap * features_per_group_, features_per_group_));
  }

  void band(int64_t group, int64_t out_row, int64_t out_rows) {
    View channels{image_.tensor,
                  image_.dtype,
                  image_.offset + image_move_,
                  {input_features_, image_space_[0], image_space_[1]}};
    std::vector<Band> bands;
    for (int64_t c = 0; c < kernel_in_.count; c += kPartitions)
      bands.push_back(load_band(emitter_, channels, group * kernel_in_.count + c,
                                std::min(kPartitions, kernel_in_.count - c), windows_[0], windows_[1],
                                out_row, out_rows, 0.0, image_.dtype));
    if (out_features_.step == 1 && out_features_.count > 1)
      positions_over_partitions(bands, group, out_row, out_rows);
    else
      features_over_partitions(bands, group, out_row, out_rows);
  }

  // stationary(i) and moving(i) of the i-th term of a sum.
  template <typename Stationary, typename Moving>
  Tile summed(int64_t rows, int64_t columns, const std::vector<Band>& bands, Stationary&& stationary,
              Moving&& moving) {
    const Tile sum = emitter_.psum(rows, columns, DType::kFloat32, "sum");
    size_t tile = 0;
    for (int64_t y = 0; y < windows_[0].size; ++y)
      for (int64_t x = 0; x < windows_[1].size; ++x)
        for (const Band& band : bands) {
          emitter_.matmul(sum, stationary(band, y, x, kernel_tiles_[tile]),
                          moving(band, y, x, kernel_tiles_[tile]), tile > 0);
          ++tile;
        }
    const Tile result = emitter_.sbuf(rows, columns, out_.dtype, "conv");
    emitter_.tensor_copy(result, sum);
    return result;
  }

  View out_base(int64_t group) const {
    return {out_.tensor,
            out_.dtype,
            out_.offset + out_move_ + group * features_per_group_ * out_features_.step,
            {}};
  }

  void features_over_partitions(const std::vector<Band>& bands, int64_t group, int64_t out_row,
                                int64_t out_rows) {
    const int64_t width = windows_[1].output;
    const int64_t block_columns = std::min(width, kPsumBankColumns);
    const int64_t block_rows = width <= kPsumBankColumns ? std::max<int64_t>(1, kPsumBankColumns / width) : 1;
    const Matrix out(out_base(group), {{out_features_.step, features_per_group_}},
                     {out_space_[0], out_space_[1]});
    for (int64_t f = 0; f < features_per_group_; f += kPartitions) {
      const int64_t features = std::min(kPartitions, features_per_group_ - f);
      for (int64_t row = 0; row < out_rows; row += block_rows)
        for (int64_t column = 0; column < width; column += block_columns) {
          const int64_t rows = std::min(block_rows, out_rows - row),
                        columns = std::min(block_columns, width - column);
          const Tile result = summed(
              features, rows * columns, bands,
              [&](const Band&, int64_t, int64_t, const Tile& kernel) {
                return kernel.column_range(f, features);
              },
              [&](const Band& band, int64_t y, int64_t x, const Tile&) {
                return tap(band, windows_[0], windows_[1], y, x, row, rows, column, columns);
              });
          out.store(emitter_, result, f, (out_row + row) * width + column);
        }
    }
  }

  void positions_over_partitions(const std::vector<Band>& bands, int64_t group, int64_t out_row,
                                 int64_t out_rows) {
    const int64_t width = windows_[1].output;
    const int64_t block_columns = std::min(width, kPartitions);
    const int64_t block_rows = width <= kPartitions ? std::max<int64_t>(1, kPartitions / width) : 1;
    const Matrix out(out_base(group), {out_space_[0], out_space_[1]},
                     {{out_features_.step, features_per_group_}});
    for (int64_t row = 0; row < out_rows; row += block_rows)
      for (int64_t column = 0; column < width; column += block_columns)
        for (int64_t f = 0; f < features_per_group_; f += kPsumBankColumns) {
          const int64_t rows = std::min(block_rows, out_rows - row),
                        columns = std::min(block_columns, width - column);
          const int64_t features = std::min(kPsumBankColumns, features_per_group_ - f);
          const Tile result = summed(
              rows * columns, features, bands,
              [&](const Band& band, int64_t y, int64_t x, const Tile&) {
                return tap(band, windows_[0], windows_[1], y, x, row, rows, column, columns);
              },
              [&](const Band&, int64_t, int64_t, const Tile& kernel) {
                return kernel.column_range(f, features);
              });
          out.store(emitter_, result, (out_row + row) * width + column, f);
        }
  }

  Emitter& emitter_;
  const Op& op_;
  View image_, kernel_, out_;
  Window windows_[2];
  isa::Dim image_space_[2] = {{0, 1}, {0, 1}}, kernel_space_[2] = {{0, 1}, {0, 1}},
           out_space_[2] = {{0, 1}, {0, 1}};
  isa::Dim input_features_, kernel_in_, kernel_out_, out_features_;
  int64_t groups_ = 1, features_per_group_ = 1;
  int64_t image_move_ = 0, out_move_ = 0;
  std::vector<Tile> kernel_tiles_;
};

}  // namespace

bool has_convolution(const graph::Function& function, const Op& op) { return takes(function, op); }

bool lower_convolution(Lowering& lowering, const Op& op) {
  if (!takes(lowering.function(), op)) return false;
  Convolution(lowering, op).run();
  return true;
}

}  // namespace opentrn::compiler
