// grid_sampler_3d, and the gradients of grid_sampler_2d and 3d.
//
// A sample is a sum over the taps of its place: along each axis a few elements, each with a weight and the
// weight's slope. Numbers of torch's enumerations: interpolation 0 linear, 1 nearest, 2 cubic; padding 0
// zeros, 1 border, 2 reflection.
#include <algorithm>

#include "import/aten/expression.h"
#include "import/aten/rules.h"

namespace opentrn::import::aten {

namespace {

constexpr int64_t kNearest = 1, kCubic = 2;
constexpr int64_t kBorder = 1, kReflection = 2;
constexpr double kA = -0.75;  // of the cubic convolution

struct Sampling {
  int64_t interpolation = 0;
  int64_t padding = 0;
  bool corners = false;
};

// A place along an axis, a float, and how fast it moves with the grid's number.
struct Placed {
  Expr place;
  Expr slope;
};

// Along one axis, for every sample: the element's place; its weight; the slope of the weight.
struct Tap {
  Expr place;
  Expr weight;
  Expr slope;
};

struct Axis {
  std::vector<Tap> taps;
  Expr slope;
};

Expr filled(const Expr& like, double value) { return like.number(value, like.shape()); }

// Between two mirrors.
Placed reflected(const Expr& place, double low, double high) {
  const double span = high - low;
  if (span <= 0) return {filled(place, 0), filled(place, 0)};
  const Expr moved = place - Number(low);
  const Expr sign = filled(place, -1).where(moved < Number(0.0), Number(1.0));
  const Expr away = moved.unary("abs");
  const Expr turns = (away / Number(span)).unary("floor");
  const Expr rest = away - turns * Number(span);
  const Expr is_even = turns.binary("remainder", filled(turns, 2)).equals(Number(0.0));
  const Expr back = filled(rest, span) - rest;
  return {rest.where(is_even, back) + Number(low), sign.where(is_even, -sign)};
}

// Where an element outside is taken from.
Placed padded(const Expr& given, int64_t size, const Sampling& how) {
  Placed made{given, filled(given, 1)};
  const auto last = static_cast<double>(size) - 1;
  if (how.padding == kReflection)
    made = how.corners ? reflected(given, 0, last) : reflected(given, -0.5, last + 0.5);
  if (how.padding != kBorder && how.padding != kReflection) return made;
  const Expr above = made.place > Number(0.0);
  const Expr inside = above & (made.place < Number(last));
  return {made.place.clamped(0.0, last), made.slope * inside.to(given.dtype())};
}

// The cubic's weight at a distance up to 1, and its slope.
std::pair<Expr, Expr> near_weight(const Expr& t) {
  const Expr weight = (t * Number(kA + 2) - Number(kA + 3)) * t * t + Number(1.0);
  return {weight, (t * Number(3 * (kA + 2)) - Number(2 * (kA + 3))) * t};
}

// At a distance from 1 to 2.
std::pair<Expr, Expr> far_weight(const Expr& t) {
  const Expr weight = ((t * Number(kA) - Number(5 * kA)) * t + Number(8 * kA)) * t - Number(4 * kA);
  return {weight, (t * Number(3 * kA) - Number(10 * kA)) * t + Number(8 * kA)};
}

std::vector<Tap> cubic_taps(const Expr& place, int64_t size, const Sampling& how) {
  const Expr first = place.unary("floor");
  const Expr t = place - first;
  const auto before = far_weight(t + Number(1.0));
  const auto left = near_weight(t);
  const auto right = near_weight(filled(t, 1) - t);
  const auto behind = far_weight(filled(t, 2) - t);
  std::vector<Tap> taps;
  double offset = -1;
  for (const auto& [weight, slope] : {before, left, right, behind}) {
    const Expr at = padded(first + Number(offset), size, how).place;
    taps.push_back({at, weight, offset > 0 ? -slope : slope});
    offset += 1;
  }
  return taps;
}

// Of an axis of `size` elements, from the grid's numbers in [-1, 1].
Axis axis_of_numbers(const Expr& number, int64_t size, const Sampling& how) {
  const auto length = static_cast<double>(size);
  const Expr from_zero = number + Number(1.0);
  const Expr place = how.corners ? from_zero / Number(2.0) * Number(length - 1)
                                 : (from_zero * Number(length) - Number(1.0)) / Number(2.0);
  const Expr slope = filled(place, how.corners ? (length - 1) / 2 : length / 2);
  if (how.interpolation == kCubic) return {cubic_taps(place, size, how), slope};
  const Placed inside = padded(place, size, how);
  const Expr one = filled(place, 1);
  if (how.interpolation == kNearest)
    return {{{inside.place.unary("round_nearest_even"), one, filled(place, 0)}}, slope * inside.slope};
  const Expr first = inside.place.unary("floor");
  const Expr next = first + Number(1.0);
  const Tap low{first, next - inside.place, -one};
  return {{low, {next, inside.place - first, one}}, slope * inside.slope};
}

// What all samples of an op have in common: [batch, channels, elements] and the axes, the first axis first.
struct Grid {
  Expr source;
  Shape space;
  int64_t samples = 0;
  std::vector<Axis> axes;

