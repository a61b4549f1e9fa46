// SPDX-License-Identifier: Apache-2.0
// Names and shapes of all tensors, in the order of the forward pass.
#include "model/binder.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <span>
#include <unordered_set>
#include <utility>

namespace colibri {
namespace {

std::string join(std::string_view a, std::string_view b, std::string_view c = {}) {
  std::string text;
  text.reserve(a.size() + b.size() + c.size());
  return text.append(a).append(b).append(c);
}

class Binder {
 public:
  Binder(const ModelSpec& spec, const TensorNames& names, const WeightFormat& format)
      : spec_(spec), names_(names), format_(format) {}

  std::vector<Binding> bind(ModelWeights& weights) {
    matrix(names_.embedding, weights.embedding);
    for (std::size_t i = 0; i < spec_.layers.size(); ++i) {
      prefix_ = std::string(names_.layers) + std::to_string(i) + ".";
      LayerWeights& layer = weights.layers[i];
      norm(names_.attn_norm, layer.attn_norm);
      vector(join(prefix_, names_.attn_norm, ".bias"), layer.attn_norm_bias);
      std::visit([&](const auto& mixer) { bind_mixer(mixer, layer); }, spec_.layers[i].mixer);
      norm(names_.ffn_norm, layer.ffn_norm);
      vector(join(prefix_, names_.ffn_norm, ".bias"), layer.ffn_norm_bias);
      if (auto* dense = std::get_if<DenseWeights>(&layer.ffn)) {
        swiglu(prefix_ + std::string(names_.dense), dense->gate_up, dense->down);
      } else {
        moe(std::get<MoeWeights>(layer.ffn));
      }
    }
    vector(join(names_.final_norm, ".weight"), weights.final_norm, names_.norm_plus);
    vector(join(names_.final_norm, ".bias"), weights.final_norm_bias);
    if (!spec_.tied_embeddings) matrix(names_.head, weights.head);
    vector(join(names_.head, ".bias"), weights.head_bias);
    return std::move(bindings_);
  }

 private:
  struct Stored {
    std::string name;
    std::vector<std::int64_t> shape;
  };

  /// `count` rows of the stored tensor become rows [first, first + count) of `whole`.
  void slice(const Stored& stored, std::int64_t stored_row, int count, const Matrix& whole, int first) {
    // The weights are const to everybody but their loader.
    auto* tiles = const_cast<std::byte*>(whole.data);
    bindings_.push_back({stored.name, stored.shape, stored_row, count, static_cast<int>(stored.shape.back()), tiles,
                         first, nullptr, 0});
  }
  /// The same of a vector, nothing where `values` is empty.
  void slice(const Stored& stored, std::int64_t stored_row, int count, std::span<float> values, int first,
             float plus = 0) {
    if (!values.empty())
      bindings_.push_back({stored.name, stored.shape, stored_row, count, 1, nullptr, 0, values.data() + first, plus});
  }

  /// Rows [first_row, first_row + rows) of `whole`.
  void rows(std::string_view name, const Matrix& whole, int first_row, int rows) {
    slice({join(name, ".weight"), {rows, whole.cols}}, 0, rows, whole, first_row);
  }
  void matrix(std::string_view name, const Matrix& whole) { rows(name, whole, 0, whole.rows); }
  void vector(std::string name, std::span<float> values, float plus = 0) {
    const int count = static_cast<int>(values.size());
    slice({std::move(name), {count}}, 0, count, values, 0, plus);
  }
  void norm(std::string_view name, std::span<float> values) {
    vector(join(prefix_, name, ".weight"), values, names_.norm_plus);
  }
  /// A depthwise convolution, stored as [channels, 1, width].
  void convolution(std::string name, std::span<float> values, int width) {
    const int channels = static_cast<int>(values.size()) / width;
    bindings_.push_back({std::move(name), {channels, 1, width}, 0, channels, width, nullptr, 0, values.data(), 0});
  }

