// Numbers of units by coordinates: one digit for each level of a hierarchy, the first one most significant.
#pragma once

#include <cstdint>
#include <vector>

#include "collectives/builder.h"
#include "collectives/symmetric.h"

namespace opentrn::collectives {

class Coordinates final : public Displacements {
 public:
  explicit Coordinates(const Hierarchy& hierarchy) {
    for (const Level& level : hierarchy.levels) sizes_.push_back(level.size);
    weights_.resize(sizes_.size());
    int32_t weight = 1;
    for (size_t i = sizes_.size(); i-- > 0; weight *= sizes_[i]) weights_[i] = weight;
  }
  int32_t weight(int level) const { return weights_[static_cast<size_t>(level)]; }
  int32_t digit(int32_t unit, int level) const {
    return unit / weight(level) % sizes_[static_cast<size_t>(level)];
  }
  int32_t at(int level, int distance) const {
    const int32_t size = sizes_[static_cast<size_t>(level)];
    return ((distance % size + size) % size) * weight(level);
  }
  int32_t add(int32_t a, int32_t b) const override {
    if (a == 0 || b == 0) return a + b;  // most steps stay in their unit
    int32_t sum = 0;
    for (int level = 0; level < static_cast<int>(sizes_.size()); ++level)
      sum += at(level, digit(a, level) + digit(b, level));
    return sum;
  }
  int32_t negated(int32_t a) const override {
    if (a == 0) return 0;
    int32_t sum = 0;
    for (int level = 0; level < static_cast<int>(sizes_.size()); ++level) sum += at(level, -digit(a, level));
    return sum;
  }

 private:
  std::vector<int32_t> sizes_, weights_;
};

// Ranks of units: a number is that of the unit, times the 2^n ranks of a unit, plus that of the rank in it,
// which is displaced by exclusive or.
class RanksOfUnits final : public Displacements {
 public:
  RanksOfUnits(const Hierarchy& hierarchy, int ranks) : units_(hierarchy), ranks_(ranks) {}
  int32_t add(int32_t a, int32_t b) const override {
    return units_.add(a / ranks_, b / ranks_) * ranks_ + ((a ^ b) & (ranks_ - 1));
  }
  int32_t negated(int32_t a) const override {
    return units_.negated(a / ranks_) * ranks_ + (a & (ranks_ - 1));
  }

 private:
  Coordinates units_;
  int32_t ranks_;
};

}  // namespace opentrn::collectives
