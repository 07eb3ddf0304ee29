#!/usr/bin/env python3
"""NVTX ranges of an unmodified program in the trace, and what gpumem report makes of them.

usage: run_phases.py GPUMEM SHIM PROGRAM CUDA WORK CASE
"""
import csv
import json
import os
import pathlib
import shutil
import subprocess
import sys

CASES = {}


def case(function):
    CASES[function.__name__] = function
    return function


class Place:
    def __init__(self, gpumem, shim, program, cuda, work):
        self.gpumem, self.shim, self.program, self.cuda = map(os.path.abspath, (gpumem, shim, program, cuda))
        self.work = pathlib.Path(work)
        shutil.rmtree(self.work, ignore_errors=True)
        self.work.mkdir(parents=True)

    def run(self, options, arguments=(), **variables):
        """Text on stderr; the program itself prints nothing."""
        environment = {**os.environ, "LD_LIBRARY_PATH": self.cuda, **variables}
        done = subprocess.run([self.gpumem, "run", f"--library={self.shim}", *options, "--", self.program, *arguments], cwd=self.work,
                              env=environment, capture_output=True, text=True, timeout=90)
        assert done.returncode == 0 and not done.stdout, done
        return done.stderr

    def report(self, trace, section):
        out = subprocess.run([self.gpumem, "report", "--json", f"--{section}", trace], cwd=self.work, check=True, capture_output=True).stdout
        return json.loads(out)["traces"][0][section]

    def phases(self, trace):
        return {(row["name"], row["kind"]): row for row in self.report(trace, "phases")["rows"]}

    def actions(self, trace):
        with open(self.work / trace, newline="") as file:
            return [row["action"] for row in csv.DictReader(line for line in file if not line.startswith("#"))]


def same(found, expected, what):
    assert found == expected, f"{what}: {found}, not {expected}"


def check_ranges(place, trace):
    found = place.phases(trace)

    def row(name, allocations, size, entered=1, kind="nested"):
        one = found.pop((name, kind))
        same((one["allocations"], one["frees"], one["allocated_bytes"], one["entered"]), (allocations, allocations, size, entered), name)
        return one
    row("whole", 1, 1000)
    row("first", 1, 1000)
    row("library:in a domain", 0, 0)
    row("wide ü € \U0001f600", 1, 1100)
    row("library:registered", 1, 1200, kind="overlap")
    row("unicode", 1, 1300)
    row("odd \\xff\\x01\\x0a\"<,\\ bytes", 1, 1400)
    row(None, 0, 0, 2)
    row("across threads", 13, 3 * (30000 + 60000) + 3 * (50000 + 100000) + 7000, kind="overlap")
    outer = row("outer", 12, 3 * (30000 + 60000) + 3 * (50000 + 100000), 6)
    assert outer["peak_bytes"] >= 100000
    row("inner 3", 3, 3 * 60000, 3)
    row("inner 5", 3, 3 * 100000, 3)
    row("x" * 1000, 0, 0)
    row("mark one", 1, 9000, kind="mark")
    row("mark two", 1, 600000, kind="mark")
    same(row("never popped", 1, 600000)["peak_bytes"], 600000, "peak of the last phase")
    same(sorted(str(name) for name, _ in found), sorted(f"step {i}" for i in range(6000)), "the rest")
    same(place.report(trace, "peak")["phase"], "mark two > never popped", "phase of the peak")


@case
def binary(place):
    place.run(["--nvtx", "--policy=observe", "--trace=t.gpumem"])
    check_ranges(place, "t.gpumem")


@case
def text(place):
    place.run(["--nvtx", "--policy=observe", "--trace=t.csv"])
    check_ranges(place, "t.csv")


@case
def database(place):
    """The exported phases, with depth."""
    import sqlite3
    place.run(["--nvtx", "--policy=observe", "--trace=t.gpumem"])
    subprocess.run([place.gpumem, "export", "--to=sqlite", "-o", "t.db", "t.gpumem"], cwd=place.work, check=True)
    base = sqlite3.connect(place.work / "t.db")
    base.text_factory = lambda some: some.decode(errors="replace")
    rows = {name: (kind, depth) for name, kind, depth in base.execute("SELECT name, kind, depth FROM phases WHERE name NOT LIKE 'step %'")}
    same({name: rows[name] for name in ("whole", "first", "inner 3", "outer", "across threads", "mark two")},
         {"whole": ("nested", 0), "first": ("nested", 1), "inner 3": ("nested", 2), "outer": ("nested", 1), "across threads": ("overlap", 0),
          "mark two": ("mark", 0)}, "phases")
    same(base.execute("SELECT count(*) FROM phases WHERE ended_ns < begin_ns OR ended_ns IS NULL").fetchone(), (0,), "phases without end")
    base.close()


@case
def forked(place):
    place.run(["--nvtx", "--policy=observe", "--trace=t.%p.csv"], ["fork"])
    traces = sorted(place.work.glob("t.*.csv"), key=os.path.getsize)
    same(len(traces), 2, "traces")
    same({key: row["entered"] for key, row in place.phases(traces[0].name).items()}, {("in the child", "mark"): 1, ("first", "nested"): 1},
         "phases of the child")


@case
def forked_early(place):
    """A child never waits for a lock that a thread of its parent held."""
    place.run(["--nvtx", "--policy=observe", "--trace=t.csv", "--trace-range=early"], ["fork_early"])


@case
def unasked(place):
    place.run(["--policy=observe", "--trace=t.csv"])
    assert not {"mark", "phase_begin", "phase_end"} & set(place.actions("t.csv"))
    assert place.run(["--policy=observe"], NVTX_INJECTION64_PATH=place.shim) is not None  # no trace: the program runs on


@case
def other_tool(place):
    said = place.run(["--nvtx", "--policy=observe", "--trace=t.csv"], NVTX_INJECTION64_PATH="/nonexistent/libtool.so")
    assert "NVTX ranges go to '/nonexistent/libtool.so'" in said, said
    assert not {"mark", "phase_begin", "phase_end"} & set(place.actions("t.csv"))


@case
def wrong(place):
    done = subprocess.run([place.gpumem, "run", f"--library={place.shim}", "--nvtx", "--", place.program], cwd=place.work,
                          env={name: value for name, value in os.environ.items() if name != "GPUMEM_TRACE"}, capture_output=True, text=True)
    same((done.returncode, done.stderr), (2, "gpumem: --nvtx writes into the trace: give --trace=FILE, too\n"), "no trace")


if __name__ == "__main__":
    CASES[sys.argv[6]](Place(*sys.argv[1:6]))
