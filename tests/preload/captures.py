"""Stream captures: they survive under every policy, what is freed in them waits, and those that nobody ends are over."""

import itertools
import sys

from every_policy import POLICIES, all_rows, plain
from place import SKIP, check, check_same_output, is_simulated
from traces import brief, check_life, check_trace, number, read_trace


def lost_capture(place):
    """Captures that nobody can end any more are over: blocks are reused, nothing is out of memory, the trace says when."""

    def further(events, label):
        rows = all_rows(events)
        begins, ends = (sum(row["action"] == action for row in rows) for action in ("capture_begin", "capture_end"))
        check(begins == ends, f"{label}: {begins} captures, {ends} ended")
        hits = sum(row["hit"] == "1" for row in rows if row["action"] == "alloc")
        check(hits >= 150 or not is_simulated(place), f"{label}: {hits} hits")

    card = {"SIMCUDA_MEMORY": str(1 << 30), "GPUMEM_CACHE_LIMIT": "1G", "GPUMEM_MANAGED_HEADROOM": "64M",
            "GPUMEM_OOM": "trim,fail"}
    for how in ("stream", "reset", "context", "thread", "leaked"):
        program = dict(arguments=lambda place: [how], settings=({"GPUMEM_OOM": "trim,fail"}, card))
        if how == "leaked":
            plain("lost_capture", policies=("observe", "cache", "auto"), **program)(place)
            continue
        plain("lost_capture", policies=("observe", "async", "managed"), **program)(place)
        plain("lost_capture", policies=("cache", "auto"), further=further, **program)(place)


def capture_memory(place):
    """What natively finds memory while a stream captures finds what is kept, and the capture survives."""
    size = 1024
    if not is_simulated(place):
        print("skipped: takes a whole card")
        sys.exit(SKIP)
    card = {"SIMCUDA_MEMORY": str((size + 16) << 20), "GPUMEM_CACHE_LIMIT": "2G", "GPUMEM_MANAGED_HEADROOM": "1M",
            "GPUMEM_OOM": "trim,fail"}
    # What is freed during the capture goes back to a pool only after it.
    for arguments, policies in (([], POLICIES), (["early"], ("observe", "cache", "managed", "auto"))):
        card["GPUMEM_MANAGED"] = "plain" if arguments else "pool"
        command = [place.program("capture_memory"), str(size), *arguments]
        native = place.run_native(command, SIMCUDA_MEMORY=card["SIMCUDA_MEMORY"])
        for policy, batch in itertools.product(policies, ("1", "16")):
            label = f"capture_memory {arguments} under {policy}, a fence for {batch} frees"
            done = place.run_shimmed(command, policy, GPUMEM_FENCE_BATCH=batch, **card)
            # Managed memory beyond what is free is refused, said to be, and native then.
            check_same_output(native, done, label, warnings=policy in ("managed", "active-list"))
            if policy not in ("managed", "active-list"):
                check_trace(done, policy, 0, label)


def check_quarantine(events, label):
    """What was freed while a capture was open, by a free that did not wait, is not handed out again before its end, which the trace has
    first."""
    inside = 0
    for rows in events.values():
        freed, captures, hits = set(), 0, []
        for row in rows:
            address = number(row["address"])
            if row["action"] == "capture_begin":
                captures += 1
            elif row["action"] == "capture_end":
                captures -= 1
                if captures == 0:
                    check(not hits, f"{label}: freed and taken again inside a capture: {[brief(hit) for hit in hits[:4]]}")
                    freed, hits = set(), []
            elif captures and row["action"] == "free":
                freed.add(address)
                inside += 1
            elif captures and row["action"] == "alloc":
                if address in freed and row["hit"] == "1":
                    hits.append(row)
                freed.discard(address)
    check(inside > 0, f"{label}: nothing was freed while a capture was open")


def capture_modes(interface):
    """A capture that survives natively survives under every policy, and no call is refused that was not natively."""

    def case(place):
        command = [place.program("capture_modes"), interface]
        native = place.run_native(command)
        wanted = native.stdout.splitlines()
        for policy, batch in itertools.product(POLICIES, ("1", "16")):
            label = f"capture_modes {interface} under {policy}, a fence for {batch} frees"
            free = {"GPUMEM_FREE": "async"} if batch == "16" else {}
            done = place.run_shimmed(command, policy, GPUMEM_FENCE_BATCH=batch, **free)
            found = done.stdout.splitlines()
            check(done.returncode == 0 and len(found) == len(wanted), f"{label}: {done.returncode}\n{done.stdout}{done.stderr}")
            for before, now in zip(wanted, found):
                worse = [word for good, word in (("survived", "invalidated"), ("accepted", "refused"))
                         if good in before.split() and word in now.split()]
                check(not worse, f"{label}: {now}; natively: {before}\n{done.stderr}")
            events = read_trace(done.folder)
            check(events, f"{label}: no trace")
            for rows in events.values():
                check(not check_life(rows, label), f"{label}: blocks are left")
            if free:
                check_quarantine(events, label)

    return case
