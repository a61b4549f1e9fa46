# SPDX-License-Identifier: Apache-2.0
"""The command line as scripts use it: results on standard output, one line and an exit code for what is refused.

Expected prompts, tokens and log probabilities are stored ones, computed by Hugging Face transformers.
"""
import concurrent.futures
import json
import os
import pathlib
import resource
import shutil
import socket
import struct
import subprocess
import time

import pytest
from conftest import BINARY, MODEL, PATIENCE, ROOT

GOLDEN = ROOT / "tests" / "golden"
CASES = json.loads((GOLDEN / "chat_cases.json").read_text("utf-8"))
TOKENIZER_CASES = json.loads((GOLDEN / "tokenizer_cases.json").read_text("utf-8"))
SOME = [0, 1, 5, 8, 9, 11, 22, 47]  # of CASES: a passage, Chinese, two turns, tool calls and an answer after one
SHARD = "model-00001-of-00003.safetensors"
USAGE, DATA, NOT_FOUND, UNAVAILABLE, OS, IO, CONFIG = 64, 65, 66, 69, 71, 74, 78


def colibri(*arguments, stdin=b"", env=None, **options):
    surroundings = {name: value for name, value in os.environ.items() if not name.startswith("COLIBRI_")}
    options.setdefault("stdout", subprocess.PIPE)
    return subprocess.run([BINARY, *arguments], input=stdin, stderr=subprocess.PIPE, timeout=PATIENCE, check=False,
                          env={**surroundings, **(env or {})}, **options)


def answer(*arguments, **options):
    done = colibri(*arguments, **options)
    assert done.returncode == 0, done.stderr
    return done.stdout


def json_of(*arguments, **options):
    """The one document on standard output."""
    return json.loads(answer(*arguments, "--format", "json", **options))


def refused(code, *arguments, **options):
    """The one line that says why."""
    done = colibri(*arguments, **options)
    assert done.returncode == code, (done.returncode, done.stderr)
    assert done.stderr.startswith(b"colibri: ") and done.stderr.endswith(b"\n"), done.stderr
    line = done.stderr[:-1].decode("utf-8", "replace")
    assert all(c >= " " for c in line), line
    return line


def together(call, items):
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(call, items))


def read_logits(path):
    """(shape, values) of the tensor "logits"."""
    data = path.read_bytes()
    start = 8 + struct.unpack("<Q", data[:8])[0]
    entry = json.loads(data[8:start])["logits"]
    begin, end = entry["data_offsets"]
    assert entry["dtype"] == "F32" and end - begin == len(data) - start == 4 * entry["shape"][0] * entry["shape"][1]
    return entry["shape"], struct.unpack(f"<{(end - begin) // 4}f", data[start + begin:start + end])


@pytest.fixture()
def copy(tmp_path):
    """The bundled model in symbolic links, to be damaged file by file."""
    directory = tmp_path / "copy"
    directory.mkdir()
    for file in pathlib.Path(MODEL).iterdir():
        (directory / file.name).symlink_to(file)
    return directory


def rewrite(directory, name, data):
    (directory / name).unlink(missing_ok=True)
    (directory / name).write_bytes(data if isinstance(data, bytes) else json.dumps(data).encode())


# What is right.


def test_tokenizer_both_ways():
    def both(case):
        ids = json_of("tokenize", MODEL, "--special", "--file", "-", stdin=case["text"].encode())["ids"]
        text = answer("detokenize", MODEL, "--ids", ",".join(map(str, ids))) if ids else b"\n"
        return ids, text.decode().removesuffix("\n")

    for case, got in zip(TOKENIZER_CASES, together(both, TOKENIZER_CASES)):
        assert got == (case["ids"], case["decoded"]), case["text"]


def test_perplexity():
    golden = json.loads((GOLDEN / "perplexity.json").read_text())
    got = json_of("perplexity", MODEL, str(GOLDEN / "docs_excerpt.txt"))
    assert set(got) == {"tokens", "nll", "perplexity"}
    assert got["tokens"] == golden["tokens"]
    assert got["nll"] == pytest.approx(golden["nll_fp32"], rel=1e-3)
    assert got["perplexity"] == pytest.approx(golden["ppl_fp32"], rel=1e-3)


