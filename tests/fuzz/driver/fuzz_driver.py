#!/usr/bin/env python3
"""Random programs of driver calls whose result is determined natively (plan.h), natively and under the shim.

Natively every program must be as its plan says, or plan or driver are wrong. Under the shim it must be the same, and print
the same. The first that is not is made as short as can be: steps are left out while it still fails. What remains is
printed with the command that shows it again. Exit status 1 then.

On the simulated driver, work begins as late as can be (SIMCUDA_STREAMS=manual) or at random. On a card (--kernels) it is
preceded by a kernel that spins."""

import argparse
import concurrent.futures
import itertools
import os
import pathlib
import random
import re
import subprocess
import sys
import time

TIME_LIMIT_S = 40
SHORTEN_S = 60
MUST_CATCH = 3  # of the first seeds under frees that do not wait
FIRST_SEEDS = 30

POLICIES = ("auto", "cache", "async", "managed", "active-list", "static:*->async")
# What a user may set beside, and drivers that a program may meet. The promise holds all the same.
FURTHER = (
    {"GPUMEM_POLICY": "cache", "GPUMEM_FENCE_BATCH": "1"},
    {"GPUMEM_POLICY": "cache", "GPUMEM_FENCE_BATCH": "1", "GPUMEM_CACHE_LIMIT": "1M"},
    {"GPUMEM_POLICY": "managed", "GPUMEM_MANAGED": "plain"},
    {"GPUMEM_POLICY": "auto", "GPUMEM_GROW": "vmm"},
    {"GPUMEM_POLICY": "cache", "GPUMEM_GROW": "move"},
    {"GPUMEM_POLICY": "observe"},
    {"GPUMEM_POLICY": "cache", "GPUMEM_STRICT": "1"},
    {"GPUMEM_POLICY": "auto", "GPUMEM_TRACE": "/dev/null"},
)
OLD_DRIVERS = (
    {"GPUMEM_POLICY": "cache", "SIMCUDA_HIDE": "cuCtxRecordEvent"},
    {"GPUMEM_POLICY": "async", "SIMCUDA_HIDE": "cuCtxRecordEvent"},
    {"GPUMEM_POLICY": "auto", "SIMCUDA_HIDE": "cuCtxWaitEvent"},
)


class Run:
    """What a program did."""

    def __init__(self, status, text):
        self.status, self.text = status, text

    def differs_from(self, native):
        return self.status != 0 or self.text != native.text

    def sort(self):
        """What two failures of one fault have in common, mostly."""
        return self.status, re.sub(r"\d+", "", (self.text.splitlines() or [""])[0].split(",")[-1].split(": word")[0])


