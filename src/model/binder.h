// SPDX-License-Identifier: Apache-2.0
// Which stored tensor goes where: the spec says what must exist, the family how it is called.
// Invariant: a checked checkpoint has every tensor that the spec requires, in the right shape and a loadable type, and
// none that nobody claims.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "model/checkpoint.h"
#include "model/families.h"
#include "model/formats.h"
#include "model/weights.h"

namespace colibri {

/// Some rows of a stored tensor and their place: rows of a matrix, a whole matrix transposed, or floats. A tensor
/// may have several bindings.
struct Binding {
  std::string name;
  std::vector<std::int64_t> shape;  // as stored; all dimensions but the last count as rows, a vector has one column
  std::int64_t stored_row = 0;      // the first row taken
  int rows = 0;
  int cols = 0;
  std::byte* tiles = nullptr;  // of the whole matrix that they become a part of
  int first_row = 0;           // in that matrix
  float* values = nullptr;     // [cols][rows]
  float plus = 0.0F;           // added to the values
  bool transposed = false;     // they become the columns of a [cols, rows] matrix
  std::byte* odd = nullptr;    // rows of tiles and of this matrix stand by turns, or columns where transposed,
  bool halves = false;         // or, transposed, first all of tiles
};

/// The one of the family's ways to name tensors that the checkpoint follows.
const TensorNames& stored_names(const Family& family, const ModelSpec& spec, const Checkpoint& checkpoint);

/// Every tensor of the model. The places point into `weights`.
std::vector<Binding> bind_tensors(const ModelSpec& spec, const TensorNames& names, const WeightFormat& format,
                                  ModelWeights& weights);

/// How the weights that the format encodes are stored, by name; others are plain numbers.
using Encodings = std::unordered_map<std::string, Encoding>;

/// Error 65 with the first name and the count of what is missing, misshapen or unclaimed.
Result<Encodings> check_tensors(const std::vector<Binding>& bindings, const Checkpoint& checkpoint,
                                const ModelSpec& spec, const TensorNames& names, const WeightFormat& format);

}  // namespace colibri
