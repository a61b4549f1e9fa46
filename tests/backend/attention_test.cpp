// SPDX-License-Identifier: Apache-2.0
// Rotary embedding, the cache and attention: against the reference, and the same bits for a prompt in one piece, in
// chunks, token by token and beside other sequences. Cache blocks start as NaN, so touching what no row may see shows.
#include "backend/cases.h"

namespace colibri::test {
namespace {

struct Shape {
  int n_heads;
  int n_kv_heads;
  int head_dim;
  int rope_dim;
  int window;
  QkNorm norm;
  bool sinks = false;
  RopePairs pairs = RopePairs::halves;
};

const std::vector<Shape> kShapes = {{1, 1, 16, 16, 0, QkNorm::none},
                                    {4, 2, 64, 64, 0, QkNorm::per_head},
                                    {6, 2, 24, 24, 17, QkNorm::full},
                                    {8, 1, 32, 16, 100, QkNorm::none},
                                    {16, 1, 8, 4, 1, QkNorm::per_head},
                                    {3, 3, 10, 6, 64, QkNorm::none},
                                    {32, 2, 128, 128, 33, QkNorm::none},
                                    {2, 2, 160, 0, 0, QkNorm::full},
                                    {4, 1, 40, 24, 0, QkNorm::per_head_turned},
                                    {6, 3, 24, 24, 0, QkNorm::none, true},
                                    {8, 2, 40, 40, 20, QkNorm::none, true},
                                    {4, 2, 48, 38, 0, QkNorm::per_head, false, RopePairs::neighbours}};

/// One sequence's prompt: q, k, v before the rotation, and the weights of the norms.
struct Prompt {
  Shape shape;
  AttentionSpec spec;
  Values q;
  Values k;
  Values v;
  Values q_norm;
  Values k_norm;
  Values sinks;

