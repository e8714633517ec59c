// com.microsoft's GroupQueryAttention: what exporters of language models for ONNX Runtime write, with rotary
// embedding, keys and values of the past, windows and sinks.
#include <cmath>

#include "import/onnx/attention_heads.h"
#include "import/onnx/ops.h"

namespace opentrn::import::onnx {

namespace {

// Inputs by number.
enum : size_t {
  kQuery,
  kKey,
  kValue,
  kPastKey,
  kPastValue,
  kLastPositions,  // seqlens_k: the length of each sequence, past and new tokens, less one
  kTotalLength,
  kCosine,
  kSine,
  kPositions,
  kBias,
  kHeadSink,
  kQueryNorm = 14,
  kKeyNorm,
  kQueryLengths,
};

struct Sizes {
  int64_t batch, length, heads, kv_heads, size;
  int64_t past;     // rows of the past's buffers
  int64_t total;    // tokens of the longest sequence, past and new
  int64_t present;  // rows of the buffers that are returned
  int64_t dropped;  // tokens in front that the past's buffers hold no more: they are as large as a window
};

void refuse_what_is_not_imported(const Node& n) {
  if (n.string("k_quant_type", "NONE") != "NONE" || n.string("v_quant_type", "NONE") != "NONE")
    n.refuse("keys and values in 8 or 4 bits are not imported", "k_quant_type and v_quant_type NONE");
  if (n.wants(3) || n.integer("qk_output", 0) != 0) n.refuse("the output of Q x K' is not imported");
  if (n.has(kQueryLengths)) n.refuse("query_seqlens is not imported");
}

// How many of `tokens` a cache of `capacity` rows holds for a window: those that no longer fit are dropped as
// many at once as the cache has rows beyond the window, so that what it holds depends on their number alone.
int64_t resident(int64_t tokens, int64_t capacity, int64_t window) {
  if (tokens <= capacity) return tokens;
  const int64_t step = capacity - window + 1;
  return tokens - step * ((tokens - capacity + step - 1) / step);
}

void set_window_cache(const Node& n, Sizes& s) {
  const int64_t window = n.integer("local_window_size", -1);
  n.check(window > 0 && window <= s.past, "sliding_window_cache has {} rows for a local_window_size of {}",
          s.past, window);
  n.check(s.total >= s.length, "total_sequence_length is {} with {} new tokens", s.total, s.length);
  if (s.batch > 1 && s.total > s.length)
    n.refuse("sliding_window_cache of several sequences with a past is not imported", "one sequence a run");
  const int64_t before = s.total - s.length;
  s.dropped = before - resident(before, s.past, window);
  s.present = s.past;
}

Sizes sizes_of(const Node& n) {
  Sizes s{};
  s.heads = n.integer("num_heads", 0);
  s.kv_heads = n.integer("kv_num_heads", 0);
  n.check(s.heads > 0 && s.kv_heads > 0 && s.heads % s.kv_heads == 0, "num_heads {} and kv_num_heads {}",
          s.heads, s.kv_heads);
  const Dims query = n.dims(kQuery);
  n.check(query.size() == 3, "query of rank {}", query.size());
  s.batch = query[0];
  s.length = query[1];
  const int64_t parts = n.has(kKey) ? s.heads : s.heads + 2 * s.kv_heads;
  n.check(query[2] > 0 && query[2] % parts == 0, "query has {} columns for {} heads", query[2], parts);
  s.size = query[2] / parts;
  const Dims each{s.batch, s.length, s.kv_heads * s.size};
  if (n.has(kKey))
    n.check(n.has(kValue) && n.dims(kKey) == each && n.dims(kValue) == each,
            "key and value must be [{}, {}, {}]", each[0], each[1], each[2]);
  if (n.has(kPastKey)) {
    const Dims past = n.dims(kPastKey);
    n.check(n.has(kPastValue) && past == n.dims(kPastValue) && past.size() == 4 && past[0] == s.batch &&
                past[1] == s.kv_heads && past[3] == s.size,
            "past_key and past_value must be [{}, {}, rows, {}]", s.batch, s.kv_heads, s.size);
    s.past = past[2];
  }
  n.check(product(n.dims(kLastPositions)) == s.batch, "seqlens_k has {} elements for a batch of {}",
          product(n.dims(kLastPositions)), s.batch);
  s.total = n.integer(kTotalLength);
  if (n.flag("sliding_window_cache", false)) {
    set_window_cache(n, s);
    return s;
  }
  n.check(s.total >= s.length && s.total <= s.past + s.length,
          "total_sequence_length is {} with {} new tokens and {} rows of the past", s.total, s.length,
          s.past);
  s.present = std::max(s.past, s.total);
  return s;
}

// How many tokens came before the new ones: the same of all sequences where that is known, i.e. in a first
// prompt or of one sequence, and of each, [batch] i64, otherwise.
struct Before {
  std::optional<int64_t> known;
  ValueId each;
};

Before tokens_before(const Node& n, const Sizes& s) {
  const Emit& e = n.emit;
  if (s.total == s.length || s.batch == 1)
    return {s.total - s.length,
            e.full(ElementType::kI64, {s.batch}, static_cast<double>(s.total - s.length))};
  const ValueId last = e.reshape(e.cast(n.in(kLastPositions), ElementType::kI64), {s.batch});
  return {std::nullopt, e.add(last, static_cast<double>(1 - s.length))};
}

// RMS norm of each head with a weight that all heads share.
ValueId normalised_heads(const Node& n, ValueId x, size_t weight, const char* name) {
  if (!n.has(weight)) return x;
  const Emit& e = n.emit;
  const double epsilon = n.real(name, n.real("qk_norm_epsilon", 1e-6));
  return e.in(ElementType::kF32, x, [&](ValueId wide) {
    const ValueId inverse = e.unary(OpKind::rsqrt_, e.add(e.mean(e.mul(wide, wide), {3}, true), epsilon));
    return e.mul(e.mul(wide, inverse), e.cast(n.in(weight), ElementType::kF32));
  });
}

// [batch, length, heads, size] at its positions.
ValueId turned(const Node& n, const Sizes& s, ValueId x, const Before& before) {
  if (!n.flag("do_rotary", false)) return x;
  const Emit& e = n.emit;
  n.check(n.has(kCosine) && n.has(kSine) && n.rank(kCosine) == 2,
          "do_rotary without cos_cache and sin_cache");
  ValueId places = e.add(e.reshape(before.each, {s.batch, 1}), e.iota(ElementType::kI64, {1, s.length}, 1));
  // ONNX Runtime reads no more than the first of a first prompt's positions.
  if (n.has(kPositions) && s.total == s.length)
    places =
        e.add(e.reshape(e.slice(e.reshape(n.in(kPositions), {product(n.dims(kPositions))}), 0, 0, 1), {1, 1}),
              e.iota(ElementType::kI64, {1, s.length}, 1));
  else if (n.has(kPositions))
    places = n.in(kPositions);
  const int64_t size = 2 * e.dim(n.in(kCosine), 1);
  n.check(size <= s.size, "cos_cache turns {} of {} elements", size, s.size);
  const auto angles = [&](size_t table) {
    return e.cast(e.take_along(n.in(table), places, 0), e.element(x));
  };
  return rotated(e, x, angles(kCosine), angles(kSine), size, n.flag("rotary_interleaved", false));
}

// [batch, kv heads, rows, size].
struct Cache {
  ValueId read;     // the rows that queries may read: those of tokens `dropped` to `total`
  ValueId present;  // the buffer that is returned
};

// The past's rows and the new ones at places that are known.
Cache appended(const Node& n, const Sizes& s, std::optional<ValueId> past, ValueId rows, int64_t before) {
  const Emit& e = n.emit;
  Cache cache{rows, {}};
  if (const int64_t old = before - s.dropped; old > 0)
    cache.read = e.concat({e.slice(*past, 2, 0, old), rows}, 2);
  const int64_t held = s.total - s.dropped;
  int64_t kept = held;
  if (n.flag("sliding_window_cache", false))
    kept = resident(s.total, s.past, n.integer("local_window_size", -1));
  cache.present = e.slice(cache.read, 2, held - kept, held);
  if (const int64_t behind = s.present - kept; behind > 0) {
    // What is behind the tokens has no meaning: the past's, which a buffer that stays in place has there.
    const ValueId rest = past && s.past == s.present
                             ? e.slice(*past, 2, kept, s.present)
                             : e.full(e.element(rows), {s.batch, s.kv_heads, behind, s.size}, 0);
    cache.present = e.concat({cache.present, rest}, 2);
  }
  return cache;
}

// The new rows of each sequence behind its own tokens.
Cache appended_to_each(const Node& n, const Sizes& s, ValueId past, ValueId rows, ValueId before) {
  const Emit& e = n.emit;
  ValueId buffer = past;
  if (const int64_t more = s.present - s.past; more > 0)
    buffer = e.concat({buffer, e.full(e.element(rows), {s.batch, s.kv_heads, more, s.size}, 0)}, 2);
  Values sequences;
  const ValueId zero = e.scalar(ElementType::kI64, 0);
  for (int64_t b = 0; b < s.batch; ++b) {
    const ValueId at = e.reshape(e.slice(before, 0, b, b + 1), {});
    sequences.push_back(
        e.dynamic_update(e.slice(buffer, 0, b, b + 1), e.slice(rows, 0, b, b + 1), {zero, zero, at, zero}));
  }
  const ValueId present = e.concat(sequences, 0);
  return {e.slice(present, 2, 0, s.total), present};
}

Masks masks_of(const Node& n, const Sizes& s, const Before& before) {
  const Emit& e = n.emit;
  Masks masks;
  if (n.has(kBias)) {
    n.check(n.rank(kBias) == 4 && e.dim(n.in(kBias), 3) >= s.total, "attention_bias of rank {}",
            n.rank(kBias));
    masks.bias = e.slice(n.in(kBias), 3, s.dropped, s.total);
  }
  const int64_t keys = s.total - s.dropped;
  const ValueId key = e.iota(ElementType::kI64, {s.length, keys}, 1);
  if (!n.flag("causal", true)) {
    const ValueId last = e.reshape(e.cast(n.in(kLastPositions), ElementType::kI64), {s.batch, 1, 1, 1});
    masks.allowed = e.compare(ComparisonDirection::kLe, key, last);
    return masks;
  }
  ValueId query = e.iota(ElementType::kI64, {s.length, keys}, 0);
  query = before.known ? e.add(query, static_cast<double>(*before.known - s.dropped))
                       : e.add(query, e.reshape(before.each, {s.batch, 1, 1, 1}));
  const ValueId seen = e.compare(ComparisonDirection::kLe, key, query);
  (before.known ? masks.causal : masks.allowed) = seen;
  // The query itself counts as one of the window.
  if (const int64_t window = n.integer("local_window_size", -1); window >= 0) {
    const ValueId near = e.compare(ComparisonDirection::kGt, key, e.sub(query, static_cast<double>(window)));
    masks.allowed = masks.allowed ? e.binary(OpKind::and_, *masks.allowed, near) : near;
  }
  return masks;
}

std::optional<ValueId> sink_of(const Node& n, const Sizes& s) {
  const Emit& e = n.emit;
  if (n.has(kHeadSink)) {
    n.check(product(n.dims(kHeadSink)) == s.heads, "head_sink has {} elements for {} heads",
            product(n.dims(kHeadSink)), s.heads);
    return e.reshape(e.cast(n.in(kHeadSink), ElementType::kF32), {1, s.heads, 1, 1});
  }
  if (n.flag("smooth_softmax", false)) return e.full(ElementType::kF32, {1, 1, 1, 1}, 0);
  return std::nullopt;
}

// q [batch, heads, length, size], k and v [batch, kv heads, keys, size].
ValueId attention(const Node& n, const Sizes& s, ValueId q, ValueId k, ValueId v, const Before& before) {
  const Emit& e = n.emit;
  k = repeat_heads(e, k, s.heads / s.kv_heads);
  v = repeat_heads(e, v, s.heads / s.kv_heads);
  const double given = n.real("scale", 0);
  const double scale = given == 0 ? 1 / std::sqrt(static_cast<double>(s.size)) : given;
  ValueId scores = e.mul(e.dot_general(q, k, {0, 1}, {0, 1}, {3}, {3}, ElementType::kF32), scale);
  if (const double cap = n.real("softcap", 0); cap > 0) scores = e.mul(e.tanh(e.div(scores, cap)), cap);
  return join_heads(e, attended(e, scores, masks_of(n, s, before), v, ElementType::kF32, sink_of(n, s)).y);
}

}  // namespace

void import_group_query_attention(Node& n) {
  const Emit& e = n.emit;
  refuse_what_is_not_imported(n);
  const Sizes s = sizes_of(n);
  const int64_t window = n.integer("local_window_size", -1);
  n.check(n.flag("causal", true) || window < 0, "local_window_size is {} without a causal mask", window);
  const Before before = tokens_before(n, s);
  const auto in_heads = [&](ValueId x, int64_t heads) {
    return e.reshape(x, {s.batch, s.length, heads, s.size});
  };
  const int64_t width = s.heads * s.size, kv_width = s.kv_heads * s.size;
  const auto part = [&](size_t input, int64_t start, int64_t columns) {
    return n.has(kKey) ? n.in(input) : e.slice(n.in(kQuery), 2, start, start + columns);
  };
  ValueId q = in_heads(part(kQuery, 0, width), s.heads);
  ValueId k = in_heads(part(kKey, width, kv_width), s.kv_heads);
  const ValueId v = in_heads(part(kValue, width + kv_width, kv_width), s.kv_heads);
  q = turned(n, s, normalised_heads(n, q, kQueryNorm, "q_norm_epsilon"), before);
  k = turned(n, s, normalised_heads(n, k, kKeyNorm, "k_norm_epsilon"), before);
  const auto cached = [&](size_t input, ValueId x) {
    const ValueId rows = e.transpose(x, {0, 2, 1, 3});
    const std::optional<ValueId> past = n.has(input) ? std::optional(n.in(input)) : std::nullopt;
    return before.known ? appended(n, s, past, rows, *before.known)
                        : appended_to_each(n, s, *past, rows, before.each);
  };
  const Cache keys = cached(kPastKey, k), values = cached(kPastValue, v);
  n.set(1, keys.present);
  n.set(2, values.present);
  n.set(0, attention(n, s, e.transpose(q, {0, 2, 1, 3}), keys.read, values.read, before));
}

}  // namespace opentrn::import::onnx
