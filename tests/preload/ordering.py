"""Programs that lean on the wait of cudaFree, against policies and GPUMEM_FREE: one table of what must be right.

A row is a case of ordering_*.cu and what it needs:
  device    order on the device
  host      a wait: the host, another context, device or process looks or acts after the free
  anyway    nothing: what is freed is never moved, and its native free waits
  answer    that nothing is made to wait for it: the program must end
Each is right natively. Where a free promises nothing but that memory does not come again too early (async), each must
be wrong, every time: else it would prove nothing elsewhere.

Random programs (ordering_random.c) follow, on the simulated CUDA. ORDERING_SEED: the first seed, 1; ORDERING_SECONDS:
how long further seeds are tried, 5.
"""

import os
import sys
import time

from place import SKIP, Failure, check, is_simulated

POLICIES = ("observe", "cache", "auto", "async", "managed", "active-list", "static:*->async")
ON_CARD = ("observe", "cache", "auto", "async")  # a card takes its time
# Under these a free of cudaMalloc's memory does not wait by itself; managed: where the driver has managed pools.
KEEPING = {"cache", "auto", "async", "managed", "active-list", "static:*->async"}
MOVING = KEEPING - {"cache", "auto"}  # pitched memory is native under these two
SHARING = {"observe", "cache", "auto"}  # other policies drop the promise that memory can be exported

ROWS = {
    "ordering_device": {
        "lazy_table": "device", "lazy_table_per_thread": "device", "lazy_table_late": "device", "pipeline": "device",
        "one_thread": "device", "reader_frees": "device", "third_frees": "device", "by_pitched": "device",
        "by_managed": "anyway", "by_pinned": "anyway", "by_array": "anyway", "by_other_device": "device",
        "late_stream": "device", "copy_down": "device", "copy_down_few": "device", "overwrite": "device",
        "copy_up": "device", "copy_up_few": "device", "fill": "device", "free_async": "device", "graph": "device",
        "capture": "device", "green": "device",
    },
    "ordering_per_thread": {
        "lazy_table_default": "device", "pipeline": "device", "one_thread": "device", "late_stream": "device",
        "copy_down": "device", "overwrite": "device", "copy_up": "device", "fill": "device", "graph": "device",
    },
    "ordering_host": {
        "pinned": "host", "pinned_default": "host", "pinned_rows": "host", "mapped": "host", "registered": "host",
        "registered_mapped": "host", "unregistered": "anyway", "managed": "host", "pageable": "host",
        "file_written": "host", "file_mapped": "host", "process_ends": "host", "exported": "host",
        "source_overwritten": "host", "source_registered": "host", "source_mapped": "host", "array_freed": "anyway",
        "pinned_freed": "anyway", "host_function": "host", "host_argument": "host", "callback": "host",
        "other_context": "host", "peer": "host",
    },
    "ordering_variable": {"managed_variable": "host"},
    "ordering_answer": {"device_flag": "answer", "host_flag": "answer", "submitted": "answer"},
}
# Rows for the default stream: the host's, and a stream that comes later.
BY_DEFAULT_STREAM = {"late_stream", *ROWS["ordering_host"], "managed_variable"}
MAY_BE_LATE = {"process_ends"}  # a card may let its work finish when the process ends
# What a user may set beside, and drivers that a program may meet: the promise holds all the same.
FURTHER = (
    ("cache", {"GPUMEM_FENCE_BATCH": "1"}),
    ("cache", {"GPUMEM_FENCE_BATCH": "1", "GPUMEM_CACHE_LIMIT": "1M"}),
    ("managed", {"GPUMEM_MANAGED": "plain"}),
    ("auto", {"GPUMEM_GROW": "vmm"}),
    ("cache", {"GPUMEM_GROW": "move"}),
    ("observe", {"GPUMEM_GROW": "vmm"}),
    ("auto", {"GPUMEM_LIMIT": "8M", "GPUMEM_OOM": "host", "GPUMEM_LOG": "off"}),
    ("cache", {"SIMCUDA_HIDE": "cuCtxRecordEvent"}),
    ("async", {"SIMCUDA_HIDE": "cuCtxRecordEvent"}),
    ("auto", {"SIMCUDA_HIDE": "cuCtxWaitEvent"}),
    ("cache", {"SIMCUDA_STREAMS": "random:7"}),
    ("async", {"SIMCUDA_STREAMS": "random:11"}),
)
# Mode of a free -> the options for it
MODES = {"": {}, "strict": {"GPUMEM_STRICT": "1"}}
MODES.update((mode, {"GPUMEM_FREE": mode}) for mode in ("async", "order", "wait", "safe"))
DEFAULT = {"ORDERING_STREAM": "default"}
# Whoever submits behind a free that orders would wait, and on cards natively does; the simulated driver lets it pass.
HELD_UP = {("device_flag", "order"), ("device_flag", "safe"), ("device_flag", ""), ("host_flag", "order")}
LATE = {"SIMCUDA_DEVICES": "2", "SIMCUDA_STREAMS": "manual"}


def outcome(done):
    if done.returncode == 0 and done.stdout.startswith("ok "):
        return "right"
    # Memory that went too early may also be an illegal address.
    if done.returncode == 9 or (done.returncode == 1 and done.stderr.rstrip().endswith(": 700")):
        return "wrong"
    return {SKIP: "skipped", 3: "hangs"}.get(done.returncode, f"exit {done.returncode}")


def allowed(place, case, needs, policy, mode):
    either = {"right", "wrong"}
    if needs == "answer" or policy not in (MOVING if case == "by_pitched" else KEEPING):
        return {"right"}
    if needs == "anyway" and mode in ("async", "order"):
        return {"right"} if is_simulated(place) else either
    if mode == "async":  # on a card only the cache is known to be early each time
        return {"wrong"} if is_simulated(place) or (policy == "cache" and case not in MAY_BE_LATE) else either
    return either if mode == "order" and needs == "host" else {"right"}


