#!/usr/bin/env python3
"""The preload programs and real frameworks on a real GPU, natively and under every policy.

usage: gpu_suite.py --source DIR --toolkit DIR --driver FILE --cc CC --shim FILE [--hidden FILE] --work DIR PART

PART: shared | static | driver (the small programs of tests/preload, built here against NVIDIA's runtime of either kind),
ipc (kept blocks exported to another process), capture (captures beside a busy cache), waiting (programs that wait for themselves),
order (programs that lean on the wait of cudaFree; ORDER_ROWS: only cases whose name contains one of these words),
frameworks (PyTorch, CuPy, Thrust, in each of their allocator modes), sanitizer (compute-sanitizer with the shim loaded), peers (two
GPUs reach each other's memory, or copy without; one is reset; PyTorch and JAX on both), nccl (collectives in threads), stress (threads and streams whose kernels verify their memory;
STRESS_SECONDS for each row of its table, default 10; STRESS_ROWS: only rows whose name contains one of these words; STRESS_AT_ONCE:
rows at a time, default 2), in_flight (work of every kind behind a freed block, under every policy and GPUMEM_FREE), order_rows (seldom ways to lean on the wait
of cudaFree; ORDER_ROWS as above), blind_calls (calls of the driver that have nothing to do with work in flight), fuzz (random
programs of driver calls; FUZZ_SECONDS, default 120; FUZZ_SEED: the first), pressure (a program that
needs 1.5 times GPUMEM_LIMIT = 1 GiB; freed memory told as free), starved (launches and other calls that need what was freed; fills the card),
accounts (the list of what the card's memory is, when a request for all of it fails; others may use the card, but their memory must not change),
region and vector (programs that link libgpumem-core: memory that grows, Thrust's vector on
it), suspend (PyTorch and CuPy while their memory leaves the card and comes back; SUSPEND_RUNS for each program, default 3), workspace (a triangular solve on cuBLAS with memory from a workspace), grow (GPUMEM_GROW), doors (PyTorch, CuPy
and Numba with gpumem plugged in; resources in C++, CCCL and Thrust), guard (planted memory errors, PyTorch under GPUMEM_GUARD), spgemm (every mode, kernel, precision and vector of the SpGEMM driver against the host's product; SPGEMM_ROWS: only products whose arguments contain one of these words), hadron (every version and
eviction policy of examples/hadron against the host's numbers). Ends with 77 without a GPU, peers and nccl without two.

Kernels of order and waiting spin until the host sets a flag. Such a kernel holds the card for whole seconds, so a part that runs
beside them can exceed its time limit (measured: one wait of 52 s in in_flight on an H100, where alone all 42 kinds take 11 s).

--hidden: the shim built with -DGM_TEST_HIDE (libgpumem-hidden.so of tests/preload), which finds no cuCtxRecordEvent: for ipc, capture,
waiting, order and stress a second time; without it those rows say that they were skipped.
"""

import argparse
import concurrent.futures
import ctypes
import os
import pathlib
import re
import shutil
import subprocess
import sys

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1] / folder) for folder in ("preload", "unit/driver")]

import ordering  # noqa: E402
from card_accounts import card_accounts  # noqa: E402
from doors import doors  # noqa: E402
from contractions import hadron  # noqa: E402
from blind_calls import blind_calls  # noqa: E402
from guarded import guarded_blocks  # noqa: E402
from in_flight import in_flight  # noqa: E402
from order_rows import order_rows  # noqa: E402
from place import SKIP, Failure, Place  # noqa: E402
from products import spgemm  # noqa: E402
from suspended_programs import suspended  # noqa: E402
from run_preload import CASES, POLICIES  # noqa: E402

WORKERS = 6  # programs at a time: each brings up a context of its own

DRIVER = ["driver_linked", "driver_dlopened", "advice", "arrays", "vmm", "freed_pointers", "weak_driver", "next_symbol", "graph_memory", "late_error",
          "no_cuda"]
RUNTIME = ["runtime_basic", "threads", "fork_child", "exec_self", "leaks", "wrong_free", "managed", "async", "pitch", "pools",
           "host_memory", "per_thread_stream", "context_reset", "capture", "ipc", "two_sites", "out_of_memory", "kernel"]
SHARED_ONLY = ["weak_runtime", "two_runtimes"]
WAITING = ["collective", "collective_alloc", "value_stream", "value_host", "alone", "persistent"]
ORDER = [f"{program}_{case}" for program, rows in ordering.ROWS.items() for case in rows
         if any(word in f"{program}_{case}" for word in os.environ.get("ORDER_ROWS", "").split(","))]
# part: (cases, cases that also hold for a shim without context events)
CONCEPTS = {
    "ipc": (["ipc", "ipc_kept", "ipc_kept_plain_importer"], ["ipc"]),
    "capture": (["capture", "graph_memory", "capture_modes_runtime", "capture_modes_driver"],
                ["capture", "graph_memory", "capture_modes_runtime", "capture_modes_driver"]),
    "waiting": (["self_waiting_" + what for what in WAITING], ["self_waiting_alone", "self_waiting_persistent"]),
    "order": (ORDER, [case for case in ORDER if case.endswith(("lazy_table", "one_thread", "host_pinned", "_flag"))]),
}
KERNELS = ["kernel", "ipc_kept", "capture_modes", "self_waiting", *ordering.ROWS]  # programs that nvcc compiles
SPINNING = ("waiting", "order")  # kernels that spin share the device's time


