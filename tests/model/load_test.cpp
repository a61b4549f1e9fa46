// SPDX-License-Identifier: Apache-2.0
// Loading whole checkpoints: every packed weight against a direct read of the file, and every way to refuse one.
#include <bit>
#include <cmath>
#include <limits>
#include <set>

#include "model/fixture.h"
#include "model/model.h"

namespace colibri {
namespace {

using namespace test;
namespace fs = std::filesystem;

/// All tensors of a directory, by the independent reader.
RawTensors read_directory(const std::string& directory) {
  RawTensors all;
  for (const auto& entry : fs::directory_iterator(directory)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("model") && name.ends_with(".safetensors")) all.merge(read_raw(entry.path().string()));
  }
  return all;
}

/// Compares packed weights with stored ones and counts which stored tensors were asked for.
class Oracle {
 public:
  explicit Oracle(RawTensors raw) : raw_(std::move(raw)) {}

  /// Rows [first, first + stored rows) of `matrix` hold the tensor, bit by bit.
  void rows(const std::string& name, const Matrix& matrix, int first = 0) {
    const RawTensor* tensor = find(name + ".weight");
    if (tensor == nullptr) return;
    ASSERT_EQ(tensor->shape.size(), 2U) << name;
    ASSERT_EQ(tensor->shape[1], matrix.cols) << name;
    ASSERT_LE(first + tensor->shape[0], matrix.rows) << name;
    ASSERT_EQ(reinterpret_cast<std::uintptr_t>(matrix.data) % 64, 0U) << name;
    std::size_t wrong = 0;
    for (int r = 0; r < tensor->shape[0]; ++r)
      for (int c = 0; c < matrix.cols; ++c)
        wrong += matrix.at(first + r, c) !=
                 bf16_to_float(tensor->half(static_cast<std::size_t>(r) * static_cast<std::size_t>(matrix.cols) + c));
    EXPECT_EQ(wrong, 0U) << name;
  }
  void vector(const std::string& name, std::span<const float> values, int first = 0) {
    if (values.empty()) return;
    const RawTensor* tensor = find(name);
    if (tensor == nullptr) return;
    for (std::size_t i = 0; i < tensor->count(); ++i)
      EXPECT_EQ(values[static_cast<std::size_t>(first) + i], bf16_to_float(tensor->half(i))) << name << " " << i;
  }
  std::vector<std::string> unasked() const {
    std::vector<std::string> names;
    for (const auto& [name, tensor] : raw_)
      if (!asked_.contains(name)) names.push_back(name);
    return names;
  }

 private:
  const RawTensor* find(const std::string& name) {
    EXPECT_TRUE(raw_.contains(name)) << name;
    asked_.insert(name);
    const auto tensor = raw_.find(name);
    return tensor == raw_.end() ? nullptr : &tensor->second;
  }

  RawTensors raw_;
  std::set<std::string> asked_;
};

void check_ffn(Oracle& oracle, const std::string& layer, const LayerWeights& weights, const LayerSpec& spec,
               bool mixtral_names) {
  if (const auto* dense = std::get_if<DenseWeights>(&weights.ffn)) {
    oracle.rows(layer + "mlp.gate_proj", dense->gate_up);
    oracle.rows(layer + "mlp.up_proj", dense->gate_up, dense->gate_up.rows / 2);
    oracle.rows(layer + "mlp.down_proj", dense->down);
    return;
  }
  const auto& moe = std::get<MoeWeights>(weights.ffn);
  const auto& ffn = std::get<MoeFfn>(spec.ffn);
  const std::string block = layer + (mixtral_names ? "block_sparse_moe." : "mlp.");
  oracle.rows(block + "gate", moe.router);
  ASSERT_EQ(static_cast<int>(moe.records.size()), ffn.router.n_experts);
  for (int e = 0; e < ffn.router.n_experts; ++e) {
    const auto record = moe.records[static_cast<std::size_t>(e)];
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(record) % kRecordAlignment, 0U);
    EXPECT_EQ(record, moe.records[0] + static_cast<std::size_t>(e) * moe.expert_shape.record_bytes());
    const std::string expert = block + "experts." + std::to_string(e) + ".";
    oracle.rows(expert + (mixtral_names ? "w1" : "gate_proj"), moe.experts().gate(e));
    oracle.rows(expert + (mixtral_names ? "w3" : "up_proj"), moe.experts().up(e));
    oracle.rows(expert + (mixtral_names ? "w2" : "down_proj"), moe.experts().down(e));
  }
  if (ffn.shared_d_ff == 0) return;
  oracle.rows(block + "shared_expert.gate_proj", moe.shared_gate_up);
  oracle.rows(block + "shared_expert.up_proj", moe.shared_gate_up, ffn.shared_d_ff);
  oracle.rows(block + "shared_expert.down_proj", moe.shared_down);
  oracle.rows(block + "shared_expert_gate", moe.shared_gate);
}

