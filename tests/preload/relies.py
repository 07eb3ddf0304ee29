"""Programs that rely on the wait of cudaFree in ways that few programs do: one table of what must be right.

A row is a case of relies_*.c and what it needs:
  order    order on the device
  wait     a wait: the host, another context, device or process acts or looks after the free
  error    that the free returns the error of earlier work; first: of work that it has to wait for
  reuse    that the memory kept stays bounded while a stream captures, and reuse goes on afterwards
  nothing  nothing: it fails, or never ends, where more is done than natively
Each is right natively. Where a free promises nothing but that memory does not come again too early (async), each of the
former two must be wrong, every time: else it would prove nothing elsewhere.
"""

import argparse
import concurrent.futures
import struct

from ordering import MODES, SHARING, outcome
from place import Failure, Place, cases_of, check

ORDER = {
    case: "order" for case in (
        "pdl pdl_legacy pdl_per_thread pdl_created pdl_twin pdl_behind_other pdl_chain pdl_other_thread "
        "stream_destroy_default stream_destroy_legacy stream_destroy_default_v1 stream_destroyed_before_free "
        "stream_destroyed_after_free stream_replaced_after_free stream_created_after_free "
        "chain_created chain_mixed chain_per_thread chain_twin chain_blocking chain_submits chain_frees_twice "
        "second_free free_by_free first_memcpy first_copy first_sync_copy first_peer_copy first_rows first_copy_down "
        "first_sync_down first_copy_up first_set first_sync_set first_cooperative first_extended first_value first_record "
        "first_pool_free first_graph").split()
}
HELD = ("unmap", "set_access", "event_query", "stream_query", "stream_query_twin", "elapsed_time", "free_of_others")
ROWS = {
    "relies_order": ORDER,
    "relies_order_linked": ORDER,
    "relies_plugin": ORDER,
    "relies_host": {
        **{case: "wait" for case in HELD}, "query_loop": "nothing", "unmap_beside_endless": "nothing",
        "exit_beside_endless": "nothing", "polled": "wait", "polled_idle": "idle", "graph_mem_trim": "wait", "pool_trim": "wait",
        "module_unload": "wait", "managed_variable": "wait", "exported_late": "wait", "range_late": "wait",
        "shareable_late": "wait", "ipc_event": "wait", "ipc_event_late": "wait", "ipc_event_opened": "wait",
        "graph_down": "wait", "graph_up": "wait", "graph_down_child": "wait", "graph_up_child": "wait",
        "graph_down_captured": "wait", "graph_up_captured": "wait",
    },
    "relies_contexts": {
        "idle_same_device": "order", "idle_same_device_v4": "order", "idle_peer": "order", "created_late": "wait",
        "retained_late": "wait", "peer_late": "wait", "green_late": "wait", "stream_gone": "order",
        "first_variant": "nothing", "primary_release": "order", "primary_release_host": "wait",
        "primary_release_query": "wait",
    },
    "relies_capture": {
        "unmap": "wait", "query": "wait", "peer_copy": "wait", "retained_late": "wait", "exported_late": "wait",
        "other_stream": "order", "free_inside": "order", "full_card": "order", "pairs_beside": "reuse",
        "orphan": "reuse",
    },
    "relies_errors": {
        "fault_ahead": "error first", "fault_behind": "error", "fault_known": "error", "fault_by_launch": "error",
        "fault_pairs": "error", "launch_nothing": "nothing", "no_such_handle": "nothing", "without_context": "nothing",
    },
}
ROWS["relies_writes"] = dict.fromkeys(("linked_or_looked_up", "resolved", "called"), "nothing")
ROWS["relies_host_linked"], ROWS["relies_writes_linked"] = ROWS["relies_host"], ROWS["relies_writes"]
# What a row needs -> the modes of a free that promise it
RIGHT = {
    "order": {"safe", "wait", "order", ""}, "wait": {"safe", "wait", ""},
    "idle": {"safe", "wait", "async", ""}, "error": {"safe", "wait", ""}, "error first": {"wait"},
    "reuse": {"safe", "wait", "order", ""}, "nothing": {"safe", "wait", "order", "async", ""},
}
# (program, case) -> where only these policies can serve it
ONLY = {("relies_host", "exported_late"): SHARING, ("relies_host", "range_late"): SHARING,
        ("relies_capture", "exported_late"): SHARING, ("relies_capture", "pairs_beside"): {"cache", "auto"},
        ("relies_capture", "orphan"): {"cache", "auto"}}