  Prompt(const Shape& s, int tokens, unsigned seed)
      : shape(s),
        spec(attention_spec(s.n_heads, s.n_kv_heads, s.head_dim, s.rope_dim, s.window)),
        q(Values::random(tokens, s.n_heads * s.head_dim, seed)),
        k(Values::random(tokens, s.n_kv_heads * s.head_dim, seed + 1)),
        v(Values::random(tokens, s.n_kv_heads * s.head_dim, seed + 2)),
        q_norm(Values::random(1, norm_size(s.n_heads), 77)),
        k_norm(Values::random(1, norm_size(s.n_kv_heads), 78)),
        sinks(Values::random(1, s.sinks ? s.n_heads : 0, 79)) {
    spec.sinks = s.sinks;
    spec.rope.pairs = s.pairs;
    spec.qk_norm = s.norm;
    spec.rope.scale = 1.25F;
  }
  int norm_size(int heads) const {
    return shape.norm == QkNorm::none ? 0 : shape.norm == QkNorm::full ? heads * shape.head_dim : shape.head_dim;
  }
};

struct Outcome {
  std::vector<float> q;  // after norm and rotation
  std::vector<float> k;
  std::vector<float> out;
};

void rope(Backend& backend, const Prompt& p, Rows q, Rows k, ConstRows v, const Batch& batch, const KvView& kv) {
  backend.rope_and_store(q, k, v, p.spec, p.q_norm.data, p.k_norm.data, 1e-6F, batch, kv);
}

/// Runs the prompt in pieces of at most `chunk` rows. Before each, blocks that its rows cannot see leave the table.
Outcome run(Backend& backend, const Prompt& p, int chunk) {
  const int tokens = p.q.rows;
  Cache cache(p.shape.n_kv_heads, p.shape.head_dim, tokens / kBlockTokens + 3);
  std::vector<std::int32_t> table;
  Values q = p.q;
  Values k = p.k;
  Values out(tokens, q.cols, kNan);
  for (int first = 0; first < tokens; first += chunk) {
    const int rows = std::min(chunk, tokens - first);
    while (static_cast<int>(table.size()) * kBlockTokens < first + rows) table.push_back(cache.take());
    if (p.shape.window > 0) {
      for (int block = 0; (block + 1) * kBlockTokens <= first - p.shape.window + 1; ++block) {
        table[static_cast<std::size_t>(block)] = -1;
      }
    }
    Step step;
    step.add(table, first, rows);
    rope(backend, p, q.view().slice(first, rows), k.view().slice(first, rows), p.v.view().slice(first, rows),
         step.batch(), cache.view());
    backend.attention(q.view().slice(first, rows), p.spec, p.sinks.data, step.batch(), cache.view(),
                      out.view().slice(first, rows));
  }
  return {q.data, k.data, out.data};
}

// The norm errs relatively by (n / 32 + 8) u (see rows_test), the rotation by 4 roundings of sums of magnitudes.
void expect_rope_near(const Prompt& p, const Outcome& a, const Outcome& b) {
  const auto near = [&](const std::vector<float>& x, const std::vector<float>& y, int heads) {
    const int cols = heads * p.shape.head_dim;
    const double roundings = (p.norm_size(heads) / 32.0 + 8) + 5;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const int d = static_cast<int>(i) % cols % p.shape.head_dim;
      const int half = p.shape.rope_dim / 2;
      // |a cos - b sin| hides a and b; their size is that of the rotated pair.
      const std::ptrdiff_t first = p.shape.pairs == RopePairs::halves ? half : 1;
      const bool leads = p.shape.pairs == RopePairs::halves ? d < half : d % 2 == 0;
      const std::ptrdiff_t other = d >= 2 * half ? 0 : leads ? first : -first;
      const double magnitude = std::abs(y[i]) + std::abs(y[i + static_cast<std::size_t>(other)]);
      EXPECT_NEAR(x[i], y[i], 2 * roundings * kUnit * magnitude);
    }
  };
  near(a.q, b.q, p.shape.n_heads);
  near(a.k, b.k, p.shape.n_kv_heads);
}

TEST(Attention, MatchesTheReferenceAndItselfEverywhere) {
  for (const Shape& s : kShapes) {
    for (const int tokens : {1, 2, 16, 17, 63, 64, 65, 150}) {
      SCOPED_TRACE(testing::Message() << s.n_heads << " heads of " << s.head_dim << ", window " << s.window << ", "
                                      << tokens << " tokens");
      const Prompt p(s, tokens, 5);
      const Outcome out = run(*backend("cpu", 1), p, tokens);
      for (const std::int64_t target : targets(false)) {
        for (const int threads : {1, 3}) {
          const Outcome variant = run(*backend_for(target, threads), p, tokens);
          expect_same_bits(out.q, variant.q, "q");
          expect_same_bits(out.k, variant.k, "k");
          expect_same_bits(out.out, variant.out, "out");
        }
      }
      expect_rope_near(p, out, run(*backend("reference"), p, tokens));
    }
  }
}

/// Attention alone on given q and cache, with its error bound.
//
// A score errs by d = (head_dim + 2) u scale sum |q k|. A probability is exp of a difference of scores: its relative
// error is 2 d, u |difference| for the difference's own rounding, 3 u of exp, and per group a factor with the same
// errors. Sums of n positive terms add n u, twice (numerator, denominator), and the quotient 3 u.
TEST(Attention, IsWithinTheRoundingBoundOfTheReference) {
  for (const Shape& s : kShapes) {
    const int tokens = 150;
    const Prompt p(s, tokens, 9);
    Cache cache(s.n_kv_heads, s.head_dim, 12);
    const std::vector<std::int32_t> table = cache.table(tokens);
    Step step;
    step.add(table, 0, tokens);
    Values q = p.q;
    Values k = p.k;
    rope(*backend("reference"), p, q.view(), k.view(), p.v.view(), step.batch(), cache.view());
    Values out(tokens, q.cols, kNan);
    Values expected(tokens, q.cols, kNan);
    backend("cpu", 2)->attention(q.view(), p.spec, p.sinks.data, step.batch(), cache.view(), out.view());
    backend("reference")->attention(q.view(), p.spec, p.sinks.data, step.batch(), cache.view(), expected.view());
    const int group = s.n_heads / s.n_kv_heads;
    for (int r = 0; r < tokens; ++r) {
      const int first = s.window > 0 ? std::max(0, r - s.window + 1) : 0;
      const int groups = (r - first) / 64 + 2;
      for (int h = 0; h < s.n_heads; ++h) {
        std::vector<double> score;
        double delta = 0;
        double largest = 0;
        for (int j = first; j <= r; ++j) {
          double sum = 0;
          double magnitude = 0;
          for (int d = 0; d < s.head_dim; ++d) {
            const double term = double{q.at(r, h * s.head_dim + d)} * k.at(j, h / group * s.head_dim + d);
            sum += term;
            magnitude += std::abs(term);
          }
          score.push_back(sum * p.spec.scale);
          delta = std::max(delta, (s.head_dim + 2) * kUnit * p.spec.scale * magnitude);
          largest = std::max(largest, std::abs(score.back()));
        }
        if (s.sinks) score.push_back(p.sinks.data[static_cast<std::size_t>(h)]);
        const double most = *std::max_element(score.begin(), score.end());
        double total = 0;
        for (double& value : score) total += value = std::exp(value - most);
        const double relative =
            (groups + 1) * (2 * delta + 2 * largest * kUnit + 4 * kUnit) + (2.0 * (r - first + 1) + 4) * kUnit;
        for (int d = 0; d < s.head_dim; ++d) {
          double magnitude = 0;
          for (int j = first; j <= r; ++j) {
            magnitude +=
                score[static_cast<std::size_t>(j - first)] / total * std::abs(p.v.at(j, h / group * s.head_dim + d));
          }
          const int column = h * s.head_dim + d;
          EXPECT_NEAR(out.at(r, column), expected.at(r, column), 2 * relative * magnitude);
        }
      }
    }
  }
}

TEST(Attention, DoesNotDependOnChunks) {
  const auto cpu = backend("cpu", 2);
  for (const Shape& s : kShapes) {
    const Prompt p(s, 170, 3);
    const Outcome whole = run(*cpu, p, 170);
    for (const int chunk : {1, 5, 16, 64, 100}) {
      const Outcome pieces = run(*cpu, p, chunk);
      expect_same_bits(whole.out, pieces.out, "chunks of " + std::to_string(chunk));
      expect_same_bits(whole.k, pieces.k, "keys");
    }
  }
}

TEST(Attention, DoesNotDependOnTheOtherSequences) {
  const auto cpu = backend("cpu", 2);
  for (const Shape& s : kShapes) {
    // Five sequences at different positions; in the joint step each brings its last `rows` rows.
    const std::vector<std::pair<int, int>> parts = {{70, 1}, {1, 1}, {33, 20}, {130, 2}, {64, 64}};
    Cache cache(s.n_kv_heads, s.head_dim, 40);
    std::vector<std::vector<std::int32_t>> tables;
    std::vector<Prompt> prompts;
    Step joint;
    int total = 0;
    for (const auto& [tokens, rows] : parts) {
      prompts.emplace_back(s, tokens, static_cast<unsigned>(100 + tokens));
      tables.push_back(cache.table(tokens));
      total += rows;
    }
    const int q_cols = s.n_heads * s.head_dim;
    const int kv_cols = s.n_kv_heads * s.head_dim;
    Values q(total, q_cols, kNan);
    Values k(total, kv_cols, kNan);
    Values v(total, kv_cols, kNan);
    std::vector<float> expected;
    int row = 0;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const auto& [tokens, rows] = parts[i];
      const int before = tokens - rows;
      const Prompt& p = prompts[i];
      const Outcome alone = run(*cpu, p, tokens);
      expected.insert(expected.end(), alone.out.end() - rows * q_cols, alone.out.end());
      if (before > 0) {
        Step first;
        first.add(tables[i], 0, before);
        Values q_before = p.q;
        Values k_before = p.k;
        rope(*cpu, p, q_before.view().slice(0, before), k_before.view().slice(0, before), p.v.view().slice(0, before),
             first.batch(), cache.view());
      }
      for (int r = 0; r < rows; ++r, ++row) {
        std::copy_n(p.q.view().row(before + r), q_cols, q.view().row(row));
        std::copy_n(p.k.view().row(before + r), kv_cols, k.view().row(row));
        std::copy_n(p.v.view().row(before + r), kv_cols, v.view().row(row));
      }
      joint.add(tables[i], before, rows);
    }
    rope(*cpu, prompts[0], q.view(), k.view(), v.view(), joint.batch(), cache.view());
    Values out(total, q_cols, kNan);
    cpu->attention(q.view(), prompts[0].spec, prompts[0].sinks.data, joint.batch(), cache.view(), out.view());
    expect_same_bits(out.data, expected, "joint step");
  }
}

