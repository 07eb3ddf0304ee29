#!/usr/bin/env python3
"""Programs that are hard on an allocator, under every policy, GPUMEM_FREE and kind of trace, for as long as wanted.

usage: stress.py --source DIR --toolkit DIR --driver FILE --shim FILE --gpumem FILE --work DIR [--blind FILE]
                 [--hidden FILE] [--minutes N | --seconds N] [--part PART]... [--seed N] [--at-once N]
       stress.py --sim --programs DIR --cuda DIR --shim FILE --gpumem FILE --work DIR [--runs N] [--seconds N]
                 [--part PART]...

PART (all, unless named; each takes the same share of --minutes, default 60, or --seconds):
  in_flight    work of every kind behind a freed block (in_flight.py)
  threads      16 threads times 8 streams, kernels verify their memory (stress.cu); the other programs are modes of
               programs/turmoil.cu
  legacy       the same threads with the legacy default stream; seldom one of them has a stream of its own for a while
  neighbours   four processes at once, each with a policy of its own
  captures     stream captures begun and left: destroyed, by ending threads, by exceptions, invalid; a run in which the
               driver itself dies, as it does natively, is skipped
  contexts     contexts of the driver come and go
  resets       the device is reset between rounds
  forks        children end, execute, fork again
  exits        children end by exit()
  cancels      threads are cancelled in cudaMalloc and cudaFree
  exceptions   scopes with blocks end by exceptions
  churn        threads live for a few blocks
  limit        memory runs out at GPUMEM_LIMIT
  card         nearly all of the card is taken by plain cudaMalloc
  lean         programs that lean on what cudaFree waits for

Each part's program runs natively first; where that fails the part is skipped. Under the library: no wrong word, no hang
(a run that lasts too long leaves a backtrace by gdb), the same exit status and output, nothing alive or kept at the end
by the library's own counters, and each trace read by `gpumem report` and complete (allocations = frees + what is alive
or went with its context). What GPUMEM_FREE does not promise is no fault; a library without that option is held to what
it promises without it. Managed memory is never beyond what the card has free: only blocks of a few GiB are ever
managed. A line names the seed and all settings of its run.

--sim runs the programs built for the simulated CUDA, --runs of each part. Ends with 77 without a GPU, 1 after a fault.
"""

import argparse
import collections
import concurrent.futures
import itertools
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import time

import in_flight

SKIP = 77
STATIC = "static:size>=1M->async;*->native"
POLICIES = ["auto", "cache", "async", "managed", "active-list", "observe", STATIC, "plan"]
PLAIN = ["auto", "cache", "async", "observe", STATIC]  # no managed memory: these may fill the card
FREES = ["", "safe", "wait", "order", "async"]
TRACES = ["", "csv", "trace"]
# Beside policy, free and trace: settings of which a run has some, each with this probability.
FURTHER = [
    (0.5, {"GPUMEM_FENCE_BATCH": "1"}),
    (0.2, {"GPUMEM_CACHE_LIMIT": "64M"}),
    (0.2, {"GPUMEM_CACHE_IDLE": "1ms"}),
    (0.1, {"GPUMEM_STRICT": "1"}),
    (0.1, {"GPUMEM_STACKS": "6"}),
    (0.1, {"GPUMEM_FILL": "poison"}),
    (0.1, {"GPUMEM_GROW": "move", "GPUMEM_GROW_MATCH": "size>=64K"}),
    (0.1, {"GPUMEM_TRACE_FLUSH": "0"}),
    (0.1, {"GPUMEM_MANAGED": "plain"}),
    (0.05, {"GPUMEM_MANAGED_PREFETCH": "1"}),
]
STEPS = ["", "trim,fail", "trim,host,fail"]
NEIGHBOURS = 4