SETTINGS = [(policy, mode, {}) for policy in ("cache", "async") for mode in ("safe", "wait", "order", "async")]
SETTINGS += [("observe", "safe", {}), ("auto", "safe", {}), ("auto", "", {}), ("managed", "safe", {})]
SETTINGS += [("cache", "safe", {"GPUMEM_FENCE_BATCH": "1"})]
# Work begins in any call: not where it waits for what follows.
RANDOM = [("cache", "safe", {"SIMCUDA_STREAMS": "random:5"}), ("auto", "safe", {"SIMCUDA_STREAMS": "random:6"})]
OLD = [("cache", mode, {"SIMCUDA_HIDE": hidden})
       for mode in ("safe", "wait") for hidden in ("cuCtxWaitEvent", "cuCtxRecordEvent,cuCtxWaitEvent")]
SIM = {"SIMCUDA_DEVICES": "2", "SIMCUDA_STREAMS": "manual", "SIMCUDA_MEMORY": "1G"}


def command_of(place, program, case):
    if program == "relies_plugin":
        return [place.program("relies_loader"), place.program("librelies_order_plugin.so"), case]
    return [place.program(program), case]


def allowed(needs, policy, mode, more):
    if mode in RIGHT[needs] or policy == "observe":
        return {"right"}
    surely = policy == "cache" and mode == "async" and needs in ("order", "wait")
    return {"wrong"} if surely else {"right", "wrong"}


def run_row(place, program, case, settings, **further):
    """Runs all settings of a row; returns what is not as it must be."""
    needs = ROWS[program][case]
    command = command_of(place, program, case)
    native = place.run(command, **{**SIM, **further})
    check(outcome(native) == "right", f"{program} {case} natively: {outcome(native)} {native.stdout}{native.stderr}")
    problems, seen = [], {}
    for policy, mode, more in settings:
        if policy not in ONLY.get((program.removesuffix("_linked"), case), {policy}):
            continue
        shimmed = [*command, "kept"] if needs == "reuse" else command
        done = place.run_shimmed(shimmed, policy, trace=False, **{**SIM, **further, **more, **MODES[mode]})
        found = outcome(done)
        seen.setdefault(mode or "by default", []).append(found[0])
        if found not in allowed(needs, policy, mode, more):
            problems.append(f"{program} {case} under {policy}, {mode} {more}: {found}\n{done.stdout}{done.stderr}")
    print(f"{program} {case}, {needs}:", *(f"{mode} {''.join(found)}" for mode, found in seen.items()))
    return problems


# Objects linked with the driver: what differs is how calls are seen.
LINKED = [("cache", mode, {}) for mode in ("safe", "wait", "order", "async")] + [("async", "safe", {}), ("auto", "", {}), *OLD[:2]]


def settings_of(program, case):
    if program in ("relies_order_linked", "relies_plugin", "relies_host_linked", "relies_writes_linked"):
        return LINKED
    return SETTINGS + (OLD if ROWS[program][case] != "reuse" else []) + (RANDOM if program == "relies_order" else [])


def one(program, case):
    def run(place):
        problems = run_row(place, program, case, settings_of(program, case))
        check(not problems, "\n".join(problems))

    return run


def outcomes(results):
    problems = [problem for result in results for problem in result]
    check(not problems, f"{len(problems)} runs:\n" + "\n".join(problems))


