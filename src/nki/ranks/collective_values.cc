// What the members of a collective get: the tensors of a call as one request of src/collectives, whose plans
// move and reduce the bytes. A request counts the parts of all tensors for rank 0, then those for rank 1, and
// so on; operands of one tensor lie so already, except columns.
#include <algorithm>
#include <cstring>
#include <list>
#include <memory>
#include <mutex>
#include <utility>

#include <fmt/format.h>

#include "arch/tables.h"
#include "base/fork.h"
#include "collectives/algorithms.h"
#include "collectives/arithmetic.h"
#include "collectives/predict.h"
#include "collectives/values.h"
#include "nki/ranks/collective.h"

namespace opentrn::nki {

namespace {

using Bytes = std::vector<std::byte>;
using collectives::Kind;
using collectives::Request;

collectives::Reduction reduction_of(AluOp op) {
  if (op == AluOp::kMinimum) return collectives::Reduction::kMinimum;
  return op == AluOp::kMaximum ? collectives::Reduction::kMaximum : collectives::Reduction::kAdd;
}

// -- plans

// By AWS's thresholds, as everything that computes or times a collective. A rank that is alone sends to
// itself.
struct Places {
  const fabric::Platform* platform;  // none: one rank alone
  collectives::RankCores cores;      // where there is a platform
  collectives::Layout layout;
};
collectives::Plan plan_of(const Request& request, const Places& places) {
  if (places.platform == nullptr)
    return collectives::make_plan(std::string(name_of(request.kind)), request, places.layout);
  return collectives::choose_on(arch::default_tables(), *places.platform, request, places.cores,
                                places.layout)
      .algorithm.plan(request, places.layout);
}

// Kernels repeat their collectives: the last plans are kept, each proved once.
class PlanCache {
 public:
  std::shared_ptr<const collectives::Plan> find(const Request& request, const collectives::Layout& layout,
                                                const std::string& machine) {
    const std::lock_guard lock(mutex_);
    const auto found = std::ranges::find_if(plans_, [&](const Entry& entry) {
      return entry.machine == machine && entry.ranks == layout.ranks && is_same(entry.plan->request, request);
    });
    if (found == plans_.end()) return nullptr;
    plans_.splice(plans_.begin(), plans_, found);
    return found->plan;
  }
  void add(std::shared_ptr<const collectives::Plan> plan, const collectives::Layout& layout,
           const std::string& machine) {
    const std::lock_guard lock(mutex_);
    plans_.push_front({std::move(plan), layout.ranks, machine});
    if (plans_.size() > kPlans) plans_.pop_back();
  }

 private:
  static constexpr size_t kPlans = 16;
  struct Entry {
    std::shared_ptr<const collectives::Plan> plan;
    std::vector<collectives::Layout::Rank> ranks;
    std::string machine;
  };
  static bool is_same(const Request& a, const Request& b) {
    return a.kind == b.kind && a.ranks == b.ranks && a.bytes == b.bytes && a.dtype == b.dtype &&
           a.reduction == b.reduction && a.pairs == b.pairs && a.counts == b.counts;
  }
  ForkSafeMutex mutex_;
  std::list<Entry> plans_;
};

std::string run(const Request& request, const Places& places,
                const std::vector<std::span<const std::byte>>& inputs,
                const std::vector<std::span<std::byte>>& outputs) {
  static PlanCache cache;
  std::vector<collectives::RankBuffers> buffers;
  for (size_t r = 0; r < inputs.size(); ++r) buffers.push_back({inputs[r], outputs[r]});
  const std::string machine = places.platform == nullptr ? "" : places.platform->name();
  if (const auto known = cache.find(request, places.layout, machine)) {
    collectives::execute_proved(*known, buffers);
    return known->algorithm;
  }
  const auto plan = std::make_shared<const collectives::Plan>(plan_of(request, places));
  collectives::execute(*plan, buffers);
  cache.add(plan, places.layout, machine);
  return plan->algorithm;
}

// -- one collective

// Operands in SBUF belong to a core of the rank, those in HBM to all.
collectives::RankCores cores_of(const std::vector<int>& group, const RankLayout& layout) {
  collectives::RankCores cores;
  for (const int rank : group) cores.push_back(layout.cores.at(static_cast<size_t>(rank)));
  return cores;
}

Places places_of(const std::vector<int>& group, const RankLayout& layout) {
  if (!layout.platform) return {nullptr, {}, collectives::simple_layout(static_cast<int>(group.size()))};
  collectives::RankCores cores = cores_of(group, layout);
  collectives::Layout of = collectives::layout_of(*layout.platform, cores);
  return {layout.platform.get(), std::move(cores), std::move(of)};
}

class Requests {
 public:
  Requests(const std::vector<int>& group, std::span<Contribution* const> members)
      : group_(group), members_(members), call_(*members[0]->call) {}

