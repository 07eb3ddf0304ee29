"""Work in flight of every kind behind a block that is freed, and whose next owners overwrite it
(programs/in_flight.cu). Of gpu_suite.py and stress.py."""

import concurrent.futures
import os
import subprocess

LIMIT_S = 180
POLICIES = ("observe", "cache", "async", "managed", "active-list", "auto")
AT_ONCE = 4
BATCH_1 = {"GPUMEM_FENCE_BATCH": "1"}
BLIND = {"GPUMEM_FREE": "async", **BATCH_1}
# What GPUMEM_FREE promises; "": unset. The probe reads what the work wrote right behind the free: `safe` has to wait.
PROMISES = {"": "wait", "wait": "wait", "order": "order", "async": "async", "safe": "wait"}
# The work is the other device's, and so is the kernel behind it that reports its end. A native free waits for the copy
# and not for that kernel, but takes long enough; so only the data is judged. Events of the block's context cover the copy.
DIRECT = ("copy to a peer by its stream", "copy from a peer by its stream")
QUIET_PROMISE = "order"  # of GPUMEM_FREE=safe where the host sees nothing of the device


def clean(**more):
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("GPUMEM_", "LD_PRELOAD"))}
    return {**kept, **more}


def knows(shim, option):
    """Whether this library has an option."""
    return f"GPUMEM_{option}\0".encode() in shim.read_bytes()


def promise_of(shim, free):
    """A library without GPUMEM_FREE promises no more than that memory does not come again too early."""
    return PROMISES[free] if knows(shim, "FREE") else "async"


def build(options):
    """The probe; without what needs the device's own runtime where that cannot be linked."""
    target = options.work / "in_flight"
    sources = sorted(str(path) for path in (options.source / "tests/gpu/programs").glob("in_flight*.cu"))
    command = [str(options.toolkit / "bin/nvcc"), "-std=c++17", "-arch=native", "-O1", "-o", str(target), *sources, str(options.driver)]
    if subprocess.run([*command, "-rdc=true", "-lcudadevrt"], capture_output=True).returncode:
        subprocess.run(command, check=True)
    return target


def probe(program, environment, *arguments):
    """All kinds, in as many processes as that takes: a kind that ends its process is "died"; of a quiet probe each has
    its own, so that what it shows the host is not noted for the others. Returns [(status, kind, text)]."""
    unloaded = {name: value for name, value in environment.items() if name != "LD_PRELOAD"}
    command = [str(program), *arguments]
    kinds = subprocess.run([*command, "--list"], env=unloaded, stdout=subprocess.PIPE, text=True, check=True)
    kinds, lines, most = kinds.stdout.splitlines(), [], ["--most=1"] if "--quiet" in arguments else []
    while len(lines) < len(kinds):
        before = len(lines)
        try:
            done = subprocess.run([*command, *most, f"--skip={before}"], env=environment, capture_output=True,
                                  text=True, timeout=LIMIT_S)
        except subprocess.TimeoutExpired as end:
            said = (end.stdout or b"").decode()
            done = subprocess.CompletedProcess(command, 124, said, f"does not end within {LIMIT_S} s")
        lines += [tuple(line.split("\t", 2)) for line in done.stdout.splitlines() if line.count("\t") == 2]
        if len(lines) < (before + 1 if most else len(kinds)):
            lines.append(("died", kinds[len(lines)], f"{done.returncode}: {done.stderr.strip()[-200:]}"))
    return lines


def table(shim, hidden=None):
    """(name, shim, policy, settings, promise) of each run under the library."""
    rows = []
    for policy in POLICIES:
        for free in PROMISES:
            settings = {"GPUMEM_FREE": free} if free else {}
            for batch in ({}, BATCH_1):
                name = " ".join(filter(None, [policy, free and f"free {free}", batch and "batch 1"]))
                rows.append((name, shim, policy, {**settings, **batch}, promise_of(shim, free)))
        if policy != "observe" and knows(shim, "STRICT"):
            rows.append((f"{policy} strict", shim, policy, {"GPUMEM_STRICT": "1"}, "wait"))
    silent = QUIET_PROMISE if knows(shim, "FREE") else "async"
    rows += [(f"quiet {policy}", shim, policy, BATCH_1, silent) for policy in ("auto", "cache", "async")]
    if hidden:
        promise = promise_of(hidden, "")
        rows += [(f"hidden {policy}", hidden, policy, BATCH_1, promise) for policy in ("auto", "cache", "async")]
    return rows


def write_lines(path, lines):
    path.write_text("".join("\t".join(line) + "\n" for line in lines))
    return path


def natively(program, work, *arguments, **more):
    """What each kind does without the library: (file for --natively, results)."""
    promise = QUIET_PROMISE if "--quiet" in arguments else "wait"
    lines = probe(program, clean(**more), f"--promise={promise}", *arguments)
    name = "quiet, natively" if arguments else "natively"
    results = [(f"{name}, {kind}", "skipped" if status in ("skipped", "died") else "ok", f"{status}: {text}")
               for status, kind, text in lines]
    return write_lines(work / f"natively{'-quiet' if arguments else ''}.txt", lines), results


def both_natively(program, work, quiet=("--quiet",), **more):
    """{False: (), file; True: arguments of a quiet run, file}, results"""
    (loud, results), (silent, further) = natively(program, work, **more), natively(program, work, *quiet, **more)
    return {False: ((), loud), True: (quiet, silent)}, results + further


def judged(program, natives, row, work, **more):
    """One run under the library: a line of what all kinds did, and one for each fault. natives: by both_natively."""
    name, shim, policy, settings, promise = row
    arguments, native = natives[name.startswith("quiet")]
    environment = clean(LD_PRELOAD=str(shim), GPUMEM_POLICY=policy, **settings, **more)
    lines = probe(program, environment, f"--promise={promise}", f"--natively={native}", *arguments)
    write_lines(work / f"{name.replace(' ', '-')}.txt", lines)
    seen = [line.split("\t")[:2] for line in native.read_text().splitlines()]
    allowed = {("died", kind) for status, kind in seen if status == "died"} | {("hole", kind) for kind in DIRECT}
    if policy == "observe":  # the native free, behind which work of another device may die, or see the next owner's data
        allowed |= {(status, kind) for native, kind in seen if native == "early reuse" for status in ("died", "hole", native)}
    bad = [line for line in lines if line[0] not in ("ok", "skipped") and line[:2] not in allowed]
    good = sum(line[0] == "ok" for line in lines)
    results = [(f"{name}, {kind}", "FAILED", f"{status}: {text}") for status, kind, text in bad]
    outcome = "ok" if good and not bad else "FAILED"
    return [(name, outcome, f"{good} kinds ok, {len(bad)} not, promise {promise}")] + results


def caught(program, natives, row, work, **more):
    """The same without fences: what the probe cannot see there it cannot see anywhere."""
    name, results = row[0], judged(program, natives, row, work, **more)
    seen = sum(text.startswith("early reuse") for _, _, text in results[1:])
    return [(name, "ok" if seen >= 10 else "FAILED", f"early reuse of {seen} kinds seen (must not be 0)")]


def in_flight(options):
    program = build(options)
    natives, results = both_natively(program, options.work)
    yield from results
    rows = table(options.shim, options.hidden)
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        for found in pool.map(lambda row: judged(program, natives, row, options.work), rows):
            yield from found
    if options.blind:
        yield from caught(program, natives, ("without fences", options.blind, "cache", BLIND, "async"), options.work)
