# SPDX-License-Identifier: Apache-2.0
"""Writes and reads the model in the Hugging Face format of Qwen3-MoE: bfloat16 shards, an index, configuration.

Invariant: `tensors` gives views of the model's own parameters under their published names, so the same table serves
writing and reading.
"""
import json
import pathlib

import torch
from safetensors.torch import load_file, save_file

from model import CONFIG, MAX_POSITIONS, Model

SHARD_BYTES = 14 << 20  # a shard is closed behind so many bytes
HERE = pathlib.Path(__file__).resolve().parent


def tensors(model):
    """{published name: view of a parameter}."""
    width = model.config["moe_intermediate_size"]
    named = {"model.embed_tokens.weight": model.embedding.weight, "model.norm.weight": model.norm.weight}
    for number, layer in enumerate(model.layers):
        prefix = f"model.layers.{number}."
        for name, module in (
            ("self_attn.q_proj", layer.q),
            ("self_attn.k_proj", layer.k),
            ("self_attn.v_proj", layer.v),
            ("self_attn.o_proj", layer.o),
            ("self_attn.q_norm", layer.q_norm),
            ("self_attn.k_norm", layer.k_norm),
            ("input_layernorm", layer.input_norm),
            ("post_attention_layernorm", layer.post_norm),
            ("mlp.gate", layer.router),
        ):
            named[f"{prefix}{name}.weight"] = module.weight
        for expert in range(model.config["num_experts"]):
            rows = slice(expert * width, (expert + 1) * width)
            named[f"{prefix}mlp.experts.{expert}.gate_proj.weight"] = layer.gate.weight[rows]
            named[f"{prefix}mlp.experts.{expert}.up_proj.weight"] = layer.up.weight[rows]
            named[f"{prefix}mlp.experts.{expert}.down_proj.weight"] = layer.down.weight[:, rows]
    return named


def write_json(path, value):
    path.write_text(json.dumps(value, indent=1, ensure_ascii=False), encoding="utf-8")


def save(model, tokenizer, folder):
    shards, current, size = [], {}, 0
    for name, tensor in tensors(model).items():
        if size > SHARD_BYTES:
            shards.append(current)
            current, size = {}, 0
        current[name] = tensor.detach().to(torch.bfloat16).cpu().contiguous()
        size += tensor.numel() * 2
    shards.append(current)
    weight_map = {}
    for number, shard in enumerate(shards, 1):
        file = f"model-{number:05d}-of-{len(shards):05d}.safetensors"
        save_file(shard, folder / file, metadata={"format": "pt"})
        weight_map.update(dict.fromkeys(shard, file))
    total = sum(tensor.numel() * 2 for shard in shards for tensor in shard.values())
    write_json(folder / "model.safetensors.index.json", {"metadata": {"total_size": total}, "weight_map": weight_map})
    config = CONFIG | {
        "architectures": ["Qwen3MoeForCausalLM"],
        "model_type": "qwen3_moe",
        "attention_bias": False,
        "attention_dropout": 0.0,
        "bos_token_id": None,
        "eos_token_id": 2,
        "pad_token_id": 0,
        "decoder_sparse_step": 1,
        "hidden_act": "silu",
        "initializer_range": 0.02,
        "intermediate_size": 256,
        "max_position_embeddings": MAX_POSITIONS,
        "mlp_only_layers": [],
        "norm_topk_prob": True,
        "output_router_logits": False,
        "router_aux_loss_coef": 0.01,
        "rope_scaling": None,
        "sliding_window": None,
        "use_sliding_window": False,
        "tie_word_embeddings": True,
        "torch_dtype": "bfloat16",
        "use_cache": True,
    }
    write_json(folder / "config.json", config)
    tokenizer.save(str(folder / "tokenizer.json"))
    tokenizer_config = {
        "tokenizer_class": "Qwen2TokenizerFast",
        "model_max_length": MAX_POSITIONS,
        "bos_token": None,
        "eos_token": "<|im_end|>",
        "pad_token": "<|endoftext|>",
        "unk_token": None,
        "add_prefix_space": False,
        "clean_up_tokenization_spaces": False,
        "chat_template": (HERE / "chat_template.jinja").read_text(encoding="utf-8"),
    }
    write_json(folder / "tokenizer_config.json", tokenizer_config)
    generation = {
        "eos_token_id": [2, 0],
        "pad_token_id": 0,
        "do_sample": True,
        "temperature": 0.7,
        "top_p": 0.9,
        "top_k": 40,
    }
    write_json(folder / "generation_config.json", generation)


def load(folder, device):
    """The exported model in fp32."""
    model = Model(CONFIG)
    stored = {}
    for shard in sorted(folder.glob("model-*.safetensors")):
        stored.update(load_file(shard))
    with torch.no_grad():
        for name, tensor in tensors(model).items():
            tensor.copy_(stored[name].float())
    return model.to(device)
