// SPDX-License-Identifier: Apache-2.0
// Stored numbers into weights: conversion to bf16, the check for NaN and infinity, and the order of core/matrix.h.
// Invariant: a bf16 number is moved, never changed; f32 and f16 are rounded to nearest even.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/half.h"

namespace colibri {

/// Writes rows [first_row, first_row + n_rows) of the matrix at `tiles`. `values` is [n_rows, step, cols] of bf16, of
/// which the first of each `step` is taken.
void pack_rows(std::byte* tiles, int cols, int first_row, int n_rows, const std::uint16_t* values, int step = 1);

/// Writes columns [first_col, first_col + n_cols) of the [rows, cols] matrix at `tiles`. `values` is
/// [n_cols, stride], of which the first of each `step` is taken.
void pack_columns(std::byte* tiles, int rows, int cols, int first_col, int n_cols, const std::uint16_t* values,
                  int stride, int step);

/// Rounds `count` stored numbers to bf16, in place: the results take the front of `data` (4-byte aligned).
void round_to_bf16(std::byte* data, DType type, std::size_t count);

/// Whether all `count` numbers are finite.
bool all_finite_bf16(const std::uint16_t* values, std::size_t count);

}  // namespace colibri