@pytest.mark.parametrize("index", SOME)
def test_stored_answers(index, tmp_path):
    case = CASES[index]
    file = tmp_path / "messages.json"
    file.write_text(json.dumps({"messages": case["messages"], "tools": case["tools"]}))
    got = json_of("run", MODEL, "--math", "fp32", "--temperature", "0", "--messages", str(file))
    assert got["prompt_ids"] == case["prompt_ids"]
    assert got["ids"] == case["greedy_ids"]
    assert got["text"] == case["text"]
    assert got["finish_reason"] == case["finish"]
    assert got["logprobs"] == pytest.approx(case["logprobs"], abs=1e-3)
    assert len(got["logprobs"]) == len(got["ids"])
    file.write_text(json.dumps({"messages": case["messages"], "tools": case["tools"], "add_generation_prompt": True}))
    assert answer("template", MODEL, "--messages", str(file)) == case["prompt"].encode()


def test_run_schema():
    got = json_of("run", MODEL, "--prompt", "hi", "--max-tokens", "3", "--ignore-eos")
    assert list(got) == ["prompt_ids", "ids", "text", "finish_reason", "logprobs", "timings", "memory"]
    assert list(got["timings"]) == ["load_s", "ttft_ms", "prefill_tokens_per_s", "decode_tokens_per_s"]
    assert list(got["memory"]) == ["budget", "engine_peak", "rss_peak", "experts_resident", "expert_misses"]
    assert got["finish_reason"] == "length" and len(got["ids"]) == len(got["logprobs"]) == 3
    assert all(logprob <= 0 for logprob in got["logprobs"])
    assert all(value > 0 for value in got["timings"].values())
    assert got["memory"]["experts_resident"] == 256 and got["memory"]["expert_misses"] == 0
    assert got["memory"]["engine_peak"] < got["memory"]["budget"]
    assert got["memory"]["rss_peak"] < 3 * sum(f.stat().st_size for f in pathlib.Path(MODEL).iterdir())


def test_run_closing_lines():
    done = colibri("run", MODEL, "--prompt", "hi", "--max-tokens", "3")
    assert b"[colibri] MoE dispatch latency: " in done.stderr and done.stderr.endswith(b" tokens\n")


def test_seeds_and_flags():
    ask = ["run", MODEL, "--prompt", "Tell me a short story.", "--max-tokens", "40", "--temperature", "1.2"]
    assert answer(*ask, "--seed", "7") == answer(*ask, "--seed", "7")
    assert answer(*ask, "--seed", "7") != answer(*ask, "--seed", "8")
    assert json_of(*ask, "--seed", "18446744073709551615")["ids"]
    ended = json_of("run", MODEL, "--prompt", "Give the symbol for tin.", "--temperature", "0")
    assert ended["finish_reason"] == "stop" and not ended["text"].endswith("<|im_end|>")
    on = json_of("run", MODEL, "--prompt", "Give the symbol for tin.", "--temperature", "0", "--ignore-eos",
                 "--max-tokens", "30")
    assert len(on["ids"]) == 30 and on["ids"][:len(ended["ids"])] == ended["ids"]


def test_stop_strings():
    ask = ["run", MODEL, "--prompt", "Who are you?", "--temperature", "0"]
    whole = json_of(*ask)["text"]
    assert "small" in whole
    cut = json_of(*ask, "--stop", "never said", "--stop", "a small")
    assert cut["text"] == whole[:whole.index("a small")] and cut["finish_reason"] == "stop"