def gpus():
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return 0
    count = ctypes.c_int()
    return count.value if driver.cuInit(0) == 0 and driver.cuDeviceGetCount(ctypes.byref(count)) == 0 else 0


def program_of(case):
    return next((program for program in KERNELS if case == program or case.startswith(program + "_")), case)


def build(options, name, shape):
    """Compiles one program of tests/preload; returns its path."""
    source = options.source / "tests" / "preload"
    target = options.work / shape / name
    target.parent.mkdir(parents=True, exist_ok=True)
    library = options.toolkit / "lib64"
    if name in KERNELS:
        streams = ["--default-stream", "per-thread"] if name.endswith("per_thread") else []
        command = [str(options.toolkit / "bin" / "nvcc"), "-cudart", shape, *streams, "-arch=native", "-O1", "-I", str(source),
                   "-o", str(target), str(source / (name + ".cu")), str(options.driver)]
    else:
        link = {
            "shared": ["-L", str(library), "-lcudart"],
            "static": [str(library / "libcudart_static.a"), "-ldl", "-lpthread", "-lrt"],
            "driver": [str(options.driver), "-ldl", "-lpthread"],
        }[shape]
        if name in ("driver_dlopened", "weak_driver", "weak_runtime", "next_symbol", "two_runtimes", "no_cuda"):
            link = ["-ldl", "-lpthread"]
        further = ["-fPIE"] if name.startswith("weak") else ["-rdynamic", "-O0", "-fno-builtin"] if name == "next_symbol" else []
        command = [*options.cc.split(), "-g", "-O1", "-D_GNU_SOURCE", "-isystem", str(options.toolkit / "include"), *further,
                   "-o", str(target), str(source / (name + ".c")), *link, "-lpthread", "-ldl"]
    subprocess.run(command, check=True)
    return target


def run_case(options, case, shape, shim, label):
    """One of the preload cases in a place of its own; returns (name, outcome, message)."""
    place = Place(argparse.Namespace(
        programs=options.work / shape, cuda=options.toolkit / "lib64", shim=shim, work=options.work / f"run-{label}" / case))
    name = f"{label} {case}"
    try:
        CASES[case](place)
        return name, "ok", ""
    except Failure as failure:
        return name, "FAILED", str(failure)
    except SystemExit as end:
        return name, "skipped" if end.code == SKIP else "FAILED", "not so natively, or not supported here" if end.code == SKIP else f"exit {end.code}"
    except Exception as problem:  # one broken case leaves the others' lines
        return name, "FAILED", f"{type(problem).__name__}: {problem}"


def build_all(options, programs):
    """programs: (name, shape)"""
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(lambda program: build(options, *program), sorted(set(programs))))


def programs(options, shape):
    names = {"driver": DRIVER, "static": RUNTIME, "shared": RUNTIME + SHARED_ONLY}[shape]
    build_all(options, [(name, shape) for name in names])
    with concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
        yield from pool.map(lambda name: run_case(options, name, shape, options.shim, shape), names)


def concept(options, part):
    """The cases of one concept against both kinds of runtime, and under the shim without context events."""
    cases, hidden_cases = CONCEPTS[part]
    shape_of = {case: "driver" if case == "graph_memory" else None for case in cases}
    jobs = [(case, shape_of[case] or shape, options.shim, shape_of[case] or shape)
            for case in cases for shape in (("static",) if part in SPINNING else ("static", "shared"))
            if shape == "static" or not shape_of[case]]
    if options.hidden:
        jobs += [(case, shape_of[case] or "static", options.hidden, "hidden") for case in hidden_cases]
    else:
        yield "hidden", "skipped", "no --hidden shim"
    build_all(options, [(program_of(case), shape) for case, shape, _, _ in jobs])
    at_once = 2 if part in SPINNING else WORKERS
    with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
        yield from pool.map(lambda job: run_case(options, *job), jobs)


# ---- frameworks


def nvcc(options, name, *further):
    """Compiles one program of tests/gpu; returns its path."""
    target = options.work / name
    subprocess.run([str(options.toolkit / "bin" / "nvcc"), "-arch=native", "-O2", "-o", str(target),
                    str(options.source / "tests" / "gpu" / f"{name}.cu"), *further], check=True)
    return target


