#include "isa/file.h"

#include "isa/text.h"
#include "isa/text_random.h"
#include "tests/fuzz/bodies.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/mutate.h"

namespace opentrn::fuzz {

namespace {

using isa::Compression;
using isa::FileKind;

std::string decode(std::span<const std::byte> file, FileKind kind) {
  return kind == FileKind::kProgram ? isa::to_text(isa::decode_program(file))
                                    : isa::to_text(isa::decode_executable(file));
}

void damaged(const std::vector<std::byte>& file, FileKind kind) {
  try {
    decode(file, kind);
  } catch (const Fault& fault) {
    if (fault.kind() != FaultKind::kInput) broken("a bad file is not an input error: {}", fault.what());
  }
}

void check_kind(SplitMix64& random, const std::vector<std::byte>& file, const std::string& text,
                FileKind kind) {
  if (decode(file, kind) != text) broken("what was loaded is not what was saved");
  for (int i = 0; i < 10; ++i) {
    std::vector<std::byte> bad = file;
    mutate(random, bad, {});
    damaged(bad, kind);
    std::vector<std::byte> payload = isa::unwrap(file, kind);
    mutate(random, payload, {});
    damaged(isa::wrap(kind, payload, random.below(2) ? Compression::kZstd : Compression::kNone), kind);
  }
}

}  // namespace

void program_bytes(Bytes payload) {
  damaged(isa::wrap(FileKind::kProgram, payload, Compression::kNone), FileKind::kProgram);
}

std::vector<std::byte> program_seed(SplitMix64& random) {
  const isa::Program program = isa::random_program(random, static_cast<int>(random.below(20)));
  return isa::unwrap(isa::encode(program, Compression::kNone), FileKind::kProgram);
}

void file_case(uint64_t seed) {
  SplitMix64 random(seed);
  const auto compression = static_cast<Compression>(random.below(2));
  const isa::Executable executable = isa::random_executable(random, static_cast<int>(random.below(20)));
  check_kind(random, isa::encode(*executable.program, compression), isa::to_text(*executable.program),
             FileKind::kProgram);
  check_kind(random, isa::encode(executable, compression), isa::to_text(executable), FileKind::kExecutable);
}

}  // namespace opentrn::fuzz
