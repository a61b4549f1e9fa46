// SPDX-License-Identifier: Apache-2.0
// The engine on a tiny checkpoint: batched equals alone, chunked equals whole, cancelling at any step leaks nothing.
#include "engine/engine.h"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "engine/score.h"

namespace colibri {
namespace {

const std::string kData = COLIBRI_SOURCE_DIR "/tests/conformance/data/";

class EngineTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    auto model = load_model(kData + GetParam());
    ASSERT_TRUE(model.ok()) << model.error().message;
    model_ = std::make_unique<Model>(std::move(*model));
    auto backend = make_backend("cpu", 2);
    ASSERT_TRUE(backend.ok()) << backend.error().message;
    backend_ = std::move(*backend);
  }

  std::unique_ptr<Engine> engine(int max_batch, int max_chunk) {
    auto engine = Engine::create(*model_, *backend_, {.context = 256, .max_batch = max_batch, .max_chunk = max_chunk});
    EXPECT_TRUE(engine.ok());
    return std::move(*engine);
  }

  Request request(int number, std::vector<TokenEvent>& out) const {
    Request request;
    for (int i = 0; i < 5 + 13 * number; ++i)
      request.prompt.push_back((i * 37 + number * 11) % (model_->spec.vocab - 3) + 3);
    request.max_tokens = 6 + number;
    request.sampling.temperature = number % 2 == 0 ? 0.0F : 1.0F;
    request.sampling.seed = static_cast<std::uint64_t>(number);
    request.sampling.logprobs = 0;
    request.sink = [&out](TokenEvent event) { out.push_back(std::move(event)); };
    return request;
  }

  static void expect_all_free(const Engine& engine) {
    for (int g = 0; g < engine.pool().groups(); ++g) EXPECT_EQ(engine.pool().free_blocks(g), engine.pool().blocks(g));
    EXPECT_EQ(engine.stats().kv_free, [&] {
      int all = 0;
      for (int g = 0; g < engine.pool().groups(); ++g) all += engine.pool().blocks(g);
      return all;
    }());
    EXPECT_EQ(engine.stats().running, 0);
    EXPECT_EQ(engine.stats().waiting, 0);
  }

  static void expect_same(const std::vector<TokenEvent>& a, const std::vector<TokenEvent>& b) {
    ASSERT_EQ(a.size(), b.size());
    for (std::size_t i = 0; i < a.size(); ++i) {
      EXPECT_EQ(a[i].id, b[i].id);
      EXPECT_EQ(a[i].logprob, b[i].logprob) << "bit for bit";
      EXPECT_EQ(a[i].finish, b[i].finish);
    }
  }

  std::vector<TokenEvent> alone(int number, int max_chunk) {
    std::vector<TokenEvent> events;
    auto own = engine(1, max_chunk);
    Request wanted = request(number, events);
    EXPECT_TRUE(own->submit(wanted));
    while (own->step()) {
    }
    expect_all_free(*own);
    return events;
  }

  std::unique_ptr<Model> model_;
  std::unique_ptr<Backend> backend_;
};

TEST_P(EngineTest, BatchedEqualsAloneWhateverTheChunks) {
  constexpr int kRequests = 7;
  std::vector<std::vector<TokenEvent>> together(kRequests);
  auto shared = engine(4, 16);  // more requests than places
  for (int i = 0; i < kRequests; ++i) {
    Request wanted = request(i, together[static_cast<std::size_t>(i)]);
    ASSERT_TRUE(shared->check(wanted).ok());
    ASSERT_TRUE(shared->submit(wanted));
  }
  EXPECT_EQ(shared->stats().waiting, kRequests);
  while (shared->step()) {
  }
  expect_all_free(*shared);
  for (int i = 0; i < kRequests; ++i) {
    SCOPED_TRACE(i);
    const auto& events = together[static_cast<std::size_t>(i)];
    ASSERT_EQ(events.size(), static_cast<std::size_t>(6 + i));
    EXPECT_EQ(events.back().finish, Finish::length);
    for (const int chunk : {256, 16, 7, 1}) expect_same(events, alone(i, chunk));
  }
}

