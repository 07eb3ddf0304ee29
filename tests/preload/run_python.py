#!/usr/bin/env python3
"""Python frames of call sites: what the trace says against what the interpreter says.

usage: run_python.py --programs DIR --cuda DIR --shim FILE --work DIR [--gpumem FILE] CASE
"""
import collections
import ctypes.util
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import sysconfig

from place import SKIP, check, run_case

FRAMES = 48  # GM_PYTHON_FRAMES
MIB = 1 << 20
SCRIPT = pathlib.Path(__file__).with_name("python_frames.py")
SCENARIOS = [
    "functions", "classes", "generators", "exceptions", "coroutines", "threads", "at_once", "foreign", "replaced", "names",
    "deep", "long", "forked", "at_exit",
]  # fmt: skip


def run(place, command, preload=None, **more):
    folder = place.options.work / f"run-{place.runs + 1}"
    settings = {
        "GPUMEM_TRACE": str(folder / "trace-%p.csv"),
        "GPUMEM_TRACE_FLUSH": "0",  # the child of a fork ends by _exit
        "GPUMEM_STACKS": "8",
        "SIMCUDA_MEMORY": "64G",  # the blocks stay live
        "GPUMEM_LOG": "info",
        **more,
    }
    done = place.run(command, preload or (place.options.shim,), **settings)
    check(done.returncode == 0, f"{command}: exit status {done.returncode}\n{done.stdout}{done.stderr}")
    return done


def decoded(text):
    return os.fsdecode(re.sub(rb"\\x(..)", lambda m: bytes([int(m[1], 16)]), os.fsencode(text)))


def traced(folder):
    """Python frames of each allocation by its size, as python_frames.py prints them; and the number of definitions."""
    found, definitions = collections.defaultdict(list), 0
    for trace in folder.glob("*.csv"):
        sites, frames = {}, {}
        for line in os.fsdecode(trace.read_bytes()).split("\n"):
            words = line.split(" ")
            if line.startswith("# python "):
                number, source_line, rest = line[len("# python ") :].split(" ", 2)
                function, file = rest.split("\t")
                frames[int(number)] = [decoded(file), int(source_line), decoded(function)]
                definitions += 1
            elif line.startswith("# site "):
                addresses = [int(word, 16) for word in words[4:] if word]
                sites[words[2]] = [frames[a & 0xFFFFFFFF] for a in addresses if a >> 48 == 0x5059]
            elif line[:1].isdigit():
                field = line.split(",")
                if field[2] == "alloc":
                    found[int(field[5])].append(sites.get(field[15], []))
    return found, definitions


def frames(place):
    for scenario in SCENARIOS:
        done = run(place, [sys.executable, SCRIPT, scenario])
        found, definitions = traced(done.folder)
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        check(lines, f"{scenario}: no allocation")
        for size, *stack in lines:
            stack = stack[:FRAMES]
            check(stack in found[size], f"{scenario}, {size} bytes:\n{found[size]}\ninstead of\n{stack}")
            found[size].remove(stack)
        check(definitions <= sum(len(stack) for _, *stack in lines), f"{scenario}: {definitions} definitions")
        check("Python" not in done.stderr, done.stderr)


def embedded(place):
    library = pathlib.Path(sysconfig.get_config_var("LIBDIR") or "", sysconfig.get_config_var("INSTSONAME") or "none.so")
    if not library.suffix or not library.is_file() or ".a" == library.suffix:
        found = ctypes.util.find_library(f"python3.{sys.version_info[1]}")
        if not found:
            print("skipped: no libpython")
            sys.exit(SKIP)
        library = found
    done = run(place, [place.program("python_embed"), str(library)], PYTHONHOME=f"{sys.base_prefix}:{sys.base_exec_prefix}")
    found, _ = traced(done.folder)

    def stack(name):
        return [["<string>", 2, name], ["<string>", 3, "<module>"]]

    for mib, name in (1, None), (2, "first"), (3, "beside"), (5, "again"), (6, None), (7, None), (8, "anew"):
        wanted = stack(name) if name else []
        check(found[mib * MIB] == [wanted], f"{mib} MiB: {found[mib * MIB]} instead of {wanted}")
    # Before 3.12 a thread has one state for all interpreters, that of the first one.
    check(found[4 * MIB] == [stack("second") if sys.version_info >= (3, 12) else []], f"second interpreter: {found[4 * MIB]}")


def off(place):
    for more in {"GPUMEM_PYTHON": "0"}, {"GPUMEM_STACKS": "0"}:
        found, definitions = traced(run(place, [sys.executable, SCRIPT, "functions"], **more).folder)
        check(found and not definitions, f"{more}: {definitions} definitions")


def absent(place):
    done = run(place, [place.program("two_sites")])
    check(not traced(done.folder)[1] and "Python" not in done.stderr, done.stderr)


