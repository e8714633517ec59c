// Attention and what belongs to it: rotary embedding, linear attention, causal convolution with state.
#include <cmath>

#include "import/onnx/attention_heads.h"
#include "import/onnx/loop.h"
#include "import/onnx/ops.h"

namespace opentrn::import::onnx {

namespace {

struct Frontier {
  ValueId query;  // absolute positions of queries, [q, 1] or [batch, 1, q, 1]
  ValueId key;    // [keys]
};

// Keys before the query block: the cache's length, or the valid ones of an external cache without the block.
Frontier frontier(const Node& n, int64_t queries, int64_t keys, int64_t past) {
  const Emit& e = n.emit;
  const ValueId key = e.iota(ElementType::kI64, {keys}, 0);
  const ValueId step = e.iota(ElementType::kI64, {queries, 1}, 0);
  if (!n.has(6)) return {e.add(step, static_cast<double>(past)), key};
  const ValueId valid = e.reshape(e.cast(n.in(6), ElementType::kI64), {product(n.dims(6)), 1, 1, 1});
  return {e.add(e.sub(valid, static_cast<double>(queries)), step), key};
}

// The mask of as many keys as there are: those that it does not name are hidden.
ValueId widened(const Node& n, ValueId mask, int64_t keys) {
  const Emit& e = n.emit;
  const int64_t last = e.rank(mask) - 1;
  n.check(last >= 0 && e.dim(mask, last) <= keys, "the mask has rank {}", last + 1);
  const int64_t missing = keys - e.dim(mask, last);
  if (missing == 0 || e.dim(mask, last) == 1) return mask;
  Dims low(static_cast<size_t>(last + 1), 0);
  Dims high = low;
  high.back() = missing;
  const double hides = e.element(mask) == ElementType::kI1 ? 0 : kMaskedScore;
  return e.pad(mask, e.scalar(e.element(mask), hides), low, high);
}

// Inputs 3 and 6 and the attributes of windows; a causal mask stands alone where its places are known.
Masks masks_of(const Node& n, int64_t queries, int64_t keys, int64_t past) {
  const Emit& e = n.emit;
  Masks masks;
  const auto allow = [&](ValueId condition) {
    masks.allowed = masks.allowed ? e.binary(OpKind::and_, *masks.allowed, condition) : condition;
  };
  if (n.has(3)) {
    const ValueId mask = widened(n, n.in(3), keys);
    if (e.element(mask) == ElementType::kI1)
      allow(mask);
    else
      masks.bias = mask;
  }
  const Frontier f = frontier(n, queries, keys, past);
  if (n.flag("is_causal", false)) {
    const ValueId seen = e.compare(ComparisonDirection::kLe, f.key, f.query);
    if (n.has(6))
      allow(seen);
    else
      masks.causal = seen;
  }
  if (const int64_t left = n.integer("left_window_size", -1); left >= 0)
    allow(e.compare(ComparisonDirection::kGe, f.key, e.sub(f.query, static_cast<double>(left))));
  if (const int64_t right = n.integer("right_window_size", -1); right >= 0)
    allow(e.compare(ComparisonDirection::kLe, f.key, e.add(f.query, static_cast<double>(right))));
  if (n.has(6)) {
    const ValueId valid = e.reshape(e.cast(n.in(6), ElementType::kI64), {product(n.dims(6)), 1, 1, 1});
    allow(e.compare(ComparisonDirection::kLt, f.key, valid));
  }
  return masks;
}

// The scores as qk_matmul_output_mode 2 has them.
ValueId hidden(const Emit& e, ValueId scores, const Masks& masks) {
  if (masks.bias) scores = e.add(scores, e.cast(*masks.bias, e.element(scores)));
  if (masks.allowed) scores = masked(e, scores, *masks.allowed);
  return masks.causal ? masked(e, scores, *masks.causal) : scores;
}

}  // namespace

void import_attention(Node& n) {
  const Emit& e = n.emit;
  const bool packed = n.rank(0) == 3;
  n.check(n.rank(0) == n.rank(1) && n.rank(0) == n.rank(2), "Q, K and V of ranks {}, {} and {}", n.rank(0),
          n.rank(1), n.rank(2));
  ValueId q = n.in(0), k = n.in(1), v = n.in(2);
  if (packed) {
    const int64_t q_heads = n.integer("q_num_heads", 0);
    const int64_t kv_heads = n.integer("kv_num_heads", 0);
    n.check(q_heads > 0 && kv_heads > 0 && e.dim(q, 2) % q_heads == 0 && e.dim(k, 2) % kv_heads == 0 &&
                e.dim(v, 2) % kv_heads == 0,
            "q_num_heads {} and kv_num_heads {}", q_heads, kv_heads);
    q = split_heads(e, q, q_heads);
    k = split_heads(e, k, kv_heads);
    v = split_heads(e, v, kv_heads);
  }
  n.check(e.rank(q) == 4 && e.rank(k) == 4 && e.rank(v) == 4, "Q, K and V must have rank 3 or 4");
  int64_t past = 0;
  if (n.has(4)) {
    past = e.dim(n.in(4), 2);
    k = e.concat({n.in(4), k}, 2);
    v = e.concat({n.in(5), v}, 2);
  }
  n.set(1, k);
  n.set(2, v);
  const int64_t q_heads = e.dim(q, 1);
  n.check(e.dim(k, 1) > 0 && q_heads % e.dim(k, 1) == 0 && e.dim(v, 1) == e.dim(k, 1),
          "{} query heads, {} key heads, {} value heads", q_heads, e.dim(k, 1), e.dim(v, 1));
  k = repeat_heads(e, k, q_heads / e.dim(k, 1));
  v = repeat_heads(e, v, q_heads / e.dim(v, 1));
  const int64_t queries = e.dim(q, 2);
  const int64_t keys = e.dim(k, 2);
  const double scale = n.real("scale", 1 / std::sqrt(static_cast<double>(e.dim(q, 3))));
  // The root of the scale on either side keeps narrow formats from overflowing.
  const double root = std::sqrt(scale);
  ValueId scores = e.dot_general(e.mul(q, root), e.mul(k, root), {0, 1}, {0, 1}, {3}, {3});
  const int64_t mode = n.integer("qk_matmul_output_mode", 0);
  const ValueId raw = scores;
  const double cap = n.real("softcap", 0);
  const auto capped = [&](ValueId x) { return cap > 0 ? e.mul(e.tanh(e.div(x, cap)), cap) : x; };
  scores = capped(scores);
  const Masks masks = masks_of(n, queries, keys, past);
  const ElementType wide = n.data_type("softmax_precision").value_or(e.element(q));
  const Attended made = attended(e, scores, masks, v, wide);
  n.set(0, packed ? join_heads(e, made.y) : made.y);
  if (n.wants(3)) {
    n.check(0 <= mode && mode <= 3, "qk_matmul_output_mode is {}", mode);
    n.set(3, mode == 0 ? raw : mode == 1 ? scores : mode == 2 ? hidden(e, scores, masks) : made.weights);
  }
}

// score_mod and prob_mod are graphs of one input.
void import_flex_attention(Node& n) {
  const Emit& e = n.emit;
  const ValueId q = n.in(0);
  n.check(n.rank(0) == 4 && n.rank(1) == 4 && n.rank(2) == 4, "Q, K and V must have rank 4");
  n.check(e.dim(n.in(1), 1) > 0 && e.dim(q, 1) % e.dim(n.in(1), 1) == 0, "{} query heads", e.dim(q, 1));
  const int64_t times = e.dim(q, 1) / e.dim(n.in(1), 1);
  const ValueId k = repeat_heads(e, n.in(1), times);
  const ValueId v = repeat_heads(e, n.in(2), times);
  const double root = std::sqrt(n.real("scale", 1 / std::sqrt(static_cast<double>(e.dim(q, 3)))));
  const ElementType narrow = e.element(q);
  const ElementType wide =
      n.data_type("softmax_precision").value_or(graph::bit_width(narrow) < 32 ? ElementType::kF32 : narrow);
  ValueId scores = e.cast(e.dot_general(e.mul(q, root), e.mul(k, root), {0, 1}, {0, 1}, {3}, {3}), wide);
  const auto modified = [&](std::string_view name, ValueId x) {
    if (!n.attribute(name)) return x;
    const Values results = n.surroundings().subgraph(n.graph(name), {x}, e.builder());
    n.check(results.size() == 1, "{} returns {} values", name, results.size());
    return e.cast(results[0], wide);
  };
  scores = modified("score_mod", scores);
  const ValueId weights = modified("prob_mod", e.softmax(scores, 3));
  n.set(0, e.cast(e.dot_general(weights, e.cast(v, wide), {0, 1}, {0, 1}, {3}, {2}), e.element(v)));
}

namespace {

void rotary_embedding(Node& n, int64_t heads, ValueId cosine, ValueId sine) {
  const Emit& e = n.emit;
  const Dims from = n.dims(0);
  const bool packed = from.size() == 3;
  n.check(from.size() == 4 || (packed && heads > 0 && from[2] % heads == 0), "input of rank {}, {} heads",
          from.size(), heads);
  const ValueId x = packed ? e.reshape(n.in(0), {from[0], from[1], heads, from[2] / heads})
                           : e.transpose(n.in(0), {0, 2, 1, 3});
  const int64_t given = n.integer("rotary_embedding_dim", 0);
  const int64_t size = given == 0 ? e.dim(x, 3) : given;
  n.check(size > 0 && size % 2 == 0 && size <= e.dim(x, 3), "rotary_embedding_dim is {}", size);
  const ValueId y = rotated(e, x, cosine, sine, size, n.flag("interleaved", false));
  n.set(0, packed ? e.reshape(y, from) : e.transpose(y, {0, 2, 1, 3}));
}

}  // namespace

void import_rotary_embedding(Node& n) {
  const Emit& e = n.emit;
  ValueId cosine = n.in(1), sine = n.in(2);
  if (n.has(3)) {
    cosine = e.take_along(cosine, n.in(3), 0);
    sine = e.take_along(sine, n.in(3), 0);
  }
  rotary_embedding(n, n.integer("num_heads", 0), cosine, sine);
}

// com.microsoft: positions come second, all of them or the first, and the tables say how large a head is.
void import_microsoft_rotary_embedding(Node& n) {
  const Emit& e = n.emit;
  const Dims from = n.dims(0);
  n.check(from.size() == 3 || from.size() == 4, "input of rank {}", from.size());
  n.check(n.rank(2) == 2 && e.dim(n.in(2), 1) > 0, "cos_cache of rank {}", n.rank(2));
  if (n.flag("is_packed_batching", false)) n.refuse("is_packed_batching is not imported");
  n.check(n.real("scale", 1) == 1, "scale is {}", n.real("scale", 1));
  int64_t heads = n.integer("num_heads", 0);
  if (heads == 0 && from.size() == 3) heads = from[2] / (2 * e.dim(n.in(2), 1));
  const int64_t length = from.size() == 4 ? from[2] : from[1];
  ValueId places = e.cast(n.in(1), ElementType::kI64);
  if (e.rank(places) < 2)
    places = e.add(e.reshape(places, {1, 1}), e.iota(ElementType::kI64, {1, length}, 1));
  rotary_embedding(n, heads, e.take_along(n.in(2), places, 0), e.take_along(n.in(3), places, 0));
}

namespace {

// What com.microsoft's attention operators share, behind their projections: heads [batch, heads, length,
// size].
struct Heads {
  ValueId q, k, v;
};

// Masks: lengths of keys [batch], or 1 where a key counts, [batch, keys] or [batch, queries, keys].
ValueId with_key_mask(const Node& n, ValueId scores, ValueId mask) {
  const Emit& e = n.emit;
  const Dims d = e.dims(scores), m = e.dims(mask);
  ValueId counts = mask;
  if (m.size() == 1) {
    n.check(m[0] == d[0], "a mask of {} lengths for a batch of {}", m[0], d[0]);
    const ValueId length = e.reshape(e.cast(mask, ElementType::kI64), {d[0], 1, 1, 1});
    counts = e.compare(ComparisonDirection::kLt, e.iota(ElementType::kI64, {d[3]}, 0), length);
  } else {
    n.check((m.size() == 2 || m.size() == 3) && m[0] == d[0] && m.back() == d[3], "a mask of rank {}",
            m.size());
    const ValueId kept = e.compare(ComparisonDirection::kNe, mask, 0);
    counts = e.reshape(kept, m.size() == 2 ? Dims{d[0], 1, 1, d[3]} : Dims{d[0], 1, m[1], d[3]});
  }
  const double filter = n.real("mask_filter_value", -10000);
  return e.add(scores,
               e.select(counts, e.full(e.element(scores), {1}, 0), e.full(e.element(scores), {1}, filter)));
}

// Inputs by number; past: keys and values in front, in heads.
void attend(Node& n, Heads h, size_t mask, size_t bias, std::optional<std::pair<ValueId, ValueId>> past,
            bool unidirectional) {
  const Emit& e = n.emit;
  if (past) {
    h.k = e.concat({past->first, h.k}, 2);
    h.v = e.concat({past->second, h.v}, 2);
  }
  const double size = static_cast<double>(e.dim(h.q, 3));
  const double given = n.real("scale", 0);
  ValueId scores =
      e.dot_general(e.mul(h.q, given == 0 ? 1 / std::sqrt(size) : given), h.k, {0, 1}, {0, 1}, {3}, {3});
  if (n.has(mask)) scores = with_key_mask(n, scores, n.in(mask));
  Masks masks;
  if (n.has(bias)) masks.bias = n.in(bias);
  if (unidirectional) {
    const int64_t queries = e.dim(scores, 2), keys = e.dim(scores, 3);
    const int64_t before = past ? e.dim(past->first, 2) : 0;
    const ValueId key = e.iota(ElementType::kI64, {queries, keys}, 1);
    const ValueId step = e.iota(ElementType::kI64, {queries, keys}, 0);
    const ValueId query = e.add(step, static_cast<double>(before));
    masks.causal = e.compare(ComparisonDirection::kLe, key, query);
    // ONNX Runtime's mask leaves the last query every key, also where there are more than it stands behind.
    if (keys > before + queries) {
      const ValueId is_last = e.compare(ComparisonDirection::kEq, step, static_cast<double>(queries - 1));
      masks.causal = e.binary(OpKind::or_, *masks.causal, is_last);
    }
  }
  n.set(0, join_heads(e, attended(e, scores, masks, h.v, ElementType::kF32).y));
}

}  // namespace

// query [batch, length, hidden]; key and value like it or in heads; or packed, [batch, length, heads, 3 or 2,
// size]; bias of all three; key_padding_mask; attention_bias; past_key; past_value.
void import_multi_head_attention(Node& n) {
  const Emit& e = n.emit;
  const int64_t heads = n.integer("num_heads", 0);
  n.check(heads > 0, "num_heads is {}", heads);
  ValueId parts[3];
  const auto unpacked = [&](size_t input, int64_t count, ValueId* to) {
    n.check(e.dim(n.in(input), 2) == heads && e.dim(n.in(input), 3) == count,
            "packed heads must be [batch, length, {}, {}, size]", heads, count);
    const Dims d = n.dims(input);
    for (int64_t i = 0; i < count; ++i)
      to[i] = e.reshape(e.take(n.in(input), 3, i), {d[0], d[1], d[2] * d[4]});
  };
  if (n.rank(0) == 5) {
    n.check(!n.has(1) && !n.has(2), "packed queries, keys and values beside key and value");
    unpacked(0, 3, parts);
  } else if (n.rank(0) == 3 && n.has(1) && n.rank(1) == 5) {
    n.check(!n.has(2), "packed keys and values beside value");
    parts[0] = n.in(0);
    unpacked(1, 2, parts + 1);
  } else {
    n.check(n.rank(0) == 3 && n.has(1) && n.has(2), "query of rank {} without key and value", n.rank(0));
    for (size_t i = 0; i < 3; ++i) parts[i] = n.in(i);
  }
  for (size_t i = 8; i < n.input_count(); ++i)
    if (n.has(i)) n.refuse("past_sequence_length and cache_indirection are not imported");
  int64_t at = 0;
  for (ValueId& part : parts) {
    if (e.rank(part) == 4) continue;
    const int64_t width = e.dim(part, 2);
    n.check(e.rank(part) == 3 && width % heads == 0, "{} columns for {} heads", width, heads);
    if (n.has(3)) part = e.add(part, e.slice(n.in(3), 0, at, at + width));
    at += width;
    part = split_heads(e, part, heads);
  }
  std::optional<std::pair<ValueId, ValueId>> past;
  if (n.has(6) && n.has(7)) past = {n.in(6), n.in(7)};
  n.set(1, past ? e.concat({past->first, parts[1]}, 2) : parts[1]);
  n.set(2, past ? e.concat({past->second, parts[2]}, 2) : parts[2]);
  attend(n, {parts[0], parts[1], parts[2]}, 4, 5, past, n.flag("unidirectional", false));
}

// com.microsoft's Attention: input, weights of queries, keys and values side by side, bias, mask_index, past
// [2, batch, heads, length, size], attention_bias.
void import_packed_attention(Node& n) {
  const Emit& e = n.emit;
  const int64_t heads = n.integer("num_heads", 0);
  n.check(heads > 0 && n.rank(0) == 3 && n.rank(1) == 2, "{} heads, input of rank {}", heads, n.rank(0));
  if (n.flag("do_rotary", false) || n.flag("past_present_share_buffer", false) || n.has(6))
    n.refuse("do_rotary and past_present_share_buffer are not imported");
  if (n.has(3) && n.rank(3) == 1 && e.dim(n.in(3), 0) != e.dim(n.in(0), 0))
    n.refuse("mask_index with starts and ends is not imported", "a mask of [batch, length]");
  ValueId all = e.dot_general(n.in(0), n.in(1), {}, {}, {2}, {0});
  if (n.has(2)) all = e.add(all, n.in(2));
  const int64_t third = e.dim(all, 2) / 3;
  const Dims sizes = n.integers("qkv_hidden_sizes", Dims{third, third, third});
  n.check(sizes.size() == 3 && sizes[0] + sizes[1] + sizes[2] == e.dim(all, 2), "{} columns", e.dim(all, 2));
  ValueId parts[3];
  int64_t at = 0;
  for (size_t i = 0; i < 3; ++i) {
    n.check(sizes[i] > 0 && sizes[i] % heads == 0, "{} columns for {} heads", sizes[i], heads);
    parts[i] = split_heads(e, e.slice(all, 2, at, at + sizes[i]), heads);
    at += sizes[i];
  }
  std::optional<std::pair<ValueId, ValueId>> past;
  if (n.has(4)) past = {e.take(n.in(4), 0, 0), e.take(n.in(4), 0, 1)};
  if (n.wants(1)) {
    const ValueId k = past ? e.concat({past->first, parts[1]}, 2) : parts[1];
    const ValueId v = past ? e.concat({past->second, parts[2]}, 2) : parts[2];
    n.set(1, e.concat({e.unsqueeze(k, 0), e.unsqueeze(v, 0)}, 0));
  }
  attend(n, {parts[0], parts[1], parts[2]}, 3, 5, past, n.flag("unidirectional", false));
}

// State [batch, kv heads, dk, dv], one token at a time.
void import_linear_attention(Node& n) {
  const Emit& outer = n.emit;
  const int64_t q_heads = n.integer("q_num_heads", 0);
  const int64_t kv_heads = n.integer("kv_num_heads", 0);
  n.check(n.rank(0) == 3 && n.rank(1) == 3 && n.rank(2) == 3 && q_heads > 0 && kv_heads > 0 &&
              q_heads % kv_heads == 0,
          "{} query heads, {} key heads", q_heads, kv_heads);
  if (n.integer("state_window", 0) != 0) n.refuse("state_window, states of several tokens, is not imported");
  const std::string rule = n.string("update_rule", "gated_delta");
  const bool gated = rule == "gated" || rule == "gated_delta";
  const bool delta = rule == "delta" || rule == "gated_delta";
  n.check(gated || delta || rule == "linear", "update_rule is '{}'", rule);
  const ElementType narrow = n.element(0);
  const ElementType wide = n.has(3) && graph::bit_width(n.element(3)) > 32 ? n.element(3) : ElementType::kF32;
  // [length, batch, heads, size]
  const auto by_time = [&](ValueId x, int64_t heads) {
    const Dims d = outer.dims(x);
    n.check(d.size() == 3 && heads > 0 && d[2] % heads == 0, "{} columns of rank {} for {} heads",
            d.empty() ? 1 : d.back(), d.size(), heads);
    return outer.transpose(outer.reshape(outer.cast(x, wide), {d[0], d[1], heads, d[2] / heads}),
                           {1, 0, 2, 3});
  };
  const ValueId q = by_time(n.in(0), q_heads);
  const ValueId k = by_time(n.in(1), kv_heads);
  const ValueId v = by_time(n.in(2), kv_heads);
  const Dims kd = outer.dims(k);
  const int64_t dv = outer.dim(v, 3);
  std::optional<ValueId> decay, beta;
  if (gated) decay = by_time(n.in(4), kv_heads);
  if (delta) {
    const int64_t columns = outer.dim(n.in(5), 2);
    beta = by_time(n.in(5), columns);  // [length, batch, heads or 1, 1]
  }
  const double given = n.real("scale", 0);
  const double scale = given == 0 ? 1 / std::sqrt(static_cast<double>(kd[3])) : given;
  const ElementType state_type = n.has(3) ? n.element(3) : narrow;
  const ValueId start =
      n.has(3) ? outer.cast(n.in(3), wide) : outer.full(wide, {kd[1], kv_heads, kd[3], dv}, 0);
  const auto body = [&](Builder& b, ValueId index, const Values& states) {
    const Emit e(b);
    const auto now = [&](ValueId x) {
      Dims sizes = e.dims(x);
      sizes[0] = 1;
      Values place(4, e.scalar(ElementType::kI64, 0));
      place[0] = index;
      return e.squeeze(e.dynamic_slice(x, place, sizes), 0);
    };
    ValueId state = states[0];
    const ValueId key = now(k);
    ValueId value = now(v);
    if (decay) state = e.mul(state, e.unsqueeze(e.reshape(e.exp(now(*decay)), e.dims(now(*decay))), 3));
    if (delta) {
      const ValueId recalled = e.dot_general(key, state, {0, 1}, {0, 1}, {2}, {2});
      value = e.mul(e.sub(value, recalled), now(*beta));
    }
    const ValueId outer_product = e.mul(e.unsqueeze(key, 3), e.unsqueeze(value, 2));
    const ValueId next = e.add(state, outer_product);
    const ValueId query = e.reshape(now(q), {kd[1], kv_heads, q_heads / kv_heads, kd[3]});
    const ValueId read = e.dot_general(e.mul(query, scale), next, {0, 1}, {0, 1}, {3}, {2});
    return Iteration{std::nullopt, {next}, {e.reshape(read, {kd[1], q_heads * dv})}};
  };
  const LoopResult result = loop(n, kd[0], std::nullopt, {start}, body);
  n.set(0, outer.cast(outer.transpose(result.scanned[0], {1, 0, 2}), narrow));
  n.set(1, outer.cast(result.states[0], state_type));
}

void import_causal_conv_with_state(Node& n) {
  const Emit& e = n.emit;
  n.check(n.rank(0) == 3 && n.rank(1) == 3, "input of rank {} and weight of rank {}", n.rank(0), n.rank(1));
  const Dims d = n.dims(0);
  const int64_t taps = e.dim(n.in(1), 2);
  n.check(taps > 0 && taps < 1 << 12 && e.dim(n.in(1), 0) == d[1], "{} taps", taps);
  const ValueId past = n.has(3) ? n.in(3) : e.full(n.element(0), {d[0], d[1], taps - 1}, 0);
  const ValueId padded = e.concat({past, n.in(0)}, 2);
  const ValueId y = depthwise_convolution(e, padded, n.in(1));
  ValueId result = n.has(2) ? e.add(y, e.unsqueeze(n.in(2), 1)) : y;
  const std::string name = n.string("activation", "none");
  n.check(name == "none" || name == "silu" || name == "swish", "activation is '{}'", name);
  if (name != "none")
    result = e.in(ElementType::kF32, result, [&](ValueId x) { return e.mul(x, e.sigmoid(x)); });
  n.set(0, result);
  const int64_t length = e.dim(padded, 2);
  n.set(1, e.slice(padded, 2, length - (taps - 1), length));
}

void import_swiglu(Node& n) {
  const Emit& e = n.emit;
  const ValueId gate = e.mul(n.in(0), e.sigmoid(e.mul(n.in(0), n.real("alpha", 1))));
  n.set(0, e.mul(gate, n.in(1)));
}

}  // namespace opentrn::import::onnx
