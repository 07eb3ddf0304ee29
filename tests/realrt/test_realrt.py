#!/usr/bin/env python3
"""NVIDIA's own runtime, and a probe that goes its way, on a driver that refuses: with and without the shim.

usage: test_realrt.py --driver DIR --shim FILE --table CALLS_H --work DIR --probe FILE probe
       test_realrt.py --driver DIR --shim FILE --table CALLS_H --work DIR --probe FILE --cc CC --source FILE
                      (--wheel NAME==VERSION | --toolkit INCLUDE_DIR) --link shared|static entry

Every function of the driver leads into the shim, and every call through an entry that jumps on reaches the driver's
function with all its arguments. The runtime's own look-ups are made once more by the probe, which sees where they lead.
"""

import argparse
import collections
import os
import pathlib
import re
import subprocess
import sys

import fetch_wheels

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "unit" / "driver"))
import check_calls  # noqa: E402

SKIP = 77
TIME_LIMIT_S = 120
ENOUGH_LOOKUPS = 300
# CUDA 13.0, measured: look-ups by flags, shared and static alike
LOOKUPS_13_0 = {"0": 366, "2": 74}
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
# The headers of the toolkit have these; the table has not. So they enter as functions without a row.
WITHOUT_ROW = {"cuGetProcAddress_v2_ptsz", "cuWGLGetDevice"}
# Hooks that the probe's arguments do not suit: look-ups, arrays of as many elements as an address is large, and a free that
# needs a context.
NOT_CALLED = {"cuGetProcAddress", "cuGetProcAddress_v2", "cuMemSetAccess", "cuLibraryLoadData", "cuMemFree_v2"}
# Hooked functions that other hooks call as well.
ASKED_BY_HOOKS = {"cuMemGetAddressRange_v2"}
# Their entries continue at C functions, which pass on the arguments that these calls have: one.
QUERIES = {"cuStreamQuery", "cuStreamQuery_ptsz", "cuEventQuery"}
CHECKS_ORDER = {"GPUMEM_CHECK_ORDER": "1"}


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


def check_routes(native, shimmed, shim, rows):
    """What was the driver's is the shim's: exactly its own entry, which is the same for all look-ups."""
    check(list(native) == list(shimmed), "the same requests are answered with the same results")
    for request in set(native) ^ set(shimmed):
        check(False, f"only with or only without the shim: {' '.join(request)}")
    for request, (module, symbol) in native.items():
        if request not in shimmed:
            continue
        if module != "libcuda.so.1":
            expected = (module, symbol)
        elif symbol in rows:
            expected = (shim.name, symbol)
        else:
            check(symbol in WITHOUT_ROW, f"{' '.join(request)}: {symbol} has no row")
            expected = (shim.name, "-")
        check(
            shimmed[request] == expected,
            f"{' '.join(request)}: led to {module} {symbol}, with the shim to {' '.join(shimmed[request])}",
        )


def ways_of(native, symbols):
    """For each function one look-up of each form that gives it: (line for the probe, symbol)."""
    found = {}
    for request, (module, symbol) in native.items():
        if module != "libcuda.so.1" or symbol not in symbols:
            continue
        if request[0] == "lookup5":
            found.setdefault((symbol, "resolver"), " ".join(request[1:4]))
        elif request[0] == "dlsym":
            found.setdefault((symbol, "dlsym"), symbol)
    return [(line, symbol) for (symbol, _), line in sorted(found.items())]


def call_each(options, ways, **more):
    """For each look-up and call: the passed arguments, the result, and the driver's calls as (symbol, arguments)."""
    listed, log = options.work / "calls.txt", options.work / "calls.log"
    listed.write_text("".join(f"{line}\n" for line, _ in ways))
    environment = clean_environment(options.driver, None, log, STUB_ARGUMENTS="1", **more)
    done, lines = run([options.probe, "calls", listed], environment, log)
    made = []
    for line in lines:
        words = line.split()
        if words[0] == "line":
            made.append([])
        elif made and words[0] in ("call", "table"):
            made[-1].append((words[1], words[2:]) if words[0] == "call" else ("cuGetExportTable", []))
    outputs = [line.partition(" result ") for line in done.stdout.splitlines()]
    check(
        (done.returncode, len(made), len(outputs)) == (0, len(ways), len(ways)),
        f"{more}: {len(outputs)} of {len(ways)} calls came back, then {done.returncode}: {done.stderr.strip()}",
    )
    return [(passed.split(), result.partition(" ")[0], calls) for (passed, _, result), calls in zip(outputs, made)]


def check_jumps(options, native, jumps):
    """A call through an entry that jumps on reaches exactly the variant that was looked up, with all its arguments."""
    ways = ways_of(native, jumps)
    check(jumps <= {symbol for _, symbol in ways}, f"not found: {sorted(jumps - {symbol for _, symbol in ways})}")
    shim = {"shim": options.shim, "GPUMEM_POLICY": "observe"}
    plain = call_each(options, ways)
    for settings in (shim, {**shim, **CHECKS_ORDER}):
        for (line, symbol), (_, result, calls), seen in zip(ways, plain, call_each(options, ways, **settings)):
            passed, result_now, calls_now = seen
            checks = "GPUMEM_CHECK_ORDER" in settings  # then gpumem's own queries come first
            names, names_now = [name for name, _ in calls], [name for name, _ in calls_now[-1:] if checks]
            names_now = names_now if checks else [name for name, _ in calls_now]
            check(names == names_now == [symbol], f"{line} {settings}: {symbol} expected, called {names_now}")
            check(result == result_now, f"{line} {settings}: returns {result_now}, natively {result}")
            arguments = calls_now[-1][1] if calls_now else []
            if symbol in QUERIES:
                arguments, passed = arguments[:1], passed[:1]
            check(
                arguments == (passed if calls and calls[0][1] else []),
                f"{line} {settings}: {symbol} got {arguments}, not {passed}",
            )


