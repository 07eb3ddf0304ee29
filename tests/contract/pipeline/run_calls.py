#!/usr/bin/env python3
"""Checks, end to end, which memory serves each call under each policy, and which promises the memory keeps.

usage: run_calls.py --programs DIR --preload DIR --cuda DIR --shim FILE --work DIR table|drivers|patterns
"""

import argparse
import pathlib
import sys

PARSER = argparse.ArgumentParser()
PARSER.add_argument("--programs", type=pathlib.Path, required=True)
PARSER.add_argument("--preload", required=True)
PARSER.add_argument("--cuda", default="")
PARSER.add_argument("--shim", type=pathlib.Path, required=True)
PARSER.add_argument("--work", type=pathlib.Path, required=True)
PARSER.add_argument("case", choices=("table", "drivers", "patterns"))
OPTIONS = PARSER.parse_args()
sys.path.insert(0, OPTIONS.preload)

from every_policy import POLICIES  # noqa: E402
from place import Failure, Place, check  # noqa: E402
from traces import number, read_trace  # noqa: E402

# The kind that "managed" stands for, by GPUMEM_MANAGED; M in the table.
MANAGED = {"plain": "managed", "pool": "managed-pool", "auto": "managed-pool"}

#                    observe   cache     async     managed   active-list auto
TABLE = {
    "small":           ("native", "cache",  "async",  "M",       "M",        "cache"),
    "lasting":         ("native", "cache",  "async",  "M",       "M",        "cache"),
    "transient":       ("native", "cache",  "async",  "M",       "async",    "cache"),
    "pitch":           ("native", "cache",  "async",  "M",       "M",        "cache"),
    "async":           ("native", "native", "native", "M",       "M",        "native"),
    "async_transient": ("native", "native", "native", "M",       "native",   "native"),
    "async_captured":  ("native", "native", "native", "native",  "native",   "native"),
    "from_pool":       ("pool",) * 6,
    "from_set_pool":   ("pool",) * 6,
    "from_placed_pool": ("pool",) * 6,
    "async_default_pool": ("native", "native", "native", "M",     "M",        "native"),
    "async_pool_gone": ("native", "native", "native", "M",       "M",        "native"),
    "user_managed":    ("managed",) * 6,
    "host":            ("host",) * 6,
    "registered":      ("host",) * 6,
    "array":           ("array",) * 6,
    "vmm":             ("vmm",) * 6,
}  # fmt: skip
assert POLICIES == ("observe", "cache", "async", "managed", "active-list", "auto")

PLAIN = ("small", "lasting", "transient", "pitch")  # calls that promise IPC, peer access and RDMA
IPC, PEER, RDMA = 1 << 8, 1 << 9, 1 << 10
DROPPED = {"native": 0, "cache": 0, "async": IPC | RDMA, "managed": IPC | RDMA, "managed-pool": IPC | RDMA}
IS_MANAGED = {"native": 0, "cache": 0, "async": 0, "pool": 0, "managed": 1, "managed-pool": 1}


def parse_output(text):
    """Returns the printed facts by label, and the driver's own IPC answers by kind."""
    blocks, references = {}, {}
    for line in text.splitlines():
        words = line.split()
        facts = {name: int(value) for name, value in (word.split("=") for word in words if "=" in word)}
        if words[0] == "reference":
            references[words[1]] = facts["ipc"]
        elif words[0] in TABLE:
            blocks[words[0]] = (number(words[1]), int(words[2]), facts)
    return blocks, references


def allocation_of(rows, address, size, label):
    """The allocation event of a block. Its address may have served other sizes before and after. Requests for pitched memory have no padding."""
    found = [
        row
        for row in rows
        if row["action"] == "alloc"
        and number(row["address"]) == address
        and (int(row["bytes"]) == size or row["call"] == "cuMemAllocPitch")
    ]
    check(found, f"{label}: no allocation at {address:#x} in the trace")
    return found[-1]


def expected_kinds(label, policy, managed):
    kind = TABLE[label][POLICIES.index(policy)]
    return {managed} if kind == "M" else {kind}