TEST_P(EngineTest, CancelAtEveryStepFreesEverything) {
  std::vector<TokenEvent> undisturbed = alone(2, 8);
  for (int at = 0; at < 12; ++at) {
    std::vector<TokenEvent> neighbour;
    std::vector<TokenEvent> cancelled;
    auto shared = engine(2, 8);
    Request other = request(2, neighbour);
    Request victim = request(3, cancelled);
    victim.cancelled = std::make_shared<std::atomic<bool>>(false);
    const auto flag = victim.cancelled;
    ASSERT_TRUE(shared->submit(other));
    ASSERT_TRUE(shared->submit(victim));
    for (int i = 0; i < at; ++i) shared->step();
    flag->store(true);
    while (shared->step()) {
    }
    expect_all_free(*shared);
    expect_same(neighbour, undisturbed);
    ASSERT_FALSE(cancelled.empty());
    EXPECT_NE(cancelled.back().finish, Finish::none);
    EXPECT_EQ(
        std::count_if(cancelled.begin(), cancelled.end(), [](const TokenEvent& e) { return e.finish != Finish::none; }),
        1);
  }
}

TEST_P(EngineTest, StopTokenEndsTheAnswerAndIsItsLastId) {
  const std::vector<TokenEvent> free = alone(0, 32);
  std::vector<TokenEvent> stopped;
  auto own = engine(1, 32);
  Request wanted = request(0, stopped);
  wanted.stop_ids = {free[2].id};
  ASSERT_TRUE(own->submit(wanted));
  while (own->step()) {
  }
  ASSERT_LE(stopped.size(), 3U);
  EXPECT_EQ(stopped.back().id, free[2].id);
  EXPECT_EQ(stopped.back().finish, Finish::stop);
}

TEST_P(EngineTest, StopTokensWaitForMinTokens) {
  const std::vector<TokenEvent> free = alone(0, 256);
  std::vector<TokenEvent> events;
  auto own = engine(1, 256);
  Request wanted = request(0, events);
  wanted.stop_ids = {free[0].id};
  wanted.min_tokens = 2;
  ASSERT_TRUE(own->check(wanted).ok());
  ASSERT_TRUE(own->submit(wanted));
  while (own->step()) {
  }
  ASSERT_GE(events.size(), 2U);
  EXPECT_NE(events[0].id, free[0].id);
  EXPECT_NE(events[1].id, free[0].id);
}

TEST_P(EngineTest, RefusesWhatCannotRun) {
  std::vector<TokenEvent> events;
  auto own = engine(1, 32);
  const auto message = [&](const std::function<void(Request&)>& change) {
    Request wanted = request(0, events);
    change(wanted);
    const Status status = own->check(wanted);
    return status.ok() ? std::string("accepted") : status.error().message;
  };
  EXPECT_EQ(message([](Request&) {}), "accepted");
  EXPECT_TRUE(message([](Request& r) { r.prompt.clear(); }).starts_with("prompt: "));
  EXPECT_TRUE(message([](Request& r) { r.prompt[0] = -1; }).starts_with("prompt: token -1"));
  EXPECT_TRUE(message([&](Request& r) { r.prompt[0] = model_->spec.vocab; }).starts_with("prompt: token "));
  EXPECT_TRUE(message([](Request& r) { r.max_tokens = 0; }).starts_with("max_tokens: "));
  EXPECT_TRUE(message([](Request& r) { r.max_tokens = 2147483647; }).starts_with("prompt: 5 tokens and max_tokens"));
  EXPECT_EQ(message([](Request& r) { r.max_tokens = 251; }), "accepted") << "5 + 251 is the context";
  EXPECT_NE(message([](Request& r) { r.max_tokens = 252; }), "accepted");
  const auto of_length = [](std::size_t length, int max_tokens) {
    return [=](Request& r) {
      r.prompt.assign(length, 3);
      r.max_tokens = max_tokens;
    };
  };
  EXPECT_EQ(message(of_length(256, 1)), "accepted") << "the last token of an answer is never fed back";
  EXPECT_NE(message(of_length(256, 2)), "accepted");
  EXPECT_NE(message(of_length(257, 1)), "accepted");
}

TEST_P(EngineTest, RefusesTokensThatAreNotThere) {
  std::vector<TokenEvent> events;
  const auto own = engine(1, 256);
  Request wanted = request(0, events);
  wanted.stop_ids = {model_->spec.vocab};
  EXPECT_NE(own->check(wanted).error().message.find("stop_token_ids"), std::string::npos);
  wanted.stop_ids = {};
  wanted.sampling.logit_bias = {{model_->spec.vocab, 1.0F}};
  EXPECT_NE(own->check(wanted).error().message.find("logit_bias"), std::string::npos);
  wanted.sampling.logit_bias = {};
  wanted.min_tokens = wanted.max_tokens + 1;
  EXPECT_NE(own->check(wanted).error().message.find("min_tokens"), std::string::npos);
}

