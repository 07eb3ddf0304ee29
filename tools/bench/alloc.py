#!/usr/bin/env python3
"""The allocation path side by side in one run: native, cudaMallocAsync, PyTorch's allocator and each policy of the library.

usage: alloc.py [--build DIR] [--quick] [--rounds N] [--budget SECONDS] [--rows PREFIX,...] [--policies NAME,...] [--out FILE.json]
       alloc.py --record DIR [--build DIR]
       alloc.py --plot FILE.json

Builds the programs in DIR (default build), runs every contender in turn, round by round (training steps and replays in the first
only), prints all figures and the targets with verdicts, and writes FILE.json (default alloc.json), FILE.txt, FILE.svg and FILE.png.
Rounds end when --budget seconds (480, quick 200) would be passed. Traces of real programs are replayed from tools/bench/traces; where there are none they are recorded first, into
FILE-traces; --record only records, into DIR. --plot draws the picture and prints the tables of an earlier run: no GPU is needed.

Rows also choose: torch-step, replay:, calls, start. Contenders are named as in the table. Ends with 77 without a GPU.
"""

import argparse
import json
import os
import pathlib
import platform
import sys
import tempfile
import time

import common
import overhead
import picture
import record
import targets
from contenders import CONTENDERS, KEEPERS, NATIVE, OWN_CACHE, QUICK_ROWS
from results import Results

HERE = pathlib.Path(__file__).resolve().parent
PROGRAMS = ("alloc", "replay", "calls", "thrust_mix")
KERNEL_NS = 4250  # of the longer kernel
STEP_ROUNDS = 3  # with training steps


# Loads PyTorch the way programs do, so that the CUDA runtime it brings is found.
TORCH_PLACES = """
import json, pathlib, torch
home = pathlib.Path(torch.__file__).parent
maps = pathlib.Path("/proc/self/maps").read_text().split()
runtime = sorted({str(pathlib.Path(name).parent) for name in maps if "/libcudart.so" in name})
print(json.dumps({"include": str(home / "include"), "lib": str(home / "lib"), "runtime": runtime, "version": torch.__version__,
                  "abi": int(torch.compiled_with_cxx11_abi()), "cuda": torch.cuda.is_available()}))
"""


def build_torch(programs, toolkit):
    """The library that hands out PyTorch's allocator, and PyTorch's version; (None, why not) where that cannot be."""
    try:
        there = json.loads(common.run([sys.executable, "-c", TORCH_PLACES], common.environment(), 120).splitlines()[-1])
    except common.Failed as failure:
        return None, f"no PyTorch: {failure}"
    if not there["cuda"]:
        return None, f"PyTorch {there['version']} has no CUDA"
    if not there["runtime"]:
        return None, "PyTorch's CUDA runtime was not found"
    made, runtime = programs / "liballoc_torch.so", sorted(pathlib.Path(there["runtime"][0]).glob("libcudart.so*"))[0]
    libraries = [there["lib"], *there["runtime"]]
    command = [os.environ.get("CXX", "g++"), "-std=c++17", "-O2", "-shared", "-fPIC", f"-D_GLIBCXX_USE_CXX11_ABI={there['abi']}",
               f"-I{there['include']}", f"-I{toolkit / 'include'}", "-o", made, HERE / "torch_allocator.cpp",
               f"-L{there['lib']}", "-lc10_cuda", "-lc10", runtime, "-Wl,--disable-new-dtags",
               *(f"-Wl,-rpath,{folder}" for folder in libraries)]
    try:
        common.run(command, common.environment(), 300)
    except common.Failed as failure:
        return None, f"PyTorch's allocator does not build: {failure}"
    return made, there["version"]


