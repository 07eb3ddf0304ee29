#!/usr/bin/env python3
"""What gpumem says of real programs, and what call sites cost.

usage: explain.py texts [--build DIR] [--cuda DIR] [--programs A,B] [--limit SIZE] --out FOLDER
       explain.py calls|starts [--build DIR] [--cuda DIR] [--rounds N] [--commit NAME] --out FOLDER

texts: each program runs twice, under `observe` and under `cache`, with a trace. FOLDER/texts.txt has its closing lines, the report,
the diff of the two runs, and the words of a request that the card (for the C++ program GPUMEM_LIMIT=--limit) cannot serve, the
framework's own beside those of gpumem. FOLDER has the pictures of gpumem plot where matplotlib is installed. A program whose
framework is missing is left out.

calls: what a traced call costs, native runs and runs with a trace in turns: call sites of no and of eight frames, Python frames that
stay and that change. starts: starts with and without a trace. FOLDER/PART.json has the times, their ratios to the native run of the
same round, and the targets. Rounds are 5 for calls and 20 for starts.

--build is only read: gpumem, the library, the examples and tools/bench/calls are in it. --cuda: as in overhead.py."""
import importlib.util
import json
import pathlib
import platform
import statistics
import subprocess
import sys
import time

import common

PROGRAMS = pathlib.Path(__file__).resolve().parent / "programs"
TIME_LIMIT_S = 110
# Name: module that must be there, the program, the one that runs out of memory, and its variables.
FRAMEWORKS = {
    "PyTorch": ("torch", ["torch_step.py"], ["out_of_memory.py", "torch"], {}),
    "CuPy": ("cupy", ["cupy_step.py"], ["out_of_memory.py", "cupy"], {}),
    "JAX": ("jax", ["jax_step.py"], ["out_of_memory.py", "jax"], {"XLA_PYTHON_CLIENT_ALLOCATOR": "platform"}),
}
NS = {"call": 150, "call, 8 frames": 500, "Python frames changed": 3000}  # targets: added to a call
LARGE = 64 << 20  # an allocation that starts the card's management library (shim/start/untracked.c)


class Place:
    def __init__(self, options):
        self.options, self.out, self.build = options, options.out.resolve(), options.build.resolve()
        self.gpumem, self.shim = self.build / "tools/gpumem", self.build / "shim/libgpumem.so"
        for path in (self.gpumem, self.shim):
            if not path.exists():
                raise common.Failed(f"{path} is not there; --build names the build folder")
        self.out.mkdir(parents=True, exist_ok=True)

    def environment(self, **settings):
        return common.environment(None, settings, self.options.cuda)

    def words(self, *command, **settings):
        """Output and errors of a program, without the folders of this machine, whatever its status; and the status."""
        try:
            done = subprocess.run([str(word) for word in command], env=self.environment(**settings), capture_output=True, text=True,
                                  timeout=TIME_LIMIT_S, errors="replace")
        except subprocess.TimeoutExpired:
            return f"took longer than {TIME_LIMIT_S} s\n", 1
        text = done.stdout + done.stderr
        for folder, short in ((self.out, ""), (self.build, "build/"), (PROGRAMS.parents[2], "")):
            text = text.replace(f"{folder}/", short)
        return text, done.returncode


# ---- texts

def programs(place):
    """Name: command, command that runs out of memory, settings of both, settings of the latter."""
    linked = "" if place.options.cuda else "_static"  # the simulated CUDA needs the shared runtime
    leak = [place.build / f"examples/leak{linked}"]
    yield "C++", leak, leak, {}, {"GPUMEM_LIMIT": place.options.limit}
    for name, (module, words, beyond, settings) in FRAMEWORKS.items():
        if importlib.util.find_spec(module):
            python = [sys.executable]
            yield (name, [*python, PROGRAMS / words[0], *words[1:]], [*python, PROGRAMS / beyond[0], *beyond[1:]], settings, {})


def write_texts(place, file, name, command, beyond, settings, beyond_settings):
    def part(title, *words, **more):
        text, status = place.words(*words, **settings, **more)
        file.write(f"\n== {name}: {title}\n{text}" + (f"exit status {status}\n" if status else ""))
        file.flush()

    traces = {policy: place.out / f"{name}-{policy}.trace" for policy in ("observe", "cache")}
    for policy, trace in traces.items():
        trace.unlink(missing_ok=True)
        part(f"run under {policy}", place.gpumem, "run", f"--policy={policy}", f"--trace={trace}", "--", *command)
    part("report", place.gpumem, "report", "--reserved", "--leaks", "--stacks", traces["cache"])
    part("diff", place.gpumem, "diff", *traces.values())
    trace = place.out / f"{name}-beyond.trace"
    trace.unlink(missing_ok=True)
    part("out of memory", place.gpumem, "run", "--policy=auto", f"--trace={trace}", "--", *beyond, GPUMEM_OOM="trim,fail",
         **beyond_settings)
    part("report of it", place.gpumem, "report", "--oom", trace)
    if importlib.util.find_spec("matplotlib"):
        part("pictures", place.gpumem, "plot", "-o", place.out / f"{name}-pictures", traces["cache"])
    for trace in place.out.glob(f"{name}-*.trace"):
        trace.unlink()


