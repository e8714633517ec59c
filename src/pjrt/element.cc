#include "pjrt/element.h"

#include <fmt/format.h>

#include "base/fault.h"

namespace opentrn::pjrt {

namespace {

using Abi = abi::ElementType;
using Element = graph::ElementType;

struct Row {
  Abi abi;
  Element element;
};
constexpr Row kRows[] = {
    {Abi::kPred, Element::kI1},
    {Abi::kS2, Element::kI2},
    {Abi::kS4, Element::kI4},
    {Abi::kS8, Element::kI8},
    {Abi::kS16, Element::kI16},
    {Abi::kS32, Element::kI32},
    {Abi::kS64, Element::kI64},
    {Abi::kU2, Element::kUI2},
    {Abi::kU4, Element::kUI4},
    {Abi::kU8, Element::kUI8},
    {Abi::kU16, Element::kUI16},
    {Abi::kU32, Element::kUI32},
    {Abi::kU64, Element::kUI64},
    {Abi::kF16, Element::kF16},
    {Abi::kF32, Element::kF32},
    {Abi::kF64, Element::kF64},
    {Abi::kBF16, Element::kBF16},
    {Abi::kC64, Element::kComplexF32},
    {Abi::kC128, Element::kComplexF64},
    {Abi::kF8E5M2, Element::kF8E5M2},
    {Abi::kF8E4M3FN, Element::kF8E4M3FN},
    {Abi::kF8E4M3B11FNUZ, Element::kF8E4M3B11FNUZ},
    {Abi::kF8E5M2FNUZ, Element::kF8E5M2FNUZ},
    {Abi::kF8E4M3FNUZ, Element::kF8E4M3FNUZ},
    {Abi::kF8E4M3, Element::kF8E4M3},
    {Abi::kF8E3M4, Element::kF8E3M4},
    {Abi::kF8E8M0FNU, Element::kF8E8M0FNU},
    {Abi::kF4E2M1FN, Element::kF4E2M1FN},
};

}  // namespace

Element element_of(Abi type) {
  for (const Row& row : kRows)
    if (row.abi == type) return row.element;
  throw Fault(FaultKind::kNotModelled, "pjrt.type",
              fmt::format("PJRT's element type {} has no form here", static_cast<int>(type)));
}

Abi abi_type_of(Element element) {
  for (const Row& row : kRows)
    if (row.element == element) return row.abi;
  throw Fault(FaultKind::kNotModelled, "pjrt.type",
              fmt::format("{} is not an element type of PJRT", graph::name(element)));
}

}  // namespace opentrn::pjrt
