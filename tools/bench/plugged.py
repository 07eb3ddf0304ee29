#!/usr/bin/env python3
"""PyTorch with gpumem plugged in, beside PyTorch's own allocators: a training step (programs/torch_step.py), round by round.

usage: plugged.py [--build DIR] [--rounds N] [--out FILE.json]

Each contender is a process of its own, taken in turn. Prints nanoseconds a step (least, median, most of the rounds' medians) and the
median of each round's ratio to PyTorch's own cache, and writes FILE.json (default plugged.json) with commit, card and driver. Ends with
77 without a GPU or without PyTorch; a contender that cannot run here is left out and named.
"""

import json
import os
import pathlib
import statistics
import sys

import common

HERE = pathlib.Path(__file__).resolve().parent
OWN = "own cache"
# name: (arguments of torch_step.py, environment)
CONTENDERS = {
    OWN: ([], {}),
    "own cache, expandable": ([], {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}),
    "cudaMallocAsync": ([], {"PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync"}),
    "no cache": ([], {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}),
    "plugged async": (["plugged=async"], {}),
    "plugged cache(async)": (["plugged=cache(async)"], {}),
    "plugged limit(8GiB,cache(async))": (["plugged=limit(8GiB,cache(async))"], {}),
    "pool async": (["pool=async"], {}),
}


def step(options, arguments, settings):
    core = options.build / "shim"
    folders = {"PYTHONPATH": str(HERE.parent / "python"),
               "LD_LIBRARY_PATH": ":".join(filter(None, [str(core), os.environ.get("LD_LIBRARY_PATH")]))}
    command = [sys.executable, HERE / "programs" / "torch_step.py", *arguments]
    return common.measure(command, common.environment(settings={**folders, **settings}), timeout=300)[0].median


def take(options):
    """Medians of each contender by round, and what the contenders left out said."""
    medians, missing = {}, {}
    for _ in range(options.rounds):
        for name, (arguments, settings) in CONTENDERS.items():
            if name in missing:
                continue
            try:
                medians.setdefault(name, []).append(step(options, arguments, settings))
            except common.Failed as failure:
                if name == OWN:
                    raise
                missing[name] = str(failure)
                medians.pop(name, None)
    return medians, missing


def main():
    parser = common.Parser(usage=__doc__)
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build"))
    parser.add_argument("--rounds", type=common.count, default=5)
    parser.add_argument("--out", type=common.output, default=pathlib.Path("plugged.json"))
    parser.add_argument("--commit", help="where git does not know it")
    options = parser.parse_args()
    options.build = options.build.resolve()
    gpu, driver = common.card()
    if not gpu:
        raise common.NoCard
    try:
        medians, missing = take(options)
    except common.Failed as failure:
        if "No module named" in str(failure):
            raise common.NoCard from None
        raise
    rows = []
    print(f"GPU {gpu}, driver {driver}; ns a step, least / median / most of {options.rounds} rounds")
    for name, values in medians.items():
        ratio = statistics.median(value / own for value, own in zip(values, medians[OWN]))
        rows.append({"contender": name, "min": min(values), "median": statistics.median(values), "max": max(values), "ratio": ratio})
        print(f"  {name:34}{min(values):12.0f} / {statistics.median(values):10.0f} / {max(values):10.0f}   {ratio:5.2f} x")
    for name, why in missing.items():
        print(f"  {name:34}left out: {why}")
    result = {"commit": options.commit or common.commit(), "gpu": gpu, "driver": driver, "rounds": options.rounds,
              "unit": "ns a training step", "rows": rows, "missing": missing}
    options.out.write_text(json.dumps(result, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    common.end(main, "PyTorch and a GPU are needed")
