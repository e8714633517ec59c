// CoreRaces: finds races of the two cores of a launch in the HBM that they share.
//
// Every buffer that both may reach is watched: Context tells of what is read and written of it, and between
// two rendezvous the histories say whether the order of the cores matters. What matters, and why equal values
// do not, is in docs/decisions/0030-core-races.md. A race is Fault{kProgram} "sim.core_race" at the second
// of the two accesses, or, where both cores only write, when they meet.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/spin_lock.h"
#include "isa/program.h"
#include "sim/functional/shared_history.h"
#include "sim/functional/view.h"

namespace opentrn::sim {

class Context;

// An access of a watched buffer. It refers to no program: that of the other core may grow meanwhile.
struct SharedSite {
  isa::InstructionIndex index;
  isa::LocationId location;
  isa::Opcode opcode;
  int8_t core;
  bool writes;
  uint8_t element_bytes;
  uint8_t rank;
  int8_t table_dim;    // -1: not indirect
  uint32_t dims;       // where its dimensions begin in SharedAccesses::dims_
  uint32_t table = 0;  // and the byte offsets of the indirect one, in tables_
  int64_t offset;      // bytes, of the first element
  int64_t begin, end;  // bytes that it lies in
};

// A write that is checked when it is done.
struct SharedWrite {
  View view;
  const std::byte* before = nullptr;   // the elements in the order of the view, where their values matter
  const uint8_t* unwritten = nullptr;  // by element, not 0 where nothing had written it; null: before is all
};

// What is kept of one watched buffer. Instructions of one core that run at the same time may call it.
//
// Reads of what nobody writes until the cores meet are only listed: most tensors that both cores reach are
// inputs.
class SharedAccesses {
 public:
  SharedAccesses(Buffer& buffer, std::shared_ptr<Epoch> epoch);
  bool belongs_to(const Epoch& epoch) const { return epoch_.get() == &epoch; }

  void read(const Context& cx, const View& view);
  // Before the write, and before it is marked written; finish_write() is called when it is done.
  SharedWrite begin_write(Context& cx, const View& view);
  void finish_write(const Context& cx, const SharedWrite& write);
  // Fault when the cores leave different values behind.
  void check_parted() const;
  int64_t memory_bytes() const;

 private:
  static constexpr size_t kSitesMax = 1 << 16;   // the oldest are forgotten
  static constexpr size_t kTablesMax = 1 << 20;  // offsets, and dimensions

  void start_epoch();
  SharedSite remember(const Context& cx, const View& view, bool writes);
  const SharedSite& newest() const;
  void note_names(const Context& cx, const View& view);
  void make_room(const View& view);
  FlatView walk(const SharedSite& site) const;
  int64_t read_bytes(const SharedSite& site);
  void keep_history(int unit_bytes);
  void snapshot(Context& cx, SharedWrite& write) const;

  bool holds(const SharedSite& site, int64_t byte) const;
  const SharedSite* find(int core, bool writes, int64_t byte) const;
  std::string describe(int core, const SharedSite* site) const;
  std::string element(int64_t byte) const;
  [[noreturn]] void fail(const Context& cx, const SharedSite& site, int64_t byte) const;

  mutable SpinLock lock_;
  std::byte* origin_;
  int64_t bytes_;
  std::shared_ptr<Epoch> epoch_;
  uint32_t seen_ = 0;           // the epoch of what follows
  bool keeps_history_ = false;  // the buffer is written, or read too often for a list
  std::unique_ptr<SharedHistory> history_;
  std::vector<SharedSite> sites_;
  size_t oldest_ = 0;            // of sites_, once it is full
  std::vector<ByteDim> dims_;    // of sites_
  std::vector<int64_t> tables_;  // of sites_
  // For messages: the tensor, and lines of instructions.
  struct Subject {
    std::string name;
    std::vector<int64_t> shape;
    int element_bytes = 1;
  };
  std::optional<Subject> subject_;
  std::map<std::pair<int, isa::LocationId>, SourceLocation> places_;  // by core
};

class CoreRaces {
 public:
  ~CoreRaces();
  // Watches a buffer from now on, if it can be written.
  void watch(const std::shared_ptr<Buffer>& buffer);
  // Both cores have met, or ended: everything before is ordered before everything after.
  void meet();

 private:
  std::shared_ptr<Epoch> epoch_ = std::make_shared<Epoch>();
  std::mutex mutex_;  // guards watched_
  // A buffer may be released before the cores meet.
  struct Watched {
    std::weak_ptr<Buffer> buffer;
    std::shared_ptr<SharedAccesses> accesses;
  };
  std::vector<Watched> watched_;
};

// By TensorId: HBM that both cores of launches inside a program touch (isa::kFlagCore1), and one writes.
// Empty when nothing runs on the second core.
std::vector<bool> tensors_of_both(const isa::Program& program);

}  // namespace opentrn::sim
