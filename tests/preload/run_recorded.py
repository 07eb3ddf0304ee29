#!/usr/bin/env python3
"""gpumem trace start and stop on programs that run on the simulated CUDA: each block is in the trace once, whenever it begins.

usage: run_recorded.py GPUMEM SHIM PROGRAM CUDA SLOW_END CASE WORK
"""

import csv
import functools
import json
import os
import pathlib
import re
import resource
import shutil
import signal
import subprocess
import sys
import time

import commanded
from commanded import Commanded, check, equal, other_user

GPUMEM, SHIM, PROGRAM, CUDA, SLOW_END = (os.path.abspath(path) for path in sys.argv[1:6])
WORK = pathlib.Path(sys.argv[7]).resolve()
LIMIT_S = 120
environment = functools.partial(commanded.environment, CUDA)
LIVE = 16  # flag of events of blocks that are older than the trace


class Program(Commanded):
    def __init__(self, policy="cache", program=PROGRAM, preload=True, arguments=(), **more):
        if preload:
            more = {"LD_PRELOAD": SHIM, "GPUMEM_POLICY": policy, "GPUMEM_TRACE_FLUSH": "10ms", **more}
        super().__init__([program, *arguments], LIMIT_S, stderr=subprocess.PIPE, env=environment(**more), cwd=WORK)

    def state(self, pid, blocks, size):
        self.pid, self.blocks, self.bytes = pid, blocks, size


def gpumem(*arguments):
    done = subprocess.run([GPUMEM, *map(str, arguments)], capture_output=True, text=True, timeout=LIMIT_S, env=environment(), cwd=WORK)
    return done.returncode, done.stdout, done.stderr


def start(program, *options):
    """The name of the trace."""
    status, out, err = gpumem("trace", "start", program.pid, *options)
    equal((status, err), (0, ""), "start")
    check("records into " in out, out)
    return pathlib.Path(out.split("records into ")[1].strip())


def told(program, word, *arguments, word_of_answer="records into "):
    """The same, of a program that calls only when it is told to."""
    asked = subprocess.Popen([GPUMEM, "trace", *map(str, arguments)], stdout=subprocess.PIPE, text=True, env=environment(), cwd=WORK)
    while asked.poll() is None:
        program.do(word)
    out = asked.stdout.read()
    check(asked.returncode == 0 and word_of_answer in out, f"{arguments}: {out}")
    return pathlib.Path(out.split(word_of_answer)[1].strip())


def stop(program):
    status, out, err = gpumem("trace", "stop", program.pid)
    equal((status, err), (0, ""), "stop")
    check("recorded into " in out, out)
    return pathlib.Path(out.split("recorded into ")[1].strip())


def refused(arguments, status, *words):
    got = gpumem("trace", *arguments)
    equal(got[:2], (status, ""), f"status and output of {arguments}: {got[2]}")
    check(got[2].startswith("gpumem: ") and got[2].count("\n") == 1, f"not one line: {got[2]}")
    for word in words:
        check(word in got[2], f"'{word}' is not in: {got[2]}")


def report(trace):
    status, out, err = gpumem("report", "--json", trace)
    equal(status, 0, f"status of report: {err}")
    return {"lost_events": int(re.search(r'"lost_events":\s*(\d+)', out)[1]), **json.loads(out)["traces"][0]["totals"]}


def events(trace):
    """In the order of their numbers. They are read one by one: a trace of busy threads may have millions."""
    export = subprocess.Popen([GPUMEM, "export", "--to=csv", "--output=-", str(trace)], stdout=subprocess.PIPE, text=True, env=environment(), cwd=WORK)
    last = -1
    for row in csv.DictReader(line for line in export.stdout if not line.startswith("#")):
        check(int(row["seq"]) > last, f"event {row['seq']} follows event {last}")
        last = int(row["seq"])
        yield row
    equal(export.wait(LIMIT_S), 0, "status of export")


