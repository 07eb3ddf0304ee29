#!/usr/bin/env python3
"""Run one small unmodified program natively and under the shim, and compare.

usage: run_preload.py --programs DIR --cuda DIR --shim FILE --work DIR CASE

The program writes a record of its memory calls (program.h); the shim writes its trace. Under every policy the
program's output and exit status are those of the native run, each of its calls is exactly one event, frees
match allocations, and what stays behind is what the program left behind. --cuda: the folders of libcuda.so.1
and libcudart.so.13, as in LD_LIBRARY_PATH; on a machine with a GPU those of its driver and toolkit. Ends with
77 where that CUDA does not support the case.
"""

import collections
import itertools
import sys

import ordering
import relies
from beside import address_sanitizer, all_or_nothing, behind_and_before, only_shim, two_copies
from captures import capture_memory, capture_modes, lost_capture
from every_policy import POLICIES, all_rows, plain
from frees import LATE, OLD_DRIVER, free_async, free_memory, free_sync, known_streams, late_card, late_error
from frees import self_waiting, starved, starved_launch
from mapped import MAPPED
from place import SKIP, check, check_same_output, is_simulated, run_case
from suspended import SUSPEND
from traces import brief, check_trace, number, read_trace


def managed_memory(place):
    """All policies; then every way to managed memory, old drivers among them, by the kinds that serve cuMemAlloc."""
    arguments = ["alone"] if is_simulated(place) else []
    plain("advice", arguments=lambda place: arguments)(place)
    command = [place.program("advice"), *arguments]
    native = place.run_native(command)
    ways = [({}, "managed-pool"), ({"GPUMEM_MANAGED": "plain"}, "managed")]
    if is_simulated(place):
        ways += [({"SIMCUDA_VERSION": "12080"}, "managed")]
        ways += [({"SIMCUDA_HIDE": name}, "managed") for name in ("cuMemPoolCreate", "cuMemAllocFromPoolAsync")]
        ways += [({"SIMCUDA_HIDE": name}, "managed-pool") for name in ("cuCtxRecordEvent", "cuMemGetAddressRange")]
    for settings, kind in ways:
        for prefetch in ("0", "1"):
            label = f"advice, prefetch {prefetch}, {settings}"
            done = place.run_shimmed(command, "managed", GPUMEM_MANAGED_PREFETCH=prefetch, **settings)
            check_same_output(native, done, label)
            events = check_trace(done, "managed", 0, label)
            kinds = {row["kind"] for row in all_rows(events) if row["action"] == "alloc" and row["call"] == "cuMemAlloc"}
            allowed = {kind} if is_simulated(place) else {kind, "managed"}
            check(kinds <= allowed and kinds, f"{label}: cuMemAlloc served by {sorted(kinds)}")


def two_devices(place):
    """Copies between devices have the codes and bytes that they have natively, whoever serves a block: pools and mappings where the
    devices reach each other, else plain memory, which is said once."""
    command = [place.program("two_devices")]
    simulated = is_simulated(place)
    runs = [(policy, {}) for policy in POLICIES]
    runs += [("cache", {"GPUMEM_FILL": "poison"})]
    runs += list(itertools.product(("async", "active-list"), ({"GPUMEM_GROW": "vmm"}, {"GPUMEM_LIMIT": "100K", "GPUMEM_OOM": "host"})))
    for peers in ("all", "none") if simulated else ("",):
        card = {"SIMCUDA_DEVICES": "2", "SIMCUDA_PEERS": peers} if simulated else {}
        native = place.run_native(command, **card)
        reach = "reach: 1\n" in native.stdout
        for policy, options in runs:
            label = f"two_devices, peers {peers}, under {policy} {options}"
            done = place.run_shimmed(command, policy, GPUMEM_GROW_MATCH="size>=200K", **card, **options)
            check_same_output(native, done, label, warnings=not reach or "GPUMEM_LIMIT" in options)
            events = check_trace(done, "any", 0, label)
            opened = {"async", "managed-pool", "vmm"} & {row["kind"] for row in all_rows(events) if row["action"] == "alloc"}
            wants = (policy in ("async", "managed", "active-list") and "GPUMEM_LIMIT" not in options) or "GPUMEM_GROW" in options
            check(not simulated or bool(opened) == (reach and wants), f"{label}: served by {sorted(opened)}")
            said = done.stderr.count("cannot access memory of device")
            check(said == (not reach and wants), f"{label}: said {said} times\n{done.stderr}")


