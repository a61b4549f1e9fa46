// SPDX-License-Identifier: Apache-2.0
// The router's choice: logits, scores, groups, the k best, their weights.
// Invariant: a row's choice is made by one thread over numbers that stay finite, so that every id is an expert.
#include <algorithm>
#include <array>
#include <cfloat>
#include <cmath>
#include <limits>

#include "backend/cpu/cpu.h"
#include "base/check.h"

namespace colibri::cpu {
namespace {

constexpr float kExcluded = -std::numeric_limits<float>::infinity();

/// Non-finite logits must still name experts: NaN counts as the smallest one, an infinity as the largest finite one.
void make_finite(float* logits, int n) {
  for (int e = 0; e < n; ++e) logits[e] = std::isnan(logits[e]) ? -FLT_MAX : std::clamp(logits[e], -FLT_MAX, FLT_MAX);
}

/// The k largest, best first, ties to the lower id: one pass with few insertions, as most scores are below the k-th.
void top_k(const float* scores, int n, std::span<std::int32_t> ids) {
  std::size_t held = 0;
  for (std::int32_t e = 0; e < n; ++e) {
    if (held == ids.size() && scores[e] <= scores[ids[held - 1]]) continue;
    std::size_t place = held < ids.size() ? held++ : held - 1;
    for (; place > 0 && scores[ids[place - 1]] < scores[e]; --place) ids[place] = ids[place - 1];
    ids[place] = e;
  }
}

/// Excludes all groups of experts but the best; `worth` is [n_groups].
void keep_best_groups(float* scores, const RouterSpec& spec, float* worth) {
  const int size = spec.n_experts / spec.n_groups;
  const std::size_t counted = spec.group_score == GroupScore::best ? 1 : 2;
  for (int g = 0; g < spec.n_groups; ++g) {
    std::array<std::int32_t, 2> best{};
    top_k(scores + g * size, size, std::span(best).first(counted));
    worth[g] = scores[g * size + best[0]];
    if (counted == 2) worth[g] += scores[g * size + best[1]];
  }
  // A group stays while fewer than top_groups are better, or as good and before it.
  for (int g = 0; g < spec.n_groups; ++g) {
    int better = 0;
    for (int other = 0; other < spec.n_groups; ++other)
      better += worth[other] > worth[g] || (worth[other] == worth[g] && other < g) ? 1 : 0;
    if (better >= spec.top_groups) std::fill_n(scores + g * size, size, kExcluded);
  }
}

/// The best expert but `without`, and its part of a softmax over the experts near it.
void mix_sparsely(const float* logits, const RouterSpec& spec, std::int32_t without, std::int32_t& id, float& weight) {
  id = without == 0 ? 1 : 0;
  for (std::int32_t e = id + 1; e < spec.n_experts; ++e)
    if (e != without && logits[e] > logits[id]) id = e;
  const float most = logits[id];
  float sum = 0.0F;
  for (std::int32_t e = 0; e < spec.n_experts; ++e) {
    const bool far = (most - logits[e]) / std::max(std::abs(logits[e]), most) > 2 * spec.jitter;
    if (e != without && !far) sum += std::exp(logits[e] - most);
  }
  weight = 1.0F / sum;
}

}  // namespace

/// `scores` are the logits, and `spare` has room for n_experts + n_groups floats.
void CpuBackend::choose(float* scores, float* spare, const RouterView& router, const RouterSpec& spec,
                        std::span<std::int32_t> ids, std::span<float> weights) const {
  const int n = spec.n_experts;
  make_finite(scores, n);
  if (spec.score == RouterScore::sparse_mixer) {
    mix_sparsely(scores, spec, -1, ids[0], weights[0]);
    mix_sparsely(scores, spec, ids[0], ids[1], weights[1]);
    return;
  }
  // Scores are ordered as the logits are, and where two of them round to the same the logits still differ.
  const bool by_logits = router.correction.empty() && spec.n_groups == 1;
  if (by_logits) top_k(scores, n, ids);
  if (spec.score == RouterScore::sigmoid) {
    simd_.sigmoid(scores, n);
  } else {
    const float total = simd_.exp_sum(scores, *std::max_element(scores, scores + n), n);
    for (int e = 0; e < n; ++e) scores[e] /= total;
  }
  if (!by_logits) {
    std::copy_n(scores, n, spare);
    for (std::size_t e = 0; e < router.correction.size(); ++e) spare[e] += router.correction[e];
    if (spec.n_groups > 1) keep_best_groups(spare, spec, spare + n);
    top_k(spare, n, ids);
  }
  float sum = 0.0F;
  for (std::size_t i = 0; i < ids.size(); ++i) sum += weights[i] = scores[ids[i]];
  if (spec.norm_topk) {
    for (float& weight : weights) weight /= std::max(sum, spec.norm_min);
  }
  for (float& weight : weights) weight *= spec.scale;
}

void CpuBackend::route(ConstRows x, const RouterView& router, const RouterSpec& spec, const Routing& routing) {
  const auto start = Clock::now();
  const int n = spec.n_experts;
  const auto k = static_cast<std::size_t>(spec.top_k);
  CHECK(router.matrix.rows == n && spec.top_k >= 1 && spec.top_k <= std::min(n, kMaxTopK));
  CHECK(routing.top_k == spec.top_k && (spec.score != RouterScore::sparse_mixer || spec.top_k == 2));
  CHECK(router.correction.empty() || static_cast<int>(router.correction.size()) == n);
  CHECK(spec.n_groups >= 1 && n % spec.n_groups == 0 && n / spec.n_groups * spec.top_groups >= spec.top_k);
  CHECK(spec.n_groups == 1 || spec.group_score == GroupScore::best || n / spec.n_groups >= 2);
  const std::size_t chosen = static_cast<std::size_t>(x.rows) * k;
  CHECK(routing.ids.size() == chosen && routing.weights.size() == chosen);
  const int stride = 2 * n + spec.n_groups;
  const Rows logits(logits_.floats(static_cast<std::size_t>(x.rows) * static_cast<std::size_t>(stride)), x.rows, n,
                    stride);
  linear(x, router.matrix, router.bias, false, logits);
  for_rows(x.rows, std::size_t{8} * static_cast<std::size_t>(n), [&](int first, int last) {
    for (int r = first; r < last; ++r) {
      const std::size_t slot = static_cast<std::size_t>(r) * k;
      choose(logits.row(r), logits.row(r) + n, router, spec, routing.ids.subspan(slot, k),
             routing.weights.subspan(slot, k));
    }
  });
  count_route(start);
}

}  // namespace colibri::cpu
