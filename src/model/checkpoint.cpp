// SPDX-License-Identifier: Apache-2.0
// Index and shards are checked against each other in both directions: a stale index would load a mix of two models.
#include "model/checkpoint.h"

#include <set>

#include "base/json.h"

namespace colibri {
namespace {

constexpr std::uint64_t kMaxIndexBytes = std::uint64_t{64} << 20;
constexpr JsonLimits kIndexLimits{.depth = 8, .bytes = kMaxIndexBytes, .values = 2'000'000};
constexpr std::size_t kMaxShards = 4096;

constexpr const char* kIndexName = "/model.safetensors.index.json";
constexpr const char* kSingleName = "/model.safetensors";

using WeightMap = std::unordered_map<std::string, std::string>;  // tensor to shard

Status check_shard_name(const std::string& name) {
  if (name.empty() || name.find('/') != std::string::npos || name.find("..") != std::string::npos ||
      name.find('\0') != std::string::npos || name.size() > 255)
    return data_error("weight_map: \"" + name.substr(0, 60) + "\" is not the name of a file beside the index");
  return {};
}

Result<WeightMap> read_index(const std::string& path) {
  TRY(text, read_file(path, kMaxIndexBytes));
  TRY(json, parse_json(text, kIndexLimits).at(path));
  const Json* map = json.find("weight_map");
  if (map == nullptr || !map->is_object() || map->as_object().empty())
    return data_error(path + ": weight_map: missing or empty");
  WeightMap weight_map;
  for (const auto& [tensor, shard] : map->as_object()) {
    if (!shard.is_string()) return data_error(path + ": weight_map: " + tensor.substr(0, 120) + ": not a string");
    TRY_STATUS(check_shard_name(shard.as_string()).at(path));
    weight_map.emplace(tensor, shard.as_string());
  }
  return weight_map;
}

Result<Checkpoint::Shard> open_shard(const std::string& path) {
  auto file = File::open(path);
  if (!file.ok() && file.error().code == Exit::not_found && !path_exists(path))
    return data_error(path + ": the index names this shard and it is missing; fetch the model again");
  TRY(opened, std::move(file));
  TRY(tensors, read_safetensors_header(opened));
  return Checkpoint::Shard{std::move(opened), std::move(tensors)};
}

/// Ticks the shard's tensors off the map.
Status check_against_index(const Checkpoint::Shard& shard, const std::string& name, WeightMap& left,
                           const std::string& index_path) {
  for (const TensorInfo& tensor : shard.tensors) {
    const auto entry = left.find(tensor.name);
    if (entry == left.end())
      return data_error(shard.file.path() + ": tensor " + tensor.name.substr(0, 120) +
                        " is not in the index, or stands in two shards");
    if (entry->second != name) {
      return data_error(shard.file.path() + ": tensor " + tensor.name.substr(0, 120) + " belongs to " + entry->second +
                        " by " + index_path);
    }
    left.erase(entry);
  }
  return {};
}

}  // namespace

Checkpoint::Checkpoint(std::vector<Shard> shards) : shards_(std::move(shards)) {
  for (std::size_t s = 0; s < shards_.size(); ++s)
    for (std::size_t t = 0; t < shards_[s].tensors.size(); ++t)
      places_.emplace(shards_[s].tensors[t].name, Place{s, t});
}

const Checkpoint::Place* Checkpoint::find(std::string_view name) const {
  const auto place = places_.find(name);
  return place == places_.end() ? nullptr : &place->second;
}

bool Checkpoint::present(const std::string& directory) {
  return path_exists(directory + kIndexName) || path_exists(directory + kSingleName);
}

Result<Checkpoint> Checkpoint::open(const std::string& directory) {
  const std::string index_path = directory + kIndexName;
  std::vector<Shard> shards;
  if (!path_exists(index_path)) {
    if (!path_exists(directory + kSingleName))
      return data_error(directory + ": neither model.safetensors nor model.safetensors.index.json in it");
    TRY(shard, open_shard(directory + kSingleName));
    shards.push_back(std::move(shard));
    return Checkpoint(std::move(shards));
  }
  TRY(left, read_index(index_path));
  std::set<std::string> names;  // sorted, so that shards are read in order
  for (const auto& [tensor, shard] : left) names.insert(shard);
  if (names.size() > kMaxShards)
    return data_error(index_path + ": weight_map: more than " + std::to_string(kMaxShards) + " shards");
  for (const std::string& name : names) {
    TRY(shard, open_shard(directory + "/" + name));
    TRY_STATUS(check_against_index(shard, name, left, index_path));
    shards.push_back(std::move(shard));
  }
  if (!left.empty()) {
    return data_error(directory + "/" + left.begin()->second + ": tensor " + left.begin()->first.substr(0, 120) +
                      " is not in it, though the index says so (" + std::to_string(left.size()) + " such tensors)");
  }
  return Checkpoint(std::move(shards));
}

}  // namespace colibri
