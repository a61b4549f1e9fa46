// SPDX-License-Identifier: Apache-2.0
// Latent attention: against the reference, and the same bits for a prompt in one piece, in chunks, token by token and
// beside other sequences. Cache blocks start as NaN, so touching what no row may see shows.
#include "backend/cases.h"

namespace colibri::test {
namespace {

struct Shape {
  int n_heads;
  int kv_rank;
  int nope_dim;
  int rope_dim;
  RopePairs pairs;
};

const std::vector<Shape> kShapes = {{1, 16, 3, 2, RopePairs::halves},
                                    {4, 32, 32, 16, RopePairs::neighbours},
                                    {3, 37, 5, 6, RopePairs::neighbours},
                                    {16, 128, 16, 64, RopePairs::halves}};

LatentAttentionSpec spec_of(const Shape& s) {
  LatentAttentionSpec spec;
  spec.n_heads = s.n_heads;
  spec.kv_rank = s.kv_rank;
  spec.nope_dim = s.nope_dim;
  spec.rope_dim = s.rope_dim;
  spec.scale = 1.0F / std::sqrt(static_cast<float>(spec.q_dim()));
  spec.norm_eps = 1e-6F;
  spec.rope.dim = s.rope_dim;
  spec.rope.scale = 1.25F;
  spec.rope.pairs = s.pairs;
  for (int i = 0; i < s.rope_dim; i += 2)
    spec.rope.inv_freq.push_back(std::pow(10000.0F, -static_cast<float>(i) / static_cast<float>(s.rope_dim)));
  return spec;
}

/// Blocks handed out in descending order.
class Latents {
 public:
  Latents(int dim, int blocks)
      : memory_(static_cast<std::size_t>(dim * blocks * kBlockTokens), kNan),
        view_{memory_.data(), std::ptrdiff_t{dim} * kBlockTokens, dim},
        free_(blocks) {}
  const LatentView& view() const { return view_; }
  void grow(std::vector<std::int32_t>& table, int tokens) {
    while (static_cast<int>(table.size()) * kBlockTokens < tokens) table.push_back(--free_);
  }

 private:
  std::vector<float> memory_;
  LatentView view_;
  int free_;
};

/// One sequence's prompt. `queries` already has the parts that meet the latents.
struct Prompt {
  LatentAttentionSpec spec;
  Values q;
  Values latents;
  Values kv_norm;
  Values queries;

  Prompt(const Shape& s, int tokens, unsigned seed)
      : spec(spec_of(s)),
        q(Values::random(tokens, s.n_heads * spec.q_dim(), seed)),
        latents(Values::random(tokens, spec.cached(), seed + 1)),
        kv_norm(Values::random(1, s.kv_rank, 77)),
        queries(Values::random(tokens, s.n_heads * spec.cached(), seed + 2)) {}

