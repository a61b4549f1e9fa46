// SPDX-License-Identifier: Apache-2.0
// Numbers are exact integers in the JSON and rounded in the text.
#include "model/describe.h"

#include <cstdio>
#include <filesystem>
#include <map>

#include "model/locate.h"
#include "model/size.h"
#include "model/weights.h"

namespace colibri {
namespace {

Json whole(double value) { return static_cast<std::int64_t>(value); }

Json describe_mixer(const AttentionSpec& attention) {
  return Json::Object{{"attention", attention.window > 0 ? "window" : "full"},
                      {"heads", attention.n_heads},
                      {"kv_heads", attention.n_kv_heads},
                      {"head_dim", attention.head_dim},
                      {"window", attention.window > 0 ? Json(attention.window) : Json()},
                      {"kv_group", attention.kv_group}};
}

Json describe_mixer(const DeltaNetSpec& net) {
  return Json::Object{{"attention", "delta_net"},
                      {"key_heads", net.n_k_heads},
                      {"value_heads", net.n_v_heads},
                      {"key_dim", net.k_dim},
                      {"value_dim", net.v_dim},
                      {"conv_width", net.conv_width},
                      {"state_floats", static_cast<std::int64_t>(net.state_floats())},
                      {"kv_group", net.kv_group}};
}

Json describe_mixer(const ShortConvSpec& conv) {
  return Json::Object{{"attention", "short_conv"},
                      {"conv_width", conv.width},
                      {"state_floats", static_cast<std::int64_t>(conv.state_floats())},
                      {"kv_group", conv.kv_group}};
}

Json describe_mixer(const LatentAttentionSpec& attention) {
  return Json::Object{{"attention", "latent"},
                      {"heads", attention.n_heads},
                      {"q_rank", attention.q_rank > 0 ? Json(attention.q_rank) : Json()},
                      {"kv_rank", attention.kv_rank},
                      {"nope_dim", attention.nope_dim},
                      {"rope_dim", attention.rope_dim},
                      {"v_dim", attention.v_dim},
                      {"kv_group", attention.kv_group}};
}

Json describe_layer(const ModelSpec& spec, const LayerSpec& layer) {
  const ParameterCount count = layer_parameters(spec, layer);
  Json json = std::visit([](const auto& mixer) { return describe_mixer(mixer); }, layer.mixer);
  if (const auto* dense = std::get_if<DenseFfn>(&layer.ffn)) {
    json.set("ffn", "dense");
    json.set("d_ff", dense->d_ff);
  } else {
    const auto& moe = std::get<MoeFfn>(layer.ffn);
    json.set("ffn", "moe");
    json.set("d_ff", moe.d_ff);
    json.set("experts", moe.router.n_experts);
    json.set("top_k", moe.router.top_k);
    json.set("shared_d_ff", moe.shared_d_ff);
  }
  json.set("parameters", whole(count.total));
  json.set("active", whole(count.active));
  return json;
}

/// Bytes as stored, by type.
Json stored_bytes(const Checkpoint& checkpoint) {
  std::map<std::string_view, std::uint64_t> by_type;
  for (const Checkpoint::Shard& shard : checkpoint.shards())
    for (const TensorInfo& tensor : shard.tensors) by_type[tensor.type.name] += tensor.bytes;
  Json json = Json::Object{};
  for (const auto& [type, bytes] : by_type) json.set(type, bytes);
  return json;
}

/// "30.5 B", "16.3 M".
std::string count_text(std::int64_t count) {
  char text[32];
  const auto value = static_cast<double>(count);
  if (value >= 1e9) {
    std::snprintf(text, sizeof text, "%.1f B", value / 1e9);
  } else {
    std::snprintf(text, sizeof text, "%.1f M", value / 1e6);
  }
  return text;
}

std::string layer_text(const Json& layer) {
  const auto number = [&](const char* key) { return std::to_string(layer.find(key)->as_int()); };
  const std::string& kind = layer.find("attention")->as_string();
  std::string text;
  if (kind == "delta_net") {
    text = "delta net, " + number("value_heads") + " heads of " + number("key_dim") + " x " + number("value_dim") +
           ", " + number("key_heads") + " key heads, convolution over " + number("conv_width");
  } else if (kind == "short_conv") {
    text = "convolution over " + number("conv_width");
  } else if (kind == "latent") {
    text =
        "latent attention, " + number("heads") + " heads, latent of " + number("kv_rank") + " + " + number("rope_dim");
  } else {
    text = kind + " attention, " + number("heads") + " heads, " + number("kv_heads") + " KV heads of " +
           number("head_dim");
    if (!layer.find("window")->is_null()) text += ", window " + number("window");
  }
  if (layer.find("experts") == nullptr) {
    text += "; dense, d_ff " + number("d_ff");
  } else {
    text += "; " + number("experts") + " experts, top " + number("top_k") + ", d_ff " + number("d_ff");
    if (layer.find("shared_d_ff")->as_int() > 0) text += ", shared d_ff " + number("shared_d_ff");
  }
  return text + "; " + count_text(layer.find("parameters")->as_int()) + ", " +
         count_text(layer.find("active")->as_int()) + " active";
}

}  // namespace

Json describe_model(const ModelConfig& config, const Checkpoint* checkpoint) {
  const ModelSpec& spec = config.spec;
  const ParameterCount count = model_parameters(spec);
  Json::Array layers;
  for (const LayerSpec& layer : spec.layers) layers.push_back(describe_layer(spec, layer));
  Json::Array warnings;
  for (const std::string& warning : config.warnings) warnings.push_back(warning);
  const double kv = kv_values_per_token(spec);
  return Json::Object{{"family", spec.family},
                      {"parameters", Json::Object{{"total", whole(count.total)}, {"active", whole(count.active)}}},
                      {"context", spec.context},
                      {"vocab", spec.vocab},
                      {"d_model", spec.d_model},
                      {"tied_embeddings", spec.tied_embeddings},
                      {"stored", checkpoint != nullptr},
                      {"bytes", checkpoint != nullptr ? stored_bytes(*checkpoint)
                                                      : Json(Json::Object{{"BF16", whole(2 * count.total)}})},
                      {"kv_bytes_per_token", Json::Object{{"fp32", whole(4 * kv)}, {"bf16", whole(2 * kv)}}},
                      {"layers", std::move(layers)},
                      {"warnings", std::move(warnings)}};
}

std::string describe_text(const Json& description) {
  const auto number = [&](const char* key) { return std::to_string(description.find(key)->as_int()); };
  const Json& parameters = *description.find("parameters");
  std::string text = description.find("family")->as_string() + ", " + count_text(parameters.find("total")->as_int()) +
                     " parameters, " + count_text(parameters.find("active")->as_int()) + " active\n";
  text += "context " + number("context") + ", vocabulary " + number("vocab") + ", width " + number("d_model") + "\n";
  text += description.find("stored")->as_bool() ? "stored:" : "weights, if stored in bf16:";
  for (const auto& [type, bytes] : description.find("bytes")->as_object())
    text += " " + type + " " + bytes_text(bytes.as_double());
  const Json& kv = *description.find("kv_bytes_per_token");
  text += "\nKV cache per token: " + std::to_string(kv.find("fp32")->as_int()) + " bytes in fp32, " +
          std::to_string(kv.find("bf16")->as_int()) + " in bf16\n";
  const Json::Array& layers = description.find("layers")->as_array();
  for (std::size_t first = 0, next = 0; first < layers.size(); first = next) {
    while (next < layers.size() && layers[next] == layers[first]) ++next;
    text += next - first == 1 ? "layer " + std::to_string(first)
                              : "layers " + std::to_string(first) + "-" + std::to_string(next - 1);
    text += ": " + layer_text(layers[first]) + "\n";
  }
  for (const Json& warning : description.find("warnings")->as_array()) text += "warning: " + warning.as_string() + "\n";
  return text;
}

Result<Json> inspect_model(const std::string& model) {
  TRY(path, locate_config(model));
  if (path == model) {
    TRY(config, read_config_file(path));
    return describe_model(config, nullptr);
  }
  const std::string directory = std::filesystem::path(path).parent_path().string();
  TRY(config, read_config(directory));
  if (!Checkpoint::present(directory)) return describe_model(config, nullptr);
  TRY(checkpoint, Checkpoint::open(directory));
  return describe_model(config, &checkpoint);
}

}  // namespace colibri
