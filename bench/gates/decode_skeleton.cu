// SPDX-License-Identifier: Apache-2.0
// Purpose: checks and times decode_kernel.cuh over kinds of sync, router placement, copies, window and L2 prefetch.
// Invariant: nothing is timed before three layers and the head, run with the same kernel, agree with a double reference
// on fresh random weights and input.
#include "decode_kernel.cuh"
#include "decode_reference.cuh"

namespace gates {

template <class T>
T* device_zeros(size_t n) {
  T* p;
  CUDA_CHECK(cudaMalloc(&p, n * sizeof(T)));
  CUDA_CHECK(cudaMemset(p, 0, n * sizeof(T)));
  return p;
}

struct Case {
  int dense_window, up_window, down_window;  // KiB in flight per block
  int prefetch = 0, hits = 0, pace = 0;      // KiB per block, right ones among the 8 guessed experts, clocks
  int backoff = 0;                           // ns between polls
};

template <int kDiv>
struct Bench {
  using S = Shape<kDiv>;
  Args a{};
  std::vector<float> x0;
  uint64_t seed;
  static constexpr const char* kFormat = kDiv == 1 ? "bf16" : kDiv == 2 ? "fp8 bytes" : "int4 bytes";

  Bench() {
    std::random_device device;
    std::mt19937_64 rng(device());
    seed = (rng() & 0xffff) << 47;
    std::normal_distribution<float> normal;
    for (int i = 0; i < kD; ++i) x0.push_back(normal(rng));
    auto tiles = [&](size_t bytes, int rows, int k, Kind kind) {
      char* w = device_zeros<char>(bytes);
      fill_tiles<<<rows / 16, 256>>>(reinterpret_cast<uint32_t*>(w), k, seed, kind);
      return w;
    };
    a.qkv = tiles(kLayers * S::kQkvBytes, kLayers * kQkv, S::kKx, kIdQkv);
    a.o = tiles(kLayers * S::kOBytes, kLayers * kD, S::kKo, kIdO);
    a.head = tiles(S::kHeadBytes, kVocab, S::kKx, kIdHead);
    char* experts = device_zeros<char>(size_t{kLayers} * kExperts * S::kRecord);
    fill_experts<<<kLayers * kExperts * 3, 512>>>(experts, S::kKx, S::kKf, seed);
    auto* router = device_zeros<uint32_t>(size_t{kLayers} * kExperts * kD / 2);
    auto* router_o = device_zeros<float>(size_t{kLayers} * kExperts * kQ);
    fill_rows<<<kLayers * kExperts, 256>>>(router, router_o, seed);
    float* x = device_zeros<float>(kD);
    CUDA_CHECK(cudaMemcpy(x, x0.data(), kD * 4, cudaMemcpyHostToDevice));
    a.experts = experts, a.router = router, a.router_o = router_o, a.x0 = x;
    a.logits = device_zeros<float>(kVocab), a.picked = device_zeros<int>(kLayers * kTop);
    const size_t n = kMaxCopies * kBlocks;
    a.x = device_zeros<uint4>(n * 3), a.y = device_zeros<uint4>(n * 3), a.qkv_out = device_zeros<uint4>(n * 17);
    a.a = device_zeros<uint4>(n * 6), a.h = device_zeros<uint4>(n * 9), a.logit = device_zeros<uint2>(n);
    a.counter = device_zeros<uint32_t>(32), a.stamps = nullptr;
    a.guess = device_zeros<int>(kLayers * kTop);
    CUDA_CHECK(cudaDeviceSynchronize());
  }
  ~Bench() {
    for (const void* p : std::initializer_list<const void*>{a.qkv, a.o, a.head, a.experts, a.router, a.router_o})
      CUDA_CHECK(cudaFree(const_cast<void*>(p)));
  }

  void set_windows(const Case& c) {
    a.dense_window = c.dense_window * 1024 / S::kSlot, a.up_window = c.up_window * 1024 / S::kSlot;
    a.down_window = c.down_window * 1024 / S::kSlot, a.backoff = c.backoff;
  }

