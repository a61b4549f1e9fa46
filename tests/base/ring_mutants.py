#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Breaks the ring and the doorbell in one place each and wants ring_search_test to notice.

Each mutant is a replacement in the true headers; the search is compiled against the changed copy and must fail. An
order that can be weakened without being caught is not needed, and a search that misses one is worth nothing.
Usage: tests/base/ring_mutants.py [NAME...]; needs g++ and GoogleTest.
"""
import concurrent.futures
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
SEARCH = ROOT / "tests/base/ring_search_test.cpp"
ACQUIRE, RELEASE, RELAXED = (f"std::memory_order_{order}" for order in ("acquire", "release", "relaxed"))

# name: (header, text, what stands in its place)
MUTANTS = {
    "push looks at the cell relaxed": (
        "ring.h", f"= cell.sequence.load({ACQUIRE})", f"= cell.sequence.load({RELAXED})"),
    "push publishes relaxed": (
        "ring.h", f"store(wrapped(position + 1), {RELEASE})", f"store(wrapped(position + 1), {RELAXED})"),
    "push publishes before it writes": (
        "ring.h",
        f"cell.value = std::move(value);\n          cell.sequence.store(wrapped(position + 1), {RELEASE});",
        f"cell.sequence.store(wrapped(position + 1), {RELEASE});\n          cell.value = std::move(value);"),
    "pop looks at the cell relaxed": (
        "ring.h", f"if (cell.sequence.load({ACQUIRE})", f"if (cell.sequence.load({RELAXED})"),
    "pop frees the cell relaxed": (
        "ring.h", f"store(wrapped(head_ + capacity()), {RELEASE})", f"store(wrapped(head_ + capacity()), {RELAXED})"),
    "pop frees the cell before it reads": (
        "ring.h",
        "std::optional<T> value(std::move(cell.value));\n    cell.value = T();\n"
        f"    cell.sequence.store(wrapped(head_ + capacity()), {RELEASE});",
        f"cell.sequence.store(wrapped(head_ + capacity()), {RELEASE});\n"
        "    std::optional<T> value(std::move(cell.value));\n    cell.value = T();"),
    "capacity is off by one": ("ring.h", "wrapped(head_ + capacity())", "wrapped(head_ + capacity() - 1)"),
    "a full ring is overwritten": ("ring.h", "if (sequence == position) {", "if (sequence != position + 1) {"),
    "the claim is not atomic": (
        "ring.h", f"if (tail_.compare_exchange_weak(position, wrapped(position + 1), {RELAXED})) {{",
        f"tail_.store(wrapped(position + 1), {RELAXED});\n        {{"),
    "close forgets what was claimed": ("ring.h", f"tail_.fetch_or(kClosed, {RELAXED})",
                                       f"tail_.store(kClosed, {RELAXED})"),
    "push does not see close": ("ring.h", "if ((position & kClosed) != 0) return Push::closed;", ""),
    "positions do not wrap": ("ring.h", "{ return position & ~kClosed; }", "{ return position; }"),
    "drained looks at close alone": ("ring.h", "== (head_ | kClosed)", ">= kClosed"),
    "the ringer has no fence": ("doorbell.h", "void ring() {\n    Memory::fence();", "void ring() {"),
    "the sleeper has no fence": (
        "doorbell.h", f"store(true, {RELAXED});\n    Memory::fence();", f"store(true, {RELAXED});"),
    "the sleeper does not look again": ("doorbell.h", "if (!ready()) event_.wait();", "event_.wait();"),
    "the sleeper looks before it says so": (
        "doorbell.h",
        f"asleep_.store(true, {RELAXED});\n    Memory::fence();\n    if (!ready()) event_.wait();",
        f"if (ready()) return;\n    asleep_.store(true, {RELAXED});\n    Memory::fence();\n    event_.wait();"),
}


def caught(name: str) -> str:
    """How the search ended: "caught", or what went wrong with the mutant."""
    header, text, replacement = MUTANTS[name]
    source = (ROOT / "src/base" / header).read_text()
    if source.count(text) != 1:
        return f"src/base/{header} holds its text {source.count(text)} times"
    with tempfile.TemporaryDirectory() as folder:
        mutated = pathlib.Path(folder) / "base" / header
        mutated.parent.mkdir()
        mutated.write_text(source.replace(text, replacement))
        program = pathlib.Path(folder) / "search"
        build = subprocess.run(
            ["g++", "-std=c++20", "-O1", f"-I{folder}", f"-I{ROOT}/src", f"-I{ROOT}/tests", SEARCH,
             ROOT / "src/base/event.cpp", ROOT / "src/base/check.cpp", "-lgtest", "-lgtest_main", "-o", program],
            capture_output=True, text=True, check=False)
        if build.returncode != 0:
            return "does not compile: " + build.stderr[:400]
        try:
            run = subprocess.run([program, "--gtest_fail_fast"], capture_output=True, timeout=300, check=False)
        except subprocess.TimeoutExpired:
            return "caught"  # some order never ends
        return "caught" if run.returncode != 0 else "not caught"


def main() -> int:
    names = sys.argv[1:] or list(MUTANTS)
    bad = 0
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for name, outcome in zip(names, pool.map(caught, names)):
            print(f"{name}: {outcome}", flush=True)
            bad += outcome != "caught"
    print(f"{len(names) - bad} of {len(names)} mutants caught")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