  std::vector<Request> run() const {
    switch (call_.kind) {
      case Kind::kAllReduce: return {request(Kind::kAllReduce, all_bytes())};
      case Kind::kAllGather: return {request(Kind::kAllGather, all_bytes())};
      case Kind::kReduceScatter: return {request(Kind::kReduceScatter, all_bytes())};
      case Kind::kAllToAll: return {request(Kind::kAllToAll, all_bytes())};
      case Kind::kAllGatherV: return {gather_v()};
      case Kind::kAllToAllV: return {to_all_v()};
      case Kind::kPermute:
        if (is_implicit(call_)) return permute_implicit();
        return {permute()};
      case Kind::kBroadcast:
      case Kind::kReduce: break;
    }
    return {};
  }

 private:
  Request request(Kind kind, int64_t bytes) const {
    Request made;
    made.kind = kind;
    made.ranks = static_cast<int>(group_.size());
    made.bytes = bytes;
    if (collectives::reduces(kind)) {
      made.dtype = call_.srcs[0].dtype;
      made.reduction = reduction_of(call_.op);
    }
    return made;
  }

  static int64_t bytes_of(const TensorView& view) { return view.element_count() * size_bytes(view.dtype); }
  int64_t all_bytes() const {
    int64_t bytes = 0;
    for (const TensorView& src : call_.srcs) bytes += bytes_of(src);
    return bytes;
  }
  int position(int64_t rank) const {
    return static_cast<int>(std::ranges::find(group_, static_cast<int>(rank)) - group_.begin());
  }

  Request permute() const {
    Request made = request(Kind::kPermute, all_bytes());
    for (const auto& [source, target] : call_.pairs)
      made.pairs.emplace_back(position(source), position(target));
    return made;
  }
  std::vector<Request> permute_implicit() const {
    std::vector<Request> all;
    for (size_t channel = 0; channel < call_.dsts.size(); ++channel) {
      Request& made = all.emplace_back(request(Kind::kPermute, bytes_of(call_.srcs[channel])));
      const std::vector<int> order = ring(group_, static_cast<int64_t>(channel));
      for (size_t i = 0; i < order.size(); ++i)
        made.pairs.emplace_back(position(order[i]), position(order[(i + 1) % order.size()]));
    }
    return all;
  }
  // Rank i brings one length for all, or one for each rank.
  Request gather_v() const {
    Request made = request(Kind::kAllGatherV, 0);
    for (const Contribution* member : members_)
      made.counts.push_back(member->metadata.empty() ? all_bytes() : length(*member, 0));
    return made;
  }
  Request to_all_v() const {
    Request made = request(Kind::kAllToAllV, 0);
    const auto ranks = static_cast<int64_t>(group_.size());
    const int64_t element = size_bytes(call_.srcs[0].dtype);
    const int64_t part = all_bytes() / element / ranks * element;
    for (const Contribution* member : members_)
      for (size_t to = 0; to < group_.size(); ++to)
        made.counts.push_back(member->metadata.empty() ? part : length(*member, to));
    return made;
  }
  int64_t length(const Contribution& member, size_t column) const {
    return int64_t{member.metadata[column]} * size_bytes(call_.srcs[0].dtype);
  }

  const std::vector<int>& group_;
  std::span<Contribution* const> members_;
  const Collective& call_;
};

class Exchange {
 public:
  Exchange(const std::vector<int>& group, std::span<Contribution* const> members, const RankLayout& layout)
      : group_(group),
        members_(members),
        call_(*members[0]->call),
        n_(group.size()),
        requests_(requests_of(group, members)),
        places_(places_of(group, layout)) {}

