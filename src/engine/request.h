// SPDX-License-Identifier: Apache-2.0
// What a caller hands to the engine, and what comes back token by token.
// Invariant: a request's sink is called on the engine thread only, and exactly one of its events has finish != none:
// the last one.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "engine/sampler.h"

namespace colibri {

enum class Finish : std::uint8_t {
  none,             // more will come
  stop,             // a stop token was sampled; it is the event's id
  length,           // max_tokens or the context is used up
  cancelled,        // the caller asked for it; the event has no token
  numerical_error,  // NaN or infinity among the logits; the event has no token
};

struct TokenEvent {
  std::int32_t id = -1;  // -1: no token
  float logprob = 0.0F;
  std::vector<TokenLogprob> top{};
  Finish finish = Finish::none;
};

struct Request {
  std::vector<std::int32_t> prompt;  // not empty, ids in [0, vocab)
  SamplingParams sampling;
  int max_tokens = 0;                            // > 0; prompt + max_tokens <= the engine's context
  std::vector<std::int32_t> stop_ids;            // end the answer; empty to ignore the end of sequence
  int min_tokens = 0;                            // so many come before any of stop_ids may
  std::function<void(TokenEvent)> sink;          // must not block
  std::shared_ptr<std::atomic<bool>> cancelled;  // set from any thread; looked at before every step
};

}  // namespace colibri
