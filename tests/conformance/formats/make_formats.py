#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tiny random-weight checkpoints in the published weight formats, with expected values that owe nothing to our C++.

usage: make_formats.py OUT [SEED]

OUT/<name>/ gets config.json with its quantization_config, model.safetensors as its producers lay it out,
expected_logits.safetensors and expected.json: prompts and for each encoded weight the SHA-256 of its
values in bf16, row by row. Weights are decoded here in fp32 by the formats' public descriptions and rounded once to
bf16; logits are those of transformers in fp32 with these. Made with transformers 5.24.0.
"""
import hashlib
import json
import os
import sys
import tempfile

import torch
import transformers
from safetensors.torch import load_file, save_file

E2M1 = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])
AWQ_ORDER = [0, 2, 4, 6, 1, 3, 5, 7]  # the outputs of a word, from its lowest bits on
PROMPTS = {"seven": [1, 17, 25, 3, 38, 38, 47], "forty": [(i * 37 + 11) % 44 + 3 for i in range(40)]}
FP8 = torch.float8_e4m3fn


def pack_words(numbers, bits, dim):
    """Unsigned numbers along `dim` to int32, the first in the lowest bits, padded with zeros."""
    numbers = numbers.movedim(dim, -1).to(torch.int64)
    per = 32 // bits
    numbers = torch.nn.functional.pad(numbers, (0, -numbers.shape[-1] % per)).unflatten(-1, (-1, per))
    words = (numbers << (torch.arange(per) * bits)).sum(-1)
    return torch.where(words >= 2**31, words - 2**32, words).to(torch.int32).movedim(-1, dim).contiguous()


def spread(scales, block, like):
    """[..., rows / block[0], cols / block[1]] to the shape of `like`; last blocks may be short."""
    wide = scales.repeat_interleave(block[0], -2).repeat_interleave(block[1], -1)
    return wide[..., : like.shape[-2], : like.shape[-1]]


def block_peaks(weight, block):
    rows, cols = weight.shape[-2:]
    padded = torch.nn.functional.pad(weight.abs(), (0, -cols % block[1], 0, -rows % block[0]))
    return padded.unflatten(-1, (-1, block[1])).unflatten(-3, (-1, block[0])).amax((-3, -1))


def whole(weight):
    return list(weight.shape[-2:])


def to_fp8(weight, block, scale_type=torch.float32):
    scales = (block_peaks(weight, block) / 448).to(scale_type)
    codes = (weight / spread(scales.float(), block, weight)).clamp(-448, 448).to(FP8)
    return codes, scales, codes.float() * spread(scales.float(), block, weight)


def to_integers(weight, group, bits, zeros, scale_type):
    """Codes [rows, cols], scales and zeros [rows, groups]; `zeros` says at which code a group's zero lies."""
    scales = (block_peaks(weight, (1, group)) / 2 ** (bits - 1)).to(scale_type)
    wide_zeros = spread(zeros, (1, group), weight)
    wide_scales = spread(scales.float(), (1, group), weight)
    codes = (torch.round(weight / wide_scales) + wide_zeros).clamp(0, 2**bits - 1)
    return codes, scales, (codes - wide_zeros) * wide_scales


def to_e2m1(weight, scales, group):
    wide = spread(scales, (1, group), weight)
    codes = (weight / wide).unsqueeze(-1).sub(E2M1).abs().argmin(-1)
    packed = (codes[..., 0::2] | codes[..., 1::2] << 4).to(torch.uint8)
    return packed, E2M1[codes] * wide


def e8m0(weight, group):
    exponents = torch.floor(torch.log2(block_peaks(weight, (1, group)))) - 2
    return (exponents + 127).to(torch.uint8), torch.exp2(exponents)


class Format:
    """config and weight(name, values): the tensors that hold one weight, and its decoded values."""

    def __init__(self, config, weight, skip=(), extra=lambda names: {}):
        self.config, self.weight, self.skip, self.extra = config, weight, skip, extra


def random(name):
    return torch.Generator().manual_seed(sum(map(ord, name)))


def fp8_blocks(scale_type):
    def weight(name, w):
        codes, scales, values = to_fp8(w, (128, 128), scale_type)
        return {name: codes, name + "_scale_inv": scales}, values
    return weight


def fp8_tensor(name, w):
    codes, scales, values = to_fp8(w, whole(w))
    return {name: codes, name + "_scale": scales.squeeze(), name.replace("weight", "input_scale"): torch.tensor(0.5)}, values


