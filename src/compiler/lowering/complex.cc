// complex_ of two real values: complex numbers lie as pairs, [..., 2] of f32 (device_type.h), into which the
// parts are copied. real_ and imag_ are views (lowering.cc).
#include "compiler/analysis/graph_names.h"
#include "compiler/lowering/lowering.h"

namespace opentrn::compiler {

bool has_complex(const Function&, const Op& op) { return op.kind == OpKind::complex_; }

bool lower_complex(Lowering& lowering, const Op& op) {
  if (op.kind != OpKind::complex_) return false;
  const View pairs = lowering.allocate(op.results[0]);
  for (size_t part = 0; part < 2; ++part) {
    View place = pairs;
    place.dims.pop_back();
    place.offset += static_cast<int64_t>(part);
    const View source = lowering.view(op.operands[part]);
    if (source.element_count() > 0) lowering.emitter().copy(place, source);
  }
  return true;
}

}  // namespace opentrn::compiler
