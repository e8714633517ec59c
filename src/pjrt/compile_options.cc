#include "pjrt/compile_options.h"

#include <algorithm>

#include <fmt/format.h>

#include "import/protobuf_reader.h"  // before other headers of protozero

#include <protozero/pbf_writer.hpp>

#include "base/fault.h"

namespace opentrn::pjrt {

namespace {

using protozero::pbf_reader;

// By computation: the devices of its replicas.
std::vector<std::vector<int>> read_assignment(pbf_reader reader) {
  std::vector<std::vector<int>> computations;
  while (reader.next()) {
    if (reader.tag() != 3) {
      reader.skip();
      continue;
    }
    pbf_reader computation = reader.get_message();
    std::vector<int>& ids = computations.emplace_back();
    while (computation.next()) {
      if (computation.tag() != 1) {
        computation.skip();
      } else if (computation.wire_type() == protozero::pbf_wire_type::length_delimited) {
        for (const int64_t id : computation.get_packed_int64()) ids.push_back(static_cast<int>(id));
      } else {
        ids.push_back(static_cast<int>(computation.get_int64()));
      }
    }
  }
  return computations;
}

constexpr int32_t kLevelOfJax = 29;  // O2, which JAX asks for unless it is told otherwise

void refuse_if(bool set, const char* what, const char* hint) {
  if (set) throw Fault(FaultKind::kNotModelled, "pjrt.compile_options", what, hint);
}

void note_if(bool set, const char* name, CompileOptions& options) {
  if (set) options.without_effect.emplace_back(name);
}

void read_build_options(pbf_reader reader, CompileOptions& options) {
  std::vector<std::vector<int>> assignment;
  while (reader.next()) switch (reader.tag()) {
      case 4: options.replicas = static_cast<int>(reader.get_int64()); break;
      case 5: options.partitions = static_cast<int>(reader.get_int64()); break;
      case 7:
        refuse_if(reader.get_bool(), "use_auto_spmd_partitioning asks for shardings that XLA finds",
                  "state shardings, or let Shardy propagate them");
        break;
      case 9: assignment = read_assignment(reader.get_message()); break;
      case 11:
        refuse_if(reader.get_bool(), "run_backend_only gives a program that XLA has optimised",
                  "give the program as it was traced");
        break;
      case 14: note_if(reader.get_view().size() > 0, "fdo_profile", options); break;
      case 20: note_if(reader.get_float() != 0, "exec_time_optimization_effort", options); break;
      case 21: note_if(reader.get_float() != 0, "memory_fitting_effort", options); break;
      case 23:
        refuse_if(reader.get_int64() > 1, "the program is one of several processes",
                  "one process, which drives all simulated devices");
        break;
      case 24: note_if(reader.get_enum() != 0, "optimization_level", options); break;
      case 25: {
        const int32_t level = reader.get_enum();
        note_if(level != 0 && level != kLevelOfJax, "memory_fitting_level", options);
        break;
      }
      default: reader.skip();
    }
  for (int replica = 0; replica < options.replicas && !assignment.empty(); ++replica)
    for (const auto& computation : assignment)
      if (static_cast<size_t>(replica) < computation.size())
        options.devices.push_back(computation[static_cast<size_t>(replica)]);
}

std::string text_of_override(pbf_reader reader) {
  std::string text;
  while (reader.next()) switch (reader.tag()) {
      case 1: text = reader.get_string(); break;
      case 2: text = reader.get_bool() ? "true" : "false"; break;
      case 3: text = fmt::format("{}", reader.get_int64()); break;
      case 4: text = fmt::format("{}", reader.get_double()); break;
      default: reader.skip();
    }
  return text;
}

void read_override(pbf_reader reader, CompileOptions& options) {
  std::string key, value;
  while (reader.next()) switch (reader.tag()) {
      case 1: key = reader.get_string(); break;
      case 2: value = text_of_override(reader.get_message()); break;
      default: reader.skip();
    }
  options.overrides[key] = value;
}

}  // namespace

CompileOptions read_compile_options(std::string_view bytes) {
  CompileOptions options;
  try {
    pbf_reader reader(bytes.data(), bytes.size());
    while (reader.next()) switch (reader.tag()) {
        case 2:
          refuse_if(reader.get_bool(), "parameter_is_tupled_arguments gives all arguments as one tuple",
                    "give each argument of its own");
          break;
        case 6:
          refuse_if(reader.get_view().size() > 0, "serialized_multi_slice_config asks for several slices",
                    "one process with the devices of one instance");
          break;
        case 3: read_build_options(reader.get_message(), options); break;
        case 7: read_override(reader.get_message(), options); break;
        default: reader.skip();
      }
  } catch (const protozero::exception& error) {
    throw Fault(FaultKind::kInput, "pjrt.compile_options",
                fmt::format("the compile options are not a CompileOptionsProto: {}", error.what()));
  }
  options.replicas = std::max(options.replicas, 1);
  options.partitions = std::max(options.partitions, 1);
  const size_t count = static_cast<size_t>(options.replicas) * static_cast<size_t>(options.partitions);
  if (!options.devices.empty() && options.devices.size() != count)
    throw Fault(FaultKind::kInput, "pjrt.compile_options",
                fmt::format("{} devices are assigned to {} replicas of {} partitions", options.devices.size(),
                            options.replicas, options.partitions));
  return options;
}

std::string device_assignment(int replicas, int partitions, std::span<const int> devices) {
  std::string bytes;
  protozero::pbf_writer writer(bytes);
  writer.add_int32(1, replicas);
  writer.add_int32(2, partitions);
  for (int partition = 0; partition < partitions; ++partition) {
    protozero::pbf_writer computation(writer, 3);
    std::vector<int64_t> ids;
    for (int replica = 0; replica < replicas; ++replica)
      ids.push_back(devices[static_cast<size_t>(replica * partitions + partition)]);
    computation.add_packed_int64(1, ids.begin(), ids.end());
  }
  return bytes;
}

}  // namespace opentrn::pjrt
