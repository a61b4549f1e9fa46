#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tiny checkpoints of families in shapes that their usual fixtures do not have, made like those of make_dense.py.

usage: make_variants.py OUT [SEED]

phimoe_jitter: experts near the best share its weight, and rotations are stretched by longrope's short factors.
Made with transformers 5.17.0.
"""
import sys

import torch

from make_dense import COMMON, build

LONGROPE = dict(rope_type="longrope", rope_theta=10000.0, original_max_position_embeddings=256, short_mscale=1.125,
                long_mscale=1.25, short_factor=[1.0, 1.25, 1.5, 2.0, 2.5, 4.0, 6.0, 8.0], long_factor=[16.0] * 8)
MODELS = {
    "phimoe_jitter": ("Phimoe", dict(COMMON, num_local_experts=6, num_experts_per_tok=2, attention_bias=False,
                                     lm_head_bias=True, sliding_window=None, router_jitter_noise=0.25,
                                     rope_parameters=LONGROPE)),
}

if __name__ == "__main__":
    with torch.no_grad():
        for name, (family, values) in MODELS.items():
            build(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 7, name, family, dict(values))
