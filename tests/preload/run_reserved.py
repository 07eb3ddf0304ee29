#!/usr/bin/env python3
"""Memory taken from the card: every tool prints the same figure for one run.

usage: run_reserved.py GPUMEM PROGRAM CUDA WORK CASE
"""

import contextlib
import csv
import functools
import json
import os
import pathlib
import pty
import re
import shutil
import subprocess
import sys

import accounts as listed
import commanded
from accounts import PLAN, ROWS, UNITS
from commanded import check, equal

MIB = 1 << 20
LIMIT_S = 60
POLICIES = ("observe", "cache", "async", "managed", "auto")
GPUMEM, PROGRAM, CUDA, WORK = (os.path.abspath(path) for path in sys.argv[1:5])
# On a busy machine a program can be idle between two calls.
environment = functools.partial(commanded.environment, CUDA, GPUMEM_CACHE_IDLE="0")


def tool(*words, status=0, text=None, **more):
    done = subprocess.run([GPUMEM, *words], input=text, capture_output=True, text=True, timeout=LIMIT_S, env=environment(**more))
    equal(done.returncode, status, f"status of gpumem {' '.join(words)}: {done.stderr}")
    return done


def size_in(text, pattern):
    found = re.search(pattern + r" +([0-9.]+) ([KMG]?i?B)", text)
    check(found, f"no {pattern} in {text}")
    return round(float(found[1]) * UNITS[found[2]])


def run(policy, *plan, command="run", **more):
    """A run of the plan: its closing lines and its trace."""
    trace = os.path.join(WORK, "run.trace")
    pathlib.Path(trace).unlink(missing_ok=True)
    done = tool(command, f"--policy={policy}", *([f"--trace={trace}"] if command == "run" else []), "--", PROGRAM, *plan, **more)
    return done.stderr, trace


def report(trace, *flags):
    return json.loads(tool("report", "--json", *flags, trace).stdout)["traces"][0]


def peak_in_top(policy, plan, **more):
    """The figures of gpumem top when the plan is done, before the program ends."""
    child = subprocess.Popen([PROGRAM, *plan, "."], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                             env=environment(LD_PRELOAD=os.path.join(os.path.dirname(GPUMEM), "../shim/libgpumem.so"), GPUMEM_POLICY=policy, **more))
    equal(child.stdout.readline(), "ready\n", "the program")
    done = tool("top", "--json", "--count=1", str(child.pid))
    child.communicate("\n", LIMIT_S)
    equal(child.returncode, 0, "the program's status")
    return json.loads(done.stdout.splitlines()[0])["memory"]


def peaks(policy, *plan, replays=True, **more):
    """The peak of reserved bytes, which all tools agree on. replays: gpumem replay can model the calls."""
    lines, trace = run(policy, *plan, **more)
    totals, part = (lambda r: (r["totals"], r["reserved"]))(report(trace, "--reserved"))
    peak = totals["peak_reserved_bytes"]
    text = tool("report", trace).stdout
    if replays:
        replayed = json.loads(tool("replay", "--json", f"--policy={policy}", trace, **more).stdout)["policies"][0]
        equal(replayed["peak_reserved_bytes"], peak, f"{policy} replay")
    equal(part["peak_bytes"], peak, f"{policy} report --reserved")
    equal(max(row["reserved_bytes"] for row in part["over_time"]), peak, f"{policy} over time")
    equal(size_in(text, "peak reserved"), peak, f"{policy} report")
    equal(size_in(lines, "peak reserved"), peak, f"{policy} run")
    equal(peak_in_top(policy, plan, **more)["peak_reserved_bytes"], peak, f"{policy} top")
    return peak, totals, part