# policies; "alone": one run at a time; "lost": blocks of a cancelled thread may stay, frees may fail
Part = collections.namedtuple("Part", "program policies flags settings", defaults=(POLICIES, (), ({},)))
OOM = [{"GPUMEM_OOM": steps} if steps else {} for steps in STEPS]
LIMITS = [{"GPUMEM_LIMIT": "1GiB", **steps} for steps in [*OOM, {"GPUMEM_OOM": "trim,managed,fail"}]]
PARTS = {
    "in_flight": None,
    "threads": Part("stress"),
    "legacy": Part("legacy"),
    "neighbours": Part("stress", flags=("neighbours",)),
    "captures": Part("captures", flags=("failing frees",)),
    "contexts": Part("contexts"),
    "resets": Part("resets", flags=("failing frees",)),
    "forks": Part("forks"),
    "exits": Part("exits"),
    "cancels": Part("cancels", flags=("lost",)),
    "exceptions": Part("exceptions"),
    "churn": Part("churn"),
    "limit": Part("memory", settings=LIMITS),
    "card": Part("memory", PLAIN, ("alone",), OOM),
    "lean": Part("lean"),
}

Done = collections.namedtuple("Done", "pid status out err counters hung")


def rest(text):
    """What a program said on standard error, without the library's own lines."""
    return [line for line in text.splitlines() if not line.startswith("gpumem: ")]


