// SPDX-License-Identifier: Apache-2.0
// Layout runs twice over the same code: once from address 0 to learn the size, once from where the memory is.
#include "model/weights.h"

#include <cstdint>
#include <cstdio>

namespace colibri {
namespace {

constexpr std::size_t kAlignment = 64;

/// Hands out places one after another. Integers, since the first walk has no memory to point into.
class Arena {
 public:
  explicit Arena(const std::byte* start) : start_(reinterpret_cast<std::uintptr_t>(start)), next_(start_) {}

  Matrix matrix(int rows, int cols) {
    return {reinterpret_cast<const std::byte*>(take(matrix_bytes(rows, cols))), rows, cols};
  }
  std::span<float> floats(int count) {
    const auto size = static_cast<std::size_t>(count);
    return {reinterpret_cast<float*>(take(size * sizeof(float))), size};
  }
  std::size_t used() const { return next_ - start_; }

 private:
  std::uintptr_t take(std::size_t bytes) {
    const std::uintptr_t place = next_;
    next_ += round_up(bytes, kAlignment);
    return place;
  }

  std::uintptr_t start_;
  std::uintptr_t next_;
};

AttentionWeights lay_out(const ModelSpec& spec, const AttentionSpec& attention, Arena& arena) {
  const int q = attention.q_cols();
  const int kv = attention.kv_cols();
  AttentionWeights weights;
  weights.wqkv = arena.matrix(attention.projected(), spec.d_model);
  weights.wo = arena.matrix(spec.d_model, q);
  if (attention.sinks) weights.sinks = arena.floats(attention.n_heads);
  if (attention.qkv_bias) weights.qkv_bias = arena.floats(attention.projected());
  if (attention.o_bias) weights.o_bias = arena.floats(spec.d_model);
  if (norms_each_head(attention.qk_norm)) {
    weights.q_norm = arena.floats(attention.head_dim);
    weights.k_norm = arena.floats(attention.head_dim);
  }
  if (attention.qk_norm == QkNorm::full) {
    weights.q_norm = arena.floats(q);
    weights.k_norm = arena.floats(kv);
  }
  return weights;
}

DeltaNetWeights lay_out(const ModelSpec& spec, const DeltaNetSpec& net, Arena& arena) {
  DeltaNetWeights weights;
  weights.in = arena.matrix(net.projected(), spec.d_model);
  weights.conv = arena.floats(net.conv_width * net.conv_cols());
  weights.a_log = arena.floats(net.n_v_heads);
  weights.dt_bias = arena.floats(net.n_v_heads);
  weights.norm = arena.floats(net.v_dim);
  weights.out = arena.matrix(spec.d_model, net.value_cols());
  return weights;
}

ShortConvWeights lay_out(const ModelSpec& spec, const ShortConvSpec& conv, Arena& arena) {
  ShortConvWeights weights;
  weights.in = arena.matrix(3 * conv.channels, spec.d_model);
  weights.conv = arena.floats(conv.width * conv.channels);
  weights.out = arena.matrix(spec.d_model, conv.channels);
  if (conv.bias) {
    weights.in_bias = arena.floats(3 * conv.channels);
    weights.conv_bias = arena.floats(conv.channels);
    weights.out_bias = arena.floats(spec.d_model);
  }
  return weights;
}

LatentAttentionWeights lay_out(const ModelSpec& spec, const LatentAttentionSpec& attention, Arena& arena) {
  const int queries = attention.n_heads * attention.q_dim();
  const bool q_latent = attention.q_rank > 0;
  LatentAttentionWeights weights;
  weights.down = arena.matrix((q_latent ? attention.q_rank : queries) + attention.cached(), spec.d_model);
  if (q_latent) {
    weights.q_norm = arena.floats(attention.q_rank);
    weights.q_up = arena.matrix(queries, attention.q_rank);
  }
  weights.kv_norm = arena.floats(attention.kv_rank);
  for (int h = 0; h < attention.n_heads; ++h) {
    weights.k_up.push_back(arena.matrix(attention.kv_rank, attention.nope_dim));
    weights.v_up.push_back(arena.matrix(attention.v_dim, attention.kv_rank));
  }
  weights.wo = arena.matrix(spec.d_model, attention.n_heads * attention.v_dim);
  return weights;
}

ExpertShape expert_shape(const ModelSpec& spec, const MoeFfn& ffn) { return {spec.d_model, ffn.d_ff, ffn.biases}; }

MoeWeights lay_out(const ModelSpec& spec, const MoeFfn& ffn, Arena& arena) {
  MoeWeights moe;
  moe.router = arena.matrix(ffn.router.n_experts, spec.d_model);
  if (ffn.router.bias) moe.router_bias = arena.floats(ffn.router.n_experts);
  if (ffn.router.correction) moe.router_correction = arena.floats(ffn.router.n_experts);
  moe.expert_shape = expert_shape(spec, ffn);
  if (ffn.shared_d_ff > 0) {
    moe.shared_gate_up = arena.matrix(2 * ffn.shared_d_ff, spec.d_model);
    moe.shared_down = arena.matrix(spec.d_model, ffn.shared_d_ff);
  }
  if (ffn.shared_gate) moe.shared_gate = arena.matrix(1, spec.d_model);
  return moe;
}

std::size_t n_experts(const MoeWeights& moe) { return static_cast<std::size_t>(moe.router.rows); }

std::size_t slab_bytes(const ModelSpec& spec, const LayerSpec& layer) {
  const auto* moe = std::get_if<MoeFfn>(&layer.ffn);
  if (moe == nullptr) return 0;
  return expert_shape(spec, *moe).record_bytes() * static_cast<std::size_t>(moe->router.n_experts);
}

/// f(MoE layer, its slab) in order.
template <class Weights, class F>
void for_each_slab(Weights& weights, F f) {
  auto slab = weights.expert_slabs.begin();
  for (auto& layer : weights.layers)
    if (auto* moe = std::get_if<MoeWeights>(&layer.ffn)) f(*moe, *slab++);
}

}  // namespace

std::size_t lay_out_dense(const ModelSpec& spec, const std::byte* start, ModelWeights& weights) {
  Arena arena(start);
  weights.embedding = arena.matrix(spec.vocab, spec.d_model);
  weights.head = spec.tied_embeddings ? weights.embedding : arena.matrix(spec.vocab, spec.d_model);
  weights.final_norm = arena.floats(spec.d_model);
  if (spec.norm == NormKind::layer) weights.final_norm_bias = arena.floats(spec.d_model);
  if (spec.head_bias) weights.head_bias = arena.floats(spec.vocab);
  weights.layers.clear();
  for (const LayerSpec& layer_spec : spec.layers) {
    LayerWeights layer;
    layer.attn_norm = arena.floats(spec.d_model);
    layer.ffn_norm = arena.floats(spec.d_model);
    if (spec.norm == NormKind::layer) {
      layer.attn_norm_bias = arena.floats(spec.d_model);
      layer.ffn_norm_bias = arena.floats(spec.d_model);
    }
    std::visit([&](const auto& mixer) { layer.mixer = lay_out(spec, mixer, arena); }, layer_spec.mixer);
    if (const auto* dense = std::get_if<DenseFfn>(&layer_spec.ffn)) {
      layer.ffn = DenseWeights{arena.matrix(2 * dense->d_ff, spec.d_model), arena.matrix(spec.d_model, dense->d_ff)};
    } else {
      layer.ffn = lay_out(spec, std::get<MoeFfn>(layer_spec.ffn), arena);
    }
    weights.layers.push_back(std::move(layer));
  }
  return arena.used();
}

std::size_t ModelWeights::bytes() const {
  std::size_t sum = dense.size();
  for (const Buffer& slab : expert_slabs) sum += slab.size();
  return sum;
}

std::string bytes_text(double bytes) {
  char text[32];
  if (bytes >= 1e9) {
    std::snprintf(text, sizeof text, "%.2f GB", bytes / 1e9);
  } else {
    std::snprintf(text, sizeof text, "%.1f MB", bytes / 1e6);
  }
  return text;
}

Status check_budget(const ModelWeights& weights, std::size_t budget) {
  if (weights.bytes() <= budget) return {};
  return Error{Exit::config, "the weights need " + bytes_text(static_cast<double>(weights.bytes())) +
                                 " of memory and " + bytes_text(static_cast<double>(budget)) +
                                 " are available (--ram-budget); use a smaller model or a machine with more memory"};
}

Result<Buffer> make_record_tables(const ModelWeights& weights) {
  std::size_t count = 0;
  for_each_slab(weights, [&](const MoeWeights& moe, const Buffer&) { count += n_experts(moe); });
  TRY(tables, Buffer::allocate(count * sizeof(std::byte*), "the experts' table"));
  auto* next = reinterpret_cast<const std::byte**>(tables.data());
  for_each_slab(weights, [&](const MoeWeights& moe, const Buffer& slab) {
    for (std::size_t e = 0; e < n_experts(moe); ++e) *next++ = slab.data() + e * moe.expert_shape.record_bytes();
  });
  return std::move(tables);
}

void set_record_tables(ModelWeights& weights, Buffer tables) {
  auto* next = reinterpret_cast<const std::byte**>(tables.data());
  for_each_slab(weights, [&](MoeWeights& moe, const Buffer&) {
    moe.records = {next, n_experts(moe)};
    next += n_experts(moe);
  });
  weights.record_tables = std::move(tables);
}

Result<ModelWeights> allocate_weights(const ModelSpec& spec) {
  ModelWeights weights;
  const std::size_t dense_bytes = lay_out_dense(spec, nullptr, weights);
  TRY(dense, Buffer::allocate(dense_bytes, "the weights"));
  lay_out_dense(spec, dense.data(), weights);
  weights.dense = std::move(dense);
  for (std::size_t i = 0; i < spec.layers.size(); ++i) {
    if (!std::holds_alternative<MoeWeights>(weights.layers[i].ffn)) continue;
    TRY(slab, Buffer::allocate(slab_bytes(spec, spec.layers[i]), "the experts"));
    weights.expert_slabs.push_back(std::move(slab));
  }
  TRY(tables, make_record_tables(weights));
  set_record_tables(weights, std::move(tables));
  return weights;
}

}  // namespace colibri
