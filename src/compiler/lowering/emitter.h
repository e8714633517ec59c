// Emitter: writes the instructions of device kernels into an isa::Program.
//
// Kernels work on tiles (rectangles of SBUF or PSUM, partitions by columns) and on views (strided boxes of
// HBM tensors). One method is one instruction; tiles are virtual, the backend places them. Every
// instruction is checked against the rules of isa/constraints.h: a broken one is a bug of the kernel here,
// never of the user's model.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "arch/arch.h"
#include "cost/usual.h"
#include "isa/custom_ops.h"
#include "isa/kernel.h"
#include "isa/origin.h"
#include "isa/program.h"

namespace opentrn::compiler {

inline constexpr int64_t kPartitions = 128;
inline constexpr int64_t kPsumBankColumns = 512;  // fp32

// A rectangle of an on-chip tensor. A column stride of 0 repeats one column. Columns may come in several
// equal runs (the rows of an image patch).
struct Tile {
  isa::TensorId tensor = 0;
  isa::MemorySpace space = isa::MemorySpace::kSbuf;
  DType dtype = DType::kFloat32;
  int64_t row_elements = 0;  // of the tensor
  int64_t offset = 0;        // elements, of the first row and column
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t column_step = 1;
  int64_t runs = 1;  // `columns` is of one run
  int64_t run_step = 0;
  int64_t groups = 1;  // of runs, such as the images of a batch
  int64_t group_step = 0;

  Tile row_range(int64_t begin, int64_t count) const;
  Tile column_range(int64_t begin, int64_t count) const;
  // Runs of `count` columns, `step` apart, from column `begin`; the runs are `run_step` apart.
  Tile patch(int64_t begin, int64_t runs, int64_t run_step, int64_t count, int64_t step) const;
  // `groups` of that, `group_step` apart.
  Tile patches(int64_t begin, int64_t groups, int64_t group_step, int64_t runs, int64_t run_step,
               int64_t count, int64_t step) const;
  // A [rows, 1] tile as `count` equal columns.
  Tile repeated(int64_t count) const;
  Tile as(DType other) const;  // same bits; element sizes are equal
  bool operator==(const Tile&) const = default;
};

// A strided box of an HBM tensor: what a graph value looks like in memory.
struct View {
  isa::TensorId tensor = 0;
  DType dtype = DType::kFloat32;
  int64_t offset = 0;          // elements
  std::vector<isa::Dim> dims;  // outermost first

  int64_t element_count() const;
  // Neighbouring dimensions that one step walks are made one; single ones are dropped.
  View merged() const;
  bool contiguous() const;
};

// The same elements with another shape, when strides can say so.
std::optional<View> reshaped(const View& view, std::span<const int64_t> dims);
// The same dimensions with those that follow each other without a gap as one.
std::vector<isa::Dim> merged(std::vector<isa::Dim> dims);

// A number, or one number per partition ([P, 1], fp32 unless the data are integers).
using Scalar = std::variant<double, Tile>;

class Residency;

class Emitter {
 public:
  // costs_of: the generation by whose costs engines share work.
  Emitter(std::shared_ptr<isa::Program> program, Generation generation, Generation costs_of);
  Emitter(std::shared_ptr<isa::Program> program, Generation generation)
      : Emitter(std::move(program), generation, generation) {}

  const isa::Program& program() const { return *program_; }
  Generation generation() const { return generation_; }
  // Instructions that follow belong to this op of the origin's table, at this place of the model.
  void set_op(uint32_t op, const SourceLocation& location);
  // A further kernel begins.
  void begin_kernel() { ++span_.kernel; }
  // Where every instruction comes from. Ops are added by whoever numbers them.
  isa::Origin& origin() { return origin_; }
  // Instructions of its lifetime move what others need elsewhere.
  class Moving {
   public:
    Moving(Emitter& emitter, isa::Purpose purpose) : emitter_(emitter), before_(emitter.span_.purpose) {
      emitter_.span_.purpose = purpose;
    }
    ~Moving() { emitter_.span_.purpose = before_; }
    Moving(const Moving&) = delete;
    Moving& operator=(const Moving&) = delete;

