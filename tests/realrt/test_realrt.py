#!/usr/bin/env python3
"""NVIDIA's own runtime, and a probe that goes its way, on a driver that refuses: with and without the shim.

usage: test_realrt.py --driver DIR --shim FILE --work DIR probe  --probe FILE
       test_realrt.py --driver DIR --shim FILE --work DIR entry  --cc CC --source FILE
                      (--wheel NAME==VERSION | --toolkit INCLUDE_DIR) --link shared|static
"""

import argparse
import collections
import os
import pathlib
import re
import subprocess
import sys

import fetch_wheels

SKIP = 77
TIME_LIMIT_S = 120
ENOUGH_LOOKUPS = 300
# CUDA 13.0, measured: look-ups by flags, shared and static alike
LOOKUPS_13_0 = {"0": 366, "2": 74}
NOT_SUPPORTED = 801

# What gives and takes memory: a shim that leaves one of these out has a blind spot.
MUST_HOOK = set("""
cuGetProcAddress cuGetProcAddress_v2
cuMemAlloc_v2 cuMemAllocPitch_v2 cuMemFree_v2 cuMemAllocManaged
cuMemAllocAsync cuMemAllocAsync_ptsz cuMemAllocFromPoolAsync cuMemAllocFromPoolAsync_ptsz
cuMemFreeAsync cuMemFreeAsync_ptsz
cuMemHostAlloc cuMemAllocHost_v2 cuMemFreeHost cuMemHostRegister_v2 cuMemHostUnregister
cuArrayCreate_v2 cuArray3DCreate_v2 cuArrayDestroy cuMipmappedArrayCreate cuMipmappedArrayDestroy
cuMemAddressReserve cuMemAddressFree cuMemCreate cuMemRelease cuMemMap cuMemUnmap
""".split())
RESOLVERS = {"cuGetProcAddress", "cuGetProcAddress_v2", "cuGetProcAddress_v2_ptsz"}
LOOKUP_KINDS = {"lookup5", "lookup4", "flag5", "flag4", "odd5", "odd4", "second4", "second5"}


def clean_environment(driver, folder, log, shim=None, **more):
    environment = {
        k: v
        for k, v in os.environ.items()
        if not k.startswith("GPUMEM_") and k not in ("LD_PRELOAD", "STUB_LOG")
    }
    old = environment.get("LD_LIBRARY_PATH")
    environment["LD_LIBRARY_PATH"] = ":".join(str(p) for p in (driver, folder, old) if p)
    environment["STUB_LOG"] = str(log)
    if shim:
        environment["LD_PRELOAD"] = str(shim)
    environment.update(more)
    return environment


def run(command, environment, log):
    log.unlink(missing_ok=True)
    done = subprocess.run(
        [str(part) for part in command], env=environment, capture_output=True, text=True, timeout=TIME_LIMIT_S
    )
    lines = log.read_text().splitlines() if log.exists() else []
    return done, lines


def exported_by(library):
    listing = subprocess.run(
        ["nm", "-D", "--defined-only", str(library)], capture_output=True, text=True, check=True
    )
    names = {line.split()[-1].split("@")[0] for line in listing.stdout.splitlines()}
    return {name for name in names if re.match(r"cu[A-Z]", name)}


def check(condition, message):
    if not condition:
        print(f"FAILED: {message}")
        check.failures += 1


check.failures = 0


# ---- the probe: where each pointer leads


def read_probe(text):
    """(request words) -> (result words, module, symbol) for every line that ends in a module and a symbol."""
    rows = collections.OrderedDict()
    for line in text.splitlines():
        words = line.split()
        rows.setdefault(tuple(words[:-2]), (words[-2], words[-1]))
    return rows


def watched():
    """Functions that are passed on once it was noticed that a per-thread default stream is used."""
    rows = pathlib.Path(__file__).parents[2] / "shim" / "hook" / "observer_rows.h"
    return set(re.findall(r"(?:EXPLICIT|CONFIG|TWIN)\((\w+)", rows.read_text()))


