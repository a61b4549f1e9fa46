// SPDX-License-Identifier: Apache-2.0
// Doubles, so that no hostile size can overflow before it is compared with a limit.
#include "model/size.h"

namespace colibri {
namespace {

double mixer_parameters(double d, const AttentionSpec& attention) {
  const double q = static_cast<double>(attention.n_heads) * attention.head_dim;
  const double kv = static_cast<double>(attention.n_kv_heads) * attention.head_dim;
  double count = (attention.projected() + q) * d;  // q, k, v, gate, o
  if (attention.qkv_bias) count += attention.projected();
  if (attention.o_bias) count += d;
  if (attention.sinks) count += attention.n_heads;
  if (norms_each_head(attention.qk_norm)) count += 2.0 * attention.head_dim;
  if (attention.qk_norm == QkNorm::full) count += q + kv;
  return count;
}

double mixer_parameters(double d, const DeltaNetSpec& net) {
  return (static_cast<double>(net.projected()) + net.value_cols()) * d +
         static_cast<double>(net.conv_width) * net.conv_cols() + 2.0 * net.n_v_heads + net.v_dim;
}

double mixer_parameters(double d, const ShortConvSpec& conv) {
  return 4.0 * d * conv.channels + static_cast<double>(conv.width) * conv.channels +
         (conv.bias ? 4.0 * conv.channels + d : 0);
}

double mixer_parameters(double d, const LatentAttentionSpec& attention) {
  const double heads = attention.n_heads;
  const double q = heads * attention.q_dim();
  const double rank = attention.q_rank;
  double count = attention.q_rank > 0 ? rank * d + rank + q * rank : q * d;
  count += attention.cached() * d + attention.kv_rank;
  count += heads * (static_cast<double>(attention.nope_dim) + attention.v_dim) * attention.kv_rank;
  return count + d * heads * attention.v_dim;
}

double norm_parameters(const ModelSpec& spec) { return (spec.norm == NormKind::layer ? 2.0 : 1.0) * spec.d_model; }

double kv_values(const AttentionSpec& attention) { return 2.0 * attention.n_kv_heads * attention.head_dim; }
double kv_values(const LatentAttentionSpec& attention) { return attention.cached(); }
double kv_values(const DeltaNetSpec&) { return 0; }
double kv_values(const ShortConvSpec&) { return 0; }

}  // namespace

ParameterCount layer_parameters(const ModelSpec& spec, const LayerSpec& layer) {
  const double d = spec.d_model;
  double always = 2 * norm_parameters(spec);
  always += std::visit([&](const auto& mixer) { return mixer_parameters(d, mixer); }, layer.mixer);
  if (const auto* dense = std::get_if<DenseFfn>(&layer.ffn)) {
    always += 3.0 * d * dense->d_ff;
    return {always, always, 0};
  }
  const auto& moe = std::get<MoeFfn>(layer.ffn);
  always += (d + (moe.router.bias ? 1 : 0) + (moe.router.correction ? 1 : 0)) * moe.router.n_experts;
  always += 3.0 * d * moe.shared_d_ff + (moe.shared_gate ? d : 0);
  const double expert = 3.0 * d * moe.d_ff + (moe.biases ? d + 2.0 * moe.d_ff : 0);
  const double experts = moe.router.n_experts * expert;
  return {always + experts, always + moe.router.top_k * expert, experts};
}

ParameterCount model_parameters(const ModelSpec& spec) {
  const double tables = static_cast<double>(spec.vocab) * spec.d_model * (spec.tied_embeddings ? 1 : 2) +
                        norm_parameters(spec) + (spec.head_bias ? spec.vocab : 0);
  ParameterCount count{tables, tables, 0};
  for (const LayerSpec& layer : spec.layers) {
    const ParameterCount of_layer = layer_parameters(spec, layer);
    count.total += of_layer.total;
    count.active += of_layer.active;
    count.experts += of_layer.experts;
  }
  return count;
}

double kv_values_per_token(const ModelSpec& spec) {
  double values = 0;
  for (const LayerSpec& layer : spec.layers)
    values += std::visit([](const auto& mixer) { return kv_values(mixer); }, layer.mixer);
  return values;
}

double state_floats(const ModelSpec& spec) {
  double floats = 0;
  for (const KvGroupSpec& group : spec.kv_groups)
    floats += static_cast<double>(group.state_floats) * static_cast<double>(group.layers.size());
  return floats;
}

}  // namespace colibri
