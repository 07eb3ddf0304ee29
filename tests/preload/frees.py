"""What a free waits for and orders, whether a program can tell, and memory that is kept while others need it."""

import pathlib
import re
import shutil

from every_policy import POLICIES, all_rows, plain
from place import SKIP, cases_of, check, check_same_output, is_simulated
from traces import check_trace


def free_async(place):
    """A free in stream order leaves the work on its block in flight where the block is a pool's, gpumem's own pools included. The
    driver itself waits where the block is of cuMemAlloc."""
    for source, policy, waited, kind in (
            ("ordered", "observe", 0, "native"), ("ordered", "async", 0, "native"), ("ordered", "managed", 0, "managed-pool"),
            ("plain", "observe", 8, "native"), ("plain", "async", 0, "async"), ("plain", "managed", 0, "managed-pool")):
        command, label = [place.program("free_async"), source], f"free_async {source} under {policy}"
        place.run_native(command)
        done = place.run_shimmed(command, policy)
        check((done.returncode, done.stdout) == (0, f"ok free_async {waited} of 8 frees waited\n"),
              f"{label}: {done.returncode} {done.stdout}{done.stderr}")
        kinds = {row["kind"] for row in all_rows(check_trace(done, policy, 0, label)) if row["action"] == "alloc"}
        check(kinds == {kind}, f"{label}: served by {sorted(kinds)}")


def late_card(place):
    """A library that registers memory is noticed before memory that it knows is reused, also while all pairs are hits. The library
    is an empty one under its name."""
    for library, device in (("libibverbs.so.1", "/dev/infiniband/uverbs0"), ("libgdrapi.so.2", "/dev/gdrdrv"),
                            ("libcufile.so.0", "/dev/nvidia-fs0"), ("libcxi.so.1", "/dev/cxi0"), ("libpsm2.so.2", "/dev/hfi1_0")):
        empty = shutil.copy(place.program("libmpi.so"), place.fresh() / library)
        for how in ("freed", "looked", "asked"):
            command = [place.program("late_card"), how, empty, device]
            native = place.run_native(command)
            for policy in ("cache", "auto"):
                done = place.run_shimmed(command, policy, trace=False, GPUMEM_CACHE_IDLE="40ms")
                check_same_output(native, done, f"late_card {how} {library} under {policy}")


def free_memory(place):
    """Under every policy; all of a simulated card is taken where the policy does not refuse so much."""
    everything, some = (["all"], ["simulated"]) if is_simulated(place) else ([], [])
    plain("free_memory", policies=[policy for policy in POLICIES if policy != "managed"], arguments=lambda place: everything,
          warnings=True, settings=({}, {"GPUMEM_FENCE_BATCH": "1"}))(place)
    plain("free_memory", policies=("managed",), arguments=lambda place: some,
          settings=({}, {"GPUMEM_FENCE_BATCH": "1"}, {"GPUMEM_MANAGED": "plain"}))(place)


def starved(place):
    """Whatever takes device memory by the way gets it although the cache holds all of it."""
    hooks = (pathlib.Path(__file__).parents[2] / "shim" / "hook" / "loads.c").read_text()
    tried = (pathlib.Path(__file__).parent / "starved.c").read_text()
    missing = [name for name in re.findall(r"^(?:TAKES_MEMORY|HANDLES_CODE)\((\w+)", hooks, re.M) if f"ROW({name}, 1)" not in tried]
    check(not missing, f"never tried: {missing}")
    native = place.run_native([place.program("starved")])
    for policy, *arguments in (("observe",), ("cache", "kept"), ("auto",)):
        for settings in ({}, {"GPUMEM_GROW": "vmm"}, {"GPUMEM_TRACE_COPIES": "1"}):
            # The program counts the blocks of the driver, so none goes back because the program is idle.
            done = place.run_shimmed([place.program("starved"), *arguments], policy, trace="GPUMEM_TRACE_COPIES" in settings,
                                     GPUMEM_FENCE_BATCH="1", GPUMEM_CACHE_IDLE="0", **settings)
            check_same_output(native, done, f"starved under {policy} {settings}")


# Policy, whether freed memory stays with gpumem, settings
STARVED = [(policy, ["kept"], {}) for policy in ("cache", "async", "managed")]
STARVED += [("cache", ["kept"], {"GPUMEM_FREE": "async"}), ("observe", ["kept"], {"GPUMEM_GUARD": "all"}), ("auto", [], {})]


def starved_launch(place):
    """What a launch gets, also where the trim between its two calls could do harm."""
    devices = {"SIMCUDA_DEVICES": "2"}
    for case in cases_of("starved_launch"):
        native = place.run_native([place.program("starved_launch"), case], **devices)
        for policy, kept, settings in STARVED:
            if (case, policy) == ("of_another_device", "managed"):  # its memory is of no device
                continue
            done = place.run_shimmed([place.program("starved_launch"), case, *kept], policy, trace=False, **settings, **devices)
            check_same_output(native, done, f"starved_launch {case} under {policy} {settings}")


