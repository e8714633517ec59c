#include "model/stored_call.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include <nlohmann/json.hpp>

namespace opentrn::model {

namespace {

using nlohmann::json;

// The facts are not those of the call. Never leaves this file.
struct Foreign {};

constexpr int64_t kSizeMax = int64_t{1} << 62;

void expect(bool holds) {
  if (!holds) throw Foreign{};
}

int64_t number(const json& value, int64_t low, int64_t high) {
  expect(value.is_number_integer());
  expect(!value.is_number_unsigned() || value.get<uint64_t>() < static_cast<uint64_t>(kSizeMax));
  const auto stated = value.get<int64_t>();
  expect(low <= stated && stated < high);
  return stated;
}

std::vector<int64_t> numbers(const json& values, int64_t high) {
  expect(values.is_array());
  std::vector<int64_t> read;
  for (const json& value : values) read.push_back(number(value, 0, high));
  return read;
}

const std::string& text(const json& value) {
  expect(value.is_string());
  return value.get_ref<const std::string&>();
}

const json& at(const json& value, const char* key) {
  const auto found = value.find(key);
  expect(found != value.end());
  return *found;
}

std::string dtype(const json& value, const Call& call) {
  expect(call.elements.contains(text(value)));
  return text(value);
}

CallInput input_of(const json& row, const Call& call) {
  expect(row.is_array() && row.size() >= 2);
  CallInput input{.kind = text(row[0])};
  if (input.kind == "tensor") {
    expect(row.size() == 2);
  } else {
    expect(row.size() == 3);
    input.dtype = dtype(row[2], call);
  }
  if (input.kind == "number") {
    input.place = number(row[1], 0, call.numbers);
    return input;
  }
  input.place = number(row[1], 0, std::ssize(call.tensors));
  const CallTensor& tensor = call.tensors[static_cast<size_t>(input.place)];
  expect(input.kind == "tensor" ? !tensor.is_number : input.kind == "scalar" && tensor.shape.empty());
  return input;
}

CallOutput output_of(const json& row, const Call& call, int64_t before) {
  expect(row.is_object() && row.size() == 8);
  const int64_t tensors = std::ssize(call.tensors);
  CallOutput output{.target = number(at(row, "target"), -1, tensors),
                    .copied_from = number(at(row, "copied_from"), -1, tensors),
                    .sizes = numbers(at(row, "sizes"), kSizeMax),
                    .strides = numbers(at(row, "strides"), kSizeMax),
                    .dtype = dtype(at(row, "dtype"), call),
                    .repeats = number(at(row, "repeats"), -1, before)};
  expect(output.sizes.size() == output.strides.size() && at(row, "is_in_order").is_boolean());
  output.is_in_order = row["is_in_order"].get<bool>();
  if (const json& order = at(row, "order"); !order.is_null())
    output.order = numbers(order, std::ssize(output.sizes));
  return output;
}

CallReturn return_of(const json& row, int64_t tensors, int64_t outputs) {
  expect(row.is_array() && !row.empty() && row.size() <= 2);
  CallReturn made{.kind = text(row[0])};
  if (made.kind == "none") return made;
  expect(row.size() == 2);
  if (made.kind == "list") {
    made.places = numbers(row[1], outputs);
    return made;
  }
  expect(made.kind == "output" || made.kind == "argument");
  made.places = {number(row[1], 0, made.kind == "output" ? outputs : tensors)};
  return made;
}

// Number of elements; nothing where it is beyond what a program holds.
std::optional<int64_t> count(std::span<const int64_t> sizes) {
  if (std::ranges::find(sizes, 0) != sizes.end()) return 0;
  int64_t product = 1;
  for (const int64_t size : sizes) {
    if (product > kSizeMax / size) return std::nullopt;
    product *= size;
  }
  return product;
}

// Strides of dimensions that lie dense in this order, the slowest first.
std::vector<int64_t> dense_strides(std::span<const int64_t> sizes, std::span<const int64_t> order) {
  std::vector<int64_t> strides(sizes.size());
  int64_t step = 1;
  for (size_t i = order.size(); i-- > 0;) {
    const auto dim = static_cast<size_t>(order[i]);
    strides[dim] = step;
    step *= std::max<int64_t>(sizes[dim], 1);
  }
  return strides;
}

// Elements lie one after the other in the memory that they are written to.
void hold_dense(const CallOutput& output, const Call& call) {
  expect(output.order.has_value());
  std::vector<int64_t> sorted = *output.order;
  std::ranges::sort(sorted);
  std::vector<int64_t> all(output.sizes.size());
  std::iota(all.begin(), all.end(), 0);
  expect(sorted == all);
  if (output.target < 0) {
    expect(dense_strides(output.sizes, *output.order) == output.strides);
    return;
  }
  const CallTensor& target = call.tensors[static_cast<size_t>(output.target)];
  expect(target.element == call.elements.at(output.dtype));
  expect(output.sizes != target.shape || target.is_dense);
}

void hold_inputs(const StoredCall& stored, const Call& call) {
  std::vector<std::pair<std::string, std::vector<int64_t>>> expected;
  for (const CallInput& input : stored.inputs) {
    if (input.kind != "tensor") {
      expected.emplace_back(call.elements.at(input.dtype), std::vector<int64_t>{});
      continue;
    }
    const CallTensor& tensor = call.tensors[static_cast<size_t>(input.place)];
    expected.emplace_back(tensor.element, tensor.memory_shape);
  }
  if (stored.draws) expected.emplace_back("ui32", std::vector<int64_t>{4});
  expect(std::ranges::equal(expected, call.inputs, [](const auto& wanted, const NamedPort& port) {
    return wanted.first == std::get<1>(port) && wanted.second == std::get<2>(port);
  }));
}

void hold_outputs(const StoredCall& stored, const Call& call) {
  size_t written = 0;
  for (const CallOutput& output : stored.outputs) {
    if (output.copied_from >= 0 || output.repeats >= 0) continue;
    expect(written < call.outputs.size());
    const auto& [name, element, shape] = call.outputs[written++];
    const std::optional<int64_t> elements = count(output.sizes);
    expect(element == call.elements.at(output.dtype) && elements && elements == count(shape));
    if (output.is_in_order) hold_dense(output, call);
  }
  expect(written == call.outputs.size());
}

StoredCall read(const json& facts, const Call& call) {
  expect(facts.is_object());
  StoredCall stored;
  const json& draws = at(facts, "draws");
  stored.draws = draws.is_boolean() && draws.get<bool>();
  for (const char* key : {"inputs", "outputs", "returned"}) expect(at(facts, key).is_array());
  for (const json& row : facts["inputs"]) stored.inputs.push_back(input_of(row, call));
  for (const json& row : facts["outputs"])
    stored.outputs.push_back(output_of(row, call, std::ssize(stored.outputs)));
  for (const json& row : facts["returned"])
    stored.returned.push_back(return_of(row, std::ssize(call.tensors), std::ssize(stored.outputs)));
  return stored;
}

}  // namespace

std::optional<StoredCall> stored_call(std::string_view facts, const Call& call) {
  try {
    StoredCall stored = read(json::parse(facts, nullptr, false), call);
    hold_inputs(stored, call);
    hold_outputs(stored, call);
    return stored;
  } catch (const Foreign&) {
    return std::nullopt;
  }
}

}  // namespace opentrn::model
