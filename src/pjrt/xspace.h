// tensorflow.profiler.XSpace, the message in *.xplane.pb files, as far as a device's timeline needs it.
// Source of the fields: third_party/tsl/tsl/profiler/protobuf/xplane.proto of openxla/xla.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace opentrn::pjrt {

// One row of planes per device; a row of lines per plane; events on lines, times in picoseconds from the
// plane's begin.
class XPlane {
 public:
  using Stat = std::pair<std::string_view, std::variant<int64_t, double, std::string_view>>;

  // `begin_ns`: of the Unix epoch.
  XPlane(int64_t id, std::string name, int64_t begin_ns)
      : id_(id), name_(std::move(name)), begin_ns_(begin_ns) {}

  void add_stat(const Stat& stat);
  void add_event(const std::string& line, std::string_view name, int64_t offset_ps, int64_t duration_ps,
                 const std::vector<Stat>& stats);
  int64_t begin_ns() const { return begin_ns_; }
  std::string to_bytes() const;

 private:
  static uint64_t number_of(std::map<std::string, uint64_t, std::less<>>& names, std::string_view name);
  std::string bytes_of(const Stat& stat);

  int64_t id_;
  std::string name_;
  int64_t begin_ns_;
  std::map<std::string, uint64_t, std::less<>> event_names_, stat_names_;
  std::vector<std::string> stats_;
  // In the order in which they came up.
  std::vector<std::pair<std::string, std::string>> lines_;  // name, serialised events
  std::map<std::string, size_t, std::less<>> line_numbers_;
};

std::string xspace_bytes(const std::vector<XPlane>& planes);

}  // namespace opentrn::pjrt
