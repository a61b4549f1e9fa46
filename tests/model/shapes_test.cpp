// SPDX-License-Identifier: Apache-2.0
// Synthetic shapes have the published sizes; random weights are reproducible, bounded and leave padding alone.
#include "model/shapes.h"

#include <cmath>

#include "model/model.h"
#include "model/published.h"
#include "model/size.h"

namespace colibri {
namespace {

using namespace test;

const RopeSpec& rope_of(const LayerSpec& layer) {
  const auto* latent = std::get_if<LatentAttentionSpec>(&layer.mixer);
  return latent != nullptr ? latent->rope : attention_of(layer).rope;
}

TEST(Shapes, EqualThePublishedConfigs) {
  for (const auto& [name, original] : {std::pair{"qwen3-30b-a3b", "Qwen/Qwen3-30B-A3B"},
                                       {"mixtral-8x7b", "mistralai/Mixtral-8x7B-v0.1"},
                                       {"qwen1.5-moe-a2.7b", "MaziyarPanahi/Qwen1.5-MoE-A2.7B-Wikihow"},
                                       {"qwen2-57b-a14b", "Qwen/Qwen2-57B-A14B@pr1"},
                                       {"deepseek-v2-lite", "deepseek-ai/DeepSeek-V2-Lite-Chat"}}) {
    SCOPED_TRACE(name);
    const auto shape = synthetic_shape(name);
    const auto config = parse_config(published_config(original), name);
    expect_ok(shape);
    expect_ok(config);
    EXPECT_EQ(model_parameters(*shape).total, model_parameters(config->spec).total);
    EXPECT_EQ(model_parameters(*shape).active, model_parameters(config->spec).active);
    EXPECT_EQ(kv_values_per_token(*shape), kv_values_per_token(config->spec));
    EXPECT_EQ(rope_of(shape->layers[0]).inv_freq, rope_of(config->spec.layers[0]).inv_freq);
    EXPECT_EQ(shape->norm_eps, config->spec.norm_eps);
  }
}

TEST(Shapes, HaveOneWith512ExpertsAndCanBeCut) {
  const auto shape = synthetic_shape("moe-512x", 3, 1000);
  expect_ok(shape);
  EXPECT_EQ(shape->layers.size(), 3U);
  EXPECT_EQ(shape->vocab, 1000);
  EXPECT_EQ(std::get<MoeFfn>(shape->layers[2].ffn).router.n_experts, 512);
}

TEST(Shapes, RefuseUnknownNamesAndBadCuts) {
  expect_error(synthetic_shape("gpt-5"), Exit::usage, {"gpt-5", "qwen3-30b-a3b", "moe-512x"});
  expect_error(synthetic_shape("mixtral-8x7b", -1), Exit::data, {"num_hidden_layers"});
  expect_error(synthetic_shape("mixtral-8x7b", 1, 1 << 30), Exit::data, {"vocab_size"});
}

ModelSpec small_spec() {
  Json config = json_file(kConformance + "qwen2_moe/config.json");
  config.set("vocab_size", 321);  // a padded last tile
  auto parsed = parse_config(config, "config.json");
  return parsed->spec;
}

double root_mean_square(const Matrix& matrix) {
  double sum = 0;
  for (int r = 0; r < matrix.rows; ++r)
    for (int c = 0; c < matrix.cols; ++c) sum += static_cast<double>(matrix.at(r, c)) * matrix.at(r, c);
  return std::sqrt(sum / matrix.rows / matrix.cols);
}

TEST(RandomWeights, AreTheSameForTheSameSeedAndAnyThreads) {
  const auto a = random_weights(small_spec(), 7, {.progress = {}, .threads = 1});
  const auto b = random_weights(small_spec(), 7, {.progress = {}, .threads = 4});
  const auto c = random_weights(small_spec(), 8);
  expect_ok(a);
  const std::size_t bytes = a->weights.dense.size();
  EXPECT_EQ(std::memcmp(a->weights.dense.data(), b->weights.dense.data(), bytes), 0);
  EXPECT_NE(std::memcmp(a->weights.dense.data(), c->weights.dense.data(), bytes), 0);
}

TEST(RandomWeights, KeepActivationsInSizeAndPaddingZero) {
  const auto model = random_weights(small_spec(), 7);
  expect_ok(model);
  const ModelWeights& weights = model->weights;
  const auto& attention = std::get<AttentionWeights>(weights.layers[0].mixer);
  const auto& moe = std::get<MoeWeights>(weights.layers[0].ffn);
  for (const Matrix& matrix : {weights.head, attention.wqkv, moe.router, moe.experts().down(3), moe.shared_gate}) {
    const double scaled = root_mean_square(matrix) * std::sqrt(matrix.cols);
    EXPECT_GT(scaled, 0.65);  // within a factor of sqrt(2) of 1, and the spread of a small sample
    EXPECT_LT(scaled, 1.55);
  }
  for (int r = 321; r < 336; ++r)
    for (int c = 0; c < 64; ++c) EXPECT_EQ(weights.head.at(r, c), 0.0F);
  for (int r = 1; r < 16; ++r) EXPECT_EQ(moe.shared_gate.at(r, 5), 0.0F);
  EXPECT_TRUE(std::ranges::equal(weights.final_norm, std::vector<float>(64, 1.0F)));
  EXPECT_TRUE(std::ranges::equal(attention.qkv_bias, std::vector<float>(128, 0.0F)));
}

TEST(RandomWeights, ExpertsDiffer) {
  const auto model = random_weights(small_spec(), 7);
  const auto& moe = std::get<MoeWeights>(model->weights.layers[0].ffn);
  const std::size_t bytes = matrix_bytes(32, 64);
  EXPECT_NE(std::memcmp(moe.records[0], moe.records[1], bytes), 0);
  EXPECT_NE(std::memcmp(moe.records[0], std::get<MoeWeights>(model->weights.layers[2].ffn).records[0], bytes), 0);
}

TEST(RandomWeights, RespectTheBudget) {
  const auto shape = synthetic_shape("qwen3-30b-a3b");
  expect_error(random_weights(*shape, 1, {.progress = {}, .ram_budget = 1'000'000'000}), Exit::config,
               {"61.06 GB", "1.00 GB"});
}

}  // namespace
}  // namespace colibri
