#!/usr/bin/env python3
"""The preload programs and real frameworks on a real GPU, natively and under every policy.

usage: gpu_suite.py --source DIR --toolkit DIR --cc CC --shim FILE --work DIR PART

PART: shared | static | driver (the small programs of tests/preload, built here against NVIDIA's runtime of either kind),
frameworks (PyTorch, CuPy, Thrust), sanitizer (compute-sanitizer with the shim loaded), peers (two GPUs reach each other's memory),
stress (threads and streams whose kernels verify their memory; STRESS_SECONDS for each policy, default 10), pressure (a program that
needs 1.5 times GPUMEM_LIMIT = 1 GiB). Ends with 77 without a GPU, and peers without two.
"""

import argparse
import concurrent.futures
import ctypes
import os
import pathlib
import shutil
import subprocess
import sys

SKIP = 77
WORKERS = 6  # programs at a time: each brings up a context of its own

DRIVER = ["driver_linked", "driver_dlopened", "arrays", "vmm", "weak_driver", "next_symbol", "graph_memory", "no_cuda"]
RUNTIME = ["runtime_basic", "threads", "fork_child", "exec_self", "leaks", "wrong_free", "managed", "async", "pitch", "pools",
           "host_memory", "per_thread_stream", "context_reset", "capture", "ipc", "two_sites", "out_of_memory", "kernel"]
SHARED_ONLY = ["weak_runtime", "two_runtimes"]


def gpus():
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return 0
    count = ctypes.c_int()
    return count.value if driver.cuInit(0) == 0 and driver.cuDeviceGetCount(ctypes.byref(count)) == 0 else 0


def build(options, name, shape):
    """Compiles one program of tests/preload; returns its path."""
    source = options.source / "tests" / "preload"
    target = options.work / shape / name
    target.parent.mkdir(parents=True, exist_ok=True)
    library = options.toolkit / "lib64"
    if name == "kernel":
        command = [str(options.toolkit / "bin" / "nvcc"), "-cudart", shape, "-O1", "-I", str(source), "-o", str(target),
                   str(source / "kernel.cu")]
    else:
        link = {
            "shared": ["-L", str(library), "-lcudart"],
            "static": [str(library / "libcudart_static.a"), "-ldl", "-lpthread", "-lrt"],
            "driver": ["-L", str(library / "stubs"), "-lcuda", "-ldl", "-lpthread"],
        }[shape]
        if name in ("driver_dlopened", "weak_driver", "weak_runtime", "next_symbol", "two_runtimes", "no_cuda"):
            link = ["-ldl", "-lpthread"]
        further = ["-fPIE"] if name.startswith("weak") else ["-rdynamic", "-O0", "-fno-builtin"] if name == "next_symbol" else []
        command = [*options.cc.split(), "-g", "-O1", "-D_GNU_SOURCE", "-isystem", str(options.toolkit / "include"), *further,
                   "-o", str(target), str(source / (name + ".c")), *link, "-lpthread", "-ldl"]
    subprocess.run(command, check=True)
    return target


def run_case(runner, options, name, shape):
    """One case of the preload runner in a place of its own; returns (name, outcome, message)."""
    place = runner.Place(argparse.Namespace(
        programs=options.work / shape, cuda=options.toolkit / "lib64", shim=options.shim,
        work=options.work / f"run-{shape}" / name))
    try:
        runner.CASES[name](place)
        return name, "ok", ""
    except runner.Failure as failure:
        return name, "FAILED", str(failure)
    except SystemExit as end:
        return name, "skipped" if end.code == SKIP else "FAILED", f"exit {end.code}"


def programs(options, shape):
    sys.path.insert(0, str(options.source / "tests" / "preload"))
    import run_preload as runner

    names = {"driver": DRIVER, "static": RUNTIME, "shared": RUNTIME + SHARED_ONLY}[shape]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(lambda name: build(options, name, shape), names))
    with concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
        return list(pool.map(lambda name: run_case(runner, options, name, shape), names))


# ---- frameworks