  std::string run() {
    switch (call_.kind) {
      case Kind::kAllReduce: return of_parts(false, false);
      case Kind::kAllGather: return of_parts(false, true);
      case Kind::kReduceScatter: return of_parts(true, false);
      case Kind::kAllToAll: return of_parts(true, true);
      case Kind::kAllGatherV:
      case Kind::kAllToAllV: return v_form();
      case Kind::kPermute: return is_implicit(call_) ? permute_implicit() : permute();
      case Kind::kBroadcast:
      case Kind::kReduce: break;
    }
    return "";
  }

 private:
  // Sources, or destinations, hold a part for each rank, or one part.
  std::string of_parts(bool in_parts, bool out_parts) {
    std::vector<Bytes> packed(n_), received(n_);
    std::vector<std::span<const std::byte>> inputs;
    std::vector<std::span<std::byte>> outputs;
    for (size_t r = 0; r < n_; ++r) {
      Contribution& member = *members_[r];
      if (member.in.size() == 1 && call_.dim == 0) {
        inputs.push_back(member.in[0]);
        outputs.push_back(member.out[0]);
        continue;
      }
      for (size_t part = 0; part < (in_parts ? n_ : 1); ++part)
        for (const auto& tensor : member.in) {
          const size_t size = tensor.size() / (in_parts ? n_ : 1);
          const auto bytes = tensor.subspan(part * size, size);
          packed[r].insert(packed[r].end(), bytes.begin(), bytes.end());
        }
      size_t size = 0;
      for (const auto& tensor : member.out) size += tensor.size();
      received[r].resize(size);
      inputs.emplace_back(packed[r]);
      outputs.emplace_back(received[r]);
    }
    std::string algorithm = nki::run(requests_[0], places_, inputs, outputs);
    for (size_t r = 0; r < n_; ++r)
      if (!received[r].empty()) unpack(*members_[r], received[r], out_parts ? n_ : 1);
    return algorithm;
  }

  void unpack(Contribution& member, const Bytes& received, size_t parts) const {
    size_t at = 0;
    for (size_t part = 0; part < parts; ++part)
      for (size_t t = 0; t < member.out.size(); ++t) {
        const size_t size = member.out[t].size() / parts;
        const auto rows = call_.dim == 0 ? size_t{1} : static_cast<size_t>(call_.srcs[t].size(0));
        for (size_t row = 0; row < rows; ++row, at += size / rows)
          std::memcpy(member.out[t].data() + (row * parts + part) * (size / rows), received.data() + at,
                      size / rows);
      }
  }

  std::string permute_by(size_t tensor, const std::vector<std::span<const std::byte>>& inputs) {
    const Request& pushed = requests_[tensor];
    std::vector<std::span<std::byte>> outputs;
    for (Contribution* member : members_) outputs.push_back(member->out[tensor]);
    for (const auto& [source, target] : pushed.pairs)
      members_[static_cast<size_t>(target)]->receives[tensor] = true;
    return nki::run(pushed, places_, inputs, outputs);
  }

  std::string permute() { return permute_by(0, inputs_of(0)); }

  std::vector<std::span<const std::byte>> inputs_of(size_t tensor) const {
    std::vector<std::span<const std::byte>> inputs;
    for (const Contribution* member : members_) inputs.push_back(member->in[tensor]);
    return inputs;
  }

  std::string permute_implicit() {
    std::string algorithm;
    for (size_t channel = 0; channel < call_.dsts.size(); ++channel) {
      std::vector<std::span<const std::byte>> inputs = inputs_of(channel);
      std::vector<Bytes> reduced(n_);
      if (call_.permute == Permute::kReducingRing)
        for (size_t r = 0; r < n_; ++r) {
          reduced[r].resize(inputs[r].size());
          const std::byte* const sources[] = {inputs[r].data(), members_[r]->in1[channel].data()};
          collectives::reduce_elements(reduction_of(call_.op), call_.srcs[channel].dtype, sources,
                                       reduced[r].data(), reduced[r].size());
          inputs[r] = reduced[r];
        }
      algorithm = permute_by(channel, inputs);
    }
    return algorithm;
  }

  // -- lengths that are data

  struct Part {
    int64_t count = 0, offset = 0;  // elements
  };