def same_figure():
    """Freed blocks are kept while larger ones come. Blocks of 1 MiB share pages of 2 MiB."""
    for policy, expected in (("observe", 320), ("cache", 576)):
        peak, totals, part = peaks(policy, "256x1m", "-", "5x64m", "-")
        equal(peak, expected * MIB, policy)
        equal(totals["peak_live_bytes"], 320 * MIB, f"{policy} live")
        equal((part["live_bytes"], part["kept_bytes"]), (320 * MIB, (expected - 320) * MIB), f"{policy} at the peak")
    for policy in ("async", "auto", "managed"):  # pools take whole pages and keep what was freed
        peak, _, _ = peaks(policy, "256x1m", "-", "5x64m", "-")
        check(320 * MIB <= peak <= 640 * MIB, f"{policy}: {peak}")


def rounding():
    """Small blocks, and blocks in stream order."""
    for policy in POLICIES:
        peaks(policy, "100x512", "-", "50x512", "7x4096", "-")
        peaks(policy, "a:3x2m", "-")


def mapped():
    """Buffers that the program maps itself: kept ones are reserved like any other kept memory."""
    def check_mapped(policy, expected, *plan, **more):
        peak, totals, part = peaks(policy, *plan, replays=False, **more)
        equal(peak, expected * MIB, f"{policy} {plan}")
        return totals, part

    for way in "vr":
        plan = (f"{way}:8x4m", "-", f"{way}:4x16m", "-")
        check_mapped("observe", 64, *plan)
        _, part = check_mapped("cache", 96, *plan)
        equal((part["live_bytes"], part["kept_bytes"]), (64 * MIB, 32 * MIB), f"{way}: at the peak")
        equal(part["over_time"][-1]["kept_bytes"], 96 * MIB, f"{way}: at the end")
        # Kept buffers are reused, in whole batches of 12 MiB: nothing more comes from the driver.
        totals, part = check_mapped("cache", 24, *3 * (f"{way}:6x4m", "-"))
        equal((totals["hits"], totals["unknown_frees"], part["trims"]), (12, 0, []), f"{way}: reused")
        # The address range stays: the memory is kept all the same, and as little of it as a cache may hold.
        check_mapped("cache", 96, f"{way}:8x4m", "=", f"{way}:4x16m", "-")
        _, part = check_mapped("cache", 64, f"{way}:8x4m", "=", f"{way}:4x16m", "-", GPUMEM_CACHE_LIMIT="1M")
        equal(part["trims"], [], f"{way}: nothing was kept")
        # All is given back, and none of it is reserved any more.
        for ranges in "-=":
            _, part = check_mapped("cache", 1000, f"{way}:8x4m", ranges, "1x1000m", "-", SIMCUDA_MEMORY=str(1 << 30))
            given = {row["reason"]: row["bytes"] for row in part["trims"]}
            equal(given, {"out-of-memory": 32 * MIB}, f"{way}: given back")


def mapped_otherwise():
    """Calls that deviate from the sequence of whole buffers (mapped.c)."""
    program = os.path.join(os.path.dirname(PROGRAM), "mapped")
    for policy in ("observe", "cache"):
        for words in (("deviations",), ("held",), *(("random", str(seed)) for seed in range(1, 9))):
            trace = os.path.join(WORK, "run.trace")
            pathlib.Path(trace).unlink(missing_ok=True)
            done = tool("run", f"--policy={policy}", f"--trace={trace}", "--", program, *words)
            totals = report(trace)["totals"]
            what = f"{policy} {' '.join(words)}"
            equal(size_in(done.stderr, "peak reserved"), totals["peak_reserved_bytes"], f"{what}: run")
            check(totals["peak_reserved_bytes"] < 1 << 40, f"{what}: {totals['peak_reserved_bytes']}")


def two_devices():
    """The closing lines have the peak of each device, which is that of the report, and of no sum."""
    program = os.path.join(os.path.dirname(PROGRAM), "two_devices")
    trace = os.path.join(WORK, "run.trace")
    for policy in POLICIES:
        pathlib.Path(trace).unlink(missing_ok=True)
        lines = tool("run", f"--policy={policy}", f"--trace={trace}", "--", program, SIMCUDA_DEVICES="2").stderr
        for words, name in (("peak live", "peak_live_bytes"), (", reserved", "peak_reserved_bytes")):
            found = {int(device): size_in(line, words) for line in lines.splitlines()
                     for device in re.findall(r"peak live .* on device (\d+)$", line)}
            wanted = {row["device"]: row[name] for row in report(trace)["by_device"] if row[name]}
            check(found.keys() == wanted.keys() == {0, 1}, f"{policy}: {found} and {wanted}")
            check(all(abs(found[device] - wanted[device]) <= wanted[device] / 100 for device in found), f"{policy}: {found} and {wanted}")
        check(lines.count("peak live ") == 3, lines)  # the third one heads the table of kinds