  void bind_mixer(const AttentionSpec& attention, LayerWeights& layer) {
    auto& weights = std::get<AttentionWeights>(layer.mixer);
    const int q = attention.q_cols();
    const int kv = attention.kv_cols();
    if (attention.output_gate) {
      gated_query(attention, weights);
    } else {
      projection(names_.q, q, weights, 0);
    }
    projection(names_.k, kv, weights, q);
    projection(names_.v, kv, weights, q + kv);
    matrix(join(prefix_, names_.o), weights.wo);
    vector(join(prefix_, names_.o, ".bias"), weights.o_bias);
    norm(names_.q_norm, weights.q_norm);
    norm(names_.k_norm, weights.k_norm);
    vector(join(prefix_, names_.sinks), weights.sinks);
  }
  void projection(std::string_view name, int count, AttentionWeights& weights, int first) {
    rows(join(prefix_, name), weights.wqkv, first, count);
    slice({join(prefix_, name, ".bias"), {count}}, 0, count, weights.qkv_bias, first);
  }
  /// Each head's query is stored before its gate.
  void gated_query(const AttentionSpec& attention, AttentionWeights& weights) {
    const int dim = attention.head_dim;
    const int stored = 2 * attention.q_cols();
    const Stored matrix{join(prefix_, names_.q, ".weight"), {stored, weights.wqkv.cols}};
    const Stored bias{join(prefix_, names_.q, ".bias"), {stored}};
    for (int part = 0; part < 2 * attention.n_heads; ++part) {
      const int first = part / 2 * dim + (part % 2 == 0 ? 0 : attention.projected() - attention.q_cols());
      slice(matrix, part * dim, dim, weights.wqkv, first);
      slice(bias, part * dim, dim, weights.qkv_bias, first);
    }
  }

  void bind_mixer(const DeltaNetSpec& net, LayerWeights& layer) {
    auto& weights = std::get<DeltaNetWeights>(layer.mixer);
    const std::string prefix = join(prefix_, names_.delta);
    const int z = net.conv_cols();
    const int b = z + net.value_cols();
    if (names_.delta_grouped) {
      // Rows of one key head stand together: its q, its k, and v and z of its value heads; b and a of these.
      const int group = net.n_v_heads / net.n_k_heads;
      const int values = group * net.v_dim;
      const Stored qkvz{prefix + "in_proj_qkvz.weight", {b, weights.in.cols}};
      const Stored ba{prefix + "in_proj_ba.weight", {2 * net.n_v_heads, weights.in.cols}};
      for (int h = 0; h < net.n_k_heads; ++h) {
        const int first = h * 2 * (net.k_dim + values);
        slice(qkvz, first, net.k_dim, weights.in, h * net.k_dim);
        slice(qkvz, first + net.k_dim, net.k_dim, weights.in, net.key_cols() + h * net.k_dim);
        slice(qkvz, first + 2 * net.k_dim, values, weights.in, 2 * net.key_cols() + h * values);
        slice(qkvz, first + 2 * net.k_dim + values, values, weights.in, z + h * values);
        slice(ba, h * 2 * group, group, weights.in, b + h * group);
        slice(ba, h * 2 * group + group, group, weights.in, b + net.n_v_heads + h * group);
      }
    } else {
      rows(prefix + "in_proj_qkv", weights.in, 0, net.conv_cols());
      rows(prefix + "in_proj_z", weights.in, z, net.value_cols());
      rows(prefix + "in_proj_b", weights.in, b, net.n_v_heads);
      rows(prefix + "in_proj_a", weights.in, b + net.n_v_heads, net.n_v_heads);
    }
    convolution(prefix + "conv1d.weight", weights.conv, net.conv_width);
    vector(prefix + "A_log", weights.a_log);
    vector(prefix + "dt_bias", weights.dt_bias);
    vector(prefix + "norm.weight", weights.norm);
    matrix(prefix + "out_proj", weights.out);
  }

  void bind_mixer(const ShortConvSpec& conv, LayerWeights& layer) {
    auto& weights = std::get<ShortConvWeights>(layer.mixer);
    const std::string prefix = join(prefix_, names_.short_conv);
    matrix(prefix + "in_proj", weights.in);
    vector(prefix + "in_proj.bias", weights.in_bias);
    convolution(prefix + "conv.weight", weights.conv, conv.width);
    vector(prefix + "conv.bias", weights.conv_bias);
    matrix(prefix + "out_proj", weights.out);
    vector(prefix + "out_proj.bias", weights.out_bias);
  }

