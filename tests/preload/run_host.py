#!/usr/bin/env python3
"""The shim in surroundings that are out of order: whatever they do, the program runs on as it does natively.

usage: run_host.py --programs DIR --cuda DIR --shim FILE --gpumem FILE --work DIR CASE
"""

import os
import pathlib
import random
import re
import subprocess
import sys
import time

from place import TIME_LIMIT_S, check, check_same_output, run_case
from traces import check_trace, read_trace

FIRST_COLUMNS = "seq,time_ns,action,call,address"


def environment_gone(place):
    native = place.run_native([place.program("cleared")])
    for more in ({}, {"GPUMEM_COVERAGE": "1", "GPUMEM_LOG": "debug", "NVTX_INJECTION64_PATH": str(place.options.shim)}):
        done = place.run_shimmed([place.program("cleared")], "cache", **more)
        check_same_output(native, done, f"cleared with {more}")


def cancelled(place):
    native = place.run_native([place.program("cancelled")])
    for policy in ("observe", "cache", "active-list"):
        for flush in ("0", "1ms"):
            done = place.run_shimmed([place.program("cancelled")], policy, GPUMEM_TRACE_FLUSH=flush, GPUMEM_STACKS="8")
            check_same_output(native, done, f"cancelled under {policy}, flush {flush}")
    folder = place.fresh()
    for name in ("t.gpumem", "pipe.csv"):
        reader = keep_pipe(folder / name) if name == "pipe.csv" else None
        done = place.run_shimmed([place.program("cancelled")], "auto", GPUMEM_TRACE=str(folder / name), GPUMEM_STACKS="8")
        check_same_output(native, done, f"cancelled with {name}", warnings=True)
        if reader:
            reader.kill()
            reader.wait()


def keep_pipe(path):
    """A pipe at `path` and a program that reads it."""
    os.mkfifo(path)
    return subprocess.Popen(["cat", path], stdout=subprocess.DEVNULL)


def loading(place):
    """A constructor calls CUDA while another thread starts the shim; a plan that takes its time makes the start long."""
    command = [place.program("loading"), str(place.options.programs / "libloaded.so")]
    native = place.run_native(command + ["1000"])
    slow = slow_rules(place)
    delays = random.Random(7)
    times = [0, 20000, 40000] + [delays.randrange(0, 3000) for _ in range(12)]
    for n, delay in enumerate(times):
        policy = f"static:@{slow}" if n < 3 else "cache"
        done = place.run_shimmed(command + [str(delay)], policy)
        label = f"loading {delay} us later under {policy[:6]}"
        check_same_output(native, done, label)
        check_trace(done, policy, 0, label)


def slow_rules(place):
    """Rules that make the start last, about as long as reading them takes."""
    path = place.options.work / "slow.rules"
    with path.open("w") as out:
        out.write("# nothing is decided here\n" * 1000000)
        out.write("*->native\n")
    return path


def forking(place):
    """The process forks while one of its threads starts the shim: the child, which does not have that thread, works without."""
    command = [place.program("loading"), ""]
    native = place.run_native(command + ["1000"])
    slow, cut_off = slow_rules(place), 0
    for delay in (0, 5000, 10000, 20000, 40000, 80000):
        done = place.run_shimmed(command + [str(delay)], f"static:@{slow}")
        label = f"forking {delay} us later"
        check_same_output(native, done, label, warnings=True)
        cut_off += "cut off by a fork: stepping aside" in done.stderr
        check(len(read_trace(done.folder)) in (1, 2), f"{label}: traces of {sorted(read_trace(done.folder))}")
    print(f"{cut_off} starts were cut off")


def start_stderr(place, command, stderr, **more):
    environment = place.environment(place.fresh())
    environment["LD_PRELOAD"] = str(place.options.shim)
    environment.update(more)
    return subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, text=True)


def wait_for(condition, trouble):
    end = time.monotonic() + TIME_LIMIT_S
    while not condition():
        check(time.monotonic() < end, trouble)
        time.sleep(0.001)


def check_ends(process, label, status=0):
    try:
        stdout = process.communicate(timeout=TIME_LIMIT_S)[0]
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        check(False, f"{label}: hangs")
    check(process.returncode == status, f"{label}: exit status {process.returncode}")
    return stdout


def stderr_of_nobody(place):
    """Nobody reads what gpumem says: the pipe is closed, or full."""
    command = [place.program("runtime_basic")]
    native = place.run_native(command)
    for full in (False, True):
        ends = os.pipe()
        if full:
            os.set_blocking(ends[1], False)
            try:
                while os.write(ends[1], b"x" * 4096):
                    pass
            except BlockingIOError:
                pass
            os.set_blocking(ends[1], True)
        else:
            os.close(ends[0])
        label = f"stderr is {'full' if full else 'closed'}"
        process = start_stderr(place, command, ends[1], GPUMEM_LOG="debug", GPUMEM_COVERAGE="1", GPUMEM_GROW="report",
                               GPUMEM_NONSENSE="1")
        check(check_ends(process, label) == native.stdout, f"{label}: other output")


