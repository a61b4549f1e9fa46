// SPDX-License-Identifier: Apache-2.0
// Purpose: checks decode_step on random weights of Qwen3-30B-A3B's shape against decode_reference.cuh, then times it.
// Usage: decode [check] [time] [profile] [ROWS ..], all of it for 1 row by default; with OUT set also JSON lines.
// Invariant: nothing is timed that failed its check in the same run; a check that is left out is said to be.
#include <cstring>

#include "decode_reference.cuh"

namespace bench {

using colibri::cuda::DecodeStep, colibri::cuda::kDecodeStamps;
using colibri::cuda::launch_decode_step;

constexpr int kMaxContext = 4096 + 64, kTableBlocks = kMaxContext / 16, kMaxRows = colibri::cuda::kMaxDecodeRows;

template <class T>
std::vector<T> host(const T* p, size_t n) {
  std::vector<T> v(n);
  CUDA_CHECK(cudaMemcpy(v.data(), p, n * sizeof(T), cudaMemcpyDeviceToHost));
  return v;
}
template <class T>
void to_device(T* p, const std::vector<T>& v) {
  CUDA_CHECK(cudaMemcpy(p, v.data(), v.size() * sizeof(T), cudaMemcpyHostToDevice));
}

struct Bench {
  std::mt19937_64 rng{std::random_device{}()};
  static constexpr int kLayers = 48;
  Model model{kLayers, kTableBlocks* kMaxRows, (rng() & 0xff) << 56};
  Reference reference{model};
  int* tokens = device_array<int>(kMaxRows);
  int* positions = device_array<int>(kMaxRows);
  int* next = device_array<int>(kMaxRows);
  float* logits = device_array<float>(size_t{kMaxRows} * kVocab);
  int* experts = device_array<int>(2000 * kLayers * kMaxRows * kTop);
  int* table = device_array<int>(kMaxRows * kTableBlocks);
  const int** tables = device_array<const int*>(kMaxRows);
  float* reference_kv = device_array<float>(size_t{kLayers} * kMaxRows * kTableBlocks * kBlockFloats);
  std::vector<int> blocks;  // [kMaxRows][kTableBlocks]
  void* workspace[kMaxRows + 1] = {};

  Bench() {
    for (int i = 0; i < kMaxRows * kTableBlocks; ++i) blocks.push_back(i);
    std::shuffle(blocks.begin(), blocks.end(), rng);
    to_device(table, blocks);
    std::vector<const int*> rows;
    for (int r = 0; r < kMaxRows; ++r) rows.push_back(table + r * kTableBlocks);
    to_device(tables, rows);
    for (int r = 1; r <= kMaxRows; ++r) {
      const size_t bytes = colibri::cuda::decode_workspace_bytes(r);
      workspace[r] = device_array<char>(bytes);
      CUDA_CHECK(cudaMemset(workspace[r], 0, bytes));
    }
  }
  DecodeStep step(int rows, int first = 0) {
    return {tokens + first, positions + first, tables + first, logits + size_t(first) * kVocab,
            next + first,   experts,           nullptr,        workspace[rows]};
  }
  void launch(const DecodeStep& s, int rows) {
    CUDA_CHECK(static_cast<cudaError_t>(launch_decode_step(model.device, s, rows, nullptr)));
  }
  static constexpr size_t kCacheFloats = size_t{kLayers} * kMaxRows * kTableBlocks * kBlockFloats;
  float* cache() { return model.layers[0].kv; }