def test_prompts():
    said = json_of("run", MODEL, "--prompt", "hi", "--max-tokens", "1")["prompt_ids"]
    assert json_of("run", MODEL, "--prompt", "-", "--max-tokens", "1", stdin=b"hi")["prompt_ids"] == said
    with_system = json_of("run", MODEL, "--prompt", "hi", "--system", "Be short.", "--max-tokens", "1")["prompt_ids"]
    assert with_system[-len(said):] == said and len(with_system) > len(said)
    raw = json_of("run", MODEL, "--raw", "--prompt", "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n",
                  "--max-tokens", "1")["prompt_ids"]
    assert raw == said
    as_text = json_of("run", MODEL, "--prompt", "<|im_end|><|im_start|>system", "--max-tokens", "1")["prompt_ids"]
    assert as_text.count(1) == said.count(1) and as_text.count(2) == said.count(2)  # <|im_start|> and <|im_end|>
    ids = ",".join(map(str, said))
    assert json_of("run", MODEL, "--ids", ids, "--max-tokens", "1")["prompt_ids"] == said
    assert json_of("run", MODEL, "--prompt", "", "--max-tokens", "1")["prompt_ids"]
    assert json_of("run", MODEL, "--prompt", b"\xff\xfe", "--max-tokens", "1")["prompt_ids"]
    assert json_of("run", MODEL, "--prompt", "-", "--max-tokens", "1", stdin=b"nul \0 byte")["prompt_ids"]


def test_environment_and_file(tmp_path):
    ask = ["run", MODEL, "--prompt", "Tell me a short story."]
    env = {"COLIBRI_MAX_TOKENS": "3", "COLIBRI_IGNORE_EOS": "true"}
    assert len(json_of(*ask, env=env)["ids"]) == 3
    assert len(json_of(*ask, "--max-tokens", "2", env=env)["ids"]) == 2
    assert json_of("run", MODEL, "--max-tokens", "1", env={"COLIBRI_PROMPT": "hi"})["prompt_ids"]
    file = tmp_path / "colibri.toml"
    file.write_text("max-tokens = 4\nignore-eos = true\nram-budget = \"512M\"\n")
    told = json_of(*ask, "--config", str(file))
    assert len(told["ids"]) == 4 and told["memory"]["budget"] == 512 << 20
    assert len(json_of(*ask, "--config", str(file), "--max-tokens", "2")["ids"]) == 2
    assert len(json_of(*ask, "--config", str(file), env={"COLIBRI_MAX_TOKENS": "1"})["ids"]) == 1
    assert json_of(*ask, "--max-tokens", "1", "--ram-budget", "1.5G")["memory"]["budget"] == 3 << 29
    assert "--max-tokens" in refused(USAGE, *ask, env={"COLIBRI_MAX_TOKENS": "many"})
    file.write_text("max-token = 4\n")
    assert "max-token: no flag of run" in refused(CONFIG, *ask, "--config", str(file))
    file.write_text("port = 65536\n")
    assert "--port" in refused(USAGE, "--config", str(file), env={"COLIBRI_MODELS": MODEL})


def test_without_tokenizer(copy):
    (copy / "tokenizer.json").unlink()
    got = json_of("run", str(copy), "--ids", "1,373,201", "--max-tokens", "2")
    assert got["text"] is None and got["ids"]
    assert "tokenizer.json" in refused(DATA, "run", str(copy), "--prompt", "hi")
    (copy / "tokenizer.model").write_bytes(b"\n\x0e\n")
    assert "save_pretrained" in refused(DATA, "tokenize", str(copy), "--text", "hi")


def test_logits(tmp_path):
    ids = CASES[0]["prompt_ids"]
    files = [tmp_path / "cpu.safetensors", tmp_path / "reference.safetensors"]
    for device, file in zip(("cpu", "reference"), files):
        answer("logits", MODEL, "--ids", ",".join(map(str, ids)), "--device", device, "--out", str(file))
    (shape, fast), (other_shape, exact) = map(read_logits, files)
    assert shape == other_shape == [len(ids), 8192]
    assert max(abs(a - b) for a, b in zip(fast, exact)) < 1e-3
    last = fast[-8192:]
    assert last.index(max(last)) == CASES[0]["greedy_ids"][0]
    pipe = tmp_path / "pipe"  # stands for the devices that a rename would replace
    os.mkfifo(pipe)
    assert "pipe: cannot write: not a regular file" in refused(
        IO, "logits", MODEL, "--ids", "1", "--out", str(pipe))
    assert pipe.is_fifo()
    assert "--ids" in refused(DATA, "logits", MODEL, "--ids", "8192", "--out", str(tmp_path / "none"))
    assert sorted(tmp_path.iterdir()) == sorted([*files, pipe])


