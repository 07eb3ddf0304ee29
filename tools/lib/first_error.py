#!/usr/bin/env python3
"""Why a build failed, in one line.

usage: first_error.py LOG    of ninja; prints "TARGET: WHY" of the first target that failed
"""
import re
import sys

NEXT = re.compile(r"\[\d+/\d+\] |FAILED: |ninja: ")
ERROR = re.compile(r"\berror\b|\bfatal\b|cannot find|undefined reference|no such file|not found", re.IGNORECASE)
COLOURS = re.compile(r"\033\[[0-9;]*[mK]")
WIDTH = 300


def first_error(log):
    """Of the output of a failed command the first line that says error, otherwise the first one at all."""
    lines = [COLOURS.sub("", line).rstrip() for line in log.splitlines()]
    failed = next((at for at, line in enumerate(lines) if line.startswith("FAILED: ")), None)
    if failed is None:
        return next((line for line in reversed(lines) if line), "it says nothing")
    target = re.sub(r"^FAILED: (\[code=\d+\] )?", "", lines[failed])
    said = []
    for line in lines[failed + 2:]:  # behind the command
        if NEXT.match(line):
            break
        said += [line.strip()] if line else []
    why = next(filter(ERROR.search, said), said[0] if said else "it says nothing")
    return f"{target}: {why}"[:WIDTH]


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8", errors="replace") as log:
        print(first_error(log.read()))
