// Layers of recurrent cells as loops over time. Torch takes them apart step by step: an LSTM of 400 steps is
// 20,000 ops then.
//
// Products with the input weights are made for all steps at once; what is left in the loop is the state's
// part.
#include <algorithm>
#include <functional>
#include <optional>

#include "import/aten/expression.h"
#include "import/aten/rules.h"

namespace opentrn::import::aten {

namespace {

// One step: [batch, gates * hidden] of the input, states before; states after, the first is the output.
using Cell = std::function<std::vector<Expr>(const Expr& input, const std::vector<Expr>& states)>;

// Of a layer's direction; [gates * hidden, features] and such.
struct Weights {
  Expr input, state;
  std::optional<Expr> input_bias, state_bias, projection;
};

// The input's part of all steps, [steps, batch, gates * hidden], and what a step does with its own.
using Direction = std::function<std::pair<Expr, Cell>(const Expr& x, const Weights& weights)>;

// x's last dimension by rows of weights.
Expr linear(const Expr& x, const Expr& weights) {
  const Expr here = x.inside(weights);
  return here.of(here.body().dot(x.value(), weights.value(), {{x.value().rank() - 1}, {1}}));
}

Expr with_bias(const Expr& x, const std::optional<Expr>& bias) { return bias ? x + *bias : x; }

// Gate `number` of the last dimension.
Expr gate(const Expr& gates, int64_t number, int64_t hidden) {
  return gates.part(gates.value().rank() - 1, number * hidden, (number + 1) * hidden);
}

std::pair<Expr, Cell> lstm(const Expr& x, const Weights& w) {
  const int64_t hidden = w.state.shape()[0] / 4;
  const Expr inputs = with_bias(with_bias(linear(x, w.input), w.input_bias), w.state_bias);
  const Cell cell = [=](const Expr& input, const std::vector<Expr>& states) {
    const Expr gates = input + linear(states[0], w.state);
    const Expr enters = gate(gates, 0, hidden).unary("logistic"),
               stays = gate(gates, 1, hidden).unary("logistic");
    const Expr candidate = gate(gates, 2, hidden).unary("tanh"),
               shows = gate(gates, 3, hidden).unary("logistic");
    const Expr state = stays * states[1] + enters * candidate;
    const Expr output = shows * state.unary("tanh");
    return std::vector{w.projection ? linear(output, *w.projection) : output, state};
  };
  return {inputs, cell};
}

std::pair<Expr, Cell> gru(const Expr& x, const Weights& w) {
  const int64_t hidden = w.state.shape()[0] / 3;
  Expr inputs = with_bias(linear(x, w.input), w.input_bias);
  std::optional<Expr> inner;  // of the candidate, whose reset gate comes after it
  if (w.state_bias) {
    Body& body = x.body();
    const Value first = w.state_bias->part(0, 0, 2 * hidden).value();
    inputs = inputs + x.of(body.pad(first, {0}, {hidden}));
    inner = w.state_bias->part(0, 2 * hidden, 3 * hidden);
  }
  const Cell cell = [=](const Expr& input, const std::vector<Expr>& states) {
    const Expr& before = states[0];
    const Expr product = linear(before, w.state);
    const Expr both = (input.part(1, 0, 2 * hidden) + product.part(1, 0, 2 * hidden)).unary("logistic");
    const Expr reset = gate(both, 0, hidden), stays = gate(both, 1, hidden);
    const Expr candidate =
        (gate(input, 2, hidden) + reset * with_bias(gate(product, 2, hidden), inner)).unary("tanh");
    return std::vector{candidate + stays * (before - candidate)};
  };
  return {inputs, cell};
}

Direction rnn(const std::function<Expr(const Expr&)>& activation) {
  return [activation](const Expr& x, const Weights& w) {
    const Expr inputs = with_bias(with_bias(linear(x, w.input), w.input_bias), w.state_bias);
    const Cell cell = [=](const Expr& input, const std::vector<Expr>& states) {
      return std::vector{activation(input + linear(states[0], w.state))};
    };
    return std::pair<Expr, Cell>(inputs, cell);
  };
}

// part in place of the slice of one at a computed place of the first dimension.
Expr put(const Expr& whole, const Expr& part, const Expr& place) {
  const Expr here = whole.inside(part).inside(place);
  std::vector<Value> operands = {whole.value(), part.value(), place.value()};
  for (int i = 1; i < whole.value().rank(); ++i) operands.push_back(here.body().splat(0, place.dtype()));
  return here.of(here.body().op("dynamic_update_slice", operands, whole.shape(), whole.dtype()));
}

// [steps, batch, hidden] outputs, then the last states.
std::vector<Expr> over_time(const Expr& inputs, std::vector<Expr> states, bool backward, const Cell& cell) {
  const int64_t steps = inputs.shape()[0];
  Shape shape = states[0].shape();
  shape.insert(shape.begin(), 1);
  Shape all = shape;
  all[0] = steps;
  states.insert(states.begin(), states[0].number(0, all));
  return loop(steps, states, [&](const Expr& i, const std::vector<Expr>& carried) {
    const Expr time = backward ? -i + (steps - 1) : i;
    const Shape& of_all = inputs.shape();
    const Expr input = inputs.at(time, 0).reshape({of_all[1], of_all[2]});
    std::vector<Expr> next = cell(input, {carried.begin() + 1, carried.end()});
    next.insert(next.begin(), put(carried[0], next[0].reshape(shape), time));
    return next;
  });
}

Expr joined(const std::vector<Expr>& parts, int64_t axis) {
  std::vector<Value> values;
  for (const Expr& each : parts) values.push_back(each.value());
  return parts[0].of(parts[0].body().concatenate(values, axis));
}

// All weights in torch's order; of every direction of every layer as many.
std::vector<Weights> weights_of(Body& body, const std::vector<Value>& given, bool has_biases,
                                bool is_projected) {
  const size_t each = 2 + (has_biases ? 2 : 0) + (is_projected ? 1 : 0);
  require(given.size() % each == 0, " of weights of another number");
  std::vector<Weights> all;
  for (size_t i = 0; i < given.size(); i += each) {
    const auto at = [&](size_t number) { return Expr(body, given[i + number]); };
    Weights weights{at(0), at(1), {}, {}, {}};
    if (has_biases) weights.input_bias = at(2), weights.state_bias = at(3);
    if (is_projected) weights.projection = at(each - 1);
    all.push_back(weights);
  }
  return all;
}

// Arguments of the op behind its states and weights: has_biases, num_layers, dropout, train, bidirectional,
// batch_first.
Rule layers(const Direction& direction) {
  return [direction](Call& call) {
    Body& body = call.body;
    require(!call.named("train").flag() || equals(call.named("dropout").number(), 0),
            " with dropout in training");
    const bool batch_first = call.named("batch_first").flag();
    Value x = call.value(0);
    if (batch_first) x = body.transpose(x, {1, 0, 2});
    const Arg& hx = call.at(1);
    const std::vector<Value> initial = hx.is_list() ? hx.values() : std::vector{hx.value()};
    const bool is_projected = initial.size() > 1 && initial[0].shape[2] != initial[1].shape[2];
    const auto weights = weights_of(body, call.at(2).values(), call.named("has_biases").flag(), is_projected);
    const size_t directions = call.named("bidirectional").flag() ? 2 : 1;
    std::vector<std::vector<Expr>> last(initial.size());  // by state: [1, batch, hidden] of all directions
    Expr inputs(body, x);
    for (size_t i = 0; i < weights.size(); i += directions) {
      std::vector<Expr> outputs;
      for (size_t d = 0; d < directions; ++d) {
        const auto at = static_cast<int64_t>(i + d);
        std::vector<Expr> states;
        for (const Value& state : initial)
          states.push_back(Expr(body, state).part(0, at, at + 1).reshape({state.shape[1], state.shape[2]}));
        const auto [of_input, cell] = direction(inputs, weights[i + d]);
        const auto made = over_time(of_input, states, d == 1, cell);
        outputs.push_back(made[0]);
        for (size_t s = 0; s < initial.size(); ++s) {
          const Shape& shape = made[s + 1].shape();
          last[s].push_back(made[s + 1].reshape({1, shape[0], shape[1]}));
        }
      }
      inputs = joined(outputs, 2);
    }
    Results results = {batch_first ? body.transpose(inputs.value(), {1, 0, 2}) : inputs.value()};
    for (const auto& states : last) results.push_back(joined(states, 0).value());
    return results;
  };
}

}  // namespace

Table recurrent_layers() {
  const auto relu = [](const Expr& x) { return x.binary("maximum", x.number(0, x.shape())); };
  return {
      {{"lstm.input"}, layers(lstm)},
      {{"gru.input"}, layers(gru)},
      {{"rnn_tanh.input"}, layers(rnn([](const Expr& x) { return x.unary("tanh"); }))},
      {{"rnn_relu.input"}, layers(rnn(relu))},
  };
}

}  // namespace opentrn::import::aten