def trims():
    """One event for each trim and kind, with its reason; what is given back is reserved no more."""
    # 256 blocks of 1 MiB are kept, and the whole card is asked for: the cache gives all back.
    _, trace = run("cache", "256x1m", "-", "1x3900m", "-", SIMCUDA_MEMORY=str(4 << 30))
    part = report(trace, "--reserved")["reserved"]
    given = {row["reason"]: (row["count"], row["bytes"]) for row in part["trims"]}
    equal(given["out-of-memory"], (1, 256 * MIB), "out of memory")
    equal(part["peak_bytes"], 3900 * MIB, "the peak after the trim")
    events = tool("export", "--to=csv", "--output=-", trace).stdout
    check(events.count(",trim,") <= 3, "an event for each block")
    # Idle blocks and those above the limit.
    for limit in ("128M", "3.13%"):  # of 4 GiB
        _, trace = run("cache", "64x4m", "-", "300x1m", "-", "300x1m", "-", GPUMEM_CACHE_LIMIT=limit)
        part = report(trace, "--reserved")["reserved"]
        given = {row["reason"]: row["bytes"] for row in part["trims"]}
        check(set(given) == {"cache-limit"} and given["cache-limit"] > 64 * MIB, f"above the limit: {given}")
        check(max(row["kept_bytes"] for row in part["over_time"]) <= 133 * MIB, "more is kept than the limit and the block that is freed")
    # A pool gives its pages back when the program asks for free memory.
    _, trace = run("async", "64x4m", "-", "?")
    part = report(trace, "--reserved")["reserved"]
    equal({row["reason"]: row["bytes"] for row in part["trims"]}, {"trim-call": 256 * MIB}, "asked for free memory")
    equal(part["over_time"][-1]["reserved_bytes"] % MIB, 0, "whole pages")


def fake_nvml(processes):
    return {"LD_LIBRARY_PATH": f"{CUDA}:{os.path.dirname(PROGRAM)}", "FAKE_NVML": processes}


@contextlib.contextmanager
def neighbour(*plan):
    """Another process has memory of the same card."""
    card = {"SIMCUDA_CARD": os.path.join(WORK, "card")}
    child = subprocess.Popen([PROGRAM, *plan, "."], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment(**card))
    equal(child.stdout.readline(), "ready\n", "the neighbour")
    yield card
    child.communicate("\n", LIMIT_S)
    equal(child.returncode, 0, "the neighbour's status")


def beyond():
    """What the process holds beyond gpumem's view, by the card's management library or by the card's free memory."""
    with neighbour("10x100m") as card:
        lines, trace = run("cache", "10x64m", "-", **card, **fake_nvml(f"1:{MIB} me:{1000 * MIB}"))
    totals = report(trace)["totals"]
    equal(totals["peak_beyond_bytes"], 936 * MIB, "at the first allocation")
    part = report(trace, "--reserved")["reserved"]
    equal(part["beyond_measured"], 5, "at the first allocation, three doublings, and at the end")
    equal(part["beyond_bytes"], 361 * MIB, "at the end")
    # In a container the numbers are those of the host: the only process is this one.
    with neighbour("10x100m") as card:
        lines, _ = run("cache", "1x64m", **card, **fake_nvml(f"77:{100 * MIB}"))
    equal(size_in(lines, "contexts"), 36 * MIB, "the only process")
    # Unknown process, no library, a library that does not start: the card's own figure, on which nothing else is.
    for processes in (f"77:{100 * MIB} 78:{MIB}", "refused", "me:1", ""):
        lines, trace = run("cache", "1x64m", **(fake_nvml(processes) if processes else {}))
        check("contexts" not in lines and "others" not in lines, lines)
        equal(report(trace, "--reserved")["reserved"]["beyond_bytes"], 0, processes)
    # Nobody reads: nothing is measured.
    done = subprocess.run([PROGRAM, "1x64m"], env=environment(
        **fake_nvml("me:1"), LD_PRELOAD=os.path.join(os.path.dirname(GPUMEM), "../shim/libgpumem.so"), LD_DEBUG="files"),
        capture_output=True, text=True)
    check(done.returncode == 0 and "nvidia-ml" not in done.stderr, "looked for the library without a reader")


