#!/usr/bin/env python3
"""Bounded traces on the simulated CUDA: GPUMEM_TRACE_LIMIT and GPUMEM_TRACE_RING keep the file small and readable, however the
program ends.

usage: run_bounds.py GPUMEM SHIM PROGRAM CUDA CASE THREADS WORK
"""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

import run_top
from run_top import GPUMEM, SHIM, LIMIT_S, MIB, check, environment, equal

THREADS, WORK = os.path.abspath(sys.argv[6]), pathlib.Path(sys.argv[7]).resolve()
ROUNDS = 4000  # of the word "race"
TRACE = WORK / "t.gmt"


class Program(run_top.Program):
    def __init__(self, trace=TRACE, **more):
        super().__init__(**{"GPUMEM_TRACE": str(trace), "GPUMEM_TRACE_FLUSH": "10ms", "GPUMEM_OOM": "trim,fail", **more})

    def race(self, times):
        for _ in range(times):
            self.process.stdin.write("race\n")
            self.process.stdin.flush()
            equal(self.process.stdout.readline().split(), ["race", "0"], "race")


def report(trace=TRACE):
    done = subprocess.run([GPUMEM, "report", "--json", str(trace)], capture_output=True, text=True, timeout=LIMIT_S, env=environment())
    equal(done.returncode, 0, f"status of report: {done.stderr}")
    return json.loads(done.stdout), done.stderr


def total(document, name):
    found = re.findall(rf'"{name}":\s*(\d+)', json.dumps(document))
    check(found, f"no {name} in the report: {json.dumps(document)[:2000]}")
    return int(found[0])


def look(trace, most):
    size = trace.stat().st_size
    check(size <= most, f"{size} bytes in the trace")
    return report(trace)[0]


