// SPDX-License-Identifier: Apache-2.0
// Short convolution and the gated delta rule: against the reference from the same state, by hand where the answer is
// plain, and the same bits for a sequence in one piece, in chunks, token by token and beside others.
#include "backend/cases.h"

namespace colibri::test {
namespace {

/// Slots of random state for a few sequences.
struct States {
  std::vector<float> floats;
  std::size_t slot_floats;

  States(std::size_t slots, std::size_t each) : floats(slots * each), slot_floats(each) {}
  void randomize(unsigned seed) {
    std::mt19937 engine(seed);
    std::normal_distribution<float> normal;
    for (float& value : floats) value = normal(engine);
  }
  StateView view() { return {floats.data(), static_cast<std::ptrdiff_t>(slot_floats)}; }
};

const std::vector<std::vector<std::int32_t>> kSlots = {{0}, {1}, {2}, {3}};

/// Runs rows of `inputs` sequences as pieces of at most `chunk` rows; all sequences advance in the same steps, and
/// their slots are handed out backwards. run(step, first input rows in order, out) does one step.
template <class Op>
std::vector<float> in_steps(const std::vector<Values>& inputs, int out_cols, int chunk, Op op) {
  std::vector<Values> outs;
  for (const Values& input : inputs) outs.emplace_back(input.rows, out_cols, kNan);
  for (int first = 0;; first += chunk) {
    Step step;
    std::vector<std::size_t> taking;
    std::vector<float> rows;
    for (std::size_t s = 0; s < inputs.size(); ++s) {
      const int count = std::min(chunk, inputs[s].rows - first);
      if (count <= 0) continue;
      taking.push_back(s);
      step.add(kSlots[inputs.size() - 1 - s], first, count);
      rows.insert(rows.end(), inputs[s].view().row(first), inputs[s].view().row(first + count));
    }
    if (taking.empty()) break;
    Values out(step.rows(), out_cols, kNan);
    op(ConstRows(rows.data(), step.rows(), inputs[0].cols), step.batch(), out.view());
    for (std::size_t i = 0; i < taking.size(); ++i) {
      const SequenceRows& sequence = step.batch().sequences[i];
      std::copy_n(out.view().row(sequence.first_row), std::ptrdiff_t{sequence.rows} * out_cols,
                  outs[taking[i]].view().row(first));
    }
  }
  std::vector<float> all;
  for (const Values& out : outs) all.insert(all.end(), out.data.begin(), out.data.end());
  return all;
}

struct Conv {
  int cols;
  int width;
  bool bias;
};
const std::vector<Conv> kConvs = {{1, 1, false}, {5, 2, true}, {64, 3, true}, {130, 4, false}, {600, 4, true}};

std::vector<float> run_conv(Backend& backend, const Conv& conv, const std::vector<Values>& inputs, int chunk,
                            std::vector<float>* left = nullptr) {
  const Values weight = Values::random(conv.width, conv.cols, 5);
  const Values bias = Values::random(1, conv.bias ? conv.cols : 0, 6);
  States states(4, static_cast<std::size_t>((conv.width - 1) * conv.cols));
  states.randomize(7);
  auto out = in_steps(inputs, conv.cols, chunk, [&](ConstRows x, const Batch& batch, Rows to) {
    backend.short_conv(x, weight.data, bias.data, batch, states.view(), 0, to);
  });
  if (left != nullptr) *left = states.floats;
  return out;
}

// One chain of `width` multiply-adds and the bias: width + 1 roundings of at most the sum of magnitudes, and the
// reference's own.
TEST(ShortConv, MatchesTheReferenceAndLeavesTheSameWindow) {
  for (const Conv& conv : kConvs) {
    const std::vector<Values> inputs = {Values::random(1, conv.cols, 1), Values::random(9, conv.cols, 2)};
    std::vector<float> window;
    const auto expected = run_conv(*backend("reference"), conv, inputs, 9, &window);
    std::vector<float> cpu_window;
    const auto out = same_everywhere([&](Backend& cpu) { return run_conv(cpu, conv, inputs, 9, &cpu_window); });
    const double largest = 5.0;  // of standard normals, in so few draws
    for (std::size_t i = 0; i < out.size(); ++i)
      ASSERT_NEAR(out[i], expected[i], (conv.width + 2) * kUnit * (conv.width * largest * largest + largest));
    expect_same_bits(window, cpu_window, "window");
  }
}

TEST(ShortConv, SeesExactlyTheRowsBefore) {
  const std::vector<float> weight = {100, 10, 1};  // oldest first
  for (const char* name : {"reference", "cpu"}) {
    States states(1, 2);
    states.floats = {7, 8};
    Values x(4, 1, 0.0F);
    x.data = {1, 2, 3, 4};
    Values out(4, 1, kNan);
    Step step;
    step.add(kSlots[0], 0, 4);
    backend(name)->short_conv(x.view(), weight, {}, step.batch(), states.view(), 0, out.view());
    EXPECT_EQ(out.data, (std::vector<float>{781, 812, 123, 234})) << name;
    EXPECT_EQ(states.floats, (std::vector<float>{3, 4})) << name;
  }
}

TEST(ShortConv, ChunkedAndBatchedEqualWholeAndAlone) {
  for (const Conv& conv : kConvs) {
    const std::vector<Values> inputs = {Values::random(20, conv.cols, 1), Values::random(3, conv.cols, 2),
                                        Values::random(11, conv.cols, 3)};
    for (const char* name : {"reference", "cpu"}) {
      const auto made = backend(name, 2);
      const auto whole = run_conv(*made, conv, inputs, 100);
      for (const int chunk : {1, 2, 7}) expect_same_bits(whole, run_conv(*made, conv, inputs, chunk), name);
    }
  }
}

DeltaNetSpec delta_spec(int n_k_heads, int n_v_heads, int k_dim, int v_dim) {
  DeltaNetSpec spec;
  spec.n_k_heads = n_k_heads;
  spec.n_v_heads = n_v_heads;
  spec.k_dim = k_dim;
  spec.v_dim = v_dim;
  spec.conv_width = 4;
  return spec;
}
const std::vector<DeltaNetSpec> kDeltas = {delta_spec(1, 1, 1, 1), delta_spec(2, 4, 16, 24), delta_spec(3, 3, 10, 70),
                                           delta_spec(1, 6, 128, 128)};

struct Delta {
  DeltaNetSpec spec;
  Values a_log;
  Values dt_bias;
  States states;

