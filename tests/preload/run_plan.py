#!/usr/bin/env python3
"""Trace an unmodified program, plan from the trace, run it again by the plan.

usage: run_plan.py GPUMEM SHIM PROGRAMS CUDA WORK CASE
"""

import collections
import csv
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

GPUMEM, SHIM, PROGRAMS, CUDA, WORK = (pathlib.Path(word).resolve() for word in sys.argv[1:6])
N = "200ms"  # what plan_order keeps lives 400 ms, the rest is freed at once


def check(condition, message):
    if not condition:
        sys.exit(str(message))


def run(command, policy, **more):
    """Standard output, standard error, the trace and its events."""
    trace = WORK / f"t{len(list(WORK.glob('t*.csv')))}.csv"
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("GPUMEM_", "SIMCUDA_"))}
    environment.update(LD_LIBRARY_PATH=str(CUDA), LD_PRELOAD=str(SHIM), GPUMEM_POLICY=policy, GPUMEM_TRACE=str(trace),
                       GPUMEM_LOG="info", **more)
    done = subprocess.run([PROGRAMS / command[0], *command[1:]], env=environment, capture_output=True, text=True, timeout=90)
    check(done.returncode == 0 and "ok " in done.stdout, f"{command} under {policy}: {done.returncode}\n{done.stdout}{done.stderr}")
    with trace.open(newline="") as file:
        rows = list(csv.DictReader(line for line in file if not line.startswith("#")))
    return done.stdout, done.stderr, trace, rows


