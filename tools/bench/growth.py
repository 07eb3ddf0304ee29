#!/usr/bin/env python3
"""Arrays that grow to 8 GiB, each way there is, side by side in one run.

usage: growth.py [--build DIR] [--quick] [--rounds N] [--budget SECONDS] [--out FILE.json]
       growth.py --plot FILE.json

Builds the program in DIR (default build), runs every way in turn, round by round: cudaMalloc + copy, cudaMallocAsync + copy, Thrust's
vector, the driver's bare calls, regions, and the cudaMalloc program unchanged under GPUMEM_GROW=vmm and move. Steps: doubling, half
as much again, 64 MiB, 2 MiB. Prints time, bytes copied and peak, the targets with verdicts, and writes FILE.json (default
growth.json), FILE.txt and, with matplotlib, FILE.svg and FILE.png: resize times against size (dynamic SpGEMM thesis, figure 5.3).
Rounds end when --budget seconds (300, quick 90) would be passed. Ends with 77 without a GPU.
"""

import json
import pathlib
import re
import sys
import time

import common
import picture
from results import Results
from targets import Verdict, amount

MIB, GIB = 1 << 20, 1 << 30
TOP = 8 * GIB
FIXED, SMALL = str(64 * MIB), str(2 * MIB)
STEPS = {"double": "doubling", "half": "1.5 x", FIXED: "64 MiB steps", SMALL: "2 MiB steps"}
# name: (way of the program, settings under the library or None)
WAYS = {
    "cudaMalloc + copy": ("malloc", None),
    "MallocAsync + copy": ("async", None),
    "Thrust vector": ("thrust", None),
    "driver's calls": ("driver", None),
    "region": ("region", None),
    "region, exact": ("exact", None),
    "unchanged, vmm": ("malloc", {"GPUMEM_GROW": "vmm", "GPUMEM_GROW_MATCH": "size>=2M", "GPUMEM_POLICY": "observe"}),
    "unchanged, move": ("malloc", {"GPUMEM_GROW": "move", "GPUMEM_GROW_MATCH": "size>=2M", "GPUMEM_POLICY": "observe"}),
}
MALLOC, DRIVER, REGION, EXACT, MOVE = "cudaMalloc + copy", "driver's calls", "region", "region, exact", "unchanged, move"
MAPPING = (DRIVER, REGION, EXACT)
BESIDE = (DRIVER, REGION, EXACT, "MallocAsync + copy")
# One growth of it takes seconds, so that a quick run has none; in steps of 2 MiB it would take minutes.
SLOW = {FIXED: ("Thrust vector", "unchanged, vmm")}
COLOURS = {MALLOC: "#000000", "MallocAsync + copy": "#E69F00", "Thrust vector": "#56B4E9", DRIVER: "#009E73", REGION: "#0072B2",
           EXACT: "#CC79A7", "unchanged, vmm": "#F0E442", MOVE: "#D55E00"}


def rows(quick):
    """(ways, steps, further arguments) of one round: ways that map take turns in one process, as they differ by little."""
    for steps in STEPS:
        yield MAPPING, steps, ["--samples", "3" if steps == SMALL else "8"]
        for way in WAYS:
            if way not in MAPPING and steps != SMALL and not (quick and way in SLOW.get(steps, ())):
                yield (way,), steps, ["--samples", "1" if steps == FIXED else "3"]
    for way in BESIDE:
        yield (way,), FIXED, ["--beside"]
    for size in (64, 256, 1024, 4096) if not quick else (256, 2048):  # the figure: from half to the whole
        for way in (MALLOC, REGION):
            yield (way,), "double", ["--from", str(size * MIB), "--top", str(2 * size * MIB), "--samples", "5"]


GROWN = re.compile(r"gpumem: growth by hand \d+ times, (\d+) bytes copied for it.*? pages moved instead, (\d+) bytes not copied")


def moved_share(report):
    """What GPUMEM_GROW=move says at the end: of the bytes that growth copies, the share for which pages were moved."""
    grown = GROWN.search(report)
    return int(grown[2]) / int(grown[1]) if grown and int(grown[1]) else 0


