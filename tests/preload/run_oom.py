#!/usr/bin/env python3
"""Memory pressure: unmodified programs that need more than the card, or than GPUMEM_LIMIT, has.

usage: run_oom.py --programs DIR --cuda DIR --shim FILE --work DIR [--gpumem FILE] CASE

On the simulated CUDA a card is as small as SIMCUDA_MEMORY says, and host memory behind it is real. Ends with 77 where a case
cannot be tried here.
"""

import json
import os
import pathlib
import subprocess
import sys
import time

import accounts as listed
from place import SKIP, check, run_case
from traces import match_events, read_notes, read_trace

MIB = 1 << 20
OTHER_MEMORY = {"host-numa"}
TO_HOST = "trim,host,fail"
MOVING_POLICIES = ("cache", "async", "managed", "active-list", "auto")


def start(place, command, policy, **settings):
    return place.run_shimmed(command, policy, **settings)


def events_of(done):
    return [row for rows in read_trace(done.folder).values() for row in rows]


def check_whole(done, label):
    """What was allocated was freed by its own address, and every note of the program is an event."""
    for pid, rows in read_trace(done.folder).items():
        match_events([note for note in read_notes(done.folder) if note.pid == pid], rows, label)
        live = {}
        for row in rows:
            if row["action"] == "alloc":
                check(row["address"] not in live, f"{label}: lives twice: {row}")
                live[row["address"]] = row
            elif row["action"] == "free":
                check(live.pop(row["address"], None), f"{label}: freed but not live: {row}")
        check(not live, f"{label}: left: {list(live.values())[:3]}")


def most_live(events, beyond):
    """Largest total of device memory at one time; `beyond`: blocks that the steps put elsewhere do not count."""
    live, total, most = {}, 0, 0
    for row in sorted(events, key=lambda row: int(row["seq"])):
        if row["action"] == "alloc" and row["kind"] not in OTHER_MEMORY and not (beyond and row["reason"] == "out-of-memory"):
            live[row["address"]] = int(row["bytes_got"])
            total += int(row["bytes_got"])
            most = max(most, total)
        elif row["action"] in ("free", "release"):
            total -= live.pop(row["address"], 0)
    return most


def bytes_of(events, kind):
    return sum(int(row["bytes"]) for row in events if row["action"] == "alloc" and row["kind"] == kind)


def check_elsewhere(events, kind, least, label):
    """So many bytes went there, and each block says why and what it does not keep."""
    check(bytes_of(events, kind) >= least, f"{label}: {bytes_of(events, kind)} bytes of {kind}, not {least}")
    rows = [row for row in events if row["action"] == "alloc" and row["kind"] == kind]
    check(all(row["reason"] == "out-of-memory" for row in rows), f"{label}: another reason: {rows[0]}")
    dropped = {row["address"] for row in events if row["action"] == "drop" and row["reason"] == "out-of-memory"}
    promised = {row["address"] for row in rows if row["call"] != "cuMemAllocAsync"}
    check(promised <= dropped, f"{label}: dropped promises are not told")


def limit(place):
    """1.5 times GPUMEM_LIMIT, under every policy: right results, and a trace that says what went where."""
    command = [place.program("oversubscribe"), "24", "4"]
    native = place.run_native(command)
    for policy, steps in [(policy, TO_HOST) for policy in MOVING_POLICIES] + [("observe", "host,fail")]:
        label = f"limit under {policy}"
        done = start(place, command, policy, GPUMEM_LIMIT="64M", GPUMEM_OOM=steps)
        check((done.returncode, done.stdout) == (0, native.stdout), f"{label}: {done.returncode} {done.stdout}{done.stderr}")
        events = events_of(done)
        check_whole(done, label)
        check_elsewhere(events, "host-numa", 32 * MIB, label)
        check(most_live(events, True) <= 64 * MIB, f"{label}: {most_live(events, True)} bytes of device memory at one time")


