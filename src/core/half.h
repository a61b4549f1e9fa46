// SPDX-License-Identifier: Apache-2.0
// Storage types of weights and their conversions to float. Arithmetic is done in float; these only carry values.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace colibri {

enum class DType : std::uint8_t { f32, f16, bf16 };

constexpr std::size_t dtype_bytes(DType dtype) { return dtype == DType::f32 ? 4 : 2; }
constexpr std::string_view dtype_name(DType dtype) {
  return dtype == DType::f32 ? "f32" : dtype == DType::f16 ? "f16" : "bf16";
}

inline float bf16_to_float(std::uint16_t bits) { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }

/// Round to nearest, ties to even; NaN stays NaN.
inline std::uint16_t float_to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffU) > 0x7f800000U) return static_cast<std::uint16_t>((bits >> 16) | 0x40U);
  return static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
}

/// IEEE half precision, subnormals, infinities and NaN included.
inline float f16_to_float(std::uint16_t bits) {
  const std::uint32_t sign = (bits & 0x8000U) << 16;
  const std::uint32_t exponent = (bits >> 10) & 0x1fU;
  const std::uint32_t mantissa = bits & 0x3ffU;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000U | (mantissa << 13));
  if (exponent != 0) return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
  const float magnitude = static_cast<float>(mantissa) * 0x1p-24F;
  return sign != 0 ? -magnitude : magnitude;
}

/// OCP 8-bit float with 4 bits of exponent, finite but for one NaN of each sign.
constexpr float e4m3_to_float(std::uint8_t bits) {
  const std::uint32_t sign = (bits & 0x80U) << 24;
  const std::uint32_t exponent = (bits >> 3) & 0xfU;
  const std::uint32_t mantissa = bits & 7U;
  if (exponent == 15 && mantissa == 7) return std::bit_cast<float>(sign | 0x7fc00000U);
  if (exponent != 0) return std::bit_cast<float>(sign | ((exponent + 120) << 23) | (mantissa << 20));
  const float magnitude = static_cast<float>(mantissa) * 0x1p-9F;
  return sign != 0 ? -magnitude : magnitude;
}

/// OCP 4-bit float, of the low four bits: 0, 0.5, 1, 1.5, 2, 3, 4, 6 and their negatives.
constexpr float e2m1_to_float(std::uint8_t bits) {
  constexpr float kMagnitudes[] = {0, 0.5F, 1, 1.5F, 2, 3, 4, 6};
  return (bits & 8U) != 0 ? -kMagnitudes[bits & 7U] : kMagnitudes[bits & 7U];
}

/// OCP power of two, 2^(bits - 127); 255 is NaN.
constexpr float e8m0_to_float(std::uint8_t bits) {
  if (bits == 255) return std::bit_cast<float>(0x7fc00000U);
  return std::bit_cast<float>(bits == 0 ? 0x00400000U : std::uint32_t{bits} << 23);
}

}  // namespace colibri
