#include "python/collective_call.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "arch/tables.h"
#include "base/fork.h"
#include "collectives/predict.h"
#include "collectives/values.h"
#include "runtime/collective_call.h"
#include "runtime/settings.h"

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

// On the machine that the environment names, or the smallest that has the cores.
std::shared_ptr<const Prepared> prepare(const CollectiveCall& call) {
  const runtime::Settings settings = runtime::settings_of_environment();
  const arch::Tables& tables = arch::default_tables();
  const int per_core = settings.physical_cores_per_core;
  const int needed = 1 + *std::max_element(call.cores, call.cores + call.ranks);
  const fabric::Platform platform =
      collectives::machine_of(tables, settings.target, settings.generation, needed, per_core);
  const collectives::RankCores all = collectives::place_ranks(platform, needed, per_core, 0);
  collectives::Job job;
  job.request = request_of(call);
  for (int rank = 0; rank < call.ranks; ++rank)
    job.cores.push_back(all[static_cast<size_t>(call.cores[rank])]);
  collectives::Predictions made = collectives::predict(tables, platform, {&job, 1});
  collectives::prove(made.jobs[0].plan);
  constexpr double kPsPerNs = 1e3;
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

}  // namespace

void bind_collective_call(nb::module_& module) {
  module.def(
      "collective_function", [] { return reinterpret_cast<uintptr_t>(&call_collective); },
      "The address of a runtime::CollectiveFunction.");
}

}  // namespace opentrn::python
