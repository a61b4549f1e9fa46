// SPDX-License-Identifier: Apache-2.0
// What a model is, as data: the forward pass reads this and never the family's name.
// Invariant: a ModelSpec that left model/config.h is consistent; every size is positive and bounded (see kMax...).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace colibri {

inline constexpr int kMaxLayers = 4096;
inline constexpr int kMaxExperts = 65536;
inline constexpr int kMaxTopK = 64;
inline constexpr int kMaxWidth = 1 << 20;  // hidden sizes, heads x head_dim, vocabulary is bounded by kMaxVocab
inline constexpr int kMaxVocab = 1 << 24;

/// Rotary embedding, ready to use: angle of pair i at position p is p * inv_freq[i]; cos and sin are scaled.
/// Pair i is (i, i + dim/2) ("half" order of Hugging Face). Only the first `dim` values of a head turn.
struct RopeSpec {
  int dim = 0;                  // head_dim * partial_rotary_factor
  std::vector<float> inv_freq;  // [dim / 2]
  float scale = 1.0F;           // attention factor of yarn
};

enum class QkNorm : std::uint8_t {
  none,
  per_head,  // RMSNorm over head_dim, weights [head_dim] (Qwen3)
  full,      // RMSNorm over all heads together, weights [n_heads * head_dim] (OLMoE)
};

/// Grouped-query attention over a paged KV cache.
struct AttentionSpec {
  int n_heads = 0;
  int n_kv_heads = 0;
  int head_dim = 0;
  float scale = 0.0F;  // of q.k, usually head_dim ^ -0.5
  bool qkv_bias = false;
  bool o_bias = false;
  QkNorm qk_norm = QkNorm::none;
  int window = 0;    // a token sees itself and the window - 1 before it; 0: all
  int kv_group = 0;  // index of the KV pool's layer group
  RopeSpec rope;
};

/// Which experts a token wakes. Scores are a softmax over all experts in fp32, then the top_k largest (ties: lower id).
struct RouterSpec {
  int n_experts = 0;
  int top_k = 0;
  bool norm_topk = false;  // the chosen scores are divided by their sum (norm_topk_prob)
};

/// One SwiGLU: down(silu(gate x) * (up x)).
struct DenseFfn {
  int d_ff = 0;
};

struct MoeFfn {
  RouterSpec router;
  int d_ff = 0;              // moe_intermediate_size, of one expert
  int shared_d_ff = 0;       // shared expert beside the routed ones; 0: none
  bool shared_gate = false;  // the shared expert's output is times sigmoid(w . x)
};

struct LayerSpec {
  AttentionSpec attention;
  std::variant<DenseFfn, MoeFfn> ffn;
};

/// How the KV cache of a set of layers behaves: all of its layers have the same shape and window.
struct KvGroupSpec {
  int n_kv_heads = 0;
  int head_dim = 0;
  int window = 0;           // 0: full attention
  std::vector<int> layers;  // ascending
};

struct ModelSpec {
  std::string family;     // config.json model_type
  int vocab = 0;          // rows of the embedding
  int d_model = 0;        // hidden_size
  int context = 0;        // max_position_embeddings
  float norm_eps = 0.0F;  // of every RMSNorm
  bool tied_embeddings = false;
  std::vector<LayerSpec> layers;
  std::vector<KvGroupSpec> kv_groups;
};

}  // namespace colibri