TEST(Attention, OfNoRowsDoesNothing) {
  const Prompt p(kShapes[1], 0, 1);
  Cache cache(2, 64, 1);
  const Batch batch;
  for (const char* name : {"cpu", "reference"}) {
    const auto made = backend(name, 2);
    Values none(0, 256, 0.0F);
    Values kv_none(0, 128, 0.0F);
    rope(*made, p, none.view(), kv_none.view(), kv_none.view(), batch, cache.view());
    made->attention(none.view(), p.spec, p.sinks.data, batch, cache.view(), none.view());
  }
}

TEST(Attention, CarriesNonFiniteQueriesOfItsOwnRowOnly) {
  const Shape s{2, 1, 16, 16, 0, QkNorm::none};
  Prompt p(s, 20, 1);
  p.q.view().row(7)[3] = kNan;
  const Outcome out = run(*backend("cpu", 2), p, 20);
  for (int r = 0; r < 20; ++r) {
    for (int d = 0; d < 16; ++d) {
      EXPECT_EQ(std::isnan(out.out[static_cast<std::size_t>(r * 32 + d)]), r == 7);
      EXPECT_FALSE(std::isnan(out.out[static_cast<std::size_t>(r * 32 + 16 + d)]));
    }
  }
}

// Pair i of position p turns by the fp32 product p * inv_freq[i]; values beyond the rotary part stay.
TEST(Rope, TurnsPairsAsHuggingFaceDoes) {
  const Shape s{1, 1, 6, 4, 0, QkNorm::none};
  for (const char* name : {"cpu", "reference"}) {
    Prompt p(s, 1, 1);
    p.spec.rope.scale = 1.0F;
    p.q.data = {1, 2, 3, 4, 5, 6};
    p.k.data = {0, 1, 0, 0, 9, 8};
    Cache cache(1, 6, 4);
    const std::vector<std::int32_t> table = cache.table(50);
    Step step;
    step.add(table, 40, 1);
    rope(*backend(name), p, p.q.view(), p.k.view(), p.v.view(), step.batch(), cache.view());
    const double a = 40.0;
    const double b = static_cast<double>(40.0F * 0.01F);
    EXPECT_NEAR(p.q.data[0], 1 * std::cos(a) - 3 * std::sin(a), 1e-6);
    EXPECT_NEAR(p.q.data[2], 3 * std::cos(a) + 1 * std::sin(a), 1e-6);
    EXPECT_NEAR(p.q.data[1], 2 * std::cos(b) - 4 * std::sin(b), 1e-6);
    EXPECT_NEAR(p.q.data[3], 4 * std::cos(b) + 2 * std::sin(b), 1e-6);
    EXPECT_EQ(p.q.data[4], 5.0F);
    EXPECT_EQ(p.q.data[5], 6.0F);
    const float* keys = cache.view().keys(table[2], 0);
    EXPECT_EQ(keys[1 * 16 + 8], p.k.data[1]);
    EXPECT_EQ(keys[4 * 16 + 8], 9.0F);
    EXPECT_EQ(cache.view().values(table[2], 0)[8 * 6 + 5], p.v.data[5]);
    EXPECT_TRUE(std::isnan(keys[1 * 16 + 7]));
  }
}

