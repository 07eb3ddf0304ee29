#!/usr/bin/env python3
"""gpumem top on programs that run under plain LD_PRELOAD on the simulated CUDA: its numbers are what the program did.

usage: run_top.py GPUMEM SHIM PROGRAM CUDA CASE
"""

import fcntl
import functools
import json
import os
import pathlib
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time

import commanded
from commanded import Commanded, check, equal, other_user

SKIP = 77
LIMIT_S = 60
MIB = 1 << 20
GPUMEM, SHIM, PROGRAM, CUDA = (os.path.abspath(path) for path in sys.argv[1:5])
environment = functools.partial(commanded.environment, CUDA)


class Program(Commanded):
    """A program under watch that does one thing after the other."""

    def __init__(self, policy="cache", command=(), preload=True, stderr=None, **more):
        more = {"GPUMEM_POLICY": policy, "GPUMEM_LOG": "warn", **more}
        if preload:
            more["LD_PRELOAD"] = SHIM
        super().__init__([*command, PROGRAM], LIMIT_S, env=environment(**more), stderr=stderr)

    def answer_to(self, word):
        return "ready" if word == "exec" else word


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(SKIP)


def top(*arguments, **more):
    done = subprocess.run([GPUMEM, "top", *map(str, arguments)], capture_output=True, text=True, timeout=LIMIT_S,
                          env=environment(), **more)
    return done.returncode, done.stdout, done.stderr


def samples(*arguments, count=1):
    status, out, err = top("--batch", "--json", "--interval=50ms", f"--count={count}", *arguments)
    equal((status, err), (0, ""), "status and messages")
    return [json.loads(line) for line in out.splitlines()]


def sample(pid):
    found = samples(pid)
    equal(len(found), 1, "samples")
    equal(found[0]["pid"], pid, "pid")
    return found[0]


def refused(arguments, status, *words, **more):
    got = top("--count=1", "--batch", *arguments, **more)
    equal(got[:2], (status, ""), "status and output")
    check(got[2].startswith("gpumem: ") and got[2].count("\n") == 1, f"not one line: {got[2]}")
    for word in words:
        check(word in got[2], f"'{word}' is not in: {got[2]}")


def counters():
    with Program() as program:
        program.do("alloc", "alloc", "alloc", "odd", "free")
        one = sample(program.pid)
        equal((one["program"], one["policy"], one["finished"], one["ended"]), ("watched", "cache", False, False), "head")
        equal((one["counts"]["allocs"], one["counts"]["frees"]), (4, 1), "calls")
        memory = one["memory"]
        equal(memory["live_bytes"], 3 * MIB, "live")
        equal(memory["peak_bytes"], 3 * MIB + 1000, "peak")
        equal(memory["kept_bytes"], 1024, "kept")
        equal(memory["reserved_bytes"], 3 * MIB + 1024, "reserved: blocks of 1 MiB share pages")
        equal(list(memory["by_kind"]), ["cache"], "kinds")
        device, uuid = memory["by_device"][0], memory["by_device"][0]["uuid"]
        for name in ("live_bytes", "reserved_bytes", "peak_reserved_bytes"):
            equal((len(memory["by_device"]), device["device"], device[name]), (1, 0, memory[name]), f"the device's own {name}")
        equal(device["peak_live_bytes"], memory["peak_bytes"], "the device's own peak")
        check(re.fullmatch("GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", uuid), f"UUID: {uuid}")
        check(f'gpumem_device_reserved_bytes{{pid="{program.pid}",program="watched",group="",device="0",uuid="{uuid}"}} {device["reserved_bytes"]}\n'
              in top("--prometheus", program.pid)[1], "the device's sample")
        equal(memory["by_kind"]["cache"]["blocks"], 3, "blocks")
        equal(one["rates"]["allocs_per_s"], None, "a rate without an interval")
        program.do("odd")
        equal(sample(program.pid)["memory"]["live_bytes"], 3 * MIB + 1000, "live after a further block")