class Bench:
    def __init__(self, options, torch_library, traces):
        self.options, self.torch_library, self.traces = options, torch_library, traces
        self.programs, self.shim = options.build / "tools" / "bench", options.build / "shim" / "libgpumem.so"
        self.results, self.failed, self.skipped = Results(), {}, set()
        self.begin, self.passes, self.has_torch = time.monotonic(), 0, torch_library is not None

    def left(self):
        return self.options.budget - (time.monotonic() - self.begin)

    def wants(self, row):
        rows = self.options.rows
        return not rows or any(row.startswith(prefix) or prefix.startswith(row) for prefix in rows)

    def contenders(self):
        for one in CONTENDERS:
            chosen = one.name in self.options.policies if self.options.policies else one.quick or not self.options.quick
            if one.name == NATIVE or chosen:
                yield one

    def environment(self, contender, settings=None):
        return common.environment(self.shim if contender.shimmed else None, {**contender.settings, **(settings or {}),
                                                                             "CUDA_DEVICE_MAX_CONNECTIONS": "32"})

    def take(self, name, turn, what, measured):
        """Runs one program for one contender; a failure is noted and the run goes on, the budget's end likewise."""
        if self.left() < 3:
            self.skipped.add(f"{what} of {name} in round {turn + 1}")
            return
        try:
            for line in measured(min(120, self.left() + 10)):
                self.results.add(name, turn, line)
        except common.Failed as failure:
            self.failed[f"{what} of {name}"] = str(failure)

    def allocation_rows(self, contender):
        """The contender of tools/bench/alloc; None: none."""
        rows = list(contender.rows or (QUICK_ROWS if self.options.quick else ()))
        if self.options.rows:
            mine = [row for row in self.options.rows if row not in ("torch-step", "calls", "start") and not row.startswith("replay")]
            rows = [max(row, other, key=len) for row in mine for other in (rows or [row])
                    if row.startswith(other) or other.startswith(row)]
            return rows or None
        return rows

    def start(self):
        self.passes = int(common.run([self.programs / "alloc", "--calibrate", KERNEL_NS], common.environment(), 60))

    def allocations(self, contender, turn):
        rows = self.allocation_rows(contender)
        library = self.library(contender)
        if rows is None or library is None:
            return
        command = [self.programs / "alloc", "--allocator", library, "--passes", self.passes,
                   "--samples", 7 if self.options.quick else 11]
        command += ["--rows", ",".join(rows)] if rows else []
        command += ["--memory"] if turn == 0 else []
        self.take(contender.name, turn, "alloc",
                  lambda limit: common.measure(command, self.environment(contender), timeout=limit))

    def library(self, contender):
        return self.torch_library if contender.allocator == "torch" else contender.allocator

    def replays(self, contender, turn):
        library = self.library(contender)
        if not contender.replays or library is None or not self.traces or not self.wants("replay"):
            return
        command = [self.programs / "replay", "--allocator", library, "--samples", 3,
                   *(["--memory"] if turn == 0 else []), *(f"{name}={path}" for name, path in self.traces.items())]
        self.take(contender.name, turn, "replay",
                  lambda limit: common.measure(command, self.environment(contender), timeout=limit))

    def step(self, contender, turn):
        if contender.step is None or not self.has_torch or not self.wants("torch-step"):
            return
        if self.options.quick and contender.name not in (NATIVE, OWN_CACHE, *KEEPERS):
            return
        command = [sys.executable, HERE / "programs" / "training.py", "--samples", 3 if self.options.quick else 9]
        self.take(contender.name, turn, "torch-step",
                  lambda limit: common.measure(command, self.environment(contender, contender.step), timeout=limit))

    def calls(self, turn):
        """Time that the library adds to a call and to a start: overhead.py's figures."""
        own = argparse.Namespace(build=self.options.build, cuda=None)
        for name in (NATIVE, "observe", "observe, trace", *KEEPERS):
            variant = overhead.VARIANTS[name]
            if self.wants("start"):
                self.take(name, turn, "start", lambda limit: [line("start-with-cuda", overhead.calls(
                    variant, own, "startup", timeout=limit)["startup"])])
            if self.wants("start") and name in (NATIVE, "observe"):
                self.take(name, turn, "start", lambda limit: [line("start-without-cuda", overhead.process_start(
                    ["/bin/true"], variant, own, 21))])
            if self.wants("calls") and name not in KEEPERS:
                self.take(name, turn, "calls", lambda limit: [line(what, value) for what, value in overhead.calls(
                    variant, own, timeout=limit).items() if what == "alloc_async+free_async"])

    def round(self, turn):
        self.calls(turn)
        # Replays sample enough in one round; a training step's time differs by process, more than by allocator.
        for part in (self.allocations, *((self.replays,) if turn == 0 else ()), *((self.step,) if turn < STEP_ROUNDS else ())):
            for contender in self.contenders():
                part(contender, turn)


