// SPDX-License-Identifier: Apache-2.0
// Published weight formats: every decoded number against the sums of make_formats.py, and every way to refuse a file.
#include "model/formats.h"

#include <memory>
#include <random>

#include "base/sha256.h"
#include "model/binder.h"
#include "model/config.h"
#include "model/describe.h"
#include "model/fixture.h"
#include "model/model.h"
#include "model/published.h"

namespace colibri {
namespace {

using namespace test;

const std::string kFormats = kSource + "/tests/conformance/formats/data/";

std::vector<std::string> formats() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kFormats)) names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

/// All rows, in ranges of uneven size, in an order that is not ascending.
std::string decoded(const Encoding& encoding) {
  const auto cols = static_cast<std::size_t>(encoding.codes.cols);
  const auto rows = static_cast<int>(encoding.codes.rows);
  std::string bytes(static_cast<std::size_t>(rows) * cols * 2, '\0');
  std::vector<int> starts;
  for (int first = 0, i = 0; first < rows; first += 1 + i++ * 5 % 17) starts.push_back(first);
  starts.push_back(rows);
  DecodeBuffers buffers;
  for (std::size_t i = starts.size() - 1; i-- > 0;) {
    std::vector<std::uint16_t> values(static_cast<std::size_t>(starts[i + 1] - starts[i]) * cols);
    expect_ok(decode_rows(encoding, starts[i], starts[i + 1] - starts[i], buffers, values.data()));
    std::memcpy(bytes.data() + static_cast<std::size_t>(starts[i]) * cols * 2, values.data(), values.size() * 2);
  }
  return bytes;
}

class EveryFormat : public testing::TestWithParam<std::string> {};

