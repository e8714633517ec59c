// SharedHistory: what the two cores of a launch did to the bytes of one buffer since they last met, as far as
// it decides whether the results depend on which of them is first (docs/decisions/0030-core-races.md).
//
// A byte is a race when two orders of what the cores did to it, each core's own order kept, give a read
// another value or leave another value behind; and when a core that reads a byte and then changes it shares
// it with any write of the other. The answer does not depend on the order in which the calls here are made,
// as long as each core's own order is kept.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace opentrn::sim {

// Time between two rendezvous of the cores, common to all buffers.
struct Epoch {
  uint32_t number = 1;
  // Units that the cores have left with different values so far.
  std::atomic<int64_t> parted = 0;
};

// Not thread-safe.
class SharedHistory {
 public:
  // `unit_bytes`: of the elements that accesses are expected to move whole.
  SharedHistory(int64_t bytes, int unit_bytes, std::shared_ptr<Epoch> epoch);

  static constexpr int64_t kNoRace = -1;
  // A core, 0 or 1, reads bytes: the first that makes a race, or kNoRace.
  int64_t read(int core, int64_t begin, int64_t bytes);
  // It has written them: `now` is there, `before` was, null where nothing had been written.
  int64_t write(int core, int64_t begin, int64_t bytes, const std::byte* now, const std::byte* before);
  // Whether write() looks at `before`.
  bool needs_values(int core, int64_t begin, int64_t bytes) const;
  // Whether a core has read the byte in this epoch.
  bool has_read(int core, int64_t byte) const;
  // The first byte that the cores have left with different values, or kNoRace.
  int64_t parted() const;
  // Bytes that this takes.
  int64_t memory_bytes() const;

 private:
  static constexpr int64_t kPageUnits = 512;

  // `states` and `saved` are null for a page whose units are all in one state.
  struct Page {
    uint32_t epoch = 0;
    uint8_t state = 0;
    std::unique_ptr<uint8_t[]> states;
    std::unique_ptr<std::byte[]> saved;  // of parted units: the value that is not in memory
    int64_t parted = 0;
  };
  // Units [begin, end) of a page.
  struct Piece {
    int64_t page, begin, end;
  };
  using Table = std::array<uint8_t, 256>;

  template <typename Each>
  int64_t for_pieces(int64_t begin, int64_t bytes, Each&& each);
  Page& page(int64_t index);
  uint8_t state_at(int64_t unit) const;
  void make_dense(Page& page) const;
  void collapse(Page& page) const;
  int64_t apply(const Piece& piece, const Table& next);
  int64_t apply_values(int core, const Piece& piece, const std::byte* now, const std::byte* before);
  template <typename Unit>
  int64_t apply_units(int core, const Piece& piece, const std::byte* now, const std::byte* before);
  template <typename Unit>
  void write_parted(int core, Page& page, int64_t unit, Unit now, Unit before);
  int64_t byte_of(int64_t page, int64_t unit) const { return (page * kPageUnits + unit) * unit_bytes_; }
  void split_units();

  int64_t bytes_;
  int unit_bytes_;
  std::shared_ptr<Epoch> epoch_;
  std::vector<Page> pages_;
};

}  // namespace opentrn::sim
