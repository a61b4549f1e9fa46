// SPDX-License-Identifier: Apache-2.0
// One arena, cut into 64-byte aligned pieces whose sizes follow from the widest layer.
#include "forward/scratch.h"

#include <algorithm>

namespace colibri {

namespace {

struct Widths {
  int projected = 0;
  int mixed = 0;
};

Widths widths(const AttentionSpec& attention) { return {attention.projected(), attention.q_cols()}; }
/// Mixed: queries, the same among the latents, sums of latents, values.
Widths widths(const LatentAttentionSpec& a) {
  const int queries = a.n_heads * a.q_dim();
  const int mixed = (a.q_rank > 0 ? queries : 0) + a.n_heads * (a.cached() + a.kv_rank + a.v_dim);
  return {(a.q_rank > 0 ? a.q_rank : queries) + a.cached(), mixed};
}
/// Mixed: what the convolution leaves, and the output.
Widths widths(const DeltaNetSpec& net) { return {net.projected(), net.conv_cols() + net.value_cols()}; }
Widths widths(const ShortConvSpec& conv) { return {3 * conv.channels, conv.channels}; }

}  // namespace

Result<Scratch> Scratch::create(const ModelSpec& spec, int max_rows, int max_logit_rows, Backend& backend) {
  int projected = 0;
  int mixed = 0;
  int ffn = 0;
  int top_k = 0;
  for (const LayerSpec& layer : spec.layers) {
    const Widths needed = std::visit([](const auto& mixer) { return widths(mixer); }, layer.mixer);
    projected = std::max(projected, needed.projected);
    mixed = std::max(mixed, needed.mixed);
    if (const auto* dense = std::get_if<DenseFfn>(&layer.ffn)) ffn = std::max(ffn, 2 * dense->d_ff);
    if (const auto* moe = std::get_if<MoeFfn>(&layer.ffn)) {
      ffn = std::max(ffn, 2 * moe->shared_d_ff);
      top_k = std::max(top_k, moe->router.top_k);
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
  float* ids = nullptr;
  const Piece pieces[] = {{&scratch.x, max_rows, spec.d_model},
                          {&scratch.h, max_rows, spec.d_model},
                          {&scratch.projected, max_rows, projected},
                          {&scratch.mixed, max_rows, mixed},
                          {&scratch.ffn, max_rows, ffn},
                          {&scratch.shared, max_rows, spec.d_model},
                          {&scratch.gate, max_rows, 1},
                          {&scratch.last, max_logit_rows, spec.d_model},
                          {&scratch.expert_weights, max_rows, top_k},
                          {&ids, max_rows, top_k}};
  const auto bytes = [](const Piece& piece) {
    return round_up(static_cast<std::size_t>(piece.rows) * static_cast<std::size_t>(piece.cols) * sizeof(float), 64);
  };
  std::size_t total = 0;
  for (const Piece& piece : pieces) total += bytes(piece);
  TRY(memory, backend.allocate(total, "activations"));
  backend.zero(memory.data(), memory.size());  // resident now, so that the first step is as fast as the next
  scratch.memory = std::move(memory);
  std::byte* next = scratch.memory.data();
  for (const Piece& piece : pieces) {
    *piece.place = reinterpret_cast<float*>(next);
    next += bytes(piece);
  }
  scratch.expert_ids = reinterpret_cast<std::int32_t*>(ids);
  return scratch;
}

}  // namespace colibri
