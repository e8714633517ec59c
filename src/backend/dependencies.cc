#include "backend/dependencies.h"

#include <algorithm>
#include <array>
#include <compare>
#include <map>
#include <memory>

#include <fmt/format.h>

#include "backend/access.h"
#include "backend/conflict_index.h"
#include "base/interrupt.h"

namespace opentrn::backend {

using isa::InstructionIndex;
using isa::MemorySpace;
using isa::TensorId;

// One pass; holds what the pass remembers.
class DependencyFinder {
 public:
  DependencyFinder(const isa::Program& program, const isa::Kinds& kinds,
                   const std::vector<EngineChoice>& choices, const std::vector<isa::Placement>& placements,
                   const arch::NeuronCore& core, bool in_order)
      : program_(program),
        choices_(choices),
        placements_(placements),
        reader_(program, &kinds),
        in_order_(in_order),
        sbuf_(core.partitions, core.sbuf_bytes_per_partition, 0, core.partitions, kCellBytes),
        psum_(core.partitions, core.psum_bytes_per_partition, 0, core.partitions,
              core.psum_bank_bytes_per_partition),
        hbm_(program.tensor_count()),
        spaces_(program.tensor_count()),
        seen_(program.size(), 0),
        registers_(program.register_count()) {
    last_of_stream_.fill(kNone);
    last_stateful_.fill(kNone);
    for (TensorId id = 0; id < spaces_.size(); ++id) spaces_[id] = program.tensor(id).space;
    sort_edges();
    plan_hbm();
  }

  Dependencies run() {
    result_.begin_.reserve(program_.size() + 1);
    result_.begin_.push_back(0);
    for (InstructionIndex i = 0; i < program_.size(); ++i) {
      interrupt::poll();
      visit(i);
      flush(i);
    }
    return std::move(result_);
  }

 private:
  static constexpr int64_t kCellBytes = 512;  // our choice: a small tile's row
  static constexpr uint32_t kNone = 0xFFFFFFFFu;

  struct Producer {
    uint32_t any = kNone;
    bool reads_result = false;
  };
  struct Register {
    uint32_t writer = kNone;
    std::vector<uint32_t> readers;
  };

  struct Move {
    isa::RegisterId id;
    uint32_t writer;
    int64_t stride;
    int32_t element_bytes;
    auto operator<=>(const Move&) const = default;
  };

  void visit(InstructionIndex i) {
    const isa::Instruction& in = program_.instruction(i);
    const uint8_t stream = stream_of(choices_[i]);
    touched_streams_ = 0;
    if (isa::is_loop_marker(in.opcode)) {
      barrier(i);
    } else if (barrier_ != kNone) {
      depend(i, barrier_, false);
    }
    reader_.read_at(i);
    for (const RegisterAccess& access : reader_.registers()) use_register(i, access);
    // Reads before writes: an in-place instruction must see who wrote its input before it takes over.
    const std::vector<Access>& accesses = reader_.accesses();
    for (size_t a = 0; a < accesses.size(); ++a)
      if (!accesses[a].writes) use_memory(i, stream, accesses[a], reader_.place_of(a));
    for (size_t a = 0; a < accesses.size(); ++a)
      if (accesses[a].writes) use_memory(i, stream, accesses[a], reader_.place_of(a));
    if (!in_order_ && isa::engine_state_used(program_, in) != 0) {
      uint32_t& last = last_stateful_[stream];
      if (last != kNone) depend(i, last, false);
      last = i;
    }
    const bool chained = (in.flags & isa::kFlagNoReorder) != 0;
    if (chained && last_chained_ != kNone && last_chained_ + 1 == i) depend(i, last_chained_, true);
    if (chained) last_chained_ = i;
    while (next_edge_ < edges_.size() && edges_[next_edge_].consumer == i)
      depend(i, edges_[next_edge_++].producer, true);
    last_of_stream_[stream] = i;
    if (is_dma_stream(stream)) dma_since_barrier_.push_back(i);
  }

  void use_register(InstructionIndex i, const RegisterAccess& access) {
    // An instruction may read the register that it writes.
    Register& reg = registers_[access.id];
    if (reg.writer != kNone && reg.writer != i) depend(i, reg.writer, true);
    if (!access.writes) {
      reg.readers.push_back(i);
      return;
    }
    for (uint32_t reader : reg.readers)
      if (reader != i) depend(i, reader, false);
    reg.readers.clear();
    reg.writer = i;
  }

