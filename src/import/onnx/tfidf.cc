// TfIdfVectorizer: how often the n-grams of a pool occur in rows of whole numbers.
#include <algorithm>
#include <map>

#include "import/onnx/ops.h"

namespace opentrn::import::onnx {

namespace {

constexpr int64_t kColumnsMax = 1 << 24;
constexpr int64_t kComparesMax = 1 << 14;  // of a place of an n-gram with rows, at one distance: an op each

// The column of the result that counts an n-gram, and its weight.
struct Entry {
  int64_t column = 0;
  double weight = 1;
};
// Of one length, by the numbers of the n-gram.
using Grams = std::map<Dims, Entry>;

// By length. An n-gram that the pool has twice counts where it stands last, as in ONNX Runtime.
std::map<int64_t, Grams> grams_of_pool(const Node& n) {
  const AttributeValue* strings = n.attribute("pool_strings");
  if (strings && !strings->strings.empty())
    n.refuse("its pool is of strings, and a device holds no tensors of strings",
             "number the words of the vocabulary, and give pool_int64s and a tensor of numbers");
  const AttributeValue* given = n.attribute("pool_int64s");
  n.check(given != nullptr && !given->ints.empty(), "it has neither pool_int64s nor pool_strings");
  const std::vector<int64_t>& pool = given->ints;
  const auto size = static_cast<int64_t>(pool.size());
  const Dims starts = n.places("ngram_counts");
  const Dims columns = n.places("ngram_indexes");
  const int64_t shortest = n.integer("min_gram_length", 1);
  const int64_t longest = n.integer("max_gram_length", 1);
  n.check(0 < shortest && shortest <= longest, "n-grams of {} to {} numbers", shortest, longest);
  const std::vector<float> weights = n.reals("weights").value_or(std::vector<float>{});
  n.check(weights.empty() || weights.size() >= columns.size(), "{} weights for {} n-grams", weights.size(),
          columns.size());
  std::map<int64_t, Grams> grams;
  size_t number = 0;
  for (size_t i = 0; i < starts.size(); ++i) {
    const auto length = static_cast<int64_t>(i) + 1;
    const int64_t end = i + 1 < starts.size() ? starts[i + 1] : size;
    n.check(0 <= starts[i] && starts[i] <= end && end <= size && (end - starts[i]) % length == 0,
            "ngram_counts: the {}-grams take the places {} to {} of a pool of {}", length, starts[i], end,
            size);
    for (int64_t at = starts[i]; at < end; at += length, ++number) {
      n.check(number < columns.size(), "ngram_indexes has {} entries, for more n-grams", columns.size());
      n.check(0 <= columns[number] && columns[number] < kColumnsMax, "ngram_indexes: column {}",
              columns[number]);
      if (length < shortest || length > longest) continue;
      grams[length][Dims(pool.begin() + at, pool.begin() + at + length)] = {
          columns[number], weights.empty() ? 1 : static_cast<double>(weights[number])};
    }
  }
  return grams;
}

// x [rows, numbers]: [rows, n-grams], how often each occurs with `distance` from one of its numbers to the
// next.
ValueId occurrences(const Emit& e, ValueId x, const Grams& grams, int64_t length, int64_t distance) {
  const int64_t places = e.dim(x, 1) - (length - 1) * distance;
  const auto count = static_cast<int64_t>(grams.size());
  std::optional<ValueId> all;
  for (int64_t i = 0; i < length; ++i) {
    Dims wanted;
    for (const auto& [numbers, entry] : grams) wanted.push_back(numbers[static_cast<size_t>(i)]);
    const ValueId here = e.unsqueeze(e.slice(x, 1, i * distance, i * distance + places), 2);
    const ValueId same =
        e.compare(ComparisonDirection::kEq, e.broadcast_to(here, {e.dim(x, 0), places, count}),
                  e.broadcast_to(e.integers(wanted), {e.dim(x, 0), places, count}));
    all = all ? e.binary(OpKind::and_, *all, same) : same;
  }
  return e.sum(e.cast(*all, ElementType::kF32), {1}, false);
}

// Values [rows, n-grams] added up in the columns that they belong to.
ValueId in_columns(const Emit& e, ValueId values, const Dims& column_of, int64_t columns) {
  const int64_t none = e.dim(values, 1);  // a column of zeros behind the n-grams
  const ValueId padded = e.concat({values, e.full(ElementType::kF32, {e.dim(values, 0), 1}, 0)}, 1);
  std::vector<Dims> layers;  // layer k holds the k-th n-gram of each column
  std::vector<size_t> filled(static_cast<size_t>(columns), 0);
  for (size_t gram = 0; gram < column_of.size(); ++gram) {
    size_t& layer = filled[static_cast<size_t>(column_of[gram])];
    if (layer == layers.size()) layers.emplace_back(static_cast<size_t>(columns), none);
    layers[layer++][static_cast<size_t>(column_of[gram])] = static_cast<int64_t>(gram);
  }
  std::optional<ValueId> sum;
  for (const Dims& layer : layers) {
    const ValueId taken = e.take_along(padded, e.integers(layer), 1);
    sum = sum ? e.add(*sum, taken) : taken;
  }
  return *sum;
}

// What of a pool the rows are long enough for.
struct Counted {
  ValueId counts;  // [rows, n-grams]
  Dims column_of;
  std::vector<double> weights;
};

std::optional<Counted> counted(const Node& n, ValueId x) {
  const Emit& e = n.emit;
  const int64_t skips = n.integer("max_skip_count", 0);
  n.check(0 <= skips, "max_skip_count is {}", skips);
  Values parts;
  Counted all;
  int64_t compares = 0;
  for (const auto& [length, grams] : grams_of_pool(n)) {
    std::optional<ValueId> sum;
    // One number alone has no distance to a next one.
    const int64_t farthest = length == 1 ? 1 : std::min(skips + 1, e.dim(x, 1));
    for (int64_t distance = 1; distance <= farthest; ++distance) {
      if (e.dim(x, 1) - (length - 1) * distance <= 0) break;
      compares += length;
      n.check(compares <= kComparesMax,
              "max_skip_count {} and n-grams of {} numbers ask for more than {} compares", skips, length,
              kComparesMax);
      const ValueId found = occurrences(e, x, grams, length, distance);
      sum = sum ? e.add(*sum, found) : found;
    }
    if (!sum) continue;
    parts.push_back(*sum);
    for (const auto& [numbers, entry] : grams) {
      all.column_of.push_back(entry.column);
      all.weights.push_back(entry.weight);
    }
  }
  if (parts.empty()) return std::nullopt;
  all.counts = e.concat(parts, 1);
  return all;
}

bool has_equals(Dims values) {
  std::sort(values.begin(), values.end());
  return std::adjacent_find(values.begin(), values.end()) != values.end();
}

// [rows, columns]: counts, whether there are any, or counts times weights.
ValueId scores(const Node& n, const Counted& found, int64_t columns) {
  const Emit& e = n.emit;
  const std::string mode = n.string("mode", "");
  n.check(mode == "TF" || mode == "IDF" || mode == "TFIDF", "mode is '{}'; TF, IDF or TFIDF", mode);
  const auto count = static_cast<int64_t>(found.weights.size());
  const bool weighted = mode != "TF" && std::ranges::any_of(found.weights, [](double w) { return w != 1; });
  const ValueId weights = e.reals(found.weights, ElementType::kF32, {1, count});
  if (mode != "IDF") {
    const ValueId values = weighted ? e.mul(found.counts, weights) : found.counts;
    return in_columns(e, values, found.column_of, columns);
  }
  const auto any = [&](ValueId counts) {
    return e.cast(e.compare(ComparisonDirection::kGt, counts, 0), ElementType::kF32);
  };
  if (!weighted) return any(in_columns(e, found.counts, found.column_of, columns));
  if (has_equals(found.column_of))
    n.refuse(
        "mode IDF, and several weighted n-grams in one column: which of their weights it gets is not stated",
        "give each n-gram a column of its own in ngram_indexes");
  return in_columns(e, e.mul(any(found.counts), weights), found.column_of, columns);
}

}  // namespace

void import_tf_idf_vectorizer(Node& n) {
  const Emit& e = n.emit;
  const int64_t rank = n.rank(0);
  n.check(rank <= 2, "its input has {} dimensions, at most 2 are allowed", rank);
  const Dims indexes = n.places("ngram_indexes");
  n.check(!indexes.empty(), "ngram_indexes is empty");
  const int64_t columns = *std::max_element(indexes.begin(), indexes.end()) + 1;
  n.check(0 < columns && columns <= kColumnsMax, "ngram_indexes asks for {} columns", columns);
  const ValueId rows = rank == 2 ? n.in(0) : e.reshape(n.in(0), {1, product(n.dims(0))});
  const auto found = counted(n, e.cast(rows, ElementType::kI64));
  const ValueId y =
      found ? scores(n, *found, columns) : e.full(ElementType::kF32, {e.dim(rows, 0), columns}, 0);
  n.set(0, rank == 2 ? y : e.reshape(y, {columns}));
}

}  // namespace opentrn::import::onnx
