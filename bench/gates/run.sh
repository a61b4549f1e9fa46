#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Purpose: builds the gate programs for sm_90a and runs them on GPU 0; prints a table, and with OUT set leaves one JSON
# object per line in $OUT/<gate>.jsonl. Usage: bench/gates/run.sh [stream] [expert_gemv] [exchange] [decode_skeleton]
# Invariant: changes no GPU setting.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
build=${BUILD:-$here/../../build/gates}
nvcc=${NVCC:-$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)}
gates=("$@")
[ ${#gates[@]} -gt 0 ] || gates=(stream expert_gemv exchange decode_skeleton)

mkdir -p "$build"
pids=()
for gate in "${gates[@]}"; do
  "$nvcc" -std=c++20 -O3 -gencode=arch=compute_90a,code=sm_90a -o "$build/$gate" "$here/$gate.cu" &
  pids+=($!)
done
for pid in "${pids[@]}"; do wait "$pid"; done

nvidia-smi --query-gpu=name,driver_version,clocks.sm,clocks.mem,temperature.gpu --format=csv || true
for gate in "${gates[@]}"; do "$build/$gate"; done
