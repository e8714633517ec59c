// RNN, GRU and LSTM: products with the input weights are made for all time steps at once, the rest in a
// loop over time.
#include <algorithm>

#include "import/onnx/loop.h"
#include "import/onnx/ops.h"

namespace opentrn::import::onnx {

namespace {

using Activation = std::function<ValueId(const Emit&, ValueId)>;

// What the attribute `activations` names, with alpha and beta where given.
Activation activation(const Node& n, const std::string& name, std::optional<double> alpha,
                      std::optional<double> beta) {
  std::string lower;
  for (const char c : name) lower += static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  const auto a = [&](double absent) { return alpha.value_or(absent); };
  if (lower == "sigmoid") return [](const Emit& e, ValueId x) { return e.sigmoid(x); };
  if (lower == "tanh") return [](const Emit& e, ValueId x) { return e.tanh(x); };
  if (lower == "relu") return [](const Emit& e, ValueId x) { return e.max(x, 0); };
  if (lower == "softplus") return [](const Emit& e, ValueId x) { return softplus(e, x); };
  if (lower == "leakyrelu") return [v = a(0.01)](const Emit& e, ValueId x) { return leaky_relu(e, x, v); };
  if (lower == "elu") return [v = a(1)](const Emit& e, ValueId x) { return elu(e, x, v); };
  if (lower == "hardsigmoid")
    return
        [v = a(0.2), w = beta.value_or(0.5)](const Emit& e, ValueId x) { return hard_sigmoid(e, x, v, w); };
  if (lower == "affine")
    return [v = a(1), w = beta.value_or(0)](const Emit& e, ValueId x) { return e.add(e.mul(x, v), w); };
  if (lower == "scaledtanh")
    return
        [v = a(1), w = beta.value_or(1)](const Emit& e, ValueId x) { return e.mul(e.tanh(e.mul(x, w)), v); };
  if (lower == "softsign")
    return [](const Emit& e, ValueId x) { return e.div(x, e.add(e.unary(OpKind::abs_, x), 1)); };
  if (lower == "thresholdedrelu")
    return [v = a(1)](const Emit& e, ValueId x) {
      return e.select(e.compare(ComparisonDirection::kGt, x, v), x, e.like(x, 0));
    };
  n.refuse(fmt::format("activation {}", name));
}

// What the three operators share.
struct Recurrent {
  int64_t directions;
  int64_t gates;
  int64_t hidden;
  int64_t steps;
  int64_t batch;
  bool batch_first;
  ValueId x;                       // [steps, batch, input]
  std::optional<ValueId> lengths;  // [batch], i32
  std::optional<double> clip;
  std::vector<Activation> activations;  // of each direction in turn