ERROR_LINE = re.compile(r"free (\d+) alloc (\d+) next (\d+) then ([\d ]+) frees ([\d ]+) allocs ([\d ]+) last (\d+)")


def read_errors(done, label):
    check(done.returncode == 0 and done.stdout.endswith("\nok late_error\n"), f"{label}: {done.returncode} {done.stdout}{done.stderr}")
    found = ERROR_LINE.match(done.stdout)
    check(found, f"{label}: {done.stdout}")
    return [[int(code) for code in part.split()] for part in found.groups()]


def late_error(place):
    """The error of earlier work is never lost: frees that do not wait may miss it, the next synchronising call does not, and it stays."""
    sim = {"SIMCUDA_STREAMS": "manual"}
    for waits in ("context", "stream", "event", "copy"):
        command = [place.program("late_error"), waits]
        native_run = place.run_native(command, **sim)
        native = read_errors(native_run, "natively")
        broken = native[6][0]
        check(broken != 0 and native[2] == [broken], f"natively no error: {native}")
        for policy in POLICIES:
            for strict in ("0", "1"):
                label = f"late_error {waits} under {policy}, GPUMEM_STRICT={strict}"
                done = place.run_shimmed(command, policy, trace=False, GPUMEM_STRICT=strict, **sim)
                codes = read_errors(done, label)
                check(all(code in (0, broken) for part in codes for code in part), f"{label}: other errors: {codes}")
                check([codes[2], codes[3], codes[6]] == [native[2], native[3], native[6]], f"{label}: the error is late or lost: {codes}")
                if policy == "observe" or (policy == "cache" and strict == "1"):
                    check(done.stdout == native_run.stdout, f"{label}: not as natively:\n{done.stdout}{native_run.stdout}")
                if policy in ("cache", "auto"):  # out of a batch at most, then the cache has stepped aside
                    check(codes[4][16:] == native[4][16:], f"{label}: frees go on as if nothing were: {codes[4]}")
                    check(codes[5] == native[5], f"{label}: allocations go on as if nothing were: {codes[5]}")


# What a free does once the process has done that (free_sync.c); a second free where it differs.
FREE_LEVELS = {
    "async": ["no_reason", "printing_unused", "ask_event", "ask_stream", "ask_time", "unmap"],
    "order": ["a_stream", "priority_stream", "per_thread", "per_thread_launch", "twin", "twin_of_a_hook"],
    "order async": ["ended_stream"],
    "wait": [
        "peers", "ipc_export", "ipc_import", "shareable", "import", "pool_pointer", "range", "value", "old_value", "value64",
        "batch", "semaphore", "host_function", "callback", "host_node", "second_context", "green_context", "pinned", "pinned_too",
        "registered", "managed", "host_handle", "managed_pool", "host_pool", "batch_copy", "external_memory", "external_semaphore",
        "graphics", "printing", "printing_packed", "printing_library", "printing_kernel", "printing_module", "printing_variable", "twin_value",
    ],
}
REACH_PAST_ORDER = {"peers", "ipc_export", "ipc_import", "shareable", "import", "pool_pointer", "range", "second_context", "green_context",
                    "external_memory", "external_semaphore", "graphics"}
ASKS = {"ask_event", "ask_stream", "ask_time", "unmap"}


def free_sync(place):
    """How far a free synchronises by default, once the process has done something that could show it; and where a level is named."""
    named = set(cases_of("free_sync"))
    expected = {reason: level for level, reasons in FREE_LEVELS.items() for reason in reasons}
    check(named == set(expected), f"reasons without an expectation: {named ^ set(expected)}")
    sim = {"SIMCUDA_DEVICES": "2", "LD_LIBRARY_PATH": str(place.options.cuda)}

    def levels(reason, policy, **variables):
        done = place.run_shimmed([place.program("free_sync"), reason], policy, trace=False, **sim, **variables)
        check(done.returncode == 0, f"free_sync {reason} under {policy} {variables}: {done.returncode} {done.stdout}{done.stderr}")
        return re.fullmatch(rf"{reason}: (\w+), then (\w+) (\w+)\n", done.stdout).groups()

    for reason, level in expected.items():
        first, second = (level.split() * 2)[:2]
        for policy in ("cache", "async"):
            check(levels(reason, policy) == ("async", first, second), f"{reason} under {policy}: {levels(reason, policy)}")
        found = levels(reason, "cache", GPUMEM_FREE="wait")
        check(found == ("wait",) * 3, f"{reason} with wait: {found}")
        if reason in ASKS:
            continue  # natively done, and only `safe` and `wait` promise that
        found = levels(reason, "cache", GPUMEM_FREE="order")
        # With one stream there is nothing to order.
        streams = "order" in level or reason == "twin_value"
        wanted = ["wait"] * 2 if reason in REACH_PAST_ORDER else ["order", "order" if level == "wait" else second] if streams else ["async"] * 2
        check(found == ("async", *wanted), f"{reason} with order: {found}")
        found = levels(reason, "cache", GPUMEM_FREE="async")
        check(found == ("async",) * 3, f"{reason} with async: {found}")
    # Drivers that lack it: whoever would order waits.
    for hidden in ("cuCtxWaitEvent", "cuCtxRecordEvent,cuCtxWaitEvent"):
        found = levels("a_stream", "cache", SIMCUDA_HIDE=hidden)
        check(found[1:] == ("wait", "wait"), f"a stream without {hidden}: {found}")
        found = levels("no_reason", "cache", GPUMEM_STRICT="1", SIMCUDA_HIDE=hidden)
        check(found == ("wait",) * 3, f"strict without {hidden}: {found}")


