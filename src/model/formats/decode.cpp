// SPDX-License-Identifier: Apache-2.0
// One loop for all formats: codes, scales and zeros of the rows are read into bytes and floats, then combined.
#include <algorithm>
#include <cmath>

#include "core/half.h"
#include "model/formats/encoding.h"
#include "model/formats/grid.h"

namespace colibri {
namespace {

/// The row of the scales that belongs to a row of the weight.
std::int64_t scale_row(const Encoding& encoding, std::int64_t row) {
  const std::int64_t per_matrix = (encoding.matrix_rows + encoding.block_rows - 1) / encoding.block_rows;
  return row / encoding.matrix_rows * per_matrix + row % encoding.matrix_rows / encoding.block_rows;
}

/// The scales of rows [first, first + count).
Status read_scales(const Encoding& encoding, std::int64_t first, int count, DecodeBuffers& buffers) {
  const std::int64_t begin = scale_row(encoding, first);
  const std::int64_t end = scale_row(encoding, first + count - 1) + 1;
  float factor = 1;
  if (encoding.factor) {
    TRY_STATUS(read_floats(*encoding.factor, 0, 1, buffers.raw, buffers.scales));
    factor = buffers.scales[0];
    // Divided by, infinity would give zeros.
    if (!std::isfinite(factor))
      return data_error(encoding.factor->file->path() + ": tensor " + encoding.factor->name + " holds NaN or infinity");
  }
  TRY_STATUS(read_floats(encoding.scales, begin, end - begin, buffers.raw, buffers.scales));
  if (encoding.factor)
    for (float& scale : buffers.scales) scale = encoding.factor_divides ? scale / factor : scale * factor;
  return {};
}

/// The block of every column.
Status read_blocks(const Encoding& encoding, DecodeBuffers& buffers) {
  const Grid& grid = *encoding.blocks;
  buffers.blocks.resize(static_cast<std::size_t>(grid.cols));
  TRY_STATUS(grid.file->read_at(grid.tensor->offset, std::as_writable_bytes(std::span(buffers.blocks))));
  const auto wrong = std::find_if(buffers.blocks.begin(), buffers.blocks.end(),
                                  [&](std::int32_t block) { return block < 0 || block >= encoding.scales.cols; });
  if (wrong == buffers.blocks.end()) return {};
  return data_error(grid.file->path() + ": tensor " + grid.name + " holds " + std::to_string(*wrong) +
                    ", which is outside 0.." + std::to_string(encoding.scales.cols - 1));
}

}  // namespace

std::vector<Grid*> Encoding::parts() {
  std::vector<Grid*> parts{&codes, &scales};
  for (std::optional<Grid>* part : {&zeros, &factor, &blocks})
    if (part->has_value()) parts.push_back(&**part);
  return parts;
}

std::int64_t Encoding::row_bytes() const {
  return std::max<std::int64_t>(codes.cols * (codes.bits == 0 ? 8 : codes.bits) / 8, 1);
}

Status decode_rows(const Encoding& encoding, std::int64_t first, int count, DecodeBuffers& buffers,
                   std::uint16_t* out) {
  const std::int64_t cols = encoding.codes.cols;
  const std::int64_t n_blocks = encoding.scales.cols;
  TRY_STATUS(read_scales(encoding, first, count, buffers));
  TRY_STATUS(read_codes(encoding.codes, first, count, buffers.raw, buffers.codes));
  if (encoding.zeros) TRY_STATUS(read_codes(*encoding.zeros, first, count, buffers.raw, buffers.zeros));
  if (encoding.blocks) TRY_STATUS(read_blocks(encoding, buffers));
  const auto mask = static_cast<unsigned>(encoding.values.size() - 1);
  for (int r = 0; r < count; ++r) {
    const std::uint8_t* codes = buffers.codes.data() + r * cols;
    const std::uint8_t* zeros = encoding.zeros ? buffers.zeros.data() + r * n_blocks : nullptr;
    const float* scales =
        buffers.scales.data() + (scale_row(encoding, first + r) - scale_row(encoding, first)) * n_blocks;
    const auto decode = [&](std::int64_t begin, std::int64_t end, std::int64_t block) {
      const float scale = scales[block];
      const float zero =
          zeros == nullptr ? 0.0F : encoding.values[(zeros[block] + static_cast<unsigned>(encoding.zeros_plus)) & mask];
      for (std::int64_t c = begin; c < end; ++c) out[c] = float_to_bf16((encoding.values[codes[c]] - zero) * scale);
    };
    if (encoding.blocks) {
      for (std::int64_t c = 0; c < cols; ++c) decode(c, c + 1, buffers.blocks[static_cast<std::size_t>(c)]);
    } else {
      for (std::int64_t block = 0; block < n_blocks; ++block)
        decode(block * encoding.block_cols, std::min((block + 1) * encoding.block_cols, cols), block);
    }
    out += cols;
  }
  return {};
}

}  // namespace colibri
