// SPDX-License-Identifier: Apache-2.0
// One loop nest per operation, in the order in which a paper would write it.
#include "backend/reference/reference.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <vector>

#include "base/check.h"

namespace colibri {
namespace {

double dot(const float* x, const Matrix& w, int row) {
  double sum = 0.0;
  for (int k = 0; k < w.cols; ++k) sum += static_cast<double>(x[k]) * w.at(row, k);
  return sum;
}

double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }
double silu(double x) { return x / (1.0 + std::exp(-x)); }

double activate(const Activation& activation, double gate, double up) {
  const auto* clamped = std::get_if<ClampedGate>(&activation);
  if (clamped == nullptr) return silu(gate) * up;
  const double g = std::min(gate, double{clamped->limit});
  const double u = std::clamp(up, -double{clamped->limit}, double{clamped->limit});
  return g / (1.0 + std::exp(-clamped->alpha * g)) * (u + 1.0);
}

void norm(const float* x, std::span<const float> weight, float eps, float* out) {
  double squares = 0.0;
  for (std::size_t i = 0; i < weight.size(); ++i) squares += static_cast<double>(x[i]) * x[i];
  const double factor = 1.0 / std::sqrt(squares / static_cast<double>(weight.size()) + eps);
  for (std::size_t i = 0; i < weight.size(); ++i) out[i] = static_cast<float>(x[i] * factor * weight[i]);
}

void rotate(float* head, const RopeSpec& rope, int position) {
  const int half = rope.dim / 2;
  const bool neighbours = rope.pairs == RopePairs::neighbours;
  for (int i = 0; i < half; ++i) {
    const float angle = static_cast<float>(position) * rope.inv_freq[static_cast<std::size_t>(i)];  // fp32 as published
    const double cos = std::cos(static_cast<double>(angle)) * rope.scale;
    const double sin = std::sin(static_cast<double>(angle)) * rope.scale;
    float& first = head[neighbours ? 2 * i : i];
    float& second = head[neighbours ? 2 * i + 1 : i + half];
    const double a = first;
    const double b = second;
    first = static_cast<float>(a * cos - b * sin);
    second = static_cast<float>(b * cos + a * sin);
  }
}

void norm_and_rotate(float* row, int heads, const AttentionSpec& spec, std::span<const float> weight, float eps,
                     int position) {
  if (spec.qk_norm == QkNorm::full) norm(row, weight, eps, row);
  for (int h = 0; h < heads; ++h) {
    float* head = row + std::ptrdiff_t{h} * spec.head_dim;
    if (spec.qk_norm == QkNorm::per_head) norm(head, weight, eps, head);
    rotate(head, spec.rope, position);
    if (spec.qk_norm == QkNorm::per_head_turned) norm(head, weight, eps, head);
  }
}

/// rotate() of `from` to `to`, where the pairs come out as halves.
void rotate_to(const float* from, RopeSpec rope, int position, float* to) {
  const int half = rope.dim / 2;
  for (int i = 0; i < half; ++i) {
    const bool neighbours = rope.pairs == RopePairs::neighbours;
    to[i] = from[neighbours ? 2 * i : i];
    to[half + i] = from[neighbours ? 2 * i + 1 : half + i];
  }
  rope.pairs = RopePairs::halves;
  rotate(to, rope, position);
}

template <class Spec>
std::int32_t block_of(const SequenceRows& sequence, const Spec& spec, int position) {
  return sequence.tables[static_cast<std::size_t>(spec.kv_group)][static_cast<std::size_t>(position / kBlockTokens)];
}

}  // namespace

void ReferenceBackend::embed(const Batch& batch, const Matrix& table, Rows out) {
  CHECK(batch.rows() == out.rows && out.cols == table.cols);
  for (int r = 0; r < out.rows; ++r) {
    const std::int32_t token = batch.tokens[static_cast<std::size_t>(r)];
    CHECK(token >= 0 && token < table.rows);
    for (int k = 0; k < out.cols; ++k) out.row(r)[k] = table.at(token, k);
  }
}

void ReferenceBackend::gather(ConstRows x, const Batch& batch, Rows out) {
  CHECK(out.rows == static_cast<int>(batch.logit_rows.size()) && x.cols == out.cols);
  for (int i = 0; i < out.rows; ++i)
    for (int k = 0; k < out.cols; ++k) out.row(i)[k] = x.row(batch.logit_rows[static_cast<std::size_t>(i)])[k];
}

void ReferenceBackend::rms_norm(ConstRows x, std::span<const float> weight, float eps, Rows out) {
  CHECK(x.rows == out.rows && x.cols == out.cols && static_cast<int>(weight.size()) == x.cols);
  for (int r = 0; r < x.rows; ++r) norm(x.row(r), weight, eps, out.row(r));
}

