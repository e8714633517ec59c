#include "collectives/hierarchical.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "collectives/rules.h"
#include "collectives/two_level.h"

namespace opentrn::collectives {

namespace {

const ExchangeAlgorithm* exchange_named(const std::string& name) {
  if (const ExchangeAlgorithm* found = find_stage(name)) return found;
  refuse(Rule::kAlgorithm, "there is no algorithm '{}' for a stage; there are {}", name, names_of_stages());
}

const ExchangeAlgorithm& within_instance(const Layout& layout, const std::vector<int>& members) {
  return kangaring_exchange().why_not(layout, members).empty() ? kangaring_exchange() : ring_exchange();
}

// Members by instance of their server, in order of their places.
std::vector<std::vector<int>> members_by_instance(const Layout& layout, const std::vector<int>& members) {
  std::map<std::pair<int, int>, std::vector<int>> found;
  const auto place = [&](int member) {
    return layout.ranks[static_cast<size_t>(members[static_cast<size_t>(member)])];
  };
  for (int i = 0; i < static_cast<int>(members.size()); ++i)
    found[{place(i).server, layout.instance(place(i))}].push_back(i);
  std::vector<std::vector<int>> lists;
  for (auto& [instance, list] : found) {
    std::ranges::sort(list, {}, place);
    lists.push_back(std::move(list));
  }
  return lists;
}

// "": all instances have members at the same chips and slots.
std::string why_not_by_instance(const Layout& layout, const std::vector<int>& members) {
  const auto sites = members_by_instance(layout, members);
  if (sites.size() < 2) return "its ranks are on one instance";
  const auto place = [&](int member) {
    const auto& rank = layout.ranks[static_cast<size_t>(members[static_cast<size_t>(member)])];
    return std::tuple(rank.server, layout.chip_in_instance(rank), rank.slot);
  };
  for (const auto& site : sites)
    if (!std::ranges::equal(site, sites[0], {}, place, place))
      return "the instances have ranks at different places";
  return "";
}

TwoLevel by_instance(const Layout& layout, const std::vector<int>& members) {
  TwoLevel levels;
  levels.sites = members_by_instance(layout, members);
  std::vector<int> site, across;
  for (const int member : levels.sites[0]) site.push_back(members[static_cast<size_t>(member)]);
  for (const auto& one : levels.sites) across.push_back(members[static_cast<size_t>(one[0])]);
  levels.within = &within_instance(layout, site);
  levels.between = rdh_exchange().why_not(layout, across).empty() ? &rdh_exchange() : &ring_exchange();
  return levels;
}

const ExchangeAlgorithm& instances_exchange() {
  static const ExchangeAlgorithm kInstances{
      "instances", why_not_by_instance,
      [](const Layout& layout, const std::vector<int>& members) {
        return channels_of(by_instance(layout, members), layout, members);
      },
      [](Builder& builder, const Layout& layout, const Exchange& exchange) {
        gather_two_level(builder, layout, exchange, by_instance(layout, exchange.members));
      },
      [](Builder& builder, const Layout& layout, const Exchange& exchange) {
        reduce_two_level(builder, layout, exchange, by_instance(layout, exchange.members));
      }};
  return kInstances;
}

// The ranks of each server, or of each instance of the one UltraServer, in order of their places.
TwoLevel two_levels_of(const HierarchicalOptions& options, const Layout& layout) {
  TwoLevel levels;
  levels.sites = layout.servers() == 1
                     ? members_by_instance(layout, all_ranks(static_cast<int>(layout.ranks.size())))
                     : layout.ranks_by_server();
  std::vector<int> across;
  for (const auto& site : levels.sites) across.push_back(site[0]);
  const bool is_cube = rdh_exchange().why_not(layout, across).empty();
  levels.within =
      options.within.empty() ? &default_within(layout, levels.sites[0]) : exchange_named(options.within);
  levels.between = exchange_named(!options.between.empty() ? options.between : is_cube ? "rdh" : "ring");
  return levels;
}

std::string why_not_hierarchical(const HierarchicalOptions& options, const Request& request,
                                 const Layout& layout) {
  if (request.kind != Kind::kAllReduce && request.kind != Kind::kAllGather &&
      request.kind != Kind::kReduceScatter)
    return fmt::format("it serves all_reduce, all_gather and reduce_scatter, not {}", name_of(request.kind));
  if (layout.servers() < 2) {
    if (layout.chips_of_instance == 0) return "there is one server";
    const auto reason = why_not_by_instance(layout, all_ranks(request.ranks));
    if (!reason.empty()) return reason;
  }
  if (!layout.symmetric()) return "the servers have ranks at different places";
  const TwoLevel levels = two_levels_of(options, layout);
  if (levels.sites[0].size() < 2) return "there is one rank on each server";
  std::vector<int> across;
  for (const auto& site : levels.sites) across.push_back(site[0]);
  if (const auto reason = levels.within->why_not(layout, levels.sites[0]); !reason.empty())
    return fmt::format("{} within servers: {}", levels.within->name, reason);
  if (const auto reason = levels.between->why_not(layout, across); !reason.empty())
    return fmt::format("{} between servers: {}", levels.between->name, reason);
  return "";
}

// All-reduce of one part of the message: parts are numbered so that those of one index lie together.
struct Stages {
  Exchange exchange;
  std::vector<View> partial;
};

Stages stages_of(const TwoLevel& levels, Range message, int ranks, int element_bytes) {
  Stages stages;
  stages.exchange.members = all_ranks(ranks);
  stages.exchange.parts.resize(static_cast<size_t>(ranks));
  const int sites = static_cast<int>(levels.sites.size());
  for (int site = 0; site < sites; ++site)
    for (size_t index = 0; index < levels.sites[0].size(); ++index)
      stages.exchange.parts[static_cast<size_t>(levels.sites[static_cast<size_t>(site)][index])] = {
          part_of(message, ranks, static_cast<int>(index) * sites + site, element_bytes)};
  stages.exchange.source = view_of(Buffer::kInput);
  stages.exchange.target = view_of(Buffer::kOutput);
  return stages;
}

// Part `index` of the message. Parts are cut where each rank's part of them, and each directed ring's share
// of that, is equally long, if the message allows it: an element more here and there would leave no two steps
// alike. So it is not where that makes the parts themselves unequal by more than one in 32.
Range pipeline_part(int64_t message, int parts, int index, const Layout& layout, int element_bytes) {
  constexpr int64_t kUnitsMin = 32;
  const auto rings = static_cast<int64_t>(std::max<size_t>(1, layout.cycles.size())) * 2;
  const int64_t unit = static_cast<int64_t>(layout.ranks.size()) * rings * element_bytes;
  const bool fits = message % unit == 0 && message / unit >= kUnitsMin * parts;
  return part_of(Range{0, message}, parts, index, fits ? static_cast<int>(unit) : element_bytes);
}

// The stages of part i run while those of part i + 1 are one behind: reduce within, all-reduce between,
// gather within.
Plan all_reduce(const HierarchicalOptions& options, const Request& request, const Layout& layout) {
  Builder builder(request, "hier");
  const TwoLevel levels = two_levels_of(options, layout);
  std::vector<Stages> parts;
  for (int i = 0; i < options.pipeline; ++i)
    parts.push_back(
        stages_of(levels, pipeline_part(request.bytes, options.pipeline, i, layout, builder.element_bytes()),
                  request.ranks, builder.element_bytes()));
  const auto in_turn = [&](int part) -> Stages* {
    return part >= 0 && part < options.pipeline ? &parts[static_cast<size_t>(part)] : nullptr;
  };
  for (int turn = 0; turn < options.pipeline + 2; ++turn) {
    if (Stages* last = in_turn(turn - 2)) gather_within(builder, layout, last->exchange, levels);
    if (Stages* middle = in_turn(turn - 1)) {
      reduce_between(builder, layout, middle->exchange, levels, middle->partial);
      Exchange gathered = middle->exchange;
      gathered.source = gathered.target;
      gather_between(builder, layout, gathered, levels);
    }
    if (Stages* first = in_turn(turn))
      first->partial = reduce_within(builder, layout, first->exchange, levels);
  }
  return std::move(builder).take();
}

// All-gather and reduce-scatter, whose parts are those of the ranks.
Plan one_way(const HierarchicalOptions& options, const Request& request, const Layout& layout) {
  const ExchangeAlgorithm whole{"hier",
                                {},
                                {},
                                [&](Builder& builder, const Layout& at, const Exchange& exchange) {
                                  gather_two_level(builder, at, exchange, two_levels_of(options, at));
                                },
                                [&](Builder& builder, const Layout& at, const Exchange& exchange) {
                                  reduce_two_level(builder, at, exchange, two_levels_of(options, at));
                                }};
  return whole_plan(whole, request, layout);
}

}  // namespace

const ExchangeAlgorithm& default_within(const Layout& layout, const std::vector<int>& members) {
  const bool joins = layout.chips_of_instance > 0 && why_not_by_instance(layout, members).empty();
  return joins ? instances_exchange() : within_instance(layout, members);
}

Algorithm hierarchical() { return hierarchical(HierarchicalOptions{}); }

Algorithm hierarchical(const HierarchicalOptions& options) {
  for (const std::string& name : {options.within, options.between})
    if (!name.empty()) exchange_named(name);
  if (options.pipeline < 1 || options.pipeline > kPipelineMax)
    refuse(Rule::kAlgorithm, "a pipeline of {} parts; there may be 1 to {}", options.pipeline, kPipelineMax);
  return {"hier",
          [options](const Request& request, const Layout& layout) {
            return why_not_hierarchical(options, request, layout);
          },
          [options](const Request& request, const Layout& layout) {
            return request.kind == Kind::kAllReduce ? all_reduce(options, request, layout)
                                                    : one_way(options, request, layout);
          }};
}

}  // namespace opentrn::collectives
