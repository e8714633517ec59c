#include "backend/dependencies.h"

#include <algorithm>
#include <array>
#include <bit>
#include <compare>
#include <map>
#include <memory>

#include <fmt/format.h>

#include "backend/access.h"
#include "backend/conflict_index.h"
#include "backend/kind_accesses.h"
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
        kinds_(kinds),
        choices_(choices),
        reader_(program),
        by_kind_(program, kinds, reader_.footprints()),
        in_order_(in_order),
        sbuf_(arena_, core.sbuf_bytes_per_partition, kCellBytes),
        psum_(arena_, core.psum_bytes_per_partition, core.psum_bank_bytes_per_partition),
        hbm_(program.tensor_count()),
        origins_(program.tensor_count()),
        seen_(program.size(), 0),
        registers_(program.register_count()) {
    last_of_stream_.fill(kNone);
    last_stateful_.fill(kNone);
    for (TensorId id = 0; id < origins_.size(); ++id) {
      const MemorySpace space = program.tensor(id).space;
      const isa::Address& at = placements[id].address;
      origins_[id] =
          isa::is_on_chip(space) ? Origin{at.byte_offset, at.partition, space} : Origin{0, 0, space};
    }
    sort_edges();
    plan_hbm();
  }

  Dependencies run() {
    result_.begin_.reserve(program_.size() + 1);
    result_.edges_.reserve(2 * program_.size());
    result_.begin_.push_back(0);
    for (InstructionIndex i = 0; i < program_.size(); ++i) {
      interrupt::poll();
      visit(i);
      flush();
    }
    return std::move(result_);
  }

 private:
  static constexpr int64_t kCellBytes = 512;  // our choice: a small tile's row
  static constexpr uint32_t kNone = 0xFFFFFFFFu;

  struct Producer {
    uint32_t any = 0;
    bool reads_result = false;
  };
  struct Register {
    uint32_t writer = kNone;
    std::vector<uint32_t> readers;
  };

  // Of a tensor: what is added to its accesses' rows and bytes.
  struct Origin {
    int64_t bytes = 0;
    int32_t row = 0;
    MemorySpace space = MemorySpace::kSbuf;
  };

  // Of an access of a plain instruction: two of one place are of one stream, and touch the same bytes.
  struct Place {
    uint64_t tensor_and_offset = 0;
    uint32_t what = kNone;  // access of a kind, and stream
    bool operator==(const Place&) const = default;
  };
  // A read of a stream that keeps its order, and where it is found again; the last one of those that share an
  // entry. Few, so that they stay in the nearest cache: reads come again soon or not at all.
  struct ReadAgain {
    Place at;
    ConflictIndex::Again where;
  };
  static constexpr size_t kReadsAgain = 512;

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
    now_ = {i, stream, choices_[i].engine == isa::Engine::kTensor, in_order_ && !is_dma_stream(stream)};
    touched_streams_ = 0;
    if (isa::is_loop_marker(in.opcode)) [[unlikely]] {
      barrier(i);
    } else if (barrier_ != kNone) {
      depend(barrier_, false);
    }
    // Reads before writes: an in-place instruction must see who wrote its input before it takes over.
    const uint32_t kind = kinds_.of(i);
    if (by_kind_.is_plain(kind)) [[likely]] {
      const isa::Operand* operands = program_.operands(in).data();
      const bool in_order = now_.in_order;
      for (const KindAccess& access : by_kind_.of(kind)) {
        const isa::Operand& operand = operands[access.slot];
        if (in_order && comes_again(access, operand, i, stream)) continue;
        use_memory(access, operand);
      }
    } else {
      reader_.read(in);
      for (const RegisterAccess& access : reader_.registers()) use_register(i, access);
      for (const bool writes : {false, true})
        for (const Access& access : reader_.accesses())
          if (access.writes == writes) use_memory(access);
    }
    if (!in_order_ && isa::engine_state_used(program_, in) != 0) {
      uint32_t& last = last_stateful_[stream];
      if (last != kNone) depend(last, false);
      last = i;
    }
    if ((in.flags & isa::kFlagNoReorder) != 0) [[unlikely]] {
      if (last_chained_ != kNone && last_chained_ + 1 == i) depend(last_chained_, true);
      last_chained_ = i;
    }
    while (next_edge_ < edges_.size() && edges_[next_edge_].consumer == i)
      depend(edges_[next_edge_++].producer, true);
    last_of_stream_[stream] = i;
    if (is_dma_stream(stream)) dma_since_barrier_.push_back(i);
  }

  void use_register(InstructionIndex i, const RegisterAccess& access) {
    // An instruction may read the register that it writes.
    Register& reg = registers_[access.id];
    if (reg.writer != kNone && reg.writer != i) depend(reg.writer, true);
    if (!access.writes) {
      reg.readers.push_back(i);
      return;
    }
    for (uint32_t reader : reg.readers)
      if (reader != i) depend(reader, false);
    reg.readers.clear();
    reg.writer = i;
  }

  [[gnu::noinline]] void use_memory(const KindAccess& access, const isa::Operand& operand) {
    ConflictIndex* index = index_of(operand.tensor, access.space);
    if (index == nullptr) return;  // read only
    ConflictIndex::Again* again = nullptr;
    if (now_.in_order && access.space == MemorySpace::kSbuf && !access.writes && operand.offset >> 32 == 0) {
      const Place at = place_of(access, operand, now_.stream);
      ReadAgain& entry = read_again_at(at);
      // Word by word: what is put together elsewhere and copied in larger pieces waits for its stores.
      entry.at.tensor_and_offset = at.tensor_and_offset;
      entry.at.what = at.what;
      entry.where.count = 0;
      again = &entry.where;
    }
    if (access.space == MemorySpace::kPsum) note_psum(access, operand);
    const Origin& origin = origins_[operand.tensor];
    const KindAccess::Move move = access.move_by(operand.offset);
    const Record record =
        record_of(access.footprint, origin.row + move.rows, origin.bytes + move.bytes, access.writes);
    add(*index, record, nullptr, access.reads, again);
  }

  void note_psum(const KindAccess& access, const isa::Operand& operand) {
    const Place at = place_of(access, operand, now_.stream);
    const bool may_come_again = now_.in_order && access.writes && operand.offset >> 32 == 0;
    psum_written_.tensor_and_offset = at.tensor_and_offset;
    psum_written_.what = may_come_again ? at.what : kNone;
  }

  // Whether the access is one that its stream made before, and all that it changes is who made it last.
  [[gnu::always_inline]] bool comes_again(const KindAccess& access, const isa::Operand& operand,
                                          InstructionIndex i, uint8_t stream) {
    const Place at = place_of(access, operand, stream);
    if (access.space == MemorySpace::kSbuf && !access.writes) {
      const ReadAgain& entry = read_again_at(at);
      return entry.at == at && sbuf_.read_again(entry.where, i);
    }
    if (access.space != MemorySpace::kPsum || !access.writes || psum_written_ != at) return false;
    const uint32_t before = psum_.write_again(i);
    if (before == ConflictIndex::kNone) return false;
    if (access.reads && !now_.adds_in_order && before != i) depend(before, stream, true);
    return true;
  }
  static Place place_of(const KindAccess& access, const isa::Operand& operand, uint8_t stream) {
    return {operand.tensor | static_cast<uint64_t>(operand.offset) << 32, access.number << 8 | stream};
  }
  ReadAgain& read_again_at(const Place& at) {
    const uint64_t hash = at.tensor_and_offset * 0x9E3779B97F4A7C15u + at.what * uint64_t{0xC2B2AE3D27D4EB4F};
    return reads_again_[(hash >> 40) % kReadsAgain];
  }

  [[gnu::noinline]] void use_memory(const Access& access) {
    const Origin& origin = origins_[access.tensor];
    ConflictIndex* index = index_of(access.tensor, origin.space);
    if (index == nullptr) return;  // read only
    psum_written_ = {};
    const Footprint& f = access.footprint;
    const Record record = record_of(f, origin.row, origin.bytes, access.writes);
    if (f.unmoved_end == 0) return add(*index, record, nullptr, access.reads);
    Footprint moved = f;
    moved.moved_by = name_of_move(access);
    moved.row_begin = record.row_begin();
    moved.row_end = record.row_end();
    moved.byte_begin = record.byte_begin;
    moved.byte_end = record.byte_end;
    add(*index, record, &moved, access.reads);
  }

  [[gnu::always_inline]] Record record_of(const Footprint& f, int32_t row, int64_t bytes, bool writes) const {
    return {f.byte_begin + bytes,
            f.byte_end + bytes,
            f.steps,
            f.row_begin + row,
            f.row_end + row,
            now_.instruction,
            {static_cast<uint16_t>(f.element_bytes), f.dense, now_.stream, writes, now_.in_order}};
  }

  [[gnu::always_inline]] void add(ConflictIndex& index, Record record, const Footprint* moved, bool reads,
                                  ConflictIndex::Again* again = nullptr) {
    const auto visit = [&](uint32_t earlier, uint8_t stream, bool wrote) {
      if (earlier == now_.instruction) return;
      const bool reads_result = reads && wrote;
      if (now_.in_order && stream == now_.stream && (!reads_result || now_.adds_in_order)) return;
      depend(earlier, stream, reads_result);
    };
    index.add(record, moved, visit, again);
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
        depend(last_of_stream_[static_cast<size_t>(stream)], true);
    if (!in_order_)
      for (InstructionIndex earlier = barrier_ == kNone ? 0 : barrier_; earlier < i; ++earlier)
        depend(earlier, true);
    for (uint32_t dma : dma_since_barrier_) depend(dma, true);
    dma_since_barrier_.clear();
    sbuf_.clear();
    psum_.clear();
    for (auto& index : hbm_)
      if (index) index->clear();
    for (Register& reg : registers_) reg = {};
    moves_.clear();
    barrier_ = i;
  }

  void depend(uint32_t producer, bool reads_result) {
    depend(producer, stream_of(choices_[producer]), reads_result);
  }

  // Of the instruction at hand on an earlier one, which is on stream `from`.
  void depend(uint32_t producer, uint8_t from, bool reads_result) {
    if (producer >= now_.instruction) [[unlikely]]
      refuse_later(producer);
    if (from == now_.stream && !is_dma_stream(from)) {
      if (now_.adds_in_order) reads_result = false;
      if (!reads_result && in_order_) return;
    }
    if (in_order_ && !is_dma_stream(from)) {  // keep the latest of each in-order stream
      Producer& latest = latest_[from];
      const bool is_first = (touched_streams_ >> from & 1) == 0;
      touched_streams_ |= 1u << from;
      latest.any = is_first ? producer : std::max(latest.any, producer);
      latest.reads_result = (!is_first && latest.reads_result) || reads_result;
      return;
    }
    list(producer, reads_result);
  }
  [[gnu::cold, gnu::noinline]] void refuse_later(uint32_t producer) const {
    OPENTRN_CHECK(producer < now_.instruction, "instruction {} depends on {}, which comes later",
                  now_.instruction, producer);
  }

  // Lists a producer once.
  [[gnu::noinline]] void list(uint32_t producer, bool reads_result) {
    // Two in each word: who listed it, and whether its result is read.
    const uint32_t listed = 2 * (now_.instruction + 1);
    uint32_t& seen = seen_[producer];
    if (seen == (listed | 1u) || (seen == listed && !reads_result)) return;
    if (seen == listed) {
      for (size_t e = result_.begin_.back(); e < result_.edges_.size(); ++e)
        if (result_.edges_[e].producer == producer) result_.edges_[e].reads_result = 1;
    } else {
      result_.edges_.push_back({producer, reads_result});
    }
    seen = listed | static_cast<uint32_t>(reads_result);
  }

  void flush() {
    for (uint32_t streams = touched_streams_; streams != 0; streams &= streams - 1) {
      const Producer& latest = latest_[static_cast<size_t>(std::countr_zero(streams))];
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
  struct HbmShape {
    int64_t writes = 0, rows = 0, bytes = 0, pitch = 0;

    void add(const Footprint& f) {
      ++writes;
      if (f.steps ==
          nullptr) {  // anywhere in its bounds, often the whole tensor: cells would all be looked at
        bytes += f.byte_end - f.byte_begin;
        return;
      }
      bytes += f.steps->run_elements * f.element_bytes;
      if (f.steps->count == 0) return;
      // The smallest step makes the rows; larger steps skip rows.
      const Steps::Step& inner = f.steps->steps[f.steps->count - 1u];
      if (pitch == 0) pitch = inner.elements * f.element_bytes;
      constexpr int64_t kCellsPerWrite = 8;
      rows += std::max(inner.count, (f.byte_end - f.byte_begin) / pitch / kCellsPerWrite);
    }
  };
  void plan_hbm() {
    const std::vector<HbmShape> shapes = find_hbm_shapes();
    for (TensorId id = 0; id < shapes.size(); ++id) {
      const HbmShape& shape = shapes[id];
      if (shape.writes == 0) continue;
      const isa::Tensor& tensor = program_.tensor(id);
      const int64_t bytes = std::max<int64_t>(1, tensor.bytes());
      const int64_t cell_rows = std::max<int64_t>(1, shape.rows / shape.writes);
      int64_t cell_bytes = std::max<int64_t>(64, shape.bytes / shape.writes);
      constexpr int64_t kCellsMax = 1 << 18;
      while (bytes / cell_bytes / cell_rows > kCellsMax) cell_bytes *= 2;
      hbm_[id] = std::make_unique<ConflictIndex>(arena_, bytes, std::min(shape.pitch, bytes),
                                                 shape.pitch > 0 ? cell_rows : 1, cell_bytes);
    }
  }
  std::vector<HbmShape> find_hbm_shapes() {
    std::vector<HbmShape> shapes(program_.tensor_count());
    std::vector<bool> may_write(kinds_.count());
    for (uint32_t kind = 0; kind < kinds_.count(); ++kind) {
      const isa::Instruction& in = program_.instruction(kinds_.first(kind));
      may_write[kind] = runs_on_dma(program_, in) || in.opcode >= isa::Opcode::kCustomOp ||
                        in.opcode == isa::Opcode::kCoreBarrier;
    }
    for (InstructionIndex i = 0; i < program_.size(); ++i) {
      interrupt::poll();
      const uint32_t kind = kinds_.of(i);
      if (!may_write[kind]) continue;
      const isa::Instruction& in = program_.instruction(i);
      if (by_kind_.is_plain(kind)) {
        for (const KindAccess& access : by_kind_.of(kind))
          if (access.writes && isa::is_hbm(access.space))
            shapes[program_.operand(in, access.slot).tensor].add(access.footprint);
        continue;
      }
      reader_.read(in);
      for (const Access& access : reader_.accesses())
        if (access.writes && isa::is_hbm(origins_[access.tensor].space))
          shapes[access.tensor].add(access.footprint);
    }
    return shapes;
  }

  // The instruction at hand.
  struct Now {
    InstructionIndex instruction = 0;
    uint8_t stream = 0;
    bool adds_in_order = false;  // as the array does
    bool in_order = false;       // a later one of its stream comes after it whatever it does
  };

  const isa::Program& program_;
  const isa::Kinds& kinds_;
  const std::vector<EngineChoice>& choices_;
  AccessReader reader_;
  KindAccesses by_kind_;
  bool in_order_;
  RecordArena arena_;
  ConflictIndex sbuf_, psum_;
  std::vector<std::unique_ptr<ConflictIndex>> hbm_;  // by TensorId; null: never written
  std::vector<Origin> origins_;                      // by TensorId
  std::vector<ReadAgain> reads_again_ = std::vector<ReadAgain>(kReadsAgain);
  Place psum_written_;          // by the last access to PSUM, if that may come again
  LargeVector<uint32_t> seen_;  // by producer: see depend()
  Now now_;
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
