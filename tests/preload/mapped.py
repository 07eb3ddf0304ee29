"""Buffers that a program maps itself (mapped.c): its results under every policy, and what of them reaches the driver."""

import itertools
import re

from every_policy import POLICIES, all_rows
from place import check, check_same_output
from traces import check_trace

KEEPING = ("cache", "auto")
ORDERS = ("create_first", "retained", "reserve_first", "released_early", "released_first")
BATCHES = ({"GPUMEM_FENCE_BATCH": "1"},)


def compare(place, arguments, checks_trace=True, settings=(), further=None, policies=POLICIES, warnings=False, **simulated):
    command = [place.program("mapped"), *arguments]
    native = place.run_native(command, **simulated)
    runs = [(policy, {}) for policy in policies] + list(itertools.product(KEEPING, settings))
    for policy, options in runs:
        label = f"mapped {' '.join(arguments)} under {policy} {options}"
        done = place.run_shimmed(command, policy, **simulated, **options)
        check_same_output(native, done, label, warnings)
        if checks_trace:
            events = check_trace(done, "any", 0, label)
            if further:
                further(events, policy, label)


def driver_calls(done, label):
    found = re.search(r"^calls (\d+)$", done.stdout, re.M)
    check(done.returncode == 0 and found, f"{label}:\n{done.stdout}{done.stderr}")
    return int(found.group(1))


def blocks_and_hits(events, policy, label):
    """Each mapping is a block of kind mapped with its bytes; kept memory is written as a hit."""
    rows = [row for row in all_rows(events) if row["action"] == "alloc" and row["call"] == "cuMemMap"]
    hits = sum(row["hit"] == "1" for row in rows)
    check(len(rows) == 120 and {row["kind"] for row in rows} == {"mapped"}, f"{label}: {len(rows)} blocks")
    check(hits >= 108 if policy in KEEPING else hits == 0, f"{label}: {hits} hits")


def few_calls(place, order, **settings):
    """Under a policy that keeps memory, one sequence in ten reaches the driver, whatever its order; else all of them do."""
    command = [place.program("mapped"), "exact", order]
    native = driver_calls(place.run_native(command, MAPPED_CALLS="1", **settings), "natively")
    for policy in ("observe", *KEEPING):
        done = place.run_shimmed(command, policy, trace=False, MAPPED_CALLS="1", **settings)
        calls = driver_calls(done, f"{order} under {policy} {settings}")
        wanted = native // 10 + 120 * (order == "retained") if policy in KEEPING else native
        check(calls <= wanted and (policy in KEEPING or calls == native), f"{order} under {policy} {settings}: {calls} of {native} calls")


def orders(place):
    for order in ORDERS:
        compare(place, ["exact", order], True, (*BATCHES, {"GPUMEM_LIMIT": "13M"}), blocks_and_hits)
        few_calls(place, order)


def peers(place):
    """Memory that a second device may use is kept, too, with the access of both."""
    settings = {"MAPPED_PEERS": "1", "SIMCUDA_DEVICES": "2", "SIMCUDA_PEERS": "all"}
    compare(place, ["exact", "create_first"], True, BATCHES, blocks_and_hits, **settings)
    compare(place, ["deviations"], settings=BATCHES, **settings)
    few_calls(place, "create_first", **settings)


def exportable(place):
    """Handles that can be exported are kept until one is; a buffer of other properties does not decide that."""
    few = {}
    for exports in ({}, {"MAPPED_EXPORTABLE": "1"}):
        command = [place.program("mapped"), "exact", "create_first"]
        for policy in KEEPING:
            done = place.run_shimmed(command, policy, trace=False, MAPPED_CALLS="1", **exports)
            few.setdefault(policy, []).append(driver_calls(done, f"{exports} under {policy}"))
    for policy, (plain, exported) in few.items():
        check(plain <= 40 and exported <= plain + 40, f"under {policy}: {exported} calls of the driver instead of {plain}")
    for arguments in (["deviations"], ["held"], ["random", "1"]):
        compare(place, arguments, settings=BATCHES, MAPPED_EXPORTABLE="1")


def deviations(place):
    compare(place, ["deviations"], settings=BATCHES)
    compare(place, ["held"], settings=BATCHES)


def bound(place):
    """What was bound to a multicast object is not kept, whichever call bound it."""
    for how in range(4):
        command = [place.program("mapped"), "bound", str(how)]
        native = driver_calls(place.run_native(command, MAPPED_CALLS="1"), "natively")
        for policy in KEEPING:
            label = f"bound {how} under {policy}"
            calls = driver_calls(place.run_shimmed(command, policy, trace=False, MAPPED_CALLS="1"), label)
            check(calls == native, f"{label}: {calls} of {native} calls")


def random_calls(place, seeds=(1, 2)):
    for seed in seeds:
        compare(place, ["random", str(seed)], settings=BATCHES)


def failures(place):
    """The N-th call of one function fails: nothing is lost, nothing hangs."""
    functions = ("cuMemCreate", "cuMemAddressReserve", "cuMemMap", "cuMemSetAccess", "cuMemUnmap", "cuMemRelease", "cuMemAddressFree",
                 "cuCtxRecordEvent", "cuEventQuery", "cuEventCreate")
    command = [place.program("mapped"), "faults"]
    for policy, function, n, batch in itertools.product(KEEPING, functions, (1, 2, 3, 8, 21), ({}, *BATCHES)):
        label = f"call {n} of {function} fails under {policy} {batch}"
        done = place.run_shimmed(command, policy, trace=False, SIMCUDA_FAIL=f"{function}:{n}", **batch)
        check(done.returncode == 0 and done.stdout == "ok mapped\n", f"{label}: {done.returncode}\n{done.stdout}{done.stderr}")


MAPPED = {
    "mapped_orders": orders,
    "mapped_deviations": deviations,
    "mapped_bound": bound,
    "mapped_exportable": exportable,
    "mapped_peers": peers,
    "mapped_random": random_calls,
    "mapped_random_more": lambda place: random_calls(place, range(3, 9)),
    "mapped_threads": lambda place: compare(place, ["threads"], settings=BATCHES),
    "mapped_pending": lambda place: compare(place, ["pending"], settings=BATCHES, policies=KEEPING, SIMCUDA_STREAMS="manual"),
    "mapped_memory": lambda place: compare(place, ["memory"], warnings=True),
    "mapped_failures": failures,
}
