// SPDX-License-Identifier: Apache-2.0
// A model's weights in memory, as kernels read them.
// Invariant: matrices and vectors lie in `dense`, 64-byte aligned; records in `expert_slabs`, 256-byte aligned and one
// after another by expert id, one slab per MoE layer. So a model moves to other memory by copying those blocks, laying
// out again and making new record tables.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "base/memory.h"
#include "core/expert_table.h"
#include "core/matrix.h"
#include "core/spec.h"

namespace colibri {

struct DenseWeights {
  Matrix gate_up;  // [2 * d_ff, d_model], rows gate | up
  Matrix down;     // [d_model, d_ff]
};

struct MoeWeights {
  Matrix router;                       // [n_experts, d_model]
  std::span<float> router_bias;        // [n_experts] or empty
  std::span<float> router_correction;  // [n_experts] or empty
  ExpertShape expert_shape;
  std::span<const std::byte*> records;  // [n_experts]
  Matrix shared_gate_up;                // [2 * shared_d_ff, d_model]; no rows: no shared expert
  Matrix shared_down;                   // [d_model, shared_d_ff]
  Matrix shared_gate;                   // [1, d_model]; no rows: no gate

  ExpertTable experts(const Activation& activation = {}) const { return {expert_shape, records, activation}; }
};

struct AttentionWeights {
  Matrix wqkv;                // [AttentionSpec::projected(), d_model], rows q | k | v | output gate
  std::span<float> qkv_bias;  // [wqkv.rows] or empty
  Matrix wo;                  // [d_model, n_heads * head_dim]
  std::span<float> o_bias;    // [d_model] or empty
  std::span<float> q_norm;    // [head_dim], or [n_heads * head_dim] for QkNorm::full, or empty
  std::span<float> k_norm;    // [head_dim], or [n_kv_heads * head_dim], or empty
  std::span<float> sinks;     // [n_heads] or empty
};

struct LatentAttentionWeights {
  Matrix down;               // [queries + kv_rank + rope_dim, d_model], rows queries | latent | rotary key; the
                             // queries are their latent, q_rank, where there is one, else n_heads * q_dim
  std::span<float> q_norm;   // [q_rank] or empty
  Matrix q_up;               // [n_heads * q_dim, q_rank]; no rows: `down` gives the queries
  std::span<float> kv_norm;  // [kv_rank]
  std::vector<Matrix> k_up;  // [n_heads] of [kv_rank, nope_dim]: from a query into the latents' space
  std::vector<Matrix> v_up;  // [n_heads] of [v_dim, kv_rank]: from a sum of latents to values
  Matrix wo;                 // [d_model, n_heads * v_dim]
};

struct DeltaNetWeights {
  Matrix in;                 // [DeltaNetSpec::projected(), d_model], rows q | k | v | z | b | a
  std::span<float> conv;     // [conv_width, conv_cols]
  std::span<float> a_log;    // [n_v_heads]
  std::span<float> dt_bias;  // [n_v_heads]
  std::span<float> norm;     // [v_dim]
  Matrix out;                // [d_model, value_cols]
};

struct ShortConvWeights {
  Matrix in;                   // [3 * d_model, d_model], rows b | c | x
  std::span<float> in_bias;    // [3 * d_model] or empty
  std::span<float> conv;       // [width, d_model]
  std::span<float> conv_bias;  // [d_model] or empty
  Matrix out;                  // [d_model, d_model]
  std::span<float> out_bias;   // [d_model] or empty
};

/// The alternative of the layer's MixerSpec.
using MixerWeights = std::variant<AttentionWeights, LatentAttentionWeights, DeltaNetWeights, ShortConvWeights>;

struct LayerWeights {
  std::span<float> attn_norm;       // [d_model]
  std::span<float> attn_norm_bias;  // [d_model], or empty for NormKind::rms
  MixerWeights mixer;
  std::span<float> ffn_norm;       // [d_model]
  std::span<float> ffn_norm_bias;  // like attn_norm_bias
  std::variant<DenseWeights, MoeWeights> ffn;
};

struct ModelWeights {
  Matrix embedding;                  // [vocab, d_model]
  Matrix head;                       // [vocab, d_model]; the embedding itself where they are tied
  std::span<float> head_bias;        // [vocab] or empty
  std::span<float> final_norm;       // [d_model]
  std::span<float> final_norm_bias;  // like attn_norm_bias
  std::vector<LayerWeights> layers;

  Buffer dense;
  std::vector<Buffer> expert_slabs;
  Buffer record_tables;  // the lists of records, one layer after another

  std::size_t bytes() const;  // of both
};

/// Sets all shapes, and the places of matrices and vectors as in a dense arena that begins at `start`; returns its
/// bytes and writes none of them.
std::size_t lay_out_dense(const ModelSpec& spec, const std::byte* start, ModelWeights& weights);

/// The lists of records for the slabs as they are now, in host memory; and where kernels find them.
Result<Buffer> make_record_tables(const ModelWeights& weights);
void set_record_tables(ModelWeights& weights, Buffer tables);

/// Sets all shapes and places and maps the memory, zeroed and not yet resident; norms and biases are 0.
Result<ModelWeights> allocate_weights(const ModelSpec& spec);

/// Error 78 with the numbers where the weights are more than `budget` bytes. Nothing is resident before they are
/// filled.
Status check_budget(const ModelWeights& weights, std::size_t budget);

/// `bytes` for people: "61.06 GB".
std::string bytes_text(double bytes);

}  // namespace colibri
