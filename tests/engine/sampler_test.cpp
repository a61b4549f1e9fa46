// SPDX-License-Identifier: Apache-2.0
// The sampler against distributions worked out by hand, and the generator against its published vector.
#include "engine/sampler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <set>

#include "engine/philox.h"

namespace colibri {
namespace {

/// Known-answer vector of Random123 (kat_vectors): philox4x32-10, counter 0, key 0.
static_assert(philox(0, 0) == std::array<std::uint32_t, 4>{0x6627e8d5U, 0xe169c58dU, 0xbc57ac4cU, 0x9b00dbd8U});

std::optional<Sample> draw(std::vector<float> logits, const SamplingParams& params, std::uint64_t position = 0,
                           const TokenCounts& counts = {}) {
  return sample(logits, params, counts, position);
}

std::map<std::int32_t, double> shares(const std::vector<float>& logits, const SamplingParams& params) {
  constexpr int kDraws = 20'000;
  std::map<std::int32_t, double> found;
  for (int i = 0; i < kDraws; ++i) found[draw(logits, params, static_cast<std::uint64_t>(i))->id] += 1.0 / kDraws;
  return found;
}

TEST(Sampler, GreedyTakesTheLargestAndTheLowerOfEquals) {
  SamplingParams greedy{.temperature = 0.0F};
  EXPECT_EQ(draw({1.0F, 3.0F, 3.0F, 2.0F}, greedy)->id, 1);
  EXPECT_EQ(draw({-5.0F}, greedy)->id, 0);
  greedy.temperature = 1e-30F;
  EXPECT_EQ(draw({0.0F, 0.5F}, greedy)->id, 1);
}

TEST(Sampler, NonFiniteLogitsEndTheRequest) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float inf = std::numeric_limits<float>::infinity();
  for (const float bad : {nan, inf, -inf})
    for (const float temperature : {0.0F, 1.0F})
      EXPECT_FALSE(draw({1.0F, bad, 2.0F}, {.temperature = temperature}).has_value());
  TokenCounts counts;
  counts.add_prompt(std::vector<std::int32_t>{1});
  EXPECT_FALSE(draw({1.0F, 2.0F}, {.temperature = 1.0F, .repetition_penalty = 1e-45F}, 0, counts).has_value());
}

TEST(Sampler, BiasShiftsLogitsButNotLogprobs) {
  const auto chosen =
      draw({1.0F, 3.0F, 2.0F}, {.temperature = 0.0F, .logit_bias = {{1, -100.0F}, {0, 1.5F}}, .logprobs = 0});
  EXPECT_EQ(chosen->id, 0);
  EXPECT_NEAR(chosen->logprob, 1.0 - std::log(std::exp(1.0) + std::exp(3.0) + std::exp(2.0)), 1e-6);
  EXPECT_FALSE((SamplingParams{.logit_bias = {{0, 101.0F}}}.validate().ok()));
}

TEST(Sampler, BannedTokensAreNeverChosen) {
  const std::vector<std::int32_t> banned{1, 3};
  for (const float temperature : {0.0F, 2.0F}) {
    for (std::uint64_t position = 0; position < 200; ++position) {
      std::vector<float> logits{0.0F, 5.0F, 0.5F, 5.0F};
      const auto chosen =
          sample(logits, {.temperature = temperature, .repetition_penalty = 10.0F}, {}, position, banned);
      ASSERT_TRUE(chosen && chosen->id % 2 == 0);
    }
  }
}

TEST(Sampler, DrawsFollowTheSoftmax) {
  const std::vector<float> logits{0.0F, std::log(2.0F), std::log(5.0F)};
  auto found = shares(logits, {.temperature = 1.0F, .seed = 3});
  EXPECT_NEAR(found[0], 1.0 / 8, 0.012);  // 5 standard deviations of a share of 1/8 in 20,000 draws
  EXPECT_NEAR(found[1], 2.0 / 8, 0.016);
  EXPECT_NEAR(found[2], 5.0 / 8, 0.018);
  found = shares(logits, {.temperature = 0.5F, .seed = 3});  // squares: 1, 4, 25
  EXPECT_NEAR(found[2], 25.0 / 30, 0.014);
}

TEST(Sampler, FiltersKeepExactlyTheirTokens) {
  const std::vector<float> logits{std::log(0.1F), std::log(0.4F), std::log(0.2F), std::log(0.3F)};
  const auto ids = [&](const SamplingParams& params) {
    std::set<std::int32_t> kept;
    for (const auto& [id, share] : shares(logits, params)) kept.insert(id);
    return kept;
  };
  EXPECT_EQ(ids({.top_k = 2}), (std::set<std::int32_t>{1, 3}));
  EXPECT_EQ(ids({.top_k = 1}), (std::set<std::int32_t>{1}));
  EXPECT_EQ(ids({.top_k = 100}), (std::set<std::int32_t>{0, 1, 2, 3}));
  EXPECT_EQ(ids({.top_p = 0.39F}), (std::set<std::int32_t>{1}));
  EXPECT_EQ(ids({.top_p = 0.5F}), (std::set<std::int32_t>{1, 3}));
  EXPECT_EQ(ids({.top_p = 0.95F}), (std::set<std::int32_t>{0, 1, 2, 3}));
  EXPECT_EQ(ids({.min_p = 0.6F}), (std::set<std::int32_t>{1, 3}));
  EXPECT_EQ(ids({.min_p = 1.0F}), (std::set<std::int32_t>{1}));
  EXPECT_EQ(ids({.top_k = 3, .top_p = 0.7F}), (std::set<std::int32_t>{1, 3})) << "top_p is a share of what top_k left";
}

TEST(Sampler, LargeVocabularyTopPLooksFurtherWhereItMust) {
  const std::vector<float> flat(3000, 0.0F);
  std::set<std::int32_t> kept;
  for (std::uint64_t i = 0; i < 4000; ++i) kept.insert(draw(flat, {.top_p = 0.5F}, i)->id);
  EXPECT_EQ(*kept.rbegin() < 1501, true) << "ties go to the lower ids";
  EXPECT_GT(kept.size(), 1000U);
}

TEST(Sampler, PenaltiesAreThoseOfTheApi) {
  TokenCounts counts;
  counts.add_prompt(std::vector<std::int32_t>{0});
  counts.add_generated(1);
  counts.add_generated(1);
  const SamplingParams greedy{.temperature = 0.0F};
  SamplingParams params = greedy;
  params.repetition_penalty = 2.0F;  // 3 -> 1.5, -1 -> -2
  EXPECT_EQ(draw({3.0F, 2.0F, 1.6F}, params, 0, counts)->id, 2);
  EXPECT_EQ(draw({-1.0F, -1.0F, -1.9F}, params, 0, counts)->id, 2);
  params = greedy;
  params.presence_penalty = 1.0F;  // generated tokens alone, once
  EXPECT_EQ(draw({1.0F, 1.9F, 0.0F}, params, 0, counts)->id, 0);
  params = greedy;
  params.frequency_penalty = 1.0F;  // twice
  EXPECT_EQ(draw({1.0F, 2.9F, 0.0F}, params, 0, counts)->id, 0);
  EXPECT_EQ(draw({1.0F, 3.1F, 0.0F}, params, 0, counts)->id, 1);
}

TEST(Sampler, LogprobsAreOfTheRawDistribution) {
  TokenCounts counts;
  counts.add_generated(2);
  SamplingParams params{.temperature = 0.0F, .frequency_penalty = 2.0F, .logprobs = 2};
  const auto result = draw({std::log(0.1F), std::log(0.3F), std::log(0.6F)}, params, 0, counts);
  EXPECT_EQ(result->id, 1);
  EXPECT_NEAR(result->logprob, std::log(0.3), 1e-6);
  ASSERT_EQ(result->top.size(), 2U);
  EXPECT_EQ(result->top[0].id, 2);
  EXPECT_NEAR(result->top[0].logprob, std::log(0.6), 1e-6);
  EXPECT_EQ(result->top[1].id, 1);
  params.logprobs = 20;
  EXPECT_EQ(draw({1.0F, 2.0F}, params)->top.size(), 2U);
}

TEST(Sampler, SameSeedAndPositionSameToken) {
  std::vector<float> logits(100);
  std::mt19937 random(1);
  for (float& logit : logits) logit = std::uniform_real_distribution<float>(-1.0F, 1.0F)(random);
  std::set<std::int32_t> over_positions;
  for (std::uint64_t position = 0; position < 50; ++position) {
    const SamplingParams params{.seed = 42};
    EXPECT_EQ(draw(logits, params, position)->id, draw(logits, params, position)->id);
    over_positions.insert(draw(logits, params, position)->id);
  }
  EXPECT_GT(over_positions.size(), 10U);
}

TEST(Sampler, RefusesParametersOutOfRange) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(SamplingParams{}.validate().ok());
  const auto message = [](const SamplingParams& params) {
    const Status status = params.validate();
    return status.ok() ? std::string("accepted") : status.error().message;
  };
  EXPECT_TRUE(message({.temperature = 2.1F}).starts_with("temperature: "));
  EXPECT_TRUE(message({.temperature = nan}).starts_with("temperature: "));
  EXPECT_TRUE(message({.top_k = -5}).starts_with("top_k: "));
  EXPECT_TRUE(message({.top_p = 0.0F}).starts_with("top_p: "));
  EXPECT_TRUE(message({.min_p = 1.1F}).starts_with("min_p: "));
  EXPECT_TRUE(message({.repetition_penalty = 0.0F}).starts_with("repetition_penalty: "));
  EXPECT_TRUE(message({.presence_penalty = -2.1F}).starts_with("presence_penalty: "));
  EXPECT_TRUE(message({.frequency_penalty = 1e38F}).starts_with("frequency_penalty: "));
}

}  // namespace
}  // namespace colibri
