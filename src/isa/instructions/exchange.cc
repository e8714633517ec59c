// What the two cores of a logical NeuronCore do together.
#include <algorithm>
#include <array>
#include <span>

#include "isa/instructions/row.h"

namespace opentrn::isa::instructions {

namespace {

constexpr int64_t kGpSimdDmaElementsMax = 256;

// -- sendrecv
constexpr OperandSlot kSendrecvOperands[] = {out("dst", kDmaSpaces), in("src", kDmaSpaces)};
constexpr AttributeSlot kSendrecvAttributes[] = {{"send_to_rank", K::kInt},
                                                 {"recv_from_rank", K::kInt},
                                                 {"pipe_id", K::kInt},
                                                 {"dma_engine", K::kDmaEngine}};
constexpr Parameter kSendrecvParameters[] = {
    operand("src", slot::sendrecv::kSrc),
    operand("dst", slot::sendrecv::kDst),
    attribute("send_to_rank", 0),
    attribute("recv_from_rank", 1),
    attribute("pipe_id", 2),
    attribute("dma_engine", 3, 1),
    name(),
    {"use_gpsimd_dma", ParameterRole::kGpSimdDma, slot::sendrecv::kADmaEngine, false, false}};
constexpr Constraint kSendrecvConstraints[] = {
    {"sendrecv.C1", "src and dst are in SBUF.", "nki.isa.sendrecv, 'Constraints'"},
    {"sendrecv.C2", "src and dst have the same type.", "nki.isa.sendrecv, 'Constraints'"},
    {"sendrecv.C3", "src and dst have the same partitions and elements per partition.",
     "nki.isa.sendrecv, 'Constraints'"},
    {"sendrecv.C4", "Ranks are 0 and 1.", "nki.isa.sendrecv, send_to_rank"},
    {"sendrecv.C5",
     "The DMA of GpSimd exchanges at most 256 elements per partition (1024, 512 or 256 bytes of 32, 16 or 8 "
     "bits).",
     "nki.isa.sendrecv, dma_engine"}};

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

}  // namespace

constexpr InstructionDefinition sendrecv = {
    .opcode = Opcode::kSendRecv,
    .name = "sendrecv",
    .engines = kOnDma | kOnGpSimd,
    .first_generation = Generation::kV3,
    .operands = kSendrecvOperands,
    .attributes = kSendrecvAttributes,
    .traits = {kAlone | kSynchronisesCores},
    .signature = {Engine::kUnknown, kSendrecvParameters},
    .summary = "Send src to one core of the logical NeuronCore while receiving dst from one.",
    .constraints = kSendrecvConstraints,
    .check = check_sendrecv,
};

namespace {

// -- core_barrier
constexpr OperandSlot kCoreBarrierOperands[] = {inout("data", kInHbm | kInSbuf)};
constexpr AttributeSlot kCoreBarrierAttributes[] = {{"cores", K::kIntList}};
constexpr Parameter kCoreBarrierParameters[] = {operand("data", 0), attribute("cores", 0), engine(), name()};
constexpr Constraint kCoreBarrierConstraints[] = {
    {"core_barrier.C1", "cores is (0, 1).", "nki.isa.core_barrier, cores"}};

void check_core_barrier(const Check& c) {
  const std::span<const int64_t> cores = c.program.attribute_list(c.in, slot::core_barrier::kACores);
  constexpr std::array<int64_t, 2> kBoth = {0, 1};
  if (!std::ranges::equal(cores, kBoth)) c.fail(1, "cores must be (0, 1)");
}

}  // namespace

constexpr InstructionDefinition core_barrier = {
    .opcode = Opcode::kCoreBarrier,
    .name = "core_barrier",
    .engines = kOnGpSimd | kOnVector | kOnScalar | kOnTensor | kOnSync,
    .first_generation = Generation::kV3,
    .operands = kCoreBarrierOperands,
    .attributes = kCoreBarrierAttributes,
    .traits = {kAlone | kSynchronisesCores},
    .signature = {Engine::kGpSimd, kCoreBarrierParameters},
    .summary = "Wait until both cores of the logical NeuronCore have reached this barrier.",
    .constraints = kCoreBarrierConstraints,
    .check = check_core_barrier,
};

}  // namespace opentrn::isa::instructions
