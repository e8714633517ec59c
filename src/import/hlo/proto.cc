#include "import/hlo/proto.h"

#include <cstring>

#include <fmt/format.h>

#include "base/fault.h"
#include "graph/element_value.h"
#include "import/protobuf_reader.h"

namespace opentrn::import::hlo {

using graph::ElementType;
using graph::Literal;
using graph::Type;
using protozero::pbf_reader;
using protozero::pbf_wire_type;

void fail(std::string message) { throw Fault(FaultKind::kInput, "hlo.proto", std::move(message)); }

namespace {

constexpr int kShapeDepthMax = 100;

std::string_view view(protozero::data_view data) { return {data.data(), data.size()}; }

// A repeated integer, packed or one at a time.
void append(pbf_reader& reader, std::vector<int64_t>& to) {
  if (reader.wire_type() == pbf_wire_type::length_delimited) {
    for (const int64_t value : reader.get_packed_int64()) to.push_back(value);
  } else {
    to.push_back(reader.get_int64());
  }
}

// xla.PrimitiveType.
ElementType element_of(int64_t code) {
  switch (code) {
    case 1: return ElementType::kI1;
    case 2: return ElementType::kI8;
    case 3: return ElementType::kI16;
    case 4: return ElementType::kI32;
    case 5: return ElementType::kI64;
    case 6: return ElementType::kUI8;
    case 7: return ElementType::kUI16;
    case 8: return ElementType::kUI32;
    case 9: return ElementType::kUI64;
    case 10: return ElementType::kF16;
    case 11: return ElementType::kF32;
    case 12: return ElementType::kF64;
    case 15: return ElementType::kComplexF32;
    case 16: return ElementType::kBF16;
    case 18: return ElementType::kComplexF64;
    case 19: return ElementType::kF8E5M2;
    case 20: return ElementType::kF8E4M3FN;
    case 21: return ElementType::kI4;
    case 22: return ElementType::kUI4;
    case 23: return ElementType::kF8E4M3B11FNUZ;
    case 24: return ElementType::kF8E5M2FNUZ;
    case 25: return ElementType::kF8E4M3FNUZ;
    case 26: return ElementType::kI2;
    case 27: return ElementType::kUI2;
    case 28: return ElementType::kF8E4M3;
    case 29: return ElementType::kF8E3M4;
    case 32: return ElementType::kF4E2M1FN;
    case 33: return ElementType::kF8E8M0FNU;
    default: break;
  }
  throw Fault(FaultKind::kNotModelled, "hlo.proto", fmt::format("element type {} of XLA is not taken", code));
}

struct Shape {
  Type type;
  std::vector<int64_t> minor_to_major;
};

// ShapeProto: element_type 2, dimensions 3, tuple_shapes 4, layout 5 {minor_to_major 1}, dynamic 6.
Shape read_shape(pbf_reader reader, int depth) {
  if (depth > kShapeDepthMax) fail("a tuple nests deeper than 100 levels");
  int64_t element = 0;
  std::vector<int64_t> dims;
  std::vector<int64_t> dynamic;
  std::vector<Type> parts;
  Shape shape;
  while (reader.next()) {
    switch (reader.tag()) {
      case 2: element = reader.get_int64(); break;
      case 3: append(reader, dims); break;
      case 4: parts.push_back(read_shape(reader.get_message(), depth + 1).type); break;
      case 5: {
        pbf_reader layout = reader.get_message();
        while (layout.next()) {
          if (layout.tag() == 1) {
            append(layout, shape.minor_to_major);
          } else {
            layout.skip();
          }
        }
        break;
      }
      case 6: append(reader, dynamic); break;
      default: reader.skip();
    }
  }
  if (element == 13) {
    shape.type = Type::tuple(std::move(parts));
    return shape;
  }
  if (element == 17) {
    shape.type = Type::token();
    return shape;
  }
  std::vector<int64_t> bounds(dims.size(), graph::kDynamic);
  bool any = false;
  for (size_t i = 0; i < dims.size(); ++i) {
    const bool is_dynamic = i < dynamic.size() && dynamic[i] != 0;
    if (dims[i] < 0 && dims[i] != graph::kDynamic) fail(fmt::format("a dimension of {}", dims[i]));
    if (!is_dynamic) continue;
    any = true;
    bounds[i] = dims[i];
    dims[i] = graph::kDynamic;
  }
  shape.type = Type::tensor(element_of(element), std::move(dims));
  if (any) shape.type.set_bounds(std::move(bounds));
  return shape;
}

// WindowDimension: size 1 stride 2 padding 3 4 window_dilation 5 base_dilation 6 reversal 7.
void read_window(pbf_reader reader, Window& window) {
  while (reader.next()) {
    if (reader.tag() != 1) {
      reader.skip();
      continue;
    }
    int64_t values[8] = {0, 1, 1, 0, 0, 1, 1, 0};
    pbf_reader dimension = reader.get_message();
    while (dimension.next()) {
      if (dimension.tag() >= 1 && dimension.tag() <= 7) {
        values[dimension.tag()] = dimension.get_int64();
      } else {
        dimension.skip();
      }
    }
    window.size.push_back(values[1]);
    window.stride.push_back(values[2]);
    window.padding_low.push_back(values[3]);
    window.padding_high.push_back(values[4]);
    window.window_dilation.push_back(values[5]);
    window.base_dilation.push_back(values[6]);
    window.reversal.push_back(values[7]);
  }
}

// A message of integers and lists of integers, by field number.
std::unordered_map<int, std::vector<int64_t>> read_numbers(pbf_reader reader) {
  std::unordered_map<int, std::vector<int64_t>> numbers;
  while (reader.next()) {
    const auto tag = static_cast<int>(reader.tag());
    if (reader.wire_type() == pbf_wire_type::varint ||
        reader.wire_type() == pbf_wire_type::length_delimited) {
      append(reader, numbers[tag]);
    } else {
      reader.skip();
    }
  }
  return numbers;
}

int64_t number(const std::unordered_map<int, std::vector<int64_t>>& numbers, int field) {
  const auto found = numbers.find(field);
  return found == numbers.end() || found->second.empty() ? 0 : found->second.back();
}

std::vector<int64_t> read_group(pbf_reader reader) { return read_numbers(reader)[1]; }

// CollectiveDeviceListProto: replica_groups 1; the iota form (2) is written out by XLA's readers too.
void read_device_list(pbf_reader reader, Instruction& into) {
  while (reader.next()) {
    if (reader.tag() == 1) {
      into.replica_groups.push_back(read_group(reader.get_message()));
    } else if (reader.tag() == 2) {
      throw Fault(FaultKind::kNotModelled, "hlo.proto", "replica groups in iota form are not taken");
    } else {
      reader.skip();
    }
  }
}

// OpMetadata: op_name 2, source_file 3, source_line 4.
void read_metadata(pbf_reader reader, Instruction& into) {
  while (reader.next()) {
    switch (reader.tag()) {
      case 2: into.op_name = view(reader.get_view()); break;
      case 3: into.source_file = view(reader.get_view()); break;
      case 4: into.source_line = reader.get_int32(); break;
      default: reader.skip();
    }
  }
}

// FrontendAttributes: 1, a map of texts.
void read_frontend_attributes(pbf_reader reader, Instruction& into) {
  while (reader.next()) {
    if (reader.tag() != 1) {
      reader.skip();
      continue;
    }
    pbf_reader entry = reader.get_message();
    std::string_view key, value;
    while (entry.next()) {
      if (entry.tag() == 1)
        key = view(entry.get_view());
      else if (entry.tag() == 2)
        value = view(entry.get_view());
      else
        entry.skip();
    }
    if (key == "neff_input_names") into.input_names = value;
    if (key == "neff_output_names") into.output_names = value;
  }
}

Instruction read_instruction(pbf_reader reader) {
  Instruction made;
  while (reader.next()) {
    switch (reader.tag()) {
      case 1: made.name = view(reader.get_view()); break;
      case 2: made.opcode = view(reader.get_view()); break;
      case 3: made.type = read_shape(reader.get_message(), 0).type; break;
      case 7: read_metadata(reader.get_message(), made); break;
      case 8: made.literal = view(reader.get_view()); break;
      case 9: made.parameter_number = reader.get_int64(); break;
      case 13: made.tuple_index = reader.get_int64(); break;
      case 14: append(reader, made.dimensions); break;
      case 15: read_window(reader.get_message(), made.window); break;
      case 16:
      case 30:
      case 33:
      case 48: made.numbers = read_numbers(reader.get_message()); break;
      case 17: {
        const auto slice = read_numbers(reader.get_message());
        made.slice_starts.push_back(number(slice, 1));
        made.slice_limits.push_back(number(slice, 2));
        made.slice_strides.push_back(number(slice, 3));
        break;
      }
      case 18: made.exponent_bits = reader.get_int32(); break;
      case 19: made.mantissa_bits = reader.get_int32(); break;
      case 20: append(reader, made.dynamic_slice_sizes); break;
      case 21: {
        pbf_reader config = reader.get_message();
        while (config.next()) {
          if (config.tag() != 1) {
            config.skip();
            continue;
          }
          const auto dimension = read_numbers(config.get_message());
          made.padding_low.push_back(number(dimension, 1));
          made.padding_high.push_back(number(dimension, 2));
          made.padding_interior.push_back(number(dimension, 3));
        }
        break;
      }
      case 23: made.distribution = reader.get_int64(); break;
      case 24: made.epsilon = reader.get_float(); break;
      case 25: made.feature_index = reader.get_int64(); break;
      case 26: made.channel_id = reader.get_int64(); break;
      case 28: made.target = view(reader.get_view()); break;
      case 31: made.fft_type = reader.get_int64(); break;
      case 32: append(reader, made.fft_length); break;
      case 34: append(reader, made.gather_slice_sizes); break;
      case 35: made.id = reader.get_int64(); break;
      case 36: append(reader, made.operands); break;
      case 38: append(reader, made.called); break;
      case 43: made.backend_config = view(reader.get_view()); break;
      case 49: made.replica_groups.push_back(read_group(reader.get_message())); break;
      case 50: made.feature_group_count = reader.get_int64(); break;
      case 51: made.precision = read_numbers(reader.get_message())[1]; break;
      case 52: {
        const auto pair = read_numbers(reader.get_message());
        made.source_target_pairs.emplace_back(number(pair, 1), number(pair, 2));
        break;
      }
      case 58: made.batch_group_count = reader.get_int64(); break;
      case 59: {
        const auto options = read_numbers(reader.get_message());
        made.left_side = number(options, 1) != 0;
        made.lower = number(options, 2) != 0;
        made.unit_diagonal = number(options, 3) != 0;
        made.transpose_a = number(options, 4);
        break;
      }
      case 60: made.is_stable = reader.get_bool(); break;
      case 62: made.lower = number(read_numbers(reader.get_message()), 1) != 0; break;
      case 63: made.direction = view(reader.get_view()); break;
      case 65: made.has_side_effect = reader.get_bool(); break;
      case 67: made.indices_are_sorted = reader.get_bool(); break;
      case 68: read_frontend_attributes(reader.get_message(), made); break;
      case 69: made.unique_indices = reader.get_bool(); break;
      case 70: made.rng_algorithm = reader.get_int64(); break;
      case 71: made.use_global_device_ids = reader.get_bool(); break;
      case 72: made.comparison_type = view(reader.get_view()); break;
      case 77: made.api_version = reader.get_int64(); break;
      case 81: made.k = reader.get_int64(); break;
      case 85: made.largest = reader.get_bool(); break;
      case 87: read_device_list(reader.get_message(), made); break;
      default: reader.skip();
    }
  }
  return made;
}

Computation read_computation(pbf_reader reader) {
  Computation made;
  while (reader.next()) {
    switch (reader.tag()) {
      case 1: made.name = view(reader.get_view()); break;
      case 2: made.instructions.push_back(read_instruction(reader.get_message())); break;
      case 5: made.id = reader.get_int64(); break;
      case 6: made.root = reader.get_int64(); break;
      default: reader.skip();
    }
  }
  return made;
}

// HloInputOutputAliasProto.AliasEntryProto
Alias read_alias(pbf_reader reader) {
  Alias made;
  while (reader.next()) {
    switch (reader.tag()) {
      case 1: append(reader, made.output); break;
      case 2: made.parameter = reader.get_int64(); break;
      case 3: append(reader, made.parameter_element); break;
      default: reader.skip();
    }
  }
  return made;
}

std::vector<Alias> read_aliases(pbf_reader reader) {
  std::vector<Alias> made;
  while (reader.next(1)) made.push_back(read_alias(reader.get_message()));
  return made;
}

ModuleProto read_module_message(pbf_reader reader) {
  ModuleProto made;
  while (reader.next()) {
    switch (reader.tag()) {
      case 1: made.name = view(reader.get_view()); break;
      case 3: made.computations.push_back(read_computation(reader.get_message())); break;
      case 6: made.entry = reader.get_int64(); break;
      case 8: made.aliases = read_aliases(reader.get_message()); break;
      default: reader.skip();
    }
  }
  return made;
}

template <typename T>
void append_bytes(std::vector<std::byte>& bytes, T value) {
  const size_t at = bytes.size();
  bytes.resize(at + sizeof(T));
  std::memcpy(bytes.data() + at, &value, sizeof(T));
}

// From the order of `minor_to_major` to row-major.
std::vector<std::byte> row_major(const Type& type, const std::vector<int64_t>& minor_to_major,
                                 std::vector<std::byte> bytes) {
  const auto rank = static_cast<size_t>(type.rank());
  bool plain = minor_to_major.size() != rank;
  if (!plain) {
    plain = true;
    for (size_t i = 0; i < rank; ++i) plain &= minor_to_major[i] == static_cast<int64_t>(rank - 1 - i);
  }
  const auto size = static_cast<size_t>(graph::storage_bytes(type.element()));
  const auto count = static_cast<size_t>(type.element_count());
  if (plain || bytes.size() != count * size) return bytes;
  std::vector<int64_t> strides(rank, -1);
  int64_t stride = 1;
  for (const int64_t axis : minor_to_major) {
    if (axis < 0 || axis >= static_cast<int64_t>(rank) || strides[static_cast<size_t>(axis)] >= 0)
      fail("a layout that is not a permutation of the dimensions");
    strides[static_cast<size_t>(axis)] = stride;
    stride *= type.dim(static_cast<int>(axis));
  }
  std::vector<std::byte> ordered(bytes.size());
  std::vector<int64_t> index(rank, 0);
  for (size_t i = 0; i < count; ++i) {
    int64_t from = 0;
    for (size_t axis = 0; axis < rank; ++axis) from += index[axis] * strides[axis];
    std::memcpy(ordered.data() + i * size, bytes.data() + static_cast<size_t>(from) * size, size);
    for (size_t axis = rank; axis-- > 0;) {
      if (++index[axis] < type.dim(static_cast<int>(axis))) break;
      index[axis] = 0;
    }
  }
  return ordered;
}

}  // namespace

ModuleProto read_module(std::span<const std::byte> bytes) {
  try {
    const pbf_reader whole(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    // HloProto has the module as field 1, HloModuleProto its name; a name is no message with computations.
    pbf_reader outer = whole;
    if (outer.next() && outer.tag() == 1 && outer.wire_type() == pbf_wire_type::length_delimited) {
      const pbf_reader inner = outer.get_message();
      try {
        ModuleProto nested = read_module_message(inner);
        if (!nested.computations.empty()) return nested;
      } catch (const protozero::exception&) {
        // A name, then.
      }
    }
    ModuleProto module = read_module_message(whole);
    if (module.computations.empty()) fail("no computation in this HloModuleProto");
    return module;
  } catch (const protozero::exception& error) {
    fail(fmt::format("not a protocol buffer: {}", error.what()));
  }
}

// LiteralProto: shape 1, then one field per element type.
Literal read_literal(std::string_view literal) {
  try {
    pbf_reader reader(literal.data(), literal.size());
    Shape shape;
    std::vector<std::byte> bytes;
    pbf_reader first = reader;
    while (first.next()) {
      if (first.tag() == 1) {
        shape = read_shape(first.get_message(), 0);
      } else {
        first.skip();
      }
    }
    if (!shape.type.is_tensor() || !shape.type.is_static()) fail("a constant that is not a static array");
    const ElementType element = shape.type.element();
    while (reader.next()) {
      switch (reader.tag()) {
        case 2:
        case 4:
        case 5:
        case 6:
        case 7: {  // preds, s32s, s64s, u32s, u64s
          std::vector<int64_t> values;
          append(reader, values);
          const auto size = static_cast<size_t>(graph::storage_bytes(element));
          for (const int64_t value : values) {
            bytes.resize(bytes.size() + size);
            graph::store_integer(element, value, bytes.data() + bytes.size() - size);
          }
          break;
        }
        case 8:
        case 12:  // f32s, c64s
          if (reader.wire_type() == pbf_wire_type::length_delimited) {
            for (const float value : reader.get_packed_float()) append_bytes(bytes, value);
          } else {
            append_bytes(bytes, reader.get_float());
          }
          break;
        case 9:
        case 18:  // f64s, c128s
          if (reader.wire_type() == pbf_wire_type::length_delimited) {
            for (const double value : reader.get_packed_double()) append_bytes(bytes, value);
          } else {
            append_bytes(bytes, reader.get_double());
          }
          break;
        case 1:
        case 10:
        case 14: reader.skip(); break;
        default: {  // bytes as they lie in memory
          if (reader.wire_type() != pbf_wire_type::length_delimited) {
            reader.skip();
            break;
          }
          const std::string_view raw = view(reader.get_view());
          const auto* data = reinterpret_cast<const std::byte*>(raw.data());
          bytes.insert(bytes.end(), data, data + raw.size());
        }
      }
    }
    const auto size = static_cast<size_t>(graph::storage_bytes(element));
    if (graph::bit_width(element) < 8 && graph::is_integer(element))
      for (std::byte& each : bytes) graph::store_integer(element, static_cast<int64_t>(each), &each);
    if (bytes.size() != static_cast<size_t>(shape.type.element_count()) * size)
      fail(fmt::format("{} bytes of data for {}", bytes.size(), shape.type.to_string()));
    bytes = row_major(shape.type, shape.minor_to_major, std::move(bytes));
    return {std::move(shape.type), std::move(bytes)};
  } catch (const protozero::exception& error) {
    fail(fmt::format("a broken literal: {}", error.what()));
  }
}

}  // namespace opentrn::import::hlo