  explicit Delta(const DeltaNetSpec& of)
      : spec(of),
        a_log(Values::random(1, of.n_v_heads, 5)),
        dt_bias(Values::random(1, of.n_v_heads, 6)),
        states(4, of.state_floats()) {
    // Columns of padding hold zeros, as in a pool.
    std::mt19937 engine(7);
    std::normal_distribution<float> normal;
    const std::size_t rows = static_cast<std::size_t>(of.n_v_heads) * static_cast<std::size_t>(of.k_dim);
    for (std::int32_t slot = 0; slot < 4; ++slot)
      for (std::size_t i = 0; i < rows; ++i)
        for (int j = 0; j < of.v_dim; ++j)
          states.view().slot(slot)[of.window_floats() + i * of.matrix_stride() + static_cast<std::size_t>(j)] =
              normal(engine);
  }
  /// Inputs hold qkv and gates side by side.
  int cols() const { return spec.conv_cols() + 2 * spec.n_v_heads; }
  std::vector<float> run(Backend& backend, const std::vector<Values>& inputs, int chunk) {
    return in_steps(inputs, spec.value_cols(), chunk, [&](ConstRows x, const Batch& batch, Rows to) {
      backend.delta_rule(x.columns(0, spec.conv_cols()), x.columns(spec.conv_cols(), 2 * spec.n_v_heads), spec,
                         a_log.data, dt_bias.data, batch, states.view(), to);
    });
  }
};

// One row. k has norm 1 and q k_dim^-0.5 up to k_dim / 32 + 10 roundings; what is held under k is a chain of 2 k_dim
// roundings of at most |S_j|, the new state one of |S_j| + |change|, the output a chain of k_dim over it; decay, beta,
// difference and product add a handful.
TEST(DeltaRule, ARowMatchesTheReference) {
  for (const DeltaNetSpec& spec : kDeltas) {
    const std::vector<Values> inputs = {Values::random(1, Delta(spec).cols(), 1)};
    Delta oracle(spec);
    const States before = oracle.states;
    const auto expected = oracle.run(*backend("reference"), inputs, 1);
    std::vector<float> left;
    const auto out = same_everywhere([&](Backend& cpu) {
      Delta delta(spec);
      auto made = delta.run(cpu, inputs, 1);
      left = delta.states.floats;
      return made;
    });
    for (int h = 0; h < spec.n_v_heads; ++h) {
      for (int j = 0; j < spec.v_dim; ++j) {
        const auto place = [&](int i) {
          return spec.window_floats() + static_cast<std::size_t>(h * spec.k_dim + i) * spec.matrix_stride() +
                 static_cast<std::size_t>(j);
        };
        double squares = 0.0;
        for (int i = 0; i < spec.k_dim; ++i) squares += std::pow(before.floats[place(i)], 2);
        const double v = std::abs(inputs[0].at(0, 2 * spec.key_cols() + h * spec.v_dim + j));
        const double bound = (4 * spec.k_dim + 60) * kUnit * (2 * std::sqrt(squares) + v);
        const auto column = static_cast<std::size_t>(h * spec.v_dim + j);
        ASSERT_NEAR(out[column], expected[column], bound / std::sqrt(spec.k_dim)) << h << " " << j;
        for (int i = 0; i < spec.k_dim; ++i) ASSERT_NEAR(left[place(i)], oracle.states.floats[place(i)], bound);
      }
    }
  }
}

// No decay (softplus(-60) is 0) and beta 1: the matrix is a dictionary under orthogonal keys, and a second value under
// a key replaces the first. q is divided by sqrt(4).
TEST(DeltaRule, RemembersAndReplacesByHand) {
  for (const char* name : {"reference", "cpu"}) {
    Delta delta(delta_spec(1, 1, 4, 2));
    std::fill(delta.states.floats.begin(), delta.states.floats.end(), 0.0F);
    Values rows(4, delta.cols(), 0.0F);
    const auto set = [&](int r, int query, int key, float v0, float v1, float beta) {
      float* row = rows.view().row(r);
      row[query] = 3.0F;  // any length: it is normalised
      row[4 + key] = 5.0F;
      row[8] = v0;
      row[9] = v1;
      row[10] = beta;
      row[11] = -60.0F;
    };
    set(0, 1, 1, 10.0F, -2.0F, 60.0F);
    set(1, 1, 2, 4.0F, 6.0F, 60.0F);
    set(2, 2, 1, 1.0F, 2.0F, 60.0F);
    set(3, 1, 3, 9.0F, 9.0F, 0.0F);  // beta 1/2
    const auto out = delta.run(*backend(name), {rows}, 4);
    const float expected[] = {5, -1, 5, -1, 2, 3, 0.5F, 1};
    for (std::size_t i = 0; i < 8; ++i) EXPECT_NEAR(out[i], expected[i], 1e-5) << name << " " << i;
    const float* third = delta.states.view().slot(0) + delta.spec.window_floats() + 3 * delta.spec.matrix_stride();
    EXPECT_NEAR(third[0], 4.5, 1e-5) << name;
  }
}

TEST(DeltaRule, DecaysByHand) {
  for (const char* name : {"reference", "cpu"}) {
    Delta delta(delta_spec(1, 1, 1, 1));
    delta.a_log.data = {0.0F};
    delta.dt_bias.data = {1.0F};
    delta.states.floats.assign(delta.states.floats.size(), 0.0F);
    delta.states.view().slot(0)[delta.spec.window_floats()] = 8.0F;
    Values row(1, 5, 0.0F);
    row.data = {1, 1, 0, -60, -1};  // q, k, v, b: beta 0, a: softplus(-1 + 1) = ln 2
    EXPECT_NEAR(delta.run(*backend(name), {row}, 1)[0], 4.0, 1e-5) << name;
  }
}

TEST(DeltaRule, ChunkedAndBatchedEqualWholeAndAlone) {
  for (const DeltaNetSpec& spec : kDeltas) {
    const int cols = Delta(spec).cols();
    const std::vector<Values> inputs = {Values::random(20, cols, 1), Values::random(3, cols, 2),
                                        Values::random(11, cols, 3)};
    for (const char* name : {"reference", "cpu"}) {
      const auto made = backend(name, 2);
      const auto whole = Delta(spec).run(*made, inputs, 100);
      for (const int chunk : {1, 2, 7}) expect_same_bits(whole, Delta(spec).run(*made, inputs, chunk), name);
    }
    const auto alone = Delta(spec).run(*backend("cpu"), {inputs[2]}, 100);
    Delta beside(spec);
    const auto both = beside.run(*backend("cpu", 3), {inputs[2], inputs[0]}, 5);
    Delta swapped(spec);  // alone it has slot 0, with one beside it slot 1
    const auto slot = static_cast<std::ptrdiff_t>(spec.state_floats());
    std::copy_n(swapped.states.floats.begin() + slot, slot, swapped.states.floats.begin());
    const auto same_state = swapped.run(*backend("cpu"), {inputs[2]}, 100);
    expect_same_bits(same_state, {both.begin(), both.begin() + static_cast<std::ptrdiff_t>(same_state.size())},
                     "beside another");
    EXPECT_NE(alone, same_state) << "the state matters";
  }
}

TEST(DeltaRule, Speed) {
  const DeltaNetSpec spec = delta_spec(16, 32, 128, 128);
  for (const int rows : {1, 64}) {
    Delta delta(spec);
    const std::vector<Values> inputs = {Values::random(rows, delta.cols(), 1)};
    const auto cpu = backend("cpu", 1);
    const double flops = 7.0 * spec.n_v_heads * spec.k_dim * spec.v_dim * rows;
    report(("32 heads of 128 x 128, rows: " + std::to_string(rows)).c_str(), flops, "GFLOP/s",
           [&] { delta.run(*cpu, inputs, rows); });
  }
}

}  // namespace
}  // namespace colibri::test