def check_routes(native, shimmed, shim, hooked):
    check(list(native) == list(shimmed), "the same requests are answered with the same results")
    for request in set(native) ^ set(shimmed):
        check(False, f"only with or only without the shim: {' '.join(request)}")
    routed = 0
    for request, (module, symbol) in native.items():
        if request not in shimmed:
            continue
        module_now, symbol_now = shimmed[request]
        if module == "libcuda.so.1" and symbol in hooked:
            routed += 1
            check(
                module_now == shim.name, f"{' '.join(request)}: {symbol} is hooked but leads to {module_now}"
            )
        else:
            check(
                (module_now, symbol_now) == (module, symbol),
                f"{' '.join(request)}: led to {module} {symbol}, with the shim to {module_now} {symbol_now}",
            )
    check(routed > len(MUST_HOOK), f"only {routed} pointers lead into the shim")


def calls_to_check(native, hooked):
    """For each hooked function one look-up of each form that gives it: (probe arguments, symbol)."""
    found = {}
    for request, (module, symbol) in native.items():
        if module != "libcuda.so.1" or symbol not in hooked or symbol in RESOLVERS:
            continue
        if request[0] == "lookup5":
            found.setdefault((symbol, "call"), ["call", request[1], request[2], request[3]])
        elif request[0] == "dlsym":
            found.setdefault((symbol, "dlsym"), ["call-dlsym", symbol])
    return [(arguments, symbol) for (symbol, _), arguments in sorted(found.items())]


def check_true_function(options, environment, log, native, hooked):
    """A call through a hook reaches exactly the true variant that was asked for."""
    family = hooked & MUST_HOOK
    wanted = [(arguments, symbol) for arguments, symbol in calls_to_check(native, hooked) if symbol in family]
    check(len(wanted) >= len(family - RESOLVERS), "every function that gives or takes memory can be called")
    for arguments, symbol in wanted:
        done, lines = run([options.probe] + arguments, environment, log)
        made = [line.split()[1] for line in lines if line.startswith("call ")]
        label = " ".join(arguments)
        check(done.returncode == 0, f"{label}: ended with {done.returncode}: {done.stderr.strip()}")
        check(
            [name for name in made if name in family] == [symbol],
            f"{label}: {symbol} expected, called {made}",
        )
        check(
            f"result {NOT_SUPPORTED} " in done.stdout,
            f"{label}: the refusal comes back: {done.stdout.strip()}",
        )


def test_probe(options):
    log = options.work / "probe.log"
    hooked = exported_by(options.shim)
    check(MUST_HOOK <= hooked, f"not exported by the shim: {sorted(MUST_HOOK - hooked)}")
    plain = clean_environment(options.driver, None, log)
    native, _ = run([options.probe, "lookup"], plain, log)
    check(native.returncode == 0, f"probe without the shim: {native.stderr.strip()}")
    rows = read_probe(native.stdout)
    check(len(rows) > 1000, f"the probe shows only {len(rows)} look-ups")
    for policy in ("observe", "auto"):
        shimmed_environment = clean_environment(options.driver, None, log, options.shim, GPUMEM_POLICY=policy)
        shimmed, _ = run([options.probe, "lookup"], shimmed_environment, log)
        check(shimmed.returncode == 0, f"probe under {policy}: {shimmed.returncode} {shimmed.stderr.strip()}")
        check_routes(rows, read_probe(shimmed.stdout), options.shim, hooked | watched())
    observing = clean_environment(options.driver, None, log, options.shim, GPUMEM_POLICY="observe")
    check_true_function(options, observing, log, rows, hooked)


# ---- NVIDIA's runtime: entered by the same look-ups


def runtime_of(options):
    """(include folder, library file) of the runtime to test, or None where this shape does not exist."""
    pattern = "libcudart_static.a" if options.link == "static" else "libcudart.so.*"
    if options.toolkit:
        include = options.toolkit
        roots = [include.parent / "lib64", include.parent / "lib", include.parent / "targets"]
    else:
        wheel = fetch_wheels.fetch(options.work, options.wheel)
        include = next(wheel.glob("nvidia/*/include"), None)
        roots = [wheel]
    for root in roots:
        for library in sorted(root.rglob(pattern)) if root.is_dir() else []:
            return include, library
    return None


