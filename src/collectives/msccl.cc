#include "collectives/msccl.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <tuple>
#include <vector>

#include <pugixml.hpp>

#include "collectives/rules.h"

namespace opentrn::collectives {

namespace {

constexpr int64_t kCountMax = 1 << 20;  // of anything that the text counts: chunks, ranks, steps

struct Instruction {
  std::string type;
  Slice from, to;  // in chunks
  int64_t count = 0;
  int block = -1, step = -1;  // waits for this one of its rank; -1: for none

  bool sends() const { return type == "s" || type == "rcs" || type == "rrs" || type == "rrcs"; }
  bool receives() const {
    return type == "r" || type == "rcs" || type == "rrs" || type == "rrcs" || type == "rrc";
  }
  // Steps that it becomes: what is received is moved first, then sent.
  int32_t steps() const { return type == "rcs" || type == "rrcs" ? 2 : 1; }
};

struct Block {
  int id = 0, send = -1, receive = -1, channel = 0;
  std::vector<Instruction> instructions;
  std::vector<int32_t> first_step;  // of each instruction
};

struct Rank {
  int64_t input = 0, output = 0, scratch = 0;  // chunks
  std::vector<Block> blocks;
};

struct Program {
  std::string name, collective;
  bool in_place = false;
  std::vector<Rank> ranks;
};

int64_t number(const pugi::xml_node& node, const char* name, int64_t lowest, int64_t highest) {
  const pugi::xml_attribute attribute = node.attribute(name);
  const std::string_view text = attribute.value();
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (!attribute || error != std::errc() || end != text.data() + text.size() || value < lowest ||
      value > highest)
    refuse(Rule::kMsccl, "<{}> has {}=\"{}\"; it needs a number from {} to {}", node.name(), name, text,
           lowest, highest);
  return value;
}

Slice slice(const pugi::xml_node& node, const char* buffer, const char* offset) {
  const std::string_view name = node.attribute(buffer).value();
  if (name != "i" && name != "o" && name != "s")
    refuse(Rule::kMsccl, "<step> has {}=\"{}\"; there are i, o and s", buffer, name);
  return {name == "i"   ? Buffer::kInput
          : name == "o" ? Buffer::kOutput
                        : Buffer::kScratch,
          number(node, offset, -1, kCountMax)};
}

Instruction read_instruction(const pugi::xml_node& node) {
  Instruction result;
  result.type = node.attribute("type").value();
  constexpr std::string_view kTypes[] = {"nop", "s", "r", "rcs", "rrs", "rrc", "rrcs", "cpy", "re"};
  if (std::ranges::find(kTypes, result.type) == std::end(kTypes))
    refuse(Rule::kMsccl, "there is no instruction '{}'", result.type);
  result.from = slice(node, "srcbuf", "srcoff");
  result.to = slice(node, "dstbuf", "dstoff");
  result.count = number(node, "cnt", 0, kCountMax);
  result.block = static_cast<int>(number(node, "depid", -1, kCountMax));
  result.step = static_cast<int>(number(node, "deps", -1, kCountMax));
  return result;
}

Block read_block(const pugi::xml_node& node, int64_t ranks) {
  Block block;
  block.id = static_cast<int>(number(node, "id", 0, kCountMax));
  block.send = static_cast<int>(number(node, "send", -1, ranks - 1));
  block.receive = static_cast<int>(number(node, "recv", -1, ranks - 1));
  block.channel = static_cast<int>(number(node, "chan", 0, kCountMax));
  for (const pugi::xml_node& step : node.children("step")) {
    block.instructions.push_back(read_instruction(step));
    const Instruction& last = block.instructions.back();
    if ((last.sends() && block.send < 0) || (last.receives() && block.receive < 0))
      refuse(Rule::kMsccl, "thread block {} has '{}' and no peer for it", block.id, last.type);
  }
  return block;
}

Program read(std::string_view xml) {
  pugi::xml_document document;
  const pugi::xml_parse_result parsed = document.load_buffer(xml.data(), xml.size());
  if (!parsed) refuse(Rule::kMsccl, "byte {}: {}", parsed.offset, parsed.description());
  const pugi::xml_node root = document.child("algo");
  if (!root) refuse(Rule::kMsccl, "the text has no <algo>");
  Program program{
      root.attribute("name").value(), root.attribute("coll").value(), number(root, "inplace", 0, 1) == 1, {}};
  program.ranks.resize(static_cast<size_t>(number(root, "ngpus", 1, kCountMax)));
  const auto ranks = static_cast<int64_t>(program.ranks.size());
  for (const pugi::xml_node& gpu : root.children("gpu")) {
    Rank& rank = program.ranks[static_cast<size_t>(number(gpu, "id", 0, ranks - 1))];
    rank.input = number(gpu, "i_chunks", 0, kCountMax);
    rank.output = number(gpu, "o_chunks", 0, kCountMax);
    rank.scratch = number(gpu, "s_chunks", 0, kCountMax);
    for (const pugi::xml_node& block : gpu.children("tb")) rank.blocks.push_back(read_block(block, ranks));
  }
  return program;
}

// By the program's words and its use of chunks.
Request request_of(const Program& program, const MscclOptions& options) {
  Request request;
  request.ranks = static_cast<int>(program.ranks.size());
  request.dtype = options.dtype;
  int64_t input = 0, output = 0;
  for (const Rank& rank : program.ranks) {
    input = std::max(input, rank.input);
    output = std::max(output, rank.output);
  }
  if (program.collective == "allreduce") {
    request.kind = Kind::kAllReduce;
    request.bytes = std::max(input, output);
  } else if (program.collective == "allgather") {
    request.kind = Kind::kAllGather;
    request.bytes = (output + request.ranks - 1) / request.ranks;
  } else if (program.collective == "reduce_scatter") {
    request.kind = Kind::kReduceScatter;
    request.bytes = input;
  } else if (program.collective == "alltoall") {
    request.kind = Kind::kAllToAll;
    request.bytes = std::max(input, output);
  } else {
    refuse(Rule::kMsccl, "the collective '{}' does not say what it computes: give a request",
           program.collective);
  }
  request.bytes *= options.chunk_bytes;
  return request;
}

// The k-th send into a queue belongs to the k-th receive from it.
struct Queue {
  struct End {
    int rank = 0;
    size_t block = 0, instruction = 0;
  };
  std::vector<End> sends, receives;
  int64_t offset = 0;  // of its slots in the receiver's scratch memory
  int64_t slot_bytes = 0;
};
using QueueKey = std::tuple<int, int, int>;  // from, to, channel

class Importer {
 public:
  Importer(Program program, const MscclOptions& options) : program_(std::move(program)), options_(options) {}

