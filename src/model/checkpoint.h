// SPDX-License-Identifier: Apache-2.0
// The stored tensors of a model directory: one model.safetensors, or the shards that its index names.
// Invariant: each name stands in exactly one shard, the one the index says; other files in the directory do not exist
// for us. The files stay open until the Checkpoint goes; nothing is mapped.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/file.h"
#include "model/safetensors.h"

namespace colibri {

class Checkpoint {
 public:
  struct Shard {
    File file;
    std::vector<TensorInfo> tensors;  // in order of offset
  };
  struct Place {
    std::size_t shard = 0;
    std::size_t tensor = 0;  // in that shard
  };

  /// Whether the directory has weights at all.
  static bool present(const std::string& directory);

  /// Opens every shard and reads its header.
  static Result<Checkpoint> open(const std::string& directory);

  const std::vector<Shard>& shards() const { return shards_; }
  std::size_t n_tensors() const { return places_.size(); }
  /// nullptr where there is none of that name.
  const Place* find(std::string_view name) const;

 private:
  explicit Checkpoint(std::vector<Shard> shards);

  std::vector<Shard> shards_;
  std::unordered_map<std::string_view, Place> places_;  // keys lie in shards_
};

}  // namespace colibri
