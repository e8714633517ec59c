#include "pjrt/op_sharding.h"

#include <algorithm>
#include <vector>

#include <protozero/pbf_writer.hpp>

namespace opentrn::pjrt {

std::string op_sharding(const spmd::Sharding& sharding, int rank, int64_t devices) {
  std::string bytes;
  if (sharding.replicated()) return bytes;  // type REPLICATED is 0
  std::vector<int64_t> tiles;
  for (int d = 0; d < rank; ++d) tiles.push_back(sharding.shards(static_cast<size_t>(d)));
  struct Place {
    int64_t tile = 0, copy = 0, term = 0, device = 0;
    auto operator<=>(const Place&) const = default;
  };
  std::vector<Place> places;
  int64_t copies = 1, terms = 1;
  for (int64_t device = 0; device < devices; ++device) {
    Place& place = places.emplace_back();
    place.device = device;
    for (int d = 0; d < rank; ++d)
      place.tile =
          place.tile * tiles[static_cast<size_t>(d)] + sharding.shard(static_cast<size_t>(d), device);
    place.copy = sharding.copy(device);
    place.term = sharding.term(device);
    copies = std::max(copies, place.copy + 1);
    terms = std::max(terms, place.term + 1);
  }
  std::sort(places.begin(), places.end());
  std::vector<int64_t> ids, kinds;
  for (const Place& place : places) ids.push_back(place.device);
  if (copies > 1) {
    tiles.push_back(copies);
    kinds.push_back(0);  // REPLICATED
  }
  if (terms > 1) {
    tiles.push_back(terms);
    kinds.push_back(6);  // UNREDUCED
  }
  protozero::pbf_writer writer(bytes);
  writer.add_enum(1, 3);  // OTHER
  writer.add_packed_int64(3, tiles.begin(), tiles.end());
  writer.add_packed_int64(4, ids.begin(), ids.end());
  if (terms == 1 && copies > 1) writer.add_bool(6, true);                 // replicate_on_last_tile_dim
  if (terms > 1) writer.add_packed_int64(8, kinds.begin(), kinds.end());  // last_tile_dims
  return bytes;
}

}  // namespace opentrn::pjrt
