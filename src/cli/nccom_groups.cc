#include "cli/nccom_groups.h"

#include <fstream>
#include <map>
#include <numeric>
#include <set>
#include <sstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/fault.h"
#include "base/text_file.h"

namespace opentrn::cli::nccom {

namespace {

using nlohmann::json;

constexpr std::streamoff kFileBytesMax = 64 << 20;

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

template <typename T>
T value_of(const json& file, const std::string& key, const std::string& path, const char* form) {
  try {
    return file.at(key).get<T>();
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
  if (const std::string& path = operation.custom_src_target_pairs; !path.empty())
    return only(value_of<std::vector<std::vector<std::pair<int, int>>>>(read(path), "src_target_pairs", path,
                                                                        "[[[0, 1], [1, 0]]]"),
                path, "pairs");
  for (int rank = 0; rank < ranks; ++rank) pairs.emplace_back(rank, (rank + 1) % ranks);
  return pairs;
}

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
    for (size_t rank = 0; rank < rows.size(); ++rank) {
      const json& entry = entries[entries.size() == 1 ? 0 : rank];
      const auto received = entry.value("recv_counts", std::vector<int64_t>());
      for (size_t from = 0; from < received.size(); ++from) {
        const int64_t sent = from < rows.size() ? rows[from][gathers ? 0 : rank] : 0;
        if (from >= rows.size() || (received[from] != sent && entries.size() > 1))
          refuse(fmt::format("{}: rank {} receives {} elements of rank {}, which sends {}", path, rank,
                             received[from], from, sent),
                 "counts that agree");
      }
    }
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
        *number->second = value.get<int>();
      else
        refuse(fmt::format("{}: \"{}\": {} is nothing that a stream can be given", path, key, value.dump()),
               "the long names of the options of an operation, with _ for -");
    }
    if (stream.ops_per_iter < 1 || stream.ops_per_iter > 1000)
      refuse(fmt::format("{}: ops_per_iter of {}", path, stream.ops_per_iter), "1 to 1000");
    stream.name = long_name(stream.name);
    streams.push_back(std::move(stream));
  }
  return streams;
}

}  // namespace opentrn::cli::nccom
