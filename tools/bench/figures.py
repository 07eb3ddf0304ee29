#!/usr/bin/env python3
"""Writes the measured figures of documents from the files in tools/bench/results, and checks that they agree.

usage: figures.py [--update] DOCUMENT...

A document has its figures between `<!-- figures NAME -->` and `<!-- /figures -->`; the function below `@block` with this NAME writes
them from the newest result files of its patterns. With --update the text between the markers is written anew, else a text that is not
current is named and the exit status is 1. A time or a ratio outside of the markers is named too: no result file would keep it true.
CONSTANTS lists those that the code decides. Manual pages have no such markers, so they can hold no measured figure.
"""

import json
import pathlib
import re
import statistics
import sys
import textwrap

import common
import frontiers as graphs
import guard
import hybrid_report
import memhc_report
import spgemm_product_results
import spgemm_results
from results import Results
from spgemm_results import claim, geometric, share, with_trim
from targets import amount

RESULTS = pathlib.Path(__file__).resolve().parent / "results"
ALLOC, FREE, HYBRID = "*-alloc*.json", "*-free*.json", "*-hybrid*.json"
GROWTH, GROWTH_TURNS = "*-h200-growth-quick*.json", "*-growth-turns*.json"
SPGEMM, PRODUCT = "*-h200-spgemm.json", "*-spgemm-product*.json"
MEMHC, MEMHC_BASELINE, GUARD = "*-memhc-quick.json", "*-memhc-baseline.json", "*-guard*.json"
WIDTH = 118
MIB, GIB = 1 << 20, 1 << 30

BLOCK = re.compile(r"(<!-- figures ([a-z0-9-]+) -->\n)(.*?)(<!-- /figures -->)", re.DOTALL)
FIGURE = re.compile(r"(?<![\w.+-])\d[\d.,]*(?:[ ~]| to \d[\d.,]* )?(?:ns|us|ms|GB/s|TB/s|x)\b")
BLOCKS = {}  # NAME -> function that writes the text
# Decided by the code, not measured: sizes of the tests, defaults, bounds.
CONSTANTS = ("1 ms kernel",)


# ---- text

