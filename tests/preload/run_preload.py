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
import pathlib
import re
import shutil
import subprocess
import sys

import ordering
from place import SKIP, check, check_same_output, is_simulated, run_case
from traces import brief, check_life, check_trace, number, read_trace

POLICIES = ("observe", "cache", "async", "managed", "active-list", "auto")


def plain(program, policies=POLICIES, leaks=0, arguments=None, further=None, warnings=False, settings=({},)):
    """The usual case: native run, then each policy with a trace that is checked event by event.

    leaks: blocks the program leaves behind; further(events, label): more checks; warnings: the shim may warn
    on stderr, because what the program does is worth one; settings: options, with each of which every policy runs,
    those of the simulated driver only on that."""

    def case(place):
        command = [place.program(program)] + (arguments(place) if arguments else [])
        native = place.run_native(command)
        usable = [options for options in settings if is_simulated(place) or not any("SIMCUDA" in name for name in options)]
        for policy, options in itertools.product(policies, usable):
            label = f"{program} under {policy}" + "".join(f" {name}={value}" for name, value in options.items())
            done = place.run_shimmed(command, policy, **options)
            check_same_output(native, done, label, warnings)
            events = check_trace(done, policy, leaks, label)
            if further:
                further(events, label)
        # Without a trace the shim takes other ways through its code; the program must not notice that either.
        check_same_output(
            native, place.run_shimmed(command, policies[-1], trace=False), f"{program} without a trace"
        )

    return case


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
    runs += list(itertools.product(("async", "active-list"), ({"GPUMEM_GROW": "vmm"}, {"GPUMEM_LIMIT": "1M", "GPUMEM_OOM": "host"})))
    for peers in ("all", "none") if simulated else ("",):
        card = {"SIMCUDA_DEVICES": "2", "SIMCUDA_PEERS": peers} if simulated else {}
        native = place.run_native(command, **card)
        reach = "reach: 1\n" in native.stdout
        for policy, options in runs:
            label = f"two_devices, peers {peers}, under {policy} {options}"
            done = place.run_shimmed(command, policy, GPUMEM_GROW_MATCH="size>=2M", **card, **options)
            check_same_output(native, done, label, warnings=not reach)
            events = check_trace(done, "any", 0, label)
            opened = {"async", "managed-pool", "vmm"} & {row["kind"] for row in all_rows(events) if row["action"] == "alloc"}
            wants = (policy in ("async", "managed", "active-list") and "GPUMEM_LIMIT" not in options) or "GPUMEM_GROW" in options
            check(not simulated or bool(opened) == (reach and wants), f"{label}: served by {sorted(opened)}")
            said = done.stderr.count("cannot access memory of device")
            check(said == (not reach and wants), f"{label}: said {said} times\n{done.stderr}")


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


def free_memory(place):
    """Under every policy; all of a simulated card is taken where the policy does not refuse so much."""
    everything = ["all"] if is_simulated(place) else []
    plain("free_memory", policies=[policy for policy in POLICIES if policy != "managed"], arguments=lambda place: everything,
          warnings=True, settings=({}, {"GPUMEM_FENCE_BATCH": "1"}))(place)
    plain("free_memory", policies=("managed",), settings=({}, {"GPUMEM_FENCE_BATCH": "1"}, {"GPUMEM_MANAGED": "plain"}))(place)


def all_rows(events):
    return [row for rows in events.values() for row in rows]


def further_threads(events, label):
    threads = {row["thread"] for row in all_rows(events) if row["action"] == "alloc"}
    check(len(threads) == 8, f"{label}: {len(threads)} threads allocate, not 8")


def further_two_processes(events, label):
    check(len(events) == 2, f"{label}: {len(events)} traces, not 2")


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


def resolved_runtime(place):
    """Path of the libcudart that the programs load."""
    listing = subprocess.run(
        ["ldd", place.program("runtime_basic")],
        env=place.environment(place.fresh()),
        capture_output=True,
        text=True,
        check=True,
    )
    found = re.search(r"libcudart\.so\S* => (/\S+)", listing.stdout)
    check(found, f"runtime_basic does not find its runtime:\n{listing.stdout}")
    return found.group(1)


def two_copies(place):
    original = resolved_runtime(place)
    copy = place.fresh() / "libcudart_second.so"
    shutil.copyfile(original, copy)
    return [original, str(copy)]


def all_or_nothing(program, preloads, arguments=None, linked=False):
    """Where the shim may be passed by: the program works, and its calls are all in the trace or none is."""

    def case(place):
        command = [place.program(program)] + (arguments(place) if arguments else [])
        native = place.run_native(command)
        for policy in ("observe", "auto"):
            for preload in preloads(place):
                label = f"{program} under {policy} with {':'.join(pathlib.Path(p).name for p in preload)}"
                done = place.run_shimmed(command, policy, preload=preload)
                check_same_output(native, done, label)
                if read_trace(done.folder):
                    check_trace(done, policy, 0, label)
                else:
                    check(not linked, f"{label}: the shim saw nothing")
                check_other(place, preload, done, label, looks_up=not linked)

    return case