def limited():
    """The file stops growing, stays readable, and states what it lacks."""
    with Program(GPUMEM_TRACE_LIMIT="1M") as program:
        program.do("alloc")
        for _ in range(8):
            program.race(4)
        program.end()
    document = look(TRACE, MIB)
    allocations, dropped = total(document, "allocations"), total(document, "lost_events")
    check(6000 < allocations < 32 * ROUNDS, f"{allocations} allocations in the trace")
    made = 2 * 32 * ROUNDS  # each allocation is freed at once, so half of what the trace has is allocations
    check(dropped and abs(dropped + 2 * allocations - made) < made // 50, f"{dropped} dropped, {allocations} allocations of {made} events")
    text = WORK / "t.csv"
    with Program(text, GPUMEM_TRACE_LIMIT="1M") as program:
        program.race(4)
        program.end()
    look(text, MIB)
    lines = text.read_text().splitlines()
    check(re.fullmatch(r"# end dropped [1-9]\d*", lines[-1]), lines[-1])
    equal({line.count(",") for line in lines if not line.startswith("#")}, {lines[0].count(",")}, "fields of all lines")


def ring():
    """Only the latest events are kept, and the allocations of all blocks that are alive."""
    with Program(GPUMEM_TRACE_RING="1M") as program:
        program.do("alloc", "odd")
        program.race(8)
        program.do("alloc")
        program.race(1)
        program.end()
    document = look(TRACE, MIB + MIB // 8)
    equal(total(document, "lost_events"), 0, "dropped")
    count = total(document, "allocations")
    check(5000 < count < MIB // 128 + 300, f"{count} allocations are kept")
    equal(total(document, "leaked_bytes"), 2 * MIB + 1000, "blocks alive at the end")
    check(total(document, "replaced") < 5, f"dead blocks are taken for alive: {document['traces'][0]['totals']}")


def killed():
    """After kill -9 the ring is there up to the last flush."""
    with Program(GPUMEM_TRACE_RING="1M") as program:
        program.do("alloc", "odd")
        program.race(5)
        time.sleep(0.3)
        program.process.kill()
        program.process.wait()
    equal(total(look(TRACE, MIB + MIB // 8), "leaked_bytes"), MIB + 1000, "blocks alive at the end")


def memory_ran_out():
    """The failed allocation and what was before it are in the file at once."""
    with Program(GPUMEM_TRACE_RING="1M", GPUMEM_LIMIT="24M", GPUMEM_LOG="error", GPUMEM_TRACE_FLUSH="60s") as program:
        program.race(4)
        for expected in ("0", "2"):
            program.process.stdin.write("try\n")
            program.process.stdin.flush()
            equal(program.process.stdout.readline().split(), ["try", expected], "try")
        program.process.kill()
        program.process.wait()
    document = look(TRACE, MIB + MIB // 8)
    equal((total(document, "failed_allocations"), total(document, "leaked_bytes")), (1, 16 * MIB), "the end of the trace")


def lately():
    """A ring of time: events of the last second, and live blocks."""
    with Program(GPUMEM_TRACE_RING="300ms") as program:
        program.do("alloc")
        for _ in range(6):
            program.race(2)
            time.sleep(0.4)
        program.do("odd")
        program.end()
    document = look(TRACE, 6 * MIB)
    count = total(document, "allocations")
    check(count < 6 * ROUNDS, f"{count} allocations are kept")
    equal(total(document, "leaked_bytes"), MIB + 1000, "blocks alive at the end")


def threads():
    """Many threads use and reuse chunks of one ring, and forked children have rings of their own."""
    done = subprocess.run([THREADS], capture_output=True, text=True, timeout=2 * LIMIT_S,
                          env=environment(LD_PRELOAD=SHIM, GPUMEM_TRACE=str(TRACE), GPUMEM_TRACE_RING="1M", GPUMEM_POLICY="cache"))
    equal(done.returncode, 0, f"status: {done.stderr}")
    equal(total(report()[0], "leaked_bytes"), 0, "blocks alive at the end")
    with Program(WORK / "%p.gmt", GPUMEM_TRACE_RING="1M") as program:
        program.do("alloc")
        program.race(4)
        parent = program.pid
        program.do("fork", "odd")
        program.race(4)
        child = program.pid
        program.end()
    for pid, bytes_ in ((parent, MIB), (child, 1000)):
        equal(total(look(WORK / f"{pid}.gmt", MIB + MIB // 8), "leaked_bytes"), bytes_, "blocks alive at the end")


def dumped():
    """gpumem trace dump while the program runs on, and uses the chunks of its ring again."""
    with Program(GPUMEM_TRACE_RING="1M", GPUMEM_TRACE_FLUSH="1ms") as program:
        program.do("alloc", "odd")
        program.race(4)
        program.process.stdin.write("race\n" * 20)
        program.process.stdin.flush()
        for number in range(5):
            copy = WORK / f"{number}.gmt"
            equal(dump(program.pid, copy), (0, ""), "dump")
            document = look(copy, MIB + MIB // 8)
            check(total(document, "leaked_bytes") >= MIB + 1000 and total(document, "damaged_parts") == 0, "the copy")
            check(total(document, "allocations") > 1000, "events in the copy")
        for _ in range(20):
            program.process.stdout.readline()
        time.sleep(0.2)
        equal(dump(program.pid, WORK / "last.gmt"), (0, ""), "dump")
        equal(total(look(WORK / "last.gmt", MIB + MIB // 8), "leaked_bytes"), MIB + 1000, "live blocks")
        status, text = dump(program.pid, WORK / "last.gmt")
        check(status == 1 and "last.gmt: File exists" in text, text)
    with Program(WORK / "t.csv") as program:
        program.race(1)
        time.sleep(0.2)
        equal(dump(program.pid, WORK / "copy.csv"), (0, ""), "dump of a text")
        equal(total(report(WORK / "copy.csv")[0], "allocations"), ROUNDS, "lines")
    with Program("") as program:
        program.do("alloc")
        check("writes no trace" in dump(program.pid, WORK / "none")[1], "a process without a trace")
    for arguments, word in ((["dump", "1x", "--output=a"], "'1x' is not a process id"), (["dump", "1"], "--output=FILE is missing"),
                            (["start", "1", "--output=a"], "--output is not for start"), (["dump", "4194305", "--output=a"], "no such process")):
        done = subprocess.run([GPUMEM, "trace", *arguments], capture_output=True, text=True, timeout=LIMIT_S, env=environment())
        check(done.returncode and word in done.stderr and done.stderr.count("\n") == 1, f"{arguments}: {done.stderr}")


def dump(pid, file):
    done = subprocess.run([GPUMEM, "trace", "dump", str(pid), f"--output={file}"], capture_output=True, text=True, timeout=LIMIT_S,
                          env=environment())
    return done.returncode, done.stderr


def wrong():
    for name, value, word in (("GPUMEM_TRACE_RING", "5x", "64M"), ("GPUMEM_TRACE_RING", "1K", "from 1M on"), ("GPUMEM_TRACE_LIMIT", "5", "at most 1M"),
                              ("GPUMEM_TRACE_LIMIT", "x", "GPUMEM_TRACE_LIMIT")):
        TRACE.unlink(missing_ok=True)
        process = subprocess.run([run_top.PROGRAM], input="alloc\n", capture_output=True, text=True, timeout=LIMIT_S,
                                 env=environment(LD_PRELOAD=SHIM, GPUMEM_TRACE=str(TRACE), **{name: value}))
        equal(process.returncode, 0, "status")
        said = [line for line in process.stderr.splitlines() if name in line]
        check(len(said) == 1 and word in said[0], f"{name}={value}: {process.stderr}")
        equal(total(report()[0], "leaked_bytes"), MIB, "the trace")
    text = WORK / "t.csv"
    with Program(text, GPUMEM_TRACE_RING="1M", GPUMEM_LOG="error") as program:
        program.race(3)
        program.end()
    equal(total(report(text)[0], "allocations"), 3 * ROUNDS, "a text has all events")


def main():
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True)
    cases = (limited, ring, killed, memory_ran_out, lately, threads, dumped, wrong)
    {function.__name__: function for function in cases}[sys.argv[5]]()


if __name__ == "__main__":
    main()
