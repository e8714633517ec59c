// max8, nc_find_index8 and nc_match_replace8 on drawn rows, beside what their text says, element by element.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "sim/functional/test_kernel.h"

namespace opentrn::sim::search_rows_tests {
namespace {

using isa::Opcode;
using isa::Operand;
using Row = std::vector<float>;

bool comes_first(float a, float b) { return !std::isnan(a) && (std::isnan(b) || a > b); }

Row best_of(const Row& row) {
  Row sorted = row;
  std::stable_sort(sorted.begin(), sorted.end(), comes_first);
  sorted.resize(8);
  return sorted;
}

// Where each value is first, of equal ones one after another; all ones where it is not.
constexpr int64_t kNowhere = 0xffffffff;
std::vector<int64_t> places_of(const Row& row, const Row& values) {
  std::vector<int64_t> found;
  for (const float value : values) {
    int64_t at = kNowhere;
    for (size_t i = 0; i < row.size() && at == kNowhere; ++i)
      if (row[i] == value && std::ranges::count(found, static_cast<int64_t>(i)) == 0)
        at = static_cast<int64_t>(i);
    found.push_back(at);
  }
  return found;
}

std::vector<uint32_t> bits_of(const Row& row) {
  std::vector<uint32_t> bits(row.size());
  std::memcpy(bits.data(), row.data(), row.size() * sizeof(float));
  return bits;
}

TEST(Search, DrawnRowsAreSearchedAsTheTextSays) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN(),
                  kInfinity = std::numeric_limits<float>::infinity();
  std::mt19937 random(5);
  for (const int64_t columns : {8, 9, 31, 40, 200, 1000}) {
    for (const unsigned kinds : {3u, 12u, 100000u}) {
      TestKernel k;
      Row row(static_cast<size_t>(columns));
      for (float& x : row) {
        const unsigned drawn = random() % kinds;
        x = drawn == 0 ? kNan : drawn == 1 ? -kInfinity : drawn == 2 ? -0.0f : static_cast<float>(drawn) - 50;
      }
      const Tile data = k.sbuf_of(1, columns, row), best = k.sbuf(1, 8), rest = k.sbuf(1, columns);
      const Tile index = k.sbuf(1, 8, DType::kUint32);
      k.run(Opcode::kMax8, {k.op(best), k.op(data)});
      const Row wanted = best_of(row);
      EXPECT_EQ(bits_of(k.get(best)), bits_of(wanted)) << columns << " columns, " << kinds << " kinds";
      k.run(Opcode::kNcFindIndex8, {k.op(index), k.op(data), k.op(best)});
      const auto places = places_of(row, wanted);
      EXPECT_EQ(k.get_integers(index), places);
      k.run(Opcode::kNcMatchReplace8, {k.op(rest), k.op(data), k.op(best), Operand::none()},
            {word_real(7.5)});
      for (const int64_t at : places)
        if (at != kNowhere) row[static_cast<size_t>(at)] = 7.5f;
      EXPECT_EQ(bits_of(k.get(rest)), bits_of(row));
    }
  }
}

}  // namespace
}  // namespace opentrn::sim::search_rows_tests