def refused(place):
    """Interpreters of unknown versions and with unexpected structs."""
    fake = place.options.programs / "python_fake.so"
    for version, fields, words in (
        ("3.8.1 (main)", "", "its version is not known"),
        ("3.99.0 (main)", "", "its version is not known"),
        ("4.1.0 (main)", "", "its version is not known"),
        ("3.13.0 experimental free-threading build (main)", "", "it has no global interpreter lock"),
        ("3.13.1 (main)", "far", "it does not state its offsets as expected"),
        ("3.14.0 (main)", "", "it does not state its offsets as expected"),
        *((f"3.{minor}.0", fields, "its frames are not as expected") for minor in range(9, 14) for fields in ("", "self")),
    ):
        done = run(place, [place.program("two_sites")], (place.options.shim, fake), FAKE_VERSION=version, FAKE_FIELDS=fields)
        said = [line for line in done.stderr.splitlines() if "Python" in line]
        check(len(said) == 1 and words in said[0], f"{version} {fields}: {said}")
        check(not traced(done.folder)[1], f"{version}: Python frames")


def stated(place):
    """Versions that state the offsets of their structs, by an interpreter that has nothing else; a tag is in the low bits."""
    fake = place.options.programs / "python_fake.so"
    for minor in 13, 14, 15:
        more = {"FAKE_VERSION": f"3.{minor}.0 (main)", "FAKE_FIELDS": "frames"}
        found, _ = traced(run(place, [place.program("two_sites")], (place.options.shim, fake), **more).folder)
        stacks = [stack for every in found.values() for stack in every]
        check(stacks and all(stack == [["/fake/made.py", 9, "made"]] for stack in stacks), f"3.{minor}: {found}")


def interpreters():
    """Other interpreters of this machine, one of each minor version."""
    root = pathlib.Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser()
    known = {sys.version_info[:2]}
    for path in *filter(None, map(shutil.which, (f"python3.{minor}" for minor in range(9, 16)))), *sorted(root.glob("versions/3.*/bin/python3")):
        asked = subprocess.run([path, "-c", "import ctypes, sys; print(*sys.version_info[:2])"], capture_output=True, text=True)
        version = tuple(map(int, asked.stdout.split())) if asked.returncode == 0 else (0, 0)
        if version >= (3, 9) and version not in known:
            known.add(version)
            yield str(path)


def versions(place):
    """The case `frames` under every other interpreter of this machine."""
    tried = 0
    for python in interpreters():
        words = [*sys.argv[1:-1], "frames"]
        words[words.index("--work") + 1] += f"-{tried}"
        done = subprocess.run([python, __file__, *words], capture_output=True, text=True)
        check(done.returncode == 0, f"{python}: {done.stdout[-2000:]}{done.stderr[-1000:]}")
        tried += 1
    if not tried:
        print("skipped: no other interpreter")
        sys.exit(SKIP)


def line_of(text):
    return next(i for i, line in enumerate(SCRIPT.read_text().split("\n"), 1) if text in line)


def explained(place):
    done = run(place, [sys.executable, SCRIPT, "functions", "too_much"], GPUMEM_OOM="fail", GPUMEM_LIMIT="512M")
    for words in (f"requested by  python_frames.py:{line_of('1 << 50')} too_much\n",
                  " in 5 blocks: python_frames.py:", " functions.<locals>.inner"):  # what tells the holders apart
        check(words in done.stderr, f"not {words!r} in\n{done.stderr}")


def use_package(place):
    """The package of the source tree, and the program `gpumem` of the build."""
    return {"PYTHONPATH": str(SCRIPT.parents[2] / "tools" / "python"), "GPUMEM_TRACE": "",
            "PATH": str(pathlib.Path(place.options.gpumem).parent) + ":" + os.environ["PATH"]}


MODULE = """
import ctypes, os, gpumem
runtime, address = ctypes.CDLL("libcudart.so.13"), ctypes.c_void_p()
def malloc(size):
    assert runtime.cudaMalloc(ctypes.byref(address), ctypes.c_size_t(size)) == 0
for name in "first.gmt", "100%.gmt":
    with gpumem.trace(name) as path:
        assert path == os.path.abspath(name)
        gpumem.mark("epoch 3")
        malloc(1 << 20)
    malloc(1 << 21)
try:
    gpumem.trace("first.gmt").__enter__()
except FileExistsError as error:
    print(error)
print(gpumem.peak(), gpumem.__version__)
"""