def check_hooks(options, native, hooks):
    """A call through a hook reaches exactly the true variant that was asked for, and returns what that returns."""
    ways = ways_of(native, hooks - NOT_CALLED)
    check(len(ways) >= len(hooks - NOT_CALLED), "every hooked function can be called")
    plain = call_each(options, ways)
    shimmed = call_each(options, ways, shim=options.shim, GPUMEM_POLICY="observe")
    for (line, symbol), (_, result, _), (_, result_now, calls) in zip(ways, plain, shimmed):
        made = [name for name, _ in calls if name in hooks - ASKED_BY_HOOKS or name == symbol]
        check(made == [symbol], f"{line}: {symbol} expected, called {[name for name, _ in calls]}")
        check(result == result_now, f"{line}: returns {result_now}, natively {result}")


def not_audited(shim, symbols):
    """Symbols for which libgpumem-audit.so would get no entry. Loads the shim into a process of its own."""
    program = """import ctypes, sys
entry = ctypes.CDLL(sys.argv[1]).gpumem_audit_entry
entry.restype = ctypes.c_void_p
print(*[symbol for symbol in sys.stdin.read().split() if not entry(symbol.encode())])"""
    command = [sys.executable, "-c", program, str(shim)]
    done = subprocess.run(command, input=" ".join(symbols), capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def table_of(options):
    return {row.symbol: row for row in check_calls.read_table(options.table.read_text())}


def test_probe(options):
    log, rows = options.work / "probe.log", table_of(options)
    exported, hooks = check_calls.exported_by(options.shim), {row.symbol for row in rows.values() if row.how == "HOOK"}
    check(exported == set(rows), f"exported by the shim, or in the table, but not both: {sorted(exported ^ set(rows))}")
    check(MUST_HOOK <= hooks, f"not hooked by the shim: {sorted(MUST_HOOK - hooks)}")
    missing = not_audited(options.shim, {*rows, "cuNoSuchFunction"})
    check(missing == {"cuNoSuchFunction"}, f"without an entry for the audit library: {sorted(missing)}")
    plain = clean_environment(options.driver, None, log)
    done, _ = run([options.probe, "lookup"], plain, log)
    check(done.returncode == 0, f"probe without the shim: {done.stderr.strip()}")
    native = read_probe(done.stdout)
    found = {symbol for module, symbol in native.values() if module == "libcuda.so.1"}
    check(found == set(rows) | WITHOUT_ROW, f"looked up, or in the table, but not both: {found ^ set(rows)}")
    for policy in ("observe", "auto"):
        shimmed_environment = clean_environment(options.driver, None, log, options.shim, GPUMEM_POLICY=policy)
        shimmed, _ = run([options.probe, "lookup"], shimmed_environment, log)
        check(shimmed.returncode == 0, f"probe under {policy}: {shimmed.returncode} {shimmed.stderr.strip()}")
        check_routes(native, read_probe(shimmed.stdout), options.shim, rows)
    check_jumps(options, native, set(rows) - hooks | {"cuWGLGetDevice"})
    check_hooks(options, native, hooks)


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


def check_first_variants(lines):
    """By these look-ups gpumem must not take a program for one whose streams write values: every runtime makes them."""
    writes = [line for line in lines if re.match(r"cuStream(WriteValue|BatchMemOp)", line.split()[2])]
    check(all(line.split()[0] == "lookup" and int(line.split()[3]) < 11070 for line in writes), f"{writes}")


def check_requests(options, lines):
    """What the runtime has looked up leads into the shim."""
    log, listed, rows = options.work / "requests.log", options.work / "requests.txt", table_of(options)
    unique = dict.fromkeys(tuple(line.split()[1:5]) for line in lines)
    listed.write_text("".join(" ".join(request) + "\n" for request in unique))
    probed = [options.probe, "requests", listed]
    native, _ = run(probed, clean_environment(options.driver, None, log), log)
    shimmed, _ = run(probed, clean_environment(options.driver, None, log, options.shim), log)
    check((native.returncode, shimmed.returncode) == (0, 0), f"probe: {native.stderr}{shimmed.stderr}")
    found = read_probe(native.stdout)
    check(len(found) == len(unique), f"{len(found)} of the runtime's {len(unique)} look-ups are made again")
    check_routes(found, read_probe(shimmed.stdout), options.shim, rows)


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
    check_first_variants(lookups(native_log))
    check_requests(options, lookups(native_log))
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
    parser.add_argument("--table", type=pathlib.Path, required=True)
    parser.add_argument("--work", type=pathlib.Path, required=True)
    parser.add_argument("--probe", type=pathlib.Path, required=True)
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