def small_card(place):
    """A card that really is too small: the error that the program meets natively, under every policy, or host memory if
    wished."""
    command = [place.program("oversubscribe"), "24", "4"]
    native = place.run(command, SIMCUDA_MEMORY=str(64 * MIB))
    check(native.returncode == 3 and "out of memory after" in native.stdout, f"natively: {native.returncode} {native.stdout}")
    for policy in MOVING_POLICIES:
        label = f"small card under {policy}"
        done = start(place, command, policy, SIMCUDA_MEMORY=str(64 * MIB), GPUMEM_OOM=TO_HOST)
        check((done.returncode, done.stdout) == (0, "ok 24 blocks\n"), f"{label}: {done.returncode} {done.stdout}{done.stderr}")
        events = events_of(done)
        check_whole(done, label)
        check_elsewhere(events, "host-numa", 32 * MIB, label)
        check_report_of_steps(place, done, {"host"}, label)
    for policy in (*MOVING_POLICIES, "observe"):
        done = start(place, command, policy, SIMCUDA_MEMORY=str(64 * MIB))
        check((done.returncode, done.stdout) == (3, native.stdout), f"{policy}: {done.returncode} {done.stdout}{done.stderr}")
        check(not bytes_of(events_of(done), "host-numa"), f"{policy} moved a block unasked")


def reuse(place):
    """A job that needs one block more than it may have, and allocates it again and again: the driver makes few blocks."""
    command = [place.program("oversubscribe"), "17", "4", "0", "200"]
    log = place.options.work / "calls.log"
    for settings in ({"GPUMEM_LIMIT": "64M"}, {"SIMCUDA_MEMORY": str(64 * MIB)}):
        for policy in MOVING_POLICIES:
            label = f"{policy}, {settings}"
            done = start(place, command, policy, GPUMEM_OOM=TO_HOST, SIMCUDA_LOG=str(log), **settings)
            check((done.returncode, done.stdout) == (0, "ok 17 blocks\n"), f"{label}: {done.returncode} {done.stdout}{done.stderr}")
            check_whole(done, label)
            check_elsewhere(events_of(done), "host-numa", 200 * 4 * MIB, label)
            made = sum(" cuMemCreate " in line for line in log.read_text().splitlines())
            log.unlink()  # the next run appends
            check(0 < made <= 4, f"{label}: {made} blocks made for 200 pairs")


def trim(place):
    """What is kept is given back first, and told."""
    card = str(1024 * MIB)
    command = [place.program("oversubscribe"), "4", "250", "100"]
    done = start(place, command, "auto", SIMCUDA_MEMORY=card)
    check((done.returncode, done.stdout) == (0, "ok 4 blocks\n"), f"{done.returncode} {done.stdout}{done.stderr}")
    events = events_of(done)
    trims = [row for row in events if row["action"] == "trim"]
    check(trims and sum(int(row["bytes"]) for row in trims) >= 100 * MIB, f"trims: {trims}")
    check(trims[0]["call"] == "cuMemAlloc" and trims[0]["reason"] == "out-of-memory", f"trim: {trims[0]}")
    check(not bytes_of(events, "host-numa"), "went to host memory though a trim was enough")
    report = report_of(place, done)
    if report:
        totals = report["totals"]
        check(totals["trims"] == len(trims), f"report: {totals}")
        check(totals["trimmed_bytes"] == sum(int(row["bytes"]) for row in trims), f"report: {totals}")


def report_of(place, done, *parts):
    if not place.options.gpumem:
        return None
    (trace,) = done.folder.glob("trace-*.csv")
    said = subprocess.run([place.options.gpumem, "report", "--json", *parts, str(trace)], capture_output=True, text=True)
    check(said.returncode == 0, f"gpumem report: {said.stderr}")
    return json.loads(said.stdout)["traces"][0]


def check_report_of_steps(place, done, least, label):
    """The report names these steps and says where each block went; gives the requests that failed."""
    report = report_of(place, done, "--oom", "--kinds")
    if not report:
        return []
    part, events = report["out_of_memory"], events_of(done)
    steps = {row["step"]: row for row in part["steps"]}
    check(least <= set(steps), f"{label}: {steps}")
    hosted = bytes_of(events, "host-numa")
    check(steps.get("host", {"bytes": 0})["bytes"] == hosted, f"{label}: {steps}, not {hosted}")
    check(sum(row["bytes"] for row in part["elsewhere"] if row["kind"] == "host-numa") == hosted, f"{label}: {part['elsewhere']}")
    kinds = {row["kind"]: row["bytes"] for row in report["kinds"]["rows"]}
    check(kinds.get("host-numa", 0) == hosted, f"{label}: {kinds}")
    return part["requests"]


