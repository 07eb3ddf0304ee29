#!/usr/bin/env python3
"""What each policy gives on older drivers: recorded traces, replayed on the simulated CUDA of each version.

usage: run_old_drivers.py --program FILE --cuda DIR --shim FILE --traces DIR [--update] README

README has the table between `<!-- drivers -->` and `<!-- /drivers -->`. Without --update it has to be the table of this run. A cell says
which memory serves a cudaMalloc, and how many of 100 cudaMallocs reach the driver. The last but one is
a program that works in per-thread default streams. The last row says what a cudaFree does, under the
default GPUMEM_FREE=safe, for a program that has streams of its own.
"""

import argparse
import gzip
import os
import pathlib
import re
import subprocess
import sys
import tempfile

DRIVERS = {"450 (11.0)": "11000", "470 (11.4)": "11040", "535 (12.2)": "12020", "550 (12.4)": "12040", "560 (12.6)": "12060", "580 (13.0)": "13000"}
POLICIES = ("observe", "auto", "cache", "async", "managed", "active-list")
SERVERS = {"cuMemAlloc_v2": "native", "cuMemAllocFromPoolAsync": "pool", "cuMemAllocManaged": "managed"}
TABLE = re.compile(r"(<!-- drivers -->\n)(.*?)(<!-- /drivers -->)", re.DOTALL)


def replay(options, shape, trace, policy, version):
    """The counts that the program prints."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("GPUMEM_", "SIMCUDA_"))}
    environment |= {"LD_LIBRARY_PATH": str(options.cuda), "LD_PRELOAD": str(options.shim), "GPUMEM_POLICY": policy, "GPUMEM_CACHE_IDLE": "0", "SIMCUDA_VERSION": version,
                    "SIMCUDA_STREAMS": "random:1"}
    done = subprocess.run([options.program, shape, trace], env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, f"{shape} {trace} {policy} {version}: {done.returncode}\n{done.stdout}{done.stderr}"
    words = done.stdout.split()
    counts = {name: int(value) for name, value in zip(words[::2], words[1::2])}
    assert counts["violations"] == 0, f"{shape} {trace} {policy} {version}: memory in use was handed out"
    return counts


def total(options, shape, traces, policy, version):
    runs = [replay(options, shape, trace, policy, version) for trace in traces]
    return {name: sum(run[name] for run in runs) for name in runs[0]}


def cell(counts):
    made = {server: counts[call] for call, server in SERVERS.items() if counts[call]}
    share = 100 * sum(made.values()) / counts["allocs"]
    return f"{' + '.join(made)}, {share:.0f}"


def of_free(counts):
    return "orders" if counts["cuCtxWaitEvent"] else "waits"


def table(options, traces):
    rows = [["policy", *DRIVERS], ["---"] * (1 + len(DRIVERS))]
    rows += [[f"`{policy}`", *[cell(total(options, "default", traces, policy, version)) for version in DRIVERS.values()]] for policy in POLICIES]
    rows.append(["`cache`, streams hidden", *[cell(total(options, "hidden", traces, "cache", version)) for version in DRIVERS.values()]])
    rows.append(["`cudaFree`", *[of_free(total(options, "streams", traces, "cache", version)) for version in DRIVERS.values()]])
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def unpacked(folder, traces):
    for packed in sorted(traces.glob("*.csv.gz")):
        file = pathlib.Path(folder) / packed.stem
        file.write_bytes(gzip.decompress(packed.read_bytes()))
        yield str(file)


def main():
    parser = argparse.ArgumentParser()
    for name in ("program", "cuda", "shim", "traces"):
        parser.add_argument(f"--{name}", type=pathlib.Path, required=True)
    parser.add_argument("--update", action="store_true")
    parser.add_argument("readme", type=pathlib.Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        made = table(options, list(unpacked(folder, options.traces)))
    text = options.readme.read_text()
    written = TABLE.sub(lambda found: found[1] + made + found[3], text)
    if options.update:
        options.readme.write_text(written)
    elif written != text:
        print(f"FAILED: {options.readme} has another table than this run:\n{made}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
