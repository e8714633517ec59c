// Ranks and collectives: opentrn._core as opentrn/nki/collectives.py and opentrn/kernel/machine.py use it.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>

#include "arch/arch.h"
#include "arch/tables.h"
#include "collectives/predict.h"
#include "nki/ranks/collective.h"
#include "nki/ranks/processes.h"
#include "nki/ranks/recording.h"
#include "python/call_site.h"
#include "python/convert.h"
#include "python/rank_bindings.h"
#include "python/unlocked.h"

namespace opentrn::python {

using namespace nb::literals;
using nki::Collective;
using nki::Ranks;

namespace {

// Of the servers that have chips with cores of this generation; on the smallest machine that holds the ranks,
// or the one that `target` names.
nki::RankLayout layout_of(int ranks, int cores, int generation, const std::string& target) {
  const arch::Tables& tables = arch::default_tables();
  nki::RankLayout layout;
  layout.platform = std::make_shared<const fabric::Platform>(
      collectives::machine_of(tables, target, static_cast<Generation>(generation), ranks, cores));
  layout.cores = collectives::place_ranks(*layout.platform, ranks, cores, 0);
  layout.per_server.clear();
  for (const arch::Instance& instance : tables.instances()) {
    const arch::Chip& chip = tables.chip(instance.chip);
    if (static_cast<int>(chip.generation) != generation) continue;
    layout.per_chip = std::max(1, chip.cores / cores);
    layout.per_server.push_back(instance.chips * layout.per_chip);
    if (instance.topology.known() &&
        tables.topology(instance.topology.value()).rule.value().find("switch") != std::string::npos)
      layout.switched = true;
  }
  if (layout.per_server.empty()) layout.per_server.push_back(layout.per_chip);
  std::ranges::sort(layout.per_server);
  return layout;
}

[[noreturn]] void wrong_argument(const std::string& function, std::string_view argument, nb::handle value,
                                 std::string_view wanted) {
  throw Fault(FaultKind::kProgram, std::string(kArgumentsLabel),
              fmt::format("{}: {} is {}; it is {}", function, argument,
                          nb::cast<std::string>(nb::repr(nb::handle(value.type()))), wanted));
}

// A list of tensors; of channels a list of lists of one.
std::vector<nki::TensorView> tensors(const std::string& function, std::string_view argument, nb::handle list,
                                     bool by_channel) {
  std::vector<nki::TensorView> views;
  if (list.is_none()) return views;
  if (!nb::isinstance<nb::list>(list) && !nb::isinstance<nb::tuple>(list))
    wrong_argument(function, argument, list, by_channel ? "a list of lists of tensors" : "a list of tensors");
  for (nb::handle item : list) {
    if (by_channel) {
      const std::vector<nki::TensorView> one = tensors(function, argument, item, false);
      if (one.size() != 1)
        throw Fault(
            FaultKind::kProgram, "collectives.coalesced",
            fmt::format("{}: {} has {} tensors for a channel; it has one", function, argument, one.size()));
      views.push_back(one[0]);
      continue;
    }
    const nki::TensorView* view = as_tensor(item);
    if (view == nullptr) wrong_argument(function, argument, item, "a list of tensors");
    views.push_back(*view);
  }
  return views;
}

std::vector<std::vector<int64_t>> groups_of(const std::string& function, nb::handle groups) {
  if (groups.is_none())
    throw Fault(FaultKind::kProgram, "collectives.groups",
                fmt::format("{}: replica_group is None; it is a ReplicaGroup, the lists of ranks that take "
                            "part together",
                            function));
  std::vector<std::vector<int64_t>> lists;
  try {
    for (nb::handle group : groups) lists.push_back(to_ints(group));
  } catch (nb::python_error&) {
    wrong_argument(function, "replica_group", groups, "a ReplicaGroup, as in ReplicaGroup([[0, 1]])");
  }
  return lists;
}

std::vector<std::pair<int64_t, int64_t>> pairs_of(const std::string& function, nb::handle list) {
  std::vector<std::pair<int64_t, int64_t>> pairs;
  const auto refuse = [&](nb::handle what) {
    wrong_argument(function, "source_target_pairs", what, "a list of pairs of ranks");
  };
  try {
    for (nb::handle item : list) {
      const std::vector<int64_t> pair = to_ints(item);
      if (pair.size() != 2) refuse(item);
      pairs.emplace_back(pair[0], pair[1]);
    }
  } catch (nb::python_error&) {
    refuse(list);
  }
  return pairs;
}

// `read` is to_int or to_ints.
template <typename Read>
auto numbers(const std::string& function, std::string_view argument, nb::handle value, Read read) {
  try {
    return read(value);
  } catch (nb::python_error&) {
    wrong_argument(function, argument, value, "a whole number, or a list of them for several channels");
  }
}

// The most ranks that a machine of the tables has cores for.
int most_ranks() {
  const arch::Tables& tables = arch::default_tables();
  int most = 1;
  for (const arch::Instance& instance : tables.instances())
    most = std::max(most, instance.chips * tables.chip(instance.chip).cores);
  for (const arch::UltraServer& server : tables.ultraservers())
    most = std::max(most, server.servers * server.chips_per_server * tables.chip(server.chip).cores);
  return most;
}

void collective(const std::string& function, nb::handle srcs, nb::handle dsts, nb::handle groups,
                const nb::dict& options) {
  nki::Machine& machine = require_machine();
  const isa::LocationId location = call_site(machine);
  Collective call = nki::collective_named(function);
  const auto option = [&](const char* name) -> nb::object {
    return options.contains(name) ? nb::object(options[name]) : nb::none();
  };
  try {
    const bool by_channel = is_implicit(call);
    call.srcs = tensors(function, by_channel ? "srcs_by_channel" : "srcs", srcs, by_channel);
    call.srcs1 = tensors(function, "srcs1_by_channel", option("srcs1"), by_channel);
    call.dsts = tensors(function, by_channel ? "dsts_by_channel" : "dsts", dsts, by_channel);
    if (is_by_pairs(call))
      call.pairs = pairs_of(function, option("pairs"));
    else
      call.groups = groups_of(function, groups);
    if (const nb::object op = option("op"); !op.is_none())
      call.op = to_alu_op(op);
    else if (reduces(call))
      wrong_argument(function, "op", op, "nl.add, nl.minimum or nl.maximum");
    const auto int_of = [](nb::handle value) { return to_int(value); };
    const auto ints_of = [](nb::handle value) { return to_ints(value); };
    if (options.contains("dim")) call.dim = numbers(function, "collective_dim", option("dim"), int_of);
    if (options.contains("channels"))
      call.channels = numbers(function, "channel_ids", option("channels"), ints_of);
    if (const nb::object metadata = option("metadata"); !metadata.is_none()) {
      if (as_tensor(metadata) == nullptr) wrong_argument(function, "metadata_tensor", metadata, "a tensor");
      call.metadata = *as_tensor(metadata);
    }
    call.recv_counts_known = PyObject_IsTrue(option("recv_counts_known").ptr()) == 1;
    call.has_rdispls = PyObject_IsTrue(option("has_rdispls").ptr()) == 1;
    if (const nb::object priority = option("priority"); !priority.is_none()) {
      call.priority = numbers(function, "priority", priority, int_of);
      if (call.priority < 0)
        throw Fault(FaultKind::kProgram, "collectives.priority",
                    fmt::format("{}: priority {}; it is 0 to 3", function, call.priority));
    }
    if (const nb::object name = option("name"); !name.is_none())
      call.name = nb::cast<std::string>(nb::str(name));
  } catch (Fault& fault) {
    fault.set_location(machine.program()->location(location));
    throw;
  }
  const Unlocked unlocked;
  nki::issue(machine, call, location);
}

int64_t processing_rank(int64_t iteration, nb::handle groups, int64_t channel) {
  nki::Machine& machine = require_machine();
  const std::string function = "collective_permute_implicit_current_processing_rank_id";
  Collective call = nki::collective_named("collective_permute_implicit");
  try {
    call.groups = groups_of(function, groups);
    nki::check_channel(call, machine, channel);
    const std::vector<int> group = nki::group_of(call, machine.rank());
    if (group.empty())
      throw Fault(FaultKind::kProgram, "collectives.groups",
                  fmt::format("{}: rank {} is in none of the groups", function, machine.rank()));
    return nki::processing_rank(nki::ring(group, channel), machine.rank(), iteration);
  } catch (Fault& fault) {
    fault.set_location(machine.program()->location(call_site(machine)));
    throw;
  }
}

// By process; of this one nothing.
nb::list finish(nki::Processes& processes, const nb::bytes& results) {
  const auto* begin = static_cast<const std::byte*>(results.data());
  const std::vector<std::byte> own(begin, begin + results.size());
  std::vector<std::vector<std::byte>> all;
  {
    const Unlocked unlocked;
    all = processes.finish(own);
  }
  nb::list heard;
  for (const auto& of_process : all) heard.append(nb::bytes(of_process.data(), of_process.size()));
  return heard;
}

// A rank of a launch, for processes that have other ranks of it.
nb::bytes encode_rank(const std::vector<std::shared_ptr<nki::Machine>>& machines) {
  std::vector<std::byte> bytes;
  {
    const Unlocked unlocked;
    bytes = nki::encode(nki::recorded(machines), nki::records_of(*machines.at(0)->ranks()));
  }
  return nb::bytes(bytes.data(), bytes.size());
}

nb::list records(const Ranks& ranks) {
  nb::list all;
  for (const nki::CollectiveRecord& record : nki::records_of(ranks)) {
    nb::dict row;
    row["function"] = record.function;
    row["what"] = record.what;
    row["group"] = nb::cast(record.group);
    row["core"] = record.core;
    row["bytes"] = record.bytes;
    row["computed_by"] = record.computed_by;
    row["file"] = record.where.file;
    row["line"] = record.where.line;
    all.append(row);
  }
  return all;
}

}  // namespace

void bind_collectives(nb::module_& module) {
  nb::class_<nki::Processes>(module, "Processes")
      .def_prop_ro("ranks_here", &nki::Processes::ranks_here)
      .def("finish", &finish, "results"_a)
      .def("fail", &nki::Processes::fail, "text"_a, "because_of_others"_a, nb::call_guard<Unlocked>());
  module.def("processes_of_mpirun", &nki::processes_of_mpirun, "ranks"_a, "what"_a,
             nb::call_guard<Unlocked>());
  module.def("is_one_of_several", &nki::is_one_of_several);
  module.def("encode_rank", &encode_rank, "machines"_a);
  module.def("end_processes_of_mpirun", &nki::end_processes_of_mpirun, nb::call_guard<Unlocked>());
  nb::class_<Ranks>(module, "Ranks")
      .def(
          "__init__",
          [](Ranks* self, int ranks, int cores, int generation, const std::string& target,
             std::shared_ptr<nki::Processes> processes) {
            new (self) Ranks(ranks, cores, layout_of(ranks, cores, generation, target), std::move(processes));
          },
          "ranks"_a, "cores"_a, "generation"_a, "target"_a = "", "processes"_a.none() = nb::none())
      .def_prop_ro("count", &Ranks::count)
      .def_prop_ro("cores", &Ranks::cores)
      .def("records", &records);
  module.def("collective", &collective, "function"_a, "srcs"_a.none(), "dsts"_a.none(), "groups"_a.none(),
             "options"_a);
  module.def("most_ranks", &most_ranks);
  module.def("processing_rank", &processing_rank, "iteration"_a, "groups"_a, "channel"_a);
}

}  // namespace opentrn::python