def order(place):
    """The steps are taken in the order of their names."""
    command = [place.program("oversubscribe"), "24", "4"]
    for steps, kind in (("managed,host", "managed"), ("host,managed", "host-numa"), ("trim,managed,fail", "managed")):
        done = start(place, command, "auto", GPUMEM_LIMIT="64M", GPUMEM_OOM=steps)
        check((done.returncode, done.stdout) == (0, "ok 24 blocks\n"), f"{steps}: {done.returncode} {done.stdout}{done.stderr}")
        events = events_of(done)
        check_elsewhere(events, kind, 32 * MIB, steps)
        (other,) = {"managed", "host-numa"} - {kind}
        check(not bytes_of(events, other), f"{steps}: something went to {other}")
    # Managed memory would take what is really free: refused, the next step serves.
    done = start(place, command, "auto", SIMCUDA_MEMORY=str(64 * MIB), GPUMEM_OOM="managed,host")
    check(done.returncode == 0 and not bytes_of(events_of(done), "managed"), f"full card: {done.returncode} {done.stdout}{done.stderr}")


def fail(place):
    """Who wants the card's own error gets it, at the same place."""
    command = [place.program("oversubscribe"), "24", "4"]
    for steps in ("fail", "trim,fail", "trim"):
        for settings in ({"GPUMEM_LIMIT": "64M"}, {"SIMCUDA_MEMORY": str(64 * MIB)}):
            done = start(place, command, "auto", GPUMEM_OOM=steps, **settings)
            check(
                (done.returncode, done.stdout) == (3, "out of memory after 16\n"),
                f"{steps} {settings}: {done.returncode} {done.stdout}{done.stderr}",
            )
            check_whole(done, steps)
            failed = [row for row in events_of(done) if row["action"] == "alloc_fail"]
            check(len(failed) == 1 and failed[0]["result"] == "2", f"{steps}: {failed}")
            why = {request["reason"] for request in check_report_of_steps(place, done, {"fail"}, steps)}
            check(("GPUMEM_LIMIT" in why) == ("GPUMEM_LIMIT" in settings), f"{steps} {settings}: {why}")
    # The driver cannot: its own error, too.
    done = start(place, command, "auto", GPUMEM_LIMIT="64M", GPUMEM_OOM=TO_HOST, SIMCUDA_HIDE="cuMemCreate")
    check((done.returncode, done.stdout) == (3, "out of memory after 16\n"), f"hidden: {done.returncode} {done.stdout}{done.stderr}")


def wrong(place):
    """A step that is none is named once; the default stays."""
    command = [place.program("oversubscribe"), "24", "4"]
    done = start(place, command, "auto", GPUMEM_LIMIT="64M", GPUMEM_OOM="foo")
    check((done.returncode, done.stdout) == (3, "out of memory after 16\n"), f"{done.returncode} {done.stdout}{done.stderr}")
    expected = 'gpumem: GPUMEM_OOM=foo: "foo" is not a step; accepted: trim, split, host, managed, fail; using trim,fail\n'
    check(done.stderr.startswith(expected) and done.stderr.count("GPUMEM_OOM=foo") == 1, f"said: {done.stderr}")


def calls(place):
    """Every kind of memory against the limit."""
    command = [place.program("limit_calls")]
    place.run_native(command)
    for policy in ("observe",) + MOVING_POLICIES:
        for steps in ("fail", "trim,fail"):
            done = start(place, command, policy, LIMIT_MIB="64", GPUMEM_LIMIT="64M", GPUMEM_OOM=steps)
            check(
                (done.returncode, done.stdout) == (0, "ok limit_calls\n"),
                f"limit_calls under {policy}: {done.returncode} {done.stdout}{done.stderr}",
            )
        done = start(place, command, policy)
        check(done.returncode == 0, f"limit_calls under {policy} without a limit: {done.stdout}{done.stderr}")


