#include <string_view>

#include <fmt/format.h>
#include <protozero/pbf_writer.hpp>
#include <protozero/varint.hpp>

#include "collectives/messages.h"

namespace opentrn::collectives {

namespace {

// Numbers of the fields and of the enumeration NodeType: schema/protobuf/et_def.proto of mlcommons/chakra.
constexpr std::string_view kVersion = "0.0.4";
enum NodeType : int32_t { kCompute = 4, kSend = 5, kReceive = 6 };
namespace field {
constexpr protozero::pbf_tag_type kMetadataVersion = 1, kMetadataAttribute = 2;
constexpr protozero::pbf_tag_type kId = 1, kName = 2, kType = 3, kDataDeps = 5, kAttribute = 10;
constexpr protozero::pbf_tag_type kAttributeName = 1, kInt32 = 7, kInt64 = 9, kUint64 = 13, kBool = 27,
                                  kString = 29;
}  // namespace field

// A file is a row of messages, each behind its size.
void append(std::string& file, const std::string& message) {
  protozero::write_varint(std::back_inserter(file), message.size());
  file += message;
}

template <typename Add>
void attribute(protozero::pbf_writer& owner, protozero::pbf_tag_type where, std::string_view name, Add add) {
  protozero::pbf_writer writer(owner, where);
  writer.add_string(field::kAttributeName, name.data(), name.size());
  add(writer);
}

std::string metadata(const Plan& plan) {
  std::string message;
  protozero::pbf_writer writer(message);
  writer.add_string(field::kMetadataVersion, kVersion.data(), kVersion.size());
  const std::string schedule = fmt::format("{} by {}", name_of(plan.request.kind), plan.algorithm);
  attribute(writer, field::kMetadataAttribute, "schedule",
            [&](auto& value) { value.add_string(field::kString, schedule); });
  return message;
}

std::string node(int rank, size_t id, const Operation& one) {
  std::string message;
  protozero::pbf_writer writer(message);
  const bool sends = one.kind == Operation::Kind::kSend, computes = one.kind == Operation::Kind::kCompute;
  writer.add_uint64(field::kId, id);
  writer.add_string(field::kName, fmt::format("{} {}",
                                              computes ? "reduce or copy"
                                              : sends  ? "send"
                                                       : "receive",
                                              id));
  writer.add_enum(field::kType, computes ? kCompute : sends ? kSend : kReceive);
  std::vector<uint64_t> after(one.after.begin(), one.after.end());
  writer.add_packed_uint64(field::kDataDeps, after.begin(), after.end());
  const auto number = [&](const char* name, int32_t number) {
    attribute(writer, field::kAttribute, name, [&](auto& value) { value.add_int32(field::kInt32, number); });
  };
  attribute(writer, field::kAttribute, "is_cpu_op", [](auto& value) { value.add_bool(field::kBool, false); });
  if (computes) {
    attribute(writer, field::kAttribute, "num_ops", [](auto& value) { value.add_int64(field::kInt64, 0); });
    attribute(writer, field::kAttribute, "tensor_size",
              [&](auto& value) { value.add_uint64(field::kUint64, static_cast<uint64_t>(one.bytes)); });
    return message;
  }
  number("comm_src", sends ? rank : one.peer);
  number("comm_dst", sends ? one.peer : rank);
  number("comm_tag", one.tag);
  attribute(writer, field::kAttribute, "comm_size",
            [&](auto& value) { value.add_int64(field::kInt64, one.bytes); });
  return message;
}

}  // namespace

std::vector<std::string> chakra_of_plan(const Plan& plan) {
  std::vector<std::string> files;
  for (const auto& operations : messages_of(plan)) {
    std::string& file = files.emplace_back();
    append(file, metadata(plan));
    for (size_t i = 0; i < operations.size(); ++i)
      append(file, node(static_cast<int>(files.size()) - 1, i, operations[i]));
  }
  return files;
}

}  // namespace opentrn::collectives