def wrapped(text, indent=""):
    return textwrap.fill(" ".join(text.split()), WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def items(*texts):
    return "\n".join(wrapped("- " + text, "  ") for text in texts)


def table(head, rows):
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def titled(title, head, rows):
    return wrapped(title) + "\n\n" + table(head, rows)


def time(ns):
    """Three digits and a unit."""
    for scale, unit in ((1e6, "ms"), (1e3, "us")):
        if ns >= 0.9995 * scale:
            return f"{ns / scale:.3g} {unit}" if ns < 999.5 * scale else f"{ns / scale:.0f} {unit}"
    return f"{ns:.0f} ns"


def span(values, form="{:.2f}"):
    return f"{form.format(min(values))} to {form.format(max(values))}"


# ---- result files

class Run:
    """The newest result file of a pattern."""

    def __init__(self, pattern):
        name = max(path.name for path in RESULTS.glob(pattern))
        self.file, self.about = f"`tools/bench/results/{name}`", json.loads((RESULTS / name).read_text(encoding="utf-8"))
        self.card = f"{self.about.get('gpu')}, driver {self.about.get('driver')}"
        self.made = self.card + ", commit " + re.sub(r"\b([0-9a-f]{7})[0-9a-f]+", r"\1", self.about.get("commit", ""))

    def __getitem__(self, key):
        return self.about[key]


def block(*patterns, name=None):
    """Of a function that writes the block NAME, by default the function's own; it gets the newest Run of each pattern."""
    def add(write):
        def text():
            missing = [pattern for pattern in patterns if not any(RESULTS.glob(pattern))]
            return f"0 runs of `{missing[0]}` are published yet." if missing else write(*map(Run, patterns))

        BLOCKS[name or write.__name__.replace("_", "-")] = text
        return write

    return add


# ---- costs of the allocation path

ALLOC_ROWS = [
    ("pair:1048576", "`cudaMalloc` + `cudaFree`, 1 MiB"),
    ("free-behind-1ms", "`cudaFree` behind a 1 ms kernel"),
    ("kernel-short", "a short kernel alone"),
    ("loop-short", "malloc + short kernel + free"),
    ("kernel-long", "a longer kernel alone"),
    ("loop-long", "malloc + longer kernel + free"),
    ("threads-same:16", "the pair from 16 threads, wall time"),
    ("busy-streams:100", "the pair beside 100 busy streams"),
    ("mixed", "64 blocks of random sizes, one replaced"),
    ("fresh-alloc", "malloc of a new block, 0.5 to 4 KiB"),
    ("fresh-free", "`cudaFree` of it"),
    ("bootstrap", "a bootstrap-like operation"),
    ("thrust-sort", "Thrust sequence, sort, 1 M integers"),
    ("torch-step", "PyTorch training step without its cache"),
]
ALLOC_COLUMNS = ["native", "MallocAsync", "PyTorch", "cache", "cache async", "auto", "auto async", "managed"]
MEMORY_ROWS = [("mixed", "64 live blocks of random sizes"), ("fresh-free", "1000 new blocks of 0.5 to 4 KiB"),
               ("bootstrap", "a bootstrap-like sequence"), ("replay:cupy", "the trace of CuPy"), ("replay:thrust", "the trace of Thrust"),
               ("replay:training", "the trace of PyTorch training steps")]


def alloc_cell(value, row):
    """Of the pair from 16 threads, the wall time of one."""
    return "-" if value is None else time(value / 16 if row == "threads-same:16" else value)


@block(ALLOC)
def alloc(run):
    results = Results.from_json(run["results"])
    columns = [name for name in ALLOC_COLUMNS if name in results.contenders()]
    rows = [[title, *[alloc_cell(results.median(column, row), row) for column in columns]] for row, title in ALLOC_ROWS if row in results.rows()]
    return titled(f"{run.made}, medians of {run['rounds']} round{'s'[run['rounds'] == 1:]} ({run.file} has the spread):", ["", *columns], rows)


@block(ALLOC)
def alloc_memory(run):
    """Peak memory of the programs of the pattern rows."""
    results, rows = Results.from_json(run["results"]), []
    for row, title in MEMORY_ROWS:
        live = [value for name in results.contenders(row) if (value := results.more(name, row, "live")) is not None][:1]
        reserved = [results.more(name, row, "reserved") for name in ALLOC_COLUMNS]
        if live:
            rows.append([title, *["-" if value is None else f"{value / MIB:.1f}" for value in (*live, *reserved)]])
    return titled("Peak of the card's memory in the same run, MiB:", ["", "live", *ALLOC_COLUMNS], rows)


def verdicts(run):
    return {(one["target"], one["contender"]): one for one in run["targets"]}


def reached(verdict):
    return amount(verdict["value"], verdict["unit"])


@block(ALLOC)
def calls(run):
    found, results = verdicts(run), Results.from_json(run["results"])
    # No target, so no verdict has it: the difference of the medians.
    traced = results.median("observe, trace", "start-with-cuda") - results.median("native", "start-with-cuda")
    call, trace, start, auto, bare = ["+ " + reached(found[f"added to a {what}", contender]) for what, contender in (
        ("hooked call", "observe"), ("hooked call", "observe, trace"), ("start with CUDA", "observe"), ("start with CUDA", "auto"),
        ("start without CUDA", "observe"))]
    return table(["hooked call, `observe`", "and a trace", "start with CUDA, `observe`", "`auto`", "a trace", "start without CUDA"],
                 [[call, trace, start, auto, "+ " + time(traced), bare]])


@block("*-explain-calls*.json")
def call_sites(run):
    rows = [[SITES.get(one["what"], one["what"]), "+ " + time(one["ns"]), time(one["target_ns"]) if one["target_ns"] else "-"] for one in run["added"]]
    return titled(f"{run.made}, median of rounds: {run['rounds']} ({run.file}); added to one call that the library does not move:",
                  ["a trace with", "added", "at most"], rows)


SITES = {"call": "no frames", "call, 8 frames": "8 native frames", "Python frames unchanged": "8 native frames and Python's, as in the call before",
         "Python frames changed": "the same, changed, seen before", "Python frames new": "the same, never seen before"}


@block(ALLOC)
def missed(run):
    results = Results.from_json(run["results"])
    ratio = results.median("cache", "loop-short") / results.median("cache", "kernel-short")
    missed = {}
    for (target, name), one in verdicts(run).items():
        if one["verdict"].startswith("missed"):
            missed.setdefault((target, amount(one["limit"], one["unit"])), []).append(f"`{name}` {reached(one)}")
    return items(*(f"{target} (<= {limit}): {', '.join(names)}." for (target, limit), names in missed.items()),
                 f"`loop-short` under `cache`: {ratio:.2f} x the kernel alone (1.03 x was the aim).")


FREE_ROWS = {
    "pair:1048576": "`cudaMalloc` + `cudaFree`, 1 MiB",
    "thrust-sort": "Thrust sequence and sort",
    "hand-over": "two threads, a table handed over by a free",
    "cupy-step": "CuPy round without its pool",
    "torch-step": "PyTorch training step without its cache",
    "torch-step-item": "the same, the loss read in each step",
    "ckks-multiply": "CKKS multiplication, medium set",
}
LEVELS = ["native", "cache safe", "cache wait", "cache order", "cache async"]


def free_times(run):
    return {(one["row"], one["contender"]): time(statistics.median(turn[1] for turn in one["rounds"])) for one in run["figures"]}


@block(FREE)
def free(run):
    times = free_times(run)
    rows = [[FREE_ROWS[row], *[times.get((row, level), "-") for level in LEVELS]] for row in dict.fromkeys(row for row, _ in times)]
    return titled(f"{run.made}, policy `cache`, medians of {run['rounds']} rounds ({run.file}):",
                  ["", "native", *[f"`{level.split()[1]}`" for level in LEVELS[1:]]], rows)


# ---- hybrid allocation

BOOTSTRAP, NETWORK = ("sequence", "bootstrap", "large bootstrap"), ("sequence", "resnet", "medium resnet")
MULTIPLY, BEYOND = ("fits", 50, "large multiply"), ("beyond", 150, "large multiply")


class Hybrid:
    def __init__(self, run):
        self.samples = hybrid_report.Samples(run["samples"])

    def ms(self, scheme, place, which="median"):
        """None where the scheme has no figures there."""
        part, percent, row = place
        return (self.samples.stats(part, percent, scheme, row) or {}).get(which)

    def unsteady(self, scheme):
        return f"{self.ms(scheme, MULTIPLY, 'max') / self.ms(scheme, MULTIPLY, 'min'):.2f}"


@block(HYBRID)
def hybrid(run):
    figures, rows = Hybrid(run), []
    for scheme in figures.samples.schemes(*MULTIPLY[:2]):
        sequences = [figures.ms(scheme, place) for place in (BOOTSTRAP, NETWORK)]
        rows.append([f"`{scheme}`" if scheme in ("auto", "cache", "active-list", "plan") else scheme, f"{figures.ms(scheme, MULTIPLY):.3f}",
                     figures.unsteady(scheme), *["-" if ms is None else f"{ms:.1f}" for ms in sequences]])
    return titled(f"{run.made}, {run['rounds']} rounds ({run.file}):",
                  ["scheme", "multiplication, ms", "slowest / fastest", "bootstrap-like, ms", "network-like, ms"], rows)


@block(HYBRID)
def hybrid_story(run):
    figures, lives = Hybrid(run), run["lifetimes"]
    multiply, bootstrap, first = ({scheme: figures.ms(scheme, place, which) for scheme in figures.samples.schemes(*place[:2])}
                                  for place, which in ((MULTIPLY, "median"), (BOOTSTRAP, "median"), (MULTIPLY, "first")))
    beyond = {scheme: figures.ms(scheme, BEYOND) for scheme in figures.samples.schemes(*BEYOND[:2])}
    shorter = {name: {row["seconds"]: row["objects"] for row in one["thresholds"]} for name, one in lives.items()}
    network = shorter["resnet"]
    to_async, to_managed, to_best = (next(one["value"] for one in run["targets"] if one["target"].startswith(what) and ", 50 %" in one["target"])
                                     for what in ("active-list against cudaMallocAsync", "active-list against cudaMallocManaged", "auto against"))
    ratios = next(one for one in run["ratios"] if one["percent"] == 95)
    chunks = [one for one in ratios["runs"] if one["operation"] == "add"]
    shares = list(dict.fromkeys(one["ratio"] for one in chunks))

    def middle(share, key):
        return statistics.median(one[key] for one in chunks if one["ratio"] == share)

    kernels = [statistics.median(ms for one in chunks if one["ratio"] == share for ms in one["kernel_ms"]) for share in shares]
    return items(
        f"""The paper's multiplication went from 4.8 ms with asynchronous to 24 ms with managed memory. This one goes from
        {multiply['cudaMallocAsync']:.2f} ms to {multiply['cudaMallocManaged']:.1f} ms,
        {figures.samples.ratio(*MULTIPLY[:2], 'cudaMallocManaged', 'cudaMallocAsync', MULTIPLY[2]):.0f} x.""",
        f"""A program that knows only `cudaMalloc` takes, over all operations, {to_async:.2f} x of the asynchronous source and
        {to_managed:.2f} x of the managed one under `active-list`, and {to_best:.2f} x of the better native source under `auto`.""",
        f"""The bootstrap-like sequence is {100 * (bootstrap['auto'] / bootstrap['cudaMallocAsync'] - 1):.0f} % slower under `auto` than with the
        asynchronous source: a miss.""",
        f"""First iteration of a process: {first['auto']:.3f} ms under `auto`, {first['active-list']:.3f} ms under `active-list`,
        {first['managed pool']:.3f} ms with the managed pool.""",
        f"""Lifetimes: all {lives['bootstrap']['objects']} objects of the bootstrap-like sequence live less than 1 s,
        {shorter['bootstrap'][0.5]} of them less than 0.5 s. Of the {lives['resnet']['objects']} objects of the network-like sequence
        {network[4] - network[2]} live 2 to 4 s, the others less than {'0.125' if network[2] == network[0.125] else '2'} s. The paper's
        threshold of 1 s parts the second sequence, not the first; in the paper 8 % of the objects lived longer.""",
        f"""Ratios of asynchronous to managed memory, data of {ratios['percent']} % of {ratios['budget'] // MIB} MiB, operation add: from
        {shares[0]} % to {shares[-1]} % asynchronous, frees go from {middle(shares[0], 'free_ms'):.1f} to {middle(shares[-1], 'free_ms'):.1f} ms
        and copies from {middle(shares[0], 'copy_ms'):.1f} to {middle(shares[-1], 'copy_ms'):.1f} ms; kernels take
        {span(kernels, '{:.3f}')} ms at every ratio. The paper says both that higher ratios help and that they hurt.""",
        f"""Beyond the card (lasting data of 150 % of the limit, the excess in host memory): every policy ends with right results, a
        multiplication takes {span(beyond.values(), '{:.0f}')} ms, {span([ms / multiply[scheme] for scheme, ms in beyond.items()], '{:.0f}')} x
        the time within the card.""")


# ---- memory that grows

GROWTH_ROWS = {"grow:double": "doubling", "grow:half": "1.5 x", "grow:67108864": "64 MiB", "grow:2097152": "2 MiB"}
GROWTH_COLUMNS = {"cudaMalloc + copy": "malloc + copy", "unchanged, move": "under `move`", "MallocAsync + copy": "async + copy",
                  "Thrust vector": "Thrust", "driver's calls": "bare calls", "region": "region"}


@block(GROWTH)
def growth(run):
    found = {(one["row"], one["contender"]): f"{time(one['median'])}, {one['peak'] / GIB:.1f}" for one in run["results"] if "peak" in one}
    rows = [[title, *[found.get((row, way), "-") for way in GROWTH_COLUMNS]] for row, title in GROWTH_ROWS.items()]
    return titled(f"Growth to 8 GiB, {run.made}, medians of {run['rounds']} rounds, time and peak in GiB ({run.file}):",
                  ["steps", *GROWTH_COLUMNS.values()], rows)


@block(GROWTH, GROWTH_TURNS)
def growth_story(quick, turns):
    def reached(run, prefix, way):
        return next(one["value"] for one in run["targets"] if one["target"].startswith(prefix) and one["contender"] == way)

    steps, ways = ("doubling", "1.5 x", "64 MiB steps"), ("region, exact", "region")
    first, second = [[reached(run, "doubling: time against cudaMalloc + copy", way) for way in ways] for run in (quick, turns)]
    bare = [reached(turns, f"{step}: time against the driver's bare calls", ways[0]) for step in steps]
    kernel = [reached(run, "a memory-bound kernel beside 64 MiB steps", way) for run in (quick, turns) for way in ways]
    move = [reached(quick, f"{step}: unchanged program under move against native", "unchanged, move") for step in steps]
    return items(
        f"""An unchanged program under `move` copies no byte and takes {', '.join(f'{value:.2f}' for value in move)} of its native time by
        doubling, 1.5 x and 64 MiB steps.""",
        f"""A memory-bound kernel beside steps of 64 MiB takes {span(kernel, '{:.3f}')} x of its time alone.""",
        f"""Against the driver's bare calls, taking turns with them ({turns.file}), a region takes
        {', '.join(f'{value:.2f}' for value in bare)} of their time by doubling, 1.5 x and 64 MiB steps. The aim was 1.15.""",
        f"""Missed: doubling was to take a tenth of `cudaMalloc` + copy. It took {span(first, '{:.3f}')} x in the first run and
        {span(second)} x in the second, where growths follow each other without a rest: the driver wipes 8 GiB that came back before
        it gives them out again, and every way that maps memory waits for that.""")


# ---- sparse products

@block(SPGEMM)
def spgemm(run):
    methods, rows = spgemm_results.Methods(run["figures"]), []

    def cell(figure):
        return f"{figure['ms_median']:.3g}, {figure['peak_bytes'] / MIB:.0f}" if figure else "-"

    for matrix, size, figure, _ in claim(methods, "hash"):
        rows.append([matrix, *[cell(methods.get(matrix, method)) for method in ("cusparse:alg1", "upper-bound", "precise")],
                     f"{figure['ms_median']:.3g} ({size})", cell(methods.get(matrix, "rounds auto vmm"))])
    return titled(f"{run.made}, {run['precision']} precision, medians ({run.file}); ms, and peak MiB by an allocation counter:",
                  ["", "cuSPARSE alg1", "`upper-bound`", "`precise`", "`rounds`, best size", "`rounds`, `auto`"], rows)


def spgemm_gains(methods, kernel, took=lambda figure: figure["ms_median"]):
    """(regular, skewed): precise's time over that of the best rounds, by matrix."""
    gains = {}
    for matrix, _, _, precise in claim(methods, kernel):
        best = methods.best(matrix, kernel, took)
        if best:
            gains[matrix] = took(precise) / took(best[1])
    return ({matrix: gain for matrix, gain in gains.items() if not matrix.startswith("rmat")},
            {matrix: gain for matrix, gain in gains.items() if matrix.startswith("rmat")})


@block(SPGEMM)
def spgemm_story(run):
    methods = spgemm_results.Methods(run["figures"])
    regular, skewed = spgemm_gains(methods, "hash")
    trimmed, _ = spgemm_gains(methods, "hash", with_trim)
    thesis, _ = spgemm_gains(methods, "thesis")
    counting = [share(methods.get(matrix, "precise")) for matrix in regular]
    alg1 = {matrix: methods.get(matrix, "cusparse:alg1")["ms_median"] for matrix in methods.matrices() if methods.get(matrix, "cusparse:alg1")}
    both = [matrix for matrix in alg1 if matrix in regular]
    graph, lost = next(iter(skewed)), [matrix for matrix, gain in thesis.items() if gain <= 1]
    trims = {matrix: max(figure.get("trim_ms", 0) for _, figure in methods.rounds(matrix)) for matrix in regular}

    upper = {matrix: figure for matrix in regular if (figure := methods.get(matrix, "upper-bound"))}
    uneven = max(upper, key=lambda matrix: upper[matrix]["ms_max"] / upper[matrix]["ms_min"])

    def over(matrices, figure):
        return geometric([alg1[matrix] / figure(matrix)["ms_median"] for matrix in matrices])

    return items(
        f"""The thesis' claim holds with a fast kernel: growing while computing is faster than counting first on
        {sum(gain > 1 for gain in regular.values())} of {len(regular)} regular matrices, {span(regular.values())} x; with the return of
        unused memory counted in, on {sum(gain > 1 for gain in trimmed.values())} of {len(trimmed)}, {span(trimmed.values())} x. Counting
        takes {span(counting, '{:.0f}')} % of a call here, 47 to 93 % in the thesis.""",
        f"""With the thesis' own kernel growing wins on {sum(gain > 1 for gain in thesis.values())} of {len(thesis)} matrices (17 of 20 in the
        thesis), {span(thesis.values())} x.{f" It loses on {', '.join(lost)}." if lost else ""}""",
        f"""It loses on the skewed graph {graph}: {skewed[graph]:.2f} x.""",
        f"""Against cuSPARSE alg1 the geometric mean over {len(both)} regular matrices is
        {over(both, lambda m: methods.get(m, 'precise')):.1f} x with `precise` and {over(both, lambda m: methods.best(m)[1]):.1f} x with
        `rounds`; on {graph} {over([graph], lambda m: methods.get(m, 'precise')):.1f} x and {over([graph], lambda m: methods.best(m)[1]):.1f} x.""",
        f"""The return of unused memory takes up to {max(trims.values()):.1f} ms after a call ({max(trims, key=trims.get)}).""",
        f"""Calls of `upper-bound` differ most, from {upper[uneven]['ms_min']:.1f} to {upper[uneven]['ms_max']:.1f} ms on {uneven}: the driver wipes
        gigabytes that came back from a call before it gives them to the next one.""")


@block("*-spgemm-scale*.json")
def spgemm_scale(run):
    rows = []
    for row in run["rows"]:
        alone, *others = [one if one and "ms" in one else None for one in map(row["sets"].get, ("0", "0,1", "0,1 copied"))]
        if alone:
            rows.append([row["matrix"].removeprefix("gen:"), f"{alone['nnz_c'] / 1e6:.1f}", f"{alone['ms']:.3g}", f"{alone['peak_bytes'] / MIB:.0f}",
                         *[f"{one['ms']:.3g} ({one['distribute_ms']:.2g})" if one else "-" for one in others],
                         f"{others[0]['peak_bytes'] / MIB:.0f}" if others[0] else "-"])
    return titled(f"Two {run.made}, medians of {run['runs']} runs in ms, in brackets the part that distributes A and B ({run.file}); "
                  "peak: MiB on the device that has most:", ["matrix", "nnz(C), millions", "one", "peak", "two, NCCL", "two, copies", "peak"], rows)


def product_peers(products):
    """The programs of users take the place of cuSPARSE's slower algorithms."""
    first, *rest = spgemm_product_results.PEERS
    return [first, *(products.rivals or rest)]


def product_times(products, product):
    """Least and most of a cold call, and the medians of the others."""
    cold = products.get(product, "ours cold")
    first = f"{products.ms(product, 'ours cold'):.3g} ({span([products.ms(product, 'ours cold', end) for end in ('ms_min', 'ms_max')], '{:.3g}')})" if cold \
        else products.word(product, "ours cold")
    return [first, *[spgemm_product_results.time_cell(products, product, name) for name in ("ours warm", "ours same", *product_peers(products))]]


@block(PRODUCT)
def spgemm_product(run):
    products, number, rows = spgemm_product_results.Products(run.about), spgemm_product_results.number, []
    for product in products.products():
        best, ours, memory = products.public(product), products.ms(product, "ours cold"), products.memory(product, "ours cold")
        rows.append([product, *product_times(products, product), f"{best[1] / ours:.2f} {best[0].replace('cusparse:', '')}" if best and ours else "-",
                     number(memory and memory[0] / memory[1], "{:.2f}"), number(products.share(product, "ours cold"), "{:.0f}")])
    return titled(f"{run.made}, {run['precision']} precision, medians in ms, runs: {run['runs']} ({run.file}); `cold` with least and most; `best`: "
                  "the fastest of the others over ours cold; memory and % of the bound of the cold call:",
                  ["", "cold", "warm", "same", *[name.replace("cusparse:", "") for name in product_peers(products)], "best", "memory", "bound"], rows)


@block(PRODUCT)
def spgemm_product_aims(run):
    return items(*(f"{'Met' if met else 'Missed'}: {what}." for what, met in spgemm_product_results.aims(spgemm_product_results.Products(run.about))))


@block("*-frontiers*.json")
def frontiers(run):
    rows = {}
    for program, vertices, way, found in graphs.rows(run.about):
        peak = max(one["peak_bytes"] for one in found) / MIB
        rows.setdefault((program, vertices), {})[way] = f"{graphs.median(found, 'ms'):.3g}, {graphs.median(found, 'growing_ms'):.2g}, {peak:.0f}"
    return titled(f"{run.made}, medians of {run['rounds']} rounds of {graphs.SEARCHES} searches ({run.file}); time of a search and of its growth "
                  "in ms, peak of device memory in MiB:", ["search", "vertices", *graphs.WAYS],
                  [[graphs.PROGRAMS[program], vertices, *[cells.get(way, "-") for way in graphs.WAYS]] for (program, vertices), cells in rows.items()])


# ---- contractions

@block(MEMHC)
@block(MEMHC_BASELINE, name="memhc-baseline")
def memhc(run):
    points, rows = memhc_report.Points(run["points"]), []
    for tensor in points.swept():
        for size, rate in dict.fromkeys([*memhc_report.by_size(tensor), *memhc_report.by_rate(tensor)]):
            at = ("vectors", tensor, size, rate)
            made = [points.gflops(*at, variant) for variant in (memhc_report.BASELINE, memhc_report.UNIFIED, "unified_kept", memhc_report.FULL)]
            if made[3] and (made[0] or made[1]):
                ratios = [points.ratio((*at, memhc_report.FULL), (*at, under)) for under in (memhc_report.BASELINE, memhc_report.UNIFIED)]
                rows.append([tensor, size, rate, memhc_report.number(made[0], "{:.0f}"), memhc_report.number(made[3], "{:.0f}"),
                             memhc_report.number(ratios[0], "{:.2f}"), *(memhc_report.number(one, "{:.0f}") for one in made[1:3]),
                             memhc_report.number(ratios[1], "{:.2f}")])
    return titled(f"{run.made}, means of {run['loops']} loops, GFLOP/s ({run.file}):",
                  ["tensor", "vector size", "repeated", "unified", "full", "ratio", "made anew", "no advice", "full / made anew"], rows)


@block(MEMHC)
@block(MEMHC_BASELINE, name="memhc-baseline-story")
def memhc_story(run):
    return items(*memhc_report.story(memhc_report.Points(run["points"])))


@block("*-torch-layers*.json")
def torch_layers(run):
    rows = {}
    for one in run["rows"]:
        rows.setdefault(one["way"], []).extend([f"{one['ms_per_pass']:.1f}", one["transfers"]])
    batches = dict.fromkeys(one["batch"] for one in run["rows"])
    return titled(f"{run.made}, {run['layers']} layers under a budget of {run['budget']}, means of {run['passes']} passes ({run.file}):",
                  ["way", *[head for batch in batches for head in (f"batch {batch}, ms", "transfers")]], [[way, *cells] for way, cells in rows.items()])


# ---- memory errors

@block(GUARD)
def guard_errors(run):
    took = [span([one[key] for one in run["errors"]], "{:.1f}") for key in ("seconds", "memcheck_seconds")]
    return titled(f"{run.made} ({run.file}); a program took {took[0]} s under gpumem, {took[1]} s under memcheck:",
                  ["error", "named by gpumem", "by memcheck"], guard.error_rows(run["errors"]))


@block(GUARD)
def guard_words(run):
    return items(*guard.error_words(run["errors"]))


@block(GUARD)
def guard_costs(run):
    rows = []
    for row, name, values, ratios in guard.costs(run["rows"]):
        times = [1000 * value for value in values]
        taken = f"{time(statistics.median(times))} ({time(min(times))} to {time(max(times))}, {len(times)} rounds)"
        rows.append([row, name, taken, "-" if name == "native" else f"{statistics.median(ratios):.2f} x ({span(ratios)})"])
    return titled(f"{run.made} ({run.file}); medians, least and most of the rounds:", ["", "", "time", "to native"], rows)


# ---- commands that read traces

@block("*-trace-tools*.json")
def trace_tools(run):
    rows = []
    for row in run["rows"]:
        runs, written = row["runs"], row["runs"][0]["written_mib"]
        rows.append([f"`{row['command']}`", span([one["cpu_s"] for one in runs], "{:.1f}"), span([one["wall_s"] for one in runs], "{:.1f}"),
                     f"{max(one['peak_mib'] for one in runs):.0f}", f"{written:.0f}" if written >= 0.5 else "-"])
    return titled(f"{run['events'] / 1e6:.0f} million events, {run['live']} blocks alive at a time, {run['cores']} cores, commit {run['commit'][:7]}, "
                  f"least and most of {run['rounds']} rounds ({run.file}); the aim is {run['limit_s']} s and {run['limit_mib']} MiB:",
                  ["command, or format of an export", "processor time, s", "wall time, s", "peak memory, MiB", "written, MiB"], rows)


# ---- the front page

@block(FREE, ALLOC, HYBRID)
def headline(free_run, alloc_run, hybrid_run):
    times, found, figures = free_times(free_run), verdicts(alloc_run), Hybrid(hybrid_run)
    rows = [[title, times[row, "native"], f"{times[row, 'cache safe']} (`cache`)"] for row, title in (
        ("pair:1048576", "`cudaMalloc` + `cudaFree`, 1 MiB"), ("torch-step", "PyTorch training step, its own cache off"),
        ("torch-step-item", "the same step when it reads its loss"))]
    native, auto, source = [figures.ms(scheme, BOOTSTRAP) for scheme in ("cudaMalloc", "auto", "cudaMallocAsync")]
    rows += [["CKKS bootstrap-like sequence", f"{native:.1f} ms", f"{auto:.1f} ms (`auto`); {source:.1f} with `cudaMallocAsync` in the source"],
             ["added to a call by a trace; to a start with CUDA", "",
              f"{reached(found['added to a hooked call', 'observe, trace'])}; {reached(found['added to a start with CUDA', 'auto'])}"]]
    return table(["one H200", "native", "under gpumem"], rows)


@block(GUARD)
def guard_headline(run):
    step = next(statistics.median(ratios) for row, name, _, ratios in guard.costs(run["rows"]) if "12 layers" in row and name == "guard all")
    return f"A PyTorch step without its cache takes {step:.2f} x its native time ([table](tools/bench/README.md))."


# ---- documents

def prose(text):
    """Without blocks, generated lists, and what programs printed (indented by four, between code fences, .EX and .EE)."""
    text = BLOCK.sub("", text)
    text = re.sub(r"^\.EX$.*?^\.EE$", "", text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"<!-- (options|policies|demo) -->.*?<!-- /\1 -->", "", text, flags=re.DOTALL)
    text = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"^    .*$", "", text, flags=re.MULTILINE)