def gpumem(*words):
    done = subprocess.run([GPUMEM, *map(str, words)], capture_output=True, text=True, timeout=90)
    check(done.returncode == 0, f"gpumem {words}: {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def allocations(rows):
    return [row for row in rows if row["action"] == "alloc" and row["call"] == "cuMemAlloc"]


def profile(command, *flags, name="plan"):
    """A plan of the program's run under observe; returns what it printed."""
    output, _, trace, _ = run(command, "observe")
    gpumem("plan", "--lifetime", N, "--output", WORK / name, *flags, trace)
    return output


def matched(errors):
    line = re.search(r"plan: matched by order (\d+), by call site (\d+), not in the plan (\d+); objects in the plan (\d+)", errors)
    check(line, errors)
    return tuple(map(int, line.groups()))


def kinds_by_life(rows):
    """Kinds of memory of what goes at once, and of what stays: the two lasting blocks are freed last."""
    last = {row["address"] for row in [row for row in rows if row["action"] == "free"][-2:]}
    kinds = collections.defaultdict(set)
    taken = {}
    for row in rows:
        if row["action"] == "alloc":
            taken[row["address"]] = row
    lasting = [taken[address]["seq"] for address in last]
    for row in allocations(rows):
        kinds["lasting" if row["seq"] in lasting else "transient"].add(row["kind"])
    return kinds


def check_kinds(rows):
    kinds = kinds_by_life(rows)
    check(kinds["transient"] == {"async"} and kinds["lasting"] <= {"managed", "managed-pool"} and kinds["lasting"], dict(kinds))


def same_order():
    output = profile(["plan_order", "ab"])
    again, errors, trace, rows = run(["plan_order", "ab"], f"plan:{WORK}/plan")
    check(again == output, again)
    check(matched(errors) == (42, 0, 0, 42), errors)
    check({row["reason"] for row in allocations(rows)} == {"plan"}, collections.Counter(row["reason"] for row in allocations(rows)))
    check_kinds(rows)
    report = gpumem("report", trace)
    decided = re.findall(r"^  ([\w-]+) +(\d+) .* plan: ", report, re.M)
    check([int(count) for _, count in decided] == [40, 2] and decided[0][0] == "async", report)


def other_order():
    """The threads come in the other order: sites and sizes still say which object is meant."""
    profile(["plan_order", "ab"])
    _, errors, _, rows = run(["plan_order", "ba"], f"plan:{WORK}/plan")
    order, site, missing, objects = matched(errors)
    check(order + site == 42 and site >= 40 and missing == 0 and objects == 42, errors)
    check_kinds(rows)


def threads():
    """Eight threads at once: whoever comes first, each request is known."""
    profile(["threads"])
    for _ in range(3):
        _, errors, _, _ = run(["threads"], f"plan:{WORK}/plan")
        order, site, missing, _ = matched(errors)
        check((order + site, missing) == (96, 0), errors)


def more_than_planned():
    """Objects beyond the plan go to the active list."""
    profile(["plan_order", "a"])
    _, errors, _, rows = run(["plan_order", "ab"], f"plan:{WORK}/plan")
    order, site, missing, objects = matched(errors)
    check(objects == 21 and missing == 21 and order + site == 21, errors)
    reasons = collections.Counter(row["reason"].split("-")[0] for row in allocations(rows))
    check(reasons["list"] == 21 and reasons["plan"] == 21, reasons)


def bare():
    """The paper's list of 0 and 1, by order alone."""
    profile(["plan_order", "ab"])
    bits = [line.split()[1] == "async" for line in (WORK / "plan").read_text().splitlines() if line[:1].isdigit()]
    (WORK / "bits").write_text("\n".join(str(int(bit)) for bit in bits) + "\n")
    _, errors, _, rows = run(["plan_order", "ab"], f"plan:{WORK}/bits")
    check(matched(errors) == (42, 0, 0, 42), errors)
    check_kinds(rows)


def distilled():
    """Rules that gpumem plan writes decide as the plan does, where sites and sizes can."""
    text = gpumem("help", "plan")
    check("--as-rules" in text, text)
    profile(["plan_order", "ab"], "--as-rules", name="rules")
    rules = [line for line in (WORK / "rules").read_text().splitlines() if not line.startswith("#")]
    check(rules[-1] == "*->async" and 2 <= len(rules) <= 4, rules)
    _, errors, _, rows = run(["plan_order", "ba"], f"static:@{WORK}/rules")
    check({row["reason"] for row in allocations(rows)} == {"rule"}, collections.Counter(row["reason"] for row in allocations(rows)))
    check_kinds(rows)


def rules():
    """Rules given inline; advice about managed memory is no hindrance, and ends with its block."""
    text = "size=20000->managed,read-mostly,preferred-location=device,accessed-by=device,prefetch;thread=1->async;nth=22->native;*->cache"
    for managed in ("plain", "pool"):
        _, _, _, rows = run(["plan_order", "ab"], f"static:{text}", GPUMEM_MANAGED=managed)
        for place, row in enumerate(allocations(rows)):
            wanted = {"managed", "managed-pool"} if row["bytes"] == "20000" else {"async"} if place < 21 else {"native"}
            check(row["kind"] in wanted and row["reason"] == "rule", (place, row))


def wrong():
    """A plan or rules that make no sense are said once, and the program runs on under the default policy."""
    (WORK / "none").write_text("gpumem-plan 1\n1 async\n2 fast\n")
    (WORK / "rules").write_text("*->async\n*->fast\n")
    accepted = "native, cache, async, managed, managed-pool or guard"
    cases = {
        f"plan:{WORK}/none": f"{WORK}/none line 3: a decision is {accepted}",
        f"plan:{WORK}/missing": f"{WORK}/missing: no such file or directory",
        f"plan:{WORK}": f"{WORK}: ",
        "plan:/dev/null": "/dev/null: ",
        "plan:/dev/tty": "/dev/tty: ",
        "plan": "needs a plan file: plan:FILE",
        f"static:@{WORK}/rules": f'{WORK}/rules line 2: wrong memory "fast"',
        "static:size>>1->async": 'rule 1: wrong value ">1"',
        "static:": "needs rules",
    }
    for policy, said in cases.items():
        _, errors, _, rows = run(["plan_order", "a"], policy)
        lines = [line for line in errors.splitlines() if said in line]
        check(len(lines) == 1 and "GPUMEM_POLICY" in lines[0], f"{policy}: {errors}")
        check(len(allocations(rows)) == 21, len(rows))


def of_run(rows):
    """What a run came to on the device, by its trace: allocations and hits by kind, failed ones, peak of live bytes."""
    kinds, live, total, peak, failed = {}, {}, 0, 0, 0
    for row in sorted(rows, key=lambda row: int(row["seq"])):
        size = int(row["bytes"])
        if row["kind"] == "host":
            continue
        if row["action"] == "alloc":
            kind = kinds.setdefault(row["kind"], [0, 0])
            kind[0] += 1
            kind[1] += int(row["hit"])
            live[row["address"]] = size
            total += size
            peak = max(peak, total)
        elif row["action"] in ("free", "release") and row["address"] in live:
            total -= live.pop(row["address"])
        failed += row["action"] == "alloc_fail"
    return kinds, failed, peak


def of_replay(trace, policy, **environment):
    done = subprocess.run([GPUMEM, "replay", "--json", "--policy", policy, trace], capture_output=True, text=True, timeout=90,
                          env={**os.environ, **environment})
    check(done.returncode == 0, done.stderr)
    one = json.loads(done.stdout)["policies"][0]
    check(one["policy"] == policy and one["fits"] == (one["failed"] == 0), one)
    return ({kind: [counts["allocations"], counts["hits"]] for kind, counts in one["by_kind"].items()}, one["failed"],
            one["peak_live_bytes"])


def replay():
    """What gpumem replay says of a trace made under observe is what the run under that policy comes to."""
    if "json" not in gpumem("help", "replay") or "built with jansson" in subprocess.run(
            [GPUMEM, "replay", "--json", "x"], capture_output=True, text=True, timeout=90).stderr:
        sys.exit(77)
    programs = (["plan_order", "ab"], ["runtime_basic"], ["two_sites"], ["driver_linked"], ["async"], ["leaks"], ["pitch"],
                ["context_reset", "alone"])
    for command in programs:
        trace = run(command, "observe")[2]
        gpumem("plan", "--lifetime", N, "--force", "--output", WORK / "plan", trace)
        policies = ["observe", "cache", "async", "managed", "active-list", "auto", f"plan:{WORK}/plan",
                    "static:size>=16K->managed;thread=1->cache;*->async"]
        for policy in policies:
            settings = {"cache": [{"GPUMEM_FENCE_BATCH": "2"}], "managed": [{"GPUMEM_MANAGED": "plain"}],
                        "auto": [{"GPUMEM_LIST_LENGTH": "4", "GPUMEM_LIST_RANGE": "2", "GPUMEM_FENCE_BATCH": "1"}]}
            for more in [{}] + settings.get(policy, []):
                rows = run(command, policy, **more)[3]
                ran, replayed = of_run(rows), of_replay(trace, policy, **more)
                check(ran == replayed, f"{command} under {policy} {more}: ran {ran}, replayed {replayed}")


def replay_limit():
    """A card too small for the program: replay says so beforehand, and of what fits that it fits."""
    trace = run(["oversubscribe", "10", "64"], "observe")[2]
    _, _, peak = of_run(list(csv.DictReader(line for line in trace.read_text().splitlines() if not line.startswith("#"))))
    for limit, fits in ((peak, True), (peak - 4096, False)):
        text = gpumem("replay", "--policy", "observe", "--limit", limit, trace)
        check(("does not fit" not in text) == fits, text)


CASES = {case.__name__: case for case in (same_order, other_order, threads, more_than_planned, bare, distilled, rules, wrong, replay,
                                          replay_limit)}

if __name__ == "__main__":
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True)
    CASES[sys.argv[6]]()
