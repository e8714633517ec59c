#include "cli/nccom_groups.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <numeric>
#include <set>
#include <sstream>
#include <type_traits>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/fault.h"
#include "base/text_file.h"

namespace opentrn::cli::nccom {

namespace {

using nlohmann::json;

constexpr std::streamoff kFileBytesMax = 64 << 20;
constexpr int64_t kNumberMax = 1 << 30;  // of a stream

[[noreturn]] void refuse(const std::string& message, const std::string& hint) {
  throw Fault(FaultKind::kInput, "nccom_test.file", message, hint);
}

json read(const std::string& path) {
  expect_text_file(path, "nccom_test.file", "the path of a JSON file");
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) refuse(fmt::format("{} cannot be read", path), "the path of a JSON file");
  if (file.tellg() > kFileBytesMax) refuse(fmt::format("{} has more than 64 MiB", path), "a smaller file");
  file.seekg(0);
  try {
    return json::parse(file);
  } catch (const json::exception& error) {
    refuse(fmt::format("{} is not JSON: {}", path, error.what()),
           "see the samples of AWS's guide to nccom-test");
  }
}

// JSON's library makes whole numbers of fractions, cuts off what is too large, and takes two of three.
void expect_whole_numbers(const json& value) {
  constexpr int64_t kMost = int64_t{1} << 40;
  if (value.is_number() && (!value.is_number_integer() || value.get<double>() > static_cast<double>(kMost)))
    throw json::type_error::create(302, "no whole number", &value);
  if (value.is_array())
    for (const json& each : value) expect_whole_numbers(each);
}
void convert(const json& value, std::vector<int64_t>& out) { out = value.get<std::vector<int64_t>>(); }
void convert(const json& value, int& out) {
  const auto number = value.get<int64_t>();
  if (number != static_cast<int>(number)) throw json::out_of_range::create(406, "too large", &value);
  out = static_cast<int>(number);
}
void convert(const json& value, std::pair<int, int>& out) {
  if (value.size() != 2) throw json::type_error::create(302, "no pair", &value);
  convert(value.at(0), out.first);
  convert(value.at(1), out.second);
}
void convert(const json& value, json& out) { out = value; }
template <typename T>
void convert(const json& value, std::vector<T>& out) {
  if (!value.is_array()) throw json::type_error::create(302, "no list", &value);
  for (const json& each : value) convert(each, out.emplace_back());
}

template <typename T>
T value_of(const json& file, const std::string& key, const std::string& path, const char* form) {
  try {
    const json& value = file.at(key);
    if constexpr (!std::is_same_v<T, std::vector<json>>) expect_whole_numbers(value);
    T out;
    convert(value, out);
    return out;
  } catch (const json::exception&) {
    refuse(fmt::format("{} has no \"{}\" of the form {}", path, key, form),
           "see the samples of AWS's guide to nccom-test");
  }
}

void check_groups(const Groups& groups, int workers, const std::string& path) {
  std::set<int> seen;
  for (const auto& group : groups) {
    if (group.empty() || group.size() != groups[0].size())
      refuse(fmt::format("{}: a group of {} ranks beside one of {}", path, group.size(), groups[0].size()),
             "groups of one size");
    for (const int rank : group) {
      if (rank < 0 || rank >= workers)
        refuse(fmt::format("{}: rank {} of {} workers", path, rank, workers),
               fmt::format("0 to {}", workers - 1));
      if (!seen.insert(rank).second)
        refuse(fmt::format("{}: rank {} is in two groups", path, rank), "one group a rank");
    }
  }
  if (groups.empty()) refuse(path + ": no groups", "at least one");
}

// The one list of a file that nests it in a list of streams.
template <typename T>
T only(std::vector<T> lists, const std::string& path, const char* what) {
  if (lists.size() != 1)
    refuse(fmt::format("{}: {} lists of {}, for one operation", path, lists.size(), what), "one list");
  return std::move(lists[0]);
}

}  // namespace

