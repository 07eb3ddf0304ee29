#!/usr/bin/env python3
"""The experiment of the thesis on growing outputs (chapters 4 and 5), on generated matrices, compared with cuSPARSE.

usage: spgemm.py [--build DIR] [--quick] [--slow] [--budget SECONDS] [--matrices NAME,...] [--matrix FILE.mtx ...]
                 [--sizes N,...] [--fill FILE.json] [--precision double|float] [--check] [--out FILE.json]
       spgemm.py --plot FILE.json

Runs the driver in DIR (default build, built first) with every method: upper-bound; precise; rounds with the thesis' eight sizes and with
a sampled size, growing by mapping and by copying; each cuSPARSE algorithm. Hash tables run on every matrix. The kernel of the thesis (precise,
and rounds of sizes with 70 to 99 % efficiency) runs on matrices where it takes at most seconds (--slow: on all), and on smaller matrices of
the other kinds. One run has a byte limit that suffices for rounds and not for upper-bound. Nsight Compute, if it is installed and allowed to
count, gives the active warps of figure 5.2. The most important measurements come first.

A product shorter than 100 ms runs 50 times and the last 25 are timed; others run 5 times and the last 3 are timed (--quick: 5 times and 3, or
3 and 2, and fewer methods). A method that exceeds its time limit is stopped. After --budget seconds (900, quick 165) nothing more is started.
Both cases are reported.

--sizes selects the values of size_per_row (default: all eight of the thesis, --quick: half of them). --fill takes the results of an earlier
run and measures only what they lack: what was left out, was measured by fewer runs than this call makes, or failed in another way than
by a lack of memory. So several calls within a budget make one full run. The commits of all its parts are reported.

--matrix takes any Matrix Market file, for example of the SuiteSparse collection. It replaces the generated matrices that --matrices does not
name; the kernel of the thesis then needs --slow.

Prints a summary and writes FILE.json (default spgemm.json; updated after every method, so an interrupted run keeps its results), FILE.txt with
the tables of the thesis and ours, and pictures, FILE-*.svg and FILE-*.png. --plot draws them and prints the tables of an earlier run; it needs
no GPU.
Exits with 77 without a GPU.
"""

import json
import math
import os
import pathlib
import re
import signal
import sys
import time

import common
import spgemm_picture
import spgemm_warps
from picture import say_pictures
from spgemm_results import SIZES, Methods, brief, claimed, text

TWINS = ["twin-pwtk", "twin-BenElechi1", "twin-af_3_k101", "twin-Hardesty1", "twin-Transport", "twin-af_shell10"]
MATRICES = {name: f"gen:{name}" for name in ["atmosmodl", "twin-pwtk", "cage14", "nlpkkt80", *TWINS[1:], "atmosmodm", "cage15", "rmat-18"]}
MATRICES["rmat-18"] = "gen:rmat:18:8"  # the thesis' own code fails on skew
# Matrices whose rows have narrow ranges of possible columns: few dot products for each row.
BANDED = ["twin-pwtk", "twin-BenElechi1", "twin-af_3_k101", "twin-Hardesty1", "atmosmodl", "atmosmodm", "twin-af_shell10", "twin-Transport"]
# Smaller matrices of the other kinds, only for the kernel of the thesis.
SMALLER = {"cage12": "gen:cage:12", "nlpkkt-24": "gen:nlpkkt:24"}
LONG = ["cage15"]
SKEWED = ["rmat-18"]
SHORT_MS = 300  # of the kernel of the thesis; products that take longer are timed once


def rounds_of(size, vector="vmm"):
    return f"rounds {size} {vector}", ["--mode", "rounds", *(["--size-per-row", size] if size != "auto" else []), *(["--vector", "copy"] if vector == "copy" else [])]


def hash_methods(options, matrix):
    """(name, arguments) of every method, the most important first."""
    sizes = options.sizes or (SIZES if not options.quick else [256] if matrix in SKEWED else [64] if matrix in LONG else [16, 32, 64, 128])
    yield "precise", ["--mode", "precise"]
    yield rounds_of("auto")
    if matrix not in LONG or not options.quick:
        yield "cusparse:alg1", ["--mode", "cusparse:alg1"]
    yield from (rounds_of(size) for size in sizes)
    if matrix not in LONG or not options.quick:
        yield "upper-bound", ["--mode", "upper-bound"]
    if not options.quick:
        yield from (rounds_of(size, "copy") for size in sizes)
        yield from ((f"cusparse:{alg}", ["--mode", f"cusparse:{alg}"]) for alg in ("alg2", "alg3"))


