// SPDX-License-Identifier: Apache-2.0
// Only candidates that can win are looked at twice: top_k is a partial selection, and the full sort happens only where
// top_p is asked for without top_k.
#include "engine/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "engine/philox.h"

namespace colibri {
namespace {

constexpr float kGreedyBelow = 1e-5F;

/// Higher logit first, ties to the lower id: one strict order for greedy, top_k and logprobs.
bool better(const TokenLogprob& a, const TokenLogprob& b) {
  return a.logprob != b.logprob ? a.logprob > b.logprob : a.id < b.id;
}

/// The largest logit's index (the lowest of equals); false where a value is not finite.
bool scan(std::span<const float> logits, std::size_t& best) {
  best = 0;
  float sum_of_zeros = 0.0F;  // stays 0 unless a value is NaN or infinite
  for (std::size_t i = 0; i < logits.size(); ++i) {
    sum_of_zeros += logits[i] * 0.0F;
    if (logits[i] > logits[best]) best = i;
  }
  return sum_of_zeros == 0.0F;
}

double log_sum_exp(std::span<const float> logits, float max) {
  double sum = 0.0;
  for (const float logit : logits) sum += static_cast<double>(std::exp(logit - max));
  return static_cast<double>(max) + std::log(sum);
}

void add_logprobs(std::span<const float> logits, std::size_t best, int top, Sample& out) {
  const double log_sum = log_sum_exp(logits, logits[best]);
  const auto logprob = [&](std::size_t id) { return static_cast<float>(static_cast<double>(logits[id]) - log_sum); };
  out.logprob = logprob(static_cast<std::size_t>(out.id));
  const auto count = std::min(static_cast<std::size_t>(std::max(top, 0)), logits.size());
  std::vector<TokenLogprob> heap;  // the worst of the best on top
  heap.reserve(count + 1);
  for (std::size_t id = 0; id < logits.size() && count > 0; ++id) {
    const TokenLogprob candidate{static_cast<std::int32_t>(id), logits[id]};
    if (heap.size() == count && !better(candidate, heap.front())) continue;
    heap.push_back(candidate);
    std::push_heap(heap.begin(), heap.end(), better);
    if (heap.size() > count) {
      std::pop_heap(heap.begin(), heap.end(), better);
      heap.pop_back();
    }
  }
  std::sort_heap(heap.begin(), heap.end(), better);
  for (TokenLogprob& entry : heap) entry.logprob = logprob(static_cast<std::size_t>(entry.id));
  out.top = std::move(heap);
}

/// True where any logit may have changed.
bool apply_penalties(std::span<float> logits, const SamplingParams& params, const TokenCounts& counts) {
  for (const TokenBias& token : params.logit_bias) logits[static_cast<std::size_t>(token.id)] += token.bias;
  const bool repetition = params.repetition_penalty != 1.0F;
  if (!repetition && params.presence_penalty == 0.0F && params.frequency_penalty == 0.0F)
    return !params.logit_bias.empty();
  for (const auto& [token, times] : counts.all()) {
    float& logit = logits[static_cast<std::size_t>(token)];
    if (repetition) logit = logit > 0.0F ? logit / params.repetition_penalty : logit * params.repetition_penalty;
    if (times > 0) logit -= params.presence_penalty + params.frequency_penalty * static_cast<float>(times);
  }
  return true;
}

/// The first `count` candidates in order, best first.
void sort_prefix(std::vector<TokenLogprob>& candidates, std::size_t count) {
  const auto end = candidates.begin() + static_cast<std::ptrdiff_t>(count);
  if (count < candidates.size()) std::nth_element(candidates.begin(), end, candidates.end(), better);
  std::sort(candidates.begin(), end, better);
}

/// Unnormalised probabilities at a temperature; the likeliest candidate has weight 1.
struct Weigher {
  float max;
  double scale;
  double operator()(float logit) const { return std::exp(static_cast<double>(logit - max) * scale); }
};

/// How many of the sorted candidates top_p and min_p keep; 0 where more than `sorted` would have to be looked at.
std::size_t kept(std::span<const TokenLogprob> sorted, bool all, const Weigher& weight, double total,
                 const SamplingParams& params) {
  double reached = 0.0;
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    const double w = weight(sorted[i].logprob);
    if (i > 0 && w < static_cast<double>(params.min_p)) return i;
    reached += w;
    if (params.top_p < 1.0F && reached >= static_cast<double>(params.top_p) * total) return i + 1;
  }
  return all ? sorted.size() : 0;
}

std::int32_t draw(std::span<const float> logits, std::size_t best, const SamplingParams& params,
                  std::uint64_t position) {
  constexpr std::size_t kFirstLook = 256;  // candidates; top_p seldom needs more, and the look grows fourfold
  const Weigher weight{logits[best], 1.0 / static_cast<double>(params.temperature)};
  std::vector<TokenLogprob> candidates(logits.size());
  for (std::size_t i = 0; i < logits.size(); ++i) candidates[i] = {static_cast<std::int32_t>(i), logits[i]};
  const auto sum = [&] {
    double total = 0.0;
    for (const TokenLogprob& candidate : candidates) total += weight(candidate.logprob);
    return total;
  };
  if (params.top_k > 0 && static_cast<std::size_t>(params.top_k) < candidates.size()) {
    sort_prefix(candidates, static_cast<std::size_t>(params.top_k));
    candidates.resize(static_cast<std::size_t>(params.top_k));
    candidates.resize(kept(candidates, true, weight, sum(), params));
  } else if (params.top_p < 1.0F || params.min_p > 0.0F) {
    const double total = sum();
    std::size_t keep = 0;
    for (std::size_t look = kFirstLook; keep == 0; look *= 4) {
      look = std::min(look, candidates.size());
      sort_prefix(candidates, look);
      keep = kept(std::span(candidates).first(look), look == candidates.size(), weight, total, params);
    }
    candidates.resize(keep);
  }
  double left = uniform(params.seed, position) * sum();
  for (const TokenLogprob& candidate : candidates) {
    left -= weight(candidate.logprob);
    if (left < 0.0) return candidate.id;
  }
  return static_cast<std::int32_t>(best);  // rounding left a crumb; the likeliest survives every cut
}

}  // namespace

