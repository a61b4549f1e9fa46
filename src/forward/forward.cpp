// SPDX-License-Identifier: Apache-2.0
// A layer is: norm, attention, residual; norm, feed-forward, residual. Experts are route, resolve, compute; resolve
// does nothing here, since every record is resident.
#include "forward/forward.h"

namespace colibri {
namespace {

struct Pass {
  Backend& backend;
  const ModelSpec& spec;
  const Batch& batch;
  const KvPool& pool;
  Scratch& scratch;

  int rows() const { return batch.rows(); }
  Rows piece(float* data, int cols) const { return {data, rows(), cols}; }

  void norm(ConstRows in, std::span<const float> weight, std::span<const float> bias, Rows out) {
    if (spec.norm == NormKind::layer) {
      backend.layer_norm(in, weight, bias, spec.norm_eps, out);
    } else {
      backend.rms_norm(in, weight, spec.norm_eps, out);
    }
  }

  void mix(const AttentionSpec& a, const MixerWeights& mixer, int layer, Rows x, Rows h) {
    const auto& w = std::get<AttentionWeights>(mixer);
    const int q_cols = a.q_cols();
    const int kv_cols = a.kv_cols();
    const Rows qkv = piece(scratch.projected, a.projected());
    const Rows q = qkv.columns(0, q_cols);
    const KvView& kv = pool.view(layer);
    backend.linear(h, w.wqkv, w.qkv_bias, false, qkv);
    backend.rope_and_store(q, qkv.columns(q_cols, kv_cols), qkv.columns(q_cols + kv_cols, kv_cols), a, w.q_norm,
                           w.k_norm, spec.norm_eps, batch, kv);
    const Rows out = piece(scratch.mixed, q_cols);
    backend.attention(q, a, w.sinks, batch, kv, out);
    if (a.output_gate) backend.sigmoid_mul(out, qkv.columns(q_cols + 2 * kv_cols, q_cols), out);
    backend.linear(out, w.wo, w.o_bias, true, x);
  }

  void mix(const DeltaNetSpec& net, const MixerWeights& mixer, int layer, Rows x, Rows h) {
    const auto& w = std::get<DeltaNetWeights>(mixer);
    const int gates_at = net.conv_cols() + net.value_cols();
    const Rows in = piece(scratch.projected, net.projected());
    const Rows qkv = piece(scratch.mixed, net.conv_cols());
    const Rows out = piece(qkv.data + std::ptrdiff_t{rows()} * net.conv_cols(), net.value_cols());
    const Rows heads(out.data, rows() * net.n_v_heads, net.v_dim);  // the same, a head a row
    const StateView& state = pool.state(layer);
    backend.linear(h, w.in, {}, false, in);
    backend.short_conv(in.columns(0, net.conv_cols()), w.conv, {}, batch, state, net.kv_group, qkv);
    backend.sigmoid_mul(qkv, qkv, qkv);  // silu
    backend.delta_rule(qkv, in.columns(gates_at, 2 * net.n_v_heads), net, w.a_log, w.dt_bias, batch, state, out);
    backend.rms_norm(heads, w.norm, spec.norm_eps, heads);
    backend.silu_mul(in.columns(net.conv_cols(), net.value_cols()), out, out);
    backend.linear(out, w.out, {}, true, x);
  }

  void mix(const ShortConvSpec& conv, const MixerWeights& mixer, int layer, Rows x, Rows h) {
    const auto& w = std::get<ShortConvWeights>(mixer);
    const Rows in = piece(scratch.projected, 3 * conv.channels);
    const Rows b = in.columns(0, conv.channels);
    const Rows c = in.columns(conv.channels, conv.channels);
    const Rows out = piece(scratch.mixed, conv.channels);
    backend.linear(h, w.in, w.in_bias, false, in);
    backend.multiply(b, in.columns(2 * conv.channels, conv.channels), b);
    backend.short_conv(b, w.conv, w.conv_bias, batch, pool.state(layer), conv.kv_group, out);
    backend.multiply(c, out, out);
    backend.linear(out, w.out, w.out_bias, true, x);
  }

  /// Queries go into the latents' space, where they meet the cache, and its weighted sums come back as values.
  void mix(const LatentAttentionSpec& a, const MixerWeights& mixer, int layer, Rows x, Rows h) {
    const auto& w = std::get<LatentAttentionWeights>(mixer);
    const int q_cols = w.down.rows - a.cached();
    const Rows down = piece(scratch.projected, w.down.rows);
    float* next = scratch.mixed;
    const auto take = [&](int cols) {
      const Rows taken = piece(next, cols);
      next += std::ptrdiff_t{rows()} * cols;
      return taken;
    };
    backend.linear(h, w.down, {}, false, down);
    Rows q = down.columns(0, q_cols);
    if (a.q_rank > 0) {
      backend.rms_norm(q, w.q_norm, a.norm_eps, q);
      const Rows queries = take(w.q_up.rows);
      backend.linear(q, w.q_up, {}, false, queries);
      q = queries;
    }
    const Rows latent_queries = take(a.n_heads * a.cached());
    const LatentView& cache = pool.latents(layer);
    backend.latent_rope_and_store(q, down.columns(q_cols, a.cached()), a, w.kv_norm, batch, cache, latent_queries);
    for (int i = 0; i < a.n_heads; ++i) {
      backend.linear(q.columns(i * a.q_dim(), a.nope_dim), w.k_up[static_cast<std::size_t>(i)], {}, false,
                     latent_queries.columns(i * a.cached(), a.kv_rank));
    }
    const Rows sums = take(a.n_heads * a.kv_rank);
    backend.latent_attention(latent_queries, a, batch, cache, sums);
    const Rows out = take(a.n_heads * a.v_dim);
    for (int i = 0; i < a.n_heads; ++i) {
      backend.linear(sums.columns(i * a.kv_rank, a.kv_rank), w.v_up[static_cast<std::size_t>(i)], {}, false,
                     out.columns(i * a.v_dim, a.v_dim));
    }
    backend.linear(out, w.wo, {}, true, x);
  }

