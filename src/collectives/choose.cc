#include "collectives/choose.h"

#include <algorithm>
#include <optional>

#include "collectives/hierarchical.h"
#include "collectives/levels.h"
#include "collectives/rules.h"

namespace opentrn::collectives {

namespace {

// Follows the thresholds, and keeps what they said.
class Chooser {
 public:
  Chooser(const arch::Tables& tables, Generation generation, const Request& request, const Layout& layout)
      : tables_(tables), facts_(collective_facts(tables, generation)), request_(request), layout_(layout) {
    for (int rank = 0; rank < request.ranks; ++rank)
      message_ = std::max({message_, input_bytes(request, rank), output_bytes(request, rank)});
    why_ = fmt::format("{} of {} B on {} ranks", name_of(request.kind), message_, request.ranks);
  }

  Choice run() {
    if (!reduces(request_.kind) && request_.kind != Kind::kAllGather)
      return take(std::string(name_of(request_.kind)));
    if (request_.kind == Kind::kReduce) return take("reduce");
    const auto servers = layout_.ranks_by_server();
    if (servers.size() == 1) return on_one_server();
    const bool one_each = std::ranges::all_of(servers, [](const auto& ranks) { return ranks.size() == 1; });
    if (one_each) return note("one rank on each server"), take(by_size({"rdh"}));
    const bool is_for_flat_ring =
        fact("flat_ring_bytes_min") && !is_at_most("flat_ring_bytes_min") && serves("flat_ring");
    if (!serves("hier")) return note("servers that differ"), take(is_for_flat_ring ? "flat_ring" : "ring");
    return hierarchy(is_for_flat_ring);
  }

 private:
  using Names = std::initializer_list<const char*>;

  std::optional<int64_t> fact(const char* name) const {
    const arch::Spec<int64_t> spec = tables_.facts().optional_spec<int64_t>(facts_ + name);
    return spec.known() ? std::optional(spec.value()) : std::nullopt;
  }
  bool serves(const std::string& name) const { return algorithm(name).why_not(request_, layout_).empty(); }
  void note(const std::string& text) { why_ += ", " + text; }

  // Says the comparison with a fact, which exists.
  bool is_at_most(const char* name, int64_t times = 1) {
    const int64_t limit = *fact(name) * times;
    note(fmt::format("{} {} B ({}{}{})", message_ <= limit ? "at most" : "above", limit, facts_, name,
                     times > 1 ? fmt::format(" x {} ranks", times) : ""));
    return message_ <= limit;
  }
  bool on_one_chip() const {
    return std::ranges::all_of(layout_.ranks, [&](const Layout::Rank& rank) {
      return rank.server == layout_.ranks[0].server && rank.chip == layout_.ranks[0].chip;
    });
  }
  bool is_for_mesh() {
    if (on_one_chip() && fact("mesh_bytes_max_per_rank_one_chip"))
      return is_at_most("mesh_bytes_max_per_rank_one_chip", request_.ranks);
    if (layout_.servers() == 1 && fact("mesh_bytes_max_per_rank"))
      return is_at_most("mesh_bytes_max_per_rank", request_.ranks);
    return is_at_most("mesh_bytes_max");
  }

  // Mesh below, then those that serve, up to their sizes, and ring.
  std::string by_size(Names medium) {
    if (request_.kind == Kind::kAllReduce && is_at_most("single_step_bytes_max")) return "mesh_single_step";
    if (is_for_mesh()) return "mesh";
    if (!fact("rdh_bytes_max")) return "ring";
    const bool is_medium = is_at_most("rdh_bytes_max");
    may_be_mesh_ = is_medium && !serves("rdh");
    for (const std::string name : medium) {
      if (name == "rdh" && !is_medium) continue;
      if (serves(name)) return name;
      note(name + " cannot: " + algorithm(name).why_not(request_, layout_));
    }
    return "ring";
  }
  // On several instances of an UltraServer, above the mesh, that within an instance and between them
  // [assumed].
  Choice on_one_server() {
    std::string name = by_size({"rdh", "kangaring"});
    if (name != "mesh" && name != "mesh_single_step" && serves("hier")) {
      note("on several instances of an UltraServer, by halves between them [assumed]");
      name = "hier";
    }
    Choice choice = take(name);
    // What medium messages take of ranks that RDH cannot serve is documented nowhere: the faster one of what
    // small and what large ones take [assumed].
    if (may_be_mesh_) choice.rival = algorithm("mesh");
    return choice;
  }

  // AWS takes "the most optimal [algorithm] for each communication stage": within servers, of messages that
  // are neither small nor large, a mesh where it is faster.
  Choice hierarchy(bool is_for_flat_ring) {
    HierarchicalOptions options;
    const bool is_small = is_for_mesh();
    if (is_small) options.within = options.between = "mesh";
    Choice choice{hierarchical(options), why_ + ": hier"};
    HierarchicalOptions by_mesh;
    by_mesh.within = "mesh";
    if (is_for_flat_ring)
      choice.rival = algorithm("flat_ring");
    else if (!is_small && message_ <= fact("rdh_bytes_max").value_or(message_))
      choice.rival = hierarchical(by_mesh);
    return choice;
  }
  Choice take(const std::string& name) { return {algorithm(name), why_ + ": " + name}; }

  const arch::Tables& tables_;
  std::string facts_;
  const Request& request_;
  const Layout& layout_;
  int64_t message_ = 0;
  bool may_be_mesh_ = false;
  std::string why_;
};

}  // namespace

Choice choose(const arch::Tables& tables, Generation generation, const Request& request,
              const Layout& layout) {
  return Chooser(tables, generation, request, layout).run();
}

}  // namespace opentrn::collectives
