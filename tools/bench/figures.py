#!/usr/bin/env python3
"""Writes the measured figures of documents from the files in tools/bench/results, and checks that they agree.

usage: figures.py [--update] DOCUMENT...

A document has its figures between `<!-- figures NAME -->` and `<!-- /figures -->`; the function below `@block` with this NAME writes
them from the newest result files of its patterns. With --update the text between the markers is written anew, else a text that is not
current is named and the exit status is 1. A time or a ratio outside of the markers is named too: no result file would keep it true.
CONSTANTS lists those that the code decides. Manual pages have no such markers, so they can hold no measured figure.
"""

import pathlib
import re
import statistics
import sys

import common
import frontiers as graphs
# These write blocks, too.
import guard  # noqa: F401
import hybrid_report  # noqa: F401
import memhc_report  # noqa: F401
import share  # noqa: F401
import spgemm_product_results  # noqa: F401
import suspend  # noqa: F401
from figure_text import BLOCKS, GIB, MIB, block, items, span, table, time, titled
from results import Results
from targets import amount

ALLOC, FREE = "*-alloc*.json", "*-free*.json"
GROWTH, GROWTH_TURNS = "*-h200-growth-quick*.json", "*-growth-turns*.json"

BLOCK = re.compile(r"(<!-- figures ([a-z0-9-]+) -->\n)(.*?)(<!-- /figures -->)", re.DOTALL)
FIGURE = re.compile(r"(?<![\w.+-])\d[\d.,]*(?:[ ~]| to \d[\d.,]* )?(?:ns|us|ms|GB/s|TB/s|x)\b")
# Decided by the code, not measured: sizes of the tests, defaults, bounds.
CONSTANTS = ("1 ms kernel", "no calls returns it after 100 ms", "no call for 100 ms")


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
    ("mixed", "64 live, random sizes, one replaced"),
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


@block("*-threads.json")
def threads(run):
    results = Results.from_json(run["results"])
    columns = [name for name in ALLOC_COLUMNS if name in results.contenders()]
    rows = [[row.rpartition(":")[2], *[time(results.median(column, row)) for column in columns]] for row in results.rows()]
    return titled(f"{run.made}, {run['cores']} processors, medians of {run['rounds']} rounds ({run.file}); a pair of 1 MiB as its thread sees it:",
                  ["threads", *columns], rows)


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


@block("*-frontiers*.json")
def frontiers(run):
    rows = {}
    for program, vertices, way, found in graphs.rows(run.about):
        peak = max(one["peak_bytes"] for one in found) / MIB
        rows.setdefault((program, vertices), {})[way] = f"{graphs.median(found, 'ms'):.3g}, {graphs.median(found, 'growing_ms'):.2g}, {peak:.0f}"
    return titled(f"{run.made}, medians of {run['rounds']} rounds of {graphs.SEARCHES} searches ({run.file}); time of a search and of its growth "
                  "in ms, peak of device memory in MiB:", ["search", "vertices", *graphs.WAYS],
                  [[graphs.PROGRAMS[program], vertices, *[cells.get(way, "-") for way in graphs.WAYS]] for (program, vertices), cells in rows.items()])


@block("*-torch-layers*.json")
def torch_layers(run):
    rows = {}
    for one in run["rows"]:
        rows.setdefault(one["way"], []).extend([f"{one['ms_per_pass']:.1f}", one["transfers"]])
    batches = dict.fromkeys(one["batch"] for one in run["rows"])
    return titled(f"{run.made}, {run['layers']} layers under a budget of {run['budget']}, means of {run['passes']} passes ({run.file}):",
                  ["way", *[head for batch in batches for head in (f"batch {batch}, ms", "transfers")]], [[way, *cells] for way, cells in rows.items()])


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

HEADLINE_ROWS = ("pair:1048576", "threads-same:16", "mixed", "torch-step")


@block(ALLOC)
def headline(run):
    """All of one run, so that the ratios hold."""
    results, found, titles = Results.from_json(run["results"]), verdicts(run), dict(ALLOC_ROWS)
    rows = [[titles[row], *[alloc_cell(results.median(way, row), row) for way in ("native", "auto", "MallocAsync", "PyTorch")]]
            for row in HEADLINE_ROWS]
    added = [reached(found[f"added to a {what}", way]) for what, way in (("hooked call", "observe, trace"), ("start with CUDA", "auto"))]
    return table([f"{run['gpu']}, commit {run['commit'][:7]}", "native", "under gpumem", "`cudaMallocAsync`", "PyTorch's allocator"],
                 [*rows, ["added to a call by a trace; to a start with CUDA", "", "; ".join(added), "", ""]])


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