  // What member `from` sends to member `to`.
  Part sent(size_t from, size_t to) const {
    const size_t column = call_.kind == Kind::kAllGatherV ? 0 : to;
    const std::vector<uint32_t>& values = members_[from]->metadata;
    return {static_cast<int64_t>(values[column]), static_cast<int64_t>(values[n_ + column])};
  }

  [[noreturn]] void wrong_part(size_t rank, std::string message) const {
    throw Fault(FaultKind::kProgram, "collectives.metadata",
                fmt::format("{}: metadata_tensor of rank {}: {}", name_of(call_), group_[rank], message));
  }

  std::string v_form() {
    const auto element = static_cast<int64_t>(size_bytes(call_.srcs[0].dtype));
    for (size_t to = 0; to < n_; ++to) {
      Contribution& member = *members_[to];
      const int64_t room = static_cast<int64_t>(member.out[0].size()) / element;
      const int64_t slot = room / static_cast<int64_t>(n_);
      member.received.assign(n_, 0);
      for (size_t from = 0; from < n_; ++from) {
        const Part part = sent(from, to);
        if (part.count == 0) continue;
        const int64_t has = static_cast<int64_t>(members_[from]->in[0].size()) / element;
        if (part.offset + part.count > has)
          wrong_part(from, fmt::format("{} elements from {} are sent of a source of {}", part.count,
                                       part.offset, has));
        const int64_t begin = displacement(member, from, slot);
        const int64_t limit = call_.has_rdispls ? room - begin : slot;
        if (part.count > limit)
          wrong_part(from, fmt::format("{} elements for rank {}, which has room for {} from it", part.count,
                                       group_[to], std::max<int64_t>(limit, 0)));
        std::memcpy(member.out[0].data() + begin * element,
                    members_[from]->in[0].data() + part.offset * element,
                    static_cast<size_t>(part.count * element));
        member.received[from] = part.count;
      }
    }
    return "definition";
  }

  int64_t displacement(const Contribution& member, size_t from, int64_t slot) const {
    return call_.has_rdispls ? static_cast<int64_t>(member.metadata[3 * n_ + from])
                             : slot * static_cast<int64_t>(from);
  }

  const std::vector<int>& group_;
  std::span<Contribution* const> members_;
  const Collective& call_;
  size_t n_;
  const std::vector<Request> requests_;
  const Places places_;
};

// What was unwritten where it came from is unwritten where it arrives: the same exchange, of flags.
void carry_unwritten(const std::vector<int>& group, std::span<Contribution* const> members,
                     const RankLayout& layout) {
  std::vector<Contribution> flags(members.size());
  std::vector<Contribution*> pointers;
  for (size_t i = 0; i < members.size(); ++i) {
    Contribution& member = *members[i];
    flags[i].call = member.call;
    flags[i].metadata = member.metadata;
    flags[i].receives = member.receives;
    member.unwritten_in.resize(member.in.size());
    member.unwritten_out.resize(member.out.size());
    for (size_t t = 0; t < member.in.size(); ++t) {
      member.unwritten_in[t].resize(member.in[t].size());
      member.unwritten_out[t].resize(member.out[t].size());
      flags[i].in.emplace_back(member.unwritten_in[t]);
      flags[i].out.emplace_back(member.unwritten_out[t]);
    }
    pointers.push_back(&flags[i]);
  }
  Exchange(group, pointers, layout).run();
}

}  // namespace

std::vector<Request> requests_of(const std::vector<int>& group, std::span<Contribution* const> members) {
  return Requests(group, members).run();
}

std::string compute(const std::vector<int>& group, std::span<Contribution* const> members,
                    const RankLayout& layout) {
  const auto partly_written = [](const Contribution* member) { return !member->unwritten_in.empty(); };
  const auto found = std::ranges::find_if(members, partly_written);
  const Collective& call = *members[0]->call;
  if (found != members.end() && reduces(call))
    throw Fault(FaultKind::kProgram, "sim.uninitialised_read",
                fmt::format("{}: elements of a source of rank {} are reduced that nothing has written",
                            name_of(call), group[static_cast<size_t>(found - members.begin())]),
                "write the whole source first");
  std::string algorithm = Exchange(group, members, layout).run();
  if (found != members.end()) carry_unwritten(group, members, layout);
  return algorithm;
}

}  // namespace opentrn::nki