def replay(trace):
    """Checks that each block is allocated once and freed at most once. Returns the live blocks and the numbers of events."""
    live, counts = {}, {"live": 0, "alloc": 0, "free": 0}
    for row in events(trace):
        if row["action"] == "alloc":
            check(row["address"] not in live, f"{row['address']} is allocated twice: {row}, and before {live.get(row['address'])}")
            live[row["address"]] = row
            counts["live" if int(row["flags"]) & LIVE else "alloc"] += 1
        elif row["action"] in ("free", "release"):
            check(row["address"] in live, f"{row['address']} is freed and not live: {row}")
            equal(row["bytes"], live.pop(row["address"])["bytes"], "bytes of a free")
            counts["free"] += 1
    return live, counts


def holds(trace, program):
    """The trace ends with the live blocks of the program."""
    live, counts = replay(trace)
    equal((len(live), sum(int(row["bytes"]) for row in live.values())), (program.blocks, program.bytes), "live blocks of the trace")
    totals = report(trace)
    equal((totals["leaked_blocks"], totals["leaked_bytes"]), (program.blocks, program.bytes), "leaks of the report")
    equal((totals["replaced"], totals["unknown_frees"], totals["lost_events"]), (0, 0, 0), "what does not fit")
    equal((totals["older_blocks"], totals["allocations"]), (counts["live"], counts["live"] + counts["alloc"]), "older blocks")
    return counts


def attached():
    """A process without a trace: its live blocks come first, those that are reused without a call site, later ones with it."""
    with Program() as program:
        program.do("alloc", "pairs")
        trace = told(program, "pairs", "start", program.pid, "--trace=%p.gmt", "--stacks=4")
        equal(trace, WORK / f"{program.pid}.gmt", "the trace")
        program.do("pairs", "free", "alloc")
        equal(stop(program), trace, "the trace")
        counts = holds(trace, program)
        rows = [row for row in events(trace) if row["action"] == "alloc"]
        older = [(row["bytes"], row["site"]) for row in rows if int(row["flags"]) & LIVE]
        check(older[0][0] == "1000000" and older[0][1] != "0" and set(older[1:]) <= {("4096", "0")}, f"older blocks: {older}")
        check(all(row["site"] != "0" for row in rows if not int(row["flags"]) & LIVE), "call sites")
        check(counts["alloc"] >= 1001, counts)
        equal(report(trace)["peak_live_bytes"], 1004096, "peak")
        before = len(list(events(trace)))
        program.do("pairs", "free")
        equal(len(list(events(trace))), before, "events after stop")
        program.end()
    equal(gpumem("report", trace)[0], 0, "report")


def beyond():
    """What the process holds beyond gpumem's view is measured while it is recorded, and not later."""
    log = WORK / "calls.log"
    with Program("observe", SIMCUDA_LOG=str(log)) as program:
        told(program, "pairs", "start", program.pid, "--trace=%p.gmt")
        program.do(*["alloc"] * 36)
        stop(program)
        program.do("exhaust")
        time.sleep(0.2)
        program.do(*["alloc"] * 60)
        program.end()
    before, _, after = log.read_text().partition(f"bytesize={1 << 50}")
    check("cuMemGetInfo" in before, "nothing was measured")
    _, _, later = after.partition("cuMemAlloc")
    equal((later.count("cuMemAlloc"), later.count("cuMemGetInfo")), (59, 0), "later allocations and measurements")


def asleep():
    """A process that makes no call begins with its next one, and stops by itself."""
    with Program() as program:
        program.do("alloc")
        status, out, err = gpumem("trace", "start", program.pid, "--trace=a.gmt")
        equal((status, err), (0, ""), "start")
        check("has made no call since" in out, out)
        check(not (WORK / "a.gmt").exists(), "a trace without a call")
        program.do("free")
        equal(stop(program), WORK / "a.gmt", "stop")
        status, out, err = gpumem("trace", "start", program.pid, "--trace=b.gmt")
        equal((status, err), (0, ""), "start")
        status, out, err = gpumem("trace", "stop", program.pid)
        check(status == 0 and "had not begun to record, and will not" in out, (out, err))
        program.do("pairs")
        check(not (WORK / "b.gmt").exists(), "a trace that was withdrawn")
        equal(holds(WORK / "a.gmt", program)["live"], 1, "blocks that were live before")
        program.end()