void check_against_files(const Model& model, const std::string& directory) {
  Oracle oracle(read_directory(directory));
  oracle.rows("model.embed_tokens", model.weights.embedding);
  oracle.vector("model.norm.weight", model.weights.final_norm);
  if (model.spec.tied_embeddings) {
    EXPECT_EQ(model.weights.head.data, model.weights.embedding.data);
  } else {
    oracle.rows("lm_head", model.weights.head);
  }
  for (std::size_t i = 0; i < model.spec.layers.size(); ++i) {
    const LayerWeights& weights = model.weights.layers[i];
    const auto& mixer = std::get<AttentionWeights>(weights.mixer);
    const AttentionSpec& attention = attention_of(model.spec.layers[i]);
    const std::string layer = "model.layers." + std::to_string(i) + ".";
    const int q = attention.n_heads * attention.head_dim;
    const int kv = attention.n_kv_heads * attention.head_dim;
    EXPECT_EQ(mixer.wqkv.rows, q + 2 * kv);
    const std::pair<std::string, int> parts[] = {{"q", 0}, {"k", q}, {"v", q + kv}};
    for (const auto& [name, first] : parts) {
      oracle.rows(layer + "self_attn." + name + "_proj", mixer.wqkv, first);
      oracle.vector(layer + "self_attn." + name + "_proj.bias", mixer.qkv_bias, first);
    }
    oracle.rows(layer + "self_attn.o_proj", mixer.wo);
    oracle.vector(layer + "self_attn.o_proj.bias", mixer.o_bias);
    oracle.vector(layer + "self_attn.q_norm.weight", mixer.q_norm);
    oracle.vector(layer + "self_attn.k_norm.weight", mixer.k_norm);
    oracle.vector(layer + "input_layernorm.weight", weights.attn_norm);
    oracle.vector(layer + "post_attention_layernorm.weight", weights.ffn_norm);
    check_ffn(oracle, layer, weights, model.spec.layers[i], model.spec.family == "mixtral");
  }
  EXPECT_EQ(oracle.unasked(), std::vector<std::string>{});
}

class EveryModel : public testing::TestWithParam<const char*> {};

TEST_P(EveryModel, PackedWeightsAreTheStoredOnes) {
  const std::string directory = kSource + "/" + GetParam();
  const auto model = load_model(directory);
  expect_ok(model);
  EXPECT_TRUE(model->warnings.empty());
  EXPECT_EQ(model->stats.bytes, model->weights.bytes());
  check_against_files(*model, directory);
}

const char* const kModels[] = {"tests/conformance/data/llama",
                               "tests/conformance/data/mistral",
                               "tests/conformance/data/qwen2",
                               "tests/conformance/data/qwen3",
                               "tests/conformance/data/qwen3_moe",
                               "tests/conformance/data/qwen3_moe_sparse_step",
                               "tests/conformance/data/qwen2_moe",
                               "tests/conformance/data/mixtral",
                               "tests/conformance/data/mixtral_swa",
                               "tests/conformance/data/olmoe",
                               "models/colibri-tiny"};
std::string model_name(const testing::TestParamInfo<const char*>& tested) {
  std::string name = fs::path(tested.param).filename().string();
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}
INSTANTIATE_TEST_SUITE_P(Load, EveryModel, testing::ValuesIn(kModels), model_name);

TEST(Load, ThreadsChangeNothing) {
  const std::string directory = kSource + "/models/colibri-tiny";
  const auto one = load_model(directory, {.progress = {}, .threads = 1});
  const auto five = load_model(directory, {.progress = {}, .threads = 5});
  expect_ok(one);
  expect_ok(five);
  EXPECT_EQ(std::memcmp(one->weights.dense.data(), five->weights.dense.data(), one->weights.dense.size()), 0);
  for (std::size_t i = 0; i < one->weights.expert_slabs.size(); ++i) {
    const Buffer& slab = one->weights.expert_slabs[i];
    EXPECT_EQ(std::memcmp(slab.data(), five->weights.expert_slabs[i].data(), slab.size()), 0);
  }
}

TEST(Load, ProgressRisesToTheBytesOfAllTensors) {
  std::uint64_t last = 0, all = 0;
  const auto model = load_model(kConformance + "mixtral", {.progress = [&](std::uint64_t done, std::uint64_t total) {
                                  EXPECT_LE(last, done);
                                  last = done;
                                  all = total;
                                }});
  expect_ok(model);
  std::uint64_t stored = 0;
  for (const auto& [name, tensor] : read_directory(kConformance + "mixtral")) stored += tensor.bytes.size();
  EXPECT_EQ(last, stored);
  EXPECT_EQ(all, stored);
}

