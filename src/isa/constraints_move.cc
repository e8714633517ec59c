// Rules of data movement: DMA, copies, transposes, gathers, exchanges between cores, registers.
#include <algorithm>

#include "isa/constraints_context.h"

namespace opentrn::isa::constraint {

namespace {

constexpr int64_t kDmaSourcesMax = 16;
constexpr int64_t kDmaTransposeColumnsMax = 128;
constexpr int64_t kVectorTransposeMax = 32;
constexpr int64_t kShuffleQuadrant = 32;
constexpr int64_t kShuffleKeep = 255;
constexpr int64_t kGpSimdCorePartitions = 16;
constexpr int64_t kGatherIndicesMax = 4096;
constexpr int64_t kGpSimdDmaElementsMax = 256;

void same_total(const Check& c, int number, int a, int b) {
  const Tile x = c.resolve(c.operand(a)), y = c.resolve(c.operand(b));
  if (x.total() != y.total()) [[unlikely]]
    c.fail(number,
           fmt::format("{} has {} elements, {} has {}; they must be equal", c.slot_name(a), x.total(),
                       c.slot_name(b), y.total()),
           "slice the larger one");
}

DgeMode dge_mode(const Check& c, int slot) { return static_cast<DgeMode>(c.integer(slot)); }

// Hardware DGE on `generation`; `number` is the instruction's rule.
void hwdge_exists(const Check& c, int number) {
  if (c.generation < 3)
    c.fail(number, "dge_mode=hwdge needs NeuronCore-v3 or newer", "use dge_mode.unknown or swdge");
}

void priority_allowed(const Check& c, int number, int64_t priority) {
  if (priority <= 0) return;  // 0, and -1 for None, leave it to the queue
  if (c.generation < 4 || priority > 3)
    c.fail(number, fmt::format("priority is {}; 0 to 3 exist, from NeuronCore-v4 on", priority));
}

}  // namespace

void check_dma_copy(const Check& c) {
  using namespace slot::dma_copy;
  same_total(c, 1, kDst, kSrc);
  const DgeMode dge = dge_mode(c, kADgeMode);
  const bool vector_offset =
      c.indirect(kSrc, IndirectKind::kVector) || c.indirect(kDst, IndirectKind::kVector);
  if (dge == DgeMode::kHwdge) {
    hwdge_exists(c, 2);
    if (c.in.engine != Engine::kUnknown && c.in.engine != Engine::kScalar && c.in.engine != Engine::kSync)
      c.fail(4, fmt::format("engine is {}; hardware DGE is triggered by scalar or sync", name(c.in.engine)));
    if (c.tile(kDst).dtype() != c.tile(kSrc).dtype())
      c.fail(6,
             fmt::format("dst is {}, src is {}; hardware DGE moves bytes and converts nothing",
                         name(c.tile(kDst).dtype()), name(c.tile(kSrc).dtype())),
             "leave dge_mode unknown, or reinterpret with .view()");
  }
  if (vector_offset && (dge == DgeMode::kHwdge || dge == DgeMode::kNone)) [[unlikely]]
    c.fail(3, "a vector_offset needs descriptors made by software", "use dge_mode.unknown or swdge");
  priority_allowed(c, 5, c.integer(kAPriority));
}

void check_dma_transpose(const Check& c) {
  using namespace slot::dma_transpose;
  const Tile &src = c.tile(kSrc), &dst = c.tile(kDst);
  if (dst.space() != MemorySpace::kSbuf)
    c.fail(1, fmt::format("dst is in {}; it must be in sbuf", name(dst.space())));
  c.same_dtype(2, kDst, kSrc);
  same_total(c, 3, kDst, kSrc);
  const std::span<const int64_t> axes = c.program.attribute_list(c.in, kAAxes);
  constexpr std::array<int64_t, 2> k2 = {1, 0};
  constexpr std::array<int64_t, 3> k3 = {2, 1, 0};
  constexpr std::array<int64_t, 4> k4 = {3, 1, 2, 0};
  const int rank = src.pattern->rank;
  const bool known = std::ranges::equal(axes, k2) || std::ranges::equal(axes, k3) ||
                     std::ranges::equal(axes, k4) || axes.empty();
  if (!known || (!axes.empty() && static_cast<int>(axes.size()) != rank) || rank < 2 || rank > 4)
    c.fail(
        4,
        fmt::format(
            "axes has {} numbers for a src of rank {}; (1, 0), (2, 1, 0) and (3, 1, 2, 0) can be transposed",
            axes.size(), rank));
  const DgeMode dge = dge_mode(c, kADgeMode);
  if (dge == DgeMode::kHwdge) hwdge_exists(c, 5);
  const int64_t columns = src.pattern->dims[static_cast<size_t>(rank - 1)].count;
  if (c.indirect(kSrc, IndirectKind::kVector)) {
    if (dge == DgeMode::kHwdge || dge == DgeMode::kNone)
      c.fail(7, "a transpose with a vector_offset needs descriptors made by software",
             "use dge_mode.unknown or swdge");
    if (size_bytes(src.dtype()) != 2 || columns > kDmaTransposeColumnsMax ||
        src.pattern->dims[0].count % 16 != 0 || !is_hbm(src.space()))
      c.fail(7, fmt::format("src is {} with {} rows of {} elements in {}; a gathering transpose needs 2-byte "
                            "elements in HBM, a "
                            "multiple of 16 rows and at most {} columns",
                            name(src.dtype()), src.pattern->dims[0].count, columns, name(src.space()),
                            kDmaTransposeColumnsMax));
  } else if (dge == DgeMode::kHwdge) {
    if (size_bytes(src.dtype()) != 2 || columns > kDmaTransposeColumnsMax)
      c.fail(6,
             fmt::format(
                 "src is {} with {} columns; hardware DGE transposes 2-byte elements, at most {} columns",
                 name(src.dtype()), columns, kDmaTransposeColumnsMax),
             "use dge_mode.unknown");
  }
}

void check_dma_compute(const Check& c) {
  using namespace slot::dma_compute;
  const int sources = c.in.operand_count - kSrc0;
  if (sources > kDmaSourcesMax) [[unlikely]]
    c.fail(1, fmt::format("{} sources; at most {} are possible", sources, kDmaSourcesMax),
           "add in several steps");
  if (c.alu(kAReduceOp) != AluOp::kAdd)
    c.fail(2, fmt::format("reduce_op is {}; DMA engines only add", name(c.alu(kAReduceOp))));
  bool gathers = c.indirect(kDst, IndirectKind::kVector);
  for (int i = 0; i < sources; ++i) {
    same_total(c, 3, kDst, kSrc0 + i);
    gathers |= c.indirect(kSrc0 + i, IndirectKind::kVector);
  }
  if (!gathers) return;
  if (sources != 2) c.fail(4, fmt::format("{} sources with a vector_offset; exactly 2 are needed", sources));
  if (!c.boolean(kAUniqueIndices))
    c.fail(5, "unique_indices is False with a vector_offset", "indices must be unique");
}

void check_tensor_copy(const Check& c) {
  using namespace slot::tensor_copy;
  c.same_shape(1, kDst, kSrc);
  if (c.in.engine == Engine::kScalar) {
    if (c.generation < 3)
      c.fail(2, "the Scalar engine copies from NeuronCore-v3 on", "use activation with op=nl.copy");
    if (c.indirect(kDst, IndirectKind::kTensor) && c.tile(kDst).in_psum())
      c.fail(3, "the Scalar engine cannot scatter into PSUM", "use engine.vector");
  }
}

void check_memset(const Check& c) {
  using namespace slot::memset;
  if (is_packed_x4(c.tile(kDst).dtype()) && c.immediate(kValue) != 0) [[unlikely]]
    c.fail(1, fmt::format("value is {}; a tile of {} can only be set to 0", c.immediate(kValue),
                          name(c.tile(kDst).dtype())));
}

void check_tensor_copy_predicated(const Check& c) {
  using namespace slot::tensor_copy_predicated;
  c.same_shape(1, kDst, kPredicate);
  c.dtype_in(2, kPredicate, {DType::kBool, DType::kUint8, DType::kUint16, DType::kUint32});
  if (!c.has_tile(kSrc)) return;
  c.same_shape(1, kDst, kSrc);
  c.same_dtype(3, kDst, kSrc);
  c.not_both_in_psum(4, kSrc, kPredicate);
}

// An engine that is not named is chosen by size and space: Tensor from SBUF to PSUM up to 128 x 128, Vector
// up to 32 x 32.
void check_nc_transpose(const Check& c) {
  using namespace slot::nc_transpose;
  const Tile &dst = c.tile(kDst), &data = c.tile(kData);
  if (dst.partitions != data.free || dst.free != data.partitions) [[unlikely]]
    c.fail(1, fmt::format("dst is {} x {}; the transpose of data is {} x {}", dst.partitions, dst.free,
                          data.free, data.partitions));
  c.same_dtype(2, kDst, kData);
  // 128 x 128, the Tensor engine's limit, is what 128 partitions on both sides allow (isa.C6).
  const bool fits_vector = data.partitions <= kVectorTransposeMax && data.free <= kVectorTransposeMax;
  const bool tensor_can = !data.in_psum() && dst.in_psum();
  if (c.in.engine == Engine::kTensor) {
    if (!tensor_can) c.fail(3, "the Tensor engine transposes from SBUF to PSUM", "use engine.vector");
  } else if (c.in.engine == Engine::kVector) {
    if (!fits_vector)
      c.fail(4,
             fmt::format("data is {} x {}; the Vector engine transposes at most {} x {}", data.partitions,
                         data.free, kVectorTransposeMax, kVectorTransposeMax),
             "use engine.tensor with dst in PSUM");
  } else if (!fits_vector && !tensor_can) {
    c.fail(5,
           fmt::format("data is {} x {} in {}, dst is in {}; no engine transposes that", data.partitions,
                       data.free, name(data.space()), name(dst.space())),
           "up to 128 x 128 from SBUF to PSUM, up to 32 x 32 elsewhere");
  }
}

void check_nc_stream_shuffle(const Check& c) {
  using namespace slot::nc_stream_shuffle;
  c.same_dtype(1, kDst, kSrc);
  c.elements(2, kDst, c.tile(kSrc).free);
  const std::span<const int64_t> shuffle = c.program.attribute_list(c.in, kAShuffleMask);
  if (static_cast<int64_t>(shuffle.size()) != kShuffleQuadrant) [[unlikely]]
    c.fail(3, fmt::format("shuffle_mask has {} numbers; it must have {}", shuffle.size(), kShuffleQuadrant));
  for (int64_t from : shuffle)
    if ((from < 0 || from >= kShuffleQuadrant) && from != kShuffleKeep) [[unlikely]]
      c.fail(4, fmt::format("shuffle_mask has {}; 0 to {} name a partition, {} keeps dst", from,
                            kShuffleQuadrant - 1, kShuffleKeep));
}

void check_local_gather(const Check& c) {
  using namespace slot::local_gather;
  const Tile &dst = c.tile(kDst), &src = c.tile(kSrcBuffer), &index = c.tile(kIndex);
  c.same_partitions(1, kSrcBuffer, kIndex);
  if (src.partitions % kGpSimdCorePartitions != 0) [[unlikely]]
    c.fail(2, fmt::format("src_buffer has {} partitions; a multiple of {} is needed", src.partitions,
                          kGpSimdCorePartitions));
  const int64_t per_index = c.integer(kANumElemPerIdx);
  if (per_index < 1 || per_index > 32 || (per_index & (per_index - 1)) != 0)
    c.fail(3, fmt::format("num_elem_per_idx is {}; 1, 2, 4, 8, 16 and 32 are possible", per_index));
  const int64_t per_core = index.free * kGpSimdCorePartitions;
  const int64_t valid = c.integer(kANumValidIndices) < 0 ? per_core : c.integer(kANumValidIndices);
  if (valid > per_core || valid > kGatherIndicesMax || valid < 1)
    c.fail(4, fmt::format("{} indices per GpSimd core; the index tile has {}, and at most {} are possible",
                          valid, per_core, kGatherIndicesMax));
  c.dtype_in(5, kIndex, {DType::kUint16});
  c.same_dtype(6, kDst, kSrcBuffer);
  if (dst.partitions != src.partitions || dst.free < valid * per_index)
    c.fail(7, fmt::format("dst has {} partitions x {} elements; {} x {} are gathered", dst.partitions,
                          dst.free, src.partitions, valid * per_index));
}

void check_nc_n_gather(const Check& c) {
  using namespace slot::nc_n_gather;
  c.same_shape(1, kDst, kIndices);
  c.same_partitions(2, kDst, kData);
  c.same_dtype(3, kDst, kData);
  c.dtype_in(4, kIndices, {DType::kUint32});
}

void check_sendrecv(const Check& c) {
  using namespace slot::sendrecv;
  const Tile& src = c.tile(kSrc);
  if (src.space() != MemorySpace::kSbuf || c.tile(kDst).space() != MemorySpace::kSbuf)
    c.fail(1, "src and dst must both be in SBUF");
  c.same_dtype(2, kDst, kSrc);
  c.same_shape(3, kDst, kSrc);
  for (int64_t rank : {c.integer(kASendToRank), c.integer(kARecvFromRank)})
    if (rank != 0 && rank != 1)
      c.fail(4, fmt::format("rank {}; the cores of a logical NeuronCore are 0 and 1", rank));
  if (static_cast<DmaEngine>(c.integer(kADmaEngine)) == DmaEngine::kGpSimdDma &&
      src.free > kGpSimdDmaElementsMax)
    c.fail(5,
           fmt::format("{} elements per partition; the DMA of GpSimd exchanges at most {}", src.free,
                       kGpSimdDmaElementsMax),
           "use dma_engine.dma");
}

void check_core_barrier(const Check& c) {
  const std::span<const int64_t> cores = c.program.attribute_list(c.in, slot::core_barrier::kACores);
  constexpr std::array<int64_t, 2> kBoth = {0, 1};
  if (!std::ranges::equal(cores, kBoth)) c.fail(1, "cores must be (0, 1)");
}

void check_register_load(const Check& c) {
  const Tile& src = c.tile(slot::register_load::kSrc);
  if (src.total() != 1 || size_bytes(src.dtype()) > 4)
    c.fail(1, fmt::format("src has {} elements of {}; a register takes one of up to 32 bits", src.total(),
                          name(src.dtype())));
}

void check_register_store(const Check& c) {
  const Tile& dst = c.tile(slot::register_store::kDst);
  if (dst.total() != 1 || size_bytes(dst.dtype()) > 4)
    c.fail(1, fmt::format("dst has {} elements of {}; a register gives one of up to 32 bits", dst.total(),
                          name(dst.dtype())));
}

void check_loop(const Check& c) {
  const int64_t step = c.integer(slot::loop::kAStep);
  if (c.in.opcode == Opcode::kLoopBegin && step < 1)
    c.fail(1, fmt::format("step is {}; it must be positive", step));
}

}  // namespace opentrn::isa::constraint
