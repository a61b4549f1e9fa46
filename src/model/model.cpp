// SPDX-License-Identifier: Apache-2.0
// Order of loading: config, headers, names and shapes, budget, memory, data. Everything that can be refused is refused
// before memory is taken.
#include "model/model.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <thread>

#include "model/binder.h"
#include "model/checkpoint.h"
#include "model/families.h"
#include "model/random_weights.h"
#include "model/size.h"

namespace colibri {
namespace {

using Clock = std::chrono::steady_clock;

constexpr unsigned kMaxLoadThreads = 8;  // more do not read faster from one disk

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

int load_threads(const LoadOptions& options) {
  if (options.threads > 0) return options.threads;
  return static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 1U, kMaxLoadThreads));
}

std::size_t budget(const LoadOptions& options) {
  return options.ram_budget > 0 ? options.ram_budget : available_bytes();
}

/// Bytes and words may hold numbers of four bits.
double most_numbers(const TensorInfo& tensor) {
  const bool packed = tensor.type.name == "U8" || tensor.type.name == "I32";
  return static_cast<double>(tensor.bytes) * (packed ? 2.0 : 1.0 / tensor.type.bytes);
}

/// A config that asks for far more than the files hold is refused by arithmetic, before its sizes cost anything.
Status check_size(const ModelSpec& spec, const Checkpoint& checkpoint) {
  double stored = 0;
  for (const Checkpoint::Shard& shard : checkpoint.shards())
    for (const TensorInfo& tensor : shard.tensors) stored += most_numbers(tensor);
  const double asked = model_parameters(spec).total;
  if (asked <= 2 * stored + 1e6) return {};
  char text[128];
  std::snprintf(text, sizeof text, "config.json asks for %.3g parameters and the shards hold %.3g", asked, stored);
  return data_error(text);
}

/// A model that ties its head to the embedding may store it as well; then it must be the same.
Status check_tied_head(const ModelSpec& spec, const TensorNames& names, const Checkpoint& checkpoint) {
  constexpr std::uint64_t kPieceBytes = std::uint64_t{1} << 20;
  const Checkpoint::Place* places[] = {checkpoint.find(std::string(names.embedding) + ".weight"),
                                       checkpoint.find(std::string(names.head) + ".weight")};
  if (!spec.tied_embeddings || places[0] == nullptr || places[1] == nullptr) return {};
  const auto shard = [&](int i) -> const Checkpoint::Shard& { return checkpoint.shards()[places[i]->shard]; };
  const TensorInfo& embedding = shard(0).tensors[places[0]->tensor];
  const TensorInfo& head = shard(1).tensors[places[1]->tensor];
  bool same = head.shape == embedding.shape && head.type.name == embedding.type.name;
  std::vector<std::byte> pieces[2];
  for (std::uint64_t at = 0; same && at < head.bytes; at += kPieceBytes) {
    for (auto& piece : pieces) piece.resize(std::min(kPieceBytes, head.bytes - at));
    TRY_STATUS(shard(0).file.read_at(embedding.offset + at, pieces[0]));
    TRY_STATUS(shard(1).file.read_at(head.offset + at, pieces[1]));
    same = pieces[0] == pieces[1];
  }
  if (same) return {};
  return data_error("config.json: tie_word_embeddings: true, but the stored " + head.name + " differs from " +
                    embedding.name);
}

}  // namespace

Result<Model> load_model(const std::string& directory, const LoadOptions& options) {
  const auto start = Clock::now();
  TRY(config, read_config(directory));
  TRY(format, WeightFormat::parse(config.quantization, directory + "/config.json: quantization_config"));
  TRY(checkpoint, Checkpoint::open(directory));
  const TensorNames& names = stored_names(*find_family(config.spec.family), config.spec, checkpoint);
  TRY_STATUS(check_size(config.spec, checkpoint).at(directory));
  TRY(weights, allocate_weights(config.spec));
  const std::vector<Binding> bindings = bind_tensors(config.spec, names, format, weights);
  TRY(encodings, check_tensors(bindings, checkpoint, config.spec, names, format).at(directory));
  TRY_STATUS(check_tied_head(config.spec, names, checkpoint).at(directory));
  TRY_STATUS(check_budget(weights, budget(options)).at(directory));
  TRY(warning, read_weights(checkpoint, bindings, encodings, load_threads(options), options.progress));
  if (!warning.empty()) config.warnings.push_back(directory + ": " + warning);
  const std::uint64_t bytes = weights.bytes();
  return Model{std::move(config.spec),
               std::move(config.generation),
               std::move(weights),
               std::move(config.warnings),
               {seconds_since(start), bytes}};
}

Result<Model> random_weights(const ModelSpec& spec, std::uint64_t seed, const LoadOptions& options) {
  const auto start = Clock::now();
  TRY(weights, allocate_weights(spec));
  TRY_STATUS(check_budget(weights, budget(options)));
  fill_random(weights, seed, load_threads(options), options.progress);
  const std::uint64_t bytes = weights.bytes();
  return Model{spec, {}, std::move(weights), {}, {seconds_since(start), bytes}};
}

}  // namespace colibri