void ReferenceBackend::layer_norm(ConstRows x, std::span<const float> weight, std::span<const float> bias, float eps,
                                  Rows out) {
  CHECK(x.rows == out.rows && x.cols == out.cols && static_cast<int>(weight.size()) == x.cols);
  for (int r = 0; r < x.rows; ++r) {
    double mean = 0.0;
    for (int i = 0; i < x.cols; ++i) mean += x.row(r)[i];
    mean /= x.cols;
    double variance = 0.0;
    for (int i = 0; i < x.cols; ++i) variance += (x.row(r)[i] - mean) * (x.row(r)[i] - mean);
    const double factor = 1.0 / std::sqrt(variance / x.cols + eps);
    for (int i = 0; i < x.cols; ++i) {
      const auto at = static_cast<std::size_t>(i);
      out.row(r)[i] = static_cast<float>((x.row(r)[i] - mean) * factor * weight[at] + bias[at]);
    }
  }
}

void ReferenceBackend::scale(Rows x, float factor) {
  for (int r = 0; r < x.rows; ++r)
    for (int i = 0; i < x.cols; ++i) x.row(r)[i] *= factor;
}

void ReferenceBackend::linear(ConstRows x, const Matrix& w, std::span<const float> bias, bool accumulate, Rows out) {
  CHECK(x.rows == out.rows && x.cols == w.cols && out.cols == w.rows);
  CHECK(bias.empty() || static_cast<int>(bias.size()) == w.rows);
  for (int r = 0; r < x.rows; ++r) {
    for (int i = 0; i < w.rows; ++i) {
      double sum = dot(x.row(r), w, i);
      if (!bias.empty()) sum += bias[static_cast<std::size_t>(i)];
      if (accumulate) sum += out.row(r)[i];
      out.row(r)[i] = static_cast<float>(sum);
    }
  }
}

void ReferenceBackend::rope_and_store(Rows q, Rows k, ConstRows v, const AttentionSpec& spec,
                                      std::span<const float> q_norm, std::span<const float> k_norm, float eps,
                                      const Batch& batch, const KvView& kv) {
  CHECK(q.rows == batch.rows() && k.rows == q.rows && v.rows == q.rows);
  for (const SequenceRows& sequence : batch.sequences) {
    for (int i = 0; i < sequence.rows; ++i) {
      const int r = sequence.first_row + i;
      const int position = sequence.position + i;
      norm_and_rotate(q.row(r), spec.n_heads, spec, q_norm, eps, position);
      norm_and_rotate(k.row(r), spec.n_kv_heads, spec, k_norm, eps, position);
      const std::int32_t block = block_of(sequence, spec, position);
      const int slot = position % kBlockTokens;
      for (int h = 0; h < spec.n_kv_heads; ++h) {
        for (int d = 0; d < spec.head_dim; ++d) {
          kv.keys(block, h)[d * kBlockTokens + slot] = k.row(r)[h * spec.head_dim + d];
          kv.values(block, h)[slot * spec.head_dim + d] = v.row(r)[h * spec.head_dim + d];
        }
      }
    }
  }
}

void ReferenceBackend::attention(ConstRows q, const AttentionSpec& spec, std::span<const float> sinks,
                                 const Batch& batch, const KvView& kv, Rows out) {
  const int dim = spec.head_dim;
  const int group = spec.n_heads / spec.n_kv_heads;
  for (const SequenceRows& sequence : batch.sequences) {
    for (int i = 0; i < sequence.rows; ++i) {
      const int position = sequence.position + i;
      const int first = spec.window > 0 ? std::max(0, position - spec.window + 1) : 0;
      for (int h = 0; h < spec.n_heads; ++h) {
        const float* query = q.row(sequence.first_row + i) + std::ptrdiff_t{h} * dim;
        std::vector<double> weight;
        for (int p = first; p <= position; ++p) {
          const float* key = kv.keys(block_of(sequence, spec, p), h / group) + p % kBlockTokens;
          double score = 0.0;
          for (int d = 0; d < dim; ++d) score += static_cast<double>(query[d]) * key[d * kBlockTokens];
          weight.push_back(score * spec.scale);
        }
        if (spec.sinks) weight.push_back(sinks[static_cast<std::size_t>(h)]);  // of no value
        const double most = *std::max_element(weight.begin(), weight.end());
        for (double& w : weight) w = std::exp(w - most);
        const double total = std::accumulate(weight.begin(), weight.end(), 0.0);
        for (int d = 0; d < dim; ++d) {
          double sum = 0.0;
          for (int p = first; p <= position; ++p) {
            const float* value = kv.values(block_of(sequence, spec, p), h / group) + p % kBlockTokens * dim;
            sum += weight[static_cast<std::size_t>(p - first)] * value[d];
          }
          out.row(sequence.first_row + i)[h * dim + d] = static_cast<float>(sum / total);
        }
      }
    }
  }
}

