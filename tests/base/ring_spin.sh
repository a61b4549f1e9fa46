#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Searches the model of the ring (ring.pml) in full, once for assertions and deadlocks, once for cycles without progress.
# Invariant: no error and a search that was not cut short, or exit status 1.
set -euo pipefail
model=$(cd "$(dirname "$0")" && pwd)/ring.pml
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
spin -a "$model" >/dev/null
cc -O2 -w -DSAFETY -DCOLLAPSE -o safety pan.c
cc -O2 -w -DNP -DCOLLAPSE -o progress pan.c
for search in "safety -m1000000" "progress -l -m1000000"; do
  read -ra command <<<"$search"
  "./${command[0]}" "${command[@]:1}" >"${command[0]}.log"
  grep -E 'errors:|states, stored' "${command[0]}.log"
  if ! grep -q 'errors: 0' "${command[0]}.log" || grep -qiE 'max search depth too small|not completed|out of memory' "${command[0]}.log"; then
    echo "ring_spin.sh: ${command[0]} failed" >&2
    exit 1
  fi
done
