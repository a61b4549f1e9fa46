// SPDX-License-Identifier: Apache-2.0
// The one KV pool: all blocks are allocated at start, per layer group, and handed out by the engine thread alone.
// Invariant: a block of a group is either on that group's free list or in exactly one sequence's table. In a state
// group a block is a slot: a sequence's table has one, zeroed when it is handed out.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "base/memory.h"
#include "core/batch.h"
#include "core/kv_view.h"
#include "core/spec.h"

namespace colibri {

/// One sequence's block tables, one per layer group. Plain state: the pool does the work.
struct KvSequence {
  std::vector<std::vector<std::int32_t>> tables;  // [groups][blocks], -1 where the window has passed; state: [1]
  int tokens = 0;                                 // positions that have a block

  /// Spans over the tables, as Batch wants them. Valid until the tables change.
  void spans(std::vector<std::span<const std::int32_t>>& out) const;
};

struct KvCapacity {
  int sequences = 1;
  int context = 0;    // tokens of one sequence
  int max_chunk = 0;  // most rows that one step adds to a sequence
};

class KvPool {
 public:
  /// Allocates every group for `capacity` from the backend, which outlives the pool. Error 78 where the memory cannot
  /// be had.
  static Result<KvPool> create(const ModelSpec& spec, const KvCapacity& capacity, Backend& backend);

  /// Bytes that create() would map.
  static std::size_t bytes_needed(const ModelSpec& spec, const KvCapacity& capacity);

  /// Of a layer with keys and values.
  const KvView& view(int layer) const { return views_[static_cast<std::size_t>(layer)]; }
  /// Of a layer with latents.
  const LatentView& latents(int layer) const { return latents_[static_cast<std::size_t>(layer)]; }
  /// Of a recurrent layer.
  const StateView& state(int layer) const { return states_[static_cast<std::size_t>(layer)]; }

  /// Gives the sequence blocks for positions up to `tokens` and, where it has none, slots of zeros; all or nothing.
  bool reserve(KvSequence& sequence, int tokens);

  /// Makes `to`, which holds nothing, a copy of `from` in blocks and slots of its own; all or nothing.
  bool copy(const KvSequence& from, KvSequence& to);

  /// Frees the blocks that no position from `position` on can see any more (window groups).
  void release_behind_window(KvSequence& sequence, int position);

  /// Frees everything of the sequence.
  void release(KvSequence& sequence);

  int groups() const { return static_cast<int>(groups_.size()); }
  int blocks(int group) const { return groups_[static_cast<std::size_t>(group)].blocks; }
  int free_blocks(int group) const { return static_cast<int>(groups_[static_cast<std::size_t>(group)].free.size()); }
  std::size_t bytes() const;

 private:
  struct Group {
    int window = 0;
    bool state = false;
    int layers = 0;
    int blocks = 0;
    std::size_t block_floats = 0;    // of one layer
    std::vector<std::int32_t> free;  // a stack; the block freed last is used next, while it is warm
    Buffer memory;

    float* block(int layer, std::int32_t index) const;
    std::int32_t take();
  };

  Backend* backend_ = nullptr;
  std::vector<Group> groups_;
  std::vector<KvView> views_;        // [layers]
  std::vector<LatentView> latents_;  // [layers]
  std::vector<StateView> states_;    // [layers]
};

}  // namespace colibri
