// tensor_reduce, tensor_scalar_reduce, tensor_scalar_cumulative, tensor_tensor_scan,
// tensor_partition_reduce.
#include <fmt/format.h>

#include "numerics/alu.h"
#include "sim/functional/accumulate.h"
#include "sim/functional/instructions/body.h"
#include "sim/functional/rows.h"

namespace opentrn::sim::bodies {

namespace {

void require_reduction(const Context& cx, AluOp op) {
  if (!is_reduction(op) && op != AluOp::kAbsMax && op != AluOp::kAbsMin)
    cx.broken("op", fmt::format("{} is not a reduction", name(op)));
}

// Elements of the trailing `axes` dimensions of an access.
int64_t trailing_elements(const Context& cx, int slot, int64_t axes) {
  const isa::Pattern& pattern = cx.program.pattern(cx.operand(slot));
  if (axes < 1 || axes >= std::max<int64_t>(2, pattern.rank))
    cx.broken("axis", fmt::format("{} trailing dimensions of an access of rank {}", axes, pattern.rank),
              "reduce the last free dimensions; the partition dimension cannot be reduced");
  int64_t count = 1;
  for (int64_t d = std::max<int64_t>(1, pattern.rank - axes); d < pattern.rank; ++d)
    count *= pattern.dims[d].count;
  return count;
}

constexpr int64_t kScanRowsMax = 16;

struct ScanOperators {
  AluOp op0, op1;
  bool reverse0, reverse1;
};

// Columns of a scan whose sources are computed on the way: what they need fits the first-level cache.
constexpr int64_t kScanColumns = 256;
constexpr int64_t kLineFloats = 16;

// The scan of a tile, or of the band of one that begins with partition sources.origin.
class RowScan {
 public:
  RowScan(const ScanOperators& ops, const Sources<2>& sources, const PerPartition& initial, const View& dst)
      : ops_(ops), sources_(sources), initial_(initial), dst_(dst) {}

  // Rows [begin, end) of the views.
  void run(int64_t begin, int64_t end) const {
    for (int64_t p = begin; p < end; p += kScanRowsMax) run_group(p, std::min(kScanRowsMax, end - p));
  }

 private:
  bool produced(size_t i) const { return sources_.producers[i] != nullptr; }

  void run_group(int64_t p, int64_t rows) const {
    ScratchScope scope;
    const int64_t n = dst_.elements;
    std::array<FloatRows, 2> in{};
    for (size_t i = 0; i < 2; ++i)
      if (!produced(i)) in[i] = load_rows(*sources_.views[i], p, rows, scope.floats(rows * n));
    const bool in_place = is_float_rows(dst_, p) && !dst_.repeats();
    const MutableFloatRows out = in_place ? MutableFloatRows{reinterpret_cast<float*>(dst_.row(p)),
                                                             static_cast<size_t>(dst_.partition_stride / 4)}
                                          : MutableFloatRows{scope.floats(rows * n), static_cast<size_t>(n)};
    std::array<float, kScanRowsMax> carried;
    for (int64_t i = 0; i < rows; ++i) carried[i] = initial_.at(sources_.origin + p + i);
    const int64_t columns = produced(0) || produced(1) ? kScanColumns : n;
    for (int64_t first = 0; first < n; first += columns)
      run_columns({sources_.origin + p, rows, first, std::min(columns, n - first)}, in, out, carried.data());
    if (!in_place)
      for (int64_t i = 0; i < rows; ++i) store_row(dst_, p + i, out.data + i * n);
  }

  void run_columns(const Rect& rect, const std::array<FloatRows, 2>& whole, MutableFloatRows out,
                   float* carried) const {
    ScratchScope scope;
    std::array<FloatRows, 2> in;
    for (size_t i = 0; i < 2; ++i) {
      if (!produced(i)) {
        in[i] = {whole[i].data + rect.first, whole[i].pitch};
        continue;
      }
      const int64_t pitch = rect.n + kLineFloats;  // rows in different sets of the cache
      float* const to = scope.floats(rect.rows * pitch);
      (*sources_.producers[i])(rect, to, pitch);
      in[i] = {to, static_cast<size_t>(pitch)};
    }
    out.data += rect.first;
    numerics::alu_scan_rows(ops_.op0, ops_.op1,
                            {static_cast<size_t>(rect.rows), static_cast<size_t>(rect.n), in[0].data,
                             in[0].pitch, in[1].data, in[1].pitch, carried, out.data, out.pitch},
                            ops_.reverse0, ops_.reverse1);
    for (int64_t i = 0; i < rect.rows; ++i)
      carried[i] = out.data[i * static_cast<int64_t>(out.pitch) + rect.n - 1];
  }