def test_inspect():
    start = time.monotonic()
    of_directory = json_of("inspect", MODEL)
    assert time.monotonic() - start < 1
    of_file = json_of("inspect", MODEL + "/config.json")
    assert of_directory["family"] == of_file["family"] == "qwen3_moe"
    assert of_directory["parameters"] == of_file["parameters"] == {"total": 16323840, "active": 5313792}
    assert of_directory["read_per_token"] == 5313792
    assert of_directory["bytes"] == {"BF16": 2 * 16323840}
    assert of_directory["tiers"] == of_file["tiers"] == {"dense": {"BF16": 7481856}, "experts": {"BF16": 25165824}}
    assert len(of_directory["layers"]) == 8 and of_directory["layers"][0]["experts"] == 32
    assert b"qwen3_moe" in answer("inspect", MODEL) and b"16.3 M" in answer("inspect", MODEL + "/config.json")


def test_bench_schema():
    got = json_of("bench", MODEL, "--batch", "1,2", "--prompt", "16", "--gen", "4")
    assert {"version", "commit", "command", "machine", "results"} <= set(got)
    assert {"gpu", "driver", "cpu", "cores", "read_GBps", "peaks"} <= set(got["machine"])
    assert [result["batch"] for result in got["results"]] == [1, 2]
    for result in got["results"]:
        assert {"model", "layers", "dtype", "kv_dtype", "router", "batch", "prompt", "gen", "steps", "ids_sha256",
                "decode_ms", "ttft_ms", "prefill_tokens_per_s", "prefill_flops", "peak_fraction", "experts_touched",
                "bytes_per_step", "bandwidth_GBps", "roofline_fraction"} <= set(result)
        assert set(result["decode_ms"]) == set(result["ttft_ms"]) == {"p50", "p90", "p99", "max"}
        assert result["prompt"] == 16 and result["gen"] == 4 and result["layers"] == 8
        assert result["bytes_per_step"] > 0 and result["bandwidth_GBps"] > 0
    assert len(got["results"][0]["ids_sha256"]) == 64


def test_help_teaches():
    assert answer("--version").startswith(b"colibri ")
    text = answer("--help").decode()
    commands = ["run", "chat", "serve", "logits", "tokenize", "detokenize", "template", "perplexity", "inspect", "bench"]
    assert "colibri run models/colibri-tiny --prompt" in text
    for command in commands:
        assert f"\n  {command} " in text
        assert b"MODEL" in answer(command, "--help")


def test_chat_reads_lines():
    got = colibri("chat", MODEL, "--temperature", "0", stdin=b"Who are you?\n\n/new\nWho are you?\n/quit\nnever\n")
    lines = got.stdout.decode().splitlines()
    assert got.returncode == 0 and len(lines) == 2 and lines[0] == lines[1] and "Colibri" in lines[0]
    assert "context" in refused(DATA, "chat", MODEL, stdin=b"word " * 5000)


def test_cache_of_hugging_face(tmp_path):
    hub = tmp_path / "hub"
    snapshot = hub / "models--org--tiny" / "snapshots" / "abc123"
    blobs = hub / "models--org--tiny" / "blobs"
    for directory in (snapshot, blobs, hub / "models--org--tiny" / "refs"):
        directory.mkdir(parents=True)
    for number, file in enumerate(pathlib.Path(MODEL).iterdir()):
        (blobs / str(number)).symlink_to(file)
        (snapshot / file.name).symlink_to(f"../../blobs/{number}")
    (hub / "models--org--tiny" / "refs" / "main").write_text("abc123")
    env = {"HF_HOME": str(tmp_path)}
    assert json_of("run", "org/tiny", "--prompt", "hi", "--max-tokens", "1", env=env)["ids"]
    assert "hf download org/other" in refused(NOT_FOUND, "run", "org/other", "--prompt", "hi", env=env)


