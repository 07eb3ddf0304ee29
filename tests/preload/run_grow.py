#!/usr/bin/env python3
"""GPUMEM_GROW under programs that grow arrays by hand: the results are the native ones in every mode, and pages move where, and only
where, nobody can tell.

usage: run_grow.py --program FILE --shim FILE [--cuda DIR] [--linked FILE] [--per-thread FILE] [--streams MODE]... [--full-card]

--linked: the same program linked with the driver, which nobody watches. --per-thread: compiled for per-thread default streams.
--streams: modes of the simulated streams, each tried; only with them is it known how small the card is, and what needs that is tried.
Most of it names what is taken (GPUMEM_GROW_MATCH=size>=2M), so that every growth counts; what happens by default is tried beside.
--full-card: tried, too, on a card that the program fills but for 800 MiB; of the host it takes as much.
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
# way: pages move
WAYS = {
    "plain": True, "synchronised": True, "asynchronous": True, "default_kind": True,
    "written_before": False, "interior": False, "exported": False, "peers": False, "busy": False,
    "read": False, "old_changed": False, "aside": False, "other_thread": False, "twice": False,
    "capturing": False, "captured_copy": False, "second_context": False, "per_thread": False, "exported_young": False, "asked": None,
}  # fmt: skip
MIB = 1 << 20
# Room for the array beside `aside`, but not for the last two steps' old and new.
SMALL_CARD = {"SIMCUDA_MEMORY": str(25 * MIB), "GPUMEM_OOM": "fail"}
BESIDE_A_SMALL_CARD = {"peers", "twice"}
# All that is large is taken, so that every growth counts; by default a site is left native until growth was seen there.
TAKEN = {"GPUMEM_GROW_MATCH": "size>=2M"}
# way: moves by default, where the first array of a site and the one it grew to are still copied
BY_DEFAULT = {"plain": STEPS - 2, "synchronised": STEPS - 2, "read": 0, "exported_each": 0, "exported_other": 0}
# what takes how many of the growths: the first array comes from another call site than the larger ones
MATCHES = {
    "seen": 2, "module=grow": STEPS, "module=libcudart.so.13": 0, "size>=6M": 3, "size>=6M;seen": 3, "device=0,size=1M..1G": STEPS,
    "device=1": 0, "nth=2..4": 2, "nth=2..3;seen": STEPS, "thread=2": 0, "stream=default": STEPS, "*": STEPS, "call=cuMemAlloc": STEPS,
}  # fmt: skip
WRONG_MATCHES = {"call=cuMemAllocAsync": "call=cuMemAllocAsync never grows", "size>=foo": 'wrong value "foo"', "#": "no condition",
                 "*->async": 'text behind a condition "->async"'}  # fmt: skip
REPORT = re.compile(r"gpumem: growth by hand (\d+) times, (\d+) bytes copied for it, at most (\d+) at once"
                    r"(?:; (\d+) times pages moved instead, (\d+) bytes not copied, (\d+) copies put off and made)?"
                    r"(?:; (\d+) blocks that the device had no memory for)?")  # fmt: skip


def run(options, program, way, **settings):
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("GPUMEM_", "LD_PRELOAD"))}
    if options.cuda:
        environment["LD_LIBRARY_PATH"] = ":".join(filter(None, [str(options.cuda), environment.get("LD_LIBRARY_PATH")]))
        environment["SIMCUDA_DEVICES"] = "2" if way == "peers" else "1"
    environment.update({name: value for name, value in {**TAKEN, **settings}.items() if value is not None})
    return subprocess.run([str(program), *way.split()], env=environment, capture_output=True, text=True, timeout=120)


def troubles(options, program, way, moves, streams):
    native = run(options, program, way, **streams)
    if native.returncode == 77:
        return
    if native.returncode:
        yield f"natively {native.returncode}: {native.stderr}"
        return
    for mode in ("report", "vmm", "move", "move-overcommit"):
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
        if mode.startswith("move"):
            want = int(told[4]) if moves is None else STEPS if moves else 0
            if int(told[4]) != want or (moves and int(told[5]) != int(told[2])):
                yield f"{mode}: {told[4]} moves, {told[5]} of {told[2]} bytes, not {want}"
        if mode == "move-overcommit" and told[7] != "0":
            yield f"{told[7]} blocks on the host though the device had memory"


def small_card(options, way, moves, streams):
    """Old and new do not fit: natively the program ends, overcommitted it goes on, on the device where nobody interferes."""
    settings = {**streams, **SMALL_CARD}
    for mode in ("", "move"):
        done = run(options, options.program, way, **settings, **({"LD_PRELOAD": str(options.shim), "GPUMEM_GROW": mode} if mode else {}))
        if done.returncode == 0:
            yield f"small card: {mode or 'natively'} there was enough memory"
    settings.update(LD_PRELOAD=str(options.shim), GPUMEM_GROW="move-overcommit")
    done = run(options, options.program, way, **settings)
    told = REPORT.search(done.stderr)
    if done.returncode or not told or not told[7]:
        yield f"small card: {done.returncode} {done.stdout}{done.stderr[-600:]}"
    elif moves and (int(told[4]), int(told[7])) != (STEPS, 2):
        yield f"small card: {told[4]} moves, {told[7]} blocks on the host"
    elif moves is False and (int(told[4]) or not int(told[7])):
        yield f"small card: {told[4]} moves, {told[7]} blocks on the host"
    elif moves is None and (int(told[4]), int(told[7])) != (2, 1):  # whoever was told that it lies on the host must find it there
        yield f"small card: {told[4]} moves, {told[7]} blocks on the host"


def full_card(options, way, moves):
    for mode in ("", "move", "move-overcommit"):
        settings = {"LD_PRELOAD": str(options.shim), "GPUMEM_GROW": mode, "GPUMEM_OOM": "fail"} if mode else {}
        done = run(options, options.program, f"{way} large", **settings)
        told = REPORT.search(done.stderr)
        if mode != "move-overcommit" and done.returncode == 0:
            yield f"full card: {mode or 'natively'} there was enough memory"
        elif mode == "move-overcommit" and (done.returncode or not told or not int(told[7]) or int(told[4]) != (STEPS if moves else 0)):
            yield f"full card: {done.returncode} {done.stdout}{done.stderr[-600:]}"


def no_way_out(options):
    """Device memory for the excess, host memory, addresses, the mapping: whichever is not to be had, the program gets its error."""
    settings = {**SMALL_CARD, "LD_PRELOAD": str(options.shim), "GPUMEM_GROW": "move-overcommit"}
    # From which call on each fails: those that the first block on the host makes, and the trial of the device before it.
    for failure in ("cuMemCreate:7", "cuMemCreate:8", "cuMemCreate:9", "cuMemAddressReserve:4", "cuMemAddressReserve:5", "cuMemMap:9",
                    "cuMemMap:14", "cuMemSetAccess:6", "cuMemSetAccess:8"):  # fmt: skip
        done = run(options, options.program, "plain", SIMCUDA_FAIL=failure + ":2:1000", **settings)
        if done.returncode != 1 or "cudaMalloc" not in done.stderr:
            yield f"{failure}: {done.returncode} {done.stdout}{done.stderr[-300:]}"


def slow_answers(options):
    """A device that has nothing to do still takes microseconds to say so: pages move. One that says nothing for long is busy."""
    for answer, moves in (20000, STEPS), (100000000, 0):
        done = run(options, options.program, "plain", LD_PRELOAD=str(options.shim), GPUMEM_GROW="move", SIMCUDA_ANSWER=str(answer))
        told = REPORT.search(done.stderr)
        if done.returncode or not told or int(told[4]) != moves:
            yield f"answers after {answer} ns: {done.returncode} {done.stderr}, not {moves} moves"


def spare_pages(options):
    """What a new block has in front until the old pages come serves the next one: the driver makes each page about twice, however many
    steps there are. Without the cache's leave it makes them at every step, as natively."""
    with tempfile.TemporaryDirectory() as work:
        for limit, least, most in ("0", 1, 2), ("1", 2.5, 3):
            log = pathlib.Path(work, limit)
            done = run(options, options.program, "plain", LD_PRELOAD=str(options.shim), GPUMEM_GROW="move", GPUMEM_CACHE_LIMIT=limit,
                       SIMCUDA_LOG=str(log))
            made = [int(size) for size in re.findall(r" cuMemCreate .* size=(\d+)", log.read_text())]
            largest = 22 * MIB  # of the array
            if done.returncode or not least <= sum(made) / largest <= most:
                yield f"spare pages, limit {limit}: {done.returncode} {done.stderr}, {made} made"


