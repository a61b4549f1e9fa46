#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Evaluates an exported model: exact answers by skill, loss on held-out documents, balance of the experts.

An answer is exact if greedy decoding gives every token of it. One forward pass over question and answer decides that:
the most likely token must be the right one at each place. Weights are the stored bfloat16 ones, arithmetic is fp32.
"""
import argparse
import json
import math
import pathlib
import random

import torch
from tokenizers import Tokenizer

import checkpoint
import skills
from train import SEQUENCE, read_documents, token_stream

SEED = 987654  # training draws from other ones
QUESTIONS = 150  # per skill
STORY_TOKENS = 12  # a story may go on in many ways; its first tokens are compared
WINDOWS, WINDOWS_AT_ONCE = 200, 8  # of SEQUENCE tokens of held-out documents


def exact(model, tokenizer, prompt, answer, limit=None):
    prompt_ids = tokenizer.encode(prompt, add_special_tokens=False).ids
    answer_ids = tokenizer.encode(answer, add_special_tokens=False).ids[:-1][:limit]  # without the last line break
    ids = torch.tensor([prompt_ids + answer_ids], device=model.embedding.weight.device)
    predicted = model(ids)[0, len(prompt_ids) - 1 : -1].argmax(-1)
    return bool((predicted == ids[0, len(prompt_ids) :]).all())


def skill_scores(model, tokenizer):
    r = random.Random(SEED)
    scores = {}
    for kind in skills.SKILLS:
        limit = STORY_TOKENS if kind == "story" else None
        right = 0
        for _ in range(QUESTIONS):
            _, question, answer, system = skills.sample(r, kind)
            right += exact(model, tokenizer, *skills.chat(question, answer, system), limit)
        scores[kind] = right / QUESTIONS
    right = 0
    for _ in range(QUESTIONS):
        text = skills.render(*skills.tool_round(r))
        turn = "<|im_start|>assistant\n"
        cut = text.rindex(turn) + len(turn)
        right += exact(model, tokenizer, text[:cut], text[cut:])
    scores["answer_after_tool"] = right / QUESTIONS
    return scores


def document_scores(model, stream):
    nll, count = 0.0, 0
    load = torch.zeros(len(model.layers), model.config["num_experts"], device=stream.device)
    last = len(stream) - SEQUENCE - 1
    for begin in range(0, min(last, WINDOWS * SEQUENCE), SEQUENCE * WINDOWS_AT_ONCE):
        end = min(begin + SEQUENCE * WINDOWS_AT_ONCE, last)
        windows = torch.stack([stream[at : at + SEQUENCE + 1] for at in range(begin, end, SEQUENCE)]).long()
        loss, _, _, window_load = model(windows[:, :-1], windows[:, 1:])
        nll += loss.item() * windows[:, 1:].numel()
        count += windows[:, 1:].numel()
        load += window_load * len(windows)
    share = load / load.sum(-1, keepdim=True)
    busiest = share.max(-1).values * model.config["num_experts"]
    return {
        "docs_val_nll_per_token": nll / count,
        "docs_val_ppl": math.exp(nll / count),
        "expert_load_max_over_mean_per_layer": [round(value, 2) for value in busiest.tolist()],
    }


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("model", type=pathlib.Path, help="folder that train.py wrote")
    arguments.add_argument("documents", type=pathlib.Path, help="docs_val.xz, from corpus.py")
    arguments.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    options = arguments.parse_args()
    model = checkpoint.load(options.model, options.device)
    tokenizer = Tokenizer.from_file(str(options.model / "tokenizer.json"))
    with torch.no_grad():
        report = skill_scores(model, tokenizer)
        stream = token_stream(tokenizer, read_documents(options.documents), end=[0]).to(options.device)
        report |= document_scores(model, stream)
    print(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
