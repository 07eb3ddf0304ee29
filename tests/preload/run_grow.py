#!/usr/bin/env python3
"""GPUMEM_GROW under programs that grow arrays by hand: the results are the native ones in every mode, and pages move where, and only
where, nobody can tell.

usage: run_grow.py --program FILE --shim FILE [--cuda DIR] [--linked FILE] [--streams MODE]...

--linked: the same program linked with the driver, which nobody watches. --streams: modes of the simulated streams, each tried.
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys

STEPS = 4
# way: pages move
WAYS = {
    "plain": True, "synchronised": True, "asynchronous": True, "default_kind": True,
    "written_before": False, "interior": False, "exported": False, "peers": False, "busy": False,
    "read": False, "old_changed": False, "aside": False, "other_thread": False, "twice": False,
}  # fmt: skip
REPORT = re.compile(r"gpumem: growth by hand (\d+) times, (\d+) bytes copied for it, at most (\d+) at once"
                    r"(?:; (\d+) times pages moved instead, (\d+) bytes not copied, (\d+) copies put off and made)?")  # fmt: skip


def run(options, program, way, **settings):
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("GPUMEM_", "LD_PRELOAD"))}
    if options.cuda:
        environment["LD_LIBRARY_PATH"] = ":".join(filter(None, [str(options.cuda), environment.get("LD_LIBRARY_PATH")]))
        environment["SIMCUDA_DEVICES"] = "2" if way == "peers" else "1"
    environment.update(settings)
    return subprocess.run([str(program), *way.split()], env=environment, capture_output=True, text=True, timeout=120)


def troubles(options, program, way, moves, streams):
    native = run(options, program, way, **streams)
    if native.returncode == 77:
        return
    if native.returncode:
        yield f"natively {native.returncode}: {native.stderr}"
        return
    for mode in ("report", "vmm", "move"):
        done = run(options, program, way, LD_PRELOAD=str(options.shim), GPUMEM_GROW=mode, **streams)
        if (done.returncode, done.stdout) != (0, native.stdout):
            yield f"{mode}: {done.returncode} {done.stdout}{done.stderr[-600:]}"
            continue
        told = REPORT.search(done.stderr)
        if (told is not None) != (mode != "vmm"):
            yield f"{mode} says: {done.stderr}"
        if not told:
            continue
        if int(told[1]) != STEPS:
            yield f"{mode}: {told[1]} growths, not {STEPS}"
        if mode == "move":
            want = STEPS if moves else 0
            if int(told[4]) != want or (moves and int(told[5]) != int(told[2])):
                yield f"{told[4]} moves, {told[5]} of {told[2]} bytes, not {want}"


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    for name in ("program", "shim", "cuda", "linked"):
        parser.add_argument(f"--{name}", type=pathlib.Path)
    parser.add_argument("--streams", action="append", default=[])
    options = parser.parse_args()
    failed = 0
    for streams in [{"SIMCUDA_STREAMS": mode} for mode in options.streams] or [{}]:
        cases = [(options.program, way, moves) for way, moves in WAYS.items()]
        cases += [(options.program, "written_before whole", True), (options.program, "plain whole", True)]
        if options.linked:
            cases.append((options.linked, "plain", False))
        for program, way, moves in cases:
            for trouble in troubles(options, program, way, moves, streams):
                failed += 1
                print(f"{way} {' '.join(streams.values())}{' linked' if program == options.linked else ''}: {trouble}")
    print(f"{failed} wrong" if failed else "ok grow")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