def execute(options, command, policy=None, **more):
    environment = {key: value for key, value in os.environ.items() if not key.startswith("GPUMEM_")}
    environment["LD_LIBRARY_PATH"] = ":".join(filter(None, [str(options.toolkit / "lib64"), os.environ.get("LD_LIBRARY_PATH")]))
    environment["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
    trace = options.work / f"{pathlib.Path(command[-1]).stem}-{policy}-{'-'.join(more)}-%p.csv"
    if policy:
        environment.update(LD_PRELOAD=str(options.shim), GPUMEM_POLICY=policy, GPUMEM_TRACE=str(trace))
    environment.update(more)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    events = []
    for file in options.work.glob(trace.name.replace("%p", "*")) if policy else []:
        lines = [line for line in file.read_text().splitlines() if not line.startswith("#")]
        events += [dict(zip(lines[0].split(","), line.split(","))) for line in lines[1:]]
        file.unlink()
    return done, events


def framework(options, name, command, policies, **more):
    native, _ = execute(options, command, **more)
    if native.returncode != 0 or "ok " not in native.stdout:
        missing = "No module named" in native.stderr
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
    if len(counts) != 1:
        return name, "FAILED", f"numbers of cuMemAlloc differ between policies: {counts}"
    return name, "ok", f"{counts.pop()} cuMemAlloc under each policy"


def frameworks(options):
    here = options.source / "tests" / "gpu"
    policies = ["observe", "cache", "async", "managed", "active-list", "auto"]
    thrust = options.work / "thrust_sort"
    subprocess.run([str(options.toolkit / "bin" / "nvcc"), "-arch=native", "-O2", "-o", str(thrust), str(here / "thrust_sort.cu")], check=True)
    jobs = [
        ("thrust_sort", [str(thrust)], {}),
        ("torch_step", [sys.executable, str(here / "torch_step.py")], {}),
        ("torch_step uncached", [sys.executable, str(here / "torch_step.py")], {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}),
        ("torch_graph", [sys.executable, str(here / "torch_graph.py")], {}),
        ("cupy_product", [sys.executable, str(here / "cupy_product.py")], {}),
    ]
    with concurrent.futures.ThreadPoolExecutor(len(jobs)) as pool:
        return list(pool.map(lambda job: framework(options, job[0], job[1], policies, **job[2]), jobs))


def peers(options):
    target = options.work / "peers"
    subprocess.run([str(options.toolkit / "bin" / "nvcc"), "-arch=native", "-O1", "-o", str(target),
                    str(options.source / "tests" / "gpu" / "peers.cu")], check=True)
    policies = ["observe", "cache", "async", "managed", "active-list", "auto"]
    results = [framework(options, "peers", [str(target)], policies)]
    launcher = shutil.which("torchrun")
    if not launcher:
        return results + [("torch_allreduce", "skipped", "no torchrun")]
    command = [launcher, "--nproc-per-node", "2", str(options.source / "tests" / "gpu" / "torch_allreduce.py")]
    native, _ = execute(options, command)
    # Managed memory cannot be registered with NCCL; the other kinds can.
    for policy in ("observe", "cache", "async", "auto"):
        done, events = execute(options, command, policy, PYTORCH_NO_CUDA_MEMORY_CACHING="1")
        good = done.returncode == 0 and done.stdout == native.stdout and any(event["action"] == "alloc" for event in events)
        results.append((f"torch_allreduce {policy}", "ok" if good else "FAILED", "" if good else done.stdout + done.stderr[-600:]))
    return results


def stress(options):
    target = options.work / "stress"
    subprocess.run([str(options.toolkit / "bin" / "nvcc"), "-arch=native", "-O2", "-o", str(target),
                    str(options.source / "tests" / "gpu" / "stress.cu")], check=True)
    results = []
    for policy in ("observe", "cache", "async", "managed", "active-list", "auto"):
        environment = dict(os.environ, LD_PRELOAD=str(options.shim), GPUMEM_POLICY=policy)
        done = subprocess.run([str(target), os.environ.get("STRESS_SECONDS", "10")], env=environment, capture_output=True, text=True,
                              timeout=400)
        good = done.returncode == 0 and done.stdout == "ok stress 0 wrong\n"
        results.append((f"stress {policy}", "ok" if good else "FAILED", done.stderr.strip() if good else done.stdout + done.stderr[-500:]))
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
    cases = [(policy, {}, "host-numa") for policy in ("cache", "async", "managed", "active-list", "auto")]
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
    return results


def sanitizer(options):
    tool = shutil.which("compute-sanitizer") or str(options.toolkit / "bin" / "compute-sanitizer")
    if not pathlib.Path(tool).exists():
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
    parser.add_argument("--cc", default="cc")
    parser.add_argument("part", choices=["shared", "static", "driver", "frameworks", "sanitizer", "peers", "stress", "pressure"])
    options = parser.parse_args()
    if gpus() < (2 if options.part == "peers" else 1):
        print("skipped: too few GPUs")
        return SKIP
    options.work = options.work.resolve()
    shutil.rmtree(options.work, ignore_errors=True)
    options.work.mkdir(parents=True)
    if options.part in ("frameworks", "sanitizer", "peers", "stress", "pressure"):
        results = {"frameworks": frameworks, "sanitizer": sanitizer, "peers": peers, "stress": stress,
                   "pressure": pressure}[options.part](options)
    else:
        results = programs(options, options.part)
    for name, outcome, message in results:
        print(f"{outcome:8} {options.part} {name} {message}")
    return 1 if any(outcome == "FAILED" for _, outcome, _ in results) else 0


if __name__ == "__main__":
    sys.exit(main())