Groups groups_of(const Operation& operation, int workers) {
  if (!operation.custom_replica_groups.empty()) {
    const std::string& path = operation.custom_replica_groups;
    auto groups =
        only(value_of<std::vector<Groups>>(read(path), "replica_groups", path, "[[[0, 1], [2, 3]]]"), path,
             "groups");
    check_groups(groups, workers, path);
    return groups;
  }
  const int size = operation.data_parallel_dimension > 0 ? operation.data_parallel_dimension : workers;
  if (workers % size != 0)
    throw Fault(FaultKind::kInput, "nccom_test.argument",
                fmt::format("--data-parallel-dimension {}: {} workers do not divide by it", size, workers),
                "a divisor of the number of workers");
  Groups groups(static_cast<size_t>(workers / size));
  // Ranks of one index on each node make a group, which is what the option is for.
  for (int rank = 0; rank < workers; ++rank)
    groups[static_cast<size_t>(rank) % groups.size()].push_back(rank);
  return groups;
}

std::vector<std::pair<int, int>> pairs_of(const Operation& operation, int ranks) {
  std::vector<std::pair<int, int>> pairs;
  if (const std::string& path = operation.custom_src_target_pairs; !path.empty()) {
    auto given = only(value_of<std::vector<std::vector<std::pair<int, int>>>>(read(path), "src_target_pairs",
                                                                              path, "[[[0, 1], [1, 0]]]"),
                      path, "pairs");
    if (given.empty()) refuse(path + ": no pairs", "at least one");
    return given;
  }
  for (int rank = 0; rank < ranks; ++rank) pairs.emplace_back(rank, (rank + 1) % ranks);
  return pairs;
}

namespace {

// Displacements say where in a buffer parts lie: as many as there are parts, which do not lie on each other
// where they are received.
void check_displacements(const json& entry, const std::string& which, const std::vector<int64_t>& counts,
                         const std::string& path) {
  const std::string key = which + "_displs";
  if (!entry.contains(key)) return;
  const auto at = value_of<std::vector<int64_t>>(entry, key, path, "[0, 512]");
  if (at.empty()) return;
  if (at.size() != counts.size())
    refuse(fmt::format("{}: {} of {} numbers beside {} counts", path, key, at.size(), counts.size()),
           fmt::format("{} of them", counts.size()));
  std::map<int64_t, int64_t> parts;  // where each begins and ends
  for (size_t i = 0; i < at.size(); ++i) {
    if (at[i] < 0) refuse(fmt::format("{}: a displacement of {}", path, at[i]), "0 or more elements");
    if (counts[i] > 0 && which == "recv" && !parts.emplace(at[i], at[i] + counts[i]).second)
      refuse(fmt::format("{}: two parts are received at {}", path, at[i]), "parts that do not overlap");
  }
  int64_t end = 0;
  for (const auto& [begin, ends] : parts) {
    if (begin < end)
      refuse(fmt::format("{}: what is received at {} lies on the part before it, which ends at {}", path,
                         begin, end),
             "parts that do not overlap");
    end = ends;
  }
}

// Of a rank: what it says beside its send counts, against those of all ranks.
void check_entry(const json& entry, const std::vector<std::vector<int64_t>>& rows, size_t rank, bool gathers,
                 const std::string& path) {
  for (const auto& [key, value] : entry.items())
    if (key != "send_counts" && key != "send_displs" && key != "recv_counts" && key != "recv_displs")
      refuse(fmt::format("{}: \"{}\" is nothing that an entry can have", path, key),
             "send_counts, send_displs, recv_counts and recv_displs");
  check_displacements(entry, "send", rows[rank], path);
  std::vector<int64_t> sent;
  for (const auto& row : rows) sent.push_back(row[gathers ? 0 : rank]);
  check_displacements(entry, "recv", sent, path);
  if (!entry.contains("recv_counts")) return;
  const auto received = value_of<std::vector<int64_t>>(entry, "recv_counts", path, "[512, 512]");
  if (received.empty()) return;
  if (received.size() != rows.size())
    refuse(fmt::format("{}: recv_counts of {} numbers for {} ranks", path, received.size(), rows.size()),
           fmt::format("{} of them", rows.size()));
  for (size_t from = 0; from < received.size(); ++from)
    if (received[from] != sent[from])
      refuse(fmt::format("{}: rank {} receives {} elements of rank {}, which sends {}", path, rank,
                         received[from], from, sent[from]),
             "counts that agree");
}

}  // namespace

