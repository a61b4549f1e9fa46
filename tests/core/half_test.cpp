// SPDX-License-Identifier: Apache-2.0
// Every half and bf16 value, against the definition of the formats.
#include "core/half.h"

#include <gtest/gtest.h>
#include <algorithm>
#include <cmath>
#include <limits>

namespace colibri {
namespace {

TEST(Half, EveryF16IsTheValueThatItsFieldsName) {
  for (unsigned bits = 0; bits < 0x10000U; ++bits) {
    const unsigned exponent = (bits >> 10) & 31U;
    const unsigned mantissa = bits & 1023U;
    const float value = f16_to_float(static_cast<std::uint16_t>(bits));
    EXPECT_EQ(std::signbit(value), (bits & 0x8000U) != 0U);
    if (exponent == 31) {
      EXPECT_EQ(std::isnan(value), mantissa != 0) << bits;
      EXPECT_EQ(std::isinf(value), mantissa == 0) << bits;
    } else {
      const double fraction = exponent == 0 ? mantissa / 1024.0 : 1.0 + mantissa / 1024.0;
      const double expected = std::ldexp(fraction, exponent == 0 ? -14 : static_cast<int>(exponent) - 15);
      EXPECT_EQ(std::abs(static_cast<double>(value)), expected) << bits;
    }
  }
}

TEST(Half, EveryBf16SurvivesTheWayThere) {
  for (unsigned bits = 0; bits < 0x10000U; ++bits) {
    const float value = bf16_to_float(static_cast<std::uint16_t>(bits));
    const std::uint16_t back = float_to_bf16(value);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(bf16_to_float(back)));
    } else {
      EXPECT_EQ(back, bits);
    }
  }
}

TEST(Half, Bf16RoundsToNearestAndTiesToEven) {
  EXPECT_EQ(float_to_bf16(1.0F + 0x1p-8F), 0x3f80U);                     // tie, down to even
  EXPECT_EQ(float_to_bf16(1.0F + 0x1.8p-7F), 0x3f82U);                   // tie, up to even
  EXPECT_EQ(float_to_bf16(1.0F + 0x1.0002p-8F), 0x3f81U);                // just above a tie
  EXPECT_EQ(float_to_bf16(-1.0F - 0x1.0002p-8F), 0xbf81U);               // the same, negative
  EXPECT_EQ(float_to_bf16(std::numeric_limits<float>::max()), 0x7f80U);  // rounds to infinity
  EXPECT_EQ(float_to_bf16(std::numeric_limits<float>::denorm_min()), 0U);
  EXPECT_EQ(float_to_bf16(std::numeric_limits<float>::infinity()), 0x7f80U);
}

TEST(Half, SmallFloatsAreTheValuesThatTheirFieldsName) {
  for (unsigned bits = 0; bits < 256; ++bits) {
    const auto code = static_cast<std::uint8_t>(bits);
    const int exponent = static_cast<int>(bits >> 3 & 15U);
    const double fraction = (exponent == 0 ? 0.0 : 1.0) + (bits & 7U) / 8.0;
    const float value = e4m3_to_float(code);
    EXPECT_EQ(std::signbit(value), bits >= 128) << bits;
    if ((bits & 127U) == 127) {
      EXPECT_TRUE(std::isnan(value)) << bits;
    } else {
      EXPECT_EQ(std::abs(static_cast<double>(value)), std::ldexp(fraction, std::max(exponent, 1) - 7)) << bits;
    }
    if (bits == 255) {
      EXPECT_TRUE(std::isnan(e8m0_to_float(code)));
    } else {
      EXPECT_EQ(static_cast<double>(e8m0_to_float(code)), std::ldexp(1.0, static_cast<int>(bits) - 127)) << bits;
    }
  }
  for (unsigned bits = 0; bits < 16; ++bits) {
    const int exponent = static_cast<int>(bits >> 1 & 3U);
    const double fraction = (exponent == 0 ? 0.0 : 1.0) + (bits & 1U) / 2.0;
    const float value = e2m1_to_float(static_cast<std::uint8_t>(bits));
    EXPECT_EQ(std::signbit(value), bits >= 8) << bits;
    EXPECT_EQ(std::abs(static_cast<double>(value)), std::ldexp(fraction, std::max(exponent, 1) - 1)) << bits;
  }
}

TEST(DType, NamesAndSizes) {
  EXPECT_EQ(dtype_bytes(DType::f32), 4U);
  EXPECT_EQ(dtype_bytes(DType::f16), 2U);
  EXPECT_EQ(dtype_bytes(DType::bf16), 2U);
  EXPECT_EQ(dtype_name(DType::bf16), "bf16");
}

}  // namespace
}  // namespace colibri