def host_tier(place):
    """A block of host memory answers questions, and takes frees, as any other."""
    command = [place.program("limit_calls")]
    drivers = ({"SIMCUDA_STRICT": "1"}, {"SIMCUDA_HIDE": "cuCtxRecordEvent"}, {"SIMCUDA_STREAMS": "random:7"})
    for policy, settings in [*((policy, {}) for policy in MOVING_POLICIES), *(("auto", driver) for driver in drivers)]:
        done = start(place, command, policy, LIMIT_MIB="64", GPUMEM_LIMIT="64M", GPUMEM_OOM=TO_HOST, HOST_TIER="1", **settings)
        label = f"host tier under {policy} {settings}"
        check((done.returncode, done.stdout) == (0, "ok limit_calls\n"), f"{label}: {done.returncode} {done.stdout}{done.stderr}")
        check_elsewhere(events_of(done), "host-numa", 22 * 65 * MIB, label)
    two = {"HOST_TIER": "2", "SIMCUDA_DEVICES": "2", "LIMIT_MIB": "64", "GPUMEM_LIMIT": "64M", "GPUMEM_OOM": TO_HOST}
    done = start(place, command, "auto", **two)
    check((done.returncode, done.stdout) == (0, "ok limit_calls\n"), f"two devices: {done.returncode} {done.stdout}{done.stderr}")
    released = [row for row in events_of(done) if row["action"] == "release" and row["kind"] == "host-numa"]
    check(len(released) == 4, f"two devices: {len(released)} blocks went with their context, not 4")


def capture(place):
    command = [place.program("oom_capture"), "100"]
    for settings in ({"GPUMEM_LIMIT": "64M"}, {"SIMCUDA_MEMORY": str(64 * MIB)}):
        done = start(place, command, "auto", GPUMEM_OOM=TO_HOST, **settings)
        check(
            (done.returncode, done.stdout)
            == (0, "in capture: cudaErrorMemoryAllocation\nafter it: cudaSuccess\nok oom_capture\n"),
            f"{settings}: {done.returncode} {done.stdout}{done.stderr}",
        )


def transport(place):
    """Memory that another library may register or export is never host memory."""
    command = [place.program("oversubscribe"), "24", "4"]
    library = str(place.options.programs / "libmpi.so")
    done = start(place, command, "auto", preload=(place.options.shim, library), GPUMEM_LIMIT="64M", GPUMEM_OOM=TO_HOST)
    check((done.returncode, done.stdout) == (3, "out of memory after 16\n"), f"{done.returncode} {done.stdout}{done.stderr}")


def failures(place):
    """Each driver call behind host memory fails once: the program goes on, or sees an error of memory; nothing is left."""
    names = ("cuMemAddressReserve", "cuMemCreate", "cuMemMap", "cuMemSetAccess", "cuMemRelease", "cuMemUnmap", "cuMemAddressFree",
             "cuMemGetAllocationGranularity", "cuDeviceGetAttribute")
    command, seen = [place.program("oversubscribe"), "20", "4"], 0
    for name in names:
        for nth in (1, 2, 3):
            label = f"{name} fails at call {nth}"
            done = start(place, command, "auto", GPUMEM_LIMIT="64M", GPUMEM_OOM=TO_HOST, SIMCUDA_FAIL=f"{name}:{nth}:2")
            unfreed = name == "cuMemUnmap" and done.returncode == 1 and "cudaFree" in done.stderr
            check(done.returncode in (0, 3) or unfreed, f"{label}: {done.returncode} {done.stdout}{done.stderr}")
            seen += done.returncode != 0 or bool(done.stderr)
            if not unfreed:
                check_whole(done, label)
    check(seen > 3, f"the program or the log saw {seen} of the failures: they do not reach it")


def new_group():
    """A control group of its own below this process's, with a limit on its memory; None where that is not allowed."""
    for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            base, limit, swap = pathlib.Path("/sys/fs/cgroup" + path), "memory.max", "memory.swap.max"
        elif "memory" in controllers.split(","):
            base, limit, swap = pathlib.Path("/sys/fs/cgroup/memory" + path), "memory.limit_in_bytes", "memory.swappiness"
        else:
            continue
        group = base / f"gpumem-test-{os.getpid()}"
        try:
            if not (base / "cgroup.procs").exists():
                continue
            group.mkdir()
        except OSError:
            continue
        try:
            if (group / limit).exists():
                (group / limit).write_text(str(900 * MIB))
                if (group / swap).exists():
                    (group / swap).write_text("0")
                return group
        except OSError:
            pass
        group.rmdir()
    return None


