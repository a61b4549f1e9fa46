// SPDX-License-Identifier: Apache-2.0
// Tables of values and the two layouts that several formats have in common.
#include <algorithm>
#include <numeric>

#include "core/half.h"
#include "model/formats/formats.h"

namespace colibri {
namespace {

template <std::size_t n, class Value>
constexpr std::array<float, n> table(Value value) {
  std::array<float, n> values{};
  for (std::size_t i = 0; i < n; ++i) values[i] = value(static_cast<std::uint8_t>(i));
  return values;
}

constexpr auto kE4m3 = table<256>(e4m3_to_float);
constexpr auto kE2m1 = table<16>(e2m1_to_float);
constexpr auto kInt8 = table<256>([](std::uint8_t code) { return static_cast<float>(static_cast<std::int8_t>(code)); });
constexpr auto kCentred4 = table<16>([](std::uint8_t code) { return static_cast<float>(code) - 8; });
constexpr auto kCentred8 = table<256>([](std::uint8_t code) { return static_cast<float>(code) - 128; });

std::int64_t count(const std::vector<std::int64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

}  // namespace

std::span<const float> e4m3_values() { return kE4m3; }
std::span<const float> e2m1_values() { return kE2m1; }
std::span<const float> int8_values() { return kInt8; }
std::span<const float> centred_values(int bits) {
  return bits == 4 ? std::span<const float>(kCentred4) : std::span<const float>(kCentred8);
}

const TensorInfo* stored(const Checkpoint& checkpoint, const std::string& name) {
  const Checkpoint::Place* place = checkpoint.find(name);
  return place == nullptr ? nullptr : &checkpoint.shards()[place->shard].tensors[place->tensor];
}

bool stored_as(const Checkpoint& checkpoint, const std::string& name, std::span<const std::string_view> types) {
  const TensorInfo* tensor = stored(checkpoint, name);
  return tensor != nullptr && std::find(types.begin(), types.end(), tensor->type.name) != types.end();
}

std::vector<std::int64_t> with_last(std::vector<std::int64_t> shape, std::int64_t rows, std::int64_t cols) {
  shape[shape.size() - 2] = rows;
  shape.back() = cols;
  return shape;
}

Result<std::int64_t> count_groups(const Weight& weight, std::int64_t size) {
  if (size == -1) return std::int64_t{1};
  if (size > 0 && weight.cols() % size == 0) return weight.cols() / size;
  return data_error("groups of " + std::to_string(size) + " do not divide the " + std::to_string(weight.cols()) +
                    " inputs of " + weight.name);
}

Grid grouped_scales(const Weight& weight, std::int64_t groups, std::string name,
                    std::span<const std::string_view> types) {
  return {.name = std::move(name),
          .shape = with_last(weight.shape, weight.matrix_rows(), groups),
          .types = types,
          .rows = weight.rows(),
          .cols = groups};
}

Grid turned_scales(const Weight& weight, std::int64_t groups) {
  return {.name = weight.base() + ".scales",
          .shape = {groups, weight.rows()},
          .types = kScaleTypes,
          .rows = weight.rows(),
          .cols = groups,
          .turned = true};
}

Grid one_number(std::string name, const Checkpoint& checkpoint) {
  const TensorInfo* tensor = stored(checkpoint, name);
  // Producers write [] and [1].
  const bool listed = tensor != nullptr && tensor->shape.size() == 1;
  return {.name = std::move(name),
          .shape = listed ? std::vector<std::int64_t>{1} : std::vector<std::int64_t>{},
          .types = kScaleTypes};
}

Encoding encode_bytes(const Weight& weight, const std::array<int, 2>& block, std::span<const std::string_view> types,
                      std::span<const float> values, const Checkpoint& checkpoint) {
  Encoding encoding{.codes = {.name = weight.name,
                              .shape = weight.shape,
                              .types = types,
                              .rows = weight.rows(),
                              .cols = weight.cols()},
                    .values = values,
                    .scales = {.name = weight.name + "_scale_inv", .types = kScaleTypes},
                    .matrix_rows = weight.matrix_rows(),
                    .block_rows = weight.matrix_rows(),
                    .block_cols = weight.cols()};
  Grid& scales = encoding.scales;
  if (stored(checkpoint, scales.name) == nullptr) scales.name = weight.name + "_scale";
  const std::int64_t matrices = weight.rows() / weight.matrix_rows();
  const TensorInfo* tensor = stored(checkpoint, scales.name);
  if (block[0] > 0) {
    encoding.block_rows = block[0];
    encoding.block_cols = block[1];
    scales.rows = ceil_div(weight.matrix_rows(), block[0]);
    scales.cols = ceil_div(weight.cols(), block[1]);
    scales.shape = with_last(weight.shape, scales.rows, scales.cols);
    scales.rows *= matrices;
  } else if (matrices > 1 || (tensor != nullptr && count(tensor->shape) > 1)) {
    encoding.block_rows = 1;
    scales.rows = weight.rows();
    scales.shape = with_last(weight.shape, weight.matrix_rows(), 1);
    if (tensor != nullptr && tensor->shape.size() + 1 == scales.shape.size()) scales.shape.pop_back();
  } else {
    scales = one_number(scales.name, checkpoint);
  }
  return encoding;
}

Result<Encoding> encode_e2m1(const Weight& weight, const std::string& codes, int group, const std::string& scales,
                             std::span<const std::string_view> scale_types) {
  TRY(groups, count_groups(weight, group));
  return Encoding{.codes = {.name = codes,
                            .shape = with_last(weight.shape, weight.matrix_rows(), weight.cols() / 2),
                            .types = kByteType,
                            .rows = weight.rows(),
                            .cols = weight.cols(),
                            .bits = 4},
                  .values = e2m1_values(),
                  .scales = grouped_scales(weight, groups, scales, scale_types),
                  .block_cols = group};
}

}  // namespace colibri