def further_threads(events, label):
    threads = {row["thread"] for row in all_rows(events) if row["action"] == "alloc"}
    check(len(threads) == 8, f"{label}: {len(threads)} threads allocate, not 8")


def further_pitch(events, label):
    """No cache keeps a padded block: its size and its pitch are the device's choice."""
    call, kept = {}, 4
    for row in all_rows(events):
        if row["action"] == "alloc":
            call[row["address"]] = row["call"]
        elif row["action"] == "free" and call[row["address"]] == "cuMemAllocPitch":
            check(not int(row["flags"]) & kept, f"{label}: {row} is kept")


def further_two_processes(events, label):
    check(len(events) == 2, f"{label}: {len(events)} traces, not 2")


def patched(by):
    """A patcher reaches all calls of the driver's functions, however their callers found them."""

    def run(place):
        for policy in ("observe", "cache"):
            done = place.run_shimmed([place.program("patched"), by], policy, trace=False)
            if done.returncode == SKIP:
                print(f"skipped: {done.stderr.strip()}")
                sys.exit(SKIP)
            check((done.returncode, done.stdout) == (0, "ok patched\n"), f"{done.returncode} {done.stdout}{done.stderr}")

    return run


def further_kept(events, label):
    """Under a policy that keeps memory most of the loop's blocks are kept ones; hits are written as such."""
    hits = sum(row["hit"] == "1" for row in all_rows(events) if row["action"] == "alloc")
    wanted = 0 if "observe" in label else 100
    check(hits >= wanted and (wanted or not hits), f"{label}: {hits} hits")
    check(
        all(row["kind"] == "cache" for row in all_rows(events) if row["hit"] == "1"),
        f"{label}: hits of other kinds",
    )


def further_ipc_kept(events, label):
    """A block that was exported is freed natively: its address comes again only as fresh memory. With a fence for each free some of
    the exported ones were kept blocks before, so that this way is really gone."""
    kept_and_exported = 0
    for rows in events.values():
        latest, exported = {}, set()
        for row in rows:
            address = number(row["address"])
            if row["action"] == "export":
                exported.add(address)
                kept_and_exported += latest.get(address) == "1"
            elif row["action"] == "alloc" and row["call"] == "cuMemAlloc":
                check(
                    not (row["hit"] == "1" and address in exported), f"{label}: an exported block was kept: {brief(row)}"
                )
                exported.discard(address)
                latest[address] = row["hit"]
    if "observe" not in label and "GPUMEM_FENCE_BATCH=1" in label:
        check(kept_and_exported > 0, f"{label}: no kept block was exported")


def further_ipc_kept_both(events, label):
    further_two_processes(events, label)
    further_ipc_kept(events, label)


def further_two_sites(events, label):
    sites = collections.defaultdict(set)
    for row in all_rows(events):
        if row["action"] == "alloc":
            sites[row["bytes"]].add(row["site"])
    check(
        all(len(found) == 1 for found in sites.values()),
        f"{label}: a place shows as several sites: {dict(sites)}",
    )
    check(
        len(set().union(*sites.values())) == len(sites) == 2,
        f"{label}: two places share a site: {dict(sites)}",
    )


def further_leak_sites(events, label):
    freed = {row["address"] for row in all_rows(events) if row["action"] == "free"}
    left = {
        (row["bytes"], row["site"])
        for row in all_rows(events)
        if row["action"] == "alloc" and row["address"] not in freed
    }
    check(
        {size for size, _ in left} >= {"3000", "70000"} and len({site for _, site in left}) == 2,
        f"{label}: the leaks come from two functions, not {sorted(left)}",
    )


