// dot_general, dot, einsum and convolutions.
#include <algorithm>
#include <map>

#include "graph/shape/rules.h"

namespace opentrn::graph::shape {

namespace {

bool is_per_axis(const Type& type) { return type.quantization() && type.quantization()->per_axis(); }

// The constraints that dot_general and convolution share in their quantized forms, in the spec's order:
// first: which of the operands are quantized; storage, expressed, granularity, hybrid: the numbers of the
// rest.
struct QuantizedConstraints {
  int first, storage, expressed, granularity, hybrid;
};

Type quantized_product(const Context& c, const Type& lhs, const Type& rhs, const QuantizedConstraints& n,
                       int element_constraint) {
  const Type* stated = c.has_stated() ? &c.stated()[0] : nullptr;
  const Quantization* p = lhs.quantization();
  const Quantization* q = rhs.quantization();
  if (!p && !q) {
    // XLA, and so JAX, multiplies floats of two types.
    const bool floats = graph::is_float(lhs.element()) && graph::is_float(rhs.element());
    c.check(same_element(lhs, rhs) || floats, element_constraint,
            "operands are {} and {}; their elements must be the same, or both floats", lhs.to_string(),
            rhs.to_string());
    return lhs;
  }
  c.check(q != nullptr, n.first, "lhs is {} and rhs {}; a quantized lhs needs a quantized rhs",
          lhs.to_string(), rhs.to_string());
  if (!p) {
    c.check(lhs.element() == q->expressed, n.hybrid, "lhs is {} and rhs expresses {}", lhs.to_string(),
            name(q->expressed));
    if (stated)
      c.check(!stated->quantization(), n.first, "lhs is not quantized and the result {} is",
              stated->to_string());
    return lhs;
  }
  c.check(p->storage == q->storage, n.storage, "storage types of {} and {} differ", lhs.to_string(),
          rhs.to_string());
  c.check(p->expressed == q->expressed, n.expressed, "expressed types of {} and {} differ", lhs.to_string(),
          rhs.to_string());
  if (!stated) return lhs;
  const Quantization* r = stated->quantization();
  c.check(r != nullptr, n.first, "operands are quantized and the result {} is not", stated->to_string());
  c.check(r->expressed == p->expressed, n.expressed, "operands express {} and the result {}",
          name(p->expressed), name(r->expressed));
  c.check(is_per_axis(rhs) || !is_per_axis(*stated), n.granularity,
          "rhs is quantized per tensor and the result {} per axis", stated->to_string());
  return *stated;
}

void check_precision(const Context& c, int constraint) {
  const Dims precision = c.list(Attr::precision_config);
  c.check(precision.size() <= 2, constraint,
          "precision_config has {} entries; it must have 2, or 1 for both operands", precision.size());
}

void check_algorithm(const Context& c) {
  const Op& op = c.op();
  if (!op.has(Attr::lhs_precision_type) && !op.has(Attr::num_primitive_operations)) return;
  const Dims precision = c.list(Attr::precision_config);
  c.check(in_range(precision, 0, 1), 21, "an algorithm is given and precision_config is not DEFAULT");
  constexpr std::pair<Attr, int> kCounts[] = {
      {Attr::lhs_component_count, 22}, {Attr::rhs_component_count, 23}, {Attr::num_primitive_operations, 24}};
  for (const auto& [attr, constraint] : kCounts)
    c.check(op.integer_or(attr, 1) > 0, constraint, "{} is {}; it must be positive", name(attr),
            op.integer_or(attr, 1));
}

void check_same_dims(const Context& c, const Type& lhs, const Type& rhs, std::span<const int64_t> lhs_dims,
                     std::span<const int64_t> rhs_dims, int constraint, std::string_view what) {
  for (size_t i = 0; i < lhs_dims.size(); ++i)
    c.check(agrees(lhs.dim(static_cast<int>(lhs_dims[i])), rhs.dim(static_cast<int>(rhs_dims[i]))),
            constraint, "{} dimension {} of {} and {} of {} have different sizes", what, lhs_dims[i],
            lhs.to_string(), rhs_dims[i], rhs.to_string());
}

void append_others(Dims& dims, const Type& type, std::span<const int64_t> skipped) {
  for (int i = 0; i < type.rank(); ++i)
    if (!contains(skipped, i)) dims.push_back(type.dim(i));
}

}  // namespace

Types dot_general(const Context& c) {
  const Type& lhs = c.tensor(0);
  const Type& rhs = c.tensor(1, kAnyElement);
  const Dims lb = c.list(Attr::lhs_batching_dimensions);
  const Dims rb = c.list(Attr::rhs_batching_dimensions);
  const Dims lc = c.list(Attr::lhs_contracting_dimensions);
  const Dims rc = c.list(Attr::rhs_contracting_dimensions);
  const Dims lhs_used = concatenated({lb, lc});
  const Dims rhs_used = concatenated({rb, rc});
  c.check(lb.size() == rb.size(), 1, "batching dimensions are {} and {}", text(lb), text(rb));
  c.check(lc.size() == rc.size(), 2, "contracting dimensions are {} and {}", text(lc), text(rc));
  c.check(is_unique(lhs_used), 3, "batching {} and contracting {} of lhs repeat a dimension", text(lb),
          text(lc));
  c.check(is_unique(rhs_used), 4, "batching {} and contracting {} of rhs repeat a dimension", text(rb),
          text(rc));
  c.check(in_range(lb, 0, lhs.rank()), 5, "lhs_batching_dimensions is {} for {}", text(lb), lhs.to_string());
  c.check(in_range(lc, 0, lhs.rank()), 6, "lhs_contracting_dimensions is {} for {}", text(lc),
          lhs.to_string());
  c.check(in_range(rb, 0, rhs.rank()), 7, "rhs_batching_dimensions is {} for {}", text(rb), rhs.to_string());
  c.check(in_range(rc, 0, rhs.rank()), 8, "rhs_contracting_dimensions is {} for {}", text(rc),
          rhs.to_string());
  check_same_dims(c, lhs, rhs, lb, rb, 9, "batching");
  check_same_dims(c, lhs, rhs, lc, rc, 10, "contracting");
  check_precision(c, 11);
  if (const Quantization* q = rhs.quantization()) {
    c.check(std::all_of(q->zero_points.begin(), q->zero_points.end(), [](int64_t z) { return z == 0; }), 15,
            "rhs is {}; its zero points must be 0", rhs.to_string());
    c.check(!q->per_axis() || !contains(rc, q->axis), 16,
            "rhs is quantized along dimension {}, which is "
            "contracted",
            q->axis);
  }
  check_algorithm(c);
  // The element of the result may be wider or narrower where the program says so: preferred_element_type.
  Type element = quantized_product(c, lhs, rhs, {14, 17, 18, 19, 20}, 13);
  if (c.has_stated() && c.stated()[0].is_tensor() && !element.quantization()) element = c.stated()[0];
  Dims dims;
  for (size_t i = 0; i < lb.size(); ++i) {
    const int64_t size = lhs.dim(static_cast<int>(lb[i]));
    dims.push_back(is_dynamic(size) ? rhs.dim(static_cast<int>(rb[i])) : size);
  }
  append_others(dims, lhs, lhs_used);
  append_others(dims, rhs, rhs_used);
  return {typed(element, std::move(dims))};
}

Types dot(const Context& c) {
  const Type& lhs = c.tensor(0);
  const Type& rhs = c.tensor(1, kAnyElement);
  const bool ranks = lhs.rank() >= 1 && lhs.rank() <= 2 && rhs.rank() >= 1 && rhs.rank() <= 2;
  c.check(ranks, 0, "{} dot {}: vectors and matrices only", lhs.to_string(), rhs.to_string());
  c.check(agrees(lhs.dim(lhs.rank() - 1), rhs.dim(0)), 0, "{} dot {}: the contracted dimensions differ",
          lhs.to_string(), rhs.to_string());
  check_precision(c, 0);
  Type element = quantized_product(c, lhs, rhs, {0, 0, 0, 0, 0}, 0);
  if (c.has_stated() && c.stated()[0].is_tensor() && !element.quantization()) element = c.stated()[0];
  Dims dims;
  if (lhs.rank() == 2) dims.push_back(lhs.dim(0));
  if (rhs.rank() == 2) dims.push_back(rhs.dim(1));
  return {typed(element, std::move(dims))};
}

namespace {

// "ij,jk->ik" with one letter per dimension.
struct Einsum {
  std::vector<std::string> inputs;
  std::string output;
};

Einsum parsed_einsum(const Context& c) {
  const std::string& config = c.op().string(Attr::einsum_config);
  const size_t arrow = config.find("->");
  c.check(arrow != std::string::npos, 0, "einsum_config is {}; it must contain ->", config);
  Einsum parsed;
  parsed.output = config.substr(arrow + 2);
  std::string input;
  for (const char letter : config.substr(0, arrow) + ",") {
    if (letter == ',') {
      parsed.inputs.push_back(std::move(input));
      input.clear();
    } else if (letter != ' ') {
      input += letter;
    }
  }
  return parsed;
}

}  // namespace

Types einsum(const Context& c) {
  const Einsum parsed = parsed_einsum(c);
  c.check(parsed.inputs.size() == c.operand_count(), 0, "einsum_config has {} inputs; the op has {}",
          parsed.inputs.size(), c.operand_count());
  std::map<char, int64_t> sizes;
  for (size_t i = 0; i < c.operand_count(); ++i) {
    const Type& operand = c.tensor(i);
    const std::string& letters = parsed.inputs[i];
    if (letters.find('.') != std::string::npos) return {c.stated_tensor(0)};
    c.check(static_cast<int>(letters.size()) == operand.rank(), 0, "einsum_config names {} dimensions of {}",
            letters.size(), operand.to_string());
    for (size_t d = 0; d < letters.size(); ++d) {
      const int64_t size = operand.dim(static_cast<int>(d));
      const auto [place, fresh] = sizes.emplace(letters[d], size);
      c.check(fresh || agrees(place->second, size), 0, "dimension {} is {} and {}", letters[d], place->second,
              size);
      if (is_dynamic(place->second)) place->second = size;
    }
  }
  Dims dims;
  for (const char letter : parsed.output) {
    c.check(sizes.contains(letter), 0, "output dimension {} is in no input", letter);
    dims.push_back(sizes[letter]);
  }
  const Type& element = c.has_stated() ? c.stated_tensor(0) : c.tensor(0);
  return {typed(element, std::move(dims))};
}

namespace {

struct Convolution {
  const Type& lhs;
  const Type& rhs;
  size_t spatial;
  Dims strides, lhs_dilation, rhs_dilation;
  std::span<const int64_t> input_spatial, kernel_spatial, output_spatial;
  int64_t input_batch, input_feature, kernel_input, kernel_output, output_batch, output_feature;
  int64_t feature_groups, batch_groups;
};

// One of input_, kernel_, output_dimensions: C12 and C13 and their like.
void check_dimensions(const Context& c, std::span<const int64_t> spatial, int64_t a, int64_t b, size_t n,
                      int count_constraint, std::string_view what) {
  c.check(spatial.size() == n, count_constraint, "{}_spatial_dimensions has {} entries; it must have {}",
          what, spatial.size(), n);
  const Dims others{a, b};
  const Dims all = concatenated({spatial, others});
  c.check(is_unique(all) && in_range(all, 0, static_cast<int64_t>(n) + 2), count_constraint + 1,
          "{} dimensions are {}", what, text(all));
}

void check_window_list(const Context& c, std::span<const int64_t> values, size_t n, int constraint,
                       std::string_view what) {
  c.check(values.size() == n, constraint, "{} has {} entries; it must have {}", what, values.size(), n);
  c.check(in_range(values, 1, INT64_MAX), constraint + 1, "{} is {}; entries must be positive", what,
          text(values));
}

int64_t divided(int64_t size, int64_t by) { return is_dynamic(size) ? kDynamic : size / by; }
bool divides(int64_t by, int64_t size) { return is_dynamic(size) || size % by == 0; }
int64_t dim_of(const Type& type, int64_t axis) { return type.dim(static_cast<int>(axis)); }

void check_groups(const Context& c, const Convolution& v) {
  c.check(v.feature_groups > 0, 21, "feature_group_count is {}; it must be positive", v.feature_groups);
  c.check(v.batch_groups > 0, 22, "batch_group_count is {}; it must be positive", v.batch_groups);
  c.check(v.feature_groups == 1 || v.batch_groups == 1, 23,
          "feature_group_count {} and batch_group_count {}: one of them must be 1", v.feature_groups,
          v.batch_groups);
  const int64_t batch = dim_of(v.lhs, v.input_batch);
  const int64_t features = dim_of(v.lhs, v.input_feature);
  const int64_t outputs = dim_of(v.rhs, v.kernel_output);
  c.check(divides(v.batch_groups, batch), 10, "batch {} in {} groups", batch, v.batch_groups);
  c.check(divides(v.feature_groups, features), 11, "{} input features in {} groups", features,
          v.feature_groups);
  c.check(agrees(dim_of(v.rhs, v.kernel_input), divided(features, v.feature_groups)), 14,
          "the kernel {} takes {} input features; the input has {} in {} groups", v.rhs.to_string(),
          dim_of(v.rhs, v.kernel_input), features, v.feature_groups);
  c.check(divides(v.batch_groups, outputs), 15, "{} output features in {} batch groups", outputs,
          v.batch_groups);
  c.check(divides(v.feature_groups, outputs), 16, "{} output features in {} feature groups", outputs,
          v.feature_groups);
}

Convolution checked(const Context& c) {
  const Type& lhs = c.tensor(0);
  const Type& rhs = c.tensor(1, kAnyElement);
  c.check(lhs.rank() == rhs.rank() && lhs.rank() >= 2, 1, "operands are {} and {}", lhs.to_string(),
          rhs.to_string());
  const auto n = static_cast<size_t>(lhs.rank() - 2);
  Convolution v{lhs,
                rhs,
                n,
                c.integers_or(Attr::window_strides, n, 1),
                c.integers_or(Attr::lhs_dilation, n, 1),
                c.integers_or(Attr::rhs_dilation, n, 1),
                c.integers(Attr::input_spatial_dimensions),
                c.integers(Attr::kernel_spatial_dimensions),
                c.integers(Attr::output_spatial_dimensions),
                c.integer(Attr::input_batch_dimension),
                c.integer(Attr::input_feature_dimension),
                c.integer(Attr::kernel_input_feature_dimension),
                c.integer(Attr::kernel_output_feature_dimension),
                c.integer(Attr::output_batch_dimension),
                c.integer(Attr::output_feature_dimension),
                c.integer(Attr::feature_group_count),
                c.integer(Attr::batch_group_count)};
  // StableHLO's own dynamic_conv programs state two strides for one dimension; those behind n have no
  // meaning.
  if (c.op().kind == OpKind::dynamic_conv_ && v.strides.size() > n) v.strides.resize(n);
  check_window_list(c, v.strides, n, 2, "window_strides");
  check_window_list(c, v.lhs_dilation, n, 5, "lhs_dilation");
  check_window_list(c, v.rhs_dilation, n, 7, "rhs_dilation");
  const Dims reversal = c.integers_or(Attr::window_reversal, n, 0);
  c.check(reversal.size() == n, 9, "window_reversal has {} entries; it must have {}", reversal.size(), n);
  check_dimensions(c, v.input_spatial, v.input_batch, v.input_feature, n, 12, "input");
  check_dimensions(c, v.kernel_spatial, v.kernel_input, v.kernel_output, n, 17, "kernel");
  check_dimensions(c, v.output_spatial, v.output_batch, v.output_feature, n, 19, "output");
  check_groups(c, v);
  check_precision(c, 24);
  return v;
}

Type convolution_result(const Context& c, const Convolution& v, const IntMatrix* padding) {
  if (is_per_axis(v.rhs))
    c.check(v.rhs.quantization()->axis == v.kernel_output, 29,
            "the kernel is quantized along dimension {}; it must be kernel_output_feature_dimension {}",
            v.rhs.quantization()->axis, v.kernel_output);
  if (c.has_stated() && is_per_axis(c.stated()[0]))
    c.check(c.stated()[0].quantization()->axis == v.output_feature, 30,
            "the result is quantized along dimension {}; it must be output_feature_dimension {}",
            c.stated()[0].quantization()->axis, v.output_feature);
  Type element = quantized_product(c, v.lhs, v.rhs, {28, 31, 32, 33, 34}, 27);
  if (c.has_stated() && c.stated()[0].is_tensor() && !element.quantization()) element = c.stated()[0];
  Dims dims(v.spatial + 2, kDynamic);
  dims[static_cast<size_t>(v.output_batch)] = divided(dim_of(v.lhs, v.input_batch), v.batch_groups);
  dims[static_cast<size_t>(v.output_feature)] = dim_of(v.rhs, v.kernel_output);
  for (size_t i = 0; padding && i < v.spatial; ++i)
    dims[static_cast<size_t>(v.output_spatial[i])] = window_count(
        dim_of(v.lhs, v.input_spatial[i]), {.size = dim_of(v.rhs, v.kernel_spatial[i]),
                                            .stride = v.strides[i],
                                            .padding_low = padding->at(static_cast<int64_t>(i), 0),
                                            .padding_high = padding->at(static_cast<int64_t>(i), 1),
                                            .base_dilation = v.lhs_dilation[i],
                                            .window_dilation = v.rhs_dilation[i]});
  return typed(element, std::move(dims));
}

}  // namespace

Types convolution(const Context& c) {
  const Convolution v = checked(c);
  const auto n = static_cast<int64_t>(v.spatial);
  IntMatrix padding{n, 2, Dims(2 * v.spatial, 0)};
  if (c.op().has(Attr::padding)) padding = c.op().matrix(Attr::padding);
  c.check(padding.rows == n && (padding.columns == 2 || n == 0), 4, "padding is {} x {}; it must be {} x 2",
          padding.rows, padding.columns, n);
  return {convolution_result(c, v, &padding)};
}

Types dynamic_conv(const Context& c) {
  const Convolution v = checked(c);
  const Type& padding = c.tensor(2, kInts);
  c.check(padding.rank() == 2 && agrees(padding.dim(0), static_cast<int64_t>(v.spatial)) &&
              agrees(padding.dim(1), 2),
          4, "padding is {}; it must be {} x 2", padding.to_string(), v.spatial);
  return {convolution_result(c, v, nullptr)};
}

}  // namespace opentrn::graph::shape