  // A cache whose positions before `contexts` are random and whose others are NaN.
  void fill_cache(const std::vector<int>& contexts) {
    CUDA_CHECK(cudaMemset(cache(), 0xff, kCacheFloats * 4));
    for (int l = 0; l < kLayers; ++l)
      for (size_t r = 0; r < contexts.size(); ++r)
        for (int p = 0; p < contexts[r]; p += 16) {
          float* block = model.layers[l].kv + size_t(blocks[r * kTableBlocks + p / 16]) * kBlockFloats;
          fill_floats<<<32, 256>>>(block, kBlockFloats, rng(), 0, 1.7f);
          const int used = std::min(16, contexts[r] - p);
          if (used < 16) {  // keys [head][dim][16 tokens], values [head][16 tokens][dim]
            CUDA_CHECK(cudaMemset2D(block + used, 64, 0xff, (16 - used) * 4, kKv));
            CUDA_CHECK(
                cudaMemset2D(block + kKv * 16 + used * kDim, 16 * kDim * 4, 0xff, (16 - used) * kDim * 4, kKvHeads));
          }
        }
    CUDA_CHECK(cudaMemcpy(reference_kv, cache(), kCacheFloats * 4, cudaMemcpyDeviceToDevice));
  }

  // `steps` steps of one row from `context` on against the reference: logits, chosen ids, experts, keys and values.
  bool check(int context, int steps) {
    fill_cache({context});
    std::vector<float*> kv;
    for (int l = 0; l < kLayers; ++l) kv.push_back(reference_kv + size_t{kBlockFloats} * kMaxRows * kTableBlocks * l);
    int token = static_cast<int>(rng() % kVocab);
    double error = 0, kv_error = 0;
    bool ids = true, untouched = true;
    reference.worst_choice = 0;
    for (int i = 0; i < steps; ++i) {
      const int position = context + i;
      to_device(tokens, {token});
      to_device(positions, {position});
      CUDA_CHECK(cudaMemset(logits, 0xff, kVocab * 4));
      CUDA_CHECK(cudaMemset(experts, 0xff, kLayers * kTop * 4));
      launch(step(1), 1);
      CUDA_CHECK(cudaDeviceSynchronize());
      const auto out = host(logits, kVocab);
      const auto picked = host(experts, kLayers * kTop);
      const auto ref = reference.step(token, position, table, blocks[position / 16], picked.data(), kTop, kv.data());
      const double e = relative_error(ref, {out.begin(), out.end()});
      error = e > error || e != e ? e : error;
      const int id = host(next, 1)[0];
      ids &= id == std::max_element(out.begin(), out.end()) - out.begin();
      token = id < 0 || id >= kVocab ? 0 : id;
    }
    double diff = 0, size = 0;
    for (int l = 0; l < kLayers; ++l)
      for (size_t p = context / 16; p <= size_t(context + steps - 1) / 16; ++p) {
        const size_t at = size_t(blocks[p]) * kBlockFloats;
        const auto mine = host(model.layers[l].kv + at, kBlockFloats), ref = host(kv[l] + at, kBlockFloats);
        for (int i = 0; i < kBlockFloats; ++i) {
          const int slot = i < kKv * 16 ? i % 16 : i / kDim % 16;
          const int position = static_cast<int>(p) * 16 + slot;
          if (position < context || position >= context + steps) {
            untouched &= std::memcmp(&mine[i], &ref[i], 4) == 0;
          } else {
            diff += (mine[i] - ref[i]) * double(mine[i] - ref[i]), size += ref[i] * double(ref[i]);
          }
        }
      }
    kv_error = std::sqrt(diff / size);
    const bool right = error < 2e-2 && kv_error < 2e-2 && ids && untouched && reference.worst_choice < 5e-2;
    char text[200];
    std::snprintf(text, sizeof text, "%s: context %d, %d steps, keys and values %.1e, expert choice %.1e%s%s",
                  right ? "right" : "WRONG", context, steps, kv_error, reference.worst_choice,
                  ids ? "" : ", ids differ", untouched ? "" : ", other slots written");
    report("check", text, right, "", error);
    return right;
  }

