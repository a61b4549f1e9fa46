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
