#!/usr/bin/env python3
"""Builds the preloaded library for aarch64 and runs small programs under it in an emulator: entries, tail jumps and call sites in
that processor's own instructions.

usage: run_aarch64.py SOURCE CUDA-INCLUDE UTHASH XXHASH SIM-GENERATED WORK

UTHASH, XXHASH: paths of uthash.h and xxhash.h; SIM-GENERATED: folder of the simulated driver's generated sources. Ends with 77 without
aarch64-linux-gnu-gcc and qemu-aarch64.
"""

import csv
import os
import pathlib
import shutil
import subprocess
import sys

SKIP = 77
COMPILER, EMULATOR, SYSROOT = "aarch64-linux-gnu-gcc", "qemu-aarch64", "/usr/aarch64-linux-gnu"
TIME_LIMIT_S = 60


def check(condition, message):
    if not condition:
        raise AssertionError(message)


class Build:
    def __init__(self, source, cuda, libraries, generated, work):
        self.source, self.work, self.generated = pathlib.Path(source), pathlib.Path(work), pathlib.Path(generated)
        shutil.rmtree(self.work, ignore_errors=True)
        headers = self.work / "include"
        headers.mkdir(parents=True)
        for header in libraries:
            (headers / pathlib.Path(header).name).symlink_to(pathlib.Path(header).resolve())
        self.flags = ["-std=gnu11", "-D_GNU_SOURCE", "-g", "-O2", "-fPIC", f"-I{source}", f"-I{headers}", f"-isystem{cuda}"]

    def compile(self, output, sources, *flags):
        path = self.work / output
        command = [COMPILER, *self.flags, "-o", str(path), *map(str, sources), *flags]
        done = subprocess.run(command, capture_output=True, text=True)
        check(done.returncode == 0, f"{output}: {done.stderr[-3000:]}")
        return path

    def shim(self):
        folders = ["policy", "policy/eviction", *sorted(f"shim/{path.name}" for path in (self.source / "shim").iterdir() if path.is_dir())]
        sources = [
            path for folder in folders for path in sorted((self.source / folder).iterdir())
            if path.suffix in (".c", ".S") and path.name != "audit.c"
        ]  # fmt: skip
        return self.compile(
            "libgpumem.so", sources, "-shared", "-fvisibility=hidden", "-fno-semantic-interposition", "-DGM_HAVE_CUDA=1",
            "-DGM_SHIM=1", '-DGM_VERSION="test"', f"-Wl,--version-script={self.source}/shim/hook/gpumem.map", "-Wl,-z,now,-z,nodelete",
        )  # fmt: skip

    def driver(self, output="libcuda.so.1", *further):
        sim = self.source / "tools/sim"
        generated = [self.generated / name for name in ("sim_exports.c", "sim_errors.c")]
        return self.compile(
            output, [*sorted(sim.glob("model/*.c")), *sorted(sim.glob("driver/*.c")), *generated, *further], "-shared", "-fvisibility=hidden", f"-I{sim}",
            f"-I{sim}/model", f"-I{self.generated}", "-D__CUDA_API_VERSION_INTERNAL", "-fexceptions", "-Wl,-soname,libcuda.so.1", "-Wl,-Bsymbolic",
            "-pthread",
        )  # fmt: skip

    def program(self, name, *flags):
        source = self.source / "tests/preload" / f"{name}.c"
        flags = ["-fPIE", "-pie", f"-I{self.source}/tools/sim", f"-I{self.source}/tests/preload", *flags]
        return self.compile(source.stem, [source], *flags, "-ldl", "-pthread")


