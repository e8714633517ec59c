// Plans as programs of MSCCL.
//
// Each step becomes instructions at its rank, and a receive at each rank that it writes. A thread block has
// one peer that it sends to or receives from, or is for moves within the rank; the order on a channel becomes
// dependences between thread blocks.
#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>
#include <vector>

#include "collectives/msccl.h"
#include "collectives/rules.h"
#include "collectives/verify.h"

namespace opentrn::collectives {

namespace {

// Where an instruction is: its rank, thread block and place in it.
struct Position {
  int rank = 0;
  size_t block = 0, step = 0;
};

struct WrittenInstruction {
  const char* type;
  Slice from, to;
  int64_t bytes = 0;
  std::vector<Position> after;
};

struct WrittenBlock {
  int send = -1, receive = -1, channel = 0;
  std::vector<WrittenInstruction> instructions;
};

class MscclWriter {
 public:
  explicit MscclWriter(const Plan& plan) : plan_(plan), ranks_(plan.steps.size()) {
    blocks_.resize(ranks_);
    block_of_.resize(ranks_);
    ends_.resize(ranks_);
    for (size_t rank = 0; rank < ranks_; ++rank) ends_[rank].resize(plan.steps[rank].size());
    for (const auto& steps : plan.steps)
      for (const Step& step : steps) sum_bytes_ = std::max(sum_bytes_, step.bytes);
  }

  MscclProgram run() {
    for (const StepRef& step : in_order()) write(step);
    return {text(), options()};
  }

 private:
  const Step& step_at(StepRef ref) const {
    return plan_.steps[static_cast<size_t>(ref.rank)][static_cast<size_t>(ref.step)];
  }
  // The instructions that a step ends with, at all ranks.
  std::vector<Position>& ends(StepRef ref) {
    return ends_[static_cast<size_t>(ref.rank)][static_cast<size_t>(ref.step)];
  }

  // Waits for the step before it on its channel, and for those that it names.
  std::vector<StepRef> before(StepRef ref) const {
    const auto waits = plan_.waits(ref.rank, step_at(ref));
    std::vector<StepRef> all(waits.begin(), waits.end());
    for (int32_t i = ref.step - 1; i >= 0; --i)
      if (step_at({ref.rank, i}).channel == step_at(ref).channel) {
        all.push_back({ref.rank, i});
        break;
      }
    return all;
  }

  // Every step behind what it waits for. The plan has been proved, so there is such an order.
  std::vector<StepRef> in_order() const {
    std::vector<std::vector<char>> state(ranks_);
    for (size_t rank = 0; rank < ranks_; ++rank) state[rank].resize(plan_.steps[rank].size());
    std::vector<StepRef> order, stack;
    for (size_t rank = 0; rank < ranks_; ++rank)
      for (size_t i = 0; i < plan_.steps[rank].size(); ++i) {
        stack.push_back({static_cast<int32_t>(rank), static_cast<int32_t>(i)});
        while (!stack.empty()) {
          const StepRef ref = stack.back();
          char& here = state[static_cast<size_t>(ref.rank)][static_cast<size_t>(ref.step)];
          if (here == 0) {
            here = 1;
            for (const StepRef& other : before(ref))
              if (state[static_cast<size_t>(other.rank)][static_cast<size_t>(other.step)] == 0)
                stack.push_back(other);
            continue;
          }
          stack.pop_back();
          if (here == 1) order.push_back(ref);
          here = 2;
        }
      }
    return order;
  }

  Position put(int rank, int send, int receive, int channel, WrittenInstruction instruction) {
    const auto r = static_cast<size_t>(rank);
    const auto [entry, is_new] =
        block_of_[r].try_emplace(std::tuple(send, receive, channel), blocks_[r].size());
    if (is_new) blocks_[r].push_back({send, receive, channel, {}});
    auto& list = blocks_[r][entry->second].instructions;
    list.push_back(std::move(instruction));
    return {rank, entry->second, list.size() - 1};
  }

  // What has ended at `rank` of all that a step waits for.
  std::vector<Position> ended_at(int rank, StepRef ref) {
    std::vector<Position> positions;
    for (const StepRef& other : before(ref))
      for (const Position& end : ends(other))
        if (end.rank == rank) positions.push_back(end);
    return positions;
  }