def further_marks(events, label):
    marks = [row for row in all_rows(events) if row["action"] == "mark"]
    check(len(marks) == 2, f"{label}: {len(marks)} marks, not 2")
    first, second = (int(mark["seq"]) for mark in marks)
    between = [row for row in all_rows(events) if row["action"] == "alloc" and first < int(row["seq"]) < second]
    check(len(between) == 40, f"{label}: {len(between)} allocations between the marks, not 40")


def peer_reset(place):
    """The end of a peer's context turns nothing off for the device that it could reach: most blocks are kept ones again."""
    sim = {"SIMCUDA_DEVICES": "2"}
    for how in ("reset", "release", "destroy", "held"):
        command = [place.program("peer_reset"), how]
        native = place.run_native(command, **sim)
        for policy, batch in [*itertools.product(POLICIES, ("16",)), ("cache", "1"), ("auto", "1")]:
            label = f"peer_reset {how} under {policy}, a fence for {batch} frees"
            done = place.run_shimmed(command, policy, GPUMEM_FENCE_BATCH=batch, **sim)
            check_same_output(native, done, label)
            rows = [row for row in all_rows(check_trace(done, policy, 0, label)) if row["action"] == "alloc"]
            hits = sum(row["hit"] == "1" for row in rows[-100:])
            check(hits >= 80 or policy not in ("cache", "auto"), f"{label}: {hits} hits")


def context_handles(place):
    """A new context with the handle of a destroyed one is a context of its own, whichever hook ends first."""
    for how in ("created", "green", "primary", "retained"):
        command = [place.program("context_handles"), how]
        native = place.run_native(command)
        for policy in POLICIES:
            label = f"context_handles {how} under {policy}"
            done = place.run_shimmed(command, policy)
            check_same_output(native, done, label)
            rows = all_rows(check_trace(done, policy, 0, label))
            ended = [row["context"] for row in rows if row["action"] == "context_destroyed"]
            check(how != "created" or len(ended) == len(set(ended)) == 3, f"{label}: contexts {ended} ended")
    command = [place.program("context_handles"), "created", "kept"]
    settings = {**OLD_DRIVER, "GPUMEM_FREE": "async", "GPUMEM_FENCE_BATCH": "1"}
    done = place.run_shimmed(command, "cache", trace=False, **settings)
    check_same_output(place.run_native(command[:2]), done, "context_handles created kept on an old driver")
    command = [place.program("context_handles"), "threads", "10"]
    native = place.run_native(command, SIMCUDA_STRICT="1")
    for policy in ("cache", "auto", "async"):
        done = place.run_shimmed(command, policy, trace=False, SIMCUDA_STRICT="1")
        check_same_output(native, done, f"context_handles threads under {policy}")


def peer_copies(place):
    """A free waits for copies that a stream of another device makes, and its memory has no new owner before."""
    sim = {"SIMCUDA_DEVICES": "2", "SIMCUDA_STREAMS": "manual"}
    frees = ({}, {"GPUMEM_FREE": "wait"}, {"GPUMEM_FREE": "order"}, {"GPUMEM_FREE": "async", "PEER_COPIES_LATE": "1"})
    command = [place.program("peer_copies")]
    native = place.run_native(command, **sim)
    for policy, free, batch in itertools.product(POLICIES, frees, ("16", "1")):
        opened = policy not in ("observe", "cache", "auto")  # copies from a pool are direct, as with peer access
        if opened and "hidden" in str(place.options.shim):
            continue  # a limit: no fence covers these copies there
        settings = {**sim, "GPUMEM_FENCE_BATCH": batch, **free, **({"PEER_COPIES_LATE": "1"} if opened else {})}
        done = place.run_shimmed(command, policy, **settings)
        check_same_output(native, done, f"peer_copies under {policy} {free}, a fence for {batch} frees")


