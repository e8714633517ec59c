// Losses that torch takes apart otherwise than it computes them, or in a way that a core has no use for.
#include "import/aten/expression.h"
#include "import/aten/rules.h"

namespace opentrn::import::aten {

namespace {

constexpr int64_t kMean = 1, kSum = 2;

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

Expr reduced(const Expr& loss, int64_t reduction) {
  if (reduction != kMean && reduction != kSum) return loss;
  const Expr total = loss.sum(0).reshape({});
  return reduction == kMean ? total / Number(static_cast<double>(loss.shape()[0])) : total;
}

// The gradient of a loss as one number for each row, [rows, 1], or for all of them.
Expr of_rows(Body& body, const Value& gradient, int64_t rows, int64_t reduction) {
  const Expr given(body, gradient);
  return reduction == kMean ? given.reshape({1, 1}) / Number(static_cast<double>(rows))
                            : given.reshape({size_of(gradient.shape), 1});
}

Expr class_numbers(const Expr& like, int64_t classes) { return like.iota({1, classes}, 1); }

// Of [rows, labels]: which labels count, those before a row's first -1, and as [rows, labels, classes].
std::pair<Expr, Expr> labels_of(const Expr& target, int64_t classes) {
  const int64_t rows = target.shape()[0];
  const int64_t count = target.shape()[1];
  const Expr places = class_numbers(target, count);
  const Expr ends = places.spread(target.shape()).where(target.equals(int64_t{-1}), Number(classes));
  const Expr counts = places < ends.min(1);
  const Expr numbers = target.iota({1, 1, classes}, 2);
  const Expr hot = target.reshape({rows, count, 1}).equals(numbers) & counts.reshape({rows, count, 1});
  return {counts, hot};
}

Expr any_of(const Expr& flags, int64_t axis) {
  Shape shape = flags.shape();
  shape.at(axis) = 1;
  return flags.of(flags.body().reduce("or", flags.value(), {axis}, false)).reshape(shape);
}

// 1 - x[label] + x[class] as [rows, labels, classes], and which of these differences the loss has.
std::pair<Expr, Expr> label_margins(const Expr& given, const Expr& target) {
  const int64_t rows = given.shape()[0];
  const int64_t classes = given.shape()[1];
  const auto [counts, hot] = labels_of(target, classes);
  const Expr places = target.where(counts, int64_t{0});
  const Expr chosen = given.of(gathered(given.body(), given.value(), 1, places.value()));
  const Expr distance = chosen.number(1.0, chosen.shape()) - chosen;
  const Expr margins = distance.reshape({rows, target.shape()[1], 1}) + given.reshape({rows, 1, classes});
  const Expr free = counts.reshape({rows, target.shape()[1], 1}) & !any_of(hot, 1);
  return {margins, free & (margins > Number(0.0))};
}

Expr whole_numbers(Body& body, const Value& target) { return rows_of(body, body.convert(target, kI32)); }

// Of one row, [classes], without a reduction the loss is a scalar. Torch's own decomposition counts class 0
// once for each place behind a row's last label, and gives [1] for one row.
Results multilabel_margin_loss(Call& call) {
  Body& body = call.body;
  const Value& value = call.value(0);
  const ElementType wide = math_dtype(value.dtype);
  const Expr given = rows_of(body, body.convert(value, wide));
  const Expr target = whole_numbers(body, call.value(1));
  const int64_t classes = given.shape()[1];
  const auto [margins, counted] = label_margins(given, target);
  const Expr sums = margins.where(counted, 0.0).sum(2).sum(1).reshape({given.shape()[0]});
  const Expr loss = reduced(sums / Number(static_cast<double>(classes)), call.at(2).integer());
  const Expr is_target = any_of(labels_of(target, classes).second, 1).to(call.outs.at(1).dtype);
  const Value first = body.convert(loss.reshape(call.outs.at(0).shape).value(), call.outs[0].dtype);
  return {first, is_target.reshape(call.outs[1].shape).value()};
}

Value multilabel_margin_loss_backward(Call& call) {
  Body& body = call.body;
  const auto& [shape, dtype, _] = call.out();
  const ElementType wide = math_dtype(dtype);
  const Expr given = rows_of(body, body.convert(call.value(1), wide));
  const Expr target = whole_numbers(body, call.value(2));
  const int64_t rows = given.shape()[0];
  const int64_t classes = given.shape()[1];
  const Expr counted = label_margins(given, target).second.to(wide);
  const Expr taken = labels_of(target, classes).second.to(wide) * counted.sum(2);
  const Expr change =
      (counted.sum(1) - taken.sum(1)).reshape({rows, classes}) / Number(static_cast<double>(classes));
  const Expr gradient = of_rows(body, body.convert(call.value(0), wide), rows, call.at(3).integer());
  return body.convert((change * gradient).reshape(shape).value(), dtype);
}

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
      {{"multilabel_margin_loss_forward.default"}, multilabel_margin_loss},
      {{"multilabel_margin_loss_backward.default"}, multilabel_margin_loss_backward},
      {{"multi_margin_loss_backward.default"}, multi_margin_loss_backward},
  };
}

}  // namespace opentrn::import::aten