  void write(StepRef ref) {
    const Step& step = step_at(ref);
    auto after = ended_at(ref.rank, ref);
    Slice from = step.from;
    const auto more = plan_.more_sources(ref.rank, step);
    if (step.bytes == 0) {
      ends(ref).push_back(put(ref.rank, -1, -1, step.channel, {"nop", {}, {}, 0, std::move(after)}));
      return;
    }
    for (const At& source : more)
      if (source.rank != ref.rank)
        refuse(Rule::kMsccl, "{} reads memory of rank {}, which MSCCL's instructions do not",
               describe(plan_, ref), source.rank);
    if (!more.empty()) {
      // Summed in memory of its own, which its former sum has left by then.
      from = {Buffer::kScratch, sum_at(step)};
      const auto key = std::pair(ref.rank, step.channel);
      after.insert(after.end(), sum_used_[key].begin(), sum_used_[key].end());
      Position last = put(ref.rank, -1, -1, step.channel, {"cpy", step.from, from, step.bytes, after});
      for (const At& source : more)
        last = put(ref.rank, -1, -1, step.channel, {"re", source.slice, from, step.bytes, {}});
      after = {last};
      sum_used_[key].clear();
    }
    std::vector<Position> used = {move(ref, from, {step.peer, step.to}, step.reduces, after)};
    if (const At* second = plan_.second_target(ref.rank, step))
      used.push_back(move(ref, from, *second, false, after));
    if (!more.empty()) sum_used_[{ref.rank, step.channel}] = used;
  }

  int64_t sum_at(const Step& step) {
    channels_with_sums_ = std::max<int64_t>(channels_with_sums_, step.channel + 1);
    return plan_.scratch_bytes + step.channel * sum_bytes_;
  }

  // One target: an instruction at the rank, and a receive elsewhere. The instruction at the rank.
  Position move(StepRef ref, Slice from, At to, bool reduces, const std::vector<Position>& after) {
    const Step& step = step_at(ref);
    if (to.rank == ref.rank) {
      const Position end =
          put(ref.rank, -1, -1, step.channel, {reduces ? "re" : "cpy", from, to.slice, step.bytes, after});
      ends(ref).push_back(end);
      return end;
    }
    const Position sent = put(ref.rank, to.rank, -1, step.channel, {"s", from, to.slice, step.bytes, after});
    ends(ref).push_back(sent);
    ends(ref).push_back(put(to.rank, -1, ref.rank, step.channel,
                            {reduces ? "rrc" : "r", from, to.slice, step.bytes, ended_at(to.rank, ref)}));
    return sent;
  }

  // The largest size of which every offset and length is a multiple.
  int64_t chunk_bytes() const {
    int64_t chunk = 0;
    for (size_t rank = 0; rank < ranks_; ++rank) {
      const int r = static_cast<int>(rank);
      for (const int64_t bytes : {input_bytes(plan_.request, r), output_bytes(plan_.request, r)})
        chunk = std::gcd(chunk, bytes);
      for (const WrittenBlock& block : blocks_[rank])
        for (const WrittenInstruction& one : block.instructions)
          chunk = std::gcd(std::gcd(chunk, one.bytes), std::gcd(one.from.offset, one.to.offset));
    }
    return std::max<int64_t>(chunk, 1);
  }

  MscclOptions options() const {
    MscclOptions options;
    options.chunk_bytes = chunk_bytes();
    options.dtype = plan_.request.dtype;
    options.request = plan_.request;
    return options;
  }

  static std::string place(const Slice& slice, const char* name, int64_t chunk) {
    const char* buffer = slice.buffer == Buffer::kInput ? "i" : slice.buffer == Buffer::kOutput ? "o" : "s";
    return fmt::format(R"( {}buf="{}" {}off="{}")", name, buffer, name, slice.offset / chunk);
  }

  static std::string line(size_t number, const char* type, const std::string& places, int64_t count,
                          const Position* after) {
    return fmt::format(
        "      <step s=\"{}\" type=\"{}\"{} cnt=\"{}\" depid=\"{}\" deps=\"{}\" hasdep=\"1\"/>\n", number,
        type, places, count, after ? static_cast<int>(after->block) : -1,
        after ? static_cast<int>(after->step) : -1);
  }

