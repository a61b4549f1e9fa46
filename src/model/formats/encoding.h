// SPDX-License-Identifier: Apache-2.0
// How a weight matrix stands in a checkpoint as small codes, and its decoding to bf16.
// Invariant: value = (values[code] - values[zero]) * scale in fp32, rounded once to bf16. Differences are exact in
// every format here; beside bf16's relative error of 2^-8, the product has one of 2^-24 where it does not fit 24 bits,
// and so has a scale that is itself a product or quotient.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "model/safetensors.h"

namespace colibri {

/// A matrix of codes or scales in one stored tensor. Rows and columns are those of the weight, whose rows are outputs;
/// matrices of several experts stand one below the other.
struct Grid {
  std::string name = {};                         // of the tensor
  std::vector<std::int64_t> shape = {};          // that it must have
  std::span<const std::string_view> types = {};  // one of which it must have
  std::int64_t rows = 1;
  std::int64_t cols = 1;
  int bits = 0;              // of a number where an element holds several, lowest bits first; 0: it holds one
  bool turned = false;       // stored as [cols, rows]
  bool packs_rows = false;   // an element's numbers are neighbours in a column; else in a row
  bool interleaved = false;  // an element's even numbers come before its odd ones
  // Of the checkpoint, once the tensor is known to be there.
  const File* file = nullptr;
  const TensorInfo* tensor = nullptr;
};

struct Encoding {
  Grid codes;
  std::span<const float> values;  // of every code
  Grid scales;                    // one for each block
  std::int64_t matrix_rows = 1;   // blocks begin anew at every matrix
  std::int64_t block_rows = 1;
  std::int64_t block_cols = 1;
  std::optional<Grid> zeros = {};   // of every row and block of columns, as codes
  int zeros_plus = 0;               // added to these, within the code's bits
  std::optional<Grid> factor = {};  // of all scales
  bool factor_divides = false;
  std::optional<Grid> blocks = {};  // [1, cols]: the block of every column; else neighbours share one

  /// Every tensor that is needed.
  std::vector<Grid*> parts();
  std::int64_t row_bytes() const;  // of the codes
};

/// What a thread needs to decode, kept from piece to piece. Sizes follow the piece's.
struct DecodeBuffers {
  std::vector<std::byte> raw;
  std::vector<std::uint8_t> codes, zeros;
  std::vector<float> scales;
  std::vector<std::int32_t> blocks;
};

/// Writes rows [first, first + count) as bf16 to out[count, cols]. NaN in, NaN out. Error 74 where a read fails, 65
/// where a column names a block that does not exist.
Status decode_rows(const Encoding& encoding, std::int64_t first, int count, DecodeBuffers& buffers, std::uint16_t* out);

}  // namespace colibri
