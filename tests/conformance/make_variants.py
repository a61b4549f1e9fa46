#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tiny checkpoints of families in shapes that their usual fixtures do not have, made like those of make_dense.py.

usage: make_variants.py OUT [SEED]

phimoe_jitter: experts near the best share its weight, and rotations are stretched by longrope's short factors.
glm_moe_dsa: attention to a choice of tokens, within the number that is chosen.
deepseek: the first DeepSeek-MoE, which transformers has not: its Llama with the published feed-forward layer.
Made with transformers 5.17.0, glm_moe_dsa and deepseek with 5.24.0.
"""
import json
import os
import sys

import torch
import transformers
from safetensors.torch import save_file

from make_dense import COMMON, build, expect, randomise

LONGROPE = dict(rope_type="longrope", rope_theta=10000.0, original_max_position_embeddings=256, short_mscale=1.125,
                long_mscale=1.25, short_factor=[1.0, 1.25, 1.5, 2.0, 2.5, 4.0, 6.0, 8.0], long_factor=[16.0] * 8)
SMALL = dict(COMMON, hidden_size=32, max_position_embeddings=256, moe_intermediate_size=24, n_routed_experts=6,
             num_experts_per_tok=3, first_k_dense_replace=1)
MODELS = {
    "glm_moe_dsa": ("GlmMoeDsa", dict(SMALL, num_key_value_heads=4, n_shared_experts=1, n_group=1, topk_group=1,
                                      norm_topk_prob=True, routed_scaling_factor=2.5, q_lora_rank=24, kv_lora_rank=16,
                                      qk_nope_head_dim=12, qk_rope_head_dim=8, v_head_dim=20, index_topk=256,
                                      index_head_dim=16, index_n_heads=2, num_hidden_layers=3,
                                      indexer_types=["full", "full", "shared"])),
    "phimoe_jitter": ("Phimoe", dict(COMMON, num_local_experts=6, num_experts_per_tok=2, attention_bias=False,
                                     lm_head_bias=True, sliding_window=None, router_jitter_noise=0.25,
                                     rope_parameters=LONGROPE)),
}



class Experts(torch.nn.Module):
    """Softmax scores of all experts, of which the chosen weigh theirs, beside two shared experts in one."""

    def __init__(self, config, mlp):
        super().__init__()
        self.top_k, n = SMALL["num_experts_per_tok"], SMALL["n_routed_experts"]
        def expert(count):
            copy = transformers.LlamaConfig(**dict(config.to_dict(), intermediate_size=count * SMALL["moe_intermediate_size"]))
            return mlp(copy)
        self.gate = torch.nn.Linear(config.hidden_size, n, bias=False)
        self.experts = torch.nn.ModuleList(expert(1) for _ in range(n))
        self.shared_experts = expert(2)

    def forward(self, x):
        weights, ids = self.gate(x).softmax(-1).topk(self.top_k)
        chosen = torch.zeros(*x.shape[:-1], len(self.experts)).scatter(-1, ids, weights)
        return self.shared_experts(x) + sum(chosen[..., i : i + 1] * e(x) for i, e in enumerate(self.experts))


def build_deepseek(out, seed):
    config = transformers.LlamaConfig(**COMMON | dict(hidden_size=32, max_position_embeddings=256))
    config._attn_implementation = "eager"
    model = transformers.LlamaForCausalLM(config).float().eval()
    layer = model.model.layers[1]
    layer.mlp = Experts(config, type(layer.mlp))
    randomise(model, torch.Generator().manual_seed(seed))
    directory = os.path.join(out, "deepseek")
    os.makedirs(directory, exist_ok=True)
    tensors = {name: value.to(torch.bfloat16).contiguous() for name, value in model.state_dict().items()}
    save_file(tensors, os.path.join(directory, "model.safetensors"))
    own = dict(SMALL, architectures=["DeepseekForCausalLM"], model_type="deepseek", attention_bias=False, hidden_act="silu",
               moe_layer_freq=1, n_shared_experts=2, norm_topk_prob=False, rope_theta=10000.0, scoring_func="softmax")
    with open(os.path.join(directory, "config.json"), "w") as file:
        json.dump(own, file, indent=2, sort_keys=True)
    expect(model, directory, seed)


if __name__ == "__main__":
    with torch.no_grad():
        build_deepseek(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 7)
        for name, (family, values) in MODELS.items():
            build(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 7, name, family, dict(values))
