// SPDX-License-Identifier: Apache-2.0
// The parts that are the same for all families: checks of support, token ids, KV groups, total size.
#include "model/config.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>

#include "base/file.h"
#include "model/config_reader.h"
#include "model/families.h"
#include "model/size.h"

namespace colibri {
namespace {

constexpr std::uint64_t kMaxConfigBytes = std::uint64_t{8} << 20;
constexpr JsonLimits kConfigLimits{.depth = 32, .bytes = kMaxConfigBytes, .values = 1'000'000};
constexpr double kMaxParameters = 1e15;
constexpr std::size_t kMaxEosIds = 256;
constexpr std::size_t kShownBytes = 40;  // of a text of the file

/// Python writes NaN and Infinity where JSON has no number; as strings they are refused only where they are read.
std::string quote_non_numbers(std::string_view text) {
  constexpr std::string_view kWords[] = {"NaN", "Infinity", "-Infinity"};
  std::string quoted;
  bool inside = false;  // a string
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto word = inside ? std::end(kWords)
                             : std::find_if(std::begin(kWords), std::end(kWords),
                                            [&](auto candidate) { return text.substr(i).starts_with(candidate); });
    if (word != std::end(kWords)) {
      quoted.append("\"").append(*word).append("\"");
      i += word->size() - 1;
      continue;
    }
    if (text[i] == '"') inside = !inside;
    quoted += text[i];
    if (inside && text[i] == '\\' && i + 1 < text.size()) quoted += text[++i];
  }
  return quoted;
}

Result<Json> read_json(const std::string& path) {
  TRY(text, read_file(path, kMaxConfigBytes));
  return parse_json(quote_non_numbers(text), kConfigLimits).at(path);
}

KvGroupSpec kv_group_of(const AttentionSpec& attention) {
  return {.n_kv_heads = attention.n_kv_heads, .head_dim = attention.head_dim, .window = attention.window, .layers = {}};
}

KvGroupSpec kv_group_of(const LatentAttentionSpec& attention) {
  return {.layers = {}, .latent_dim = attention.cached()};
}

KvGroupSpec kv_group_of(const DeltaNetSpec& net) { return {.layers = {}, .state_floats = net.state_floats()}; }

KvGroupSpec kv_group_of(const ShortConvSpec& conv) { return {.layers = {}, .state_floats = conv.state_floats()}; }

/// Layers whose caches look alike share a group of the KV pool, in order of first appearance.
void set_kv_groups(ModelSpec& spec) {
  for (std::size_t i = 0; i < spec.layers.size(); ++i) {
    const auto join = [&](auto& mixer) {
      const KvGroupSpec wanted = kv_group_of(mixer);
      auto group = std::find_if(spec.kv_groups.begin(), spec.kv_groups.end(),
                                [&](const KvGroupSpec& other) { return other.same_cache(wanted); });
      if (group == spec.kv_groups.end()) group = spec.kv_groups.insert(group, wanted);
      group->layers.push_back(static_cast<int>(i));
      mixer.kv_group = static_cast<int>(group - spec.kv_groups.begin());
    };
    std::visit(join, spec.layers[i].mixer);
  }
}

/// An id or a list of ids, as both files have it.
void read_eos(const Json& file, ConfigReader& reader, int vocab, std::vector<int>& eos) {
  constexpr std::string_view kKey = "eos_token_id";
  if (!reader.has(kKey)) return;
  eos = file.find(kKey)->is_array() ? reader.integers(kKey, 0, vocab - 1)
                                    : std::vector<int>{reader.integer(kKey, 0, vocab - 1)};
  if (eos.size() > kMaxEosIds) reader.refuse(kKey, "more than " + std::to_string(kMaxEosIds) + " ids");
}

/// Published files give ids outside the vocabulary (-1) to tokens that they do not have.
void read_optional_id(const Json& file, std::string_view key, int vocab, std::optional<int>& id) {
  const Json* value = file.find(key);
  if (value == nullptr || !value->is_int()) return;
  id.reset();
  if (value->as_int() >= 0 && value->as_int() < vocab) id = static_cast<int>(value->as_int());
}

void read_token_ids(const Json& file, ConfigReader& reader, int vocab, GenerationConfig& generation) {
  read_eos(file, reader, vocab, generation.eos);
  read_optional_id(file, "bos_token_id", vocab, generation.bos);
  read_optional_id(file, "pad_token_id", vocab, generation.pad);
}

constexpr std::array<const char*, 3> kFormatKeys{"quantization_config", "quantization", "compression_config"};

/// What the file says of its weights' format: its method and what tells the method's kinds apart.
std::string weight_format(ConfigReader& reader) {
  for (const char* key : kFormatKeys) {
    if (!reader.has(key)) continue;
    ConfigReader about = reader.object(key);
    std::string format = about.text_or("quant_method", "unnamed").substr(0, kShownBytes);
    for (const char* kind : {"quant_algo", "moe_quant_algo", "format", "fmt"})
      if (about.has(kind)) format += " " + about.text_or(kind, "").substr(0, kShownBytes);
    if (about.has("bits")) {
      char bits[32];
      std::snprintf(bits, sizeof bits, " %g-bit", about.real("bits", 0, 64));
      format += bits;
    }
    return format;
  }
  return {};
}

/// Null where there is none.
Json find_quantization(const Json& file) {
  for (const char* key : kFormatKeys)
    if (const Json* value = file.find(key); value != nullptr && !value->is_null()) return *value;
  return {};
}

/// What NVIDIA's exporter writes into a file of its own where config.json is silent, as config.json has it elsewhere.
Result<Json> read_modelopt(const std::string& path) {
  TRY(file, read_json(path));
  Json* quantization = file.find("quantization");
  if (quantization == nullptr || !quantization->is_object()) return data_error(path + ": quantization: missing");
  quantization->set("quant_method", "modelopt");
  return std::move(*quantization);
}

void warn_without_eos(const std::string& place, ModelConfig& config) {
  if (config.generation.eos.empty())
    config.warnings.push_back(place + ": no eos_token_id; answers end at their length limit only");
}

}  // namespace

