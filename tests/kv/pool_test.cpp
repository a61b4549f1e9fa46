// SPDX-License-Identifier: Apache-2.0
// The pool's accounting: every block is free or owned once, reserve is all or nothing, windows give blocks back.
#include "kv/pool.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace colibri {
namespace {

ModelSpec three_group_spec() {
  ModelSpec spec;
  spec.layers.resize(5);
  spec.kv_groups = {{.n_kv_heads = 2, .head_dim = 24, .window = 0, .layers = {0, 2}},
                    {.n_kv_heads = 1, .head_dim = 8, .window = 20, .layers = {1}},
                    {.layers = {3, 4}, .state_floats = 48}};
  return spec;
}

const std::unique_ptr<Backend> kBackend = std::move(*make_backend("reference", 1));
constexpr KvCapacity kCapacity{.sequences = 3, .context = 100, .max_chunk = 16};

void expect_every_block_once(const KvPool& pool, std::span<const KvSequence> sequences) {
  for (int g = 0; g < pool.groups(); ++g) {
    std::set<std::int32_t> owned;
    std::size_t count = 0;
    for (const KvSequence& sequence : sequences) {
      if (sequence.tables.empty()) continue;
      for (const std::int32_t block : sequence.tables[static_cast<std::size_t>(g)]) {
        if (block < 0) continue;
        owned.insert(block);
        ++count;
        EXPECT_LT(block, pool.blocks(g));
      }
    }
    EXPECT_EQ(owned.size(), count) << "a block of group " << g << " is owned twice";
    EXPECT_EQ(static_cast<int>(count) + pool.free_blocks(g), pool.blocks(g));
  }
}

TEST(KvPool, HoldsFullContextForEverySequence) {
  auto pool = KvPool::create(three_group_spec(), kCapacity, *kBackend);
  ASSERT_TRUE(pool.ok());
  EXPECT_EQ(pool->blocks(0), 3 * 7);  // ceil(100 / 16)
  EXPECT_EQ(pool->blocks(1), 3 * 4);  // ceil((20 + 16) / 16) + 1
  EXPECT_EQ(pool->blocks(2), 3);
  EXPECT_EQ(pool->bytes(), KvPool::bytes_needed(three_group_spec(), kCapacity));
  std::vector<KvSequence> sequences(3);
  for (KvSequence& sequence : sequences) {
    for (int position = 0; position < 100; position += 16) {
      pool->release_behind_window(sequence, position);
      ASSERT_TRUE(pool->reserve(sequence, std::min(100, position + 16))) << position;
    }
  }
  expect_every_block_once(*pool, sequences);
  EXPECT_EQ(pool->free_blocks(0), 0);
  KvSequence extra;
  EXPECT_FALSE(pool->reserve(extra, 1));
  expect_every_block_once(*pool, sequences);
  for (KvSequence& sequence : sequences) pool->release(sequence);
  EXPECT_EQ(pool->free_blocks(0), pool->blocks(0));
  EXPECT_EQ(pool->free_blocks(1), pool->blocks(1));
}

TEST(KvPool, WindowKeepsWhatTheNextPositionSees) {
  auto pool = KvPool::create(three_group_spec(), kCapacity, *kBackend);
  ASSERT_TRUE(pool.ok());
  KvSequence sequence;
  ASSERT_TRUE(pool->reserve(sequence, 36));
  pool->release_behind_window(sequence, 35);  // sees 16..35: block 0 has passed, block 1 has not
  EXPECT_EQ(sequence.tables[1][0], -1);
  EXPECT_GE(sequence.tables[1][1], 0);
  EXPECT_GE(sequence.tables[0][0], 0) << "full attention keeps everything";
  pool->release_behind_window(sequence, 35);
  expect_every_block_once(*pool, {&sequence, 1});
}

TEST(KvPool, LayersDoNotOverlap) {
  auto pool = KvPool::create(three_group_spec(), kCapacity, *kBackend);
  ASSERT_TRUE(pool.ok());
  for (int layer : {3, 4})
    for (int slot = 0; slot < pool->blocks(2); ++slot)
      for (int i = 0; i < 48; ++i) {
        ASSERT_EQ(pool->state(layer).slot(slot)[i], 0.0F);
        pool->state(layer).slot(slot)[i] = 1.0F;
      }
  for (int layer = 0; layer < 3; ++layer) {
    const KvView& view = pool->view(layer);
    const int group = layer == 1 ? 1 : 0;
    for (int block = 0; block < pool->blocks(group); ++block)
      for (int head = 0; head < view.n_kv_heads; ++head)
        for (int i = 0; i < view.head_dim * kBlockTokens; ++i) {
          ASSERT_EQ(view.keys(block, head)[i], 0.0F);
          ASSERT_EQ(view.values(block, head)[i], 0.0F);
          view.keys(block, head)[i] = 1.0F;
          view.values(block, head)[i] = 1.0F;
        }
  }
}

TEST(KvPool, ALatentGroupHoldsItsValuesOnceAToken) {
  ModelSpec spec;
  spec.layers.resize(2);
  spec.kv_groups = {{.layers = {0, 1}, .latent_dim = 40}};
  auto pool = KvPool::create(spec, kCapacity, *kBackend);
  ASSERT_TRUE(pool.ok());
  EXPECT_EQ(pool->bytes(), std::size_t{2 * 3 * 7 * 16 * 40} * sizeof(float));
  for (int layer = 0; layer < 2; ++layer) {
    EXPECT_EQ(pool->latents(layer).dim, 40);
    for (int block = 0; block < pool->blocks(0); ++block)
      for (int slot = 0; slot < kBlockTokens; ++slot)
        for (int i = 0; i < 40; ++i) {
          ASSERT_EQ(pool->latents(layer).row(block, slot)[i], 0.0F);
          pool->latents(layer).row(block, slot)[i] = 1.0F;
        }
  }
}

TEST(KvPool, ASequenceBeginsWithZeroState) {
  auto pool = KvPool::create(three_group_spec(), kCapacity, *kBackend);
  ASSERT_TRUE(pool.ok());
  KvSequence sequence;
  for (int round = 0; round < 4; ++round) {
    ASSERT_TRUE(pool->reserve(sequence, 1));
    ASSERT_EQ(sequence.tables[2].size(), 1U);
    const std::int32_t slot = sequence.tables[2][0];
    for (int layer : {3, 4})
      for (int i = 0; i < 48; ++i) {
        ASSERT_EQ(pool->state(layer).slot(slot)[i], 0.0F);
        pool->state(layer).slot(slot)[i] = 2.0F;
      }
    ASSERT_TRUE(pool->reserve(sequence, 50));
    EXPECT_EQ(sequence.tables[2], std::vector<std::int32_t>{slot}) << "it keeps its slot";
    EXPECT_EQ(pool->state(4).slot(slot)[47], 2.0F) << "and what it holds";
    pool->release(sequence);
  }
  EXPECT_EQ(pool->free_blocks(2), 3);
}

TEST(KvPool, ACopyHoldsTheSameAndNothingInCommon) {
  auto pool = KvPool::create(three_group_spec(), kCapacity, *kBackend);
  ASSERT_TRUE(pool.ok());
  std::vector<KvSequence> sequences(3);
  ASSERT_TRUE(pool->reserve(sequences[0], 40));
  pool->release_behind_window(sequences[0], 40);
  /// Adds `amount` to all that the sequence holds, the n-th number n more; the sum of it before.
  const auto add = [&](const KvSequence& sequence, float amount) {
    double sum = 0.0;
    float n = 0.0F;
    const auto visit = [&](float* values, std::size_t count) {
      for (std::size_t i = 0; i < count; ++i, n += 1.0F) {
        sum += values[i] * n;
        values[i] += amount * n;
      }
    };
    for (const auto& [layer, group] : {std::pair(0, 0), {2, 0}, {1, 1}})
      for (const std::int32_t block : sequence.tables[static_cast<std::size_t>(group)])
        if (block >= 0)
          visit(pool->view(layer).keys(block, 0), static_cast<std::size_t>(pool->view(layer).block_stride));
    for (int layer : {3, 4}) visit(pool->state(layer).slot(sequence.tables[2][0]), 48);
    return sum;
  };
  EXPECT_EQ(add(sequences[0], 1.0F), 0.0);
  ASSERT_TRUE(pool->copy(sequences[0], sequences[1]));
  expect_every_block_once(*pool, sequences);
  EXPECT_EQ(sequences[1].tokens, 40);
  EXPECT_EQ(sequences[1].tables[1][0], -1);
  const double held = add(sequences[0], 1.0F);
  EXPECT_GT(held, 0.0);
  EXPECT_EQ(add(sequences[1], 0.0F), held) << "the copy does not follow the original";
  ASSERT_TRUE(pool->copy(sequences[1], sequences[2]));
  KvSequence extra;
  EXPECT_FALSE(pool->copy(sequences[1], extra)) << "no slot is left";
  EXPECT_TRUE(extra.tables.empty());
  expect_every_block_once(*pool, sequences);
}

TEST(KvPool, RandomOperationsKeepTheAccounts) {
  auto pool = KvPool::create(three_group_spec(), kCapacity, *kBackend);
  ASSERT_TRUE(pool.ok());
  std::vector<KvSequence> sequences(6);
  std::mt19937 random(7);
  for (int i = 0; i < 5000; ++i) {
    KvSequence& sequence = sequences[random() % sequences.size()];
    const int tokens = sequence.tokens;
    KvSequence& other = sequences[random() % sequences.size()];
    switch (random() % 5) {
      case 4:
        if (other.tokens == 0) pool->copy(sequence, other);
        break;
      case 0:
        pool->release(sequence);
        break;
      case 1:
        pool->release_behind_window(sequence, tokens);
        break;
      default:
        const std::vector<std::vector<std::int32_t>> before = sequence.tables;
        const int wanted = std::min(100, tokens + static_cast<int>(random() % 17));
        if (!pool->reserve(sequence, wanted)) {
          EXPECT_EQ(sequence.tokens, tokens);
          for (std::size_t g = 0; g < before.size(); ++g) EXPECT_EQ(before[g], sequence.tables[g]);
        }
    }
    if (i % 50 == 0) expect_every_block_once(*pool, sequences);
  }
}

}  // namespace
}  // namespace colibri
