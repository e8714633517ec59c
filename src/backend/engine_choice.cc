#include "backend/engine_choice.h"

#include <algorithm>
#include <array>
#include <bit>

#include <fmt/format.h>

#include "arch/core_features.h"
#include "arch/stated.h"
#include "backend/estimate.h"
#include "backend/passes/rewrite.h"
#include "base/interrupt.h"
#include "isa/definitions.h"

namespace opentrn::backend {

namespace {

using isa::DgeMode;
using isa::Engine;
using isa::EngineMask;
using isa::Instruction;
using isa::MemorySpace;
using isa::Opcode;
using isa::Operand;

constexpr EngineMask kVector = mask(Engine::kVector), kScalar = mask(Engine::kScalar),
                     kGpSimd = mask(Engine::kGpSimd);

bool is_32bit_integer(DType dtype) { return dtype == DType::kInt32 || dtype == DType::kUint32; }

class Chooser {
 public:
  Chooser(const isa::Program& program, const isa::Kinds& kinds, const Options& options,
          const arch::Tables& tables, WorkSharing sharing)
      : program_(program),
        kinds_(kinds),
        generation_(options.generation),
        can_(arch::core_features(options.generation)),
        neuronx_cc_(options.neuronx_cc),
        dge_(options.dge),
        has_gpsimd_(arch::has_engine(tables.timing(options.generation), isa::name(Engine::kGpSimd))),
        sharing_(sharing),
        estimator_(program, kinds, tables, options.generation),
        of_kind_(kinds.count()),
        ready_ns_(sharing == WorkSharing::kByEnd ? program.tensor_count() : 0) {}

  EngineChoice choose(isa::InstructionIndex i) {
    OfKind& kind = of_kind_[kinds_.of(i)];
    if (kind.is_settled) [[likely]] {
      load_ns_[static_cast<size_t>(kind.choice.engine)] += kind.work_ns;
      return kind.choice;
    }
    const Instruction& in = program_.instruction(i);
    if (!kind.known) [[unlikely]]
      kind = of_kind(i);
    EngineChoice choice = kind.choice;
    if (kind.is_dma && kind.takes_turns)
      choice = dma_choice(in, kind.choice.dge, dge_count_++ % 2 == 0 ? Engine::kSync : Engine::kScalar);
    else if (!kind.is_dma && kind.choice.engine == Engine::kUnknown)
      choice.engine = least_loaded(i, kind.engines);
    if (sharing_ == WorkSharing::kByEnd) note_end(i, choice.engine);
    if (kind.is_dma) return choice;
    expect_engine(in, choice.engine);
    const double work_ns = estimator_.work_ns(i, choice.engine);
    load_ns_[static_cast<size_t>(choice.engine)] += work_ns;
    if (sharing_ == WorkSharing::kByLoad && kind.choice.engine == choice.engine)
      kind.is_settled = true, kind.work_ns = work_ns;
    return choice;
  }

 private:
  struct OfKind {
    bool known = false, is_dma = false;
    // A core has two descriptor units, which Sync and Scalar command (v3 guide); profiles of kernels that
    // neuronx-cc compiled show both at work. Which of them the compiler of later dialects takes is not
    // public.
    bool takes_turns = false;
    EngineChoice choice;      // of a transfer, or the engine where there is one alone
    EngineMask engines = 0;   // of which one is to be chosen
    bool is_settled = false;  // all have this choice, and take so long
    double work_ns = 0;
  };
  OfKind of_kind(isa::InstructionIndex i) {
    const Instruction& in = program_.instruction(i);
    OfKind kind;
    kind.known = true;
    kind.is_dma = runs_on_dma(program_, in);
    if (kind.is_dma) {
      const DgeMode mode = dge_mode(in);
      kind.takes_turns = neuronx_cc_ && mode == DgeMode::kHwdge && !names_trigger(in);
      kind.choice = dma_choice(in, mode, Engine::kSync);
      return kind;
    }
    kind.engines = names_engine(in) ? mask(in.engine) : candidates(i);
    kind.choice.engine = std::has_single_bit(kind.engines)
                             ? static_cast<Engine>(std::countr_zero(kind.engines))
                             : Engine::kUnknown;
    return kind;
  }

