#!/usr/bin/env python3
"""GPUMEM_CHECK_ORDER: which frees are named, and which are not.

usage: run_check.py --programs DIR --cuda DIR --shim FILE --gpumem FILE --work DIR CASE

The program's frees find their work in flight (SIMCUDA_STREAMS=manual). The one that is relied on has to be named by
function and line, with who relies on it; where nobody does, nothing may be named.
"""

import re
import sys

from place import check, run_case

ROUNDS = 3
CREATED, DEFAULT, OF_THREAD, HOST = r"stream \d+ \(0x[0-9a-f]+\)", "the default stream", r"the default stream of thread \d+", "the host"
# case: how many frees are named, who relies, on work of whom
NAMED = {
    "by_stream": (ROUNDS, CREATED, CREATED),
    "by_default": (ROUNDS, DEFAULT, CREATED),
    "by_event_of_earlier_work": (ROUNDS, CREATED, CREATED),
    "by_free_async": (ROUNDS, CREATED, CREATED),
    "of_destroyed": (ROUNDS, CREATED, CREATED),
    "two_sites": (ROUNDS, CREATED, CREATED),
    "by_thread": (ROUNDS, OF_THREAD, OF_THREAD),
    "by_host": (ROUNDS, HOST, CREATED),
    "by_host_at_end": (ROUNDS, HOST, CREATED),
    "by_host_in_rows": (ROUNDS, HOST, CREATED),
    "by_host_function": (ROUNDS, HOST, CREATED),
}
# case: how many frees wait for work, though nobody relies on them
UNNAMED = {
    "threads_that_synchronise": 0, "with_event": ROUNDS, "with_stream_synchronised": ROUNDS, "with_device_synchronised": ROUNDS,
    "with_event_synchronised": ROUNDS, "with_questions": 2 * ROUNDS, "with_copy": ROUNDS, "with_pageable_copy": 0,
    "one_stream": 2 * ROUNDS, "default_stream": ROUNDS, "blocking_streams": ROUNDS, "idle": 0, "captured": 0, "wrong_address": 0,
}
POLICIES = ("observe", "cache", "auto", "async", "managed")
LATE = {"SIMCUDA_STREAMS": "manual", "SIMCUDA_DEVICES": "2"}
# Drivers that a program may meet.
DRIVERS = ({}, {"SIMCUDA_HIDE": "cuCtxRecordEvent"}, {"SIMCUDA_HIDE": "cuStreamGetCtx,cuCtxGetId"})
LINE = re.compile(r"^gpumem:   check-order +([\d,]+) cudaFrees? in (.*?): (.*)$", re.MULTILINE)
LEVELS = re.compile(r"^gpumem:   check-order +this run (.*)$", re.MULTILINE)
EVERY = "is right at every level of GPUMEM_FREE, as far as is seen"
NOTHING = re.compile(r"^gpumem:   check-order +(\d+) cudaFrees? waited for work; none is seen to be relied on$", re.MULTILINE)


