// SPDX-License-Identifier: Apache-2.0
// The activations of one step, allocated once for the largest step.
// Invariant: nothing in here outlives a step; forward() overwrites all of it.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "backend/backend.h"
#include "base/memory.h"
#include "core/spec.h"
#include "core/tensor.h"

namespace colibri {

struct Scratch {
  int max_rows = 0;
  int max_logit_rows = 0;
  Buffer memory;
  float* x = nullptr;                  // [max_rows, d_model], the residual stream
  float* h = nullptr;                  // [max_rows, d_model], normalised
  float* projected = nullptr;          // [max_rows, widest projection of a mixer: q | k | v and the like]
  float* mixed = nullptr;              // [max_rows, widest result of a mixer, before its output projection]
  float* ffn = nullptr;                // [max_rows, 2 * widest dense or shared d_ff]
  float* shared = nullptr;             // [max_rows, d_model], the shared expert's output
  float* gate = nullptr;               // [max_rows, 1], the shared expert's gate
  float* last = nullptr;               // [max_logit_rows, d_model], the rows whose logits are wanted
  float* expert_weights = nullptr;     // [max_rows * widest top_k]
  std::int32_t* expert_ids = nullptr;  // likewise

  std::vector<std::unique_ptr<CapturedStep>> captured;  // [n - 1] decodes n sequences; what forward() may replay

  static Result<Scratch> create(const ModelSpec& spec, int max_rows, int max_logit_rows, Backend& backend);
};

}  // namespace colibri
