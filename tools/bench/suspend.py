#!/usr/bin/env python3
"""How long device memory takes to leave the card and to come back: by gpumem suspend, by the driver's checkpoint API, and by copies
between mapped memory and pinned memory, side by side.

usage: suspend.py [--build DIR] [--bytes GIB] [--rounds N] [--to DIR] [--out FILE.json]

Each way moves the same bytes of random contents (default 16 GiB), in a process of its own, round by round (default 3). "again" rows
are the second and later moves of a process. By gpumem: the first move; one after all contents changed, with the host's copy kept, and
kept and registered; one after nothing changed; and one to a file in DIR (default: the folder of temporary files). Prints seconds and
GB/s (median of the rounds), and writes FILE.json (default suspend.json). Ends with 77 without a GPU.
"""

import argparse
import ctypes
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import common
from figure_text import GIB, block, span, titled

PIECE = 1 << 30


class Driver:
    def __init__(self):
        self.cuda = ctypes.CDLL("libcuda.so.1")
        self.call("cuInit", 0)
        self.context = ctypes.c_void_p()
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(self.context), 0)
        self.call("cuCtxSetCurrent", self.context)

    def call(self, name, *arguments):
        status = getattr(self.cuda, name)(*arguments)
        if status:
            raise RuntimeError(f"{name}: {status}")

    def fill(self, size):
        """Blocks with contents that are not zero and differ."""
        blocks = []
        for _ in range(0, size, PIECE):
            blocks.append(ctypes.c_uint64())
            self.call("cuMemAlloc_v2", ctypes.byref(blocks[-1]), ctypes.c_size_t(PIECE))
        return blocks, self.write(blocks)

    def write(self, blocks):
        seed = os.urandom(1 << 20) * 64
        for address in blocks:
            for offset in range(0, PIECE, len(seed)):
                self.call("cuMemcpyHtoD_v2", ctypes.c_uint64(address.value + offset), seed, ctypes.c_size_t(len(seed)))
        self.call("cuCtxSynchronize")
        return seed

    def check(self, blocks, seed):
        host = ctypes.create_string_buffer(len(seed))
        for address in blocks:
            self.call("cuMemcpyDtoH_v2", host, address, ctypes.c_size_t(len(seed)))
            assert host.raw == seed, "the contents have changed"


def timed(step):
    begin = time.perf_counter()
    step()
    return time.perf_counter() - begin


class Options(ctypes.Structure):
    """struct gpumem_suspend_options"""

    _fields_ = [("struct_size", ctypes.c_size_t), ("keep", ctypes.c_char_p), ("drop", ctypes.c_char_p), ("flags", ctypes.c_uint64),
                ("patience_ns", ctypes.c_uint64), ("to", ctypes.c_char_p)]  # fmt: skip


class Suspender:
    def __init__(self, driver, blocks):
        self.driver, self.blocks = driver, blocks
        self.library = ctypes.CDLL(None)
        self.library.gpumem_last_error.restype = ctypes.c_char_p

    def step(self, name, *arguments):
        if getattr(self.library, name)(*arguments):
            raise RuntimeError(self.library.gpumem_last_error().decode())

    def move(self, row, seed, folder=None):
        options = Options(ctypes.sizeof(Options), None, None, 0, 0, folder)
        out = timed(lambda: self.step("gpumem_suspend", ctypes.byref(options), None))
        back = timed(lambda: self.step("gpumem_resume", None, None))
        self.driver.check(self.blocks, seed)
        return row, out, back


def by_gpumem(driver, blocks, seed):
    suspender = Suspender(driver, blocks)
    yield suspender.move("gpumem", seed)
    for _ in range(2):
        yield suspender.move("gpumem unchanged", seed)
        seed = driver.write(blocks)
        yield suspender.move("gpumem kept", seed)


def by_registered(driver, blocks, seed):
    suspender = Suspender(driver, blocks)
    suspender.move("", seed)
    top = [os.environ["GPUMEM_TOOL"], "top", "--json", "--count=1", str(os.getpid())]
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    for _ in range(300):
        shown = json.loads(subprocess.run(top, env=environment, capture_output=True, text=True, check=True).stdout)
        if shown["suspended"]["registered_bytes"] >= len(blocks) * PIECE:
            break
        time.sleep(0.1)
    else:
        raise RuntimeError(f"the host's copy is not registered: {shown['suspended']}")
    for _ in range(2):
        yield suspender.move("gpumem registered", driver.write(blocks))


def by_file(driver, blocks, seed):
    suspender = Suspender(driver, blocks)
    for _ in range(2):
        yield suspender.move("gpumem file", driver.write(blocks), os.environ["SUSPEND_TO"].encode())


def by_checkpoint(driver, blocks, seed):
    """The driver suspends the whole process, this one included, by calls with its own id."""
    for row in ("checkpoint", "checkpoint again"):
        child = subprocess.run([sys.executable, __file__, "--checkpoint", str(os.getpid())], capture_output=True, text=True)
        if child.returncode:
            raise RuntimeError(child.stderr.strip() or "the driver has no checkpoint API")
        out, back = map(float, child.stdout.split())
        driver.check(blocks, seed)
        yield row, out, back