def devices():
    """Live bytes are those of each device, also where one thread frees blocks of several and reuses them."""
    with Program(SIMCUDA_DEVICES="2") as program:
        program.do("alloc", "alloc", "next", "alloc", "odd", "free", "next", "alloc", "next", "odd", "free", "free")
        one = sample(program.pid)
        rows = one["memory"]["by_device"]
        equal([(row["device"], row["live_bytes"], row["peak_live_bytes"]) for row in rows],
              [(0, 2 * MIB, 3 * MIB), (1, MIB, MIB + 1000)], "before any reuse")
        program.do(*["loop", "next"] * 4, "odd", "next", "odd")
        one = sample(program.pid)
        rows = one["memory"]["by_device"]
        equal([row["live_bytes"] for row in rows], [2 * MIB + 1000, MIB + 1000], "live")
        equal(sum(row["live_bytes"] for row in rows), one["memory"]["live_bytes"], "their sum")
        text = top("--prometheus", program.pid)[1]
        for row in rows:
            found = re.search(rf'gpumem_device_live_bytes{{.*device="{row["device"]}",uuid="{row["uuid"]}"}} (\d+)', text)
            equal(int(found[1]), row["live_bytes"], "the sample of a device")
        lines = [line.split() for line in top("--batch", "--count=1", program.pid)[1].splitlines()[1:]]
        equal([(line[3], line[4:6]) for line in lines], [("0", ["2.00", "MiB"]), ("1", ["1.00", "MiB"])], "lines")


def sites():
    """Live bytes by call site and device come from the trace; without one a line says how to begin it."""
    trace = pathlib.Path(f"top-{os.getpid()}.gmt").absolute()
    with Program(SIMCUDA_DEVICES="2", GPUMEM_TRACE=str(trace), GPUMEM_TRACE_FLUSH="10ms") as program:
        program.do("alloc", "alloc", "next", "odd", "alloc", "free", "loop")
        time.sleep(0.3)
        rows = samples("--sites", program.pid)[0]["sites"]
        equal([(row["device"], row["live_bytes"], row["blocks"]) for row in rows], [(0, 2 * MIB, 2), (1, 1000, 1)], "sites")
        check(all("watched" in row["site"] for row in rows), rows)
        check("sites" not in sample(program.pid), "sites that nobody asked for")
        lines = [line.split(maxsplit=4) for line in top("--batch", "--count=1", "--sites", program.pid)[1].splitlines()[-2:]]
        equal([line[:4] for line in lines], [["2.00", "MiB", "2", "0"], ["1000", "B", "1", "1"]], "lines")
        program.do("free")
        time.sleep(0.3)
        equal([row["device"] for row in samples("--sites", program.pid)[0]["sites"]], [0], "after a free")
        trace.unlink()
        equal(samples("--sites", program.pid)[0]["sites"], None, "without the file")
    with Program() as program:
        program.do("alloc")
        equal(samples("--sites", program.pid)[0]["sites"], None, "without a trace")
        check("  no call sites: the process writes no trace; gpumem trace start begins one\n"
              in top("--batch", "--count=1", "--sites", program.pid)[1], "why")
        refused(["--prometheus", "--sites", program.pid], 2, "--prometheus and --sites")


def reuse():
    """Reused blocks: every hit leaves the kept bytes, and frees come back to them, behind fences."""
    with Program(GPUMEM_FREE="async") as program:
        program.do("loop", "wait", "loop", "wait", "loop")
        one = sample(program.pid)
        counts, kind = one["counts"], one["memory"]["by_kind"]["cache"]
        equal(counts["allocs"], 600, "allocations")
        check(counts["hits"] > 300 and counts["hits"] == kind["hits"], f"hits: {counts}")
        equal(counts["hit_rate"], counts["hits"] / 600, "hit rate")
        equal(kind["kept_bytes"] + counts["trimmed_bytes"], (600 - counts["hits"]) * (1 << 16), "what was got and not reused is kept or given back")
        fences = one["fences"]
        check(fences["records"] > 0 and fences["queries"] > 0, f"fences: {fences}")
        equal(counts["temporary"], 600, "blocks freed before the next allocation")
        program.do(*["alloc", "alloc", "free", "free"] * 10)
        equal(sample(program.pid)["counts"]["temporary"], 610, "the same, where two live")