TEST_P(EveryFormat, DecodesToTheExpectedBits) {
  const std::string directory = kFormats + GetParam();
  const auto config = read_config(directory);
  expect_ok(config);
  const auto format = WeightFormat::parse(config->quantization, "config.json");
  expect_ok(format);
  const auto checkpoint = Checkpoint::open(directory);
  expect_ok(checkpoint);
  auto weights = allocate_weights(config->spec);
  expect_ok(weights);
  const TensorNames& names = stored_names(*find_family(config->spec.family), config->spec, *checkpoint);
  const auto bindings = bind_tensors(config->spec, names, *format, *weights);
  const auto encodings = check_tensors(bindings, *checkpoint, config->spec, names, *format);
  expect_ok(encodings);
  const Json expected = json_file(directory + "/expected.json");
  const Json::Object& sums = expected.find("weights")->as_object();
  EXPECT_EQ(encodings->size(), sums.size());
  for (const auto& [name, sum] : sums) {
    const auto encoding = encodings->find(name);
    ASSERT_NE(encoding, encodings->end()) << name;
    const std::string bytes = decoded(encoding->second);
    EXPECT_EQ(sha256_hex(std::as_bytes(std::span(bytes))), sum.as_string()) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, EveryFormat, testing::ValuesIn(formats()),
                         [](const auto& test) { return test.param; });

TEST(Formats, ThreadsChangeNothing) {
  const auto one = load_model(kFormats + "gptq", {.progress = {}, .threads = 1});
  const auto five = load_model(kFormats + "gptq", {.progress = {}, .threads = 5});
  expect_ok(one);
  expect_ok(five);
  const Buffer& slab = one->weights.expert_slabs[0];
  EXPECT_EQ(std::memcmp(slab.data(), five->weights.expert_slabs[0].data(), slab.size()), 0);
}

TEST(Formats, InspectCountsParametersAndStoredBytes) {
  for (const std::string& format : formats()) {
    SCOPED_TRACE(format);
    const auto json = inspect_model(kFormats + format);
    expect_ok(json);
    std::map<std::string, std::int64_t> bytes;
    for (const auto& [name, tensor] : read_raw(kFormats + format + "/model.safetensors"))
      bytes[tensor.dtype] += static_cast<std::int64_t>(tensor.bytes.size());
    ASSERT_EQ(json->find("bytes")->as_object().size(), bytes.size());
    for (const auto& [type, sum] : bytes) EXPECT_EQ(json->find("bytes")->find(type)->as_int(), sum) << type;
  }
}

struct Refused {
  const char* config;
  std::vector<std::string_view> parts;
};

TEST(Formats, SettingsThatCannotBeDecodedNameTheirKey) {
  const Refused cases[] = {
      {R"({"quant_method": "exl2", "bits": 4.0})", {"quant_method", "\"exl2\"", "bf16", "gptq"}},
      {R"({"quant_method": "bitsandbytes", "load_in_4bit": true})", {"quant_method", "bitsandbytes"}},
      {R"({"group_size": 64, "bits": 4})", {"quant_method", "missing", "bf16"}},  // MLX
      {R"({"quant_method": 4})", {"quant_method"}},
      {R"([])", {"quantization_config"}},
      {R"({"quant_method": "fp8", "fmt": "e5m2"})", {"fmt", "e4m3"}},
      {R"({"quant_method": "fp8", "weight_block_size": [128]})", {"weight_block_size"}},
      {R"({"quant_method": "fp8", "weight_block_size": [0, 128]})", {"weight_block_size"}},
      {R"({"quant_method": "gptq", "bits": 3, "group_size": 128})", {"bits", "4 and 8"}},
      {R"({"quant_method": "gptq", "bits": 4})", {"group_size", "missing"}},
      {R"({"quant_method": "gptq", "bits": 4, "group_size": -2})", {"group_size"}},
      {R"({"quant_method": "gptq", "bits": 4, "group_size": 128, "checkpoint_format": "marlin"})",
       {"checkpoint_format"}},
      {R"({"quant_method": "awq", "bits": 4, "group_size": 128, "version": "gemv"})", {"version", "gemm"}},
      {R"({"quant_method": "awq", "bits": 8, "group_size": 128})", {"bits"}},
      {R"({"quant_method": "modelopt"})", {"quant_algo", "missing"}},
      {R"({"quant_method": "modelopt", "quant_algo": "W4A8_AWQ"})", {"quant_algo", "NVFP4"}},
      {R"({"quant_method": "compressed-tensors", "format": "marlin-24"})", {"format"}},
      {R"({"quant_method": "compressed-tensors", "format": "pack-quantized"})", {"config_groups", "missing"}},
      {R"({"quant_method": "compressed-tensors", "config_groups": {"g": {"weights": {"num_bits": 3}}}})",
       {"config_groups: g: weights", "num_bits"}},
      {R"({"quant_method": "compressed-tensors", "config_groups": {"g": {"weights": null}}})", {"num_bits", "missing"}},
      {R"({"quant_method": "compressed-tensors", "sparsity_config": {"format": "sparse-24-bitmask"},
           "config_groups": {"g": {"weights": {"num_bits": 8}}}})",
       {"sparsity_config"}},
      {R"({"quant_method": "compressed-tensors", "config_groups": {"g": {"weights": {"num_bits": 8}}}, "transform_config":
           {"config_groups": {"R1": {"apply": [{"location": "weight_output"}, {"location": "weight_input"}]},
                              "R4": {"apply": [{"location": "weight_input"}, {"location": "input"}]}}}})",
       {"transform_config: config_groups: R4: apply", "location", "\"input\""}},
      {R"({"quant_method": "compressed-tensors", "config_groups": {"g": {"weights": {"num_bits": 8}}}, "transform_config":
           {"config_groups": {"R1": {"apply": [7]}}}})",
       {"apply", "not an object"}},
      {R"({"quant_method": "compressed-tensors", "config_groups": {"g": {"weights": {"num_bits": 8, "actorder": "x"}}}})",
       {"actorder", "group"}},
      {R"({"quant_method": "compressed-tensors", "config_groups":
           {"a": {"weights": {"num_bits": 8, "block_structure": [128, 128]}},
            "b": {"weights": {"num_bits": 8, "block_structure": [64, 64]}}}})",
       {"config_groups: b", "block_structure"}},
  };
  for (const Refused& item : cases) {
    SCOPED_TRACE(item.config);
    const auto format = WeightFormat::parse(json_of(item.config), "config.json: quantization_config");
    expect_error(format, Exit::data, {"config.json: quantization_config"});
    for (const std::string_view part : item.parts)
      EXPECT_NE(format.error().message.find(part), std::string::npos) << part << " not in: " << format.error().message;
  }
}

