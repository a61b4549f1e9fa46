// SPDX-License-Identifier: Apache-2.0
// What each operation of the bundled model costs, for some batch sizes, beside this machine's multiply-add peak.
// Invariant: operands are walked through as the model walks through its weights (one set for each layer), so that they
// come from the cache level that they would come from in use. Usage: bench_ops [threads]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "base/memory.h"

namespace colibri {
namespace {

constexpr int kLayers = 8;
constexpr int kModel = 256;
constexpr int kHeads = 4;
constexpr int kKvHeads = 2;
constexpr int kHeadDim = 64;
constexpr int kQkv = (kHeads + 2 * kKvHeads) * kHeadDim;
constexpr int kExperts = 32;
constexpr int kTopK = 4;
constexpr int kFf = 64;
constexpr int kVocab = 8192;
constexpr int kContext = 512;

/// Hands out pieces of one block of memory filled with small random numbers.
class Arena {
 public:
  explicit Arena(std::size_t bytes) : memory_(Buffer::allocate(bytes, "bench").value()) {}
  std::byte* take(std::size_t bytes) {
    std::byte* piece = memory_.data() + used_;
    used_ += round_up(bytes, 256);
    CHECK(used_ <= memory_.size());
    return piece;
  }
  Matrix matrix(int rows, int cols) { return {weights(matrix_bytes(rows, cols)), rows, cols}; }
  std::byte* weights(std::size_t bytes) {
    std::byte* piece = take(bytes);
    auto* words = reinterpret_cast<std::uint16_t*>(piece);
    for (std::size_t i = 0; i < bytes / 2; ++i) words[i] = float_to_bf16(normal_(random_) / 16.0F);
    return piece;
  }
  Rows rows(int n, int cols) {
    auto* data =
        reinterpret_cast<float*>(take(sizeof(float) * static_cast<std::size_t>(n) * static_cast<std::size_t>(cols)));
    for (int i = 0; i < n * cols; ++i) data[i] = normal_(random_);
    return {data, n, cols};
  }