   private:
    Emitter& emitter_;
    isa::Purpose before_;
  };
  // What is asked before an HBM tensor is read. Must outlive the emitter's use.
  void set_residency(Residency* residency) { residency_ = residency; }
  Residency& residency() { return *residency_; }

  Tile sbuf(int64_t rows, int64_t columns, DType dtype, std::string name);
  // A bank of its own, in turn, so that the next product need not wait until this one is copied out. Kernels
  // hold fewer of them at once than there are banks.
  Tile psum(int64_t rows, int64_t columns, DType dtype, std::string name);
  // fp32 over as many banks as the columns take, neighbours in memory; of all but the last two.
  Tile psum_banks(int64_t rows, int64_t columns, std::string name);
  // For a tile that is transposed and copied out at once: of up to 128 columns, in the last two banks, which
  // psum_banks() leaves alone.
  Tile psum_transposed(int64_t rows, int64_t columns, DType dtype, std::string name);
  // In a bank that the kernel chooses; columns may go on into the banks after it.
  Tile psum_at(int64_t bank, int64_t byte, int64_t rows, int64_t columns, DType dtype, std::string name);
  // Row-major.
  View hbm(std::span<const int64_t> shape, DType dtype, std::string name);
  View input(std::span<const int64_t> shape, DType dtype, std::string name);
  // The tensor of HBM as a result of other dimensions; its elements stay where they are.
  void reshape(isa::TensorId tensor, std::vector<int64_t> dims);
  void mark_output(const View& whole, std::string name);

  // Whether transfers between transposed sides may go over the Tensor engine and the PSUM banks of
  // psum_transposed(). Off for kernels that hold sums in all banks while they load and store.
  void set_turns(bool turns) { turns_ = turns; }

  // Elements pass in row-major order of either side. dst and src: SBUF tiles or views.
  void load(const Tile& dst, const View& src);
  void store(const View& dst, const Tile& src);
  // Within SBUF: by an engine where both ends may be reached by one, else by DMA.
  void move(const Tile& dst, const Tile& src);
  // gaps_are_written: all of what lies between the elements of dst has been written, and may be written
  // again.
  void copy(const View& dst, const View& src, bool gaps_are_written = false);
  // The kernel's program, on whole contiguous HBM tensors: `tensors` are those of its operands, results and
  // constants, by the kernel's ids. Faults of isa::check.
  void inline_kernel(const isa::Kernel& kernel, const std::map<isa::TensorId, isa::TensorId>& tensors);
  // The operator of that name (isa/custom_ops.h), on GpSimd.
  void custom_op(std::string_view name, std::span<const View> outputs, std::span<const View> inputs);
  // Ops of the model that the host does (expand/host_ops.h), which take no time of the device's.
  void host_call(std::string_view ops, std::span<const View> outputs, std::span<const View> inputs);
  // Row r of dst is the `columns` elements of `table` (dims: rows, columns) at row index[r]; `index` is int32
  // [rows, 1], values in [0, rows of the table).
  void gather_rows(const Tile& dst, const View& table, const Tile& index);

  // The other way, of rows that no two indices name; what lies outside the table is not written.
  void scatter_rows(const View& table, const Tile& index, const Tile& src);

  // -- addresses known at run time: registers are 32-bit integers
  isa::RegisterId new_register() { return program_->add_register(); }
  void register_load(isa::RegisterId dst, const View& element);
  void register_load(isa::RegisterId dst, const Tile& element);
  void register_store(const View& element, isa::RegisterId src);
  void register_store(const Tile& element, isa::RegisterId src);
  using RegisterOrNumber = std::variant<isa::RegisterId, int64_t>;
  void register_alu(AluOp op, isa::RegisterId dst, RegisterOrNumber a, RegisterOrNumber b);
  void register_move(isa::RegisterId dst, RegisterOrNumber src) {
    register_alu(AluOp::kAdd, dst, src, int64_t{0});
  }
  // The box, `offset` elements further on, as a view like others: under a tensor's id of its own, which only
  // operands of this emitter know. The register holds a number in [0, bound), and nothing else while the view
  // is used.
  View moved(const View& box, isa::RegisterId offset, int64_t bound);
  bool is_moved(isa::TensorId tensor) const { return tensor >= kFirstMoved; }
  // As load and store, `offset` elements further on; the register holds a number in [0, bound).
  void load_at(const Tile& dst, const View& src, isa::RegisterId offset, int64_t bound);
  void store_at(const View& dst, isa::RegisterId offset, int64_t bound, const Tile& src);
  // From memory to memory; only the one of the two that has a register is moved.
  void copy_from(const View& dst, const View& src, isa::RegisterId offset, int64_t bound);
  void copy_to(const View& dst, isa::RegisterId offset, int64_t bound, const View& src);

