#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tiny random-weight checkpoints of the dense families with expected values from Hugging Face transformers in fp32.

usage: make_dense.py OUT [SEED]

OUT/<name>/ gets config.json, model.safetensors (bf16), expected_logits.safetensors (all rows of short prompts, the last
8 of long ones) and expected.json (prompts, 16 greedy tokens each with logprob and the gap to the second best).
Weights depend on the seed and the name alone. Made with transformers 5.17.0.
"""
import json
import os
import sys

import torch
import transformers
from safetensors.torch import save_file

COMMON = dict(vocab_size=320, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
              intermediate_size=96, max_position_embeddings=512, rms_norm_eps=1e-6, tie_word_embeddings=False,
              bos_token_id=1, eos_token_id=2, pad_token_id=0)
LLAMA3 = dict(rope_type="llama3", rope_theta=10000.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=64)
YARN = dict(rope_type="yarn", rope_theta=10000.0, factor=4.0, original_max_position_embeddings=128)
MODELS = {
    "llama": ("Llama", dict(COMMON, tie_word_embeddings=True, rope_parameters=LLAMA3)),
    "mistral": ("Mistral", dict(COMMON, sliding_window=24, head_dim=32)),
    "qwen2": ("Qwen2", dict(COMMON, num_hidden_layers=3, use_sliding_window=True, sliding_window=20, max_window_layers=1)),
    "qwen3": ("Qwen3", dict(COMMON, head_dim=32, attention_bias=True, rope_parameters=YARN)),
}
PROMPTS = {"one": [5], "seven": [1, 17, 250, 3, 88, 88, 319], "forty": [(i * 37 + 11) % 317 + 3 for i in range(40)],
           "long": [(i * i * 13 + i * 7 + 5) % 317 + 3 for i in range(150)]}


def randomise(model, generator):
    for name, parameter in model.named_parameters():
        noise = torch.randn(parameter.shape, generator=generator)
        if parameter.ndim >= 2:
            value = noise * (1.0 if "embed" in name else parameter.shape[-1] ** -0.5)
        elif "norm" in name:
            value = 1.0 + 0.2 * noise
        else:
            value = 0.2 * noise
        parameter.copy_(value.to(torch.bfloat16).float())


def greedy(model, ids):
    tokens, logprobs, gaps = [], [], []
    for _ in range(16):
        logits = model(torch.tensor([ids + tokens])).logits[0, -1].float()
        top = logits.topk(2)
        tokens.append(int(top.indices[0]))
        logprobs.append(float(logits.log_softmax(-1).max()))
        gaps.append(float(top.values[0] - top.values[1]))
    return {"tokens": tokens, "logprobs": logprobs, "top2_gap": gaps}


def expect(model, directory, seed):
    logits = {}
    meta = {"prompts": PROMPTS, "greedy": {}, "transformers": transformers.__version__, "seed": seed}
    for prompt, ids in PROMPTS.items():
        rows = model(torch.tensor([ids])).logits[0].float()
        assert torch.isfinite(rows).all()
        logits[prompt + ".logits"] = (rows if len(ids) <= 7 else rows[-8:]).contiguous()
        meta["greedy"][prompt] = greedy(model, ids)
    save_file(logits, os.path.join(directory, "expected_logits.safetensors"))
    with open(os.path.join(directory, "expected.json"), "w") as file:
        json.dump(meta, file)


def build(out, seed, name, family, values):
    config = getattr(transformers, family + "Config")(**values)
    config._attn_implementation = "eager"
    directory = os.path.join(out, name)
    family = getattr(transformers, family + "ForCausalLM")
    model = family(config).float().eval()
    randomise(model, torch.Generator().manual_seed(seed + sum(map(ord, name))))
    model.to(torch.bfloat16).save_pretrained(directory, safe_serialization=True)
    model = family.from_pretrained(directory, dtype=torch.float32, attn_implementation="eager").eval()
    expect(model, directory, seed)


if __name__ == "__main__":
    with torch.no_grad():
        for name, (family, values) in MODELS.items():
            build(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 7, name, family, dict(values))
