// SPDX-License-Identifier: Apache-2.0
// From one row of logits to one token. A pure function of the row, the parameters, the tokens so far and the position.
//
// Order, as transformers and vLLM have it: logit bias, repetition, presence and frequency penalties, banned tokens,
// temperature, top_k, top_p, min_p, then one draw from the counter-based generator. Temperature 0 is greedy, ties to
// the lower id. Log probabilities are of the raw distribution, before any of this.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/result.h"

namespace colibri {

struct TokenBias {
  std::int32_t id = 0;
  float bias = 0.0F;  // [-100, 100], added to the logit
};

struct SamplingParams {
  float temperature = 1.0F;         // 0..2; 0 or below 1e-5 is greedy
  int top_k = 0;                    // 0: off
  float top_p = 1.0F;               // (0, 1]
  float min_p = 0.0F;               // [0, 1]
  float repetition_penalty = 1.0F;  // (0, 10]; over prompt and generated tokens
  float presence_penalty = 0.0F;    // [-2, 2]; over generated tokens
  float frequency_penalty = 0.0F;   // [-2, 2]; over generated tokens
  std::vector<TokenBias> logit_bias{};
  std::uint64_t seed = 0;
  int logprobs = -1;  // -1: none; 0: of the chosen token; n: the n likeliest beside it

  /// The first parameter out of its range, by its API name.
  Status validate() const;
};

/// Tokens that penalties look at.
class TokenCounts {
 public:
  void add_prompt(std::span<const std::int32_t> tokens) {
    for (const std::int32_t token : tokens) counts_.try_emplace(token, 0);
  }
  void add_generated(std::int32_t token) { ++counts_[token]; }
  /// token -> times generated; 0 for tokens of the prompt alone.
  const std::unordered_map<std::int32_t, int>& all() const { return counts_; }

 private:
  std::unordered_map<std::int32_t, int> counts_;
};

struct TokenLogprob {
  std::int32_t id = 0;
  float logprob = 0.0F;
};

struct Sample {
  std::int32_t id = 0;
  float logprob = 0.0F;           // natural logarithm; 0 unless asked for
  std::vector<TokenLogprob> top;  // best first, as many as asked for
};

/// Empty where the row holds NaN or infinity: that request ends, others go on. `logits` is used as scratch.
/// `position` is that of the token to be chosen. `banned` tokens are not chosen, unless there is no other.
std::optional<Sample> sample(std::span<float> logits, const SamplingParams& params, const TokenCounts& counts,
                             std::uint64_t position, std::span<const std::int32_t> banned = {});

}  // namespace colibri
