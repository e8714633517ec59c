// Data movement within a core: copies, transposes, shuffles and gathers by the engines. Opcodes with their
// numbers, and slots; see isa/opcode.h.
#pragma once

#define OPENTRN_COPY_INSTRUCTIONS(X)                  \
  X(kTensorCopy, tensor_copy, 3)                      \
  X(kMemset, memset, 4)                               \
  X(kTensorCopyPredicated, tensor_copy_predicated, 5) \
  X(kNcTranspose, nc_transpose, 6)                    \
  X(kNcStreamShuffle, nc_stream_shuffle, 7)           \
  X(kLocalGather, local_gather, 8)                    \
  X(kNcNGather, nc_n_gather, 9)

namespace opentrn::isa::slot {

namespace tensor_copy {
enum { kDst, kSrc };
}  // namespace tensor_copy
namespace memset {
enum { kDst, kValue };
}  // namespace memset
namespace tensor_copy_predicated {
enum { kDst, kSrc, kPredicate };
enum { kAReversePred };
}  // namespace tensor_copy_predicated
namespace nc_transpose {
enum { kDst, kData };
}  // namespace nc_transpose
namespace nc_stream_shuffle {
enum { kDst, kSrc };
enum { kAShuffleMask };
}  // namespace nc_stream_shuffle
namespace local_gather {
enum { kDst, kSrcBuffer, kIndex };
enum { kANumElemPerIdx, kANumValidIndices };
}  // namespace local_gather
namespace nc_n_gather {
enum { kDst, kData, kIndices };
}  // namespace nc_n_gather

}  // namespace opentrn::isa::slot
