// SPDX-License-Identifier: Apache-2.0
// The router and the experts, each alone: choices, ties, non-finite scores; the experts' sum with a given routing.
#include <cfloat>
#include <set>

#include "backend/cases.h"

namespace colibri::test {
namespace {

struct Choice {
  std::vector<std::int32_t> ids;
  std::vector<float> weights;

  Choice(int rows, int top_k)
      : ids(static_cast<std::size_t>(rows * top_k), -1), weights(static_cast<std::size_t>(rows * top_k), kNan) {}
  Routing view(int top_k) { return {top_k, ids, weights}; }
};

/// A router matrix of bf16 numbers given row by row.
Weights router_of(const std::vector<std::vector<float>>& rows) {
  Weights weights = Weights::random(static_cast<int>(rows.size()), static_cast<int>(rows[0].size()), 0);
  for (std::size_t r = 0; r < rows.size(); ++r) {
    std::vector<std::uint16_t> row;
    for (const float value : rows[r]) row.push_back(float_to_bf16(value));
    pack_row(weights.bytes.get(), static_cast<int>(rows[r].size()), static_cast<int>(r), row.data());
  }
  return weights;
}

class Route : public testing::TestWithParam<std::string> {
 protected:
  Choice route(const Values& x, const Matrix& router, RouterSpec spec) { return route(x, RouterView{router}, spec); }
  Choice route(const Values& x, const RouterView& router, RouterSpec spec) {
    Choice choice(x.rows, spec.top_k);
    backend(GetParam(), 2)->route(x.view(), router, spec, choice.view(spec.top_k));
    return choice;
  }
  /// The weights and ids of one row whose logits are these (bf16 numbers).
  Choice route_logits(const std::vector<float>& logits, RouterSpec spec, std::vector<float> correction = {}) {
    std::vector<std::vector<float>> rows;
    for (const float logit : logits) rows.push_back({logit});
    const Weights router = router_of(rows);
    spec.n_experts = static_cast<int>(logits.size());
    return route(Values(1, 1, 1.0F), {router.matrix, {}, correction}, spec);
  }
};
INSTANTIATE_TEST_SUITE_P(All, Route, testing::Values("cpu", "reference"));

TEST_P(Route, TakesTheSoftmaxOverAllExperts) {
  const Weights router = router_of({{0.0F}, {1.0F}, {2.0F}});
  const Values x(1, 1, 1.0F);
  const double total = 1.0 + std::exp(1.0) + std::exp(2.0);
  const Choice all = route(x, router.matrix, {3, 2, false});
  EXPECT_EQ(all.ids, (std::vector<std::int32_t>{2, 1}));
  EXPECT_NEAR(all.weights[0], std::exp(2.0) / total, 1e-6);
  EXPECT_NEAR(all.weights[1], std::exp(1.0) / total, 1e-6);
  const Choice chosen = route(x, router.matrix, {3, 2, true});
  EXPECT_EQ(chosen.ids, all.ids);
  EXPECT_NEAR(chosen.weights[0], 1.0 / (1.0 + std::exp(-1.0)), 1e-6);
  EXPECT_NEAR(chosen.weights[1], 1.0 / (1.0 + std::exp(1.0)), 1e-6);
}

TEST_P(Route, NamesDistinctExpertsWhateverTheScores) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  for (const int n_experts : {1, 6, 60, 72, 160, 384}) {
    for (const int top_k : {1, 4, std::min(n_experts, kMaxTopK)}) {
      if (top_k > n_experts) continue;
      const Weights router = Weights::random(n_experts, 3, 5);
      std::vector<RouterSpec> specs = {
          {n_experts, top_k, false}, {n_experts, top_k, true}, {n_experts, top_k, true, RouterScore::sigmoid}};
      if (n_experts % 6 == 0 && top_k < 3) {
        specs.push_back({.n_experts = n_experts, .top_k = top_k, .n_groups = n_experts / 3, .top_groups = 1});
        specs.push_back({.n_experts = n_experts, .top_k = 2, .score = RouterScore::sparse_mixer, .jitter = 0.01F});
      }
      for (const float value : {kNan, kInf, -kInf, 0.0F, FLT_MAX, -FLT_MAX, 1e-40F}) {
        for (const RouterSpec& spec : specs) {
          const Choice choice = route(Values(2, 3, value), router.matrix, spec);
          for (int r = 0; r < 2; ++r) {
            const auto first = choice.ids.begin() + r * spec.top_k;
            const std::set<std::int32_t> ids(first, first + spec.top_k);
            ASSERT_EQ(static_cast<int>(ids.size()), spec.top_k) << value;
            ASSERT_TRUE(*ids.begin() >= 0 && *ids.rbegin() < n_experts) << value;
          }
          for (const float weight : choice.weights) ASSERT_TRUE(weight >= 0.0F && weight <= 1.0F) << value;
        }
      }
    }
  }
}

TEST_P(Route, GivesTiesToTheLowerId) {
  const Weights router = router_of({{1.0F}, {3.0F}, {1.0F}, {3.0F}, {3.0F}, {1.0F}});
  const Choice choice = route(Values(1, 1, 1.0F), router.matrix, {6, 5, false});
  EXPECT_EQ(choice.ids, (std::vector<std::int32_t>{1, 3, 4, 0, 2}));
  const Choice equal = route(Values(1, 1, 0.0F), router.matrix, {6, 3, true});
  EXPECT_EQ(equal.ids, (std::vector<std::int32_t>{0, 1, 2}));
  for (const float weight : equal.weights) EXPECT_NEAR(weight, 1.0 / 3.0, 1e-6);
}

TEST_P(Route, WorksWithScoresThatAreAllNegative) {
  const Weights router = router_of({{-30.0F}, {-20.0F}, {-25.0F}});
  EXPECT_EQ(route(Values(1, 1, 5.0F), router.matrix, {3, 2, true}).ids, (std::vector<std::int32_t>{1, 2}));
}

double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

TEST_P(Route, CorrectsTheChoiceButNotTheWeights) {
  const std::vector<float> logits = {2.0F, -1.0F, 0.5F, 1.0F};
  RouterSpec spec{.top_k = 2, .score = RouterScore::sigmoid, .scale = 2.5F};
  const Choice plain = route_logits(logits, spec);
  EXPECT_EQ(plain.ids, (std::vector<std::int32_t>{0, 3}));
  EXPECT_NEAR(plain.weights[0], 2.5 * sigmoid(2.0), 1e-6);
  const Choice corrected = route_logits(logits, spec, {0.0F, 0.75F, 0.0F, -0.5F});
  EXPECT_EQ(corrected.ids, (std::vector<std::int32_t>{1, 0}));  // 0.27 + 0.75 and 0.88
  EXPECT_NEAR(corrected.weights[0], 2.5 * sigmoid(-1.0), 1e-6);
  spec.norm_topk = true;
  const Choice shares = route_logits(logits, spec, {0.0F, 0.75F, 0.0F, -0.5F});
  EXPECT_NEAR(shares.weights[1], 2.5 * sigmoid(2.0) / (sigmoid(2.0) + sigmoid(-1.0)), 1e-6);
  spec.score = RouterScore::softmax;
  const Choice soft = route_logits(logits, spec, {-1.0F, 0.0F, 0.5F, 0.0F});
  EXPECT_EQ(soft.ids, (std::vector<std::int32_t>{2, 3}));
  EXPECT_NEAR(soft.weights[0], 2.5 * std::exp(0.5) / (std::exp(0.5) + std::exp(1.0)), 1e-6);
}

TEST_P(Route, KeepsToTheBestGroups) {
  // Groups of three: their best are 4, 3 and 1, their best two 4.0, 4.5 and 4.75 below.
  RouterSpec spec{.top_k = 3, .score = RouterScore::softmax, .n_groups = 3, .top_groups = 2};
  EXPECT_EQ(route_logits({4, 0, -1, 2, 3, 2, 1, 1, 1}, spec).ids, (std::vector<std::int32_t>{0, 4, 3}));
  spec.top_groups = 1;
  EXPECT_EQ(route_logits({4, 0, -1, 2, 3, 2, 1, 1, 1}, spec).ids, (std::vector<std::int32_t>{0, 1, 2}));
  spec.score = RouterScore::sigmoid;
  spec.group_score = GroupScore::best_two;  // sigmoid(4) + sigmoid(0) < sigmoid(3) + sigmoid(2)
  EXPECT_EQ(route_logits({4, 0, -1, 2, 3, 2, 1, 1, 1}, spec).ids, (std::vector<std::int32_t>{4, 3, 5}));
  EXPECT_EQ(route_logits({4, 0, -1, 2, 3, 2, 1, 1, 1}, spec, {0, 0, 0, 0, 0, 0, 2, 1, 0}).ids,
            (std::vector<std::int32_t>{6, 7, 8}));
  spec.top_groups = 2;  // equal groups: the lower ones
  EXPECT_EQ(route_logits({1, 1, 1, 1, 1, 1, 1, 1, 1}, spec).ids, (std::vector<std::int32_t>{0, 1, 2}));
}

TEST_P(Route, MixesTwoExpertsWithThoseNearThem) {
  RouterSpec spec{.top_k = 2, .score = RouterScore::sparse_mixer, .jitter = 0.125F};
  // Near 4 is what is at most a quarter below, relatively: 3. Near 3 alone: 2.5, for 2 is a third below.
  const Choice choice = route_logits({2.0F, 4.0F, 2.5F, 3.0F}, spec);
  EXPECT_EQ(choice.ids, (std::vector<std::int32_t>{1, 3}));
  EXPECT_NEAR(choice.weights[0], 1.0 / (1.0 + std::exp(-1.0)), 1e-6);
  EXPECT_NEAR(choice.weights[1], 1.0 / (1.0 + std::exp(-0.5)), 1e-6);
  spec.jitter = 0.0F;
  const Choice sharp = route_logits({-2.0F, -4.0F, -2.5F}, spec);
  EXPECT_EQ(sharp.ids, (std::vector<std::int32_t>{0, 2}));
  EXPECT_EQ(sharp.weights, (std::vector<float>{1.0F, 1.0F}));
}

TEST_P(Route, AddsTheBiasOfTheLogits) {
  const Weights router = router_of({{1.0F}, {2.0F}, {3.0F}});
  const std::vector<float> bias = {4.0F, 0.0F, -3.0F};
  const Choice choice = route(Values(1, 1, 1.0F), {router.matrix, bias}, {3, 2, true});
  EXPECT_EQ(choice.ids, (std::vector<std::int32_t>{0, 1}));
  EXPECT_NEAR(choice.weights[0], sigmoid(3.0), 1e-6);
}

// Logits differ by at most (K + 1) u sum |w x| = d, so a weight differs by the factor exp(2 d) and a few roundings, and
// the order may differ only where two logits are closer than 2 d: random ones are not.
TEST(RouteCpu, MatchesTheReferenceAndItselfEverywhere) {
  for (const int rows : {0, 1, 3, 40}) {
    for (const RouterSpec& spec :
         {RouterSpec{60, 6, false}, RouterSpec{60, 6, true}, RouterSpec{60, 6, false, RouterScore::sigmoid}}) {
      const Values x = Values::random(rows, 77, 11);
      const Weights router = Weights::random(60, 77, 12);
      Choice expected(rows, 6);
      backend("reference")->route(x.view(), {router.matrix}, spec, expected.view(6));
      std::vector<float> weights = same_everywhere(
          [&](Backend& cpu) {
            Choice choice(rows, 6);
            cpu.route(x.view(), {router.matrix}, spec, choice.view(6));
            EXPECT_EQ(choice.ids, expected.ids);
            return choice.weights;
          },
          false);
      for (int r = 0; r < rows; ++r) {
        double logit_error = 0.0;
        for (int e = 0; e < 60; ++e) {
          double magnitude = 0.0;
          for (int k = 0; k < 77; ++k) magnitude += std::abs(double{router.matrix.at(e, k)} * x.at(r, k));
          logit_error = std::max(logit_error, 78 * kUnit * magnitude);
        }
        for (int i = 0; i < 6; ++i) {
          const auto slot = static_cast<std::size_t>(r * 6 + i);
          EXPECT_NEAR(weights[slot], expected.weights[slot], expected.weights[slot] * (2 * logit_error + 32 * kUnit));
        }
      }
    }
  }
}

TEST(RouteCpu, OfARowDoesNotDependOnTheBatch) {
  const auto cpu = backend("cpu", 2);
  const Values x = Values::random(30, 64, 1);
  const Weights router = Weights::random(32, 64, 2);
  Choice batched(30, 4);
  cpu->route(x.view(), {router.matrix}, {32, 4, true}, batched.view(4));
  for (int r = 0; r < 30; ++r) {
    Choice alone(1, 4);
    cpu->route(x.view().slice(r, 1), {router.matrix}, {32, 4, true}, alone.view(4));
    for (std::size_t i = 0; i < 4; ++i) {
      EXPECT_EQ(alone.ids[i], batched.ids[static_cast<std::size_t>(r) * 4 + i]);
      EXPECT_EQ(alone.weights[i], batched.weights[static_cast<std::size_t>(r) * 4 + i]);
    }
  }
}

struct Moe {
  int rows;
  int n_experts;
  int top_k;
  ExpertShape shape;
};

const std::vector<Moe> kMoes = {{0, 4, 2, {16, 16}},       {1, 1, 1, {1, 1}},     {1, 4, 4, {32, 24}},
                                {3, 6, 2, {40, 17}},       {17, 1, 1, {33, 70}},  {50, 8, 3, {48, 129}},
                                {1, 32, 4, {256, 64}},     {70, 60, 4, {64, 33}}, {1, 4, 2, {40, 17, true}},
                                {21, 5, 3, {48, 90, true}}};

/// Those with biases have the clamped gate as well, with a limit that many values exceed.
Experts random_experts(const Moe& m) {
  Experts experts = Experts::random(m.n_experts, m.shape, 3);
  if (m.shape.biases) experts.activation = ClampedGate{1.702F, 0.75F};
  return experts;
}

/// Distinct experts for each row, and weights of both sizes.
Choice random_choice(const Moe& m, unsigned seed) {
  Choice choice(m.rows, m.top_k);
  std::mt19937 engine(seed);
  std::vector<std::int32_t> order(static_cast<std::size_t>(m.n_experts));
  for (int e = 0; e < m.n_experts; ++e) order[static_cast<std::size_t>(e)] = e;
  for (int r = 0; r < m.rows; ++r) {
    std::shuffle(order.begin(), order.end(), engine);
    std::copy_n(order.begin(), m.top_k, choice.ids.begin() + r * m.top_k);
  }
  for (float& weight : choice.weights) weight = static_cast<float>(engine() % 1000) / 1000.0F;
  return choice;
}

std::vector<float> run(Backend& backend, const Moe& m, const Values& x, Choice choice, const Experts& experts,
                       const Values& before) {
  Values out = before;
  backend.experts(x.view(), choice.view(m.top_k), experts.table(), out.view());
  return out.data;
}

// Products err by (K + 1) u of their sums of magnitudes (see linear); |silu'| < 1.1; silu and the product add 7 u; the
// weighted sum adds top_k + 2 roundings. All of it carried through down with absolute values.
TEST(ExpertsCpu, AreWithinTheRoundingBoundOfTheReferenceAndTheSameEverywhere) {
  for (const Moe& m : kMoes) {
    SCOPED_TRACE(testing::Message() << m.rows << " rows, " << m.n_experts << " experts, d_ff " << m.shape.d_ff);
    const Values x = Values::random(m.rows, m.shape.d_model, 1);
    const Values before = Values::random(m.rows, m.shape.d_model, 2);
    const Experts experts = random_experts(m);
    const Choice choice = random_choice(m, 4);
    const std::vector<float> expected = run(*backend("reference"), m, x, choice, experts, before);
    const std::vector<float> out =
        same_everywhere([&](Backend& cpu) { return run(cpu, m, x, choice, experts, before); }, false);
    for (int r = 0; r < m.rows; ++r) {
      std::vector<double> bound(static_cast<std::size_t>(m.shape.d_model), 0.0);
      for (int slot = 0; slot < m.top_k; ++slot) {
        const auto pair = static_cast<std::size_t>(r * m.top_k + slot);
        const int e = choice.ids[pair];
        std::vector<double> h(static_cast<std::size_t>(m.shape.d_ff));
        std::vector<double> h_error(h.size());
        for (int i = 0; i < m.shape.d_ff; ++i) {
          double gate = 0, up = 0, gate_size = 0, up_size = 0;
          for (int k = 0; k < m.shape.d_model; ++k) {
            const double g = double{experts.table().gate(e).at(i, k)} * x.at(r, k);
            const double u = double{experts.table().up(e).at(i, k)} * x.at(r, k);
            gate += g, up += u, gate_size += std::abs(g), up_size += std::abs(u);
          }
          double alpha = 1.0;
          if (m.shape.biases) {  // one more rounding each, none from the limits
            const float* bias = experts.table().gate_up_bias(e);
            const auto& clamped = std::get<ClampedGate>(experts.activation);
            gate_size += std::abs(bias[i]) + std::abs(gate), up_size += std::abs(bias[m.shape.d_ff + i]) + 1;
            gate = std::min(gate + bias[i], double{clamped.limit});
            up = std::clamp(up + bias[m.shape.d_ff + i], -double{clamped.limit}, double{clamped.limit}) + 1;
            alpha = clamped.alpha;
          }
          const double unit = (m.shape.d_model + 1) * kUnit;
          const double silu = gate / (1 + std::exp(-alpha * gate));
          const auto at = static_cast<std::size_t>(i);
          h[at] = std::abs(silu * up);
          h_error[at] = 1.1 * unit * gate_size * std::abs(up) + std::abs(silu) * unit * up_size + 10 * kUnit * h[at];
        }
        for (int i = 0; i < m.shape.d_model; ++i) {
          double error = 0;
          for (int k = 0; k < m.shape.d_ff; ++k) {
            const double w = std::abs(experts.table().down(e).at(i, k));
            error += w * (h_error[static_cast<std::size_t>(k)] +
                          (m.shape.d_ff + m.top_k + 4) * kUnit * h[static_cast<std::size_t>(k)]);
          }
          if (m.shape.biases) error += 4 * kUnit * std::abs(experts.table().down_bias(e)[i]);
          bound[static_cast<std::size_t>(i)] += choice.weights[pair] * error;
        }
      }
      for (int i = 0; i < m.shape.d_model; ++i) {
        const auto at = static_cast<std::size_t>(r * m.shape.d_model + i);
        const double own = (std::abs(expected[at]) + std::abs(before.data[at])) * 2 * kUnit;
        EXPECT_NEAR(out[at], expected[at], bound[static_cast<std::size_t>(i)] * 1.01 + own);
      }
    }
  }
}

// The chain of the whole op, one fused step at a time; only silu is taken from the backend.
TEST(ExpertsCpu, AreTheStatedChains) {
  const Moe m{20, 5, 2, {37, 21}};
  const Values x = Values::random(m.rows, m.shape.d_model, 1);
  const Values before = Values::random(m.rows, m.shape.d_model, 2);
  const Experts experts = Experts::random(m.n_experts, m.shape, 3);
  const Choice choice = random_choice(m, 4);
  const auto cpu = backend("cpu", 2);
  const auto chain = [](const float* values, const Matrix& w, int row) {
    float sum = 0.0F;
    for (int k = 0; k < w.cols; ++k) sum = std::fma(w.at(row, k), values[k], sum);
    return sum;
  };
  Values expected = before;
  for (int r = 0; r < m.rows; ++r) {
    std::vector<float> sum(static_cast<std::size_t>(m.shape.d_model), 0.0F);
    for (int slot = 0; slot < m.top_k; ++slot) {
      const auto pair = static_cast<std::size_t>(r * m.top_k + slot);
      const int e = choice.ids[pair];
      Values gate(1, m.shape.d_ff, 0.0F);
      Values up(1, m.shape.d_ff, 0.0F);
      for (int i = 0; i < m.shape.d_ff; ++i) {
        gate.data[static_cast<std::size_t>(i)] = chain(x.view().row(r), experts.table().gate(e), i);
        up.data[static_cast<std::size_t>(i)] = chain(x.view().row(r), experts.table().up(e), i);
      }
      cpu->silu_mul(gate.view(), up.view(), gate.view());
      for (int i = 0; i < m.shape.d_model; ++i) {
        float& s = sum[static_cast<std::size_t>(i)];
        s = std::fma(chain(gate.data.data(), experts.table().down(e), i), choice.weights[pair], s);
      }
    }
    for (int i = 0; i < m.shape.d_model; ++i) expected.view().row(r)[i] += sum[static_cast<std::size_t>(i)];
  }
  expect_same_bits(run(*cpu, m, x, choice, experts, before), expected.data, "experts");
}

TEST(ExpertsCpu, OfARowDoNotDependOnTheBatch) {
  const Moe m{70, 6, 2, {64, 48}};
  const Values x = Values::random(m.rows, m.shape.d_model, 1);
  const Values before = Values::random(m.rows, m.shape.d_model, 2);
  const Experts experts = Experts::random(m.n_experts, m.shape, 3);
  Choice choice = random_choice(m, 4);
  const auto cpu = backend("cpu", 2);
  const std::vector<float> batched = run(*cpu, m, x, choice, experts, before);
  Values alone = before;
  for (int r = 0; r < m.rows; ++r) {
    const Routing routing{2, std::span(choice.ids).subspan(static_cast<std::size_t>(r) * 2, 2),
                          std::span(choice.weights).subspan(static_cast<std::size_t>(r) * 2, 2)};
    cpu->experts(x.view().slice(r, 1), routing, experts.table(), alone.view().slice(r, 1));
  }
  expect_same_bits(batched, alone.data, "alone");
}

TEST(ExpertsCpu, AllTokensMayGoToExpertZero) {
  for (const std::int32_t expert : {0, 3}) {
    const Moe m{40, 4, 1, {32, 32}};
    const Values x = Values::random(m.rows, m.shape.d_model, 1);
    const Experts experts = random_experts(m);
    Choice choice(m.rows, 1);
    std::fill(choice.ids.begin(), choice.ids.end(), expert);
    std::fill(choice.weights.begin(), choice.weights.end(), 1.0F);
    const Values zero(m.rows, m.shape.d_model, 0.0F);
    const std::vector<float> out = run(*backend("cpu", 2), m, x, choice, experts, zero);
    const std::vector<float> expected = run(*backend("reference"), m, x, choice, experts, zero);
    for (std::size_t i = 0; i < out.size(); ++i) {
      EXPECT_NE(out[i], 0.0F);
      EXPECT_NEAR(out[i], expected[i], 1e-4);
    }
  }
}

TEST(ExpertsCpu, ExpertsWithoutTokensMayBeAbsent) {
  const Moe m{2, 3, 1, {16, 16}};
  Experts experts = Experts::random(3, m.shape, 1);
  experts.records[0] = experts.records[2] = nullptr;
  Choice choice(2, 1);
  choice.ids = {1, 1};
  choice.weights = {1.0F, 1.0F};
  const Values x = Values::random(2, 16, 1);
  for (const float value : run(*backend("cpu", 2), m, x, choice, experts, Values(2, 16, 0.0F))) {
    EXPECT_TRUE(std::isfinite(value));
  }
}

TEST(ExpertsCpu, Speed) {
  const auto cpu = backend("cpu", 2);
  for (const int rows : {1, 8, 64, 512}) {
    const Moe m{rows, 32, 4, {256, 64}};
    const Values x = Values::random(rows, 256, 1);
    const Experts experts = Experts::random(32, m.shape, 3);
    Choice choice = random_choice(m, 4);
    Values out(rows, 256, 0.0F);
    const std::string what = "experts " + std::to_string(rows) + " rows, 4 of 32, 256 x 64";
    report(what.c_str(), 2.0 * 3 * 256 * 64 * 4 * rows, "GFLOP/s",
           [&] { cpu->experts(x.view(), choice.view(4), experts.table(), out.view()); });
  }
}

}  // namespace
}  // namespace colibri::test