  // Every choice of a tap along each axis, the last axis fastest.
  std::vector<std::vector<const Tap*>> choices() const {
    std::vector<std::vector<const Tap*>> made = {{}};
    for (const Axis& axis : axes) {
      std::vector<std::vector<const Tap*>> further;
      for (const auto& before : made)
        for (const Tap& tap : axis.taps) {
          further.push_back(before);
          further.back().push_back(&tap);
        }
      made = std::move(further);
    }
    return made;
  }

  // [batch, channels, samples]
  Shape sampled() const { return {source.shape()[0], source.shape()[1], samples}; }
};

Expr wide(Body& body, const Value& value) { return {body, body.convert(value, math_dtype(value.dtype))}; }

Grid grid_of(Body& body, const Value& value, const Value& grid, const Sampling& how) {
  const Shape space(value.shape.begin() + 2, value.shape.end());
  const int64_t batch = value.shape[0];
  const Expr places = wide(body, grid);
  Grid made{wide(body, value).reshape({batch, value.shape[1], size_of(space)}), space, 0, {}};
  made.samples = size_of(Shape(grid.shape.begin() + 1, grid.shape.end() - 1));
  const int64_t last = grid.rank() - 1;
  for (size_t i = 0; i < space.size(); ++i) {  // the grid has the axes the other way round
    const int64_t column = static_cast<int64_t>(space.size()) - 1 - static_cast<int64_t>(i);
    const Expr numbers = places.part(last, column, column + 1).reshape({batch, made.samples});
    made.axes.push_back(axis_of_numbers(numbers, space[i], how));
  }
  return made;
}

// ([batch, samples] flat place of the element of those taps, 1 where there is one and 0 outside)
std::pair<Expr, Expr> element_of(const Grid& grid, const std::vector<const Tap*>& taps) {
  std::optional<Expr> flat;
  std::optional<Expr> exists;
  for (size_t i = 0; i < taps.size(); ++i) {
    const auto last = static_cast<double>(grid.space[i]) - 1;
    const Expr& place = taps[i]->place;
    const Expr above = place >= Number(0.0);
    const Expr inside = above & (place <= Number(last));
    exists = exists ? inside & *exists : inside;
    const Expr at = place.clamped(0.0, last).to(ElementType::kI32);
    flat = flat ? *flat * grid.space[i] + at : at;
  }
  return {*flat, exists->to(taps[0]->weight.dtype())};
}

// [batch, samples] beside [batch, channels, samples]
Expr for_channels(const Grid& grid, const Expr& each) {
  return each.reshape({grid.source.shape()[0], 1, grid.samples}).spread(grid.sampled());
}

Expr taken(const Grid& grid, const Expr& places) {
  return places.of(gathered(places.body(), grid.source.value(), 2, places.value()));
}

Value forward(Call& call) {
  Body& body = call.body;
  const auto& [shape, dtype, _] = call.out();
  if (is_empty(shape)) return body.splat(0, dtype, shape);
  const Sampling how{call.at(2).integer(), call.at(3).integer(), call.at(4).flag()};
  const Grid grid = grid_of(body, call.value(0), call.value(1), how);
  std::optional<Expr> total;
  for (const auto& taps : grid.choices()) {
    auto [flat, weight] = element_of(grid, taps);
    for (const Tap* tap : taps) weight = weight * tap->weight;
    const Expr found = taken(grid, for_channels(grid, flat)) * for_channels(grid, weight);
    total = total ? *total + found : found;
  }
  return body.convert(total->reshape(shape).value(), dtype);
}

Expr product_of(const std::vector<Expr>& factors) {
  Expr made = factors.at(0);
  for (size_t i = 1; i < factors.size(); ++i) made = made * factors[i];
  return made;
}

// Of the value and of the grid, where they are wanted.
Results backward(Call& call) {
  Body& body = call.body;
  const Value& value = call.value(1);
  const Value& places = call.value(2);
  const Sampling how{call.at(3).integer(), call.at(4).integer(), call.at(5).flag()};
  const auto& mask = call.at(6).list();
  const bool wants_value = mask.at(0).flag();
  const bool wants_grid = mask.at(1).flag();
  const auto zeros = [&](const Value& like) { return std::optional(body.like(0, like)); };
  if (is_empty(value.shape) || is_empty(call.value(0).shape))
    return {wants_value ? zeros(value) : std::nullopt, wants_grid ? zeros(places) : std::nullopt};
  const Grid grid = grid_of(body, value, places, how);
  const Expr given = wide(body, call.value(0)).reshape(grid.sampled());
  Expr of_value = grid.source.number(int64_t{0}, grid.source.shape());
  std::vector<std::optional<Expr>> of_places(grid.axes.size());
  for (const auto& taps : grid.choices()) {
    const auto [flat, exists] = element_of(grid, taps);
    const Expr spread = for_channels(grid, flat);
    std::vector<Expr> weights;
    for (const Tap* tap : taps) weights.push_back(tap->weight);
    if (wants_value) {
      const Expr weight = exists * product_of(weights);
      const Expr updates = given * for_channels(grid, weight);
      of_value = of_value.of(scattered(body, of_value.value(), 2, spread.value(), updates.value(), "add"));
    }
    if (!wants_grid) continue;
    const Expr sums = (given * taken(grid, spread)).sum(1).reshape({value.shape[0], grid.samples});
    const Expr share = sums * exists;
    for (size_t i = 0; i < taps.size(); ++i) {
      std::vector<Expr> factors = weights;
      factors[i] = taps[i]->slope;
      const Expr part = share * product_of(factors);
      of_places[i] = of_places[i] ? *of_places[i] + part : part;
    }
  }
  Results made(2);
  if (wants_value) made[0] = body.convert(of_value.reshape(value.shape).value(), value.dtype);
  if (!wants_grid) return made;
  std::vector<Value> columns;
  for (size_t i = of_places.size(); i-- > 0;)
    columns.push_back(
        (*of_places[i] * grid.axes[i].slope).reshape({value.shape[0], grid.samples, 1}).value());
  made[1] = body.convert(body.reshape(body.concatenate(columns, 2), places.shape), places.dtype);
  return made;
}

}  // namespace

Table samplers() {
  return {
      {{"grid_sampler_3d.default"}, forward},
      {{"grid_sampler_2d_backward.default", "grid_sampler_3d_backward.default"}, backward},
  };
}

}  // namespace opentrn::import::aten
