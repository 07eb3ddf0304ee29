#!/usr/bin/env python3
"""The experiment of the thesis on growing outputs (chapters 4 and 5), on matrices that are made, beside cuSPARSE.

usage: spgemm.py [--build DIR] [--quick] [--slow] [--budget SECONDS] [--matrices NAME,...] [--precision double|float] [--check]
                 [--out FILE.json]
       spgemm.py --plot FILE.json

Runs the driver in DIR (default build, built first) on every matrix in every way: upper-bound, precise, rounds with the thesis' eight
sizes and with a sampled one, by mapping and by copying, each cuSPARSE algorithm; then the kernel of the thesis on the matrices where
it takes seconds at most (--slow: on all of them, and cage15); then under a byte limit that rounds keeps to and upper-bound does not;
then by Nsight Compute, where it is and may count, for the active warps of figure 5.2.
Prints the thesis' tables with ours and writes FILE.json (default spgemm.json), FILE.txt, FILE.svg and FILE.png. What is not begun when
--budget seconds (900, quick 140) are over is left out, and said. A product is formed 50 times, the last 25 timed, where it takes less
than 100 ms, else 5 times, the last 3 timed (--quick: 5 times and 3). --plot draws the picture and prints the tables of an
earlier run: no GPU is needed. Ends with 77 without a GPU.
"""

import argparse
import json
import pathlib
import re
import sys
import time

import common
import spgemm_picture
import spgemm_warps
from picture import Missing
from spgemm_results import SIZES, Ways, text

TWINS = ["twin-pwtk", "twin-BenElechi1", "twin-af_3_k101", "twin-Hardesty1", "twin-Transport", "twin-af_shell10"]
MATRICES = {name: f"gen:{name}" for name in ["atmosmodl", "cage14", "nlpkkt80", "twin-pwtk", "rmat-18", "atmosmodm", *TWINS[1:], "cage15"]}
MATRICES["rmat-18"] = "gen:rmat:18:8"  # the thesis' own code fails on skew
QUICK = ["atmosmodl", "twin-pwtk", "cage14", "nlpkkt80", "rmat-18"]
# Where columns that a row can have lie close together, dot products with all of them take little.
BANDED = ["twin-pwtk", "twin-BenElechi1", "twin-af_3_k101", "twin-Hardesty1", "atmosmodl", "atmosmodm", "twin-Transport"]
LONG = ["cage15"]


def ways(options, kernel):
    """(name, arguments) of every way, those that matter most first."""
    sizes = [8, 32, 64, 128] if options.quick else SIZES
    yield from ((mode, ["--mode", mode]) for mode in ("upper-bound", "precise"))
    if kernel == "hash":
        yield "rounds auto vmm", ["--mode", "rounds"]
        yield "cusparse:alg1", ["--mode", "cusparse:alg1"]
    yield from ((f"rounds {size} vmm", ["--mode", "rounds", "--size-per-row", size]) for size in sizes)
    yield from ((f"rounds {size} copy", ["--mode", "rounds", "--size-per-row", size, "--vector", "copy"])
                for size in (sizes[:3:2] if options.quick else sizes))
    if kernel == "hash" and not options.quick:
        yield from ((f"cusparse:{alg}", ["--mode", f"cusparse:{alg}"]) for alg in ("alg2", "alg3"))
    if kernel == "thesis":
        yield "rounds 32 persistent", ["--mode", "rounds", "--size-per-row", 32, "--persistent"]


def figures_of(said):
    """The driver's words as numbers, the last of each name."""
    found = {}
    for line in said.splitlines():
        if not line.startswith(("matrix=", "b=")):
            found.update({name: float(value) if "." in value else int(value) for name, value in re.findall(r"(\w+)=(-?[\d.]+)%?(?=\s|$)", line)})
    return found


