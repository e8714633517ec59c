#include "mpi/letters.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>

#include "mpi/testing/threads.h"

namespace opentrn::mpi {
namespace {

using std::chrono::milliseconds;

std::vector<std::byte> bytes_of_text(const std::string& text) {
  const auto* begin = reinterpret_cast<const std::byte*>(text.data());
  return {begin, begin + text.size()};
}
std::string text_of(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
const Doing kDoing = [] { return std::string("process 0 waits for process 1"); };
const auto kNothingElse = [] { return std::optional<Fault>(); };

// Each process sends them in another order than the other one takes them.
TEST(Letters, ThreadsThatWaitForDifferentOnesGetTheirOwn) {
  Mail mail;
  const auto said = run_processes(2, [&](int process) {
    ThreadTransport transport(mail, process, 2, milliseconds(10'000));
    Letters letters(transport);
    const int other = 1 - process;
    std::vector<std::thread> threads;
    std::vector<std::string> got(8);
    for (int i = 0; i < 8; ++i)
      threads.emplace_back([&, i] {
        const std::string about = std::to_string(process == 0 ? i : 7 - i);
        letters.send(other, about, bytes_of_text("letter " + about));
        got[static_cast<size_t>(i)] =
            text_of(letters.receive(other, std::to_string(i), kDoing, kNothingElse));
      });
    for (std::thread& thread : threads) thread.join();
    for (int i = 0; i < 8; ++i) EXPECT_EQ(got[static_cast<size_t>(i)], "letter " + std::to_string(i));
  });
  EXPECT_EQ(said, std::vector<std::string>(2));
}

TEST(Letters, LettersAboutOneThingKeepTheirOrder) {
  Mail mail;
  ThreadTransport a(mail, 0, 2, milliseconds(1000)), b(mail, 1, 2, milliseconds(1000));
  Letters from(a), to(b);
  for (const char* text : {"first", "", "third"}) from.send(1, "x", bytes_of_text(text));
  EXPECT_EQ(to.take(0, "y"), std::nullopt);
  for (const char* text : {"first", "", "third"}) EXPECT_EQ(text_of(to.take(0, "x").value()), text);
  EXPECT_EQ(to.take(0, "x"), std::nullopt);
}

TEST(Letters, WhatFollowsTheLastLetterIsLeftForOthers) {
  Mail mail;
  ThreadTransport a(mail, 0, 2, milliseconds(1000)), b(mail, 1, 2, milliseconds(1000));
  Letters from(a), to(b);
  from.send(1, "x", bytes_of_text("end"), true);
  a.send(1, bytes_of_text("other"));
  EXPECT_EQ(text_of(to.take(0, "x").value()), "end");
  EXPECT_EQ(to.take(0, "x"), std::nullopt);
  std::string text(5, ' ');
  EXPECT_TRUE(b.receive(0, std::as_writable_bytes(std::span(text)), Deadline::max(), kDoing));
  EXPECT_EQ(text, "other");
}

TEST(Letters, NoWaitIsWithoutEnd) {
  Mail mail;
  ThreadTransport alone(mail, 0, 2, milliseconds(20));
  Letters letters(alone);
  try {
    letters.receive(1, "x", kDoing, kNothingElse);
    FAIL() << "a letter came";
  } catch (const Fault& fault) {
    EXPECT_EQ(fault.label(), "mpi.absent");
    EXPECT_NE(std::string(fault.what()).find("process 0 waits for process 1"), std::string::npos);
  }
}

// A note that ends a wait comes behind the letter that is waited for: the letter counts.
TEST(Letters, ALetterThatIsThereGoesBeforeWhatEndsTheWait) {
  Mail mail;
  ThreadTransport a(mail, 0, 2, milliseconds(1000)), b(mail, 1, 2, milliseconds(1000));
  Letters from(a), to(b);
  bool sent = false;
  const auto look = [&]() -> std::optional<Fault> {
    if (!sent) from.send(1, "x", bytes_of_text("letter"));
    sent = true;
    return Fault(FaultKind::kProgram, "collectives.peer", "over");
  };
  EXPECT_EQ(text_of(to.receive(0, "x", kDoing, look)), "letter");
  EXPECT_THROW(to.receive(0, "x", kDoing, look), Fault);
}

}  // namespace
}  // namespace opentrn::mpi
