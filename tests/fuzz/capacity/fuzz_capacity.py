#!/usr/bin/env python3
"""What fits natively fits: random programs that fill the device (capacity.c), natively and under policies that place native
memory. Under the shim no more requests may fail than natively.

Each run has a new seed, which is printed. `--seed` shows one again. On a card (--card) the program runs against the real
driver."""

import argparse
import os
import pathlib
import random
import re
import subprocess
import sys
import time

TIME_LIMIT_S = 120
PATTERNS = ("large", "mixed", "small", "staying", "halves")
POLICIES = ({"GPUMEM_POLICY": "auto"}, {"GPUMEM_POLICY": "cache"}, {"GPUMEM_POLICY": "static:*->cache"},
            {"GPUMEM_POLICY": "cache", "GPUMEM_FENCE_BATCH": "1"}, {"GPUMEM_POLICY": "auto", "GPUMEM_FREE": "wait"},
            {"GPUMEM_POLICY": "observe"})
LINE = re.compile(r"(\d+) requests, (\d+) failed, the first (\d+); (\d+) MiB live")


def run(options, pattern, seed, permille, settings):
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("GPUMEM_", "SIMCUDA_")) and name != "LD_PRELOAD"}
    if not options.card:
        kept |= {"LD_LIBRARY_PATH": str(options.cuda), "SIMCUDA_MEMORY": "4G", "SIMCUDA_STREAMS": "manual" if seed % 2 else "random:1"}
    if settings:
        kept |= {"LD_PRELOAD": str(options.shim), "GPUMEM_LOG": "off", **settings}
    done = subprocess.run([str(options.program), pattern, str(seed), str(options.steps), str(permille)], env=kept, capture_output=True,
                          text=True, timeout=TIME_LIMIT_S)
    if done.returncode == 77:
        sys.exit(77)
    found = LINE.match(done.stdout)
    if done.returncode or not found:
        sys.exit(f"{pattern} {seed} {permille} {settings}: exit status {done.returncode}: {done.stdout}{done.stderr}")
    return [int(number) for number in found.groups()] + [done.stderr.strip()]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=pathlib.Path, required=True)
    parser.add_argument("--shim", type=pathlib.Path, required=True)
    parser.add_argument("--cuda", type=pathlib.Path, help="folder of the simulated driver")
    parser.add_argument("--card", action="store_true")
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--steps", type=int, default=8000)
    parser.add_argument("--seed", type=int)
    options = parser.parse_args()
    first = options.seed if options.seed is not None else random.SystemRandom().randrange(1 << 32)
    print(f"first seed {first}")
    until, seed, programs, wrong = time.monotonic() + options.seconds, first, 0, 0
    while programs == 0 or (time.monotonic() < until and options.seed is None):
        for pattern in PATTERNS:
            permille = random.Random(seed).choice((850, 900, 950, 970))
            native = run(options, pattern, seed, permille, None)
            for settings in POLICIES if options.seed is not None else random.Random(seed).sample(POLICIES, 2):
                shimmed = run(options, pattern, seed, permille, settings)
                programs += 1
                if shimmed[1] > native[1]:
                    wrong += 1
                    print(f"{pattern}, seed {seed}, {permille / 10} % live, {settings}: {shimmed[1]} of {shimmed[0]} requests fail, "
                          f"the first {shimmed[2]} with {shimmed[3]} MiB live; natively {native[1]}, with {native[3]} MiB live: {shimmed[4]}")
        seed += 1
    print(f"{programs} programs, {wrong} with more failures than natively")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