  // An instruction names one other that it waits for; a "nop" before it takes each further one. Numbers of
  // instructions count these.
  std::string text() const {
    std::vector<std::vector<std::vector<size_t>>> numbers(ranks_);
    for (size_t rank = 0; rank < ranks_; ++rank)
      for (size_t block = 0; block < blocks_[rank].size(); ++block) {
        auto& list = numbers[rank].emplace_back();
        size_t next = 0;
        for (const WrittenInstruction& one : blocks_[rank][block].instructions) {
          next += std::max<size_t>(waited(one, block).size(), 1);
          list.push_back(next - 1);
        }
      }
    const int64_t chunk = chunk_bytes();
    constexpr const char* kNames[] = {"allreduce", "allgather", "reduce_scatter", "alltoall"};
    const auto kind = static_cast<size_t>(plan_.request.kind);
    std::string xml = fmt::format(
        "<algo name=\"{}\" proto=\"Simple\" nchannels=\"{}\" nchunksperloop=\"{}\" ngpus=\"{}\" coll=\"{}\" "
        "inplace=\"{}\">\n",
        plan_.algorithm, plan_.channels,
        std::max(input_bytes(plan_.request, plan_.request.root),
                 output_bytes(plan_.request, plan_.request.root)) /
            chunk,
        ranks_, kind < std::size(kNames) ? kNames[kind] : "custom", plan_.in_place ? 1 : 0);
    for (size_t rank = 0; rank < ranks_; ++rank) {
      const int r = static_cast<int>(rank);
      xml += fmt::format("  <gpu id=\"{}\" i_chunks=\"{}\" o_chunks=\"{}\" s_chunks=\"{}\">\n", rank,
                         input_bytes(plan_.request, r) / chunk, output_bytes(plan_.request, r) / chunk,
                         (plan_.scratch_bytes + channels_with_sums_ * sum_bytes_ + chunk - 1) / chunk);
      for (size_t block = 0; block < blocks_[rank].size(); ++block) {
        const WrittenBlock& one = blocks_[rank][block];
        xml += fmt::format("    <tb id=\"{}\" send=\"{}\" recv=\"{}\" chan=\"{}\">\n", block, one.send,
                           one.receive, one.channel);
        for (size_t i = 0; i < one.instructions.size(); ++i) {
          const WrittenInstruction& instruction = one.instructions[i];
          auto after = waited(instruction, block);
          for (Position& other : after) other.step = numbers[rank][other.block][other.step];
          const size_t number = numbers[rank][block][i];
          const std::string nowhere = R"( srcbuf="i" srcoff="-1" dstbuf="o" dstoff="-1")";
          for (size_t extra = 0; extra + 1 < after.size(); ++extra)
            xml += line(number + 1 - after.size() + extra, "nop", nowhere, 0, &after[extra]);
          const bool is_nop = instruction.bytes == 0;
          xml += line(
              number, instruction.type,
              is_nop ? nowhere : place(instruction.from, "src", chunk) + place(instruction.to, "dst", chunk),
              instruction.bytes / chunk, after.empty() ? nullptr : &after.back());
        }
        xml += "    </tb>\n";
      }
      xml += "  </gpu>\n";
    }
    return xml + "</algo>\n";
  }

  // Of other thread blocks, the last instruction of each.
  static std::vector<Position> waited(const WrittenInstruction& one, size_t block) {
    std::map<size_t, Position> last;
    for (const Position& other : one.after) {
      if (other.block == block) continue;
      Position& kept = last.try_emplace(other.block, other).first->second;
      kept.step = std::max(kept.step, other.step);
    }
    std::vector<Position> list;
    for (const auto& [other, position] : last) list.push_back(position);
    return list;
  }

  const Plan& plan_;
  size_t ranks_;
  std::vector<std::vector<WrittenBlock>> blocks_;                      // [rank]
  std::vector<std::map<std::tuple<int, int, int>, size_t>> block_of_;  // [rank]: send, receive, channel
  std::vector<std::vector<std::vector<Position>>> ends_;               // [rank][step]
  std::map<std::pair<int32_t, int32_t>, std::vector<Position>>
      sum_used_;  // rank, channel: readers of its sum
  int64_t sum_bytes_ = 0;
  int64_t channels_with_sums_ = 0;
};

}  // namespace

MscclProgram msccl_of_plan(const Plan& plan) {
  if (const auto findings = verify(plan); !findings.empty())
    refuse(Rule::kPlan, "the plan is wrong ({}): {}", findings[0].label, findings[0].text);
  MscclProgram program = MscclWriter(plan).run();
  const auto findings = verify(plan_of_msccl(program.xml, program.options));
  if (!findings.empty())
    refuse(Rule::kMsccl, "the plan relies on waits between ranks that MSCCL cannot say: {}",
           findings[0].text);
  return program;
}

}  // namespace opentrn::collectives
