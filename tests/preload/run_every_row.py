#!/usr/bin/env python3
"""Calls that find the device out of memory: every function of the driver's table is called, and is made once more just where the table
says so, once gpumem keeps memory.

usage: run_every_row.py --programs DIR --cuda DIR --shim FILE --work DIR CASE
"""

import sys

from place import check, run_case

FIRST, LATER = "2", "999"
RIGHT = {"NEVER": [FIRST] * 3, "ONCE": [FIRST] * 3, "CALL": [FIRST, LATER, LATER], "LAUNCH": [FIRST, LATER, LATER]}
# The policy decides what serves these (preload starved); and what gpumem calls itself may have the first error.
ELSEWHERE = {"cuMemAlloc_v2", "cuMemAllocPitch_v2", "cuCtxRecordEvent", "cuPointerGetAttribute"}


def rows(place):
    """Each row as the column memory says."""
    done = place.run_shimmed([place.program("every_row")], "cache", trace=False)
    found = [line.split(maxsplit=2) for line in done.stdout.splitlines()]
    check(done.returncode == 0 and len(found) > 700, f"{done.returncode} {len(found)} rows\n{done.stderr}")
    wrong = [f"{symbol}, {memory}: {results}" for symbol, memory, results in found
             if results.split() != RIGHT[memory] and symbol not in ELSEWHERE]  # fmt: skip
    check(not wrong, "\n".join(wrong))


def others(place):
    """Functions without a row, with more arguments than any that has one; and what unwinds the stack."""
    place.run_native([place.program("every_row"), "once"])
    for policy in ("cache", "async"):
        done = place.run_shimmed([place.program("every_row"), "again"], policy, trace=False)
        check((done.returncode, done.stdout) == (0, "ok every_row\n"), f"{policy}: {done.returncode} {done.stdout}{done.stderr}")


if __name__ == "__main__":
    sys.exit(run_case({"rows": rows, "others": others}))