def by_default(options):
    """Pages move once growth was seen, and whoever exports a block gets its handle: nothing that did not grow was touched."""
    for (way, moves), mode in itertools.product(BY_DEFAULT.items(), ("vmm", "move", "move-overcommit")):
        native = run(options, options.program, way)
        done = run(options, options.program, way, LD_PRELOAD=str(options.shim), GPUMEM_GROW=mode, GPUMEM_GROW_MATCH=None)
        told = REPORT.search(done.stderr)
        if (done.returncode, done.stdout) != (native.returncode, native.stdout):
            yield f"{mode} by default, {way}: {done.returncode} {done.stdout}{done.stderr}, natively {native.returncode} {native.stderr}"
        elif mode != "vmm" and (not told or (int(told[1]), int(told[4])) != (STEPS, moves)):
            yield f"{mode} by default, {way}: {done.stderr}, not {moves} moves"


def matched(options):
    for match, moves in MATCHES.items():
        done = run(options, options.program, "plain", LD_PRELOAD=str(options.shim), GPUMEM_GROW="move", GPUMEM_GROW_MATCH=match)
        told = REPORT.search(done.stderr)
        if done.returncode or not told or int(told[4]) != moves:
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
        told = REPORT.search(done.stderr)
        if done.returncode or not told or int(told[4]) != moves:
            yield f"by site {name}+{offset:#x}: {done.returncode} {done.stderr}, not {moves} moves"


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    for name in ("program", "shim", "cuda", "linked", "per-thread"):
        parser.add_argument(f"--{name}", type=pathlib.Path)
    parser.add_argument("--streams", action="append", default=[])
    parser.add_argument("--full-card", action="store_true")
    options = parser.parse_args()
    failed = 0
    for way in ("plain", "synchronised", "written_before", "interior", "read", "old_changed", "other_thread") if options.full_card else ():
        for trouble in full_card(options, way, WAYS[way]):
            failed += 1
            print(f"{way}: {trouble}")
    for streams in [{"SIMCUDA_STREAMS": mode} for mode in options.streams] or [{}]:
        cases = [(options.program, way, moves) for way, moves in WAYS.items()]
        cases += [(options.program, "written_before whole", True), (options.program, "plain whole", True)]
        if options.linked:
            cases.append((options.linked, "plain", False))
        if options.per_thread:
            cases += [(options.per_thread, way, False) for way in ("plain", "synchronised", "default_kind", "old_changed")]
        with concurrent.futures.ThreadPoolExecutor(min(8, os.cpu_count())) as pool:
            found = pool.map(lambda case: list(troubles(options, *case, streams)), cases)
        for (program, way, _), wrong in zip(cases, found):
            for trouble in wrong:
                failed += 1
                print(f"{way} {' '.join(streams.values())} {program.name}: {trouble}")
        if streams:
            for way, moves in WAYS.items():
                for trouble in small_card(options, way, moves, streams) if way not in BESIDE_A_SMALL_CARD else ():
                    failed += 1
                    print(f"{way} {' '.join(streams.values())}: {trouble}")
    once = [matched, by_site, no_way_out, slow_answers, spare_pages] if "immediate" in options.streams else []
    for trouble in itertools.chain.from_iterable(check(options) for check in [by_default, *once]):
        failed += 1
        print(trouble)
    print(f"{failed} wrong" if failed else "ok grow")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
