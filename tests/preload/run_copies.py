#!/usr/bin/env python3
"""Copies from host memory to a device in the trace (GPUMEM_TRACE_COPIES), and what gpumem report --duplicates makes of them.

usage: run_copies.py GPUMEM SHIM PROGRAM LINKED CUDA WORK CASE
"""
import collections
import csv
import json
import os
import pathlib
import shutil
import subprocess
import sys

CASES = {}
SIZE = 1 << 16


def case(function):
    CASES[function.__name__] = function
    return function


class Place:
    def __init__(self, gpumem, shim, program, linked, cuda, work):
        self.gpumem, self.shim, self.program, self.linked, self.cuda = map(os.path.abspath, (gpumem, shim, program, linked, cuda))
        self.work = pathlib.Path(work)
        shutil.rmtree(self.work, ignore_errors=True)
        self.work.mkdir(parents=True)

    def run(self, what, *options, program=None, **variables):
        """Standard output and standard error."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("GPUMEM_", "SIMCUDA_"))}
        environment.update(LD_LIBRARY_PATH=self.cuda, LD_PRELOAD=self.shim, **variables)
        done = subprocess.run([program or self.program, what], cwd=self.work, env=environment, capture_output=True, text=True, timeout=90)
        assert done.returncode == 0, done
        return done.stdout, done.stderr

    def traced(self, what, trace="t.csv", **variables):
        out, err = self.run(what, GPUMEM_TRACE=trace, GPUMEM_TRACE_COPIES="1", GPUMEM_POLICY="observe", **variables)
        assert not err, err
        return out

    def events(self, trace="t.csv"):
        with open(self.work / trace, newline="") as file:
            return [row for row in csv.DictReader(line for line in file if not line.startswith("#"))]

    def copies(self):
        """Pairs of source and copy, by thread."""
        pending, pairs = {}, []
        for row in self.events():
            if row["action"] == "copy_source":
                assert row["thread"] not in pending, row
                pending[row["thread"]] = row
            elif row["action"] == "copy":
                pairs.append((pending.pop(row["thread"]), row))
        same(pending, {}, "sources without a copy")
        return pairs

    def duplicates(self, trace="t.csv"):
        out = subprocess.run([self.gpumem, "report", "--json", "--duplicates", trace], cwd=self.work, check=True, capture_output=True).stdout
        return json.loads(out)["traces"][0]["duplicates"]


def same(found, expected, what):
    assert found == expected, f"{what}: {found}, not {expected}"


def check_each(place, out):
    """Each call sent the same bytes three times, and others the fourth time."""
    lines = [line.split() for line in out.splitlines()]
    same(len(lines), 34, "calls")
    by_host = collections.defaultdict(list)
    for source, copy in place.copies():
        by_host[int(source["address"], 16)].append((source, copy))
    for symbol, host, target, size in lines:
        pairs = by_host.pop(int(host, 16), [])
        batch = symbol.startswith("cuMemcpyBatch")
        if batch:
            second = by_host.pop(int(host, 16) + 32, [])
            same([copy["bytes"] for _, copy in second], [size] * 4, f"{symbol}: the other copy of the batch")
        same(len(pairs), 4, f"{symbol}: copies")
        hashes = [source["bytes"] for source, _ in pairs]
        assert hashes[0] == hashes[1] == hashes[2] != hashes[3], (symbol, hashes)
        for source, copy in pairs:
            same((source["result"], copy["result"], copy["bytes"]), ("0", "0", size), symbol)
            same(copy["kind"], "native" if int(target, 16) else "array", f"{symbol}: kind")
            assert not int(target, 16) or copy["address"] == hex(int(target, 16)), (symbol, copy["address"], target)
            same(int(copy["flags"]) & 2 != 0, symbol.endswith(("_ptds", "_ptsz")), f"{symbol}: flag of per-thread streams")
            same(copy["stream"] != "0x0", "Async" in symbol, f"{symbol}: stream")
            assert copy["site"] != "0" and copy["call"] == "none", copy
            same(int(copy["bytes_got"]) > int(copy["bytes"]), symbol.startswith(("cuMemcpy2D", "cuMemcpy3D")) and "Batch" not in symbol,
                 f"{symbol}: gaps in the destination")
    same(dict(by_host), {}, "copies of no call")


@case
def each(place):
    check_each(place, place.traced("each"))


@case
def each_check_order(place):
    out, _ = place.run("each", GPUMEM_TRACE="t.csv", GPUMEM_TRACE_COPIES="1", GPUMEM_POLICY="observe", GPUMEM_CHECK_ORDER="1", GPUMEM_LOG="error")
    check_each(place, out)


@case
def each_grow(place):
    out, _ = place.run("each", GPUMEM_TRACE="t.csv", GPUMEM_TRACE_COPIES="1", GPUMEM_POLICY="observe", GPUMEM_GROW="move", GPUMEM_LOG="error")
    check_each(place, out)


@case
def each_manual(place):
    check_each(place, place.traced("each", SIMCUDA_STREAMS="manual"))


def check_runtime(place, trace):
    found = place.duplicates(trace)
    same((found["copies"], found["copied_bytes"]), (11, 9 * SIZE + 2 * 1000), "copies")
    same((found["repeats"], found["repeated_bytes"]), (7, 6 * SIZE + 1000), "sent again")
    same([(row["repeats"], row["repeated_bytes"]) for row in found["earlier"]],
         [(3, 2 * SIZE + 1000), (2, 2 * SIZE), (1, SIZE), (1, SIZE)], "what became of the earlier copy")
    same((found["unknown"], found["captured"]), (0, 0), "unknown and captured")
    same([(row["bytes"], row["copies"], row["repeated_bytes"]) for row in found["contents"]],
         [(SIZE, 5, 4 * SIZE), (SIZE, 2, SIZE), (SIZE, 2, SIZE), (1000, 2, 1000)], "contents")
    same(sum(row["repeats"] for row in found["sites"]), 7, "by site")
    assert found["sites"][0]["site"]["function"] in ("runtime", "main", ""), found["sites"][0]


@case
def by_runtime(place):
    place.traced("runtime")
    check_runtime(place, "t.csv")


@case
def by_runtime_kept(place):
    """While memory is kept an entry calls the driver itself, but not what records a copy."""
    place.run("runtime_kept", GPUMEM_TRACE="t.csv", GPUMEM_TRACE_COPIES="1", GPUMEM_POLICY="cache")
    check_runtime(place, "t.csv")


@case
def binary(place):
    place.traced("runtime", "t.gpumem")
    check_runtime(place, "t.gpumem")


@case
def odd(place):
    place.traced("odd", SIMCUDA_STREAMS="manual")
    pairs = place.copies()
    same([(source["result"] == "0", copy["result"] == "0", int(copy["flags"]) & 1) for source, copy in pairs],
         [(False, True, 0), (False, True, 0), (False, True, 1), (False, False, 0)], "unreadable, managed, captured, refused")
    found = place.duplicates()
    same((found["copies"], found["unknown"], found["captured"], found["repeats"]), (2, 2, 1, 0), "report")


@case
def by_threads(place):
    place.traced("threads")
    found = place.duplicates()
    same((found["copies"], found["repeats"], len(found["contents"])), (400, 200, 200), "copies")


@case
def off(place):
    for variables in ({}, {"GPUMEM_TRACE_COPIES": "0"}):
        place.run("runtime", GPUMEM_TRACE="t.csv", **variables)
        assert not {"copy", "copy_source"} & {row["action"] for row in place.events()}
        found = place.duplicates()
        same((found["copies"], found["repeats"]), (0, 0), "report")
        assert "--trace-copies" in found["notes"][0], found


@case
def without_trace(place):
    _, err = place.run("runtime", GPUMEM_TRACE_COPIES="1")
    same(err, "gpumem: GPUMEM_TRACE_COPIES: copies are recorded in the trace, so set GPUMEM_TRACE, too\n", "warning")


@case
def linked(place):
    for variables in ({}, {"GPUMEM_CHECK_ORDER": "1", "GPUMEM_LOG": "error"}, {"GPUMEM_GROW": "move", "GPUMEM_LOG": "error"}):
        (place.work / "t.csv").unlink(missing_ok=True)  # a trace replaces no other
        out, _ = place.run("each", program=place.linked, GPUMEM_TRACE="t.csv", GPUMEM_TRACE_COPIES="1", GPUMEM_POLICY="observe", **variables)
        check_each(place, out)


@case
def by_flag(place):
    environment = {**os.environ, "LD_LIBRARY_PATH": place.cuda}
    done = subprocess.run([place.gpumem, "run", f"--library={place.shim}", "--trace=t.csv", "--trace-copies", "--policy=observe", "--",
                           place.program, "runtime"], cwd=place.work, env=environment, capture_output=True, text=True, timeout=90)
    assert done.returncode == 0, done
    check_runtime(place, "t.csv")


if __name__ == "__main__":
    CASES[sys.argv[7]](Place(*sys.argv[1:7]))
