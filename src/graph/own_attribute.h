// From an attribute as a program carries it to one of an op's own, of the kind that op_definitions.h states:
// enumerations become numbers, dense and array lists become lists of integers. What all readers share.
#pragma once

#include "graph/literal.h"
#include "graph/module.h"
#include "graph/op_definitions.h"

namespace opentrn::graph {

// Enumerations may come as their number, their word, or #dialect<kind WORD>. Faults name the op and the
// attribute, without a location.
Attribute own_attribute(OpKind op, const AttrSpec& spec, Attribute value);

// Removes optional attributes that say what their absence says (strides of one, empty lists, false). VHLO
// and HLO state all of them, text the ones that the writer cared for.
void drop_defaults(Op& op);

// A literal from elements as MLIR stores them: i1 eight to a byte or a byte each, one element for all when
// all are equal; 2-, 4- and 6-bit elements a byte each, whatever is in the upper bits.
Literal literal_from_storage(Type type, std::span<const std::byte> bytes, std::shared_ptr<const void> owner);

}  // namespace opentrn::graph