def cgroup(place):
    """In a group with too little memory the error is the card's, and nobody is killed."""
    group = new_group()
    if not group:
        print("skipped: no control group with a limit can be made")
        sys.exit(SKIP)
    try:
        command = ["/bin/sh", "-c", f'echo $$ > "{group}/cgroup.procs" && exec "$@"', "sh", place.program("oversubscribe"), "100", "8"]
        done = start(place, command, "auto", SIMCUDA_MEMORY=str(64 * MIB), GPUMEM_OOM=TO_HOST, GPUMEM_LOG="info")
        check(done.returncode == 3 and "out of memory after" in done.stdout, f"{done.returncode} {done.stdout}{done.stderr}")
        there = bytes_of(events_of(done), "host-numa")
        check(0 < there < 400 * MIB, f"{there} bytes of host memory in a group of 900 MiB")
        check("host memory refused" in done.stderr, f"said: {done.stderr}")
    finally:
        for _ in range(50):  # the kernel needs a moment to empty it
            try:
                group.rmdir()
                break
            except OSError:
                time.sleep(0.1)


def blocks_of_words(done, head="out of memory: cu"):
    """The explanations on stderr: the lines of each, without the prefix, by their labels; `head` of the first line."""
    found, before = [], ""
    for line in done.stderr.splitlines():
        check(line.startswith("gpumem: "), f"another line: {line}")
        line = line.removeprefix("gpumem: ")
        if line.startswith(head):
            found.append({"head": line, "held by": []})
        elif line.startswith("    ") and line[4] != " ":  # a row of the card's memory
            name, text = line.split(maxsplit=1)
            found[-1][name] = text
        elif line.startswith("  ") and found:
            label, text = line[2:16].strip(), line[16:]
            before = label or before  # a line without a label goes on with the one before
            if before == "held by":
                found[-1]["held by"].append(text)
            elif label:
                found[-1][label] = text
            else:
                found[-1][before] += " < " + text
    return found


def explained(place):
    """Out of memory: the request, the limit or the card, the holders, the largest block still possible, and what to set."""
    command = [place.program("oversubscribe"), "24", "4"]
    for trace in (True, False):
        for settings, head, free, advice in (
            ({"GPUMEM_LIMIT": "50M"}, " exceeds GPUMEM_LIMIT=50.00 MiB", "16.00 MiB", "a higher GPUMEM_LIMIT, or gpumem run --oom=trim,host,fail"),
            ({"SIMCUDA_MEMORY": str(48 * MIB)}, "", "0 B", "gpumem run --oom=trim,host,fail"),
        ):
            settings = {"SIMCUDA_MEMORY": str(64 * MIB), **settings}
            done = start(place, command, "observe", trace=trace, **settings)
            label = f"{settings}, trace {trace}: {done.stderr}"
            (words,) = blocks_of_words(done)
            check(words["head"] == "out of memory: cuMemAlloc of 4.00 MiB on device 0" + head, label)
            rows = {name: text for name, text in words.items() if name in (*listed.ROWS, "rest")}
            check(rows == {"live": "48.00 MiB in 12 blocks", "free": free}, label)
            check(("limit" in words) == ("GPUMEM_LIMIT" in settings), label)
            check(words.get("limit", "48.00 MiB are in use").endswith("48.00 MiB are in use"), label)
            check(words["card"] == f"{int(settings['SIMCUDA_MEMORY']) // MIB}.00 MiB, when the request failed:", label)
            check(("why" in words) == (not head), label)
            check(words["largest"].startswith("2.00 MiB" if head else "0 B"), label)
            check(words["try"].startswith(advice), label)
            check(len(words["held by"]) == 1 and words["held by"][0].startswith("48.00 MiB in 12 blocks: main (oversubscribe+0x"), label)
            check(words["requested by"].startswith("main (oversubscribe+0x"), label)
    # In a capture neither the driver is asked nor does any step help.
    done = start(place, [place.program("oom_capture"), "100"], "auto", GPUMEM_LIMIT="64M")
    (words,) = blocks_of_words(done)
    check(words["card"].startswith("not known"), f"in a capture: {done.stderr}")


