// SPDX-License-Identifier: Apache-2.0
// Plain views of activations: rows of floats at a stride. A view owns nothing.
#pragma once

#include <cstddef>

#include "base/check.h"

namespace colibri {

/// [rows, cols], row r at data + r * stride (in elements, stride >= cols).
template <class T>
struct RowsOf {
  T* data = nullptr;
  int rows = 0;
  int cols = 0;
  std::ptrdiff_t stride = 0;

  RowsOf() = default;
  RowsOf(T* data_in, int rows_in, int cols_in) : RowsOf(data_in, rows_in, cols_in, cols_in) {}
  RowsOf(T* data_in, int rows_in, int cols_in, std::ptrdiff_t stride_in)
      : data(data_in), rows(rows_in), cols(cols_in), stride(stride_in) {}
  operator RowsOf<const T>() const { return {data, rows, cols, stride}; }

  T* row(int r) const { return data + r * stride; }

  /// Columns [first, first + count) of every row.
  RowsOf columns(int first, int count) const {
    CHECK(first >= 0 && count >= 0 && first + count <= cols);
    return {data + first, rows, count, stride};
  }
  /// Rows [first, first + count).
  RowsOf slice(int first, int count) const {
    CHECK(first >= 0 && count >= 0 && first + count <= rows);
    return {data + first * stride, count, cols, stride};
  }
};

using Rows = RowsOf<float>;
using ConstRows = RowsOf<const float>;

}  // namespace colibri