class Bench:
    def __init__(self, options):
        self.options, self.results, self.failed, self.skipped = options, Results(), {}, set()
        self.program, self.shim = options.build / "tools/bench/growth", options.build / "shim/libgpumem.so"
        self.begin = time.monotonic()

    def left(self):
        return self.options.budget - (time.monotonic() - self.begin)

    def take(self, turn, ways, steps, further):
        settings = WAYS[ways[0]][1]
        name = f"{' and '.join(ways)}, {STEPS[steps]} {' '.join(further)}"
        if self.left() < 3:
            self.skipped.add(f"{name} in round {turn + 1}")
            return
        command = [self.program, "--way", ",".join(WAYS[way][0] for way in ways), "--steps", steps, *further]
        environment = common.environment(self.shim if settings else None, settings or {})
        try:
            done = common.completed(command, environment, timeout=min(60, self.left() + 5))
            for way, line in zip(ways, map(common.Measured, done.stdout.splitlines()), strict=True):
                line.more["copied"] = round(line.more["copied"] * (1 - moved_share(done.stderr)))
                if "--from" in further:
                    line.name = f"resize:{further[further.index('--top') + 1]}"
                self.results.add(way, turn, line)
        except common.Failed as failure:
            self.failed[name] = str(failure)


# ---- verdicts


def step_ns(results, way, row):
    """A growth of a thousand steps is said by the step."""
    whole, steps = results.median(way, row), results.figures.get((way, row), {}).get("repetitions")
    return whole / steps if whole is not None and steps else None


def over(one, other):
    return one / other if one is not None and other else None


def verdicts(results):
    for steps, limit in (("double", 1 / 10), (FIXED, 1 / 200)):
        row = f"grow:{steps}"
        for way in (EXACT, REGION):
            value = results.ratio(way, row, MALLOC)
            note = f"{amount(results.median(way, row), 'ns')} against {amount(results.median(MALLOC, row), 'ns')}"
            yield Verdict(f"{STEPS[steps]}: time against cudaMalloc + copy", way, value, limit, "x", note if value else "")
    for steps in ("double", "half", FIXED):
        yield Verdict(f"{STEPS[steps]}: time against the driver's bare calls", EXACT, results.ratio(EXACT, f"grow:{steps}", DRIVER), 1.15, "x")
    for steps in STEPS:
        for way in (EXACT, REGION):
            peak = results.more(way, f"grow:{steps}", "peak")
            limit = TOP + 2 * MIB if way == EXACT else TOP + 64 * MIB
            yield Verdict(f"{STEPS[steps]}: peak", way, peak, limit, "bytes", f"copied {results.more(way, f'grow:{steps}', 'copied')} bytes")
    row = f"grow:{FIXED}"
    for way in (EXACT,):
        yield Verdict("64 MiB steps: the last quarter's against the first's", way,
                      over(results.more(way, row, "last"), results.more(way, row, "first")), 1.2, "x",
                      f"{amount(results.more(way, row, 'first'), 'ns')} and {amount(results.more(way, row, 'last'), 'ns')} a step")
    small, large = results.median(REGION, f"grow:{SMALL}"), results.median(REGION, row)
    yield Verdict("8 GiB by 2 MiB steps against 64 MiB steps", REGION, over(small, large), 2, "x",
                  f"{amount(small, 'ns')} and {amount(large, 'ns')}; exact {amount(results.median(EXACT, f'grow:{SMALL}'), 'ns')}")
    for way in (REGION, EXACT):
        row = f"beside:{FIXED}"
        with_steps, alone = results.more(way, row, "kernel"), results.more(way, row, "alone")
        yield Verdict("a memory-bound kernel beside 64 MiB steps, against alone", way, over(with_steps, alone), 1.03, "x",
                      f"step {amount(step_ns(results, way, row), 'ns')} beside it")
    for steps in ("double", "half", FIXED):
        yield Verdict(f"{STEPS[steps]}: bytes copied by an unchanged program under move", MOVE,
                      results.more(MOVE, f"grow:{steps}", "copied"), 0, "bytes")
        yield Verdict(f"{STEPS[steps]}: unchanged program under move against native", MOVE,
                      results.ratio(MOVE, f"grow:{steps}", MALLOC), 1, "x", amount(results.median(MOVE, f"grow:{steps}"), "ns"))


def table(about, results):
    lines = [f"growth to {TOP // GIB} GiB, {about['gpu']}, driver {about['driver']}, commit {about['commit']}, {about['rounds']} rounds", "",
             f"{'steps':<30}{'way':<20}{'least':>10}{'median':>10}{'most':>10}{'copied GiB':>12}{'peak GiB':>10}{'release':>10}"]
    for row in sorted(results.rows()):
        kind, _, what = row.partition(":")
        title = f"to {int(what) // MIB} MiB from half" if kind == "resize" else STEPS[what] + (" beside a kernel" if kind == "beside" else "")
        for way in WAYS:
            if not results.has(way, row):
                continue
            figure = results.figures[way, row]
            lines.append(f"{title:<30}{way:<20}{amount(figure['min'], 'ns'):>10}{amount(results.median(way, row), 'ns'):>10}"
                         f"{amount(figure['max'], 'ns'):>10}{figure['copied'] / GIB:>12.2f}{figure['peak'] / GIB:>10.2f}"
                         f"{amount(figure['release'], 'ns'):>10}")
    lines += ["", f"{'target':<62}{'way':<20}{'value':>12}{'limit':>12}  verdict"]
    for one in verdicts(results):
        lines.append(f"{one.target:<62}{one.contender:<20}{amount(one.value, one.unit):>12}{amount(one.limit, one.unit):>12}  {one.words()}"
                     + (f" ({one.note})" if one.note and one.value is not None else ""))
    return "\n".join(lines)