def header_version(include):
    number = int(
        re.search(r"#define\s+CUDART_VERSION\s+(\d+)", (include / "cuda_runtime_api.h").read_text()).group(1)
    )
    return number // 1000, number % 1000 // 10


def build(options, include, library):
    program = options.work / f"entry-{options.link}"
    command = options.cc + [
        str(options.source),
        "-std=gnu11",
        "-I",
        str(include),
        "-o",
        str(program),
        str(library),
        "-lpthread",
        "-ldl",
        "-lrt",
        "-lm",
    ]
    subprocess.run(command, check=True)
    return program


def lookups(lines):
    """The look-ups without the last word, the module that asked."""
    return [line.rsplit(" ", 1)[0] for line in lines if line.startswith("lookup ")]


def askers(lines):
    return {line.rsplit(" ", 1)[1] for line in lines if line.startswith("lookup ")}


def is_subsequence(shorter, longer):
    rest = iter(longer)
    return all(line in rest for line in shorter)


def check_lookup_count(lines, version):
    flags = collections.Counter(line.split()[4] for line in lines)
    check(len(lines) > ENOUGH_LOOKUPS, f"{len(lines)} look-ups are too few for a runtime's start")
    if version == (13, 0):
        check(dict(flags) == LOOKUPS_13_0, f"look-ups by flags {dict(flags)}, known for 13.0: {LOOKUPS_13_0}")


def test_entry(options):
    runtime = runtime_of(options)
    if not runtime:
        print(f"realrt: no {options.link} runtime in {options.wheel or options.toolkit}")
        return SKIP
    include, library = runtime
    program = build(options, include, library)
    log = options.work / "entry.log"
    native, native_log = run([program], clean_environment(options.driver, library.parent, log), log)
    check(native.returncode == 0, f"without the shim: {native.returncode} {native.stderr.strip()}")
    check("cudaMalloc cudaErrorNoDevice\n" in native.stdout, f"a clean error, not:\n{native.stdout}")
    check_lookup_count(lookups(native_log), header_version(include))
    for policy in ("observe", "auto"):
        environment = clean_environment(
            options.driver, library.parent, log, options.shim, GPUMEM_POLICY=policy
        )
        shimmed, log_lines = run([program], environment, log)
        check(
            (shimmed.returncode, shimmed.stdout, shimmed.stderr)
            == (native.returncode, native.stdout, native.stderr),
            f"{policy}: output and exit status {shimmed.returncode} differ:\n"
            f"{shimmed.stdout}{shimmed.stderr}",
        )
        check(
            is_subsequence(lookups(native_log), lookups(log_lines)),
            f"{policy}: the runtime's look-ups reach the driver unchanged and in order",
        )
        # The shim asks the driver about its own rows at the first look-up.
        extra = collections.Counter(lookups(log_lines)) - collections.Counter(lookups(native_log))
        check(extra, f"{policy}: the shim looks up nothing")
        mine = re.compile(r"lookup 5 cu[A-Z]\w* \d+ [012] (\w+|-) \d+$")
        check(
            all(mine.match(line) for line in extra), f"{policy}: look-ups of the shim's own: {sorted(extra)}"
        )
        check(
            askers(log_lines) == {options.shim.name},
            f"{policy}: look-ups come from {askers(log_lines)}, " "not all through the shim",
        )
    return 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--driver", type=pathlib.Path, required=True)
    parser.add_argument("--shim", type=pathlib.Path, required=True)
    parser.add_argument("--work", type=pathlib.Path, required=True)
    parser.add_argument("--probe", type=pathlib.Path)
    parser.add_argument("--cc", type=str.split, default=["cc"])
    parser.add_argument("--source", type=pathlib.Path)
    parser.add_argument("--wheel")
    parser.add_argument("--toolkit", type=pathlib.Path)
    parser.add_argument("--link", choices=("shared", "static"))
    parser.add_argument("test", choices=("probe", "entry"))
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    try:
        status = test_probe(options) if options.test == "probe" else test_entry(options)
    except fetch_wheels.NotToBeHad as reason:
        print(f"realrt: {reason}")
        return SKIP
    return 1 if check.failures else status


if __name__ == "__main__":
    sys.exit(main())