OLD_DRIVER = {"SIMCUDA_HIDE": "cuCtxRecordEvent"}


def known_streams(place):
    """Without cuCtxRecordEvent freed memory is kept while all streams of a context are known, and never when one may be not. Streams beyond
    the points of a fence are found when a fence is made: a free that has waited needs none."""
    doubts = cases_of("known_streams")
    check(len(doubts) > 8, f"doubts: {doubts}")
    path = ":".join((str(place.options.cuda), str(place.options.programs)))
    sim = {**OLD_DRIVER, "LD_LIBRARY_PATH": path, "GPUMEM_FENCE_BATCH": "1"}
    for doubt in doubts:
        command = [place.program("known_streams"), doubt]
        native = place.run_native(command, **sim)
        for free in ("async", "safe"):
            if free == "async" or doubt != "many":
                done = place.run_shimmed([*command, "kept"], "cache", trace=False, GPUMEM_FREE=free, **sim)
                check_same_output(native, done, f"known_streams {doubt} {free}")
    # Ordinary programs on such a driver, by either runtime.
    for name in ("runtime_basic", "runtime_static", "threads", "threads_static", "per_thread_stream", "context_reset", "capture", "two_sites"):
        arguments = ["alone"] if name == "context_reset" else []
        native = place.run_native([place.program(name), *arguments], **OLD_DRIVER)
        for policy in ("cache", "auto"):
            done = place.run_shimmed([place.program(name), *arguments], policy, trace=False, **OLD_DRIVER)
            check_same_output(native, done, f"{name} under {policy} on an old driver")


# Work is done in any order that the streams allow; only when something waits for it.
ANY_ORDER = {"GPUMEM_FENCE_BATCH": "1", "SIMCUDA_STREAMS": "random:7"}
LATE = {"GPUMEM_FENCE_BATCH": "1", "SIMCUDA_STREAMS": "manual"}
# Kept memory in plenty, with a fence for each free, and with bounds that are always full
TIGHT = ({}, {"GPUMEM_FENCE_BATCH": "1"}, {"GPUMEM_CACHE_LIMIT": "64M"}, {"GPUMEM_CACHE_LIMIT": "1M", "GPUMEM_FENCE_BATCH": "1"}, ANY_ORDER)


def self_waiting(what, policies=POLICIES):
    """Ends under every policy if it ends natively. Where it does not, because a native free lets nobody submit while it waits, it
    must end with kept memory and GPUMEM_FREE=async: neither a free nor an allocation waits there while the cache has room. The
    simulated driver does both."""
    as_natively = plain("self_waiting", policies=policies, arguments=lambda place: [what], settings=TIGHT)
    # How long a run that never ends is waited for; what must end has time for it on a busy machine.
    soon, at_last = {"SELF_WAITING_SECONDS": "3"}, {"SELF_WAITING_SECONDS": "60"}
    locked = {"SIMCUDA_FREE": "locked", "SIMCUDA_MEMORY": str(16 << 30)}

    def case(place):
        command = [place.program("self_waiting"), what]
        further = locked if is_simulated(place) else {}
        ends = place.run(command, **further, **soon).returncode != SKIP
        if ends or is_simulated(place):
            as_natively(place)
        # Without context events nothing is kept for a program that is linked with the driver, as this one is.
        if ends or "hidden" in pathlib.Path(place.options.shim).name:
            return
        for options in ({"GPUMEM_FREE": "async"}, {"GPUMEM_FREE": "async", "GPUMEM_FENCE_BATCH": "1"}):
            label = f"self_waiting {what} under cache {options}, natively it does not end"
            done = place.run_shimmed(command, "cache", **options, **further, **at_last)
            check(done.returncode == 0 and f"ok self_waiting {what}" in done.stdout,
                  f"{label}: exit status {done.returncode}\n{done.stdout}{done.stderr}")
            check_trace(done, "cache", 0, label)

    return case
