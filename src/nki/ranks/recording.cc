#include "nki/ranks/recording.h"

#include <tuple>
#include <utility>

#include "isa/file.h"
#include "isa/file_bytes.h"

namespace opentrn::nki {

namespace {

using isa::file::Reader;
using isa::file::Writer;

void write_request(Writer& writer, const collectives::Request& request) {
  writer.byte(static_cast<uint8_t>(request.kind));
  writer.signed_number(request.ranks);
  writer.signed_number(request.bytes);
  writer.byte(static_cast<uint8_t>(request.dtype));
  writer.byte(static_cast<uint8_t>(request.reduction));
  writer.signed_number(request.root);
  writer.number(request.pairs.size());
  for (const auto& [source, target] : request.pairs) {
    writer.signed_number(source);
    writer.signed_number(target);
  }
  writer.number(request.counts.size());
  for (const int64_t count : request.counts) writer.signed_number(count);
}

collectives::Request read_request(Reader& reader) {
  collectives::Request request;
  request.kind = static_cast<collectives::Kind>(reader.below(collectives::kKindCount, "kind"));
  request.ranks = static_cast<int>(reader.signed_number());
  request.bytes = reader.signed_number();
  request.dtype = static_cast<DType>(reader.byte());
  request.reduction =
      static_cast<collectives::Reduction>(reader.below(collectives::kReductionCount, "reduction"));
  request.root = static_cast<int>(reader.signed_number());
  for (size_t left = reader.count("pairs"); left > 0; --left) {
    const auto source = static_cast<int>(reader.signed_number());
    request.pairs.emplace_back(source, static_cast<int>(reader.signed_number()));
  }
  for (size_t left = reader.count("counts"); left > 0; --left)
    request.counts.push_back(reader.signed_number());
  return request;
}

void write_record(Writer& writer, const CollectiveRecord& record) {
  writer.text(record.function);
  writer.text(record.what);
  writer.number(record.group.size());
  for (const int rank : record.group) writer.signed_number(rank);
  writer.signed_number(record.core);
  writer.signed_number(record.bytes);
  writer.byte(record.on_chip);
  writer.signed_number(record.priority);
  writer.number(record.requests.size());
  for (const collectives::Request& request : record.requests) write_request(writer, request);
  writer.byte(record.lengths_assumed);
  writer.text(record.computed_by);
  writer.text(record.where.file);
  writer.signed_number(record.where.line);
  writer.text(record.where.function);
}

CollectiveRecord read_record(Reader& reader) {
  CollectiveRecord record;
  record.function = reader.text();
  record.what = reader.text();
  for (size_t left = reader.count("ranks"); left > 0; --left)
    record.group.push_back(static_cast<int>(reader.signed_number()));
  record.core = static_cast<int>(reader.signed_number());
  record.bytes = reader.signed_number();
  record.on_chip = reader.byte() != 0;
  record.priority = static_cast<int>(reader.signed_number());
  for (size_t left = reader.count("requests"); left > 0; --left)
    record.requests.push_back(read_request(reader));
  record.lengths_assumed = reader.byte() != 0;
  record.computed_by = reader.text();
  record.where.file = reader.text();
  record.where.line = static_cast<int>(reader.signed_number());
  record.where.function = reader.text();
  return record;
}

// Numbers the collectives of all ranks in the order in which their marks name them.
class Numbering {
 public:
  explicit Numbering(std::vector<CollectiveRecord>& records) : records_(records) {}
  // Of the rank whose records follow.
  void begin_rank() {
    met_.clear();
    numbers_.clear();
  }
  size_t number_of(uint64_t own, CollectiveRecord record) {
    const auto [known, is_new] = numbers_.try_emplace(own, records_.size());
    if (!is_new) return known->second;
    const Key key{record.group, record.core, met_[{record.group, record.core}]++};
    const auto [found, is_first] = all_.try_emplace(key, records_.size());
    if (is_first) records_.push_back(std::move(record));
    return known->second = found->second;
  }

 private:
  using Key = std::tuple<std::vector<int>, int, int64_t>;  // group, core, how many of these before
  std::vector<CollectiveRecord>& records_;
  std::map<Key, size_t> all_;
  std::map<std::pair<std::vector<int>, int>, int64_t> met_;
  std::map<uint64_t, size_t> numbers_;  // of the rank, by its own
};

void read_rank(Reader& reader, Numbering& numbering, RecordedRank& rank) {
  numbering.begin_rank();
  rank.generation = static_cast<Generation>(reader.byte());
  rank.moves_rows = reader.byte() != 0;
  for (size_t left = reader.count("loops"); left > 0; --left) {
    sim::TripCounts& trips = rank.trips[static_cast<isa::InstructionIndex>(reader.number())];
    for (size_t runs = reader.count("runs"); runs > 0; --runs) {
      const int64_t iterations = reader.signed_number();
      trips.runs.push_back({iterations, reader.signed_number()});
    }
  }
  for (size_t left = reader.count("cores"); left > 0; --left) {
    RecordedCore& core = rank.cores.emplace_back();
    core.program = std::make_shared<isa::Program>(isa::decode_program(reader.data("program")));
    for (size_t marks = reader.count("collectives"); marks > 0; --marks) {
      const uint64_t own = reader.number();
      const size_t record = numbering.number_of(own, read_record(reader));
      const size_t begin = reader.number(), met = reader.number();
      core.collectives.push_back({record, begin, met, reader.number()});
    }
  }
}

}  // namespace

RecordedRank recorded(std::span<const std::shared_ptr<Machine>> cores) {
  RecordedRank rank;
  rank.generation = cores[0]->generation();
  rank.trips = cores[0]->core().trip_counts();
  rank.moves_rows = cores[0]->moves_rows();
  for (const auto& machine : cores) rank.cores.push_back({machine->program(), machine->collectives()});
  return rank;
}

RecordedLaunch recorded_launch(std::span<const std::vector<std::shared_ptr<Machine>>> ranks) {
  OPENTRN_CHECK(!ranks.empty() && ranks[0].at(0)->ranks() != nullptr, "a launch without several ranks");
  RecordedLaunch launch;
  for (const auto& machines : ranks) launch.ranks.push_back(recorded(machines));
  launch.records = records_of(*ranks[0][0]->ranks());
  return launch;
}

std::vector<std::byte> encode(const RecordedRank& rank, std::span<const CollectiveRecord> records) {
  Writer writer;
  writer.byte(static_cast<uint8_t>(rank.generation));
  writer.byte(rank.moves_rows);
  writer.number(rank.trips.size());
  for (const auto& [loop, trips] : rank.trips) {
    writer.number(loop);
    writer.number(trips.runs.size());
    for (const sim::TripCounts::Run& run : trips.runs) {
      writer.signed_number(run.iterations);
      writer.signed_number(run.entries);
    }
  }
  writer.number(rank.cores.size());
  for (const RecordedCore& core : rank.cores) {
    writer.data(isa::encode(*core.program));
    writer.number(core.collectives.size());
    for (const Machine::CollectiveMark& mark : core.collectives) {
      writer.number(mark.record);
      write_record(writer, records[mark.record]);
      for (const size_t at : {mark.begin, mark.met, mark.end}) writer.number(at);
    }
  }
  return writer.take();
}

RecordedLaunch decode_launch(std::span<const std::span<const std::byte>> ranks) {
  RecordedLaunch launch;
  Numbering numbering(launch.records);
  for (const std::span<const std::byte> bytes : ranks) {
    Reader reader(bytes, "a rank of another process");
    read_rank(reader, numbering, launch.ranks.emplace_back());
  }
  return launch;
}

}  // namespace opentrn::nki