Status SamplingParams::validate() const {
  const auto check = [](const char* name, float value, float low, float high, bool open_low = false) -> Status {
    if (std::isfinite(value) && value <= high && (open_low ? value > low : value >= low)) return {};
    char text[96];
    std::snprintf(text, sizeof text, "%s: %g is outside %s%g, %g]", name, static_cast<double>(value),
                  open_low ? "(" : "[", static_cast<double>(low), static_cast<double>(high));
    return data_error(text);
  };
  TRY_STATUS(check("temperature", temperature, 0.0F, 2.0F));
  TRY_STATUS(check("top_p", top_p, 0.0F, 1.0F, true));
  TRY_STATUS(check("min_p", min_p, 0.0F, 1.0F));
  TRY_STATUS(check("repetition_penalty", repetition_penalty, 0.0F, 10.0F, true));
  TRY_STATUS(check("presence_penalty", presence_penalty, -2.0F, 2.0F));
  TRY_STATUS(check("frequency_penalty", frequency_penalty, -2.0F, 2.0F));
  for (const TokenBias& token : logit_bias) TRY_STATUS(check("logit_bias", token.bias, -100.0F, 100.0F));
  if (top_k < 0) return data_error("top_k: " + std::to_string(top_k) + " is negative; 0 turns it off");
  return {};
}

std::optional<Sample> sample(std::span<float> logits, const SamplingParams& params, const TokenCounts& counts,
                             std::uint64_t position, std::span<const std::int32_t> banned) {
  CHECK(!logits.empty());
  std::size_t best = 0;
  if (!scan(logits, best)) return std::nullopt;
  Sample out;
  std::vector<float> raw;
  const std::size_t raw_best = best;
  if (params.logprobs >= 0) raw.assign(logits.begin(), logits.end());
  if (apply_penalties(logits, params, counts) && !scan(logits, best)) return std::nullopt;
  if (!banned.empty()) {
    for (const std::int32_t id : banned) logits[static_cast<std::size_t>(id)] = std::numeric_limits<float>::lowest();
    scan(logits, best);
  }
  out.id = params.temperature < kGreedyBelow ? static_cast<std::int32_t>(best) : draw(logits, best, params, position);
  if (params.logprobs >= 0) add_logprobs(raw, raw_best, params.logprobs, out);
  return out;
}

}  // namespace colibri
