// SPDX-License-Identifier: Apache-2.0
// Sampling without replacement by exponential clocks (Efraimidis and Spirakis, 2006): the top_k smallest -log(u) /
// weight.
#include "apps/forced_routing.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "engine/philox.h"

namespace colibri {
namespace {

class ZipfBackend : public Backend {
 public:
  ZipfBackend(Backend& inner, double exponent) : inner_(inner), exponent_(exponent) {}

  std::string_view name() const override { return inner_.name(); }
  int threads() const override { return inner_.threads(); }
  void adopt_thread() override { inner_.adopt_thread(); }
  bool on_host() const override { return inner_.on_host(); }
  Device device() const override { return inner_.device(); }
  Result<double> measure_read_bandwidth(std::size_t bytes) override { return inner_.measure_read_bandwidth(bytes); }
  double measure_flops() override { return inner_.measure_flops(); }
  Result<Buffer> allocate(std::size_t bytes, std::string_view purpose) override {
    return inner_.allocate(bytes, purpose);
  }
  Result<Buffer> place(Buffer host, std::string_view purpose) override {
    return inner_.place(std::move(host), purpose);
  }
  void zero(void* to, std::size_t bytes) override { inner_.zero(to, bytes); }
  void copy(void* to, const void* from, std::size_t bytes) override { inner_.copy(to, from, bytes); }
  void fill_random(const Matrix& matrix, std::uint64_t seed) override { inner_.fill_random(matrix, seed); }
  Status prepare(const ModelSpec& spec, const StepLimits& limits) override { return inner_.prepare(spec, limits); }
  void begin(const Batch& batch) override { inner_.begin(batch); }
  Rows finish(Rows rows) override { return inner_.finish(rows); }
  StepCounters counters() const override { return inner_.counters(); }
  std::unique_ptr<CapturedStep> capture(const std::function<void()>& enqueue) override {
    return inner_.capture(enqueue);
  }
  void replay(const CapturedStep& step) override { inner_.replay(step); }
  void embed(const Batch& batch, const Matrix& table, Rows out) override { inner_.embed(batch, table, out); }
  void gather(ConstRows x, const Batch& batch, Rows out) override { inner_.gather(x, batch, out); }
  void rms_norm(ConstRows x, std::span<const float> weight, float eps, Rows out) override {
    inner_.rms_norm(x, weight, eps, out);
  }
  void layer_norm(ConstRows x, std::span<const float> weight, std::span<const float> bias, float eps,
                  Rows out) override {
    inner_.layer_norm(x, weight, bias, eps, out);
  }
  void scale(Rows x, float factor) override { inner_.scale(x, factor); }
  void linear(ConstRows x, const Matrix& w, std::span<const float> bias, bool accumulate, Rows out) override {
    inner_.linear(x, w, bias, accumulate, out);
  }
  void rope_and_store(Rows q, Rows k, ConstRows v, const AttentionSpec& spec, std::span<const float> q_norm,
                      std::span<const float> k_norm, float eps, const Batch& batch, const KvView& kv) override {
    inner_.rope_and_store(q, k, v, spec, q_norm, k_norm, eps, batch, kv);
  }
  void attention(ConstRows q, const AttentionSpec& spec, std::span<const float> sinks, const Batch& batch,
                 const KvView& kv, Rows out) override {
    inner_.attention(q, spec, sinks, batch, kv, out);
  }
  void latent_rope_and_store(ConstRows q, ConstRows latents, const LatentAttentionSpec& spec,
                             std::span<const float> kv_norm, const Batch& batch, const LatentView& cache,
                             Rows queries) override {
    inner_.latent_rope_and_store(q, latents, spec, kv_norm, batch, cache, queries);
  }
  void latent_attention(ConstRows queries, const LatentAttentionSpec& spec, const Batch& batch, const LatentView& cache,
                        Rows out) override {
    inner_.latent_attention(queries, spec, batch, cache, out);
  }
  void silu_mul(ConstRows gate, ConstRows up, Rows out) override { inner_.silu_mul(gate, up, out); }
  void sigmoid_mul(ConstRows x, ConstRows gate, Rows out) override { inner_.sigmoid_mul(x, gate, out); }
  void multiply(ConstRows x, ConstRows y, Rows out) override { inner_.multiply(x, y, out); }
  void short_conv(ConstRows x, std::span<const float> weight, std::span<const float> bias, const Batch& batch,
                  const StateView& state, int group, Rows out) override {
    inner_.short_conv(x, weight, bias, batch, state, group, out);
  }
  void delta_rule(ConstRows qkv, ConstRows gates, const DeltaNetSpec& spec, std::span<const float> a_log,
                  std::span<const float> dt_bias, const Batch& batch, const StateView& state, Rows out) override {
    inner_.delta_rule(qkv, gates, spec, a_log, dt_bias, batch, state, out);
  }
  void add_gated(ConstRows y, ConstRows gate, Rows out) override { inner_.add_gated(y, gate, out); }
  void experts(ConstRows x, const Routing& routing, const ExpertTable& table, Rows out) override {
    inner_.experts(x, routing, table, out);
  }

  /// The router is computed as well, so that its cost stays in the measurement; then its choice is replaced.
  void route(ConstRows x, const RouterView& router, const RouterSpec& spec, const Routing& routing) override {
    inner_.route(x, router, spec, routing);
    std::vector<std::int32_t> order(static_cast<std::size_t>(spec.n_experts));
    std::vector<double> arrival(order.size());
    for (int row = 0; row < x.rows; ++row) {
      for (std::size_t e = 0; e < order.size(); ++e)
        arrival[e] = -std::log1p(-uniform(call_, static_cast<std::uint64_t>(row) << 32 | e)) *
                     std::pow(static_cast<double>(e) + 1.0, exponent_);
      std::iota(order.begin(), order.end(), 0);
      std::partial_sort(order.begin(), order.begin() + spec.top_k, order.end(), [&](std::int32_t a, std::int32_t b) {
        return arrival[static_cast<std::size_t>(a)] < arrival[static_cast<std::size_t>(b)];
      });
      std::copy_n(order.begin(), spec.top_k, routing.ids.begin() + std::ptrdiff_t{row} * spec.top_k);
    }
    ++call_;
  }

 private:
  Backend& inner_;
  double exponent_;
  std::uint64_t call_ = 0;
};

}  // namespace

std::unique_ptr<Backend> make_zipf_backend(Backend& inner, double exponent) {
  return std::make_unique<ZipfBackend>(inner, exponent);
}

}  // namespace colibri