  bool any_in_psum(const Instruction& in) const {
    return std::ranges::any_of(program_.operands(in), [&](const Operand& operand) {
      return operand.is_access() && program_.tensor(operand.tensor).space == MemorySpace::kPsum;
    });
  }
  bool all_32bit_integers(const Instruction& in) const {
    return std::ranges::all_of(program_.operands(in), [](const Operand& operand) {
      return !operand.is_access() || is_32bit_integer(operand.dtype);
    });
  }
  bool any_indirect(const Instruction& in) const {
    return std::ranges::any_of(program_.operands(in),
                               [](const Operand& operand) { return operand.indirect != isa::kNoIndirect; });
  }

  // tensor_scalar on Scalar: multiply-add, multiply, or add ("The Scalar Engine on trn2 only supports").
  bool scalar_can(const Instruction& in) const {
    namespace s = isa::slot::tensor_scalar;
    if (program_.attribute_bool(in, s::kAReverse0) || program_.attribute_bool(in, s::kAReverse1))
      return false;
    const AluOp op0 = program_.attribute_alu(in, s::kAOp0);
    const int64_t op1 = program_.attribute_int(in, s::kAOp1);
    if (op0 == AluOp::kMultiply) return op1 < 0 || static_cast<AluOp>(op1) == AluOp::kAdd;
    return op0 == AluOp::kAdd && op1 < 0;
  }

  // No other engine has it in tensor_scalar (tensor_scalar.C10 and C11).
  bool has_rsqrt(const Instruction& in) const {
    namespace s = isa::slot::tensor_scalar;
    return program_.attribute_alu(in, s::kAOp0) == AluOp::kRsqrt ||
           static_cast<AluOp>(program_.attribute_int(in, s::kAOp1)) == AluOp::kRsqrt;
  }

  // A reciprocal is always recorded on Vector: kernels cannot ask for another engine, and NKI 0.1 for none.
  bool names_engine(const Instruction& in) const {
    return in.engine != Engine::kUnknown && !(in.opcode == Opcode::kReciprocal && neuronx_cc_);
  }

  // What neuronx-cc gives the Scalar engine of NeuronCore-v2 where a kernel of NKI 0.1 names no engine:
  // copies out of PSUM, even where Vector is idle; products with a number or one value per partition; and
  // reciprocals for which Vector would need longer even if Scalar had to load a function table first. An
  // activation does the work there. Read off published profiles: compiler_model.toml, fidelity/neuronx_cc.md.
  bool neuronx_cc_gives_scalar(isa::InstructionIndex i) const {
    const Instruction& in = program_.instruction(i);
    if (!neuronx_cc_ || generation_ != Generation::kV2 || in.operand_count < 2) return false;
    const Operand &dst = program_.operand(in, 0), &src = program_.operand(in, 1);
    if (!dst.is_access() || !src.is_access() || !is_float(dst.dtype) || !is_float(src.dtype)) return false;
    if (in.opcode == Opcode::kTensorCopy) return program_.tensor(src.tensor).space == MemorySpace::kPsum;
    if (in.opcode == Opcode::kReciprocal)
      return estimator_.work_ns(i, Engine::kVector) >
             estimator_.work_ns(i, Engine::kScalar) + estimator_.table_load_ns();
    if (in.opcode != Opcode::kTensorScalar) return false;
    namespace s = isa::slot::tensor_scalar;
    const Operand& factor = program_.operand(in, s::kOperand0);
    return program_.attribute_alu(in, s::kAOp0) == AluOp::kMultiply &&
           program_.attribute_int(in, s::kAOp1) < 0 &&
           (factor.kind == isa::OperandKind::kImmediate ||
            (factor.is_access() && factor.dtype == DType::kFloat32));
  }

