// SPDX-License-Identifier: Apache-2.0
// One decode step of a whole model in one persistent kernel: up to 4 sequences, one new token each, from token ids to
// logits and the most likely next ids, in bf16 weights and fp32 sums.
//
// Invariant: a row's numbers depend on that row alone, not on how many rows there are or who shares its experts. All
// pointers are device memory. Residual stream, router, attention and cache are fp32; inputs of the other products are
// rounded to bf16 (norm weights multiplied in before, 1 / rms after the product).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "core/spec.h"

struct CUstream_st;

namespace colibri::cuda {

inline constexpr int kMaxDecodeRows = 4;

/// Matrices are in tiles (core/matrix.h), 256-byte aligned.
struct DecodeLayer {
  const float* attn_norm = nullptr;           // [d_model]
  const float* ffn_norm = nullptr;            // [d_model]
  const float* q_norm = nullptr;              // [head_dim], or null
  const float* k_norm = nullptr;              // likewise
  const std::byte* qkv = nullptr;             // [q_cols + 2 kv_cols, d_model]
  const std::byte* o = nullptr;               // [d_model, q_cols]
  const float* router_rows = nullptr;         // [n_experts, d_model + q_cols], of derive_router_rows
  const std::byte* const* records = nullptr;  // [n_experts], as ExpertTable::records
  float* kv = nullptr;                        // KvView::base
};

struct DecodeModel {
  const DecodeLayer* layers = nullptr;   // [n_layers + 1]; of the last only attn_norm is read: the final norm
  const std::byte* embedding = nullptr;  // [vocab, d_model] in tiles
  const std::byte* head = nullptr;       // likewise
  const float* inv_freq = nullptr;       // [head_dim / 2]
  std::ptrdiff_t kv_block_stride = 0;    // KvView::block_stride, of every layer
  int n_layers = 0;
  int vocab = 0;
  float norm_eps = 0.0F;
  float attn_scale = 0.0F;
  float rope_scale = 1.0F;
  float router_scale = 1.0F;
  bool norm_topk = false;
};

struct DecodeStep {
  const std::int32_t* tokens = nullptr;         // [rows]
  const std::int32_t* positions = nullptr;      // [rows]; the rows belong to different sequences
  const std::int32_t* const* tables = nullptr;  // [rows] block tables, with a block for the row's own position
  float* logits = nullptr;                      // [rows, vocab]
  std::int32_t* next = nullptr;                 // [rows], the most likely ids (ties: lower id); may be `tokens`
  std::int32_t* experts = nullptr;              // [n_layers, rows, top_k], best first; or null
  std::uint64_t* stamps = nullptr;              // [128 blocks, n_layers + 1, kDecodeStamps] ns, see bench/cuda; or null
  void* workspace = nullptr;                    // decode_workspace_bytes(rows), of this number of rows alone
};

inline constexpr int kDecodeStamps = 21;

/// Why the kernel cannot run this model; empty where it can.
std::string decode_refuses(const ModelSpec& spec);

/// Zeroed once, and again after a launch that failed.
std::size_t decode_workspace_bytes(int rows);

/// Rows of router * diag(ffn_norm), followed by those of that times o: what the residual stream before attention and
/// attention's output bring to the router's logits. Attention's part need not wait for the O product, and the logits
/// are those of the product with the sum but for the order of fp32 sums. Sums in double, one rounding to fp32.
int derive_router_rows(const std::byte* router, const float* ffn_norm, const std::byte* o, float* router_rows,
                       CUstream_st* stream);

/// Puts the step on the stream; a cudaError_t. 1 <= rows <= kMaxDecodeRows. May be captured into a graph.
int launch_decode_step(const DecodeModel& model, const DecodeStep& step, int rows, CUstream_st* stream);

}  // namespace colibri::cuda
