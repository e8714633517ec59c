// The graph's words without their namespace, for the files of the compiler, which speak of little else.
#pragma once

#include "graph/builder.h"
#include "graph/module.h"
#include "graph/op_definitions.h"

namespace opentrn::compiler {

using graph::Attr;
using graph::Attribute;
using graph::BlockId;
using graph::Builder;
using graph::ComparisonDirection;
using graph::ElementType;
using graph::Function;
using graph::index_of;
using graph::Literal;
using graph::Op;
using graph::OpClass;
using graph::OpId;
using graph::OpKind;
using graph::Type;
using graph::ValueId;

}  // namespace opentrn::compiler