def untouched(place):
    """No CUDA, no trace: nothing is opened, loaded or started."""
    command = [place.program("no_cuda")]
    native = place.run_native(command)
    check("threads 1 drivers 0" in native.stdout, f"natively: {native.stdout}")
    for policy in POLICIES:
        done = place.run_shimmed(command, policy)
        check_same_output(native, done, f"no_cuda under {policy}")
        made = [path.name for path in done.folder.iterdir()]
        check(
            not [name for name in made if name.startswith("trace")], f"no_cuda under {policy}: wrote {made}"
        )


def unchanged(program):
    """Look-ups and weak references give what they give natively."""

    def case(place):
        command = [place.program(program)]
        native = place.run_native(command)
        for policy in ("observe", "auto"):
            done = place.run_shimmed(command, policy)
            check_same_output(native, done, f"{program} under {policy}")
            check(not read_trace(done.folder), f"{program} under {policy}: a trace without CUDA")

    return case


def options_reported(place):
    """A name or a value that is not understood is said once, by name, and the program runs on."""
    command = [place.program("runtime_basic")]
    native = place.run_native(command)
    wrong = {
        "GPUMEM_NO_SUCH_OPTION": "1",
        "GPUMEM_POLICY": "no-such-policy",
        "GPUMEM_LOG": "very-loud",
        "GPUMEM_LIST_LENGTH": "ten",
    }
    for name, value in wrong.items():
        done = place.run_shimmed(command, "observe", trace=False, **{name: value})
        check(
            (done.returncode, done.stdout) == (native.returncode, native.stdout),
            f"{name}={value}: {done.returncode}\n{done.stdout}{done.stderr}",
        )
        lines = [line for line in done.stderr.splitlines() if name in line]
        check(
            len(lines) == 1 and len(done.stderr.splitlines()) == 1,
            f"{name}={value}: on stderr:\n{done.stderr}",
        )
        if name != "GPUMEM_NO_SUCH_OPTION":
            check(value in lines[0], f"{name}={value}: the value is not named: {lines[0]}")
    lines_of_a_file_reported(place, command, native)


def lines_of_a_file_reported(place, command, native):
    """The same for each line of the file of options, with its number, also where only the start of the library knows the value."""
    path = place.options.work / "options"
    path.write_text("no_such_option = 1\n# a comment\nlist_length = ten\noom = pray\nlimit = 1GiB\n")
    done = place.run_shimmed(command, "observe", trace=False, GPUMEM_CONFIG=str(path))
    check((done.returncode, done.stdout) == (native.returncode, native.stdout), f"{done.returncode}\n{done.stdout}{done.stderr}")
    said = [line.split(": ")[1] for line in done.stderr.splitlines()]
    check(said == [f"{path}:1", f"{path}:3", f"{path}:4"], f"on stderr:\n{done.stderr}")


