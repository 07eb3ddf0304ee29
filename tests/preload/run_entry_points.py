#!/usr/bin/env python3
"""What preload alone does not reach: `gpumem run --audit` and the report of `gpumem run --coverage`.

usage: run_entry_points.py GPUMEM PROGRAMS CUDA WORK CASE
"""

import collections
import csv
import os
import pathlib
import re
import shutil
import subprocess
import sys

TIME_LIMIT_S = 60

Run = collections.namedtuple("Run", "stdout report closing rows")


def check(condition, message):
    if not condition:
        raise AssertionError(message)


class Place:
    def __init__(self, gpumem, programs, cuda, work):
        self.gpumem, self.programs, self.cuda, self.work = gpumem, pathlib.Path(programs), cuda, pathlib.Path(work)
        shutil.rmtree(self.work, ignore_errors=True)
        self.work.mkdir(parents=True)
        self.runs = 0

    def run(self, program, *flags, arguments=(), **more):
        self.runs += 1
        trace = self.work / f"trace-{self.runs}.csv"
        environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("GPUMEM_", "SIMCUDA_", "LD_")) and name != "MALLOC_PERTURB_"
        }
        environment.update({"LD_LIBRARY_PATH": self.cuda, **more})
        command = [self.gpumem, "run", f"--trace={trace}", "--policy=observe", *flags, "--", str(self.programs / program)]
        done = subprocess.run(
            command + list(arguments), env=environment, capture_output=True, text=True, timeout=TIME_LIMIT_S
        )
        check(done.returncode == 0, f"{' '.join(command)}: {done.returncode}\n{done.stdout}{done.stderr}")
        check(f"ok " in done.stdout, f"{program}: {done.stdout}{done.stderr}")
        rows = []
        if trace.exists():
            with trace.open(newline="") as file:
                rows = list(csv.DictReader(line for line in file if not line.startswith("#")))
        head, _, rest = done.stderr.partition("gpumem: coverage\n")
        return Run(done.stdout, rest if rest else None, done.stderr, rows)


def lines_under(report, title):
    """Indented lines below a title of the report."""
    found = re.search(r"^  " + re.escape(title) + r"[^\n]*\n((?:    [^\n]*\n)*)", report, re.M)
    check(found, f"the report has no '{title}':\n{report}")
    return [line.strip() for line in found.group(1).splitlines()]


def numbers_under(report, title):
    return {name: int(value) for name, value in (line.rsplit(": ", 1) for line in lines_under(report, title))}


def escaped(report):
    return [line for line in lines_under(report, "modules with a CUDA runtime") if line != "none"]


def actions(rows):
    return [(row["action"], row["call"], row["bytes"]) for row in rows if row["action"] in ("alloc", "free")]


PLUGIN_CALLS = [("alloc", "cuMemAlloc", "65536"), ("free", "cuMemFree", "65536")]


def plugin(place):
    return [str(place.programs / "libplugin.so")]


def deepbind_alone(place):
    """Preload alone misses the plugin: no event, and the coverage report names the module that got past."""
    run = place.run("deepbind", "--coverage", arguments=plugin(place))
    check(run.rows == [], f"preload alone saw {actions(run.rows)}: then this test proves nothing")
    check(run.report is not None, f"no report:\n{run.closing}")
    check(not numbers_under(run.report, "calls by symbol"), run.report)
    modules = [pathlib.Path(path).name for path in escaped(run.report)]
    check(len(modules) == 1 and modules[0].startswith("libcudart"), f"named as escaping: {modules}")


def deepbind_audited(place):
    for binding in ({}, {"LD_BIND_NOW": "1"}):
        run = place.run("deepbind", "--audit", "--coverage", arguments=plugin(place), **binding)
        check(actions(run.rows) == PLUGIN_CALLS, f"{binding}: audited, but the trace has {actions(run.rows)}")
        check(escaped(run.report) == [], run.report)


def plain_audited(place):
    """An ordinary program is not seen twice, however it reaches the driver and whenever its symbols are bound."""
    for program in ("runtime_basic", "runtime_static", "driver_linked", "driver_linked_now", "driver_linked_lazy", "driver_dlopened", "async"):
        expected = actions(place.run(program).rows)
        check(len(expected) > 1, f"{program}: preload alone saw {expected}")
        for binding in ({}, {"LD_BIND_NOW": "1"}):
            run = place.run(program, "--audit", "--coverage", **binding)
            check(
                sorted(kind for kind in actions(run.rows)) == sorted(expected),
                f"{program} {binding}: audited {len(run.rows)} events, preloaded {len(expected)}",
            )
            check(escaped(run.report) == [], f"{program}: {run.report}")


# program -> how it finds functions of the driver
WAYS = {
    "runtime_basic": {"dlsym", "cuGetProcAddress"},
    "runtime_static": {"dlsym", "cuGetProcAddress"},
    "driver_linked": set(),
    "driver_dlopened": {"dlsym", "cuGetProcAddress"},
    "threads": {"dlsym", "cuGetProcAddress"},
    "pools": {"dlsym", "cuGetProcAddress"},
    "host_memory": {"dlsym", "cuGetProcAddress"},
}


def coverage(place):
    for program, ways in WAYS.items():
        run = place.run(program, "--coverage")
        report = run.report
        check(report is not None, f"{program}: no report:\n{run.closing}")
        by_way = numbers_under(report, "functions looked up")
        check({way for way, count in by_way.items() if count} == ways, f"{program}: looked up: {by_way}")
        by_symbol = numbers_under(report, "calls by symbol")
        calls = collections.Counter(row["call"] for row in run.rows if row["action"] == "alloc")
        check(by_symbol.get("cuMemAlloc_v2", 0) == calls["cuMemAlloc"], f"{program}: {by_symbol} against {calls}")
        check(escaped(report) == [], f"{program}: {escaped(report)} is said to escape")
        if "cuGetProcAddress" in ways and program != "driver_dlopened":
            unhooked = lines_under(report, "memory-related names handed out unhooked")
            check("cuMemPoolSetAttribute" in unhooked, f"{program}: {unhooked}")
            check(not [name for name in unhooked if name.startswith(("cuMemAlloc", "cuMemFree", "cuMemcpy"))], f"{unhooked}")


def bytes_against_the_driver(place):
    run = place.run("leaks", "--coverage")
    found = re.findall(r"driver (-?\d+), tracked (-?\d+)", run.report)
    check(len(found) == 2, run.report)
    for driver, tracked in found:
        # The first sample is taken behind the first allocation; the simulated card hands out 2 MiB pages.
        check(abs(int(driver) - int(tracked)) <= 32 << 20, f"driver {driver}, tracked {tracked}")
    kept = sum(int(row["bytes"]) * (1 if row["action"] == "alloc" else -1) for row in run.rows if row["action"] in ("alloc", "free"))
    check(kept > 0, "the program leaves nothing behind")


CASES = {
    "deepbind_alone": deepbind_alone,
    "deepbind_audited": deepbind_audited,
    "plain_audited": plain_audited,
    "coverage": coverage,
    "bytes": bytes_against_the_driver,
}


def main():
    gpumem, programs, cuda, work, case = sys.argv[1:]
    try:
        CASES[case](Place(gpumem, programs, cuda, work))
    except AssertionError as failure:
        print(f"FAILED {case}: {failure}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