  // Rows together give the bits that each gives alone.
  bool check_rows(int rows) {
    const std::vector<int> all = {511, 17, 0, 1300}, contexts(all.begin(), all.begin() + rows);
    fill_cache(contexts);
    std::vector<int> ids;
    for (int r = 0; r < rows; ++r) ids.push_back(static_cast<int>(rng() % kVocab));
    to_device(tokens, ids);
    to_device(positions, contexts);
    std::vector<std::vector<float>> alone;
    std::vector<int> alone_next;
    for (int r = 0; r < rows; ++r) {
      launch(step(1, r), 1);
      CUDA_CHECK(cudaDeviceSynchronize());
      alone.push_back(host(logits + size_t(r) * kVocab, kVocab));
      alone_next.push_back(host(next + r, 1)[0]);
    }
    CUDA_CHECK(cudaMemset(logits, 0xff, size_t{kMaxRows} * kVocab * 4));
    bool right = true;
    double error = 0;
    for (int i = 0; i < 3; ++i) {
      launch(step(rows), rows);
      CUDA_CHECK(cudaDeviceSynchronize());
      for (int r = 0; r < rows; ++r) {
        const auto out = host(logits + size_t(r) * kVocab, kVocab);
        right &= std::memcmp(out.data(), alone[r].data(), kVocab * 4) == 0 && host(next + r, 1)[0] == alone_next[r];
        const double e = relative_error({alone[r].begin(), alone[r].end()}, {out.begin(), out.end()});
        error = e > error || e != e ? e : error;
      }
    }
    report("check", (right ? "right: " : "WRONG: ") + std::to_string(rows) + " rows give the bits of each alone", right,
           "", error);
    return right;
  }

  // Bytes that a step needs: dense, cache, and the experts that its rows touch.
  double step_bytes(int rows, int context, double experts_a_layer) {
    const double dense = kLayers * double(matrix_bytes(kQkv, kD) + matrix_bytes(kD, kQ) + matrix_bytes(kExperts, kD)) +
                         matrix_bytes(kVocab, kD);
    return dense + kLayers * (experts_a_layer * Model::kRecord.record_bytes() + rows * double(context) * 2 * kKv * 4);
  }

  void time(int rows, int context) {
    fill_cache(std::vector<int>(rows, context));
    std::vector<int> ids;
    for (int r = 0; r < rows; ++r) ids.push_back(static_cast<int>(rng() % kVocab));
    to_device(tokens, ids);
    to_device(positions, std::vector<int>(rows, context));
    const int steps = 2000, each = kLayers * rows * kTop;
    DecodeStep s = step(rows);
    s.next = tokens;  // the ids stay on the device
    for (int i = 0; i < 20; ++i) launch(s, rows);
    std::vector<cudaEvent_t> events(steps + 1);
    for (auto& e : events) CUDA_CHECK(cudaEventCreate(&e));
    CUDA_CHECK(cudaEventRecord(events[0]));
    for (int i = 0; i < steps; ++i) {
      s.experts = experts + i * each;
      launch(s, rows);
      CUDA_CHECK(cudaEventRecord(events[i + 1]));
    }
    CUDA_CHECK(cudaDeviceSynchronize());
    std::vector<float> ms(steps);
    for (int i = 0; i < steps; ++i) CUDA_CHECK(cudaEventElapsedTime(&ms[i], events[i], events[i + 1]));
    for (auto& e : events) CUDA_CHECK(cudaEventDestroy(e));
    std::sort(ms.begin(), ms.end());
    const auto picked = host(experts, size_t(steps) * each);
    double touched = 0;
    for (int i = 0; i < steps * kLayers; ++i) {
      bool seen[kExperts] = {};
      for (int k = 0; k < rows * kTop; ++k) touched += !std::exchange(seen[picked[i * rows * kTop + k]], true);
    }
    touched /= steps * kLayers;
    const double median = ms[steps / 2], p99 = ms[steps * 99 / 100], bytes = step_bytes(rows, context, touched);
    char text[200];
    std::snprintf(
        text, sizeof text,
        "%d rows, context %d: median %.4f ms, p99 %.4f, p99 / median %.3f, max %.4f, %.1f experts a layer, %.3f GB",
        rows, context, median, p99, p99 / median, ms.back(), touched, bytes / 1e9);
    report("time", text, bytes / median / 1e9 / kStreamTBs * 100, "% of 4.65 TB/s");
  }

