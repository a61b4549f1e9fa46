// SPDX-License-Identifier: Apache-2.0
// Models that must not load: each is refused before its weights are read, in one line that names the key, tensor or
// file.
#include <functional>
#include <ostream>

#include "model/describe.h"
#include "model/fixture.h"
#include "model/model.h"

namespace colibri {
namespace {

using namespace test;

struct Refusal {
  const char* name;
  const char* model;  // the sound one
  const char* key;    // of config.json
  const char* value;
  std::function<void(RawTensors&)> change = {};
  std::vector<std::string_view> parts = {};  // of the message; empty: the key
  bool in_config = true;                     // and so by inspect too

  friend std::ostream& operator<<(std::ostream& out, const Refusal& refusal) { return out << refusal.name; }
};

void shorten(RawTensors& tensors) {
  RawTensor& head = tensors.at("lm_head.weight");
  head.shape[0] -= 1;
  head.bytes.resize(head.bytes.size() - static_cast<std::size_t>(2 * head.shape[1]));
}
void swap_shape(RawTensors& tensors) {
  RawTensor& expert = tensors.at("model.layers.1.mlp.experts.7.up_proj.weight");
  std::swap(expert.shape[0], expert.shape[1]);
}
void widen(RawTensors& tensors) {
  RawTensor& expert = tensors.at("model.layers.1.mlp.experts.7.up_proj.weight");
  expert.shape[0] += 1;
  expert.bytes.append(static_cast<std::size_t>(2 * expert.shape[1]), '\0');
}
void drop(RawTensors& tensors) { tensors.erase("model.layers.1.mlp.experts.7.up_proj.weight"); }

constexpr const char* kExpert = "model.layers.1.mlp.experts.7.up_proj.weight";

const Refusal kRefusals[] = {
    {"TopKAboveExperts", "qwen3_moe", "num_experts_per_tok", "11"},
    {"TopKOfZero", "mixtral", "num_experts_per_tok", "0"},
    {"TopKAboveThoseOfTheGroups", "deepseek_v3", "topk_group", "1"},
    {"NoExperts", "qwen3_moe", "num_local_experts", "0"},
    {"NoRoutedExperts", "deepseek_v2", "n_routed_experts", "0"},
    {"MissingExperts", "ernie4_5_moe", "moe_num_experts", "null"},
    {"UnknownScore", "deepseek_v3", "scoring_func", "\"softplus\""},
    {"UnknownScoreOfGlm", "glm4_moe", "scoring_func", "\"softmax\""},
    {"UnknownScoreOfMinimax", "minimax_m2", "scoring_func", "\"tanh\""},
    {"UnknownChoice", "deepseek_v2", "topk_method", "\"random\""},
    {"UnknownChoiceOfV3", "deepseek_v3", "topk_method", "\"greedy\""},
    {"UnknownRotation", "qwen3_moe", "rope_parameters", R"({"rope_type": "spiral"})", {}, {"rope_type", "spiral"}},
    {"UnknownScaling", "qwen3_moe", "rope_scaling", R"({"type": "ntk"})", {}, {"rope_scaling", "ntk"}},
    {"UnknownActivation", "qwen3_moe", "hidden_act", "\"relu2\""},
    {"UnknownLayer", "lfm2_moe", "layer_types", R"(["conv", "mamba", "conv"])"},
    {"KvHeadsThatDoNotDivide", "qwen3_moe", "num_key_value_heads", "3"},
    {"HeadsThatDoNotDivideTheWidth", "qwen2_moe", "num_attention_heads", "6"},
    {"LinearHeadsThatDoNotDivide", "qwen3_next", "linear_num_key_heads", "3"},
    {"GroupsThatDoNotDivide", "glm4_moe", "n_group", "5"},
    {"UnknownWeightFormat",
     "qwen3",
     "quantization_config",
     R"({"quant_method": "origami"})",
     {},
     {"quantization_config", "origami"},
     false},
    {"TiedToAnotherHead",
     "qwen3_moe",
     "tie_word_embeddings",
     "true",
     {},
     {"tie_word_embeddings", "lm_head.weight"},
     false},
    {"TiedToAShorterHead",
     "qwen3_moe",
     "tie_word_embeddings",
     "true",
     shorten,
     {"tie_word_embeddings", "lm_head.weight"},
     false},
    {"ExpertTurned", "qwen3_moe", "use_cache", "true", swap_shape, {kExpert, "[64, 32]", "[32, 64]"}, false},
    {"ExpertTooWide", "qwen3_moe", "use_cache", "true", widen, {kExpert, "[33, 64]", "[32, 64]"}, false},
    {"ExpertMissing", "qwen3_moe", "use_cache", "true", drop, {kExpert, "missing"}, false},
};

class Refused : public testing::TestWithParam<Refusal> {};

TEST_P(Refused, InOneLineThatNamesIt) {
  const Refusal& refusal = GetParam();
  TempDir dir;
  Json config = json_file(kConformance + refusal.model + "/config.json");
  config.set(refusal.key, json_of(refusal.value));
  dir.write("config.json", write_json(config));
  RawTensors tensors = read_raw(kConformance + refusal.model + "/model.safetensors");
  if (refusal.change) refusal.change(tensors);
  dir.write("model.safetensors", write_raw(tensors));
  const auto loaded = load_model(dir.path());
  expect_error(loaded, Exit::data, {dir.path()});
  const std::vector<std::string_view> key = {"config.json", refusal.key};
  for (const std::string_view part : refusal.parts.empty() ? key : refusal.parts)
    expect_error(loaded, Exit::data, {part});
  if (!refusal.in_config) return;
  const auto inspected = inspect_model(dir.path());
  ASSERT_FALSE(inspected.ok());
  EXPECT_EQ(inspected.error().message, loaded.error().message);
}
INSTANTIATE_TEST_SUITE_P(Model, Refused, testing::ValuesIn(kRefusals),
                         [](const auto& tested) { return std::string(tested.param.name); });

TEST(RefusedIndex, NamesTheMissingShard) {
  TempDir dir;
  dir.copy_model(kConformance + "qwen3_moe");
  dir.write("model.safetensors.index.json",
            R"({"weight_map": {"lm_head.weight": "model.safetensors", "model.norm.weight": "model-2.safetensors"}})");
  for (const std::string& message : {load_model(dir.path()).error().message, inspect_model(dir.path()).error().message})
    EXPECT_NE(message.find("model-2.safetensors: the index names this shard and it is missing"), std::string::npos)
        << message;
}

}  // namespace
}  // namespace colibri