def test_two_at_once_from_elsewhere(tmp_path):
    tmp_path.chmod(0o555)
    ask = ["run", MODEL, "--prompt", "hi", "--temperature", "0"]
    one, other = together(lambda _: answer(*ask, cwd=tmp_path), range(2))
    assert one == other


# What is refused.


@pytest.mark.parametrize("arguments, wanted", [
    (["nope"], "nope"),
    (["run"], "MODEL"),
    (["run", MODEL], "--prompt"),
    (["run", MODEL, "--prompt", "a", "--ids", "1"], "--ids"),
    (["run", MODEL, "--prompt", "a", "--nope"], "--nope"),
    (["run", MODEL, "--prompt", "a", "--max-tokens", "0"], "--max-tokens: '0' is no number in 1..2147483647"),
    (["run", MODEL, "--prompt", "a", "--max-tokens", "-1"], "--max-tokens"),
    (["run", MODEL, "--prompt", "a", "--max-tokens", "99999999999"], "--max-tokens"),
    (["run", MODEL, "--prompt", "a", "--seed", "-1"], "--seed"),
    (["run", MODEL, "--prompt", "a", "--seed", "18446744073709551616"], "--seed"),
    (["run", MODEL, "--prompt", "a", "--seed", "1.5"], "--seed"),
    (["run", MODEL, "--prompt", "a", "--temperature", "nan"], "--temperature"),
    (["run", MODEL, "--prompt", "a", "--temperature", ""], "--temperature"),
    (["run", MODEL, "--prompt", "a", "--temperature", "2.1"], "--temperature"),
    (["run", MODEL, "--prompt", "a", "--top-p", "0"], "--top-p"),
    (["run", MODEL, "--prompt", "a", "--top-k", "-5"], "--top-k"),
    (["run", MODEL, "--prompt", "a", "--min-p", "2"], "--min-p"),
    (["run", MODEL, "--prompt", "a", "--repetition-penalty", "1e38"], "--repetition-penalty"),
    (["run", MODEL, "--prompt", "a", "--presence-penalty", "inf"], "--presence-penalty"),
    (["run", MODEL, "--prompt", "a", "--frequency-penalty", "-3"], "--frequency-penalty"),
    (["run", MODEL, "--prompt", "a", "--ram-budget", "12X"], "--ram-budget"),
    (["run", MODEL, "--prompt", "a", "--threads", "-1"], "--threads"),
    (["run", MODEL, "--prompt", "a", "--device", "tpu"], "--device"),
    (["run", MODEL, "--ids", "1,,2"], "--ids"),
    (["run", MODEL, "--ids", "-1"], "--ids"),
    (["run", MODEL, "--ids", ""], "--ids"),
    (["serve"], "MODEL"),
    (["--port", "0"], "MODEL"),
    (["serve", MODEL, "--port", "65536"], "--port"),
    (["tokenize", MODEL], "--text"),
    (["tokenize", MODEL, "--text", "a", "--format", "xml"], "--format"),
    (["bench", MODEL, "--router", "zipf:nan"], "--router"),
    (["bench", "--synthetic", "nope"], "--synthetic"),
    (["template", MODEL, "--messages", "-", "--now", "today"], "--now"),
], ids=lambda value: " ".join(value[-2:]) if isinstance(value, list) else "")
def test_usage(arguments, wanted):
    assert wanted in refused(USAGE, *arguments)


