#!/usr/bin/env python3
"""What the shim adds to a driver call, and to the start of a process: native and shimmed runs in turn, on this machine's CUDA.

usage: overhead.py [--bench calls|alloc] [--build DIR] [--rounds N] [--cuda DIR] [--policies A,B] [--out FILE.json]

--bench calls (default): driver calls made back to back, and starts; alloc: the allocation path of an ordinary program.

--cuda: folder of libcuda.so.1 to use instead of the system's (the simulated one: build/tests/sim). Prints a table and writes
JSON with commit, GPU and driver. Times are nanoseconds a pair of calls, or a process start; min / median / max over the rounds of
each round's median. `added` is the median of the differences to native, round by round.
"""

import argparse
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import tempfile
import time

VARIANTS = {
    "native": None,
    "observe": {"GPUMEM_POLICY": "observe"},
    "observe, trace": {"GPUMEM_POLICY": "observe", "trace": "t-%p.trace"},
    "observe, CSV trace": {"GPUMEM_POLICY": "observe", "trace": "t-%p.csv"},
    "cache": {"GPUMEM_POLICY": "cache"},
    "auto": {"GPUMEM_POLICY": "auto"},
    "async": {"GPUMEM_POLICY": "async"},
    "managed": {"GPUMEM_POLICY": "managed"},
    "managed plain": {"GPUMEM_POLICY": "managed", "GPUMEM_MANAGED": "plain"},
    "active-list": {"GPUMEM_POLICY": "active-list"},
}


def run(command, variant, options, folder):
    environment = {key: value for key, value in os.environ.items() if not key.startswith("GPUMEM_")}
    if options.cuda:
        environment["LD_LIBRARY_PATH"] = str(options.cuda)
    if variant is not None:
        environment["LD_PRELOAD"] = str(options.build / "shim" / "libgpumem.so")
        environment.update({key: value for key, value in variant.items() if key != "trace"})
        if "trace" in variant:
            environment["GPUMEM_TRACE"] = str(pathlib.Path(folder) / variant["trace"])
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode == 77:
        sys.exit("overhead.py: no CUDA device; --cuda build/tests/sim uses the simulated one")
    if done.returncode != 0:
        sys.exit(f"overhead.py: {' '.join(command)}: {done.stderr.strip()}")
    for file in pathlib.Path(folder).iterdir():
        file.unlink()
    return {line.split()[0]: float(line.split()[3]) for line in done.stdout.splitlines()}


def card():
    """GPU and driver, or None where nvidia-smi is not."""
    try:
        text = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"], capture_output=True,
                              text=True, check=True).stdout
        return [part.strip() for part in text.splitlines()[0].split(",")]
    except (OSError, subprocess.CalledProcessError, IndexError):
        return [None, None]


def process_start(command, variant, options, folder, runs):
    """Wall time of whole processes that never touch CUDA, in nanoseconds."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("GPUMEM_")}
    if variant is not None:
        environment["LD_PRELOAD"] = str(options.build / "shim" / "libgpumem.so")
    times = []
    for _ in range(runs):
        begin = time.monotonic_ns()
        subprocess.run(command, env=environment, check=True)
        times.append(time.monotonic_ns() - begin)
    return statistics.median(times)


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build"))
    parser.add_argument("--bench", choices=["calls", "alloc"], default="calls")
    parser.add_argument("--policies", help="only native and these, without a trace")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--cuda", type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--commit", help="where git cannot tell")
    options = parser.parse_args()
    options.build = options.build.resolve()
    command = str(options.build / "tools" / "bench" / options.bench)
    variants = VARIANTS
    if options.policies:
        variants = {"native": None, **{name: {"GPUMEM_POLICY": name} for name in options.policies.split(",")}}
    table = {name: {} for name in variants}
    with tempfile.TemporaryDirectory() as folder:
        def take(name, measured):
            for what, value in measured.items():
                table[name].setdefault(what, []).append(value)

        # Starts come first: long traced runs leave the file system busy.
        for _ in range(options.rounds if options.bench == "calls" else 0):
            for name, variant in variants.items():
                take(name, {"start with CUDA": run([command, "startup"], variant, options, folder)["startup"]})
                if name in ("native", "observe"):
                    take(name, {"start without CUDA": process_start(["/bin/true"], variant, options, folder, 21)})
        for _ in range(options.rounds):
            for name, variant in variants.items():
                take(name, run([command], variant, options, folder))
    gpu, driver = card() if not options.cuda else ["simulated", None]
    commit = options.commit or subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
    result = {"commit": commit, "gpu": gpu, "driver": driver, "machine": platform.machine(), "rounds": options.rounds,
              "unit": "ns a pair of calls, or a start", "rows": []}
    print(f"commit {commit}, GPU {gpu}, driver {driver}; ns, min / median / max of {options.rounds} rounds")
    for what in table["native"]:
        print(what)
        for name in variants:
            if what not in table[name]:
                continue
            values, native = table[name][what], table["native"][what]
            added = statistics.median(a - b for a, b in zip(values, native))
            result["rows"].append({"what": what, "variant": name, "min": min(values), "median": statistics.median(values),
                                   "max": max(values), "added": added})
            print(f"  {name:20}{min(values):12.0f} / {statistics.median(values):10.0f} / {max(values):10.0f}   added {added:10.0f}")
    if options.out:
        options.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