  // -- which of its engines an instruction is given to where the program names none
  EngineMask for_copy(const Instruction&) const { return can_.scalar_copies ? kVector | kScalar : kVector; }
  EngineMask for_memset(const Instruction& in) const {
    return any_in_psum(in) || !has_gpsimd_ ? kVector : kVector | kGpSimd;
  }
  EngineMask for_tensor_scalar(const Instruction& in) const {
    if (has_rsqrt(in)) return kGpSimd;
    return can_.scalar_tensor_scalar && scalar_can(in) ? kVector | kScalar : kVector;
  }
  EngineMask for_tensor_tensor(const Instruction& in) const {
    const AluOp op = program_.attribute_alu(in, isa::slot::tensor_tensor::kAOp);
    const bool vector_only = is_bitvec(op) || op == AluOp::kAbsMax || op == AluOp::kAbsMin;
    const bool native_integers = all_32bit_integers(in) && !any_in_psum(in) && !vector_only;
    return op == AluOp::kPower || native_integers ? kGpSimd : kVector;
  }
  EngineMask for_exchange(const Instruction&) const { return kGpSimd; }

  // Those that are not in the table go to Vector where it has them.
  EngineMask candidates(isa::InstructionIndex i) const {
    const Instruction& in = program_.instruction(i);
    struct Preference {
      Opcode opcode;
      EngineMask (Chooser::*engines)(const Instruction&) const;
    };
    if (neuronx_cc_gives_scalar(i)) return kScalar;
    static constexpr Preference kPreferences[] = {
        {Opcode::kTensorCopy, &Chooser::for_copy},
        {Opcode::kMemset, &Chooser::for_memset},
        {Opcode::kTensorScalar, &Chooser::for_tensor_scalar},
        {Opcode::kTensorTensor, &Chooser::for_tensor_tensor},
        {Opcode::kNcTranspose, &Chooser::transpose_engine},
        {Opcode::kCoreBarrier, &Chooser::for_exchange},
        {Opcode::kSendRecv, &Chooser::for_exchange},
    };
    for (const Preference& preference : kPreferences)
      if (preference.opcode == in.opcode) return (this->*preference.engines)(in);
    const EngineMask all = isa::definition(in.opcode).engines;
    if (all == 0) return mask(Engine::kSync);  // control: the Sync sequencer
    return (all & kVector) != 0 ? kVector : all;
  }

  EngineMask transpose_engine(const Instruction& in) const {
    namespace s = isa::slot::nc_transpose;
    const Operand& dst = program_.operand(in, s::kDst);
    const Operand& data = program_.operand(in, s::kData);
    const bool tensor_can = program_.tensor(dst.tensor).space == MemorySpace::kPsum &&
                            program_.tensor(data.tensor).space == MemorySpace::kSbuf;
    const isa::Pattern& pattern = program_.pattern(data);
    constexpr int64_t kVectorBlock = 32;  // Vector transposes one 32 x 32 block per instruction
    const bool small = (pattern.rank == 0 || pattern.dims[0].count <= kVectorBlock) &&
                       pattern.elements_per_partition() <= kVectorBlock;
    return tensor_can && !small ? mask(Engine::kTensor) : mask(Engine::kVector);
  }

  Engine least_loaded(isa::InstructionIndex i, EngineMask engines) const {
    Engine best = Engine::kUnknown;
    double best_ns = 0;
    for (Engine engine :
         {Engine::kVector, Engine::kScalar, Engine::kTensor, Engine::kGpSimd, Engine::kSync}) {
      if ((engines & mask(engine)) == 0) continue;
      const double ns = sharing_ == WorkSharing::kByEnd
                            ? end_ns(i, engine)
                            : load_ns_[static_cast<size_t>(engine)] + estimator_.work_ns(i, engine);
      if (best == Engine::kUnknown || ns < best_ns) best = engine, best_ns = ns;
    }
    OPENTRN_CHECK(best != Engine::kUnknown, "no engine can run {}",
                  isa::name(program_.instruction(i).opcode));
    return best;
  }