TEST(Formats, ConfigGroupsAreBounded) {
  Json::Object groups;
  for (int i = 0; i < 300; ++i) groups.emplace_back(std::to_string(i), json_of(R"({"weights": {"num_bits": 4}})"));
  const Json config = Json::Object{{"quant_method", "compressed-tensors"}, {"config_groups", std::move(groups)}};
  expect_error(WeightFormat::parse(config, "config.json"), Exit::data, {"config_groups", "256"});
}

/// A checkpoint whose tensors and settings a test changes.
class ChangedFormat : public testing::Test {
 protected:
  void use(const std::string& format) {
    dir_ = std::make_unique<TempDir>();
    dir_->copy_model(kFormats + format);
    tensors_ = read_raw(*dir_ / "model.safetensors");
  }
  auto load() {
    dir_->write("model.safetensors", write_raw(tensors_));
    return load_model(dir_->path());
  }
  RawTensor& at(const std::string& name) { return tensors_.at("model.layers.0." + name); }
  void set(const std::string& key, const Json& value) {
    Json config = json_file(*dir_ / "config.json");
    config.find("quantization_config")->set(key, value);
    dir_->write("config.json", write_json(config));
  }
  /// Makes a tensor another shape of zeros.
  void reshape(const std::string& name, std::vector<std::int64_t> shape, int width) {
    RawTensor& tensor = at(name);
    tensor.shape = std::move(shape);
    tensor.bytes.assign(tensor.count() * static_cast<std::size_t>(width), '\0');
  }

  std::unique_ptr<TempDir> dir_;
  RawTensors tensors_;
};

TEST_F(ChangedFormat, ScalesOfAnotherShapeAreRefused) {
  use("fp8");
  reshape("mlp.experts.1.down_proj.weight_scale_inv", {1, 1}, 2);
  expect_error(load(), Exit::data, {"mlp.experts.1.down_proj.weight_scale_inv", "[1, 1]", "[2, 1]"});
  use("fp8");
  reshape("mlp.experts.1.down_proj.weight_scale_inv", {0, 1}, 2);
  expect_error(load(), Exit::data, {"mlp.experts.1.down_proj.weight_scale_inv", "[0, 1]"});
  use("fp8_tensor");
  reshape("self_attn.q_proj.weight_scale", {3}, 4);
  expect_error(load(), Exit::data, {"self_attn.q_proj.weight_scale", "[3]"});
  use("compressed_nvfp4");
  reshape("self_attn.q_proj.weight_global_scale", {2}, 4);
  expect_error(load(), Exit::data, {"self_attn.q_proj.weight_global_scale", "[2]"});
  use("compressed_int4");
  reshape("self_attn.q_proj.weight_scale", {64, 4}, 2);  // groups of 16, which config.json does not have
  expect_error(load(), Exit::data, {"self_attn.q_proj.weight_scale", "[64, 4]", "[64, 2]"});
  use("compressed_int4");
  set("config_groups", json_of(R"({"all": {"weights": {"num_bits": 8, "group_size": 32, "symmetric": false}}})"));
  expect_error(load(), Exit::data, {"self_attn.q_proj.weight_packed", "[64, 8]", "[64, 16]"});
  use("mxfp4");
  reshape("mlp.experts.down_proj_blocks", {3, 64, 1, 8}, 1);
  expect_error(load(), Exit::data, {"down_proj_blocks", "[3, 64, 1, 8]", "[3, 64, 1, 16]"});
  use("gptq");
  reshape("self_attn.q_proj.qweight", {9, 64}, 4);
  expect_error(load(), Exit::data, {"self_attn.q_proj.qweight", "[9, 64]", "[8, 64]"});
}

