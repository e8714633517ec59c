#include "runtime/origin_file.h"

#include <limits>

#include <fmt/format.h>

#include "isa/file_bytes.h"

namespace opentrn::runtime {

using isa::file::Reader;
using isa::file::Writer;

namespace {

isa::ModelOp read_op(Reader& in) {
  isa::ModelOp op;
  op.kind = in.text();
  op.result = in.text();
  op.where.file = in.text();
  const int64_t line = in.signed_number();
  if (line < 0 || line > std::numeric_limits<int>::max()) in.fail(fmt::format("line {}", line));
  op.where.line = static_cast<int>(line);
  op.where.function = in.text();
  op.flops = in.real();
  return op;
}

isa::OriginSpan read_span(Reader& in, const isa::Origin& origin, size_t instructions) {
  isa::OriginSpan span;
  // The distance from the span before, which is not 0 but for the first one.
  const uint64_t distance = in.below(instructions, "a span begins at");
  const uint64_t begin = distance + (origin.spans.empty() ? 0 : origin.spans.back().begin);
  if (begin >= instructions || (distance == 0 && !origin.spans.empty()))
    in.fail(fmt::format("span {} is out of order or names what is not there", origin.spans.size()));
  span.begin = static_cast<isa::InstructionIndex>(begin);
  const uint64_t op = in.below(origin.ops.size() + 1, "a span's op");  // 0: of no op of the model
  span.op = op == 0 ? isa::kNoModelOp : static_cast<uint32_t>(op - 1);
  span.kernel = static_cast<uint32_t>(in.below(uint64_t{1} << 32, "a span's kernel"));
  span.purpose = static_cast<isa::Purpose>(in.below(isa::kPurposeCount, "a span's purpose"));
  return span;
}

}  // namespace

std::vector<std::byte> encode(const isa::Origin& origin) {
  Writer out;
  out.number(origin.ops.size());
  for (const isa::ModelOp& op : origin.ops) {
    out.text(op.kind);
    out.text(op.result);
    out.text(op.where.file);
    out.signed_number(op.where.line);
    out.text(op.where.function);
    out.real(op.flops);
  }
  out.number(origin.spans.size());
  isa::InstructionIndex before = 0;
  for (const isa::OriginSpan& span : origin.spans) {
    out.number(span.begin - before);
    out.number(span.op == isa::kNoModelOp ? 0 : uint64_t{span.op} + 1);
    out.number(span.kernel);
    out.number(static_cast<uint64_t>(span.purpose));
    before = span.begin;
  }
  return out.take();
}

isa::Origin decode_origin(std::span<const std::byte> bytes, size_t instructions) {
  try {
    Reader in(bytes, "the table of ops");
    isa::Origin origin;
    for (size_t n = in.count("ops"); n > 0; --n) origin.ops.push_back(read_op(in));
    for (size_t n = in.count("spans"); n > 0; --n)
      origin.spans.push_back(read_span(in, origin, instructions));
    if (in.left() != 0) in.fail(fmt::format("{} bytes are left", in.left()));
    return origin;
  } catch (const Fault& fault) {
    throw Fault(FaultKind::kInput, "model_file.origin", fault.message(),
                "write the file again with `opentrn compile`");
  }
}

}  // namespace opentrn::runtime