def oversubscribed():
    """GPUMEM_MANAGED_OVERSUBSCRIBE: managed memory exceeds the card, unless another process may have memory of it."""
    def run(**more):
        return subprocess.run([PROGRAM, "40x64m", "-"], env=environment(
            LD_PRELOAD=os.path.join(os.path.dirname(GPUMEM), "../shim/libgpumem.so"), GPUMEM_POLICY="managed", GPUMEM_OOM="fail",
            SIMCUDA_MEMORY=str(2 << 30), SIMCUDA_BEYOND=str(4 << 30), **more), capture_output=True, text=True)

    beyond, mine = "exceeds the free memory of device 0", fake_nvml(f"me:{MIB}")
    done = run(GPUMEM_MANAGED_OVERSUBSCRIBE="1", **mine)
    check(done.returncode == 0 and done.stderr.count(beyond) == 1, done.stderr)
    others = fake_nvml(f"me:{MIB} 1:{MIB}"), fake_nvml("refused"), {}
    for more in ({"GPUMEM_MANAGED_OVERSUBSCRIBE": "0", **mine}, *({"GPUMEM_MANAGED_OVERSUBSCRIBE": "1", **each} for each in others)):
        done = run(**more)
        check(done.returncode and beyond not in done.stderr, f"{more}: {done.stderr}")
        equal(done.stderr.count("not known to be free of other processes"), int(more["GPUMEM_MANAGED_OVERSUBSCRIBE"]), done.stderr)


def held():
    """Unused memory that cannot be given back, by reason, when it is measured."""
    def rows(policy, *plan):
        _, trace = run(policy, *plan)
        return {row["reason"]: row["peak_bytes"] for row in report(trace, "--reserved")["reserved"]["held"]}

    equal(rows("cache", "1024x64k", "-", "~150", "1x64m"), {"partly-used": 64 * MIB}, "small blocks share pages")
    # 11 batches of 12 MiB, so none is open.
    equal(rows("cache", "33x4m", "-", "~150", "1x64m"), {}, "large blocks have pages of their own")
    equal(rows("observe", "1x32m", "a:1x1m", "~150", "1x64m").keys(), {"threshold"}, "the program's pool")
    check(rows("async", "100x1m", "-", "~150", "1x256m")["partly-used"] >= 0, "gpumem's pool")


def host_memory():
    """Memory that moved to the host is said once, and counts apart from the device's peak."""
    lines, trace = run("cache", "10x400m", SIMCUDA_MEMORY=str(2 << 30), GPUMEM_OOM="trim,host,fail")
    totals = report(trace)["totals"]
    if not totals["to_host_memory_bytes"]:
        sys.exit(77)  # no host memory here
    equal(lines.count("is served from host memory"), 1, "said once")
    moved = totals["peak_in_host_memory_bytes"]
    equal(moved + totals["peak_live_bytes"], 4000 * MIB, "device and host apart")
    check(abs(size_in(lines, "in host memory") - moved) < 6 * MIB, lines)
    check(re.search(r"in host memory +\S+ GiB at most, since .*; at the end \S+ GiB", lines), lines)
    check(re.search(r"in host memory +\S+ GiB at most, since .*; at the end \S+ GiB; \d+ allocations", tool("report", trace).stdout), "report")


# ---- what the card's memory is

CARD = 4 << 30


