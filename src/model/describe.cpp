// SPDX-License-Identifier: Apache-2.0
// Numbers are exact integers in the JSON and rounded in the text.
#include "model/describe.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <map>

#include "model/binder.h"
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

/// Bytes by type, of the tensors that `wanted` says.
template <class Wanted>
Json stored_bytes(const Checkpoint& checkpoint, Wanted wanted) {
  std::map<std::string_view, std::uint64_t> by_type;
  for (const Checkpoint::Shard& shard : checkpoint.shards())
    for (const TensorInfo& tensor : shard.tensors)
      if (wanted(tensor.name)) by_type[tensor.type.name] += tensor.bytes;
  Json json = Json::Object{};
  for (const auto& [type, bytes] : by_type) json.set(type, bytes);
  return json;
}

/// What may lie in slower memory, since a token reads few of them, and what may not.
Json tiers(const ModelSpec& spec, const Checkpoint* checkpoint) {
  if (checkpoint == nullptr) {
    const ParameterCount count = model_parameters(spec);
    return Json::Object{{"dense", Json::Object{{"BF16", whole(2 * (count.total - count.experts))}}},
                        {"experts", Json::Object{{"BF16", whole(2 * count.experts)}}}};
  }
  const TensorNames& names = stored_names(*find_family(spec.family), spec, *checkpoint);
  return Json::Object{
      {"dense", stored_bytes(*checkpoint, [&](std::string_view name) { return !is_expert(name, names); })},
      {"experts", stored_bytes(*checkpoint, [&](std::string_view name) { return is_expert(name, names); })}};
}

/// Of the embedding, whose rows a token reads one of; 0 where it is the head too, which is read as a whole.
double unread_parameters(const ModelSpec& spec) {
  return spec.tied_embeddings ? 0.0 : static_cast<double>(spec.vocab) * spec.d_model;
}

/// `active` as the model's makers count, for comparing with their page.
Json parameters(const ModelSpec& spec) {
  const ParameterCount count = model_parameters(spec);
  double active = count.active;
  const ActiveTables counted = find_family(spec.family)->active;
  if (counted != ActiveTables::both) active -= unread_parameters(spec);
  if (counted == ActiveTables::none) active -= static_cast<double>(spec.vocab) * spec.d_model;
  return Json::Object{{"total", whole(count.total)}, {"active", whole(active)}};
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

std::string mixer_text(const Json& layer) {
  const auto number = [&](const char* key) { return std::to_string(layer.find(key)->as_int()); };
  const std::string& kind = layer.find("attention")->as_string();
  if (kind == "short_conv") return "convolution over " + number("conv_width");
  if (kind == "latent")
    return "latent, " + number("heads") + " heads, " + number("kv_rank") + " + " + number("rope_dim") + " cached";
  if (kind == "delta_net") {
    return "delta net, " + number("value_heads") + " heads of " + number("key_dim") + " x " + number("value_dim") +
           ", " + number("key_heads") + " key heads";
  }
  const std::string span = kind == "window" ? "window of " + number("window") : kind;
  return span + ", " + number("heads") + " heads, " + number("kv_heads") + " KV heads of " + number("head_dim");
}

std::string ffn_text(const Json& layer) {
  const auto number = [&](const char* key) { return std::to_string(layer.find(key)->as_int()); };
  if (layer.find("experts") == nullptr) return "dense, d_ff " + number("d_ff");
  const bool shared = layer.find("shared_d_ff")->as_int() > 0;
  return number("experts") + " experts, top " + number("top_k") + ", d_ff " + number("d_ff") +
         (shared ? ", shared d_ff " + number("shared_d_ff") : "");
}

/// "0-2, 4", of the layers that equal this one; long lists end early.
std::string equal_layers(const Json::Array& layers, const Json& like) {
  constexpr int kShownRuns = 3;
  std::string text;
  int runs = 0;
  for (std::size_t first = 0, next = 0; first < layers.size(); first = next) {
    while (next < layers.size() && layers[next] == layers[first]) ++next;
    if (layers[first] != like) continue;
    if (++runs > kShownRuns) return text + ", ...";
    text += (runs > 1 ? ", " : "") + std::to_string(first);
    if (next - first > 1) text += "-" + std::to_string(next - 1);
  }
  return text;
}

std::string layers_table(const Json::Array& layers) {
  constexpr std::size_t kColumns = 6;
  using Row = std::array<std::string, kColumns>;
  std::vector<Row> rows{{"layers", "count", "attention", "feed-forward", "parameters", "active"}};
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const Json& layer = layers[i];
    if (std::find(layers.begin(), layers.begin() + static_cast<std::ptrdiff_t>(i), layer) !=
        layers.begin() + static_cast<std::ptrdiff_t>(i))
      continue;
    rows.push_back({equal_layers(layers, layer), std::to_string(std::count(layers.begin(), layers.end(), layer)),
                    mixer_text(layer), ffn_text(layer), count_text(layer.find("parameters")->as_int()),
                    count_text(layer.find("active")->as_int())});
  }
  std::string text;
  for (const Row& row : rows) {
    for (std::size_t column = 0; column + 1 < kColumns; ++column) {
      std::size_t width = 0;
      for (const Row& other : rows) width = std::max(width, other[column].size());
      text += row[column] + std::string(width + 2 - row[column].size(), ' ');
    }
    text += row.back() + "\n";
  }
  return text;
}

