// SPDX-License-Identifier: Apache-2.0
// One layer's part of the KV pool as kernels see it: blocks of 16 tokens, found through a sequence's block table.
// Invariant: a block holds K as [n_kv_heads][head_dim][16 tokens] and then V as [n_kv_heads][16 tokens][head_dim], in
// fp32, so that one vector holds one dimension of 16 keys, or 16 dimensions of one value.
#pragma once

#include <cstddef>
#include <cstdint>

namespace colibri {

inline constexpr int kBlockTokens = 16;

struct KvView {
  float* base = nullptr;            // block 0 of this layer
  std::ptrdiff_t block_stride = 0;  // floats from one block of this layer to the next
  int n_kv_heads = 0;
  int head_dim = 0;

  /// [head_dim][16 tokens]
  float* keys(std::int32_t block, int head) const { return base + block * block_stride + head * head_floats(); }
  /// [16 tokens][head_dim]
  float* values(std::int32_t block, int head) const { return keys(block, n_kv_heads + head); }

 private:
  std::ptrdiff_t head_floats() const { return std::ptrdiff_t{head_dim} * kBlockTokens; }
};

/// One layer's part of a latent group: a block holds [16 tokens][dim].
struct LatentView {
  float* base = nullptr;            // block 0 of this layer
  std::ptrdiff_t block_stride = 0;  // floats from one block of this layer to the next
  int dim = 0;

  /// [dim]
  float* row(std::int32_t block, int slot) const { return base + block * block_stride + std::ptrdiff_t{slot} * dim; }
};

/// One layer's part of a state group: a slot of floats for each sequence, laid out as the layer's spec says. A
/// sequence's slot is zeroed when it begins and holds the state after its last computed row.
struct StateView {
  float* base = nullptr;           // slot 0 of this layer, 64-byte aligned
  std::ptrdiff_t slot_stride = 0;  // floats from one slot to the next

  float* slot(std::int32_t index) const { return base + index * slot_stride; }
};

/// Floats of one block of one layer.
constexpr std::size_t kv_block_floats(int n_kv_heads, int head_dim) {
  return std::size_t{2} * static_cast<std::size_t>(n_kv_heads) * static_cast<std::size_t>(head_dim) * kBlockTokens;
}

}  // namespace colibri
