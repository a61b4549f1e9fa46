// SPDX-License-Identifier: Apache-2.0
// What inspect shows of directories and of a config.json alone.
#include "model/describe.h"

#include <chrono>

#include "model/families.h"
#include "model/published.h"

namespace colibri {
namespace {

using namespace test;

std::int64_t at(const Json& json, std::initializer_list<const char*> keys) {
  const Json* value = &json;
  for (const char* key : keys) value = value->find(key);
  return value->as_int();
}

TEST(Describe, TheBundledModelHasWhatItsFilesHold) {
  const auto json = inspect_model(kSource + "/models/colibri-tiny");
  expect_ok(json);
  std::int64_t elements = 0, bytes = 0;
  for (const char* shard : {"1", "2", "3"}) {
    for (const auto& [name, tensor] :
         read_raw(kSource + "/models/colibri-tiny/model-0000" + shard + "-of-00003.safetensors")) {
      elements += static_cast<std::int64_t>(tensor.count());
      bytes += static_cast<std::int64_t>(tensor.bytes.size());
    }
  }
  EXPECT_EQ(at(*json, {"parameters", "total"}), elements);
  EXPECT_EQ(at(*json, {"bytes", "BF16"}), bytes);
  // 28 of 32 experts of 3 * 64 * 256 in 8 layers sleep.
  EXPECT_EQ(at(*json, {"parameters", "active"}), elements - 8 * 28 * 3 * 64 * 256);
  EXPECT_EQ(at(*json, {"read_per_token"}), at(*json, {"parameters", "active"}));  // the head is tied
  EXPECT_EQ(at(*json, {"tiers", "experts", "BF16"}), 2 * 8 * 32 * 3 * 64 * 256);
  EXPECT_EQ(at(*json, {"tiers", "dense", "BF16"}), bytes - at(*json, {"tiers", "experts", "BF16"}));
  EXPECT_EQ(at(*json, {"state_bytes_per_sequence"}), 0);
  EXPECT_EQ(at(*json, {"kv_bytes_per_token", "bf16"}), 8 * 2 * 2 * 64 * 2);
  EXPECT_EQ(at(*json, {"context"}), 4096);
  ASSERT_EQ(json->find("layers")->as_array().size(), 8U);
  EXPECT_EQ(at(json->find("layers")->as_array()[7], {"experts"}), 32);
}

TEST(Describe, EveryConformanceModelCountsItsTensors) {
  for (const auto& entry : std::filesystem::directory_iterator(kConformance)) {
    SCOPED_TRACE(entry.path().string());
    const auto json = inspect_model(entry.path().string());
    expect_ok(json);
    std::int64_t elements = 0;
    const TensorNames& names = find_family(json->find("family")->as_string())->names;
    for (const auto& [name, tensor] : read_raw(entry.path().string() + "/model.safetensors"))
      if (!names.ignores(name)) elements += static_cast<std::int64_t>(tensor.count());
    EXPECT_EQ(at(*json, {"parameters", "total"}), elements);
    EXPECT_FALSE(describe_text(*json).empty());
  }
}

TEST(Describe, AConfigAloneIsEnough) {
  const auto start = std::chrono::steady_clock::now();
  TempDir alone;
  const auto json =
      inspect_model(alone.write("config.json", write_json(published_config("Qwen/Qwen3-Coder-480B-A35B-Instruct"))));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(1));
  expect_ok(json);
  EXPECT_FALSE(json->find("stored")->as_bool());
  EXPECT_EQ(at(*json, {"bytes", "BF16"}), 2 * at(*json, {"parameters", "total"}));
  TempDir dir;
  dir.write("config.json", slurp(kConformance + "qwen3/config.json"));
  const auto directory = inspect_model(dir.path());
  expect_ok(directory);
  EXPECT_FALSE(directory->find("stored")->as_bool());
}

TEST(Describe, TiersShareOutEveryByte) {
  for (const auto& entry : std::filesystem::directory_iterator(kConformance)) {
    SCOPED_TRACE(entry.path().string());
    const auto json = inspect_model(entry.path().string());
    expect_ok(json);
    std::int64_t sum = 0, experts = 0, expected = 0;
    for (const char* tier : {"dense", "experts"})
      for (const auto& [type, bytes] : json->find("tiers")->find(tier)->as_object()) sum += bytes.as_int();
    for (const auto& [type, bytes] : json->find("bytes")->as_object()) expected += bytes.as_int();
    EXPECT_EQ(sum, expected);
    for (const auto& [type, bytes] : json->find("tiers")->find("experts")->as_object()) experts += bytes.as_int();
    // Against the shapes: all of these are stored in two bytes a number.
    std::int64_t counted = 0;
    for (const Json& layer : json->find("layers")->as_array()) {
      if (layer.find("experts") == nullptr) continue;
      const std::int64_t d_ff = at(layer, {"d_ff"});
      const bool biases = json->find("family")->as_string() == "gpt_oss";
      const std::int64_t expert = 3 * d_ff * at(*json, {"d_model"}) + (biases ? 2 * d_ff + at(*json, {"d_model"}) : 0);
      counted += 2 * at(layer, {"experts"}) * expert;
    }
    EXPECT_EQ(experts, counted);
  }
}

TEST(Describe, QuantisedAndRecurrentModelsSaySo) {
  TempDir dir;
  const std::string path = dir.write("config.json", write_json(published_config("nvidia/Qwen3.5-397B-A17B-NVFP4")));
  const auto json = inspect_model(path);
  expect_ok(json);
  EXPECT_EQ(json->find("weight_format")->as_string(), "modelopt NVFP4");
  // 45 delta nets of 64 heads, each a window of 3 rows of 12,288 and a matrix of 128 x 128, in fp32.
  EXPECT_EQ(at(*json, {"state_bytes_per_sequence"}), std::int64_t{45} * 4 * (3 * 12288 + 64 * 128 * 128));
  const std::string text = describe_text(*json);
  EXPECT_NE(text.find("weight format: modelopt NVFP4\n"), std::string::npos) << text;
  EXPECT_NE(text.find("experts, uncompressed: BF16 "), std::string::npos) << text;
}

TEST(Describe, TextGroupsEqualLayers) {
  const auto json = inspect_model(kConformance + "qwen2_moe");
  expect_ok(json);
  const std::string text = describe_text(*json);
  for (const char* part :
       {"\n0, 2    2      full, 4 heads, 2 KV heads of 16  20 experts, top 4, d_ff 32, shared d_ff 96  0.2 M       ",
        "\n1       1      full, 4 heads, 2 KV heads of 16  dense, d_ff 128                             0.0 M       "})
    EXPECT_NE(text.find(part), std::string::npos) << text;
  const std::string sliding = describe_text(*inspect_model(kConformance + "mixtral_swa"));
  EXPECT_NE(sliding.find("\n0-1     2      window of 24, 4 heads"), std::string::npos) << sliding;
}

TEST(Describe, ErrorsComeThrough) {
  expect_error(inspect_model("/nonexistent"), Exit::not_found, {"/nonexistent"});
  TempDir dir;
  dir.copy_model(kConformance + "qwen3");
  dir.write("model.safetensors", "short");
  expect_error(inspect_model(dir.path()), Exit::data, {"model.safetensors"});
}

}  // namespace
}  // namespace colibri
