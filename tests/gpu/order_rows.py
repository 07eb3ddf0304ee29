"""Programs that lean on what cudaFree waits for, in ways that no list of calls foresees (programs/order_*.cu): natively and under
each GPUMEM_FREE that promises the native result. Of gpu_suite.py."""

import concurrent.futures
import os
import subprocess
import time

MODES = {"natively": None, "safe": {"GPUMEM_FREE": "safe"}, "wait": {"GPUMEM_FREE": "wait"}, "default": {}}
BY_DEFAULT = ("pdl", "handover", "released_meanwhile", "linked_launch", "event_query", "no_access", "event_ipc", "printing", "exit_spinning",
              "fault_free")  # rows for the mode that has no GPUMEM_FREE: it is one of the others
SKIP, WRONG = 77, 9
LIMIT_S = 90
AT_ONCE = 10
LATER_S = 2.5  # than natively: what the end of a process may take on a card that others use, too
DRIVER = "libcuda.so"  # stands for the library of options.driver
# program: its sources, further arguments for nvcc
SOURCES = ["order_rows.cu", "order_device.cu", "order_host.cu", "order_contexts.cu"]
PRINTING = ["order_rows.cu", "order_printing.cu"]
PROGRAMS = {
    "order_rows": (SOURCES, ["-Xcompiler", "-rdynamic"]),
    "order_linked": ([*SOURCES, "order_plugin.c"], ["-Xcompiler", "-rdynamic", DRIVER]),
    "order_plugin.so": (["order_plugin.c"], ["-shared", "-Xcompiler", "-fPIC", DRIVER]),
    "order_printing": (PRINTING, ["-DORDER_PRINTING"]),
    "order_printing_compressed": (PRINTING, ["-DORDER_PRINTING", "-Xfatbin", "-compress-all"]),
    "order_printing_small": (PRINTING, ["-DORDER_PRINTING", "--compress-mode=size"]),
    "order_variable_compressed": (["../../preload/ordering_variable.cu"], ["-Xfatbin", "-compress-all"]),
    "order_variable_small": (["../../preload/ordering_variable.cu"], ["--compress-mode=size"]),
}
LINKED = ("linked_launch", "linked_query")  # cases for which the program itself is linked with the driver, too
NO_ROW = ("event_ipc_child",)  # another one's other process


def build(options, name):
    """Path of a program; the compiler's complaint where it knows no such way to build it."""
    sources, further = PROGRAMS[name]
    target = options.work / name
    folder = options.source / "tests/gpu/programs"
    done = subprocess.run([str(options.toolkit / "bin/nvcc"), "-std=c++17", "-arch=native", "-O1", "-I", str(options.source / "tests/preload"),
                           "-o", str(target), *(str(folder / source) for source in sources),
                           *(str(options.driver) if word == DRIVER else word for word in further), "-ldl"], capture_output=True, text=True)
    return (target, "") if done.returncode == 0 else (None, done.stderr.strip()[-300:])


def run(options, command, settings):
    """settings: None for natively. Returns (exit status, output, stderr, seconds)."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("GPUMEM_", "LD_PRELOAD"))}
    environment["ORDER_PLUGIN"] = str(options.work / "order_plugin.so")
    if settings is not None:
        environment.update(LD_PRELOAD=str(options.shim), GPUMEM_POLICY="auto", **settings)
    begin = time.monotonic()
    try:
        done = subprocess.run([str(word) for word in command], env=environment, capture_output=True, text=True, timeout=LIMIT_S)
        return done.returncode, done.stdout, done.stderr.strip()[-300:], time.monotonic() - begin
    except subprocess.TimeoutExpired:
        return 124, "", f"does not end within {LIMIT_S} s", time.monotonic() - begin


def judged(name, outcomes):
    """Results of a row: outcomes of its runs by mode."""
    status, output, stderr, seconds = outcomes["natively"]
    if status == SKIP:
        return [(name, "skipped", stderr)]
    if status != 0:
        return [(name, "skipped", f"not so natively: {status} {output.strip()} {stderr}")]
    results = []
    for mode, (other_status, other_output, other_stderr, other_seconds) in outcomes.items():
        good = (other_status, other_output) == (status, output)
        message = f"{other_seconds:.1f} s" if good else f"{other_status} {other_output.strip()} {other_stderr}"
        if good and name.startswith("exit_") and other_seconds > seconds + LATER_S:
            good, message = False, f"ends after {other_seconds:.1f} s, natively {seconds:.1f}"
        results.append((f"{name} {mode}", "ok" if good else "FAILED", message))
    return results


def order_rows(options):
    words = os.environ.get("ORDER_ROWS", "").split(",")
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        paths = dict(zip(PROGRAMS, pool.map(lambda name: build(options, name), PROGRAMS)))
    for name, (path, complaint) in paths.items():
        if not path:
            yield name, "FAILED" if name in ("order_rows", "order_linked", "order_plugin.so") else "skipped", complaint
    if not paths["order_rows"][0]:
        return
    listed = subprocess.run([str(paths["order_rows"][0]), "--list"], stdout=subprocess.PIPE, text=True, check=True).stdout.split()
    rows = [(name.removeprefix("order_"), name, ["managed_variable"] if "variable" in name else [])
            for name in PROGRAMS if name.startswith(("order_printing", "order_variable"))]
    rows += [(case, "order_rows", [case]) for case in listed if case not in NO_ROW]
    rows += [(f"{case} by the program", "order_linked", [case]) for case in LINKED]
    rows = [row for row in rows if paths[row[1]][0] and any(word in row[0] for word in words)]

    def runs_of(some, at_once):
        with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
            runs = {name: {mode: pool.submit(run, options, [paths[program][0], *arguments], settings) for mode, settings in MODES.items()
                           if mode != "default" or name in BY_DEFAULT} for name, program, arguments in some}
            for name, outcomes in runs.items():
                yield from judged(name, {mode: future.result() for mode, future in outcomes.items()})

    # Kernels of 12 s, all at the same time; then what counts on the card for itself.
    long = [row for row in rows if row[0].endswith("_long")]
    yield from runs_of(long, max(1, len(long) * len(MODES)))
    yield from runs_of([row for row in rows if row not in long], AT_ONCE)