class Stress:
    def __init__(self, options):
        self.options = options
        self.random = random.Random(options.seed)
        self.runs = itertools.count(1)
        self.sim = {"LD_LIBRARY_PATH": str(options.cuda)} if options.sim else {}
        self.plan = None
        self.failed = False

    # ---- one process

    def command(self, program, seconds, seed):
        if program in ("stress", "legacy"):
            mode = "own" if program == "stress" else program
            return [self.options.programs / "stress", str(seconds), "4" if self.options.sim else "16", mode, str(seed)]
        return [self.options.programs / "turmoil", program, str(seconds), str(seed), "4" if self.options.sim else "8"]

    def run(self, command, folder, limit_s, **environment):
        """Runs it to its end; when it says that it has freed everything, looks at the library's counters."""
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "stderr").open("wb") as errors:
            process = subprocess.Popen(list(map(str, command)), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                       stderr=errors, text=True, start_new_session=True,
                                       env=in_flight.clean(STRESS_HOLD="1", **self.sim, **environment))
        with concurrent.futures.ThreadPoolExecutor(1) as watch:
            ended = watch.submit(self.watch, process, folder, limit_s)
            lines, counters = [], None
            for line in process.stdout:
                if line == "settled\n":
                    counters = self.counters(process.pid) if "LD_PRELOAD" in environment else None
                    try:
                        process.stdin.write("\n")
                        process.stdin.flush()
                    except OSError:  # it was killed
                        pass
                else:
                    lines.append(line)
            hung = ended.result()
        process.stdin.close()
        said = (folder / "stderr").read_text(errors="replace")
        return Done(process.pid, process.returncode, "".join(lines), said, counters, hung)

    def watch(self, process, folder, limit_s):
        """Waits for the end of the process; a hang leaves a backtrace and ends the process and its children."""
        try:
            process.wait(limit_s)
            return ""
        except subprocess.TimeoutExpired:
            where = self.backtraces(process.pid, folder)
            os.killpg(process.pid, signal.SIGKILL)  # its own session
            process.wait()
            return f"does not end within {limit_s:.0f} s, {where}"

    def backtraces(self, session, folder):
        """Of all processes of the session."""
        told = []
        for entry in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                if int((entry / "stat").read_text().rsplit(")", 1)[1].split()[3]) != session:
                    continue
            except (OSError, IndexError):
                continue
            target = folder / f"backtrace-{entry.name}.txt"
            with target.open("w") as out:
                for task in sorted(entry.glob("task/*")):
                    out.write(f"{task.name} {(task / 'wchan').read_text()}\n")
                if shutil.which("gdb"):
                    out.flush()
                    ask = ["-ex", "set pagination off", "-ex", "thread apply all bt 24"]
                    try:
                        subprocess.run(["gdb", "-p", entry.name, "-batch", *ask], stdout=out, stderr=subprocess.STDOUT,
                                       stdin=subprocess.DEVNULL, timeout=120)
                    except subprocess.TimeoutExpired:
                        pass
            told.append(str(target))
        return "backtraces: " + (" ".join(told) or "none")

    def gpumem(self, *words):
        return subprocess.run([str(word) for word in (self.options.gpumem, *words)], env=in_flight.clean(),
                              capture_output=True, text=True, timeout=300)

    def counters(self, pid):
        done = self.gpumem("top", "--batch", "--json", "--count=1", pid)
        lines = done.stdout.splitlines()
        return json.loads(lines[0])["memory"] if lines else {"message": done.stderr.strip()}

    # ---- what a run must have been

    def check_trace(self, path, flags, whole):
        """None, or what is wrong with the trace. whole: of the program itself, not of a child that may end anywhere."""
        done = self.gpumem("report", "--json", path)
        if done.returncode:
            return f"gpumem report {path}: {done.returncode} {done.stderr.strip()[-200:]}"
        for trace in json.loads(done.stdout)["traces"]:
            totals, process = trace["totals"], trace["process"]
            left = totals["allocations"] - totals["frees"] - totals["released_blocks"]
            if process["lost_events"] or trace["damaged_parts"]:
                return f"{path}: {process['lost_events']} events lost, {trace['damaged_parts']} parts damaged"
            if whole and not process["finished"]:
                return f"{path}: it is not finished"
            if left != totals["leaked_blocks"] or totals["replaced"] or totals["unknown_frees"]:
                return f"{path}: not complete: {totals}"
            if whole and left and "lost" not in flags:
                return f"{path}: {left} blocks were never freed"
            if totals["failed_frees"] and "failing frees" not in flags:
                return f"{path}: {totals['failed_frees']} frees failed"
        return None

    def fault(self, done, program, flags, promise, folder, traced):
        """None, or what is wrong with a run."""
        if done.hung:
            return done.hung
        expected = f"ok {program} 0 wrong"
        words = done.out.split()
        if program == "lean" and len(words) == 8 and done.out.startswith(expected):
            broken_on_device, broken_on_host = int(words[4]), int(words[6])
            if broken_on_device and promise in ("wait", "order") or broken_on_host and promise == "wait":
                return f"the free's promise ({promise}) is broken: {done.out.strip()}"
        elif done.out != expected + "\n":
            return f"{done.status}: {done.out.strip()} {done.err.strip()[-400:]}"
        if done.status:
            return f"{done.status}: {done.err.strip()[-400:]}"
        counters = done.counters or {}
        if "lost" not in flags and (counters.get("live_bytes"), counters.get("kept_bytes")) != (0, 0):
            return f"left at the end: {done.counters}"
        traces = {path: path.stem == f"trace-{done.pid}" for path in folder.glob("trace-*")}
        if traced and not any(traces.values()):
            return "no trace was written"
        return next(filter(None, (self.check_trace(path, flags, own) for path, own in traces.items())), None)

    # ---- combinations

    def draw(self, part, number):
        """(name, settings, trace, promise) of a part's run by its number: policies, frees and traces in turn, the rest
        by chance."""
        policies = [policy for policy in part.policies if policy != "plan" or self.plan]
        policy = policies[number % len(policies)]
        free = FREES[(number // len(policies) + number) % len(FREES)]
        trace = TRACES[(number // (len(policies) * len(FREES)) + number) % len(TRACES)]
        settings = dict(part.settings[number % len(part.settings)])
        if free:
            settings["GPUMEM_FREE"] = free
        may_be_strict = not free and in_flight.knows(self.options.shim, "STRICT")
        for chance, more in FURTHER:
            if self.random.random() < chance and (may_be_strict or "GPUMEM_STRICT" not in more):
                settings.update(more)
        promise = "wait" if "GPUMEM_STRICT" in settings else in_flight.promise_of(self.options.shim, free)
        name = " ".join([policy, *(f"{key[7:].lower()}={value}" for key, value in settings.items()), trace]).strip()
        settings["GPUMEM_POLICY"] = f"plan:{self.plan}" if policy == "plan" else policy
        return name, settings, trace, promise

    def trial(self, name, part, drawn, seconds, seed):
        """One run under the library; (label, fault or None, done)."""
        label, settings, trace, promise = drawn
        folder = self.options.work / name / f"run-{next(self.runs)}"
        environment = {"LD_PRELOAD": str(self.options.shim), **settings, **self.simulated(part, seed)}
        if trace:
            environment["GPUMEM_TRACE"] = str(folder / f"trace-%p.{trace}")
        done = self.run(self.command(part.program, seconds, seed), folder, seconds * 4 + 60, **environment)
        fault = self.fault(done, part.program, part.flags, promise, folder, bool(trace))
        if not fault:
            for path in folder.glob("trace-*"):
                path.unlink()
        return f"{label} seed={seed}", fault, done

    def simulated(self, part, seed):
        if not self.options.sim:
            return {}
        memory = {"SIMCUDA_MEMORY": str(64 << 20)} if part.program == "memory" else {}
        return {"SIMCUDA_STREAMS": f"random:{seed}" if seed % 2 else "immediate", **memory}

    def tell(self, outcome, part, text):
        self.failed |= outcome == "FAILED"
        print(f"{outcome:8} {part} {text}".rstrip(), flush=True)

    # ---- parts

    def natively(self, name, part, seconds):
        seed = self.options.seed
        done = self.run(self.command(part.program, seconds, seed), self.options.work / name / "natively",
                        seconds * 4 + 60, **self.simulated(part, seed))
        good = not done.hung and done.status == 0 and done.out.startswith(f"ok {part.program} 0 wrong")
        if part.program == "lean":
            good = good and done.out.split()[4:] == ["0", "device", "0", "host"]
        said = done.err if good else done.hung or f"{done.status} {done.out}{done.err[-300:]}"
        self.tell("ok" if good else "skipped", name, "natively: " + "; ".join(said.splitlines()))
        return good or done.status == SKIP

    def part(self, name, seconds_in_all):
        part, sim = PARTS[name], self.options.sim
        seconds = (self.options.seconds or 0.2) if sim else max(2.0, min(8.0, seconds_in_all / 12))
        if not self.natively(name, part, seconds):
            return
        together = NEIGHBOURS if "neighbours" in part.flags else 1 if "alone" in part.flags else self.options.at_once
        end, first = time.monotonic() + seconds_in_all, self.random.randrange(1000)
        number = 0
        with concurrent.futures.ThreadPoolExecutor(together) as pool:
            while (number < self.options.runs) if sim else (time.monotonic() < end or not number):
                some = [(self.draw(part, first + number + i), self.random.randrange(1, 1 << 30))
                        for i in range(together)]
                number += together
                for label, fault, done in pool.map(lambda one: self.trial(name, part, one[0], seconds, one[1]), some):
                    self.tell("skipped" if done.status == SKIP else "FAILED" if fault else "ok", name, f"{label}: {fault or '; '.join(rest(done.err))}")

    def in_flight(self, seconds_in_all):
        program, work = self.options.programs / "in_flight", self.options.work / "in_flight_runs"
        work.mkdir(parents=True, exist_ok=True)
        environment = dict(self.sim)
        if self.options.sim:
            environment.update(SIMCUDA_STREAMS="manual", SIMCUDA_DEVICES="2")
        end = time.monotonic() + seconds_in_all
        quiet = ["--quiet", *(["legacy", "destroyed", "memset", "graph of kernels"] if self.options.sim else [])]
        natives, results = in_flight.both_natively(program, work, quiet, **environment)
        for result in results:
            self.tell(result[1], "in_flight", f"{result[0]}: {result[2]}")
        rows = in_flight.table(self.options.shim, self.options.hidden)
        self.random.shuffle(rows)
        if self.options.sim:  # pools: there a copy of another device may not reach them
            rows = [row for row in rows if row[2] in ("auto", "cache")]
            loud, quiet = ([row for row in rows if ("quiet" in row[0]) == silent] for silent in (False, True))
            rows = loud[: self.options.runs] + quiet[:1]
        with concurrent.futures.ThreadPoolExecutor(self.options.at_once) as pool:
            while rows and (self.options.sim or time.monotonic() < end):
                some, rows = rows[: self.options.at_once], rows[self.options.at_once :]
                for results in pool.map(lambda row: in_flight.judged(program, natives, row, work, **environment), some):
                    for result in results:
                        self.tell(result[1], "in_flight", f"{result[0]}: {result[2]}")
        blind = self.options.shim if self.options.sim else self.options.blind
        if blind:
            environment["SIMCUDA_FENCE"] = "blind"
            row = ("without fences", blind, "cache", in_flight.BLIND, "async")
            for result in in_flight.caught(program, natives, row, work, **environment):
                self.tell(result[1], "in_flight", f"{result[0]}: {result[2]}")

    def make_plan(self):
        """A plan for the policy of that name, from a trace of the threads."""
        folder = self.options.work / "plan"
        trace, plan = folder / "trace-plan.trace", folder / "stress.plan"
        done = self.run(self.command("stress", 0.2 if self.options.sim else 2, 1), folder, 120,
                        LD_PRELOAD=str(self.options.shim), GPUMEM_POLICY="observe", GPUMEM_TRACE=str(trace))
        if done.status == 0 and self.gpumem("plan", "--force", "-o", plan, trace).returncode == 0:
            self.plan = plan

    def blind_is_caught(self):
        """The same threads on a cache without fences: they must see it."""
        shim = self.options.shim if self.options.sim else self.options.blind
        if not shim:
            return
        settings = {"GPUMEM_POLICY": "cache", **in_flight.BLIND}
        settings.update(SIMCUDA_FENCE="blind", SIMCUDA_STREAMS="random:3")
        done = self.run(self.command("stress", 0.5 if self.options.sim else 5, 1), self.options.work / "blind", 120,
                        LD_PRELOAD=str(shim), **settings)
        caught = done.status != 0 and done.out.startswith("ok stress ") and done.out != "ok stress 0 wrong\n"
        self.tell("ok" if caught else "FAILED", "threads",
                  f"without fences: {done.status} {done.out.strip()} (must not be 0) {done.err[-200:]}")


def card_free():
    """Free bytes of the first GPU, asked by a process of its own; None: there is none."""
    asks = """
import ctypes
driver, context, free, total = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_size_t(), ctypes.c_size_t()
assert driver.cuInit(0) == 0 and driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert driver.cuCtxSetCurrent(context) == 0 and driver.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)) == 0
print(free.value)"""
    done = subprocess.run([sys.executable, "-c", asks], env=in_flight.clean(), capture_output=True, text=True)
    return int(done.stdout) if done.returncode == 0 else None


def build(options):
    options.programs = options.work
    in_flight.build(options)
    for name, sources in (("stress", [options.source / "tests/gpu/stress.cu"]),
                          ("turmoil", sorted((options.source / "tests/gpu/programs").glob("turmoil*.cu")))):
        subprocess.run([str(options.toolkit / "bin/nvcc"), "-std=c++17", "-arch=native", "-O1", "-o",
                        str(options.work / name), *map(str, sources), str(options.driver), "-ldl"], check=True)


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    for name in ("source", "toolkit", "shim", "gpumem", "work", "blind", "hidden", "programs", "cuda"):
        parser.add_argument(f"--{name}", type=lambda path: pathlib.Path(path).resolve(),
                            required=name in ("shim", "gpumem", "work"))
    parser.add_argument("--driver", type=lambda path: pathlib.Path(path).absolute(), help="as for gpu_suite.py")
    parser.add_argument("--sim", action="store_true")
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--seconds", type=float, help="for each part; of each run on the simulated CUDA")
    parser.add_argument("--part", choices=PARTS, action="append")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--at-once", type=int, default=2)
    parser.add_argument("--runs", type=int, default=2, help="of each part on the simulated CUDA")
    options = parser.parse_args()
    before = None if options.sim else card_free()
    if before is None and not options.sim:
        print("skipped: no GPU")
        return SKIP
    shutil.rmtree(options.work, ignore_errors=True)
    options.work.mkdir(parents=True)
    if not options.sim:
        build(options)
    parts = options.part or list(PARTS)
    seconds = options.seconds or options.minutes * 60 / len(parts)
    print(f"seed {options.seed}, {len(parts)} parts of {seconds:.0f} s", flush=True)
    stress = Stress(options)
    if set(parts) - {"in_flight"}:
        stress.make_plan()
    for name in parts:
        if name == "in_flight":
            stress.in_flight(seconds)
        else:
            stress.part(name, seconds)
        if name == "threads":
            stress.blind_is_caught()
    if before is not None:
        for _ in range(20):
            after = card_free()
            if after is not None and after >= before - (64 << 20):
                break
            time.sleep(0.5)
        back = after is not None and after >= before - (64 << 20)
        stress.tell("ok" if back else "FAILED", "card",
                    f"free before {before >> 20} MiB, after {(after or 0) >> 20} MiB (others may use it, too)")
    return 1 if stress.failed else 0


if __name__ == "__main__":
    sys.exit(main())