def rates():
    with Program() as program:
        program.do("alloc")
        watcher = subprocess.Popen([GPUMEM, "top", "--json", "--interval=300ms", str(program.pid)], stdout=subprocess.PIPE, text=True,
                                   env=environment())
        before = json.loads(watcher.stdout.readline())
        program.do("loop")
        after = json.loads(watcher.stdout.readline())
        last = [after]
        while last[-1]["counts"]["allocs"] < 201:
            last.append(json.loads(watcher.stdout.readline()))
        equal(before["counts"]["allocs"], 1, "allocations before")
        equal(round(sum(s["rates"]["allocs_per_s"] * s["rates"]["interval_s"] for s in last)), 200, "allocations by rate")
        equal(round(sum(s["rates"]["frees_per_s"] * s["rates"]["interval_s"] for s in last)), 200, "frees by rate")
        check(any(s["rates"]["time_in_calls"] for s in last), f"no time in calls: {last}")
        program.end()
        rest = [json.loads(line) for line in watcher.stdout]
        equal(watcher.wait(LIMIT_S), 0, "exit status of top")
        check(rest[-1]["ended"] and rest[-1]["finished"] and not any(s["ended"] for s in rest[:-1]), f"the end: {rest}")


UNTIL = 3  # word of struct gm_stats


def unwatched():
    """Nobody looks: no time is taken. A viewer that is killed is forgotten."""
    with Program() as program:
        program.do("loop")
        equal(sample(program.pid)["counts"]["time_in_calls_ns"], 0, "time before anybody looked")
        check(memory_file(program.pid)[UNTIL] > time.monotonic_ns(), "the viewer asked for no times")
        program.do("loop")
        spent = sample(program.pid)["counts"]["time_in_calls_ns"]
        check(spent > 0, "no times while somebody looks")
        page = memory_file(program.pid)
        equal(page.count(spent), 1, "the word that holds the time")
        at = page.index(spent)
        while memory_file(program.pid)[UNTIL] > time.monotonic_ns():
            time.sleep(0.1)
        program.do("alloc")
        page = memory_file(program.pid)
        equal(page[UNTIL], 0, "times after the viewer left")
        program.do("loop")
        equal(memory_file(program.pid)[at], page[at], "time when nobody looks any more")
        check(memory_file(program.pid) != page, "nothing is counted")


def memory_file(pid):
    """The words of the page itself."""
    for link in descriptors(pid):
        equal(os.readlink(link), "/memfd:gpumem-stats (deleted)", "name")
        check(int(link.name) >= 100, f"descriptor {link.name}")
        page = link.read_bytes()
        equal(page[:8], b"GMSTATSG", "magic")
        return [int.from_bytes(page[i : i + 8], "little") for i in range(0, len(page), 8)]
    raise AssertionError("no memory file")


def forked():
    with Program() as program:
        program.do("alloc")
        parent = program.pid
        program.do("fork")
        check(program.pid != parent, "no child")
        status, out, err = top("--batch", "--count=1", "--json", program.pid, parent)
        equal((status, err), (0, ""), "status and messages")
        child, other = (json.loads(line) for line in out.splitlines())
        equal((child["pid"], child["counts"]["allocs"], child["memory"]["live_bytes"]), (program.pid, 0, 0), "the child's own")
        equal((other["pid"], other["counts"]["allocs"], other["memory"]["live_bytes"]), (parent, 1, MIB), "the parent's own")
        equal(child["policy"], "cache", "the child's policy")
        for pid in (program.pid, parent):
            maps = pathlib.Path(f"/proc/{pid}/maps").read_text()
            equal(maps.count("memfd:gpumem-stats"), 1, f"mappings of {pid}")