def module(place):
    """gpumem.trace, mark, peak and __version__ of the Python package."""
    done = run(place, [sys.executable, "-c", MODULE.replace('"first.gmt"', repr(str(place.options.work / "first.gmt"))).replace(
        '"100%.gmt"', repr(str(place.options.work / "100%.gmt")))], **use_package(place))
    lines = done.stdout.splitlines()
    check("first.gmt exists, and a trace replaces no file" in lines[0], done.stdout)
    check(lines[1].split()[0] == str(6 << 20) and re.fullmatch(r"\d+\.\d+\.\d+", lines[1].split()[1]), done.stdout)
    for name, older in ("first.gmt", 0), ("100%.gmt", 3 << 20):
        said = subprocess.run([place.options.gpumem, "report", "--json", "--phases", place.options.work / name], capture_output=True, text=True)
        (trace,) = json.loads(said.stdout)["traces"]
        totals = trace["totals"]
        check((totals["older_bytes"], totals["leaked_bytes"]) == (older, older + (1 << 20)), f"{name}: {totals}")
        check("epoch 3" in said.stdout and trace["process"]["stopped"], f"{name}: {said.stdout}")
    done = subprocess.run([sys.executable, "-c", "import gpumem; gpumem.mark('x'); gpumem.peak()"], capture_output=True, text=True,
                          env={**os.environ, **use_package(place)})
    check("RuntimeError: this process does not run under gpumem; start it by: gpumem run -- python ..." in done.stderr, done.stderr)


def limits(place):
    """The plug-in of pytest: which tests fail, and what it says."""
    python = shutil.which("python3") and next((p for p in (sys.executable, shutil.which("python3")) if subprocess.run(
        [p, "-c", "import pytest"], capture_output=True).returncode == 0), None)
    if not python:
        print("skipped: no pytest here")
        sys.exit(SKIP)
    command = [python, "-m", "pytest", "-q", "-p", "gpumem.pytest_plugin", "-p", "no:cacheprovider", str(SCRIPT.parent / "limited.py")]
    variables = {**use_package(place), "TMPDIR": str(place.options.work)}
    done = place.run(command, (place.options.shim,), **variables)
    check(done.returncode == 1 and "3 failed, 4 passed" in done.stdout, done.stdout + done.stderr)
    failed = set(re.findall(r"^FAILED \S+::(\w+)", done.stdout, re.M))
    check(failed == {"test_peak_exceeded", "test_leak", "test_own_failure"}, done.stdout)
    check("peak of 3145728 bytes of GPU memory, above the limit of 2097152; gpumem report " in done.stdout
          and "leak of 4096 bytes of GPU memory, above the limit of 0; gpumem report " in done.stdout, done.stdout)
    check(f":{next(n for n, text in enumerate((SCRIPT.parent / 'limited.py').read_text().splitlines(), 1) if 'return malloc(3' in text)} "
          "attention < " in done.stdout, done.stdout)
    check(len(list(place.options.work.glob("gpumem-*/*.gmt"))) == 2, "files of tests that failed stay, and no others")
    done = place.run(command, **variables)
    check("1 passed, 6 skipped" in done.stdout, done.stdout)


def tools(place):
    """Every tool shows the line of the script."""
    done = run(place, [sys.executable, SCRIPT, "functions"], GPUMEM_TRACE=str(place.options.work / "run-1/trace"))
    trace, csv = done.folder / "trace", done.folder / "again.csv"
    qualified = "functions.<locals>.inner" if sys.version_info >= (3, 11) else "inner"

    def gpumem(*words):
        got = subprocess.run([place.options.gpumem, *words], capture_output=True, text=True)
        check(got.returncode == 0, f"{words}: {got.stderr}")
        return got.stdout

    where, callers = f"python_frames.py:{line_of('c_size_t(note(')} allocate", f":{line_of('return inner(depth - 1)')} {qualified}"
    report = gpumem("report", str(trace))
    check(where not in report and callers in report and "the callers of allocate (python_frames.py);" in report, report)
    report = gpumem("report", "--skip=none", str(trace))
    check(where in report and "libffi" not in report, report)
    leaks = gpumem("report", "--leaks", "--stacks", str(trace))
    check(f"{qualified}\n" in leaks and "_PyEval" not in leaks, leaks)
    check(callers in gpumem("report", "--json", str(trace)), "report --json")
    check(f";{qualified};allocate " in gpumem("export", "--to=collapsed", "-o", "-", str(trace)), "collapsed")
    gpumem("export", "--to=perfetto", "-o", str(csv) + ".pftrace", str(trace))
    check(callers.encode() in pathlib.Path(str(csv) + ".pftrace").read_bytes(), "perfetto")
    check(f" {SCRIPT}\n" in gpumem("export", "--to=heaptrack", "-o", "-", str(trace)), "heaptrack")
    gpumem("export", "--to=csv", "-o", str(csv), str(trace))
    check(gpumem("report", "--skip=none", str(csv)).split("\n")[1:] == report.split("\n")[1:], "a trace as CSV has another report")


if __name__ == "__main__":
    sys.exit(
        run_case(
            {
                "frames": frames,
                "embedded": embedded,
                "off": off,
                "absent": absent,
                "refused": refused,
                "stated": stated,
                "versions": versions,
                "explained": explained,
                "tools": tools,
                "module": module,
                "limits": limits,
            },
            "--gpumem",
        )
    )
