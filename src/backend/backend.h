// SPDX-License-Identifier: Apache-2.0
// A backend is a set of operations on tensors, and the memory that they work on. `reference` (plain loops, double sums)
// is the oracle, `cpu` and `cuda` are the fast ones.
//
// Invariant, of every operation: what a row of the output holds depends on that row's inputs alone, never on how many
// rows there are, how the work was split or which thread did it. Activations are fp32, weights bf16, sums fp32 or
// better. Views are contiguous in a row; outputs never alias inputs unless an operation says so. Shapes are CHECKed:
// the caller has validated the model. All operands lie in memory of the backend, unless a span of a Batch. Operations
// are in order; a step runs from begin() to finish(), and only then its results can be read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/memory.h"
#include "base/result.h"
#include "core/batch.h"
#include "core/expert_table.h"
#include "core/kv_view.h"
#include "core/matrix.h"
#include "core/spec.h"
#include "core/tensor.h"

namespace colibri {

/// The experts chosen for each row, best first; weights as the router's spec says.
struct Routing {
  int top_k = 0;
  std::span<std::int32_t> ids;  // [rows * top_k], distinct within a row, always in [0, n_experts) even for NaN scores
  std::span<float> weights;     // [rows * top_k]
};

/// What a router computes with; bias and correction where its spec has them, else empty.
struct RouterView {
  Matrix matrix;                           // [n_experts, d_model]
  std::span<const float> bias = {};        // [n_experts]
  std::span<const float> correction = {};  // [n_experts]
};

struct Device {
  std::string cpu;
  std::string gpu;     // empty: none
  std::string driver;  // of the GPU
};

/// What a step did.
struct StepCounters {
  std::int64_t experts_touched = 0;  // distinct experts, summed over the MoE layers
  double route_seconds = 0.0;        // from hidden states to chosen experts, likewise
};

/// The most that a step can hold.
struct StepLimits {
  int rows = 0;
  int sequences = 0;
  int logit_rows = 0;
  int context = 0;  // positions of one sequence
};

/// The operations of a step whose arguments depend on the batch's sizes alone, ready to run again.
class CapturedStep {
 public:
  virtual ~CapturedStep() = default;
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string_view name() const = 0;
  /// Threads that operations run on.
  virtual int threads() const = 0;
  /// The calling thread is the one that will run operations from now on: it gets its place among the backend's threads.
  virtual void adopt_thread() = 0;
  /// Whether it works on host memory, with code that fits the machine. Else weights must be placed, and what it
  /// computes should be checked before it is relied on.
  virtual bool on_host() const = 0;
  /// What it runs on.
  virtual Device device() const = 0;
  /// Bytes per second that it reads a block of about `bytes` at: the limit that steps are shown beside.
  virtual Result<double> measure_read_bandwidth(std::size_t bytes) = 0;
  /// fp32 multiply-adds that all threads reach together on registers alone, in operations (2 each) per second: the
  /// limit that products are shown beside. Takes about 50 ms. 0 where it means nothing (reference).
  virtual double measure_flops() = 0;

  /// Memory for operands, zeroed. Error 78 names the size and `purpose`.
  virtual Result<Buffer> allocate(std::size_t bytes, std::string_view purpose) = 0;
  /// Brings a block of host memory to where operations can read it: itself where that is the host, else a copy.
  virtual Result<Buffer> place(Buffer host, std::string_view purpose) = 0;
  virtual void zero(void* to, std::size_t bytes) = 0;
  virtual void copy(void* to, const void* from, std::size_t bytes) = 0;
  /// Fills a matrix as core/random_bits.h says, the same on every backend.
  virtual void fill_random(const Matrix& matrix, std::uint64_t seed) = 0;

  /// Takes what steps of this model within `limits` need beside their operands; steps allocate nothing afterwards.
  virtual Status prepare(const ModelSpec& spec, const StepLimits& limits) = 0;
  /// Starts a step: operations that take a batch mean this one until the next. Resets the counters.
  virtual void begin(const Batch& batch) = 0;
  /// Waits for all operations, and gives `rows` as the host can read them, valid until the next step.
  virtual Rows finish(Rows rows) = 0;
  /// Of the step that has finished.
  virtual StepCounters counters() const = 0;
  /// Records what `enqueue` asks for without running it; nullptr where there is nothing to gain.
  virtual std::unique_ptr<CapturedStep> capture(const std::function<void()>& enqueue) = 0;
  /// Runs it on the batch that has begun, which has the sizes of the captured one.
  virtual void replay(const CapturedStep& step) = 0;

  /// out[r, :] = row batch.tokens[r] of `table` ([vocab, d_model]).
  virtual void embed(const Batch& batch, const Matrix& table, Rows out) = 0;

  /// out[i, :] = x[batch.logit_rows[i], :]
  virtual void gather(ConstRows x, const Batch& batch, Rows out) = 0;

  /// RMSNorm: out = x / sqrt(mean(x^2) + eps) * weight. weight [cols]. out may be x.
  virtual void rms_norm(ConstRows x, std::span<const float> weight, float eps, Rows out) = 0;