CASES = {
    "runtime_basic": plain("runtime_basic"),
    "runtime_static": plain("runtime_static"),
    "runtime_unoptimised": plain("runtime_unoptimised"),
    "runtime_asan": address_sanitizer,
    "driver_linked": plain("driver_linked"),
    "driver_linked_now": plain("driver_linked_now"),
    "driver_linked_lazy": plain("driver_linked_lazy"),
    "driver_dlopened": plain("driver_dlopened"),
    "driver_dlopened_unoptimised": plain("driver_dlopened_unoptimised"),
    "threads": plain("threads", further=further_threads),
    "threads_static": plain("threads_static", further=further_threads),
    "fork_child": plain("fork_child", further=further_two_processes),
    "exec_self": plain("exec_self", further=further_two_processes),
    "leaks": plain("leaks", leaks=5, further=further_leak_sites),
    "wrong_free": plain("wrong_free", warnings=True),
    "managed": plain("managed"),
    "advice": managed_memory,
    "async": plain("async"),
    "async_static": plain("async_static"),
    "pitch": plain("pitch", further=further_pitch, settings=({}, {"GPUMEM_FREE": "async"})),
    "pools": plain("pools"),
    "host_memory": plain("host_memory"),
    "arrays": plain("arrays"),
    "vmm": plain("vmm"),
    **MAPPED,
    **SUSPEND,
    "per_thread_stream": plain("per_thread_stream"),
    "weak_runtime": unchanged("weak_runtime"),
    "weak_driver": unchanged("weak_driver"),
    "next_symbol": unchanged("next_symbol"),
    "two_runtimes": plain("two_runtimes", arguments=two_copies),
    "context_reset": plain(
        "context_reset", arguments=lambda place: ["alone"] if is_simulated(place) else []
    ),
    "deepbind": all_or_nothing(
        "deepbind", only_shim, arguments=lambda place: [str(place.options.programs / "libplugin.so")]
    ),
    "capture": plain("capture"),
    "lost_capture": lost_capture,
    "peer_reset": peer_reset,
    "context_handles": context_handles,
    "peer_copies": peer_copies,
    "capture_memory": capture_memory,
    # Other kinds than native memory drop the IPC promise; the driver then refuses the handle.
    "ipc": plain("ipc", policies=("observe", "cache", "auto"), further=further_two_processes),
    "ipc_queue": plain("ipc_queue", policies=("observe", "cache", "auto")),
    "ipc_kept": plain("ipc_kept", policies=("observe", "cache", "auto"), further=further_ipc_kept_both,
                      settings=({}, {"GPUMEM_FENCE_BATCH": "1"}, LATE)),
    "ipc_kept_plain_importer": plain("ipc_kept", policies=("observe", "cache", "auto"), further=further_ipc_kept,
                                     arguments=lambda place: ["plain"], settings=({}, {"GPUMEM_FENCE_BATCH": "1"}, LATE)),
    "capture_modes_runtime": capture_modes("runtime"),
    "capture_modes_driver": capture_modes("driver"),
    "self_waiting_collective": self_waiting("collective"),
    "self_waiting_collective_alloc": self_waiting("collective_alloc"),
    # A stream cannot wait for a value in managed memory.
    "self_waiting_value_stream": self_waiting("value_stream", ("observe", "cache", "async", "auto")),
    "self_waiting_value_host": self_waiting("value_host"),
    "self_waiting_alone": self_waiting("alone"),
    "self_waiting_persistent": self_waiting("persistent"),
    "graph_memory": plain("graph_memory"),
    "kept_blocks": plain("kept_blocks", policies=("observe", "cache", "auto"), further=further_kept),
    "detached": plain("detached"),
    "free_async": free_async,
    "free_memory": free_memory,
    "late_card": late_card,
    "patched_own": patched("own"),
    "patched_ucx": patched("ucx"),
    "freed_pointers": plain("freed_pointers", settings=({}, {"GPUMEM_FENCE_BATCH": "1"}, {"GPUMEM_CACHE_LIMIT": "1M"},
                                                       {"SIMCUDA_POOL_RANGE": "segment"})),
    "two_devices": two_devices,
    "two_sites": plain("two_sites", further=further_two_sites),
    "plan_order": plain("plan_order"),
    "out_of_memory": plain("out_of_memory", warnings=True),
    "kernel": plain("kernel"),
    "region_static": plain("region_static"),
    "region_dynamic": plain("region_dynamic"),
    "residency_static": plain("residency_static"),
    "residency_dynamic": plain("residency_dynamic"),
    "shared_registry_static": plain("shared_registry_static", further=further_marks),
    "shared_registry_static_exporting": plain("shared_registry_static_exporting", further=further_marks),
    "shared_registry_dynamic": plain("shared_registry_dynamic", further=further_marks),
    "starved": starved,
    "starved_launch": starved_launch,
    "known_streams": known_streams,
    "free_sync": free_sync,
    "late_error": late_error,
    "no_cuda": untouched,
    "options": options_reported,
    "other_interposer_runtime": all_or_nothing("runtime_basic", behind_and_before),
    "other_interposer_driver": all_or_nothing("driver_dlopened_unoptimised", behind_and_before),
    "other_interposer_linked": all_or_nothing("driver_linked", behind_and_before, linked=True),
    "other_interposer_static": all_or_nothing("runtime_static", behind_and_before),
    **ordering.CASES,
    **relies.CASES,
}


if __name__ == "__main__":
    sys.exit(run_case(CASES))
