#!/usr/bin/env python3
"""GPUMEM_RESOURCE_NATIVE, _ASYNC and _MANAGED: stacks of the user's serve unmodified programs.

usage: run_resources.py --programs DIR --cuda DIR --shim FILE --work DIR CASE
"""

import re
import sys

from place import check, run_case

NATIVE = "GPUMEM_RESOURCE_NATIVE"
# Stacks that serve every program, under policy observe.
STACKS = (
    "log(limit(2GiB,cache(async)))",
    "track(statistics(cache(native)))",
    "aligned(64KiB,native)",
    "prefetch(managed)",
    "fallback(fail-nth(2,native),managed)",
    "fallback(async,host-numa)",
    "pinned",
    "vmm",
)
PROGRAMS = ("runtime_basic", "threads", "async", "pitch", "context_reset", "capture", "failures")


def run(place, program, policy="observe", **settings):
    done = place.run_shimmed([place.program(program)], policy, **settings)
    check(done.returncode == 0, f"{program}, {settings}: exit status {done.returncode}\n{done.stdout}{done.stderr}")
    check(re.search(rf"^ok {program}\b", done.stdout, re.M), f"{program}, {settings}:\n{done.stdout}{done.stderr}")
    return done


def programs(place):
    """The programs work as ever. What a stack does not support, the program's own call serves."""
    for stack in STACKS:
        for program in PROGRAMS:
            run(place, program, **{NATIVE: stack})
            run(place, program, **{NATIVE: stack, "GPUMEM_FILL": "zero", "GPUMEM_FAIL_NTH": "1000000"})
    print(f"{len(STACKS)} stacks, {len(PROGRAMS)} programs")


def served(place):
    """The memory is that of the stack, and its adaptors are at work."""
    done = run(place, "runtime_basic", **{NATIVE: "log(statistics(cache(async)))"})
    check(len(re.findall(r"^gpumem: statistics: cuMemAlloc of \d+ bytes on device 0: 0x", done.stderr, re.M)) > 2, done.stderr)
    check(re.search(r"^gpumem: statistics of cache: [1-9]\d* allocations \(0 failed\)", done.stderr, re.M), done.stderr)
    plain = run(place, "runtime_basic")
    check("gpumem: " not in plain.stderr, plain.stderr)
    for option, policy, kind in (("GPUMEM_RESOURCE_ASYNC", "async", "async"), ("GPUMEM_RESOURCE_MANAGED", "managed", "managed")):
        done = run(place, "runtime_basic", policy, **{option: f"log({kind})"})
        check(f"gpumem: {kind}: cuMemAlloc of" in done.stderr, f"{option}: {done.stderr}")
        done = run(place, "runtime_basic", "observe", **{option: f"log({kind})"})
        check("gpumem: " not in done.stderr, f"{option} is not that of kind native: {done.stderr}")


def limited(place):
    """Above a limit of the stack the program gets out of memory; native memory does not step in."""
    done = place.run_shimmed([place.program("runtime_basic")], "observe", **{NATIVE: "limit(1KiB,async)"})
    check(done.returncode != 0 and re.search(r"cudaMalloc\(.*\): 2$", done.stdout + done.stderr, re.M), done.stdout + done.stderr)


def leaks(place):
    """Blocks that are never freed are reported at the end, with their call stacks."""
    done = run(place, "leaks", **{NATIVE: "track(native)"})
    check("gpumem: track: 5 blocks of native leaked, 149000 bytes" in done.stderr, done.stderr)
    check(len(re.findall(r"^gpumem: leaked: 3000 bytes", done.stderr, re.M)) == 3, done.stderr)
    check(len(re.findall(r"^gpumem:     \S.* \+ 0x", done.stderr, re.M)) >= 10, done.stderr)
    check("leaked" not in run(place, "runtime_basic", **{NATIVE: "track(native)"}).stderr, "a block leaks that is freed")


def wrong(place):
    """A text that cannot serve is reported with its reason. The program runs with its own calls."""
    for text, reason in (
        ("limit(2GiB)", '"2GiB" is not a resource'),
        ("nonsense", '"nonsense" is not a resource'),
        ("new-delete", "its memory is not device-accessible"),
        ("stream-bound(legacy,async)", "its memory is not any-context"),
        ("log(router)", "no memory of its own"),
        ("sim", "no memory of its own"),
        ("log($1)", '"$1" is not a resource'),
    ):
        done = run(place, "runtime_basic", **{NATIVE: text})
        check(f"gpumem: {NATIVE}: " in done.stderr and reason in done.stderr, f"{text}: {done.stderr}")


if __name__ == "__main__":
    sys.exit(run_case({"programs": programs, "served": served, "limited": limited, "leaks": leaks, "wrong": wrong}))
