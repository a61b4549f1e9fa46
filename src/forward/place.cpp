// SPDX-License-Identifier: Apache-2.0
// Blocks move; then everything that points into them is made anew.
#include "forward/place.h"

#include <chrono>

#include "model/random_weights.h"

namespace colibri {
namespace {

Status place_tables(Backend& backend, ModelWeights& weights) {
  TRY(tables, make_record_tables(weights));
  TRY(placed, backend.place(std::move(tables), "the experts' table"));
  set_record_tables(weights, std::move(placed));
  return {};
}

}  // namespace

Status place_weights(Backend& backend, Model& model) {
  ModelWeights& weights = model.weights;
  TRY(dense, backend.place(std::move(weights.dense), "the weights"));
  lay_out_dense(model.spec, dense.data(), weights);
  weights.dense = std::move(dense);
  for (Buffer& slab : weights.expert_slabs) {
    TRY(placed, backend.place(std::move(slab), "the experts"));
    slab = std::move(placed);
  }
  return place_tables(backend, weights);
}

Result<Model> place_random_weights(Backend& backend, const ModelSpec& spec, std::uint64_t seed,
                                   const LoadOptions& options) {
  if (backend.on_host()) return random_weights(spec, seed, options);
  const auto start = std::chrono::steady_clock::now();
  TRY(weights, allocate_weights(spec));  // of the host's memory only what vectors need is ever touched
  set_random_vectors(weights);
  TRY(dense, backend.place(std::move(weights.dense), "the weights"));
  lay_out_dense(spec, dense.data(), weights);
  weights.dense = std::move(dense);
  for (Buffer& slab : weights.expert_slabs) {
    TRY(placed, backend.allocate(slab.size(), "the experts"));
    slab = std::move(placed);
  }
  TRY(tables, make_record_tables(weights));
  set_record_tables(weights, std::move(tables));
  for (const RandomPart& part : random_parts(weights, seed)) backend.fill_random(part.matrix, part.seed);
  TRY_STATUS(place_tables(backend, weights));
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
  const std::uint64_t bytes = weights.bytes();
  return Model{spec, {}, std::move(weights), {}, {taken.count(), bytes}};
}

}  // namespace colibri
