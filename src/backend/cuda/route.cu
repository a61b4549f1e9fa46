// SPDX-License-Identifier: Apache-2.0
// The router's choice: logits, scores, groups, the k best, their weights. One warp a row.
// Invariant: a choice is made over numbers that stay finite, so that every id is an expert and ids are distinct.
#include <cfloat>

#include "backend/cuda/device.cuh"
#include "base/check.h"

namespace colibri::cuda {
namespace {

/// A value and where it stands: the larger value wins, of equal ones the lower place.
struct Best {
  float value;
  int place;

  __device__ void take(float other_value, int other_place) {
    if (other_value > value || (other_value == value && other_place < place)) {
      value = other_value;
      place = other_place;
    }
  }
  __device__ void join_warp() {
    for (int offset = kWarp / 2; offset > 0; offset /= 2) {
      const float other_value = __shfl_xor_sync(kAllLanes, value, offset);
      take(other_value, __shfl_xor_sync(kAllLanes, place, offset));
    }
  }
};

constexpr int kNowhere = 0x7fffffff;

/// The best of `n`; `without` is passed over.
__device__ Best best_of(const float* values, int n, int without = -1) {
  Best best{-INFINITY, kNowhere};
  for (int i = threadIdx.x; i < n; i += kWarp)
    if (i != without) best.take(values[i], i);
  best.join_warp();
  return best;
}

struct Choice {
  int n_experts;
  int top_k;
  bool norm_topk;
  RouterScore score;
  int n_groups;
  int top_groups;
  bool best_two;
  float scale;
  float norm_min;
  float jitter;
};

/// Excludes all groups of experts but the best; `worth` is [n_groups].
__device__ void keep_best_groups(float* scores, const Choice& spec, float* worth) {
  const int size = spec.n_experts / spec.n_groups;
  for (int g = 0; g < spec.n_groups; ++g) {
    const Best first = best_of(scores + g * size, size);
    const float second = spec.best_two ? best_of(scores + g * size, size, first.place).value : 0.0F;
    if (threadIdx.x == 0) worth[g] = first.value + second;
  }
  __syncwarp();
  // A group stays while fewer than top_groups are better, or as good and before it.
  for (int g = 0; g < spec.n_groups; ++g) {
    int better = 0;
    for (int other = 0; other < spec.n_groups; ++other)
      better += worth[other] > worth[g] || (worth[other] == worth[g] && other < g) ? 1 : 0;
    if (better < spec.top_groups) continue;
    for (int e = threadIdx.x; e < size; e += kWarp) scores[g * size + e] = -INFINITY;
  }
  __syncwarp();
}

/// The best expert but `without`, and its part of a softmax over the experts near it.
__device__ void mix_sparsely(const float* logits, const Choice& spec, int without, std::int32_t* id, float* weight) {
  const Best best = best_of(logits, spec.n_experts, without);
  float sum = 0.0F;
  for (int e = threadIdx.x; e < spec.n_experts; e += kWarp) {
    const bool far = (best.value - logits[e]) / fmaxf(fabsf(logits[e]), best.value) > 2 * spec.jitter;
    if (e != without && !far) sum += expf(logits[e] - best.value);
  }
  sum = warp_sum(sum);
  if (threadIdx.x != 0) return;
  *id = best.place;
  *weight = 1.0F / sum;
}

/// A row of `memory` is [2 n_experts + n_groups]: logits, which become scores; what is chosen by; groups.
__global__ void choose_kernel(float* memory, Choice spec, const float* correction, std::int32_t* ids, float* weights) {
  const int n = spec.n_experts;
  const int row = blockIdx.x;
  float* scores = memory + static_cast<std::ptrdiff_t>(row) * (2 * n + spec.n_groups);
  float* spare = scores + n;
  ids += static_cast<std::ptrdiff_t>(row) * spec.top_k;
  weights += static_cast<std::ptrdiff_t>(row) * spec.top_k;
  for (int e = threadIdx.x; e < n; e += kWarp)
    scores[e] = isnan(scores[e]) ? -FLT_MAX : fminf(fmaxf(scores[e], -FLT_MAX), FLT_MAX);
  __syncwarp();
  if (spec.score == RouterScore::sparse_mixer) {
    mix_sparsely(scores, spec, -1, ids, weights);
    __syncwarp();
    mix_sparsely(scores, spec, ids[0], ids + 1, weights + 1);
    return;
  }
  // Scores are ordered as the logits are, and where two of them round to the same the logits still differ.
  const bool by_logits = correction == nullptr && spec.n_groups == 1;
  const float most = spec.score == RouterScore::softmax ? best_of(scores, n).value : 0.0F;
  float total = 0.0F;
  for (int e = threadIdx.x; e < n; e += kWarp) {
    const float logit = scores[e];
    const float score = spec.score == RouterScore::sigmoid ? sigmoid(logit) : expf(logit - most);
    scores[e] = score;
    if (by_logits) spare[e] = logit;
    total += score;
  }
  total = spec.score == RouterScore::softmax ? warp_sum(total) : 1.0F;
  for (int e = threadIdx.x; e < n; e += kWarp) {
    scores[e] /= total;
    if (!by_logits) spare[e] = scores[e] + (correction == nullptr ? 0.0F : correction[e]);
  }
  __syncwarp();
  if (spec.n_groups > 1) keep_best_groups(spare, spec, spare + n);
  float sum = 0.0F;
  for (int i = 0; i < spec.top_k; ++i) {
    const Best best = best_of(spare, n);
    __syncwarp();
    sum += scores[best.place];
    if (threadIdx.x == 0) {
      ids[i] = best.place;
      spare[best.place] = -INFINITY;
    }
    __syncwarp();
  }
  const float divisor = spec.norm_topk ? fmaxf(sum, spec.norm_min) : 1.0F;
  for (int i = threadIdx.x; i < spec.top_k; i += kWarp) weights[i] = scores[ids[i]] / divisor * spec.scale;
}

}  // namespace

std::size_t CudaBackend::route_bytes(const RouterSpec& spec, int rows) {
  return static_cast<std::size_t>(rows) * static_cast<std::size_t>(2 * spec.n_experts + spec.n_groups) * sizeof(float);
}

void CudaBackend::route(ConstRows x, const RouterView& router, const RouterSpec& spec, const Routing& routing) {
  const int n = spec.n_experts;
  CHECK(router.matrix.rows == n && spec.top_k >= 1 && spec.top_k <= n && routing.top_k == spec.top_k);
  CHECK(spec.score != RouterScore::sparse_mixer || spec.top_k == 2);
  CHECK(router.correction.empty() || static_cast<int>(router.correction.size()) == n);
  CHECK(spec.n_groups >= 1 && n % spec.n_groups == 0 && n / spec.n_groups * spec.top_groups >= spec.top_k);
  if (x.rows == 0) return;
  auto* memory = reinterpret_cast<float*>(work(route_bytes(spec, x.rows)));
  product(x, router.matrix, router.bias, false, {memory, x.rows, n, 2 * n + spec.n_groups}, counters_);
  const Choice choice{n,
                      spec.top_k,
                      spec.norm_topk,
                      spec.score,
                      spec.n_groups,
                      spec.top_groups,
                      spec.group_score == GroupScore::best_two,
                      spec.scale,
                      spec.norm_min,
                      spec.jitter};
  choose_kernel<<<x.rows, kWarp, 0, stream_>>>(memory, choice,
                                               router.correction.empty() ? nullptr : router.correction.data(),
                                               routing.ids.data(), routing.weights.data());
  check(cudaGetLastError(), "route");
}

}  // namespace colibri::cuda