class Runs:
    def __init__(self, work):
        self.work, self.count = work, 0

    def run(self, program, *preload, arguments=(), **settings):
        self.count += 1
        folder = self.work / f"run-{self.count}"
        folder.mkdir()
        settings = {"LD_LIBRARY_PATH": self.work, "OTHER_LOG": folder / "other.log", "GPUMEM_TRACE": folder / "trace.csv", **settings}
        if preload:
            settings["LD_PRELOAD"] = ":".join(map(str, preload))
        given = [word for name, value in settings.items() for word in ("-E", f"{name}={value}")]
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("LD_", "GPUMEM_", "SIMCUDA_"))}
        done = subprocess.run(
            [EMULATOR, "-L", SYSROOT, *given, str(program), *arguments], env=environment, capture_output=True, text=True, timeout=TIME_LIMIT_S
        )
        check(done.returncode == 0 and "\nok " in "\n" + done.stdout, f"{program.name} {settings}: {done.returncode}\n{done.stdout}{done.stderr}")
        trace = folder / "trace.csv"
        rows = []
        if trace.exists():
            with trace.open(newline="") as file:
                rows = list(csv.DictReader(line for line in file if not line.startswith("#")))
        other = folder / "other.log"
        return done.stdout, rows, int(other.read_text().split()[0]) if other.exists() else None


def compare(runs, program, preloads, **settings):
    """Same output as without the shim; each preload order. Returns the traces."""
    plain, _, _ = runs.run(program)
    traces = []
    for preload in preloads:
        output, rows, _ = runs.run(program, *preload, **settings)
        check(output == plain, f"{program.name} with {[path.name for path in preload]}:\n{output}instead of\n{plain}")
        traces.append(rows)
    return traces


def check_life(rows, name):
    live = set()
    for row in sorted(rows, key=lambda row: int(row["seq"])):
        if row["action"] == "alloc":
            check(row["address"] not in live, f"{name}: lives already: {row}")
            live.add(row["address"])
        elif row["action"] == "free":
            check(row["address"] in live, f"{name}: not live: {row}")
            live.remove(row["address"])
    check(not live, f"{name}: left: {live}")


def main():
    source, cuda, *libraries, generated, work = sys.argv[1:]
    if not (shutil.which(COMPILER) and shutil.which(EMULATOR) and pathlib.Path(SYSROOT).is_dir()):
        print(f"no {COMPILER} or no {EMULATOR}")
        return SKIP
    build = Build(source, cuda, libraries, generated, work)
    shim, driver = build.shim(), build.driver()
    other = build.compile("libother.so", [build.source / "tests/preload/other_interposer.c"], "-O0", "-shared")
    runs = Runs(build.work)
    both = [(shim,), (shim, other), (other, shim)]

    # Names that are not the driver's, RTLD_NEXT from the program and from a second interposer: the caller's own answer.
    compare(runs, build.program("next_symbol", "-O0", "-fno-builtin", "-rdynamic"), both)
    for name, flags in {"driver_dlopened": ["-O0"], "driver_linked": [str(driver)]}.items():
        program = build.program(name, *flags)
        for policy in ("observe", "async", "managed"):
            for rows in compare(runs, program, both, GPUMEM_POLICY=policy):
                check(len(rows) > 2 or name == "driver_dlopened", f"{name}: the shim saw nothing")
                check_life(rows, f"{name} under {policy}")
            first = runs.run(program, shim, GPUMEM_POLICY=policy)[1]
            check(first, f"{name} under {policy}: alone, the shim saw nothing")
            check(all(int(row["site"] or 0) for row in first if row["action"] == "alloc"), f"{name}: no call sites: {first[:2]}")

    # Calls that are made again after a trim: launches, and functions with more arguments than registers; unwinding through them.
    starved = build.program("starved", str(driver))
    runs.run(starved, shim, arguments=["kept"], GPUMEM_POLICY="cache", GPUMEM_FENCE_BATCH="1")
    (build.work / "rows").mkdir()
    build.driver("rows/libcuda.so.1", build.source / "tests/preload/every_row/driver_rows.c")
    every_row = build.program("every_row/every_row", "-fexceptions", "-rdynamic")
    runs.run(every_row, arguments=["once"], LD_LIBRARY_PATH=build.work / "rows")
    runs.run(every_row, shim, arguments=["again"], LD_LIBRARY_PATH=build.work / "rows", GPUMEM_POLICY="cache")
    print("built and run")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except AssertionError as failure:
        print(f"FAILED: {failure}")
        sys.exit(1)