  // The experts of the last launch (same input, same experts), of which 8 - hits are replaced by others.
  void set_guess(int hits) {
    std::vector<int> guess(kLayers * kTop);
    CUDA_CHECK(cudaMemcpy(guess.data(), a.picked, guess.size() * 4, cudaMemcpyDeviceToHost));
    for (int l = 0; l < kLayers; ++l)
      for (int e = hits; e < kTop; ++e) {
        const int* mine = &guess[l * kTop];
        int id = (mine[e] + 1) % kExperts;
        while (std::find(mine, mine + kTop, id) != mine + kTop) id = (id + 1) % kExperts;
        guess[l * kTop + e] = id;
      }
    CUDA_CHECK(cudaMemcpy(const_cast<int*>(a.guess), guess.data(), guess.size() * 4, cudaMemcpyHostToDevice));
  }
  static std::string guess_text(const Case& c) {
    if (c.backoff) return ", " + std::to_string(c.backoff) + " ns between polls";
    if (!c.prefetch) return "";
    return ", L2 prefetch " + std::to_string(c.prefetch) + " KiB of guessed experts, " + std::to_string(c.hits) +
           " of 8 right, pace " + std::to_string(c.pace);
  }

  template <Sync kSync, Route kRoute, int kCopies>
  void measure(const std::string& name, const std::vector<Case>& cases) {
    auto kernel = decode_skeleton<kDiv, kSync, kRoute, kCopies>;
    const int shared = S::kSlots * (S::kSlot + kPad);
    CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared));
    CUDA_CHECK(cudaMemset(a.counter, 0, 4));
    a.counter_base = 0;
    auto launch = [&](int layers) {
      a.layers = layers;
      void* args[] = {&a};
      CUDA_CHECK(cudaLaunchCooperativeKernel(reinterpret_cast<void*>(kernel), kBlocks, kThreads + 32 * S::kProducers,
                                             args, shared));
      a.epoch += layers + 1;
      a.counter_base += ((kRoute == Route::kEarly ? 5 : 6) * layers + 1) * kBlocks;
    };
    constexpr int kChecked = 3;
    bool first = true;
    for (const Case& c : cases) {
      set_windows(c);
      a.prefetch = c.prefetch * 1024, a.pace = c.pace;
      if (c.prefetch) set_guess(c.hits);
      double error = -1;
      if (first) {
        CUDA_CHECK(cudaMemset(const_cast<float*>(a.logits), 0xff, kVocab * 4));
        launch(kChecked);
        std::vector<float> logits(kVocab);
        std::vector<int> picked(kLayers * kTop);
        CUDA_CHECK(cudaMemcpy(logits.data(), a.logits, kVocab * 4, cudaMemcpyDeviceToHost));
        CUDA_CHECK(cudaMemcpy(picked.data(), a.picked, picked.size() * 4, cudaMemcpyDeviceToHost));
        const auto ref = reference<kDiv>(x0, picked, kChecked, kRoute == Route::kEarly, seed);
        error = relative_error(ref, {logits.begin(), logits.begin() + ref.size()});
        for (float v : logits)
          if (v != v) error = NAN;
        if (!(error < 1e-2)) std::printf("WRONG: ");
        first = false;
      }
      const float ms = median_ms([&](int) { launch(kLayers); });
      char text[240];
      std::snprintf(text, sizeof text, "%s, %s, in flight %d/%d/%d KiB%s: %.3f ms", kFormat, name.c_str(),
                    c.dense_window, c.up_window, c.down_window, guess_text(c).c_str(), ms);
      report("skeleton", text, S::kTokenBytes / ms / 1e9 / kStreamTBs * 100, "% of 4.65 TB/s", error);
    }
  }

  // Mean ns per step of a phase over the middle layers, and of the whole token, for a fresh instance of a kernel.
  template <Sync kSync, Route kRoute, int kCopies>
  void profile(const std::string& name, Case c) {
    auto kernel = decode_skeleton<kDiv, kSync, kRoute, kCopies>;
    const int shared = S::kSlots * (S::kSlot + kPad), rows = kLayers + 1;
    CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared));
    a.stamps = device_zeros<uint64_t>(rows * 16);
    set_windows(c);
    a.prefetch = 0, a.layers = kLayers;
    CUDA_CHECK(cudaMemset(a.counter, 0, 4));
    double mean[17] = {}, total = 0, head = 0;
    const int launches = 20;
    for (int i = 0; i < launches; ++i) {
      a.counter_base = i * ((kRoute == Route::kEarly ? 5 : 6) * kLayers + 1) * kBlocks;
      void* args[] = {&a};
      CUDA_CHECK(cudaLaunchCooperativeKernel(reinterpret_cast<void*>(kernel), kBlocks, kThreads + 32 * S::kProducers,
                                             args, shared));
      a.epoch += kLayers + 1;
      std::vector<uint64_t> t(rows * 16);
      CUDA_CHECK(cudaMemcpy(t.data(), a.stamps, t.size() * 8, cudaMemcpyDeviceToHost));
      for (int l = 8; l < 40; ++l)
        for (int k = 1; k <= 16; ++k) mean[k] += (t[l * 16 + k] - t[l * 16 + k - 1]) / (32.0 * launches);
      total += (t[kLayers * 16] - t[0]) / double(launches),
          head += (t[kLayers * 16 + 2] - t[kLayers * 16]) / double(launches);
    }
    const char* step[] = {"x",        "QKV",     "publish", "", "qkv and a", "O",    "publish", "",
                          "y, route", "gate/up", "publish", "", "h",         "down", "publish", ""};
    std::string text;
    for (int k = 1; k <= 15; ++k)
      if (k % 4)
        text += std::string(text.empty() ? "" : ", ") + step[k - 1] + " " + std::to_string(static_cast<int>(mean[k]));
    report("profile",
           std::string(kFormat) + ", " + name + ", ns: " + text + "; head " + std::to_string(static_cast<int>(head)) +
               "; layers",
           total / 1e3, "us");
    CUDA_CHECK(cudaFree(a.stamps));
    a.stamps = nullptr;
  }

  void all() {
    // Windows in KiB for dense weights, gate/up, down; 192 is the whole ring.
    const Case none = {192, 192, 192}, best = kDiv == 1   ? Case{32, 48, 32}
                                              : kDiv == 2 ? Case{16, 64, 32}
                                                          : Case{16, 64, 48};
    const std::vector<Case> plain = {none, {64, 64, 64}, {32, 32, 32}, best};
    measure<Sync::kCounter, Route::kOwnPhase, 1>("6 barriers", plain);
    measure<Sync::kPacket, Route::kOwnPhase, 1>("6 packet exchanges", plain);
    measure<Sync::kPacket, Route::kOwnPhase, 4>("6 packet exchanges, 4 copies", {best});
    measure<Sync::kCounter, Route::kEarly, 1>("5 barriers, early router", {none, best});
    measure<Sync::kPacket, Route::kEarly, 1>("5 packet exchanges, early router", {none, best});
    std::vector<Case> cases = plain;
    cases.insert(cases.end(), {{16, 48, 48}, {32, 96, 48}, {48, 48, 32}, {48, 96, 48}, {32, 192, 32}});
    Case c = best;
    for (int backoff : {20, 60, 150}) c.backoff = backoff, cases.push_back(c);
    for (int hits : {8, 6, 0})
      cases.push_back({best.dense_window, best.up_window, best.down_window, 192 / kDiv, hits, 440});
    measure<Sync::kPacket, Route::kEarly, 4>("5 packet exchanges, early router, 4 copies", cases);
    profile<Sync::kCounter, Route::kOwnPhase, 1>("6 barriers, in flight 192/192/192 KiB", none);
    profile<Sync::kPacket, Route::kEarly, 4>("5 packet exchanges, early router, 4 copies, best windows", best);
  }
};

}  // namespace gates

int main() {
  using namespace gates;
  Bench<1>().all();
  Bench<2>().all();
  Bench<4>().all();
  return 0;
}