std::vector<int64_t> counts_of(const Operation& operation, int ranks, int64_t elements) {
  const bool gathers = operation.name == "all_gatherv";
  const size_t each = gathers ? 1 : static_cast<size_t>(ranks);
  std::vector<std::vector<int64_t>> rows(static_cast<size_t>(ranks), std::vector<int64_t>(each, 1));
  if (const std::string& path = operation.variable_size_op_metadata; !path.empty()) {
    const json file = read(path);
    const auto entries = value_of<std::vector<json>>(file, "metadata", path, "[{\"send_counts\": [..]}]");
    if (entries.size() != 1 && entries.size() != rows.size())
      refuse(fmt::format("{}: {} entries for {} ranks", path, entries.size(), ranks),
             "one, or one for each rank");
    for (size_t rank = 0; rank < rows.size(); ++rank) {
      const json& entry = entries[entries.size() == 1 ? 0 : rank];
      rows[rank] = value_of<std::vector<int64_t>>(entry, "send_counts", path, "[512, 1024]");
      if (rows[rank].size() != each)
        refuse(fmt::format("{}: send_counts of {} numbers for {} ranks", path, rows[rank].size(), ranks),
               fmt::format("{} of them", each));
      for (const int64_t count : rows[rank])
        if (count < 0 || count > (int64_t{1} << 40))
          refuse(fmt::format("{}: a send count of {}", path, count), "0 or more elements");
    }
    for (size_t rank = 0; rank < rows.size(); ++rank)
      check_entry(entries[entries.size() == 1 ? 0 : rank], rows, rank, gathers, path);
  }
  // Counts are proportions: they are scaled so that a rank's share of `elements` is kept, rounded up.
  std::vector<int64_t> counts;
  int64_t most = 0;
  for (const auto& row : rows) most = std::max(most, std::accumulate(row.begin(), row.end(), int64_t{0}));
  if (most == 0) refuse("all send counts are 0", "at least one element");
  const int64_t room = gathers ? std::max<int64_t>(1, elements / ranks) : elements;
  const int64_t factor = std::max<int64_t>(1, (room + most - 1) / most);
  for (const auto& row : rows)
    for (const int64_t count : row) counts.push_back(count * factor);
  return counts;
}

std::vector<Operation> streams_of(const std::string& path, const Operation& common) {
  const json file = read(path);
  const auto entries =
      value_of<std::vector<json>>(file, "streams", path, "[{\"operation\": \"all_reduce\"}]");
  if (entries.empty() || entries.size() > 4)
    refuse(fmt::format("{}: {} streams", path, entries.size()), "1 to 4 of them, as a rank has CC-cores for");
  std::vector<Operation> streams;
  for (const json& entry : entries) {
    Operation stream = common;
    const std::map<std::string, std::string*> texts = {
        {"operation", &stream.name},
        {"datatype", &stream.datatype},
        {"minbytes", &stream.minbytes},
        {"maxbytes", &stream.maxbytes},
        {"stepbytes", &stream.stepbytes},
        {"stepfactor", &stream.stepfactor},
        {"custom_replica_groups", &stream.custom_replica_groups},
        {"custom_src_target_pairs", &stream.custom_src_target_pairs},
        {"variable_size_op_metadata", &stream.variable_size_op_metadata}};
    const std::map<std::string, int*> numbers = {{"data_parallel_dimension", &stream.data_parallel_dimension},
                                                 {"ops_per_iter", &stream.ops_per_iter}};
    if (!entry.is_object())
      refuse(path + ": a stream that is not an object", "{\"operation\": \"all_reduce\"}");
    for (const auto& [key, value] : entry.items()) {
      if (const auto text = texts.find(key);
          text != texts.end() && (value.is_string() || value.is_number_integer()))
        *text->second = value.is_string() ? value.get<std::string>() : value.dump();
      else if (const auto number = numbers.find(key); number != numbers.end() && value.is_number_integer())
        *number->second = static_cast<int>(std::clamp<int64_t>(value.get<int64_t>(), -1, kNumberMax));
      else
        refuse(fmt::format("{}: \"{}\": {} is nothing that a stream can be given", path, key, value.dump()),
               "the long names of the options of an operation, with _ for -");
    }
    for (const auto& [key, most] :
         {std::pair("ops_per_iter", 1000), std::pair("data_parallel_dimension", 1 << 20)})
      if (entry.contains(key) && (*numbers.at(key) < 1 || *numbers.at(key) > most))
        refuse(fmt::format("{}: {} of {}", path, key, entry.at(key).dump()), fmt::format("1 to {}", most));
    stream.name = long_name(stream.name);
    streams.push_back(std::move(stream));
  }
  return streams;
}

}  // namespace opentrn::cli::nccom
