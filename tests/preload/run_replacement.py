#!/usr/bin/env python3
"""Blocks of ever new sizes replace one another: kept blocks serve nearly all requests, within the bound on memory.

usage: run_replacement.py GPUMEM SHIM CUDA_DIR PROGRAM
"""

import itertools
import os
import re
import subprocess
import sys

REPLACEMENTS = 15000
UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
POLICIES = ("cache", "auto")
LEAST = 0.955  # part of the replacements that is served
# live blocks, smallest and largest size, how sizes are drawn, the number that begins them
ROWS = [
    (64, 1 << 10, 64 << 10, "uniform", 1), (256, 1 << 10, 64 << 10, "log", 1), (4096, 512, 64 << 10, "uniform", 1),
    (1024, 1 << 10, 1 << 20, "uniform", 1), (64, 1 << 10, 4 << 20, "uniform", 1), (256, 1 << 10, 4 << 20, "uniform", 1),
    (256, 1 << 10, 4 << 20, "log", 1), (256, (1 << 20) + 1, 4 << 20, "uniform", 1), (4096, 1 << 10, 4 << 20, "uniform", 1),
    (64, 512, 64 << 20, "uniform", 6), (64, 512, 64 << 20, "log", 6), (256, 512, 64 << 20, "uniform", 1), (256, 512, 64 << 20, "log", 1),
]
LATE = 24 << 20  # misses beyond the bound, before frees leave room for them


def field(name, text):
    return re.search(rf"{name} +([\d.,]+)(?: (\w+))?", text)


def main(gpumem, shim, cuda, program):
    problems = []
    for policy, (live, low, high, how, seed) in itertools.product(POLICIES, ROWS):
        done = subprocess.run(
            [gpumem, "run", "--library", shim, f"--policy={policy}", "--", program, *map(str, (live, low, high, REPLACEMENTS, how, seed))],
            env=os.environ | {"LD_LIBRARY_PATH": cuda, "SIMCUDA_MEMORY": "140G"}, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        native = int(re.search(r"ok native (\d+)", done.stdout)[1])
        reused = int(field("reused", done.stderr)[1].replace(",", ""))
        number, unit = field("peak reserved", done.stderr).groups()
        reserved = float(number) * UNITS[unit]
        row = f"{policy}: {live} live, {low} to {high} bytes, {how}: {reused / REPLACEMENTS:.2%} served, {reserved / native:.2f} x native"
        print(row)
        target = 1.25 * native + (64 << 20) if high <= 1 << 20 else 3 * native + (512 << 20)
        if reused < LEAST * REPLACEMENTS or reserved > target + LATE:
            problems.append(row)
    assert not problems, "\n".join(problems)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
