// SPDX-License-Identifier: Apache-2.0
// The operations on single rows: norm, activation, gated sum; bounds count the roundings.
#include "backend/cases.h"

namespace colibri::test {
namespace {

const std::vector<std::pair<int, int>> kShapes = {{0, 8},  {1, 1},  {2, 15},  {3, 16},
                                                  {5, 17}, {7, 24}, {1, 256}, {200, 2049}};

// 16 partial sums of positive terms: n / 16 + 4 additions and a product, all relative errors; the root halves them; the
// mean, eps, root, quotient and two products add six roundings, and the reference its own.
TEST(RmsNorm, MatchesTheReference) {
  for (const auto& [rows, cols] : kShapes) {
    const Values x = Values::random(rows, cols, 1);
    const Values weight = Values::random(1, cols, 2);
    Values expected(rows, cols, kNan);
    backend("reference")->rms_norm(x.view(), weight.data, 1e-6F, expected.view());
    const std::vector<float> out = same_everywhere([&](Backend& cpu) {
      Values in_place = x;
      cpu.rms_norm(in_place.view(), weight.data, 1e-6F, in_place.view());
      return in_place.data;
    });
    for (std::size_t i = 0; i < out.size(); ++i) {
      EXPECT_NEAR(out[i], expected.data[i], std::abs(expected.data[i]) * (cols / 32.0 + 10) * kUnit);
    }
  }
}

TEST(RmsNorm, OfZerosIsZero) {
  Values x(2, 40, 0.0F);
  const std::vector<float> weight(40, 3.0F);
  backend("cpu")->rms_norm(x.view(), weight, 1e-6F, x.view());
  for (const float value : x.data) EXPECT_EQ(value, 0.0F);
}

// With the mean's error d = (n / 16 + 5) u mean |x|, a centred value errs by d and a rounding, the factor relatively by
// d times itself and as in RmsNorm; the bias adds a rounding.
TEST(LayerNorm, MatchesTheReference) {
  for (const auto& [rows, cols] : kShapes) {
    const Values x = Values::random(rows, cols, 1);
    const Values weight = Values::random(1, cols, 2);
    const Values bias = Values::random(1, cols, 3);
    Values expected(rows, cols, kNan);
    backend("reference")->layer_norm(x.view(), weight.data, bias.data, 1e-6F, expected.view());
    const std::vector<float> out = same_everywhere([&](Backend& cpu) {
      Values in_place = x;
      cpu.layer_norm(in_place.view(), weight.data, bias.data, 1e-6F, in_place.view());
      return in_place.data;
    });
    for (int r = 0; r < rows; ++r) {
      double mean = 0, size = 0, variance = 0;
      for (int i = 0; i < cols; ++i) mean += double{x.at(r, i)} / cols, size += std::abs(double{x.at(r, i)}) / cols;
      for (int i = 0; i < cols; ++i) variance += (x.at(r, i) - mean) * (x.at(r, i) - mean) / cols;
      const double factor = 1 / std::sqrt(variance + 1e-6);
      for (int i = 0; i < cols; ++i) {
        const double d = (cols / 16.0 + 5) * kUnit * size;
        const double normal = std::abs(x.at(r, i) - mean) * factor;
        const double scaled = std::abs(weight.data[static_cast<std::size_t>(i)]);
        const double bound = scaled * (factor * d * (1 + normal) + normal * (cols / 32.0 + 12) * kUnit) +
                             2 * kUnit * std::abs(expected.at(r, i));
        EXPECT_NEAR(out[static_cast<std::size_t>(r * cols + i)], expected.at(r, i), bound);
      }
    }
  }
}

TEST(LayerNorm, OfEqualValuesIsTheBias) {
  Values x(2, 32, 7.0F);
  const std::vector<float> weight(32, 3.0F);
  const std::vector<float> bias(32, -0.5F);
  backend("cpu")->layer_norm(x.view(), weight, bias, 1e-6F, x.view());
  for (const float value : x.data) EXPECT_EQ(value, -0.5F);
}

TEST(Scale, MultipliesEachValue) {
  for (const char* name : {"cpu", "reference"}) {
    Values x = Values::random(3, 37, 1);
    const Values before = x;
    backend(name, 2)->scale(x.view(), 0.22F);
    for (std::size_t i = 0; i < x.data.size(); ++i) EXPECT_EQ(x.data[i], before.data[i] * 0.22F);
  }
}

// exp within 1.5 units in the last place (3 u), sum, quotient, product, and the reference's rounding; below -88 the
// gate is taken as at most exp(-88) of itself.
TEST(SiluMul, MatchesTheReferenceOverTheWholeRange) {
  Values gate(1, 40001, 0.0F);
  for (int i = 0; i < gate.cols; ++i) gate.data[static_cast<std::size_t>(i)] = static_cast<float>(i - 20000) * 0.0053F;
  Values up = Values::random(1, gate.cols, 1);
  Values expected(1, gate.cols, kNan);
  backend("reference")->silu_mul(gate.view(), up.view(), expected.view());
  const std::vector<float> out = same_everywhere(
      [&](Backend& cpu) {
        Values in_place = gate;
        cpu.silu_mul(in_place.view(), up.view(), in_place.view());
        return in_place.data;
      },
      false);
  for (std::size_t i = 0; i < out.size(); ++i) {
    EXPECT_NEAR(out[i], expected.data[i], std::abs(expected.data[i]) * 7 * kUnit + 1e-35 * std::abs(up.data[i]));
  }
}

TEST(SiluMul, CarriesNanAndWritesIntoUp) {
  Values gate(1, 20, kNan);
  Values up(1, 20, 1.0F);
  backend("cpu")->silu_mul(gate.view(), up.view(), up.view());
  for (const float value : up.data) EXPECT_TRUE(std::isnan(value));
}

// As silu_mul. Where x is the gate it is silu.
TEST(SigmoidMul, MatchesTheReferenceOverTheWholeRange) {
  Values gate(1, 40001, 0.0F);
  for (int i = 0; i < gate.cols; ++i) gate.data[static_cast<std::size_t>(i)] = static_cast<float>(i - 20000) * 0.0053F;
  const Values x = Values::random(1, gate.cols, 1);
  for (const bool silu : {false, true}) {
    Values expected(1, gate.cols, kNan);
    backend("reference")->sigmoid_mul((silu ? gate : x).view(), gate.view(), expected.view());
    const std::vector<float> out = same_everywhere(
        [&](Backend& cpu) {
          Values in_place = gate;
          cpu.sigmoid_mul((silu ? in_place : x).view(), in_place.view(), in_place.view());
          return in_place.data;
        },
        false);
    for (std::size_t i = 0; i < out.size(); ++i)
      EXPECT_NEAR(out[i], expected.data[i], std::abs(expected.data[i]) * 7 * kUnit + 1e-35);
  }
}

TEST(Multiply, IsExactlyTheReference) {
  for (const auto& [rows, cols] : kShapes) {
    const Values x = Values::random(rows, cols, 1);
    const Values y = Values::random(rows, cols, 2);
    Values expected(rows, cols, kNan);
    backend("reference")->multiply(x.view(), y.view(), expected.view());
    const std::vector<float> out = same_everywhere([&](Backend& cpu) {
      Values in_place = x;
      cpu.multiply(in_place.view(), y.view(), in_place.view());
      return in_place.data;
    });
    expect_same_bits(out, expected.data, "product");
  }
}

TEST(AddGated, MatchesTheReference) {
  for (const auto& [rows, cols] : kShapes) {
    const Values y = Values::random(rows, cols, 1);
    const Values before = Values::random(rows, cols, 2);
    for (const int gate_cols : {0, 1}) {
      const Values gate = Values::random(rows, gate_cols, 3);
      Values expected = before;
      backend("reference")->add_gated(y.view(), gate.view(), expected.view());
      const std::vector<float> out = same_everywhere([&](Backend& cpu) {
        Values sum = before;
        cpu.add_gated(y.view(), gate.view(), sum.view());
        return sum.data;
      });
      for (std::size_t i = 0; i < out.size(); ++i) {
        const double magnitude = std::abs(y.data[i]) + std::abs(before.data[i]);
        EXPECT_NEAR(out[i], expected.data[i], 8 * kUnit * magnitude);
      }
    }
  }
}

}  // namespace
}  // namespace colibri::test