  void bind_mixer(const LatentAttentionSpec& attention, LayerWeights& layer) {
    auto& weights = std::get<LatentAttentionWeights>(layer.mixer);
    const int queries = weights.down.rows - attention.cached();
    rows(join(prefix_, attention.q_rank > 0 ? names_.q_down : names_.q), weights.down, 0, queries);
    vector(join(prefix_, names_.q_latent_norm, ".weight"), weights.q_norm);
    if (attention.q_rank > 0) matrix(join(prefix_, names_.q_up), weights.q_up);
    rows(join(prefix_, names_.kv_down), weights.down, queries, attention.cached());
    vector(join(prefix_, names_.kv_latent_norm, ".weight"), weights.kv_norm);
    // Stored as [n_heads][nope_dim | v_dim][kv_rank].
    const int head_rows = attention.nope_dim + attention.v_dim;
    const Stored kv_up{join(prefix_, names_.kv_up, ".weight"), {attention.n_heads * head_rows, attention.kv_rank}};
    for (int h = 0; h < attention.n_heads; ++h) {
      const auto head = static_cast<std::size_t>(h);
      slice(kv_up, h * head_rows, attention.nope_dim, weights.k_up[head], 0);
      bindings_.back().transposed = true;
      slice(kv_up, h * head_rows + attention.nope_dim, attention.v_dim, weights.v_up[head], 0);
    }
    matrix(join(prefix_, names_.o), weights.wo);
  }

  void swiglu(const std::string& prefix, const Matrix& gate_up, const Matrix& down) {
    rows(join(prefix, names_.gate), gate_up, 0, gate_up.rows / 2);
    rows(join(prefix, names_.up), gate_up, gate_up.rows / 2, gate_up.rows / 2);
    matrix(join(prefix, names_.down), down);
  }

  void apart(const ExpertTable& table) {
    for (int e = 0; e < static_cast<int>(table.records.size()); ++e) {
      const std::string expert = prefix_ + std::string(names_.experts) + std::to_string(e) + ".";
      matrix(join(expert, names_.expert_gate), table.gate(e));
      matrix(join(expert, names_.expert_up), table.up(e));
      matrix(join(expert, names_.expert_down), table.down(e));
    }
  }

  void fused(const ExpertTable& table) {
    const std::int64_t n_experts = static_cast<std::int64_t>(table.records.size());
    const int d_model = table.shape.d_model;
    const int d_ff = table.shape.d_ff;
    const Stored gate_up{join(prefix_, names_.fused_gate_up), {n_experts, 2 * d_ff, d_model}};
    const Stored down{join(prefix_, names_.fused_down), {n_experts, d_model, d_ff}};
    for (int e = 0; e < n_experts; ++e) {
      slice(gate_up, std::int64_t{e} * 2 * d_ff, d_ff, table.gate(e), 0);
      slice(gate_up, (std::int64_t{e} * 2 + 1) * d_ff, d_ff, table.up(e), 0);
      slice(down, std::int64_t{e} * d_model, d_model, table.down(e), 0);
    }
  }

  void fused_inputs(const ExpertTable& table, bool halves) {
    const std::int64_t n_experts = static_cast<std::int64_t>(table.records.size());
    const int d_model = table.shape.d_model;
    const int d_ff = table.shape.d_ff;
    const auto tiles = [](const Matrix& whole) { return const_cast<std::byte*>(whole.data); };
    const auto floats = [](const float* bias) { return const_cast<float*>(bias); };
    const bool turned = format_.turned_experts() && !halves;
    Stored gate_up{join(prefix_, names_.fused_gate_up), {n_experts, d_model, 2 * d_ff}};
    Stored down{join(prefix_, names_.fused_down), {n_experts, d_ff, d_model}};
    if (turned) {
      std::swap(gate_up.shape[1], gate_up.shape[2]);
      std::swap(down.shape[1], down.shape[2]);
    }
    const Stored gate_up_bias{gate_up.name + "_bias", {n_experts, 2 * d_ff}};
    const Stored down_bias{down.name + "_bias", {n_experts, d_model}};
    for (int e = 0; e < n_experts; ++e) {
      slice(gate_up, e * gate_up.shape[1], static_cast<int>(gate_up.shape[1]), table.gate(e), 0);
      bindings_.back().transposed = !turned;
      bindings_.back().odd = tiles(table.up(e));
      bindings_.back().halves = halves;
      slice(down, e * down.shape[1], static_cast<int>(down.shape[1]), table.down(e), 0);
      bindings_.back().transposed = !turned;
      if (!table.shape.biases) continue;
      // As [d_ff][2], of which the first column comes first.
      bindings_.push_back({gate_up_bias.name, gate_up_bias.shape, std::int64_t{e} * d_ff, d_ff, 2, nullptr, 0,
                           floats(table.gate_up_bias(e)), 0});
      bindings_.push_back({down_bias.name, down_bias.shape, std::int64_t{e} * d_model, d_model, 1, nullptr, 0,
                           floats(table.down_bias(e)), 0});
    }
  }

