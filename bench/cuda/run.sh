#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Purpose: builds bench/cuda/decode for sm_90a and runs it on GPU 0; with OUT set it leaves JSON lines there. First a
# build whose waits end by themselves checks, so that a hang costs no time. Usage: bench/cuda/run.sh [ROWS ..]
# Invariant: changes no GPU setting.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$here/../..
build=${BUILD:-$root/build/cuda-bench}
nvcc=${NVCC:-$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)}
mkdir -p "$build"
compile() { "$nvcc" -std=c++20 -O3 -I"$root/src" -gencode=arch=compute_90a,code=sm_90a "$@"; }
sources=("$here/decode.cu" "$root/src/backend/cuda/decode_step.cu")
compile -DCOLIBRI_SPIN_LIMIT=100000000ull -o "$build/decode_bounded" "${sources[@]}" &
compile -o "$build/decode" "${sources[@]}"
wait $!
nvidia-smi --query-gpu=name,driver_version,clocks.sm,clocks.mem,temperature.gpu --format=csv || true
timeout 120 "$build/decode_bounded" check "$@"
timeout 300 "$build/decode" check time profile "$@"
