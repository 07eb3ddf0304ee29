"""Sparse products on a GPU: the cases of gpu_suite.py for the SpGEMM driver."""

import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess

# Regular and skewed matrices, empty rows, rows that exceed the largest table, a dense row and column, one entry, rectangular ones.
PRODUCTS = ["gen:stencil7:1x1x1", "gen:cage:7", "gen:stencil7:20x20x20", "gen:brick27:8:3", "gen:brick27:7:5", "gen:rmat:10:8", "gen:rmat:14:8",
            "gen:rmat:13:64", "gen:nlpkkt:12", "arrow", "empty", "hollow", "wide"]
SMALL_PRODUCTS = ["gen:stencil7:1x1x1", "gen:cage:7", "gen:stencil7:20x20x20", "gen:rmat:10:8", "empty", "hollow", "wide"]
PEERS = ["cusparse:alg1", "cusparse:alg2", "cusparse:alg3"]
LIBRARY = [("auto",), ("auto:warm",), ("auto:same",), ("auto:wide",), ("host",), ("auto", "--devices", "all"), ("auto:same", "--devices", "all")]
PASSES = [("upper-bound",), ("precise",)]
GROWING = [("rounds",), ("rounds", "--size-per-row", "8"), ("rounds", "--size-per-row", "64", "--vector", "copy")]
# Compaction in place: sizes where the ends of tiles, rows and C coincide, and sizes where they do not; slabs; many tiles at one time.
IN_PLACE = [("gen:stencil7:100x100x100", size) for size in ("25", "27", "32", "auto")]
IN_PLACE += [("gen:stencil7:64x64x32", size) for size in ("25", "64", "250", "1000", "2047", "2048", "2049")]
IN_PLACE += [("gen:brick27:24:3", size) for size in ("375", "384", "64")]
IN_PLACE += [("gen:cage:12", size) for size in ("8", "16", "64", "128", "auto")]
IN_PLACE += [("gen:nlpkkt:32", size) for size in ("1", "7", "152", "auto")]
IN_PLACE += [("gen:rmat:15:16", size) for size in ("5", "64", "auto")] + [(name, size) for name in ("empty", "hollow", "arrow") for size in ("1", "2048", "auto")]
# Matrices in host memory: many slabs with B on the device, and with rows of B in each slab.
SLABS = [("gen:nlpkkt:32", "256MiB"), ("gen:nlpkkt:32", "24MiB"), ("gen:stencil7:100x100x100", "64MiB"), ("gen:rmat:14:8", "256MiB")]
PERSISTENT = [("rounds", "--persistent"), ("rounds", "--size-per-row", "3", "--persistent")]


def matrix_file(path, rows, columns, entries):
    lines = [f"{i + 1} {j + 1} {1 + (7 * i + 3 * j) % 11}" for i, j in sorted(entries)]
    path.write_text("\n".join(["%%MatrixMarket matrix coordinate real general", f"{rows} {columns} {len(lines)}", *lines, ""]))
    return path


def made_products(folder):
    """Matrices without a generator: name -> arguments that select them."""
    n = 12000
    arrow = {(0, k) for k in range(n)} | {(k, 0) for k in range(n)} | {(k, k) for k in range(0, n, 5)}
    arrow = {(i, j) for i, j in arrow if i == 0 or j == 0 and i % 97 == 0 or i == j}
    hollow = {(i, (i * 31 + k) % 500) for i in range(0, 500, 7) for k in range(9)}
    wide = {(i, (i * 13 + k * 17) % 900) for i in range(40) for k in range(30)} | {(7, k) for k in range(900)}
    tall = {(i, (i * 5 + k) % 60) for i in range(900) for k in range(4)} | {(9, k) for k in range(60)}
    files = {"arrow": (n, n, arrow), "empty": (50, 50, set()), "hollow": (500, 500, hollow), "wide": (40, 900, wide), "tall": (900, 60, tall)}
    paths = {name: str(matrix_file(folder / f"{name}.mtx", *what)) for name, what in files.items()}
    return {name: ["--matrix", path] + (["--b", paths["tall"]] if name == "wide" else []) for name, path in paths.items() if name != "tall"}


def product(options, matrix, mode, *arguments):
    name = " ".join([matrix[1].rsplit("/", 1)[-1], mode, *arguments])
    done = subprocess.run([str(options.spgemm), *matrix, "--mode", mode, "--runs", "2", "--check", *arguments], capture_output=True,
                          text=True, timeout=200)
    lacking = "which this build lacks" in done.stderr or "libcusparse" in done.stderr
    outcome = "ok" if done.returncode == 0 and "check=ok" in done.stdout else "skipped" if lacking else "FAILED"
    return name, outcome, "" if outcome == "ok" else f"{done.returncode} {done.stderr[-300:]}"


