// SPDX-License-Identifier: Apache-2.0
// Seeded mutations of the three kinds of file. Whatever comes out: no crash, one line of error with an exit code that
// says data, or a result that keeps its module's promises. Runs under the sanitizers too.
#include <random>

#include "model/fixture.h"
#include "model/model.h"

namespace colibri {
namespace {

using namespace test;

/// A few edits: bytes flipped, ranges removed, doubled or replaced by what breaks parsers.
std::string mutate(std::string text, std::mt19937& random) {
  static const char* const kPoison[] = {"-1",
                                        "1e999",
                                        "18446744073709551616",
                                        "9223372036854775807",
                                        "0",
                                        "null",
                                        "[",
                                        "]",
                                        "{",
                                        "}",
                                        "\"",
                                        ",",
                                        ":",
                                        "\\ud800",
                                        "4294967296",
                                        "1.5",
                                        "\xff",
                                        "true"};
  for (auto edits = 1 + random() % 3; edits > 0 && !text.empty(); --edits) {
    const std::size_t at = random() % text.size();
    const std::size_t length = std::min<std::size_t>(1 + random() % 12, text.size() - at);
    switch (random() % 4) {
      case 0:
        text[at] = static_cast<char>(random());
        break;
      case 1:
        text.erase(at, length);
        break;
      case 2:
        text.insert(at, text.substr(at, length));
        break;
      default:
        text.replace(at, length, kPoison[random() % std::size(kPoison)]);
    }
  }
  return text;
}

template <class R>
void expect_sane_error(const R& result) {
  const std::string& message = result.error().message;
  EXPECT_TRUE(result.error().code == Exit::data || result.error().code == Exit::config) << message;
  EXPECT_FALSE(message.empty());
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
}

TEST(Mutation, HeadersStayInsideTheFileOrAreRefused) {
  std::mt19937 random(20261129);
  const std::string file = slurp(kConformance + "llama/model.safetensors");
  std::uint64_t length = 0;
  std::memcpy(&length, file.data(), sizeof length);
  const std::string header = file.substr(8, length);
  int refused = 0;
  for (int i = 0; i < 3000; ++i) {
    const std::string changed = mutate(header, random);
    const std::uint64_t bytes = 8 + changed.size() + (file.size() - 8 - length);
    const auto tensors = parse_safetensors_header(changed, 8 + changed.size(), bytes);
    if (!tensors.ok()) {
      ++refused;
      expect_sane_error(tensors);
      continue;
    }
    std::uint64_t end = 8 + changed.size();
    for (const TensorInfo& tensor : *tensors) {
      EXPECT_EQ(tensor.offset, end);
      end += tensor.bytes;
    }
    EXPECT_EQ(end, bytes);
  }
  EXPECT_GT(refused, 1000);
}

TEST(Mutation, ConfigsGiveBoundedSpecsOrAreRefused) {
  std::mt19937 random(20261130);
  for (const char* model : {"qwen3_moe", "qwen2", "llama", "mixtral_swa"}) {
    const std::string text = slurp(kConformance + model + "/config.json");
    for (int i = 0; i < 500; ++i) {
      auto json = parse_json(mutate(text, random));
      if (!json.ok()) continue;
      const auto config = parse_config(*json, "config.json");
      if (!config.ok()) {
        expect_sane_error(config);
        continue;
      }
      const ModelSpec& spec = config->spec;
      EXPECT_TRUE(spec.vocab >= 1 && spec.vocab <= kMaxVocab);
      EXPECT_TRUE(spec.d_model >= 1 && spec.d_model <= kMaxWidth);
      EXPECT_TRUE(!spec.layers.empty() && spec.layers.size() <= static_cast<std::size_t>(kMaxLayers));
      for (const LayerSpec& layer : spec.layers) {
        if (const auto* attention = std::get_if<AttentionSpec>(&layer.mixer)) {
          EXPECT_EQ(attention->n_heads % attention->n_kv_heads, 0);
          EXPECT_EQ(static_cast<int>(attention->rope.inv_freq.size()) * 2, attention->rope.dim);
        }
        const auto* moe = std::get_if<MoeFfn>(&layer.ffn);
        EXPECT_TRUE(moe == nullptr || (moe->router.top_k >= 1 && moe->router.top_k <= moe->router.n_experts));
      }
    }
  }
}

TEST(Mutation, WholeDirectoriesLoadOrAreRefused) {
  std::mt19937 random(20261201);
  TempDir dir;
  dir.copy_model(kConformance + "llama");
  const std::string config = slurp(dir / "config.json");
  const std::string shard = slurp(dir / "model.safetensors");
  Json map = Json::Object{};
  for (const auto& [name, tensor] : read_raw(dir / "model.safetensors")) map.set(name, "model.safetensors");
  const std::string index = write_json(Json::Object{{"weight_map", map}});
  for (int i = 0; i < 200; ++i) {
    const unsigned which = static_cast<unsigned>(random() % 3);
    dir.write("config.json", which == 0 ? mutate(config, random) : config);
    dir.write("model.safetensors.index.json", which == 1 ? mutate(index, random) : index);
    dir.write("model.safetensors", which == 2 ? mutate(shard, random) : shard);
    const auto model = load_model(dir.path());
    if (!model.ok()) expect_sane_error(model);
  }
}

}  // namespace
}  // namespace colibri