def check_block(label, printed, rows, kinds, references, policy, what):
    address, size, facts = printed
    row = allocation_of(rows, address, size, what)
    kind = row["kind"]
    check(kind in kinds, f"{what}: served by {kind}, the table says {sorted(kinds)} (reason {row['reason']})")
    if not facts:
        return
    check(facts["managed"] == IS_MANAGED[kind], f"{what}: {kind} memory says managed={facts['managed']}")
    check(facts["device"] == 0 and facts["type"] == 2, f"{what}: {facts}")
    native_answer = 0 if kind in ("native", "cache") and label in PLAIN else references["managed" if IS_MANAGED[kind] else "async"]
    check(facts["ipc"] == native_answer, f"{what}: cuIpcGetMemHandle answers {facts['ipc']}, the driver's own is {native_answer}")
    export = [
        other for other in rows if other["call"] == "cuIpcGetMemHandle" and number(other["address"]) == address
    ]
    check([int(other["result"]) for other in export][-1:] == [facts["ipc"]], f"{what}: the export is not in the trace: {export}")
    drops = [
        other
        for other in rows
        if other["action"] == "drop" and number(other["address"]) == address and int(other["seq"]) > int(row["seq"])
    ]
    wanted = DROPPED[kind] if label in PLAIN else 0
    got = int(drops[0]["bytes"]) if drops else 0
    check(len(drops) <= 1 and got == wanted, f"{what}: {kind} memory drops {got:#x} in {len(drops)} events, not {wanted:#x}")


def one(place, policy, settings, managed, loose=False):
    label = f"{policy} {settings}"
    done = place.run_shimmed([place.program("calls")], policy, **settings)
    check(done.returncode == 0 and "\nok calls" in done.stdout, f"{label}: {done.returncode}\n{done.stdout}{done.stderr}")
    check(not done.stderr, f"{label}: on stderr:\n{done.stderr}")
    blocks, references = parse_output(done.stdout)
    check(set(blocks) | ({"from_placed_pool"} if loose else set()) == set(TABLE) and set(references) == {"async", "managed"}, f"{label}:\n{done.stdout}")
    check(references["managed"] != 0 and references["async"] != 0, f"{label}: this driver exports everything: {references}")
    (rows,) = read_trace(done.folder).values()
    for name, printed in blocks.items():
        kinds = expected_kinds(name, policy, managed)
        if loose:  # an older driver: the managed pool falls back to plain managed memory, async memory to native
            kinds |= {"managed-pool": {"managed"}, "async": {"native"}}.get(next(iter(kinds)), set())
        check_block(name, printed, rows, kinds, references, policy, f"{label}: {name}")
    allocs = sum(row["action"] == "alloc" for row in rows)
    frees = sum(row["action"] == "free" for row in rows)
    check(allocs == frees, f"{label}: {allocs} allocations, {frees} frees")


def table(place):
    for policy in POLICIES:
        for choice, managed in MANAGED.items():
            if choice == "auto" or policy in ("managed", "active-list"):
                one(place, policy, {} if choice == "auto" else {"GPUMEM_MANAGED": choice}, managed)


def drivers(place):
    """Drivers that lack features of newer ones."""
    for settings in ({"SIMCUDA_HIDE": "cuCtxRecordEvent"}, {"SIMCUDA_VERSION": "12000"}, {"SIMCUDA_VERSION": "11080"}):
        for policy in POLICIES:
            one(place, policy, settings, "managed-pool", loose=True)


def patterns(place):
    """Streams that run in random order, with old drivers as well."""
    command = [place.program("patterns")]
    for policy in POLICIES:
        for seed in (1, 2, 3, 77):
            for settings in ({}, {"SIMCUDA_HIDE": "cuCtxRecordEvent"}) if seed == 1 else ({},):
                done = place.run_shimmed(command, policy, SIMCUDA_STREAMS=f"random:{seed}", **settings)
                check(
                    done.returncode == 0 and done.stdout.startswith("ok patterns"),
                    f"{policy}, seed {seed} {settings}: {done.returncode}\n{done.stdout}{done.stderr}",
                )


def main():
    try:
        {"table": table, "drivers": drivers, "patterns": patterns}[OPTIONS.case](Place(OPTIONS))
    except Failure as failure:
        print(f"FAILED {OPTIONS.case}: {failure}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
