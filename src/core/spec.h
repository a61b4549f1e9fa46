// SPDX-License-Identifier: Apache-2.0
// What a model is, as data: the forward pass reads this and never the family's name.
// Invariant: a ModelSpec that left model/config.h is consistent; every size is positive and bounded (see kMax...).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace colibri {

inline constexpr int kMaxLayers = 4096;
inline constexpr int kMaxExperts = 65536;
inline constexpr int kMaxTopK = 64;
inline constexpr int kMaxExpertGroups = 256;
inline constexpr int kMaxWidth = 1 << 20;  // hidden sizes, heads x head_dim, vocabulary is bounded by kMaxVocab
inline constexpr int kMaxVocab = 1 << 24;

/// Which values turn together: i and i + dim/2, or 2i and 2i + 1.
enum class RopePairs : std::uint8_t { halves, neighbours };

/// longrope's other rotations (arXiv 2402.13753), of all positions of a text that outgrows the model's usual context.
struct LongRope {
  int context = 0;              // that they hold for; 0: there are none
  std::vector<float> inv_freq;  // as in RopeSpec
  float scale = 1.0F;
};

/// Rotary embedding, ready to use: angle of pair i at position p is p * inv_freq[i]; cos and sin are scaled. Only the
/// first `dim` values of a head turn.
struct RopeSpec {
  int dim = 0;                  // head_dim * partial_rotary_factor
  std::vector<float> inv_freq;  // [dim / 2]
  float scale = 1.0F;           // attention factor of yarn
  RopePairs pairs = RopePairs::halves;
  LongRope beyond;
};

enum class QkNorm : std::uint8_t {
  none,
  per_head,         // RMSNorm over head_dim, weights [head_dim] (Qwen3)
  full,             // RMSNorm over all heads together, weights [n_heads * head_dim] (OLMoE)
  per_head_turned,  // per_head, after the rotation
};

constexpr bool norms_each_head(QkNorm norm) { return norm == QkNorm::per_head || norm == QkNorm::per_head_turned; }

/// Grouped-query attention over a paged KV cache.
struct AttentionSpec {
  int n_heads = 0;
  int n_kv_heads = 0;
  int head_dim = 0;
  float scale = 0.0F;  // of q.k, usually head_dim ^ -0.5
  bool qkv_bias = false;
  bool o_bias = false;
  bool sinks = false;        // each head's softmax has one more score, whose value is 0
  bool output_gate = false;  // each head's output is times sigmoid of a second projection beside q
  QkNorm qk_norm = QkNorm::none;
  int window = 0;    // a token sees itself and the window - 1 before it; 0: all
  int kv_group = 0;  // index of the KV pool's layer group
  RopeSpec rope;

  int q_cols() const { return n_heads * head_dim; }
  int kv_cols() const { return n_kv_heads * head_dim; }
  /// Columns of the projection: q | k | v | gate.
  int projected() const { return (output_gate ? 2 : 1) * q_cols() + 2 * kv_cols(); }
};

/// count * cols floats, rounded up to whole lines of 64 bytes.
constexpr std::size_t whole_lines(std::size_t count, int cols) {
  return (count * static_cast<std::size_t>(cols) + 15) / 16 * 16;
}

/// Multi-head latent attention (arXiv 2405.04434): a token's keys and values are projections of one normalised latent,
/// which all heads share, beside one rotary key. Only latent and rotary key are cached: keys need no projecting, since
/// q . (K c) is (K^T q) . c, nor values before they are summed.
struct LatentAttentionSpec {
  int n_heads = 0;
  int q_rank = 0;    // of the queries' own latent; 0: queries come straight from the hidden state
  int kv_rank = 0;   // of the latent
  int nope_dim = 0;  // values of a query that meet the latent's key
  int rope_dim = 0;  // and those that meet the rotary key
  int v_dim = 0;
  float scale = 0.0F;     // of q.k
  float norm_eps = 0.0F;  // of the latents' RMSNorms
  int kv_group = 0;       // index of the KV pool's layer group
  RopeSpec rope;

  int q_dim() const { return nope_dim + rope_dim; }
  int cached() const { return kv_rank + rope_dim; }  // values a token: latent | rotary key
};

/// Gated delta net (arXiv 2412.06464): q, k and v pass a causal depthwise convolution and silu; each value head keeps a
/// matrix [k_dim, v_dim] that decays, forgets what it held under k and learns v. Value head h reads key head
/// h / (n_v_heads / n_k_heads); its output is normalised and gated.
struct DeltaNetSpec {
  int n_k_heads = 0;
  int n_v_heads = 0;
  int k_dim = 0;
  int v_dim = 0;
  int conv_width = 0;
  int kv_group = 0;  // index of the KV pool's layer group

