// Losses that torch takes apart otherwise than it computes them, or in a way that a core has no use for.
#include "import/aten/expression.h"
#include "import/aten/rules.h"

namespace opentrn::import::aten {

namespace {

constexpr int64_t kMean = 1;

// [classes], [batch, classes] or [batch, classes, ...]: a comparison with the classes, where torch scatters a
// number per row.
Value nll_loss_backward(Call& call) {
  Body& body = call.body;
  const auto& [shape, dtype, _] = call.out();
  const Value& target = call.value(2);
  const Arg& weight = call.at(3);
  const int64_t axis = shape.size() < 2 ? 0 : 1;
  Shape column(shape.size(), 1);
  column.at(axis) = shape[axis];
  const Value numbers = body.convert(body.iota({shape[axis]}, 0, kI32), target.dtype);
  const Expr places(body, body.reshape(numbers, column));
  Shape rows = shape;
  rows[axis] = 1;
  const Expr chosen(body, body.reshape(target, rows));
  Expr gradient(body, call.value(0));
  if (call.at(4).integer() == kMean) gradient = gradient / Expr(body, call.value(6));
  if (gradient.value().rank() > 0 && gradient.shape().size() < shape.size())
    gradient = gradient.reshape(rows);
  if (!weight.is_none()) gradient = gradient * Expr(body, weight.value()).reshape(column);
  const Expr counts = !chosen.equals(call.at(5).number());
  const Expr hot = chosen.equals(places) & counts;
  const Expr made = (-gradient).spread(shape).where(hot, int64_t{0});
  return body.convert(made.value(), dtype);
}

// [rows, classes] of [rows, classes] or [classes].
Expr rows_of(Body& body, const Value& value) {
  return {body, value.rank() < 2 ? body.reshape(value, {1, size_of(value.shape)}) : value};
}

// The gradient of a loss as one number for each row, [rows, 1], or for all of them.
Expr of_rows(Body& body, const Value& gradient, int64_t rows, int64_t reduction) {
  const Expr given(body, gradient);
  return reduction == kMean ? given.reshape({1, 1}) / Number(static_cast<double>(rows))
                            : given.reshape({size_of(gradient.shape), 1});
}

Expr class_numbers(const Expr& like, int64_t classes) { return like.iota({1, classes}, 1); }

Value multi_margin_loss_backward(Call& call) {
  Body& body = call.body;
  const auto& [shape, dtype, _] = call.out();
  const ElementType wide = math_dtype(dtype);
  const Expr given = rows_of(body, body.convert(call.value(1), wide));
  const int64_t rows = given.shape()[0];
  const int64_t classes = given.shape()[1];
  const Expr chosen(body, body.reshape(body.convert(call.value(2), kI32), {rows, 1}));
  const Expr hot = chosen.equals(class_numbers(chosen, classes));
  const Expr own = given.of(gathered(body, given.value(), 1, chosen.value()));
  const Expr margins = own.number(call.at(4).number(), own.shape()) - own + given;
  const Expr counted = (margins > Number(0.0)) & !hot;
  const Expr share =
      equals(call.at(3).number(), 2) ? margins * Number(2.0) : margins.number(1.0, margins.shape());
  Expr change = share.where(counted, 0.0) / Number(static_cast<double>(classes));
  if (const Arg& weight = call.at(5); !weight.is_none())
    change = change * given.of(take(body, body.convert(weight.value(), wide), chosen.value(), 0));
  change = (-change.sum(1)).spread(change.shape()).where(hot, change);
  const Expr gradient = of_rows(body, body.convert(call.value(0), wide), rows, call.at(6).integer());
  return body.convert((change * gradient).reshape(shape).value(), dtype);
}

}  // namespace

Table losses() {
  return {
      {{"nll_loss_backward.default", "nll_loss2d_backward.default"}, nll_loss_backward},
      {{"multi_margin_loss_backward.default"}, multi_margin_loss_backward},
  };
}

}  // namespace opentrn::import::aten