void ReferenceBackend::latent_rope_and_store(ConstRows q, ConstRows latents, const LatentAttentionSpec& spec,
                                             std::span<const float> kv_norm, const Batch& batch,
                                             const LatentView& cache, Rows queries) {
  for (const SequenceRows& sequence : batch.sequences) {
    for (int i = 0; i < sequence.rows; ++i) {
      const int r = sequence.first_row + i;
      const int position = sequence.position + i;
      float* cached = cache.row(block_of(sequence, spec, position), position % kBlockTokens);
      norm(latents.row(r), kv_norm, spec.norm_eps, cached);
      rotate_to(latents.row(r) + spec.kv_rank, spec.rope, position, cached + spec.kv_rank);
      for (int h = 0; h < spec.n_heads; ++h) {
        rotate_to(q.row(r) + std::ptrdiff_t{h} * spec.q_dim() + spec.nope_dim, spec.rope, position,
                  queries.row(r) + std::ptrdiff_t{h} * spec.cached() + spec.kv_rank);
      }
    }
  }
}

void ReferenceBackend::latent_attention(ConstRows queries, const LatentAttentionSpec& spec, const Batch& batch,
                                        const LatentView& cache, Rows out) {
  for (const SequenceRows& sequence : batch.sequences) {
    const auto row_of = [&](int p) { return cache.row(block_of(sequence, spec, p), p % kBlockTokens); };
    for (int i = 0; i < sequence.rows; ++i) {
      const int keys = sequence.position + i + 1;
      for (int h = 0; h < spec.n_heads; ++h) {
        const float* query = queries.row(sequence.first_row + i) + std::ptrdiff_t{h} * spec.cached();
        std::vector<double> weight;
        for (int p = 0; p < keys; ++p) {
          double score = 0.0;
          for (int d = 0; d < spec.cached(); ++d) score += static_cast<double>(query[d]) * row_of(p)[d];
          weight.push_back(score * spec.scale);
        }
        const double most = *std::max_element(weight.begin(), weight.end());
        for (double& w : weight) w = std::exp(w - most);
        const double total = std::accumulate(weight.begin(), weight.end(), 0.0);
        for (int d = 0; d < spec.kv_rank; ++d) {
          double sum = 0.0;
          for (int p = 0; p < keys; ++p) sum += weight[static_cast<std::size_t>(p)] * row_of(p)[d];
          out.row(sequence.first_row + i)[h * spec.kv_rank + d] = static_cast<float>(sum / total);
        }
      }
    }
  }
}

void ReferenceBackend::silu_mul(ConstRows gate, ConstRows up, Rows out) {
  for (int r = 0; r < out.rows; ++r) {
    for (int i = 0; i < out.cols; ++i) {
      out.row(r)[i] = static_cast<float>(silu(gate.row(r)[i]) * up.row(r)[i]);
    }
  }
}

void ReferenceBackend::sigmoid_mul(ConstRows x, ConstRows gate, Rows out) {
  for (int r = 0; r < out.rows; ++r)
    for (int i = 0; i < out.cols; ++i) out.row(r)[i] = static_cast<float>(x.row(r)[i] * sigmoid(gate.row(r)[i]));
}

void ReferenceBackend::multiply(ConstRows x, ConstRows y, Rows out) {
  for (int r = 0; r < out.rows; ++r)
    for (int i = 0; i < out.cols; ++i) out.row(r)[i] = x.row(r)[i] * y.row(r)[i];
}

void ReferenceBackend::short_conv(ConstRows x, std::span<const float> weight, std::span<const float> bias,
                                  const Batch& batch, const StateView& state, int group, Rows out) {
  const auto cols = static_cast<std::size_t>(x.cols);
  const std::size_t width = weight.size() / cols;
  CHECK(width >= 1 && weight.size() == width * cols);
  for (const SequenceRows& sequence : batch.sequences) {
    float* window = state.slot(sequence.slot(group));
    std::vector<float> seen(window, window + (width - 1) * cols);  // [width - 1 + rows][cols]
    for (int i = 0; i < sequence.rows; ++i) {
      const float* row = x.row(sequence.first_row + i);
      seen.insert(seen.end(), row, row + cols);
      for (std::size_t c = 0; c < cols; ++c) {
        double sum = bias.empty() ? 0.0 : bias[c];
        for (std::size_t j = 0; j < width; ++j)
          sum += static_cast<double>(weight[j * cols + c]) * seen[(static_cast<std::size_t>(i) + j) * cols + c];
        out.row(sequence.first_row + i)[c] = static_cast<float>(sum);
      }
    }
    std::copy(seen.end() - static_cast<std::ptrdiff_t>((width - 1) * cols), seen.end(), window);
  }
}

