// SPDX-License-Identifier: Apache-2.0
// One arena, cut into 64-byte aligned pieces whose sizes follow from the widest layer.
#include "forward/scratch.h"

#include <algorithm>
#include <cstring>

namespace colibri {

Result<Scratch> Scratch::create(const ModelSpec& spec, int max_rows, int max_logit_rows) {
  int qkv = 0;
  int attention = 0;
  int ffn = 0;
  int top_k = 0;
  int experts = 0;
  for (const LayerSpec& layer : spec.layers) {
    const auto& a = std::get<AttentionSpec>(layer.mixer);
    qkv = std::max(qkv, (a.n_heads + 2 * a.n_kv_heads) * a.head_dim);
    attention = std::max(attention, a.n_heads * a.head_dim);
    if (const auto* dense = std::get_if<DenseFfn>(&layer.ffn)) ffn = std::max(ffn, 2 * dense->d_ff);
    if (const auto* moe = std::get_if<MoeFfn>(&layer.ffn)) {
      ffn = std::max(ffn, 2 * moe->shared_d_ff);
      top_k = std::max(top_k, moe->router.top_k);
      experts = std::max(experts, moe->router.n_experts);
    }
  }
  Scratch scratch;
  scratch.max_rows = max_rows;
  scratch.max_logit_rows = max_logit_rows;
  struct Piece {
    float** place;
    int rows;
    int cols;
  };
  const Piece pieces[] = {{&scratch.x, max_rows, spec.d_model}, {&scratch.h, max_rows, spec.d_model},
                          {&scratch.qkv, max_rows, qkv},        {&scratch.attention, max_rows, attention},
                          {&scratch.ffn, max_rows, ffn},        {&scratch.shared, max_rows, spec.d_model},
                          {&scratch.gate, max_rows, 1},         {&scratch.last, max_logit_rows, spec.d_model}};
  const auto bytes = [](const Piece& piece) {
    return round_up(static_cast<std::size_t>(piece.rows) * static_cast<std::size_t>(piece.cols) * sizeof(float), 64);
  };
  std::size_t total = 0;
  for (const Piece& piece : pieces) total += bytes(piece);
  TRY(memory, Buffer::allocate(total, "activations"));
  std::memset(memory.data(), 0, memory.size());  // resident now, so that the first step is as fast as the next
  scratch.memory = std::move(memory);
  std::byte* next = scratch.memory.data();
  for (const Piece& piece : pieces) {
    *piece.place = reinterpret_cast<float*>(next);
    next += bytes(piece);
  }
  const std::size_t pairs = static_cast<std::size_t>(max_rows) * static_cast<std::size_t>(top_k);
  scratch.expert_ids.resize(pairs);
  scratch.expert_weights.resize(pairs);
  scratch.expert_seen.resize(static_cast<std::size_t>(experts));
  return scratch;
}

}  // namespace colibri
