#include "server/server.h"

#include <thread>

#include <gtest/gtest.h>

#include "base/fault.h"

namespace opentrn::server {
namespace {

constexpr int32_t kVocabulary = 70;
using std::chrono::milliseconds;

ServerOptions options(ClockKind clock = ClockKind::kVirtual, int32_t waiting_max = 64) {
  ServerOptions out;
  out.scheduler.max_num_seqs = 4;
  out.scheduler.max_num_batched_tokens = 64;
  out.scheduler.max_model_len = 128;
  out.scheduler.block_size = 8;
  out.scheduler = serving::completed(out.scheduler);
  out.clock = clock;
  out.waiting_max = waiting_max;
  out.audit = true;
  return out;
}

std::unique_ptr<Server> drawing(ServerOptions of = options(), const char* times = "step=1000") {
  return std::make_unique<Server>(
      std::move(of),
      std::make_unique<DrawingWorker>(kVocabulary, std::vector<int32_t>{3, 5, 7},
                                      serving::LinearTimes::parse(times), serving::HostTimes{}));
}

JobParams asks(int32_t max_tokens, std::vector<int32_t> prompt = {1, 2, 3}) {
  JobParams params;
  params.prompt = std::move(prompt);
  params.max_tokens = max_tokens;
  params.sampling.logprobs = -1;
  return params;
}

// Steps until nothing is to be done; what became of each request.
std::map<int64_t, std::pair<std::vector<int32_t>, Ended>> drained(Server& server) {
  std::map<int64_t, std::pair<std::vector<int32_t>, Ended>> out;
  StepReport report;
  while (server.step(milliseconds(0), false, report))
    for (const TokenEvent& event : report.events) {
      out[event.id].first.push_back(event.token.token);
      if (event.ended) out[event.id].second = event.end;
    }
  return out;
}

TEST(Server, AnswersTogetherAndTellsPredictedTimes) {
  const auto server = drawing();
  const int64_t a = server->add(asks(5)), b = server->add(asks(3));
  const auto told = drained(*server);
  EXPECT_EQ(told.at(a).first.size(), 5u);
  EXPECT_EQ(told.at(b).first.size(), 3u);
  const Ended& first = told.at(a).second;
  EXPECT_EQ(first.finish, serving::Finish::kLength);
  // A step takes a millisecond: a's prompt, b's, then tokens of both together.
  EXPECT_DOUBLE_EQ(first.predicted_first_token_s, 1e-3);
  EXPECT_DOUBLE_EQ(first.first_token_s, 1e-3);
  EXPECT_DOUBLE_EQ(told.at(b).second.predicted_first_token_s, 2e-3);
  EXPECT_DOUBLE_EQ(first.predicted_end_s, 6e-3);
  EXPECT_DOUBLE_EQ(first.predicted_own_s, 5e-3);
  EXPECT_EQ(server->stats().used_blocks, 0);
  EXPECT_EQ(server->stats().totals.steps, 6);
}

TEST(Server, APacedClockTakesThePredictedTime) {
  const auto server = drawing(options(ClockKind::kPaced), "step=5000");
  const int64_t id = server->add(asks(4));
  const auto begin = std::chrono::steady_clock::now();
  const auto told = drained(*server);
  EXPECT_GE(std::chrono::steady_clock::now() - begin, milliseconds(20));
  EXPECT_GE(told.at(id).second.end_s, 0.020);
}

TEST(Server, AGrammarsMaskIsKept) {
  const auto server = drawing();
  JobParams params = asks(3);
  params.mask = {1u << 9, 0, 0};
  const int64_t id = server->add(params);
  StepReport report;
  ASSERT_TRUE(server->step(milliseconds(0), false, report));
  EXPECT_EQ(report.events.at(0).token.token, 9);
  server->set_mask(id, {0, 1u << 1, 0});
  ASSERT_TRUE(server->step(milliseconds(0), false, report));
  EXPECT_EQ(report.events.at(0).token.token, 33);
  server->set_mask(id, {0, 0, 0});
  ASSERT_TRUE(server->step(milliseconds(0), false, report));
  ASSERT_TRUE(report.events.at(0).ended);
  EXPECT_EQ(report.events.at(0).end.failure, "the grammar allows no token");
  EXPECT_EQ(server->audit(), "");
}

TEST(Server, FinishAndAbortGiveTheBlocksBack) {
  const auto server = drawing();
  const int64_t a = server->add(asks(50)), b = server->add(asks(50));
  StepReport report;
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(server->step(milliseconds(0), false, report));
  EXPECT_GT(server->stats().used_blocks, 0);
  const Ended end = server->finish(a);
  EXPECT_EQ(end.finish, serving::Finish::kStop);
  EXPECT_EQ(end.output_tokens, 3);
  server->abort(b);
  server->abort(77);
  EXPECT_FALSE(server->step(milliseconds(0), false, report));
  EXPECT_EQ(server->stats().used_blocks, 0);
  EXPECT_EQ(server->stats().running, 0);
}

TEST(Server, RefusesWhatCouldNeverRun) {
  const auto server = drawing(options(ClockKind::kVirtual, 2));
  const auto label = [&](JobParams params) {
    try {
      server->add(std::move(params));
    } catch (const Fault& fault) {
      return fault.label();
    }
    return std::string();
  };
  EXPECT_EQ(label(asks(1, {})), "serving.request");
  EXPECT_EQ(label(asks(1, std::vector<int32_t>(128, 1))), "serving.request");
  EXPECT_EQ(label(asks(0)), "serving.request");
  EXPECT_EQ(label(asks(1, {kVocabulary})), "serving.request");
  JobParams params = asks(2);
  params.min_tokens = 3;
  EXPECT_EQ(label(params), "serving.request");
  params = asks(2);
  params.sampling.logprobs = 1;
  EXPECT_EQ(label(params), "serving.request");
  params = asks(2);
  params.sampling.top_p = 2;
  EXPECT_EQ(label(params), "decoder.sampling");
  params = asks(2);
  params.mask = {1};
  EXPECT_EQ(label(params), "serving.request");
  EXPECT_EQ(label(asks(1)), "");
  EXPECT_EQ(label(asks(1)), "");
  EXPECT_EQ(label(asks(1)), "server.full");
  EXPECT_THROW(clock_of("sand"), Fault);
}

// Requests come and go from four threads while one takes steps; every one that is not taken back is answered,
// and no block is lost.
TEST(Server, RequestsFromManyThreads) {
  const auto server = drawing(options(ClockKind::kVirtual, 1000));
  std::vector<std::jthread> clients;
  std::atomic<int> kept = 0, gone = 0;
  for (uint64_t seed = 0; seed < 4; ++seed)
    clients.emplace_back([&, seed] {
      SplitMix64 random(seed);
      for (int i = 0; i < 100; ++i) {
        const int64_t id = server->add(asks(1 + static_cast<int32_t>(random.below(20))));
        if (random.below(3) > 0) {
          ++kept;
          continue;
        }
        server->abort(id);
        ++gone;
      }
    });
  int ended = 0;
  StepReport report;
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (std::chrono::steady_clock::now() < limit) {
    const bool idle = !server->step(milliseconds(5), false, report);
    for (const TokenEvent& event : report.events) ended += event.ended;
    if (idle && kept + gone == 400 && server->stats().waiting == 0) break;
  }
  EXPECT_GE(ended, kept);
  EXPECT_LE(ended, 400);
  EXPECT_EQ(server->stats().used_blocks, 0);
  EXPECT_EQ(server->stats().running, 0);
}

}  // namespace
}  // namespace opentrn::server