def adds_up_as_text(text, what):
    wrong = listed.wrong_in_text(text, CARD)
    check(not wrong, f"{what}: {wrong}")
    return listed.from_text(text)[0]


def adds_up(row, what):
    """An account in JSON, to the byte."""
    figures = {**{name: row[f"{name}_bytes"] or 0 for name in (*ROWS, "elsewhere")}, "card": row["device_bytes"]}
    equal((listed.missing(figures), figures["card"]), (0, CARD), f"{what}: {row}")
    return figures


def watched(plan, *flags, **more):
    """What gpumem top with these flags shows of a process that did the plan, and what it shows on a terminal."""
    trace = os.path.join(WORK, "watched.trace")
    shim = os.path.join(os.path.dirname(GPUMEM), "../shim/libgpumem.so")
    child = subprocess.Popen([PROGRAM, *plan, "."], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                             env=environment(LD_PRELOAD=shim, GPUMEM_TRACE=trace, GPUMEM_POLICY="cache", GPUMEM_LOG="error", **more))
    equal(child.stdout.readline(), "ready\n", "the program")
    texts = [tool("top", *words, "--count=1", str(child.pid)).stdout for words in flags]
    shown = []
    if pty.spawn([GPUMEM, "top", "--count=1", "--color=never", str(child.pid)],
                 lambda fd: shown.append(os.read(fd, 65536)) or shown[-1]):
        sys.exit(77)  # no pseudo-terminal
    child.communicate("\n", LIMIT_S)
    equal(child.returncode, 0, "the program's status")
    return [*texts, b"".join(shown).decode()]


def in_page(trace):
    page = os.path.join(WORK, "page.html")
    done = subprocess.run([GPUMEM, "html", "--force", "-o", page, trace], capture_output=True, text=True, timeout=LIMIT_S, env=environment())
    if "dygraphs" in done.stderr:
        return None
    equal(done.returncode, 0, done.stderr)
    data = re.search(r'<script type="application/json" id="data">(.*?)</script>', pathlib.Path(page).read_text(encoding="utf-8"), re.S)[1]
    return json.loads(data)["traces"][0]["devices"][0]["account"]


def accounts():
    """The list of what the card's memory is adds up to the card wherever it is shown."""
    for name, more in (("own", fake_nvml(f"1:{MIB} me:{1200 * MIB}")), ("shared", {})):
        with neighbour("8x100m") as card:
            lines, trace = run("cache", *PLAN, **card, **more)
        closing = adds_up_as_text(re.search(r"device 0 .*", lines)[0], f"{name}: closing lines")
        part = report(trace, "--reserved")["reserved"]
        for moment in ("fullest", "last"):
            figures = {row["row"]: row[f"{moment}_bytes"] or 0 for row in part["account"]}
            equal((listed.missing(figures), figures["card"]), (0, CARD), f"{name}: {moment}: {figures}")
        check(all(closing[row] > MIB for row in ("live", "rounding", "kept", "pools", "handles", "rest" if name == "shared" else "contexts")), f"{name}: {closing}")
        check("others" not in closing if name == "shared" else "rest" not in closing, f"{name}: {closing}")
        text = tool("report", "--reserved", trace).stdout
        adds_up_as_text("\n".join(re.findall(rf"^ *(?:{'|'.join(ROWS)}|rest|elsewhere)  .* [KMG]?i?B  [a-z].*$", text, re.M)), f"{name}: report")
        page = in_page(trace)
        if page:
            for moment in ("fullest", "last"):
                equal(sum(row[moment] for row in page), CARD, f"{name}: page")
                equal([row[moment] for row in page if row["name"] == "kept"], [row[f"{moment}_bytes"] for row in part["account"] if row["row"] == "kept"], name)
    events = list(csv.DictReader(line for line in tool("export", "--to=csv", "--output=-", trace).stdout.splitlines() if line[0] != "#"))
    traced = listed.from_trace(events)
    check(len(traced) > 1 and all((listed.missing(one), one["card"]) == (0, CARD) for one, _ in traced), f"trace: {traced}")
    answer, samples, shown = watched(PLAN, ("--json",), ("--prometheus",), **fake_nvml(f"me:{1000 * MIB}"))
    adds_up(json.loads(answer.splitlines()[0])["memory"]["by_device"][0]["account"], "top --json")
    values = {row: int(value) for row, value in re.findall(r'gpumem_device_account_bytes\{.*row="(\w+)"\} (\d+)', samples)}
    equal(sum(values[row] for row in ROWS) - values["elsewhere"], CARD, "top --prometheus")
    adds_up_as_text(re.sub(r"^  LIVE .*", "", shown[shown.rindex("CARD"):], flags=re.M | re.S), "top on a terminal")