  // -- when an instruction ends, if engines take theirs in the order of the program
  double operands_ready_ns(const Instruction& in) const {
    double ready = 0;
    for (const Operand& operand : program_.operands(in))
      if (operand.is_access()) ready = std::max(ready, ready_ns_[operand.tensor]);
    return ready;
  }
  double end_ns(isa::InstructionIndex i, Engine engine) const {
    const double ready = operands_ready_ns(program_.instruction(i));
    if (engine == Engine::kDma)
      return ready + estimator_.dma_latency_ns() + estimator_.dma_bytes(i) / estimator_.dma_bytes_per_ns();
    return std::max(ready, free_ns_[static_cast<size_t>(engine)]) + estimator_.work_ns(i, engine) +
           estimator_.latency_ns(engine);
  }
  void note_end(isa::InstructionIndex i, Engine engine) {
    const Instruction& in = program_.instruction(i);
    const double end = end_ns(i, engine);
    if (engine != Engine::kDma) free_ns_[static_cast<size_t>(engine)] = end - estimator_.latency_ns(engine);
    for (const Operand& operand : program_.operands(in)) {
      if (!operand.is_access()) continue;
      ready_ns_[operand.tensor] = std::max(ready_ns_[operand.tensor], end);
      break;  // the first operand is what is written
    }
  }

  // -- DMA
  DgeMode asked_mode(const Instruction& in) const {
    int slot = -1;
    if (in.opcode == Opcode::kDmaCopy) slot = isa::slot::dma_copy::kADgeMode;
    if (in.opcode == Opcode::kDmaTranspose) slot = isa::slot::dma_transpose::kADgeMode;
    return slot < 0 ? DgeMode::kUnknown : static_cast<DgeMode>(program_.attribute_int(in, slot));
  }

  DgeMode dge_mode(const Instruction& in) const {
    bool dynamic = false, vector = false;
    for (const Operand& operand : program_.operands(in)) {
      if (!operand.is_access() || operand.indirect == isa::kNoIndirect) continue;
      dynamic = true;
      vector |= program_.indirect(operand).kind != isa::IndirectKind::kScalar;
    }
    const DgeMode asked = asked_mode(in);
    if (asked == DgeMode::kHwdge && !can_.hardware_descriptors)
      throw fault(in, "dma.dge", "hardware descriptor generation needs NeuronCore-v3",
                  "use dge_mode unknown or swdge");
    if (asked == DgeMode::kHwdge && vector)
      throw fault(in, "dma.dge", "hardware descriptor generation cannot gather or scatter",
                  "use dge_mode swdge");
    if (asked == DgeMode::kNone && dynamic)
      throw fault(in, "dma.dge", "descriptors written before the run cannot hold run-time addresses",
                  "use dge_mode swdge or hwdge");
    if (asked != DgeMode::kUnknown) return asked;
    if (vector) return DgeMode::kSwdge;
    if (in.opcode == Opcode::kDmaCompute || in.opcode == Opcode::kSendRecv) return DgeMode::kNone;
    if (can_.hardware_descriptors && (dge_ || dynamic)) return DgeMode::kHwdge;
    return dynamic ? DgeMode::kSwdge : DgeMode::kNone;
  }

  static bool names_trigger(const Instruction& in) {
    return in.engine != Engine::kUnknown && in.engine != Engine::kDma;
  }