def line(name, value):
    return common.Measured(f"{name} 1 {value} {value} {value}")


def record_all(shim, programs, folder, failed):
    for name in record.PROGRAMS:
        try:
            print(f"{name}: {record.record(name, shim, programs, folder, 150)} events in {folder / name}.csv.gz", flush=True)
        except common.Failed as failure:
            failed[f"recording of {name}"] = str(failure)


def finish(about, results, out):
    """Writes and prints everything."""
    document = {**about, "unit": "ns a repetition", "results": results.to_json(),
                "targets": [one.to_json() for one in targets.verdicts(results)]}
    out.write_text(json.dumps(document, indent=1) + "\n")
    text = targets.table(about, results)
    out.with_suffix(".txt").write_text(text + "\n")
    print(text)
    draw(about, results, out)


def draw(about, results, out):
    try:
        print("picture:", ", ".join(str(path) for path in picture.draw(about, results, out)))
    except picture.Missing:
        print(f"no matplotlib here: alloc.py --plot {out.name} draws the picture where it is", file=sys.stderr)


def arguments():
    parser = common.Parser(usage=__doc__)
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build"))
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--rounds", type=common.count)
    parser.add_argument("--budget", type=float)
    parser.add_argument("--rows", type=lambda text: text.split(","))
    parser.add_argument("--policies", type=lambda text: text.split(","))
    parser.add_argument("--out", type=common.output, default=pathlib.Path("alloc.json"))
    parser.add_argument("--record", type=pathlib.Path)
    parser.add_argument("--plot", type=pathlib.Path)
    parser.add_argument("--commit", help="where git does not know it")
    parser.add_argument("--toolkit", type=pathlib.Path, default=pathlib.Path(os.environ.get("CUDA_HOME", "/usr/local/cuda")))
    options = parser.parse_args()
    options.build = options.build.resolve()
    options.rounds = options.rounds or 4
    options.budget = options.budget or (200 if options.quick else 480)
    return options


def plot(options):
    document = common.earlier(options.plot)
    results = Results.from_json(document["results"])
    print(targets.table(document, results))
    draw(document, results, options.plot)


def main():
    options = arguments()
    if options.plot:
        return plot(options)
    began = time.monotonic()
    common.build(options.build, *(f"tools/bench/{name}" for name in PROGRAMS))
    programs, shim, failed = options.build / "tools" / "bench", options.build / "shim" / "libgpumem.so", {}
    common.run([programs / "alloc", "--rows", "none"], common.environment(), 60)  # is there a card?
    if options.record:
        record_all(shim, programs, options.record, failed)
        for what, why in failed.items():
            print(f"alloc.py: {what}: {why}", file=sys.stderr)
        return 1 if failed else 0
    torch_library, torch = build_torch(programs, options.toolkit)
    if not torch_library:
        print(f"PyTorch's rows are left out: {torch}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        traces = HERE / "traces"
        if not any(traces.glob("*.csv.gz")):
            traces = options.out.with_name(options.out.stem + "-traces")
            if not options.quick and not any(traces.glob("*.csv.gz")) and (not options.rows or any("replay" in r for r in options.rows)):
                record_all(shim, programs, traces, failed)
        bench = Bench(options, torch_library, record.unpack(traces, pathlib.Path(folder)))
        bench.begin, bench.failed = began, failed
        bench.start()
        gpu, driver = common.card()
        done = 0
        for turn in range(options.rounds):
            before = time.monotonic()
            bench.round(turn)
            done, taken = turn + 1, time.monotonic() - before
            print(f"round {done}: {taken:.0f} s", flush=True)
            if bench.left() < taken * (0.6 if turn == 0 else 0.9):
                break
    about = {"commit": options.commit or common.commit(), "gpu": gpu, "driver": driver, "machine": platform.machine(),
             "cores": os.cpu_count(), "torch": torch, "rounds": done, "quick": options.quick, "kernel_passes": bench.passes,
             "failed": failed, "left_out": sorted(bench.skipped)}
    finish(about, bench.results, options.out)
    for what, why in failed.items():
        print(f"alloc.py: {what}: {why}", file=sys.stderr)
    if bench.skipped:
        print(f"alloc.py: no time for {len(bench.skipped)} parts; see left_out in {options.out}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    common.end(main)
