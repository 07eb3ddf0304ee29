#!/usr/bin/env python3
"""What GPUMEM_GUARD costs: a PyTorch training step without PyTorch's cache (programs/torch_step.py), and pairs of cudaMalloc and
cudaFree on an idle card, round by round.

usage: guard.py [--build DIR] [--rounds N] [--subjects NAME,...] [--suite FILE] [--out FILE.json]

NAME: steps, deep (a step with more allocations), pairs; default all. Each contender is a process of its own: native, and the library
under policy observe with one of 1000 blocks guarded, and with all. Those of a step live through all rounds and measure in turn, so that
they meet the same clocks. In the first round compute-sanitizer's memcheck runs a step, too. What samples cost is measured in one
process, in which they are switched on and off by turns (samples.py). Says each measure on standard error at once.
Prints microseconds (least, median, most of the rounds' medians) and the ratio to native in each round (the same three), and of samples
the mean ratio of on to off with its standard error. Writes FILE.json (default guard.json) with commit, card and driver, anew after each
round. --suite adds what part `guard` of tests/gpu/gpu_suite.py printed. Ends with 77 without a GPU; without PyTorch the steps are left
out. 12 rounds take less than four minutes.
"""

import argparse
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

import common
import samples
from figure_text import block, items, span, time, titled