  // place = place op with, the register's number of times `step` elements further on; it is in [0, bound).
  void update_at(AluOp op, const Tile& place, isa::RegisterId number, int64_t step, int64_t bound,
                 const Tile& with);

  // -- loops. Tensors made between begin and end belong to one iteration.
  // counter = lower, lower + step, ... below upper
  void begin_loop(isa::RegisterId counter, RegisterOrNumber lower, RegisterOrNumber upper, int64_t step);
  // Goes on while the register, looked at before every iteration, is not 0.
  void begin_while(isa::RegisterId condition);
  void end_loop();

  // On NeuronCore-v2 the backend has no choice between Vector and Scalar, as they take different
  // instructions: true when Scalar would be the less busy one with an instruction that makes `dst`.
  bool scalar_is_freer(const Tile& dst) const;
  void memset(const Tile& dst, double value);
  void tensor_copy(const Tile& dst, const Tile& src, isa::Engine engine = isa::Engine::kUnknown);
  void tensor_tensor(AluOp op, const Tile& dst, const Tile& a, const Tile& b);
  // dst = data * data: by Scalar, whose instruction reads the tile once, unless it has more to do than
  // Vector.
  void square(const Tile& dst, const Tile& data);
  // dst = data op scalar; `reverse`: scalar op data.
  void tensor_scalar(AluOp op, const Tile& dst, const Tile& data, const Scalar& scalar, bool reverse = false);
  // dst = (data op0 scalar0) op1 scalar1; `reverse1`: scalar1 op1 (data op0 scalar0)
  void tensor_scalar(AluOp op0, const Scalar& scalar0, AluOp op1, const Scalar& scalar1, const Tile& dst,
                     const Tile& data, bool reverse1 = false);
  // The function's table is loaded here, by an activation that nobody waits for.
  void load_table(ActivationFunction function);
  // dst = function(data * scale + bias)
  void activation(ActivationFunction function, const Tile& dst, const Tile& data, double scale = 1.0,
                  std::optional<Tile> bias = std::nullopt);
  // As activation, and the sums of dst's rows before rounding: over a chain of calls that the first one
  // begins, read out where `sum` ([rows, 1]) is given.
  void activation_sum(ActivationFunction function, const Tile& dst, const Tile& data, double scale,
                      const Tile& bias, bool begins, std::optional<Tile> sum);
  // dst = data op scalar, and the largest of dst's rows: over a chain of calls, which begins with `first` of
  // [rows, 1], or with nothing. Its negative is read out where `negated` ([rows, 1]) is given.
  struct Chain {
    bool begins = true;
    std::optional<Tile> first, negated;
  };
  void tensor_scalar_max(AluOp op, const Tile& dst, const Tile& data, const Scalar& scalar,
                         const Chain& chain);
  // dst = (data op0 scalar) op1 tensor, or tensor op1 (data op0 scalar)
  void scalar_tensor_tensor(AluOp op0, const Scalar& scalar, AluOp op1, const Tile& dst, const Tile& data,
                            const Tile& tensor, bool reverse1 = false);
  // dst[i] = (factor[i] op0 dst[i - 1]) op1 data[i] along rows, from `start`.
  void scan(AluOp op0, AluOp op1, const Tile& dst, const Tile& factor, const Tile& data, const Scalar& start);
  // dst [rows, 1], or [rows, runs] where data comes in several runs
  void reduce(AluOp op, const Tile& dst, const Tile& data);
  // The 8 largest of each row in order; where the first ones with these values are, those of equal ones one
  // after another; the row with these replaced.
  void max8(const Tile& dst, const Tile& data);
  void find_index8(const Tile& dst, const Tile& data, const Tile& values);
  void match_replace8(const Tile& dst, const Tile& data, const Tile& values, double replacement);
  // dst = predicate ? src : dst
  void copy_where(const Tile& dst, const Tile& src, const Tile& predicate);
  void matmul(const Tile& dst, const Tile& stationary, const Tile& moving, bool accumulate);
  // fp8 operands of [partitions, 2, columns]: 256 terms at once.
  void matmul_double_row(const Tile& dst, const Tile& stationary, const Tile& moving, bool accumulate);
  // Packed operands with e8m0 scales (NeuronCore-v4).
  void matmul_mx(const Tile& dst, const Tile& stationary, const Tile& moving, const Tile& stationary_scale,
                 const Tile& moving_scale, bool accumulate);
  // stationary: 4 of every 4 * ratio terms, which `tags` name; moving [partitions, ratio, columns].
  void matmul_sparse(const Tile& dst, const Tile& stationary, const Tile& moving, const Tile& tags,
                     int64_t ratio, bool accumulate);
  // 16-bit floats to MXFP8, four columns to one.
  void quantize_mx(const Tile& dst, const Tile& scale, const Tile& data);
  // dst (PSUM) = data transposed.
  void transpose(const Tile& dst, const Tile& data);

