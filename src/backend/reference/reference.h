// SPDX-License-Identifier: Apache-2.0
// The oracle: plain loops and sums in double, written to be read.
// Invariant: nothing here is shared with another backend but the views of core/.
#pragma once

#include "backend/host.h"

namespace colibri {

class ReferenceBackend final : public HostBackend {
 public:
  std::string_view name() const override { return "reference"; }
  int threads() const override { return 1; }
  void adopt_thread() override {}
  double measure_flops() override { return 0.0; }
  void embed(const Batch& batch, const Matrix& table, Rows out) override;
  void gather(ConstRows x, const Batch& batch, Rows out) override;
  void rms_norm(ConstRows x, std::span<const float> weight, float eps, Rows out) override;
  void layer_norm(ConstRows x, std::span<const float> weight, std::span<const float> bias, float eps,
                  Rows out) override;
  void scale(Rows x, float factor) override;
  void linear(ConstRows x, const Matrix& w, std::span<const float> bias, bool accumulate, Rows out) override;
  void rope_and_store(Rows q, Rows k, ConstRows v, const AttentionSpec& spec, std::span<const float> q_norm,
                      std::span<const float> k_norm, float eps, const Batch& batch, const KvView& kv) override;
  void attention(ConstRows q, const AttentionSpec& spec, std::span<const float> sinks, const Batch& batch,
                 const KvView& kv, Rows out) override;
  void latent_rope_and_store(ConstRows q, ConstRows latents, const LatentAttentionSpec& spec,
                             std::span<const float> kv_norm, const Batch& batch, const LatentView& cache,
                             Rows queries) override;
  void latent_attention(ConstRows queries, const LatentAttentionSpec& spec, const Batch& batch, const LatentView& cache,
                        Rows out) override;
  void silu_mul(ConstRows gate, ConstRows up, Rows out) override;
  void sigmoid_mul(ConstRows x, ConstRows gate, Rows out) override;
  void multiply(ConstRows x, ConstRows y, Rows out) override;
  void short_conv(ConstRows x, std::span<const float> weight, std::span<const float> bias, const Batch& batch,
                  const StateView& state, int group, Rows out) override;
  void delta_rule(ConstRows qkv, ConstRows gates, const DeltaNetSpec& spec, std::span<const float> a_log,
                  std::span<const float> dt_bias, const Batch& batch, const StateView& state, Rows out) override;
  void add_gated(ConstRows y, ConstRows gate, Rows out) override;
  void route(ConstRows x, const RouterView& router, const RouterSpec& spec, const Routing& routing) override;
  void experts(ConstRows x, const Routing& routing, const ExpertTable& table, Rows out) override;
};

}  // namespace colibri