  /// LayerNorm: out = (x - mean(x)) / sqrt(variance(x) + eps) * weight + bias. weight, bias [cols]. out may be x.
  virtual void layer_norm(ConstRows x, std::span<const float> weight, std::span<const float> bias, float eps,
                          Rows out) = 0;

  /// x *= factor
  virtual void scale(Rows x, float factor) = 0;

  /// out = x W^T + bias, or out += where `accumulate`. x [n, w.cols], out [n, w.rows], bias [w.rows] or empty.
  virtual void linear(ConstRows x, const Matrix& w, std::span<const float> bias, bool accumulate, Rows out) = 0;

  /// Normalises and turns the heads of q and k in place and writes k and v into the cache.
  /// q [n, n_heads * head_dim], k and v [n, n_kv_heads * head_dim]; q_norm and k_norm as spec.qk_norm says, else empty.
  virtual void rope_and_store(Rows q, Rows k, ConstRows v, const AttentionSpec& spec, std::span<const float> q_norm,
                              std::span<const float> k_norm, float eps, const Batch& batch, const KvView& kv) = 0;

  /// Causal attention of each row over its sequence's cache, this step's rows included. out [n, n_heads * head_dim];
  /// sinks [n_heads] where spec has them, else empty.
  virtual void attention(ConstRows q, const AttentionSpec& spec, std::span<const float> sinks, const Batch& batch,
                         const KvView& kv, Rows out) = 0;

  /// Normalises latents and turns rotary keys into the cache, and turns the queries' rotary parts to their place.
  /// latents [n, cached()]; kv_norm [kv_rank]; q [n, n_heads * q_dim()], of whose heads the last rope_dim values become
  /// the last of the head in queries [n, n_heads * cached()]. Turned pairs are stored as halves, whatever spec.rope
  /// says.
  virtual void latent_rope_and_store(ConstRows q, ConstRows latents, const LatentAttentionSpec& spec,
                                     std::span<const float> kv_norm, const Batch& batch, const LatentView& cache,
                                     Rows queries) = 0;

  /// Causal attention of every head over the latents of its sequence, this step's included: a cached row is the key,
  /// its first kv_rank values the value. queries [n, n_heads * cached()], out [n, n_heads * kv_rank].
  virtual void latent_attention(ConstRows queries, const LatentAttentionSpec& spec, const Batch& batch,
                                const LatentView& cache, Rows out) = 0;

  /// out = silu(gate) * up, elementwise. out may be gate or up.
  virtual void silu_mul(ConstRows gate, ConstRows up, Rows out) = 0;

  /// out = x * sigmoid(gate), elementwise: silu where gate is x. out may be x or gate.
  virtual void sigmoid_mul(ConstRows x, ConstRows gate, Rows out) = 0;

  /// out = x * y, elementwise. out may be either.
  virtual void multiply(ConstRows x, ConstRows y, Rows out) = 0;

  /// Causal convolution along each sequence, channel by channel: out[t, c] = bias[c] + sum over j of
  /// weight[j, c] * x[t - width + 1 + j, c]. weight [width, x.cols]; bias [x.cols] or empty. The first (width - 1) *
  /// x.cols floats of the sequence's slot in `group` are the rows before this step's, oldest first, and become those
  /// before the next one's. width >= 1.
  virtual void short_conv(ConstRows x, std::span<const float> weight, std::span<const float> bias, const Batch& batch,
                          const StateView& state, int group, Rows out) = 0;

  /// Gated delta rule, row after row from the state in the sequence's slot. For value head h, with
  ///   q, k   of its key head, each divided by sqrt(sum of squares + 1e-6), and q by sqrt(k_dim) too
  ///   decay  exp(-exp(a_log[h]) * softplus(a[h] + dt_bias[h])),  beta = sigmoid(b[h])
  /// S := decay * S;  S := S + k (beta * (v - S^T k))^T;  out = S^T q.
  /// qkv [n, conv_cols], columns q | k | v; gates [n, 2 n_v_heads], columns b | a; out [n, value_cols].
  virtual void delta_rule(ConstRows qkv, ConstRows gates, const DeltaNetSpec& spec, std::span<const float> a_log,
                          std::span<const float> dt_bias, const Batch& batch, const StateView& state, Rows out) = 0;

  /// out[r, :] += y[r, :] * sigmoid(gate[r, 0]); gate with no columns: out += y.
  virtual void add_gated(ConstRows y, ConstRows gate, Rows out) = 0;

  /// Router of one MoE layer, from fp32 logits to the choice, as the spec says.
  virtual void route(ConstRows x, const RouterView& router, const RouterSpec& spec, const Routing& routing) = 0;

  /// out[r, :] += sum over slots (in order) of weight * expert(x[r, :]). x, out [n, d_model].
  virtual void experts(ConstRows x, const Routing& routing, const ExpertTable& table, Rows out) = 0;
};

/// The backends of this build, by name; "auto" is the fastest that is usable here. Error 69 where there is none such.
/// threads: 0 means all cores that this process may use.
Result<std::unique_ptr<Backend>> make_backend(std::string_view name, int threads);

}  // namespace colibri
