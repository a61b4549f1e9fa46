#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes long_text.json: logits of the last of 300 tokens by the fixture phimoe_jitter, whose longrope turns texts of
more than 256 tokens by other factors. Needs transformers and torch; values are fp32, eager attention.

transformers 5.24 asks for the frequencies of this family without the text's length, and so gets the short factors at
every length, though it takes the long text's scale; the makers' own code takes both of the long text. The length is
handed in here.
Usage: tests/conformance/make_longrope.py
"""
import functools
import json
import pathlib

import torch
from transformers import AutoModelForCausalLM

HERE = pathlib.Path(__file__).resolve().parent

model = AutoModelForCausalLM.from_pretrained(
    HERE / "data/phimoe_jitter", dtype=torch.float32, attn_implementation="eager").eval()
rotary = model.model.rotary_emb
rotary.rope_init_fn = functools.partial(rotary.rope_init_fn, seq_len=300)
ids = [i * i * 31 % 300 for i in range(300)]
with torch.no_grad():
    logits = model(torch.tensor([ids]), use_cache=False).logits[0, -1]
text = {"family": "phimoe_jitter", "ids": ids, "logits": [float(f"{value:.9g}") for value in logits]}
(HERE / "long_text.json").write_text(json.dumps(text, separators=(",", ":")) + "\n")