def explained_move(place):
    """Slower memory is named when it is first used, in the closing lines, and in the report."""
    command = [place.program("oversubscribe"), "24", "4"]
    for steps, words, closing in (("host,fail", "host memory, many times slower", "in host memory   32.00 MiB at most, since "),
                                  ("managed,fail", "managed memory, slow where", "of it managed    32.00 MiB at most, since ")):
        done = start(place, command, "auto", GPUMEM_LIMIT="64M", GPUMEM_OOM=steps)
        check(done.returncode == 0, f"{steps}: {done.returncode} {done.stdout}{done.stderr}")
        (line,) = done.stderr.splitlines()
        check(line.startswith("gpumem: device 0 has no room below GPUMEM_LIMIT=64.00 MiB: cuMemAlloc of 4.00 MiB") and words in line
              and f"GPUMEM_OOM={steps}" in line, f"{steps}: {line}")
        report = report_of(place, done)
        if not report:
            continue
        name = "host" if steps == "host,fail" else "managed"
        totals = report["totals"]
        check(totals[f"to_{name}_memory_bytes"] == 32 * MIB and totals[f"to_{name}_memory_ns"] > 0, f"{steps}: {totals}")
        (trace,) = done.folder.glob("trace-*.csv")
        text = subprocess.run([place.options.gpumem, "report", str(trace)], capture_output=True, text=True).stdout
        check(closing.replace("   ", "    ") in text and "; 8 allocations" in text, f"{steps}: {text[:2000]}")
        check(totals[f"peak_in_{name}_memory_bytes"] == 32 * MIB, f"{steps}: {totals}")
        run = [place.options.gpumem, "run", f"--library={place.options.shim}", "--", *command]
        done = place.run(run, GPUMEM_LIMIT="64M", GPUMEM_OOM=steps)
        check(closing in done.stderr and "peak live        " in done.stderr, f"{steps}: {done.stderr}")


def split(place):
    """A block larger than the card: what is free there lies on it, and every count says where the rest is."""
    command = [place.program("oversubscribe"), "1", "700"]
    done = start(place, command, "auto", SIMCUDA_MEMORY=str(640 * MIB), GPUMEM_OOM="trim,split,fail")
    check((done.returncode, done.stdout) == (0, "ok 1 blocks\n"), f"{done.returncode} {done.stdout}{done.stderr}")
    events = events_of(done)
    check_whole(done, "split")
    check_elsewhere(events, "split", 700 * MIB, "split")
    (row,) = [row for row in events if row["kind"] == "split" and row["action"] == "alloc"]
    first = int(row["stream"], 16)  # bytes of its first part, on the card
    rest = 700 * MIB - first
    check(100 * MIB < first <= 128 * MIB and first % (2 * MIB) == 0, f"{first} bytes on the card")
    (line,) = done.stderr.splitlines()
    check(f"cuMemAlloc of 700.00 MiB is split: its first {first / MIB:.2f} MiB are on the card, the rest of {rest / MIB:.2f} MiB is in host"
          in line, f"said: {line}")
    # Beyond GPUMEM_LIMIT nothing is split, and a card without free memory leaves the block to the next step.
    for settings in ({"GPUMEM_LIMIT": "600M"}, {"SIMCUDA_MEMORY": str(512 * MIB)}):
        other = start(place, command, "auto", GPUMEM_OOM="trim,split,host,fail", **settings)
        check(other.returncode == 0 and bytes_of(events_of(other), "host-numa") == 700 * MIB, f"{settings}: {other.stdout}{other.stderr}")
    within = start(place, command, "auto", SIMCUDA_MEMORY=str(640 * MIB), GPUMEM_LIMIT="800M", GPUMEM_OOM="split,fail")
    check(within.returncode == 0 and bytes_of(events_of(within), "split") == 700 * MIB, f"within the limit: {within.stderr}")
    report = report_of(place, done, "--oom", "--kinds")
    if not report:
        return
    totals, part = report["totals"], report["out_of_memory"]
    check(totals["peak_live_bytes"] == totals["peak_reserved_bytes"] == first, f"not {first}: {totals}")
    check(totals["to_host_memory_bytes"] == totals["peak_in_host_memory_bytes"] == rest, f"not {rest}: {totals}")
    check(totals["allocations"] == totals["frees"] == 1 and totals["leaked_bytes"] == 0, f"{totals}")
    check([(step["step"], step["count"], step["bytes"]) for step in part["steps"]] == [("split", 1, 700 * MIB)], f"{part['steps']}")
    (trace,) = done.folder.glob("trace-*.csv")
    text = subprocess.run([place.options.gpumem, "report", str(trace)], capture_output=True, text=True).stdout
    check("in host memory" in text and "of it managed" not in text, f"{text[:2000]}")
    run = [place.options.gpumem, "run", f"--library={place.options.shim}", "--oom=split,fail", "--", *command]
    done = place.run(run, SIMCUDA_MEMORY=str(640 * MIB))
    check(f"in host memory   {rest / MIB:.2f} MiB at most" in done.stderr and f"peak live        {first / MIB:.2f} MiB" in done.stderr,
          f"closing lines: {done.stderr}")