def other_library(place):
    return str(place.options.programs / "libother_interposer.so")


def check_other(place, preload, done, label, looks_up):
    """A library that was preloaded beside the shim is still there, and still asked where it comes first."""
    if other_library(place) not in [str(library) for library in preload]:
        return
    log = done.folder / "other.log"
    check(log.exists(), f"{label}: the other preloaded library is gone")
    if looks_up and str(preload[0]) == other_library(place):
        check(int(log.read_text().splitlines()[0]) > 0, f"{label}: the other library was not asked")


def behind_and_before(place):
    other = other_library(place)
    return [(other, place.options.shim), (place.options.shim, other)]


def only_shim(place):
    return [(place.options.shim,)]


def address_sanitizer(place):
    """A program under AddressSanitizer, with its library before the shim or behind it."""
    command = [place.program("runtime_asan")]
    quiet = "detect_leaks=0:protect_shadow_gap=0"
    native = place.run_native(command, ASAN_OPTIONS=quiet)
    listing = subprocess.run(["ldd", command[0]], capture_output=True, text=True, check=True)
    library = re.search(r"libasan\S* => (/\S+)", listing.stdout).group(1)
    for policy in ("observe", "auto"):
        for preload, asan in (
            ((library, place.options.shim), quiet),
            ((place.options.shim,), quiet + ":verify_asan_link_order=0"),
        ):
            label = f"AddressSanitizer under {policy}, {len(preload)} libraries"
            done = place.run_shimmed(command, policy, preload=preload, ASAN_OPTIONS=asan)
            check_same_output(native, done, label)
            check_trace(done, policy, 0, label)


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


def starved(place):
    """Whatever takes device memory by the way gets it although the cache holds all of it."""
    hooks = (pathlib.Path(__file__).parents[2] / "shim" / "hook" / "loads.c").read_text()
    tried = (pathlib.Path(__file__).parent / "starved.c").read_text()
    missing = [name for name in re.findall(r"^TAKES_MEMORY\((\w+)", hooks, re.M) if f"ROW({name}, 1)" not in tried]
    check(not missing, f"never tried: {missing}")
    native = place.run_native([place.program("starved")])
    for policy, *arguments in (("observe",), ("cache", "kept"), ("auto",)):
        done = place.run_shimmed([place.program("starved"), *arguments], policy, trace=False, GPUMEM_FENCE_BATCH="1")
        check_same_output(native, done, f"starved under {policy}")


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
    "async": ["no_reason"],
    "order": ["a_stream", "priority_stream", "per_thread", "per_thread_launch", "twin", "twin_of_a_hook"],
    "order async": ["ended_stream"],
    "wait": [
        "peers", "ipc_export", "ipc_import", "shareable", "import", "pool_pointer", "range", "value", "old_value", "value64",
        "batch", "semaphore", "host_function", "callback", "host_node", "second_context", "green_context", "pinned", "pinned_too",
        "registered", "managed", "host_handle", "managed_pool", "host_pool", "batch_copy", "external_memory", "external_semaphore",
        "graphics", "printing", "ask_event", "ask_stream", "ask_time", "twin_value", "unmap",
    ],
}
REACH_PAST_ORDER = {"peers", "ipc_export", "ipc_import", "shareable", "import", "pool_pointer", "range", "second_context", "green_context",
                    "external_memory", "external_semaphore", "graphics"}
ASKS = {"ask_event", "ask_stream", "ask_time", "unmap"}


