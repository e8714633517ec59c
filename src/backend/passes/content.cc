#include "backend/passes/content.h"

#include <bit>
#include <map>

#include "backend/access.h"
#include "base/interrupt.h"
#include "isa/definitions.h"

namespace opentrn::backend {

namespace {

using isa::Opcode;
using isa::Operand;

class Numberer {
 public:
  explicit Numberer(const isa::Program& program) : program_(program), content_(program.tensor_count()) {
    for (size_t t = 0; t < content_.size(); ++t) {
      const isa::Tensor& tensor = program.tensor(static_cast<isa::TensorId>(t));
      // Untouched on-chip tensors of one layout are alike; memory of the caller is not.
      content_[t] =
          isa::is_hbm(tensor.space)
              ? fresh()
              : number({kLayout, static_cast<uint64_t>(tensor.space), static_cast<uint64_t>(tensor.dtype),
                        static_cast<uint64_t>(tensor.rows), static_cast<uint64_t>(tensor.row_elements)});
    }
  }

  std::vector<ContentId> run() {
    for (const isa::Instruction& in : program_.instructions()) {
      interrupt::poll();
      step(in);
    }
    return std::move(content_);
  }

 private:
  enum Tag : uint64_t { kLayout, kWrite };
  using Key = std::vector<uint64_t>;

  ContentId fresh() { return next_++; }
  ContentId number(Key key) {
    const auto [it, inserted] = numbers_.try_emplace(std::move(key), next_);
    if (inserted) ++next_;
    return it->second;
  }

  void step(const isa::Instruction& in) {
    const bool pure = is_pure(program_, in);
    Key key;
    if (pure) {
      key = {kWrite, static_cast<uint64_t>(in.opcode), static_cast<uint64_t>(in.engine), in.attributes};
      int slot = 0;
      for (const Operand& operand : program_.operands(in)) add(operand, role_of(program_, in, slot++), key);
    }
    int slot = 0;
    std::vector<std::pair<isa::TensorId, ContentId>> results;
    for (const Operand& operand : program_.operands(in)) {
      const isa::Role role = role_of(program_, in, slot);
      if (operand.is_access() && role != isa::Role::kIn) {
        Key result = key;
        result.push_back(content_[operand.tensor]);
        result.push_back(static_cast<uint64_t>(slot));
        results.emplace_back(operand.tensor, pure ? number(std::move(result)) : fresh());
      }
      ++slot;
    }
    for (const auto& [tensor, content] : results) content_[tensor] = content;
  }

  void add(const Operand& operand, isa::Role role, Key& key) const {
    key.push_back(static_cast<uint64_t>(operand.kind));
    if (operand.kind == isa::OperandKind::kImmediate)
      key.push_back(std::bit_cast<uint64_t>(operand.immediate));
    if (!operand.is_access()) return;
    key.push_back(static_cast<uint64_t>(operand.dtype) << 32 | operand.pattern);
    key.push_back(static_cast<uint64_t>(operand.offset));
    if (role != isa::Role::kOut) key.push_back(content_[operand.tensor]);
  }

  const isa::Program& program_;
  std::vector<ContentId> content_;
  std::map<Key, ContentId> numbers_;
  ContentId next_ = 0;
};

}  // namespace

bool is_pure(const isa::Program& program, const isa::Instruction& in) {
  if (isa::has(in.opcode, isa::kAlone) || isa::engine_state_used(program, in) != 0) return false;
  for (const Operand& operand : program.operands(in)) {
    if (operand.kind == isa::OperandKind::kRegister) return false;
    if (operand.is_access() && operand.indirect != isa::kNoIndirect) return false;
  }
  return true;
}

std::vector<ContentId> final_contents(const isa::Program& program) { return Numberer(program).run(); }

}  // namespace opentrn::backend