  const ScanOperators& ops_;
  const Sources<2>& sources_;
  const PerPartition& initial_;
  const View& dst_;
};

}  // namespace

void tensor_reduce(Context& cx) {
  using namespace isa::slot::tensor_reduce;
  const AluOp op = cx.alu(kAOp);
  require_reduction(cx, op);
  const bool negate = cx.boolean(kANegate);
  View data = cx.source(kData);
  const int64_t inner = trailing_elements(cx, kData, cx.integer(kAAxes));
  const View dst = cx.destination(kDst);
  cx.expect_partitions(dst, kDst, data.partitions);
  cx.expect_elements(dst, kDst, data.elements / inner);
  cx.separate(dst, data);
  const int64_t outer = dst.elements;
  if (is_bitvec(op)) {
    if (!is_integer(data.dtype) || !is_integer(dst.dtype) || negate)
      cx.broken("bitvec_dtype", fmt::format("{} reduces integers, without negate", name(op)));
    for_rows_i64<1>(cx, {&data}, dst, [&](int64_t, const std::array<int64_t*, 1>& in, int64_t* out) {
      for (int64_t o = 0; o < outer; ++o)
        out[o] = numerics::alu_reduce_int(op, data.dtype, in[0][o * inner], in[0] + o * inner + 1,
                                          static_cast<size_t>(inner - 1));
    });
    return;
  }
  const size_t n = static_cast<size_t>(inner);
  cx.parallel(data.partitions, dst.repeats() ? 0 : data.total(), [&](int64_t begin, int64_t end) {
    ScratchScope scope;
    float* row_scratch = scope.floats(data.elements);
    float* result = scope.floats(std::max(outer, end - begin));
    const auto store = [&](int64_t p, float* values) {
      for (int64_t o = 0; o < outer && negate; ++o) values[o] = -values[o];
      store_row(dst, p, values);
    };
    if (outer == 1 && is_float_rows(data, begin)) {
      const FloatRows rows = load_rows(data, begin, end - begin, nullptr);
      numerics::alu_reduce_rows(op, rows, static_cast<size_t>(end - begin), n, result);
      for (int64_t p = begin; p < end; ++p) store(p, result + p - begin);
      return;
    }
    for (int64_t p = begin; p < end; ++p) {
      const float* row = load_row(data, p, row_scratch);
      numerics::alu_reduce_rows(op, {row, n}, static_cast<size_t>(outer), n, result);
      store(p, result);
    }
  });
}

// dst = data op0 operand0; the accumulators take reduce_op of it, before it is rounded to dst. [assumed]
void tensor_scalar_reduce(Context& cx) {
  using namespace isa::slot::tensor_scalar_reduce;
  const AluOp op0 = cx.alu(kAOp0);
  const AluOp reduce_op = cx.alu(kAReduceOp);
  if (is_bitvec(op0)) cx.broken("op", fmt::format("{} is a bit-vector operator", name(op0)));
  require_reduction(cx, reduce_op);
  View data = cx.source(kData);
  const PerPartition operand0 = cx.per_partition(kOperand0, data.partitions);
  if (!operand0.present && !is_unary(op0) && op0 != AluOp::kBypass)
    cx.broken("operand", fmt::format("{} needs operand0", name(op0)));
  const PerPartition init = cx.per_partition(kReduceInit, data.partitions);
  const View dst = cx.destination(kDst);
  cx.expect_same_shape(dst, data, kDst, kData);
  cx.separate(dst, data);
  const bool reverse0 = cx.boolean(kAReverse0) && !is_unary(op0);
  Accumulation sum(cx, cx.engines().vector, cx.reduce_cmd(kAReduceCmd), reduce_op, init, cx.lane(dst, kDst),
                   data.partitions);
  for_whole_rows<1>(cx, {&data}, dst, [&](const Block<1>& block) {
    numerics::alu_tensor_scalar(op0, block.in[0], operand0.from(block.row), reverse0, block.out,
                                static_cast<size_t>(block.rows), static_cast<size_t>(block.n));
    if (sum.active()) sum.add_rows(block.row, block.out, block.rows, block.n);
  });
  sum.store(cx, kReduceRes, cx.boolean(kAReduceResNegate));
}

// reg = (src op0 imm0) op1 reg; dst = reg, element by element. [doc: nki.isa.tensor_scalar_cumulative]
void tensor_scalar_cumulative(Context& cx) {
  using namespace isa::slot::tensor_scalar_cumulative;
  const AluOp op0 = cx.alu(kAOp0);
  const AluOp op1 = cx.alu(kAOp1);
  if (is_bitvec(op0) || is_bitvec(op1)) cx.broken("op", "bit-vector operators are not supported");
  require_reduction(cx, op1);
  View src = cx.source(kSrc);
  const PerPartition imm0 = cx.per_partition(kImm0, src.partitions);
  const PerPartition imm1 = cx.per_partition(kImm1, src.partitions);
  const View dst = cx.destination(kDst);
  cx.expect_same_shape(dst, src, kDst, kSrc);
  cx.separate(dst, src);
  const bool reverse0 = cx.boolean(kAReverse0) && !is_unary(op0);
  const isa::ReduceCmd cmd = cx.reduce_cmd(kAReduceCmd);
  if (cmd == isa::ReduceCmd::kIdle || cmd == isa::ReduceCmd::kReset)
    cx.broken("reduce_cmd", "a cumulative operation accumulates", "use reset_reduce, load_reduce or reduce");
  Accumulation reg(cx, cx.engines().vector, cmd, op1, imm1, cx.lane(dst, kDst), src.partitions);
  for_rows<1>(cx, {&src}, dst, [&](int64_t p, const float* const* in, float* out, int64_t n) {
    numerics::alu_tensor_scalar(op0, in[0], imm0.at(p), reverse0, out, static_cast<size_t>(n));
    // The second operator of the scan passes its left operand through.
    numerics::alu_scan(op1, AluOp::kBypass, out, out, reg.at(p), out, static_cast<size_t>(n));
    reg.at(p) = out[n - 1];
  });
}

void tensor_tensor_scan(Context& cx) {
  using namespace isa::slot::tensor_tensor_scan;
  const AluOp op0 = cx.alu(kAOp0);
  const AluOp op1 = cx.alu(kAOp1);
  if (is_bitvec(op0) || is_bitvec(op1)) cx.broken("op", "bit-vector operators are not supported");
  View data0 = cx.source(kData0);
  View data1 = cx.source(kData1);
  const PerPartition initial = cx.per_partition(kInitial, data0.partitions);
  const View dst = cx.destination(kDst);
  cx.expect_same_shape(dst, data0, kDst, kData0);
  cx.expect_same_shape(dst, data1, kDst, kData1);
  cx.separate(dst, data0, data1);
  const ScanOperators ops{op0, op1, cx.boolean(kAReverse0), cx.boolean(kAReverse1)};
  const std::array<const View*, 2> data{&data0, &data1};
  if (cx.defers()) {
    const std::array<const Producer*, 2> producers = producers_of<2>(cx, data);
    defer_rows<2>(cx, data, dst, [&](const std::array<const View*, 2>& in, const View& out, int64_t p0) {
      RowScan(ops, {in, producers, p0}, initial, out).run(0, out.partitions);
    });
    return;
  }
  const Sources<2> whole{data};
  const RowScan scan(ops, whole, initial, dst);
  cx.parallel(dst.partitions, dst.repeats() ? 0 : dst.total() * 2,
              [&](int64_t begin, int64_t end) { scan.run(begin, end); });
}

// One row from all partitions, first to last in fp32 [assumed order]; average divides the sum by P.
void tensor_partition_reduce(Context& cx) {
  using namespace isa::slot::tensor_partition_reduce;
  const AluOp op = cx.alu(kAOp);
  if (op != AluOp::kAverage) require_reduction(cx, op);
  View data = cx.source(kData);
  const View dst = cx.destination(kDst);
  cx.expect_partitions(dst, kDst, 1);
  cx.expect_elements(dst, kDst, data.elements);
  cx.separate(dst, data);
  const size_t n = static_cast<size_t>(data.elements);
  if (is_bitvec(op)) {
    if (!is_integer(data.dtype) || !is_integer(dst.dtype))
      cx.broken("bitvec_dtype", fmt::format("{} reduces integers", name(op)));
    int64_t* result = cx.scratch.array<int64_t>(data.elements);
    int64_t* row = cx.scratch.array<int64_t>(data.elements);
    load_row_i64(data, 0, result);
    for (int64_t p = 1; p < data.partitions; ++p) {
      load_row_i64(data, p, row);
      numerics::alu_tensor_tensor_int(op, data.dtype, result, row, result, n);
    }
    store_row_i64(dst, 0, result);
    return;
  }
  float* result = cx.scratch.floats(data.elements);
  float* row_scratch = cx.scratch.floats(data.elements);
  const float* first = load_row(data, 0, row_scratch);
  std::copy(first, first + n, result);
  const AluOp step = op == AluOp::kAverage ? AluOp::kAdd : op;
  for (int64_t p = 1; p < data.partitions; ++p)
    numerics::alu_tensor_tensor(step, result, load_row(data, p, row_scratch), result, n);
  if (op == AluOp::kAverage)
    numerics::alu_tensor_scalar(AluOp::kDivide, result, static_cast<float>(data.partitions), false, result,
                                n);
  store_row(dst, 0, result);
}

}  // namespace opentrn::sim::bodies
