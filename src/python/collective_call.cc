#include "python/collective_call.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "arch/tables.h"
#include "base/fork.h"
#include "base/units.h"
#include "collectives/predict.h"
#include "collectives/values.h"
#include "runtime/collective_call.h"
#include "runtime/settings.h"
#include "spmd/in_order.h"

namespace opentrn::python {

namespace nb = nanobind;

namespace {

using collectives::Kind;
using collectives::Reduction;
using collectives::Request;
using runtime::CollectiveCall;

template <typename Enum>
Enum named(const char* name, int count) {
  for (int i = 0; i < count; ++i)
    if (collectives::name_of(static_cast<Enum>(i)) == name) return static_cast<Enum>(i);
  throw Fault(FaultKind::kInternal, "", fmt::format("nothing of collectives is called {}", name));
}

Request request_of(const CollectiveCall& call) {
  Request request;
  request.kind = named<Kind>(call.kind, collectives::kKindCount);
  request.ranks = call.ranks;
  request.bytes = call.bytes;
  const auto dtype = dtype_from_name(call.dtype);
  if (!dtype) throw Fault(FaultKind::kInternal, "", fmt::format("no type is called {}", call.dtype));
  request.dtype = *dtype;
  if (*call.reduction != '\0')
    request.reduction = named<Reduction>(call.reduction, collectives::kReductionCount);
  request.root = call.root;
  request.counts.assign(call.counts, call.counts + call.count_of_counts);
  for (size_t i = 0; i < call.count_of_pairs; ++i)
    request.pairs.emplace_back(call.pairs[2 * i], call.pairs[2 * i + 1]);
  return request;
}

struct Prepared {
  collectives::Plan plan;  // proved
  double time_ns = 0;
};

// The machine that the environment names, or the smallest that has the cores, and the physical ones of each.
struct CoresOfMachine {
  explicit CoresOfMachine(int cores)
      : settings(runtime::settings_of_environment()),
        platform(collectives::machine_of(arch::default_tables(), settings.target, settings.generation, cores,
                                         settings.physical_cores_per_core)),
        all(collectives::place_ranks(platform, cores, settings.physical_cores_per_core, 0)) {}
  collectives::RankCores of(std::span<const int> cores) const {
    collectives::RankCores out;
    for (const int core : cores) out.push_back(all.at(static_cast<size_t>(core)));
    return out;
  }