/// ": BF16 3.1 GB, F32 0.1 MB"
std::string types_text(const Json& bytes) {
  std::string text;
  for (const auto& [type, count] : bytes.as_object())
    text += (text.empty() ? ": " : ", ") + type + " " + bytes_text(count.as_double());
  return text.empty() ? ": none" : text;
}

}  // namespace

Json describe_model(const ModelConfig& config, const Checkpoint* checkpoint) {
  const ModelSpec& spec = config.spec;
  Json::Array layers;
  for (const LayerSpec& layer : spec.layers) layers.push_back(describe_layer(spec, layer));
  Json::Array warnings;
  for (const std::string& warning : config.warnings) warnings.push_back(warning);
  const double kv = kv_values_per_token(spec);
  return Json::Object{
      {"family", spec.family},
      {"parameters", parameters(spec)},
      {"read_per_token", whole(model_parameters(spec).active - unread_parameters(spec))},
      {"context", spec.context},
      {"vocab", spec.vocab},
      {"d_model", spec.d_model},
      {"tied_embeddings", spec.tied_embeddings},
      {"weight_format", config.weight_format.empty() ? Json() : Json(config.weight_format)},
      {"stored", checkpoint != nullptr},
      {"bytes", checkpoint != nullptr ? stored_bytes(*checkpoint, [](std::string_view) { return true; })
                                      : Json(Json::Object{{"BF16", whole(2 * model_parameters(spec).total)}})},
      {"tiers", tiers(spec, checkpoint)},
      {"kv_bytes_per_token", Json::Object{{"fp32", whole(4 * kv)}, {"bf16", whole(2 * kv)}}},
      {"state_bytes_per_sequence", whole(4 * state_floats(spec))},
      {"layers", std::move(layers)},
      {"warnings", std::move(warnings)}};
}

std::string describe_text(const Json& description) {
  const auto number = [&](const char* key) { return std::to_string(description.find(key)->as_int()); };
  const Json& parameters = *description.find("parameters");
  const Json& format = *description.find("weight_format");
  const Json& tiers = *description.find("tiers");
  const Json& kv = *description.find("kv_bytes_per_token");
  const std::string held = description.find("stored")->as_bool() ? "" : ", uncompressed";
  std::string text = description.find("family")->as_string() + ", " + count_text(parameters.find("total")->as_int()) +
                     " parameters, " + count_text(parameters.find("active")->as_int()) + " active, " +
                     count_text(description.find("read_per_token")->as_int()) + " read per token\n";
  if (!format.is_null()) text += "weight format: " + format.as_string() + "\n";
  text += "context " + number("context") + ", vocabulary " + number("vocab") + ", width " + number("d_model") + "\n";
  text += "experts" + held + types_text(*tiers.find("experts")) + "\n";
  text += "all else" + held + types_text(*tiers.find("dense")) + "\n";
  text += "KV cache a token: " + std::to_string(kv.find("bf16")->as_int()) + " bytes in bf16, " +
          std::to_string(kv.find("fp32")->as_int()) + " in fp32\n";
  if (description.find("state_bytes_per_sequence")->as_int() > 0)
    text += "state a sequence: " + number("state_bytes_per_sequence") + " bytes\n";
  text += "\n" + layers_table(description.find("layers")->as_array());
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