def settings(place, case, needs):
    """(policy, mode, further options)"""
    rows = [(policy, mode, {}) for policy in POLICIES for mode in ("async", "order", "wait", "safe")]
    rows += [("auto", "", {}), ("cache", "strict", {})]
    rows += [(policy, "safe", further) for policy, further in FURTHER]
    if case in BY_DEFAULT_STREAM:
        rows += [(policy, mode, DEFAULT) for policy in ("cache", "async") for mode in ("async", "safe")]
        rows += [(policy, "safe", {**DEFAULT, **further}) for policy, further in FURTHER if "SIMCUDA_HIDE" in further]
    for policy, mode, further in rows:
        if case == "exported" and policy not in SHARING:
            continue
        if mode == "async" and "hidden" in place.options.shim.name:
            continue  # it may know too little of the streams to keep anything
        if not is_simulated(place) and (policy not in ON_CARD or further not in ({}, DEFAULT)):
            continue
        if not is_simulated(place) and (mode, needs) == ("order", "host"):
            continue
        if (case, mode) in HELD_UP and (policy in KEEPING or further):
            continue
        # There a kernel that waits would run in the thread that it waits for.
        if not (needs == "answer" and "SIMCUDA_STREAMS" in further):
            yield policy, mode, further


def run_row(place, program, case):
    """Runs all settings of a row; returns what is not as it must be. None: natively it is not so, or not here."""
    needs = ROWS[program][case]
    command = [place.program(program), case]
    late = LATE if is_simulated(place) else {}
    native = place.run(command, **late)
    if outcome(native) == "skipped" or (outcome(native) == "wrong" and not is_simulated(place)):
        print(f"{program} {case}: skipped: {native.stderr.strip()[-200:]}{native.stdout.strip()}")
        return None
    check(outcome(native) == "right", f"{program} {case} natively: {outcome(native)} {native.stdout}{native.stderr}")
    problems, seen = [], {}
    for policy, mode, further in settings(place, case, needs):
        # Whoever must be early has time for it on a busy machine.
        more = {**late, **further, **MODES[mode], **({"ORDERING_MS": "100"} if mode == "async" else {})}
        done = place.run_shimmed(command, policy, trace=False, **more)
        found = outcome(done)
        seen.setdefault(mode, []).append(found[0])
        if found not in allowed(place, case, needs, policy, mode):
            problems.append(f"{program} {case} under {policy}, {mode} {further}: {found}\n{done.stdout}{done.stderr}")
    print(f"{program} {case}, {needs}:", *(f"{mode} {''.join(found)}" for mode, found in seen.items()))
    return problems


def one(program, case):
    def run(place):
        problems = run_row(place, program, case)
        if problems is None:
            sys.exit(SKIP)
        check(not problems, "\n".join(problems))

    return run


def every(program):
    """All rows of a program; those that the device cannot show are left out."""

    def run(place):
        results = []
        for case in ROWS[program]:
            try:
                results.append(run_row(place, program, case))
            except Failure as failure:
                results.append([str(failure)])
        problems = [problem for result in results for problem in result or []]
        check(not problems, "\n".join(problems))
        if all(result is None for result in results):
            sys.exit(SKIP)

    return run


# ---- random programs

STEPS = (10, 20, 50, 100, 200)
FIRST_SEEDS = 6  # however slow the machine


def run_seed(place, seed, policy, mode, options, *words, steps=STEPS[-1]):
    """What the random program of the seed does wrong; '' when it is right. No policy: natively."""
    command = [place.program("ordering_random"), str(seed), str(steps), *words]
    more = {**options, **(MODES[mode] if policy else {})}
    done = place.run_shimmed(command, policy, trace=False, **more) if policy else place.run(command, **more)
    if outcome(done) == "right":
        return ""
    return f"{' '.join(command)} under {policy} {more}: {outcome(done)}\n{done.stdout}{done.stderr}"


def random_programs(place):
    first = int(os.environ.get("ORDERING_SEED", "1"))
    ends = time.monotonic() + float(os.environ.get("ORDERING_SECONDS", "5"))
    moving = [policy for policy in POLICIES if policy in KEEPING]
    beside = [row for row in FURTHER if "GPUMEM_LIMIT" not in row[1]]  # these programs may need more
    seed, early = first, 0
    while seed < first + FIRST_SEEDS or time.monotonic() < ends:
        late = {**LATE, "SIMCUDA_STREAMS": f"random:{seed}" if seed % 2 else "manual"}
        policy, further = beside[seed % len(beside)]
        runs = [(None, "", late)] + [(policy, "safe", late) for policy in moving]
        runs += [(policy, "safe", {**further, **late})]
        runs += [(moving[seed % len(moving)], "order", late, "device")]
        for run in runs:
            problem = run_seed(place, seed, *run)
            shorter = problem and (run_seed(place, seed, *run, steps=steps) for steps in STEPS)
            check(not problem, f"seed {seed}: {problem and next(filter(None, shorter), problem)}")
        if seed < first + FIRST_SEEDS:
            early += sum(run_seed(place, seed, policy, "async", late) != "" for policy in moving)
        seed += 1
    print(f"seeds {first} to {seed - 1}; frees that do not wait show in {early} of {FIRST_SEEDS * len(moving)} runs")
    check(early >= FIRST_SEEDS, f"frees that do not wait show in {early} runs only")


CASES = {program: every(program) for program in ROWS}
CASES["ordering_random"] = random_programs
CASES.update((f"{program}_{case}", one(program, case)) for program, rows in ROWS.items() for case in rows)
