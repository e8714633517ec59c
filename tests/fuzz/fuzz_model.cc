// Compiled models (.neuron), damaged behind checksums that are right: a model whose program prints, or an
// input error; never a crash or memory without end.
#include <cstring>
#include <string>

#include <nlohmann/json.hpp>

#include "base/checksum.h"
#include "isa/file.h"
#include "isa/text.h"
#include "isa/text_random.h"
#include "runtime/model_file.h"
#include "runtime/origin_file.h"
#include "tests/fuzz/bodies.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/mutate.h"

namespace opentrn::fuzz {

namespace {

using nlohmann::json;

constexpr size_t kPreamble = 24;
constexpr size_t kInstructions = 30;  // of the program that a table of ops belongs to

std::string_view as_text(Bytes bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

Bytes as_bytes(std::string_view text) { return std::as_bytes(std::span(text.data(), text.size())); }

std::vector<std::byte> copy_of(Bytes bytes) { return {bytes.begin(), bytes.end()}; }

// The header as JSON; discarded where there is none.
json header_of(std::string_view file) {
  uint64_t bytes = 0;
  if (file.size() < kPreamble) return json(json::value_t::discarded);
  std::memcpy(&bytes, file.data() + 8, 8);
  if (bytes > file.size() - kPreamble) return json(json::value_t::discarded);
  return json::parse(file.substr(kPreamble, bytes), nullptr, /*allow_exceptions=*/false);
}

// The file with this header in place of its own, in the room that there is before the first piece.
void put_header(std::string& file, const json& header, size_t room_end) {
  const std::string text = header.dump(-1, ' ', false, json::error_handler_t::replace);
  if (kPreamble + text.size() > room_end || room_end > file.size()) return;
  const uint64_t size = text.size();
  std::memcpy(file.data() + 8, &size, 8);
  std::copy(text.begin(), text.end(), file.begin() + kPreamble);
}

// Makes the checksums right: of all pieces that lie in the file, and of the header.
std::string sealed(std::string file) {
  json header = header_of(file);
  size_t first = file.size();
  if (header.is_object() && header.contains("pieces") && header["pieces"].is_array()) {
    for (json& row : header["pieces"]) {
      if (!row.is_array() || row.size() != 3 || !row[0].is_number_unsigned() || !row[1].is_number_unsigned())
        continue;
      const auto offset = row[0].get<uint64_t>(), bytes = row[1].get<uint64_t>();
      if (offset > file.size() || bytes > file.size() - offset) continue;
      row[2] = checksum(std::string_view(file).substr(offset, bytes));
      first = std::min<size_t>(first, offset);
    }
    put_header(file, header, first);
  }
  uint64_t bytes = 0;
  if (file.size() < kPreamble) return file;
  std::memcpy(&bytes, file.data() + 8, 8);
  if (bytes > file.size() - kPreamble) return file;
  const uint64_t sum = checksum(std::string_view(file).substr(kPreamble, bytes));
  std::memcpy(file.data() + 16, &sum, 8);
  return file;
}

// Anywhere in the file; in its header alone; or in the payload of a program, which is compressed and has a
// checksum of its own.
std::string damaged(SplitMix64& random, std::string file) {
  const json header = header_of(file);
  const uint32_t where = random.below(4);
  if (where == 0 || !header.is_object()) {
    mutate(random, file, {});
    return file;
  }
  const json& place = header["buckets"][0][random.below(2) == 0 ? "program" : "origin"];
  const size_t offset = place["offset"], bytes = place["bytes"];
  if (where == 1) {  // a piece, in place: of the same size
    for (uint32_t n = 1 + random.below(4); n > 0; --n)
      file[offset + random.below(static_cast<uint32_t>(bytes))] = static_cast<char>(random.below(256));
    return file;
  }
  if (where == 2) {  // the program's payload; the piece goes to the end of the file
    const size_t at = header["buckets"][0]["program"]["offset"],
                 size = header["buckets"][0]["program"]["bytes"];
    std::vector<std::byte> payload =
        isa::unwrap(as_bytes(std::string_view(file).substr(at, size)), isa::FileKind::kProgram);
    mutate(random, payload, {});
    const std::vector<std::byte> wrapped =
        isa::wrap(isa::FileKind::kProgram, payload, isa::Compression::kNone);
    json changed = header;
    json& row = changed["buckets"][0]["program"];
    row["offset"] = file.size();
    row["bytes"] = wrapped.size();
    changed["pieces"].push_back({file.size(), wrapped.size(), uint64_t{0}});
    size_t first = file.size();
    for (const json& piece : header["pieces"]) first = std::min<size_t>(first, piece[0]);
    file += as_text(wrapped);
    put_header(file, changed, first);
    return file;
  }
  std::string text = file.substr(kPreamble, header.dump().size());
  static constexpr std::string_view kWords[] = {
      "-1",    "[]",   "{}",  "null", "18446744073709551615", "\"offset\":0", "\"file\":\"/etc/passwd\"",
      "1e999", "[[[[", "\"\""};
  mutate(random, text, kWords);
  const uint64_t size = text.size();
  std::memcpy(file.data() + 8, &size, 8);
  return file.substr(0, kPreamble) + text + file.substr(kPreamble + header.dump().size());
}

runtime::Model random_model(SplitMix64& random) {
  runtime::Model model;
  auto program =
      std::make_shared<isa::Program>(isa::random_program(random, static_cast<int>(random.below(20))));
  for (isa::TensorId id = 0; id < program->tensor_count(); ++id) {
    const isa::Tensor& tensor = program->tensor(id);
    if (!isa::is_hbm(tensor.space) || tensor.bytes() > 1 << 20) continue;
    const std::vector<int64_t> shape{tensor.rows * tensor.row_elements};
    switch (random.below(3)) {
      case 0: model.inputs.push_back({"x", id, "f32", shape}); break;
      case 1: model.outputs.push_back({"y", id, "f32", shape}); break;
      default: {
        auto bytes = std::make_shared<std::vector<std::byte>>(static_cast<size_t>(tensor.bytes()));
        for (std::byte& byte : *bytes) byte = static_cast<std::byte>(random.below(256));
        model.constants.push_back(
            {id, sim::Buffer::wrap_read_only(bytes->data(), tensor.bytes(), bytes), "", 0});
      }
    }
  }
  if (program->size() > 0) {
    model.origin.ops.push_back({"stablehlo.add", "tensor<4xf32>", {"model.mlir", 3, "main"}, 4.0});
    model.origin.spans.push_back({0, 0, 0, isa::Purpose::kCompute});
  }
  model.program = std::move(program);
  return model;
}

isa::Origin random_origin(SplitMix64& random) {
  isa::Origin origin;
  for (uint32_t n = random.below(6); n > 0; --n)
    origin.ops.push_back({"stablehlo.add", "tensor<4xf32>", {"model.mlir", 3, "main"}, 4.0});
  const auto ops = static_cast<uint32_t>(origin.ops.size());
  for (isa::InstructionIndex at = 0; at < kInstructions; at += 1 + random.below(9)) {
    const uint32_t op = random.below(ops + 1);
    origin.spans.push_back({at, op == ops ? isa::kNoModelOp : op, random.below(4),
                            static_cast<isa::Purpose>(random.below(isa::kPurposeCount))});
  }
  return origin;
}

// `read` of what may be damaged: an input error, or a capacity that it is beyond.
template <typename Read>
void expect_fault_or_nothing(Read&& read) {
  try {
    read();
  } catch (const Fault& fault) {
    if (fault.kind() != FaultKind::kInput && fault.kind() != FaultKind::kCapacity)
      broken("a bad file is not an input error: {}", fault.what());
  }
}

}  // namespace

void model_bytes(Bytes file) {
  const std::string container = sealed(std::string(as_text(file)));
  expect_fault_or_nothing([&] {
    const runtime::Artifact artifact = runtime::artifact_of(container, "fuzz.neuron");
    for (const runtime::Bucket& bucket : artifact.buckets) (void)isa::to_text(*bucket.model.program);
    // What was accepted is written and read again.
    (void)runtime::artifact_of(runtime::to_bytes(artifact), "again.neuron");
  });
}

void origin_bytes(Bytes file) {
  expect_fault_or_nothing([&] {
    const isa::Origin origin = runtime::decode_origin(file, kInstructions);
    if (runtime::encode(runtime::decode_origin(runtime::encode(origin), kInstructions)) !=
        runtime::encode(origin))
      broken("a table of ops that was accepted is another one when it is read again");
  });
}

std::vector<std::byte> model_seed(SplitMix64& random) {
  runtime::Artifact artifact;
  artifact.facts["target"] = "trn2";
  artifact.buckets.push_back({{{"batch", 2}}, random_model(random)});
  if (random.below(2) == 0)
    artifact.attachments.push_back({"model.onnx", "an attached file", nullptr, "", 0});
  return copy_of(as_bytes(runtime::to_bytes(artifact)));
}

std::vector<std::byte> origin_seed(SplitMix64& random) { return runtime::encode(random_origin(random)); }

void model_case(uint64_t seed) {
  SplitMix64 random(seed);
  const std::vector<std::byte> whole = model_seed(random);
  (void)runtime::artifact_of(as_text(whole), "whole.neuron");  // throws where what is written cannot be read
  for (int i = 0; i < 10; ++i) model_bytes(as_bytes(damaged(random, std::string(as_text(whole)))));
}

void origin_case(uint64_t seed) {
  SplitMix64 random(seed);
  const std::vector<std::byte> whole = origin_seed(random);
  if (runtime::encode(runtime::decode_origin(whole, kInstructions)) != whole)
    broken("what was loaded is not what was saved");
  for (int i = 0; i < 10; ++i) {
    std::vector<std::byte> bad = whole;
    mutate(random, bad, {});
    origin_bytes(bad);
  }
}

}  // namespace opentrn::fuzz
