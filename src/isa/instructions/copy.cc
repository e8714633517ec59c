// Data movement within a core: copies, transposes, shuffles and gathers by the engines.
#include <span>

#include "isa/instructions/row.h"

namespace opentrn::isa::instructions {

namespace {

constexpr int64_t kVectorTransposeMax = 32;
constexpr int64_t kShuffleQuadrant = 32;
constexpr int64_t kShuffleKeep = 255;
constexpr int64_t kGatherIndicesMax = 4096;

// -- tensor_copy
constexpr OperandSlot kTensorCopyOperands[] = {out("dst", kOnChip, kIndirectTile),
                                               in("src", kOnChip, kIndirectTile)};
// `dtype` is in no documented signature since NKI 0.2, but kernels of AWS's nki-samples
// (matrix_multiplication) and of others still say it.
constexpr Parameter kTensorCopyParameters[] = {
    operand("dst", 0), operand("src", 1), engine(), name(), {"dtype", ParameterRole::kResultType}};
constexpr Constraint kTensorCopyConstraints[] = {
    {"tensor_copy.C1", "dst and src have the same partitions and elements per partition.",
     "nki.isa.tensor_copy, first paragraphs"},
    {"tensor_copy.C2", "The Scalar engine copies from NeuronCore-v3 on.",
     "nki.isa.tensor_copy, 'On NeuronCore v2'"},
    {"tensor_copy.C3", "The Scalar engine cannot scatter into PSUM.",
     "nki.isa.tensor_copy, 'Tensor indirection'"}};

void check_tensor_copy(const Check& c) {
  using namespace slot::tensor_copy;
  c.same_shape(1, kDst, kSrc);
  if (c.in.engine == Engine::kScalar) {
    if (!c.can.scalar_copies)
      c.fail(2, "the Scalar engine copies from NeuronCore-v3 on", "use activation with op=nl.copy");
    if (c.indirect(kDst, IndirectKind::kTensor) && c.tile(kDst).in_psum())
      c.fail(3, "the Scalar engine cannot scatter into PSUM", "use engine.vector");
  }
}

}  // namespace

constexpr InstructionDefinition tensor_copy = {
    .opcode = Opcode::kTensorCopy,
    .name = "tensor_copy",
    .engines = kOnVector | kOnScalar | kOnGpSimd,
    .first_generation = Generation::kV1,
    .operands = kTensorCopyOperands,
    .traits = {kByRows | kCopies | kMergeable},
    .signature = {Engine::kUnknown, kTensorCopyParameters},
    .summary = "dst = src on chip: same bits when the dtypes agree, else through float32.",
    .constraints = kTensorCopyConstraints,
    .check = check_tensor_copy,
};

namespace {

// -- memset
constexpr OperandSlot kMemsetOperands[] = {out("dst"), in("value", 0, kAcceptsImmediate)};
constexpr Parameter kMemsetParameters[] = {operand("dst", 0), operand("value", 1), engine(), name()};
constexpr Constraint kMemsetConstraints[] = {
    {"memset.C1", "A tile of a packed x4 type can only be set to 0.", "nki.isa.memset, note"}};

void check_memset(const Check& c) {
  using namespace slot::memset;
  if (is_packed_x4(c.tile(kDst).dtype()) && c.immediate(kValue) != 0) [[unlikely]]
    c.fail(1, fmt::format("value is {}; a tile of {} can only be set to 0", c.immediate(kValue),
                          name(c.tile(kDst).dtype())));
}

}  // namespace

constexpr InstructionDefinition memset = {
    .opcode = Opcode::kMemset,
    .name = "memset",
    .engines = kOnVector | kOnGpSimd,
    .first_generation = Generation::kV1,
    .operands = kMemsetOperands,
    .traits = {kByRows},
    .signature = {Engine::kUnknown, kMemsetParameters},
    .summary =
        "Fill dst with a constant, rounded once to its dtype; integers outside the dtype's range are "
        "refused.",
    .constraints = kMemsetConstraints,
    .check = check_memset,
};

namespace {

// -- tensor_copy_predicated
constexpr OperandSlot kTensorCopyPredicatedOperands[] = {inout("dst", kOnChip, kIndirectTile),
                                                         in("src", kOnChip, kScalarOrVector),
                                                         in("predicate", kOnChip, kIndirectTile)};
constexpr AttributeSlot kTensorCopyPredicatedAttributes[] = {{"reverse_pred", K::kBool}};
constexpr Parameter kTensorCopyPredicatedParameters[] = {
    operand("dst", 0), operand("src", 1), operand("predicate", 2), attribute("reverse_pred", 0, 0), name()};
constexpr Constraint kTensorCopyPredicatedConstraints[] = {
    {"tensor_copy_predicated.C1",
     "dst, src and predicate have the same partitions and elements per partition.",
     "nki.isa.tensor_copy_predicated, constraint 1"},
    {"tensor_copy_predicated.C2", "predicate is uint8, uint16 or uint32.",
     "nki.isa.tensor_copy_predicated, constraint 2"},
    {"tensor_copy_predicated.C3", "src and dst have the same type.",
     "nki.isa.tensor_copy_predicated, constraint 3"},
    {"tensor_copy_predicated.C4", "src and predicate are not both in PSUM.",
     "nki.isa.tensor_copy_predicated, first paragraphs"}};

void check_tensor_copy_predicated(const Check& c) {
  using namespace slot::tensor_copy_predicated;
  c.same_shape(1, kDst, kPredicate);
  c.dtype_in(2, kPredicate, {DType::kBool, DType::kUint8, DType::kUint16, DType::kUint32});
  if (!c.has_tile(kSrc)) return;
  c.same_shape(1, kDst, kSrc);
  c.same_dtype(3, kDst, kSrc);
  c.not_both_in_psum(4, kSrc, kPredicate);
}

}  // namespace

constexpr InstructionDefinition tensor_copy_predicated = {
    .opcode = Opcode::kTensorCopyPredicated,
    .name = "tensor_copy_predicated",
    .engines = kOnVector,
    .first_generation = Generation::kV2,
    .operands = kTensorCopyPredicatedOperands,
    .attributes = kTensorCopyPredicatedAttributes,
    .signature = {Engine::kVector, kTensorCopyPredicatedParameters},
    .summary =
        "dst[i] = src[i] where predicate[i] is not 0 (0 when reverse_pred); other elements keep their value.",
    .constraints = kTensorCopyPredicatedConstraints,
    .check = check_tensor_copy_predicated,
};

namespace {

// -- nc_transpose
constexpr OperandSlot kNcTransposeOperands[] = {out("dst"), in("data")};
constexpr Parameter kNcTransposeParameters[] = {operand("dst", 0), operand("data", 1), engine(), name()};
constexpr Constraint kNcTransposeConstraints[] = {
    {"nc_transpose.C1", "dst is data with partitions and elements exchanged.",
     "nki.isa.nc_transpose, 'Layout'"},
    {"nc_transpose.C2", "dst and data have the same type.", "nki.isa.nc_transpose, 'Data types'"},
    {"nc_transpose.C3", "The Tensor engine transposes from SBUF to PSUM.",
     "nki.isa.nc_transpose, 'Memory types'"},
    {"nc_transpose.C4", "The Vector engine transposes at most 32 x 32.", "nki.isa.nc_transpose, 'Tile size'"},
    {"nc_transpose.C5", "Without a named engine, one of the two must be able to.",
     "nki.isa.nc_transpose, 'Tile size'"}};

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

}  // namespace

constexpr InstructionDefinition nc_transpose = {
    .opcode = Opcode::kNcTranspose,
    .name = "nc_transpose",
    .engines = kOnTensor | kOnVector,
    .first_generation = Generation::kV1,
    .operands = kNcTransposeOperands,
    .signature = {Engine::kUnknown, kNcTransposeParameters},
    .summary = "dst = transpose of data over (partition, all free dimensions flattened); bits stay.",
    .constraints = kNcTransposeConstraints,
    .check = check_nc_transpose,
};

namespace {

// -- nc_stream_shuffle
constexpr OperandSlot kNcStreamShuffleOperands[] = {inout("dst"), in("src")};
constexpr AttributeSlot kNcStreamShuffleAttributes[] = {{"shuffle_mask", K::kIntList}};
constexpr Parameter kNcStreamShuffleParameters[] = {operand("dst", 0), operand("src", 1),
                                                    attribute("shuffle_mask", 0), name()};
constexpr Constraint kNcStreamShuffleConstraints[] = {
    {"nc_stream_shuffle.C1", "dst and src have the same type.", "nki.isa.nc_stream_shuffle, constraint 1"},
    {"nc_stream_shuffle.C2", "dst and src have the same number of elements per partition.",
     "nki.isa.nc_stream_shuffle, constraint 2"},
    {"nc_stream_shuffle.C3", "shuffle_mask has 32 numbers.", "nki.isa.nc_stream_shuffle, shuffle_mask"},
    {"nc_stream_shuffle.C4", "A number of shuffle_mask is 0 to 31, or 255 to keep dst.",
     "nki.isa.nc_stream_shuffle, shuffle_mask"}};

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

}  // namespace

constexpr InstructionDefinition nc_stream_shuffle = {
    .opcode = Opcode::kNcStreamShuffle,
    .name = "nc_stream_shuffle",
    .engines = kOnVector,
    .first_generation = Generation::kV2,
    .operands = kNcStreamShuffleOperands,
    .attributes = kNcStreamShuffleAttributes,
    .traits = {kByRows},
    .signature = {Engine::kVector, kNcStreamShuffleParameters},
    .summary =
        "In each quadrant of 32 partitions, dst partition i = src partition shuffle_mask[i]; 255 leaves it "
        "unchanged.",
    .constraints = kNcStreamShuffleConstraints,
    .check = check_nc_stream_shuffle,
};

namespace {

// -- local_gather
constexpr OperandSlot kLocalGatherOperands[] = {out("dst", kInSbuf), in("src_buffer", kInSbuf),
                                                in("index", kInSbuf)};
constexpr AttributeSlot kLocalGatherAttributes[] = {{"num_elem_per_idx", K::kInt},
                                                    {"num_valid_indices", K::kInt}};
constexpr Parameter kLocalGatherParameters[] = {operand("dst", 0),
                                                operand("src_buffer", 1),
                                                operand("index", 2),
                                                attribute("num_elem_per_idx", 0, 1),
                                                unset("num_valid_indices", 1),
                                                name()};
constexpr Constraint kLocalGatherConstraints[] = {
    {"local_gather.C1", "src_buffer and index have the same partitions.",
     "nki.isa.local_gather, constraint 1"},
    {"local_gather.C2", "The partitions are a multiple of 16.", "nki.isa.local_gather, constraint 1"},
    {"local_gather.C3", "num_elem_per_idx is 1, 2, 4, 8, 16 or 32.", "nki.isa.local_gather, constraint 2"},
    {"local_gather.C4", "A core gathers 1 to 4096 indices, no more than its index slice has.",
     "nki.isa.local_gather, constraint 3; num_valid_indices"},
    {"local_gather.C5", "index is uint16.", "nki.isa.local_gather, 'preserves the input data types'"},
    {"local_gather.C6", "dst and src_buffer have the same type.",
     "nki.isa.local_gather, 'preserves the input data types'"},
    {"local_gather.C7", "dst holds what is gathered.", "nki.isa.local_gather, num_elem_per_idx"}};

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

}  // namespace

constexpr InstructionDefinition local_gather = {
    .opcode = Opcode::kLocalGather,
    .name = "local_gather",
    .engines = kOnGpSimd,
    .first_generation = Generation::kV2,
    .operands = kLocalGatherOperands,
    .attributes = kLocalGatherAttributes,
    .signature = {Engine::kGpSimd, kLocalGatherParameters},
    .summary =
        "Each group of 16 partitions gathers num_elem_per_idx elements from every element offset in its "
        "index slice.\n\nThe 16 x K indices of a group are read partition first; all its 16 partitions use "
        "all of them. Output per partition is [number of indices, num_elem_per_idx]. Without "
        "num_valid_indices every index of the slice is used.",
    .constraints = kLocalGatherConstraints,
    .check = check_local_gather,
};

namespace {

// -- nc_n_gather
constexpr OperandSlot kNcNGatherOperands[] = {out("dst", kInSbuf), in("data", kInSbuf),
                                              in("indices", kInSbuf)};
constexpr Parameter kNcNGatherParameters[] = {operand("dst", 0), operand("data", 1), operand("indices", 2),
                                              name()};
constexpr Constraint kNcNGatherConstraints[] = {
    {"nc_n_gather.C1", "dst and indices have the same partitions and elements per partition.",
     "nki.isa.nc_n_gather, 'Tile size'"},
    {"nc_n_gather.C2", "dst and data have the same partitions.", "nki.isa.nc_n_gather, 'Layout'"},
    {"nc_n_gather.C3", "dst and data have the same type.", "nki.isa.nc_n_gather, 'Data types'"},
    {"nc_n_gather.C4", "indices is uint32.", "nki.isa.nc_n_gather, 'Data types'"}};

void check_nc_n_gather(const Check& c) {
  using namespace slot::nc_n_gather;
  c.same_shape(1, kDst, kIndices);
  c.same_partitions(2, kDst, kData);
  c.same_dtype(3, kDst, kData);
  c.dtype_in(4, kIndices, {DType::kUint32});
}

}  // namespace

constexpr InstructionDefinition nc_n_gather = {
    .opcode = Opcode::kNcNGather,
    .name = "nc_n_gather",
    .engines = kOnGpSimd,
    .first_generation = Generation::kV2,
    .operands = kNcNGatherOperands,
    .signature = {Engine::kGpSimd, kNcNGatherParameters},
    .summary = "dst[p, i] = data[p, indices[p, i]] with the free dimensions flattened.",
    .constraints = kNcNGatherConstraints,
    .check = check_nc_n_gather,
};

}  // namespace opentrn::isa::instructions
