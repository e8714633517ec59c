#include "collectives/rules.h"

#include <algorithm>

namespace opentrn::collectives {

namespace {

constexpr RuleRow kRules[] = {
    {Rule::kRanks, "collectives.ranks", "A group has at least one rank.",
     "give the number of ranks of the group"},
    {Rule::kBytes, "collectives.bytes", "Sizes are not negative, and all buffers together fit in 2^56 bytes.",
     "give the size of one rank's input in bytes"},
    {Rule::kElements, "collectives.elements", "Sizes are whole numbers of elements.",
     "a size that is a multiple of the element's, or another element type"},
    {Rule::kDivides, "collectives.divides", "What is scattered has as many equal parts as there are ranks.",
     "pad the buffer to a multiple of ranks times the size of an element"},
    {Rule::kCounts, "collectives.counts",
     "all_gather_v has a count for each rank, all_to_all_v one for each pair of ranks.",
     "counts in bytes, [source] or [source * ranks + target]"},
    {Rule::kPairs, "collectives.pairs", "In a permute each rank is at most once a source and once a target.",
     "several permutes one after the other, or a broadcast"},
    {Rule::kRoot, "collectives.root", "The root is a rank of the group.", "a root from 0 to ranks - 1"},
    {Rule::kReduction, "collectives.reduction",
     "Scalar numbers can be reduced; bitwise operators reduce integers and bool.",
     "move packed types as uint8 without a reduction"},
    {Rule::kLayout, "collectives.layout",
     "A layout has one place for each rank, and cycles that pass every chip with ranks once.",
     "one entry per rank, (server, chip, slot) each once"},
    {Rule::kAlgorithm, "collectives.algorithm", "An algorithm has one of the names of the table.",
     "one of those names, or let the message's size choose"},
    {Rule::kServes, "collectives.serves", "An algorithm is asked only for what it can serve.",
     "another algorithm, or let the message's size choose"},
    {Rule::kPlan, "collectives.plan", "A plan that is executed has been proved.",
     "opentrn::collectives::verify() lists everything that is wrong with the plan"},
    {Rule::kBuffers, "collectives.buffers", "Each rank has buffers of the sizes that the request gives.",
     "one input and one output per rank, at least as long as input_bytes() and output_bytes() say"},
    {Rule::kMsccl, "collectives.msccl",
     "MSCCL programs are XML as MSCCL-tools writes it, with as many receives as sends.",
     "export the program again with MSCCL-tools"},
};

}  // namespace

std::span<const RuleRow> rules() { return kRules; }

const RuleRow& row_of(Rule rule) {
  const auto* row = std::ranges::find(kRules, rule, &RuleRow::rule);
  OPENTRN_CHECK(row != std::end(kRules), "rule {} has no row", static_cast<int>(rule));
  return *row;
}

}  // namespace opentrn::collectives
