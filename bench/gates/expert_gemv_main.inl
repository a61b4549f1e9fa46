// SPDX-License-Identifier: Apache-2.0
// Purpose: the host side of expert_gemv.cu: inputs, the double reference, the table of variants.
// Invariant: nothing is timed before its outputs, poisoned with NaN, agreed with the reference on fresh random inputs.
using namespace gates;

namespace {

template <class T>
T* upload(const std::vector<T>& v) {
  T* p;
  CUDA_CHECK(cudaMalloc(&p, v.size() * sizeof(T)));
  CUDA_CHECK(cudaMemcpy(p, v.data(), v.size() * sizeof(T), cudaMemcpyHostToDevice));
  return p;
}

constexpr int kSets = 8;  // draws of experts, one per launch in turn
struct Inputs {
  std::vector<int> selected;        // [kSets][kLayers][kTop], without repeats in a layer
  std::vector<__nv_bfloat16> x, h;  // [kLayers][kD], [kLayers][kTop][kF]
  std::vector<float> weight;        // [kLayers][kTop]
  uint64_t seed;
};

Inputs draw() {
  std::random_device device;
  std::mt19937_64 rng(device());
  std::normal_distribution<float> normal;
  Inputs in;
  in.seed = (rng() & 0xffffff) << 36;
  for (int i = 0; i < kSets * kLayers; ++i) {
    std::vector<int> all(kExperts);
    for (int e = 0; e < kExperts; ++e) all[e] = e;
    std::shuffle(all.begin(), all.end(), rng);
    in.selected.insert(in.selected.end(), all.begin(), all.begin() + kTop);
  }
  for (int i = 0; i < kLayers * kD; ++i) in.x.push_back(__float2bfloat16(normal(rng)));
  for (int i = 0; i < kLayers * kTop * kF; ++i) in.h.push_back(__float2bfloat16(normal(rng)));
  for (int i = 0; i < kLayers * kTop; ++i) in.weight.push_back(0.05f + 0.2f * std::fabs(normal(rng)));
  return in;
}

// Layer l of the first draw in double: h_out [kTop][kF], y [kD].
void reference(const Inputs& in, int l, std::vector<double>& h_out, std::vector<double>& y) {
  h_out.assign(kTop * kF, 0), y.assign(kD, 0);
  for (int e = 0; e < kTop; ++e) {
    const int id = l * kExperts + in.selected[l * kTop + e];
    auto dot = [&](int matrix, int row, const __nv_bfloat16* v, int n) {
      double sum = 0;
      for (int k = 0; k < n; ++k)
        sum += hash_double(weight_id(id, matrix, row, k) + in.seed, weight_scale(matrix)) * __bfloat162float(v[k]);
      return sum;
    };
    for (int r = 0; r < kF; ++r) {
      const double gate = dot(0, r, &in.x[l * kD], kD), up = dot(1, r, &in.x[l * kD], kD);
      h_out[e * kF + r] = gate / (1 + std::exp(-gate)) * up;
    }
    for (int r = 0; r < kD; ++r) y[r] += in.weight[l * kTop + e] * dot(2, r, &in.h[(l * kTop + e) * kF], kF);
  }
}

}  // namespace

int main() {
  const Inputs in = draw();
  char* records;
  CUDA_CHECK(cudaMalloc(&records, kLayers * kExperts * kRecord));
  const int* selected = upload(in.selected);
  Args a{records,
         selected,
         reinterpret_cast<uint32_t*>(upload(in.x)),
         reinterpret_cast<uint32_t*>(upload(in.h)),
         upload(in.weight),
         nullptr,
         nullptr,
         kSlots};
  const size_t n_h = kLayers * kTop * kF, n_y = kLayers * kD;
  CUDA_CHECK(cudaMalloc(&a.h_out, n_h * 4));
  CUDA_CHECK(cudaMalloc(&a.y, n_y * 4));
  const int layers[] = {0, 17, kLayers - 1};
  std::vector<double> h_ref[3], y_ref[3];
  for (int i = 0; i < 3; ++i) reference(in, layers[i], h_ref[i], y_ref[i]);

  auto measure = [&](const std::string& name, auto kernel, int blocks, int threads, int shared) {
    if (shared) CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared));
    auto launch = [&](int i) {
      Args now = a;
      now.selected = selected + (i % kSets) * kLayers * kTop;
      kernel<<<blocks, threads, shared>>>(now);
      CUDA_CHECK(cudaGetLastError());
    };
    CUDA_CHECK(cudaMemset(a.h_out, 0xff, n_h * 4));
    CUDA_CHECK(cudaMemset(a.y, 0xff, n_y * 4));
    launch(0);
    std::vector<float> h(n_h), y(n_y);
    CUDA_CHECK(cudaMemcpy(h.data(), a.h_out, n_h * 4, cudaMemcpyDeviceToHost));
    CUDA_CHECK(cudaMemcpy(y.data(), a.y, n_y * 4, cudaMemcpyDeviceToHost));
    double worst = 0;
    for (int i = 0; i < 3; ++i) {
      const float *hl = &h[layers[i] * kTop * kF], *yl = &y[layers[i] * kD];
      for (double e : {relative_error(h_ref[i], {hl, hl + kTop * kF}), relative_error(y_ref[i], {yl, yl + kD})})
        if (!(e <= worst)) worst = e;
    }
    for (float v : h)
      if (v != v) worst = NAN;
    for (float v : y)
      if (v != v) worst = NAN;
    if (!(worst < 1e-4)) std::printf("WRONG: ");
    const double bytes = static_cast<double>(kLayers) * kTop * kRecord;
    const double tbs = bytes / median_ms(launch) / 1e9;
    report("expert_gemv", name, tbs / kStreamTBs * 100, "% of 4.65 TB/s", worst);
  };

  auto fill_all = [&](Order order) {
    fill<<<kLayers * kExperts * 3, 512>>>(reinterpret_cast<uint32_t*>(records), order, in.seed);
    CUDA_CHECK(cudaDeviceSynchronize());
  };
  const int shared = Ring<kSlot, kSlots, 32>::kBytes, flat = Ring<kSlot, kSlots, 0>::kBytes;
  fill_all(Order::kTile);
  auto windows = [&](const std::string& name, auto kernel, int bytes) {
    for (int window : {3, 4, 6, kSlots}) {
      a.window = window;
      measure(name + ", in flight " + std::to_string(window * 16) + " KiB", kernel, kBlocks, 288, bytes);
    }
  };
  windows("tile order, ring, mma, halves 32 bytes apart", expert_ring<Order::kTile, true, 32>, shared);
  windows("tile order, ring, mma, two-way bank conflicts", expert_ring<Order::kTile, true, 0>, flat);
  windows("tile order, ring, fp32 FMA", expert_ring<Order::kTile, false, 0>, flat);
  for (int per_sm : {4, 6, 8})
    measure("tile order, no ring, fp32 FMA, blocks per SM " + std::to_string(per_sm), expert_loads<Order::kTile, false>,
            132 * per_sm, 256, 0);
  measure("tile order, no ring, mma, blocks per SM 4", expert_loads<Order::kTile, true>, 132 * 4, 256, 0);
  fill_all(Order::kFragment);
  windows("fragment order, ring, mma", expert_ring<Order::kFragment, true, 0>, flat);
  measure("fragment order, no ring, mma, blocks per SM 4", expert_loads<Order::kFragment, true>, 132 * 4, 256, 0);
  fill_all(Order::kRow);
  windows("row order, ring, fp32 FMA", expert_ring<Order::kRow, false, 0>, flat);
  return 0;
}
