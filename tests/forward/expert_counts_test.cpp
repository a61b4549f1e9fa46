// SPDX-License-Identifier: Apache-2.0
// Published numbers of experts and choices, with random weights: the fast backends against the reference.
#include <gtest/gtest.h>

#include "base/json.h"
#include "forward/runner.h"
#include "model/config.h"

namespace colibri {
namespace {

class ExpertCounts : public testing::TestWithParam<std::tuple<int, int>> {};

TEST_P(ExpertCounts, AgreeWithTheReference) {
  const auto [n_experts, top_k] = GetParam();
  Json config = *parse_json(R"({"model_type": "qwen3_moe", "hidden_size": 48, "num_hidden_layers": 2,
      "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "moe_intermediate_size": 24,
      "norm_topk_prob": true, "vocab_size": 300, "max_position_embeddings": 256, "rope_theta": 10000.0,
      "rms_norm_eps": 1e-06})");
  config.set("num_experts", n_experts);
  config.set("num_experts_per_tok", top_k);
  const auto parsed = parse_config(config, "config.json");
  if (top_k > n_experts) {
    ASSERT_FALSE(parsed.ok());
    EXPECT_NE(parsed.error().message.find("num_experts_per_tok"), std::string::npos) << parsed.error().message;
    return;
  }
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  const auto model = random_weights(parsed->spec, 5);
  ASSERT_TRUE(model.ok());
  Ids prompt(60);
  for (std::size_t i = 0; i < prompt.size(); ++i) prompt[i] = static_cast<std::int32_t>(i * i * 31 % 300);
  const auto reference = make_backend("reference", 1);
  const auto cpu = make_backend("cpu", 2);
  const std::vector<float> wanted = Runner(*model, **reference).run({prompt})[0];
  const std::vector<float> logits = Runner(*model, **cpu).run({prompt})[0];
  float largest = 0.0F;
  for (const float value : wanted) largest = std::max(largest, std::abs(value));
  const float allowed = tolerance(model->spec, largest);
  for (std::size_t i = 0; i < wanted.size(); ++i) ASSERT_LE(std::abs(logits[i] - wanted[i]), allowed) << i;
  EXPECT_GT(largest, 1.0F);
}

INSTANTIATE_TEST_SUITE_P(All, ExpertCounts,
                         testing::Combine(testing::Values(6, 12, 60, 72, 160, 384, 512), testing::Values(1, 2, 6, 10)),
                         [](const auto& test) {
                           return std::to_string(std::get<0>(test.param)) + "_of_which_" +
                                  std::to_string(std::get<1>(test.param));
                         });

}  // namespace
}  // namespace colibri