  /// Rows [first, first + rows) into the cache and, where `out` has rows, through attention.
  void step(Backend& backend, int first, int rows, const Batch& batch, const LatentView& cache, Rows out) {
    const Rows part = queries.view().slice(first, rows);
    backend.latent_rope_and_store(q.view().slice(first, rows), latents.view().slice(first, rows), spec, kv_norm.data,
                                  batch, cache, part);
    if (out.rows > 0) backend.latent_attention(part, spec, batch, cache, out);
  }
};

struct Outcome {
  std::vector<float> queries;
  std::vector<float> cached;  // [tokens][dim]
  std::vector<float> out;
};

Outcome run(Backend& backend, Prompt p, int chunk) {
  const int tokens = p.q.rows;
  Latents cache(p.spec.cached(), tokens / kBlockTokens + 3);
  std::vector<std::int32_t> table;
  Values out(tokens, p.spec.n_heads * p.spec.kv_rank, kNan);
  for (int first = 0; first < tokens; first += chunk) {
    const int rows = std::min(chunk, tokens - first);
    cache.grow(table, first + rows);
    Step step;
    step.add(table, first, rows);
    p.step(backend, first, rows, step.batch(), cache.view(), out.view().slice(first, rows));
  }
  Outcome outcome{p.queries.data, {}, out.data};
  for (int t = 0; t < tokens; ++t) {
    const float* row = cache.view().row(table[static_cast<std::size_t>(t / kBlockTokens)], t % kBlockTokens);
    outcome.cached.insert(outcome.cached.end(), row, row + p.spec.cached());
  }
  return outcome;
}

TEST(LatentAttention, GivesTheSameBitsEverywhere) {
  for (const Shape& s : kShapes) {
    for (const int tokens : {1, 2, 17, 64, 150}) {
      SCOPED_TRACE(testing::Message() << s.n_heads << " heads, rank " << s.kv_rank << ", " << tokens << " tokens");
      const Prompt p(s, tokens, 5);
      const Outcome expected = run(*backend("cpu", 1), p, tokens);
      for (const std::int64_t target : targets(false)) {
        for (const int threads : {1, 3}) {
          const Outcome variant = run(*backend_for(target, threads), p, tokens);
          expect_same_bits(expected.queries, variant.queries, "queries");
          expect_same_bits(expected.cached, variant.cached, "cache");
          expect_same_bits(expected.out, variant.out, "out");
        }
      }
    }
  }
}

TEST(LatentAttention, DoesNotDependOnChunks) {
  const auto cpu = backend("cpu", 2);
  for (const Shape& s : kShapes) {
    const Prompt p(s, 150, 3);
    const Outcome whole = run(*cpu, p, 150);
    for (const int chunk : {1, 5, 16, 64, 100}) {
      const Outcome pieces = run(*cpu, p, chunk);
      expect_same_bits(whole.cached, pieces.cached, "cache");
      expect_same_bits(whole.out, pieces.out, "chunks of " + std::to_string(chunk));
    }
  }
}

TEST(LatentAttention, DoesNotDependOnTheOtherSequences) {
  const auto cpu = backend("cpu", 2);
  for (const Shape& s : kShapes) {
    const int rows = 20;  // of each sequence in the joint step, its last ones
    Latents cache(spec_of(s).cached(), 30);
    std::vector<std::vector<std::int32_t>> tables(3);
    std::vector<float> expected;
    Prompt joint(s, 3 * rows, 1);
    Step step;
    for (int i = 0; i < 3; ++i) {
      const int before = 37 * i;
      Prompt p(s, before + rows, static_cast<unsigned>(100 + i));
      const Outcome alone = run(*cpu, p, before + rows);
      expected.insert(expected.end(), alone.out.end() - rows * s.n_heads * s.kv_rank, alone.out.end());
      std::vector<std::int32_t>& table = tables[static_cast<std::size_t>(i)];
      cache.grow(table, before + rows);
      for (auto [from, to] : {std::pair{&p.q, &joint.q}, {&p.latents, &joint.latents}, {&p.queries, &joint.queries}})
        std::copy_n(from->view().row(before), rows * from->cols, to->view().row(i * rows));
      Step first;
      first.add(table, 0, before);
      if (before > 0) p.step(*cpu, 0, before, first.batch(), cache.view(), {});
      step.add(table, before, rows);
    }
    Values out(3 * rows, s.n_heads * s.kv_rank, kNan);
    joint.step(*cpu, 0, 3 * rows, step.batch(), cache.view(), out.view());
    expect_same_bits(out.data, expected, "joint step");
  }
}

// The norm errs relatively by (n / 32 + 8) u (see rows_test), the rotation by 4 roundings of sums of magnitudes.
TEST(LatentAttention, StoresAndTurnsAsTheReferenceDoes) {
  for (const Shape& s : kShapes) {
    const Prompt p(s, 40, 9);
    const Outcome out = run(*backend("cpu", 2), p, 40);
    const Outcome expected = run(*backend("reference"), p, 40);
    const auto near = [&](const std::vector<float>& x, const std::vector<float>& y) {
      const int cols = s.kv_rank + s.rope_dim;
      for (std::size_t i = 0; i < x.size(); ++i) {
        const int d = static_cast<int>(i) % cols - s.kv_rank;
        const std::ptrdiff_t other = d < 0 ? 0 : d < s.rope_dim / 2 ? s.rope_dim / 2 : -s.rope_dim / 2;
        const double magnitude = std::abs(y[i]) + std::abs(y[i + static_cast<std::size_t>(other)]);
        EXPECT_NEAR(x[i], y[i], 2 * (s.kv_rank / 32.0 + 13) * kUnit * magnitude);
      }
    };
    near(out.cached, expected.cached);
    near(out.queries, expected.queries);
  }
}

// Bounds as in attention_test: a score errs by d = (dim / 16 + 6) u scale sum |q k|, a probability by 2 d and the
// roundings of exp and of its argument, sums of n positive terms by n u.
TEST(LatentAttention, IsWithinTheRoundingBoundOfTheReference) {
  for (const Shape& s : kShapes) {
    const int tokens = 150;
    const LatentAttentionSpec spec = spec_of(s);
    Prompt p(s, tokens, 9);
    Latents cache(spec.cached(), 12);
    std::vector<std::int32_t> table;
    cache.grow(table, tokens);
    Step step;
    step.add(table, 0, tokens);
    Values out(tokens, s.n_heads * s.kv_rank, kNan);
    Values expected = out;
    p.step(*backend("reference"), 0, tokens, step.batch(), cache.view(), expected.view());
    backend("cpu", 2)->latent_attention(p.queries.view(), spec, step.batch(), cache.view(), out.view());
    const auto row_of = [&](int t) {
      return cache.view().row(table[static_cast<std::size_t>(t / kBlockTokens)], t % kBlockTokens);
    };
    for (int r = 0; r < tokens; ++r) {
      for (int h = 0; h < s.n_heads; ++h) {
        std::vector<double> score;
        double delta = 0;
        double largest = 0;
        for (int j = 0; j <= r; ++j) {
          double sum = 0;
          double magnitude = 0;
          for (int d = 0; d < spec.cached(); ++d) {
            const double term = double{p.queries.at(r, h * spec.cached() + d)} * row_of(j)[d];
            sum += term;
            magnitude += std::abs(term);
          }
          score.push_back(sum * spec.scale);
          delta = std::max(delta, (spec.cached() / 16 + 6) * kUnit * spec.scale * magnitude);
          largest = std::max(largest, std::abs(score.back()));
        }
        const double most = *std::max_element(score.begin(), score.end());
        double total = 0;
        for (double& value : score) total += value = std::exp(value - most);
        const double relative =
            (r / 64 + 3) * (2 * delta + 2 * largest * kUnit + 4 * kUnit) + (2.0 * (r + 1) + 4) * kUnit;
        for (int d = 0; d < s.kv_rank; ++d) {
          double magnitude = 0;
          for (int j = 0; j <= r; ++j) magnitude += score[static_cast<std::size_t>(j)] / total * std::abs(row_of(j)[d]);
          const int column = h * s.kv_rank + d;
          EXPECT_NEAR(out.at(r, column), expected.at(r, column), 2 * relative * magnitude);
        }
      }
    }
  }
}

// Neighbours and halves are the same rotation of values in another order.
TEST(LatentAttention, NeighboursAreHalvesInAnotherOrder) {
  for (const char* name : {"cpu", "reference"}) {
    Prompt halves({2, 16, 4, 8, RopePairs::halves}, 3, 1);
    Prompt neighbours({2, 16, 4, 8, RopePairs::neighbours}, 3, 1);
    const auto reorder = [](Values& values, int stride, int first) {
      for (int r = 0; r < values.rows; ++r) {
        for (int at = first; at < values.cols; at += stride) {
          const std::vector<float> old(values.view().row(r) + at, values.view().row(r) + at + 8);
          for (int i = 0; i < 8; ++i)
            values.view().row(r)[at + i] = old[static_cast<std::size_t>(i % 2 == 0 ? i / 2 : 4 + i / 2)];
        }
      }
    };
    reorder(neighbours.q, 12, 4);
    reorder(neighbours.latents, 24, 16);
    const Outcome a = run(*backend(name), halves, 3);
    const Outcome b = run(*backend(name), neighbours, 3);
    expect_same_bits(a.queries, b.queries, "queries");
    expect_same_bits(a.cached, b.cached, "cache");
  }
}

TEST(LatentAttention, OfNoRowsDoesNothing) {
  for (const char* name : {"cpu", "reference"}) {
    Prompt p(kShapes[1], 0, 1);
    Latents cache(48, 1);
    Values out(0, 4 * 32, 0.0F);
    p.step(*backend(name, 2), 0, 0, {}, cache.view(), out.view());
    backend(name, 2)->latent_attention(p.queries.view(), p.spec, {}, cache.view(), out.view());
  }
}

TEST(LatentAttention, Speed) {
  const auto cpu = backend("cpu", 2);
  Prompt p({16, 512, 128, 64, RopePairs::neighbours}, 256, 1);  // DeepSeek-V2-Lite
  Latents cache(576, 16);
  std::vector<std::int32_t> table;
  cache.grow(table, 256);
  Values out(256, 16 * 512, 0.0F);
  Step prefill;
  prefill.add(table, 0, 256);
  p.step(*cpu, 0, 256, prefill.batch(), cache.view(), out.view());
  report("latent_attention 256 rows at 0", 2.0 * 16 * (576 + 512) * 256 * 257 / 2, "GFLOP/s",
         [&] { cpu->latent_attention(p.queries.view(), p.spec, prefill.batch(), cache.view(), out.view()); });
  Step decode;
  decode.add(table, 255, 1);
  report("latent_attention 1 row at 255", 2.0 * 16 * (576 + 512) * 256, "GFLOP/s", [&] {
    cpu->latent_attention(p.queries.view().slice(255, 1), p.spec, decode.batch(), cache.view(), out.view().slice(0, 1));
  });
}

}  // namespace
}  // namespace colibri::test
