#include "compiler/lowering/boxes.h"

#include <algorithm>

namespace opentrn::compiler {

namespace {

void split(std::span<const isa::Dim> dims, int64_t begin, int64_t count, Box prefix, std::vector<Box>& out) {
  if (count == 0) return;
  if (dims.empty()) {
    out.push_back(std::move(prefix));
    return;
  }
  int64_t inner = 1;
  for (const isa::Dim& dim : dims.subspan(1)) inner *= dim.count;
  const auto descend = [&](int64_t index, int64_t from, int64_t n) {
    Box part = prefix;
    part.offset += index * dims[0].step;
    split(dims.subspan(1), from, n, part, out);
    prefix.position += n;
  };
  if (begin % inner != 0) {
    const int64_t n = std::min(count, inner - begin % inner);
    descend(begin / inner, begin % inner, n);
    begin += n;
    count -= n;
  }
  if (const int64_t whole = count / inner; whole > 0) {
    Box part = prefix;
    part.offset += begin / inner * dims[0].step;
    part.dims.push_back({dims[0].step, whole});
    part.dims.insert(part.dims.end(), dims.begin() + 1, dims.end());
    out.push_back(part);
    prefix.position += whole * inner;
    begin += whole * inner;
    count -= whole * inner;
  }
  if (count > 0) descend(begin / inner, 0, count);
}

}  // namespace

std::vector<Box> boxes_of(std::span<const isa::Dim> dims, int64_t begin, int64_t count) {
  std::vector<Box> result;
  split(dims, begin, count, {}, result);
  return result;
}

}  // namespace opentrn::compiler
