// SPDX-License-Identifier: Apache-2.0
// Names and shapes of all tensors, in the order of the forward pass.
#include "model/binder.h"

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
  Binder(const ModelSpec& spec, const TensorNames& names) : spec_(spec), names_(names) {}

  std::vector<Binding> bind(ModelWeights& weights) {
    matrix(names_.embedding, weights.embedding);
    for (std::size_t i = 0; i < spec_.layers.size(); ++i) {
      prefix_ = std::string(names_.layers) + std::to_string(i) + ".";
      LayerWeights& layer = weights.layers[i];
      vector(join(prefix_, names_.attn_norm, ".weight"), layer.attn_norm);
      std::visit([&](const auto& mixer) { bind_mixer(mixer, layer); }, spec_.layers[i].mixer);
      vector(join(prefix_, names_.ffn_norm, ".weight"), layer.ffn_norm);
      if (auto* dense = std::get_if<DenseWeights>(&layer.ffn)) {
        swiglu(prefix_ + std::string(names_.dense), dense->gate_up, dense->down);
      } else {
        moe(std::get<MoeWeights>(layer.ffn));
      }
    }
    vector(join(names_.final_norm, ".weight"), weights.final_norm);
    if (!spec_.tied_embeddings) matrix(names_.head, weights.head);
    return std::move(bindings_);
  }

 private:
  /// Rows [first_row, first_row + rows) of `whole`.
  void rows(std::string_view name, const Matrix& whole, int first_row, int rows) {
    // The weights are const to everybody but their loader.
    bindings_.push_back(
        {join(name, ".weight"), rows, whole.cols, const_cast<std::byte*>(whole.data), first_row, nullptr});
  }
  void matrix(std::string_view name, const Matrix& whole) { rows(name, whole, 0, whole.rows); }
  void vector(std::string name, std::vector<float>& values) {
    part(std::move(name), values, 0, static_cast<int>(values.size()));
  }
  /// Values [first, first + count); nothing where the vector is empty.
  void part(std::string name, std::vector<float>& values, int first, int count) {
    if (!values.empty()) bindings_.push_back({std::move(name), count, 0, nullptr, 0, values.data() + first});
  }

  void bind_mixer(const AttentionSpec& attention, LayerWeights& layer) {
    auto& weights = std::get<AttentionWeights>(layer.mixer);
    const int q = attention.n_heads * attention.head_dim;
    const int kv = attention.n_kv_heads * attention.head_dim;
    const std::pair<std::string_view, int> parts[] = {{names_.q, q}, {names_.k, kv}, {names_.v, kv}};
    int first = 0;
    for (const auto& [name, count] : parts) {
      rows(join(prefix_, name), weights.wqkv, first, count);
      part(join(prefix_, name, ".bias"), weights.qkv_bias, first, count);
      first += count;
    }
    matrix(join(prefix_, names_.o), weights.wo);
    vector(join(prefix_, names_.o, ".bias"), weights.o_bias);
    vector(join(prefix_, names_.q_norm, ".weight"), weights.q_norm);
    vector(join(prefix_, names_.k_norm, ".weight"), weights.k_norm);
  }

  void swiglu(const std::string& prefix, const Matrix& gate_up, const Matrix& down) {
    rows(join(prefix, names_.gate), gate_up, 0, gate_up.rows / 2);
    rows(join(prefix, names_.up), gate_up, gate_up.rows / 2, gate_up.rows / 2);
    matrix(join(prefix, names_.down), down);
  }

  void moe(const MoeWeights& moe) {
    matrix(join(prefix_, names_.router), moe.router);
    const ExpertTable table = moe.experts();
    for (int e = 0; e < static_cast<int>(moe.records.size()); ++e) {
      const std::string expert = prefix_ + std::string(names_.experts) + std::to_string(e) + ".";
      matrix(join(expert, names_.expert_gate), table.gate(e));
      matrix(join(expert, names_.expert_up), table.up(e));
      matrix(join(expert, names_.expert_down), table.down(e));
    }
    if (moe.shared_down.rows > 0) swiglu(prefix_ + std::string(names_.shared), moe.shared_gate_up, moe.shared_down);
    if (moe.shared_gate.rows > 0) matrix(join(prefix_, names_.shared_gate), moe.shared_gate);
  }

  const ModelSpec& spec_;
  const TensorNames& names_;
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

bool loadable(const StoredType& type) { return type.name == "BF16" || type.name == "F16" || type.name == "F32"; }

}  // namespace

std::vector<Binding> bind_tensors(const ModelSpec& spec, const TensorNames& names, ModelWeights& weights) {
  return Binder(spec, names).bind(weights);
}

Status check_tensors(const std::vector<Binding>& bindings, const Checkpoint& checkpoint, const ModelSpec& spec,
                     const TensorNames& names) {
  Offenders missing, misshapen, mistyped, unclaimed;
  std::unordered_set<std::string_view> claimed;
  for (const Binding& binding : bindings) {
    claimed.insert(binding.name);
    const Checkpoint::Place* place = checkpoint.find(binding.name);
    if (place == nullptr) {
      missing.add(binding.name);
      continue;
    }
    const Checkpoint::Shard& shard = checkpoint.shards()[place->shard];
    const TensorInfo& tensor = shard.tensors[place->tensor];
    std::vector<std::int64_t> shape{binding.rows};
    if (binding.cols > 0) shape.push_back(binding.cols);
    const std::string where = shard.file.path() + ": " + binding.name;
    if (tensor.shape != shape)
      misshapen.add(where + " is " + shape_text(tensor.shape) + ", config.json asks for " + shape_text(shape));
    if (!loadable(tensor.type)) mistyped.add(where + " is " + std::string(tensor.type.name));
  }
  const std::string tied_head = std::string(names.head) + ".weight";
  for (const Checkpoint::Shard& shard : checkpoint.shards()) {
    for (const TensorInfo& tensor : shard.tensors) {
      if (claimed.contains(tensor.name) || tensor.name.ends_with(names.ignored_end)) continue;
      if (spec.tied_embeddings && tensor.name == tied_head) continue;  // a second copy of the embedding
      unclaimed.add(shard.file.path() + ": " + tensor.name.substr(0, 120));
    }
  }
  TRY_STATUS(missing.status("missing tensor "));
  TRY_STATUS(misshapen.status("wrong shape: "));
  TRY_STATUS(mistyped.status("only BF16, F16 and F32 weights can be loaded: "));
  return unclaimed.status("unknown tensor ");
}

}  // namespace colibri