HERE = pathlib.Path(__file__).resolve().parent
CONTENDERS = {
    "native": None,
    "guard 1/1000": {"GPUMEM_GUARD": "1/1000"},
    "guard all": {"GPUMEM_GUARD": "all"},
}
MEMCHECK = "memcheck"
UNCACHED = {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
STEP = [sys.executable, HERE / "programs" / "torch_step.py"]


def subjects(build):
    """name: (command, environment)"""
    pairs = [build / "tools" / "bench" / "alloc", "--rows", "pair:4096,pair:1048576,pair:67108864", "--samples", "15"]
    return {"steps": (STEP, UNCACHED), "deep": ([*STEP, "deep"], UNCACHED), "pairs": (pairs, {})}


def environment(options, settings, guard):
    if guard is None:
        return common.environment(None, settings)
    return common.environment(options.build / "shim" / "libgpumem.so", {**settings, "GPUMEM_POLICY": "observe", **guard})


def switched(options):
    """Of samples switched on and off. row: (subject, command, environment, steps or pairs of a turn, those before that do not count). A turn
    begins with a sample that is due since the last one, and that is not to be counted."""
    pairs = [sys.executable, HERE / "programs" / "driver_pairs.py"]
    rows = {"torch-step": ("steps", [*STEP, "turns"], UNCACHED, 5, 1), "deep-torch-step": ("deep", [*STEP, "deep", "turns"], UNCACHED, 5, 1),
            **{f"pair:{size}": ("pairs", [*pairs, size], {}, 300, 20) for size in (4096, 1 << 20)}}
    return {name: row for name, row in rows.items() if row[0] in options.subjects}


class Turns:
    """A process that measures so many steps each time it is asked."""

    def __init__(self, command, environ):
        self.words = tempfile.TemporaryFile("w+")
        try:
            self.process = subprocess.Popen([str(part) for part in command], env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                            stderr=self.words, text=True)
        except OSError as problem:
            raise common.Failed(f"{command[0]}: {problem.strerror}") from None

    def measure(self, steps):
        try:
            print(steps, file=self.process.stdin, flush=True)
        except OSError:
            pass  # it has ended, and said why
        line = self.process.stdout.readline()
        if not line:
            self.words.seek(0)
            raise common.Failed(" | ".join(self.words.read().strip().splitlines()[-3:]) or "it ended")
        return [common.Measured(line)]

    def close(self):
        self.process.communicate()


def under_memcheck(command, settings):
    tool = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
    process = Turns([tool, "--tool", "memcheck", "--log-file", os.devnull, *command, "turns"], common.environment(None, settings))
    measured = process.measure(3)
    process.close()
    return measured


def names(text):
    """Type of an option: subjects."""
    for name in text.split(","):
        if name not in subjects(pathlib.Path()):
            raise argparse.ArgumentTypeError(f"'{name}' is not one of {', '.join(subjects(pathlib.Path()))}")
    return text.split(",")


STEPS = 15  # of a contender at a time
SWITCHES = 20  # of samples in a round


class Switched:
    """A process in which samples are switched. off, on: microseconds of each turn; an off comes first and last."""

    def __init__(self, command, environ, counted, uncounted):
        self.library, self.counted, self.uncounted = pathlib.Path(environ["LD_PRELOAD"]), counted, uncounted
        self.turns, self.switch = Turns(command, environ), None
        self.off, self.on = [], []

    def turn(self, on):
        self.switch.turn(on)
        self.turns.measure(self.uncounted)
        return self.turns.measure(self.counted)[0].more["mean"] / 1000

    def measure(self):
        if not self.switch:
            self.turns.measure(self.uncounted)
            self.switch = samples.Switch(self.library, self.turns.process.pid)
            self.off.append(self.turn(False))
        for _ in range(SWITCHES):
            self.on.append(self.turn(True))
            self.off.append(self.turn(False))


def start(options):
    """The processes that live through all rounds, by subject and contender, and those of samples by row."""
    turns, rows = {}, {}
    for subject, (command, settings) in subjects(options.build).items():
        if subject in options.subjects and command[0] == sys.executable:
            for contender, guard in CONTENDERS.items():
                turns[subject, contender] = Turns([*command, "turns"], environment(options, settings, guard))
    for row, (_, command, settings, *counts) in switched(options).items():
        rows[row] = Switched(command, environment(options, settings, CONTENDERS["guard 1/1000"]), *counts)
    return turns, rows


def measures(options, turns, subject, contender, first):
    """Lines of one measure; none where the contender is not taken."""
    command, settings = subjects(options.build)[subject]
    if contender == MEMCHECK:
        return under_memcheck(command, settings) if subject == "steps" and first else []
    if (subject, contender) in turns:
        return turns[subject, contender].measure(STEPS)
    return common.measure(command, environment(options, settings, CONTENDERS[contender]), timeout=300)


def take(options, turns, rows, medians, missing):
    """One round. Adds to the medians by row and contender, to the times of samples, and to the subjects left out."""
    first = not medians
    for subject, contender in ((subject, contender) for subject in options.subjects for contender in [*CONTENDERS, MEMCHECK]):
        name = f"{subject} {contender}" if contender == MEMCHECK else subject
        if name in missing or subject in missing:
            continue
        try:
            for line in measures(options, turns, subject, contender, first):
                row = "deep-" + line.name if subject == "deep" else line.name
                medians.setdefault(row, {}).setdefault(contender, []).append(line.median / 1000)
                print(f"{row} {contender}: {line.median / 1000:.1f} us", file=sys.stderr, flush=True)
        except common.Failed as failure:
            if contender != MEMCHECK and "No module named" not in str(failure):
                raise
            missing[name] = str(failure)
    for row, (subject, *_) in switched(options).items():
        if subject not in missing:
            rows[row].measure()
            print(f"{row} samples on to off: {on_to_off(rows[row].off, rows[row].on)}", file=sys.stderr, flush=True)


def on_to_off(off, on):
    """Mean ratio of the turns with samples to those without, and its standard error."""
    found = samples.ratios(off, on)
    error = statistics.stdev(found) / len(found) ** 0.5
    return f"{statistics.mean(found):.3f} ± {error:.3f} x"


ROWS = {
    "pair:4096": "`cudaMalloc` + `cudaFree`, 4 KiB",
    "pair:1048576": "the same, 1 MiB",
    "pair:67108864": "the same, 64 MiB",
    "torch-step": "PyTorch step, no cache",
    "deep-torch-step": "PyTorch step, 12 layers, no cache",
}


def spread(values, form):
    return " / ".join(f"{value:{form}}" for value in (min(values), statistics.median(values), max(values)))


def ratios(contenders, name):
    return [value / native for value, native in zip(contenders[name], contenders["native"])]


def costs(rows):
    """Of the rows of a result file: title, contender, microseconds of each round, and their ratios to native."""
    found = {}
    for one in rows:
        contenders = found.setdefault(one["row"], {})
        contenders[one["contender"]] = one["values"]
        yield ROWS[one["row"]], one["contender"], one["values"], ratios(contenders, one["contender"])


# ---- what the GPU suite printed

# The programs of tests/preload/planted.c that have an error.
ERRORS = {
    "behind_byte": "a kernel writes 1 byte behind the end",
    "behind_element": "1 element behind the end",
    "behind_stride": "2 MiB behind the start",
    "before_byte": "1 byte before the start",
    "before_stride": "2 MiB before the start",
    "far_before": "4,000 bytes before the start",
    "long_before": "80,000 bytes before the start",
    "beside_by_first": "1 byte behind the end by the first of three kernels",
    "never_freed": "the second byte behind the end, of a block that is never freed",
    "in_a_struct": "behind the end, the pointer in a structure",
    "behind_grown": "behind the end of an array that grows in place",
    "after_free": "after the free, same stream",
    "after_free_other_stream": "after the free, other stream",
    "after_free_other_thread": "after the free, other thread",
    "after_free_in_order": "after a cudaFreeAsync, other stream",
    "after_free_in_a_struct": "after the free, the pointer in a structure",
    "after_free_many_kernels": "after the free, in one of 1,100 kernels",
    "after_free_late_argument": "after the free, the pointer behind sixteen others",
    "graph_freed": "a graph uses a block that was freed since its capture",
    "before_ready": "stream-ordered memory in another stream, before it is ready",
    "loaded_before_ready": "the same, by a kernel that is loaded in between",
    "copied_before_ready": "the same, by a copy",
    "freed_in_use": "cudaFreeAsync while another stream uses the block",
    "host_pointer": "a host pointer given to a kernel",
    "null_argument": "a null pointer given to a kernel",
    "freed_twice": "a second free",
    "freed_inside": "a free of an address inside a block",
    "freed_as_host": "a free by cudaFreeHost",
    "host_freed": "a cudaFree of pinned host memory",
    "copy_behind": "a copy reads behind the end",
    "copy_to_behind": "a copy writes behind the end",
    "copy_rows_behind": "a copy of rows reads behind the end",
    "copy_freed": "a copy from a block that was freed",
    "fill_behind": "a fill behind the end",
    "never_written": "a kernel reads memory that was never written",
    "leaked": "a block is never freed",
}
SILENT = {  # nothing is said while the program runs
    "never_written": "nothing; with poison the value is wrong",
    "leaked": "leaked 1000 B in 1 block (closing lines)",
}
PLANTED = re.compile(r"ok +guard planted (\w+) ([\d.]+) s(?:, nothing said)?; memcheck, ([\d.]+) s: (.*?)(?:; initcheck, [\d.]+ s: (.*))?$")


def words(patterns):
    """What the patterns of run_guard.py say of the error itself: the first one; at a fault the kernel and its argument, too."""
    fault = patterns[0].startswith("illegal address")
    said = ["illegal address", *[one for one in patterns if one.startswith(("kernel", "argument"))]] if fault \
        else [patterns[0], *[one for one in patterns if "at the end of the process" in one]]
    return "; ".join(" ".join(re.split(", (?:allocated|launched) by", one)[0].replace(" +", " ").replace(".*", " ... ").split()) for one in said)


def suite(text):
    """Type of an option: a file with the rows of the GPU suite. Of each planted error what both tools said, and the seconds of the whole
    program under them."""
    sys.path.insert(0, str(HERE.parents[1] / "tests" / "preload"))
    from run_guard import FOUND
    try:
        lines = pathlib.Path(text).read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as problem:
        raise argparse.ArgumentTypeError(f"'{text}': {getattr(problem, 'strerror', None) or 'not a text in UTF-8'}") from None
    rows = [row for line in lines if (row := PLANTED.match(line)) and row[1] in ERRORS]
    failed = [line for line in lines if line.startswith("FAILED   guard planted ")]
    if failed or not rows:
        raise argparse.ArgumentTypeError(f"'{text}' has " + (f"a row that failed: {failed[0]}" if failed else "no rows of part guard beside compute-sanitizer"))
    return [{"error": row[1], "gpumem": SILENT.get(row[1]) or words(FOUND[row[1]]), "seconds": float(row[2]), "memcheck": row[4],
             "memcheck_seconds": float(row[3]), **({"initcheck": row[5]} if row[5] else {})} for row in rows]


# When the words of each tool come.
GPUMEM = (("gets a pointer|may (use|write)", "before the launch"), ("illegal address", "at the fault"), ("closing lines|at the end of", "at the end"),
          ("w(as|ere) written|may still|cuMemFree", "at the free"), ("reads|writes", "at the call"), ("poison", "no; poison shows it"),
          ("refuses", "no; the driver refuses the call"))
SANITIZER = (("Invalid|Uninitialized", "in the kernel"), ("Program hit", "at the call"), ("Leaked", "at the end"), ("nothing", "no"))


def when(said, table):
    return next(moment for pattern, moment in table if re.search(pattern, said))


def error_rows(errors):
    """Of a result file: each error, and when both tools name it."""
    found = {one["error"]: one for one in errors}
    for name, title in ERRORS.items():
        if name in found:
            more = f"; initcheck: {when(found[name]['initcheck'], SANITIZER)}" if "initcheck" in found[name] else ""
            yield [title, when(found[name]["gpumem"], GPUMEM), when(found[name]["memcheck"], SANITIZER) + more]


def error_words(errors):
    """`when: the first words of gpumem then`, for each moment."""
    found = {}
    for one in errors:
        found.setdefault(when(one["gpumem"], GPUMEM), one["gpumem"])
    return [f"{moment}: {said}" for moment, said in found.items() if not moment.startswith("no")]


def write(options, card, medians, rows, missing):
    result = {"commit": options.commit or common.commit(), "gpu": card[0], "driver": card[1], "unit": "us",
              "rows": [{"row": row, "contender": name, "values": values} for row, contenders in medians.items() for name, values in contenders.items()],
              "samples": [{"row": row, "off": one.off, "on": one.on} for row, one in rows.items() if one.on], "missing": missing}
    if options.suite:
        result["errors"] = options.suite
    options.out.write_text(json.dumps(result, indent=1) + "\n")


def main():
    parser = common.Parser(usage=__doc__)
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build"))
    parser.add_argument("--rounds", type=common.count, default=7)
    parser.add_argument("--subjects", type=names, default=list(subjects(pathlib.Path())))
    parser.add_argument("--suite", type=suite)
    parser.add_argument("--out", type=common.output, default=pathlib.Path("guard.json"))
    parser.add_argument("--commit", help="where git does not know it")
    options = parser.parse_args()
    options.build = options.build.resolve()
    card = common.card()
    if not card[0]:
        raise common.NoCard
    (turns, rows), medians, missing = start(options), {}, {}
    for _ in range(options.rounds):
        take(options, turns, rows, medians, missing)
        write(options, card, medians, rows, missing)
    for process in [*turns.values(), *(row.turns for row in rows.values())]:
        process.close()
    print(f"GPU {card[0]}, driver {card[1]}; us, least / median / most of {options.rounds} rounds, and of the ratios to native")
    for row, contenders in medians.items():
        for name, values in contenders.items():
            print(f"  {row:16} {name:14}{spread(values, '10.1f')}   {spread(ratios(contenders, name), '5.3f')} x")
    for row, one in rows.items():
        if one.on:
            print(f"  {row:16} samples on to off: {on_to_off(one.off, one.on)}")
    for name, why in missing.items():
        print(f"  {name} left out: {why}")
    return 0


# ---- blocks of documents

PUBLISHED = "*-guard*.json"


@block(PUBLISHED)
def guard_errors(run):
    took = [span([one[key] for one in run["errors"]], "{:.1f}") for key in ("seconds", "memcheck_seconds")]
    return titled(f"{run.made} ({run.file}); a program took {took[0]} s under gpumem, {took[1]} s under memcheck:",
                  ["error", "named by gpumem", "by memcheck"], error_rows(run["errors"]))


@block(PUBLISHED)
def guard_words(run):
    return items(*error_words(run["errors"]))


@block(PUBLISHED)
def guard_costs(run):
    rows = []
    for row, name, values, ratios in costs(run["rows"]):
        times = [1000 * value for value in values]
        taken = f"{time(statistics.median(times))} ({time(min(times))} to {time(max(times))}, {len(times)} rounds)"
        rows.append([row, name, taken, "-" if name == "native" else f"{statistics.median(ratios):.2f} x ({span(ratios)})"])
    return titled(f"{run.made} ({run.file}); medians, least and most of the rounds:", ["", "", "time", "to native"], rows)


@block(PUBLISHED)
def guard_samples(run):
    rows = [[ROWS[one["row"]], time(1000 * statistics.median(one["off"])), on_to_off(one["off"], one["on"]), len(one["on"])] for one in run.about.get("samples", [])]
    return titled(f"{run.made} ({run.file}); mean ratio and its standard error:", ["", "off", "on to off", "turns"], rows)


@block(PUBLISHED)
def guard_headline(run):
    step = next(statistics.median(ratios) for row, name, _, ratios in costs(run["rows"]) if "12 layers" in row and name == "guard all")
    return f"A PyTorch step without its cache takes {step:.2f} x its native time ([table](tools/bench/README.md))."


if __name__ == "__main__":
    common.end(main, "a GPU is needed")