void ReferenceBackend::delta_rule(ConstRows qkv, ConstRows gates, const DeltaNetSpec& spec,
                                  std::span<const float> a_log, std::span<const float> dt_bias, const Batch& batch,
                                  const StateView& state, Rows out) {
  const auto k_dim = static_cast<std::size_t>(spec.k_dim);
  const auto unit = [&](const float* from) {
    double squares = 1e-6;
    for (std::size_t i = 0; i < k_dim; ++i) squares += static_cast<double>(from[i]) * from[i];
    std::vector<double> to(from, from + k_dim);
    for (double& value : to) value /= std::sqrt(squares);
    return to;
  };
  for (const SequenceRows& sequence : batch.sequences) {
    for (int h = 0; h < spec.n_v_heads; ++h) {
      float* matrix = state.slot(sequence.slot(spec.kv_group)) + spec.window_floats() +
                      static_cast<std::size_t>(h) * k_dim * spec.matrix_stride();
      const auto head = static_cast<std::size_t>(h);
      const int key = h / (spec.n_v_heads / spec.n_k_heads) * spec.k_dim;
      for (int r = sequence.first_row; r < sequence.first_row + sequence.rows; ++r) {
        const std::vector<double> q = unit(qkv.row(r) + key);
        const std::vector<double> k = unit(qkv.row(r) + spec.key_cols() + key);
        const double beta = sigmoid(gates.row(r)[h]);
        const double a = static_cast<double>(gates.row(r)[spec.n_v_heads + h]) + dt_bias[head];
        const double softplus = a > 20.0 ? a : std::log1p(std::exp(a));
        const double decay = std::exp(-std::exp(static_cast<double>(a_log[head])) * softplus);
        for (int j = 0; j < spec.v_dim; ++j) {
          const auto at = [&](std::size_t i) -> float& {
            return matrix[i * spec.matrix_stride() + static_cast<std::size_t>(j)];
          };
          double held = 0.0;
          for (std::size_t i = 0; i < k_dim; ++i) held += decay * at(i) * k[i];
          const double change = beta * (qkv.row(r)[2 * spec.key_cols() + h * spec.v_dim + j] - held);
          double sum = 0.0;
          for (std::size_t i = 0; i < k_dim; ++i) {
            const double next = decay * at(i) + k[i] * change;
            at(i) = static_cast<float>(next);
            sum += next * q[i];
          }
          out.row(r)[h * spec.v_dim + j] = static_cast<float>(sum / std::sqrt(static_cast<double>(spec.k_dim)));
        }
      }
    }
  }
}

void ReferenceBackend::add_gated(ConstRows y, ConstRows gate, Rows out) {
  for (int r = 0; r < out.rows; ++r) {
    const double factor = gate.cols == 0 ? 1.0 : 1.0 / (1.0 + std::exp(-static_cast<double>(gate.row(r)[0])));
    for (int i = 0; i < out.cols; ++i) out.row(r)[i] = static_cast<float>(out.row(r)[i] + y.row(r)[i] * factor);
  }
}

void ReferenceBackend::experts(ConstRows x, const Routing& routing, const ExpertTable& table, Rows out) {
  counters_.experts_touched +=
      static_cast<std::int64_t>(std::set<std::int32_t>(routing.ids.begin(), routing.ids.end()).size());
  std::vector<float> hidden(static_cast<std::size_t>(table.shape.d_ff));
  for (int r = 0; r < x.rows; ++r) {
    std::vector<double> sum(static_cast<std::size_t>(table.shape.d_model), 0.0);
    for (int slot = 0; slot < routing.top_k; ++slot) {
      const auto pair =
          static_cast<std::size_t>(r) * static_cast<std::size_t>(routing.top_k) + static_cast<std::size_t>(slot);
      const std::int32_t expert = routing.ids[pair];
      for (int i = 0; i < table.shape.d_ff; ++i) {
        double gate = dot(x.row(r), table.gate(expert), i);
        double up = dot(x.row(r), table.up(expert), i);
        if (table.shape.biases) {
          gate += table.gate_up_bias(expert)[i];
          up += table.gate_up_bias(expert)[table.shape.d_ff + i];
        }
        hidden[static_cast<std::size_t>(i)] = static_cast<float>(activate(table.activation, gate, up));
      }
      for (int i = 0; i < table.shape.d_model; ++i) {
        const double bias = table.shape.biases ? table.down_bias(expert)[i] : 0.0;
        sum[static_cast<std::size_t>(i)] += routing.weights[pair] * (dot(hidden.data(), table.down(expert), i) + bias);
      }
    }
    for (int i = 0; i < table.shape.d_model; ++i) {
      out.row(r)[i] = static_cast<float>(out.row(r)[i] + sum[static_cast<std::size_t>(i)]);
    }
  }
}

}  // namespace colibri
