#!/usr/bin/env python3
"""GPUMEM_GROW under programs that grow arrays by hand. In every mode the output is the native one. Under move, pages are handed over in
exactly those cases in which the program cannot see it.

usage: run_grow.py --program FILE --shim FILE [--cuda DIR] [--linked FILE] [--per-thread FILE] [--streams MODE]...

--linked: the same program; it calls the driver by the names that the linker bound. --per-thread: the program, compiled for
per-thread default streams. --streams: mode of the simulated streams; may be repeated, and each mode is tried. Checks that need the
simulated CUDA run only with "immediate".
Most checks take every large block (GPUMEM_GROW_MATCH=size>=2M), so that each growth counts. by_default checks the default condition.
"""

import argparse
import concurrent.futures
import itertools
import os
import pathlib
import re
import subprocess
import sys
import tempfile

STEPS = 4
# Each way to grow an array, an argument of the program: are its pages handed over?
WAYS = {
    "plain": True, "synchronised": True, "asynchronous": True, "default_kind": True, "queried": True,
    "written_before": False, "interior": False, "exported": False, "peers": False, "busy": False,
    "read": False, "old_changed": False, "other_block": False, "other_thread": False, "twice": False,
    "capturing": False, "captured_copy": False, "second_context": False, "per_thread": False, "exported_grown": False,
}  # fmt: skip
MIB = 1 << 20
TAKE_ALL = {"GPUMEM_GROW_MATCH": "size>=2M"}
# Handovers with the default condition: the first array of a call site is copied, and so is the one that it grows to.
BY_DEFAULT = {"plain": STEPS - 2, "synchronised": STEPS - 2, "read": 0, "exported_each": 0, "exported_other": 0}
# Handovers with each condition. The first array has another call site than the larger ones.
MATCHES = {
    "seen": 2, "module=grow": STEPS, "module=libcudart.so.13": 0, "size>=6M": 3, "size>=6M;seen": 3, "device=0,size=1M..1G": STEPS,
    "device=1": 0, "nth=2..4": 2, "nth=2..3;seen": STEPS, "thread=2": 0, "stream=default": STEPS, "*": STEPS, "call=cuMemAlloc": STEPS,
}  # fmt: skip
WRONG_MATCHES = {"call=cuMemAllocAsync": "call=cuMemAllocAsync never grows", "size>=foo": 'wrong value "foo"', "#": "no condition",
                 "*->async": 'text after a condition "->async"'}  # fmt: skip
REPORT = re.compile(r"gpumem: growth by hand (\d+) times, (\d+) bytes copied for it, at most (\d+) at once"
                    r"(?:; (\d+) times pages moved instead, (\d+) bytes not copied, (\d+) copies put off and made)?")  # fmt: skip


def run(options, program, way, **settings):
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("GPUMEM_", "LD_PRELOAD"))}
    if options.cuda:
        environment["LD_LIBRARY_PATH"] = ":".join(filter(None, [str(options.cuda), environment.get("LD_LIBRARY_PATH")]))
        environment["SIMCUDA_DEVICES"] = "2" if way == "peers" else "1"
    environment.update({name: value for name, value in {**TAKE_ALL, **settings}.items() if value is not None})
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
        counts = REPORT.search(done.stderr)
        if (counts is not None) != (mode != "vmm"):
            yield f"{mode} reports: {done.stderr}"
        if not counts:
            continue
        if int(counts[1]) != STEPS:
            yield f"{mode}: {counts[1]} growths, not {STEPS}"
        if mode == "move":
            want = STEPS if moves else 0
            if int(counts[4]) != want or (moves and int(counts[5]) != int(counts[2])):
                yield f"{mode}: {counts[4]} moves, {counts[5]} of {counts[2]} bytes, not {want}"


def slow_answers(options):
    """An idle device takes microseconds to answer that it is idle: pages are handed over. One that takes long counts as busy."""
    for answer, moves in (20000, STEPS), (100000000, 0):
        for _ in range(5):  # a busy machine answers late, too
            done = run(options, options.program, "plain", LD_PRELOAD=str(options.shim), GPUMEM_GROW="move", SIMCUDA_ANSWER=str(answer))
            counts = REPORT.search(done.stderr)
            right = done.returncode == 0 and counts and int(counts[4]) == moves
            if right:
                break
        if not right:
            yield f"answers after {answer} ns: {done.returncode} {done.stderr}, not {moves} moves"


def page_reserve(options):
    """Pages that a handover replaces serve the front of the next block: the driver creates at most twice the size of the last array,
    however many steps there are. With a cache limit of one byte nothing is kept, and each step creates its whole block."""
    with tempfile.TemporaryDirectory() as work:
        for limit, least, most in ("0", 1, 2), ("1", 2.5, 3):
            log = pathlib.Path(work, limit)
            done = run(options, options.program, "plain", LD_PRELOAD=str(options.shim), GPUMEM_GROW="move", GPUMEM_CACHE_LIMIT=limit,
                       SIMCUDA_LOG=str(log))
            created = [int(size) for size in re.findall(r" cuMemCreate .* size=(\d+)", log.read_text())]
            last = 22 * MIB  # size of the last array
            if done.returncode or not least <= sum(created) / last <= most:
                yield f"page reserve, limit {limit}: {done.returncode} {done.stderr}, {created} created"