def figures_of(said):
    """The numbers that the driver prints, by name; the last one of each name."""
    found = {}
    for line in said.splitlines():
        if not line.startswith(("matrix=", "b=")):
            found.update({name: float(value) if "." in value else int(value) for name, value in re.findall(r"(\w+)=(-?[\d.]+)%?(?=\s|$)", line)})
    return found


def part(about):
    """Which run a part of the figures is of."""
    return {name: about[name] for name in ("commit", "gpu", "driver")}


def complete(figure, runs):
    """Whether an earlier figure need not be measured again. Products of 100 ms and more run 3 times at most."""
    if "error" in figure:
        return "out of device memory" in figure["error"]
    return figure.get("runs", 0) >= min(runs, 3 if figure["ms_median"] >= 100 else runs)


class Cut(Exception):
    """The run must end."""


class Bench:
    def __init__(self, options):
        self.options, self.methods, self.begin = options, Methods(), time.monotonic()
        self.left_out, self.failed, self.limited, self.warps, self.no_warps = [], {}, [], {}, None
        self.spent, self.card, self.parts, self.kept = {}, (None, None), [], 0
        if options.filled:
            self.methods.figures.update(options.filled["figures"])
            self.warps, self.limited = options.filled.get("warps") or {}, options.filled.get("limited") or []
            self.parts = options.filled.get("parts") or [part(options.filled)]

    def left(self):
        return self.options.budget - (time.monotonic() - self.begin)

    def limit_of(self, matrix, kernel):
        """Time limit of a method in seconds, so that one method cannot use up the budget."""
        if not self.options.quick:
            return 300
        return 40 if matrix in LONG else 15 if kernel == "thesis" else 20

    def driver(self, matrix, arguments, limit=20.0):
        command = [self.options.build / "spgemm" / "spgemm", "--matrix", {**MATRICES, **SMALLER, **self.options.files}[matrix], "--precision", self.options.precision, *arguments]
        command += ["--runs", 3, "--warmup", 2] if self.options.quick and "--runs" not in arguments and "--mode" in arguments else []
        return common.run(command, common.environment(), max(2, min(limit, self.left() + 10)))

    def take(self, matrix, kernel, method, arguments):
        """Runs a method and returns its figures; None if there are none."""
        name = f"{matrix}|{kernel}|{method}"
        requested = arguments[arguments.index("--runs") + 1] if "--runs" in arguments else 3 if self.options.quick else 25
        if self.options.filled and complete(self.options.filled["figures"].get(name, {"error": ""}), requested):
            self.kept += 1
            return self.methods.get(matrix, method, kernel)
        if self.left() < 2:
            self.left_out.append(f"{name}: no time")
            return None
        arguments = [*arguments, *([] if "cusparse" in method else ["--kernel", kernel]), *(["--check"] if self.options.check and kernel == "hash" else [])]
        try:
            self.methods.figures[name] = figures_of(self.driver(matrix, arguments, self.limit_of(matrix, kernel)))
        except common.Failed as failure:
            if "took longer than" in str(failure):
                self.left_out.append(f"{name}: {failure}")
                return None
            self.methods.figures[name] = {"error": str(failure)}
            if "out of device memory" not in str(failure):
                self.failed[name] = str(failure)
        self.save()
        return self.methods.get(matrix, method, kernel)

    def hash(self, matrix):
        for method, arguments in hash_methods(self.options, matrix):
            self.take(matrix, "hash", method, arguments)
        auto = self.methods.get(matrix, "rounds auto vmm")
        # A given size saves the time of the sample. If the sampled size is above the range of the claim, a larger size is inside.
        if auto and (auto["rounds"] == 1 or not self.methods.best(matrix)):
            size = auto["size_per_row"]
            self.take(matrix, "hash", *rounds_of(size if claimed(auto["efficiency"]) else math.ceil(size / 0.97)))

    def sizes_in_range(self, matrix):
        """At most four sizes of 70 to 99 % efficiency, the fewest rounds first, from the runs with hash tables or from the model."""
        known = {(figure["rounds"], size): figure["efficiency"] for size, figure in self.methods.rounds(matrix)}
        if not known:
            for requested in (["--size-per-row", "auto"], []):
                said = self.driver(matrix, ["--model", "--kernel", "thesis", *requested])
                known.update({(int(rounds), int(size)): float(percent) for size, percent, rounds in
                              re.findall(r"^size_per_row=(\d+) efficiency=([\d.]+)% rounds=(\d+)", said, re.MULTILINE)})
        return [size for (_, size), percent in sorted(known.items()) if claimed(percent)][:4]

    def thesis(self, matrix):
        if self.left() < 2:
            self.left_out.append(f"{matrix}|thesis: no time")
            return
        probe = self.methods.get(matrix, "precise", "thesis") if self.options.filled else None
        probe = probe or self.take(matrix, "thesis", "precise", ["--mode", "precise", "--runs", 1, "--warmup", 0])
        if not probe:
            self.left_out.append(f"{matrix}|thesis|rounds: no precise to compare with")
            return
        short = probe["ms_median"] < SHORT_MS
        runs = ["--runs", 3, "--warmup", 2] if short and self.options.quick else [] if short else ["--runs", 1, "--warmup", 0] if self.options.quick else [
            "--runs", 2, "--warmup", 1]
        if short or not self.options.quick:
            self.take(matrix, "thesis", "precise", ["--mode", "precise", *runs])
        try:
            sizes = self.sizes_in_range(matrix)
        except common.Failed as failure:
            self.failed[f"{matrix}|thesis|model"] = str(failure)
            return
        if self.options.quick and not short:
            sizes = sizes[:2]
        for size in sizes:
            method, arguments = rounds_of(size)
            self.take(matrix, "thesis", method, [*arguments, *runs])
        if not self.options.quick or matrix == "twin-pwtk":
            self.take(matrix, "thesis", "upper-bound", ["--mode", "upper-bound", *runs])
            for size in sizes[-1:]:
                method, arguments = rounds_of(size, "copy")
                self.take(matrix, "thesis", method, [*arguments, *runs])
                self.take(matrix, "thesis", f"rounds {size} persistent", ["--mode", "rounds", "--size-per-row", size, "--persistent", *runs])

    def limit(self, matrix):
        """A limit of 1.05 x the memory of rounds: the slots of the upper bound do not fit (thesis, 5.1)."""
        rounds = self.methods.get(matrix, "rounds 64 vmm")
        if not rounds or self.left() < 5:
            self.left_out.append(f"{matrix} under a limit: no time")
            return
        limit = int(rounds["peak_bytes"] * 1.05)
        for method in ("upper-bound", "precise", "rounds --size-per-row 64"):
            try:
                figure = figures_of(self.driver(matrix, ["--mode", *method.split(), "--limit", limit, "--runs", 1, "--warmup", 1]))
                self.limited.append(f"{matrix}, {limit >> 20} MiB: {method}: {figure['ms_median']:.3f} ms, peak {figure['peak_bytes'] / 2**20:.0f} MiB")
            except common.Failed as failure:
                self.limited.append(f"{matrix}, {limit >> 20} MiB: {method}: {failure}")
        self.save()

    def active_warps(self):
        """Measures active warps, in at most a sixth of the budget."""
        end = time.monotonic() + self.options.budget / 6
        for kernel in spgemm_warps.KERNELS:
            for size in reversed(spgemm_warps.SIZES):
                name = f"{spgemm_warps.MATRIX}|{kernel}|{size}"
                if time.monotonic() > end - 3:
                    self.left_out.append(f"active warps of {name}: no time")
                    continue
                try:
                    self.warps[name] = spgemm_warps.measure(self.options.build / "spgemm" / "spgemm", kernel, size, self.options.precision,
                                                            end - time.monotonic())
                except spgemm_warps.Unavailable as reason:
                    self.no_warps = str(reason)
                    if "took longer than" not in self.no_warps:
                        return
                    self.left_out.append(f"active warps of {name}: {reason}")

    def about(self):
        gpu, driver = self.card
        commit = self.options.commit or common.commit()
        own = {"commit": commit, "gpu": gpu, "driver": driver}
        return {"commit": commit, "gpu": gpu, "driver": driver, "parts": [*self.parts, own] if self.parts else [], "precision": self.options.precision,
                "runs": "3 after 2; kernel thesis over 300 ms: 1" if self.options.quick else "25 after 25 under 100 ms, else 3 after 2; kernel thesis over 300 ms: 2 after 1",
                "quick": self.options.quick, "failed": self.failed, "left_out": self.left_out, "limited": self.limited, "warps": self.warps,
                "no_warps": self.no_warps, "seconds": self.spent}

    def save(self):
        new = self.options.out.with_suffix(".new")
        new.write_text(json.dumps({**self.about(), "figures": self.methods.figures}, indent=1) + "\n")
        os.replace(new, self.options.out)

    def step(self, name, work, *arguments):
        before = time.monotonic()
        work(*arguments)
        self.spent[name] = round(time.monotonic() - before, 1)
        print(f"{name}: {self.spent[name]:.0f} s", flush=True)
        self.save()

    def run(self):
        names = self.options.matrices or list(MATRICES)
        self.card = common.card()
        if self.parts and self.parts[0]["gpu"] != self.card[0]:
            raise common.Failed(f"{self.options.fill}: measured on {self.parts[0]['gpu']}; this is {self.card[0]}")
        if spgemm_warps.MATRIX in names and not self.warps:
            self.step("active warps", self.active_warps)
        for matrix in names:
            if matrix not in LONG + SKEWED:
                self.step(f"{matrix}, kernel hash", self.hash, matrix)
        for matrix in ("twin-pwtk", "nlpkkt80")[:1 if self.options.quick else 2]:
            if matrix in names and not any(line.startswith(f"{matrix}, ") for line in self.limited):
                self.step(f"{matrix} under a limit", self.limit, matrix)
        slow = [name for name in names if name not in BANDED] if self.options.slow else []
        smaller = [] if self.options.matrices else list(SMALLER)
        banded = [name for name in BANDED if name in names]
        for matrix in [*banded[:-1], *smaller, *banded[-1:], *slow]:
            if matrix in banded[-1:] or self.left() < 60:  # the largest needs half a minute
                self.long(names)
            self.step(f"{matrix}, kernel thesis", self.thesis, matrix)
        self.long(names)
        for matrix in names:
            if matrix in SKEWED:
                self.step(f"{matrix}, kernel hash", self.hash, matrix)

    def long(self, names):
        for matrix in names:
            if matrix in LONG and f"{matrix}, kernel hash" not in self.spent:
                self.step(f"{matrix}, kernel hash", self.hash, matrix)