  void use_memory(InstructionIndex i, uint8_t stream, const Access& access,
                  const AccessReader::Place& place) {
    const MemorySpace space = spaces_[place.tensor];
    ConflictIndex* index = index_of(place.tensor, space);
    if (index == nullptr) return;  // read only
    const Footprint& f = access.footprint;
    int32_t row = place.row;
    int64_t bytes = place.bytes;
    if (isa::is_on_chip(space)) {
      const isa::Address& at = placements_[place.tensor].address;
      row += at.partition;
      bytes += at.byte_offset;
    }
    Record record;
    record.row_begin = f.row_begin + row;
    record.row_end = f.row_end + row;
    record.byte_begin = f.byte_begin + bytes;
    record.byte_end = f.byte_end + bytes;
    record.steps = f.steps;
    record.element_bytes = f.element_bytes;
    record.dense = f.dense;
    record.instruction = i;
    record.stream = stream;
    record.writes = access.writes;
    record.in_order = in_order_ && !is_dma_stream(stream);
    Footprint moved;
    if (f.unmoved_end > 0) [[unlikely]] {
      moved = f;
      moved.moved_by = name_of_move(access);
      moved.row_begin += row;
      moved.row_end += row;
      moved.byte_begin += bytes;
      moved.byte_end += bytes;
      record.moved = &moved;
    }
    index->add(record, [&](uint32_t earlier, bool writes) {
      if (earlier != i) depend(i, earlier, access.reads && writes);
    });
  }

  // One name for what a register adds between two of its writes.
  uint64_t name_of_move(const Access& access) {
    const isa::Indirect& indirect = *access.indirect;
    const isa::RegisterId id = indirect.index.tensor;
    const Move move{id, registers_[id].writer, indirect.stride, access.footprint.element_bytes};
    return moves_.try_emplace(move, moves_.size() + 1).first->second;
  }

  ConflictIndex* index_of(TensorId id, MemorySpace space) {
    if (space == MemorySpace::kSbuf) return &sbuf_;
    if (space == MemorySpace::kPsum) return &psum_;
    return hbm_[id].get();
  }

  // Everything before, on every stream; and afterwards nothing older matters.
  void barrier(InstructionIndex i) {
    for (int stream = 0; stream < kComputeStreams; ++stream)
      if (last_of_stream_[static_cast<size_t>(stream)] != kNone)
        depend(i, last_of_stream_[static_cast<size_t>(stream)], true);
    if (!in_order_)
      for (InstructionIndex earlier = barrier_ == kNone ? 0 : barrier_; earlier < i; ++earlier)
        depend(i, earlier, true);
    for (uint32_t dma : dma_since_barrier_) depend(i, dma, true);
    dma_since_barrier_.clear();
    sbuf_.clear();
    psum_.clear();
    for (auto& index : hbm_)
      if (index) index->clear();
    for (Register& reg : registers_) reg = {};
    moves_.clear();
    barrier_ = i;
  }

  void depend(InstructionIndex i, uint32_t producer, bool reads_result) {
    OPENTRN_CHECK(producer < i, "instruction {} depends on {}, which comes later", i, producer);
    const uint8_t from = stream_of(choices_[producer]);
    const uint8_t to = stream_of(choices_[i]);
    if (from == to && !is_dma_stream(from)) {
      if (choices_[i].engine == isa::Engine::kTensor) reads_result = false;  // the array adds in order
      if (!reads_result && in_order_) return;
    }
    if (in_order_ && !is_dma_stream(from)) {  // keep the latest of each in-order stream
      Producer& latest = latest_[from];
      if ((touched_streams_ >> from & 1) == 0) latest = {}, touched_streams_ |= 1u << from;
      if (latest.any == kNone || latest.any < producer) latest.any = producer;
      latest.reads_result |= reads_result;
      return;
    }
    if (seen_[producer] == i + 1) {
      if (reads_result)
        for (size_t e = result_.begin_.back(); e < result_.edges_.size(); ++e)
          if (result_.edges_[e].producer == producer) result_.edges_[e].reads_result = 1;
      return;
    }
    seen_[producer] = i + 1;
    result_.edges_.push_back({producer, reads_result});
  }

  void flush(InstructionIndex) {
    for (uint8_t stream = 0; stream < kComputeStreams; ++stream) {
      if ((touched_streams_ >> stream & 1) == 0) continue;
      const Producer& latest = latest_[stream];
      // When the latest is complete, so are the older ones of its stream whose results are read.
      result_.edges_.push_back({latest.any, latest.reads_result});
    }
    result_.begin_.push_back(result_.edges_.size());
  }