def troubles_of(path, text):
    for _, name, shown, _ in BLOCK.findall(text):
        if name not in BLOCKS:
            yield f"{path}: no figures are called {name}; there are {', '.join(BLOCKS)}"
        elif shown.strip() != BLOCKS[name]().strip():
            yield f"{path}: figures {name} are not current; run: {pathlib.Path(__file__).name} --update {path}"
    rest = " ".join(prose(text).replace("\\-", "-").split())
    for constant in CONSTANTS:
        rest = rest.replace(constant, "")
    for found in FIGURE.finditer(rest):
        yield f"{path}: '{rest[max(0, found.start() - 30):found.end()]}': a figure that no result file keeps true"


def main():
    parser = common.Parser(usage=__doc__)
    parser.add_argument("--update", action="store_true")
    parser.add_argument("documents", nargs="+", type=pathlib.Path)
    options = parser.parse_args()
    update, paths, troubles = options.update, options.documents, []
    for path in paths:
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, ValueError) as problem:
            sys.exit(f"figures.py: {path}: {getattr(problem, 'strerror', None) or 'not a text in UTF-8'}")
        if update:
            text = BLOCK.sub(lambda found: found[1] + BLOCKS[found[2]]() + "\n" + found[4] if found[2] in BLOCKS else found[0], text)
            path.write_text(text, encoding="utf-8")
        troubles += troubles_of(path, text)
    print("\n".join(troubles) or f"{len(paths)} documents agree with the results")
    return 1 if troubles else 0


if __name__ == "__main__":
    sys.exit(main())
