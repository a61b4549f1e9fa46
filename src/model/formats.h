// SPDX-License-Identifier: Apache-2.0
// The table of published weight formats: what config.json says of one, and in which tensors a weight stands in it.
// Invariant: the stored tensors decide whether a weight is encoded, since lists of modules in config.json follow each
// producer's own pattern language; config.json decides how, and both must agree.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "model/checkpoint.h"
#include "model/formats/encoding.h"

namespace colibri {

class ConfigReader;

/// A matrix as a family names it.
struct Weight {
  std::string name;
  std::vector<std::int64_t> shape;  // the last is the inputs, the one before the outputs, others count matrices

  std::int64_t cols() const { return shape.back(); }
  std::int64_t matrix_rows() const { return shape[shape.size() - 2]; }
  std::int64_t rows() const;
  /// Without ".weight".
  std::string base() const;
};

/// What config.json says of its format. Each format reads what it knows.
struct FormatSettings {
  int bits = 0;                  // 4 | 8 where both occur
  std::vector<int> groups = {};  // sizes that occur, of inputs that share a scale; -1: all of them
  std::array<int, 2> block{};    // outputs and inputs that share a scale; 0: not in blocks
  int zeros_plus = 0;            // to be added to stored zeros
  bool zeros = false;            // they must be there
  bool ordered = false;          // groups are listed by input
  bool turned_experts = false;   // experts are [outputs, inputs] where plain files have [inputs, outputs]
};

struct Format {
  std::string_view method;  // quant_method
  FormatSettings (*parse)(ConfigReader& config);
  /// Nothing where the weight stands in the checkpoint as plain numbers. Shapes and types are still to be checked.
  Result<std::optional<Encoding>> (*find)(const FormatSettings& settings, const Weight& weight,
                                          const Checkpoint& checkpoint);
};

/// The format of one checkpoint.
class WeightFormat {
 public:
  /// `config` is the quantization_config, null where there is none; `place` names it in messages.
  static Result<WeightFormat> parse(const Json& config, const std::string& place);

  std::string_view name() const { return format_ == nullptr ? "" : format_->method; }
  bool turned_experts() const { return settings_.turned_experts; }
  Result<std::optional<Encoding>> find(const Weight& weight, const Checkpoint& checkpoint) const;
  /// Whether a tensor says how to quantise activations or the cache, which are computed in full here, or repeats a
  /// shape that the config gives.
  bool ignores(std::string_view tensor) const;
  /// Whether a tensor may be a bias that the format's tools add to every matrix, harmless if it is zero.
  bool may_be_idle_bias(const std::string& tensor, const Checkpoint& checkpoint) const;

 private:
  const Format* format_ = nullptr;
  FormatSettings settings_;
};

/// Whether a weight is there, in whatever format.
bool stores_weight(const Checkpoint& checkpoint, const std::string& name);

}  // namespace colibri