def run(place, words, policy="auto", option="--check-order", **more):
    command = [place.options.gpumem, "run", "--library", str(place.options.shim), f"--policy={policy}", option, "--", *words]
    done = place.run(command, **{**LATE, **more})
    check(done.returncode == 0 and "\nok " in "\n" + done.stdout, f"{command} {more}: {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stderr


def settings():
    yield from ((policy, {}) for policy in POLICIES)
    yield from (("cache", driver) for driver in DRIVERS[1:])


BY_RUNTIME, BY_LINKER = ("check_order", "check_order_static"), ("check_order_by_linker",)


def each_run(place, case, programs):
    for program in programs:
        for policy, more in settings():
            yield program, f"{program} {case} under {policy} {more}", run(place, [place.program(program), case], policy, **more)


def named(case, programs=BY_RUNTIME):
    def checked(place):
        count, relying, busy = NAMED[case]
        for program, label, text in each_run(place, case, programs):
            found = LINE.findall(text)
            check(len(found) == 1, f"{label}: named {found}\n{text}")
            frees, site, who = found[0]
            check(int(frees) == count, f"{label}: {frees} frees\n{text}")
            check(re.fullmatch(rf"guilty_free at check_order\.c:\d+ \({program}\)", site), f"{label}: {site}")
            levels = "needs GPUMEM_FREE=" + ("safe or wait" if relying == HOST else "order, safe or wait, as far as is seen")
            check(LEVELS.findall(text) == [levels], f"{label}: {text}")
            check(re.fullmatch(rf"{relying} may rely on the wait for {busy}(, and others)?", who), f"{label}: {who}")

    return checked


def unnamed(case, programs=BY_RUNTIME):
    def checked(place):
        for _, label, text in each_run(place, case, programs):
            check(LEVELS.findall(text) == [EVERY], f"{label}: {text}")
            check(not LINE.findall(text) and NOTHING.findall(text) == [str(UNNAMED[case])], f"{label}: {text}")

    return checked


def linked(place):
    """Calls of the driver by the names that the linker bound are seen like those that were looked up."""
    for case in ("by_stream", "by_thread", "by_event_of_earlier_work"):
        named(case, BY_LINKER)(place)
    for case in ("with_event", "threads_that_synchronise", "one_stream"):
        unnamed(case, BY_LINKER)(place)


def many_sites(place):
    text = run(place, [place.program("check_order"), "many_sites"])
    found = LINE.findall(text)
    check(len(found) == 20 and "check-order      5 more call sites\n" in text, text)
    check(all(count == str(ROUNDS) for count, _, _ in found), text)


# Programs with kernels and graphs: the function whose free is relied on.
KERNELS = {
    ("ordering_device", "lazy_table"): "needs_table", ("ordering_device", "lazy_table_per_thread"): "needs_table",
    ("ordering_device", "lazy_table_late"): "needs_table",
    ("ordering_device", "one_thread"): "one_thread", ("ordering_device", "reader_frees"): "frees_and_reads",
    ("ordering_device", "third_frees"): "frees", ("ordering_device", "late_stream"): "late_stream",
    ("ordering_device", "copy_down"): "copy_down", ("ordering_device", "overwrite"): "overwrite",
    ("ordering_device", "graph"): "graph", ("ordering_device", "by_other_device"): "by_other_device",
    ("ordering_per_thread", "lazy_table_default"): "needs_table", ("ordering_per_thread", "one_thread"): "one_thread",
    ("ordering_host", "other_context"): "other_context", ("ordering_host", "peer"): "peer",
}


def kernels(place):
    for (program, case), function in KERNELS.items():
        text = run(place, [place.program(program), case])
        found = LINE.findall(text)
        check(len(found) == 1 and re.match(rf"{function}\(.*\) ", found[0][1]), f"{program} {case}: {function}: {text}")


def library_alone(place):
    """Without gpumem run: modules and offsets, on standard error; and not a word when nobody asks."""
    words = [place.program("check_order"), "by_stream"]
    native = place.run_native(words, **LATE)
    done = place.run_shimmed(words, "auto", trace=False, GPUMEM_CHECK_ORDER="1", **LATE)
    line = (r"gpumem: check-order: 3 cudaFrees at check_order\+0x[0-9a-f]+: "
            rf"{CREATED} may rely on the wait for {CREATED}\n"
            r"gpumem: check-order: this run needs GPUMEM_FREE=order, safe or wait, as far as is seen\n")
    check(done.stdout == native.stdout and re.fullmatch(line, done.stderr), f"{done.stdout}{done.stderr}")
    done = place.run_shimmed([words[0], "with_event"], "auto", trace=False, GPUMEM_CHECK_ORDER="1", **LATE)
    check(done.stderr == "gpumem: check-order: 3 cudaFrees waited for work; none is seen to be relied on\n"
          f"gpumem: check-order: this run {EVERY}\n", done.stderr)
    done = place.run_shimmed(words, "auto", trace=False, **LATE)
    check(done.stdout == native.stdout and not done.stderr, f"{done.stdout}{done.stderr}")
    check("check-order" not in run(place, words, option="--check-order=0"), "named without being asked")


def options(place):
    """Every free waits, whatever else is asked for, and that is said."""
    words = [place.program("check_order"), "by_host"]
    text = run(place, words, GPUMEM_FREE="async")
    check("every cudaFree waits; GPUMEM_FREE=async is not in force\n" in text and LINE.findall(text), text)
    text = run(place, words, GPUMEM_GROW="move")
    check("under it GPUMEM_GROW=move is vmm\n" in text and LINE.findall(text), text)
    text = run(place, words, GPUMEM_TRACE=str(place.options.work / "check-%p.trace"), GPUMEM_STACKS="8")
    check(LINE.findall(text)[0][1].startswith("guilty_free at "), text)


def random_programs(place):
    """Streams, events, captures, contexts and threads at random: what the programs compute stays right."""
    for seed in range(1, 7):
        for policy in ("observe", "cache", "async"):
            run(place, [place.program("ordering_random"), str(seed), "150"], policy,
                SIMCUDA_STREAMS=f"random:{seed}" if seed % 2 else "manual")


FREES_OF_THREADS = 6 * 150 * ROUNDS


def many_threads(place):
    named = 0
    for policy in POLICIES:
        for streams in ("immediate", "manual", "random:5"):
            for driver in DRIVERS:
                text = run(place, [place.program("check_order"), "many_threads"], policy, SIMCUDA_STREAMS=streams, **driver)
                frees = sum(int(count.replace(",", "")) for count, _, _ in LINE.findall(text))
                check(frees <= FREES_OF_THREADS, text)
                named += frees > 0
    check(named, "no run named a free")


CASES = {**{case: named(case) for case in NAMED}, **{case: unnamed(case) for case in UNNAMED}}
CASES.update(linked=linked, many_sites=many_sites, kernels=kernels, many_threads=many_threads, library_alone=library_alone, options=options, random_programs=random_programs)

if __name__ == "__main__":
    sys.exit(run_case(CASES, "--gpumem"))
