// A smaller model that guesses what follows in the answers of a larger one (Leviathan et al. 2023): after
// each step it reads the tokens that the answers have since it was last asked, and says the likeliest next
// ones.
//
// Or an EAGLE head (eagle.h), which reads each token with the model's features of the one in front of it.
// Behind its own guesses it reads its own features, and what it has read of them it forgets.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "decoder/engine.h"

namespace opentrn::decoder {

// What the draft model holds of one request: blocks of its pool, which it gives back when it ends.
class DraftState {
 public:
  using FreeBlocks = std::vector<int32_t>;

  // Takes `count` of them.
  DraftState(std::shared_ptr<FreeBlocks> free, size_t count);
  ~DraftState();
  DraftState(const DraftState&) = delete;
  DraftState& operator=(const DraftState&) = delete;

  const std::vector<int32_t>& blocks() const { return blocks_; }
  std::vector<int32_t> read;  // tokens whose keys and values its blocks hold, from the first on

 private:
  std::shared_ptr<FreeBlocks> free_;
  std::vector<int32_t> blocks_;
};

class DraftModel {
 public:
  // A text of which it guesses the next tokens.
  struct Asked {
    std::vector<int32_t> text;                 // prompt and answer, not empty
    int64_t most = 0;                          // guesses, at most
    std::unique_ptr<DraftState>* state;        // of the request; made when it is first asked
    std::span<const std::byte> features = {};  // for an EAGLE head: the model's, of all tokens but the last
    std::vector<int32_t> guesses = {};         // what comes of it
    std::vector<std::byte> own = {};           // of an EAGLE head: its features in front of each guess
  };

  // `engine` outlives it, and is used by nobody else. `guesses`: of a request in a step, at most. Programs
  // for up to 1 + guesses tokens of several sequences are used for what answers have more, those of one
  // sequence for prompts.
  DraftModel(Engine& engine, int64_t guesses);

  // Guesses for all. A text that does not fit the model's positions, its pool or its words has none. Returns
  // the programs that ran, one after the other.
  std::vector<Bucket> guess(std::span<Asked> asked);
  // Programs that guess() takes, for those who compile ahead.
  const std::vector<Bucket>& programs() const { return programs_; }

 private:
  std::span<const int32_t> readable(const Asked& asked) const;
  SequenceStep step_of(const Asked& asked, std::span<const int32_t> tokens) const;
  bool begin(Asked& asked);
  void read_alone(Asked& asked, std::vector<Bucket>& ran);
  void read_together(std::span<Asked* const> asked, std::vector<Bucket>& ran);

  Engine& engine_;
  int64_t guesses_;
  std::shared_ptr<DraftState::FreeBlocks> free_;
  std::vector<Bucket> programs_;
};

}  // namespace opentrn::decoder