  // When the blocks pass the points of a layer, ns after the first has begun it: mean over the middle layers of the
  // first, the median and the last block, and which is last most often.
  void profile(int rows, int context) {
    fill_cache(std::vector<int>(rows, context));
    to_device(tokens, std::vector<int>(rows, 1));
    to_device(positions, std::vector<int>(rows, context));
    DecodeStep s = step(rows);
    constexpr int kBlocks = 128, kFirst = 8, kLast = 40;
    const int n = kBlocks * (kLayers + 1) * kDecodeStamps, launches = 10;
    s.stamps = device_array<uint64_t>(n);
    s.next = tokens;
    CUDA_CHECK(cudaMemset(s.stamps, 0, n * 8));
    double first[kDecodeStamps] = {}, median[kDecodeStamps] = {}, last[kDecodeStamps] = {}, layer = 0, head = 0;
    int late[kDecodeStamps][kBlocks] = {};
    for (int i = 0; i < launches; ++i) {
      launch(s, rows);
      const auto t = host(s.stamps, n);
      auto at = [&](int b, int l, int k) { return t[(b * (kLayers + 1) + l) * kDecodeStamps + k]; };
      auto start = [&](int l) {
        uint64_t least = ~0ull;
        for (int b = 0; b < kBlocks; ++b) least = std::min(least, at(b, l, 0));
        return least;
      };
      const double each = 1.0 / ((kLast - kFirst) * launches);
      for (int l = kFirst; l < kLast; ++l)
        for (int k = 0; k < kDecodeStamps; ++k) {
          std::vector<std::pair<double, int>> ns;
          for (int b = 0; b < kBlocks; ++b)
            if (at(b, l, k)) ns.emplace_back(double(at(b, l, k)) - double(start(l)), b);
          if (ns.empty()) continue;
          std::sort(ns.begin(), ns.end());
          first[k] += ns[0].first * each, median[k] += ns[ns.size() / 2].first * each,
              last[k] += ns.back().first * each;
          ++late[k][ns.back().second];
        }
      layer += double(start(kLast) - start(kFirst)) * each;
      head += double(at(0, kLayers, 0) - at(0, kLayers - 1, 15)) / launches;
    }
    const char* points[] = {
        "begins",     "x is there",       "QKV done",   "q k v sent", "q k v are there", "first keys are there",
        "slice sent", "slices are there", "a sent",     "a is there", "O done",          "y sent",
        "y is there", "h sent",           "h is there", "down done",  "q k v pushed",    "dense pushed",
        "routed",     "gate/up pushed",   "down pushed"};
    for (int k = 0; k < kDecodeStamps; ++k) {
      if (last[k] == 0) continue;
      const int* l = late[k];
      char text[160];
      std::snprintf(text, sizeof text, "%d rows, context %d: %-21s first %6.0f, median %6.0f, last (often block %3d)",
                    rows, context, points[k], first[k], median[k], int(std::max_element(l, l + kBlocks) - l));
      report("profile", text, last[k], "ns");
    }
    report("profile", "a layer", layer, "ns");
    report("profile", "the head", head, "ns");
    CUDA_CHECK(cudaFree(s.stamps));
  }
};

}  // namespace bench

int main(int argc, char** argv) {
  bool check = false, time = false, profile = false;
  std::vector<int> rows;
  for (int i = 1; i < argc; ++i) {
    const std::string a = argv[i];
    if (a == "check")
      check = true;
    else if (a == "time")
      time = true;
    else if (a == "profile")
      profile = true;
    else
      rows.push_back(std::atoi(argv[i]));
  }
  if (!check && !time && !profile) check = time = profile = true;
  if (rows.empty()) rows = {1};
  bench::Bench bench;
  bool right = true;
  if (check) {
    for (const int context : {0, 1, 15, 16, 17, 511, 512, 4095}) right &= bench.check(context, context == 15 ? 4 : 2);
    for (const int n : rows)
      if (n > 1) right &= bench.check_rows(n);
  } else {
    std::printf("not checked in this run\n");
  }
  if (!right) return 1;
  for (const int n : rows) {
    if (time)
      for (const int context : {512, 4096}) bench.time(n, context);
    if (profile) bench.profile(n, 512);
  }
  return 0;
}
