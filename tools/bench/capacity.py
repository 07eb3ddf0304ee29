#!/usr/bin/env python3
"""Memory that fills the card: programs of random blocks (tests/fuzz/capacity), natively and under the library, with the same seeds.

usage: capacity.py [--build DIR] [--rounds N] [--steps N] [--permille N] [--policies A,B] [--seed N] [--cuda DIR] [--out FILE.json]

For each pattern of sizes and each policy: requests that failed, microseconds a pair of allocation and free, the share of requests
that a free block served, bytes that are free natively and not under the library at the end, with the same blocks live, and the largest
request that fits then. Each run draws from a new seed unless --seed names the first. --permille: how much of the card is live at most.
--cuda: folder of libcuda.so.1 to use instead of the system's (the simulated one: build/tools/sim). Prints the worst of all rounds, and
writes every round to JSON with commit, GPU and driver.
"""

import json
import pathlib
import platform
import random
import re
import sys

import common

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests/fuzz/capacity"))
from fuzz_capacity import LINE, PATTERNS  # noqa: E402

LINES = re.compile(LINE.pattern + r"\n([\d.]+) us a pair; (\d+) MiB free, (\d+) MiB at most")
REUSED = re.compile(r"reused +[\d,]+, ([\d.]+) % of the allocations")
TIME_LIMIT_S = 300
MIB = 1 << 20


def run(options, pattern, seed, policy):
    """What one program did; `policy` None: natively."""
    command = [options.build / "tests/fuzz/capacity/capacity", pattern, seed, options.steps, options.permille, "measure"]
    if policy:
        command = [options.build / "tools/gpumem", "run", "--policy", policy, "--", *command]
    done = common.completed(command, common.environment(cuda=options.cuda), TIME_LIMIT_S)
    found, reused = LINES.search(done.stdout), REUSED.search(done.stderr)
    if not found or (policy and not reused):
        raise common.Failed(f"{pattern} {seed} {policy}: {done.stdout}{done.stderr}")
    return {"pattern": pattern, "seed": seed, "policy": policy or "native", "requests": int(found[1]), "failed": int(found[2]),
            "us": float(found[5]), "free": int(found[6]) * MIB, "largest": int(found[7]) * MIB, "reused": float(reused[1]) if policy else 0.0}


def worst(runs, natives):
    """Over the rounds of one pattern and policy."""
    pairs = list(zip(runs, natives))
    return {"more failed": max(one["failed"] - native["failed"] for one, native in pairs), "us": max(one["us"] for one in runs),
            "reused": min(one["reused"] for one in runs), "lost": max(native["free"] - one["free"] for one, native in pairs),
            "largest": min(one["largest"] - native["largest"] for one, native in pairs)}


def main():
    parser = common.Parser(usage=__doc__)
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build"))
    parser.add_argument("--rounds", type=common.count, default=3)
    parser.add_argument("--steps", type=common.count, default=8000)
    parser.add_argument("--permille", type=common.count, default=930)
    parser.add_argument("--policies", default="auto,cache")
    parser.add_argument("--seed", type=common.count)
    parser.add_argument("--cuda", type=pathlib.Path)
    parser.add_argument("--out", type=common.output)
    options = parser.parse_args()
    options.build = options.build.resolve()
    first = options.seed or random.SystemRandom().randrange(1, 1 << 32)
    common.build(options.build, "tests/fuzz/capacity/capacity", "tools/gpumem")
    gpu, driver = ("simulated", None) if options.cuda else common.card()
    result = {"commit": common.commit(), "gpu": gpu, "driver": driver, "machine": platform.machine(), "permille": options.permille,
              "steps": options.steps, "runs": []}
    print(f"commit {result['commit']}, GPU {gpu}, driver {driver}; first seed {first}, {options.permille / 10} % live, worst of {options.rounds} rounds")
    print(f"{'pattern':9}{'policy':9}{'failed more':>12}{'us a pair':>11}{'natively':>10}{'reused':>9}{'MiB lost':>10}{'largest, MiB more':>19}")
    for pattern in PATTERNS:
        natives = [run(options, pattern, first + n, None) for n in range(options.rounds)]
        result["runs"] += natives
        for policy in options.policies.split(","):
            runs = [run(options, pattern, first + n, policy) for n in range(options.rounds)]
            result["runs"] += runs
            row = worst(runs, natives)
            print(f"{pattern:9}{policy:9}{row['more failed']:12}{row['us']:11.2f}{min(one['us'] for one in natives):10.2f}{row['reused']:8.1f}%"
                  f"{row['lost'] / MIB:10.0f}{row['largest'] / MIB:19.0f}", flush=True)
    if options.out:
        options.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    common.end(main, "--cuda build/tools/sim uses the simulated one")
