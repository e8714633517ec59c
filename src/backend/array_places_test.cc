#include "backend/array_places.h"

#include <gtest/gtest.h>

#include <array>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "backend/compile.h"
#include "backend/sample_programs.h"
#include "isa/definitions.h"

namespace opentrn::backend {
namespace {

using isa::Operand;
using isa::TensorId;

struct ArrayTile {
  int64_t row = 0, column = 0, rows = 0, columns = 0;
};

void matmul(ProgramBuilder& b, Operand dst, Operand stationary, Operand moving, ArrayTile tile = {}) {
  std::vector<int64_t> words(isa::definition(isa::Opcode::kNcMatmul).attributes.size());
  namespace mm = isa::slot::nc_matmul;
  words[mm::kAAccumulate] = 0;
  words[mm::kATileRow] = tile.row;
  words[mm::kATileColumn] = tile.column;
  words[mm::kATileRows] = tile.rows;
  words[mm::kATileColumns] = tile.columns;
  std::vector<isa::AttributeWord> attributes;
  for (const int64_t word : words) attributes.push_back({.integer = word});
  const Operand operands[] = {dst, stationary, moving};
  b.program().append(isa::Opcode::kNcMatmul, isa::Engine::kUnknown, operands, attributes, 0);
}

std::string label_of(const isa::Program& program, bool moves_rows = false) {
  try {
    const ArrayPlaces places(program, moves_rows);
  } catch (const Fault& fault) {
    return fault.label();
  }
  return "";
}

TEST(ArrayPlaces, OperandsOfAProductStartOnOnePartition) {
  ProgramBuilder b;
  constexpr int64_t kElements = 40'000;  // two tensors fill a quadrant
  std::vector<std::pair<TensorId, TensorId>> pairs;
  for (int i = 0; i < 4; ++i) {
    pairs.push_back({b.sbuf(16, kElements, DType::kBFloat16), b.sbuf(16, kElements, DType::kBFloat16)});
    b.memset(b.all(pairs.back().first));
    b.memset(b.all(pairs.back().second));
  }
  for (const auto& [left, right] : pairs) {
    const auto acc = b.psum(64, 64);
    matmul(b, b.all(acc), b.part(left, 0, 16, 0, 64), b.part(right, 0, 16, 0, 64));
  }
  const isa::Executable executable = compile(b.take());
  std::set<int32_t> starts;
  for (const auto& [left, right] : pairs) {
    EXPECT_EQ(executable.placements[left].address.partition, executable.placements[right].address.partition);
    starts.insert(executable.placements[left].address.partition);
  }
  EXPECT_EQ(starts, (std::set<int32_t>{0, 32, 64, 96}));
}

TEST(ArrayPlaces, ATileOfTheArrayDecidesWhereItsOperandsLie) {
  for (const int64_t row : {0, 32, 64, 96}) {
    for (const int64_t column : {0, 64}) {
      ProgramBuilder b;
      const auto left = b.sbuf(32, 64, DType::kBFloat16), right = b.sbuf(32, 256, DType::kBFloat16);
      const auto acc = b.psum(64, 256);
      for (const auto id : {left, right}) b.memset(b.all(id));
      matmul(b, b.all(acc), b.all(left), b.all(right), {row, column, 32, 64});
      const isa::Executable executable = compile(b.take());
      EXPECT_EQ(executable.placements[left].address.partition, row);
      EXPECT_EQ(executable.placements[right].address.partition, row);
      EXPECT_EQ(executable.placements[acc].address.partition, column);
    }
  }
}

TEST(ArrayPlaces, APartOfATensorPullsTheWholeToItsPlace) {
  ProgramBuilder b;
  const auto wide = b.sbuf(128, 64, DType::kBFloat16), narrow = b.sbuf(32, 256, DType::kBFloat16);
  const auto acc = b.psum(64, 256);
  b.memset(b.all(wide));
  b.memset(b.all(narrow));
  matmul(b, b.all(acc), b.part(wide, 96, 32, 0, 64), b.all(narrow));
  EXPECT_EQ(compile(b.take()).placements[narrow].address.partition, 96);
}

TEST(ArrayPlaces, TwoProductsCannotWantATensorInTwoPlaces) {
  const auto program = [](ArrayTile first, ArrayTile second) {
    ProgramBuilder b;
    const auto left = b.sbuf(32, 32, DType::kBFloat16), right = b.sbuf(32, 256, DType::kBFloat16);
    const auto one = b.psum(32, 256), two = b.psum(32, 256);
    matmul(b, b.all(one), b.all(left), b.all(right), first);
    matmul(b, b.all(two), b.all(left), b.all(right), second);
    return b.take();
  };
  EXPECT_EQ(label_of(*program({0, 0, 32, 32}, {0, 32, 32, 32})), "");
  EXPECT_EQ(label_of(*program({0, 0, 32, 32}, {32, 0, 32, 32})), "nc_matmul.C20");
  EXPECT_EQ(label_of(*program({0, 0, 32, 32}, {32, 0, 32, 32}), true), "");  // the compiler moves rows
  ProgramBuilder b;
  const auto left = b.sbuf(32, 32, DType::kBFloat16), wide = b.sbuf(128, 256, DType::kBFloat16);
  const auto acc = b.psum(32, 256);
  matmul(b, b.all(acc), b.all(left), b.part(wide, 0, 32, 0, 256));
  matmul(b, b.all(acc), b.all(left), b.part(wide, 64, 32, 0, 256));
  EXPECT_EQ(label_of(*b.take()), "nc_matmul.C22");
}

// Sums of few rows, without a tile of the array: any quadrant of PSUM will do, so four share a bank.
TEST(ArrayPlaces, SumsWithoutATileLieAnywhere) {
  ProgramBuilder b;
  const auto ones = b.sbuf(128, 1, DType::kBFloat16), x = b.sbuf(128, 512, DType::kBFloat16);
  std::vector<TensorId> sums;
  for (int i = 0; i < 32; ++i) sums.push_back(b.psum(1, 512));
  for (const auto sum : sums) matmul(b, b.all(sum), b.all(ones), b.all(x));
  const auto out = b.sbuf(1, 512, DType::kFloat32);
  for (const auto sum : sums) b.copy(b.all(out), b.all(sum));
  EXPECT_EQ(compile(b.take()).psum_banks_used, 8);
}

// Chains of ties, against every way to place the tensors.
TEST(ArrayPlaces, AgreesWithTryingEveryPlace) {
  uint32_t state = 7;
  const auto draw = [&](uint32_t n) -> uint32_t {
    state = state * 1664525u + 1013904223u;
    return (state >> 16) % n;
  };
  int possible_count = 0;
  for (int trial = 0; trial < 300; ++trial) {
    constexpr size_t kTensors = 4;
    ProgramBuilder b;
    std::vector<TensorId> ids;
    std::vector<int64_t> rows;
    for (size_t i = 0; i < kTensors; ++i) {
      rows.push_back(std::array<int64_t, 4>{32, 32, 64, 128}[draw(4)]);
      ids.push_back(b.sbuf(rows.back(), 64, DType::kBFloat16));
    }
    const auto acc = b.psum(64, 64);
    struct Tie {
      size_t a, b;
      int64_t from_a, from_b;
    };
    std::vector<Tie> ties;
    for (int k = 0; k < 4; ++k) {
      Tie tie{draw(kTensors), draw(kTensors), 0, 0};
      if (tie.a == tie.b) continue;
      tie.from_a = draw(static_cast<uint32_t>(rows[tie.a] / 32));
      tie.from_b = draw(static_cast<uint32_t>(rows[tie.b] / 32));
      // Both wide: refused when it is recorded.
      if (rows[tie.a] == 128 && rows[tie.b] == 128 && tie.from_a != tie.from_b) continue;
      matmul(b, b.all(acc), b.part(ids[tie.a], 32 * tie.from_a, 32, 0, 64),
             b.part(ids[tie.b], 32 * tie.from_b, 32, 0, 64));
      ties.push_back(tie);
    }
    bool possible = false;
    for (int code = 0; code < 256 && !possible; ++code) {
      const auto start = [&](size_t i) { return code >> (2 * i) & 3; };
      bool fits = true;
      for (size_t i = 0; i < kTensors; ++i) fits &= (isa::tensor_starts(rows[i]) >> start(i) & 1) != 0;
      for (const Tie& tie : ties) fits &= start(tie.a) + tie.from_a == start(tie.b) + tie.from_b;
      possible = fits;
    }
    EXPECT_EQ(label_of(*b.take()).empty(), possible) << trial;
    possible_count += possible;
  }
  EXPECT_GT(possible_count, 30);
  EXPECT_LT(possible_count, 270);
}

}  // namespace
}  // namespace opentrn::backend
