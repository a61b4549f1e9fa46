// SPDX-License-Identifier: Apache-2.0
// Checkpoints under other tensor names and layouts that their makers publish load to the same weights: bytes move, no
// number changes.
#include <cstring>
#include <functional>

#include "model/fixture.h"
#include "model/model.h"

namespace colibri {
namespace {

using namespace test;

bool same(const Buffer& a, const Buffer& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size()) == 0;
}

/// Loads a conformance model as it is, and with its config and tensors changed.
void expect_same_weights(const std::string& model, const std::function<Json(Json)>& config,
                         const std::function<RawTensors(const RawTensors&)>& tensors) {
  const auto usual = load_model(kConformance + model);
  TempDir dir;
  dir.write("config.json", write_json(config(json_file(kConformance + model + "/config.json"))));
  dir.write("model.safetensors", write_raw(tensors(read_raw(kConformance + model + "/model.safetensors"))));
  const auto other = load_model(dir.path());
  expect_ok(usual);
  expect_ok(other);
  EXPECT_TRUE(same(usual->weights.dense, other->weights.dense));
  ASSERT_EQ(usual->weights.expert_slabs.size(), other->weights.expert_slabs.size());
  for (std::size_t i = 0; i < usual->weights.expert_slabs.size(); ++i)
    EXPECT_TRUE(same(usual->weights.expert_slabs[i], other->weights.expert_slabs[i])) << i;
}

/// The config as text part of another model.
std::function<Json(Json)> nested(const char* model_type) {
  return [model_type](Json config) {
    return Json(Json::Object{{"model_type", model_type}, {"text_config", std::move(config)}});
  };
}

TEST(PublishedNames, KimiNestsDeepseek) {
  expect_same_weights("deepseek_v3", nested("kimi_k25"), [](const RawTensors& stored) {
    RawTensors tensors{{"vision_tower.patch_embed.proj.weight", stored.at("lm_head.weight")}};
    for (const auto& [name, tensor] : stored) tensors["language_model." + name] = tensor;
    return tensors;
  });
}

TEST(PublishedNames, MixtralBeforeItHadAName) {
  const auto config = [](Json json) {
    json.set("model_type", "mistral");
    json.set("num_experts", *json.find("num_local_experts"));
    json.set("num_experts_per_token", *json.find("num_experts_per_tok"));
    for (const char* key : {"num_local_experts", "num_experts_per_tok"}) json.set(key, Json());
    return json;
  };
  expect_same_weights("mixtral", config, [](const RawTensors& stored) {
    constexpr std::string_view kUsual = "block_sparse_moe";
    RawTensors tensors;
    for (const auto& [usual, tensor] : stored) {
      std::string name = usual;
      if (const std::size_t at = name.find(kUsual); at != std::string::npos) name.replace(at, kUsual.size(), "mlp");
      tensors[name] = tensor;
    }
    return tensors;
  });
}

TEST(PublishedNames, ModeloptMayDescribeItsFormatInAFileOfItsOwn) {
  const std::string original = kSource + "/tests/conformance/formats/data/modelopt";
  TempDir dir;
  dir.copy_model(original);
  Json config = json_file(original + "/config.json");
  Json format = *config.find("quantization_config");
  format.set("quant_method", Json());
  config.set("quantization_config", Json());
  dir.write("config.json", write_json(config));
  expect_error(load_model(dir.path()), Exit::data, {"model.safetensors"});  // of plain weights
  const std::string path = dir.write("hf_quant_config.json", write_json(Json::Object{{"quantization", format}}));
  const auto usual = load_model(original);
  const auto other = load_model(dir.path());
  expect_ok(usual);
  expect_ok(other);
  EXPECT_TRUE(same(usual->weights.dense, other->weights.dense));
  dir.write("hf_quant_config.json", R"({"producer": {"name": "modelopt"}})");
  expect_error(load_model(dir.path()), Exit::data, {path, "quantization", "missing"});
}

/// [experts][cols][rows of all parts], of the experts' [rows, cols].
RawTensor transposed(const RawTensors& stored, const std::string& prefix, int n_experts,
                     const std::vector<std::string>& parts) {
  const RawTensor& first = stored.at(prefix + "0." + parts[0] + ".weight");
  const auto rows = static_cast<std::size_t>(first.shape[0]);
  const auto cols = static_cast<std::size_t>(first.shape[1]);
  RawTensor whole{first.dtype, {n_experts, first.shape[1], first.shape[0] * static_cast<int>(parts.size())}, {}};
  for (int e = 0; e < n_experts; ++e)
    for (std::size_t c = 0; c < cols; ++c)
      for (const std::string& part : parts)
        for (std::size_t r = 0; r < rows; ++r)
          whole.bytes +=
              stored.at(prefix + std::to_string(e) + "." + part + ".weight").bytes.substr(2 * (r * cols + c), 2);
  return whole;
}

TEST(PublishedNames, Qwen3ThatSeesStoresItsExpertsTransposed) {
  expect_same_weights("qwen3_moe", nested("qwen3_vl_moe"), [](const RawTensors& stored) {
    RawTensors tensors{{"model.visual.pos_embed.weight", stored.at("lm_head.weight")}};
    for (const auto& [name, tensor] : stored) {
      if (name.find(".experts.") != std::string::npos) continue;
      tensors[name.starts_with("model.") ? "model.language_model." + name.substr(6) : name] = tensor;
    }
    for (const char* layer : {"0", "1"}) {
      const std::string experts = "layers." + std::string(layer) + ".mlp.experts.";
      tensors["model.language_model." + experts + "gate_up_proj"] =
          transposed(stored, "model." + experts, 10, {"gate_proj", "up_proj"});
      tensors["model.language_model." + experts + "down_proj"] =
          transposed(stored, "model." + experts, 10, {"down_proj"});
    }
    return tensors;
  });
}

}  // namespace
}  // namespace colibri
