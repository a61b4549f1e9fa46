// SPDX-License-Identifier: Apache-2.0
// The forward pass: one function for all families. It reads the model's spec, never its name.
// Invariant: it computes exactly the rows of the batch, writes their keys and values into the pool's blocks, and
// allocates nothing.
#pragma once

#include "backend/backend.h"
#include "core/batch.h"
#include "core/tensor.h"
#include "forward/scratch.h"
#include "kv/pool.h"
#include "model/model.h"

namespace colibri {

/// logits [batch.logit_rows, vocab], to be read through backend.finish(). batch.rows() <= scratch.max_rows; logit_rows
/// <= scratch.max_logit_rows.
void forward(Backend& backend, const Model& model, const Batch& batch, const KvPool& pool, Scratch& scratch,
             Rows logits);

/// Captures the steps that decode 1 ... logits.rows sequences into those first rows of `logits`, where the backend
/// gains from it: forward() replays them from then on. backend.prepare() has been called for these sizes.
void capture_decode(Backend& backend, const Model& model, const KvPool& pool, Scratch& scratch, Rows logits);

}  // namespace colibri