  void moe(MoeWeights& moe) {
    matrix(join(prefix_, names_.router), moe.router);
    vector(join(prefix_, names_.router, ".bias"), moe.router_bias);
    const auto n_experts = static_cast<std::int64_t>(moe.records.size());
    const Stored correction{join(prefix_, names_.router_correction), {n_experts}};
    slice(names_.correction_is_row ? Stored{correction.name, {1, n_experts}} : correction, 0,
          static_cast<int>(n_experts), moe.router_correction, 0);
    switch (names_.expert_storage) {
      case ExpertStorage::apart:
        apart(moe.experts());
        break;
      case ExpertStorage::fused:
        fused(moe.experts());
        break;
      case ExpertStorage::transposed:
        fused_inputs(moe.experts(), true);
        break;
      case ExpertStorage::fused_inputs:
        fused_inputs(moe.experts(), false);
        break;
    }
    if (moe.shared_down.rows > 0) swiglu(prefix_ + std::string(names_.shared), moe.shared_gate_up, moe.shared_down);
    if (moe.shared_gate.rows > 0) matrix(join(prefix_, names_.shared_gate), moe.shared_gate);
  }

  const ModelSpec& spec_;
  const TensorNames& names_;
  const WeightFormat& format_;
  std::string prefix_;  // of the current layer
  std::vector<Binding> bindings_;
};

/// The first offender of a kind, and how many there are.
struct Offenders {
  std::string first;
  std::size_t count = 0;
  void add(const std::string& what) {
    if (count++ == 0) first = what;
  }
  Status status(std::string_view kind) const {
    if (count == 0) return {};
    return data_error(std::string(kind) + first + (count == 1 ? "" : " (and " + std::to_string(count - 1) + " more)"));
  }
};

/// Whether a tensor belongs to a layer behind the last one.
bool is_draft(std::string_view name, const ModelSpec& spec, const TensorNames& names) {
  if (!name.starts_with(names.layers)) return false;
  name.remove_prefix(names.layers.size());
  int layer = 0;
  const auto [end, error] = std::from_chars(name.begin(), name.end(), layer);
  if (error != std::errc() || end == name.end() || *end != '.') return false;
  const int first = static_cast<int>(spec.layers.size());
  return layer >= first && layer < first + spec.n_draft_layers;
}

constexpr std::array<std::string_view, 3> kPlainTypes{"BF16", "F16", "F32"};

/// Whether a tensor of moderate size holds nothing but zero.
Result<bool> is_zero(const File& file, const TensorInfo& tensor) {
  constexpr std::uint64_t kMaxBytes = std::uint64_t{1} << 24;
  if (tensor.bytes > kMaxBytes) return false;
  std::vector<std::byte> bytes(tensor.bytes);
  TRY_STATUS(file.read_at(tensor.offset, bytes));
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte byte) { return byte == std::byte{0}; });
}

/// "BF16, F16, F32".
std::string join_names(std::span<const std::string_view> types) {
  std::string list;
  for (const std::string_view type : types) list.append(list.empty() ? "" : ", ").append(type);
  return list;
}

}  // namespace

