#include "cli/nccom_options.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/fault.h"
#include "numerics/dtype.h"

namespace opentrn::cli::nccom {

namespace {

[[noreturn]] void refuse_argument(const std::string& message, const std::string& hint) {
  throw Fault(FaultKind::kInput, "nccom_test.argument", message, hint);
}

constexpr std::array<std::pair<const char*, const char*>, 8> kNames = {{{"allr", "all_reduce"},
                                                                        {"allg", "all_gather"},
                                                                        {"allgv", "all_gatherv"},
                                                                        {"redsct", "reduce_scatter"},
                                                                        {"sendrecv", "sendrecv"},
                                                                        {"alltoall", "alltoall"},
                                                                        {"alltoallv", "alltoallv"},
                                                                        {"permute", "permute"}}};

constexpr std::array<std::pair<const char*, DType>, 11> kTypes = {{{"uint8", DType::kUint8},
                                                                   {"int8", DType::kInt8},
                                                                   {"fp8", DType::kFloat8E4M3},
                                                                   {"fp8e4", DType::kFloat8E4M3},
                                                                   {"uint16", DType::kUint16},
                                                                   {"int16", DType::kInt16},
                                                                   {"fp16", DType::kFloat16},
                                                                   {"bf16", DType::kBFloat16},
                                                                   {"uint32", DType::kUint32},
                                                                   {"int32", DType::kInt32},
                                                                   {"fp32", DType::kFloat32}}};

constexpr size_t kSizesMax = 100'000;
constexpr int64_t kBytesMax = int64_t{1} << 56;  // as collectives have them

std::string list(const auto& pairs) {
  std::vector<std::string> names;
  for (const auto& [name, what] : pairs) names.emplace_back(name);
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

int64_t bytes_of(const std::string& text, const std::string& option) {
  int64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  std::string unit(rest, end);
  std::transform(unit.begin(), unit.end(), unit.begin(), [](unsigned char c) { return std::tolower(c); });
  const std::array<std::string, 4> units = {"", "k", "m", "g"};
  const std::string letter = unit.size() == 2 && unit[1] == 'b' ? unit.substr(0, 1) : unit == "b" ? "" : unit;
  const auto found = std::find(units.begin(), units.end(), letter);
  if (error != std::errc{} || number <= 0 || found == units.end())
    refuse_argument(fmt::format("{} {}: not a size in bytes", option, text),
                    "a number, or one with kb, MB or GB: 1kb");
  const auto shift = 10 * (found - units.begin());
  if (number > (kBytesMax >> shift))
    refuse_argument(fmt::format("{} {}: too many bytes", option, text),
                    fmt::format("at most {} GB", kBytesMax >> 30));
  return number << shift;
}

std::vector<int64_t> sizes_of(const Operation& operation) {
  const int64_t least = bytes_of(operation.minbytes, "--minbytes");
  const int64_t most = bytes_of(operation.maxbytes, "--maxbytes");
  if (most < least)
    refuse_argument(
        fmt::format("--maxbytes {} is less than --minbytes {}", operation.maxbytes, operation.minbytes),
        "the larger one as --maxbytes");
  if (!operation.stepfactor.empty() && !operation.stepbytes.empty())
    refuse_argument("--stepbytes and --stepfactor are both given", "one of them");
  std::vector<int64_t> sizes;
  const auto add = [&](int64_t size) {
    if (sizes.size() == kSizesMax)
      refuse_argument(fmt::format("more than {} sizes", kSizesMax), "a larger step");
    sizes.push_back(size);
  };
  if (!operation.stepfactor.empty()) {
    const std::string& text = operation.stepfactor;
    int64_t factor = 0;
    const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), factor);
    if (error != std::errc{} || rest != text.data() + text.size() || factor < 1)
      refuse_argument(fmt::format("--stepfactor {}: not a whole number", text), "a factor of 2 or more");
    if (factor < 2) refuse_argument("--stepfactor 1: the size would stay as it is", "a factor of 2 or more");
    for (int64_t size = least; size <= most; size *= factor) {
      add(size);
      if (size > most / factor) break;
    }
    return sizes;
  }
  const int64_t step = operation.stepbytes.empty() ? std::max<int64_t>(1, (most - least) / 10)
                                                   : bytes_of(operation.stepbytes, "--stepbytes");
  for (int64_t size = least;; size += step) {
    add(size);
    if (most - size < step) break;
  }
  return sizes;
}

std::span<const std::pair<const char*, const char*>> names() { return kNames; }

std::string long_name(const std::string& operation) {
  for (const auto& [brief, full] : kNames)
    if (operation == brief || operation == full) return full;
  refuse_argument(fmt::format("'{}' is not an operation", operation), "one of " + list(kNames));
}

collectives::Kind kind_of(const std::string& long_name) {
  using collectives::Kind;
  constexpr std::array<std::pair<std::string_view, Kind>, 8> kKinds = {
      {{"all_reduce", Kind::kAllReduce},
       {"all_gather", Kind::kAllGather},
       {"all_gatherv", Kind::kAllGatherV},
       {"reduce_scatter", Kind::kReduceScatter},
       {"sendrecv", Kind::kPermute},
       {"alltoall", Kind::kAllToAll},
       {"alltoallv", Kind::kAllToAllV},
       {"permute", Kind::kPermute}}};
  for (const auto& [name, kind] : kKinds)
    if (long_name == name) return kind;
  refuse_argument(fmt::format("'{}' is not an operation", long_name), "one of " + list(kNames));
}

DType dtype_of(const std::string& datatype) {
  for (const auto& [name, dtype] : kTypes)
    if (datatype == name) return dtype;
  refuse_argument(fmt::format("--datatype {}: no such type", datatype), "one of " + list(kTypes));
}

}  // namespace opentrn::cli::nccom