def ran_out():
    """What is said when memory runs out is what report --oom says, and kept memory that was given back in vain is named."""
    for plan, why in ((("100x1m", "e:997x630k", "-100", "p:40x8m", "-40", "1!x3900m"), "this process holds too much"),
                      (("100x4m", "-", "e:997x630k", "2!x3900m"), "this process holds too much"),
                      (("5000!x1m",), "this process holds too much"), (("1!x4097m",), "larger than the device's memory")):
        lines, trace = run("cache", *plan)
        words = re.search(listed.WORDS, lines)
        check(words, lines)
        equal(words[1], why, lines)
        said = adds_up_as_text(words[0], "words")
        if "100x4m" in plan:
            check(said["kept"] > 100 * MIB, f"kept memory counts as it was before it was released: {words[0]}")
        part = report(trace, "--oom")["out_of_memory"]
        figures = adds_up(part["accounts"][0], "report --oom")
        equal(part["requests"][0]["reason"], why, "report --oom")
        for name, value in said.items():
            wanted = figures["contexts" if name == "rest" else name]
            check(abs(value - wanted) <= 0.006 * max(unit for unit in UNITS.values() if unit <= max(wanted, 1)), f"{name}: {value} and {wanted}")
        closing = adds_up_as_text(re.search(r"device 0 .*", lines)[0], "closing lines")
        check("when memory ran out" in lines and closing == said, f"{closing} and {said}")
        text = tool("report", "--oom", trace).stdout
        check(re.search(r"what the card's memory was", text) and why in text, text)


def holders():
    """Without a trace, too, blocks of all sizes that one call site holds are one row."""
    program = [PROGRAM, "100x1m", "e:997x630k", "2!x3900m"]
    shim = os.path.join(os.path.dirname(GPUMEM), "../shim/libgpumem.so")
    done = subprocess.run(program, capture_output=True, text=True, timeout=LIMIT_S, env=environment(LD_PRELOAD=shim, GPUMEM_LOG="warn"))
    check(re.search(r"held by +\d+\.\d\d MiB in 997 blocks: ", done.stderr), done.stderr)
    check(re.search(r" 100\.00 MiB in 100 blocks: ", done.stderr), done.stderr)


def unkept():
    """The closing lines name the option that keeps most freed bytes from being reused."""
    plan = (*8 * ("64x4m", "-"), "1x4m", "-")
    lines, _ = run("cache", *plan, GPUMEM_CACHE_LIMIT="32M")
    check(re.search(r"not reused  .*above the limit of kept memory: a higher --cache-limit keeps more", lines), lines)
    lines, _ = run("cache", *plan)
    check("not reused" not in lines, lines)
    for _ in range(5):  # when blocks are found to be idle depends on the machine's load
        lines, _ = run("cache", "64x4m", "-", "~60", *4 * ("16x1m", "-", "~60"), GPUMEM_CACHE_IDLE="10ms")
        if re.search(r"not reused  .*unused for --cache-idle: a longer --cache-idle, or 0, keeps it", lines):
            return
    check(False, lines)


CASES = {case.__name__: case for case in (same_figure, rounding, mapped, mapped_otherwise, two_devices, trims, beyond, oversubscribed, held, host_memory, accounts,
                                          ran_out, holders, unkept)}

if __name__ == "__main__":
    shutil.rmtree(WORK, ignore_errors=True)
    os.makedirs(WORK)
    CASES[sys.argv[5]]()