class Fuzzer:
    def __init__(self, options):
        self.options = options
        self.until = time.monotonic() + options.seconds  # of all phases
        self.settings = [{"GPUMEM_POLICY": policy, "GPUMEM_FREE": "safe"} for policy in POLICIES]
        self.settings += [{"GPUMEM_POLICY": policy, "GPUMEM_FREE": "wait"} for policy in POLICIES[:3]]
        self.settings += [{"GPUMEM_FREE": "safe", **further} for further in FURTHER]
        self.settings += [{"GPUMEM_POLICY": policy, "GPUMEM_FREE": "order"} for policy in ("cache", "async")]
        if not options.kernels:
            self.settings += [{"GPUMEM_FREE": "safe", **further} for further in OLD_DRIVERS]
        if options.only:
            self.settings = [dict(word.split("=", 1) for word in options.only.split(","))]

    def command(self, seed, row, steps, without=()):
        programs = [self.options.program] + ([self.options.linked] if self.options.linked else [])
        words = [str(programs[seed % 4 == 3 and len(programs) > 1]), f"--seed={seed}", f"--steps={steps}"]
        if self.options.kernels:
            words += [f"--kernels={self.options.kernels}", f"--devices={self.options.devices}"]
        words += self.limits(row)
        return words + ([f"--without={','.join(map(str, without))}"] if without else [])

    def limits(self, row):
        """What a program must not do under these settings: a free that does not wait cannot return a later fault."""
        free = (row or {}).get("GPUMEM_FREE", "safe")
        lacks = ([self.options.lacks] if self.options.lacks else []) + (["faults"] if row and free != "wait" else [])
        device = ["--device"] if self.options.device or free == "order" else []
        return ([f"--lacks={','.join(lacks)}"] if lacks else []) + device

    def surroundings(self, seed):
        """The simulated driver of a seed, and nothing of who runs the test."""
        kept = {name: value for name, value in os.environ.items()
                if not name.startswith(("GPUMEM_", "SIMCUDA_")) and name != "LD_PRELOAD"}
        if self.options.kernels:
            return kept
        return {**kept, "LD_LIBRARY_PATH": str(self.options.cuda), "SIMCUDA_DEVICES": "2",
                "SIMCUDA_STREAMS": f"random:{seed}" if seed % 3 == 1 else "manual",
                "SIMCUDA_FREE": "locked" if seed % 5 == 2 else "context",
                "SIMCUDA_MEMORY": "256M" if seed % 7 == 3 else "4G"}

    def run(self, seed, row, steps, without=(), natively=False):
        """row: settings; None: natively."""
        more = {"LD_PRELOAD": str(self.options.shim), "GPUMEM_LOG": "off", **row} if row and not natively else {}
        try:
            done = subprocess.run(self.command(seed, row, steps, without), env={**self.surroundings(seed), **more},
                                  capture_output=True, text=True, timeout=TIME_LIMIT_S)
        except subprocess.TimeoutExpired:
            return Run(124, "does not end\n")
        return Run(done.returncode, done.stdout if done.returncode == 0 else done.stdout + done.stderr)

    def judged(self, seed, settings):
        """What is wrong with a seed under these settings, or None."""
        natives = {}
        for row in settings or [None]:
            program = tuple(self.limits(row))
            native = natives.get(program) or self.run(seed, row, self.options.steps, natively=True)
            natives[program] = native
            if native.status == 77:
                sys.exit(77)
            if native.status != 0:
                return seed, None, native
            for _ in range(self.options.repeat if row else 0):
                shimmed = self.run(seed, row, self.options.steps)
                if shimmed.differs_from(native):
                    return seed, row, shimmed
        return None

    def fails(self, seed, row, steps, without, like):
        """The run if it fails like another one, at least once: threads may race."""
        tries = (self.fails_once(seed, row, steps, without, like) for _ in range(self.options.repeat))
        return next(filter(None, tries), None)

    def fails_once(self, seed, row, steps, without, like):
        native = self.run(seed, row, steps, without, natively=True)
        run = native if row is None else self.run(seed, row, steps, without)
        failed = native.status != 0 if row is None else native.status == 0 and run.differs_from(native)
        return run if failed and run.sort() == like.sort() else None

    def shortened(self, seed, row, run):
        """(steps, steps left out, run) that still fails."""
        until, steps, without, last = time.monotonic() + SHORTEN_S, self.options.steps, (), None
        for fewer in range(1, steps):
            if time.monotonic() > until:
                break
            if fewer in (1, 2, 3, 5, 8) or fewer % 10 == 0:
                last = self.fails(seed, row, fewer, (), run)
            if last:
                steps = fewer
                break
        chunk = max(steps // 2, 1)
        while chunk and time.monotonic() < until:
            for first in range(1, steps + 1, chunk):
                more = tuple(sorted({*without, *range(first, min(first + chunk, steps + 1))}))
                found = more != without and self.fails(seed, row, steps, more, run)
                if found:
                    without, last = more, found
            chunk //= 2
        return steps, without, last or run

    def report(self, seed, row, run):
        if self.options.shorten:
            steps, without, run = self.shortened(seed, row, run)
        else:
            steps, without = self.options.steps, ()
        command = self.command(seed, row, steps, without)
        given = [f"{name}={value}" for name, value in self.surroundings(seed).items()
                 if name.startswith("SIMCUDA_") or (name == "LD_LIBRARY_PATH" and not self.options.kernels)]
        shim = [] if row is None else [f"LD_PRELOAD={self.options.shim}", *(f"{k}={v}" for k, v in row.items())]
        plan = subprocess.run([str(self.options.program), *command[1:], "--print"], capture_output=True, text=True).stdout.splitlines()
        print(f"FAILED seed {seed} {'natively' if row is None else row}: exit {run.status}", *given, *shim, *command, sep=" ")
        print("\n".join(line for line in run.text.splitlines()[-8:]))
        print("\n".join(plan if len(plan) < 60 else plan[:60] + ["..."]))
        sys.stdout.flush()

    def rows_of(self, seed):
        """Some settings: all of them within a few seeds."""
        most = self.options.each
        if most >= len(self.settings):
            return self.settings
        chosen = random.Random(seed)
        return chosen.sample(self.settings, most)


def caught(fuzzer):
    """Frees that do not wait must show, or nothing above would prove anything."""
    row = {"GPUMEM_POLICY": "cache", "GPUMEM_FREE": "async"}
    with concurrent.futures.ThreadPoolExecutor(fuzzer.options.jobs) as pool:
        found = list(pool.map(lambda seed: fuzzer.judged(seed, [row]) is not None, range(1, FIRST_SEEDS + 1)))
    return sum(found)


def search(fuzzer):
    """(programs, failures)"""
    options, failures, count = fuzzer.options, 0, 0
    until = fuzzer.until
    seeds = itertools.count(options.seed)
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        waiting = set()
        while time.monotonic() < until or waiting:
            while time.monotonic() < until and len(waiting) < options.jobs + 1:
                seed = next(seeds)
                waiting.add(pool.submit(fuzzer.judged, seed, fuzzer.rows_of(seed)))
            done, waiting = concurrent.futures.wait(waiting, return_when=concurrent.futures.FIRST_COMPLETED)
            for found in sorted(filter(None, (future.result() for future in done)), key=lambda found: found[0]):
                failures += 1
                fuzzer.report(*found)
                if failures >= options.failures:
                    return count, failures
            count += len(done)
            if count % 50 < len(done):
                print(f"{count} programs, {failures} failures so far", flush=True)
    return count, failures


def parse(words):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--program", type=pathlib.Path, required=True)
    parser.add_argument("--linked", type=pathlib.Path, help="the same, linked with the driver: every fourth seed")
    parser.add_argument("--shim", type=pathlib.Path, required=True)
    parser.add_argument("--cuda", type=pathlib.Path, help="folder of the simulated driver")
    parser.add_argument("--kernels", type=pathlib.Path, help="folder of the kernels for a card: the driver is a real one")
    parser.add_argument("--devices", type=int, default=1, help="cards to use, at most 2")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1, help="the first")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--each", type=int, default=3, help="settings that each seed is tried under; 0: natively only")
    parser.add_argument("--only", help="the only settings, NAME=VALUE,...")
    parser.add_argument("--device", action="store_true", help="only what needs no more than order on the device")
    parser.add_argument("--lacks", help="features that no program has, by their names in model.h, with commas")
    parser.add_argument("--failures", type=int, default=1, help="that end the search")
    parser.add_argument("--repeat", type=int, default=1, help="runs of a seed under each of its settings")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--shorten", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--catch", action=argparse.BooleanOptionalAction, default=True,
                        help="first make sure that frees which do not wait show")
    return parser.parse_args(words)


def main(words=None):
    options = parse(words)
    fuzzer = Fuzzer(options)
    if options.catch:
        found = caught(fuzzer)
        print(f"frees that do not wait show in {found} of {FIRST_SEEDS} programs", flush=True)
        if found < MUST_CATCH:
            return 1
    count, failures = search(fuzzer)
    print(f"{count} programs from seed {options.seed} on, {failures} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
