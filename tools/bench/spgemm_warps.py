"""Figure 5.2 of the thesis: active warps of a multiprocessor in each call of the kernel that computes rows, by Nsight Compute."""

import csv
import pathlib
import shutil
import tempfile

import common

MATRIX, SIZES = "twin-pwtk", [8, 64]  # the small data set of the thesis; there is no generator for the large one, Hook_1498
KERNELS = {"thesis": "dot_rows", "hash": "table_rows|range_rows"}
MOST = 64  # calls to profile
WARPS, PERCENT, TIME = "sm__warps_active.avg.per_cycle_active", "sm__warps_active.avg.pct_of_peak_sustained_active", "gpu__time_duration.sum"


class Unavailable(Exception):
    """There are no figures; the text says why."""


def tool():
    usual = [path for folder, names in (("/usr/local", "cuda*/bin/ncu"), ("/usr/local", "cuda*/nsight-compute*/ncu"), ("/opt/nvidia/nsight-compute", "*/ncu"))
             for path in sorted(pathlib.Path(folder).glob(names))]
    found = shutil.which("ncu") or next(reversed(usual), None)
    if not found:
        raise Unavailable("ncu is not installed: neither in PATH nor under /usr/local/cuda*, /opt/nvidia/nsight-compute")
    return str(found)


def calls(report):
    """Kernel calls of a report of ncu (--csv --page raw --print-units base), in order. Raises Unavailable with the reason."""
    lines = report.splitlines()
    head = next((i for i, line in enumerate(lines) if line.startswith('"ID"')), None)
    if head is None:
        if "ERR_NVGPUCTRPERM" in report:
            raise Unavailable("no permission to read performance counters (ERR_NVGPUCTRPERM)")
        words = [line for line in lines if line.startswith("==ERROR==") or "No kernels" in line]
        raise Unavailable("ncu: " + (words[0].removeprefix("==ERROR==").strip() if words else "no figures"))
    rows = [row for row in csv.DictReader(lines[head:]) if (row["ID"] or "").isdigit()]  # the first row has units
    try:
        return [{"warps": number(row[WARPS]), "percent": number(row[PERCENT]), "ns": number(row[TIME])} for row in rows]
    except (KeyError, ValueError) as error:
        raise Unavailable(f"ncu: no figure of {error}") from None


def number(text):
    return float(text.replace(",", ""))


def measure(driver, kernel, size, precision, timeout):
    """Kernel calls of a single product by the growing loop, without warm-up, so that each call is profiled once."""
    with tempfile.TemporaryDirectory() as folder:
        log = pathlib.Path(folder, "ncu.csv")
        try:
            common.run([tool(), "--csv", "--page", "raw", "--print-units", "base", "--metrics", ",".join((WARPS, PERCENT, TIME)),
                        "--kernel-name", f"regex:{KERNELS[kernel]}", "--clock-control", "none", "--launch-count", MOST, "--log-file", log, driver, "--matrix", f"gen:{MATRIX}", "--mode", "rounds",
                        "--size-per-row", size, "--kernel", kernel, "--precision", precision, "--runs", 1, "--warmup", 0],
                       common.environment(), timeout)
        except common.Failed as failure:
            if log.exists():
                calls(log.read_text())  # knows the reason better
            raise Unavailable(str(failure)) from None
        return calls(log.read_text() if log.exists() else "")


def mean(found, key):
    """Mean weighted by the time of each call: a short call does not hide the latency of a long one."""
    time = sum(call["ns"] for call in found)
    return sum(call[key] * call["ns"] for call in found) / time if time else None


def rows(warps):
    """Table rows: what ran, number of calls, mean, least and most active warps, and their share of a multiprocessor's maximum in %."""
    for name, found in warps.items():
        matrix, kernel, size = name.split("|")
        if found:
            counts = [call["warps"] for call in found]
            yield [f"{matrix}, kernel {kernel}, size_per_row {size}", len(found), f"{mean(found, 'warps'):.2f}", f"{min(counts):.2f}",
                   f"{max(counts):.2f}", f"{mean(found, 'percent'):.1f}"]
