"""The part `doors` of gpu_suite.py: PyTorch, CuPy and Numba with gpumem plugged in; resources in C++, CCCL and Thrust."""

import concurrent.futures
import os
import subprocess
import sys

AT_ONCE = 4
POLICIES = (None, "auto")  # alone, and with the library preloaded
# program of examples/python: arguments that it is tried with
PROGRAMS = {
    "torch_allocator.py": (["plugged"], ["plugged", "limit(2GiB,cache(async))"], ["plugged", "native"], ["pool"], ["pool", "native"]),
    "torch_layers.py": (["--layers", "6", "--budget", "4", "--size", "512", "--batch", "64", "--passes", "3"],),
    "cupy_allocator.py": ([], ["cache(native)"]),
    "numba_memory_manager.py": ([], ["cache(native)"]),
}


def plugged(options, execute, name, arguments, policy, losses):
    """A program in memory of gpumem. PyTorch's losses must be `losses`, those of its own allocator."""
    label = " ".join([name, *arguments, policy or "alone"])
    done, events = execute(options, [sys.executable, str(options.source / "examples" / "python" / name), *arguments], policy,
                           DOORS_CASE=label)  # names the trace
    if "No module named" in done.stderr:
        return label, "skipped", done.stderr.strip().splitlines()[-1]
    right = done.stdout == losses if name == "torch_allocator.py" else done.stdout.endswith(" 0 wrong\n")
    good = done.returncode == 0 and "ok " in done.stdout and right
    if policy and good and not any(event["action"] == "alloc" for event in events):
        good, done.stderr = False, "its memory is not in the trace"
    return label, "ok" if good else "FAILED", "" if good else f"{done.returncode} {done.stdout[-500:]} {done.stderr[-800:]}"


def in_cpp(options, execute, name):
    """A program of tests/contract/cpp as CUDA C++: Thrust runs on the device then."""
    target = options.work / name
    built = subprocess.run([str(options.toolkit / "bin" / "nvcc"), "-x", "cu", "-std=c++17", "-arch=native", "-O1", "-I",
                            str(options.source / "shim"), "-o", str(target), str(options.source / f"tests/contract/cpp/{name}.cpp"),
                            "-Xlinker", str(options.core)], capture_output=True, text=True)
    if built.returncode:
        return name, "FAILED", built.stderr[-800:]
    for policy in POLICIES:
        done, _ = execute(options, [str(target)], policy)
        if (done.returncode, done.stdout) != (0, f"ok {name}\n"):
            return name, "FAILED", f"{policy or 'alone'}: {done.returncode} {done.stdout[-800:]} {done.stderr[-500:]}"
    return name, "ok", ""


def doors(options, execute):
    """Results of the part: (name, outcome, message). `execute` runs a program natively or under a policy."""
    # Python finds the package and the library as in an installation.
    os.environ["PYTHONPATH"] = str(options.source / "tools" / "python")
    os.environ["LD_LIBRARY_PATH"] = ":".join(filter(None, [str(options.core.parent), os.environ.get("LD_LIBRARY_PATH")]))
    tried, _ = execute(options, [sys.executable, "-c", "from numba.cuda import cudaimpl"])  # what Numba compiles every kernel with
    missing = tried.stderr.strip().splitlines()[-1] if tried.returncode else None
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        programs = [pool.submit(in_cpp, options, execute, name) for name in ("resources", "residency", "cccl")]
        own, _ = execute(options, [sys.executable, str(options.source / "examples" / "python" / "torch_allocator.py"), "own"])
        programs += [pool.submit(plugged, options, execute, name, arguments, policy, own.stdout)
                     for name, tries in PROGRAMS.items() if not (missing and name.startswith("numba"))
                     for arguments in tries for policy in POLICIES]
        skipped = [("numba_memory_manager.py", "skipped", f"Numba does not run here: {missing}")] if missing else []
        return [*(program.result() for program in programs), *skipped]