  /// out = or += down(silu(gate h) * (up h))
  void dense(const Matrix& gate_up, const Matrix& down, bool accumulate, Rows h, Rows out) {
    const int d_ff = down.cols;
    const Rows both = piece(scratch.ffn, 2 * d_ff);
    const Rows gate = both.columns(0, d_ff);
    backend.linear(h, gate_up, {}, false, both);
    backend.silu_mul(gate, both.columns(d_ff, d_ff), gate);
    backend.linear(gate, down, {}, accumulate, out);
  }

  void moe(const MoeFfn& m, const MoeWeights& w, Rows x, Rows h) {
    const auto pairs = static_cast<std::size_t>(rows()) * static_cast<std::size_t>(m.router.top_k);
    const Routing routing{m.router.top_k, {scratch.expert_ids, pairs}, {scratch.expert_weights, pairs}};
    backend.route(h, {w.router, w.router_bias, w.router_correction}, m.router, routing);
    backend.experts(h, routing, w.experts(m.activation), x);
    if (m.shared_d_ff == 0) return;
    const Rows shared = piece(scratch.shared, spec.d_model);
    dense(w.shared_gate_up, w.shared_down, false, h, shared);
    const Rows gate = piece(scratch.gate, w.shared_gate.rows);
    if (m.shared_gate) backend.linear(h, w.shared_gate, {}, false, gate);
    backend.add_gated(shared, gate, x);
  }
};

void enqueue(Backend& backend, const Model& model, const Batch& batch, const KvPool& pool, Scratch& scratch,
             Rows logits) {
  const ModelSpec& spec = model.spec;
  const ModelWeights& weights = model.weights;
  Pass pass{backend, spec, batch, pool, scratch};
  const Rows x = pass.piece(scratch.x, spec.d_model);
  const Rows h = pass.piece(scratch.h, spec.d_model);
  backend.embed(batch, weights.embedding, x);
  if (spec.embedding_scale != 1.0F) backend.scale(x, spec.embedding_scale);
  for (std::size_t i = 0; i < spec.layers.size(); ++i) {
    const LayerSpec& layer = spec.layers[i];
    const LayerWeights& w = weights.layers[i];
    pass.norm(x, w.attn_norm, w.attn_norm_bias, h);
    std::visit([&](const auto& mixer) { pass.mix(mixer, w.mixer, static_cast<int>(i), x, h); }, layer.mixer);
    pass.norm(x, w.ffn_norm, w.ffn_norm_bias, h);
    if (const auto* moe = std::get_if<MoeFfn>(&layer.ffn)) {
      pass.moe(*moe, std::get<MoeWeights>(w.ffn), x, h);
    } else {
      const auto& dense = std::get<DenseWeights>(w.ffn);
      pass.dense(dense.gate_up, dense.down, true, h, x);
    }
  }
  const Rows last(scratch.last, logits.rows, spec.d_model);
  backend.gather(x, batch, last);
  pass.norm(last, weights.final_norm, weights.final_norm_bias, last);
  backend.linear(last, weights.head, weights.head_bias, false, logits);
  if (spec.logit_scale != 1.0F) backend.scale(logits, spec.logit_scale);
}

}  // namespace

void forward(Backend& backend, const Model& model, const Batch& batch, const KvPool& pool, Scratch& scratch,
             Rows logits) {
  CHECK(batch.rows() <= scratch.max_rows);
  CHECK(logits.rows == static_cast<int>(batch.logit_rows.size()) && logits.cols == model.spec.vocab);
  CHECK(logits.rows <= scratch.max_logit_rows);
  backend.begin(batch);
  const auto rows = static_cast<std::size_t>(batch.rows());
  // As many sequences as rows is a row each, and as many logits is all of them.
  const bool decode = batch.sequences.size() == rows && batch.logit_rows.size() == rows;
  if (decode && rows >= 1 && rows <= scratch.captured.size()) {
    backend.replay(*scratch.captured[rows - 1]);
  } else {
    enqueue(backend, model, batch, pool, scratch, logits);
  }
}

void capture_decode(Backend& backend, const Model& model, const KvPool& pool, Scratch& scratch, Rows logits) {
  std::vector<std::int32_t> numbers;  // none of them matters to what is captured
  std::vector<SequenceRows> sequences;
  for (int n = 1; n <= logits.rows; ++n) {
    numbers.push_back(0);
    sequences.push_back({n - 1, 1, 0, {}});
    const Batch batch{numbers, numbers, sequences, numbers};
    auto step = backend.capture([&] { enqueue(backend, model, batch, pool, scratch, logits.slice(0, n)); });
    if (step == nullptr) return;
    scratch.captured.push_back(std::move(step));
  }
}

}  // namespace colibri
