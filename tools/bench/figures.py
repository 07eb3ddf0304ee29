#!/usr/bin/env python3
"""Writes the measured figures of documents from the files in tools/bench/results, and checks that they agree.

usage: figures.py [--update] DOCUMENT...

A document has its figures between `<!-- figures NAME -->` and `<!-- /figures -->`; BLOCKS has a function for each NAME. With --update
the text between the markers is written anew, else a text that is not current is named and the exit status is 1. A time or a ratio
outside of the markers is named too: no result file would keep it true. CONSTANTS lists those that the code decides. Manual pages have
no such markers, so they can hold no measured figure.
"""

import json
import pathlib
import re
import statistics
import sys
import textwrap

import common
import frontiers
import memhc_report
import spgemm_product_results
import spgemm_results
from results import Results
from spgemm_results import claim, geometric, share, with_trim

RESULTS = pathlib.Path(__file__).resolve().parent / "results"
ALLOC, ALLOC_H100 = "2026-11-22-h200-alloc-quick.txt", "2026-11-21-h100-alloc.txt"
FREE, HYBRID = "2026-11-22-h200-free.json", "2026-11-21-h200-hybrid-quick.md"
GROWTH, GROWTH_TURNS = "2026-11-21-h200-growth-quick.json", "2026-11-22-h200-growth-turns.json"
SPGEMM = "2026-11-23-h200-spgemm.json"
TRACE_TOOLS = "2026-11-22-trace-tools.json"
# The newest run; without one there are no such blocks.
MEMHC = max((path.name for path in RESULTS.glob("*-memhc*.json")), default=None)
WIDTH = 118
MIB, GIB = 1 << 20, 1 << 30

BLOCK = re.compile(r"(<!-- figures ([a-z0-9-]+) -->\n)(.*?)(<!-- /figures -->)", re.DOTALL)
FIGURE = re.compile(r"(?<![\w.+-])\d[\d.,]*(?:[ ~]| to \d[\d.,]* )?(?:ns|us|ms|GB/s|TB/s|x)\b")
# Decided by the code, not measured: sizes of the tests, defaults, bounds.
CONSTANTS = ("1 ms kernel",)


# ---- text

def wrapped(text):
    return textwrap.fill(" ".join(text.split()), WIDTH, break_long_words=False, break_on_hyphens=False)


