// SPDX-License-Identifier: Apache-2.0
// The router of the reference: every step on its own, over whole lists.
// Invariant: nothing here is shared with another backend but the views of core/.
#include <algorithm>
#include <cfloat>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "backend/reference/reference.h"
#include "base/check.h"

namespace colibri {
namespace {

using Scores = std::vector<double>;

constexpr double kExcluded = -std::numeric_limits<double>::infinity();

Scores logits_of(const float* x, const RouterView& router) {
  Scores logits;
  for (int e = 0; e < router.matrix.rows; ++e) {
    double sum = router.bias.empty() ? 0.0 : router.bias[static_cast<std::size_t>(e)];
    for (int k = 0; k < router.matrix.cols; ++k) sum += static_cast<double>(x[k]) * router.matrix.at(e, k);
    logits.push_back(std::isnan(sum) ? -FLT_MAX : std::clamp(sum, -double{FLT_MAX}, double{FLT_MAX}));
  }
  return logits;
}

/// Indices, best first; equal ones in their order.
std::vector<std::size_t> ranked(const Scores& scores) {
  std::vector<std::size_t> order(scores.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return scores[a] > scores[b]; });
  return order;
}

Scores softmax(Scores values) {
  const double most = *std::max_element(values.begin(), values.end());
  for (double& value : values) value = std::exp(value - most);
  const double total = std::accumulate(values.begin(), values.end(), 0.0);
  for (double& value : values) value /= total;
  return values;
}

Scores sigmoid(Scores values) {
  for (double& value : values) value = 1.0 / (1.0 + std::exp(-value));
  return values;
}

/// The scores with those of all but the best groups excluded.
Scores in_best_groups(const Scores& scores, const RouterSpec& spec) {
  const auto n_groups = static_cast<std::size_t>(spec.n_groups);
  const auto size = static_cast<std::ptrdiff_t>(scores.size() / n_groups);
  Scores worth;
  for (std::ptrdiff_t g = 0; g < spec.n_groups; ++g) {
    Scores group(scores.begin() + g * size, scores.begin() + (g + 1) * size);
    std::sort(group.rbegin(), group.rend());
    worth.push_back(group[0] + (spec.group_score == GroupScore::best_two ? group[1] : 0.0));
  }
  Scores kept(scores.size(), kExcluded);
  const std::vector<std::size_t> groups = ranked(worth);
  for (int i = 0; i < spec.top_groups; ++i) {
    const std::ptrdiff_t first = static_cast<std::ptrdiff_t>(groups[static_cast<std::size_t>(i)]) * size;
    std::copy_n(scores.begin() + first, size, kept.begin() + first);
  }
  return kept;
}

/// One expert of the sparse mixer, chosen among those that are not excluded: its index and weight.
std::pair<std::size_t, double> mix_sparsely(const Scores& logits, double jitter) {
  const std::size_t best = ranked(logits)[0];
  Scores near = logits;
  for (double& logit : near) {
    if ((logits[best] - logit) / std::max(std::abs(logit), logits[best]) > 2 * jitter) logit = kExcluded;
  }
  return {best, softmax(near)[best]};
}

}  // namespace

void ReferenceBackend::route(ConstRows x, const RouterView& router, const RouterSpec& spec, const Routing& routing) {
  const auto start = Clock::now();
  const auto k = static_cast<std::size_t>(spec.top_k);
  CHECK(router.matrix.rows == spec.n_experts && k >= 1 && spec.top_k <= spec.n_experts && routing.top_k == spec.top_k);
  for (int r = 0; r < x.rows; ++r) {
    const auto ids = routing.ids.subspan(static_cast<std::size_t>(r) * k, k);
    const auto weights = routing.weights.subspan(static_cast<std::size_t>(r) * k, k);
    Scores logits = logits_of(x.row(r), router);
    if (spec.score == RouterScore::sparse_mixer) {
      for (std::size_t i = 0; i < k; ++i) {
        const auto [id, weight] = mix_sparsely(logits, spec.jitter);
        ids[i] = static_cast<std::int32_t>(id);
        weights[i] = static_cast<float>(weight);
        logits[id] = kExcluded;
      }
      continue;
    }
    const Scores scores = spec.score == RouterScore::sigmoid ? sigmoid(logits) : softmax(logits);
    // Without a correction the order is that of the logits, which do not round to equal values.
    Scores choice = router.correction.empty() && spec.n_groups == 1 ? logits : scores;
    for (std::size_t e = 0; e < router.correction.size(); ++e) choice[e] += router.correction[e];
    if (spec.n_groups > 1) choice = in_best_groups(choice, spec);
    const std::vector<std::size_t> order = ranked(choice);
    double sum = 0.0;
    for (std::size_t i = 0; i < k; ++i) sum += scores[order[i]];
    const double divisor = spec.norm_topk ? std::max(sum, double{spec.norm_min}) : 1.0;
    for (std::size_t i = 0; i < k; ++i) {
      ids[i] = static_cast<std::int32_t>(order[i]);
      weights[i] = static_cast<float>(scores[order[i]] / divisor * spec.scale);
    }
  }
  count_route(start);
}

}  // namespace colibri
