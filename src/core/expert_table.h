// SPDX-License-Identifier: Apache-2.0
// One layer's experts as kernels see them: a pointer to a record each. Kernels never compute an expert's address.
// Invariant: a record is gate | up | down, each in tiles (core/matrix.h), and where there are biases those of gate and
// up as one list and those of down, in fp32; each part is 256-byte aligned, and a record is the same in every tier and
// on every backend. A null pointer is an expert that is not resident.
#pragma once

#include <cstddef>
#include <span>

#include "core/matrix.h"
#include "core/spec.h"

namespace colibri {

inline constexpr std::size_t kRecordAlignment = 256;

struct ExpertShape {
  int d_model = 0;
  int d_ff = 0;
  bool biases = false;

  constexpr std::size_t up_offset() const { return align(matrix_bytes(d_ff, d_model)); }
  constexpr std::size_t down_offset() const { return 2 * up_offset(); }
  constexpr std::size_t gate_up_bias_offset() const { return down_offset() + align(matrix_bytes(d_model, d_ff)); }
  constexpr std::size_t down_bias_offset() const {
    return gate_up_bias_offset() + (biases ? align(float_bytes(2 * d_ff)) : 0);
  }
  constexpr std::size_t record_bytes() const { return down_bias_offset() + (biases ? align(float_bytes(d_model)) : 0); }

 private:
  static constexpr std::size_t float_bytes(int count) { return static_cast<std::size_t>(count) * sizeof(float); }
  static constexpr std::size_t align(std::size_t bytes) {
    return (bytes + kRecordAlignment - 1) / kRecordAlignment * kRecordAlignment;
  }
};

struct ExpertTable {
  ExpertShape shape;
  std::span<const std::byte* const> records;  // [n_experts]
  Activation activation = {};

  Matrix gate(int expert) const { return {records[static_cast<std::size_t>(expert)], shape.d_ff, shape.d_model}; }
  Matrix up(int expert) const {
    return {records[static_cast<std::size_t>(expert)] + shape.up_offset(), shape.d_ff, shape.d_model};
  }
  Matrix down(int expert) const {
    return {records[static_cast<std::size_t>(expert)] + shape.down_offset(), shape.d_model, shape.d_ff};
  }
  /// [d_ff] of gate, then [d_ff] of up; nullptr where there are none.
  const float* gate_up_bias(int expert) const { return floats(expert, shape.gate_up_bias_offset()); }
  /// [d_model], likewise.
  const float* down_bias(int expert) const { return floats(expert, shape.down_bias_offset()); }

 private:
  const float* floats(int expert, std::size_t offset) const {
    if (!shape.biases) return nullptr;
    return reinterpret_cast<const float*>(records[static_cast<std::size_t>(expert)] + offset);
  }
};

}  // namespace colibri