def item(text):
    return textwrap.fill("- " + " ".join(text.split()), WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


def table(head, rows):
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def time(ns):
    """Three digits and a unit."""
    for scale, unit in ((1e6, "ms"), (1e3, "us")):
        if ns >= 0.9995 * scale:
            return f"{ns / scale:.3g} {unit}" if ns < 999.5 * scale else f"{ns / scale:.0f} {unit}"
    return f"{ns:.0f} ns"


def span(values, form="{:.2f}"):
    return f"{form.format(min(values))} to {form.format(max(values))}"


# ---- result files

def read(name):
    return (RESULTS / name).read_text(encoding="utf-8")


def document(name):
    return json.loads(read(name))


def newest(pattern):
    """Name of the newest result file; None without one."""
    return max((path.name for path in RESULTS.glob(pattern)), default=None)


def unpublished(bench):
    return f"0 runs of `{bench}` are published yet."


def nanoseconds(text):
    value, unit = text.split()
    return float(value) * {"ns": 1, "us": 1e3, "ms": 1e6}[unit]


class Alloc:
    """The text that alloc.py writes: medians and bytes by row and contender, and the verdicts."""

    LINE = re.compile(r"^  (\S.*?)\s+([\d.]+ \w+) /\s+([\d.]+ \w+) /\s+([\d.]+ \w+)(?:\s+[\d.]+ x)?(?:.*reserved ([\d.]+) MiB for ([\d.]+) MiB)?")

    def __init__(self, name):
        figures, targets = read(name).split("\nTARGETS\n")
        lines = figures.splitlines()
        self.commit, self.gpu, self.driver, self.rounds = re.match(
            r"commit (\w+), GPU (.*), driver ([\d.]+); (\d+) rounds", lines[0]).groups()
        self.rows, row = {}, None
        for line in lines[1:]:
            found = self.LINE.match(line)
            if found:
                name, least, median, most, reserved, live = found.groups()
                self.rows[row][name] = {"median": nanoseconds(median), "reserved": reserved, "live": live}
            else:
                row = line.strip()
                self.rows[row] = {}
        found = re.findall(r"^  (\S.*?) {2,}(\S.*) \[(.*)\]: (\S+(?: \w+)?) \((<= .*)\)$", re.sub(r"(?<=MiB) (?=trace|pair|mixed|fresh-free|bootstrap)", "  ", targets), re.MULTILINE)
        self.targets = {(target, name): (verdict, value, limit) for verdict, target, name, value, limit in found}

    def median(self, row, name):
        return self.rows.get(row, {}).get(name, {}).get("median")

    def cell(self, row, name, divided=1):
        value = self.median(row, name)
        return "-" if value is None else time(value / divided)


class Free:
    def __init__(self):
        self.about = document(FREE)
        self.figures = {(one["row"], one["contender"]): statistics.median(turn[1] for turn in one["rounds"])
                        for one in self.about["figures"]}

    def rows(self):
        return list(dict.fromkeys(row for row, _ in self.figures))

    def cell(self, row, contender):
        value = self.figures.get((row, contender))
        return "-" if value is None else time(value)


class Tables:
    """The Markdown tables below each heading of a document: (heading, first cell, head of the column) -> cell."""

    def __init__(self, name):
        self.text, self.cells, heading, head = read(name), {}, "", None
        for line in self.text.splitlines():
            if line.startswith("#"):
                heading = line.lstrip("# ").strip()
            cells = [cell.strip() for cell in line.strip("|").split("|")] if line.startswith("|") else None
            if not cells:
                head = None
            elif head is None:
                head = cells
            elif not set(cells[0]) <= set("-"):
                self.cells.update({(heading, cells[0], column): cell for column, cell in zip(head, cells)})

    def cell(self, heading, row, column):
        """The heading may be cut short."""
        for (its_heading, its_row, its_column), cell in self.cells.items():
            if its_heading.startswith(heading) and (its_row, its_column) == (row, column):
                return cell
        raise KeyError((heading, row, column))

    def number(self, heading, row, column):
        return float(self.cell(heading, row, column).split()[0])

    def rows(self, heading):
        return list(dict.fromkeys(row for its_heading, row, _ in self.cells if its_heading.startswith(heading)))


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


def alloc_table(name):
    alloc = Alloc(name)
    columns = [name for name in ALLOC_COLUMNS if any(name in row for row in alloc.rows.values())]
    rows = [[title, *[alloc.cell(row, column, 16 if row == "threads-same:16" else 1) for column in columns]]
            for row, title in ALLOC_ROWS if row in alloc.rows]
    about = (f"{alloc.gpu}, driver {alloc.driver}, commit {alloc.commit[:7]}, medians of {alloc.rounds} rounds "
             f"(`tools/bench/results/{name}` has the spread):")
    return wrapped(about.replace("1 rounds", "1 round")) + "\n\n" + table(["", *columns], rows)


def alloc():
    return alloc_table(ALLOC)


def alloc_h100():
    return alloc_table(ALLOC_H100)


def alloc_memory():
    """Peak memory of the programs of the pattern rows."""
    alloc = Alloc(ALLOC)
    there = [(row, title) for row, title in MEMORY_ROWS if any(one["live"] for one in alloc.rows.get(row, {}).values())]
    columns = [name for name in ALLOC_COLUMNS if any(alloc.rows[row].get(name, {}).get("reserved") for row, _ in there)]
    rows = []
    for row, title in there:
        cells = alloc.rows[row]
        live = next(one["live"] for one in cells.values() if one["live"])
        rows.append([title, live, *[cells.get(name, {}).get("reserved") or "-" for name in columns]])
    return wrapped("Peak of the card's memory in the same run, MiB:") + "\n\n" + table(["", "live", *columns], rows)


def calls():
    rows = []
    for name, title in ((ALLOC, "H200"), (ALLOC_H100, "H100")):
        one = Alloc(name)

        def added(what, contender):
            return "+ " + one.targets[f"added to a {what}", contender][1]

        # No target, so no verdict has it: the difference of the medians.
        traced = one.median("start-with-cuda", "observe, trace") - one.median("start-with-cuda", "native")
        rows.append([title, added("hooked call", "observe"), added("hooked call", "observe, trace"), added("start with CUDA", "observe"),
                     added("start with CUDA", "auto"), "+ " + time(traced), added("start without CUDA", "observe")])
    return table(["", "hooked call, `observe`", "and a trace", "start with CUDA, `observe`", "`auto`", "a trace", "start without CUDA"], rows)


def call_sites():
    name = newest("*-explain-calls.json")
    if not name:
        return unpublished("explain.py calls")
    about = document(name)
    rows = [[one["what"], "+ " + time(one["ns"]), time(one["target_ns"]) if one["target_ns"] else "-"] for one in about["added"]]
    return wrapped(f"{about['gpu']}, driver {about['driver']}, commit {about['commit'][:7]}, median of rounds: {about['rounds']} "
                   f"(`tools/bench/results/{name}`); added to one call that the library does not move:") + "\n\n" + table(
        ["a trace with", "added", "at most"], [[SITES.get(what, what), *rest] for what, *rest in rows])


SITES = {"call": "no frames", "call, 8 frames": "8 native frames", "Python frames unchanged": "8 native frames and Python's, as in the call before",
         "Python frames changed": "the same, changed, seen before", "Python frames new": "the same, never seen before"}


def missed():
    alloc = Alloc(ALLOC)
    lines = [item(f"{target}, `{name}`: {value} ({limit}).") for (target, name), (verdict, value, limit) in alloc.targets.items()
             if verdict.startswith("missed")]
    ratio = alloc.median("loop-short", "cache") / alloc.median("kernel-short", "cache")
    mixed = alloc.rows["mixed"]["cache"]
    if ("mixed: reserved beyond 1.25 x live + 64 MiB", "cache") not in alloc.targets:
        lines.append(item(f"`mixed` under `cache`: {float(mixed['reserved']):.0f} MiB reserved for {float(mixed['live']):.0f} MiB live, "
                          f"{float(mixed['reserved']) / float(mixed['live']):.2f} x (1.25 x and 64 MiB were the aim)."))
    lines.append(item(f"`loop-short` under `cache`: {ratio:.2f} x the kernel alone (1.03 x was the aim)."))
    return "\n".join(lines)


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


def free():
    figures = Free()
    rows = [[FREE_ROWS[row], *[figures.cell(row, level) for level in LEVELS]] for row in figures.rows()]
    about = figures.about
    return wrapped(f"{about['gpu']}, driver {about['driver']}, commit {about['commit'][:7]}, policy `cache`, medians of {about['rounds']} "
                   f"rounds (`tools/bench/results/{FREE}`):") + "\n\n" + table(["", "native", *[f"`{level.split()[1]}`" for level in LEVELS[1:]]], rows)


# ---- hybrid allocation

STORY, SEQUENCES, NETWORK = "`large multiply` at 50 %", "bootstrap", "resnet"
FITS, BEYOND = "Lasting data of 50 %", "Lasting data of 150 %"


def objects_between(tables, heading, low, high):
    """Objects that live from `low` to `high` seconds."""
    return int(tables.cell(heading, high, "objects below")) - int(tables.cell(heading, low, "objects below"))


def hybrid():
    tables = Tables(HYBRID)
    schemes = [row for row in tables.rows(STORY)]
    rows = []
    for scheme in schemes:
        cells = [tables.cell(STORY, scheme, "median ms"), tables.cell(STORY, scheme, "slowest / fastest iteration")]
        for heading, column in ((SEQUENCES, "large bootstrap"), (NETWORK, "medium resnet")):
            try:
                cells.append(f"{tables.number(heading, scheme, column):.1f}")
            except KeyError:
                cells.append("-")
        rows.append([f"`{scheme}`" if scheme.split(",")[0] in ("auto", "cache", "active-list", "plan") else scheme, *cells])
    commit, gpu, driver, rounds = re.search(r"Commit (\w+), GPU (.*?), driver ([\d.]+), (\d+) rounds", tables.text).groups()
    return wrapped(f"{gpu}, driver {driver}, commit {commit[:7]}, {rounds} rounds (`tools/bench/results/{HYBRID}`):") + "\n\n" + table(
        ["scheme", "multiplication, ms", "slowest / fastest", "bootstrap-like, ms", "network-like, ms"], rows)


def hybrid_story():
    tables = Tables(HYBRID)

    def multiply(scheme):
        return tables.number(STORY, scheme, "median ms")

    def bootstrap(scheme):
        return tables.number(SEQUENCES, scheme, "large bootstrap")

    boot, net = "`bootstrap`:", "`resnet`:"
    count = {heading: int(re.search(re.escape(heading) + r" (\d+) objects", tables.text)[1]) for heading in (boot, net)}
    beyond = [tables.number(BEYOND, scheme, "large multiply") for scheme in tables.rows(BEYOND)]
    within = [tables.number(FITS, scheme, "large multiply") for scheme in tables.rows(BEYOND)]
    first = {scheme: re.search(r"first ([\d.]+)", tables.cell(FITS, scheme, "large multiply"))[1] for scheme in ("auto", "active-list", "managed pool")}
    ratio = "95 % of 128 MiB"
    runs = [[cell.strip() for cell in line.strip("|").split("|")] for line in
            tables.text.split(f"### {ratio}")[1].split("\n### ")[0].splitlines() if line.startswith("| add ")]
    kernels = [float(run[5].split()[0]) for run in runs]
    steady = [float(tables.cell(STORY, scheme, "slowest / fastest iteration")) for scheme in ("cache", "active-list", "managed pool", "static rules", "plan")]
    target = {name: float(tables.cell("Hybrid allocation, measured", row, "value").split()[0]) for name, row in (
        ("async", "active-list against cudaMallocAsync, all operations, 50 % of the budget"),
        ("managed", "active-list against cudaMallocManaged, all operations, 50 % of the budget"),
        ("auto", "auto against the better of cudaMalloc and cudaMallocAsync, 50 % of the budget"))}
    return "\n".join(item(text) for text in (
        f"""The paper's multiplication went from 4.8 ms with asynchronous to 24 ms with managed memory. This one goes from
        {multiply('cudaMallocAsync'):.2f} ms to {multiply('cudaMallocManaged'):.1f} ms,
        {tables.number(STORY, 'cudaMallocManaged', 'against cudaMallocAsync'):.0f} x. With `cudaMalloc` it takes {multiply('cudaMalloc'):.2f} ms.""",
        f"""The paper's hybrid, managed memory only for what lasts, takes {multiply('hybrid source'):.2f} ms, with advice
        {multiply('hybrid source, advice'):.2f} ms: most of the rest is first touches that advice spares.""",
        f"""A program that knows only `cudaMalloc` takes, over all operations, {target['async']:.2f} x of the asynchronous source and
        {target['managed']:.2f} x of the managed one under `active-list`, and {target['auto']:.2f} x of the better native source under `auto`.""",
        f"""The bootstrap-like sequence takes {bootstrap('cudaMalloc'):.1f} ms natively, {bootstrap('cudaMallocAsync'):.1f} ms with asynchronous,
        {bootstrap('cudaMallocManaged'):.0f} ms with managed memory, {bootstrap('cache'):.1f} ms under `cache` and {bootstrap('auto'):.1f} ms
        under `auto`. `auto` is {100 * (bootstrap('auto') / bootstrap('cudaMallocAsync') - 1):.0f} % slower than the asynchronous source
        there: a miss.""",
        f"""Slowest over fastest iteration of the multiplication: {span(steady)} under `cache`, `active-list`, the managed pool, rules and
        plans, {tables.cell(STORY, 'auto', 'slowest / fastest iteration')} under `auto`,
        {tables.cell(STORY, 'cudaMallocManaged', 'slowest / fastest iteration')} all managed.""",
        f"""First iteration of a process: {first['auto']} ms under `auto`, {first['active-list']} ms under `active-list`,
        {first['managed pool']} ms with the managed pool.""",
        f"""Lifetimes: all {count[boot]} objects of the bootstrap-like sequence live less than 1 s, {tables.cell(boot, '0.5', 'objects below')}
        of them less than 0.5 s. Of the {count[net]} objects of the network-like sequence {objects_between(tables, net, '2', '4')} live
        2 to 4 s, the others less than {'0.125' if objects_between(tables, net, '0.125', '2') == 0 else '2'} s. The paper's threshold of 1 s
        parts the second sequence, not the first; in the paper 8 % of the objects lived longer.""",
        f"""Ratios of asynchronous to managed memory, data of {ratio}, operation add: from 0 % to 95 % asynchronous, frees go from
        {float(runs[0][6]):.1f} to {float(runs[-1][6]):.1f} ms and copies from {float(runs[0][4]):.1f} to {float(runs[-1][4]):.1f} ms; kernels
        take {span(kernels, '{:.3f}')} ms at every ratio. The paper says both that higher ratios help and that they hurt.""",
        f"""Beyond the card (lasting data of 150 % of the limit, the excess in host memory): every policy ends with right results, a
        multiplication takes {span(beyond, '{:.0f}')} ms, {span([a / b for a, b in zip(beyond, within)], '{:.0f}')} x the time within the
        card."""))


# ---- memory that grows

GROWTH_ROWS = {"grow:double": "doubling", "grow:half": "1.5 x", "grow:67108864": "64 MiB", "grow:2097152": "2 MiB"}
GROWTH_COLUMNS = {"cudaMalloc + copy": "malloc + copy", "unchanged, move": "under `move`", "MallocAsync + copy": "async + copy",
                  "Thrust vector": "Thrust", "driver's calls": "bare calls", "region": "region"}


def growth_value(about, prefix, way):
    return next((one for one in about["targets"] if one["target"].startswith(prefix) and one["contender"] == way), None)


def growth():
    about = document(GROWTH)
    found = {(one["row"], one["contender"]): one for one in about["results"]}
    rows = []
    for row, title in GROWTH_ROWS.items():
        cells = []
        for way in GROWTH_COLUMNS:
            one = found.get((row, way))
            cells.append(f"{time(one['median'])}, {one['peak'] / GIB:.1f}" if one else "-")
        rows.append([title, *cells])
    return wrapped(f"Growth to 8 GiB, {about['gpu']}, driver {about['driver']}, commit {about['commit'][:7]}, medians of {about['rounds']} "
                   f"rounds, time and peak in GiB (`tools/bench/results/{GROWTH}`):") + "\n\n" + table(["steps", *GROWTH_COLUMNS.values()], rows)


def growth_story():
    quick, turns = document(GROWTH), document(GROWTH_TURNS)
    beside_copy = "doubling: time against cudaMalloc + copy"
    ways = ("region, exact", "region")
    ratios = [[growth_value(about, beside_copy, way)["value"] for way in ways] for about in (quick, turns)]
    bare = [growth_value(turns, f"{steps}: time against the driver's bare calls", "region, exact")["value"] for steps in ("doubling", "1.5 x", "64 MiB steps")]
    kernel = [growth_value(about, "a memory-bound kernel beside 64 MiB steps", way)["value"] for about in (quick, turns) for way in ways]
    move = [growth_value(quick, f"{steps}: unchanged program under move against native", "unchanged, move")["value"] for steps in ("doubling", "1.5 x", "64 MiB steps")]
    return "\n".join(item(text) for text in (
        f"""An unchanged program under `move` copies no byte and takes {', '.join(f'{value:.2f}' for value in move)} of its native time by
        doubling, 1.5 x and 64 MiB steps.""",
        f"""A memory-bound kernel beside steps of 64 MiB takes {span(kernel, '{:.3f}')} x of its time alone.""",
        f"""Against the driver's bare calls, taking turns with them (`tools/bench/results/{GROWTH_TURNS}`), a region takes
        {', '.join(f'{value:.2f}' for value in bare)} of their time by doubling, 1.5 x and 64 MiB steps. The aim was 1.15.""",
        f"""Missed: doubling was to take a tenth of `cudaMalloc` + copy. It took {span(ratios[0], '{:.3f}')} x in the first run and
        {span(ratios[1])} x in the second, where growths follow each other without a rest: the driver wipes 8 GiB that came back before
        it gives them out again, and every way that maps memory waits for that."""))


# ---- sparse products

def spgemm_methods():
    about = document(SPGEMM)
    return about, spgemm_results.Methods(about["figures"])


def spgemm():
    about, methods = spgemm_methods()
    best = {matrix: (size, figure) for matrix, size, figure, _ in claim(methods, "hash")}

    def cell(figure):
        return f"{figure['ms_median']:.3g}, {figure['peak_bytes'] / MIB:.0f}" if figure else "-"

    rows = []
    for matrix in methods.matrices():
        if matrix in best:
            size, figure = best[matrix]
            rows.append([matrix, *[cell(methods.get(matrix, method)) for method in ("cusparse:alg1", "upper-bound", "precise")],
                         f"{figure['ms_median']:.3g} ({size})", cell(methods.get(matrix, "rounds auto vmm"))])
    return wrapped(f"{about['gpu']}, driver {about['driver']}, commit {about['commit'][:7]}, {about['precision']} precision, medians "
                   f"(`tools/bench/results/{SPGEMM}`); ms, and peak MiB by an allocation counter:") + "\n\n" + table(
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


def spgemm_story():
    _, methods = spgemm_methods()
    regular, skewed = spgemm_gains(methods, "hash")
    trimmed, _ = spgemm_gains(methods, "hash", with_trim)
    thesis, _ = spgemm_gains(methods, "thesis")
    counting = [share(methods.get(matrix, "precise")) for matrix in regular]
    alg1 = {matrix: methods.get(matrix, "cusparse:alg1")["ms_median"] for matrix in methods.matrices() if methods.get(matrix, "cusparse:alg1")}
    both = [matrix for matrix in alg1 if matrix in regular]
    graph, lost = next(iter(skewed)), [matrix for matrix, gain in thesis.items() if gain <= 1]
    mapped = [figure["grow_ms"] for matrix in regular for _, figure in methods.rounds(matrix) if "grow_ms" in figure]
    trims = {matrix: max(figure.get("trim_ms", 0) for _, figure in methods.rounds(matrix)) for matrix in regular}

    upper = {matrix: figure for matrix in regular if (figure := methods.get(matrix, "upper-bound"))}
    uneven = max(upper, key=lambda matrix: upper[matrix]["ms_max"] / upper[matrix]["ms_min"])

    def over(matrices, figure):
        return geometric([alg1[matrix] / figure(matrix)["ms_median"] for matrix in matrices])

    return "\n".join(item(text) for text in (
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
        f"""Mapping takes the host {span(mapped, '{:.1f}')} ms of such a call, most
        of it while the device works. The return of unused memory takes up to {max(trims.values()):.1f} ms after it
        ({max(trims, key=trims.get)}).""",
        f"""Calls of `upper-bound` differ most, from {upper[uneven]['ms_min']:.1f} to {upper[uneven]['ms_max']:.1f} ms on {uneven}: the driver wipes
        gigabytes that came back from a call before it gives them to the next one."""))


KERNELS, RANKS = "2026-11-22-h200-spgemm-kernels.json", "2026-11-22-h200-spgemm-kernels-ranks.json"
STEPS = "2026-11-23-h200-spgemm-steps.json"
KERNEL_COLUMNS = {"rounds, old": ("rounds", "old"), "new": ("rounds", "new"), "alone": ("rounds", "alone"), "atomic": ("rounds", "atomic"),
                  "precise, old": ("precise", "old"), "precise, new": ("precise", "new"), "auto": ("auto", "new"), "warm": ("auto:warm", "new"),
                  "cuSPARSE": ("cusparse:alg1", "peer")}
RANKS_COLUMNS = {"rounds": ("rounds", "new"), "precise": ("precise", "new"), "precise, atomic": ("precise", "atomic"), "auto": ("auto", "new"),
                 "warm": ("auto:warm", "new"), "same": ("auto:same", "new"), "cuSPARSE": ("cusparse:alg1", "peer")}


def kernel_table(about, columns):
    found = {(row["matrix"], row["mode"], row["variant"]): row["median"] for row in about["rows"] if not row["error"]}
    matrices = list(dict.fromkeys(row["matrix"] for row in about["rows"]))
    return table(["matrix", *columns], [[matrix, *[f"{found[matrix, *column]:.2f}" if (matrix, *column) in found else "-"
                                                   for column in columns.values()]] for matrix in matrices])


def spgemm_kernels():
    about = document(KERNELS)
    return wrapped(f"{about['gpu']}, driver {about['driver']}, medians in ms; old: commit {about['old']}, all others {about['commit']} "
                   f"(`tools/bench/results/{KERNELS}` has every run):") + "\n\n" + kernel_table(about, KERNEL_COLUMNS)


def spgemm_ranks():
    about = document(RANKS)
    return wrapped(f"{about['gpu']}, driver {about['driver']}, commit {about['commit']}, medians in ms (`tools/bench/results/{RANKS}` has every run):"
                   ) + "\n\n" + kernel_table(about, RANKS_COLUMNS)


def spgemm_variants():
    about = document(RANKS)
    rows = [[row["matrix"], row["mode"], row["variant"], f"{row['median']:.2f} ({row['min']:.2f} to {row['max']:.2f})"] for row in about["variants"]["rows"]]
    return wrapped(f"{about['gpu']}, driver {about['driver']}, commit {about['variants']['commit']}, median, least and most in ms; \"kept\" is the "
                   "variant that stayed:") + "\n\n" + table(["matrix", "mode", "variant", "ms"], rows)


def spgemm_steps():
    about = document(STEPS)
    found = {(row["matrix"], row["mode"], row["variant"]): sorted(row["ms"]) for row in about["rows"]}

    def cell(*key):
        ms = found.get(key)
        return f"{statistics.median(ms):.3g} ({ms[0]:.3g} to {ms[-1]:.3g})" if ms else "-"

    calls = list(dict.fromkeys((row["matrix"], row["mode"]) for row in about["rows"]))
    return wrapped(f"{about['gpu']}, driver {about['driver']}, median, least and most of {len(about['rows'][0]['ms'])} calls in ms, without the return of memory "
                   f"(`tools/bench/results/{STEPS}`); " + ", ".join(f"{variant}: commit {commit}" for variant, commit in about["commits"].items()) + ":"
                   ) + "\n\n" + table(["matrix", "call", *about["commits"]], [[*call, *[cell(*call, variant) for variant in about["commits"]]] for call in calls])


def spgemm_scale():
    name = newest("*-spgemm-scale*.json")
    if not name:
        return unpublished("spgemm_scale.py")
    about, rows = document(name), []
    for row in about["rows"]:
        alone, *others = [row["sets"].get(key) for key in ("0", "0,1", "0,1 copied")]
        if alone and "ms" in alone:
            rows.append([row["matrix"].removeprefix("gen:"), f"{alone['nnz_c'] / 1e6:.1f}", f"{alone['ms']:.3g}", f"{alone['peak_bytes'] / MIB:.0f}",
                         *[f"{one['ms']:.3g} ({one['distribute_ms']:.2g})" if one and "ms" in one else "-" for one in others],
                         f"{others[0]['peak_bytes'] / MIB:.0f}" if others[0] and "ms" in others[0] else "-"])
    return wrapped(f"Two {about['gpu']}, driver {about['driver']}, commit {about['commit']}, medians of {about['runs']} runs in ms, in brackets the part "
                   f"that distributes A and B (`tools/bench/results/{name}`); peak: MiB on the device that has most:") + "\n\n" + table(
        ["matrix", "nnz(C), millions", "one", "peak", "two, NCCL", "two, copies", "peak"], rows)


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


def spgemm_product():
    name, number = newest("*-spgemm-product*.json"), spgemm_product_results.number
    if not name:
        return unpublished("spgemm_product.py")
    about = document(name)
    products, rows = spgemm_product_results.Products(about), []
    for product in products.products():
        best, ours, memory = products.public(product), products.ms(product, "ours cold"), products.memory(product, "ours cold")
        rows.append([product, *product_times(products, product), f"{best[1] / ours:.2f} {best[0].replace('cusparse:', '')}" if best and ours else "-",
                     number(memory and memory[0] / memory[1], "{:.2f}"), number(products.share(product, "ours cold"), "{:.0f}")])
    return wrapped(f"{about['gpu']}, driver {about['driver']}, commit {about['commit'][:7]}, {about['precision']} precision, medians in ms, runs: {about['runs']} "
                   f"(`tools/bench/results/{name}`); `cold` with least and most; `best`: the fastest of the others over ours cold; memory and "
                   "% of the bound of the cold call:") + "\n\n" + table(
        ["", "cold", "warm", "same", *[name.replace("cusparse:", "") for name in product_peers(products)], "best", "memory", "bound"], rows)


def spgemm_product_aims():
    name = newest("*-spgemm-product*.json")
    if not name:
        return unpublished("spgemm_product.py")
    about = document(name)
    return "\n".join(item(f"{'Met' if met else 'Missed'}: {what}.") for what, met in spgemm_product_results.aims(spgemm_product_results.Products(about)))


def frontiers_table():
    name = newest("*-frontiers*.json")
    if not name:
        return unpublished("frontiers.py")
    about, rows = document(name), {}
    for program, vertices, way, found in frontiers.rows(about):
        peak = max(one["peak_bytes"] for one in found) / MIB
        rows.setdefault((program, vertices), {})[way] = f"{frontiers.median(found, 'ms'):.3g}, {frontiers.median(found, 'growing_ms'):.2g}, {peak:.0f}"
    return wrapped(f"{about['gpu']}, driver {about['driver']}, commit {about['commit'][:7]}, medians of {about['rounds']} rounds of {frontiers.SEARCHES} "
                   f"searches (`tools/bench/results/{name}`); time of a search and of its growth in ms, peak of device memory in MiB:") + "\n\n" + table(
        ["search", "vertices", *frontiers.WAYS],
        [[frontiers.PROGRAMS[program], vertices, *[cells.get(way, "-") for way in frontiers.WAYS]] for (program, vertices), cells in rows.items()])


# ---- contractions

def memhc():
    about = document(MEMHC)
    points = memhc_report.Points(about["points"])
    rows = []
    for tensor in points.swept():
        for size, rate in [*memhc_report.by_size(tensor), *memhc_report.by_rate(tensor)]:
            values = [points.gflops("vectors", tensor, size, rate, variant) for variant in (memhc_report.UNIFIED, "unified_kept", memhc_report.FULL)]
            row = [tensor, size, rate, *("-" if value is None else f"{value:.0f}" for value in values), f"{values[2] / values[0]:.2f}"
                   if values[0] and values[2] else "-"]
            if values[0] and values[2] and row not in rows:
                rows.append(row)
    return wrapped(f"{about['gpu']}, driver {about['driver']}, commit {about['commit']}, means of {about['loops']} loops, GFLOP/s "
                   f"(`tools/bench/results/{MEMHC}`):") + "\n\n" + table(
        ["tensor", "vector size", "repeated", "unified", "unified, kept", "full", "full / unified"], rows)


def memhc_story():
    points = memhc_report.Points(document(MEMHC)["points"])
    return "\n".join(item(text) for text in memhc_report.story(points))


# ---- commands that read traces

def trace_tools():
    about, rows = document(TRACE_TOOLS), []
    for row in about["rows"]:
        runs = row["runs"]
        written = runs[0]["written_mib"]
        rows.append([f"`{row['command']}`", span([run["cpu_s"] for run in runs], "{:.1f}"), span([run["wall_s"] for run in runs], "{:.1f}"),
                     f"{max(run['peak_mib'] for run in runs):.0f}", f"{written:.0f}" if written >= 0.5 else "-"])
    return wrapped(f"{about['events'] / 1e6:.0f} million events, {about['live']} blocks alive at a time, {about['cores']} cores, commit "
                   f"{about['commit'][:7]}, least and most of {about['rounds']} rounds (`tools/bench/results/{TRACE_TOOLS}`); the aim is "
                   f"{about['limit_s']} s and {about['limit_mib']} MiB:") + "\n\n" + table(
        ["command, or format of an export", "processor time, s", "wall time, s", "peak memory, MiB", "written, MiB"], rows)


# ---- the front page

def headline():
    free_figures, alloc_figures, tables = Free(), Alloc(ALLOC), Tables(HYBRID)
    traced = alloc_figures.targets["added to a hooked call", "observe, trace"][1]
    start = alloc_figures.targets["added to a start with CUDA", "auto"][1]

    def bootstrap(scheme):
        return tables.number(SEQUENCES, scheme, "large bootstrap")

    rows = [
        ["`cudaMalloc` + `cudaFree`, 1 MiB", free_figures.cell("pair:1048576", "native"), free_figures.cell("pair:1048576", "cache safe") + " (`cache`)"],
        ["PyTorch training step, its own cache off", free_figures.cell("torch-step", "native"), free_figures.cell("torch-step", "cache safe") + " (`cache`)"],
        ["the same step when it reads its loss", free_figures.cell("torch-step-item", "native"), free_figures.cell("torch-step-item", "cache safe") + " (`cache`)"],
        ["CKKS bootstrap-like sequence", f"{bootstrap('cudaMalloc'):.1f} ms",
         f"{bootstrap('auto'):.1f} ms (`auto`); {bootstrap('cudaMallocAsync'):.1f} with `cudaMallocAsync` in the source"],
        ["added to a call by a trace; to a start with CUDA", "", f"{traced}; {start}"],
    ]
    return table(["one H200", "native", "under gpumem"], rows)


BLOCKS = {"headline": headline, "alloc": alloc, "alloc-h100": alloc_h100, "alloc-memory": alloc_memory, "calls": calls, "call-sites": call_sites, "missed": missed, "free": free, "hybrid": hybrid,
          "hybrid-story": hybrid_story, "growth": growth, "growth-story": growth_story, "trace-tools": trace_tools, "spgemm": spgemm, "spgemm-story": spgemm_story,
          "spgemm-kernels": spgemm_kernels, "spgemm-ranks": spgemm_ranks, "spgemm-variants": spgemm_variants, "spgemm-steps": spgemm_steps, "spgemm-scale": spgemm_scale, "spgemm-product": spgemm_product, "spgemm-product-aims": spgemm_product_aims, "frontiers": frontiers_table,
          **({"memhc": memhc, "memhc-story": memhc_story} if MEMHC else {})}


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