def every(program):
    def run(place):
        name = "relies_order" if ROWS[program] is ORDER else program.removesuffix("_linked")
        named = set(cases_of(name))
        check(named == set(ROWS[program]), f"cases without a row: {named ^ set(ROWS[program])}")
        results = []
        for case in ROWS[program]:
            try:
                results.append(run_row(place, program, case, settings_of(program, case)))
            except Failure as failure:
                results.append([str(failure)])
        outcomes(results)

    return run


def held(place):
    """Work that takes longer than anyone waits without a reason."""
    settings = [(policy, "safe", {}) for policy in ("cache", "async")]

    def run(case):
        own = Place(argparse.Namespace(**{**vars(place.options), "work": place.options.work / case}))
        return run_row(own, "relies_host", case, settings, RELIES_HOLD_MS="11500")

    with concurrent.futures.ThreadPoolExecutor(len(HELD)) as threads:
        outcomes(threads.map(run, HELD))


def static_tls(place):
    """What libgpumem(7) says of static thread-local storage: programs have little of it for what is loaded later."""
    image = place.options.shim.read_bytes()
    start, size, count = struct.unpack_from("<Q", image, 32)[0], *struct.unpack_from("<HH", image, 54)
    segments = [struct.unpack_from("<IIQQQQQQ", image, start + i * size) for i in range(count)]
    tls = sum(segment[6] for segment in segments if segment[0] == 7)
    check(0 < tls < 128, f"{tls} bytes of static thread-local storage")


# role -> whether work that a free left may be pending behind a call with arguments of zero
LEFT = {"BLIND": {"pending"}, "SUBMITS": {"pending"}, "NOTICES": {"done"}, "SHARES": {"done"}}
# Work may wait for the write.
LEFT_BY_REASON = {"WRITES": {"pending"}}
# Without gpumem: a call that waits by itself is none of these.
NATIVELY = {"BLIND": {"pending"}, "SUBMITS": {"pending"}}
# The thread's own stream is idle, and there is no event 0: a query waits for nothing unless the answer is "not ready".
ANSWERED = [["cuStreamQuery_ptsz", "pending"], ["cuEventQuery", "pending"]]


def roles(place):
    """Every row of the driver's table does what its role says, and the simulated driver's own call agrees."""
    command = [place.program("relies_roles")]
    settings = {**SIM, "SIMCUDA_VERSION": "13050"}
    native = place.run([*command, "natively"], **settings)
    problems = []
    for policy in ("cache", "async"):
        done = place.run_shimmed(command, policy, trace=False, **settings)
        rows = [line.split(maxsplit=3) for line in done.stdout.splitlines()]
        own = [line.split(maxsplit=3) for line in native.stdout.splitlines()]
        check(len(rows) == len(own) > 700 and not done.returncode, f"{done.returncode} {done.stderr}{native.stderr}")
        for (symbol, role, why, left), (_, _, _, by_itself) in zip(rows, own):
            if "absent" in (left, by_itself) or by_itself.startswith("signal"):
                right = left == by_itself
            elif role == "SHARES" and why == "NO":  # the arguments decide
                right = True
            else:
                right = left in LEFT_BY_REASON.get(why, LEFT.get(role, {left})) and by_itself in NATIVELY.get(role, {by_itself})
            if not right and [symbol, left] not in ANSWERED:
                problems.append(f"{symbol}, {role}: {left} under {policy}, natively {by_itself}")
        present = sum(left != "absent" for *_, left in rows)
        print(f"{policy}: {present} of {len(rows)} functions")
        check(present > 400, f"only {present} functions")
    check(not problems, "\n".join(problems))


CASES = {program: every(program) for program in ROWS}
CASES["relies_roles"] = roles
CASES["relies_held"] = held
CASES["static_tls"] = static_tls
CASES.update((f"{program}_{case}", one(program, case)) for program, rows in ROWS.items() for case in rows)
