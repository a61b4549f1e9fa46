// SPDX-License-Identifier: Apache-2.0
// Layout of a group's memory: [layers of the group][blocks][block]. Pages are touched only when a block is used.
#include "kv/pool.h"

#include <algorithm>
#include <numeric>
#include <string>

namespace colibri {
namespace {

constexpr int blocks_for(int tokens) { return (tokens + kBlockTokens - 1) / kBlockTokens; }

/// Blocks that one sequence of a group can hold at once. Behind a window only whole blocks are freed, and only after
/// the step that passed them: hence one chunk and one block more than the window.
int blocks_per_sequence(const KvGroupSpec& group, const KvCapacity& capacity) {
  if (group.state_floats > 0) return 1;
  const int all = blocks_for(capacity.context);
  return group.window == 0 ? all : std::min(all, blocks_for(group.window + capacity.max_chunk) + 1);
}

std::size_t block_floats(const KvGroupSpec& group) {
  if (group.state_floats > 0) return group.state_floats;
  if (group.latent_dim > 0) return static_cast<std::size_t>(group.latent_dim) * kBlockTokens;
  return kv_block_floats(group.n_kv_heads, group.head_dim);
}

std::size_t group_bytes(const KvGroupSpec& group, const KvCapacity& capacity) {
  return group.layers.size() * static_cast<std::size_t>(capacity.sequences) *
         static_cast<std::size_t>(blocks_per_sequence(group, capacity)) * block_floats(group) * sizeof(float);
}

}  // namespace

void KvSequence::spans(std::vector<std::span<const std::int32_t>>& out) const {
  out.assign(tables.begin(), tables.end());
}

std::size_t KvPool::bytes_needed(const ModelSpec& spec, const KvCapacity& capacity) {
  return std::accumulate(spec.kv_groups.begin(), spec.kv_groups.end(), std::size_t{0},
                         [&](std::size_t sum, const KvGroupSpec& group) { return sum + group_bytes(group, capacity); });
}

Result<KvPool> KvPool::create(const ModelSpec& spec, const KvCapacity& capacity, Backend& backend) {
  CHECK(capacity.sequences > 0 && capacity.context > 0 && capacity.max_chunk > 0);
  KvPool pool;
  pool.backend_ = &backend;
  pool.views_.resize(spec.layers.size());
  pool.latents_.resize(spec.layers.size());
  pool.states_.resize(spec.layers.size());
  for (const KvGroupSpec& group_spec : spec.kv_groups) {
    Group group;
    group.window = group_spec.window;
    group.state = group_spec.state_floats > 0;
    group.layers = static_cast<int>(group_spec.layers.size());
    group.blocks = capacity.sequences * blocks_per_sequence(group_spec, capacity);
    group.block_floats = block_floats(group_spec);
    TRY(memory, backend.allocate(group_bytes(group_spec, capacity), "KV pool"));
    group.memory = std::move(memory);
    group.free.resize(static_cast<std::size_t>(group.blocks));
    std::iota(group.free.rbegin(), group.free.rend(), 0);
    const auto stride = static_cast<std::ptrdiff_t>(group.block_floats);
    for (int i = 0; i < group.layers; ++i) {
      const auto layer = static_cast<std::size_t>(group_spec.layers[static_cast<std::size_t>(i)]);
      if (group.state) {
        pool.states_[layer] = {group.block(i, 0), stride};
      } else if (group_spec.latent_dim > 0) {
        pool.latents_[layer] = {group.block(i, 0), stride, group_spec.latent_dim};
      } else {
        pool.views_[layer] = {group.block(i, 0), stride, group_spec.n_kv_heads, group_spec.head_dim};
      }
    }
    pool.groups_.push_back(std::move(group));
  }
  return pool;
}

float* KvPool::Group::block(int layer, std::int32_t index) const {
  const std::size_t before = static_cast<std::size_t>(layer) * static_cast<std::size_t>(blocks);
  return reinterpret_cast<float*>(memory.data()) + (before + static_cast<std::size_t>(index)) * block_floats;
}

std::int32_t KvPool::Group::take() {
  const std::int32_t block = free.back();
  free.pop_back();
  return block;
}

bool KvPool::reserve(KvSequence& sequence, int tokens) {
  sequence.tables.resize(groups_.size());
  const auto wanted = [&](const Group& group) {
    return static_cast<std::size_t>(group.state ? std::min(tokens, 1) : blocks_for(tokens));
  };
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    const std::size_t held = sequence.tables[g].size();
    if (wanted(groups_[g]) > held && wanted(groups_[g]) - held > groups_[g].free.size()) return false;
  }
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    Group& group = groups_[g];
    while (sequence.tables[g].size() < wanted(group)) {
      const std::int32_t block = group.take();
      sequence.tables[g].push_back(block);
      if (!group.state) continue;
      for (int layer = 0; layer < group.layers; ++layer)
        backend_->zero(group.block(layer, block), group.block_floats * sizeof(float));
    }
  }
  sequence.tokens = std::max(sequence.tokens, tokens);
  return true;
}

bool KvPool::copy(const KvSequence& from, KvSequence& to) {
  CHECK(to.tokens == 0);
  for (std::size_t g = 0; g < from.tables.size(); ++g) {
    const auto& table = from.tables[g];
    const auto wanted = table.size() - static_cast<std::size_t>(std::count(table.begin(), table.end(), -1));
    if (wanted > groups_[g].free.size()) return false;
  }
  to = from;
  for (std::size_t g = 0; g < from.tables.size(); ++g) {
    Group& group = groups_[g];
    for (std::int32_t& block : to.tables[g]) {
      if (block < 0) continue;
      const std::int32_t source = block;
      block = group.take();
      for (int layer = 0; layer < group.layers; ++layer)
        backend_->copy(group.block(layer, block), group.block(layer, source), group.block_floats * sizeof(float));
    }
  }
  return true;
}

void KvPool::release_behind_window(KvSequence& sequence, int position) {
  for (std::size_t g = 0; g < sequence.tables.size(); ++g) {
    Group& group = groups_[g];
    if (group.window == 0) continue;
    // The oldest position that `position` sees is position - window + 1.
    const int passed = std::max(0, position - group.window + 1) / kBlockTokens;
    for (int b = std::min(passed, static_cast<int>(sequence.tables[g].size())) - 1; b >= 0; --b) {
      std::int32_t& block = sequence.tables[g][static_cast<std::size_t>(b)];
      if (block < 0) break;
      group.free.push_back(block);
      block = -1;
    }
  }
}

void KvPool::release(KvSequence& sequence) {
  for (std::size_t g = 0; g < sequence.tables.size(); ++g)
    for (const std::int32_t block : sequence.tables[g])
      if (block >= 0) groups_[g].free.push_back(block);
  sequence.tables.clear();
  sequence.tokens = 0;
}

std::size_t KvPool::bytes() const {
  return std::accumulate(groups_.begin(), groups_.end(), std::size_t{0},
                         [](std::size_t sum, const Group& group) { return sum + group.memory.size(); });
}

}  // namespace colibri
