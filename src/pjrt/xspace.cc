#include "pjrt/xspace.h"

#include <protozero/pbf_writer.hpp>

namespace opentrn::pjrt {

namespace {

using protozero::pbf_writer;

// map<int64, Metadata>, where Metadata has an id and a name.
void write_names(pbf_writer& to, uint32_t tag, const std::map<std::string, uint64_t, std::less<>>& names) {
  for (const auto& [name, number] : names) {
    std::string metadata_bytes, entry_bytes;
    pbf_writer metadata(metadata_bytes), entry(entry_bytes);
    metadata.add_int64(1, static_cast<int64_t>(number));
    metadata.add_string(2, name);
    entry.add_int64(1, static_cast<int64_t>(number));
    entry.add_message(2, metadata_bytes);
    to.add_message(tag, entry_bytes);
  }
}

}  // namespace

uint64_t XPlane::number_of(std::map<std::string, uint64_t, std::less<>>& names, std::string_view name) {
  const auto found = names.find(name);
  if (found != names.end()) return found->second;
  const uint64_t number = names.size() + 1;
  names.emplace(name, number);
  return number;
}

std::string XPlane::bytes_of(const Stat& stat) {
  std::string bytes;
  pbf_writer writer(bytes);
  writer.add_int64(1, static_cast<int64_t>(number_of(stat_names_, stat.first)));
  if (const auto* number = std::get_if<int64_t>(&stat.second)) writer.add_int64(4, *number);
  if (const auto* real = std::get_if<double>(&stat.second)) writer.add_double(2, *real);
  if (const auto* text = std::get_if<std::string_view>(&stat.second))
    writer.add_string(5, text->data(), text->size());
  return bytes;
}

void XPlane::add_stat(const Stat& stat) { stats_.push_back(bytes_of(stat)); }

void XPlane::add_event(const std::string& line, std::string_view name, int64_t offset_ps, int64_t duration_ps,
                       const std::vector<Stat>& stats) {
  const auto [place, fresh] = line_numbers_.try_emplace(line, lines_.size());
  if (fresh) lines_.emplace_back(line, std::string());
  std::string event_bytes;
  pbf_writer event(event_bytes);
  event.add_int64(1, static_cast<int64_t>(number_of(event_names_, name)));
  event.add_int64(2, offset_ps);
  event.add_int64(3, duration_ps);
  for (const Stat& stat : stats) event.add_message(4, bytes_of(stat));
  pbf_writer(lines_[place->second].second).add_message(4, event_bytes);
}

std::string XPlane::to_bytes() const {
  std::string bytes;
  pbf_writer plane(bytes);
  plane.add_int64(1, id_);
  plane.add_string(2, name_);
  int64_t number = 0;
  for (const auto& [name, events] : lines_) {
    std::string line_bytes;
    pbf_writer line(line_bytes);
    line.add_int64(1, ++number);
    line.add_string(2, name);
    line.add_int64(3, begin_ns_);
    line_bytes += events;
    plane.add_message(3, line_bytes);
  }
  write_names(plane, 4, event_names_);
  write_names(plane, 5, stat_names_);
  for (const std::string& stat : stats_) plane.add_message(6, stat);
  return bytes;
}

std::string xspace_bytes(const std::vector<XPlane>& planes) {
  std::string bytes;
  pbf_writer space(bytes);
  for (const XPlane& plane : planes) space.add_message(1, plane.to_bytes());
  return bytes;
}

}  // namespace opentrn::pjrt
