"""Traces of real programs, every allocation of which is a cudaMalloc: PyTorch training and CuPy with their caching off, Thrust."""

import csv
import gzip
import pathlib
import sys

import common

HERE = pathlib.Path(__file__).parent
COLUMNS = ["seq", "time_ns", "action", "call", "address", "bytes", "device", "stream", "thread"]
PROGRAMS = {
    "training": ([sys.executable, HERE / "programs" / "training.py", "--steps", "12", "--samples", "1"],
                 {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}),
    "cupy": ([sys.executable, HERE / "programs" / "cupy_solver.py"], {}),
    "thrust": (["thrust_mix"], {}),
}


def shorten(lines):
    """The published columns of allocations and frees, in order, times from the first one on. `lines`: a CSV trace, no comments."""
    rows = [row for row in csv.DictReader(line for line in lines if not line.startswith("#")) if row["action"] in ("alloc", "free")]
    rows.sort(key=lambda row: int(row["seq"]))
    start = int(rows[0]["time_ns"]) if rows else 0
    for row in rows:
        row["time_ns"] = int(row["time_ns"]) - start
    return [",".join(COLUMNS), *(",".join(str(row[column]) for column in COLUMNS) for row in rows)]


def record(name, shim, programs, folder, timeout=None):
    """Runs one program under policy observe and writes folder/name.csv.gz; returns the number of events kept."""
    command, settings = PROGRAMS[name]
    if command == ["thrust_mix"]:
        command = [programs / "thrust_mix"]
    folder.mkdir(parents=True, exist_ok=True)
    raw = folder / f"{name}.raw.csv"
    try:
        # Only the program itself is under the library: a child would write a trace of its own.
        common.run(command, common.environment(shim, {**settings, "GPUMEM_POLICY": "observe", "GPUMEM_TRACE": str(raw)}), timeout)
        with raw.open() as file:
            kept = shorten(file)
    finally:
        for left in folder.glob(f"{name}.raw*"):
            left.unlink()
    if len(kept) < 2:
        raise common.Failed(f"{name}: no allocation was recorded")
    with gzip.GzipFile(folder / f"{name}.csv.gz", "wb", mtime=0) as file:
        file.write(("\n".join(kept) + "\n").encode())
    return len(kept) - 1


def unpack(folder, into):
    """Traces of a folder as plain CSV files: name to path."""
    found = {}
    for packed in sorted(folder.glob("*.csv.gz")):
        name = packed.name[:-len(".csv.gz")]
        found[name] = into / f"{name}.csv"
        found[name].write_bytes(gzip.decompress(packed.read_bytes()))
    return found
