#!/usr/bin/env python3
"""Stack that the shim takes from threads of the program, which may have made them small.

usage: run_stack.py --programs DIR --cuda DIR --shim FILE --work DIR CASE
"""
import sys

from place import check, run_case

# Bytes, over what the same calls take natively. The shim stays below 8 KiB, of which the driver's part may hide some.
MOST = 6 << 10
STEPS = ["first", "pairs", "other_kinds", "vmm", "questions", "growing", "out_of_memory", "capturing", "forked", "reset"]
CARD = {"SIMCUDA_MEMORY": str(64 << 20)}
SETTINGS = [
    {},
    {"GPUMEM_TRACE": "{folder}/trace-%p.csv", "GPUMEM_LOG": "debug"},
    {"GPUMEM_TRACE": "{folder}/trace-%p.trace", "GPUMEM_STACKS": "60"},
    {"GPUMEM_LOG": "debug", "GPUMEM_COVERAGE": "1", "GPUMEM_LIMIT": "32M"},
    {"GPUMEM_GROW": "vmm"},
    {"GPUMEM_GROW": "move"},
    {"GPUMEM_GROW": "move", "GPUMEM_TRACE": "{folder}/trace-%p.csv"},
    {"GPUMEM_POLICY": "static:size>=1M->async;site=libnone.so->managed;*->cache"},
    *({"GPUMEM_POLICY": policy} for policy in ("observe", "cache", "async", "managed", "active-list")),
]


def start(place, settings, *words):
    """Under the shim, and whatever memory runs out all steps against it."""
    folder = str(place.options.work / f"run-{place.runs + 1}")
    named = {name: value.replace("{folder}", folder) for name, value in settings.items()}
    done = place.run([place.program("small_stack"), *words], (place.options.shim,),
                     **{"GPUMEM_OOM": "trim,host,managed,fail", **CARD, **named})
    check(done.returncode == 0, f"{settings}: exit status {done.returncode}\n{done.stdout}{done.stderr}")
    return done


def depths(done):
    return {name: int(depth) for name, depth in (line.split() for line in done.stdout.splitlines()[:-1])}


def deepest(place):
    native = depths(place.run_native([place.program("small_stack")], **CARD))
    check(sorted(native) == sorted(STEPS), f"steps: {native}")
    for settings in SETTINGS:
        more = {name: depth - native[name] for name, depth in depths(start(place, settings)).items()}
        print(settings, more)
        check(max(more.values()) <= MOST, f"{settings}: more than {MOST} bytes of stack: {more}")


def smallest(place):
    """Every step in a thread of 16 KiB."""
    place.run_native([place.program("small_stack"), "threads", *STEPS], **CARD)
    for settings in SETTINGS:
        start(place, settings, "threads", *STEPS)


if __name__ == "__main__":
    sys.exit(run_case({"deepest": deepest, "smallest": smallest}))