def checkpoint(pid):
    cuda = ctypes.CDLL("libcuda.so.1")
    arguments = (ctypes.c_uint64 * 8)()

    def step(name):
        status = getattr(cuda, name)(pid, ctypes.byref(arguments))
        if status:
            raise SystemExit(f"{name}: {status}")

    cuda.cuInit(0)
    step("cuCheckpointProcessLock")
    out = timed(lambda: step("cuCheckpointProcessCheckpoint"))
    back = timed(lambda: step("cuCheckpointProcessRestore"))
    step("cuCheckpointProcessUnlock")
    print(out, back)


def by_pinned(driver, blocks, seed):
    """What a copy needs at least: one pinned buffer for each block, made before."""
    buffers = []
    for _ in blocks:
        buffer = ctypes.c_void_p()
        driver.call("cuMemHostAlloc", ctypes.byref(buffer), ctypes.c_size_t(PIECE), 0)
        buffers.append(buffer)

    def copy(name, pairs):
        for to, source in pairs:
            driver.call(name, to, source, ctypes.c_size_t(PIECE), None)
        driver.call("cuCtxSynchronize")

    for row in ("pinned", "pinned again", "pinned again"):
        out = timed(lambda: copy("cuMemcpyDtoHAsync_v2", zip(buffers, blocks)))
        back = timed(lambda: copy("cuMemcpyHtoDAsync_v2", zip(blocks, buffers)))
        yield row, out, back
    driver.check(blocks, seed)


WAYS = {"gpumem": by_gpumem, "registered": by_registered, "file": by_file, "checkpoint": by_checkpoint, "pinned": by_pinned}


def one(way, size):
    driver = Driver()
    blocks, seed = driver.fill(size)
    print(json.dumps(list(WAYS[way](driver, blocks, seed))))


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--build", type=pathlib.Path, default="build")
    parser.add_argument("--bytes", type=int, default=16, help="GiB")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--to", type=pathlib.Path, default=tempfile.gettempdir())
    parser.add_argument("--out", type=pathlib.Path, default="suspend.json")
    parser.add_argument("--way", choices=WAYS, help=argparse.SUPPRESS)
    parser.add_argument("--checkpoint", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.checkpoint:
        return checkpoint(options.checkpoint)
    if options.way:
        return one(options.way, options.bytes * GIB)
    try:
        Driver()
    except (OSError, RuntimeError):
        print("skipped: no GPU")
        return 77
    times = {}
    for _ in range(options.rounds):
        for way in WAYS:
            environment = dict(os.environ)
            if way in ("gpumem", "registered", "file"):
                environment.update(LD_PRELOAD=str((options.build / "shim" / "libgpumem.so").resolve()), GPUMEM_SUSPEND="on",
                                   GPUMEM_SUSPEND_BACKING="registered" if way == "registered" else "kept", SUSPEND_TO=str(options.to.resolve()),
                                   GPUMEM_TOOL=str((options.build / "tools" / "gpumem").resolve()))  # fmt: skip
            done = subprocess.run([sys.executable, __file__, "--way", way, "--bytes", str(options.bytes)], env=environment,
                                  capture_output=True, text=True)
            if done.returncode:
                print(f"{way}: left out: {done.stderr.strip().splitlines()[-1:]}")
                continue
            for name, out, back in json.loads(done.stdout):
                row = times.setdefault(name, {"out_s": [], "in_s": []})
                row["out_s"].append(out)
                row["in_s"].append(back)
    size = options.bytes * GIB
    for name, row in times.items():
        out, back = statistics.median(row["out_s"]), statistics.median(row["in_s"])
        print(f"{name:20} out {out:7.3f} s {size / out / 1e9:6.1f} GB/s   in {back:7.3f} s {size / back / 1e9:6.1f} GB/s")
    gpu, driver = common.card()
    document = {"commit": common.commit(), "gpu": gpu, "driver": driver, "bytes": size, "rows": times}
    options.out.write_text(json.dumps(document, indent=1) + "\n")
    return 0


NAMES = {"gpumem": "gpumem suspend and resume", "gpumem unchanged": "the same, no contents changed since the one before",
         "gpumem kept": "the same, all contents changed, the host's copy kept", "gpumem registered": "the same, the host's copy registered",
         "gpumem file": "the same, to a file", "checkpoint": "the driver's checkpoint API", "pinned": "copies to pinned memory made before"}


@block("*-suspend.json")
def suspend(run):
    rows = []
    for name, row in run["rows"].items():
        way = NAMES[name.removesuffix(" again")] + (", again" if name.endswith(" again") else "")
        cells = [f"{statistics.median(row[key]):.2f} s ({span(row[key])})" for key in ("out_s", "in_s")]
        rows.append([way, *cells])
    return titled(f"{run.made} ({run.file}); {run['bytes'] / GIB:.0f} GiB of random contents, medians, least and most:", ["", "out", "in"], rows)


if __name__ == "__main__":
    sys.exit(main())
