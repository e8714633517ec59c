#include "compiler/lowering/repeated_columns.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

namespace opentrn::compiler {

namespace {

// Fewer descriptors are over before it matters, and an instruction more is not.
constexpr int64_t kRepeatedMin = 64;

// Of columns in up to three dimensions of which some come again: what they have of their own, and how a tile
// of that is read. `outer` of them are `inner` columns each, for which `own_inner` are loaded.
struct Repeated {
  std::vector<isa::Dim> own, order;
  int64_t inner = 1, own_inner = 1;
};

std::optional<Repeated> repeated(const Matrix& m) {
  const std::vector<isa::Dim>& dims = m.column_dims();
  const auto is_still = [](const isa::Dim& dim) { return dim.step == 0; };
  const auto still = std::ranges::count_if(dims, is_still);
  if (dims.size() < 2 || dims.size() > 3 || m.columns() < kRepeatedMin || still == 0 ||
      still == std::ssize(dims))
    return std::nullopt;
  Repeated found;
  for (size_t i = dims.size(); i-- > 0;) {
    const isa::Dim& dim = dims[i];
    found.order.insert(found.order.begin(), {is_still(dim) ? 0 : found.own_inner, dim.count});
    if (!is_still(dim)) found.own.insert(found.own.begin(), dim);
    if (i == 0) break;
    found.inner *= dim.count;
    found.own_inner *= is_still(dim) ? 1 : dim.count;
  }
  return found;
}

}  // namespace

int64_t whole_repetitions(const std::map<JointTransfers::Key, Matrix>& operands, int64_t most) {
  int64_t grain = 1;
  for (const auto& [key, m] : operands)
    if (const auto found = repeated(m))
      if (const int64_t next = std::lcm(grain, found->inner); 2 * next <= most) grain = next;
  return most - most % grain;
}

std::optional<Tile> load_repeated(Lowering& lowering, const Matrix& m, const Rectangle& part, bool as_it_is) {
  const auto found = repeated(m);
  if (!found || part.column_begin % found->inner != 0 || part.columns % found->inner != 0)
    return std::nullopt;
  View base = m.all();
  base.dims.clear();
  const int64_t first = part.column_begin / found->inner, outer = part.columns / found->inner;
  const bool is_same = found->order.front().step == 0;
  const Matrix own(base, m.row_dims(), found->own);
  const Tile tile = lowering.fetch(own, part.row_begin, part.rows, is_same ? 0 : first * found->own_inner,
                                   is_same ? own.columns() : outer * found->own_inner);
  std::vector<isa::Dim> order = found->order;
  order.front().count = outer;
  order = merged(std::move(order));
  const auto dim = [&](size_t from_last) {
    return from_last < order.size() ? order[order.size() - 1 - from_last] : isa::Dim{0, 1};
  };
  const Tile read =
      tile.patches(0, dim(2).count, dim(2).step, dim(1).count, dim(1).step, dim(0).count, dim(0).step);
  if (as_it_is) return read;
  const Tile all = lowering.emitter().sbuf(part.rows, part.columns, tile.dtype, "repeated");
  lowering.emitter().tensor_copy(all, read);
  return all;
}

}  // namespace opentrn::compiler
