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

/// logits [batch.logit_rows, vocab]. batch.rows() <= scratch.max_rows; logit_rows <= scratch.max_logit_rows.
void forward(Backend& backend, const Model& model, const Batch& batch, const KvPool& pool, Scratch& scratch,
             Rows logits);

}  // namespace colibri
