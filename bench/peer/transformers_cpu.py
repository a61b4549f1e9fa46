# SPDX-License-Identifier: Apache-2.0
"""The same load as `colibri bench` through Hugging Face transformers on the CPU: a prompt, then greedy tokens.

usage: transformers_cpu.py MODEL [--prompt 512] [--gen 64] [--threads 2] [--repeat 3]
Prints one JSON line: prefill and decode tokens per second, the best of the repeats. Needs torch and transformers.
"""
import argparse
import json
import time

import torch
import transformers


def measure(model, ids, gen):
    """Seconds of the prefill, and of each decode step."""
    with torch.inference_mode():
        start = time.perf_counter()
        out = model(ids, use_cache=True, logits_to_keep=1)
        token = out.logits[:, -1:].argmax(-1)
        prefill = time.perf_counter() - start
        steps = []
        for _ in range(gen - 1):
            start = time.perf_counter()
            out = model(token, past_key_values=out.past_key_values, use_cache=True)
            token = out.logits[:, -1:].argmax(-1)
            steps.append(time.perf_counter() - start)
    return prefill, steps


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("--prompt", type=int, default=512)
    parser.add_argument("--gen", type=int, default=64)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeat", type=int, default=3)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    model = transformers.AutoModelForCausalLM.from_pretrained(args.model, dtype=torch.float32).eval()
    ids = torch.randint(0, model.config.vocab_size, (1, args.prompt), generator=torch.Generator().manual_seed(1))
    runs = [measure(model, ids, args.gen) for _ in range(args.repeat + 1)][1:]  # the first warms up
    prefill = min(run[0] for run in runs)
    step = min(sorted(run[1])[len(run[1]) // 2] for run in runs)
    print(
        json.dumps(
            {
                "transformers": transformers.__version__,
                "torch": torch.__version__,
                "threads": args.threads,
                "prefill_tokens_per_s": args.prompt / prefill,
                "decode_tokens_per_s": 1 / step,
                "decode_ms_p50": step * 1e3,
            }
        )
    )


if __name__ == "__main__":
    main()
