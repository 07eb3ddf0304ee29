"""Guarded blocks on a card: each error of tests/preload/planted.c under GPUMEM_GUARD=all and under compute-sanitizer, and
PyTorch's step without its cache, whose results must be the native ones."""

import argparse
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


def of_sanitizer(tool, program, case):
    """What compute-sanitizer's memcheck says first; "" = nothing."""
    done = subprocess.run([tool, "--tool", "memcheck", "--leak-check", "no", program, case], capture_output=True, text=True, timeout=120)
    said = re.search(r"========= (Invalid .*|Program hit .*|Malloc/Free error.*|Leaked .*)", done.stdout)
    return said.group(1)[:70] if said else ""


def planted(place, program, case, tool):
    patterns = CARD.get(case, FOUND[case])
    try:
        done, took = seconds(lambda: guarded(place, case))
        check_said(done, patterns, case)
        outcome, message = "ok", f"{took:.1f} s" + ("" if patterns else ", nothing said")
    except Failure as failure:
        outcome, message = "FAILED", str(failure)
    if tool:
        said, took = seconds(lambda: of_sanitizer(tool, program, case))
        message += f"; memcheck, {took:.1f} s: {said or 'nothing'}"
    return f"planted {case}", outcome, message


def guarded_blocks(options, build, framework, tool):
    program = build(options, "planted", "driver")
    place = Place(argparse.Namespace(programs=program.parent, cuda=options.toolkit / "lib64", shim=options.shim, work=options.work / "run"))
    for case in FOUND:
        yield planted(place, str(program), case, tool)
    for case in ("blocking", "begin", "rules"):
        try:
            CASES[case](place)
            yield case, "ok", ""
        except Failure as failure:
            yield case, "FAILED", str(failure)
    script = str(options.source / "tests" / "gpu" / "torch_step.py")
    for guard in ("all", "1/1000"):
        yield framework(options, f"torch_step uncached, guard {guard}", [sys.executable, script], ["auto", "observe"],
                        PYTORCH_NO_CUDA_MEMORY_CACHING="1", GPUMEM_GUARD=guard)
