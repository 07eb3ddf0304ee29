#!/usr/bin/env python3
"""Asynchronous and managed memory in one program, side by side in one run: homomorphic operations and chunks by ratio.

usage: hybrid.py [--build DIR] [--quick] [--commit HASH] [--budget SECONDS] [--out FILE.json]
       hybrid.py --plot FILE.json
       hybrid.py --sim [--build DIR] [--out FILE.json]

Builds the examples he_ops and chunks in DIR (default build). he_ops runs under every scheme in turn, round by round: changed source
(cudaMallocAsync, cudaMallocManaged, both, with advice and without) and the unchanged program under each policy of the library, with
plans and rules made from a trace of the same run. Then the same beyond a limit, whole sequences, the sweep of the active list's range
and of a plan's lifetimes, and chunks by ratio. Writes FILE.json (default hybrid.json), FILE.md, pictures (FILE.svg, FILE-ratios.svg,
FILE-lifetimes.svg, and .png) and FILE-traces/. What would pass --budget seconds (380, quick 130) after the build is left out and named.

Managed memory stays far below the card's free memory, and the programs refuse where it would not. --plot draws and prints an earlier
run; lifetimes are drawn from its FILE-traces/. --sim tries the script on the simulated CUDA with tiny sizes and what DIR already has: times
mean nothing. Ends with 77 without a GPU.
"""

import gzip
import json
import os
import pathlib
import platform
import re
import subprocess
import sys
import tempfile
import time

import common
import hybrid_lifetimes
import hybrid_picture
import hybrid_report
import picture
from hybrid_schemes import ACTIVE, PLAN, QUICK, SCHEMES, TINY, Scheme, Sizes

HOST_TIER = "trim,host,fail"
# No part begins a run after this share of the budget, so that every part gets some of it.
UNTIL = {"fits": 0.35, "beyond": 0.5, "sequence": 0.8, "ratios": 0.95, "sweep": 1.0}