const TensorNames& stored_names(const Family& family, const ModelSpec& spec, const Checkpoint& checkpoint) {
  const auto sparse = std::find_if(spec.layers.begin(), spec.layers.end(),
                                   [](const LayerSpec& layer) { return std::holds_alternative<MoeFfn>(layer.ffn); });
  const std::string layer = std::to_string(sparse - spec.layers.begin()) + ".";
  const auto follows = [&](const TensorNames& names) {
    const std::string expert = names.fused_gate_up.empty()
                                   ? join(join(names.experts, "0.", names.expert_gate), ".weight")
                                   : std::string(names.fused_gate_up);
    return stores_weight(checkpoint, join(names.embedding, ".weight")) &&
           (sparse == spec.layers.end() || stores_weight(checkpoint, join(names.layers, layer, expert)));
  };
  if (follows(family.names)) return family.names;
  const auto other = std::find_if(family.others.begin(), family.others.end(), follows);
  return other == family.others.end() ? family.names : *other;
}

std::vector<Binding> bind_tensors(const ModelSpec& spec, const TensorNames& names, const WeightFormat& format,
                                  ModelWeights& weights) {
  return Binder(spec, names, format).bind(weights);
}

Result<Encodings> check_tensors(const std::vector<Binding>& bindings, const Checkpoint& checkpoint,
                                const ModelSpec& spec, const TensorNames& names, const WeightFormat& format) {
  Offenders missing, misshapen, mistyped, unclaimed;
  std::unordered_set<std::string_view> bound;
  std::unordered_set<std::string> claimed;
  Encodings encodings;
  /// nullptr where the tensor is not there or not as asked.
  const auto claim = [&](const std::string& name, const std::vector<std::int64_t>& shape,
                         std::span<const std::string_view> types) -> const Checkpoint::Place* {
    claimed.insert(name);
    const Checkpoint::Place* place = checkpoint.find(name);
    if (place == nullptr) {
      missing.add(name);
      return nullptr;
    }
    const Checkpoint::Shard& shard = checkpoint.shards()[place->shard];
    const TensorInfo& tensor = shard.tensors[place->tensor];
    const std::string where = shard.file.path() + ": " + name;
    if (tensor.shape != shape)
      misshapen.add(where + " is " + shape_text(tensor.shape) + ", config.json asks for " + shape_text(shape));
    if (std::find(types.begin(), types.end(), tensor.type.name) == types.end())
      mistyped.add(where + " is " + std::string(tensor.type.name) + ", not " + join_names(types));
    return place;
  };
  for (const Binding& binding : bindings) {
    if (!bound.insert(binding.name).second) continue;
    std::optional<Encoding> encoding;
    if (binding.tiles != nullptr) {
      TRY(found, format.find({binding.name, binding.shape}, checkpoint));
      encoding = std::move(found);
    }
    if (!encoding) {
      claim(binding.name, binding.shape, kPlainTypes);
      continue;
    }
    for (Grid* part : encoding->parts()) {
      const Checkpoint::Place* place = claim(part->name, part->shape, part->types);
      if (place == nullptr) continue;
      part->file = &checkpoint.shards()[place->shard].file;
      part->tensor = &checkpoint.shards()[place->shard].tensors[place->tensor];
    }
    encodings.emplace(binding.name, std::move(*encoding));
  }
  const std::string tied_head = std::string(names.head) + ".weight";
  for (const Checkpoint::Shard& shard : checkpoint.shards()) {
    for (const TensorInfo& tensor : shard.tensors) {
      if (claimed.contains(tensor.name) || names.ignores(tensor.name) || format.ignores(tensor.name)) continue;
      if (spec.tied_embeddings && tensor.name == tied_head) continue;  // a second copy of the embedding
      if (is_draft(tensor.name, spec, names)) continue;
      if (format.may_be_idle_bias(tensor.name, checkpoint)) {
        TRY(zero, is_zero(shard.file, tensor));
        if (zero) continue;
      }
      unclaimed.add(shard.file.path() + ": " + tensor.name.substr(0, 120));
    }
  }
  TRY_STATUS(missing.status("missing tensor "));
  TRY_STATUS(misshapen.status("wrong shape: "));
  TRY_STATUS(mistyped.status("wrong type: "));
  TRY_STATUS(unclaimed.status("unknown tensor "));
  return encodings;
}

}  // namespace colibri
