#!/usr/bin/env python3
"""What GPUMEM_GUARD costs: a PyTorch training step without PyTorch's cache (programs/torch_step.py), and pairs of cudaMalloc and
cudaFree on an idle card, round by round.

usage: guard.py [--build DIR] [--rounds N] [--subjects NAME,...] [--out FILE.json]

NAME: steps, deep (a step with more allocations), pairs; default all. Each contender is a process of its own, taken in turn: native,
then the library under policy observe with one of 1000 blocks guarded, and with all. Says each measure on standard error at once.
Prints microseconds (least, median, most of the rounds' medians) and the median of each round's ratio to native, and writes FILE.json
(default guard.json) with commit, card and driver. Ends with 77 without a GPU; without PyTorch the steps are left out.
"""

import argparse
import json
import pathlib
import statistics
import sys

import common

HERE = pathlib.Path(__file__).resolve().parent
CONTENDERS = {
    "native": None,
    "guard 1/1000": {"GPUMEM_GUARD": "1/1000"},
    "guard all": {"GPUMEM_GUARD": "all"},
}
UNCACHED = {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
STEP = [sys.executable, HERE / "programs" / "torch_step.py"]


def subjects(build):
    """name: (command, environment)"""
    pairs = [build / "tools" / "bench" / "alloc", "--rows", "pair:4096,pair:1048576,pair:67108864", "--samples", "15"]
    return {"steps": (STEP, UNCACHED), "deep": ([*STEP, "deep"], UNCACHED), "pairs": (pairs, {})}


def lines_of(options, command, settings, guard):
    shim = None if guard is None else options.build / "shim" / "libgpumem.so"
    more = {} if guard is None else {"GPUMEM_POLICY": "observe", **guard}
    return common.measure(command, common.environment(shim, {**settings, **more}), timeout=300)


def names(text):
    """Type of an option: subjects."""
    for name in text.split(","):
        if name not in subjects(pathlib.Path()):
            raise argparse.ArgumentTypeError(f"'{name}' is not one of {', '.join(subjects(pathlib.Path()))}")
    return text.split(",")


def take(options):
    """Medians by row and contender, and the subjects left out."""
    medians, missing = {}, {}
    for _ in range(options.rounds):
        for subject, contender in ((subject, contender) for subject in options.subjects for contender in CONTENDERS):
            if subject in missing:
                continue
            command, settings = subjects(options.build)[subject]
            try:
                for line in lines_of(options, command, settings, CONTENDERS[contender]):
                    row = "deep-" + line.name if subject == "deep" else line.name
                    medians.setdefault(row, {}).setdefault(contender, []).append(line.median / 1000)
                    print(f"{row} {contender}: {line.median / 1000:.1f} us", file=sys.stderr, flush=True)
            except common.Failed as failure:
                if "No module named" not in str(failure):
                    raise
                missing[subject] = str(failure)
    return medians, missing


def main():
    parser = common.Parser(usage=__doc__)
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build"))
    parser.add_argument("--rounds", type=common.count, default=7)
    parser.add_argument("--subjects", type=names, default=list(subjects(pathlib.Path())))
    parser.add_argument("--out", type=common.output, default=pathlib.Path("guard.json"))
    parser.add_argument("--commit", help="where git does not know it")
    options = parser.parse_args()
    options.build = options.build.resolve()
    gpu, driver = common.card()
    if not gpu:
        raise common.NoCard
    medians, missing = take(options)
    rows = []
    print(f"GPU {gpu}, driver {driver}; us, least / median / most of {options.rounds} rounds, and the ratio to native")
    for row, contenders in medians.items():
        for name, values in contenders.items():
            ratio = statistics.median(value / native for value, native in zip(values, contenders["native"]))
            rows.append({"row": row, "contender": name, "min": min(values), "median": statistics.median(values), "max": max(values), "ratio": ratio})
            print(f"  {row:16} {name:14}{min(values):10.1f} / {statistics.median(values):10.1f} / {max(values):10.1f}   {ratio:5.3f} x")
    for name, why in missing.items():
        print(f"  {name} left out: {why}")
    result = {"commit": options.commit or common.commit(), "gpu": gpu, "driver": driver, "rounds": options.rounds, "unit": "us",
              "rows": rows, "missing": missing}
    options.out.write_text(json.dumps(result, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    common.end(main, "a GPU is needed")
