#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Rotary frequencies and attention factors as Hugging Face transformers computes them: data/rope_cases.json.

usage: make_rope_cases.py OUT.json          (made with transformers 5.17.0)
Each case holds the members that a config.json would have, in one of the two dialects, and what transformers makes of it.
"""
import json
import sys

from transformers import HunYuanMoEV1Config, LlamaConfig
from transformers.models.hunyuan_v1_moe.modeling_hunyuan_v1_moe import HunYuanMoEV1RotaryEmbedding
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

BASE = dict(hidden_size=256, num_attention_heads=4, max_position_embeddings=4096)
YARN = dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=1024)
CASES = {
    "default": dict(rope_theta=1000000.0),
    "default_parameters": dict(rope_parameters=dict(rope_type="default", rope_theta=500000.0)),
    "default_theta": dict(head_dim=128),
    "linear_old": dict(rope_theta=10000.0, rope_scaling=dict(type="linear", factor=2.5)),
    "linear_parameters": dict(rope_parameters=dict(rope_type="linear", rope_theta=10000.0, factor=4.0)),
    "llama3_old": dict(rope_theta=500000.0, head_dim=128,
                       rope_scaling=dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                                         original_max_position_embeddings=8192)),
    "llama3_parameters": dict(rope_parameters=dict(rope_type="llama3", rope_theta=1000000.0, factor=32.0,
                                                   low_freq_factor=1.0, high_freq_factor=4.0,
                                                   original_max_position_embeddings=2048)),
    "yarn_old": dict(rope_theta=1000000.0, rope_scaling=dict(type="yarn", factor=4.0,
                                                             original_max_position_embeddings=1024)),
    "yarn_parameters": dict(head_dim=128, rope_parameters=dict(YARN, rope_theta=10000.0)),
    "yarn_betas": dict(rope_parameters=dict(YARN, rope_theta=150000.0, beta_fast=16.0, beta_slow=2.0, truncate=False)),
    "yarn_mscale": dict(rope_parameters=dict(YARN, rope_theta=10000.0, factor=40.0, mscale=1.0, mscale_all_dim=0.707)),
    "yarn_attention_factor": dict(rope_parameters=dict(YARN, rope_theta=10000.0, attention_factor=1.25)),
    "dynamic_within_the_context": dict(rope_parameters=dict(rope_type="dynamic", rope_theta=10000.0, factor=4.0)),
    "dynamic_alpha": dict(head_dim=128, rope_theta=10000.0,
                          rope_scaling=dict(type="dynamic", factor=1.0, alpha=1000.0)),
    "yarn_no_original": dict(rope_parameters=dict(rope_type="yarn", rope_theta=10000.0, factor=8.0)),
}

cases = []
for name, values in CASES.items():
    members = dict(BASE, **values)
    config, embedding = ((HunYuanMoEV1Config, HunYuanMoEV1RotaryEmbedding) if "alpha" in name
                         else (LlamaConfig, LlamaRotaryEmbedding))
    rope = embedding(config(**json.loads(json.dumps(members))))
    cases.append(dict(name=name, config=members, inv_freq=[float(x) for x in rope.inv_freq],
                      scale=float(rope.attention_scaling)))
with open(sys.argv[1], "w") as file:
    json.dump(cases, file, indent=1)