@pytest.mark.parametrize("code, arguments, wanted", [
    (NOT_FOUND, ["run", "/nope", "--prompt", "a"], "/nope"),
    (NOT_FOUND, ["run", "", "--prompt", "a"], "MODEL"),
    (NOT_FOUND, ["run", "a/b\nc\x1b[31m", "--prompt", "a"], "a/b\\x0ac\\x1b[31m"),
    (NOT_FOUND, ["run", str(GOLDEN), "--prompt", "a"], "config.json"),
    (NOT_FOUND, ["run", MODEL, "--messages", "/nope.json"], "/nope.json"),
    (NOT_FOUND, ["run", MODEL, "--prompt", "a", "--config", "/nope.toml"], "--config: /nope.toml"),
    (NOT_FOUND, ["perplexity", MODEL, "/nope.txt"], "/nope.txt"),
    (DATA, ["run", "model.gguf", "--prompt", "a"], "safetensors"),
    (DATA, ["run", MODEL, "--ids", "8192"], "8192"),
    (DATA, ["detokenize", MODEL, "--ids", "8192"], "--ids"),
    (DATA, ["run", MODEL, "--prompt", "", "--raw"], "prompt"),
    (DATA, ["run", MODEL, "--prompt", "a", "--max-tokens", "1000000000"], "context"),
    (DATA, ["run", MODEL, "--messages", "-"], "ends too early"),
    (DATA, ["template", MODEL, "--messages", "-"], "ends too early"),
    (DATA, ["inspect", str(GOLDEN / "perplexity.json")], "model_type"),
    (UNAVAILABLE, ["run", MODEL, "--prompt", "a", "--device", "cuda"], "--device"),
    (CONFIG, ["run", MODEL, "--prompt", "a", "--ram-budget", "1K"], "--ram-budget"),
    (CONFIG, ["run", MODEL, "--prompt", "a", "--ram-budget", "40M"], "--context"),
    (CONFIG, ["serve", MODEL, "--port", "0", "--max-batch", "4096", "--ram-budget", "1G"], "--max-batch"),
    (CONFIG, ["serve", "a=" + MODEL, "b=" + MODEL, "--port", "0", "--ram-budget", "400M"], "--ram-budget"),
    (CONFIG, ["run", MODEL, "--prompt", "a", "--context", "268435456"], "--context"),
    (IO, ["logits", MODEL, "--ids", "1", "--out", "/nope/x"], "/nope/x"),
], ids=lambda value: " ".join(value[-2:]) if isinstance(value, list) else "")
def test_refusals(code, arguments, wanted):
    assert wanted in refused(code, *arguments)


def test_long_prompts():
    for text in (b"word " * 200_000, b"a" * 1_000_000):
        assert "context" in refused(DATA, "run", MODEL, "--prompt", "-", stdin=text)


def test_serve_where_no_command_is_given():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        assert "--port" in refused(OS, "serve", MODEL, "--port", port)
        assert "--port" in refused(OS, "--port", port, env={"COLIBRI_MODELS": MODEL})
        assert "--port" in refused(OS, env={"COLIBRI_MODELS": MODEL, "COLIBRI_PORT": port})
    assert colibri().returncode == USAGE


def test_nobody_reads():
    with open("/dev/full", "wb") as full:
        assert "standard output" in refused(IO, "tokenize", MODEL, "--text", "hi", stdout=full)
        assert "standard output" in refused(IO, "inspect", MODEL, "--format", "json", stdout=full)
    reader, writer = os.pipe()
    os.close(reader)
    start = time.monotonic()
    try:
        for command in (["run", MODEL, "--prompt", "Tell me a story."], ["chat", MODEL]):
            done = colibri(*command, "--ignore-eos", stdin=b"hi\n" * 100, stdout=writer)
            assert done.returncode == IO and b"standard output" in done.stderr
    finally:
        os.close(writer)
    assert time.monotonic() - start < PATIENCE / 4  # not to the end of the context


def test_closed_descriptors(tmp_path):
    out = tmp_path / "logits.safetensors"
    done = subprocess.run(["sh", "-c", '"$0" logits "$1" --ids 1,2 --out "$2" <&- >&- 2>&-', BINARY, MODEL, str(out)],
                          timeout=PATIENCE, check=False)
    assert done.returncode == 0 and read_logits(out)[0] == [2, 8192]
    done = subprocess.run(["sh", "-c", '"$0" tokenize "$1" --text hi >&-', BINARY, MODEL], capture_output=True,
                          timeout=PATIENCE, check=False)
    assert done.returncode == IO and done.stderr.count(b"\n") == 1


@pytest.mark.parametrize("limit, value, code", [
    (resource.RLIMIT_AS, 80 << 20, CONFIG), (resource.RLIMIT_NOFILE, 5, OS)], ids=["memory", "descriptors"])
