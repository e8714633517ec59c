// What every op of a graph looks like: operands, results, regions, attributes. Shape rules
// (shape_rules.h), verifier, printer, parser and importers are driven by this table.
// Source: stablehlo/docs/spec.md; CHLO: stablehlo/dialect/ChloOps.td.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "graph/attribute.h"
#include "graph/op_kind.h"

namespace opentrn::graph {

enum class AttrKind : uint8_t {
  kBool,
  kInt,
  kReal,
  kString,
  kInts,
  kMatrix,
  kLiteral,
  kType,
  kSymbol,
  kSymbols,  // AttributeList of SymbolRef
  kDictionary,
  kAny,  // backend_config, layouts: kept as they came
  // Enumerations, stored as int64_t:
  kComparisonDirection,
  kComparisonType,
  kPrecisions,  // a list of Precision
  kFftType,
  kRngAlgorithm,
  kRngDistribution,
  kTranspose,
  kCustomCallApi,
};

enum class Needed : uint8_t { kYes, kNo };

struct AttrSpec {
  Attr attr;
  AttrKind kind;
  Needed needed;
};

// How result shapes and values follow from the operands', where many ops share a rule.
enum class OpClass : uint8_t {
  kUnaryElementwise,   // result type = operand type, unless the shape rule says otherwise
  kBinaryElementwise,  // both operands and the result have one shape
  kCollective,         // communicates between processes
  kControlFlow,        // has regions that run zero or more times
  kDynamic,            // a shape comes from an operand
  kBroadcasting,       // chlo.broadcast_*: numpy-style implicit broadcast
  kOther,
};

inline constexpr int kVariadic = -1;

struct Count {
  int low;
  int high;  // kVariadic: no upper limit
  bool holds(size_t n) const {
    return static_cast<int>(n) >= low && (high == kVariadic || static_cast<int>(n) <= high);
  }
};

struct OpDefinition {
  OpKind kind;
  OpClass op_class;
  Count operands;
  Count results;
  Count regions;
  bool has_side_effect;
  std::span<const AttrSpec> attributes;
};

const OpDefinition& definition(OpKind kind);
// Null when the op has no attribute of that name.
const AttrSpec* find_spec(const OpDefinition& definition, Attr attr);

// Words of an enumeration ("EQ", "TOTALORDER", "THREE_FRY"), indexed by its stored number; empty for
// kinds that are none.
std::span<const std::string_view> enum_words(AttrKind kind);

}  // namespace opentrn::graph
