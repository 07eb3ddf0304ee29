"""Hadron contractions on a GPU: the cases of gpu_suite.py for examples/hadron."""

import concurrent.futures
import csv
import itertools
import os
import pathlib
import shutil
import subprocess

VARIANTS = ("unified_naive", "unified_reorg", "unified_once", "unified_kept", "explicit_naive", "explicit_reorg", "explicit_reorg_sync", "full", "resident")
POLICIES = ("random", "mru", "lru", "car", "clock_pro", "preprotected_lru", "window")
MESONS = ("--vector-size", "6", "--vectors", "5", "--tensor", "24")
BARYONS = ("--system", "baryon", "--vector-size", "4", "--vectors", "4", "--tensor", "12")
MESON_GRAPHS = ("--function", "a1_rhopi", "--vector-size", "8", "--tensor", "20")
BARYON_GRAPHS = ("--function", "two_point", "--system", "baryon", "--vector-size", "4", "--tensor", "10")
# Beyond a budget of 30 nodes; graphs have 106.
EVICTING = (*MESON_GRAPHS, "--budget", str(30 * 16 * 20 * 20 * 16))
SWITCHES = ("--reorganise", "--on-demand-sync", "--duplicates", "--lazy-release")


def contraction(options, *arguments, preload=None, tool=(), limit_s=300):
    """One run: every element of every output is compared at these sizes, sampled rows at larger ones."""
    name = " ".join([*(["under compute-sanitizer"] if tool else []), *([preload] if preload else []), *arguments])
    environment = {key: value for key, value in os.environ.items() if not key.startswith("GPUMEM_")}
    environment["LD_LIBRARY_PATH"] = ":".join(filter(None, [str(options.toolkit / "lib64"), os.environ.get("LD_LIBRARY_PATH")]))
    if preload:
        environment.update(LD_PRELOAD=str(options.shim), GPUMEM_POLICY=preload)
    try:
        done = subprocess.run([*tool, str(options.hadron), *arguments, "--check"], env=environment, capture_output=True, text=True, timeout=limit_s)
    except subprocess.TimeoutExpired:
        return name, "FAILED", f"does not end within {limit_s} s"
    lines = [line for line in done.stdout.splitlines() if "," in line and not line.startswith("=")]
    rows = list(csv.DictReader(lines))
    good = done.returncode == 0 and len(rows) == 1 and rows[0]["check"] == "right" and int(rows[0]["compared"]) > 0
    good = good and (not tool or "ERROR SUMMARY: 0 errors" in done.stdout)
    good = good and ("--budget" not in arguments or float(rows[0]["evictions"]) > 0 or rows[0]["duplicates"] == "0")
    lacking = done.returncode == 1 and "no cuBLAS" in done.stderr
    return name, "ok" if good else "skipped" if lacking else "FAILED", "" if good else f"{done.returncode} {done.stdout[-500:]} {done.stderr[-400:]}"


def jobs_of():
    every = ("--results", "all")
    for variant, workload in itertools.product(VARIANTS, (MESONS, BARYONS, MESON_GRAPHS, BARYON_GRAPHS)):
        yield "--variant", variant, *workload, *every, "--loops", "2"
        yield "--variant", variant, *workload, "--products", "own"
    for policy, results in itertools.product(POLICIES, ("all", "last")):
        yield *EVICTING, "--eviction", policy, "--results", results, "--loops", "3"
        yield *EVICTING, "--eviction", policy, "--results", results, "--host", "pinned"
        yield *EVICTING, "--eviction", policy, "--results", results, "--reorganise", "off"
    for switches in itertools.product(("on", "off"), repeat=len(SWITCHES)):
        yield *MESON_GRAPHS, *itertools.chain(*zip(SWITCHES, switches)), *every
    for variant in ("full", "explicit_naive", "unified_reorg"):
        yield "--variant", variant, "--vector-size", "4", "--vectors", "3", "--tensor", "192"
    yield "--vector-size", "8", "--oversubscription", "150", "--tensor", "256", "--eviction", "lru"
    yield "--system", "baryon", "--vector-size", "2", "--vectors", "3", "--tensor", "64"


def hadron(options, workers):
    """Every way to manage memory and every eviction policy against the host's numbers, also under the library and compute-sanitizer."""
    if not options.hadron or not options.hadron.exists():
        return [("hadron", "skipped", "the example is not built")]
    jobs = [(job, {}) for job in jobs_of()]
    jobs += [((*workload, "--results", "all"), {"preload": policy}) for policy in ("observe", "cache", "auto")
             for workload in (EVICTING, (*MESONS, "--variant", "explicit_naive"), (*MESONS, "--variant", "unified_reorg"))]
    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        results = list(pool.map(lambda job: contraction(options, *job[0], **job[1]), jobs))
    return results + sanitized(options, workers)


def sanitized(options, workers):
    tool = shutil.which("compute-sanitizer") or str(options.toolkit / "bin" / "compute-sanitizer")
    if not pathlib.Path(tool).exists():
        return [("compute-sanitizer", "skipped", "not installed")]
    small = ("--function", "two_point", "--vector-size", "4", "--tensor", "8", "--results", "all")
    tight = ("--budget", str(14 * 16 * 8 * 8 * 16))
    jobs = [(*small, "--variant", variant) for variant in VARIANTS]
    jobs += [(*small, *tight, "--eviction", policy) for policy in POLICIES]
    jobs += [(*small, "--products", "own"), (*BARYON_GRAPHS, "--tensor", "4"), (*small, *tight, "--reorganise", "off")]
    command = (tool, "--tool", "memcheck", "--error-exitcode", "9")
    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        return list(pool.map(lambda job: contraction(options, *job, tool=command), jobs))