def execute(options, command, policy=None, limit_s=300, **more):
    environment = {key: value for key, value in os.environ.items() if not key.startswith("GPUMEM_")}
    environment["LD_LIBRARY_PATH"] = ":".join(filter(None, [str(options.toolkit / "lib64"), os.environ.get("LD_LIBRARY_PATH")]))
    environment["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
    environment.setdefault("NCCL_NVLS_ENABLE", "0")  # multicast needs more of the host than a test may ask for
    words = "-".join(more.values()).replace("/", "_").replace(":", "_")
    trace = options.work / f"{pathlib.Path(command[-1]).stem}-{policy}-{words}.%p.csv"
    if policy:
        environment.update(LD_PRELOAD=str(options.shim), GPUMEM_POLICY=policy, GPUMEM_TRACE=str(trace))
    environment.update(more)
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=limit_s)
    except subprocess.TimeoutExpired:
        done = subprocess.CompletedProcess(command, 124, "", f"does not end within {limit_s} s")
    events = []
    for file in options.work.glob(trace.name.replace("%p", "*")) if policy else []:
        lines = [line for line in file.read_text().splitlines() if not line.startswith("#")]
        events += [dict(zip(lines[0].split(","), line.split(","))) for line in lines[1:]]
        file.unlink()
    return done, events


def framework(options, name, command, policies, **more):
    native, _ = execute(options, command, **more)
    if native.returncode != 0 or "ok " not in native.stdout:
        missing = "No module named" in native.stderr or "PYTORCH_CUDA_ALLOC_CONF" in more  # a mode that this PyTorch lacks
        return name, "skipped" if missing else "FAILED", f"natively {native.returncode}: {native.stderr[-500:]}"
    counts = set()
    for policy in policies:
        done, events = execute(options, command, policy, **more)
        if (done.returncode, done.stdout) != (0, native.stdout):
            return name, "FAILED", f"{policy}: {done.returncode} {done.stdout} natively {native.stdout} {done.stderr[-800:]}"
        live = {}
        for event in sorted(events, key=lambda event: int(event["seq"])):
            if event["action"] == "alloc":
                live[event["address"]] = event
            elif event["action"] in ("free", "release") and event["call"] != "cuMemAddressFree":
                if live.pop(event["address"], None) is None:
                    return name, "FAILED", f"{policy}: freed but never seen: {event}"
        allocations = sum(event["action"] == "alloc" for event in events)
        counts.add(sum(event["action"] == "alloc" and event["call"] == "cuMemAlloc" for event in events))
        if not allocations:
            return name, "FAILED", f"{policy}: no allocation in the trace"
    if len(counts) != 1 and "torch_streams" not in name:  # there the number depends on when streams end their work
        return name, "FAILED", f"numbers of cuMemAlloc differ between policies: {counts}"
    return name, "ok", f"{' or '.join(map(str, sorted(counts)))} cuMemAlloc under each policy"