 private:
  Buffer memory_;
  std::size_t used_ = 0;
  std::mt19937 random_{1};
  std::normal_distribution<float> normal_;
};

struct Layer {
  Matrix qkv;
  Matrix o;
  Matrix router;
  std::vector<const std::byte*> records;
  KvView kv;
  std::vector<std::int32_t> ids;
  std::vector<float> route_weights;
};

/// Runs `pass` (all layers of one operation, or the head) often enough and prints the median of a pass.
double measure(const char* what, double flops, double bytes, const std::function<void()>& pass) {
  using Clock = std::chrono::steady_clock;
  std::vector<double> seconds;
  pass();
  const auto end = Clock::now() + std::chrono::milliseconds(300);
  while (Clock::now() < end || seconds.size() < 5) {
    const auto start = Clock::now();
    pass();
    seconds.push_back(std::chrono::duration<double>(Clock::now() - start).count());
  }
  std::sort(seconds.begin(), seconds.end());
  const double median = seconds[seconds.size() / 2];
  std::printf("%-16s %10.1f us (best %10.1f) %8.1f GFLOP/s %8.1f GB/s\n", what, median * 1e6, seconds[0] * 1e6,
              flops / median / 1e9, bytes / median / 1e9);
  return median;
}

void run(int threads) {
  const auto backend = make_backend("cpu", threads).value();
  std::printf("%d threads, fp32 multiply-add peak %.1f GFLOP/s\n", backend->threads(), backend->measure_flops() / 1e9);

  Arena arena(std::size_t{256} << 20);
  const ExpertShape shape{kModel, kFf};
  AttentionSpec attention;
  attention.n_heads = kHeads;
  attention.n_kv_heads = kKvHeads;
  attention.head_dim = kHeadDim;
  attention.scale = 0.125F;
  attention.qk_norm = QkNorm::per_head;
  attention.rope.dim = kHeadDim;
  for (int i = 0; i < kHeadDim / 2; ++i) attention.rope.inv_freq.push_back(1.0F / static_cast<float>(i + 1));
  std::vector<Layer> layers(kLayers);
  const std::size_t block_floats = kv_block_floats(kKvHeads, kHeadDim);
  for (Layer& layer : layers) {
    layer.qkv = arena.matrix(kQkv, kModel);
    layer.o = arena.matrix(kModel, kHeads * kHeadDim);
    layer.router = arena.matrix(kExperts, kModel);
    for (int e = 0; e < kExperts; ++e) layer.records.push_back(arena.weights(shape.record_bytes()));
    const Rows blocks = arena.rows(kContext / kBlockTokens, static_cast<int>(block_floats));
    layer.kv = {blocks.data, static_cast<std::ptrdiff_t>(block_floats), kKvHeads, kHeadDim};
  }
  const Matrix head = arena.matrix(kVocab, kModel);
  const std::vector<float> ones(kModel, 1.0F);
  const std::span<const float> head_ones = std::span(ones).first(kHeadDim);
  std::vector<std::int32_t> table(kContext / kBlockTokens);
  std::iota(table.begin(), table.end(), 0);
  const std::span<const std::int32_t> tables(table);

  const Rows x = arena.rows(kContext, kModel);
  const Rows h = arena.rows(kContext, kModel);
  const Rows qkv = arena.rows(kContext, kQkv);
  const Rows logits = arena.rows(kContext, kVocab);
  for (const int n : {1, 4, 16, 64, 512}) {
    // One row is the last of the context; 512 rows are all of it; between, rows are sequences that share the cache.
    const bool prompt = n == kContext;
    std::vector<std::int32_t> tokens(static_cast<std::size_t>(n), 7);
    std::vector<std::int32_t> positions(static_cast<std::size_t>(n), kContext - 1);
    if (prompt) std::iota(positions.begin(), positions.end(), 0);
    std::vector<SequenceRows> sequences;
    if (prompt) sequences.push_back({0, n, 0, {&tables, 1}});
    for (int r = 0; r < n && !prompt; ++r) sequences.push_back({r, 1, kContext - 1, {&tables, 1}});
    const Batch batch{tokens, positions, sequences, {}};
    for (Layer& layer : layers) {
      layer.ids.assign(static_cast<std::size_t>(n) * kTopK, 0);
      layer.route_weights.assign(static_cast<std::size_t>(n) * kTopK, 0.25F);
    }
    const Rows xn = x.slice(0, n);
    const Rows hn = h.slice(0, n);
    const Rows all = qkv.slice(0, n);
    const Rows q = all.columns(0, kHeads * kHeadDim);
    const Rows k = all.columns(kHeads * kHeadDim, kKvHeads * kHeadDim);
    const Rows v = all.columns((kHeads + kKvHeads) * kHeadDim, kKvHeads * kHeadDim);
    const auto each = [&](auto op) {
      return [&layers, op] {
        for (Layer& layer : layers) op(layer);
      };
    };
    const double rows = n;
    const double dense = double{kQkv} * kModel;
    const double keys = prompt ? kContext * (kContext + 1) / 2.0 : rows * kContext;
    std::printf("\n%d rows, %d layers\n", n, kLayers);
    double total = 0.0;
    total += measure("norms", 0, 0, each([&](Layer&) {
                       backend->rms_norm(xn, ones, 1e-6F, hn);
                       backend->rms_norm(xn, ones, 1e-6F, hn);
                     }));
    total += measure("qkv", kLayers * rows * 2 * dense, kLayers * 2 * dense,
                     each([&](Layer& l) { backend->linear(hn, l.qkv, {}, false, all); }));
    total += measure("rope", 0, kLayers * rows * kQkv * 8, each([&](Layer& l) {
                       backend->rope_and_store(q, k, v, attention, head_ones, head_ones, 1e-6F, batch, l.kv);
                     }));
    total += measure("attention", kLayers * keys * 4 * kHeads * kHeadDim, kLayers * keys * 8 * kKvHeads * kHeadDim,
                     each([&](Layer& l) { backend->attention(q, attention, {}, batch, l.kv, hn); }));
    total += measure("o", kLayers * rows * dense, kLayers * dense,
                     each([&](Layer& l) { backend->linear(hn, l.o, {}, false, xn); }));
    total +=
        measure("route", kLayers * rows * 2 * kExperts * kModel, kLayers * 2.0 * kExperts * kModel, each([&](Layer& l) {
                  backend->route(hn, {l.router}, {kExperts, kTopK, true}, {kTopK, l.ids, l.route_weights});
                }));
    std::vector<char> awake(kExperts, 0);
    for (const std::int32_t id : layers[0].ids) awake[static_cast<std::size_t>(id)] = 1;
    const double touched = std::accumulate(awake.begin(), awake.end(), 0.0);
    total += measure("experts", kLayers * rows * kTopK * 6 * kModel * kFf, kLayers * touched * 6 * kModel * kFf,
                     each([&](Layer& l) {
                       backend->experts(hn, {kTopK, l.ids, l.route_weights}, {shape, l.records}, xn);
                     }));
    const Rows last = prompt ? h.slice(n - 1, 1) : hn;
    total += measure("head", 2.0 * last.rows * kVocab * kModel, 2.0 * kVocab * kModel,
                     [&] { backend->linear(last, head, {}, false, logits.slice(0, last.rows)); });
    std::printf("%-16s %10.1f us: %.0f tokens/s\n", "sum", total * 1e6, rows / total);
  }
}

}  // namespace
}  // namespace colibri

int main(int argc, char** argv) {
  colibri::run(argc > 1 ? std::atoi(argv[1]) : 0);
  return 0;
}
