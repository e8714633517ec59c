#include "compiler/lowering/hbm_capacity.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "arch/core_features.h"
#include "arch/tables.h"
#include "backend/lifetime.h"
#include "base/fault.h"

namespace opentrn::compiler {

namespace {

constexpr double kGiB = 1024.0 * 1024 * 1024;

[[noreturn]] void fail(const std::string& what, Generation generation, const SourceLocation& where = {},
                       std::optional<int64_t> of_core = {}) {
  const std::string has = of_core
                              ? fmt::format("a logical core has {:.1f} GiB of HBM, its share of the chip's",
                                            static_cast<double>(*of_core) / kGiB)
                              : fmt::format("the largest chip of {} has {:.0f} GiB of HBM", name(generation),
                                            static_cast<double>(hbm_bytes_max(generation)) / kGiB);
  std::string hint =
      "a smaller batch, narrower types or weights (--auto-cast, --weight-dtype), or a share of the model for "
      "each core";
  if (of_core && arch::core_features(generation).logical_cores)
    hint += "; with NEURON_LOGICAL_NC_CONFIG=2 a logical core has the HBM of two";
  Fault fault(FaultKind::kCapacity, "compiler.hbm", fmt::format("{}; {}", what, has), hint);
  if (where.known()) fault.set_location(where);
  throw fault;
}

std::string shape_of(const isa::Tensor& tensor) {
  std::string shape;
  for (const int64_t dim : tensor.shape) shape += (shape.empty() ? "" : ", ") + std::to_string(dim);
  return fmt::format("{} [{}]", name(tensor.dtype), shape);
}

}  // namespace

int64_t hbm_bytes_max(Generation generation) {
  double largest = 0;
  for (const arch::Chip& chip : arch::default_tables().chips())
    if (chip.generation == generation && chip.memory_gib.known())
      largest = std::max(largest, static_cast<double>(chip.memory_gib));
  return largest > 0 ? static_cast<int64_t>(largest * kGiB) : INT64_MAX;
}

void expect_hbm_for_written(const graph::Module& module, const graph::Function& function,
                            Generation generation, std::optional<int64_t> of_core) {
  const int64_t most = of_core.value_or(hbm_bytes_max(generation));
  graph::walk(function, function.body(), [&](graph::OpId id) {
    const graph::Op& op = function.op(id);
    if (op.kind != graph::OpKind::iota_ && op.kind != graph::OpKind::constant_) return;
    const graph::Type& type = function.type(op.results[0]);
    if (type.is_static() && type.byte_count() > most)
      fail(fmt::format("a value of {} ({}) alone is larger", type.to_string(), graph::name(op.kind)),
           generation, module.source(op.location), of_core);
  });
}

void expect_hbm_for(const isa::Program& program, const isa::Tensor& tensor, Generation generation) {
  const int64_t limit = hbm_bytes_max(generation);
  int64_t bytes;
  if (!__builtin_mul_overflow(tensor.row_elements, int64_t{size_bytes(tensor.dtype)}, &bytes) &&
      bytes <= limit)
    return;
  fail(fmt::format("a value of {} ({}) alone is larger", shape_of(tensor), tensor.name), generation,
       program.location(tensor.location));
}

namespace {

struct MostHbm {
  std::vector<backend::Lifetime> lives;  // by tensor
  int64_t bytes = 0;
  isa::InstructionIndex fullest = 0;
};

MostHbm most_hbm(const isa::Program& program, std::span<const isa::TensorId> always) {
  MostHbm most;
  most.lives = backend::find_lifetimes(program, backend::find_loops(program));
  const auto end = static_cast<isa::InstructionIndex>(program.size());
  for (const isa::TensorId id : always) most.lives[id] = {0, end, true};
  std::vector<std::pair<isa::InstructionIndex, int64_t>> changes;
  for (isa::TensorId id = 0; id < program.tensor_count(); ++id) {
    const isa::Tensor& tensor = program.tensor(id);
    if (!isa::is_hbm(tensor.space) || !most.lives[id].used) continue;
    changes.emplace_back(most.lives[id].first, tensor.bytes());
    changes.emplace_back(most.lives[id].last + 1, -tensor.bytes());
  }
  std::sort(changes.begin(), changes.end());  // at one place, what ends makes room first
  int64_t now = 0;
  for (const auto& [at, bytes] : changes)
    if ((now += bytes) > most.bytes) most.bytes = now, most.fullest = at;
  return most;
}

}  // namespace

int64_t hbm_bytes_of(const isa::Program& program, std::span<const isa::TensorId> always) {
  return most_hbm(program, always).bytes;
}

void expect_hbm_for(const isa::Program& program, std::span<const isa::TensorId> always, Generation generation,
                    std::optional<int64_t> of_core) {
  const auto [lives, most, fullest] = most_hbm(program, always);
  if (most <= of_core.value_or(hbm_bytes_max(generation))) return;
  std::vector<isa::TensorId> live;
  for (isa::TensorId id = 0; id < program.tensor_count(); ++id)
    if (isa::is_hbm(program.tensor(id).space) && lives[id].used && lives[id].first <= fullest &&
        fullest <= lives[id].last)
      live.push_back(id);
  std::ranges::stable_sort(live, std::greater{},
                           [&](isa::TensorId id) { return program.tensor(id).bytes(); });
  const isa::Tensor& largest = program.tensor(live.front());
  fail(fmt::format("the model needs {:.1f} GiB of memory at once, for {} values, the largest {} ({})",
                   static_cast<double>(most) / kGiB, live.size(), shape_of(largest), largest.name),
       generation, program.location(largest.location), of_core);
}

}  // namespace opentrn::compiler