def free_sync(place):
    """How far a free synchronises by default, once the process has done something that could show it; and where a level is named."""
    source = (pathlib.Path(__file__).parent / "free_sync.c").read_text()
    named = set(re.findall(r"REASON\((\w+)\)[,}]", source))
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
        check(found == ("order", *["wait" if reason in REACH_PAST_ORDER else "order"] * 2), f"{reason} with order: {found}")
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
    the points of a fence and objects linked with the driver are found when a fence is made: a free that has waited needs none."""
    source = (pathlib.Path(__file__).parent / "known_streams.c").read_text()
    doubts = re.findall(r'\{"(\w+)", \w+\}', source[source.index("} doubts[]"):source.index("int main")])
    check(len(doubts) > 8, f"doubts: {doubts}")
    path = ":".join((str(place.options.cuda), str(place.options.programs)))
    sim = {**OLD_DRIVER, "LD_LIBRARY_PATH": path, "GPUMEM_FENCE_BATCH": "1"}
    for doubt in doubts:
        command = [place.program("known_streams"), doubt]
        native = place.run_native(command, **sim)
        for free in ("async", "safe"):
            if free == "async" or doubt not in ("many", "linked"):
                done = place.run_shimmed([*command, "kept"], "cache", trace=False, GPUMEM_FREE=free, **sim)
                check_same_output(native, done, f"known_streams {doubt} {free}")
    # Ordinary programs on such a driver, by either runtime.
    for name in ("runtime_basic", "runtime_static", "threads", "threads_static", "per_thread_stream", "context_reset", "capture", "two_sites"):
        arguments = ["alone"] if name == "context_reset" else []
        native = place.run_native([place.program(name), *arguments], **OLD_DRIVER)
        for policy in ("cache", "auto"):
            done = place.run_shimmed([place.program(name), *arguments], policy, trace=False, **OLD_DRIVER)
            check_same_output(native, done, f"{name} under {policy} on an old driver")


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


# The last calls of a capture may stand in the trace before the event of its end, when they came after it.
CAPTURE_ENDS_WITHIN = 8


def check_quarantine(events, label):
    """What was freed while a capture was open is not handed out again before its end."""
    inside = 0
    for rows in events.values():
        freed, captures, hits = set(), 0, []
        for place, row in enumerate(rows):
            address = number(row["address"])
            if row["action"] == "capture_begin":
                captures += 1
            elif row["action"] == "capture_end":
                captures -= 1
                if captures == 0:
                    early = [hit for at, hit in hits if at < place - CAPTURE_ENDS_WITHIN]
                    check(not early, f"{label}: freed and taken again inside a capture: {[brief(hit) for hit in early[:4]]}")
                    freed, hits = set(), []
            elif captures and row["action"] == "free":
                freed.add(address)
                inside += 1
            elif captures and row["action"] == "alloc":
                if address in freed and row["hit"] == "1":
                    hits.append((place, row))
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
            done = place.run_shimmed(command, policy, GPUMEM_FENCE_BATCH=batch)
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
            check_quarantine(events, label)

    return case


# Work is done in any order that the streams allow; only when something waits for it.
ANY_ORDER = {"GPUMEM_FENCE_BATCH": "1", "SIMCUDA_STREAMS": "random:7"}
LATE = {"GPUMEM_FENCE_BATCH": "1", "SIMCUDA_STREAMS": "manual"}
# Kept memory in plenty, with a fence for each free, and with bounds that are always full
TIGHT = ({}, {"GPUMEM_FENCE_BATCH": "1"}, {"GPUMEM_CACHE_LIMIT": "64M"}, {"GPUMEM_CACHE_LIMIT": "1M", "GPUMEM_FENCE_BATCH": "1"}, ANY_ORDER)


def self_waiting(what, policies=POLICIES):
    """Ends under every policy if it ends natively. Where it does not, because a native free lets nobody submit while it waits, it
    must end with kept memory: neither a free nor an allocation waits there while the cache has room. The simulated driver does
    both."""
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
        for options in ({}, {"GPUMEM_FENCE_BATCH": "1"}):
            label = f"self_waiting {what} under cache {options}, natively it does not end"
            done = place.run_shimmed(command, "cache", **options, **further, **at_last)
            check(done.returncode == 0 and f"ok self_waiting {what}" in done.stdout,
                  f"{label}: exit status {done.returncode}\n{done.stdout}{done.stderr}")
            check_trace(done, "cache", 0, label)

    return case


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
    "wrong_free": plain("wrong_free"),
    "managed": plain("managed"),
    "advice": managed_memory,
    "async": plain("async"),
    "async_static": plain("async_static"),
    "pitch": plain("pitch"),
    "pools": plain("pools"),
    "host_memory": plain("host_memory"),
    "arrays": plain("arrays"),
    "vmm": plain("vmm"),
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
    "capture_memory": capture_memory,
    # Other kinds than native memory drop the IPC promise; the driver then refuses the handle.
    "ipc": plain("ipc", policies=("observe", "cache", "auto"), further=further_two_processes),
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
    "free_async": free_async,
    "free_memory": free_memory,
    "freed_pointers": plain("freed_pointers", settings=({}, {"GPUMEM_FENCE_BATCH": "1"}, {"GPUMEM_CACHE_LIMIT": "1M"},
                                                       {"SIMCUDA_POOL_RANGE": "segment"})),
    "two_devices": two_devices,
    "two_sites": plain("two_sites", further=further_two_sites),
    "plan_order": plain("plan_order"),
    "out_of_memory": plain("out_of_memory", warnings=True),
    "kernel": plain("kernel"),
    "region_static": plain("region_static"),
    "region_dynamic": plain("region_dynamic"),
    "shared_registry_static": plain("shared_registry_static", further=further_marks),
    "shared_registry_static_exporting": plain("shared_registry_static_exporting", further=further_marks),
    "shared_registry_dynamic": plain("shared_registry_dynamic", further=further_marks),
    "starved": starved,
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
}


if __name__ == "__main__":
    sys.exit(run_case(CASES))
