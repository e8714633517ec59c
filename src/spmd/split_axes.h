// Axes of a mesh cut into axes of their own, which mean the same devices in the same order.
//
// Shardy may shard by a part of an axis, which jaxlib 0.10.2 cannot lower. The program is then written with
// the axis cut, so that the part is whole; python/opentrn/jax/shardy.py asks for both.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace opentrn::spmd {

// `size` of an axis' devices, with a stride of `before`.
struct SplitPart {
  std::string axis;
  int64_t before = 1, size = 1;
  auto operator<=>(const SplitPart&) const = default;
};

class SplitAxes {
 public:
  explicit SplitAxes(std::map<std::string, int64_t> sizes);

  // Cuts axes, or pieces of earlier cuts, so that these parts are whole pieces. False if that cannot be, and
  // where nothing changes.
  bool cut(std::span<const SplitPart> parts);
  // Whether pieces of an axis stand together, all of them and in their order.
  bool are_whole(std::span<const std::string> names) const;
  // A module's text, in MLIR's generic form, with the pieces for the axes.
  std::string applied(std::string_view text) const;

 private:
  std::string mesh(std::string_view text) const;
  std::string sharding(std::string_view text) const;

  std::map<std::string, int64_t> sizes_;
  std::map<std::string, std::vector<int64_t>> starts_;  // by axis: the sizes in front of each piece
  struct Piece {
    std::string axis;
    int64_t start = 1;
  };
  std::map<std::string, Piece> pieces_;  // by a piece's name
};

// Shardy's rule of a decomposition of matrices with these operands and results: leading dimensions of all are
// its batches, the others stay whole.
std::string solver_rule(std::span<const std::vector<int64_t>> operands,
                        std::span<const std::vector<int64_t>> results);

}  // namespace opentrn::spmd