Result<ModelConfig> parse_config(const Json& config, const std::string& place) {
  ConfigReader reader(config, place);
  const std::string type = reader.text_or("model_type", "");
  TRY_STATUS(reader.status());
  const Family* family = find_family(type);
  if (family == nullptr) {
    return data_error(
        place + ": model_type: " + (type.empty() ? "missing" : "\"" + type.substr(0, 60) + "\" is not supported") +
        "; supported are " + supported_families());
  }
  // Models that also see or hear nest their text part.
  constexpr std::string_view kNested = "text_config";
  constexpr std::string_view kTied = "tie_word_embeddings";
  const bool nested = reader.has(kNested);
  ConfigReader text = nested ? reader.object(kNested) : reader;
  const std::string inner = text.text_or("model_type", type);
  const Family* text_family = find_family(inner);
  if (inner != type + "_text" && (text_family == nullptr || text_family->parse != family->parse))
    text.refuse("model_type", "\"" + inner.substr(0, kShownBytes) + "\" is not supported within " + type);
  TRY_STATUS(reader.status());
  ModelConfig result;
  result.weight_format = weight_format(reader);
  result.quantization = find_quantization(config);
  if (nested && result.quantization.is_null()) {
    result.weight_format = weight_format(text);
    result.quantization = find_quantization(*config.find(kNested));
  }
  result.spec = family->parse(text);
  result.spec.family = type;
  if (nested) {
    if (!text.has(kTied)) result.spec.tied_embeddings = reader.flag_or(kTied, false);
    read_token_ids(*config.find(kNested), text, result.spec.vocab, result.generation);
  }
  read_token_ids(config, reader, result.spec.vocab, result.generation);
  TRY_STATUS(reader.status());
  result.warnings = reader.warnings();
  if (const double total = model_parameters(result.spec).total; total > kMaxParameters)
    return data_error(place + ": hidden_size: the sizes together give more than 10^15 parameters");
  set_kv_groups(result.spec);
  return result;
}

Status parse_generation_config(const Json& file, const std::string& place, int vocab, GenerationConfig& generation) {
  ConfigReader reader(file, place);
  TRY_STATUS(reader.status());
  read_token_ids(file, reader, vocab, generation);
  const auto real = [&](std::string_view key, float& value, double min, double max) {
    value = static_cast<float>(reader.real_or(key, value, min, max));
  };
  generation.do_sample = reader.flag_or("do_sample", generation.do_sample);
  real("temperature", generation.temperature, 0, 100);
  real("top_p", generation.top_p, 0, 1);
  real("min_p", generation.min_p, 0, 1);
  real("repetition_penalty", generation.repetition_penalty, 1e-3, 1e3);
  generation.top_k = std::max(reader.integer_or("top_k", generation.top_k, -1, kMaxVocab), 0);  // -1 is "all" too
  if (reader.has("max_new_tokens")) generation.max_new_tokens = reader.integer("max_new_tokens", 1, 1 << 30);
  return reader.status();
}

Result<ModelConfig> read_config_file(const std::string& path) {
  TRY(config, read_json(path));
  TRY(result, parse_config(config, path));
  warn_without_eos(path, result);
  return std::move(result);
}

Result<ModelConfig> read_config(const std::string& directory) {
  TRY(config, read_json(directory + "/config.json"));
  const std::string modelopt = directory + "/hf_quant_config.json";
  if (config.is_object() && find_quantization(config).is_null() && path_exists(modelopt)) {
    TRY(quantization, read_modelopt(modelopt));
    config.set(kFormatKeys[0], std::move(quantization));
  }
  TRY(result, parse_config(config, directory + "/config.json"));
  const std::string path = directory + "/generation_config.json";
  if (path_exists(path)) {
    TRY(file, read_json(path));
    TRY_STATUS(parse_generation_config(file, path, result.spec.vocab, result.generation));
  }
  warn_without_eos(directory, result);
  return std::move(result);
}

}  // namespace colibri