# ---- picture


def draw(about, results, out):
    try:
        plt = picture.pyplot()
    except picture.Missing:
        print(f"no matplotlib here: growth.py --plot {out.name} draws the picture where it is", file=sys.stderr)
        return
    figure, (left, right) = plt.subplots(1, 2, figsize=(12, 4.5), layout="constrained")
    for way in (MALLOC, REGION):
        points = sorted((int(row.split(":")[1]) / MIB, results.median(way, row) / 1e6) for row in results.rows()
                        if row.startswith("resize:") and results.has(way, row))
        if points:
            left.plot(*zip(*points), marker="o", color=COLOURS[way], label=way)
    left.set(xscale="log", yscale="log", xlabel="size after the resize from half of it (MiB)", ylabel="time (ms)",
             title="resize of an array (thesis, figure 5.3)")
    picture.plain_numbers(left.xaxis)
    picture.plain_numbers(left.yaxis)
    left.legend(fontsize=8)
    left.grid(True, linewidth=0.3)
    for place, way in enumerate(WAYS):
        bars = [(at, results.median(way, f"grow:{steps}")) for at, steps in enumerate(STEPS) if results.has(way, f"grow:{steps}")]
        if bars:
            right.bar([at + (place - 3.5) * 0.1 for at, _ in bars], [value / 1e6 for _, value in bars], 0.1, color=COLOURS[way], label=way,
                      edgecolor="black", linewidth=0.3)
    right.set(yscale="log", ylabel="time to 8 GiB (ms)", title="growth to 8 GiB")
    picture.plain_numbers(right.yaxis)
    right.set_xticks(range(len(STEPS)), list(STEPS.values()))
    right.legend(fontsize=7)
    figure.suptitle(f"{about['gpu']}, driver {about['driver']}, commit {about['commit']}", fontsize=8)
    print("picture:", *picture.save(plt, figure, out.with_suffix("")))


def arguments():
    parser = common.Parser(usage=__doc__)
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build"))
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--rounds", type=common.count)
    parser.add_argument("--budget", type=float)
    parser.add_argument("--out", type=common.output, default=pathlib.Path("growth.json"))
    parser.add_argument("--plot", type=pathlib.Path)
    parser.add_argument("--commit", help="where git does not know it")
    options = parser.parse_args()
    options.build = options.build.resolve()
    options.rounds = options.rounds or (2 if options.quick else 4)
    options.budget = options.budget or (90 if options.quick else 300)
    return options


def main():
    options = arguments()
    if options.plot:
        document = common.earlier(options.plot)
        results = Results.from_json(document["results"])
        print(table(document, results))
        return draw(document, results, options.plot)
    common.build(options.build, "tools/bench/growth")
    bench = Bench(options)
    common.run([bench.program, "--way", "driver", "--top", str(64 * MIB), "--samples", "1"], common.environment(), 60)  # is there a card?
    done = 0
    for turn in range(options.rounds):
        before = time.monotonic()
        for ways, steps, further in rows(options.quick):
            bench.take(turn, ways, steps, further)
        done, taken = turn + 1, time.monotonic() - before
        print(f"round {done}: {taken:.0f} s", flush=True)
        if bench.left() < taken:
            break
    gpu, driver = common.card()
    about = {"commit": options.commit or common.commit(), "gpu": gpu, "driver": driver, "rounds": done, "quick": options.quick,
             "failed": bench.failed, "left_out": sorted(bench.skipped)}
    document = {**about, "unit": "ns a growth", "results": bench.results.to_json(),
                "targets": [one.to_json() for one in verdicts(bench.results)]}
    options.out.write_text(json.dumps(document, indent=1) + "\n")
    text = table(about, bench.results)
    options.out.with_suffix(".txt").write_text(text + "\n")
    print(text)
    draw(about, bench.results, options.out)
    for what, why in bench.failed.items():
        print(f"growth.py: {what}: {why}", file=sys.stderr)
    if bench.skipped:
        print(f"growth.py: no time for {len(bench.skipped)} parts; see left_out in {options.out}", file=sys.stderr)
    return 1 if bench.failed else 0


if __name__ == "__main__":
    common.end(main)