def again_and_again(options):
    """Tiles run in a different order each time. The C of the last run is checked; each run reuses the memory of the one before."""
    done = subprocess.run([str(options.spgemm), "--matrix", "gen:stencil7:100x100x100", "--mode", "rounds", "--size-per-row", "26", "--runs", "200", "--check"],
                          capture_output=True, text=True, timeout=200)
    good = done.returncode == 0 and "check=ok" in done.stdout
    return "C in place, 200 times", "ok" if good else "FAILED", "" if good else f"{done.returncode} {done.stderr[-300:]}"


def estimates(options, matrix):
    """The device's estimates of nnz(C) equal the host's: same rows, same keys."""
    said = [subprocess.run([str(options.spgemm), "--matrix", matrix, *how], capture_output=True, text=True, timeout=200)
            for how in (["--model"], ["--mode", "rounds", "--runs", "1", "--size-per-row", "auto"])]
    host, device = ({name: float(value) for name, value in re.findall(r"^(sampled|cohen)_nnz_c=(\d+)", one.stdout, re.M)} for one in said)
    good = len(host) == 2 and host.keys() == device.keys() and all(abs(host[name] - device[name]) <= 1 + 1e-6 * host[name] for name in host)
    return f"estimates of {matrix}", "ok" if good else "FAILED", "" if good else f"{host} {device} {said[1].stderr[-300:]}"


def spgemm(options, workers):
    """Every mode, kernel, precision and vector of the SpGEMM driver against the host's product."""
    if not options.spgemm or not options.spgemm.exists():
        return [("spgemm", "skipped", "the driver is not built")]
    made = made_products(options.work)
    reads = "files need" not in subprocess.run([str(options.spgemm), *made["empty"], "--model"], capture_output=True, text=True).stderr
    chosen = {name: made.get(name, ["--matrix", name]) for name in PRODUCTS if reads or name not in made}
    jobs = [(chosen[name], mode, "--precision", precision, *rest) for name in chosen for precision in ("double", "float")
            for mode, *rest in [(peer,) for peer in PEERS] + LIBRARY + PASSES + GROWING]
    jobs += [(chosen[name], mode, "--precision", precision, "--kernel", "thesis", *rest) for name in SMALL_PRODUCTS if name in chosen
             for precision in ("double", "float") for mode, *rest in PASSES + GROWING + PERSISTENT]
    jobs += [(made.get(name, ["--matrix", name]), "rounds", "--size-per-row", size, "--precision", precision) for name, size in IN_PLACE
             if reads or name not in made for precision in ("double", "float")]
    jobs += [(["--matrix", name], "host", "--limit", limit, "--precision", precision) for name, limit in SLABS for precision in ("double", "float")]
    words = os.environ.get("SPGEMM_ROWS", "").split()
    jobs = [job for job in jobs if not words or any(word in " ".join([job[0][1], *job[1:]]) for word in words)]
    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        results = list(pool.map(lambda job: product(options, *job), jobs))
    results.append(again_and_again(options))
    full = subprocess.run([str(options.spgemm), "--matrix", "gen:brick27:8:3", "--mode", "upper-bound", "--limit", "8MiB"],
                          capture_output=True, text=True)
    results += [estimates(options, matrix) for matrix in ("gen:cage:7", "gen:stencil7:20x20x20", "gen:rmat:14:8")]
    good = full.returncode == 1 and "out of device memory" in full.stderr
    results.append(("limit", "ok" if good else "FAILED", "" if good else full.stderr[-300:]))
    if not reads:
        results.append(("made matrices", "skipped", "the driver reads no files"))
    return results + sanitized_products(options, workers)


def sanitized_products(options, workers):
    tool = shutil.which("compute-sanitizer") or str(options.toolkit / "bin" / "compute-sanitizer")
    if not pathlib.Path(tool).exists():
        return [("compute-sanitizer", "skipped", "not installed")]

    def checked(job):
        done = subprocess.run([tool, "--error-exitcode", "9", str(options.spgemm), "--runs", "1", "--warmup", "0", "--check", *job],
                              capture_output=True, text=True, timeout=300)
        good = done.returncode == 0 and "ERROR SUMMARY: 0 errors" in done.stdout
        return "compute-sanitizer " + " ".join(job), "ok" if good else "FAILED", "" if good else done.stdout[-800:] + done.stderr[-300:]

    jobs = [("--matrix", "gen:cage:6", "--mode", mode, *rest) for mode, *rest in LIBRARY + PASSES + GROWING]
    jobs += [("--matrix", "gen:cage:6", "--kernel", "thesis", "--mode", mode, *rest) for mode, *rest in PASSES[1:] + GROWING[1:] + PERSISTENT[1:]]
    jobs.append(("--matrix", "gen:rmat:13:16", "--mode", "precise"))
    jobs += [("--matrix", "gen:stencil7:40x40x40", "--mode", "rounds", "--size-per-row", size) for size in ("25", "8")]
    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        return list(pool.map(checked, jobs))