def executed():
    """Another program in the same process has counters of its own, once it uses CUDA."""
    with Program() as program:
        program.do("alloc", "exec")
        check(not descriptors(program.pid), "a descriptor came through exec")
        refused([program.pid], 1, f"process {program.pid}", "no counters")
        program.do("odd")
        equal(sample(program.pid)["memory"]["live_bytes"], 1000, "live")


def descriptors(pid):
    return [link for link in pathlib.Path(f"/proc/{pid}/fd").iterdir() if "gpumem" in os.readlink(link)]


def closed():
    with Program() as program:
        program.do("alloc", "close")
        check(not descriptors(program.pid), "a descriptor was left open")
        try:
            one = sample(program.pid)
        except AssertionError:
            refused([program.pid], 1, "ptrace_scope")
            skip("ptrace_scope forbids it")
        equal((one["counts"]["allocs"], one["memory"]["live_bytes"]), (1, MIB), "counts")
        program.do("alloc", "loop")
        equal(sample(program.pid)["counts"]["allocs"], 202, "counts later")
        program.do("fork", "alloc")
        equal(sample(program.pid)["counts"]["allocs"], 1, "counts of a child")
        program.end()


def launched():
    """Under gpumem run the counters lie in the run's memory file, which nobody can cut."""
    with Program(command=[GPUMEM, "run", "--library", SHIM, "--policy=cache", "--"], preload=False) as program:
        program.do("alloc", "odd")
        one = sample(program.pid)
        equal((one["counts"]["allocs"], one["memory"]["live_bytes"]), (2, MIB + 1000), "counts")
        equal([os.readlink(link) for link in descriptors(program.pid)], ["/memfd:gpumem-run (deleted)"], "descriptors")
        try:
            os.truncate(descriptors(program.pid)[0], 0)
            check(False, "the counters of a running program can be cut")
        except PermissionError:
            pass
        parent = program.pid
        program.do("fork", "odd")
        equal(sample(program.pid)["memory"]["live_bytes"], 1000, "the child's")
        equal(sample(parent)["memory"]["live_bytes"], MIB + 1000, "the parent's")
        program.end()


def finished():
    with Program() as program:
        program.do("alloc")
        watcher = subprocess.Popen([GPUMEM, "top", "--batch", "--interval=50ms", str(program.pid)], stdout=subprocess.PIPE, text=True,
                                   env=environment())
        watcher.stdout.readline()
        program.process.kill()
        out, _ = watcher.communicate(timeout=LIMIT_S)
        equal(watcher.returncode, 0, "status")
        check(f"{program.pid} has ended" in out and out.endswith("all processes have ended\n"), out)
        refused([program.pid], 1, "no such process")  # a zombie
        program.process.wait()
        refused([program.pid], 1, "no such process")


def wrong():
    with Program() as program:
        refused([program.pid], 1, "no counters")  # no CUDA call yet
        refused([4194305], 1, "process 4194305: no such process")
        refused([os.getpid()], 1, "no counters")
        refused(["x"], 2, "'x' is not a process id")
        refused(["-5"], 2, "unknown option '-5'")
        refused(["--interval=1"], 2)
        refused(["--interval=1ms", program.pid], 2, "--interval=1ms is not a time from 10ms to 86400s")
        refused(["--count=0", program.pid], 2, "--count")
        refused(["--all", program.pid], 2, "--all")
        program.do("alloc")
        status, out, err = top("--batch", "--json", "--count=1", os.getpid(), program.pid)
        equal((status, len(out.splitlines())), (1, 1), "one of two")
        check(f"process {os.getpid()}: no counters" in err, err)


def denied():
    other = other_user(GPUMEM)
    if not other:
        sys.exit(SKIP)
    with Program() as program:
        program.do("alloc")
        refused([program.pid], 1, "permission denied", **other)
        refused(["--all"], 1, "no readable process", **other)