class Bench:
    def __init__(self, options, sizes, folder):
        self.options, self.sizes, self.folder = options, sizes, folder
        self.shim, self.gpumem = options.build / "shim" / "libgpumem.so", options.build / "tools" / "gpumem"
        ending = "" if options.sim else "_static"
        self.he_ops, self.chunks = (options.build / "examples" / f"{name}{ending}" for name in ("he_ops", "chunks"))
        self.cuda = options.build / "tools" / "sim" if options.sim else None
        self.samples, self.ratios, self.lifetimes = hybrid_report.Samples(), [], {}
        self.failed, self.left_out, self.checksums, self.traces = {}, {}, {}, {}
        self.begin = time.monotonic()
        self.plans = self.knows_plans()
        self.schemes = [one for one in SCHEMES if (one.quick or not options.quick) and (self.plans or not one.planned())]

    def knows_plans(self):
        return subprocess.run([self.gpumem, "plan", "--help"], capture_output=True).returncode == 0

    def left(self, part):
        return UNTIL[part] * self.options.budget - (time.monotonic() - self.begin)

    def environment(self, settings):
        return common.environment(self.shim if settings is not None else None, settings or {}, self.cuda)

    def attempt(self, part, what, work):
        """Whether it was done; the run goes on after a failure, and without what there is no time for."""
        if self.left(part) < 1:
            self.left_out[what] = True
            return False
        try:
            work(min(90, self.left(part) + 10))
            return True
        except common.Failed as failure:
            self.failed[what] = str(failure)
            return False

    # ---- he_ops

    def arguments(self, percent, iterations):
        return ["--set", self.sizes.set, "--operation", self.sizes.operations, "--iterations", iterations,
                "--footprint", self.sizes.budget * percent // 100]

    def limit(self):
        return {"GPUMEM_LIMIT": str(self.sizes.budget), "GPUMEM_OOM": HOST_TIER}

    def take(self, part, percent, turn, scheme, arguments, extra=None):
        """One process of he_ops; `extra`: settings of the library beside the scheme's."""
        what = f"{part} {percent}: {scheme.name}"

        def work(limit):
            files = self.traces.get((part, percent), {})
            settings = scheme.settings
            if scheme.planned():
                missing = [one for one in ("plan", "rules", "advised") if scheme.needs(one) and one not in files]
                if missing:
                    raise common.Failed(f"no {missing[0]} was made for it")
                settings = {**settings, "GPUMEM_POLICY": settings["GPUMEM_POLICY"].format(**files)}
            settings = settings if settings is None else {**settings, **(extra or {})}
            out = self.folder / "run.json"
            common.run([self.he_ops, *arguments, "--allocator", scheme.allocator, "--advice", scheme.advice, "--json", out],
                       self.environment(settings), limit)
            for one in json.loads(out.read_text())["sets"]:
                for operation in one["operations"]:
                    row = f"{one['set']} {operation['name']}"
                    self.samples.add(part, percent, scheme.name, row, turn, operation["host_ms"])
                    # The operands do not depend on the footprint, the number of layers is the same for a whole run.
                    if self.checksums.setdefault(row, operation["checksum"]) != operation["checksum"]:
                        raise common.Failed(f"{row} computed something else than the first scheme did")

        self.attempt(part, what, work)

    def trace(self, part, percent, arguments, extra=None):
        """Records a run of he_ops and makes plan and rules of it; a trace is kept beside the results."""
        name = f"{part}-{percent}"
        raw = self.folder / f"{name}.csv"

        def work(limit):
            common.run([self.he_ops, *arguments], self.environment({"GPUMEM_POLICY": "observe", "GPUMEM_TRACE": str(raw),
                                                                    "GPUMEM_STACKS": "6", **(extra or {})}), limit)
            kept = self.options.out.with_name(self.options.out.stem + "-traces")
            kept.mkdir(exist_ok=True)
            with gzip.GzipFile(kept / f"{name}.csv.gz", "wb", mtime=0) as file:
                file.write(raw.read_bytes())
            if self.plans:
                self.traces[part, percent] = self.make_plans(part, percent, raw)

        return raw if self.attempt(part, f"trace of {part} {percent}", work) else None

    def plan(self, raw, name, *arguments):
        made = self.folder / name
        common.run([self.gpumem, "plan", raw, *arguments, "-o", made], common.environment(), 30)
        return made

    def make_plans(self, part, percent, raw):
        stem = f"{part}-{percent}"
        # In sequences the paper's threshold of a second; else as many objects as fit.
        how = ("--lifetime", "1s") if part == "sequence" else ("--fit", self.sizes.budget * 9 // 10)
        made = {"plan": self.plan(raw, f"{stem}.plan", *how)}
        made["rules"] = self.plan(raw, f"{stem}.rules", "--lifetime", "100ms", "--as-rules")
        made["advised"] = self.folder / f"{stem}.advised"
        made["advised"].write_text(re.sub(r"->managed(?=\s|$)", "->managed,preferred-location=device,prefetch",
                                          made["rules"].read_text(), flags=re.MULTILINE))
        return made

    def part(self, part, percents, schemes, iterations, extra=None):
        for percent in percents:
            self.trace(part, percent, self.arguments(percent, iterations), extra)
        for turn in range(self.sizes.rounds):
            for percent in percents:
                for scheme in schemes:
                    self.take(part, percent, turn, scheme, self.arguments(percent, iterations), extra)

    def read_lifetimes(self, name, raw, limit):
        objects, end = hybrid_lifetimes.read_objects(raw)
        report = json.loads(common.run([self.gpumem, "report", "--json", raw], common.environment(), limit))
        self.lifetimes[name] = {"objects": len(objects), "end_ms": end, "report": report["traces"][0]["lifetimes"],
                                "below_second": hybrid_lifetimes.share_below(objects, end, 1),
                                "thresholds": hybrid_lifetimes.by_threshold(objects, end)}

    def sequences(self):
        schemes = [one for one in self.schemes if one.sequence]
        for name, arguments in self.sizes.sequences:
            raw = self.trace("sequence", name, arguments)
            if raw:
                self.attempt("sequence", f"lifetimes of {name}", lambda limit, raw=raw, name=name: self.read_lifetimes(name, raw, limit))
        for name, arguments in self.sizes.sequences:
            for scheme in schemes:
                self.take("sequence", name, 0, scheme, arguments)

    def sweep(self):
        """The active list's range and a plan's lifetime; both on the trace and data of the middle footprint."""
        percent = self.sizes.fits[len(self.sizes.fits) // 2]
        arguments = self.arguments(percent, self.sizes.iterations)
        for reach in self.sizes.ranges:
            self.take("sweep", percent, 0, Scheme(f"{ACTIVE} X={reach}", policy="active-list", GPUMEM_LIST_RANGE=str(reach)), arguments)
        raw = self.folder / f"fits-{percent}.csv"
        if not self.plans or not raw.exists():
            return
        for lifetime in self.sizes.lifetimes:
            def work(_, lifetime=lifetime):
                made = self.plan(raw, f"sweep-{lifetime}.plan", "--lifetime", lifetime)
                self.take("sweep", percent, 0, Scheme(f"{PLAN} N={lifetime}", policy=f"plan:{made}"), arguments)
            self.attempt("sweep", f"sweep of lifetime {lifetime}", work)

    # ---- chunks

    def chunk_run(self, percent, beyond, budget, block):
        bytes_wanted = budget * percent // 100
        arguments = ["--footprint", bytes_wanted, "--block", block, "--ratio", ",".join(map(str, self.sizes.ratios)),
                     "--rounds", self.sizes.chunk_rounds, "--check"]
        # Managed memory that the program itself asks for stays on the card; what lies beyond the limit is cudaMalloc's.
        settings = {"GPUMEM_POLICY": "observe", "GPUMEM_LIMIT": str(budget), "GPUMEM_OOM": HOST_TIER} if beyond else None
        arguments += ["--card", budget, "--rest", "malloc"] if beyond else []

        def work(limit):
            out = self.folder / "chunks.json"
            common.run([self.chunks, *arguments, "--json", out], self.environment(settings), limit)
            made = json.loads(out.read_text())
            self.ratios.append({"percent": percent, "budget": budget, "beyond": beyond, "block": block, "runs": made["runs"]})

        self.attempt("ratios", f"chunks of {block} bytes at {percent} %", work)

    def chunk_runs(self):
        sizes = self.sizes
        for beyond, percents in ((False, sizes.chunk_fits), (True, sizes.chunk_beyond)):
            for percent in percents:
                self.chunk_run(percent, beyond, sizes.chunk_budget, sizes.chunk_block)
        if sizes.single_chunks:
            self.chunk_run(50, False, sizes.chunk_budget // 8, 4096)

    def run(self):
        sizes = self.sizes
        if not self.plans:
            print("static rules and plans are left out: this gpumem has no plan", flush=True)
        parts = (("operations", lambda: self.part("fits", sizes.fits, self.schemes, sizes.iterations)),
                 ("beyond the limit", lambda: self.part("beyond", sizes.beyond, [one for one in self.schemes if one.beyond],
                                                       sizes.beyond_iterations, self.limit())),
                 ("sequences", self.sequences), ("ratios", self.chunk_runs), ("sweep", self.sweep))
        for name, work in parts:
            before = time.monotonic()
            work()
            print(f"{name}: {time.monotonic() - before:.0f} s", flush=True)


def finish(document, out):
    out.write_text(json.dumps(document, separators=(",", ":")) + "\n")
    show(document, out)


def show(document, out):
    text = hybrid_report.markdown(document)
    out.with_suffix(".md").write_text(text)
    print(text)
    try:
        print("pictures:", ", ".join(str(path) for path in hybrid_picture.draw(document, out)))
    except picture.Missing:
        print(f"no matplotlib here: hybrid.py --plot {out.name} draws the pictures where it is", file=sys.stderr)


def arguments():
    parser = common.Parser(usage=__doc__)
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build"))
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--sim", action="store_true")
    parser.add_argument("--budget", type=float)
    parser.add_argument("--out", type=common.output, default=pathlib.Path("hybrid.json"))
    parser.add_argument("--plot", type=pathlib.Path)
    parser.add_argument("--commit", help="where git does not know it")
    options = parser.parse_args()
    options.build, options.out = options.build.resolve(), options.out.resolve()
    options.budget = options.budget or (600 if options.sim else 130 if options.quick else 380)
    return options


def main():
    options = arguments()
    if options.plot:
        return show(common.earlier(options.plot), options.plot)
    if not options.sim: # a test of the build does not build
        common.build(options.build, "tools/gpumem", "examples/he_ops_static", "examples/chunks_static")
    sizes = TINY if options.sim else QUICK if options.quick else Sizes()
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(options, sizes, pathlib.Path(folder))
        common.run([bench.he_ops, "--iterations", 1, "--set", "small", "--operation", "all", "--check"], bench.environment(None), 90)
        bench.run()
    gpu, driver = common.card()
    rounds = max((len(values) for values in bench.samples.figures.values()), default=0)
    beyond = sum(what.startswith("beyond ") for what in bench.failed)
    document = {"commit": options.commit or common.commit(), "gpu": gpu, "driver": driver, "machine": platform.machine(),
                "cores": os.cpu_count(), "quick": options.quick, "simulated": options.sim, "rounds": rounds,
                "seconds": round(time.monotonic() - bench.begin), "budget": sizes.budget, "unit": "ms", "samples": bench.samples.to_json(),
                "ratios": bench.ratios, "lifetimes": bench.lifetimes, "checksums": bench.checksums, "failed": bench.failed,
                "left_out": sorted(bench.left_out),
                "targets": [one.to_json() for one in hybrid_report.verdicts(bench.samples, bench.lifetimes, beyond)]}
    finish(document, options.out)
    for what, why in bench.failed.items():
        print(f"hybrid.py: {what}: {why}", file=sys.stderr)
    if bench.left_out:
        print(f"hybrid.py: no time for {len(bench.left_out)} parts; see left_out in {options.out}", file=sys.stderr)
    return 1 if bench.failed else 0


if __name__ == "__main__":
    common.end(main, "--plot FILE.json draws an earlier run, --sim tries the script")
