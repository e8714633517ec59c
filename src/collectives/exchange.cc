#include "collectives/exchange.h"

#include <algorithm>
#include <numeric>

namespace opentrn::collectives {

namespace {

__extension__ using Wide = __int128;  // elements times a place may pass 64 bits

// How a request's parts lie: positions are those of its larger buffer.
Exchange exchange_of(const Request& request, int element_bytes) {
  Exchange exchange;
  exchange.members = all_ranks(request.ranks);
  const int64_t total = request.kind == Kind::kAllGather ? request.bytes * request.ranks : request.bytes;
  for (int rank = 0; rank < request.ranks; ++rank)
    exchange.parts.push_back({part_of(Range{0, total}, request.ranks, rank, element_bytes)});
  return exchange;
}

View own_part_at_zero(Buffer buffer, const std::vector<Ranges>& parts) {
  return [buffer, &parts](int member, int64_t position) {
    return Slice{buffer, position - parts[static_cast<size_t>(member)][0].offset};
  };
}

}  // namespace

Range part_of(Range range, int parts, int index, int element_bytes) {
  const int64_t elements = range.bytes / element_bytes;
  const auto cut = [&](int at) {
    return static_cast<int64_t>(static_cast<Wide>(elements) * at / parts) * element_bytes;
  };
  return {range.offset + cut(index), cut(index + 1) - cut(index)};
}

Ranges part_of(const Ranges& ranges, int parts, int index, int element_bytes) {
  Ranges result;
  for (const Range& range : ranges) {
    const Range part = part_of(range, parts, index, element_bytes);
    if (part.bytes > 0) result.push_back(part);
  }
  return result;
}

int64_t bytes_of(const Ranges& ranges) {
  return std::accumulate(ranges.begin(), ranges.end(), int64_t{0},
                         [](int64_t sum, const Range& range) { return sum + range.bytes; });
}

View view_of(Buffer buffer, int64_t shift) {
  return [buffer, shift](int, int64_t position) { return Slice{buffer, position + shift}; };
}

View packed_view(int64_t offset, const Ranges& ranges) {
  std::vector<std::pair<int64_t, int64_t>> places;  // position, offset
  for (const Range& range : ranges) {
    places.emplace_back(range.offset, offset);
    offset += range.bytes;
  }
  std::ranges::sort(places);
  return [places = std::move(places)](int, int64_t position) {
    const auto after = std::ranges::upper_bound(places, position, {}, &std::pair<int64_t, int64_t>::first);
    const auto& place = *std::prev(after);
    return Slice{Buffer::kScratch, place.second + position - place.first};
  };
}

Ranges joined_ranges(Ranges ranges) {
  std::ranges::sort(ranges, {}, &Range::offset);
  Ranges joined;
  for (const Range& range : ranges) {
    if (range.bytes == 0) continue;
    if (!joined.empty() && joined.back().offset + joined.back().bytes == range.offset)
      joined.back().bytes += range.bytes;
    else
      joined.push_back(range);
  }
  return joined;
}

void keep_own_parts(Builder& builder, const Exchange& exchange, int channel) {
  for (int member = 0; member < static_cast<int>(exchange.members.size()); ++member)
    copy_ranges(builder, channel, exchange, exchange.source, member, member,
                exchange.parts[static_cast<size_t>(member)]);
}

std::vector<int> all_ranks(int ranks) {
  std::vector<int> members(static_cast<size_t>(ranks));
  std::iota(members.begin(), members.end(), 0);
  return members;
}

void copy_ranges(Builder& builder, int channel, const Exchange& exchange, const View& from_view, int from,
                 int to, const Ranges& ranges) {
  At pending_from, pending_to;
  int64_t bytes = 0;
  for (const Range& range : ranges) {
    const At source{exchange.members[static_cast<size_t>(from)], from_view(from, range.offset)};
    const At target{exchange.members[static_cast<size_t>(to)], exchange.target(to, range.offset)};
    const auto continues = [bytes](const Slice& pending, const Slice& next) {
      return pending.buffer == next.buffer && pending.offset + bytes == next.offset;
    };
    if (bytes > 0 && continues(pending_from.slice, source.slice) &&
        continues(pending_to.slice, target.slice)) {
      bytes += range.bytes;
      continue;
    }
    builder.copy(channel, pending_from, pending_to, bytes);
    pending_from = source;
    pending_to = target;
    bytes = range.bytes;
  }
  builder.copy(channel, pending_from, pending_to, bytes);
}

std::string why_not_whole(const ExchangeAlgorithm& exchange, const Request& request, const Layout& layout) {
  if (request.kind != Kind::kAllReduce && request.kind != Kind::kAllGather &&
      request.kind != Kind::kReduceScatter)
    return fmt::format("it serves all_reduce, all_gather and reduce_scatter, not {}", name_of(request.kind));
  return exchange.why_not(layout, all_ranks(request.ranks));
}

Plan whole_plan(const ExchangeAlgorithm& algorithm, const Request& request, const Layout& layout) {
  Builder builder(request, algorithm.name);
  Exchange exchange = exchange_of(request, size_bytes(request.dtype));
  const View output = view_of(Buffer::kOutput);
  switch (request.kind) {
    case Kind::kAllGather:
      exchange.source = own_part_at_zero(Buffer::kInput, exchange.parts);
      exchange.target = output;
      algorithm.gather(builder, layout, exchange);
      break;
    case Kind::kReduceScatter:
      exchange.source = view_of(Buffer::kInput);
      exchange.target = own_part_at_zero(Buffer::kOutput, exchange.parts);
      algorithm.reduce(builder, layout, exchange);
      break;
    default:
      exchange.source = view_of(Buffer::kInput);
      exchange.target = output;
      algorithm.reduce(builder, layout, exchange);
      exchange.source = output;
      algorithm.gather(builder, layout, exchange);
  }
  return std::move(builder).take();
}

Algorithm whole_algorithm(const ExchangeAlgorithm& exchange) {
  return {exchange.name,
          [&exchange](const Request& request, const Layout& layout) {
            return why_not_whole(exchange, request, layout);
          },
          [&exchange](const Request& request, const Layout& layout) {
            return whole_plan(exchange, request, layout);
          }};
}

}  // namespace opentrn::collectives