 private:
  void count_work(const isa::Instruction& instruction);
  double busy_ns(isa::Opcode opcode, isa::Engine engine, int64_t columns) const;
  isa::Operand operand(const Tile& tile);
  isa::Operand operand(const View& view);
  isa::Operand box_operand(const View& box);
  void append_custom_op(std::string_view name, isa::CustomOpTime time, std::span<const isa::Operand> operands,
                        size_t outputs);
  isa::Operand read_operand(const View& view);
  isa::Operand moved_operand(const View& view, isa::RegisterId offset, int64_t bound);
  bool load_resident(const Tile& dst, const View& src);
  bool copy_resident(const View& dst, const View& src);
  void transfer(const isa::Operand& dst, const isa::Operand& src);
  isa::Operand indexed_rows(const View& table, int64_t rows, const Tile& index);
  isa::Operand operand(const Scalar& scalar);
  void append(isa::Opcode opcode, isa::Engine engine, std::initializer_list<isa::Operand> operands,
              std::initializer_list<int64_t> attributes);
  View in_hbm(std::span<const int64_t> shape, DType dtype, std::string name, bool is_input);
  isa::TensorId memory_of(isa::TensorId tensor) const;
  uint32_t by_register(isa::RegisterId offset, int64_t bound);
  Tile on_chip(isa::MemorySpace space, int64_t rows, int64_t columns, DType dtype, std::string name);

  isa::InstructionIndex append(isa::Opcode opcode, std::span<const isa::Operand> operands,
                               std::span<const isa::AttributeWord> attributes, isa::Engine engine);

  struct Moved {
    isa::TensorId memory;
    isa::RegisterId offset;
    int64_t bound;
  };
  static constexpr isa::TensorId kFirstMoved = isa::TensorId{1} << 31;

  std::shared_ptr<isa::Program> program_;
  std::vector<Moved> moved_;                       // by id, from kFirstMoved on
  std::vector<isa::InstructionIndex> open_loops_;  // innermost last
  Generation generation_;
  isa::LocationId location_ = 0;
  isa::Origin origin_;
  isa::OriginSpan span_;
  Residency* residency_ = nullptr;
  int64_t psum_banks_, psum_bank_bytes_;
  const cost::Costs& costs_;
  int64_t next_psum_bank_ = 0, next_psum_slot_ = 0;
  int64_t prepared_descriptors_ = 0;
  bool turns_ = true;
  double vector_lead_ns_ =
      0;  // work of Vector less that of Scalar, lately: what neither can leave to the other
};

}  // namespace opentrn::compiler