def test_small_limits(limit, value, code):
    refused(code, "run", MODEL, "--prompt", "hi", preexec_fn=lambda: resource.setrlimit(limit, (value, value)))


def damaged_shard(directory, change):
    """Rewrites the header of the first shard by `change`, which may edit it or give other bytes."""
    data = (directory / SHARD).read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + length])
    written = change(header) or json.dumps(header).encode()
    rewrite(directory, SHARD, struct.pack("<Q", len(written)) + written + data[8 + length:])


def embedding(**fields):
    return lambda directory: damaged_shard(directory, lambda header: header["model.embed_tokens.weight"].update(fields))


def config(**fields):
    return lambda directory: rewrite(directory, "config.json", {**json.loads(
        (pathlib.Path(MODEL) / "config.json").read_text()), **fields})


def weights_end(pattern):
    def damage(directory):
        rewrite(directory, SHARD, (directory / SHARD).read_bytes()[:-2] + pattern)
    return damage


def replaced(name, make):
    def damage(directory):
        (directory / name).unlink()
        make(directory / name)
    return damage


def template(text):
    return lambda directory: (directory / "chat_template.jinja").write_text(text)


@pytest.mark.parametrize("damage, wanted", [
    (lambda d: rewrite(d, SHARD, (d / SHARD).read_bytes()[:-1]), SHARD),
    (lambda d: rewrite(d, SHARD, b""), SHARD),
    (lambda d: rewrite(d, SHARD, b"\xff" * 64), SHARD),
    (lambda d: (d / SHARD).unlink(), SHARD),
    (replaced(SHARD, os.mkfifo), SHARD),
    (replaced(SHARD, lambda path: path.symlink_to("/dev/zero")), SHARD),
    (replaced("config.json", os.mkdir), "config.json"),
    (lambda d: rewrite(d, "config.json", b"[" * 1_000_000), "config.json"),
    (lambda d: rewrite(d, "tokenizer.json", os.urandom(1000)), "tokenizer.json"),
    (lambda d: rewrite(d, "tokenizer_config.json", b"\0"), "tokenizer_config.json"),
    (lambda d: rewrite(d, "generation_config.json", b"{"), "generation_config.json"),
    (lambda d: rewrite(d, "model.safetensors.index.json", {"weight_map": {"a": "../x"}}), "weight_map"),
    (lambda d: rewrite(d, "model.safetensors.index.json", {"weight_map": {"a\nb": SHARD}}), SHARD),
    (embedding(dtype="F33"), "F33"),
    (embedding(shape=[1 << 32, 1 << 32]), "overflow"),
    (embedding(shape=[-1, 256]), "shape"),
    (embedding(data_offsets=[8, 0]), "data_offsets"),
    (lambda d: damaged_shard(d, lambda header: header.update({"x\n\x1b": header.popitem()[1]})), "\\x0a\\x1b"),
    (weights_end(b"\xc0\x7f"), "NaN"),
    (config(num_experts=0), "num_experts"),
    (config(num_experts=1 << 31), "num_experts"),
    (config(num_experts_per_tok=33), "num_experts_per_tok"),
    (config(num_hidden_layers=100_000), "num_hidden_layers"),
    (config(num_attention_heads=0), "num_attention_heads"),
    (config(head_dim=0), "head_dim"),
    (config(rope_theta=0), "rope_theta"),
    (config(vocab_size=8193), "[8193, 256]"),
    (config(eos_token_id=9999), "eos_token_id"),
    (config(model_type="nope"), "model_type"),
    (template("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"), "template_limit"),
    (template("{{ 'x' * 1000000000 }}"), "template_limit"),
    (template("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}"), "template_limit"),
    (template("{{ " + "(" * 10_000), "chat_template.jinja"),
    (template("{{ ''.__class__.__mro__ }}"), "__class__"),
])
def test_damaged_checkpoints(copy, damage, wanted):
    damage(copy)
    line = refused(DATA, "run", str(copy), "--prompt", "hi", "--max-tokens", "2")
    assert wanted in line