def failures(options):
    """Each driver call that mapping or a handover makes fails once: the output is the native one, and each growth is seen."""
    native = run(options, options.program, "plain")
    for function, calls in ("cuMemCreate", 9), ("cuMemAddressReserve", 5), ("cuMemMap", 25), ("cuMemSetAccess", 9), ("cuMemUnmap", 25):
        for n in range(1, calls + 1):
            done = run(options, options.program, "plain", LD_PRELOAD=str(options.shim), GPUMEM_GROW="move", SIMCUDA_FAIL=f"{function}:{n}")
            counts = REPORT.search(done.stderr)
            if (done.returncode, done.stdout) != (native.returncode, native.stdout) or not counts or int(counts[1]) != STEPS:
                yield f"{function}:{n} fails: {done.returncode} {done.stdout}{done.stderr[-600:]}"


def by_default(options):
    """Pages are handed over only after a growth was seen at the call site, and a block that did not grow can still be exported."""
    for (way, moves), mode in itertools.product(BY_DEFAULT.items(), ("vmm", "move")):
        native = run(options, options.program, way)
        done = run(options, options.program, way, LD_PRELOAD=str(options.shim), GPUMEM_GROW=mode, GPUMEM_GROW_MATCH=None)
        counts = REPORT.search(done.stderr)
        if (done.returncode, done.stdout) != (native.returncode, native.stdout):
            yield f"{mode} by default, {way}: {done.returncode} {done.stdout}{done.stderr}, natively {native.returncode} {native.stderr}"
        elif mode != "vmm" and (not counts or (int(counts[1]), int(counts[4])) != (STEPS, moves)):
            yield f"{mode} by default, {way}: {done.stderr}, not {moves} moves"


def matched(options):
    for match, moves in MATCHES.items():
        done = run(options, options.program, "plain", LD_PRELOAD=str(options.shim), GPUMEM_GROW="move", GPUMEM_GROW_MATCH=match)
        counts = REPORT.search(done.stderr)
        if done.returncode or not counts or int(counts[4]) != moves:
            yield f"matched by {match}: {done.returncode} {done.stderr}, not {moves} moves"
    for match, says in WRONG_MATCHES.items():
        done = run(options, options.program, "plain", LD_PRELOAD=str(options.shim), GPUMEM_GROW="move", GPUMEM_GROW_MATCH=match)
        if done.returncode or f"GPUMEM_GROW_MATCH: {says}" not in done.stderr or "using size>=2M,seen" not in done.stderr:
            yield f"matched by {match}: {done.returncode} {done.stderr}"


def site_of_larger_blocks(options, work):
    """MODULE+0xOFFSET of the program's frame at the allocation of 8 MiB and more, from a trace."""
    trace = pathlib.Path(work, "trace.csv")
    run(options, options.program, "plain", LD_PRELOAD=str(options.shim), GPUMEM_TRACE=str(trace), GPUMEM_TRACE_FORMAT="csv")
    modules, sites = [], {}
    for line in trace.read_text().splitlines():
        words = line.split()
        if line.startswith("# module "):
            modules.append((int(words[2], 16), int(words[4], 16), int(words[3], 16), pathlib.Path(words[-1]).name))
        elif line.startswith("# site "):
            sites[words[2]] = [int(word, 16) for word in words[4:]]
        elif ",alloc,cuMemAlloc," in line and int(line.split(",")[5]) > 5 * MIB:
            return modules, sites[line.split(",")[15]]
    return modules, []


def by_site(options):
    with tempfile.TemporaryDirectory() as work:
        modules, frames = site_of_larger_blocks(options, work)
    name = options.program.name
    starts = [min(module[:3]) & ~0xFFF for module in modules if module[3] == name]
    inside = [frame for frame in frames for start in starts if 0 <= frame - start < 1 << 16]
    if not inside:
        yield f"no frame of {name} in {frames}, {modules}"
        return
    for offset, moves in ((inside[0] - starts[0], STEPS - 1), (inside[0] - starts[0] + 1, 0)):
        done = run(options, options.program, "plain", LD_PRELOAD=str(options.shim), GPUMEM_GROW="move",
                   GPUMEM_GROW_MATCH=f"site={name}+{offset:#x}")
        counts = REPORT.search(done.stderr)
        if done.returncode or not counts or int(counts[4]) != moves:
            yield f"by site {name}+{offset:#x}: {done.returncode} {done.stderr}, not {moves} moves"


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    for name in ("program", "shim", "cuda", "linked", "per-thread"):
        parser.add_argument(f"--{name}", type=pathlib.Path)
    parser.add_argument("--streams", action="append", default=[])
    options = parser.parse_args()
    failed = 0
    for streams in [{"SIMCUDA_STREAMS": mode} for mode in options.streams] or [{}]:
        cases = [(options.program, way, moves) for way, moves in WAYS.items()]
        cases += [(options.program, "written_before whole", True), (options.program, "plain whole", True)]
        if options.linked:
            cases += [(options.linked, way, WAYS[way]) for way in ("plain", "synchronised", "twice", "other_block", "other_thread")]
        if options.per_thread:
            cases += [(options.per_thread, way, False) for way in ("plain", "synchronised", "default_kind", "old_changed")]
        with concurrent.futures.ThreadPoolExecutor(min(8, os.cpu_count())) as pool:
            found = pool.map(lambda case: list(troubles(options, *case, streams)), cases)
        for (program, way, _), wrong in zip(cases, found):
            for trouble in wrong:
                failed += 1
                print(f"{way} {' '.join(streams.values())} {program.name}: {trouble}")
    simulated_once = [matched, by_site, failures, slow_answers, page_reserve] if "immediate" in options.streams else []
    once = [by_default] if not options.streams or "immediate" in options.streams else []
    for trouble in itertools.chain.from_iterable(check(options) for check in [*once, *simulated_once]):
        failed += 1
        print(trouble)
    print(f"{failed} wrong" if failed else "ok grow")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
