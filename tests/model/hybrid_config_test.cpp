// SPDX-License-Identifier: Apache-2.0
// Configurations with recurrent layers: published files give their layers and state, keys that decide the mathematics
// are required.
#include "model/config.h"
#include "model/families.h"
#include "model/published.h"
#include "model/size.h"

namespace colibri {
namespace {

using namespace test;

Result<ModelConfig> published(const std::string& name) { return parse_config(published_config(name), "config.json"); }

Result<ModelConfig> with(const std::string& model, std::string_view key, const std::string& value) {
  Json config = json_file(kConformance + model + "/config.json");
  config.set(key, json_of(value));
  return parse_config(config, "config.json");
}

int recurrent_layers(const ModelSpec& spec) {
  return static_cast<int>(std::count_if(spec.layers.begin(), spec.layers.end(), [](const LayerSpec& layer) {
    return !std::holds_alternative<AttentionSpec>(layer.mixer);
  }));
}

TEST(HybridConfig, Qwen3NextHasThreeDeltaNetsForEachAttention) {
  const auto config = published("Qwen/Qwen3-Next-80B-A3B");
  expect_ok(config);
  const ModelSpec& spec = config->spec;
  EXPECT_NEAR(model_parameters(spec).total / 1e9, 80, 0.5);
  EXPECT_EQ(recurrent_layers(spec), 36);
  const auto& net = std::get<DeltaNetSpec>(spec.layers[2].mixer);
  EXPECT_EQ(net.n_v_heads, 32);
  EXPECT_EQ(net.conv_cols(), 8192);
  EXPECT_EQ(net.state_floats(), 3U * 8192 + 32 * 128 * 128);
  const AttentionSpec& attention = attention_of(spec.layers[3]);
  EXPECT_TRUE(attention.output_gate);
  EXPECT_EQ(attention.rope.dim, 64);
  EXPECT_EQ(attention.qk_norm, QkNorm::per_head);
  ASSERT_EQ(spec.kv_groups.size(), 2U);
  EXPECT_EQ(spec.kv_groups[0].state_floats, net.state_floats());
  EXPECT_EQ(spec.kv_groups[0].layers.size(), 36U);
  EXPECT_EQ(spec.kv_groups[1].state_floats, 0U);
  EXPECT_EQ(kv_values_per_token(spec), 12 * 2 * 2 * 256);
}

TEST(HybridConfig, Qwen35NestsItsTextPart) {
  const auto config = published("Qwen/Qwen3.5-35B-A3B");
  expect_ok(config);
  EXPECT_NEAR(model_parameters(config->spec).total / 1e9, 35, 0.7 + 0.5);
  EXPECT_NEAR(model_parameters(config->spec).active / 1e9, 3, 0.5);
  EXPECT_EQ(recurrent_layers(config->spec), 30);
  EXPECT_EQ(config->generation.eos, std::vector<int>{248044}) << "from the text part";
  EXPECT_FALSE(config->spec.tied_embeddings);
}

TEST(HybridConfig, TheOuterFileSaysWhatTheTextPartDoesNot) {
  Json config = published_config("Qwen/Qwen3.5-35B-A3B");
  config.set("tie_word_embeddings", true);
  config.set("eos_token_id", json_of("[5, 6]"));
  const auto parsed = parse_config(config, "config.json");
  expect_ok(parsed);
  EXPECT_TRUE(parsed->spec.tied_embeddings);
  EXPECT_EQ(parsed->generation.eos, (std::vector<int>{5, 6}));
  Json other = config;
  other.find("text_config")->set("model_type", "qwen4_moe_text");
  expect_error(parse_config(other, "config.json"), Exit::data,
               {"config.json: text_config: model_type: \"qwen4_moe_text\"", "within qwen3_5_moe"});
  config.set("text_config", "none");
  expect_error(parse_config(config, "config.json"), Exit::data, {"config.json: text_config"});
  config.set("text_config", Json::Object{});
  expect_error(parse_config(config, "config.json"), Exit::data, {"config.json: text_config: head_dim: missing"});
}

TEST(HybridConfig, Lfm2HasConvolutionsAndDenseFirstLayers) {
  const auto config = published("Ba2han/augment-multi-ft2");
  expect_ok(config);
  const ModelSpec& spec = config->spec;
  EXPECT_NEAR(model_parameters(spec).total / 1e9, 8.3, 0.1);
  EXPECT_NEAR(model_parameters(spec).active / 1e9, 1.5, 0.08);
  EXPECT_EQ(recurrent_layers(spec), 18);
  const auto& conv = std::get<ShortConvSpec>(spec.layers[0].mixer);
  EXPECT_EQ(conv.width, 3);
  EXPECT_EQ(conv.state_floats(), 2U * 2048);
  EXPECT_TRUE(std::holds_alternative<DenseFfn>(spec.layers[1].ffn));
  EXPECT_TRUE(std::holds_alternative<MoeFfn>(spec.layers[2].ffn));
  EXPECT_FLOAT_EQ(spec.norm_eps, 1e-5F);
  EXPECT_TRUE(spec.tied_embeddings);
}

TEST(HybridConfig, DraftingHeadsAndVisionAreNotAsked) {
  const TensorNames& names = find_family("qwen3_5_moe")->names;
  EXPECT_TRUE(names.ignores("mtp.layers.0.mlp.gate.weight"));
  EXPECT_TRUE(names.ignores("model.visual.blocks.0.attn.proj.bias"));
  EXPECT_FALSE(names.ignores("model.layers.0.mlp.gate.weight"));
  EXPECT_FALSE(find_family("qwen3_next")->names.ignores("model.visual.blocks.0.attn.proj.bias"));
}

struct Hostile {
  const char* model;
  const char* key;
  const char* value;
};

TEST(HybridConfig, KeysThatDecideAreRequiredAndBounded) {
  const Hostile cases[] = {
      {"qwen3_next", "linear_num_key_heads", "null"},
      {"qwen3_next", "linear_num_key_heads", "3"},
      {"qwen3_next", "linear_num_value_heads", "0"},
      {"qwen3_next", "linear_num_value_heads", "4097"},
      {"qwen3_next", "linear_key_head_dim", "null"},
      {"qwen3_next", "linear_value_head_dim", "5000"},
      {"qwen3_next", "linear_conv_kernel_dim", "null"},
      {"qwen3_next", "linear_conv_kernel_dim", "100000"},
      {"qwen3_next", "layer_types", R"(["linear_attention"])"},
      {"qwen3_next", "layer_types", R"(["conv", "conv", "conv", "conv"])"},
      {"qwen3_next", "full_attention_interval", "\"4\""},
      {"qwen3_next", "norm_topk_prob", "null"},
      {"qwen3_next", "head_dim", "null"},
      {"qwen3_next", "use_sliding_window", "true"},
      {"qwen3_5_moe", "attn_output_gate", "false"},
      {"qwen3_5_moe", "output_gate_type", "\"sigmoid\""},
      {"qwen3_5_moe", "mlp_only_layers", "[1]"},
      {"lfm2_moe", "conv_L_cache", "null"},
      {"lfm2_moe", "conv_L_cache", "1"},
      {"lfm2_moe", "conv_bias", "null"},
      {"lfm2_moe", "layer_types", "null"},
      {"lfm2_moe", "layer_types", R"(["conv", "conv", "linear_attention"])"},
      {"lfm2_moe", "norm_eps", "-1"},
      {"lfm2_moe", "norm_topk_prob", "null"},
      {"lfm2_moe", "use_expert_bias", "null"},
      {"lfm2_moe", "routed_scaling_factor", "null"},
      {"lfm2_moe", "num_dense_layers", "null"},
  };
  for (const Hostile& item : cases) {
    SCOPED_TRACE(std::string(item.model) + " " + item.key + " " + item.value);
    Json config = json_file(kConformance + item.model + "/config.json");
    if (std::string_view(item.key) == "full_attention_interval") config.set("layer_types", Json());
    config.set(item.key, json_of(item.value));
    expect_error(parse_config(config, "config.json"), Exit::data, {"config.json", item.key});
  }
  Json config = json_file(kConformance + "qwen3_next/config.json");
  config.set("partial_rotary_factor", Json());
  expect_ok(parse_config(config, "config.json"));
  config.set("rope_parameters", Json());
  expect_error(parse_config(config, "config.json"), Exit::data, {"partial_rotary_factor", "missing"});
  expect_error(with("qwen3_next", "layer_types", "null"), Exit::data, {"full_attention_interval", "missing"});
}

TEST(HybridConfig, LayersFollowTheIntervalWhereTheyAreNotListed) {
  Json config = json_file(kConformance + "qwen3_next/config.json");
  config.set("layer_types", Json());
  config.set("full_attention_interval", 2);
  const auto parsed = parse_config(config, "config.json");
  expect_ok(parsed);
  for (std::size_t i = 0; i < 4; ++i)
    EXPECT_EQ(std::holds_alternative<AttentionSpec>(parsed->spec.layers[i].mixer), i % 2 == 1);
}

}  // namespace
}  // namespace colibri