TEST(Load, ABudgetThatCannotHoldIsRefusedWithTheNumbers) {
  expect_error(load_model(kSource + "/models/colibri-tiny", {.progress = {}, .ram_budget = 30'000'000}), Exit::config,
               {"colibri-tiny", "32.7 MB", "30.0 MB", "--ram-budget"});
  expect_ok(load_model(kSource + "/models/colibri-tiny", {.progress = {}, .ram_budget = 33'000'000}));
}

/// A model of one file whose tensors a test changes.
class Changed : public testing::Test {
 protected:
  void use(const std::string& model) {
    dir_.copy_model(kConformance + model);
    tensors_ = read_raw(dir_ / "model.safetensors");
  }
  auto load() {
    dir_.write("model.safetensors", write_raw(tensors_));
    return load_model(dir_.path());
  }
  void set_half(const std::string& name, std::size_t index, std::uint16_t bits) {
    std::memcpy(tensors_.at(name).bytes.data() + 2 * index, &bits, 2);
  }
  void set_config(const std::string& key, const Json& value) {
    Json config = json_file(dir_ / "config.json");
    config.set(key, value);
    dir_.write("config.json", write_json(config));
  }

  TempDir dir_;
  RawTensors tensors_;
};

TEST_F(Changed, MissingTensorsAreNamedAndCounted) {
  use("qwen3_moe");
  tensors_.erase("model.layers.1.mlp.experts.7.up_proj.weight");
  expect_error(load(), Exit::data, {"missing", "model.layers.1.mlp.experts.7.up_proj.weight"});
  tensors_.erase("model.norm.weight");
  tensors_.erase("lm_head.weight");
  expect_error(load(), Exit::data, {"model.layers.1.mlp.experts.7.up_proj.weight", "2 more"});
}

TEST_F(Changed, AWrongShapeIsNamedWithBothShapes) {
  use("qwen3_moe");
  tensors_.at("model.layers.0.mlp.experts.3.down_proj.weight").shape = {32, 64};
  expect_error(load(), Exit::data, {"model.layers.0.mlp.experts.3.down_proj.weight", "[32, 64]", "[64, 32]"});
}

TEST_F(Changed, AVocabularyThatDiffersFromTheEmbeddingIsRefused) {
  use("qwen3_moe");
  set_config("vocab_size", 321);
  expect_error(load(), Exit::data, {"model.embed_tokens.weight", "[320, 64]", "[321, 64]"});
}

TEST_F(Changed, UnclaimedTensorsAreRefused) {
  use("qwen3_moe");
  tensors_["model.layers.2.mlp.experts.0.up_proj.weight"] = tensors_.at("model.layers.1.mlp.experts.0.up_proj.weight");
  expect_error(load(), Exit::data, {"unknown", "model.layers.2.mlp.experts.0.up_proj.weight"});
}

TEST_F(Changed, AnExpertTooManyIsUnclaimed) {
  use("mixtral");
  set_config("num_local_experts", 7);
  // The router has eight rows, which comes first.
  expect_error(load(), Exit::data, {"block_sparse_moe.gate.weight", "[8, 64]", "[7, 64]"});
}

TEST_F(Changed, FrequenciesAndATiedHeadAreHarmless) {
  use("llama");
  tensors_["model.layers.0.self_attn.rotary_emb.inv_freq"] = {"F32", {8}, std::string(32, 'x')};
  tensors_["lm_head.weight"] = tensors_.at("model.embed_tokens.weight");
  expect_ok(load());
}

TEST_F(Changed, NotANumberNamesTheTensor) {
  use("qwen3_moe");
  const std::string name = "model.layers.1.mlp.experts.9.down_proj.weight";
  for (const int bits : {0x7f80, 0xff80, 0x7fc0, 0x7f81}) {
    set_half(name, 64 * 32 - 1, static_cast<std::uint16_t>(bits));
    expect_error(load(), Exit::data, {"model.safetensors", name, "NaN"});
  }
  set_half(name, 64 * 32 - 1, 0x7f7f);  // the largest finite one
  expect_ok(load());
  set_half("model.norm.weight", 63, 0x7f80);
  expect_error(load(), Exit::data, {"model.norm.weight", "NaN"});
}

TEST_F(Changed, TypesThatAreNoFloatsAreRefused) {
  use("qwen3_moe");
  tensors_.at("lm_head.weight").dtype = "I16";
  expect_error(load(), Exit::data, {"lm_head.weight", "I16"});
}