  int key_cols() const { return n_k_heads * k_dim; }
  int value_cols() const { return n_v_heads * v_dim; }
  int conv_cols() const { return 2 * key_cols() + value_cols(); }
  /// Columns of the projection: q | k | v, all three convolved, | z, the output's gate, | b | a.
  int projected() const { return conv_cols() + value_cols() + 2 * n_v_heads; }
  /// A layer's slot: the convolution's window, [conv_width - 1][conv_cols] and padding, then [n_v_heads][k_dim] rows of
  /// the matrices, each of matrix_stride() floats.
  std::size_t window_floats() const { return whole_lines(static_cast<std::size_t>(conv_width - 1), conv_cols()); }
  std::size_t matrix_stride() const { return whole_lines(1, v_dim); }
  std::size_t state_floats() const {
    return window_floats() + static_cast<std::size_t>(n_v_heads) * static_cast<std::size_t>(k_dim) * matrix_stride();
  }
};

/// Gated short convolution (LFM2): b, c and x are projections; out = c * conv(b * x), channel by channel.
struct ShortConvSpec {
  int channels = 0;   // d_model
  int width = 0;      // at least 2
  bool bias = false;  // of the convolution and both projections
  int kv_group = 0;

  /// A layer's slot: the window, [width - 1][channels] and padding.
  std::size_t state_floats() const { return whole_lines(static_cast<std::size_t>(width - 1), channels); }
};

/// From a router's logits to the scores of the experts.
enum class RouterScore : std::uint8_t {
  softmax,       // over all experts; with norm_topk that is also the softmax of the chosen logits alone
  sigmoid,       // of each
  sparse_mixer,  // top_k of 2, each a softmax over the experts near the best that is left (arXiv 2409.12136)
};

/// What a group of experts is worth.
enum class GroupScore : std::uint8_t { best, best_two };

/// Which experts a token wakes: the top_k largest scores, in fp32 (ties: lower id). The choice, not the weights, adds
/// a correction to the scores; then only the best groups of experts take part.
struct RouterSpec {
  int n_experts = 0;
  int top_k = 0;
  bool norm_topk = false;  // the chosen scores are divided by their sum (norm_topk_prob)
  RouterScore score = RouterScore::softmax;
  bool bias = false;        // of the logits
  bool correction = false;  // e_score_correction_bias
  int n_groups = 1;         // of consecutive experts; divides n_experts
  int top_groups = 1;       // that take part; together they have top_k experts
  GroupScore group_score = GroupScore::best;
  float scale = 1.0F;       // of the weights, at the end (routed_scaling_factor)
  float norm_min = 1e-20F;  // what norm_topk divides by is at least this
  float jitter = 0.0F;      // sparse_mixer: experts within 2 * jitter of the best, relatively, are near
};

/// What makes hidden values of gate and up: silu(gate) * up.
struct SiluGate {};

/// g * sigmoid(alpha * g) * (u + 1), where g is gate but limit at most, and u is up within +-limit (gpt-oss).
struct ClampedGate {
  float alpha = 0.0F;
  float limit = 0.0F;
};

using Activation = std::variant<SiluGate, ClampedGate>;

/// One SwiGLU: down(silu(gate x) * (up x)).
struct DenseFfn {
  int d_ff = 0;
};

struct MoeFfn {
  RouterSpec router;
  int d_ff = 0;                // moe_intermediate_size, of one expert
  bool biases = false;         // of every expert's gate, up and down
  Activation activation = {};  // of the routed experts
  int shared_d_ff = 0;         // shared expert beside the routed ones; 0: none
  bool shared_gate = false;    // the shared expert's output is times sigmoid(w . x)
};

/// What lets a token see the others.
using MixerSpec = std::variant<AttentionSpec, LatentAttentionSpec, DeltaNetSpec, ShortConvSpec>;

struct LayerSpec {
  MixerSpec mixer;
  std::variant<DenseFfn, MoeFfn> ffn;
};

/// What a set of layers keeps of a sequence; all of its layers keep the same. Keys and values by position (all of
/// them, or a window), one latent by position, or a recurrent state: a slot of state_floats for each layer and
/// sequence.
struct KvGroupSpec {
  int n_kv_heads = 0;
  int head_dim = 0;
  int window = 0;                // 0: full attention
  std::vector<int> layers;       // ascending
  std::size_t state_floats = 0;  // 0: by position
  int latent_dim = 0;            // values of a latent; 0: keys and values

  bool same_cache(const KvGroupSpec& other) const {
    return n_kv_heads == other.n_kv_heads && head_dim == other.head_dim && window == other.window &&
           state_floats == other.state_floats && latent_dim == other.latent_dim;
  }
};

enum class NormKind : std::uint8_t {
  rms,
  layer,  // LayerNorm, with a bias
};

struct ModelSpec {
  std::string family;     // config.json model_type
  int vocab = 0;          // rows of the embedding
  int d_model = 0;        // hidden_size
  int context = 0;        // max_position_embeddings
  float norm_eps = 0.0F;  // of every norm
  NormKind norm = NormKind::rms;
  float embedding_scale = 1.0F;
  float logit_scale = 1.0F;
  bool head_bias = false;
  bool tied_embeddings = false;
  int n_draft_layers = 0;  // stored behind the last layer, to predict further tokens; not loaded
  std::vector<LayerSpec> layers;
  std::vector<KvGroupSpec> kv_groups;
};

}  // namespace colibri