  Plan run() {
    plan_.request = options_.request ? *options_.request : request_of(program_, options_);
    check(plan_.request);
    if (plan_.request.ranks != static_cast<int>(program_.ranks.size()))
      refuse(Rule::kMsccl, "the request is of {} ranks, the program of {}", plan_.request.ranks,
             program_.ranks.size());
    plan_.algorithm = program_.name;
    // Programs of other operations say "in place", and keep input and output apart.
    plan_.in_place = program_.in_place && may_be_in_place(plan_.request.kind);
    plan_.steps.resize(program_.ranks.size());
    plan_.wait_pool.resize(program_.ranks.size());
    plan_.place_pool.resize(program_.ranks.size());
    number_steps();
    match();
    lay_out();
    for (size_t rank = 0; rank < program_.ranks.size(); ++rank)
      for (size_t block = 0; block < program_.ranks[rank].blocks.size(); ++block)
        add_block(static_cast<int>(rank), block);
    return std::move(plan_);
  }

 private:
  Block& block_at(int rank, size_t block) { return program_.ranks[static_cast<size_t>(rank)].blocks[block]; }

  void number_steps() {
    for (Rank& rank : program_.ranks) {
      int32_t next = 0;
      plan_.channels = std::max(plan_.channels, static_cast<int>(rank.blocks.size()));
      for (Block& block : rank.blocks)
        for (const Instruction& one : block.instructions) {
          block.first_step.push_back(next);
          next += one.steps();
        }
    }
  }