def explained_once(place):
    """A program that probes, from several threads, gets one explanation and one line with the count."""
    for threads, rounds in ((1, 5000), (8, 500)):
        done = start(place, [place.program("refused"), str(threads), str(rounds)], "auto")
        check((done.returncode, done.stdout) == (0, "ok refused\n"), f"{done.returncode} {done.stdout}{done.stderr}")
        check(len(blocks_of_words(done)) == 1, f"said: {done.stderr}")
        last = done.stderr.splitlines()[-1]
        count = threads * rounds
        check(last == f"gpumem: out of memory: {count} in all (card full {count}); the first of each cause is explained above",
              f"last: {last}")
        check(len(done.stderr.splitlines()) < 14, f"said: {done.stderr}")


def explained_without_driver(place):
    """The driver's queries fail, from any call on: the explanation says so, and the program notices nothing."""
    unknown = 0
    for nth in range(1, 9):
        done = start(place, [place.program("refused"), "1", "2"], "auto", SIMCUDA_FAIL=f"cuMemGetInfo_v2:{nth}:999:1000")
        check((done.returncode, done.stdout) == (0, "ok refused\n"), f"{nth}: {done.returncode} {done.stdout}{done.stderr}")
        (words,) = blocks_of_words(done)
        unknown += words["card"].startswith("not known")
        check(("largest" in words) != words["card"].startswith("not known"), f"{nth}: {done.stderr}")
    check(0 < unknown < 8, f"queries failed in {unknown} explanations")


def explained_frees(place):
    """A wrong free names the allocation and the first free; without call sites nothing is said."""
    done = start(place, [place.program("wrong_free")], "auto")
    (double,) = blocks_of_words(done, "cuMemFree of 0x")[:1]
    check("which was freed before: a block of 1.00 MiB" in double["head"], done.stderr)
    for label, function in (("allocated by", "device_alloc"), ("first freed", "by device_free"), ("this free", "by wrong_free")):
        check(double[label].startswith(function), f"{label}: {done.stderr}")
    kinds = [words["head"].split(", ")[1] for words in blocks_of_words(done, "cuMemFree of 0x")]
    check(kinds == ["which was freed before: a block of 1.00 MiB", "which lies 512 bytes inside a live block of 1.00 MiB",
                    "where no block is or was"], f"{kinds}")
    check(done.stderr.endswith("wrong frees: 4 in all (freed twice 2, inside a block 1, no block there 1); the first of each cause is "
                               "explained above\n"), done.stderr)
    done = start(place, [place.program("wrong_free")], "auto", trace=False)
    check(not done.stderr, f"without call sites: {done.stderr}")


CASES = {"limit": limit, "small_card": small_card, "reuse": reuse, "trim": trim, "order": order, "fail": fail, "wrong": wrong, "calls": calls, "host_tier": host_tier,
         "capture": capture, "transport": transport, "failures": failures, "cgroup": cgroup, "explained": explained,
         "explained_move": explained_move, "split": split, "explained_once": explained_once,
         "explained_without_driver": explained_without_driver, "explained_frees": explained_frees}


if __name__ == "__main__":
    sys.exit(run_case(CASES, "--gpumem"))