def gptq(bits, group, ordered, symmetric, zeros_minus):
    def weight(name, w):
        base, cols = name.removesuffix(".weight"), w.shape[1]
        size = cols if group == -1 else group
        index = torch.arange(cols) // size
        if ordered:
            index = index[torch.randperm(cols, generator=random(name))]
        order = torch.argsort(index, stable=True)
        shape = (w.shape[0], cols // size)
        zeros = torch.full(shape, 2.0 ** (bits - 1)) if symmetric else torch.randint(
            0, 2**bits, shape, generator=random(name)).float()
        codes, scales, values = to_integers(w[:, order], size, bits, zeros, torch.float16)
        back = torch.argsort(order)
        stored_zeros = (zeros.long() - zeros_minus) % 2**bits
        return {base + ".qweight": pack_words(codes[:, back].T, bits, 0), base + ".scales": scales.T.contiguous(),
                base + ".qzeros": pack_words(stored_zeros.T, bits, 1), base + ".g_idx": index.int()}, values[:, back]
    return weight


def awq(name, w):
    base = name.removesuffix(".weight")
    zeros = torch.randint(0, 16, (w.shape[0], w.shape[1] // 32), generator=random(name)).float()
    codes, scales, values = to_integers(w, 32, 4, zeros, torch.float16)
    pack = lambda numbers: pack_words(numbers.T.unflatten(-1, (-1, 8))[..., AWQ_ORDER].flatten(-2), 4, 1)
    return {base + ".qweight": pack(codes), base + ".qzeros": pack(zeros), base + ".scales": scales.T.contiguous()}, values


def packed(bits, group, symmetric, ordered=False):
    def weight(name, w):
        cols = w.shape[1]
        size = group or cols
        zeros = torch.full((w.shape[0], cols // size), 2.0 ** (bits - 1)) if symmetric else torch.randint(
            0, 2**bits, (w.shape[0], cols // size), generator=random(name)).float()
        index = torch.arange(cols) // size
        if ordered:
            index = index[torch.randperm(cols, generator=random(name))]
        order = torch.argsort(index, stable=True)
        back = torch.argsort(order)
        codes, scales, values = to_integers(w[:, order], size, bits, zeros, torch.bfloat16)
        tensors = {name + "_packed": pack_words(codes[:, back], bits, 1), name + "_scale": scales,
                   name + "_shape": torch.tensor(w.shape)}
        if not symmetric:
            tensors[name + "_zero_point"] = pack_words(zeros, bits, 0)
        if ordered:
            tensors[name + "_g_idx"] = index.int()
        return tensors, values[:, back]
    return weight


def fp8_channel(name, w):
    codes, scales, values = to_fp8(w, (1, w.shape[1]), torch.bfloat16)
    return {name: codes, name + "_scale": scales}, values


def int8_channel(name, w):
    scales = (w.abs().amax(1, keepdim=True) / 127).to(torch.bfloat16)
    codes = torch.round(w / scales.float()).clamp(-128, 127).to(torch.int8)
    return {name: codes, name + "_scale": scales}, codes.float() * scales.float()


def mixed(name, w):
    if "self_attn" not in name:
        return packed(4, 64, True)(name, w) if w.shape[1] % 64 == 0 else packed(4, 32, True)(name, w)
    codes, scales, values = to_fp8(w, (48, 32), torch.bfloat16)
    return {name: codes, name + "_scale": scales}, values


def nvfp4_compressed(name, w):
    factor = 448 * 6 / w.abs().max()
    scales = (block_peaks(w, (1, 16)) / 6 * factor).to(FP8)
    codes, values = to_e2m1(w, scales.float() / factor, 16)
    return {name + "_packed": codes, name + "_scale": scales, name + "_global_scale": factor.reshape(1),
            name.replace("weight", "input_global_scale"): torch.tensor([3.0])}, values


def mxfp4_compressed(name, w):
    stored, scales = e8m0(w, 32)
    codes, values = to_e2m1(w, scales, 32)
    return {name + "_packed": codes, name + "_scale": stored}, values


def modelopt(name, w):
    if "self_attn" in name:
        return fp8_tensor(name, w)
    factor = w.abs().max() / (448 * 6)
    scales = (block_peaks(w, (1, 16)) / 6 / factor).to(FP8)
    codes, values = to_e2m1(w, scales.float() * factor, 16)
    return {name: codes, name + "_scale": scales, name + "_scale_2": factor,
            name.replace("weight", "input_scale"): torch.tensor(0.25)}, values


def mxfp4(name, w):
    """Experts are [inputs, outputs] in plain files and [outputs, inputs] here; `values` are as in plain files."""
    by_output = w.transpose(1, 2).contiguous()
    stored, scales = e8m0(by_output, 32)
    codes, values = to_e2m1(by_output, scales, 32)
    blocks = codes.unflatten(-1, (-1, 16))
    theirs = transformers.integrations.mxfp4.convert_moe_packed_tensors(blocks, stored)
    assert torch.equal(theirs.float(), values.transpose(1, 2)), "transformers decodes MXFP4 otherwise"
    return {name + "_blocks": blocks, name + "_scales": stored}, values.transpose(1, 2)


def compressed(layout, *groups):
    return {"quant_method": "compressed-tensors", "format": layout, "ignore": ["lm_head", "re:.*mlp.gate$"],
            "quantization_status": "compressed", "config_groups": {
                f"group_{i}": {"format": kind, "targets": [target], "weights": weights}
                for i, (kind, target, weights) in enumerate(groups)}}


def weights(bits, kind, strategy, **more):
    return {"num_bits": bits, "type": kind, "strategy": strategy, "symmetric": True, "dynamic": False, **more}


def cache_scales(names):
    layer = "model.layers.0.self_attn."
    return {layer + "k_scale": torch.tensor(0.5), layer + "v_scale": torch.tensor(2.0)}


FP8_CONFIG = {"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic", "weight_block_size": [128, 128]}
MIXED = compressed("mixed-precision",
                   ("float-quantized", "re:.*self_attn.*", weights(8, "float", "block", block_structure=[48, 32])),
                   ("pack-quantized", "re:.*experts.*", weights(4, "int", "group", group_size=64)),
                   ("pack-quantized", "re:.*down_proj", weights(4, "int", "group", group_size=32)))

BASE = dict(vocab_size=48, hidden_size=64, num_hidden_layers=1, num_attention_heads=4, num_key_value_heads=2, head_dim=16,
            intermediate_size=96, max_position_embeddings=128, tie_word_embeddings=True, bos_token_id=1, eos_token_id=2,
            pad_token_id=0)
QWEN = dict(BASE, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=32, mlp_only_layers=[])
MIXTRAL = dict(BASE, num_local_experts=3, num_experts_per_tok=2, intermediate_size=32)
MLA = dict(BASE, hidden_size=48, num_hidden_layers=2, num_key_value_heads=4, intermediate_size=64, q_lora_rank=24,
           kv_lora_rank=32, qk_nope_head_dim=24, qk_rope_head_dim=16, v_head_dim=24, n_routed_experts=4,
           num_experts_per_tok=2, n_shared_experts=1, moe_intermediate_size=32, n_group=2, topk_group=1,
           first_k_dense_replace=1, routed_scaling_factor=1.5)
GPT_OSS = dict(BASE, num_local_experts=3, num_experts_per_tok=2, intermediate_size=32, sliding_window=24, head_dim=16)
GRANITE = dict(BASE, hidden_size=32, num_local_experts=3, num_experts_per_tok=2, intermediate_size=80)

MODELS = {
    "fp8": ("Qwen3Moe", dict(QWEN, hidden_size=160, num_experts=3), Format(FP8_CONFIG, fp8_blocks(torch.bfloat16))),
    "fp8_latent": ("DeepseekV3", MLA, Format(FP8_CONFIG, fp8_blocks(torch.float32))),
    "fp8_fused": ("GraniteMoe", GRANITE, Format(FP8_CONFIG, fp8_blocks(torch.float32))),
    "fp8_tensor": ("Mixtral", MIXTRAL, Format({"quant_method": "fp8", "activation_scheme": "static"}, fp8_tensor)),
    "mxfp4": ("GptOss", GPT_OSS, Format({"quant_method": "mxfp4", "modules_to_not_convert": ["lm_head"]}, mxfp4,
                                        skip=("self_attn",))),
    "gptq": ("Qwen3Moe", QWEN, Format({"quant_method": "gptq", "bits": 4, "group_size": 32, "desc_act": True, "sym": False},
                                      gptq(4, 32, True, False, 1))),
    "gptq_v2": ("Llama", BASE, Format({"quant_method": "gptq", "bits": 8, "group_size": -1, "desc_act": False, "sym": True,
                                       "checkpoint_format": "gptq_v2"}, gptq(8, -1, False, True, 0))),
    "awq": ("Mixtral", MIXTRAL, Format({"quant_method": "awq", "bits": 4, "group_size": 32, "version": "gemm",
                                        "zero_point": True, "modules_to_not_convert": ["gate"]}, awq)),
    "compressed_int4": ("Qwen3Moe", QWEN, Format(
        compressed("pack-quantized", ("pack-quantized", "Linear",
                                      weights(4, "int", "group", group_size=32, symmetric=False, actorder="group"))),
        packed(4, 32, False, True))),
    "compressed_int8": ("Llama", BASE, Format(
        compressed("pack-quantized", ("pack-quantized", "Linear", weights(8, "int", "channel"))), packed(8, 0, True))),
    "compressed_fp8": ("Llama", BASE, Format(
        compressed("float-quantized", ("float-quantized", "Linear", weights(8, "float", "channel"))), fp8_channel,
        extra=cache_scales)),
    "compressed_int8_plain": ("Llama", BASE, Format(
        compressed("int-quantized", ("int-quantized", "Linear", weights(8, "int", "channel"))), int8_channel)),
    "compressed_mixed": ("Qwen3Moe", QWEN, Format(MIXED, mixed)),
    "compressed_nvfp4": ("Llama", BASE, Format(
        compressed("nvfp4-pack-quantized", ("nvfp4-pack-quantized", "Linear",
                                            weights(4, "float", "tensor_group", group_size=16))), nvfp4_compressed)),
    "compressed_mxfp4": ("Llama", BASE, Format(
        compressed("mxfp4-pack-quantized", ("mxfp4-pack-quantized", "Linear",
                                            weights(4, "float", "group", group_size=32))), mxfp4_compressed)),
    "modelopt": ("Qwen3Moe", QWEN, Format({"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION"}, modelopt,
                                          extra=cache_scales)),
}


def is_encoded(name, values, skip):
    router = name.endswith((".gate.weight", ".router.weight", ".router.layer.weight"))
    return (values.ndim > 1 and not name.endswith("_bias") and not router and "embed_tokens" not in name and
            "lm_head" not in name and not any(part in name for part in skip))


def randomise(model, generator):
    for name, parameter in model.named_parameters():
        noise = torch.randn(parameter.shape, generator=generator)
        scale = 1.0 if "embed" in name else 0.2 if parameter.ndim < 2 else parameter.shape[-1] ** -0.5
        parameter.copy_((noise * scale + (1.0 if "norm" in name else 0.0)).to(torch.bfloat16).float())


def build(out, seed, name, family, values, form):
    directory = os.path.join(out, name)
    os.makedirs(directory, exist_ok=True)
    config = getattr(transformers, family + "Config")(**values)
    config._attn_implementation = "eager"
    Model = getattr(transformers, family + "ForCausalLM")
    model = Model(config).float().eval()
    randomise(model, torch.Generator().manual_seed(seed + sum(map(ord, name))))
    stored, hashes = {}, {}
    with tempfile.TemporaryDirectory() as plain:
        model.to(torch.bfloat16).save_pretrained(plain)
        tensors = load_file(os.path.join(plain, "model.safetensors"))
        for tensor, data in tensors.items():
            if not is_encoded(tensor, data, form.skip):
                stored[tensor] = data
                continue
            parts, decoded = form.weight(tensor, data.float())
            stored |= parts
            tensors[tensor] = decoded.to(torch.bfloat16).contiguous()
            rows = tensors[tensor].transpose(1, 2).contiguous() if form.weight is mxfp4 else tensors[tensor]
            hashes[tensor] = hashlib.sha256(rows.view(torch.uint8).numpy().tobytes()).hexdigest()
        save_file(tensors, os.path.join(plain, "model.safetensors"), metadata={"format": "pt"})
        save_file(stored | form.extra(stored), os.path.join(directory, "model.safetensors"), metadata={"format": "pt"})
        with open(os.path.join(plain, "config.json")) as file:
            settings = json.load(file)
        with open(os.path.join(directory, "config.json"), "w") as file:
            json.dump(settings | {"quantization_config": form.config}, file, indent=1)
        model = Model.from_pretrained(plain, dtype=torch.float32, attn_implementation="eager").eval()
    logits = {}
    for prompt, ids in PROMPTS.items():
        rows = model(torch.tensor([ids])).logits[0].float()
        assert torch.isfinite(rows).all()
        logits[prompt + ".logits"] = rows[-8:].contiguous()
    save_file(logits, os.path.join(directory, "expected_logits.safetensors"))
    with open(os.path.join(directory, "expected.json"), "w") as file:
        json.dump({"prompts": PROMPTS, "weights": hashes}, file)


if __name__ == "__main__":
    with torch.no_grad():
        for name, (family, values, form) in MODELS.items():
            build(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 7, name, family, dict(values), form)