def racing():
    """Recording starts and stops again and again while eight threads allocate."""
    for policy in ("cache", "auto", "observe", "async"):
        with Program(policy) as program:
            program.do("go")
            traces = []
            for _ in range(6):
                time.sleep(0.02)
                traces.append(start(program, "--trace=" + policy))
                program.do("work")
                traces[-1] = stop(program)
            check(len(set(traces)) == 6, f"traces share a file: {traces}")
            counts = [replay(trace)[1] for trace in traces]
            check(all(count["live"] and count["alloc"] and count["free"] for count in counts), counts)
            last = start(program, "--trace=" + policy)
            program.do("halt")
            equal(stop(program), last, "the trace")
            holds(last, program)
            program.do("go", "halt", "release")
            last = None
            program.do("go")
            last = start(program, "--trace=" + policy)
            program.do("halt", "release")
            check(program.blocks == 0, "blocks")
            program.end()
            holds(last, program)


def rounds():
    """Several rounds into one name: no trace is overwritten."""
    with Program(GPUMEM_TRACE=str(WORK / "t.gmt")) as program:
        program.do("alloc", "pairs")
        equal(stop(program), WORK / "t.gmt", "the first trace")
        content = (WORK / "t.gmt").read_bytes()
        refused(["stop", program.pid], 1, f"process {program.pid}: it does not record")
        program.do("go")
        names = []
        for _ in range(3):
            names.append(start(program, "--trace=t.gmt"))
            program.do("work")
            refused(["start", program.pid, "--trace=u.gmt"], 1, "it records already, into " + str(names[-1]))
            check(not (WORK / "u.gmt").exists(), "a file of a refused start")
            equal(stop(program), names[-1], "stop")
        program.do("halt")
        equal(names, [WORK / f"t.gmt.{program.pid}", *(WORK / f"t.gmt.{program.pid}.{i}" for i in (2, 3))], "names")
        check((WORK / "t.gmt").read_bytes() == content, "the first trace changed")
        program.end()
    live, counts = replay(WORK / "t.gmt")
    equal((len(live), counts), (1, {"live": 0, "alloc": 1001, "free": 1000}), "the first trace")
    for name in names:
        check(replay(name)[1]["live"] >= 1, "live blocks")
        check(any(row["site"] != "0" for row in events(name) if row["action"] == "alloc"), "call sites")
        status, out, _ = gpumem("report", name)
        check(status == 0 and "recorded.c" in out or "work" in out, f"no call sites in: {out}")


def bounded():
    """With a ring, a limit, as text, and in a forked child."""
    with Program(GPUMEM_TRACE_RING="1M") as program:
        program.do("go")
        trace = start(program, "--trace=ring.gmt")
        time.sleep(0.5)
        program.do("halt")
        equal(stop(program), trace, "stop")
        check(trace.stat().st_size < 3 << 20, f"{trace.stat().st_size} bytes")
        check(report(trace)["leaked_bytes"] >= program.bytes, "the ring lacks live blocks")
        program.do("go", "halt")
        program.end()
    with Program(GPUMEM_TRACE_LIMIT="1M") as program:
        program.do("go")
        trace = start(program, "--trace=limit.gmt")
        program.do(*["pairs"] * 60, "halt")
        stop(program)
        check(trace.stat().st_size <= 1 << 20 and report(trace)["lost_events"] > 0, "the limit")
        program.end()
    with Program() as program:
        program.do("go")
        trace = start(program, "--trace=t.csv")
        program.do("halt")
        equal(stop(program), trace, "stop")
        holds(trace, program)
        check(trace.read_text().startswith("seq,") and "\n# end dropped 0 stopped\n" in trace.read_text(), "the text")
        program.do("release", "go")
        trace = start(program, "--trace=fork.gmt")
        program.do("halt", "alloc")
        parent, blocks, size = program.pid, program.blocks, program.bytes
        program.do("fork")
        check(program.pid != parent, "a child")
        program.do("alloc")
        child = stop(program)
        equal(child, WORK / f"fork.gmt.{program.pid}", "trace of the child")
        program.end()
        equal(len(replay(child)[0]), 1, "blocks of the child")
        equal(report(trace)["leaked_bytes"], size, "blocks of the parent")


