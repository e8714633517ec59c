// Data movement by the DMA engines.
#include <algorithm>
#include <array>
#include <span>

#include "isa/instructions/row.h"

namespace opentrn::isa::instructions {

namespace {

constexpr int64_t kDmaSourcesMax = 16;
constexpr int64_t kDmaTransposeColumnsMax = 128;

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
  if (!c.can.hardware_descriptors)
    c.fail(number, "dge_mode=hwdge needs NeuronCore-v3 or newer", "use dge_mode.unknown or swdge");
}

void priority_allowed(const Check& c, int number, int64_t priority) {
  constexpr int64_t kNotGiven = -1, kLowest = 3;
  if (priority == kNotGiven) [[likely]]
    return;
  if (!c.can.dma_classes || priority < 0 || priority > kLowest)
    c.fail(number, fmt::format("priority is {}; 0 to {} exist, from NeuronCore-v4 on", priority, kLowest),
           !c.can.dma_classes ? "leave priority out, or target trn3" : "use 0 (first) to 3 (last)");
}

// -- dma_copy
constexpr OperandSlot kDmaCopyOperands[] = {out("dst", kDmaSpaces), in("src", kDmaSpaces)};
constexpr AttributeSlot kDmaCopyAttributes[] = {
    {"priority", K::kInt}, {"oob_mode", K::kOobMode}, {"dge_mode", K::kDgeMode}};
constexpr Parameter kDmaCopyParameters[] = {operand("dst", slot::dma_copy::kDst),
                                            operand("src", slot::dma_copy::kSrc),
                                            untimed(unset("priority", slot::dma_copy::kAPriority)),
                                            attribute("oob_mode", slot::dma_copy::kAOobMode, 0),
                                            attribute("dge_mode", slot::dma_copy::kADgeMode, 0),
                                            engine(),
                                            name(),
                                            untimed(ignored_flag("unique_indices"))};
constexpr Constraint kDmaCopyConstraints[] = {
    {"dma_copy.C1", "dst and src have the same number of elements.", "nki.isa.dma_copy, 'Tile size'"},
    {"dma_copy.C2", "dge_mode hwdge needs NeuronCore-v3.", "nki.isa.dma_copy, dge_mode"},
    {"dma_copy.C3", "A vector_offset needs dge_mode unknown or swdge.",
     "nki.isa.dma_copy, nki-dge.rst, 'How .ap() affects DGE mode'"},
    {"dma_copy.C4", "Hardware DGE is triggered by the Scalar or the Sync engine.",
     "nki.isa.dma_copy, nki-dge.rst, hwdge"},
    {"dma_copy.C5", "priority is 0 to 3, on NeuronCore-v4.", "nki.isa.dma_copy, priority"},
    {"dma_copy.C6", "With dge_mode hwdge dst and src have the same type.",
     "migration guide, NKI 0.3.0, 'dge_mode type matching'"},
    {"dma_copy.C7", "An engine is chosen with dge_mode hwdge only.",
     "nki.isa.dma_copy, engine: 'Only valid when dge_mode=nisa.dge_mode.hwdge'"}};

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
  if (c.in.engine != Engine::kUnknown && dge != DgeMode::kHwdge) [[unlikely]]
    c.fail(
        7,
        fmt::format("engine is {}, dge_mode is not hwdge; only hardware DGE is triggered by an engine that "
                    "the kernel chooses",
                    name(c.in.engine)),
        "set dge_mode.hwdge, or leave engine out");
  if (vector_offset && (dge == DgeMode::kHwdge || dge == DgeMode::kNone)) [[unlikely]]
    c.fail(3, "a vector_offset needs descriptors made by software", "use dge_mode.unknown or swdge");
  priority_allowed(c, 5, c.integer(kAPriority));
}

}  // namespace

constexpr InstructionDefinition dma_copy = {
    .opcode = Opcode::kDmaCopy,
    .name = "dma_copy",
    .engines = kOnDma | kOnSync | kOnScalar | kOnGpSimd,
    .first_generation = Generation::kV1,
    .operands = kDmaCopyOperands,
    .attributes = kDmaCopyAttributes,
    .traits = {kByRows | kCopies},
    .signature = {Engine::kUnknown, kDmaCopyParameters},
    .summary = "dst = src over DMA, converting through float32 when the dtypes differ.",
    .constraints = kDmaCopyConstraints,
    .check = check_dma_copy,
};