  // `generator`: the engine that starts it where nothing else says which.
  EngineChoice dma_choice(const Instruction& in, DgeMode mode, Engine generator) const {
    EngineChoice choice;
    choice.engine = Engine::kDma;
    choice.dge = mode;
    const Operand& dst = program_.operand(in, 0);
    const bool store = dst.is_access() && isa::is_hbm(program_.tensor(dst.tensor).space);
    // neuronx-cc has GpSimd start the stores of results: its active time in AccelOpt's profiles is 60 ns for
    // each of them and 1 us (matmul, transpose_matmul, gqa_full, bmm_softmax; 384 to 2048 stores, loads and
    // spills not counted).
    const bool result = store && neuronx_cc_ && has_gpsimd_ && choice.dge == DgeMode::kNone &&
                        program_.tensor(dst.tensor).space != isa::MemorySpace::kPrivateHbm;
    choice.trigger = names_trigger(in)                         ? in.engine
                     : result || choice.dge == DgeMode::kSwdge ? Engine::kGpSimd
                                                               : generator;
    expect_engine(in, choice.trigger);
    if (choice.dge == DgeMode::kHwdge && choice.trigger != Engine::kSync && choice.trigger != Engine::kScalar)
      throw fault(in, "dma.hwdge_trigger",
                  "only the Sync and Scalar sequencers can start hardware descriptor generation",
                  "leave `engine` out, or name scalar or sync");
    // Loads and stores have queues of their own, so that neither waits behind the other's transfers.
    choice.queue = static_cast<uint8_t>(2 * static_cast<int>(choice.trigger) + (store ? 1 : 0));
    return choice;
  }

  void expect_engine(const Instruction& in, Engine engine) const {
    if (engine != Engine::kGpSimd || has_gpsimd_) return;
    Fault result(FaultKind::kNotModelled, "engine.absent",
                 fmt::format("{} needs the GpSimd engine, which {} does not have", isa::name(in.opcode),
                             name(generation_)),
                 "nothing public says how it is done without; take a newer target, or name another engine");
    result.set_location(program_.location(in.location));
    throw result;
  }

  Fault fault(const Instruction& in, std::string label, std::string message, std::string hint) const {
    Fault result(FaultKind::kProgram, std::move(label), std::move(message), std::move(hint));
    result.set_location(program_.location(in.location));
    return result;
  }

  const isa::Program& program_;
  const isa::Kinds& kinds_;
  Generation generation_;
  const arch::CoreFeatures& can_;
  bool neuronx_cc_, dge_, has_gpsimd_;
  WorkSharing sharing_;
  Estimator estimator_;
  std::vector<OfKind> of_kind_;
  std::vector<double> ready_ns_;  // of kByEnd, by tensor
  std::array<double, isa::kEngineCount> free_ns_{};
  std::array<double, isa::kEngineCount> load_ns_{};
  int64_t dge_count_ = 0;
};

}  // namespace

bool runs_on_dma(const isa::Program& program, const Instruction& in) {
  if (isa::is_dma(in.opcode)) return true;
  if (in.opcode != Opcode::kSendRecv) return false;
  const auto how = static_cast<isa::DmaEngine>(program.attribute_int(in, isa::slot::sendrecv::kADmaEngine));
  return how == isa::DmaEngine::kDma;
}

std::vector<EngineChoice> choose_engines(const isa::Program& program, const isa::Kinds& kinds,
                                         const Options& options, const arch::Tables& tables,
                                         WorkSharing sharing) {
  Chooser chooser(program, kinds, options, tables, sharing);
  std::vector<EngineChoice> choices;
  choices.reserve(program.size());
  for (isa::InstructionIndex i = 0; i < program.size(); ++i) {
    interrupt::poll();
    choices.push_back(chooser.choose(i));
  }
  return choices;
}

std::shared_ptr<isa::Program> with_engines_by_end(const std::shared_ptr<isa::Program>& program,
                                                  const Options& options) {
  if (has_control_flow(*program)) return program;
  const std::vector<EngineChoice> choices =
      choose_engines(*program, isa::Kinds(*program), options, tables_of(options.tables), WorkSharing::kByEnd);
  Rewrite rewrite(*program);
  for (isa::InstructionIndex i = 0; i < program->size(); ++i) {
    const Instruction& in = program->instruction(i);
    const bool is_shared = in.opcode == Opcode::kTensorCopy || in.opcode == Opcode::kTensorScalar ||
                           in.opcode == Opcode::kMemset;
    rewrite.keep_on(i, in.engine == Engine::kUnknown && is_shared ? choices[i].engine : in.engine);
  }
  return std::make_shared<isa::Program>(rewrite.take());
}

}  // namespace opentrn::backend
