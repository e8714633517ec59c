#include "isa/file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <functional>

#include "base/temporary_folder_for_test.h"
#include "isa/text.h"
#include "isa/text_random.h"

namespace opentrn::isa {
namespace {

using testing::HasSubstr;

TEST(File, RandomProgramsSurviveTheRoundTrip) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SplitMix64 random(seed);
    const Program program = random_program(random, 30);
    const Compression compression = seed % 2 ? Compression::kZstd : Compression::kNone;
    ASSERT_EQ(to_text(decode_program(encode(program, compression))), to_text(program)) << "seed " << seed;
  }
}

TEST(File, RandomExecutablesSurviveTheRoundTrip) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    SplitMix64 random(seed);
    const Executable executable = random_executable(random, 20);
    ASSERT_EQ(to_text(decode_executable(encode(executable))), to_text(executable)) << "seed " << seed;
  }
}

TEST(File, SavesAndLoads) {
  const TemporaryFolderForTest folder;
  const std::string path = folder.path() / "program.trn";
  SplitMix64 random(1);
  const Executable executable = random_executable(random, 50);
  save(executable, path);
  EXPECT_EQ(file_kind(path), FileKind::kExecutable);
  EXPECT_EQ(to_text(load_executable(path)), to_text(executable));
  EXPECT_THROW(load_program(path), Fault);
  save(*executable.program, path, Compression::kNone);
  EXPECT_EQ(to_text(load_program(path)), to_text(*executable.program));
  std::remove(path.c_str());
  EXPECT_THROW(load_program(path), Fault);
}

// What zeros become is a ten thousandth of them; no program is like that.
TEST(File, ACompressedFileCannotAskForEverything) {
  const std::vector<std::byte> zeros(size_t{64} << 20);
  const std::vector<std::byte> file = wrap(FileKind::kProgram, zeros, Compression::kZstd);
  ASSERT_LT(file.size(), zeros.size() / 5000);
  try {
    unwrap(file, FileKind::kProgram, "bomb.otrn");
    FAIL();
  } catch (const Fault& fault) {
    EXPECT_EQ(fault.kind(), FaultKind::kInput);
    EXPECT_THAT(fault.message(), HasSubstr("are said to expand to 67108864"));
  }
  const std::span<const std::byte> few = std::span(zeros).first(16 << 20);
  EXPECT_EQ(unwrap(wrap(FileKind::kProgram, few, Compression::kZstd), FileKind::kProgram).size(), few.size());
}

TEST(File, KeepsTheLoopThatMakesATensor) {
  const std::string text = R"(opentrn program 1 "k"
registers 1
tensor %0 psum float32 [4, 4] at 0:2048 loop 0
loop_begin register=r0 lower=0 upper=4 step=1 match=1
loop_end register=r0 step=1
)";
  const Program program = parse_program(text);
  EXPECT_EQ(to_text(decode_program(encode(program))), text);
}

std::string error_of(const std::function<void()>& act) {
  try {
    act();
  } catch (const Fault& fault) {
    EXPECT_EQ(fault.kind(), FaultKind::kInput) << fault.what();
    return fault.what();
  }
  return "no error";
}

TEST(File, EveryFlippedByteIsNoticed) {
  SplitMix64 random(5);
  const std::vector<std::byte> good = encode(random_program(random, 5), Compression::kNone);
  for (size_t i = 0; i < good.size(); ++i) {
    std::vector<std::byte> bad = good;
    bad[i] ^= std::byte{0x10};
    EXPECT_THAT(error_of([&] { decode_program(bad); }), HasSubstr("offset")) << "byte " << i;
  }
}

TEST(File, EveryTruncationIsNoticed) {
  SplitMix64 random(6);
  const std::vector<std::byte> good = encode(random_program(random, 5));
  for (size_t size = 0; size < good.size(); ++size)
    EXPECT_THAT(error_of([&] { decode_program(std::span(good).first(size)); }), HasSubstr("offset")) << size;
}

// Behind a right header and checksum, a payload may hold anything.
TEST(File, AMalformedPayloadIsAnInputFault) {
  SplitMix64 random(7);
  const std::vector<std::byte> payload = unwrap(encode(random_program(random, 8)), FileKind::kProgram);
  for (size_t i = 0; i < payload.size(); ++i)
    for (int value : {0x00, 0x7F, 0x80, 0xFF}) {
      std::vector<std::byte> bad = payload;
      bad[i] = static_cast<std::byte>(value);
      try {
        to_text(decode_program(wrap(FileKind::kProgram, bad, Compression::kNone)));
      } catch (const Fault& fault) {
        ASSERT_EQ(fault.kind(), FaultKind::kInput) << fault.what();
      }
    }
  for (size_t size = 0; size < payload.size(); ++size) {
    const auto bad = wrap(FileKind::kProgram, std::span(payload).first(size), Compression::kZstd);
    EXPECT_THAT(error_of([&] { decode_program(bad); }), HasSubstr("payload offset")) << size;
  }
}

TEST(File, ALieAboutTheSizeIsNoticed) {
  const std::vector<std::byte> payload(1000);
  std::vector<std::byte> file = wrap(FileKind::kProgram, payload, Compression::kZstd);
  EXPECT_EQ(unwrap(file, FileKind::kProgram).size(), 1000u);
  const std::vector<std::byte> other =
      wrap(FileKind::kProgram, std::vector<std::byte>(1 << 20), Compression::kZstd);
  EXPECT_THAT(error_of([&] { unwrap(std::span(other).first(40), FileKind::kProgram); }),
              HasSubstr("0 bytes follow the header"));
}

TEST(File, WhatExpandsMoreThanAProgramDoesIsRefused) {
  const auto expands = [](size_t size) {
    return unwrap(wrap(FileKind::kProgram, std::vector<std::byte>(size), Compression::kZstd),
                  FileKind::kProgram)
        .size();
  };
  EXPECT_EQ(expands(size_t{8} << 20), size_t{8} << 20);
  EXPECT_THAT(error_of([&] { expands(size_t{40} << 20); }), HasSubstr("a program grows at most 1000 times"));
}

}  // namespace
}  // namespace opentrn::isa
