// SPDX-License-Identifier: Apache-2.0
// Products: the exact bits of one fused chain for each output, within a computed bound of the double sums of the
// reference, the same for a row alone and in a batch.
#include "backend/cases.h"

namespace colibri::test {
namespace {

struct Shape {
  int n;
  int rows;
  int cols;
};

const std::vector<Shape> kShapes = {{0, 16, 8},    {1, 1, 1},     {1, 0, 8},   {2, 16, 0},   {1, 16, 2},
                                    {1, 17, 3},    {3, 5, 31},    {4, 33, 48}, {5, 128, 64}, {7, 40, 33},
                                    {12, 64, 65},  {13, 31, 100}, {25, 16, 7}, {64, 70, 96}, {1, 512, 256},
                                    {9, 300, 257}, {1, 130, 704}};

float chain(const float* x, const Matrix& w, int row) {
  float sum = 0.0F;
  for (int k = 0; k < w.cols; ++k) sum = std::fma(w.at(row, k), x[k], sum);
  return sum;
}

struct Operands {
  Values x;
  Weights w;
  Values bias;
  Values before;

  explicit Operands(Shape s)
      : x(Values::random(s.n, s.cols, 1)),
        w(Weights::random(s.rows, s.cols, 2)),
        bias(Values::random(1, s.rows, 3)),
        before(Values::random(s.n, s.rows, 4)) {}
};

TEST(Linear, IsOneFusedChainForEachOutput) {
  for (const Shape& s : kShapes) {
    SCOPED_TRACE(testing::Message() << s.n << " x " << s.rows << " x " << s.cols);
    const Operands o(s);
    Values plain(s.n, s.rows, kNan);
    Values full(s.n, s.rows, kNan);
    for (int r = 0; r < s.n; ++r) {
      for (int i = 0; i < s.rows; ++i) {
        const float value = chain(o.x.view().row(r), o.w.matrix, i);
        plain.view().row(r)[i] = value;
        full.view().row(r)[i] = o.before.at(r, i) + (value + o.bias.at(0, i));
      }
    }
    expect_same_bits(plain.data, same_everywhere([&](Backend& cpu) {
                       Values out(s.n, s.rows, kNan);
                       cpu.linear(o.x.view(), o.w.matrix, {}, false, out.view());
                       return out.data;
                     }),
                     "without bias");
    expect_same_bits(full.data, same_everywhere([&](Backend& cpu) {
                       Values out = o.before;
                       cpu.linear(o.x.view(), o.w.matrix, o.bias.data, true, out.view());
                       return out.data;
                     }),
                     "with bias and sum");
  }
}

// A chain of K fused steps from 0 errs by at most K u sum |w x| to first order; bias and the earlier value add two
// roundings of sums no larger than the sum of magnitudes, and the reference rounds once.
TEST(Linear, IsWithinTheRoundingBoundOfTheReference) {
  const auto cpu = backend("cpu", 2);
  const auto reference = backend("reference");
  for (const Shape& s : kShapes) {
    const Operands o(s);
    Values out = o.before;
    Values expected = o.before;
    cpu->linear(o.x.view(), o.w.matrix, o.bias.data, true, out.view());
    reference->linear(o.x.view(), o.w.matrix, o.bias.data, true, expected.view());
    for (int r = 0; r < s.n; ++r) {
      for (int i = 0; i < s.rows; ++i) {
        double magnitude = std::abs(o.bias.at(0, i)) + std::abs(o.before.at(r, i));
        for (int k = 0; k < s.cols; ++k) magnitude += std::abs(double{o.w.matrix.at(i, k)} * o.x.at(r, k));
        EXPECT_NEAR(out.at(r, i), expected.at(r, i), (s.cols + 3) * kUnit * 1.01 * magnitude);
      }
    }
  }
}

TEST(Linear, OfARowDoesNotDependOnTheBatch) {
  const auto cpu = backend("cpu", 2);
  const Operands o({64, 200, 129});
  Values alone(64, 200, kNan);
  for (int r = 0; r < 64; ++r) {
    cpu->linear(o.x.view().slice(r, 1), o.w.matrix, {}, false, alone.view().slice(r, 1));
  }
  for (int n = 1; n <= 64; ++n) {
    Values out(n, 200, kNan);
    cpu->linear(o.x.view().slice(0, n), o.w.matrix, {}, false, out.view());
    expect_same_bits(out.data, {alone.data.begin(), alone.data.begin() + n * 200}, std::to_string(n) + " rows");
  }
}

TEST(Linear, KeepsToItsColumnsOfWiderRows) {
  const auto cpu = backend("cpu", 2);
  const Operands o({13, 37, 20});
  Values wide(13, 100, 7.0F);
  Values tight(13, 37, kNan);
  cpu->linear(o.x.view(), o.w.matrix, {}, false, tight.view());
  cpu->linear(o.x.view(), o.w.matrix, {}, false, wide.view().columns(50, 37));
  for (int r = 0; r < 13; ++r) {
    for (int c = 0; c < 100; ++c) ASSERT_EQ(wide.at(r, c), c >= 50 && c < 87 ? tight.at(r, c - 50) : 7.0F);
  }
}

TEST(Linear, CarriesNonFiniteValuesOfItsOwnRowOnly) {
  const auto cpu = backend("cpu", 1);
  Operands o({3, 16, 5});
  o.x.view().row(1)[2] = kNan;
  Values out(3, 16, 0.0F);
  cpu->linear(o.x.view(), o.w.matrix, {}, false, out.view());
  for (int i = 0; i < 16; ++i) {
    EXPECT_TRUE(std::isfinite(out.at(0, i)));
    EXPECT_TRUE(std::isnan(out.at(1, i)));
    EXPECT_TRUE(std::isfinite(out.at(2, i)));
  }
}

TEST(Linear, Speed) {
  const auto cpu = backend("cpu", 2);
  for (const Shape& s : {Shape{1, 512, 256}, Shape{1, 8192, 256}, Shape{64, 512, 256}, Shape{512, 512, 256}}) {
    const Operands o(s);
    Values out(s.n, s.rows, 0.0F);
    const std::string what =
        "linear " + std::to_string(s.n) + " x " + std::to_string(s.rows) + " x " + std::to_string(s.cols);
    report(what.c_str(), 2.0 * s.n * s.rows * s.cols, "GFLOP/s",
           [&] { cpu->linear(o.x.view(), o.w.matrix, {}, false, out.view()); });
  }
}

TEST(Embed, CopiesRowsOfTheTable) {
  const Weights table = Weights::random(37, 9, 1);
  const std::vector<std::int32_t> tokens = {36, 0, 16, 15, 0};
  Batch batch;
  batch.tokens = tokens;
  for (const char* name : {"cpu", "reference"}) {
    Values out(5, 9, kNan);
    backend(name, 2)->embed(batch, table.matrix, out.view());
    for (int r = 0; r < 5; ++r) {
      for (int c = 0; c < 9; ++c) EXPECT_EQ(out.at(r, c), table.matrix.at(tokens[static_cast<std::size_t>(r)], c));
    }
    backend(name, 2)->embed(Batch{}, table.matrix, Rows(nullptr, 0, 9));
  }
}

}  // namespace
}  // namespace colibri::test