def killed():
    with Program() as program:
        program.do("go")
        trace = start(program, "--trace=t.gmt")
        program.do("halt")
        time.sleep(0.3)
        program.process.send_signal(signal.SIGKILL)
        program.process.wait()
        holds(trace, program)


def reset():
    """A context that ends takes older blocks with it."""
    with Program() as program:
        program.do("go", "halt", "alloc", "go")
        trace = start(program, "--trace=t.gmt")
        program.do("halt", "reset", "alloc")
        stop(program)
        holds(trace, program)
        program.end()


def wrong():
    with Program() as program, Program(preload=False) as bare:
        program.do("alloc", "go")
        pid = program.pid
        refused(["start"], 2, "expected start, stop or dump")
        refused(["begin", pid], 2, "'begin' is none of start, stop and dump")
        refused(["start", "x1"], 2, "'x1' is not a process id")
        refused(["stop", "0"], 2, "'0' is not a process id")
        refused(["stop", pid, "--stacks=3"], 2, "--stacks is not for stop")
        refused(["dump", pid, "--trace=x", "--output=y"], 2, "--trace is not for dump")
        refused(["start", pid, "--output=x"], 2, "--output is not for start")
        refused(["start", pid, "--stacks=65"], 2, "65", "64")
        refused(["start", pid, "--trace="], 2, "--trace= has no name")
        refused(["start", pid, "--trace=" + "x" * 1100], 2, "at most 1023 bytes")
        refused(["start", 2 ** 22 - 1], 1, "no such process")
        refused(["start", bare.pid], 1, "does not run under gpumem")
        refused(["stop", bare.pid], 1, "does not run under gpumem")
        refused(["stop", pid], 1, "it does not record")
        refused(["start", pid, "--trace=none/t.gmt"], 1, "none/t.gmt", "no such file")
        refused(["start", pid, "--trace=%q"], 1, "%q", "%p")
        (WORK / "notes").write_text("mine")
        refused(["start", pid, "--trace=notes"], 1, "notes", "is not a gpumem trace")
        equal((WORK / "notes").read_text(), "mine", "a file of the user")
        refused(["start", pid, "--trace=/dev/null"], 1, "/dev/null", "is not a regular file")
        refused(["start", pid, "--trace=" + str(WORK)], 1, "is a directory")
        refused(["start", pid, "--trace=/dev/full"], 1, "/dev/full")
        trace = start(program, "--trace=t.gmt")  # after all of these it still can
        program.do("halt")
        stop(program)
        holds(trace, program)
        program.end()
        bare.end()
    other = other_user(GPUMEM)
    if other:
        with Program() as program:
            done = subprocess.run([GPUMEM, "trace", "start", str(program.pid)], capture_output=True, text=True, env=environment(), cwd=WORK,
                                  **other)
            check(done.returncode and "permission" in done.stderr.lower(), f"another user: {done}")
            program.end()