def everything():
    with Program() as one, Program(policy="observe") as two:
        one.do("alloc")
        two.do("odd")
        found = {s["pid"]: s for s in samples("--all")}
        equal((found[one.pid]["policy"], found[two.pid]["policy"]), ("cache", "observe"), "both")
        equal(found[two.pid]["memory"]["by_kind"]["native"]["live_bytes"], 1000, "native")
        status, out, _ = top("--batch", "--count=2", "--interval=20ms", one.pid, two.pid)
        equal((status, len(out.splitlines())), (0, 5), "a head and two lines twice")
        check(all(len(line) < 110 for line in out.splitlines()), out)


def terminal():
    """Ctrl-C and Ctrl-Z leave the terminal as it was, and no line is wider than it."""
    with Program() as program:
        program.do("alloc", "loop")
        try:
            pid, fd = pty.fork()
        except OSError as error:
            skip(f"no pseudo-terminal: {error}")
        if pid == 0:
            job_control([GPUMEM, "top", "--interval=50ms", str(program.pid)])
        fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        output = Output(fd)
        text = output.until(b"RESERVED") + output.until(b"\x1b[J")
        os.write(fd, b"\x1a")  # Ctrl-Z: the terminal is the shell's again until it goes on
        text += output.until(b"\x1b[?25h\x1b[?1049l") + output.until(b"\x1b[?1049h\x1b[?25l") + output.until(b"\x1b[J")
        fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 40, 0, 0))
        text += output.until(b"\x1b[J") + output.until(b"\x1b[J")
        os.write(fd, b"\x03")
        rest = output.rest()
        equal(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 0, "status after Ctrl-C")
        shown = (text + rest).decode()
        check(shown.startswith("\x1b[?1049h\x1b[?25l") and shown.count("\x1b[?1049h") == 2, shown)
        check("\x1b[?25h\x1b[?1049l" in shown and "cache" in shown.rpartition("\x1b[?1049l")[2], shown)
        shown = re.sub(r"\x1b\[\d*m", "", shown)  # colours take no column
        frames = [frame.partition("\x1b[J")[0].replace("\x1b[K", "").split("\r\n") for frame in shown.split("\x1b[H")[1:]]
        for frame, width in ((frames[0], 80), (frames[-1], 40)):
            check(len(frame) > 9 and 0.5 * width < max(map(len, frame)) <= width, frame)


def job_control(command):
    """As a shell does: the command in the foreground; where it stops, it goes on. Ends as it did, with 99 if it never stopped."""
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)
        os.tcsetpgrp(0, os.getpgrp())
        signal.signal(signal.SIGTTOU, signal.SIG_DFL)
        os.execve(command[0], command, environment())
    stopped = False
    while True:
        status = os.waitpid(child, os.WUNTRACED)[1]
        if not os.WIFSTOPPED(status):
            os._exit(os.waitstatus_to_exitcode(status) if stopped else 99)
        stopped = True
        os.kill(child, signal.SIGCONT)


class Output:
    """What comes out of a terminal, by pieces."""

    def __init__(self, fd):
        self.fd, self.ahead = fd, b""

    def until(self, wanted):
        deadline = time.monotonic() + LIMIT_S
        while wanted not in self.ahead:
            check(select.select([self.fd], [], [], max(0, deadline - time.monotonic()))[0], f"no {wanted} in {self.ahead}")
            self.ahead += os.read(self.fd, 65536)
        at = self.ahead.index(wanted) + len(wanted)
        text, self.ahead = self.ahead[:at], self.ahead[at:]
        return text

    def rest(self):
        while True:
            try:
                part = os.read(self.fd, 65536)
            except OSError:
                part = b""
            if not part:
                return self.ahead
            self.ahead += part


def main():
    {
        function.__name__: function
        for function in (counters, devices, sites, reuse, rates, unwatched, forked, executed, closed, launched, finished, wrong,
                         denied, everything, terminal)
    }[sys.argv[5]]()


if __name__ == "__main__":
    main()