  void match() {
    for (size_t rank = 0; rank < program_.ranks.size(); ++rank)
      for (size_t b = 0; b < program_.ranks[rank].blocks.size(); ++b) {
        const Block& block = program_.ranks[rank].blocks[b];
        const int here = static_cast<int>(rank);
        for (size_t i = 0; i < block.instructions.size(); ++i) {
          if (block.instructions[i].sends())
            add_end(queues_[{here, block.send, block.channel}].sends, {here, b, i});
          if (block.instructions[i].receives())
            add_end(queues_[{block.receive, here, block.channel}].receives, {here, b, i});
        }
      }
    for (const auto& [key, queue] : queues_)
      if (queue.sends.size() != queue.receives.size())
        refuse(Rule::kMsccl, "from rank {} to rank {} on channel {} there are {} sends and {} receives",
               std::get<0>(key), std::get<1>(key), std::get<2>(key), queue.sends.size(),
               queue.receives.size());
  }

  static void add_end(std::vector<Queue::End>& ends, Queue::End end) {
    if (!ends.empty() && ends[0].block != end.block)
      refuse(Rule::kMsccl, "rank {} uses one queue from two thread blocks", end.rank);
    ends.push_back(end);
  }

  void lay_out() {
    std::vector<int64_t> used;
    for (const Rank& rank : program_.ranks) used.push_back(rank.scratch * options_.chunk_bytes);
    for (auto& [key, queue] : queues_) {
      for (const Queue::End& end : queue.sends)
        queue.slot_bytes = std::max(queue.slot_bytes, instruction(end).count * options_.chunk_bytes);
      int64_t& next = used[static_cast<size_t>(std::get<1>(key))];
      queue.offset = next;
      next += queue.slot_bytes * options_.queue_slots;
    }
    plan_.scratch_bytes = *std::ranges::max_element(used);
  }

  const Instruction& instruction(const Queue::End& end) {
    return block_at(end.rank, end.block).instructions[end.instruction];
  }
  // The step that moves a received chunk out of its slot; the step that sends.
  StepRef taking_step(const Queue::End& end) {
    return {end.rank, block_at(end.rank, end.block).first_step[end.instruction]};
  }
  StepRef sending_step(const Queue::End& end) {
    StepRef step = taking_step(end);
    step.step += instruction(end).steps() - 1;
    return step;
  }

  Slice in_bytes(const Slice& chunks) const { return {chunks.buffer, chunks.offset * options_.chunk_bytes}; }
  Slice slot(const Queue& queue, size_t turn) const {
    return {Buffer::kScratch,
            queue.offset +
                queue.slot_bytes * static_cast<int64_t>(turn % static_cast<size_t>(options_.queue_slots))};
  }

  void add_block(int rank, size_t b) {
    const Block& block = block_at(rank, b);
    size_t sent = 0, received = 0;  // turns of its queues
    for (const Instruction& one : block.instructions) {
      std::vector<StepRef> waits;
      if (one.block >= 0) waits.push_back(awaited(rank, one));
      if (one.receives()) take(rank, b, one, received++, one.type == "rrs" ? &sent : nullptr, waits);
      if (one.sends() && one.type != "rrs") send(rank, b, one, sent++, waits);
      if (!one.sends() && !one.receives()) move_within(rank, b, one, waits);
    }
  }