def failing():
    """A disk that takes less and less: the program goes on, the process can start again, and what is lost is counted."""
    for size in (0, 1, 4096, 4097, 9000, 20000, 70000, 200000):
        with Program() as program:
            program.do("go")
            time.sleep(0.02)
            resource.prlimit(program.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
            status, out, err = gpumem("trace", "start", program.pid, f"--trace={size}.gmt")
            check(status in (0, 1) and (err == "" if status == 0 else err.count("\n") == 1), (status, out, err))
            time.sleep(0.05)
            if status == 0:
                stop(program)
            resource.prlimit(program.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            trace = start(program, "--trace=whole.gmt")
            program.do("halt")
            stop(program)
            holds(trace, program)
            program.end()


def summed():
    """A summary begins with the process: it can be stopped, not started, and ranges have no effect."""
    with Program(GPUMEM_TRACE_SUMMARY="10ms") as program:
        program.do("alloc", "go")
        refused(["start", program.pid, "--trace=t.gmt"], 1, "GPUMEM_TRACE_SUMMARY is set, and a summary begins with the process")
        check(not (WORK / "t.gmt").exists(), "a trace of a refused start")
        program.do("halt")
        equal(program.end(), "", "messages")
    with Program(GPUMEM_TRACE=str(WORK / "t.sums"), GPUMEM_TRACE_SUMMARY="10ms", GPUMEM_TRACE_RANGE="step") as program:
        program.do("go")
        time.sleep(0.05)
        refused(["start", program.pid], 1, "it records already, into " + str(WORK / "t.sums"))
        program.do("halt")
        blocks, size = program.blocks, program.bytes
        equal(stop(program), WORK / "t.sums", "stop")
        program.do("release", "go")
        refused(["start", program.pid], 1, "GPUMEM_TRACE_SUMMARY is set")
        program.do("halt")
        err = program.end()
        check(err.count("\n") == 1 and "a summary covers the whole run, so GPUMEM_TRACE_RANGE has no effect" in err, err)
    totals = report(WORK / "t.sums")
    equal((totals["leaked_blocks"], totals["leaked_bytes"]), (blocks, size), "live blocks of the summary at its stop")


def repeated():
    """Twenty starts and stops under each policy while eight threads allocate and free: each trace is whole, and ends with what the process holds."""
    for policy in ("cache", "observe"):
        with Program(policy) as program:
            program.do("alloc", "go")
            for turn in range(20):
                trace = start(program, "--trace=%p.gmt", "--stacks=2")
                if turn % 2:
                    program.do("halt")
                equal(stop(program), trace, "stop")
                if turn % 2:
                    holds(trace, program)
                    program.do("release", "go")
                else:
                    check(replay(trace)[1]["live"], "live blocks")
                    equal(report(trace)["unknown_frees"], 0, "unknown frees")
                trace.unlink()
            program.do("halt")
            equal(program.end(), "", "messages")


def kinds():
    """Older memory of each kind is held as a trace from the beginning holds it, and its ends fit."""
    def held(trace):
        trace = json.loads(gpumem("report", "--json", trace)[1])["traces"][0]
        equal([trace["totals"][name] for name in ("unknown_frees", "replaced")], [0, 0], "what does not fit")
        live = {row["kind"]: row["live_bytes"] for row in trace["by_kind"] if row["live_bytes"]}
        return live, trace["totals"]["leaked_blocks"]

    for policy in ("observe", "cache", "auto"):
        with Program(policy, GPUMEM_TRACE=str(WORK / "whole.gmt")) as program:
            program.do("pairs", "kinds")
            whole = stop(program)
            program.end()
        with Program(policy) as program:
            program.do("pairs", "kinds")
            older = told(program, "pairs", "start", program.pid, "--trace=older.gmt")
            stop(program)
            ends = told(program, "pairs", "start", program.pid, "--trace=ends.gmt")
            program.do("unkinds")
            stop(program)
            program.end()
        equal(held(older), held(whole), f"live memory under {policy}")
        check(len(held(whole)[0]) >= 5, held(whole))
        equal(held(ends), ({}, 0), f"live memory at the end under {policy}")
        for trace in (whole, older, ends):
            trace.unlink()


def two_starters():
    """Of two that start at once one is told that the other did; of two that ask a process without calls, too."""
    with Program() as program:
        ask = [GPUMEM, "trace", "start", str(program.pid)]
        first = subprocess.Popen([*ask, "--trace=a.gmt"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(), cwd=WORK)
        time.sleep(0.3)
        refused(["start", program.pid, "--trace=b.gmt"], 1, "a start is requested already")
        check("has made no call since" in first.communicate()[0], "the first one")
        program.do("pairs")
        check((WORK / "a.gmt").exists() and not (WORK / "b.gmt").exists(), "the first one counts")
        stop(program)
        program.do("go")
        for turn in range(10):
            both = [subprocess.Popen([*ask, f"--trace={turn}-{i}.gmt"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                     env=environment(), cwd=WORK) for i in (0, 1)]
            answers = [each.communicate() for each in both]
            equal(sorted(each.returncode for each in both), [0, 1], f"one starts: {answers}")
            loser = [each.returncode for each in both].index(1)
            check("it records already, into " in answers[loser][1], answers)
            trace = stop(program)
            equal(sorted(path.name for path in WORK.glob(f"{turn}-*")), [trace.name], "files")
        program.do("halt")
        program.end()


def long_name():
    """The whole name is answered, however long it is."""
    folder = WORK / ("d" * 200) / ("e" * 200) / ("f" * 200)
    folder.mkdir(parents=True)
    with Program() as program:
        program.do("go")
        name = str(folder / ("g" * 100))
        equal(start(program, "--trace=" + name), pathlib.Path(name), "name")
        refused(["start", program.pid], 1, "it records already, into ")
        equal(stop(program), pathlib.Path(name), "name")
        refused(["start", program.pid, "--trace=" + str(folder / ("g" * 256))], 1, "g" * 256, "too long")
        program.do("halt")
        program.end()


def removed():
    """The folder of the trace vanishes: the program goes on, the stop says so, and the process can start again."""
    (WORK / "gone").mkdir()
    with Program() as program:
        program.do("go")
        trace = start(program, "--trace=gone/t.gmt")
        shutil.rmtree(WORK / "gone")
        time.sleep(0.05)
        refused(["stop", program.pid], 1, str(trace), "somebody removed or renamed the file")
        refused(["start", program.pid, "--trace=gone/t.gmt"], 1, "gone/t.gmt", "no such file")
        trace = start(program, "--trace=t.gmt")
        program.do("halt")
        stop(program)
        holds(trace, program)
        program.end()


def forked():
    """The child of a process that records: each pair is in its own trace, it can stop and start, and it overwrites nothing."""
    with Program() as program:
        program.do("go")
        trace = start(program, "--trace=t.gmt")
        program.do("halt")
        stop(program)
        program.end()
    os.utime(trace, (1, 1))
    content = trace.read_bytes()
    with Program() as program:
        program.do("pairs", "alloc", "go")
        parent_trace = start(program, "--trace=t.gmt")
        program.do("halt")
        parent, blocks, size = program.pid, program.blocks, program.bytes
        program.do("fork", "pairs", "alloc", "pairs")
        check(program.pid != parent, "a child")
        child_trace = stop(program)
        equal(child_trace, WORK / f"t.gmt.{program.pid}", "trace of the child")
        equal(holds(child_trace, program), {"live": 0, "alloc": 2001, "free": 2000}, "events of the child")
        program.end()
        totals = report(parent_trace)
        equal((totals["leaked_blocks"], totals["leaked_bytes"]), (blocks, size), "blocks of the parent")
    with Program() as program:
        program.do("pairs")
        told(program, "pairs", "start", program.pid, "--trace=u.gmt")
        program.do("pairs", "fork", "alloc", "pairs")
        stop(program)
        again = told(program, "pairs", "start", program.pid, "--trace=again.gmt")
        program.do("pairs", "free")
        equal(stop(program), again, "the second trace of the child")
        check(holds(again, program)["live"] in (1, 2), "older blocks of the child")  # it may begin inside a pair
        program.end()
    equal(trace.read_bytes(), content, "a trace of another process")


def ending():
    """A process that ends, while its threads go on, starts no trace that nobody would complete."""
    with Program(LD_PRELOAD=SHIM + " " + SLOW_END) as program:
        program.do("go")
        program.process.stdin.close()
        time.sleep(1)
        refused(["start", program.pid, "--trace=t.gmt"], 1, "it is about to end")
        equal(program.process.wait(LIMIT_S), 0, "exit status")
        check(not (WORK / "t.gmt").exists(), "a trace")


# ---- ranges (GPUMEM_TRACE_RANGE)

def ranged(glob, trace="t.gmt", **more):
    return Program(GPUMEM_TRACE=str(WORK / trace), GPUMEM_TRACE_RANGE=glob, NVTX_INJECTION64_PATH=SHIM, **more)


def ranges():
    """Only what is allocated in a range is recorded, with older live blocks, and with the ends of recorded blocks."""
    trace = WORK / "t.gmt"
    with ranged("train*") as program:
        program.do("alloc", "pairs", "push=other", "pairs", "pop")
        check(not trace.exists(), "a trace without a range")
        refused(["start", program.pid], 1, "GPUMEM_TRACE_RANGE says when it records")
        refused(["stop", program.pid], 1, "GPUMEM_TRACE_RANGE says when it records")
        program.do("push=train1", "push=inner", "alloc", "pairs", "pop", "pop")
        program.do("alloc", "pairs", "free", "oldest", "alloc", "pairs")
        program.do("push=train2", "alloc", "pairs", "pop", "pairs")
        program.end()
        counts = holds(trace, program)
    equal(counts, {"live": 2, "alloc": 2002, "free": 2001}, "events")
    names = [row["name"] for row in json.loads(gpumem("report", "--json", "--phases", trace)[1])["traces"][0]["phases"]["rows"]]
    check({"train1", "inner", "train2"} <= set(names) and "other" not in names, f"phases: {names}")
    status, out, _ = gpumem("report", trace)
    check("live before" in out, out)


def domains():
    for glob, words, expected in (("lib:step", ("push=step", "pairs", "pop", "dpush=step", "alloc", "dpop", "pairs"), 1),
                                  ("step", ("dpush=step", "pairs", "dpop", "start=step", "alloc", "end", "pairs"), 1),
                                  ("*:st?p", ("start=step", "pairs", "end", "dpush=stop", "dpush=stop", "alloc", "dpop", "alloc", "dpop", "pairs"), 2),
                                  ("step", ("many", "dpush=step", "alloc", "dpop", "dpush=other", "pairs", "dpop", "pairs"), 1),
                                  ("a", ("push=a", "start=a", "pop", "alloc", "end", "pairs"), 1)):
        with ranged(glob, "t.csv" if glob == "a" else "t.gmt") as program:
            program.do(*words)
            program.end()
            trace = WORK / ("t.csv" if glob == "a" else "t.gmt")
            equal(holds(trace, program)["alloc"], expected, f"allocations in {glob}")
            trace.unlink()


def never():
    """A process that never opens the range says so, once. A range before the first call of CUDA counts."""
    with ranged("train") as program:
        program.do("push=training", "pairs", "pop")
        err = program.end()
        equal(err.count("\n"), 1, err)
        check("GPUMEM_TRACE_RANGE=train: no such NVTX range was opened, so nothing was recorded" in err, err)
    check(not (WORK / "t.gmt").exists(), "a trace")
    with Program(GPUMEM_TRACE="t.gmt", GPUMEM_TRACE_RANGE="train") as program:
        err = program.end()
        check("NVTX_INJECTION64_PATH" in err and err.count("\n") == 1, err)
    with Program(GPUMEM_TRACE_RANGE="train") as program:
        err = program.end()
        check("set GPUMEM_TRACE, too" in err and err.count("\n") == 1, err)
    with ranged("train", arguments=["late"]) as program:
        program.do("push=train", "alloc", "pop", "pairs")
        equal(program.end(), "", "messages")
        equal(holds(WORK / "t.gmt", program), {"live": 0, "alloc": 1, "free": 0}, "events")
    done = subprocess.run([GPUMEM, "run", "--library=" + SHIM, "--trace=r.gmt", "--trace-range=train", "--", PROGRAM], input="alloc\npush=train\nalloc\npop\n",
                          capture_output=True, text=True, env=environment(), cwd=WORK, timeout=LIMIT_S)
    equal(done.returncode, 0, done.stderr)
    equal(replay(WORK / "r.gmt")[1], {"live": 1, "alloc": 1, "free": 0}, "events under gpumem run")


def racing_ranges():
    """Ranges open and close while eight threads allocate."""
    for policy in ("cache", "observe"):
        with ranged("step", policy=policy) as program:
            program.do("go", "work")
            for _ in range(40):
                program.do("push=step", "pop")
            program.do("push=step", "work", "halt", "pop")
            program.do("go", "work", "halt", "push=step", "pop")
            program.end()
            counts = holds(WORK / "t.gmt", program)
            check(counts["live"] and counts["free"], counts)
            (WORK / "t.gmt").unlink()


def forked_ranges():
    with ranged("step") as program:
        program.do("alloc", "push=step", "alloc")
        parent, size = program.pid, program.bytes
        program.do("fork", "alloc", "pop", "pairs")
        child = program.pid
        program.end()
        equal(report(WORK / "t.gmt")["leaked_bytes"], size, f"blocks of {parent}")
        live, counts = replay(WORK / f"t.gmt.{child}")
        equal((len(live), counts), (1, {"live": 0, "alloc": 1, "free": 0}), "blocks of the child")


def ended_inside():
    """A thread that ends inside a range closes it."""
    with ranged("step") as program:
        program.do("alloc", "push=step", "alloc", "inside=step", "alloc", "pop", "alloc", "pairs", "inside=step", "alloc")
        program.end()
    equal(replay(WORK / "t.gmt")[1], {"live": 2, "alloc": 2, "free": 0}, "events")


def without_memory():
    """The kernel gives less and less memory at a start: the program goes on, and blocks are recorded, if at all, once."""
    for room in (0, 1 << 16, 1 << 18, 1 << 20, 3 << 20, 8 << 20, 20 << 20, 64 << 20):
        with Program() as program:
            program.do("alloc", "pairs", "pairs")
            size = 4096 * int(pathlib.Path(f"/proc/{program.pid}/statm").read_text().split()[0])
            resource.prlimit(program.pid, resource.RLIMIT_AS, (size + room, resource.RLIM_INFINITY))
            asked = subprocess.Popen([GPUMEM, "trace", "start", str(program.pid), f"--trace={room}.gmt"], stdout=subprocess.PIPE,
                                     stderr=subprocess.PIPE, text=True, env=environment(), cwd=WORK)
            while asked.poll() is None:
                program.do("pairs")
            resource.prlimit(program.pid, resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            if asked.returncode == 0:
                trace = told(program, "pairs", "stop", program.pid, word_of_answer="recorded into ")
                singles = [row for row in replay(trace)[0].values() if row["bytes"] != "4096"]  # the flusher may stop inside a pair
                check(report(trace)["lost_events"] > 0 or len(singles) == program.blocks, "blocks or lost events")
            trace = told(program, "pairs", "start", program.pid, "--trace=whole.gmt")
            program.do("pairs")
            stop(program)
            holds(trace, program)
            program.end()


CASES = {case.__name__: case for case in (attached, beyond, asleep, racing, rounds, bounded, killed, reset, wrong, failing, without_memory, summed,
                                         repeated, kinds, two_starters, long_name, removed, forked, ending, ended_inside,
                                         ranges, domains, never, racing_ranges, forked_ranges)}

if __name__ == "__main__":
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True)
    CASES[sys.argv[6]]()
    shutil.rmtree(WORK)