class Bench:
    def __init__(self, options):
        self.options, self.ways, self.begin = options, Ways(), time.monotonic()
        self.left_out, self.failed, self.limited = [], {}, []
        self.warps, self.no_warps = {}, None

    def left(self):
        return self.options.budget - (time.monotonic() - self.begin)

    def driver(self, matrix, arguments):
        command = [self.options.build / "spgemm" / "spgemm", "--matrix", MATRICES[matrix], "--precision", self.options.precision, *arguments]
        command += ["--runs", 3, "--warmup", 2] if self.options.quick and "--runs" not in arguments else []
        return common.run(command, common.environment(), max(20, min(300, self.left() + 20)))

    def take(self, matrix, kernel, way, arguments):
        name = f"{matrix}|{kernel}|{way}"
        if self.left() < 3:
            self.left_out.append(name)
            return
        checks = ["--check"] if self.options.check and kernel == "hash" else []
        try:
            self.ways.figures[name] = figures_of(self.driver(matrix, [*arguments, "--kernel", kernel, *checks] if "cusparse" not in way
                                                             else [*arguments, *checks]))
        except common.Failed as failure:
            self.ways.figures[name] = {"error": str(failure)}
            if "out of device memory" not in str(failure):
                self.failed[name] = str(failure)

    def matrix(self, matrix, kernel):
        before = time.monotonic()
        for way, arguments in ways(self.options, kernel):
            self.take(matrix, kernel, way, arguments)
        print(f"{matrix}, kernel {kernel}: {time.monotonic() - before:.0f} s", flush=True)

    def limit(self, matrix):
        """As much memory as rounds needs and 5 % more: the upper bound's places do not fit (thesis, 5.1)."""
        rounds = self.ways.get(matrix, "rounds 64 vmm")
        if not rounds or self.left() < 5:
            return
        limit = int(rounds["peak_bytes"] * 1.05)
        for way in ("upper-bound", "precise", "rounds --size-per-row 64"):
            try:
                figure = figures_of(self.driver(matrix, ["--mode", *way.split(), "--limit", limit]))
                self.limited.append(f"{matrix}, {limit >> 20} MiB: {way}: {figure['ms_median']:.3f} ms, peak {figure['peak_bytes'] / 2**20:.0f} MiB")
            except common.Failed as failure:
                self.limited.append(f"{matrix}, {limit >> 20} MiB: {way}: {failure}")

    def active_warps(self):
        for kernel in spgemm_warps.KERNELS:
            for size in spgemm_warps.SIZES:
                name = f"{spgemm_warps.MATRIX}|{kernel}|{size}"
                if self.left() < 5:
                    self.left_out.append(f"active warps of {name}")
                    continue
                try:
                    self.warps[name] = spgemm_warps.measure(self.options.build / "spgemm" / "spgemm", kernel, size, self.options.precision,
                                                            max(20, min(200, self.left() + 20)))
                except spgemm_warps.Unavailable as reason:
                    self.no_warps = str(reason)
                    return

    def run(self):
        names = self.options.matrices or (QUICK if self.options.quick else [name for name in MATRICES if name not in LONG or self.options.slow])
        for matrix in names:
            self.matrix(matrix, "hash")
        for matrix in ("twin-pwtk", "nlpkkt80"):
            self.limit(matrix)
        slow = [name for name in names if name in BANDED or self.options.slow]
        for matrix in slow[:2] if self.options.quick else slow:
            self.matrix(matrix, "thesis")
        if spgemm_warps.MATRIX in names:
            self.active_warps()


def is_there_a_card(options):
    try:
        common.run([options.build / "spgemm" / "spgemm", "--matrix", "gen:cage:3", "--mode", "precise"], common.environment(), 120)
    except common.Failed as failure:
        if "no CUDA device" in str(failure):
            raise common.NoCard from None
        raise


def draw(about, found, out):
    try:
        print("picture:", ", ".join(str(path) for path in spgemm_picture.draw(about, found, out)))
    except Missing:
        print(f"no matplotlib here: spgemm.py --plot {out.name} draws the picture where it is", file=sys.stderr)


def arguments():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build"))
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--slow", action="store_true")
    parser.add_argument("--check", action="store_true", help="compare every product with the host's")
    parser.add_argument("--budget", type=float)
    parser.add_argument("--matrices", type=lambda names: names.split(","))
    parser.add_argument("--precision", choices=["double", "float"], default="double")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("spgemm.json"))
    parser.add_argument("--plot", type=pathlib.Path)
    parser.add_argument("--commit", help="where git cannot tell")
    options = parser.parse_args()
    options.build = options.build.resolve()
    options.budget = options.budget or (140 if options.quick else 900)
    unknown = [name for name in options.matrices or [] if name not in MATRICES]
    if unknown:
        parser.error(f"no such matrix: {', '.join(unknown)}; there are {', '.join(MATRICES)}")
    return options


def main():
    options = arguments()
    if options.plot:
        document = json.loads(options.plot.read_text())
        print(text(document, Ways(document["figures"])))
        return draw(document, Ways(document["figures"]), options.plot)
    common.build(options.build, "spgemm/spgemm", shim=False)
    is_there_a_card(options)
    bench = Bench(options)
    bench.run()
    gpu, driver = common.card()
    about = {"commit": options.commit or common.commit(), "gpu": gpu, "driver": driver, "precision": options.precision,
             "runs": "3 behind 2" if options.quick else "25 behind 25 under 100 ms, else 3 behind 2", "quick": options.quick,
             "failed": bench.failed, "left_out": bench.left_out, "limited": bench.limited,
             "warps": bench.warps, "no_warps": bench.no_warps}
    options.out.write_text(json.dumps({**about, "figures": bench.ways.figures}, indent=1) + "\n")
    said = text(about, bench.ways)
    options.out.with_suffix(".txt").write_text(said + "\n")
    print(said)
    draw(about, bench.ways, options.out)
    for what, why in bench.failed.items():
        print(f"spgemm.py: {what}: {why}", file=sys.stderr)
    if bench.no_warps:
        print(f"spgemm.py: no active warps: {bench.no_warps}", file=sys.stderr)
    if bench.left_out:
        print(f"spgemm.py: no time for {len(bench.left_out)} ways; see left_out in {options.out}", file=sys.stderr)
    return 1 if bench.failed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except common.NoCard:
        print("spgemm.py: no CUDA device; --plot FILE.json draws an earlier run", file=sys.stderr)
        sys.exit(common.SKIP)
    except common.Failed as failure:
        sys.exit(f"spgemm.py: {failure}")
