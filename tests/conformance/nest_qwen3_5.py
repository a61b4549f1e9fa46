#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Makes data/qwen3_5_moe_nested of data/qwen3_5_moe: the same weights and expected values in the layout of the published
# models that also see, with the text part's config under text_config, its tensors under model.language_model, and all
# experts of a layer in one tensor. Bytes move, no number changes.
import json
import pathlib
import re
import shutil
import struct

data = pathlib.Path(__file__).parent / "data"
source, target = data / "qwen3_5_moe", data / "qwen3_5_moe_nested"
target.mkdir(exist_ok=True)

raw = (source / "model.safetensors").read_bytes()
size = struct.unpack("<Q", raw[:8])[0]
header = json.loads(raw[8 : 8 + size])
header.pop("__metadata__", None)
stored = {
    name: (info["shape"], raw[8 + size + info["data_offsets"][0] : 8 + size + info["data_offsets"][1]])
    for name, info in header.items()
}

tensors, experts = {}, {}
for name, (shape, values) in stored.items():
    nested = re.sub(r"^model\.", "model.language_model.", name)
    match = re.fullmatch(r"(.*\.mlp\.experts\.)(\d+)\.(gate|up|down)_proj\.weight", nested)
    if match:
        experts.setdefault(match[1], {})[int(match[2]), match[3]] = (shape, values)
    else:
        tensors[nested] = (shape, values)
for prefix, parts in experts.items():
    n = 1 + max(expert for expert, _ in parts)
    d_ff, d_model = parts[0, "gate"][0]
    both = b"".join(parts[e, "gate"][1] + parts[e, "up"][1] for e in range(n))
    tensors[prefix + "gate_up_proj"] = ([n, 2 * d_ff, d_model], both)
    tensors[prefix + "down_proj"] = ([n, d_model, d_ff], b"".join(parts[e, "down"][1] for e in range(n)))

header, offset = {}, 0
for name, (shape, values) in sorted(tensors.items()):
    header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [offset, offset + len(values)]}
    offset += len(values)
text = json.dumps(header).encode()
text += b" " * (-len(text) % 8)
blob = struct.pack("<Q", len(text)) + text + b"".join(values for _, (_, values) in sorted(tensors.items()))
(target / "model.safetensors").write_bytes(blob)

config = json.loads((source / "config.json").read_text())
tied = config.pop("tie_word_embeddings")
config["rope_parameters"] |= {"mrope_interleaved": True, "mrope_section": [2, 1, 1]}
outer = {
    "architectures": ["Qwen3_5MoeForConditionalGeneration"],
    "model_type": "qwen3_5_moe",
    "text_config": config,
    "tie_word_embeddings": tied,
    "vision_config": {"depth": 2, "hidden_size": 48, "model_type": "qwen3_5_moe"},
}
(target / "config.json").write_text(json.dumps(outer, indent=2) + "\n")
for name in ("expected.json", "expected_logits.safetensors"):
    shutil.copyfile(source / name, target / name)
