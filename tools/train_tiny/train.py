#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains the tokenizer and the model, and exports both in Hugging Face format.

The schedule is one of time: the learning rate is constant for the first half of the seconds given and falls linearly
after that, so a slower card makes fewer steps and still ends well.
"""
import argparse
import json
import lzma
import multiprocessing
import os
import pathlib
import random
import time

import numpy
import torch
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

import checkpoint
import skills
from corpus import SEPARATOR
from model import CONFIG, Model

SEQUENCE = 1024  # tokens
SYNTHETIC_CHARS = 5_000_000  # per part
FIRST_SEED = 100  # of the synthetic parts; evaluate.py draws from another one
DOCUMENT_SHARE = 5, 12  # of a batch; the rest is synthetic
PEAK_RATE, WARMUP_STEPS, FLOOR = 2.5e-3, 200, 0.02
BALANCE_WEIGHT, Z_WEIGHT = 0.01, 1e-4
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]  # ids 0, 1, 2
SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
START = time.monotonic()


def log(*words):
    print(f"[{time.monotonic() - START:6.1f} s]", *words, flush=True)


def read_documents(path):
    with lzma.open(path, "rt", encoding="utf-8", newline="") as file:
        return file.read().split(SEPARATOR)


def synthetic_part(seed):
    r = random.Random(seed)
    documents, chars = [], 0
    while chars < SYNTHETIC_CHARS:
        documents.append(skills.document(r))
        chars += len(documents[-1])
    return documents


def train_tokenizer(texts):
    """Byte-level BPE; digits stand alone, so that sums are done digit by digit."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(SPLIT), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ])
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=CONFIG["vocab_size"],
        special_tokens=[AddedToken(token, special=True, normalized=False) for token in SPECIAL],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def token_stream(tokenizer, texts, end=()):
    """All texts as one int32 tensor, each followed by `end`."""
    encoded = tokenizer.encode_batch(texts, add_special_tokens=False)
    return torch.from_numpy(
        numpy.concatenate([numpy.array([*each.ids, *end], numpy.uint16) for each in encoded]).astype(numpy.int32)
    )


class Batches:
    """Random windows of the two streams: (inputs, targets), both [batch, SEQUENCE]."""

    def __init__(self, documents, synthetic, size, device):
        shared, of = DOCUMENT_SHARE
        self.parts = [(documents, size * shared // of), (synthetic, size - size * shared // of)]
        self.device = device
        self.generator = torch.Generator(device=device)
        self.generator.manual_seed(1)

    def draw(self):
        windows = []
        steps = torch.arange(SEQUENCE + 1, device=self.device)
        for stream, count in self.parts:
            bound = len(stream) - SEQUENCE - 1
            begin = torch.randint(0, bound, (count, 1), generator=self.generator, device=self.device)
            windows.append(stream[begin + steps].long())
        both = torch.cat(windows)
        return both[:, :-1], both[:, 1:]


def learning_rate(step, fraction):
    """`fraction` of the time is over."""
    decay = 1 if fraction < 0.5 else max(FLOOR, 1 - (fraction - 0.5) / 0.5)
    return PEAK_RATE * min(1, (step + 1) / WARMUP_STEPS) * decay


def train(model, batches, seconds, device):
    """Runs for `seconds`, not counting the compilation in the first step. Returns (steps, [(step, loss)])."""
    matrices = [parameter for parameter in model.parameters() if parameter.ndim == 2]
    vectors = [parameter for parameter in model.parameters() if parameter.ndim < 2]
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, betas=(0.9, 0.95), fused=device == "cuda")
    run = torch.compile(model) if device == "cuda" else model
    step, begin, history = 0, None, []
    while True:
        fraction = 0 if begin is None else (time.monotonic() - begin) / seconds
        if fraction >= 1:
            return step, history
        rate = learning_rate(step, fraction)
        for group in optimizer.param_groups:
            group["lr"] = rate
        with torch.autocast(device, torch.bfloat16):
            loss, balance, z_loss, load = run(*batches.draw())
        (loss + BALANCE_WEIGHT * balance + Z_WEIGHT * z_loss).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if begin is None:
            if device == "cuda":
                torch.cuda.synchronize()
            begin = time.monotonic()
        if step % 500 == 0:
            busiest = load.max().item() * CONFIG["num_experts"] / CONFIG["num_experts_per_tok"]
            log(f"step {step} loss {loss.item():.3f} balance {balance.item():.3f} rate {rate:.1e} load {busiest:.2f}")
            history.append((step, loss.item()))
        step += 1


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("documents", type=pathlib.Path, help="docs_train.xz, from corpus.py")
    arguments.add_argument("out", type=pathlib.Path, help="folder that receives the model")
    arguments.add_argument("--seconds", type=float, default=520, help="of training (520)")
    arguments.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    arguments.add_argument("--batch", type=int, default=48, help="sequences a step (48)")
    arguments.add_argument("--synthetic-parts", type=int, default=40, help="of 5 M characters (40)")
    options = arguments.parse_args()
    torch.manual_seed(0)
    options.out.mkdir(parents=True, exist_ok=True)

    with multiprocessing.get_context("fork").Pool(max(1, os.cpu_count() - 2)) as pool:
        parts = pool.map(synthetic_part, range(FIRST_SEED, FIRST_SEED + options.synthetic_parts))
    synthetic = [document for part in parts for document in part]
    # Nothing in the documents may read as a special token.
    documents = [text.replace("<|", "< |") for text in read_documents(options.documents)]
    log(f"{len(documents)} documents, {len(synthetic)} synthetic ones")

    r = random.Random(3)
    tokenizer = train_tokenizer(
        r.sample(documents, min(5000, len(documents))) + r.sample(synthetic, min(20000, len(synthetic)))
    )
    document_stream = token_stream(tokenizer, documents, end=[0]).to(options.device)
    synthetic_stream = token_stream(tokenizer, synthetic).to(options.device)
    log(f"{len(document_stream)} tokens of documents, {len(synthetic_stream)} synthetic ones")

    model = Model(CONFIG).to(options.device)
    log(f"{sum(parameter.numel() for parameter in model.parameters())} parameters")
    batches = Batches(document_stream, synthetic_stream, options.batch, options.device)
    steps, history = train(model, batches, options.seconds, options.device)
    checkpoint.save(model, tokenizer, options.out)
    record = {"steps": steps, "tokens": steps * options.batch * SEQUENCE, "history": history}
    (options.out / "training_log.json").write_text(json.dumps(record, indent=1), encoding="utf-8")
    log(f"{steps} steps, {record['tokens']} tokens")


if __name__ == "__main__":
    main()