def texts(place):
    wanted = place.options.programs.split(",") if place.options.programs else None
    known = ["C++", *FRAMEWORKS]
    for name in wanted or []:
        if name not in known:
            raise common.Failed(f"--programs '{name}' is none of {', '.join(known)}")
    gpu, driver = common.card() if not place.options.cuda else ("simulated CUDA", None)
    with open(place.out / "texts.txt", "w") as file:
        file.write(f"{gpu}, driver {driver}, commit {place.options.commit or common.commit()}, Python {platform.python_version()}\n")
        for name, *rest in programs(place):
            if not wanted or name in wanted:
                write_texts(place, file, name, *rest)
    print(place.out / "texts.txt")
    return 0


# ---- calls and starts

def variants():
    """Name: variables, None = native; the trace is written by all others."""
    trace = {"GPUMEM_POLICY": "observe", "GPUMEM_TRACE": "trace"}
    return {"native": None, "no frames": {**trace, "GPUMEM_STACKS": "0"}, "8 frames": {**trace, "GPUMEM_STACKS": "8", "GPUMEM_PYTHON": "0"},
            "8 frames, Python": {**trace, "GPUMEM_STACKS": "8", "GPUMEM_PYTHON": "1"}}


def lines_of(place, command, variant):
    """Medians by name, nanoseconds a pair of calls or a start; and the wall time of the process."""
    settings = dict(variant or {})
    trace = settings.pop("GPUMEM_TRACE", None)
    environ = common.environment(place.shim if variant else None, settings, place.options.cuda)
    begin = time.monotonic_ns()
    measured = common.measure(command, environ, trace, TIME_LIMIT_S)
    return {line.name: line.median for line in measured}, time.monotonic_ns() - begin


def measure_calls(place):
    """Rows of (what, variant): a value for each round."""
    rows, bench = {}, place.build / "tools/bench/calls"
    for _ in range(place.options.rounds or 5):
        for name, variant in variants().items():
            python = [sys.executable, PROGRAMS / "python_calls.py"]
            found = lines_of(place, [bench], variant)[0] if name != "8 frames, Python" else {}
            if name != "no frames":
                found |= lines_of(place, python, variant)[0]
            for what, value in found.items():
                rows.setdefault((what, name), []).append(value)
    return rows


def measure_starts(place):
    rows, bench = {}, place.build / "tools/bench/calls"
    chosen = {"native": None, "no trace": {"GPUMEM_POLICY": "observe"}, "trace": variants()["8 frames, Python"]}
    for _ in range(place.options.rounds or 20):
        for name, variant in chosen.items():
            for what, size in (("start, 1 MiB", 1 << 20), ("start, 64 MiB", LARGE)):
                found, wall = lines_of(place, [bench, "startup", size], variant)
                rows.setdefault((what, name), []).append(found["startup"])
                rows.setdefault((what + ", whole process", name), []).append(wall)
    return rows


def added(rows, what, name, base="native", calls=2):
    """The median of what a call costs more than under `base`, round by round."""
    return statistics.median(a - b for a, b in zip(rows[what, name], rows[what, base])) / calls


def calls(place):
    rows = measure_calls(place)
    return show(place, rows, {
        "call": added(rows, "alloc_async+free_async", "no frames"),
        "call, 8 frames": added(rows, "alloc_async+free_async_deep", "8 frames"),
        "Python frames unchanged": added(rows, "python-same", "8 frames, Python"),
        "Python frames changed": added(rows, "python-changed", "8 frames, Python"),
        "Python frames new": added(rows, "python-new", "8 frames, Python"),
    })


def starts(place):
    rows = measure_starts(place)
    return show(place, rows, {what: added(rows, what, "trace", "no trace", 1) for what in {what: None for what, _ in rows}})


def show(place, rows, value):
    """Prints and writes the rows, and `value`: what a call or a start costs more, ns."""
    gpu, driver = common.card() if not place.options.cuda else ("simulated CUDA", None)
    document = {"commit": place.options.commit or common.commit(), "gpu": gpu, "driver": driver,
                "rounds": len(next(iter(rows.values()))), "unit": "ns a pair of calls, or a start", "rows": [], "added": []}
    print(f"{gpu}, driver {driver}, commit {document['commit']}: ns, min / median / max, and the ratio to native round by round")
    for (what, name), values in rows.items():
        ratio = statistics.median(a / b for a, b in zip(values, rows[what, "native"]))
        document["rows"].append({"what": what, "variant": name, "min": min(values), "median": statistics.median(values),
                                 "max": max(values), "ratio": ratio})
        print(f"  {what:32}{name:18}{min(values):13.0f} / {statistics.median(values):12.0f} / {max(values):12.0f}  {ratio:7.2f} x")
    for what, ns in value.items():
        target = NS.get(what)
        verdict = None if target is None else "met" if ns <= target else "missed"
        document["added"].append({"what": what, "ns": ns, "target_ns": target, "verdict": verdict})
        print(f"  added, {what:26}{ns:10.0f} ns" + (f"   target {target} ns: {verdict}" if target else ""))
    path = place.out / f"{place.options.part}.json"
    path.write_text(json.dumps(document, indent=1) + "\n")
    print(path)
    return 0


PARTS = {"texts": texts, "calls": calls, "starts": starts}


def main():
    parser = common.Parser(usage=__doc__)
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build"))
    parser.add_argument("--cuda", type=pathlib.Path)
    parser.add_argument("--programs")
    parser.add_argument("--limit", default="4M")
    parser.add_argument("--rounds", type=common.count)
    parser.add_argument("--commit")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    options = parser.parse_args()
    options.cuda = options.cuda and options.cuda.resolve()
    return PARTS[options.part](Place(options))


if __name__ == "__main__":
    common.end(main, "--cuda build/tools/sim uses the simulated one")
