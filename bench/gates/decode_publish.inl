// SPDX-License-Identifier: Apache-2.0
// Purpose: decode_kernel.cuh, the second half of a phase: sum the parts of red[] in fixed order and publish.
// Invariant: at most three warps work here; the others are already polling the next phase's packets. The cases nest,
// because four side by side become a jump table in constant memory, whose load waits behind the stream for 2.5 us.
if (phase % 2 == 0) {
  if (warp < 3) {
    if (phase == 2) {  // lanes 0..15 gate rows, 16..31 up rows
      const float v = rows<S::kXParts>(sh.red, warp * 2 * S::kXParts, (warp * 2 + 1) * S::kXParts, lane) * scale;
      const float h = __fdividef(v, 1 + __expf(-v)) * __shfl_down_sync(~0u, v, 16);
      publish<3, kCopies>(a.h, b * 3 + warp, kBlocks * 3, pack_pairs(h, lane), epoch, lane);
    } else if (warp == 0) {
      const float q = rows<S::kXParts>(sh.red, 0, S::kXParts, lane) * scale;
      publish<11, 1>(a.qkv_out + b * 17, 0, 0, __float_as_uint(q), epoch, lane);
    } else if (warp == 1) {
      const float kv = rows<S::kXParts / 2>(sh.red, 2 * S::kXParts, 2 * S::kXParts, lane) * scale;
      publish<6, 1>(a.qkv_out + b * 17 + 11, 0, 0, __float_as_uint(kv), epoch, lane);
    }
  }
} else if (warp == 0) {
  float sum = 0;
  if (phase == 1) {
    sum = rows<S::kOParts / 2>(sh.red, 0, S::kOParts / 2, lane);
  } else {
#pragma unroll
    for (int e = 0; e < kTop / 2; ++e)
      sum += __shfl_sync(~0u, share, lane < 16 ? e : e + kTop / 2) *
             rows<S::kDParts>(sh.red, e * S::kDParts, (e + kTop / 2) * S::kDParts, lane);
  }
  residual += sum + __shfl_down_sync(~0u, sum, 16);
  publish_residual(phase == 1 ? a.y : a.x, phase == 1 ? epoch : epoch + 1);
}