ARENAS = {  # PyTorch's ways to get its memory
    "caching": {},
    "uncached": {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"},
    "expandable": {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"},
    "cudaMallocAsync": {"PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync"},
}
BUSY = {"GPUMEM_FENCE_BATCH": "1", "GPUMEM_CACHE_LIMIT": "64M"}
# script: modes of PyTorch that it runs in; a plain cudaMalloc inside a capture is an error natively, so no graph without caching
TORCH = {
    "torch_step": list(ARENAS),
    "torch_streams": list(ARENAS),
    "torch_graph": ["caching", "expandable", "cudaMallocAsync"],
}


def frameworks(options):
    here = options.source / "tests" / "gpu"
    thrust = nvcc(options, "thrust_sort")
    jobs = [("thrust_sort", [str(thrust)], POLICIES, {}), ("thrust_sort busy", [str(thrust)], ["cache", "auto"], BUSY)]
    for script, modes in TORCH.items():
        for mode in modes:
            command = [sys.executable, str(here / f"{script}.py")]
            policies = POLICIES if mode in ("caching", "uncached") else ["cache", "async", "active-list", "auto"]
            jobs.append((f"{script} {mode}", command, policies, ARENAS[mode]))
            if mode == "uncached":
                jobs.append((f"{script} {mode} busy", command, ["cache", "auto"], {**ARENAS[mode], **BUSY}))
    for pool in ("on", "off"):
        command = [sys.executable, str(here / "cupy_product.py")]
        jobs.append((f"cupy_product pool {pool}", command, POLICIES, {"CUPY_POOL": pool}))
    with concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
        return list(pool.map(lambda job: framework(options, job[0], job[1], job[2], **job[3]), jobs))


def peers(options):
    target, shapes = nvcc(options, "peers"), ("shared", "static")
    build_all(options, [("two_devices", shape) for shape in shapes])
    yield from (run_case(options, "two_devices", shape, options.shim, shape) for shape in shapes)
    yield framework(options, "peers", [str(target)], POLICIES)
    yield from as_natively(options, "peer_ends", [str(nvcc(options, "peer_ends"))], {})
    yield from stress_rows(options, [row for row in STRESS if row[0].startswith("peers")])
    here = options.source / "tests" / "gpu"
    launcher = shutil.which("torchrun")
    torchrun = [launcher, "--nproc-per-node", "2"] if launcher else None
    often = torchrun and [*torchrun, str(here / "suspend_often.py"), "1"]
    for script, launch, settings in (("torch_allreduce", torchrun, ARENAS["uncached"]), ("torch_ddp", torchrun, ARENAS["caching"]),
                                     ("torch_ddp", torchrun, ARENAS["uncached"]), ("torch_ddp", often, {"GPUMEM_SUSPEND": "on", "DDP_STEPS": "400"}), ("jax_two_devices", [sys.executable], {})):
        yield from as_natively(options, script, launch and [*launch, str(here / f"{script}.py")], settings)


def as_natively(options, script, command, settings):
    """The script prints under every policy what it prints natively."""
    name = " ".join([script, *settings])
    native, _ = execute(options, command, **settings) if command else (None, None)
    if not native or "No module named" in native.stderr:
        yield name, "skipped", "not installed"
        return
    if native.returncode != 0 or "ok " not in native.stdout:
        yield name, "FAILED", f"natively {native.returncode}: {native.stderr[-600:]}"
        return
    for policy in ("observe", "cache", "async", "auto"):  # NCCL cannot register managed memory
        done, events = execute(options, command, policy, **settings)
        good = done.returncode == 0 and done.stdout == native.stdout and any(event["action"] == "alloc" for event in events)
        yield f"{name} {policy}", "ok" if good else "FAILED", "" if good else done.stdout + done.stderr[-600:]


# ---- NCCL in threads


def find_nccl():
    """libnccl of PyTorch's wheels, else the system's; None without one."""
    for folder in sys.path:
        found = sorted(pathlib.Path(folder or ".").glob("nvidia/nccl/lib/libnccl.so*"))
        if found:
            return str(found[0])
    try:
        ctypes.CDLL("libnccl.so.2")
        return "libnccl.so.2"
    except OSError:
        return None


NCCL_ROUNDS = 400


def nccl(options):
    library = find_nccl()
    if not library:
        yield "nccl_threads", "skipped", "no libnccl.so.2"
        return
    target = nvcc(options, "nccl_threads", "-lpthread", "-ldl")
    eager = {"CUDA_MODULE_LOADING": "EAGER"}  # loading a kernel waits for the device, which may wait for the other rank
    for cliques, manner in (("1", "together"), ("1", "apart"), ("2", "together")):
        command = [str(target), library, str(NCCL_ROUNDS), cliques, manner]
        native, _ = execute(options, command, limit_s=90, **eager)
        native_ends = (native.returncode, native.stdout) == (0, "ok nccl_threads 0 wrong\n")
        said = "" if native_ends else f"natively {native.returncode}: {native.stdout}{native.stderr[-300:]}".strip()
        hangs = native.returncode in (3, 124)  # a free may wait for the other rank's GPU: then nothing is asked of the shim
        yield f"nccl_threads {cliques} {manner} natively", "ok" if native_ends else "skipped" if hangs else "FAILED", said
        if not native_ends and not hangs:
            continue
        for policy, more in (("observe", {}), ("cache", {}), ("cache", BUSY), ("auto", {}), ("auto", BUSY), ("async", {})):
            name = f"nccl_threads {cliques} {manner} {policy}{' busy' if more else ''}"
            done, events = execute(options, command, policy, limit_s=90, **eager, **more)
            good = (done.returncode, done.stdout) == (0, "ok nccl_threads 0 wrong\n")
            served = sum(event["action"] == "alloc" and event["call"] == "cuMemAlloc" for event in events)
            if good and served >= NCCL_ROUNDS:
                yield name, "ok", f"{served} cuMemAlloc"
            elif hangs and done.returncode in (3, 124):
                yield name, "skipped", "does not end, and neither does it natively"
            else:
                yield name, "FAILED", f"{done.returncode}, {served} cuMemAlloc: {done.stdout}{done.stderr[-600:]}"
            if not native_ends and not good:
                break  # each further one would take its minute


# ---- long runs

# name, policy, further options, arguments after seconds and threads; "hidden" in the name: the shim without context events
STRESS = [
    ("observe", "observe", {}, []),
    ("cache", "cache", {}, []),
    ("cache batch 1", "cache", {"GPUMEM_FENCE_BATCH": "1"}, []),
    ("cache limit 1M", "cache", {"GPUMEM_CACHE_LIMIT": "1M"}, []),
    ("cache limit 64M batch 1", "cache", {"GPUMEM_CACHE_LIMIT": "64M", "GPUMEM_FENCE_BATCH": "1"}, []),
    ("cache idle 1ms", "cache", {"GPUMEM_CACHE_IDLE": "1ms"}, []),
    ("cache strict", "cache", {"GPUMEM_STRICT": "1"}, []),
    ("cache order", "cache", {"GPUMEM_FREE": "order", "GPUMEM_CACHE_LIMIT": "64M"}, []),
    ("cache without waits", "cache", {"GPUMEM_FREE": "async"}, []),
    ("cache without waits batch 1", "cache", {"GPUMEM_FREE": "async", "GPUMEM_FENCE_BATCH": "1"}, []),
    ("async without waits", "async", {"GPUMEM_FREE": "async"}, []),
    ("auto", "auto", {}, []),
    ("auto strict", "auto", {"GPUMEM_STRICT": "1"}, []),
    ("auto limit 64M batch 1", "auto", {"GPUMEM_CACHE_LIMIT": "64M", "GPUMEM_FENCE_BATCH": "1"}, []),
    ("async", "async", {}, []),
    ("async strict", "async", {"GPUMEM_STRICT": "1"}, []),
    ("managed", "managed", {}, []),
    ("active-list", "active-list", {}, []),
    ("one stream, cache", "cache", {}, ["legacy"]),
    ("one stream, cache batch 1", "cache", {"GPUMEM_FENCE_BATCH": "1"}, ["legacy"]),
    ("one stream, cache order", "cache", {"GPUMEM_FREE": "order"}, ["legacy"]),
    ("one stream, cache limit 64M", "cache", {"GPUMEM_CACHE_LIMIT": "64M"}, ["legacy"]),
    ("one stream, auto", "auto", {}, ["legacy"]),
    ("hidden cache", "cache", {}, []),
    ("hidden cache limit 64M", "cache", {"GPUMEM_CACHE_LIMIT": "64M"}, []),
    ("hidden async", "async", {}, []),
    ("hidden auto", "auto", {}, []),
    ("peers observe", "observe", {}, ["peers"]),
    ("peers cache", "cache", {}, ["peers"]),
    ("peers cache limit 64M batch 1", "cache", {"GPUMEM_CACHE_LIMIT": "64M", "GPUMEM_FENCE_BATCH": "1"}, ["peers"]),
    ("peers async", "async", {}, ["peers"]),
    ("peers auto", "auto", {}, ["peers"]),
]
STRESS_THREADS = "16"


def stress_rows(options, rows):
    target = nvcc(options, "stress")
    seconds = float(os.environ.get("STRESS_SECONDS", "10"))
    words = os.environ.get("STRESS_ROWS", "").split(",")
    clean = {name: value for name, value in os.environ.items() if not name.startswith("GPUMEM_")}

    def run(row):
        name, policy, more, arguments = row
        shim = options.hidden if "hidden" in name else options.shim
        if not shim:
            return f"stress {name}", "skipped", "no --hidden shim"
        try:
            done = subprocess.run([str(target), str(seconds), STRESS_THREADS, *arguments], capture_output=True, text=True,
                                  env={**clean, "LD_PRELOAD": str(shim), "GPUMEM_POLICY": policy, **more}, timeout=seconds * 2 + 120)
        except subprocess.TimeoutExpired:
            return f"stress {name}", "FAILED", f"does not end: {seconds} s were asked for"
        if done.returncode == SKIP:
            return f"stress {name}", "skipped", done.stderr.strip()
        good = (done.returncode, done.stdout) == (0, "ok stress 0 wrong\n")
        return f"stress {name}", "ok" if good else "FAILED", done.stderr.strip()[-400:] if good else f"{done.returncode} {done.stdout}{done.stderr[-500:]}"

    with concurrent.futures.ThreadPoolExecutor(int(os.environ.get("STRESS_AT_ONCE", "2"))) as pool:
        return list(pool.map(run, [row for row in rows if any(word in row[0] for word in words)]))


def stress(options):
    results = stress_rows(options, [row for row in STRESS if not row[0].startswith("peers")])
    target = options.work / "stress"
    # The same cache with its fences cut must be caught, else the runs above prove nothing.
    if options.blind:
        environment = dict(os.environ, LD_PRELOAD=str(options.blind), GPUMEM_POLICY="cache", GPUMEM_FREE="async")
        done = subprocess.run([str(target), "5"], env=environment, capture_output=True, text=True, timeout=400)
        caught = done.returncode != 0 and done.stdout.startswith("ok stress ") and done.stdout != "ok stress 0 wrong\n"
        results.append(("stress without fences", "ok" if caught else "FAILED",
                        done.stdout.strip() + " (must not be 0)" + done.stderr[-300:]))
    return results


def most_live(events):
    """Largest total of device memory at one time, without what went elsewhere for lack of it."""
    live, total, most = {}, 0, 0
    for event in sorted(events, key=lambda event: int(event["seq"])):
        if event["action"] == "alloc" and event["reason"] != "out-of-memory" and event["kind"] not in ("host", "host-numa"):
            live[event["address"]] = int(event["bytes_got"])
            total += live[event["address"]]
            most = max(most, total)
        elif event["action"] in ("free", "release"):
            total -= live.pop(event["address"], 0)
    return most


def pressure(options):
    """The card is made smaller by GPUMEM_LIMIT only: it is never really filled."""
    target = options.work / "oversubscribe"
    subprocess.run([str(options.toolkit / "bin" / "nvcc"), "-arch=native", "-O2", "-o", str(target),
                    str(options.source / "tests" / "gpu" / "oversubscribe.cu")], check=True)
    limit = 1 << 30
    expected = "ok oversubscribe 24 blocks 0 wrong\n"
    native, _ = execute(options, [str(target), "0"])
    if (native.returncode, native.stdout) != (0, expected):
        return [("natively", "FAILED", f"{native.returncode} {native.stdout} {native.stderr[-500:]}")]
    results = []
    cases = [(policy, {"GPUMEM_OOM": "trim,host,fail"}, "host-numa") for policy in ("cache", "async", "managed", "active-list", "auto")]
    cases += [("observe", {"GPUMEM_OOM": "host,fail"}, "host-numa"), ("auto", {"GPUMEM_OOM": "managed,host,fail"}, "managed")]
    for policy, settings, kind in cases:
        done, events = execute(options, [str(target), "1024"], policy, GPUMEM_LIMIT="1GiB", **settings)
        there = sum(int(e["bytes"]) for e in events if e["action"] == "alloc" and e["kind"] == kind and e["reason"] == "out-of-memory")
        good = (done.returncode, done.stdout) == (0, expected) and there >= limit // 2 and most_live(events) <= limit
        results.append((f"{policy} {settings.get('GPUMEM_OOM', '')}", "ok" if good else "FAILED",
                        f"{there >> 20} MiB {kind}, {most_live(events) >> 20} MiB on the device at most"
                        + ("" if good else f": {done.returncode} {done.stdout} {done.stderr[-800:]}")))
    done, events = execute(options, [str(target), "1024"], "auto", GPUMEM_LIMIT="1GiB", GPUMEM_OOM="fail")
    good = (done.returncode, done.stdout) == (3, "out of memory after 16\n")
    results.append(("fail", "ok" if good else "FAILED", "" if good else f"{done.returncode} {done.stdout} {done.stderr[-500:]}"))
    build(options, "free_memory", "driver")  # nothing else may take memory meanwhile
    return [*results, run_case(options, "free_memory", "driver", options.shim, "driver")]


def starved(options):
    """Calls that take memory when they are made or launched get what came and went before. The card is filled, with plain memory."""
    target = options.work / "starved_card"
    subprocess.run([*options.cc.split(), "-O1", "-isystem", str(options.toolkit / "include"), "-o", str(target),
                    str(options.source / "tests/gpu/programs/starved_card.c"), str(options.driver)], check=True)
    results = []
    for how in ("kernel", "kernel_ex", "cooperative", "graph", "array"):
        native, _ = execute(options, [str(target), how])
        if native.returncode:
            outcome = "skipped" if native.returncode == SKIP else "FAILED"
            results.append((f"{how} natively", outcome, f"{native.returncode} {native.stdout}{native.stderr[-300:]}"))
            continue
        for policy in ("auto", "cache", "async"):
            done, _ = execute(options, [str(target), how], policy)
            same = (done.returncode, done.stdout) == (native.returncode, native.stdout)
            results.append((f"{how} {policy}", "ok" if same else "FAILED", "" if same else f"{done.returncode} {done.stdout}{done.stderr[-500:]}"))
    return results


def cooperating(options, name):
    """A program that links the core library: alone, and with the library preloaded under the policies."""
    target = options.work / name
    subprocess.run([str(options.toolkit / "bin" / "nvcc"), "-std=c++17", "-arch=native", "-O1", "-o", str(target),
                    "-I", str(options.source / "shim"), str(options.source / "tests/gpu/programs" / (name + ".cu")),
                    str(options.core), str(options.driver)], check=True)
    results = []
    for policy in (None, "observe", "auto"):
        done, events = execute(options, [str(target)], policy)
        good = (done.returncode, done.stdout) == (0, f"ok {name}\n")
        if policy and good and not any(event["call"] == "cuMemCreate" for event in events):
            good, done.stderr = False, "its memory is not in the trace"
        message = done.stderr.strip()[-400:] if good else f"{done.returncode} {done.stdout[-800:]} {done.stderr[-800:]}"
        results.append((f"{name} {policy or 'alone'}", "skipped" if done.returncode == SKIP else "ok" if good else "FAILED", message))
    return results


def grow(options):
    """GPUMEM_GROW under the programs of tests/preload that grow arrays by hand, and under libraries of NVIDIA's."""
    source = options.source / "tests/preload"
    runner = [sys.executable, str(source / "run_grow.py"), "--shim", str(options.shim)]
    results = []
    for shape in ("static", "shared"):
        target = build(options, "grow", shape)
        done = subprocess.run([*runner, "--program", str(target), "--cuda", str(options.toolkit / "lib64")],
                              capture_output=True, text=True, timeout=600)
        results.append((f"grow {shape}", "ok" if done.returncode == 0 else "FAILED", (done.stdout + done.stderr)[-1200:].strip()
                        if done.returncode else ""))
    for name, library, links in (("grow_libraries", "cuBLAS", cublas_links(options)), ("grow_cupti", "CUPTI", cupti_links(options))):
        if links is None:
            results.append((name, "skipped", f"the toolkit has no {library}"))
            continue
        results += grown_beside(options, name, links)
    return results


def cublas_links(options):
    """How to link with cuBLAS; None: the toolkit is one without it, as that of PyPI's compiler wheels."""
    return ["-lcublas"] if (options.toolkit / "include/cublas_v2.h").exists() else None


def cupti_links(options):
    """How to compile and link with CUPTI, wherever the toolkit has it; None: nowhere."""
    for folder in (options.toolkit / "lib64", options.toolkit / "lib", options.toolkit / "extras/CUPTI/lib64",
                   *options.toolkit.glob("targets/*/lib")):  # fmt: skip
        if list(folder.glob("libcupti.so*")):
            library = sorted(folder.glob("libcupti.so*"))[0]
            includes = [f"-I{place}" for place in (options.toolkit / "include", options.toolkit / "extras/CUPTI/include") if place.is_dir()]
            return [*includes, "-Xlinker", str(library), "-Xlinker", "-rpath", "-Xlinker", str(folder)]
    return None


def grown_beside(options, name, libraries):
    """One program of tests/gpu/programs: the native output in every mode, and pages that move. Its second line, if any, is not compared."""
    results = []
    target = options.work / name
    built = subprocess.run([str(options.toolkit / "bin/nvcc"), "-std=c++17", "-arch=native", "-O1", "-o", str(target),
                            str(options.source / f"tests/gpu/programs/{name}.cu"), *libraries], capture_output=True, text=True)
    if built.returncode:
        return [(name, "FAILED", built.stderr[-500:])]
    native, _ = execute(options, [str(target)])
    if native.returncode == SKIP:
        return [(name, "skipped", native.stderr.strip()[-200:])]
    if native.returncode != 0:
        return [(name, "FAILED", f"natively {native.returncode} {native.stdout} {native.stderr[-500:]}")]
    for mode in ("report", "vmm", "move"):
        done, _ = execute(options, [str(target)], "auto", GPUMEM_GROW=mode, GPUMEM_GROW_MATCH="size>=2M")
        good = done.returncode == 0 and done.stdout.splitlines()[:1] == native.stdout.splitlines()[:1]
        moved = re.search(r"(\d+) times pages moved", done.stderr)
        if mode.startswith("move") and good and not (moved and int(moved[1])):
            good, done.stderr = False, f"no pages moved: {done.stderr}"
        results.append((f"{name} {mode}", "ok" if good else "FAILED", done.stderr.strip()[-300:] if good else
                        f"{done.returncode} {done.stdout} {done.stderr[-500:]}"))
    return results


def region(options):
    return cooperating(options, "region")


def vector(options):
    return cooperating(options, "vector")


def fuzz(options):
    """Random programs of driver calls; FUZZ_SECONDS, 120; FUZZ_SEED: the first, 1."""
    folder = options.source / "tests" / "fuzz" / "driver"
    program, linked = options.work / "driver_calls", options.work / "driver_calls_linked"
    for kernels in folder.glob("*.cu"):
        subprocess.run([str(options.toolkit / "bin" / "nvcc"), "-arch=native", "-cubin", "-o", str(options.work / f"{kernels.stem}.cubin"),
                        str(kernels)], check=True)
    command = [*options.cc.split(), "-std=gnu11", "-D_GNU_SOURCE", "-O1", "-I", str(options.toolkit / "include"), "-I",
               str(options.source / "tools" / "sim"), *map(str, sorted(folder.glob("*.c")))]
    subprocess.run([*command, "-o", str(program), "-ldl", "-lpthread"], check=True)
    subprocess.run([*command, "-DLINKED", "-o", str(linked), str(options.driver), "-ldl", "-lpthread"], check=True)
    log = options.work / "fuzz.txt"
    with log.open("w") as text:
        done = subprocess.run([sys.executable, str(folder / "fuzz_driver.py"), "--program", str(program), "--linked", str(linked),
                               "--kernels", str(options.work), "--devices", str(min(gpus(), 2)), "--shim", str(options.shim), "--jobs", str(WORKERS), "--failures", "5",
                               "--seconds", os.environ.get("FUZZ_SECONDS", "120"), "--seed", os.environ.get("FUZZ_SEED", "1")],
                              stdout=text, stderr=text)
    return [("random programs", "ok" if done.returncode == 0 else "FAILED", log.read_text()[-4000:])]


def sanitizer_tool(options):
    """Path of compute-sanitizer; None where it is not installed."""
    tool = shutil.which("compute-sanitizer") or str(options.toolkit / "bin" / "compute-sanitizer")
    return tool if pathlib.Path(tool).exists() else None


def workspace(options):
    """The library of examples/workspace_trsm on cuBLAS: alone, under the preloaded library, and under compute-sanitizer."""
    target, source = options.work / "workspace_trsm", options.source / "examples/workspace_trsm"
    links = cublas_links(options)
    if links is None:
        return [("workspace_trsm", "skipped", "the toolkit has no cuBLAS")]
    built = subprocess.run([str(options.toolkit / "bin/nvcc"), "-O2", "-o", str(target), "-I", str(options.source), str(source / "main.c"),
                            str(source / "trsm.c"), str(options.core), *links, "-lm"], capture_output=True, text=True)
    if built.returncode:
        return [("workspace_trsm", "FAILED", built.stderr[-500:])]
    size = ["--m", "1000", "--n", "300"]
    results, native = [], None
    for policy in (None, "observe", "auto"):
        done, events = execute(options, [str(target), *size], policy)
        native = native or done.stdout
        good = done.returncode == 0 and done.stdout == native and done.stdout.endswith("ok workspace_trsm\n")
        events.sort(key=lambda event: int(event["seq"]))
        marks = [at for at, event in enumerate(events) if event["action"] == "mark"]
        steady = events[marks[0] + 1:marks[1]] if len(marks) == 2 else None
        if policy and good and steady != []:
            good, done.stderr = False, f"events of the steady state: {steady}"
        results.append((f"workspace_trsm {policy or 'alone'}", "ok" if good else "FAILED",
                        "" if good else f"{done.returncode} {done.stdout[-800:]} {done.stderr[-800:]}"))
    tool = sanitizer_tool(options)
    if not tool:
        return results + [("workspace_trsm compute-sanitizer", "skipped", "not installed")]
    done, _ = execute(options, [tool, "--error-exitcode", "9", str(target), "--m", "200", "--n", "60"], "observe")
    good = done.returncode == 0 and "ERROR SUMMARY: 0 errors" in done.stdout
    return results + [("workspace_trsm compute-sanitizer", "ok" if good else "FAILED",
                       "" if good else f"{done.returncode} {done.stdout[-500:]} {done.stderr[-300:]}")]


def sanitizer(options):
    tool = sanitizer_tool(options)
    if not tool:
        return [("compute-sanitizer", "skipped", "not installed")]
    target = build(options, "kernel", "static")
    done, events = execute(options, [tool, "--error-exitcode", "9", str(target)], "observe")
    results = []
    good = done.returncode == 0 and "ERROR SUMMARY: 0 errors" in done.stdout
    results.append(("under compute-sanitizer", "ok" if good and any(e["action"] == "alloc" for e in events) else "FAILED",
                    f"{done.returncode} {len(events)} events {done.stdout[-300:]} {done.stderr[-300:]}" if not good or not events else ""))
    environment = dict(os.environ, LD_PRELOAD=str(options.shim))
    for name in [name for name in environment if name.startswith("GPUMEM_")]:
        del environment[name]
    done = subprocess.run([tool, "--error-exitcode", "9", str(target)], env=environment, capture_output=True, text=True, timeout=300)
    said = "policy observe" in done.stderr + done.stdout
    results.append(("default policy under compute-sanitizer", "ok" if done.returncode == 0 and said else "FAILED",
                    "" if said and done.returncode == 0 else f"{done.returncode} {done.stdout[-300:]} {done.stderr[-300:]}"))
    return results


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    for name in ("source", "toolkit", "shim", "work"):
        parser.add_argument(f"--{name}", type=pathlib.Path, required=True)
    parser.add_argument("--driver", type=pathlib.Path,
                        help="a library to link with for the driver's names, such as the simulated one; programs run with the machine's")
    parser.add_argument("--cc", default="cc")
    parser.add_argument("--blind", type=pathlib.Path, help="the shim with its fences cut: stress must see it")
    parser.add_argument("--hidden", type=pathlib.Path)
    parser.add_argument("--core", type=pathlib.Path, help="libgpumem-core.a, for region, vector, workspace and doors")
    parser.add_argument("--spgemm", type=pathlib.Path, help="the SpGEMM driver")
    parser.add_argument("--hadron", type=pathlib.Path, help="examples/hadron_static")
    parts = {"frameworks": frameworks, "sanitizer": sanitizer, "peers": peers, "nccl": nccl, "stress": stress,
             "pressure": pressure, "starved": starved, "region": region, "vector": vector, "workspace": workspace, "grow": grow, "in_flight": in_flight,
             "fuzz": fuzz, "accounts": lambda options: card_accounts(options, execute), "order_rows": order_rows, "blind_calls": blind_calls,
             "guard": lambda options: guarded_blocks(options, build, framework, sanitizer_tool(options)),
             "suspend": lambda options: suspended(options, framework, execute),
             "doors": lambda options: doors(options, execute), "spgemm": lambda options: spgemm(options, WORKERS), "hadron": lambda options: hadron(options, WORKERS)}
    parser.add_argument("part", choices=["shared", "static", "driver", *CONCEPTS, *parts])
    options = parser.parse_args()
    if gpus() < (2 if options.part in ("peers", "nccl") else 1):
        print("skipped: too few GPUs")
        return SKIP
    options.work = options.work.resolve()
    shutil.rmtree(options.work, ignore_errors=True)
    options.work.mkdir(parents=True)
    if options.hidden and not options.hidden.exists():
        print(f"there is no {options.hidden}")
        options.hidden = None
    if options.part in parts:
        results = parts[options.part](options)
    elif options.part in CONCEPTS:
        results = concept(options, options.part)
    else:
        results = programs(options, options.part)
    failed = False
    for name, outcome, message in results:
        print(f"{outcome:8} {options.part} {name} {message}".rstrip(), flush=True)
        failed |= outcome == "FAILED"
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
