// The fields of HloModuleProto that OpenTrn uses, decoded.
// Source: xla/service/hlo.proto, xla/xla_data.proto (field numbers beside each reader in proto.cc).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "graph/literal.h"
#include "graph/type.h"

namespace opentrn::import::hlo {

struct Window {
  std::vector<int64_t> size, stride, padding_low, padding_high, window_dilation, base_dilation, reversal;
};

// The integer and list fields of the ops, by name, as few ops as each of them has.
struct Instruction {
  std::string_view name;
  std::string_view opcode;
  graph::Type type;
  int64_t id = 0;
  std::vector<int64_t> operands;
  std::vector<int64_t> called;
  std::vector<int64_t> dimensions;
  int64_t parameter_number = 0;
  int64_t tuple_index = 0;
  std::string_view literal;  // a LiteralProto, decoded when used
  Window window;
  std::vector<int64_t> slice_starts, slice_limits, slice_strides, dynamic_slice_sizes, gather_slice_sizes;
  std::vector<int64_t> padding_low, padding_high, padding_interior;
  std::vector<int64_t> fft_length, precision;
  std::vector<std::vector<int64_t>> replica_groups;
  std::vector<std::pair<int64_t, int64_t>> source_target_pairs;
  // Dimension numbers: field number -> values (dot 30, conv 16, gather 33, scatter 48).
  std::unordered_map<int, std::vector<int64_t>> numbers;
  int64_t exponent_bits = 0, mantissa_bits = 0, distribution = 0, feature_index = 0, channel_id = 0;
  int64_t feature_group_count = 1, batch_group_count = 1, fft_type = 0, rng_algorithm = 0, k = 0;
  int64_t transpose_a = 0, api_version = 0;
  bool left_side = false, lower = false, unit_diagonal = false, is_stable = false, largest = false;
  bool indices_are_sorted = false, unique_indices = false, use_global_device_ids = false,
       has_side_effect = false;
  double epsilon = 0;
  std::string_view target, backend_config, direction, comparison_type;
  std::string_view op_name, source_file;
  int source_line = 0;
  // Frontend attributes by which AWS's compiler names what a program takes and gives; of several results with
  // commas.
  std::string_view input_names, output_names;
};

struct Computation {
  std::string_view name;
  int64_t id = 0;
  int64_t root = 0;
  std::vector<Instruction> instructions;
};

// A result that takes an argument's place: elements of tuples by their index, outermost first.
struct Alias {
  std::vector<int64_t> output, parameter_element;
  int64_t parameter = 0;
};

struct ModuleProto {
  std::string_view name;
  std::vector<Computation> computations;
  std::vector<Alias> aliases;
  int64_t entry = 0;
};

[[noreturn]] void fail(std::string message);
ModuleProto read_module(std::span<const std::byte> bytes);
// Row-major, whatever the literal's layout.
graph::Literal read_literal(std::string_view literal);

}  // namespace opentrn::import::hlo