def stderr_of_data(place):
    """The program's data file gets the number of standard error: nobody else writes there. Where standard error comes back, what
    gpumem says at the end is there."""
    says = {"GPUMEM_LOG": "debug", "GPUMEM_COVERAGE": "1", "GPUMEM_GROW": "report", "GPUMEM_NONSENSE": "1"}
    for back in (False, True):
        data = place.fresh() / "data"
        command = [place.program("other_stderr"), str(data), *(["back"] if back else [])]
        native = place.run_native(command)
        check(data.read_text() == "first\nsecond\n", "natively the file has the program's lines")
        done = place.run_shimmed(command, "cache", **says)
        check((done.returncode, done.stdout) == (0, native.stdout), f"{done.returncode} {done.stdout}{done.stderr}")
        check(data.read_text() == "first\nsecond\n", f"the program's data: {data.read_text()}")
        check(("coverage" in done.stderr) == back, f"said at the end: {done.stderr}")
    closed = ["sh", "-c", 'exec "$@" 2>&-', "sh", place.program("other_stderr"), str(data)]
    done = place.run_shimmed(closed, "cache", **says)
    check((done.returncode, done.stdout) == (0, native.stdout), f"closed before: {done.returncode} {done.stdout}")
    check(data.read_text() == "first\nsecond\n", f"closed before: {data.read_text()}")


def trace_cut(place):
    """A binary trace is cut to nothing, again and again, while the program writes it."""
    for cuts in (1, 30):
        trace = place.fresh() / "t.gpumem"
        process = start_stderr(place, [place.program("churn"), "0"], subprocess.PIPE, GPUMEM_TRACE=str(trace),
                               GPUMEM_TRACE_FLUSH="1ms")
        for _ in range(cuts):
            wait_for(lambda: trace.exists() and trace.stat().st_size > 100000, "the trace does not grow")
            os.truncate(trace, 0)
        wait_for(lambda: trace.stat().st_size > 100000, "the trace does not grow again")
        stdout, stderr = process.communicate(timeout=TIME_LIMIT_S)
        check(process.returncode == 0 and "ok churn" in stdout, f"cut: exit status {process.returncode} {stdout}{stderr}")
        check(re.search("was cut by another program", stderr), f"cut: not said: {stderr}")
        check(len(stderr.splitlines()) == 1, f"cut: said: {stderr}")
        if place.options.gpumem:
            report = subprocess.run([place.options.gpumem, "report", trace], capture_output=True, text=True)
            check(report.returncode == 0 and "events were lost" in report.stdout, f"cut: {report.stdout}{report.stderr}")


def pipes(place):
    """The trace goes to a pipe that nobody reads, that is read too late, or whose reader leaves."""
    command = [place.program("churn"), "100000"]
    native = place.run_native(command)
    folder = place.fresh()
    path = folder / "pipe"
    os.mkfifo(path)
    done = place.run_shimmed(command, "cache", GPUMEM_TRACE=str(path))
    check_same_output(native, done, "a pipe without a reader", warnings=True)
    check(done.stderr.count("nobody reads") == 1, f"a pipe without a reader: {done.stderr}")

    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    done = place.run_shimmed(command, "cache", GPUMEM_TRACE=str(path))
    check_same_output(native, done, "a reader that sleeps", warnings=True)
    check("the reader does not read" in done.stderr and re.search(r"lost \d+ lines", done.stderr), f"a reader that sleeps: {done.stderr}")
    text = os.read(reader, 1 << 20).decode()
    check(text.startswith(FIRST_COLUMNS) and text.endswith("\n"), f"a reader that sleeps: {text[:200]} ... {text[-200:]}")
    os.close(reader)

    reader = subprocess.Popen(["head", "-n", "200", path], stdout=subprocess.PIPE, text=True)
    done = place.run_shimmed(command, "cache", GPUMEM_TRACE=str(path))
    check_same_output(native, done, "a reader that leaves", warnings=True)
    check("the reader closed its end" in done.stderr, f"a reader that leaves: {done.stderr}")
    check(len(reader.communicate(timeout=TIME_LIMIT_S)[0].splitlines()) == 200, "a reader that leaves: what it read")

    with open(folder / "read.csv", "w") as out:
        reader = subprocess.Popen(["cat", path], stdout=out)
        done = place.run_shimmed(command, "cache", GPUMEM_TRACE=str(path))
        reader.wait(timeout=TIME_LIMIT_S)
    check_same_output(native, done, "a reader that reads", warnings=True)
    lines = (folder / "read.csv").read_text().splitlines()
    lost = re.fullmatch(r"# end dropped (\d+)", lines[-1])
    events = sum(line[0].isdigit() for line in lines)
    check(lost and events + int(lost[1]) >= 200000, f"a reader that reads: {events} events, {lines[-1]}")


def many_threads(place):
    """Counts are exact beyond the threads that have counters of their own: of blocks, as each thread counts, and by symbol, as all do."""
    command = [place.program("churn"), "300000", "300"]
    native = place.run_native(command)
    done = place.run([place.options.gpumem, "run", "--policy=cache", "--coverage", "--", *command])
    check(done.returncode == 0 and done.stdout == native.stdout, f"300 threads: exit status {done.returncode} {done.stdout}")
    by_symbol = [re.search(rf"^    {name}: (\d+)$", done.stderr, re.M) for name in ("cuMemAlloc_v2", "cuMemFree_v2")]
    by_thread = re.search(r"calls +(\d+) allocations, (\d+) frees, 0 failed", done.stderr.replace(",0", "0"))
    check(all(by_symbol) and by_thread, f"300 threads: {done.stderr}")
    counts = [int(row[1]) for row in by_symbol] + [int(by_thread[1]), int(by_thread[2])]
    check(counts[:2] == counts[2:] and min(counts) >= 300000, f"300 threads: {counts}")


CASES = {
    "environment_gone": environment_gone,
    "cancelled": cancelled,
    "loading": loading,
    "forking": forking,
    "many_threads": many_threads,
    "stderr_of_nobody": stderr_of_nobody,
    "stderr_of_data": stderr_of_data,
    "trace_cut": trace_cut,
    "pipes": pipes,
}

if __name__ == "__main__":
    sys.exit(run_case(CASES, "--gpumem"))