TEST_F(Changed, F32MatricesAreRoundedWithOneWarningAndNormsAreKept) {
  use("llama");
  for (auto& [name, tensor] : tensors_) {
    std::string wide;
    for (std::size_t i = 0; i < tensor.count(); ++i) {
      // Just over the half-way point to the next number, so that truncation and rounding differ.
      const auto bits = static_cast<std::uint32_t>(tensor.half(i)) << 16 | 0x8001U;
      wide.append(reinterpret_cast<const char*>(&bits), 4);
    }
    tensor = {"F32", tensor.shape, wide};
  }
  const auto model = load();
  expect_ok(model);
  ASSERT_EQ(model->warnings.size(), 1U);
  EXPECT_NE(model->warnings[0].find("F32"), std::string::npos);
  const RawTensor& down = tensors_.at("model.layers.1.mlp.down_proj.weight");
  const Matrix& packed = std::get<DenseWeights>(model->weights.layers[1].ffn).down;
  for (int r = 0; r < packed.rows; ++r) {
    for (int c = 0; c < packed.cols; ++c) {
      const float stored = down.real(static_cast<std::size_t>(r * packed.cols + c));
      const float ulp = std::ldexp(1.0F, std::ilogb(stored) - 7);
      EXPECT_LE(std::abs(packed.at(r, c) - stored), 0.5F * ulp) << r << " " << c;
    }
  }
  EXPECT_EQ(model->weights.final_norm[5], tensors_.at("model.norm.weight").real(5));
}

TEST_F(Changed, F32ThatOverflowsBf16IsRefused) {
  use("llama");
  RawTensor& tensor = tensors_.at("model.layers.0.mlp.up_proj.weight");
  std::string wide(tensor.count() * 4, '\0');
  const float huge = std::numeric_limits<float>::max();
  std::memcpy(wide.data() + 40, &huge, 4);
  tensor = {"F32", tensor.shape, wide};
  expect_error(load(), Exit::data, {"model.layers.0.mlp.up_proj.weight"});
}

TEST_F(Changed, F16IsReadWithItsSubnormals) {
  use("llama");
  RawTensor& tensor = tensors_.at("model.layers.0.mlp.up_proj.weight");
  tensor.dtype = "F16";
  const std::uint16_t bits[] = {0x3c00, 0xc000, 0x0001, 0x7bff, 0x8000};  // 1, -2, 2^-24, 65504, -0
  std::memcpy(tensor.bytes.data(), bits, sizeof bits);
  for (std::size_t i = 5; i < tensor.count(); ++i) set_half("model.layers.0.mlp.up_proj.weight", i, 0x3800);  // 0.5
  const auto model = load();
  expect_ok(model);
  const Matrix& gate_up = std::get<DenseWeights>(model->weights.layers[0].ffn).gate_up;
  const float expected[] = {1.0F, -2.0F, 0x1p-24F, 65536.0F, -0.0F, 0.5F};
  for (int c = 0; c < 6; ++c) EXPECT_EQ(gate_up.at(96, c), expected[c]) << c;
}

TEST_F(Changed, FilesMayGoAfterLoading) {
  use("qwen3_moe");
  auto model = load();
  expect_ok(model);
  fs::resize_file(dir_ / "model.safetensors", 100);
  fs::remove(dir_ / "model.safetensors");
  check_against_files(*model, kConformance + "qwen3_moe");
}

TEST_F(Changed, AConfigThatAsksForFarMoreThanIsStoredIsRefusedByArithmetic) {
  use("qwen3_moe");
  set_config("num_hidden_layers", 4096);
  set_config("hidden_size", 100'000);
  expect_error(load(), Exit::data, {"parameters", "shards hold"});
}

TEST_F(Changed, ACutShardIsRefused) {
  use("qwen3_moe");
  const auto size = fs::file_size(dir_ / "model.safetensors");
  fs::resize_file(dir_ / "model.safetensors", size - 1);
  expect_error(load_model(dir_.path()), Exit::data, {"model.safetensors", "tensor", "cut short"});
  fs::resize_file(dir_ / "model.safetensors", size / 2);
  expect_error(load_model(dir_.path()), Exit::data, {"model.safetensors", "tensor", "cut short"});
}

TEST(Load, TensorsOfDraftingLayersAreLeftOut) {
  TempDir dir;
  dir.copy_model(kConformance + "deepseek_v3");
  RawTensors tensors = read_raw(dir / "model.safetensors");
  const auto add = [&](const char* name) {
    tensors[name] = {"BF16", {1}, std::string(2, '\0')};
    dir.write("model.safetensors", write_raw(tensors));
    return load_model(dir.path());
  };
  expect_ok(add("model.layers.3.eh_proj.weight"));
  for (const char* name : {"model.layers.4.eh_proj.weight", "model.layers.-1.eh_proj.weight", "model.layers.3"}) {
    expect_error(add(name), Exit::data, {"unknown tensor", name});
    tensors.erase(name);
  }
}

}  // namespace
}  // namespace colibri