  runtime::Settings settings;
  fabric::Platform platform;
  collectives::RankCores all;
};

std::shared_ptr<const Prepared> prepare(const CollectiveCall& call) {
  const std::span<const int> cores(call.cores, static_cast<size_t>(call.ranks));
  const CoresOfMachine machine(1 + *std::ranges::max_element(cores));
  collectives::Job job;
  job.request = request_of(call);
  job.cores = machine.of(cores);
  collectives::Predictions made = collectives::predict(arch::default_tables(), machine.platform, {&job, 1});
  collectives::prove(made.jobs[0].plan);
  return std::make_shared<Prepared>(
      Prepared{std::move(made.jobs[0].plan), static_cast<double>(made.end_ps) / kPsPerNs});
}

std::string key_of(const CollectiveCall& call) {
  return fmt::format("{} {} {} {} {} {} {} {} {}", call.kind, call.dtype, call.reduction, call.ranks,
                     call.root, call.bytes, fmt::join(call.counts, call.counts + call.count_of_counts, ","),
                     fmt::join(call.pairs, call.pairs + 2 * call.count_of_pairs, ","),
                     fmt::join(call.cores, call.cores + call.ranks, ","));
}

// Plans are kept: a training step makes the same calls again. Forgotten together when there are many, as
// calls with sizes of their own (all_to_all_v) may never come again.
std::shared_ptr<const Prepared> prepared(const CollectiveCall& call) {
  static auto* mutex = new ForkSafeMutex;
  static auto* known = new std::map<std::string, std::shared_ptr<const Prepared>>;
  constexpr size_t kKept = 1024;
  const std::string key = key_of(call);
  {
    const std::lock_guard lock(*mutex);
    if (const auto found = known->find(key); found != known->end()) return found->second;
  }
  const auto made = prepare(call);
  const std::lock_guard lock(*mutex);
  if (known->size() >= kKept) known->clear();
  return (*known)[key] = made;
}

void compute(const collectives::Plan& plan, const void* const* inputs, void* const* outputs) {
  std::vector<collectives::RankBuffers> buffers;
  for (int rank = 0; rank < plan.request.ranks; ++rank) {
    const auto in = static_cast<size_t>(input_bytes(plan.request, rank));
    const auto out = static_cast<size_t>(output_bytes(plan.request, rank));
    buffers.push_back(
        {{static_cast<const std::byte*>(inputs[rank]), in}, {static_cast<std::byte*>(outputs[rank]), out}});
  }
  collectives::execute_proved(plan, buffers);
}

int call_collective(const CollectiveCall& call, const void* const* inputs, void* const* outputs,
                    double* time_ns, char* error, size_t error_size) {
  std::string reason;
  try {
    const auto ready = prepared(call);
    if (inputs != nullptr) compute(ready->plan, inputs, outputs);
    *time_ns = ready->time_ns;
    return 0;
  } catch (const std::exception& fault) {  // a Fault's text has its label
    reason = fault.what();
  }
  const size_t size = std::min(reason.size(), error_size - 1);
  std::memcpy(error, reason.data(), size);
  error[size] = '\0';
  return 1;
}

// A part: its time and the collectives that it waits for. Or a collective: its kind, bytes, cores and stream.
using GraphRow = std::tuple<double, std::vector<int>, std::string, int64_t, std::vector<int>, int>;

std::vector<double> stretches_of_graph(const std::vector<GraphRow>& rows) {
  int cores = 1;
  for (const GraphRow& row : rows)
    for (const int core : std::get<4>(row)) cores = std::max(cores, core + 1);
  const CoresOfMachine machine(cores);
  using Alone = std::pair<double, std::shared_ptr<const std::vector<float>>>;
  std::map<std::tuple<std::string, int64_t, std::vector<int>>, Alone> known;
  const auto alone = [&](const std::string& kind, int64_t bytes, const std::vector<int>& on) -> const Alone& {
    const auto [found, is_new] = known.try_emplace({kind, bytes, on});
    if (!is_new || on.size() < 2 || bytes == 0) return found->second;  // nothing moves: no time
    const auto ranks = static_cast<int64_t>(on.size());
    collectives::Job job;
    job.cores = machine.of(on);
    job.request = {.kind = named<Kind>(kind.c_str(), collectives::kKindCount),
                   .ranks = static_cast<int>(ranks),
                   .bytes = (bytes + ranks - 1) / ranks * ranks,
                   .dtype = DType::kUint8};
    const auto made = collectives::predict(arch::default_tables(), machine.platform, {&job, 1});
    return found->second = {
               static_cast<double>(made.end_ps) / kPsPerNs,
               std::make_shared<const std::vector<float>>(collectives::busy_links(machine.platform, made))};
  };
  std::vector<spmd::OrderedStep> steps;
  for (const auto& [ns, waits, kind, bytes, on, stream] : rows) {
    spmd::OrderedStep& step = steps.emplace_back(spmd::OrderedStep{.ns = ns, .waits = waits});
    if (kind.empty()) continue;
    step.stream = stream;
    std::tie(step.ns, step.links) = alone(kind, bytes, on);
  }
  return spmd::stretches(steps);
}

}  // namespace

void bind_collective_call(nb::module_& module) {
  module.def(
      "collective_function", [] { return reinterpret_cast<uintptr_t>(&call_collective); },
      "The address of a runtime::CollectiveFunction.");
  module.def(
      "stretches_of_graph",
      [](const std::vector<GraphRow>& rows) {
        const nb::gil_scoped_release unlocked;
        return stretches_of_graph(rows);
      },
      nb::arg("rows"),
      "How much longer each step takes beside collectives of other streams. A row is a part (ns, rows of the "
      "collectives that it waits for, '', 0, [], 0) or a collective (0, [], kind, bytes, cores, stream).");
}

}  // namespace opentrn::python
