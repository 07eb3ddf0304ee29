"""Guarded blocks on a card: each error of tests/preload/planted.c under GPUMEM_GUARD=all and under compute-sanitizer, errors in
PyTorch and CuPy, and PyTorch's step without its cache, whose results must be the native ones."""

import argparse
import os
import re
import subprocess
import sys
import time

from place import Failure, Place
from run_guard import CASES, FOUND, check_said, guarded

# What the card does otherwise than the simulated driver: it runs on after an error of another stream, for example.
CARD = {
    "after_free_in_order": FOUND["after_free_in_order"][:2],
}


def seconds(action):
    begin = time.monotonic()
    result = action()
    return result, time.monotonic() - begin


SAID = re.compile(r"========= (Invalid .*|Uninitialized .*|Program hit .*|Malloc/Free error.*|Leaked .*|Host API .*|.*[Rr]ace.*)")


def of_sanitizer(tool, program, case):
    """What each tool of compute-sanitizer says first, for the errors that it may find."""
    for part, further in (("memcheck", ["--leak-check", "full" if case == "leaked" else "no"]), ("initcheck", [])):
        if part == "initcheck" and case != "never_written":
            continue
        done, took = seconds(lambda: subprocess.run([tool, "--tool", part, *further, program, case], capture_output=True, text=True, timeout=120))
        said = SAID.search(done.stdout)
        yield f"; {part}, {took:.1f} s: {said.group(1)[:70] if said else 'nothing'}"


# Of these the address of a freed block is seen in an argument, a structure, a copy and a graph, while that waits to be unmapped.
LATE = ["behind_byte", "after_free", "after_free_in_a_struct", "copy_freed", "graph_freed"]


def planted(place, program, case, tool, before=0):
    patterns = CARD.get(case, FOUND[case])
    label = f"late {case}" if before else f"planted {case}"
    try:
        done, took = seconds(lambda: guarded(place, case, before=before))
        if "reaches all host memory" in done.stdout:
            return label, "skipped", "the device reaches all host memory, so this is no error here"
        check_said(done, patterns, case)
        outcome, message = "ok", f"{took:.1f} s" + ("" if patterns else ", nothing said")
    except Failure as failure:
        outcome, message = "FAILED", str(failure)
    if tool:
        message += "".join(of_sanitizer(tool, program, case))
    return label, outcome, message


# What is said of tests/gpu/guarded_programs.py.
PROGRAMS = {
    "torch_right": [],
    "cupy_behind": ["4 bytes were written right behind the end of a block of 4000 bytes", "allocated by .*guarded_programs.py"],
    "cupy_reused": ["kernel write_at gets a pointer to freed memory: argument 1 points to a block of 4000 bytes that was freed",
                    "allocated by .*guarded_programs.py", "freed by .*guarded_programs.py", "illegal address: "],
    "torch_behind": ["illegal address: ", "kernel +write_at", "argument 1  a block of 4.00 KiB, allocated by .*guarded_programs.py"],
    "torch_freed": ["kernel write_at gets a pointer to freed memory: argument 1 points to a block of 4.00 KiB that was freed",
                    "allocated by .*guarded_programs.py", "freed by .*guarded_programs.py", "illegal address: "],
    # PyTorch's kernels get pointers in a structure, which are named at the fault only.
    "torch_graph": ["illegal address: ", "kernel +of a graph, launched by .*guarded_programs.py",
                    "an argument  a block of 4.00 KiB that was freed, allocated by .*guarded_programs.py", "freed by .*guarded_programs.py"],
    "torch_table": ["illegal address: ", "kernel +follow"],
}


def real_program(options, case):
    command = [sys.executable, str(options.source / "tests" / "gpu" / "guarded_programs.py"), case]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("GPUMEM_")}
    environment.update(PYTORCH_NO_CUDA_MEMORY_CACHING="1", LD_PRELOAD=str(options.shim), GPUMEM_GUARD="all")
    try:
        done, took = seconds(lambda: subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120))
    except subprocess.TimeoutExpired:
        return f"program {case}", "FAILED", "does not end"
    if "No module named" in done.stderr:
        return f"program {case}", "skipped", done.stderr.strip().splitlines()[-1]
    try:
        check_said(done, PROGRAMS[case], case)
    except Failure as failure:
        return f"program {case}", "FAILED", str(failure)
    return f"program {case}", "ok", f"{took:.1f} s, " + (done.stdout.splitlines()[0] if done.stdout else "")


def guarded_blocks(options, build, framework, tool):
    program = build(options, "planted", "driver")
    build(options, "guard_uses", "driver")
    place = Place(argparse.Namespace(programs=program.parent, cuda=options.toolkit / "lib64", shim=options.shim, work=options.work / "run"))
    for case in FOUND:
        yield planted(place, str(program), case, tool)
    for case in LATE:
        yield planted(place, str(program), case, None, before=80)
    for case in ("refused", "sampled", "exported", "blocking", "begin", "aligned", "slack", "rules", "poison"):
        try:
            CASES[case](place)
            yield case, "ok", ""
        except Failure as failure:
            yield case, "FAILED", str(failure)
    for case in PROGRAMS:
        yield real_program(options, case)
    script = str(options.source / "tests" / "gpu" / "torch_step.py")
    for guard in ("all", "1/1000"):
        yield framework(options, f"torch_step uncached, guard {guard}", [sys.executable, script], ["auto", "observe"],
                        PYTORCH_NO_CUDA_MEMORY_CACHING="1", GPUMEM_GUARD=guard)
