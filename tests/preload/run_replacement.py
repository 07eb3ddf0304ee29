#!/usr/bin/env python3
"""Blocks of ever new sizes replace one another: kept blocks serve nearly all requests, within the bound on memory.

usage: run_replacement.py GPUMEM SHIM CUDA_DIR PROGRAM
"""

import os
import re
import subprocess
import sys

REPLACEMENTS = 15000
UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
# live blocks, smallest and largest size, how sizes are drawn, least part of the replacements that is served
ROWS = [
    (64, 1 << 10, 64 << 10, "uniform", 0.985), (256, 1 << 10, 64 << 10, "log", 0.985),
    (4096, 512, 64 << 10, "uniform", 0.985), (1024, 1 << 10, 1 << 20, "uniform", 0.985),
    (64, 1 << 10, 4 << 20, "uniform", 0.985), (256, 1 << 10, 4 << 20, "uniform", 0.985),
    (256, 1 << 10, 4 << 20, "log", 0.985), (256, (1 << 20) + 1, 4 << 20, "uniform", 0.985),
    (64, 1 << 10, 64 << 20, "uniform", 0.985), (64, 1 << 10, 64 << 20, "log", 0.985),
    (256, 1 << 10, 64 << 20, "uniform", 0.985),
]


def field(name, text):
    return re.search(rf"{name} +([\d.,]+)(?: (\w+))?", text)


def main(gpumem, shim, cuda, program):
    problems = []
    for live, low, high, how, least in ROWS:
        done = subprocess.run(
            [gpumem, "run", "--library", shim, "--policy=cache", "--", program, *map(str, (live, low, high, REPLACEMENTS, how))],
            env=os.environ | {"LD_LIBRARY_PATH": cuda, "SIMCUDA_MEMORY": "140G"}, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        native = int(re.search(r"ok native (\d+)", done.stdout)[1])
        reused = int(field("reused", done.stderr)[1].replace(",", ""))
        number, unit = field("peak reserved", done.stderr).groups()
        reserved = float(number) * UNITS[unit]
        row = f"{live} live, {low} to {high} bytes, {how}: {reused / REPLACEMENTS:.2%} served, {reserved / native:.2f} x native"
        print(row)
        if reused < least * REPLACEMENTS or reserved > 1.25 * native + (64 << 20) + high:
            problems.append(row)
    assert not problems, "\n".join(problems)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
