// Own attributes of ops back in StableHLO's spelling: the counterpart of own_attributes.cc.
#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "graph/text/spelling.h"

namespace opentrn::graph::text {

namespace {

// The structs, and the flat attributes that are their fields, in the order in which they are written.
struct Struct {
  std::string_view name;  // of the attribute
  std::string_view kind;  // #stablehlo.<kind>
  std::array<Attr, 7> fields;
  size_t count;
};
constexpr std::array kStructNames{
    Struct{"dot_dimension_numbers",
           "dot",
           {Attr::lhs_batching_dimensions, Attr::rhs_batching_dimensions, Attr::lhs_contracting_dimensions,
            Attr::rhs_contracting_dimensions},
           4},
    Struct{"algorithm",
           "dot_algorithm",
           {Attr::lhs_precision_type, Attr::rhs_precision_type, Attr::accumulation_type,
            Attr::lhs_component_count, Attr::rhs_component_count, Attr::num_primitive_operations,
            Attr::allow_imprecise_accumulation},
           7},
    Struct{"ragged_dot_dimension_numbers",
           "ragged_dot",
           {Attr::lhs_batching_dimensions, Attr::rhs_batching_dimensions, Attr::lhs_contracting_dimensions,
            Attr::rhs_contracting_dimensions, Attr::lhs_ragged_dimensions, Attr::rhs_group_dimensions},
           6},
    Struct{"dimension_numbers",
           "gather",
           {Attr::offset_dims, Attr::collapsed_slice_dims, Attr::operand_batching_dims,
            Attr::start_indices_batching_dims, Attr::start_index_map, Attr::index_vector_dim},
           6},
    Struct{"scatter_dimension_numbers",
           "scatter",
           {Attr::update_window_dims, Attr::inserted_window_dims, Attr::input_batching_dims,
            Attr::scatter_indices_batching_dims, Attr::scatter_dims_to_operand_dims, Attr::index_vector_dim},
           6},
};
constexpr std::array kConvolutionFields{
    Attr::input_batch_dimension,           Attr::input_feature_dimension,
    Attr::input_spatial_dimensions,        Attr::kernel_input_feature_dimension,
    Attr::kernel_output_feature_dimension, Attr::kernel_spatial_dimensions,
    Attr::output_batch_dimension,          Attr::output_feature_dimension,
    Attr::output_spatial_dimensions,
};

bool is_convolution(OpKind kind) { return kind == OpKind::convolution_ || kind == OpKind::dynamic_conv_; }

const Struct* struct_of(OpKind kind, Attr attr) {
  for (const Struct& each : kStructNames) {
    const auto end = each.fields.begin() + static_cast<std::ptrdiff_t>(each.count);
    if (std::find(each.fields.begin(), end, attr) == end) continue;
    const bool ragged = each.kind == "ragged_dot";
    if (each.kind == "dot_algorithm" || ragged == (kind == OpKind::chlo_ragged_dot_)) {
      // gather and scatter both have index_vector_dim.
      if (each.kind == "gather" && kind == OpKind::scatter_) continue;
      return &each;
    }
  }
  return nullptr;
}

std::string field_text(const Attribute& value) {
  if (const auto* integers = value.get<std::vector<int64_t>>()) return spelled_integers(*integers);
  if (const auto* number = value.get<int64_t>()) return fmt::format("{}", *number);
  if (const auto* truth = value.get<bool>()) return *truth ? "true" : "false";
  if (const auto* type = value.get<Type>()) return std::string(name(type->element()));
  return "?";
}

std::string fields_text(const Op& op, std::span<const Attr> fields, bool all) {
  std::vector<std::string> parts;
  for (const Attr attr : fields) {
    const Attribute* value = op.find(attr);
    if (!value) continue;
    const auto* integers = value->get<std::vector<int64_t>>();
    const auto* number = value->get<int64_t>();
    if (!all && ((integers && integers->empty()) || (number && *number == 0))) continue;
    parts.push_back(fmt::format("{} = {}", name(attr), field_text(*value)));
  }
  return fmt::format("<{}>", fmt::join(parts, ", "));
}

std::string struct_text(const Op& op, const Struct& of) {
  const std::string_view dialect = of.kind == "ragged_dot" ? "chlo" : "stablehlo";
  return fmt::format("#{}.{}{}", dialect, of.kind,
                     fields_text(op, std::span(of.fields).first(of.count), of.kind == "dot_algorithm"));
}

std::string_view mnemonic(AttrKind kind) {
  switch (kind) {
    case AttrKind::kComparisonDirection: return "comparison_direction";
    case AttrKind::kComparisonType: return "comparison_type";
    case AttrKind::kPrecisions: return "precision";
    case AttrKind::kFftType: return "fft_type";
    case AttrKind::kRngAlgorithm: return "rng_algorithm";
    case AttrKind::kRngDistribution: return "rng_distribution";
    case AttrKind::kTranspose: return "transpose";
    default: return {};
  }
}

// Source: StablehloOps.td, the attributes declared I32Attr.
bool is_i32(const Op& op, Attr attr) {
  return attr == Attr::exponent_bits || attr == Attr::mantissa_bits || attr == Attr::version ||
         (attr == Attr::index && op.kind == OpKind::get_tuple_element_);
}

std::string own_text(const Function& function, const Op& op, const AttrSpec& spec, const Attribute& value,
                     const PrintOptions& options) {
  const std::string_view dialect = name(op.kind).substr(0, name(op.kind).find('.'));
  const auto word = [&](int64_t number) {
    return fmt::format("#{}<{} {}>", dialect, mnemonic(spec.kind), enum_word(spec.kind, number));
  };
  switch (spec.kind) {
    case AttrKind::kInt:
      return fmt::format("{} : {}", op.integer(spec.attr), is_i32(op, spec.attr) ? "i32" : "i64");
    case AttrKind::kReal: {
      const auto real = static_cast<float>(op.real(spec.attr));
      return spelled_real(ElementType::kF32, reinterpret_cast<const std::byte*>(&real)) + " : f32";
    }
    case AttrKind::kInts: {
      if (spec.attr != Attr::window_reversal) return spelled_attribute(name(spec.attr), value, options);
      std::vector<std::string_view> words;
      for (const int64_t each : op.integers(spec.attr)) words.push_back(each != 0 ? "true" : "false");
      return words.empty() ? "array<i1>" : fmt::format("array<i1: {}>", fmt::join(words, ", "));
    }
    case AttrKind::kPrecisions: {
      std::vector<std::string> words;
      for (const int64_t each : op.integers(spec.attr)) words.push_back(word(each));
      return fmt::format("[{}]", fmt::join(words, ", "));
    }
    case AttrKind::kCustomCallApi: return fmt::format("{} : i32", op.integer(spec.attr));
    case AttrKind::kAny: {
      // The value of constant_like is a number of the result's type.
      const ElementType element = op.results.empty() || !function.type(op.results[0]).is_tensor()
                                      ? ElementType::kF64
                                      : function.type(op.results[0]).element();
      if (const auto* real = value.get<double>();
          real && op.kind == OpKind::chlo_constant_like_ && is_float(element)) {
        return fmt::format("{} : {}",
                           spelled_real(ElementType::kF64, reinterpret_cast<const std::byte*>(real)),
                           name(element));
      }
      if (const auto* number = value.get<int64_t>(); number && op.kind == OpKind::chlo_constant_like_)
        return fmt::format("{} : {}", *number, name(element));
      return spelled_attribute(name(spec.attr), value, options);
    }
    default: break;
  }
  if (!mnemonic(spec.kind).empty()) return word(op.integer(spec.attr));
  return spelled_attribute(name(spec.attr), value, options);
}

}  // namespace

std::string_view enum_word(AttrKind kind, int64_t number) {
  const auto words = enum_words(kind);
  return number >= 0 && number < static_cast<int64_t>(words.size()) ? words[static_cast<size_t>(number)]
                                                                    : std::string_view("?");
}

std::string spelled_dot_algorithm(const Op& op) {
  return fields_text(op, std::span(kStructNames[1].fields).first(kStructNames[1].count), true);
}

std::string spelled_convolution_dimensions(const Op& op) {
  const auto side = [&](Attr first, char first_letter, Attr second, char second_letter, Attr spatial_attr) {
    const Attribute* one = op.find(first);
    const Attribute* two = op.find(second);
    const Attribute* rest = op.find(spatial_attr);
    if (!one || !two || !rest) return std::string();
    const std::span<const int64_t> spatial = op.integers(spatial_attr);
    std::vector<std::string> places(spatial.size() + 2);
    bool valid = true;
    const auto put = [&](int64_t at, std::string text) {
      if (at < 0 || at >= static_cast<int64_t>(places.size()) || !places[static_cast<size_t>(at)].empty()) {
        valid = false;
      } else {
        places[static_cast<size_t>(at)] = std::move(text);
      }
    };
    put(op.integer(first), std::string(1, first_letter));
    put(op.integer(second), std::string(1, second_letter));
    for (size_t i = 0; i < spatial.size(); ++i) put(spatial[i], fmt::format("{}", i));
    return valid ? fmt::format("[{}]", fmt::join(places, ", ")) : std::string();
  };
  const std::string input = side(Attr::input_batch_dimension, 'b', Attr::input_feature_dimension, 'f',
                                 Attr::input_spatial_dimensions);
  const std::string kernel =
      side(Attr::kernel_input_feature_dimension, 'i', Attr::kernel_output_feature_dimension, 'o',
           Attr::kernel_spatial_dimensions);
  const std::string output = side(Attr::output_batch_dimension, 'b', Attr::output_feature_dimension, 'f',
                                  Attr::output_spatial_dimensions);
  if (input.empty() || kernel.empty() || output.empty()) return {};
  return fmt::format("{}x{}->{}", input, kernel, output);
}

std::vector<SpelledAttribute> spelled_own_attributes(const Function& function, const Op& op,
                                                     const std::vector<Attr>& skip,
                                                     const PrintOptions& options) {
  std::vector<SpelledAttribute> spelled;
  const OpDefinition& defined = definition(op.kind);
  std::vector<std::string_view> done;
  const auto once = [&](std::string_view attribute) {
    if (std::find(done.begin(), done.end(), attribute) != done.end()) return false;
    done.push_back(attribute);
    return true;
  };
  for (const auto& [attr, value] : op.attributes) {
    if (std::find(skip.begin(), skip.end(), attr) != skip.end()) continue;
    const AttrSpec* spec = find_spec(defined, attr);
    if (!spec) continue;
    if (is_convolution(op.kind) &&
        std::find(kConvolutionFields.begin(), kConvolutionFields.end(), attr) != kConvolutionFields.end()) {
      if (!once("dimension_numbers")) continue;
      const std::string dims = spelled_convolution_dimensions(op);
      spelled.push_back({"dimension_numbers",
                         dims.empty()
                             ? "#stablehlo.conv<raw " + fields_text(op, kConvolutionFields, true).substr(1)
                             : fmt::format("#stablehlo.conv<{}>", dims)});
    } else if (const Struct* of = struct_of(op.kind, attr)) {
      if (once(of->name)) spelled.push_back({std::string(of->name), struct_text(op, *of)});
    } else if (attr == Attr::channel_id || attr == Attr::channel_type) {
      if (!once("channel_handle")) continue;
      spelled.push_back({"channel_handle", fmt::format("#stablehlo.channel_handle<handle = {}, type = {}>",
                                                       op.integer_or(Attr::channel_id, 0),
                                                       op.integer_or(Attr::channel_type, 1))});
    } else if (attr == Attr::use_global_device_ids) {
      if (op.boolean(attr)) spelled.push_back({"use_global_device_ids", ""});
    } else {
      spelled.push_back({std::string(name(attr)), own_text(function, op, *spec, value, options)});
    }
  }
  // MLIR wants the struct even when all its lists are empty.
  if (op.kind == OpKind::dot_general_ && skip.empty() && once("dot_dimension_numbers"))
    spelled.push_back({"dot_dimension_numbers", "#stablehlo.dot<>"});
  return spelled;
}

}  // namespace opentrn::graph::text
