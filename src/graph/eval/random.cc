// Random bits as XLA:CPU makes them, bit for bit, so that a seeded program gives the framework's numbers
// (measured: random_test values come from jax 0.10.2 on CPU).
//
// Threefry-2x32 and Philox-4x32-10: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
// The state is [key, counter]; a block of random words is a function of the key and a counter.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <numbers>

#include "graph/eval/bodies.h"
#include "graph/eval/indexing.h"
#include "graph/eval/rounding.h"

namespace opentrn::graph::eval {

namespace {

uint32_t low_word(uint64_t value) { return static_cast<uint32_t>(value); }
uint32_t high_word(uint64_t value) { return static_cast<uint32_t>(value >> 32); }
uint64_t join_words(uint32_t low, uint32_t high) { return low | uint64_t{high} << 32; }

std::array<uint32_t, 2> threefry_2x32(uint64_t key, uint64_t counter) {
  constexpr int kRotations[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
  const std::array<uint32_t, 3> keys{low_word(key), high_word(key),
                                     low_word(key) ^ high_word(key) ^ 0x1BD11BDAu};
  uint32_t x0 = low_word(counter) + keys[0];
  uint32_t x1 = high_word(counter) + keys[1];
  for (uint32_t group = 0; group < 5; ++group) {
    for (const int rotation : kRotations[group % 2]) {
      x0 += x1;
      x1 = std::rotl(x1, rotation) ^ x0;
    }
    x0 += keys[(group + 1) % 3];
    x1 += keys[(group + 2) % 3] + group + 1;
  }
  return {x0, x1};
}

std::array<uint32_t, 4> philox_4x32(uint64_t key, uint64_t counter_low, uint64_t counter_high) {
  uint32_t k0 = low_word(key);
  uint32_t k1 = high_word(key);
  std::array<uint32_t, 4> c{low_word(counter_low), high_word(counter_low), low_word(counter_high),
                            high_word(counter_high)};
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{c[0]} * 0xD2511F53u;
    const uint64_t p1 = uint64_t{c[2]} * 0xCD9E8D57u;
    c = {high_word(p1) ^ c[1] ^ k0, low_word(p1), high_word(p0) ^ c[3] ^ k1, low_word(p0)};
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return c;
}

// Random codes for a tensor, and the counter after them.
struct Generated {
  std::vector<uint64_t> codes;
  uint64_t blocks = 0;
};

// A block gives one 64-bit element, or two narrower ones, which lie side by side along one dimension: the
// first even one, or the longest rounded up to even, of which the last is dropped.
Generated threefry_codes(uint64_t key, uint64_t counter, const Dims& shape, bool wide) {
  Generated made;
  if (wide) {
    made.blocks = static_cast<uint64_t>(product(shape));
    for (uint64_t i = 0; i < made.blocks; ++i) {
      const auto words = threefry_2x32(key, counter + i);
      made.codes.push_back(join_words(words[0], words[1]));
    }
    return made;
  }
  Dims dims = shape.empty() ? Dims{1} : shape;
  auto split = std::find_if(dims.begin(), dims.end(), [](int64_t dim) { return dim % 2 == 0; });
  if (split == dims.end()) split = std::max_element(dims.begin(), dims.end());
  const auto axis = static_cast<size_t>(split - dims.begin());
  Dims half = dims;
  half[axis] = (dims[axis] + 1) / 2;
  const Dims strides = row_major_strides(half);
  made.blocks = static_cast<uint64_t>(product(half));
  for_each_index(dims, [&](const Dims& index, int64_t) {
    Dims block = index;
    block[axis] /= 2;
    const auto at = static_cast<uint64_t>(linear_index(block, strides));
    made.codes.push_back(threefry_2x32(key, counter + at)[static_cast<size_t>(index[axis] % 2)]);
  });
  return made;
}

// A block gives four words in order.
Generated philox_codes(uint64_t key, uint64_t low, uint64_t high, int64_t count, bool wide) {
  Generated made;
  const auto wanted = static_cast<size_t>(count);
  while (made.codes.size() < wanted) {
    const uint64_t at = low + made.blocks;
    const auto words = philox_4x32(key, at, high + (at < low ? 1 : 0));
    ++made.blocks;
    if (wide)
      for (const size_t i : {0, 2}) made.codes.push_back(join_words(words[i], words[i + 1]));
    else
      made.codes.insert(made.codes.end(), words.begin(), words.end());
  }
  made.codes.resize(wanted);
  return made;
}

Storage from_codes(ElementType element, const std::vector<uint64_t>& codes) {
  Storage values = zeros(element, static_cast<int64_t>(codes.size()));
  std::visit(
      [&]<typename T>(std::vector<T>& all) {
        for (size_t i = 0; i < all.size(); ++i) {
          if constexpr (std::is_same_v<T, Real>)
            all[i] = decode(element, wrap_unsigned(bit_width(element), codes[i]));
          else if constexpr (std::is_same_v<T, Bool>)
            all[i] = codes[i] & 1;
          else if constexpr (!std::is_same_v<T, Complex>)
            all[i] = normalised(element, static_cast<T>(codes[i]));
        }
      },
      values);
  return values;
}

}  // namespace

Items rng_bit_generator(const Call& call) {
  const Tensor& state = call.tensor(0);
  std::vector<Unsigned> next = state.values<Unsigned>();
  const Type& type = call.stated(1);
  const auto algorithm = call.op().enumeration(Attr::rng_algorithm, RngAlgorithm::kDefault);
  const bool threefry = algorithm == RngAlgorithm::kThreeFry;
  if (!type.is_static() || is_complex(type.element()) || next.size() < 2 || next.size() > (threefry ? 2 : 3))
    call.fail(fmt::format("{} from a state of {}", type.to_string(), state.type().to_string()));
  const bool wide = bit_width(type.element()) == 64;
  Generated made;
  if (threefry) {
    made = threefry_codes(next[0], next[1], copy_dims(type.dims()), wide);
  } else {
    // Without a third word the key doubles as the counter's upper half. DEFAULT is Philox on XLA:CPU.
    made = philox_codes(next[0], next[1], next.size() == 3 ? next[2] : next[0], type.element_count(), wide);
    if (next.size() == 3 && next[1] + made.blocks < next[1]) ++next[2];
  }
  next[1] += made.blocks;
  return {Tensor(call.result(state.dims()), std::move(next)),
          Tensor(call.result(type.dims(), 1), from_codes(type.element(), made.codes))};
}

// The distributions are the spec's, the numbers are not: they come from Philox with a fixed key, counted
// by element, so that a run repeats itself. Every rng op of a program gives the same stream.
Tensor rng(const Call& call) {
  const Tensor& a = call.tensor(0);
  const Tensor& b = call.tensor(1);
  const Type type = call.result(integers_of(call.tensor(2)));
  const auto distribution = call.op().enumeration(Attr::rng_distribution, RngDistribution::kInvalid);
  constexpr uint64_t kKey = 0x6F70656E74726Eull;
  const Generated bits = philox_codes(kKey, 0, 0, 2 * type.element_count(), true);
  const auto unit = [&](size_t i) { return static_cast<double>(bits.codes[i] >> 11) * 0x1p-53; };  // [0, 1)
  Storage values = zeros(type.element(), type.element_count());
  std::visit(
      [&]<typename T>(std::vector<T>& all) {
        if constexpr (std::is_same_v<T, Complex>) {
          call.fail(fmt::format("it is not defined on {}", type.to_string()));
        } else {
          const T low = a.values<T>().at(0);
          const T high = b.values<T>().at(0);
          for (size_t i = 0; i < all.size(); ++i) {
            if constexpr (std::is_same_v<T, Real>) {
              if (distribution == RngDistribution::kNormal)
                all[i] = low + high * std::sqrt(-2 * std::log(1 - unit(2 * i))) *
                                   std::cos(2 * std::numbers::pi * unit(2 * i + 1));
              else
                all[i] = low + (high - low) * unit(2 * i);
            } else {
              const auto span = static_cast<Unsigned>(high) - static_cast<Unsigned>(low);
              if (distribution == RngDistribution::kNormal || span == 0)
                call.fail(fmt::format("no such numbers of {}", type.to_string()));
              all[i] = static_cast<T>(static_cast<Unsigned>(low) + bits.codes[2 * i] % span);
            }
          }
        }
      },
      values);
  return call.finish(type, std::move(values));
}

}  // namespace opentrn::graph::eval