// The table of cosines is kept between layers: another spec or other positions must not meet the old one.
TEST(Rope, FollowsChangesOfPositionAndSpec) {
  const auto cpu = backend("cpu", 1);
  for (const int rope_dim : {64, 32, 64}) {
    for (const int position : {3, 4, 3}) {
      for (const float scale : {1.0F, 0.5F}) {
        Prompt a({1, 1, 64, rope_dim, 0, QkNorm::none}, 2, 1);
        a.spec.rope.scale = scale;
        Prompt b = a;
        Cache cache(1, 64, 4);
        const std::vector<std::int32_t> table = cache.table(16);
        Step step;
        step.add(table, position, 2);
        rope(*cpu, a, a.q.view(), a.k.view(), a.v.view(), step.batch(), cache.view());
        rope(*backend("reference"), b, b.q.view(), b.k.view(), b.v.view(), step.batch(), cache.view());
        for (std::size_t i = 0; i < a.q.data.size(); ++i) EXPECT_NEAR(a.q.data[i], b.q.data[i], 1e-6);
      }
    }
  }
}

TEST(Attention, Speed) {
  const auto cpu = backend("cpu", 2);
  const Prompt p({4, 2, 64, 64, 0, QkNorm::per_head}, 512, 1);
  Cache cache(2, 64, 32);
  const std::vector<std::int32_t> table = cache.table(512);
  Step prefill;
  prefill.add(table, 0, 512);
  Values q = p.q;
  Values k = p.k;
  Values out(512, 256, 0.0F);
  report("rope_and_store 512 rows", 512.0 * 4 * (256 + 3 * 128), "GB/s",
         [&] { rope(*cpu, p, q.view(), k.view(), p.v.view(), prefill.batch(), cache.view()); });
  report("attention 512 rows at 0", 4.0 * 256 * 512 * 513 / 2, "GFLOP/s",
         [&] { cpu->attention(q.view(), p.spec, p.sinks.data, prefill.batch(), cache.view(), out.view()); });
  Step decode;
  decode.add(table, 511, 1);
  report("rope_and_store 1 row", 4.0 * (256 + 3 * 128), "GB/s", [&] {
    rope(*cpu, p, q.view().slice(511, 1), k.view().slice(511, 1), p.v.view().slice(511, 1), decode.batch(),
         cache.view());
  });
  report("attention 1 row at 511", 4.0 * 2 * 128 * 512, "GB/s", [&] {
    cpu->attention(q.view().slice(511, 1), p.spec, p.sinks.data, decode.batch(), cache.view(), out.view().slice(0, 1));
  });
}

}  // namespace
}  // namespace colibri::test
