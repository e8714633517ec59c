// What the commands that take models say of one, from facts of it: `opentrn compile`, `coverage` and
// `describe`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "compiler/compile.h"
#include "import/onnx/onnx.h"
#include "runtime/host_ops.h"

namespace opentrn::model {

using nlohmann::ordered_json;

// A report for machines and for people, and whether all of the model can be compiled.
struct Report {
  ordered_json json;
  std::string text;
  bool complete = true;
};

// The framework's name of an op or operator, else its line; empty when neither is known.
std::string place_of(const SourceLocation& where);

// By how much is refused: of several ops that none is refused of, by how much is emulated, then by flops.
Report coverage_report(std::vector<compiler::OpCoverage> rows, const std::vector<std::string>& notes);

// Of an ONNX model with operators that the importer does not know: those, the most frequent first.
Report unknown_operators_report(const std::vector<import::onnx::SurveyRow>& rows);

// Facts of a model that was compiled, as `opentrn compile --json` prints them but that the names of what was
// not asked for are still there. `stages` and `predicted`: lines of text.
Report compile_report(ordered_json facts, const std::string& stages, const std::string& predicted);

// Of one program of a compiled model's file, from the facts that `opentrn describe --json` prints.
std::string description_text(const ordered_json& program);

// A result that `opentrn run` computed, from the facts that it prints as JSON.
std::string output_text(const ordered_json& facts);

// What the host does of a model, and its shares of the model's flops and of the bytes that move to and from
// HBM.
struct HostShares {
  double flops = 0, bytes = 0;
};
HostShares shares_of(const runtime::HostOps& ops);
// A line for each, and the shares; empty without any. Predicted times leave the host's out: how long it takes
// is not modelled.
std::string host_text(const std::vector<runtime::HostOp>& calls, const HostShares& shares);

}  // namespace opentrn::model
