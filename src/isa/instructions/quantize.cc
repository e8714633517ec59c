// Quantization of the operands of MX products.
#include "isa/array_placement.h"
#include "isa/instructions/row.h"

namespace opentrn::isa::instructions {

namespace {

// -- quantize_mx
constexpr OperandSlot kQuantizeMxOperands[] = {out("dst", kInSbuf), in("src", kInSbuf),
                                               out("dst_scale", kInSbuf)};
constexpr AttributeSlot kQuantizeMxAttributes[] = {{"scale_rule", K::kMxScaleRule}};
constexpr Parameter kQuantizeMxParameters[] = {operand("dst", 0), operand("src", 1), operand("dst_scale", 2),
                                               name()};
constexpr Constraint kQuantizeMxConstraints[] = {
    {"quantize_mx.C1", "src is float16 or bfloat16.", "nki.isa.quantize_mx, 'Data types'"},
    {"quantize_mx.C2", "dst is float8_e5m2_x4 or float8_e4m3fn_x4.", "nki.isa.quantize_mx, 'Data types'"},
    {"quantize_mx.C3", "dst_scale is float8_e8m0fnu or uint8.", "nki.isa.quantize_mx, 'Data types'"},
    {"quantize_mx.C4", "src has a multiple of 32 partitions.", "nki.isa.quantize_mx, 'Tile size'"},
    {"quantize_mx.C5", "src has a multiple of 4 elements per partition.", "nki.isa.quantize_mx, 'Tile size'"},
    {"quantize_mx.C6", "dst has the partitions of src and a quarter of its elements.",
     "nki.isa.quantize_mx, 'Tile size'"}};

void check_quantize_mx(const Check& c) {
  using namespace slot::quantize_mx;
  const Tile &src = c.tile(kSrc), &dst = c.tile(kDst);
  c.dtype_in(1, kSrc, {DType::kFloat16, DType::kBFloat16});
  c.dtype_in(2, kDst, {DType::kFloat8E5M2x4, DType::kFloat8E4M3FnX4});
  c.dtype_in(3, kDstScale, kMxScaleTypes);
  if (src.partitions % kQuadrant != 0)
    c.fail(4, fmt::format("src has {} partitions; a multiple of {} is needed", src.partitions, kQuadrant));
  if (src.free % 4 != 0)
    c.fail(5, fmt::format("src has {} elements per partition; a multiple of 4 is needed", src.free));
  if (dst.partitions != src.partitions || dst.free * 4 != src.free)
    c.fail(6, fmt::format("dst is {} x {}; src of {} x {} gives {} x {}", dst.partitions, dst.free,
                          src.partitions, src.free, src.partitions, src.free / 4));
}

}  // namespace

constexpr InstructionDefinition quantize_mx = {
    .opcode = Opcode::kQuantizeMx,
    .name = "quantize_mx",
    .engines = kOnVector,
    .first_generation = Generation::kV4,
    .operands = kQuantizeMxOperands,
    .attributes = kQuantizeMxAttributes,
    .signature = {Engine::kVector, kQuantizeMxParameters},
    .summary =
        "MXFP8 data and scales of src: groups of 8 partitions x 4 elements share the scale "
        "2^(floor(log2(largest magnitude)) - (Emax - 1)), at least 2^-127; a group with NaN or infinity gets "
        "the NaN scale (255, undocumented). Under NKI releases before 0.5 the scale is half of that.",
    .constraints = kQuantizeMxConstraints,
    .check = check_quantize_mx,
};

}  // namespace opentrn::isa::instructions