  void sort_edges() {
    edges_.assign(program_.edges().begin(), program_.edges().end());
    for (const isa::DependencyEdge& edge : edges_)
      if (edge.producer >= edge.consumer || edge.consumer >= program_.size())
        throw Fault(FaultKind::kProgram, "schedule.edge",
                    fmt::format("instruction {} is asked to come after {}, which is later in the program",
                                edge.consumer, edge.producer),
                    "order the two calls as the edge says");
    std::ranges::sort(edges_, {}, [](const isa::DependencyEdge& edge) { return edge.consumer; });
  }

  // An index for each HBM tensor that is written, cut into cells of the size of a typical write.
  void plan_hbm() {
    struct Shape {
      int64_t writes = 0, rows = 0, bytes = 0, pitch = 0;
    };
    std::vector<Shape> shapes(program_.tensor_count());
    for (InstructionIndex i = 0; i < program_.size(); ++i) {
      interrupt::poll();
      const isa::Instruction& in = program_.instruction(i);
      if (!runs_on_dma(program_, in) && in.opcode < isa::Opcode::kCustomOp &&
          in.opcode != isa::Opcode::kCoreBarrier)
        continue;
      reader_.read_at(i);
      for (size_t a = 0; a < reader_.accesses().size(); ++a) {
        const Access& access = reader_.accesses()[a];
        const TensorId tensor = reader_.place_of(a).tensor;
        if (!access.writes || !isa::is_hbm(spaces_[tensor])) continue;
        Shape& shape = shapes[tensor];
        const Footprint& f = access.footprint;
        ++shape.writes;
        if (f.steps ==
            nullptr) {  // anywhere in its bounds, often the whole tensor: cells would all be looked at
          shape.bytes += f.byte_end - f.byte_begin;
          continue;
        }
        shape.bytes += f.steps->run_elements * f.element_bytes;
        if (f.steps->count == 0) continue;
        // The smallest step makes the rows; larger steps skip rows.
        const Steps::Step& inner = f.steps->steps[f.steps->count - 1u];
        if (shape.pitch == 0) shape.pitch = inner.elements * f.element_bytes;
        constexpr int64_t kCellsPerWrite = 8;
        shape.rows += std::max(inner.count, (f.byte_end - f.byte_begin) / shape.pitch / kCellsPerWrite);
      }
    }
    for (TensorId id = 0; id < shapes.size(); ++id) {
      const Shape& shape = shapes[id];
      if (shape.writes == 0) continue;
      const isa::Tensor& tensor = program_.tensor(id);
      const int64_t bytes = std::max<int64_t>(1, tensor.bytes());
      const int64_t cell_rows = std::max<int64_t>(1, shape.rows / shape.writes);
      int64_t cell_bytes = std::max<int64_t>(64, shape.bytes / shape.writes);
      constexpr int64_t kCellsMax = 1 << 18;
      while (bytes / cell_bytes / cell_rows > kCellsMax) cell_bytes *= 2;
      hbm_[id] = std::make_unique<ConflictIndex>(1, bytes, std::min(shape.pitch, bytes),
                                                 shape.pitch > 0 ? cell_rows : 1, cell_bytes);
    }
  }

  const isa::Program& program_;
  const std::vector<EngineChoice>& choices_;
  const std::vector<isa::Placement>& placements_;
  AccessReader reader_;
  bool in_order_;
  ConflictIndex sbuf_, psum_;
  std::vector<std::unique_ptr<ConflictIndex>> hbm_;  // by TensorId; null: never written
  std::vector<MemorySpace> spaces_;                  // by TensorId
  LargeVector<uint32_t> seen_;                       // by producer: 1 + last consumer that listed it
  std::vector<Register> registers_;
  std::map<Move, uint64_t> moves_;
  std::vector<isa::DependencyEdge> edges_;
  size_t next_edge_ = 0;
  std::array<uint32_t, kStreamsMax> last_of_stream_{};
  std::array<uint32_t, kStreamsMax> last_stateful_{};
  std::array<Producer, kComputeStreams> latest_{};
  uint32_t touched_streams_ = 0;
  std::vector<uint32_t> dma_since_barrier_;
  uint32_t barrier_ = kNone;
  uint32_t last_chained_ = kNone;
  Dependencies result_;
};

Dependencies find_dependencies(const isa::Program& program, const isa::Kinds& kinds,
                               const std::vector<EngineChoice>& choices,
                               const std::vector<isa::Placement>& placements, const arch::NeuronCore& core,
                               bool in_order) {
  return DependencyFinder(program, kinds, choices, placements, core, in_order).run();
}

}  // namespace opentrn::backend