namespace {

// -- dma_transpose
constexpr AttributeSlot kDmaTransposeAttributes[] = {
    {"axes", K::kIntList}, {"priority", K::kInt}, {"dge_mode", K::kDgeMode}, {"oob_mode", K::kOobMode}};
constexpr Parameter kDmaTransposeParameters[] = {operand("dst", slot::dma_transpose::kDst),
                                                 operand("src", slot::dma_transpose::kSrc),
                                                 {"axes", ParameterRole::kAxes, slot::dma_transpose::kAAxes},
                                                 untimed(unset("priority", slot::dma_transpose::kAPriority)),
                                                 attribute("dge_mode", slot::dma_transpose::kADgeMode, 0),
                                                 attribute("oob_mode", slot::dma_transpose::kAOobMode, 0),
                                                 name()};
constexpr Constraint kDmaTransposeConstraints[] = {
    {"dma_transpose.C1", "dst is in SBUF.", "nki.isa.dma_transpose, dst"},
    {"dma_transpose.C2", "dst and src have the same type.", "nki.isa.dma_transpose, src"},
    {"dma_transpose.C3", "dst and src have the same number of elements.", "nki.isa.dma_transpose, axes"},
    {"dma_transpose.C4", "axes is (1, 0), (2, 1, 0) or (3, 1, 2, 0), of the rank of src.",
     "nki.isa.dma_transpose, axes"},
    {"dma_transpose.C5", "dge_mode hwdge needs NeuronCore-v3.", "nki.isa.dma_transpose, dge_mode"},
    {"dma_transpose.C6", "Hardware DGE transposes 2-byte elements, at most 128 columns.",
     "nki.isa.dma_transpose, 'DMA Direct Transpose Constraints'"},
    {"dma_transpose.C7",
     "A transpose with a vector_offset uses software DGE on 2-byte elements in HBM, a multiple of 16 rows, "
     "at most 128 columns.",
     "nki.isa.dma_transpose, 'DMA Indirect Transpose Constraints'"},
    {"dma_transpose.C8", "priority is 0 to 3, on NeuronCore-v4.", "nki.isa.dma_transpose, priority"},
    {"dma_transpose.C9", "Without a vector_offset dge_mode is not swdge.",
     "nki.isa.dma_transpose, 'DMA Direct Transpose Constraints'"}};

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
  priority_allowed(c, 8, c.integer(kAPriority));
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
  } else if (dge == DgeMode::kSwdge) {
    // "The only valid dge_modes are unknown and hwdge", but nki-library (mlp_tkg_gate_up_projection.py) has
    // none.
    c.fail(9, "dge_mode is swdge, which transposes only what a vector_offset gathers",
           "use dge_mode.unknown");
  }
}

}  // namespace

constexpr InstructionDefinition dma_transpose = {
    .opcode = Opcode::kDmaTranspose,
    .name = "dma_transpose",
    .engines = kOnDma | kOnGpSimd,
    .first_generation = Generation::kV2,
    .operands = kDmaCopyOperands,
    .attributes = kDmaTransposeAttributes,
    .signature = {Engine::kUnknown, kDmaTransposeParameters},
    .summary =
        "dst = transpose of src over DMA: (1,0), (2,1,0) or (3,1,2,0) by rank; an indirect src gathers rows "
        "first.",
    .constraints = kDmaTransposeConstraints,
    .check = check_dma_transpose,
};

namespace {

// -- dma_compute
constexpr OperandSlot kDmaComputeOperands[] = {out("dst", kDmaSpaces),
                                               in("srcs", kDmaSpaces, kTile | kRepeats)};
constexpr AttributeSlot kDmaComputeAttributes[] = {
    {"reduce_op", K::kAluOp}, {"unique_indices", K::kBool}, {"oob_mode", K::kOobMode}};
constexpr Parameter kDmaComputeParameters[] = {
    operand("dst", slot::dma_compute::kDst),
    {"srcs", ParameterRole::kSources, slot::dma_compute::kSrc0, true},
    attribute("reduce_op", slot::dma_compute::kAReduceOp),
    {"scales", ParameterRole::kScales},
    attribute("unique_indices", slot::dma_compute::kAUniqueIndices, 1),
    attribute("oob_mode", slot::dma_compute::kAOobMode, 0),
    name()};
constexpr Constraint kDmaComputeConstraints[] = {
    {"dma_compute.C1", "There are at most 16 sources.", "nki.isa.dma_compute, 'Tile size'"},
    {"dma_compute.C2", "reduce_op is add.", "nki.isa.dma_compute, reduce_op"},
    {"dma_compute.C3", "Every source has as many elements as dst.", "nki.isa.dma_compute, 'Tile size'"},
    {"dma_compute.C4", "With a vector_offset there are exactly 2 sources.",
     "nki.isa.dma_compute, 'Read-Modify-Write with vector_offset'"},
    {"dma_compute.C5", "With a vector_offset unique_indices is True.",
     "nki.isa.dma_compute, 'Read-Modify-Write with vector_offset'"}};

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

}  // namespace

constexpr InstructionDefinition dma_compute = {
    .opcode = Opcode::kDmaCompute,
    .name = "dma_compute",
    .engines = kOnDma | kOnGpSimd,
    .first_generation = Generation::kV2,
    .operands = kDmaComputeOperands,
    .attributes = kDmaComputeAttributes,
    .signature = {Engine::kUnknown, kDmaComputeParameters},
    .summary =
        "dst = sum of the sources in float32, in list order; with an indirect operand a gather or scatter "
        "accumulate.",
    .constraints = kDmaComputeConstraints,
    .check = check_dma_compute,
};

}  // namespace opentrn::isa::instructions
