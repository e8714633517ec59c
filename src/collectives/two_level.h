// Exchanges in two levels: among the members of a site (the ranks of a chip, of a server), and among members
// of the same index of all sites.
//
// Gathering goes between the sites first: what is passed on within a site is then moved once between the
// sites. Reducing goes the other way. [doc: intra-node and inter-node collectives]
#pragma once

#include "collectives/exchange.h"

namespace opentrn::collectives {

struct TwoLevel {
  std::vector<std::vector<int>> sites;  // [site][index] -> member; of the same size
  const ExchangeAlgorithm* between = nullptr;
  const ExchangeAlgorithm* within = nullptr;
};

// Channels within sites first, those between sites behind them.
int channels_of(const TwoLevel& levels, const Layout& layout, const std::vector<int>& members);
void gather_two_level(Builder& builder, const Layout& layout, const Exchange& exchange,
                      const TwoLevel& levels);
void reduce_two_level(Builder& builder, const Layout& layout, const Exchange& exchange,
                      const TwoLevel& levels);

// The stages one by one, for those that put something between them. The first stage of a reduction leaves its
// results in scratch memory.
void gather_between(Builder& builder, const Layout& layout, const Exchange& exchange, const TwoLevel& levels);
void gather_within(Builder& builder, const Layout& layout, const Exchange& exchange, const TwoLevel& levels);
std::vector<View> reduce_within(Builder& builder, const Layout& layout, const Exchange& exchange,
                                const TwoLevel& levels);
void reduce_between(Builder& builder, const Layout& layout, const Exchange& exchange, const TwoLevel& levels,
                    const std::vector<View>& partial);

}  // namespace opentrn::collectives
