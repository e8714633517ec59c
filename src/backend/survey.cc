#include "backend/survey.h"

#include <algorithm>

#include "backend/array_places.h"
#include "isa/definitions.h"

namespace opentrn::backend {

namespace {

// One walk; what it asks of a kind is found at the first of its instructions.
class Surveyor {
 public:
  explicit Surveyor(const isa::Program& program)
      : program_(program), fixed_(program), lifetimes_(program.tensor_count()) {}

  void visit(isa::InstructionIndex i, const isa::Instruction& in, uint32_t kind, bool fresh) {
    if (fresh) [[unlikely]]
      add_kind(in);
    const OfKind& known = of_kind_[kind];
    const isa::Operand* operands = program_.operands(in).data();
    for (uint32_t at = known.begin; at < known.end; ++at) touch(operands[slots_[at]].tensor, i);
    if (known.is_indirect) [[unlikely]]
      touch_indices(in, i);
    if (known.product != nullptr && !products_ask_)
      products_ask_ = !fixed_.holds(operands[known.product->stationary], known.stationary_bytes) ||
                      !fixed_.holds(operands[known.product->moving], known.moving_bytes);
  }

  std::vector<Lifetime> take_lifetimes() {
    return has_loops_ ? find_lifetimes(program_, find_loops(program_)) : std::move(lifetimes_);
  }
  bool products_ask() const { return products_ask_; }

 private:
  struct OfKind {
    uint32_t begin = 0, end = 0;  // of the slots of its accesses, in slots_
    bool is_indirect = false;
    const isa::ArraySlots* product = nullptr;        // of one that asks where an operand's place is not fixed
    int64_t stationary_bytes = 1, moving_bytes = 1;  // of its elements
  };

  void add_kind(const isa::Instruction& in) {
    OfKind& kind = of_kind_.emplace_back();
    kind.begin = static_cast<uint32_t>(slots_.size());
    for (int slot = 0; slot < in.operand_count; ++slot) {
      const isa::Operand& operand = program_.operand(in, slot);
      if (!operand.is_access()) continue;
      slots_.push_back(static_cast<uint8_t>(slot));
      kind.is_indirect = kind.is_indirect || operand.indirect != isa::kNoIndirect;
    }
    kind.end = static_cast<uint32_t>(slots_.size());
    has_loops_ = has_loops_ || isa::is_loop_marker(in.opcode);
    const isa::ArraySlots* product = isa::definition(in.opcode).array;
    if (product == nullptr || products_ask_) return;
    if (!uses_whole_array(program_, in)) {
      products_ask_ = true;
      return;
    }
    kind.product = product;
    kind.stationary_bytes = size_bytes(program_.operand(in, product->stationary).dtype);
    kind.moving_bytes = size_bytes(program_.operand(in, product->moving).dtype);
  }

  // Where there are no loops, a tensor lives from its first access to its last.
  void touch(isa::TensorId tensor, isa::InstructionIndex i) {
    Lifetime& life = lifetimes_[tensor];
    if (!life.used) life.first = i, life.used = true;
    life.last = i;
  }
  void touch_indices(const isa::Instruction& in, isa::InstructionIndex i) {
    for (const isa::Operand& operand : program_.operands(in)) {
      if (!operand.is_access() || operand.indirect == isa::kNoIndirect) continue;
      const isa::Operand& index = program_.indirect(operand).index;
      if (index.is_access()) touch(index.tensor, i);
    }
  }

  const isa::Program& program_;
  const FixedPlaces fixed_;
  std::vector<Lifetime> lifetimes_;
  std::vector<OfKind> of_kind_;
  std::vector<uint8_t> slots_;
  bool has_loops_ = false, products_ask_ = false;
};

}  // namespace

Survey::Survey(std::shared_ptr<const isa::Program> program) : program(std::move(program)) {
  Surveyor surveyor(*this->program);
  kinds = std::make_shared<const isa::Kinds>(
      *this->program, [&](isa::InstructionIndex i, const isa::Instruction& in, uint32_t kind, bool fresh) {
        surveyor.visit(i, in, kind, fresh);
      });
  lifetimes = surveyor.take_lifetimes();
  products_ask = surveyor.products_ask();
}

}  // namespace opentrn::backend
