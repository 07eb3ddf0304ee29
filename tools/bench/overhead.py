#!/usr/bin/env python3
"""What the shim adds to a driver call, and to the start of a process: native and shimmed runs in turn, on this machine's CUDA.

usage: overhead.py [--build DIR] [--rounds N] [--cuda DIR] [--policies A,B] [--out FILE.json]

Driver calls made back to back, and starts. The allocation path of an ordinary program, beside other allocators: alloc.py.

--cuda: folder of libcuda.so.1 to use instead of the system's (the simulated one: build/tools/sim). Prints a table and writes
JSON with commit, GPU and driver. Times are nanoseconds a pair of calls, or a process start; min / median / max over the rounds of
each round's median. `added` is the median of the differences to native, round by round.
"""

import json
import pathlib
import platform
import statistics
import subprocess
import sys
import time

import common

VARIANTS = {
    "native": None,
    "observe": {"GPUMEM_POLICY": "observe"},
    "observe, trace": {"GPUMEM_POLICY": "observe", "trace": "t-%p.trace"},
    "observe, trace, no stacks": {"GPUMEM_POLICY": "observe", "trace": "t-%p.trace", "GPUMEM_STACKS": "0"},
    "observe, CSV trace": {"GPUMEM_POLICY": "observe", "trace": "t-%p.csv"},
    "cache": {"GPUMEM_POLICY": "cache"},
    "auto": {"GPUMEM_POLICY": "auto"},
    "async": {"GPUMEM_POLICY": "async"},
    "managed": {"GPUMEM_POLICY": "managed"},
    "managed plain": {"GPUMEM_POLICY": "managed", "GPUMEM_MANAGED": "plain"},
    "active-list": {"GPUMEM_POLICY": "active-list"},
}


def environment(variant, options, cuda=None):
    if variant is None:
        return common.environment(cuda=cuda)
    return common.environment(options.build / "shim" / "libgpumem.so", {k: v for k, v in variant.items() if k != "trace"}, cuda)


def calls(variant, options, *arguments, timeout=None):
    """Medians of the program `calls` by name."""
    lines = common.measure([options.build / "tools" / "bench" / "calls", *arguments], environment(variant, options, options.cuda),
                           (variant or {}).get("trace"), timeout)
    return {line.name: line.median for line in lines}


def process_start(command, variant, options, runs):
    """Wall time of whole processes that never touch CUDA, in nanoseconds."""
    environ = environment(variant, options)
    times = []
    for _ in range(runs):
        begin = time.monotonic_ns()
        subprocess.run(command, env=environ, check=True)
        times.append(time.monotonic_ns() - begin)
    return statistics.median(times)


def main():
    parser = common.Parser(usage=__doc__)
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build"))
    parser.add_argument("--policies", help="only native and these, without a trace")
    parser.add_argument("--rounds", type=common.count, default=7)
    parser.add_argument("--cuda", type=pathlib.Path)
    parser.add_argument("--out", type=common.output)
    parser.add_argument("--commit", help="where git does not know it")
    options = parser.parse_args()
    options.build = options.build.resolve()
    variants = VARIANTS
    if options.policies:
        variants = {"native": None, **{name: {"GPUMEM_POLICY": name} for name in options.policies.split(",")}}
    table = {name: {} for name in variants}

    def take(name, measured):
        for what, value in measured.items():
            table[name].setdefault(what, []).append(value)

    try:
        # Starts come first: long traced runs leave the file system busy.
        for _ in range(options.rounds):
            for name, variant in variants.items():
                take(name, {"start with CUDA": calls(variant, options, "startup")["startup"]})
                if name in ("native", "observe"):
                    take(name, {"start without CUDA": process_start(["/bin/true"], variant, options, 21)})
        for _ in range(options.rounds):
            for name, variant in variants.items():
                take(name, calls(variant, options))
    except common.NoCard:
        print("overhead.py: no CUDA device; --cuda build/tools/sim uses the simulated one", file=sys.stderr)
        sys.exit(common.SKIP)
    except common.Failed as failure:
        sys.exit(f"overhead.py: {failure}")
    gpu, driver = common.card() if not options.cuda else ("simulated", None)
    commit = options.commit or common.commit()
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
            print(f"  {name:26}{min(values):12.0f} / {statistics.median(values):10.0f} / {max(values):10.0f}   added {added:10.0f}")
    if options.out:
        options.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
