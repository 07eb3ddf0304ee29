#!/usr/bin/env python3
"""Graph searches whose lists grow: in place beside copying, in time and memory.

usage: frontiers.py [--build DIR] [--quick] [--rounds N] [--budget SECONDS] [--cuda DIR] [--vertices N,...] [--out FILE.json]
       frontiers.py --plot FILE.json

Runs examples/bfs_frontier and examples/sssp in DIR (default build, built first): the lists grow in place, or by a larger block and a copy;
and the program that copies, unchanged, with GPUMEM_GROW=move, and with GPUMEM_POLICY=cache. A process makes one search that is not counted and
six that are; all ways take turns in each of --rounds rounds (4, --quick 2). After --budget seconds (240, quick 60) nothing more is started.

A time is that of a whole search, with all growth and without the upload of the graph and the release of the lists at the end. Growing is the
part spent in growth, measured on the host, which waits for the device before and after. The peak is device memory in use beyond that before the
first search, looked at when a list grows: under copying the old and the new block are there at that moment. Memory that a policy keeps counts.
Every search is checked.

Prints a table and writes FILE.json (default frontiers.json), FILE.txt and FILE.svg and .png. --plot prints and draws an earlier run. --cuda:
folder of another libcuda.so.1. Exits with 77 without a GPU.
"""

import json
import pathlib
import re
import statistics
import sys
import time

import common
import picture

MIB = 1 << 20
# Way: (argument of the program, settings under the library or None)
WAYS = {
    "in place": ("in-place", None),
    "copy": ("copy", None),
    "copy, move": ("copy", {"GPUMEM_GROW": "move", "GPUMEM_GROW_MATCH": "size>=2M", "GPUMEM_POLICY": "observe"}),
    "copy, cache": ("copy", {"GPUMEM_POLICY": "cache"}),
}
COLOURS = {"in place": picture.COLOURS[5], "copy": picture.COLOURS[0], "copy, move": picture.COLOURS[6], "copy, cache": picture.COLOURS[1]}
PROGRAMS = {"bfs_frontier": "breadth-first search", "sssp": "shortest paths"}
VERTICES = {"bfs_frontier": [1 << 20, 1 << 22, 1 << 24], "sssp": [1 << 18, 1 << 20, 1 << 22]}
SEARCHES = 6
LINE = re.compile(r"^search: ms=([\d.]+) growing_ms=([\d.]+) growths=(\d+) copied=(\d+) peak_bytes=(\d+)$", re.MULTILINE)
END = re.compile(r" (\d+) vertices, (\d+) edges, .* in (\d+) rounds, 0 wrong$", re.MULTILINE)


def searches(said):
    """Figures of the searches behind the first one, and of the graph."""
    found, end = LINE.findall(said), END.search(said)
    if len(found) < 2 or not end:
        raise common.Failed(f"no searches in what it printed: {said[-200:]!r}")
    names = ("ms", "growing_ms", "growths", "copied", "peak_bytes")
    return [dict(zip(names, (float(one[0]), float(one[1]), *map(int, one[2:])))) for one in found[1:]], {"edges": int(end[2]), "rounds": int(end[3])}


class Bench:
    def __init__(self, options):
        self.options, self.begin = options, time.monotonic()
        self.runs, self.graphs, self.failed, self.left_out = {}, {}, {}, []

    def left(self):
        return self.options.budget - (time.monotonic() - self.begin)

    def take(self, program, vertices, way):
        key = f"{program}|{vertices}|{way}"
        if self.left() < 2:
            self.left_out.append(key)
            return
        argument, settings = WAYS[way]
        shim = self.options.build / "shim/libgpumem.so"
        suffix = "" if self.options.cuda else "_static"
        environment = common.environment(shim if settings else None, settings or {}, self.options.cuda)
        try:
            found, graph = searches(common.run([self.options.build / "examples" / (program + suffix), argument, vertices, SEARCHES + 1], environment,
                                               max(5, min(60, self.left() + 10))))
            self.runs.setdefault(key, []).extend(found)
            self.graphs[f"{program}|{vertices}"] = graph
        except common.Failed as failure:
            self.failed[key] = str(failure)


def median(found, name):
    return statistics.median(one[name] for one in found)


def rows(about):
    """(program, vertices, way, figures) in the order of the tables."""
    for program in PROGRAMS:
        for vertices in sorted({int(key.split("|")[1]) for key in about["runs"] if key.startswith(program + "|")}):
            for way in WAYS:
                found = about["runs"].get(f"{program}|{vertices}|{way}")
                if found:
                    yield program, vertices, way, found


