// SPDX-License-Identifier: Apache-2.0
// A range of rows is a rectangle of the stored elements: contiguous, or strips where the tensor is stored turned.
#include "model/formats/grid.h"

#include <algorithm>
#include <cstring>

#include "core/half.h"

namespace colibri {
namespace {

/// Elements [first, last) in the direction of rows, by all in the direction of columns.
struct Rectangle {
  std::int64_t first = 0;
  std::int64_t last = 0;
  std::int64_t row_elements = 0;  // of the whole grid
  std::int64_t col_elements = 0;

  std::int64_t width() const { return last - first; }
};

Rectangle rectangle(const Grid& grid, std::int64_t first, std::int64_t count) {
  const std::int64_t per_row = grid.packs_rows ? numbers_per_element(grid) : 1;
  const std::int64_t per_col = grid.packs_rows ? 1 : numbers_per_element(grid);
  return {first / per_row, (first + count + per_row - 1) / per_row, (grid.rows + per_row - 1) / per_row,
          (grid.cols + per_col - 1) / per_col};
}

/// As stored: [width][col_elements], or [col_elements][width] where the grid is turned.
Status read_raw(const Grid& grid, const Rectangle& part, std::vector<std::byte>& raw) {
  const auto unit = static_cast<std::size_t>(grid.tensor->type.bytes);
  const auto width = static_cast<std::size_t>(part.width()) * unit;
  raw.resize(width * static_cast<std::size_t>(part.col_elements));
  const auto first = static_cast<std::uint64_t>(part.first) * unit;
  if (!grid.turned) return grid.file->read_at(grid.tensor->offset + first * part.col_elements, raw);
  if (part.width() == part.row_elements) return grid.file->read_at(grid.tensor->offset, raw);
  const std::uint64_t stride = static_cast<std::uint64_t>(part.row_elements) * unit;
  for (std::int64_t c = 0; c < part.col_elements; ++c) {
    const std::span strip = std::span(raw).subspan(static_cast<std::size_t>(c) * width, width);
    TRY_STATUS(grid.file->read_at(grid.tensor->offset + static_cast<std::uint64_t>(c) * stride + first, strip));
  }
  return {};
}

/// Calls use(row element, column element, bytes) in the order of storage.
template <class Use>
void for_each_element(const Grid& grid, const Rectangle& part, const std::byte* raw, Use use) {
  const int unit = grid.tensor->type.bytes;
  const std::int64_t outer = grid.turned ? part.col_elements : part.width();
  const std::int64_t inner = grid.turned ? part.width() : part.col_elements;
  for (std::int64_t i = 0; i < outer; ++i)
    for (std::int64_t j = 0; j < inner; ++j, raw += unit) grid.turned ? use(j, i, raw) : use(i, j, raw);
}

template <class T>
T load(const std::byte* at) {
  T value = 0;
  std::memcpy(&value, at, sizeof value);
  return value;
}

/// How a number of this type is read.
float (*reader_of(std::string_view type))(const std::byte*) {
  if (type == "F32") return load<float>;
  if (type == "F16") return [](const std::byte* at) { return f16_to_float(load<std::uint16_t>(at)); };
  if (type == "BF16") return [](const std::byte* at) { return bf16_to_float(load<std::uint16_t>(at)); };
  if (type == "F8_E4M3") return [](const std::byte* at) { return e4m3_to_float(load<std::uint8_t>(at)); };
  return [](const std::byte* at) { return e8m0_to_float(load<std::uint8_t>(at)); };
}

}  // namespace

int numbers_per_element(const Grid& grid) { return grid.bits == 0 ? 1 : grid.tensor->type.bytes * 8 / grid.bits; }

Status read_codes(const Grid& grid, std::int64_t first, std::int64_t count, std::vector<std::byte>& raw,
                  std::vector<std::uint8_t>& codes) {
  const Rectangle part = rectangle(grid, first, count);
  TRY_STATUS(read_raw(grid, part, raw));
  codes.resize(static_cast<std::size_t>(count * grid.cols));
  const int per = numbers_per_element(grid);
  if (per == 1 && !grid.turned) {
    std::memcpy(codes.data(), raw.data(), codes.size());
    return {};
  }
  const bool words = grid.tensor->type.bytes == 4;
  int shifts[8] = {};
  for (int i = 0; i < per; ++i) shifts[i] = grid.bits * (grid.interleaved ? i / 2 + i % 2 * per / 2 : i);
  const std::uint32_t mask = (1U << grid.bits) - 1;
  const std::int64_t skipped = part.first * (grid.packs_rows ? per : 1) - first;  // not above 0
  const std::int64_t step = grid.packs_rows ? grid.cols : 1;
  for_each_element(grid, part, raw.data(), [&](std::int64_t row, std::int64_t col, const std::byte* at) {
    const std::uint32_t element = words ? load<std::uint32_t>(at) : load<std::uint8_t>(at);
    row = row * (grid.packs_rows ? per : 1) + skipped;
    col *= grid.packs_rows ? 1 : per;
    const std::int64_t place = grid.packs_rows ? row : col;
    const int begin = static_cast<int>(std::max<std::int64_t>(-place, 0));
    const int end = static_cast<int>(std::min<std::int64_t>((grid.packs_rows ? count : grid.cols) - place, per));
    std::uint8_t* out = codes.data() + row * grid.cols + col;
    for (int i = begin; i < end; ++i) out[i * step] = static_cast<std::uint8_t>((element >> shifts[i]) & mask);
  });
  return {};
}

Status read_floats(const Grid& grid, std::int64_t first, std::int64_t count, std::vector<std::byte>& raw,
                   std::vector<float>& numbers) {
  const Rectangle part = rectangle(grid, first, count);
  TRY_STATUS(read_raw(grid, part, raw));
  numbers.resize(static_cast<std::size_t>(count * grid.cols));
  const auto read = reader_of(grid.tensor->type.name);
  for_each_element(grid, part, raw.data(), [&](std::int64_t row, std::int64_t col, const std::byte* at) {
    numbers[static_cast<std::size_t>(row * grid.cols + col)] = read(at);
  });
  return {};
}

}  // namespace colibri