def is_there_a_card(options):
    try:
        common.run([options.build / "spgemm" / "spgemm", "--matrix", "gen:cage:3", "--mode", "precise"], common.environment(), 120)
    except common.Failed as failure:
        if "no CUDA device" in str(failure):
            raise common.NoCard from None
        raise


def draw(about, found, out):
    say_pictures("spgemm.py", out, lambda: spgemm_picture.draw(about, found, out))


def arguments():
    parser = common.Parser(usage=__doc__)
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build"))
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--slow", action="store_true")
    parser.add_argument("--check", action="store_true", help="compare every product with the host's")
    parser.add_argument("--budget", type=float)
    parser.add_argument("--matrices", type=lambda names: names.split(","))
    parser.add_argument("--matrix", type=pathlib.Path, action="append", default=[])
    parser.add_argument("--sizes", type=lambda text: [int(size) for size in text.split(",")])
    parser.add_argument("--fill", type=pathlib.Path)
    parser.add_argument("--precision", choices=["double", "float"], default="double")
    parser.add_argument("--out", type=common.output, default=pathlib.Path("spgemm.json"))
    parser.add_argument("--plot", type=pathlib.Path)
    parser.add_argument("--commit", help="where git does not know it")
    options = parser.parse_args()
    options.build = options.build.resolve()
    options.budget = options.budget or (165 if options.quick else 900)
    unknown = [name for name in options.matrices or [] if name not in MATRICES]
    if unknown:
        parser.error(f"no such matrix: {', '.join(unknown)}; there are {', '.join(MATRICES)}")
    if any(size < 1 for size in options.sizes or []):
        parser.error("--sizes: a size_per_row is at least 1")
    options.filled = common.earlier(options.fill) if options.fill else None
    if options.filled and options.filled["precision"] != options.precision:
        parser.error(f"--fill {options.fill}: precision {options.filled['precision']}; this run has {options.precision}")
    options.files = {}
    for path in options.matrix:
        name = path.name.split(".")[0].replace("|", "_")
        if not path.is_file():
            parser.error(f"--matrix {path}: no such file")
        if name in {**MATRICES, **SMALLER, **options.files}:
            parser.error(f"--matrix {path}: there is another matrix called {name}")
        options.files[name] = path
    if options.files:
        options.matrices = [*(options.matrices or []), *options.files]
    return options


def main():
    options = arguments()
    if options.plot:
        document = common.earlier(options.plot)
        print(text(document, Methods(document["figures"])))
        return draw(document, Methods(document["figures"]), options.plot)
    common.build(options.build, "spgemm/spgemm", shim=False)
    is_there_a_card(options)
    bench = Bench(options)

    def cut(*_):
        raise Cut

    signal.signal(signal.SIGTERM, cut)
    try:
        bench.run()
    except (Cut, KeyboardInterrupt):
        bench.left_out.append("the rest: the run was cut short")
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    bench.save()
    about = bench.about()
    options.out.with_suffix(".txt").write_text(text(about, bench.methods) + "\n")
    print(brief(about, bench.methods), flush=True)
    if options.fill:
        print(f"{bench.kept} figures of {options.fill} are kept")
    draw(about, bench.methods, options.out)
    return 1 if bench.failed else 0


if __name__ == "__main__":
    common.end(main)
