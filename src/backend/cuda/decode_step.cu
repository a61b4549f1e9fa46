// SPDX-License-Identifier: Apache-2.0
// What decode_step takes and refuses, its launch, and the weights that it derives.
// Invariant: decode_refuses and the static_asserts of DecodeShape say the same.
#include "backend/cuda/decode_step-inl.cuh"

namespace colibri::cuda {
namespace {

template <class F>
auto with_shape(int rows, F f) {
  switch (rows) {
    case 1:
      return f(DecodeShape<1>{});
    case 2:
      return f(DecodeShape<2>{});
    case 3:
      return f(DecodeShape<3>{});
    default:
      return f(DecodeShape<4>{});
  }
}

// Block (expert, 16 columns of o): thread (column, slice of the rows).
__global__ void derive(const std::byte* router, const float* ffn_norm, const std::byte* o, float* router_rows) {
  using S = DecodeShape<1>;
  __shared__ double sums[16][16];
  const int e = blockIdx.x, column = blockIdx.y * 16 + threadIdx.x % 16, slice = threadIdx.x / 16;
  auto at = [](const std::byte* m, int cols, int row, int col) {
    const auto* tile = reinterpret_cast<const uint32_t*>(m + static_cast<size_t>(row / 16) * cols * 32);
    const uint32_t word = tile[col / 2 * 16 + row % 16];
    return static_cast<double>(col % 2 ? bf16_hi(word) : bf16_lo(word));
  };
  double sum = 0;
  for (int d = slice; d < S::kD; d += 16) sum += at(router, S::kD, e, d) * ffn_norm[d] * at(o, S::kQ, d, column);
  sums[slice][threadIdx.x % 16] = sum;
  __syncthreads();
  if (slice > 0) return;
  for (int i = 1; i < 16; ++i) sum += sums[i][threadIdx.x];
  float* row = router_rows + static_cast<size_t>(e) * (S::kD + S::kQ);
  row[S::kD + column] = static_cast<float>(sum);
  if (column < S::kD) row[column] = static_cast<float>(at(router, S::kD, e, column) * ffn_norm[column]);
}

}  // namespace

std::string decode_refuses(const ModelSpec& spec) {
  using S = DecodeShape<1>;
  if (spec.d_model != S::kD) return "d_model is not 2048";
  if (spec.norm != NormKind::rms) return "the norm is not RMSNorm";
  if (spec.embedding_scale != 1.0F || spec.logit_scale != 1.0F) return "embeddings or logits are scaled";
  if (spec.head_bias) return "the head has a bias";
  for (const LayerSpec& layer : spec.layers) {
    const auto* a = std::get_if<AttentionSpec>(&layer.mixer);
    if (!a || a->n_heads != S::kHeads || a->n_kv_heads != S::kKvHeads || a->head_dim != S::kHeadDim)
      return "a layer is not attention with 32 heads of 128 over 4 of keys";
    if (a->window || a->sinks || a->output_gate || a->qkv_bias || a->o_bias)
      return "attention has a window, sinks, an output gate or biases";
    if (a->qk_norm != QkNorm::none && a->qk_norm != QkNorm::per_head) return "q and k are not normalised head by head";
    const AttentionSpec& first = std::get<AttentionSpec>(spec.layers[0].mixer);
    if (a->rope.dim != S::kHeadDim || a->rope.pairs != RopePairs::halves || a->rope.inv_freq != first.rope.inv_freq ||
        a->rope.scale != first.rope.scale || a->scale != first.scale || a->kv_group != first.kv_group)
      return "the rotary embedding is partial, of neighbours, or differs between layers";
    const auto* m = std::get_if<MoeFfn>(&layer.ffn);
    if (!m || m->router.n_experts != S::kExperts || m->router.top_k != S::kTop || m->d_ff != S::kF)
      return "a layer does not choose 8 of 128 experts of 768";
    if (m->biases || m->shared_d_ff || !std::holds_alternative<SiluGate>(m->activation))
      return "experts have biases, a shared expert or another activation";
    const RouterSpec& router = std::get<MoeFfn>(spec.layers[0].ffn).router;
    if (m->router.score != RouterScore::softmax || m->router.bias || m->router.correction || m->router.n_groups > 1 ||
        m->router.norm_topk != router.norm_topk || m->router.scale != router.scale)
      return "the router is not a plain softmax, or differs between layers";
  }
  return "";
}

std::size_t decode_workspace_bytes(int rows) {
  return with_shape(rows, [](auto shape) { return decltype(shape)::kWorkspace; });
}

int derive_router_rows(const std::byte* router, const float* ffn_norm, const std::byte* o, float* router_rows,
                       CUstream_st* stream) {
  using S = DecodeShape<1>;
  derive<<<dim3(S::kExperts, S::kQ / 16), 256, 0, stream>>>(router, ffn_norm, o, router_rows);
  return cudaGetLastError();
}

int launch_decode_step(const DecodeModel& model, const DecodeStep& step, int rows, CUstream_st* stream) {
  return with_shape(rows, [&](auto shape) -> int {
    using S = decltype(shape);
    const int shared = S::kRingBytes + sizeof(Shared<S>);
    static const cudaError_t ready =
        cudaFuncSetAttribute(decode_step<S>, cudaFuncAttributeMaxDynamicSharedMemorySize, shared);
    if (ready != cudaSuccess) return ready;
    void* args[] = {const_cast<DecodeModel*>(&model), const_cast<DecodeStep*>(&step)};
    return cudaLaunchCooperativeKernel(reinterpret_cast<void*>(decode_step<S>), kBlocks, kThreads + 32 * kProducers,
                                       args, shared, stream);
  });
}

}  // namespace colibri::cuda
