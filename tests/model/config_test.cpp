// SPDX-License-Identifier: Apache-2.0
// config.json and generation_config.json: published files give the published facts, hostile ones name the key.
#include "model/config.h"

#include <cmath>

#include "model/families.h"
#include "model/published.h"
#include "model/rope.h"
#include "model/size.h"

namespace colibri {
namespace {

using namespace test;

/// A conformance model's config with one member replaced.
Result<ModelConfig> with(const std::string& model, std::string_view key, const std::string& value) {
  Json config = json_file(kConformance + model + "/config.json");
  config.set(key, json_of(value));
  return parse_config(config, "config.json");
}

Result<ModelConfig> published(const std::string& name) { return parse_config(published_config(name), "config.json"); }

TEST(Config, EveryConformanceModelParses) {
  for (const auto& entry : std::filesystem::directory_iterator(kConformance)) {
    SCOPED_TRACE(entry.path().string());
    const auto config = read_config(entry.path().string());
    expect_ok(config);
    EXPECT_EQ(config->generation.eos, std::vector<int>{2});
    EXPECT_EQ(config->generation.bos, 1);
    EXPECT_EQ(config->generation.pad, 0);
    const bool longrope = entry.path().filename() == "phimoe_jitter";  // whose context is lowered
    EXPECT_EQ(config->warnings.size(), longrope ? 1U : 0U);
    if (longrope) {
      EXPECT_NE(config->warnings[0].find("original_max_position_embeddings"), std::string::npos);
    }
  }
}

TEST(Config, ALongerContextTakesTheLongFactors) {
  auto config = read_config(kConformance + "phimoe_jitter");
  expect_ok(config);
  ModelSpec& spec = config->spec;
  EXPECT_EQ(spec.context, 256);
  lengthen(spec, 256);
  lengthen(spec, 513);  // more than there is
  EXPECT_EQ(spec.context, 256);
  EXPECT_FLOAT_EQ(attention_of(spec.layers[0]).rope.scale, 1.125F);
  lengthen(spec, 257);
  EXPECT_EQ(spec.context, 512);
  for (const LayerSpec& layer : spec.layers) {
    EXPECT_FLOAT_EQ(attention_of(layer).rope.inv_freq[0], 1.0F / 16);
    EXPECT_FLOAT_EQ(attention_of(layer).rope.scale, 1.25F);
  }
}

TEST(Config, Qwen3Moe) {
  const auto config = published("Qwen/Qwen3-30B-A3B");
  expect_ok(config);
  const ModelSpec& spec = config->spec;
  EXPECT_EQ(spec.family, "qwen3_moe");
  EXPECT_EQ(spec.vocab, 151936);
  EXPECT_EQ(spec.context, 40960);
  ASSERT_EQ(spec.layers.size(), 48U);
  const AttentionSpec& attention = attention_of(spec.layers[47]);
  EXPECT_EQ(attention.n_heads, 32);
  EXPECT_EQ(attention.n_kv_heads, 4);
  EXPECT_EQ(attention.head_dim, 128);
  EXPECT_FLOAT_EQ(attention.scale, std::sqrt(1.0F / 128));
  EXPECT_EQ(attention.qk_norm, QkNorm::per_head);
  EXPECT_FALSE(attention.qkv_bias || attention.o_bias);
  EXPECT_EQ(attention.window, 0);
  const auto& moe = std::get<MoeFfn>(spec.layers[0].ffn);
  EXPECT_EQ(moe.router.n_experts, 128);
  EXPECT_EQ(moe.router.top_k, 8);
  EXPECT_TRUE(moe.router.norm_topk);
  EXPECT_EQ(moe.d_ff, 768);
  EXPECT_EQ(moe.shared_d_ff, 0);
}

TEST(Config, Qwen2MoeHasASharedExpertBehindAGate) {
  const auto config = published("MaziyarPanahi/Qwen1.5-MoE-A2.7B-Wikihow");
  expect_ok(config);
  const LayerSpec& layer = config->spec.layers[5];
  EXPECT_TRUE(attention_of(layer).qkv_bias);
  EXPECT_FALSE(attention_of(layer).o_bias);
  EXPECT_EQ(attention_of(layer).head_dim, 128);
  const auto& moe = std::get<MoeFfn>(layer.ffn);
  EXPECT_EQ(moe.shared_d_ff, 5632);
  EXPECT_TRUE(moe.shared_gate);
  EXPECT_FALSE(moe.router.norm_topk);
}

TEST(Config, MixtralNormalisesAndMaySlide) {
  const auto plain = published("mistralai/Mixtral-8x7B-v0.1");
  expect_ok(plain);
  EXPECT_TRUE(std::get<MoeFfn>(plain->spec.layers[0].ffn).router.norm_topk);
  EXPECT_EQ(attention_of(plain->spec.layers[0]).window, 0);
  EXPECT_FLOAT_EQ(plain->spec.norm_eps, 1e-5F);
  const auto sliding = published("argilla/notux-8x7b-v1");
  expect_ok(sliding);
  EXPECT_EQ(attention_of(sliding->spec.layers[31]).window, 4096);
}

TEST(Config, WhatTheFamilyMeansIsNotAssumedInSilence) {
  const auto epsilon = published("allenai/OLMoE-1B-7B-0924");
  expect_ok(epsilon);
  ASSERT_EQ(epsilon->warnings.size(), 1U);
  EXPECT_EQ(epsilon->warnings[0], "config.json: rms_norm_eps: missing; 1e-05 is assumed");
  Json config = json_file(kConformance + "mistral/config.json");
  config.set("rope_parameters", Json());
  const auto theta = parse_config(config, "config.json");
  expect_ok(theta);
  ASSERT_EQ(theta->warnings.size(), 1U);
  EXPECT_EQ(theta->warnings[0], "config.json: rope_theta: missing; 10000 is assumed");
}

TEST(Config, OlmoeNormalisesAllHeadsTogetherAndItsEpsilonMayBeAbsent) {
  const auto config = published("allenai/OLMoE-1B-7B-0924");
  expect_ok(config);
  EXPECT_EQ(attention_of(config->spec.layers[0]).qk_norm, QkNorm::full);
  EXPECT_FLOAT_EQ(config->spec.norm_eps, 1e-5F);
}

TEST(Config, DeepseekV2HasLatentAttentionAndSoftmaxScores) {
  const auto config = published("deepseek-ai/DeepSeek-V2-Lite-Chat");
  expect_ok(config);
  const ModelSpec& spec = config->spec;
  const auto& attention = std::get<LatentAttentionSpec>(spec.layers[26].mixer);
  EXPECT_EQ(attention.n_heads, 16);
  EXPECT_EQ(attention.q_rank, 0);
  EXPECT_EQ(attention.cached(), 576);
  EXPECT_EQ(attention.q_dim(), 192);
  EXPECT_EQ(attention.v_dim, 128);
  EXPECT_EQ(attention.rope.pairs, RopePairs::neighbours);
  EXPECT_FLOAT_EQ(attention.rope.scale, 1.0F) << "mscale and mscale_all_dim cancel";
  EXPECT_FLOAT_EQ(attention.scale, std::pow(0.0707F * std::log(40.0F) + 1.0F, 2.0F) / std::sqrt(192.0F));
  EXPECT_EQ(kv_values_per_token(spec), 27 * 576);
  ASSERT_EQ(spec.kv_groups.size(), 1U);
  EXPECT_EQ(spec.kv_groups[0].latent_dim, 576);
  EXPECT_TRUE(std::holds_alternative<DenseFfn>(spec.layers[0].ffn));
  const auto& moe = std::get<MoeFfn>(spec.layers[1].ffn);
  EXPECT_EQ(moe.shared_d_ff, 2 * 1408);
  EXPECT_FALSE(moe.shared_gate || moe.router.norm_topk || moe.router.correction);
  EXPECT_EQ(moe.router.score, RouterScore::softmax);
  EXPECT_EQ(moe.router.n_groups, 1);

  const auto grouped = published("deepseek-ai/DeepSeek-V2.5");
  expect_ok(grouped);
  const auto& router = std::get<MoeFfn>(grouped->spec.layers[1].ffn).router;
  EXPECT_EQ(std::get<LatentAttentionSpec>(grouped->spec.layers[0].mixer).q_rank, 1536);
  EXPECT_EQ(router.n_groups, 8);
  EXPECT_EQ(router.top_groups, 3);
  EXPECT_EQ(router.group_score, GroupScore::best);
  EXPECT_FLOAT_EQ(router.scale, 16.0F);
}

TEST(Config, DeepseekV3CorrectsAndNormalisesItsChoice) {
  for (const char* name : {"moonshotai/Moonlight-16B-A3B-Instruct", "jdopensource/JoyAI-LLM-Flash"}) {
    const auto config = published(name);
    expect_ok(config);
    EXPECT_TRUE(std::holds_alternative<LatentAttentionSpec>(config->spec.layers[0].mixer));
    const auto& router = std::get<MoeFfn>(config->spec.layers[1].ffn).router;
    EXPECT_TRUE(router.correction && router.norm_topk);
    EXPECT_EQ(router.score, RouterScore::sigmoid);
    EXPECT_EQ(router.group_score, GroupScore::best_two);
  }
  const auto halves = with("deepseek_v3", "rope_interleave", "false");
  expect_ok(halves);
  EXPECT_EQ(std::get<LatentAttentionSpec>(halves->spec.layers[0].mixer).rope.pairs, RopePairs::halves);
}

TEST(Config, ContextsEndWhereAttentionBecomesSparse) {
  const auto config = published("deepseek-ai/DeepSeek-V3.2");
  expect_ok(config);
  EXPECT_EQ(config->spec.context, 2048);
  ASSERT_EQ(config->warnings.size(), 1U);
  EXPECT_NE(config->warnings[0].find("index_topk: the context ends at 2048 tokens"), std::string::npos);
  const auto within = with("glm_moe_dsa", "index_topk", "1000");
  expect_ok(within);
  EXPECT_EQ(within->spec.context, 256);
  EXPECT_TRUE(within->warnings.empty());
}

TEST(Config, ErniesPipelineHasEmptyLayers) {
  const auto config = published("baidu/ERNIE-4.5-21B-A3B@paddle-pretrain");
  expect_ok(config);
  EXPECT_EQ(config->spec.layers.size(), 28U);
}

TEST(Config, SparseStepAndMlpOnlyLayersPlaceDenseLayers) {
  const auto kinds = [](const std::string& model) {
    std::string text;
    const auto config = read_config(kConformance + model);
    for (const LayerSpec& layer : config->spec.layers) text += std::holds_alternative<MoeFfn>(layer.ffn) ? 'm' : 'd';
    return text;
  };
  EXPECT_EQ(kinds("qwen3_moe_sparse_step"), "dmdm");
  EXPECT_EQ(kinds("qwen2_moe"), "mdm");
  EXPECT_EQ(kinds("qwen3_moe"), "mm");
}

TEST(Config, WindowsMakeKvGroups) {
  const auto config = read_config(kConformance + "qwen2");  // full, sliding, sliding
  expect_ok(config);
  ASSERT_EQ(config->spec.kv_groups.size(), 2U);
  EXPECT_EQ(config->spec.kv_groups[0].layers, std::vector<int>{0});
  EXPECT_EQ(config->spec.kv_groups[0].window, 0);
  EXPECT_EQ(config->spec.kv_groups[1].layers, (std::vector<int>{1, 2}));
  EXPECT_EQ(config->spec.kv_groups[1].window, 20);
  EXPECT_EQ(attention_of(config->spec.layers[2]).kv_group, 1);
  EXPECT_EQ(read_config(kConformance + "mixtral_swa")->spec.kv_groups.size(), 1U);
}

/// The windows of three layers, 0 for none.
std::string windows(const std::string& model, const std::string& members) {
  Json config = json_file(kConformance + model + "/config.json");
  config.set("num_hidden_layers", 3);
  for (const char* key : {"layer_types", "max_window_layers", "mlp_only_layers"}) config.set(key, Json());
  const Json changes = json_of(members);
  for (const auto& [key, value] : changes.as_object()) config.set(key, value);
  const auto parsed = parse_config(config, "config.json");
  if (!parsed.ok()) return parsed.error().message;
  std::string text;
  for (const LayerSpec& layer : parsed->spec.layers) text += std::to_string(attention_of(layer).window) + " ";
  return text;
}

TEST(Config, WindowsFollowTransformersDefaults) {
  const std::string on = R"("use_sliding_window": true, "sliding_window": 9)";
  EXPECT_EQ(windows("qwen2", "{" + on + R"(, "max_window_layers": 2})"), "0 0 9 ");
  EXPECT_EQ(windows("qwen2", R"({"use_sliding_window": false, "sliding_window": 9, "max_window_layers": 0})"),
            "0 0 0 ");
  EXPECT_EQ(windows("qwen2_moe", "{" + on + R"(, "max_window_layers": 3})"), "9 0 9 ");
  EXPECT_EQ(windows("qwen3_moe", "{" + on + "}"), "9 9 9 ");
  EXPECT_EQ(
      windows("qwen3", "{" + on + R"(, "layer_types": ["sliding_attention", "full_attention", "full_attention"]})"),
      "9 0 0 ");
  EXPECT_NE(windows("qwen3", "{" + on + R"(, "layer_types": ["full_attention"]})").find("layer_types"),
            std::string::npos);
  EXPECT_NE(windows("qwen3", R"({"layer_types": ["a", "b", "c"]})").find("layer_types"), std::string::npos);
}

TEST(Config, UnsupportedModelsSayWhatIsSupported) {
  expect_error(parse_config(json_of(R"({"model_type": "grok-1"})"), "config.json"), Exit::data,
               {"model_type", "grok-1", "qwen3_moe", "mixtral"});
  expect_error(parse_config(json_of("{}"), "config.json"), Exit::data, {"config.json", "model_type", "missing"});
  expect_error(parse_config(json_of("[]"), "config.json"), Exit::data, {"config.json"});
}

struct Hostile {
  const char* model;
  const char* key;
  const char* value;
};

TEST(Config, HostileValuesNameTheirKey) {
  const Hostile cases[] = {
      {"qwen3_moe", "num_local_experts", "0"},
      {"qwen3_moe", "num_local_experts", "2147483648"},
      {"qwen3_moe", "num_local_experts", "-1"},
      {"qwen3_moe", "num_local_experts", "1.0"},
      {"qwen3_moe", "num_local_experts", "\"10\""},
      {"qwen3_moe", "num_local_experts", "1e400000"},
      {"qwen3_moe", "num_experts_per_tok", "0"},
      {"qwen3_moe", "num_experts_per_tok", "11"},
      {"olmoe", "num_experts", "0"},
      {"mixtral", "num_experts_per_tok", "9"},
      {"qwen3_moe", "num_hidden_layers", "0"},
      {"qwen3_moe", "num_hidden_layers", "100000"},
      {"qwen3_moe", "num_attention_heads", "0"},
      {"qwen3_moe", "num_key_value_heads", "0"},
      {"qwen3_moe", "num_key_value_heads", "3"},
      {"qwen2_moe", "num_attention_heads", "5"},
      {"qwen3_moe", "head_dim", "0"},
      {"qwen3_moe", "head_dim", "33"},
      {"qwen3_moe", "head_dim", "1000000"},
      {"qwen3_moe", "hidden_size", "0"},
      {"qwen3_moe", "hidden_size", "2147483647"},
      {"qwen3_moe", "hidden_size", "null"},
      {"qwen3_moe", "vocab_size", "0"},
      {"qwen3_moe", "vocab_size", "2147483647"},
      {"qwen3_moe", "max_position_embeddings", "0"},
      {"qwen3_moe", "moe_intermediate_size", "0"},
      {"qwen3_moe_sparse_step", "intermediate_size", "0"},
      {"qwen3_moe", "decoder_sparse_step", "0"},
      {"qwen3_moe", "mlp_only_layers", "[-1]"},
      {"qwen3_moe", "mlp_only_layers", "[4096]"},
      {"qwen3_moe", "mlp_only_layers", "{\"a\": 1}"},
      {"qwen3_moe", "rms_norm_eps", "-1"},
      {"qwen3_moe", "rms_norm_eps", "\"1e-6\""},
      {"qwen3_moe", "tie_word_embeddings", "1"},
      {"qwen3_moe", "hidden_act", "\"gelu\""},
      {"qwen3_moe", "hidden_act", "7"},
      {"qwen3_moe", "eos_token_id", "320"},
      {"qwen3_moe", "eos_token_id", "-1"},
      {"qwen3_moe", "eos_token_id", "[2, 320]"},
      {"qwen3_moe", "eos_token_id", "\"2\""},
      {"qwen2_moe", "shared_expert_intermediate_size", "0"},
      {"mixtral_swa", "sliding_window", "0"},
      {"mixtral_swa", "sliding_window", "-5"},
      {"olmoe", "clip_qkv", "8.0"},
      {"olmoe", "norm_topk_prob", "null"},
      {"qwen2_moe", "norm_topk_prob", "null"},
      {"qwen3_moe", "norm_topk_prob", "null"},
      {"glm4_moe", "n_group", "5"},
      {"glm4_moe", "n_group", "12"},
      {"glm4_moe", "topk_group", "2"},
      {"glm4_moe", "n_routed_experts", "null"},
      {"glm4_moe", "n_shared_experts", "null"},
      {"glm4_moe", "n_shared_experts", "1000000"},
      {"glm4_moe", "norm_topk_prob", "null"},
      {"glm4_moe", "routed_scaling_factor", "null"},
      {"glm4_moe", "first_k_dense_replace", "4"},
      {"glm4_moe", "use_qk_norm", "null"},
      {"glm4_moe", "moe_layer_freq", "2"},
      {"ernie4_5_moe", "tie_word_embeddings", "null"},
      {"ernie4_5_moe", "use_bias", "true"},
      {"ernie4_5_moe", "moe_layer_start_index", "[0, 1]"},
      {"ernie4_5_moe", "moe_num_shared_experts", "null"},
      {"gpt_oss", "attention_bias", "null"},
      {"gpt_oss", "sliding_window", "null"},
      {"gpt_oss", "layer_types", "[\"chunked_attention\", \"full_attention\"]"},
      {"gpt_oss", "layer_types", "[\"full_attention\"]"},
      {"gpt_oss", "swiglu_limit", "-1"},
      {"granitemoe", "residual_multiplier", "0"},
      {"granitemoe", "logits_scaling", "null"},
      {"granitemoe", "attention_multiplier", "null"},
      {"phimoe", "num_experts_per_tok", "3"},
      {"phimoe", "router_jitter_noise", "null"},
      {"phimoe", "lm_head_bias", "null"},
      {"hunyuan_v1_moe", "moe_topk", "[2, 3]"},
      {"hunyuan_v1_moe", "moe_topk", "[]"},
      {"hunyuan_v1_moe", "use_cla", "true"},
      {"minimax_m2", "attn_type_list", "[1, 0]"},
      {"minimax_m2", "scoring_func", "\"softmax\""},
      {"minimax_m2", "rotary_dim", "64"},
      {"ernie4_5_moe", "remove_tail_layer", "3"},
      {"ernie4_5_moe", "moe_use_aux_free", "false"},
      {"deepseek", "norm_topk_prob", "null"},
      {"deepseek", "scoring_func", "\"sigmoid\""},
      {"deepseek", "n_shared_experts", "null"},
      {"deepseek", "mlp_bias", "true"},
      {"glm_moe_dsa", "index_topk", "null"},
      {"glm_moe_dsa", "index_topk", "0"},
      {"deepseek_v2", "topk_method", "null"},
      {"deepseek_v2", "topk_method", "\"noaux_tc\""},
      {"deepseek_v2", "scoring_func", "\"sigmoid\""},
      {"deepseek_v2", "norm_topk_prob", "true"},
      {"deepseek_v2", "rope_interleave", "false"},
      {"deepseek_v2", "mlp_bias", "true"},
      {"deepseek_v2_group", "n_group", "null"},
      {"deepseek_v2_group", "topk_group", "1"},
      {"deepseek_v3", "topk_method", "\"greedy\""},
      {"glm4_moe", "scoring_func", "\"softmax\""},
      {"deepseek_v3", "scoring_func", "\"softmax\""},
      {"deepseek_v3", "n_group", "null"},
      {"deepseek_v3", "kv_lora_rank", "null"},
      {"deepseek_v3", "kv_lora_rank", "4097"},
      {"deepseek_v3", "q_lora_rank", "0"},
      {"deepseek_v3", "qk_rope_head_dim", "15"},
      {"deepseek_v3", "qk_nope_head_dim", "0"},
      {"deepseek_v3", "v_head_dim", "null"},
      {"deepseek_v3", "num_key_value_heads", "2"},
      {"deepseek_v3", "attention_bias", "true"},
      {"deepseek_v3", "partial_rotary_factor", "0.5"},
      {"deepseek_v3", "moe_layer_freq", "2"},
      {"glm4_moe_lite", "mlp_layer_types", "[\"dense\", \"sparse\"]"},
      {"glm4_moe_lite", "mlp_layer_types", "[\"dense\", \"sparse\", \"dense\"]"},
      {"glm4_moe_lite", "mlp_layer_types", "[\"dense\", \"sparse\", 7]"},
      {"llama", "mlp_bias", "true"},
      {"llama", "num_experts", "8"},
      {"qwen3", "model_type", "7"},
      {"qwen3", "quantization_config", "\"fp8\""},
      {"qwen3", "quantization_config", "{\"quant_method\": 8}"},
  };
  for (const Hostile& item : cases) {
    SCOPED_TRACE(std::string(item.model) + " " + item.key + " " + item.value);
    auto value = parse_json(item.value);
    if (!value.ok()) continue;  // a number beyond doubles does not pass the JSON parser
    expect_error(with(item.model, item.key, item.value), Exit::data, {"config.json", item.key});
  }
}

TEST(Config, RefusesSizesThatAreLegalAloneAndAbsurdTogether) {
  Json config = json_file(kConformance + "qwen3_moe/config.json");
  config.set("num_local_experts", 65536);
  config.set("num_hidden_layers", 4096);
  expect_error(parse_config(config, "config.json"), Exit::data, {"num_local_experts"});
  config.set("num_hidden_layers", 4);
  config.set("hidden_size", 1 << 20);
  config.set("moe_intermediate_size", 1 << 20);
  expect_error(parse_config(config, "config.json"), Exit::data, {"hidden_size", "parameters"});
}

TEST(Config, FilesThatAreNoConfigAreNamed) {
  TempDir dir;
  expect_error(read_config(dir.path()), Exit::not_found, {"config.json"});
  dir.write("config.json", "{\"model_type\": \"qwen3_moe\"");
  expect_error(read_config(dir.path()), Exit::data, {dir / "config.json", "line 1"});
  dir.write("config.json", std::string(100000, '['));
  expect_error(read_config(dir.path()), Exit::data, {dir / "config.json", "deep"});
  dir.write("config.json", R"({"model_type": "qwen3", "model_type": "llama"})");
  expect_error(read_config(dir.path()), Exit::data, {dir / "config.json", "duplicate", "model_type"});
  // Python writes these where JSON has no number.
  Json numbers = json_file(kConformance + "qwen3_moe/config.json");
  numbers.set("time_step_limit", json_of(R"([0, "Infinity", "-Infinity", "a \\\"NaN\\\" in a string"])"));
  std::string text = write_json(numbers);
  for (const char* word : {"\"Infinity\"", "\"-Infinity\""})
    text.replace(text.find(word), std::string_view(word).size(),
                 std::string(word + 1, std::string_view(word).size() - 2));
  dir.write("config.json", text);
  expect_ok(read_config(dir.path()));
  numbers.set("rms_norm_eps", "NaN");
  text = write_json(numbers);
  text.replace(text.find(":\"NaN\"") + 1, 5, "NaN");
  dir.write("config.json", text);
  expect_error(read_config(dir.path()), Exit::data, {"rms_norm_eps", "NaN", "not a number"});
  dir.write("config.json", std::string(9 << 20, ' '));
  expect_error(read_config(dir.path()), Exit::data, {dir / "config.json", "limit"});
}

TEST(GenerationConfigFile, ReplacesWhatItSpeaksOf) {
  const auto config = read_config(kSource + "/models/colibri-tiny");
  expect_ok(config);
  EXPECT_EQ(config->generation.eos, (std::vector<int>{2, 0}));
  EXPECT_EQ(config->generation.bos, std::nullopt);
  EXPECT_EQ(config->generation.pad, 0);
  EXPECT_TRUE(config->generation.do_sample);
  EXPECT_FLOAT_EQ(config->generation.temperature, 0.7F);
  EXPECT_FLOAT_EQ(config->generation.top_p, 0.9F);
  EXPECT_EQ(config->generation.top_k, 40);
  EXPECT_FLOAT_EQ(config->generation.repetition_penalty, 1.0F);
  EXPECT_EQ(config->generation.max_new_tokens, std::nullopt);
}

TEST(GenerationConfigFile, BoundsEveryValue) {
  for (const char* file : {R"({"temperature": -1})", R"({"temperature": "hot"})", R"({"top_p": 1.1})",
                           R"({"top_k": -5})", R"({"min_p": 2})", R"({"repetition_penalty": 0})",
                           R"({"eos_token_id": [1, 99999]})", R"({"max_new_tokens": 0})", R"({"do_sample": 1})"}) {
    SCOPED_TRACE(file);
    GenerationConfig generation;
    const Json json = json_of(file);
    const std::string& key = json.as_object()[0].first;
    expect_error(parse_generation_config(json, "generation_config.json", 320, generation), Exit::data,
                 {"generation_config.json", key});
  }
}

TEST(GenerationConfigFile, IdsThatDoNotExistAreNone) {
  GenerationConfig generation;
  expect_ok(parse_generation_config(json_of(R"({"bos_token_id": -1, "pad_token_id": 320, "eos_token_id": 7})"), "g",
                                    320, generation));
  EXPECT_EQ(generation.bos, std::nullopt);
  EXPECT_EQ(generation.pad, std::nullopt);
  EXPECT_EQ(generation.eos, std::vector<int>{7});
}

TEST(GenerationConfigFile, NoEosIsAWarning) {
  TempDir dir;
  Json config = json_file(kConformance + "qwen3_moe/config.json");
  config.set("eos_token_id", Json());
  dir.write("config.json", write_json(config));
  const auto read = read_config(dir.path());
  expect_ok(read);
  ASSERT_EQ(read->warnings.size(), 1U);
  EXPECT_NE(read->warnings[0].find("eos_token_id"), std::string::npos);
}

}  // namespace
}  // namespace colibri