  StepRef awaited(int rank, const Instruction& one) {
    const auto& blocks = program_.ranks[static_cast<size_t>(rank)].blocks;
    const auto found = std::ranges::find(blocks, one.block, &Block::id);
    if (found == blocks.end() || one.step < 0 || static_cast<size_t>(one.step) >= found->instructions.size())
      refuse(Rule::kMsccl, "rank {} waits for step {} of thread block {}, which does not exist", rank,
             one.step, one.block);
    const auto step = static_cast<size_t>(one.step);
    return {rank, found->first_step[step] + found->instructions[step].steps() - 1};
  }

  // Out of the slot: into memory, added to memory, or (rrs) with memory added to the next slot.
  void take(int rank, size_t b, const Instruction& one, size_t turn, size_t* sent,
            std::vector<StepRef>& waits) {
    const Block& block = block_at(rank, b);
    const Queue& queue = queues_[{block.receive, rank, block.channel}];
    waits.push_back(sending_step(queue.sends[turn]));
    Step step = step_of(b, one);
    step.from = slot(queue, turn);
    step.to = in_bytes(one.to);
    step.peer = rank;
    step.reduces = one.type == "rrc" || one.type == "rrcs";
    std::vector<At> more;
    if (sent) {
      more.push_back({rank, step.from});
      step.from = step.to;
      into_slot(rank, block, (*sent)++, step, waits);
    }
    add(rank, step, more, waits);
  }

  void send(int rank, size_t b, const Instruction& one, size_t turn, std::vector<StepRef>& waits) {
    Step step = step_of(b, one);
    step.from = in_bytes(one.type == "s" ? one.from : one.to);
    into_slot(rank, block_at(rank, b), turn, step, waits);
    add(rank, step, {}, waits);
  }

  void into_slot(int rank, const Block& block, size_t turn, Step& step, std::vector<StepRef>& waits) {
    const Queue& queue = queues_[{rank, block.send, block.channel}];
    step.peer = block.send;
    step.to = slot(queue, turn);
    const auto slots = static_cast<size_t>(options_.queue_slots);
    if (turn >= slots) waits.push_back(taking_step(queue.receives[turn - slots]));
  }

  void move_within(int rank, size_t b, const Instruction& one, std::vector<StepRef>& waits) {
    Step step = step_of(b, one);
    step.peer = rank;
    step.from = in_bytes(one.from);
    step.to = in_bytes(one.to);
    step.reduces = one.type == "re";
    if (one.type == "nop") step.from = step.to = {}, step.bytes = 0;
    add(rank, step, {}, waits);
  }

  Step step_of(size_t block, const Instruction& one) const {
    Step step;
    step.bytes = one.count * options_.chunk_bytes;
    step.channel = static_cast<int32_t>(block);
    return step;
  }

  // Takes the waits: later steps of the same instruction are on the same channel.
  void add(int rank, Step step, const std::vector<At>& more, std::vector<StepRef>& waits) {
    const auto r = static_cast<size_t>(rank);
    step.waits = {static_cast<uint32_t>(plan_.wait_pool[r].size()), static_cast<uint32_t>(waits.size())};
    step.places = {static_cast<uint32_t>(plan_.place_pool[r].size()), static_cast<uint32_t>(more.size())};
    plan_.wait_pool[r].insert(plan_.wait_pool[r].end(), waits.begin(), waits.end());
    plan_.place_pool[r].insert(plan_.place_pool[r].end(), more.begin(), more.end());
    plan_.steps[r].push_back(step);
    waits.clear();
  }

  Program program_;
  const MscclOptions& options_;
  Plan plan_;
  std::map<QueueKey, Queue> queues_;
};

}  // namespace

Plan plan_of_msccl(std::string_view xml, const MscclOptions& options) {
  if (options.queue_slots < 1 || options.chunk_bytes < 1)
    refuse(Rule::kMsccl, "{} slots of queues, chunks of {} B", options.queue_slots, options.chunk_bytes);
  return Importer(read(xml), options).run();
}

}  // namespace opentrn::collectives