TEST_P(EngineTest, APromptThatFillsTheContextGetsOneToken) {
  std::vector<TokenEvent> events;
  auto own = engine(1, 32);
  Request wanted = request(0, events);
  wanted.prompt.assign(256, 3);
  wanted.max_tokens = own->room(256);
  ASSERT_TRUE(own->check(wanted).ok());
  ASSERT_TRUE(own->submit(wanted));
  while (own->step()) {
  }
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].finish, Finish::length);
  expect_all_free(*own);
}

TEST_P(EngineTest, CancelledWhileWaitingLeavesAtTheNextStep) {
  std::vector<TokenEvent> first;
  std::vector<TokenEvent> second;
  auto own = engine(1, 32);
  Request runs = request(3, first);
  Request waits = request(1, second);
  waits.cancelled = std::make_shared<std::atomic<bool>>(false);
  const auto flag = waits.cancelled;
  ASSERT_TRUE(own->submit(runs));
  ASSERT_TRUE(own->submit(waits));
  own->step();
  EXPECT_EQ(own->stats().waiting, 1);
  flag->store(true);
  own->step();
  EXPECT_EQ(own->stats().waiting, 0);
  ASSERT_EQ(second.size(), 1U);
  EXPECT_EQ(second[0].finish, Finish::cancelled);
  while (own->step()) {
  }
  EXPECT_EQ(first.back().finish, Finish::length);
  expect_all_free(*own);
}

TEST_P(EngineTest, AFullRingRefusesAndKeepsTheRequest) {
  auto own = Engine::create(*model_, *backend_, {.context = 64, .max_batch = 1, .queue = 2});
  ASSERT_TRUE(own.ok());
  std::vector<TokenEvent> events;
  int accepted = 0;
  for (int i = 0; i < 3; ++i) {
    Request wanted = request(0, events);
    if ((*own)->submit(wanted)) {
      ++accepted;
    } else {
      EXPECT_EQ(wanted.prompt.size(), 5U);
    }
  }
  EXPECT_EQ(accepted, 2);
  EXPECT_EQ((*own)->stats().waiting, 2);
}

TEST_P(EngineTest, RunsInItsThreadAndCancelsWhatIsLeft) {
  auto own = engine(2, 16);
  std::atomic<int> finished{0};
  std::atomic<int> cancelled{0};
  std::vector<TokenEvent> unused;
  {
    std::jthread thread([&](const std::stop_token& stop) { own->run(stop); });
    for (int i = 0; i < 5; ++i) {
      Request wanted = request(i % 3, unused);
      wanted.sink = [&](const TokenEvent& event) {
        if (event.finish == Finish::length) ++finished;
        if (event.finish == Finish::cancelled) ++cancelled;
      };
      ASSERT_TRUE(own->submit(wanted));
      std::this_thread::sleep_for(std::chrono::milliseconds(2));  // lets it fall asleep now and then
    }
    for (int i = 0; i < 2000 && finished < 5; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    EXPECT_EQ(finished, 5);
    for (int i = 0; i < 4; ++i) {
      Request wanted = request(2, unused);
      wanted.max_tokens = 200;
      wanted.sink = [&](const TokenEvent& event) {
        if (event.finish != Finish::none) ++cancelled;
      };
      ASSERT_TRUE(own->submit(wanted));
    }
  }
  EXPECT_EQ(cancelled, 4);
  expect_all_free(*own);
}

TEST_P(EngineTest, ScoreGivesEveryRowOnceAndWhateverTheLength) {
  std::vector<std::int32_t> tokens;
  for (int i = 0; i < 200; ++i) tokens.push_back((i * 29 + 1) % model_->spec.vocab);
  std::vector<float> last;
  int rows = 0;
  ASSERT_TRUE(score(*backend_, *model_, tokens, [&](int position, std::span<const float> logits) {
                EXPECT_EQ(position, rows++);
                last.assign(logits.begin(), logits.end());
                return true;
              }).ok());
  EXPECT_EQ(rows, 200);
  EXPECT_FALSE(score(*backend_, *model_, {}, [](int, std::span<const float>) { return true; }).ok());
  tokens[3] = model_->spec.vocab;
  EXPECT_FALSE(score(*backend_, *model_, tokens, [](int, std::span<const float>) { return true; }).ok());
}

INSTANTIATE_TEST_SUITE_P(Models, EngineTest, testing::Values("qwen3_moe", "mixtral_swa", "qwen3_next"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace colibri