TEST_F(ChangedFormat, MissingPartsAreNamed) {
  const std::pair<const char*, const char*> cases[] = {
      {"fp8", "self_attn.q_proj.weight_scale"},  // by the second of the two names that it may have
      {"fp8_tensor", "self_attn.q_proj.weight_scale"},
      {"mxfp4", "mlp.experts.down_proj_scales"},
      {"gptq", "self_attn.q_proj.qzeros"},
      {"gptq", "self_attn.q_proj.g_idx"},
      {"awq", "self_attn.q_proj.scales"},
      {"compressed_int4", "self_attn.q_proj.weight_zero_point"},
      {"compressed_int4", "self_attn.q_proj.weight_g_idx"},
      {"compressed_int8", "self_attn.q_proj.weight_scale"},
      {"modelopt", "mlp.experts.0.up_proj.weight_scale_2"},
  };
  for (const auto& [format, name] : cases) {
    SCOPED_TRACE(name);
    use(format);
    tensors_.erase("model.layers.0." + std::string(name));
    tensors_.erase("model.layers.0." + std::string(name) + "_inv");
    expect_error(load(), Exit::data, {"missing", name});
  }
}

TEST_F(ChangedFormat, TypesThatTheFormatDoesNotHaveAreRefused) {
  use("fp8");
  at("self_attn.q_proj.weight").dtype = "F8_E5M2";
  expect_error(load(), Exit::data, {"self_attn.q_proj.weight", "F8_E5M2"});
  use("gptq");
  at("self_attn.q_proj.qweight").dtype = "F32";
  expect_error(load(), Exit::data, {"self_attn.q_proj.qweight", "F32", "I32"});
  use("modelopt");
  at("mlp.experts.0.up_proj.weight_scale").dtype = "U8";
  expect_error(load(), Exit::data, {"mlp.experts.0.up_proj.weight_scale", "U8", "F8_E4M3"});
}

TEST_F(ChangedFormat, AGroupThatDoesNotDivideIsRefused) {
  use("gptq");
  set("group_size", 48);
  expect_error(load(), Exit::data, {"48", "64 inputs", "q_proj"});
  use("gptq");
  set("group_size", 0);
  expect_error(load(), Exit::data, {"groups of 0"});
  use("gptq");
  set("group_size", 16);
  expect_error(load(), Exit::data, {"q_proj.scales", "[2, 64]", "[4, 64]"});
}

TEST_F(ChangedFormat, AColumnOutsideTheGroupsIsRefused) {
  for (const std::int32_t block : {-1, 2, 1 << 30}) {
    use("gptq");
    std::memcpy(at("self_attn.q_proj.g_idx").bytes.data() + 4 * 63, &block, 4);
    expect_error(load(), Exit::data, {"self_attn.q_proj.g_idx", std::to_string(block), "0..1"});
  }
}

TEST_F(ChangedFormat, NumbersThatAreNotFiniteAreRefused) {
  use("fp8");
  at("self_attn.k_proj.weight").bytes.back() = '\x7f';
  expect_error(load(), Exit::data, {"self_attn.k_proj.weight", "NaN"});
  use("mxfp4");
  at("mlp.experts.gate_up_proj_scales").bytes[5] = '\xff';
  expect_error(load(), Exit::data, {"mlp.experts.gate_up_proj", "NaN"});
  use("mxfp4");
  at("mlp.experts.gate_up_proj_scales").bytes.assign(at("mlp.experts.gate_up_proj_scales").bytes.size(), '\xfe');
  expect_error(load(), Exit::data, {"mlp.experts.gate_up_proj", "infinity"});
  use("compressed_nvfp4");
  at("self_attn.q_proj.weight_global_scale").bytes.assign(4, '\0');
  expect_error(load(), Exit::data, {"self_attn.q_proj.weight", "infinity"});
  use("compressed_nvfp4");
  at("self_attn.q_proj.weight_global_scale").bytes.assign({0, 0, '\x80', '\x7f'});  // dividing by it gives zeros
  expect_error(load(), Exit::data, {"self_attn.q_proj.weight_global_scale", "infinity"});
}

