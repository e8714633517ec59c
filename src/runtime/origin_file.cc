#include "runtime/origin_file.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace opentrn::runtime {

using nlohmann::json;

namespace {

[[noreturn]] void fail(const std::string& what) {
  throw Fault(FaultKind::kInput, "model_file.origin", what, "write the file again with `opentrn compile`");
}

}  // namespace

std::vector<uint8_t> encode(const isa::Origin& origin) {
  json ops = json::array(), spans = json::array();
  for (const isa::ModelOp& op : origin.ops)
    ops.push_back({op.kind, op.result, op.where.file, op.where.line, op.where.function, op.flops});
  for (const isa::OriginSpan& span : origin.spans)
    spans.push_back({span.begin, span.op, span.kernel, static_cast<int>(span.purpose)});
  return json::to_cbor(json{{"ops", std::move(ops)}, {"spans", std::move(spans)}});
}

isa::Origin decode_origin(std::string_view bytes, size_t instructions) {
  isa::Origin origin;
  try {
    const json all = json::from_cbor(bytes.begin(), bytes.end());
    for (const json& row : all.at("ops"))
      origin.ops.push_back({row.at(0), row.at(1), {row.at(2), row.at(3), row.at(4)}, row.at(5)});
    for (const json& row : all.at("spans")) {
      const int purpose = row.at(3);
      const isa::OriginSpan span{row.at(0), row.at(1), row.at(2), static_cast<isa::Purpose>(purpose)};
      const bool in_order = origin.spans.empty() || origin.spans.back().begin < span.begin;
      const bool known_op = span.op == isa::kNoModelOp || span.op < origin.ops.size();
      if (!in_order || !known_op || span.begin >= instructions || purpose < 0 ||
          purpose >= isa::kPurposeCount)
        fail(fmt::format("span {} is out of order or names what is not there", origin.spans.size()));
      origin.spans.push_back(span);
    }
  } catch (const json::exception& error) {
    fail(fmt::format("the table of ops is damaged: {}", error.what()));
  }
  return origin;
}

}  // namespace opentrn::runtime