  bool backward(const std::string& direction, int64_t d) const { return direction == "reverse" || d == 1; }
};

// Weights are [directions, gates * hidden, input]; with `rows` 2 the last two change places.
Recurrent recurrent_of(const Node& n, int64_t gates, const std::vector<std::string>& defaults,
                       int64_t rows = 1) {
  const Emit& e = n.emit;
  Recurrent r{};
  n.check(n.rank(0) == 3 && n.rank(1) == 3 && n.rank(2) == 3, "inputs X, W and R of ranks {}, {} and {}",
          n.rank(0), n.rank(1), n.rank(2));
  r.gates = gates;
  r.directions = e.dim(n.in(1), 0);
  r.hidden = e.dim(n.in(2), 3 - rows);
  r.batch_first = n.flag("layout", false);
  r.x = r.batch_first ? e.transpose(n.in(0), {1, 0, 2}) : n.in(0);
  r.steps = e.dim(r.x, 0);
  r.batch = e.dim(r.x, 1);
  const std::string direction = n.string("direction", "forward");
  n.check(direction == "forward" || direction == "reverse" || direction == "bidirectional",
          "direction is '{}'", direction);
  n.check(r.directions == (direction == "bidirectional" ? 2 : 1), "{} directions in the weights",
          r.directions);
  n.check(e.dim(n.in(1), rows) == gates * r.hidden && e.dim(n.in(2), rows) == gates * r.hidden,
          "weights for {} and {} gates of {} hidden units", e.dim(n.in(1), rows), e.dim(n.in(2), rows),
          r.hidden);
  if (n.has(4)) r.lengths = n.in(4);
  if (n.attribute("clip")) r.clip = n.real("clip", 0);
  std::vector<std::string> names;
  if (const AttributeValue* given = n.attribute("activations")) names = given->strings;
  if (names.empty())
    for (int64_t d = 0; d < r.directions; ++d) names.insert(names.end(), defaults.begin(), defaults.end());
  n.check(names.size() == defaults.size() * static_cast<size_t>(r.directions), "{} activations",
          names.size());
  const auto alphas = n.reals("activation_alpha").value_or(std::vector<float>{});
  const auto betas = n.reals("activation_beta").value_or(std::vector<float>{});
  const auto at = [](const std::vector<float>& list, size_t i) {
    return i < list.size() ? std::optional<double>(list[i]) : std::nullopt;
  };
  for (size_t i = 0; i < names.size(); ++i)
    r.activations.push_back(activation(n, names[i], at(alphas, i), at(betas, i)));
  return r;
}

ValueId direction_of(const Emit& e, ValueId x, int64_t d) { return e.take(x, 0, d); }

// [batch, hidden] state of a direction; zero when the input is left out.
ValueId initial(const Node& n, const Recurrent& r, size_t input, int64_t d) {
  const Emit& e = n.emit;
  if (!n.has(input)) return e.full(e.element(r.x), {r.batch, r.hidden}, 0);
  return e.take(n.in(input), r.batch_first ? 1 : 0, d);
}

// [steps, batch, gates * hidden]: the input's part of all gates.
ValueId input_part(const Node& n, const Recurrent& r, int64_t d) {
  const Emit& e = n.emit;
  return e.dot_general(r.x, direction_of(e, n.in(1), d), {}, {}, {2}, {1});
}

ValueId step_of(const Emit& e, ValueId x, ValueId index) {
  const ValueId zero = e.scalar(ElementType::kI64, 0);
  const Dims dims = e.dims(x);
  return e.squeeze(e.dynamic_slice(x, {index, zero, zero}, {1, dims[1], dims[2]}), 0);
}

ValueId clipped(const Emit& e, const Recurrent& r, ValueId x) {
  return r.clip ? e.max(e.min(x, *r.clip), -*r.clip) : x;
}

// Gate g of [.., gates * hidden].
ValueId gate(const Emit& e, const Recurrent& r, ValueId x, int64_t g) {
  return e.slice(x, e.rank(x) - 1, g * r.hidden, (g + 1) * r.hidden);
}

// One step: index, [batch, gates * hidden] of the input, states before; states after, the first is the
// output.
using Cell = std::function<Values(const Emit&, ValueId input, const Values& states)>;

// Runs a direction; behind a sequence's length states stay and outputs are 0.
LoopResult run(const Node& n, const Recurrent& r, int64_t d, ValueId inputs, const Values& states,
               const Cell& cell) {
  const bool backward = r.backward(n.string("direction", "forward"), d);
  const auto body = [&](Builder& b, ValueId index, const Values& current) {
    const Emit e(b);
    const ValueId time =
        backward ? e.sub(e.scalar(ElementType::kI64, static_cast<double>(r.steps - 1)), index) : index;
    Iteration next;
    next.states = cell(e, step_of(e, inputs, time), current);
    ValueId output = next.states[0];
    if (r.lengths) {
      const ValueId inside = e.compare(ComparisonDirection::kGt, e.cast(*r.lengths, ElementType::kI64),
                                       e.broadcast_to(time, {r.batch}));
      const ValueId spread = e.unsqueeze(inside, 1);
      output = e.select(spread, output, e.like(output, 0));
      for (size_t i = 0; i < current.size(); ++i)
        next.states[i] = e.select(spread, next.states[i], current[i]);
    }
    next.slices = {output};
    return next;
  };
  return loop(n, r.steps, std::nullopt, states, body, {backward});
}

// Y [steps, directions, batch, hidden] and final states [directions, batch, hidden].
void set_outputs(Node& n, const Recurrent& r, const std::vector<LoopResult>& results) {
  const Emit& e = n.emit;
  Values outputs;
  for (const LoopResult& result : results) outputs.push_back(e.unsqueeze(result.scanned[0], 1));
  const ValueId y = e.concat(outputs, 1);
  n.set(0, r.batch_first ? e.transpose(y, {2, 0, 1, 3}) : y);
  for (size_t s = 0; s < results[0].states.size(); ++s) {
    Values states;
    for (const LoopResult& result : results) states.push_back(e.unsqueeze(result.states[s], 0));
    const ValueId last = e.concat(states, 0);
    n.set(s + 1, r.batch_first ? e.transpose(last, {1, 0, 2}) : last);
  }
}

// Bias halves of a direction: of the input and of the recurrence.
std::pair<std::optional<ValueId>, std::optional<ValueId>> biases(const Node& n, const Recurrent& r,
                                                                 int64_t d) {
  if (!n.has(3)) return {};
  const Emit& e = n.emit;
  const auto halves = e.split(direction_of(e, n.in(3), d), 0, 2);
  n.check(e.dim(halves[0], 0) == r.gates * r.hidden, "the bias has {} entries", 2 * e.dim(halves[0], 0));
  return {halves[0], halves[1]};
}

}  // namespace

void import_rnn(Node& n) {
  const Recurrent r = recurrent_of(n, 1, {"Tanh"});
  std::vector<LoopResult> results;
  for (int64_t d = 0; d < r.directions; ++d) {
    const Emit& outer = n.emit;
    const auto [wb, rb] = biases(n, r, d);
    ValueId inputs = input_part(n, r, d);
    if (wb) inputs = outer.add(inputs, outer.add(*wb, *rb));
    const ValueId weights = direction_of(outer, n.in(2), d);
    const Activation& f = r.activations[static_cast<size_t>(d)];
    results.push_back(
        run(n, r, d, inputs, {initial(n, r, 5, d)}, [&](const Emit& e, ValueId input, const Values& states) {
          const ValueId sum = e.add(input, e.dot_general(states[0], weights, {}, {}, {1}, {1}));
          return Values{f(e, clipped(e, r, sum))};
        }));
  }
  set_outputs(n, r, results);
}

// What a product of the state gets inside the step: before the reset gate, the bias of the candidate. All
// else is added to the inputs of all steps at once.
ValueId with_outer_bias(const Emit& e, const Recurrent& r, ValueId inputs, ValueId of_recurrence,
                        bool reset_after) {
  if (!reset_after) return e.add(inputs, of_recurrence);
  const ValueId gates = e.slice(of_recurrence, 0, 0, 2 * r.hidden);
  return e.add(inputs, e.concat({gates, e.full(e.element(gates), {r.hidden}, 0)}, 0));
}

void import_gru(Node& n) {
  const Recurrent r = recurrent_of(n, 3, {"Sigmoid", "Tanh"});
  const bool reset_after = n.flag("linear_before_reset", false);
  std::vector<LoopResult> results;
  for (int64_t d = 0; d < r.directions; ++d) {
    const Emit& outer = n.emit;
    const auto bias = biases(n, r, d);
    ValueId inputs = input_part(n, r, d);
    if (bias.first)
      inputs = with_outer_bias(outer, r, outer.add(inputs, *bias.first), *bias.second, reset_after);
    const ValueId weights = direction_of(outer, n.in(2), d);
    const ValueId first_weights = reset_after ? weights : outer.slice(weights, 0, 0, 2 * r.hidden);
    const ValueId last_weights = outer.slice(weights, 0, 2 * r.hidden, 3 * r.hidden);
    const Activation& f = r.activations[static_cast<size_t>(2 * d)];
    const Activation& g = r.activations[static_cast<size_t>(2 * d + 1)];
    const auto first_two = [&](const Emit& e, ValueId x) { return e.slice(x, 1, 0, 2 * r.hidden); };
    const auto cell = [&](const Emit& e, ValueId input, const Values& states) {
      const ValueId h = states[0];
      const ValueId product = e.dot_general(h, first_weights, {}, {}, {1}, {1});
      const ValueId sums = e.add(first_two(e, input), reset_after ? first_two(e, product) : product);
      const ValueId both = f(e, clipped(e, r, sums));
      const ValueId z = gate(e, r, both, 0), reset = gate(e, r, both, 1);
      const auto after = [&] {
        const ValueId of_state = gate(e, r, product, 2);
        return e.mul(reset, bias.second ? e.add(of_state, gate(e, r, *bias.second, 2)) : of_state);
      };
      const ValueId part =
          reset_after ? after() : e.dot_general(e.mul(reset, h), last_weights, {}, {}, {1}, {1});
      const ValueId candidate = g(e, clipped(e, r, e.add(gate(e, r, input, 2), part)));
      return Values{e.add(e.mul(e.sub(e.like(z, 1), z), candidate), e.mul(z, h))};
    };
    results.push_back(run(n, r, d, inputs, {initial(n, r, 5, d)}, cell));
  }
  set_outputs(n, r, results);
}

namespace {

// What numbers of [.., terms] give with a matrix of weights: [.., gates * hidden].
using Product = std::function<ValueId(const Emit&, ValueId)>;
// Those of a direction: of the input of all steps, and of the state of one.
using Products = std::function<std::pair<Product, Product>(int64_t direction)>;

void lstm(Node& n, const Recurrent& r, const Products& products) {
  const bool coupled = n.flag("input_forget", false);
  std::vector<LoopResult> results;
  for (int64_t d = 0; d < r.directions; ++d) {
    const Emit& outer = n.emit;
    const auto [wb, rb] = biases(n, r, d);
    const auto [of_input, of_state] = products(d);
    ValueId inputs = of_input(outer, r.x);
    if (wb) inputs = outer.add(inputs, outer.add(*wb, *rb));
    std::vector<ValueId> peepholes;  // input, output, forget
    if (n.has(7)) peepholes = outer.split(direction_of(outer, n.in(7), d), 0, 3);
    const Activation* f = &r.activations[static_cast<size_t>(3 * d)];
    const auto cell = [&, &state_product = of_state](const Emit& e, ValueId input, const Values& states) {
      const ValueId c = states[1];
      const ValueId gates = e.add(input, state_product(e, states[0]));
      const auto peeped = [&](int64_t g, size_t p, ValueId cell_state) {
        const ValueId own = gate(e, r, gates, g);
        return clipped(e, r, peepholes.empty() ? own : e.add(own, e.mul(cell_state, peepholes[p])));
      };
      const ValueId i = f[0](e, peeped(0, 0, c));
      const ValueId forget = coupled ? e.sub(e.like(i, 1), i) : f[0](e, peeped(2, 2, c));
      const ValueId candidate = f[1](e, clipped(e, r, gate(e, r, gates, 3)));
      const ValueId next = e.add(e.mul(forget, c), e.mul(i, candidate));
      const ValueId o = f[0](e, peeped(1, 1, next));
      return Values{e.mul(o, f[2](e, next)), next};
    };
    results.push_back(run(n, r, d, inputs, {initial(n, r, 5, d), initial(n, r, 6, d)}, cell));
  }
  set_outputs(n, r, results);
}

// As ONNX Runtime computes it: x to u8 by its own range, a product of whole numbers, then both scales.
Product quantised_product(const Node& n, size_t weights, size_t scale, int64_t d) {
  const Emit& e = n.emit;
  const ValueId zero = e.cast(direction_of(e, n.in(scale + 1), d), ElementType::kI32);
  const ValueId w = e.sub(e.cast(direction_of(e, n.in(weights), d), ElementType::kI32), zero);
  const ValueId w_scale = direction_of(e, n.in(scale), d);
  return [w, w_scale](const Emit& inner, ValueId x) {
    const Quantisation q = dynamic_range(inner, x);
    const ValueId codes = inner.cast(quantized(inner, inner.div(x, q.scale), q.zero), ElementType::kI32);
    const ValueId off = inner.sub(codes, inner.cast(q.zero, ElementType::kI32));
    const ValueId whole = inner.dot_general(off, w, {}, {}, {inner.rank(x) - 1}, {0});
    return inner.mul(inner.cast(whole, ElementType::kF32), inner.mul(q.scale, w_scale));
  };
}

}  // namespace

void import_lstm(Node& n) {
  const Recurrent r = recurrent_of(n, 4, {"Sigmoid", "Tanh", "Tanh"});
  lstm(n, r, [&](int64_t d) {
    const ValueId weights = direction_of(n.emit, n.in(2), d);
    return std::pair<Product, Product>(
        [&, d](const Emit&, ValueId) { return input_part(n, r, d); },
        [weights](const Emit& e, ValueId h) { return e.dot_general(h, weights, {}, {}, {1}, {1}); });
  });
}

// X, W, R, B, sequence_lens, initial_h, initial_c, P as of LSTM, but W and R quantised and turned; then the
// scale and zero point of W, and those of R: one of each direction, or of each of its columns.
void import_dynamic_quantize_lstm(Node& n) {
  const Recurrent r = recurrent_of(n, 4, {"Sigmoid", "Tanh", "Tanh"}, 2);
  lstm(n, r,
       [&](int64_t d) { return std::pair(quantised_product(n, 1, 8, d), quantised_product(n, 2, 10, d)); });
}

}  // namespace opentrn::import::onnx