def table(about):
    lines = [f"searches whose lists grow, {about['gpu']}, driver {about['driver']}, commit {about['commit']}, {about['rounds']} rounds of {SEARCHES} searches", "",
             f"{'search':<22}{'vertices':>10}{'edges':>11}  {'lists grow by':<13}{'least ms':>10}{'median':>10}{'most':>10}{'growing':>10}{'growths':>9}{'copied MiB':>12}{'peak MiB':>10}"]
    for program, vertices, way, found in rows(about):
        times = [one["ms"] for one in found]
        lines.append(f"{PROGRAMS[program]:<22}{vertices:>10}{about['graphs'][f'{program}|{vertices}']['edges']:>11}  {way:<13}{min(times):>10.3f}{median(found, 'ms'):>10.3f}"
                     f"{max(times):>10.3f}{median(found, 'growing_ms'):>10.3f}{median(found, 'growths'):>9.0f}{median(found, 'copied') / MIB:>12.1f}"
                     f"{max(one['peak_bytes'] for one in found) / MIB:>10.1f}")
    lines += [f"failed: {key.replace('|', ', ')}: {why}" for key, why in about["failed"].items()]
    if about["left_out"]:
        lines.append(f"no time: {', '.join(about['left_out'])}")
    return "\n".join(lines)


def draw(about, out):
    try:
        plt = picture.pyplot()
    except picture.Missing:
        print(f"no matplotlib here: frontiers.py --plot {out.name} draws the picture where it is", file=sys.stderr)
        return
    questions = {"time of a search (ms)": lambda found: median(found, "ms"), "time in growth (ms)": lambda found: median(found, "growing_ms"),
                 "peak memory of the lists (MiB)": lambda found: max(one["peak_bytes"] for one in found) / MIB}
    figure, grid = plt.subplots(len(PROGRAMS), len(questions), figsize=(12, 6), layout="constrained", squeeze=False)
    for line, program in zip(grid, PROGRAMS):
        for axes, (question, value) in zip(line, questions.items()):
            for way in WAYS:
                points = [(vertices, value(found)) for name, vertices, its_way, found in rows(about) if (name, its_way) == (program, way) and value(found) > 0]
                if points:
                    axes.plot(*zip(*points), marker="o", markersize=4, linewidth=1.2, color=COLOURS[way], label=way)
            axes.set(yscale="log", ylabel=question, xlabel="vertices")
            axes.set_xscale("log", base=2)
            axes.set_title(PROGRAMS[program], fontsize=9)
            picture.plain_numbers(axes.yaxis)
            axes.grid(linewidth=0.3)
    handles, labels = grid[0][0].get_legend_handles_labels()
    figure.get_layout_engine().set(rect=(0, 0.06, 1, 0.94))
    figure.legend(handles, labels, loc="lower center", ncol=len(WAYS), fontsize=9)
    figure.suptitle(f"Lists that grow in place and by copying: {about['gpu']}, driver {about['driver']}, commit {about['commit'][:12]}; medians", fontsize=10)
    print("picture:", *picture.save(plt, figure, out.with_suffix("")))


def arguments():
    parser = common.Parser(usage=__doc__)
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build"))
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--rounds", type=common.count)
    parser.add_argument("--budget", type=float)
    parser.add_argument("--cuda", type=pathlib.Path)
    parser.add_argument("--vertices", type=lambda text: [int(number) for number in text.split(",")])
    parser.add_argument("--out", type=common.output, default=pathlib.Path("frontiers.json"))
    parser.add_argument("--plot", type=pathlib.Path)
    parser.add_argument("--commit", help="where git does not know it")
    options = parser.parse_args()
    options.build = options.build.resolve()
    options.rounds = options.rounds or (2 if options.quick else 4)
    options.budget = options.budget or (60 if options.quick else 240)
    return options


def main():
    options = arguments()
    if options.plot:
        document = common.earlier(options.plot)
        print(table(document))
        return draw(document, options.plot)
    common.build(options.build, *(f"examples/{program}{'' if options.cuda else '_static'}" for program in PROGRAMS))
    if not options.cuda and common.card()[0] is None:
        raise common.NoCard
    bench = Bench(options)
    for turn in range(options.rounds):
        for program in PROGRAMS:
            for vertices in options.vertices or VERTICES[program][:2 if options.quick else 3]:
                for way in WAYS:
                    bench.take(program, vertices, way)
        print(f"round {turn + 1}: {options.budget - bench.left():.0f} s so far", flush=True)
    gpu, driver = (None, None) if options.cuda else common.card()
    about = {"commit": options.commit or common.commit(), "gpu": gpu, "driver": driver, "rounds": options.rounds, "quick": options.quick,
             "graphs": bench.graphs, "failed": bench.failed, "left_out": bench.left_out, "runs": bench.runs}
    options.out.write_text(json.dumps(about, indent=1) + "\n")
    text = table(about)
    options.out.with_suffix(".txt").write_text(text + "\n")
    print(text)
    draw(about, options.out)
    return 1 if bench.failed or not bench.runs else 0


if __name__ == "__main__":
    common.end(main)