TEST_F(ChangedFormat, WhatWouldChangeTheNumbersIsUnknown) {
  use("modelopt");
  tensors_["model.layers.0.self_attn.o_proj.pre_quant_scale"] = {"F32", {1}, std::string(4, '\0')};
  expect_error(load(), Exit::data, {"unknown tensor", "pre_quant_scale"});
}

TEST_F(ChangedFormat, ABiasThatTheModelDoesNotHaveMayBeZero) {
  use("gptq");
  RawTensor& bias = tensors_["model.layers.0.self_attn.o_proj.bias"] = {"F16", {64}, std::string(128, '\0')};
  expect_ok(load());
  bias.bytes[100] = 1;
  expect_error(load(), Exit::data, {"unknown tensor", "o_proj.bias"});
}

TEST(Formats, PublishedSettingsAreReadOrRefusedByTheirMethod) {
  std::map<std::string, int> methods;
  for (const Published& one : all_published()) {
    SCOPED_TRACE(one.name);
    const auto json = parse_json(one.config);
    if (!json.ok()) continue;  // Infinity
    const auto config = parse_config(*json, "config.json");
    if (!config.ok() || config->quantization.is_null()) continue;
    const Json* method = config->quantization.find("quant_method");
    const std::string name = method == nullptr ? "mlx" : method->as_string();
    ++methods[name];
    const auto format = WeightFormat::parse(config->quantization, "config.json: quantization");
    if (name == "mlx" || name == "exl2" || name == "bitsandbytes") {
      expect_error(format, Exit::data, {"config.json: quantization", "quant_method"});
    } else {
      expect_ok(format);
    }
  }
  for (const char* name : {"awq", "compressed-tensors", "fp8", "modelopt", "mxfp4", "mlx", "exl2", "bitsandbytes"})
    EXPECT_GT(methods[name], 0) << name;
}

TEST_F(ChangedFormat, PlainFilesHaveNoCompanions) {
  use("compressed_fp8");
  Json config = json_file(*dir_ / "config.json");
  config.set("quantization_config", Json());
  dir_->write("config.json", write_json(config));
  expect_error(load(), Exit::data, {"F8_E4M3", "BF16"});
}

TEST_F(ChangedFormat, OneMatrixMayStayPlain) {
  use("gptq");
  for (const char* part : {"qweight", "qzeros", "scales", "g_idx"})
    tensors_.erase("model.layers.0.self_attn.o_proj." + std::string(part));
  tensors_["model.layers.0.self_attn.o_proj.weight"] = {"BF16", {64, 64}, std::string(64 * 64 * 2, '\0')};
  expect_ok(load());
}

TEST_F(ChangedFormat, MutatedTensorsLoadOrAreRefused) {
  std::mt19937 random(20261202);
  for (const std::string& format : formats()) {
    use(format);
    const RawTensors tensors = tensors_;
    for (int i = 0; i < 12; ++i) {
      tensors_ = tensors;
      auto victim = tensors_.begin();
      std::advance(victim, static_cast<long>(random() % tensors_.size()));
      RawTensor& tensor = victim->second;
      switch (random() % 3) {
        case 0:
          std::generate(tensor.bytes.begin(), tensor.bytes.end(), [&] { return static_cast<char>(random()); });
          break;
        case 1:
          if (!tensor.shape.empty()) std::swap(tensor.shape.front(), tensor.shape.back());
          break;
        default:
          tensors_.erase(victim);
      }
      const auto model = load();
      EXPECT_TRUE(model.ok() || model.error().code == Exit::data) << model.error().message;
    }
  }
}

}  // namespace
}  // namespace colibri
